"""`CountedJoin`: what is learned, against a `LabelJoin`; tokens, duplicates, memory, versions, states and journals."""

import contextlib
import json
import math
import os
import random
import re
import struct

import counted_kills
import numpy as np
import pytest
from test_kernel_forms import bits, twins

from streamcal import (
    Auto,
    Decay,
    HistogramBinning,
    Identity,
    InputError,
    Interval,
    Isotonic,
    OnlineBeta,
    OnlinePlatt,
    Platt,
    StateError,
    Window,
)
from streamcal.errors import ClockError
from streamcal.kernels.counts.counted_rows import NO_ROW, PROBES, ClickFilter, CountedRows
from streamcal.kernels.counts.tokens import LENGTH, Signer
from streamcal.live import CountedJoin, Journal, LabelJoin, Multicalibrated, Segmented, Shadow, migrate
from streamcal.live.counted_bucket import SLICE, Group, Groups, spread
from streamcal.states import signed

#: With this horizon and width, every time is a multiple of the width, exactly.
HORIZON, WIDTH = 64.0, 1.0
KEY = b"the key of a test"


def counted(calibrator, horizon=HORIZON, **given):
    return CountedJoin(calibrator, horizon, **{"key": KEY, "bucket": WIDTH, **given})


def learned(cal):
    return json.dumps(cal.state_dict())


def state_of(join):
    """Return the state as text; without compiled kernels, bytes may have a number in another form once it was read."""
    return json.dumps(join.state_dict())


