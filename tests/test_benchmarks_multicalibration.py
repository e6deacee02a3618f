"""The benchmark of `Multicalibrated` at its smallest, and the page that it writes."""

import itertools
import re

import numpy as np
import pytest
from scipy.special import logit

from benchmarks import multicalibration, segments
from benchmarks import multicalibration_rivals as rivals

STREAM = segments.simulated(0.05, 6000, seed=0)


def test_the_worst_gap_is_that_of_some_group_in_some_window():
    """Against loops over groups and windows."""
    p, n = STREAM.scores, len(STREAM.y)
    bins = np.floor(logit(p)).astype(int)
    columns = [np.zeros(n), bins, *(np.array(levels) for levels in STREAM.fields.values())]
    columns += [100 * np.array(levels) + bins for levels in STREAM.fields.values()]

    def one(start, end):
        found = 0.0
        for column in columns:
            for group in np.unique(column):
                rows = np.flatnonzero(column == group)
                rows = rows[(rows >= start) & (rows < end)]
                variance = (p * (1.0 - p))[rows].sum()
                if variance >= multicalibration.LEAST:
                    found = max(found, abs((STREAM.y - p)[rows].sum()) / np.sqrt(variance))
        return found

    windows = max(one(start, start + multicalibration.WINDOW) for start in (0, 1000))
    assert multicalibration.worst(p, STREAM, p) == (pytest.approx(one(0, n)), pytest.approx(windows))


@pytest.mark.full
def test_a_line_of_the_table():
    found = multicalibration.Found(STREAM, STREAM.scores)
    assert re.fullmatch(
        r"[+-][\d.]+ \| [\d.]+ → [\d.]+ \| [\d.]+ → [\d.]+ \| [+-][\d.]+ \| [\d.]+ \| [+-][\d.]+", str(found)
    )
    assert multicalibration.summarised([found, found]).count("→") == 2
    assert multicalibration.cost(200).count("\n") == 1 + len(multicalibration.ACTIVE)


def test_the_counters_do_not_drift():
    text = multicalibration.drift(1000)
    assert float(re.search(r"at most ([\de.-]+)\. ", text)[1]) < 1e-9


@pytest.mark.full
def test_the_memory_is_that_of_a_process():
    lines = multicalibration.memory(100_000).splitlines()
    assert len(lines) == 4
    of_numbers, of_text = (int(line.split(" | ")[2]) for line in lines[2:])
    assert 100 < of_numbers < of_text < 300


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", rivals.RIVALS)
def test_a_rival_removes_the_gap_of_a_group(name):
    """One group of two is wrong by a factor; each rival comes nearer to its rate than the score."""
    rng, rival = np.random.default_rng(0), rivals.RIVALS[name](3)
    numbers = np.column_stack([np.zeros(3000, dtype=int), 1 + rng.integers(2, size=3000)])
    z, y = np.full(3000, 0.3), rng.random(3000) < np.where(numbers[:, 1] == 1, 0.3, 0.7)
    p = np.array(list(rivals.predictions(rival, z, numbers, y)))
    late = (numbers[:, 1] == 2) & (np.arange(3000) > 1000)
    assert abs(p[late].mean() - 0.7) < 0.3
    assert (p >= rivals.LOWEST).all()


def test_labels_are_chosen_after_the_prediction():
    """A rival that says z loses nothing, whoever chooses; K29 loses to who is against it."""
    for kind in rivals.ADVERSARIES:
        loss, gap = multicalibration.against(lambda groups: rivals.Incoming(), kind, 600).split("; ")
        assert float(loss) == 0.0
        assert float(gap) >= 0.0
    assert float(multicalibration.against(multicalibration.Held, "against", 600).split(";")[0]) < 20.0
    assert float(multicalibration.against(rivals.K29, "against", 600).split(";")[0].replace(",", "")) > 20.0


def test_groups_have_numbers_of_their_own():
    numbers = multicalibration.numbered(multicalibration.groups(STREAM, STREAM.scores))
    assert numbers.shape == (len(STREAM.y), 2 + 2 * len(STREAM.fields))
    assert all(not set(a) & set(b) for a, b in itertools.pairwise(numbers.T.tolist()))
    assert set(numbers.ravel().tolist()) == set(range(numbers.max() + 1))


def test_a_section_is_written_and_the_others_stay(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(multicalibration.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(multicalibration, "PAGE", page)
    before = page.read_text(encoding="utf-8")
    multicalibration.write("drift", "New.\n")
    after = page.read_text(encoding="utf-8")
    assert "<!-- drift -->\nNew.\n<!-- end of drift -->" in after
    multicalibration.write("drift", "Newer.\n")
    assert page.read_text(encoding="utf-8") == after.replace("New.", "Newer.")
    outside = before.partition("## Counters")[0], before.partition("<!-- end of drift -->")[2]
    assert after.startswith(outside[0])
    assert after.endswith(outside[1])
    multicalibration.PAGE.unlink()
    multicalibration.write("drift", "New.\n")
    assert page.read_text(encoding="utf-8").endswith("<!-- drift -->\nNew.\n<!-- end of drift -->\n")


def test_the_page_keeps_the_promises():
    """On no stream is the log loss worse by more than 1e-4 a row, nor a gap larger than six standard deviations."""
    page = multicalibration.PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.count("→") == 2 and "(" not in line.split("→")[1]]
    assert len(rows) >= 50
    for row in rows:
        loss, ends, late = float(row[2]), [float(cell.split("→")[1]) for cell in row[3:5]], float(row[7].rstrip(" |"))
        assert loss <= 1.0
        assert late <= 1.0
        assert max(ends) <= 6.0
