"""The click log, the joins that it runs through, and the tables of their pages."""

import re

import numpy as np
import pytest

from benchmarks import click_log, pending
from benchmarks.click_log import ENTRIES, HORIZON, HOUR, HOURS, Joined, Log, Sums
from benchmarks.long_streams import PAGE
from streamcal import OnlinePlatt
from streamcal.live import LabelJoin


def test_the_log_is_drawn_again_block_by_block():
    """A block depends on the seed and its number alone; all blocks have the rows of the log, in the order of time."""
    log = Log(50_000)
    blocks = list(log)
    assert sum(len(block.t) for block in blocks) == 50_000
    assert all(np.array_equal(*pair) for pair in zip(Log(50_000).block(100), blocks[100], strict=True))
    assert not np.array_equal(Log(50_000, seed=1).block(100).score, blocks[100].score)
    t = np.concatenate([block.t for block in blocks])
    assert (np.diff(t) >= 0.0).all()
    assert 0.0 <= t[0] < t[-1] < HOUR * HOURS
    assert all((HOUR * hour <= block.t).all() for hour, block in enumerate(blocks))


def test_clicks_have_their_probabilities_and_delays():
    blocks = list(Log(400_000))
    truth, click, delay = (
        np.concatenate([getattr(one, name) for one in blocks]) for name in ("truth", "click", "delay")
    )
    assert 0.002 < truth.mean() < 0.008
    assert abs(click.sum() - truth.sum()) < 4.0 * np.sqrt(truth.sum())
    assert np.array_equal(np.isfinite(delay), click)
    share = click_log.known(HORIZON)
    assert abs((delay[click] <= HORIZON).mean() - share) < 4.0 * np.sqrt(share * (1.0 - share) / click.sum())


def test_rates_follow_days_and_hours_of_campaigns():
    """Without the user, what is left of the log-odds differs by campaign, and moves for each by hour and by day."""
    log = Log(2_000_000)

    def offsets(hour):
        block = log.block(hour)
        user = np.log(block.score / (1.0 - block.score)) / click_log.SLOPE
        rest = np.log(block.truth / (1.0 - block.truth)) - user
        return np.array([rest[block.campaign == one].mean() for one in range(5)])

    first, noon, later = offsets(0), offsets(12), offsets(24 * 20)
    assert np.ptp(first) > 0.1
    assert np.abs(noon - first).max() > 0.2
    assert np.abs(later - first).max() > 0.2


def test_sums_are_relative_to_the_truth():
    block, sums = Log(400_000).block(30), Sums()
    n = len(block.t)
    sums.add(block, block, block.truth, np.ones(n), 1.5 * block.truth, 1.0)
    excess, events, variance = sums.hours[0]
    assert excess == pytest.approx(0.5 * block.truth.sum())
    assert events == pytest.approx(block.truth.sum())
    assert variance == pytest.approx((block.truth * (1.0 - block.truth)).sum())
    assert sums.campaigns.sum(axis=1) == pytest.approx([excess, variance])
    right = Sums()
    right.add(block, block, block.truth, np.ones(n), block.truth, 1.0)
    assert right.hours[0][0] == 0.0
    assert right.regret == pytest.approx(0.0, abs=1e-6)
    half = block.rows(np.arange(n) % 2 == 0)  # each for two
    thinned = Sums()
    thinned.add(block, half, half.truth, np.full(len(half.t), 2.0), 1.5 * half.truth, 1.0)
    assert thinned.hours[0][0] == pytest.approx(excess, rel=0.1)


def test_a_join_learns_the_clicks_within_the_horizon():
    """All but those of the last horizon, and served scores until the first are learned."""
    joined, log = Joined(LabelJoin(OnlinePlatt(), HORIZON), HORIZON), Log(60_000)
    clicks = 0
    for hour, block in zip(range(48), log, strict=False):
        p = joined(block)
        if hour < 5:
            assert np.allclose(p, block.score)
        clicks += int((block.delay[block.t < 41 * HOUR] <= HORIZON).sum())
    tally = joined.join.tally()
    assert tally["issued"] == joined.number
    assert not tally["uncorrected"] + tally["unknown"]
    assert 0 <= tally["positives"] - clicks <= int((log.block(41).delay <= HORIZON).sum())
    assert joined.most >= joined.join.waiting > 0
    assert all(joined.seconds.values())


@pytest.mark.full
def test_lines_of_the_tables():
    line = click_log.measure("`OnlinePlatt()`", 8_000)
    assert line.rows == 8_000
    assert line.regret < click_log.measure("score", 8_000).regret
    sampled = click_log.measure("sampled, `OnlinePlatt()`", 20_000)
    assert 0.1 < sampled.rows / 20_000 < 0.12
    assert re.fullmatch(
        r"\| `OnlinePlatt\(\)` \|( -?[\d.]+ \|){6} \d+\.\d\d \([+-]\d+\.\d\) \| \d+\.\d \|", line.text()
    )
    late = pending.log_line("each", "`OnlinePlatt()`", 6, 8_000)
    assert late.count("|") == pending.LOG_HEAD.partition("\n")[0].count("|")
    found = pending.grown("each", "`OnlinePlatt()`", 8_000, True)
    assert 16 < found.written / 8_000 < 200


@pytest.mark.full
def test_a_day_is_run_over_with_its_labels_pending():
    first, second = pending.run_table(20_000).splitlines()[2:]
    assert re.fullmatch(r"\| `online-platt` \| 20,000 \| [\d,]+ \| [\d.]+ \| -?\d+ \|", first)
    assert second.startswith("| `auto` | 20,000 |")


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [name for name, (_, levels, _) in pending.IN_COLUMNS.items() if levels])
def test_verbs_of_methods_with_levels_are_measured(monkeypatch, method):
    monkeypatch.setattr(pending, "EVENTS", 2 * pending.PIECE)
    assert min(pending.verbs(method)) > 0.0


def test_the_page_has_every_method():
    lines = re.findall(r"<!-- benchmarks: click-log -->(.*?)<!-- end: click-log -->", PAGE.read_text(), re.DOTALL)
    assert len(lines) == 1
    assert all(f"| {name} |" in lines[0] for name in ENTRIES)