def stream(seed, n=1_000, *, per_bucket=4, late=1.0):
    """Return events in order: (time, 0, number, score) of impressions, (time, 1, number, score) of clicks.

    A fifth of the clicks come twice, and some come after the horizon.
    """
    rng = random.Random(seed)
    events = []
    for k in range(n):
        t, score = float(k // per_bucket), 1.0 / (1.0 + math.exp(2.0 - rng.gauss(0.0, 1.0)))
        events.append((t, 0, k, score))
        if rng.random() < score:
            when = t + math.ceil(rng.expovariate(1.0 / (0.4 * HORIZON * late)))
            events.append((when, 1, k, score))
            if rng.random() < 0.2:
                events.append((when + float(rng.randrange(20)), 1, k, score))
    return sorted(events)


def both(plain, join, events, keys=lambda k: None):
    """Give events to a `LabelJoin` and a `CountedJoin`; return what each issued."""
    tokens, p, q = {}, [], []
    for t, what, k, score in events:
        if what:
            plain.resolve(k, True, t)
            join.resolve(tokens[k], True, t)
        else:
            p.append(plain.issue(k, score, t, keys=keys(k)).p)
            one = join.issue(score, t, keys=keys(k))
            q.append(one.p)
            tokens[k] = one.token
    for one in (plain, join):
        one.advance(events[-1][0] + 4 * HORIZON)
    return np.array(p), np.array(q)


def table(cal):
    """Return weights and positive weights by cell."""
    x, weight, positive = cal._grid_table().columns()
    return x.tolist(), weight.tolist(), positive.tolist()


# -- what is learned ---------------------------------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize("late", [0.0, 10.0, HORIZON])
@pytest.mark.parametrize("seed", range(2))
def test_on_a_grid_the_statistic_is_that_of_a_plain_join_with_its_own_times(seed, late):
    """Weights by cell are equal exactly, whatever the times, for a click has the age that its token says."""
    rng = random.Random(seed)
    events = sorted((t + rng.random(), what, k, score) for t, what, k, score in stream(seed) if t < 300.0)
    shown = {k: t for t, what, k, _ in events if not what}
    events = [one for one in events if not one[1] or one[0] > shown[one[2]]]
    for make in (
        lambda: HistogramBinning(10, resolution=256),
        lambda: Platt(resolution=512),
        lambda: Isotonic(resolution=512),
    ):
        plain, join = LabelJoin(make(), HORIZON, late=late), counted(make(), late=late)
        both(plain, join, events)
        assert join.spans.cells == make().resolution
        if isinstance(join.calibrator, Isotonic):
            scores = np.linspace(0.01, 0.99, 99)
            assert join.calibrator.predict_many(scores).tolist() == plain.calibrator.predict_many(scores).tolist()
        else:
            assert table(join.calibrator) == table(plain.calibrator)
        assert join.tally()["learned"] == plain.tally()["learned"] == join.tally()["issued"]
        counts = [one.tally() for one in (plain, join)]
        assert len({one["positives"] + one["corrected"] for one in counts}) == 1
        if late:
            assert join.tally()["corrected"] > 0
        assert join.tally()["uncorrected"] == 0


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("forgetting", [Decay(100.0, by="time"), Window(200.0, by="time")], ids=["decay", "window"])
def test_times_are_rounded_down_to_buckets(seed, forgetting):
    """A join of times on the edges of buckets learns at the same clock as a plain one whose horizon is a bucket longer.

    So under forgetting by time, too, predictions are those of the plain join, whose scores are those of the cells.
    """
    make = lambda: HistogramBinning(10, resolution=256, forgetting=forgetting)  # noqa: E731
    plain, join = LabelJoin(make(), HORIZON + WIDTH, late=HORIZON - WIDTH), counted(make())
    p, q = both(plain, join, stream(seed))
    assert q == pytest.approx(p, rel=1e-9, abs=1e-12)
    counts = [one.tally() for one in (plain, join)]
    for name in ("learned", "positives", "corrected", "uncorrected", "before_issue"):
        assert counts[0][name] == counts[1][name], name
    assert counts[1]["corrected"] > 0


@pytest.mark.sample(4)
@pytest.mark.parametrize("early", [None, 8.0])
@pytest.mark.parametrize("make", [OnlinePlatt, Auto, lambda: Segmented(OnlinePlatt(), by=["campaign"])])
def test_with_one_prediction_a_bucket_all_is_as_in_a_plain_join(make, early):
    """Sequential methods and mixtures learn the same observations, judged by the same predictions: to the last bit."""
    keys = lambda k: {"campaign": f"c{k % 3}"} if k % 4 else None  # noqa: E731
    plain = LabelJoin(make(), HORIZON + WIDTH, late=HORIZON - WIDTH, early=None if early is None else early + WIDTH)
    join = counted(make(), early=early)
    p, q = both(plain, join, stream(5, 250, per_bucket=1), keys)
    if early is None:
        assert q.tolist() == p.tolist()
        assert learned(join.calibrator) == learned(plain.calibrator)
    else:  # the share of early clicks has other cells, and they begin to learn early a bucket apart
        assert np.median(np.abs(np.log(q / p))) < 0.2
        assert join.early_share()[0] == pytest.approx(plain.early_share()[0], abs=0.05)


def test_a_sequential_method_learns_every_observation_of_a_bucket():
    cal = OnlinePlatt()
    join = counted(cal)
    tokens = [join.issue(0.2 if k % 2 else 0.4, 0.5).token for k in range(100)]
    assert all(join.resolve(token, True, 1.0) for token in tokens[:10])
    join.advance(HORIZON + 2 * WIDTH)
    assert cal.n == 100.0
    assert (join.tally()["positives"], join.tally()["timed_out"]) == (10, 90)
    windowed = counted(HistogramBinning(1, forgetting=Window(60)))
    for _ in range(100):
        windowed.issue(0.3, 0.5)
    windowed.advance(HORIZON + 2 * WIDTH)
    assert windowed.calibrator.n == 60.0


def test_labels_are_learned_when_their_bucket_is_as_old_as_the_horizon():
    join = counted(OnlinePlatt())
    join.issue(0.3, 0.25)
    join.issue(0.3, 1.5)
    join.advance(HORIZON + 0.9)
    assert (join.calibrator.n, join.waiting, join.due) == (0.0, 2, HORIZON + 1.0)
    join.advance(HORIZON + 1.0)
    assert (join.calibrator.n, join.waiting, join.held) == (1.0, 1, 2)
    join.advance(HORIZON + 2.0)
    assert (join.calibrator.n, join.waiting) == (2.0, 0)
    join.advance(2 * HORIZON + 1.0)
    assert (join.held, join.rows) == (1, 1)
    join.advance(3 * HORIZON)
    assert (join.held, join.rows, join.nbytes, join.due) == (0, 0, 0, math.inf)


def test_the_mean_of_a_cell_is_learned():
    """Of equal scores it is that score, to the last bit."""
    for scores in ([0.1] * 7, [0.1, 0.1003, 0.1006]):
        plain, join = OnlinePlatt(discount=1.0), counted(OnlinePlatt(discount=1.0), cells=64)
        for score in scores:
            join.issue(score, 0.0)
        join.advance(HORIZON + 2.0)
        mean = scores[0] if len(set(scores)) == 1 else math.fsum(scores) / len(scores)
        for _ in scores:
            plain.learn_one(mean, False)
        if len(set(scores)) == 1:
            assert learned(join.calibrator) == learned(plain)
        assert join.calibrator.predict_one(0.3) == pytest.approx(plain.predict_one(0.3), rel=1e-12)


def test_items_are_evenly_spread():
    """In every prefix a stream has its share, but for one item or two, also where there are several slices."""
    for counts in ([4, 2], [1, 0, 1000, 30], [3 * SLICE, 700, 1]):
        order = np.concatenate(list(spread(np.array(counts))))
        assert np.bincount(order, minlength=len(counts)).tolist() == counts
        for stream_, m in enumerate(counts):
            seen = np.cumsum(order == stream_)
            assert np.abs(seen - m * np.arange(1, len(order) + 1) / len(order)).max() < 2.0 + len(counts)


def test_weights_are_groups_of_their_own():
    plain, join = LabelJoin(HistogramBinning(5, resolution=256), HORIZON), counted(HistogramBinning(5, resolution=256))
    for k in range(200):
        w = 1.0 + k % 3
        plain.issue(k, 0.2, k / 50.0, w=w)
        token = join.issue(0.2, k / 50.0, w=w).token
        if k % 7 == 0:
            plain.resolve(k, True, 20.0)
            join.resolve(token, True, 20.0)
    for one in (plain, join):
        one.advance(3 * HORIZON)
    assert table(join.calibrator) == table(plain.calibrator)


# -- clicks ------------------------------------------------------------------------------------------------------------


def test_a_click_counts_once_and_in_time():
    join = counted(HistogramBinning(1, resolution=256))
    tokens = [join.issue(0.3, 10.0 + k / 100.0).token for k in range(50)]
    assert join.resolve(tokens[0], True, 12.0)
    assert join.resolve(tokens[0], True, 12.0)
    assert join.resolve(tokens[0], True, 30.0)
    assert join.tally()["repeated"] == 2
    assert join.resolve(tokens[1], True, 9.0)
    assert join.tally()["before_issue"] == 1
    assert join.resolve(tokens[2], False, 12.0)
    assert join.resolve(tokens[3], True, 10.03 + 2 * HORIZON)  # the last moment that counts
    assert join.resolve(tokens[4], True, 10.05 + 2 * HORIZON)  # beyond
    join.advance(10.0 + HORIZON + 2.0)
    assert (join.tally()["positives"], join.tally()["timed_out"]) == (3, 47)
    assert join.calibrator.predict_one(0.3) == 3 / 50
    assert join.resolve(tokens[2], True, 20.0)  # known late
    assert join.resolve(tokens[2], True, 20.0)
    assert join.tally()["corrected"] == 1
    assert join.tally()["repeated"] == 3
    assert join.calibrator.predict_one(0.3) == 4 / 50
    join.advance(200.0)
    assert not join.resolve(tokens[5], True, 20.0)
    assert join.tally()["unknown"] == 1
    assert join.tally()["contradicted"] == 0


def test_every_negative_of_a_cell_may_be_corrected():
    join = counted(HistogramBinning(1, resolution=256))
    tokens = [join.issue(0.3, 0.0).token for _ in range(3)]
    join.advance(HORIZON + 2.0)
    for k, token in enumerate(tokens, 1):
        assert join.resolve(token, True, 1.0)
        assert join.calibrator.predict_one(0.3) == k / 3
    assert join.calibrator.n == 3.0


def test_without_late_only_clicks_within_the_horizon_count():
    join = counted(HistogramBinning(1, resolution=256), late=0.0)
    first, second = (join.issue(0.3, 0.25).token for _ in range(2))
    assert join.resolve(first, True, 0.25 + HORIZON)
    assert join.resolve(second, True, 0.251 + HORIZON)
    join.advance(HORIZON + 1.0)
    assert join.calibrator.predict_one(0.3) == 0.5
    assert not join.resolve(second, True, 1.0)


def test_clicks_are_exact_and_then_a_filter_of_the_stated_error():
    clicks = ClickFilter(4096)
    assert [clicks.add(k) for k in (0, 4095, 0, 7, 4095)] == [True, True, False, True, False]
    assert clicks.exact
    assert clicks.error() == 0.0
    assert clicks.add(5000)
    assert not clicks.exact
    assert not any(clicks.add(k) for k in (0, 7, 4095, 5000))
    rng, n = random.Random(3), 600
    for _ in range(n):
        clicks.add(rng.randrange(2**30))
    stated = (1.0 - math.exp(-PROBES * (n + 4) / 4096)) ** PROBES
    assert clicks.error() == pytest.approx(stated, rel=0.2)
    bits_before = clicks.places().tolist()
    wrong = sum(not ClickFilter(4096, bits_before, False).add(2**31 + k) for k in range(4_000))
    assert wrong / 4_000 == pytest.approx(stated, abs=4 * math.sqrt(stated / 4_000))


def test_a_filter_is_used_beyond_its_bits_only():
    join = counted(OnlinePlatt(), click_bits=64)
    tokens = [join.issue(0.3, 0.5).token for _ in range(100)]
    for token in tokens[:64:8]:
        assert join.resolve(token, True, 0.6)
    assert join.filter_error == 0.0
    join.resolve(tokens[99], True, 0.6)
    assert 0.0 < join.filter_error < 1.0
    before = join.tally()["repeated"]
    for token in tokens[:64:8]:
        join.resolve(token, True, 0.6)
    assert join.tally()["repeated"] == before + 8


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_signature_is_siphash():
    """The vector of the reference implementation for 16 bytes, 0 to 15, with the key of the bytes 0 to 15."""
    text = bytes(range(16))
    signer = Signer(text)
    found = signer.signature(*struct.unpack("<QQ", text))
    assert found.to_bytes(8, "little").hex() == "db9bc2577fcc2a3f"


def test_a_token_is_32_characters_of_a_url():
    token = counted(OnlinePlatt()).issue(0.3, 7.0).token
    assert len(token) == LENGTH == 32
    assert token.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("many", [False, True])
def test_tokens_of_others_are_refused_and_nothing_changes(many):
    join = counted(OnlinePlatt())
    token = join.issue(0.3, 7.0).token
    others = [
        counted(OnlinePlatt(), key=b"another key of a test").issue(0.3, 7.0).token,
        CountedJoin(OnlinePlatt(), HORIZON).issue(0.3, 7.0).token,
        token[:-1],
        token + "A",
        "",
        token[:-1] + "é",
        token[:-1] + "=",
        "A" * 32,
    ]
    for place in range(LENGTH):
        others.append(token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :])
    before = join.to_bytes()
    for other in others:
        with pytest.raises(InputError, match="was not issued by this join"):
            join.resolve_many([token, other], True, 8.0) if many else join.resolve(other, True, 8.0)
    for other in (None, 7, 0.5):
        with pytest.raises(InputError):
            join.resolve_many([other, other], True, 8.0) if many else join.resolve(other, True, 8.0)
    assert join.to_bytes() == before
    assert join.resolve(token.encode(), True, 8.0)


def test_tokens_are_read_from_any_column():
    """Of pandas and Arrow too, whose texts are objects, and where one of them is wrong."""
    answers = counted(OnlinePlatt()).issue_many([0.2, 0.3, 0.4], 7.0).tokens
    texts = [one.decode() for one in answers.tolist()]
    columns = [list, np.array, lambda some: np.array(some, dtype=object)]
    with contextlib.suppress(ImportError):
        import pandas as pd
        import pyarrow as pa

        columns += [pa.array, pd.Series, lambda some: pd.Series(some, dtype=object)]
    states = []
    for column in columns:
        join = counted(OnlinePlatt())
        join.issue_many([0.2, 0.3, 0.4], 7.0)
        with pytest.raises(InputError, match="in row 1 was not issued"):
            join.resolve_many(column([texts[0], texts[1][::-1], texts[2]]), True, 8.0)
        assert join.resolve_many(column(texts), [True, False, True], 8.0).all()
        states.append(join.state_dict())
    assert all(state == states[0] for state in states)


def test_two_joins_without_a_key_have_different_ones():
    one, other = (CountedJoin(OnlinePlatt(), HORIZON) for _ in range(2))
    token = one.issue(0.3, 7.0).token
    with pytest.raises(InputError, match="another join"):
        other.resolve(token, True, 8.0)
    assert CountedJoin.from_bytes(one.to_bytes()).resolve(token, True, 8.0)


def test_a_key_is_no_part_of_a_state():
    join = counted(OnlinePlatt())
    token = join.issue(0.3, 7.0).token
    content = join.to_bytes()
    assert KEY not in content
    assert KEY.hex().encode() not in content
    loaded = CountedJoin.from_bytes(content)
    for use in (lambda: loaded.issue(0.3, 7.0), lambda: loaded.resolve(token, True, 8.0)):
        with pytest.raises(StateError, match="use_key"):
            use()
    with pytest.raises(InputError, match="not that of the join"):
        loaded.use_key(b"another key of a test")
    loaded.use_key(KEY)
    assert loaded.resolve(token, True, 8.0)
    with pytest.raises(InputError, match="16 to 1,024 bytes"):
        counted(OnlinePlatt(), key="short")


# -- in columns --------------------------------------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("make", "room", "seed"),
    [
        (OnlinePlatt, 10_000, 0),
        (OnlinePlatt, 120, 1),
        (Auto, 10_000, 1),
        (Auto, 120, 2),
        (lambda: Segmented(OnlinePlatt(), by=["c"]), 10_000, 2),
        (lambda: Segmented(OnlinePlatt(), by=["c"]), 120, 0),
    ],
)
def test_columns_are_a_loop(make, room, seed):
    """States are equal to the last bit, tokens equal, and probabilities up to rounding."""
    rng = np.random.default_rng(seed)
    one, other = (counted(make(), max_rows=room, early=8.0 if seed == 2 else None) for _ in range(2))
    clock, tokens = 0.0, []
    for _ in range(40):
        n = int(rng.integers(0, 30))
        t = clock + np.cumsum(rng.random(n) * 0.6) - rng.random(n) * (rng.random(n) < 0.1)
        clock = max([clock, *t.tolist()])
        scores, w = rng.random(n), np.where(rng.random(n) < 0.2, 2.0, 1.0)
        levels = [[None, "a", "b"][k] for k in rng.integers(0, 3, n)]
        keys = None if make is not Auto and rng.random() < 0.2 else {"c": levels}
        version = None if seed == 0 else f"v{int(clock // 50)}"
        rows = zip(scores.tolist(), t.tolist(), levels, w.tolist(), strict=True)
        looped = [
            one.issue(s, at, keys=None if keys is None else {"c": c}, version=version, w=x) for s, at, c, x in rows
        ]
        answers = other.issue_many(scores, t, keys=keys, version=version, w=w)
        assert answers.p == pytest.approx([answer.p for answer in looped], rel=1e-9)
        assert answers.tokens.astype(str).tolist() == [answer.token for answer in looped]
        tokens += [answer.token for answer in looped]
        some = [tokens[k] for k in rng.integers(0, len(tokens), 8)] if tokens else []
        y = rng.random(len(some)) < 0.7
        known = [one.resolve(token, bool(label), clock) for token, label in zip(some, y, strict=True)]
        assert other.resolve_many(np.array(some, dtype="S32"), y, clock).tolist() == known
        assert one.to_bytes() == other.to_bytes()
    assert one.tally()["learned"] > 0
    assert one.tally()["repeated"] > 0
    if seed != 2:  # early labels make room in time
        assert (one.tally()["unheld"] > 0) == (room < 1_000)


def test_a_bad_row_changes_nothing():
    join = counted(OnlinePlatt())
    join.issue(0.3, 7.0)
    before = join.to_bytes()
    for scores, t, given in (
        ([0.3, 1.5], 8.0, {}),
        ([0.3, math.nan], 8.0, {}),
        ([0.3, 0.3], [8.0, 8.0 + 101 * HORIZON], {}),
        ([0.3, 0.3], [8.0 + 2 * HORIZON, 8.0], {}),
        ([0.3, 0.3], [8.0], {}),
        ([0.3, 0.3], 8.0, {"w": [1.0, -1.0]}),
        ([0.3, 0.3], 8.0, {"w": [1.0]}),
        ([0.3], 8.0, {"version": ""}),
    ):
        with pytest.raises(InputError):
            join.issue_many(scores, t, **given)
    with pytest.raises(ClockError):
        join.issue(0.3, 8.0 + 101 * HORIZON)
    with pytest.raises(ClockError, match="behind"):
        counted(OnlinePlatt(), max_behind=1.0).issue_many([0.3, 0.3], [8.0, 2.0])
    assert join.to_bytes() == before
    assert len(join.issue_many([], 8.0).p) == 0
    assert join.resolve_many([], True, 8.0).tolist() == []


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_predictions():
    """Three times the predictions in the same time take the same memory; the bits of clicks have a limit."""
    sizes = []
    for n in (60_000, 180_000):
        join = CountedJoin(OnlinePlatt(discount=1.0), 21_600.0, key=KEY, click_bits=2**12)
        scores = np.resize(np.linspace(0.001, 0.4, 313), n // 20)
        for k in range(20):
            t = np.linspace(k, k + 1, n // 20, endpoint=False) * 1_080.0
            answers = join.issue_many(scores, t)
            join.resolve_many(answers.tokens[::500], True, float(t[-1]))
        assert join.waiting == n
        sizes.append(join.nbytes - sum(one.clicks.nbytes for one in join._buckets.values()))
        assert all(one.clicks.nbytes <= 2**9 for one in join._buckets.values())
    assert sizes[0] == sizes[1] < 1e6


def test_rows_beyond_the_limit_are_not_learned_and_rows_that_were_learned_are_forgotten_first():
    join = counted(OnlinePlatt(), max_rows=4)
    tokens = [join.issue(score, 0.0).token for score in (0.1, 0.2, 0.3, 0.4, 0.5, 0.1)]
    assert (join.rows, join.held, join.tally()["unheld"]) == (4, 5, 1)
    assert not join.resolve(tokens[4], True, 1.0)
    assert join.resolve(tokens[5], True, 1.0)
    assert join.tally()["unknown"] == 1
    join.advance(HORIZON + 2.0)
    join.issue(0.9, HORIZON + 2.0)
    assert (join.rows, join.held, join.tally()["forgotten"]) == (1, 1, 5)


def test_groups_are_numbered_again_when_they_are_gone():
    groups = Groups()
    a, b = Group(None, (("c", "a"),), 1.0), Group("v", None, 2.0)
    assert [groups.add(a), groups.add(b), groups.add(a)] == [0, 1, 0]
    for number in (0, 0, 1):
        groups.use(number)
    groups.leave(0)
    assert groups[0] == a
    groups.leave(0)
    assert groups.add(Group(None, None, 1.0)) == 0
    join = counted(Segmented(OnlinePlatt(), by=["c"]))
    for k in range(400):
        join.issue(0.3, float(k), keys={"c": f"level {k}", "other": k})
    assert len(join._groups.state()[0]) <= 2 * HORIZON + 3


SEGMENTED_BY_C = pytest.param(lambda: Segmented(OnlinePlatt(), by=["c"]), id="segmented")


@pytest.mark.parametrize("make", [OnlinePlatt, SEGMENTED_BY_C])
@pytest.mark.parametrize("form", [LabelJoin, counted])
def test_levels_of_many_are_columns_or_rows(make, form):
    """Both are a loop of `issue`, in each join."""
    rows, columns = [{"c": "a"}, {"c": None}, None, {"c": "b"}], {"c": np.array(["a", None, None, "b"], dtype=object)}
    scores, t, ids = [0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0], [["p", "q", "r", "s"]] if form is LabelJoin else []
    states = []
    for keys in (columns, rows):
        join = form(make(), HORIZON)
        join.issue_many(*ids, scores, t, keys=keys)
        states.append(state_of(join))
    join = form(make(), HORIZON)
    for *first, level in zip(*ids, scores, t, rows, strict=True):
        join.issue(*first, keys=level)
    assert states == [state_of(join)] * 2


@pytest.mark.parametrize("form", [LabelJoin, counted])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (5, "keys 5 are no levels; give a column for each field, or a mapping for each row"),
        ("abcd", "keys 'abcd' are no levels"),
        ([None] * 3, "3 keys are not possible for 4 rows"),
        ([7, None, None, None], "keys 7 are no mapping"),
        ([{"d": 1}] * 4, "keys have no 'c', but 'd'"),
        ({"d": [1] * 4}, "keys have no 'c', but 'd'"),
        ({"c": [1, 2]}, "keys['c'] has 2 levels; give one for each of 4 observations"),
    ],
)
def test_levels_of_many_that_are_neither_columns_nor_rows_are_refused(form, bad, message):
    join = form(Segmented(OnlinePlatt(), by=["c"]), HORIZON)
    before = state_of(join)
    with pytest.raises(InputError, match=re.escape(message)):
        join.issue_many(*([list("pqrs")] if form is LabelJoin else []), [0.1] * 4, [1.0] * 4, keys=bad)
    assert state_of(join) == before


# -- early, versions, and what is refused ------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("fast", [0.5, 0.02])
def test_early_labels_have_the_share_of_clicks_that_are_known(fast):
    """The share is that of a plain join; where it is small, both learn at the horizon."""
    rng = random.Random(11)
    plain, join = LabelJoin(OnlinePlatt(), HORIZON, early=8.0), counted(OnlinePlatt(), early=8.0)
    events = []
    for k in range(6_000):
        t = k / 20.0
        events.append((t, 0, k, 0.3))
        if rng.random() < 0.3:
            delay = rng.uniform(0.0, 8.0) if rng.random() < fast else rng.uniform(8.0, HORIZON)
            events.append((t + delay, 1, k, 0.3))
    p, q = both(plain, join, sorted(events))
    assert join.learns_at_horizon == plain.learns_at_horizon == (fast < 0.1)
    assert join.early_share()[0] == pytest.approx(plain.early_share()[0], abs=0.03)
    assert np.abs(np.log(q[-500:] / p[-500:])).max() < 0.25
    assert q[-500:].mean() == pytest.approx(0.3, abs=0.05)


def test_clicks_that_are_reported_late_are_not_early():
    """A click a second after its impression, reported after 30 s, is known late: no label is learned early."""
    plain, join = LabelJoin(OnlinePlatt(), HORIZON, early=8.0), counted(OnlinePlatt(), early=8.0)
    tokens = []

    def taken():
        for k in range(3_000):
            t = k / 10.0
            plain.issue(k, 0.3, t)
            tokens.append(join.issue(0.3, t).token)
            if k >= 300 and k % 3 == 0:
                plain.resolve(k - 300, True, t - 29.0)
                join.resolve(tokens[k - 300], True, t - 29.0)

    with pytest.warns(RuntimeWarning, match="reported 29 s after their own time"):
        taken()
    assert join.learns_at_horizon
    assert plain.learns_at_horizon
    assert join.early_share()[0] == pytest.approx(plain.early_share()[0], abs=0.02)
    assert join.report_delay() == pytest.approx(29.0)


def test_a_version_has_its_own_calibration():
    join = counted(OnlinePlatt(discount=1.0))
    tokens = [join.issue(0.2, k / 100.0, version="a" if k < 100 else "b").token for k in range(200)]
    for token in tokens[100:]:
        join.resolve(token, True, 2.0)
    join.advance(HORIZON + 10.0)
    names = {name: cal.n for name, cal, _ in join.versions}
    assert names == {"a": 100.0, "b": 100.0}
    assert join.predict_one(0.2, version="a") < 0.05 < 0.2 < join.predict_one(0.2, version="b")


def test_the_labels_of_a_version_that_was_dropped_are_refused():
    join = counted(OnlinePlatt())
    for k in range(9):
        join.issue(0.2, 0.5, version=f"v{k}")
    join.advance(HORIZON + 2.0)
    assert (join.tally()["refused"], join.tally()["learned"]) == (1, 8)


def test_what_cannot_be_counted_is_refused_by_name():
    for calibrator, name in (
        (Multicalibrated(OnlinePlatt(), by=["c"]), "Multicalibrated"),
        (Shadow(OnlinePlatt(), {"other": Identity()}), "Shadow"),
    ):
        with pytest.raises(InputError, match=f"{name} keeps a bet for each prediction"):
            CountedJoin(calibrator, HORIZON)
    with pytest.raises(InputError, match="bounded scale"):
        CountedJoin(Platt(scale=Interval()), HORIZON)
    for given in (
        {"click_bits": 100},
        {"cells": 1},
        {"bucket": 0.0},
        {"max_rows": 1},
        {"early": HORIZON},
    ):
        with pytest.raises(InputError):
            CountedJoin(OnlinePlatt(), HORIZON, **given)


def test_an_id_is_refused_with_the_reason():
    """An impression that is issued again would count twice, and no memory that does not grow with ids knows it."""
    join = counted(OnlinePlatt())
    with pytest.raises(InputError, match=r"id 'a1' is not possible: .* takes memory for each; keep the answer"):
        join.issue(id="a1", score=0.3, t=7.0)
    assert join.tally()["issued"] == 0


def test_a_label_join_with_counts_is_a_counted_join():
    join = LabelJoin("online-platt", "6h", pending="counts", late="1h")
    assert isinstance(join, CountedJoin)
    assert (join.spans.horizon, join.spans.late, join.spans.bucket) == (21_600.0, 3_600.0, 180.0)
    assert isinstance(LabelJoin("online-platt", "6h", pending="each"), LabelJoin)
    with pytest.raises(InputError, match="'each' or 'counts'"):
        LabelJoin("online-platt", "6h", pending="columns")
    for given, message in (
        ({"pending": "counts", "max_held": 10}, "max_held= needs pending='each'"),
        ({"max_rows": 10}, "max_rows= needs pending='counts'; leave it out for pending='each'"),
    ):
        with pytest.raises(InputError, match=message):
            LabelJoin("online-platt", "6h", **given)


def test_a_label_join_reads_the_states_of_both_kinds(tmp_path):
    for pending in ("each", "counts"):
        join = LabelJoin("online-platt", "6h", pending=pending)
        join.issue(*([7] if pending == "each" else []), 0.3, 5.0)
        for read in (LabelJoin.from_bytes(join.to_bytes()), LabelJoin.from_state(join.state_dict())):
            assert type(read) is type(join)
            assert (read.waiting, read.state_dict()) == (1, join.state_dict())
    with pytest.raises(StateError, match="not of 'CountedJoin'"):
        CountedJoin.from_bytes(LabelJoin("online-platt", "6h").to_bytes())
    with Journal(tmp_path / "counts.journal") as journal:
        counted(OnlinePlatt(), journal=journal).issue(0.3, 7.0)
        with pytest.raises(StateError, match="counted cannot be migrated"):
            migrate(journal, LabelJoin(OnlinePlatt(), HORIZON))
        with pytest.raises(InputError, match="a CountedJoin is not possible"):
            migrate(journal, counted(OnlinePlatt()))


def test_times_and_buckets_that_cannot_be_told_apart_are_refused():
    join = CountedJoin("platt", 10.0)
    for far in (1e308, -1e308):
        for verb, given in ((join.issue, (0.3, far)), (join.issue_many, ([0.3], far)), (join.advance, (far,))):
            with pytest.raises(ClockError, match=r"not possible with buckets of 0\.0833333 s"):
                verb(*given)
    assert join.clock == -math.inf
    for given, longer in (({"early": 5e-324}, "early"), ({"early": 1e-9}, "early"), ({"bucket": 1e-9}, "bucket")):
        with pytest.raises(InputError, match=f"at most 1,048,576 of them; give a longer {longer}"):
            CountedJoin("platt", 10.0, **given)
    join = counted(OnlinePlatt(), bucket=WIDTH)
    join.issue(0.3, 7.0)
    state = join.state_dict()
    state["learned"]["clock"] = -1e308
    with pytest.raises(StateError, match="the clock is too far"):
        CountedJoin.from_state(signed(state))


def test_a_state_with_two_equal_groups_is_refused():
    """One of them would be given up with the other."""
    join = counted(Segmented(OnlinePlatt(), by=["c"]))
    join.issue_many([0.3, 0.3], 7.0, keys={"c": ["a", "b"]})
    state = join.state_dict()
    state["learned"]["groups"][1][1]["c"] = "a"
    with pytest.raises(StateError, match="a group is there twice"):
        CountedJoin.from_state(signed(state))


def test_the_width_of_a_bucket_divides_the_horizon():
    assert CountedJoin("platt", 100.0, bucket=30.0).spans.bucket == 25.0
    assert CountedJoin("platt", 100.0, bucket=1e9).spans.bucket == 100.0
    assert CountedJoin("platt", 1200.0, early=16.0).spans.bucket == 4.0


# -- states and journals -----------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", [OnlinePlatt, Auto, lambda: Segmented(OnlinePlatt(), by=["c"])])
def test_a_state_goes_on_to_the_last_bit(make):
    rng, join, tokens = random.Random(2), counted(make(), early=8.0, click_bits=64), []
    for k in range(400):
        t = k / 5.0
        tokens.append(join.issue(rng.random(), t, keys={"c": k % 3}).token)
        join.resolve(rng.choice(tokens), True, t)
        if k % 90 == 0:
            state = state_of(join)
            loaded = CountedJoin.from_bytes(join.to_bytes())
            assert state_of(loaded) == state
            loaded = CountedJoin.from_state(json.loads(json.dumps(join.state_dict())))
            assert state_of(loaded) == state
            loaded.use_key(KEY)
            join = loaded
    whole, other, tokens = counted(make(), early=8.0, click_bits=64), random.Random(2), []
    for k in range(400):
        tokens.append(whole.issue(other.random(), k / 5.0, keys={"c": k % 3}).token)
        whole.resolve(other.choice(tokens), True, k / 5.0)
    assert state_of(whole) == state_of(join)


@pytest.mark.parametrize("make", [Auto, OnlinePlatt, OnlineBeta, Platt, lambda: Segmented(Auto(), by=["c"])])
def test_a_state_of_many_predictions_at_once_is_read(make):
    join = LabelJoin(make(), 3600.0, pending="counts")
    scores, keys = np.linspace(0.01, 0.9, 200), {"c": [0, 1] * 100}
    join.issue_many(scores, np.arange(200.0), keys=keys)
    loaded = CountedJoin.from_bytes(join.to_bytes())
    assert state_of(loaded) == state_of(join)
    for each in (join, loaded):
        each.advance(9000.0)
    assert loaded.tally()["learned"] == 200
    assert state_of(loaded) == state_of(join)


def test_a_journal_is_resumed_from(tmp_path):
    path = tmp_path / "counts.journal"
    with Journal(path) as journal:
        join = counted(OnlinePlatt(), journal=journal)
        kept = [join.issue(0.3, k / 10.0).token for k in range(100)]
        join.note({"offset": 17})
        join.acknowledge()
        state = state_of(join)
    with Journal(path) as journal:
        join = counted(OnlinePlatt(), journal=journal)
        assert state_of(join) == state
        assert join.noted == {"offset": 17}
        assert join.resolve(kept[3], True, 11.0)
        join.snapshot()
        state = state_of(join)
    with Journal(path) as journal:
        assert state_of(counted(OnlinePlatt(), journal=journal)) == state
    for given, problem in (
        ({"key": b"another key of a test"}, "another key"),
        ({"key": None}, "another key"),
        ({"cells": 64}, "another join"),
        ({"bucket": 2.0}, "another join"),
    ):
        with Journal(path) as journal, pytest.raises(StateError, match=problem):
            counted(OnlinePlatt(), journal=journal, **given)
    with Journal(path) as journal, pytest.raises(StateError):
        LabelJoin(OnlinePlatt(), HORIZON, journal=journal)


def test_a_random_key_is_in_the_journal(tmp_path):
    with Journal(tmp_path / "counts.journal") as journal:
        token = CountedJoin(OnlinePlatt(), HORIZON, journal=journal).issue(0.3, 7.0).token
    with Journal(tmp_path / "counts.journal") as journal:
        assert CountedJoin(OnlinePlatt(), HORIZON, journal=journal).resolve(token, True, 8.0)


def test_a_token_that_was_lost_with_its_process_is_unknown(tmp_path):
    """Its numbers are not those of a later prediction."""
    path = tmp_path / "counts.journal"
    with Journal(path) as journal:
        join = counted(OnlinePlatt(), journal=journal)
        kept = join.issue(0.3, 0.1).token
        join.acknowledge()
        lost = [join.issue(0.3, 0.1 + k).token for k in range(5)]
        journal.discard()
    with Journal(path) as journal:
        join = counted(OnlinePlatt(), journal=journal)
        issued = [join.issue(0.3, 0.2 + k).token for k in range(5)]
        assert not set(issued) & set(lost)
        assert [join.resolve(token, True, 5.0) for token in lost[1:]] == [False] * 4
        assert join.resolve(kept, True, 5.0)
        assert join.tally()["unknown"] == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kills", [5, pytest.param(25, marks=pytest.mark.full)])
def test_kills_lose_nothing_that_was_acknowledged(tmp_path, kills):
    assert counted_kills.run(kills, tmp_path) > 4 * kills


# -- kernels -----------------------------------------------------------------------------------------------------------


def test_tokens_are_the_same_in_both_forms():
    """`tokens`: compiled and as ordinary Python."""
    compiled, plain = twins("tokens")
    rng = np.random.default_rng(1)
    one, other = compiled.Signer(bytes(range(3, 19))), plain.Signer(bytes(range(3, 19)))
    numbers = rng.integers(0, 2**32, (50, 4))
    for row in numbers.tolist():
        assert one.write(*row) == other.write(*row)
        assert one.read(other.write(*row).encode()) == other.read(one.write(*row).encode()) == tuple(row)
    texts, found = np.empty(50 * LENGTH, dtype=np.uint8), np.empty((2, 50, 4), dtype=np.int64)
    for signer, out in zip((one, other), found, strict=True):
        signer.write_many(7, 2**32 - 50, numbers[:, 0].copy(), numbers[:, 1].copy(), texts)
        assert signer.read_many(texts, out) == -1
        texts[40 * LENGTH] ^= 1
        assert signer.read_many(texts, out) == 40
    assert (found[0] == found[1]).all()
    assert found[0, :, 1].tolist() == list(range(2**32 - 50, 2**32))


def test_rows_and_clicks_are_the_same_in_both_forms():
    """`counted_rows`: compiled and as ordinary Python."""
    compiled, plain = twins("counted_rows")
    rng = np.random.default_rng(2)
    keys, scores = rng.integers(0, 2**50, 120)[rng.integers(0, 120, 400)], rng.random(400)
    rows = np.empty((2, 400), dtype=np.int64)
    made = [module.CountedRows() for module in (compiled, plain)]
    for one in made:
        assert [type(one.add(2**49, 0.5, True)) for _ in range(2)] == [int, int]  # of which a token is made
    for one, out in zip(made, rows, strict=True):
        one.add_many(keys, scores, 60, out)
    assert (rows[0] == rows[1]).all()
    assert (rows[0] == NO_ROW).any()
    assert list(map(bits, made[0].columns())) == list(map(bits, made[1].columns()))
    filters = [module.ClickFilter(512) for module in (compiled, plain)]
    for k, number in enumerate(rng.integers(0, 2_000, 300).tolist()):
        added = [one.add(number % 512 if k < 100 else number) for one in filters]
        assert added[0] == added[1]
    assert filters[0].places().tolist() == filters[1].places().tolist()


def test_rows_find_their_keys_again():
    rows, expected = CountedRows(), {}
    rng = random.Random(9)
    for _ in range(5_000):
        key = rng.randrange(2**40) if rng.random() < 0.2 else rng.randrange(700)
        assert rows.add(key, key / 2**40, True) == expected.setdefault(key, len(expected))
    assert rows.columns()[0].tolist() == list(expected)
    assert rows.columns()[3].sum() == 5_000
