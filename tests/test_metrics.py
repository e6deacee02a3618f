"""The measures against their definitions, and the laws they share."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invariants import check
from scipy.stats import binom

from streamcal.errors import InputError, MergeError, RetractionError
from streamcal.live import CalibrationMonitor
from streamcal.metrics import (
    AUC,
    CORP,
    CRPS,
    Brier,
    CalibrationRatio,
    CalibrationSlope,
    DebiasedECE,
    EqualMassECE,
    FieldwiseECE,
    LogLoss,
    LogLossDifference,
    Metric,
    MulticlassBrier,
    NormalizedEntropy,
    SmoothECE,
)
from streamcal.metrics.cells import ProbabilityCells
from streamcal.metrics.reliability import wilson_interval
from streamcal.regression import Normal
from streamcal.stream.prequential import Scoreboard

METRICS = [LogLoss, Brier, CalibrationRatio, EqualMassECE, AUC, CORP, CalibrationSlope, NormalizedEntropy, SmoothECE]

#: Plain sums: n terms of one sign carry a relative error of at most n ⋅ 1.1e-16; no test sums more than 1e5.
SUMS = 1e-11

probabilities = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 5e-324]), st.floats(0.0, 1.0))
#: Weights with exact sums, so that what a stream leaves does not depend on the order of the additions.
weights = st.integers(0, 16).map(lambda k: k / 8)
#: Probabilities of which all products and sums are exact in floats.
exact_observations = st.lists(st.tuples(st.integers(0, 64).map(lambda k: k / 64), st.booleans(), weights), max_size=40)
observations = st.lists(st.tuples(probabilities, st.booleans(), weights), max_size=40)


def stream(n: int, seed: int = 0, rate: float = 0.1) -> list[tuple[float, bool, float]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        p = draw.betavariate(2 * rate, 2 * (1 - rate))
        rows.append((p, draw.random() < p**1.3, draw.choice([0.5, 1.0, 2.0])))
    return rows


def filled(make: type[Metric], rows: list[tuple[float, bool, float]]) -> Metric:
    metric = make()
    for p, y, w in rows:
        metric.update(y, p, w)
    return metric


def state(metric: Metric) -> dict[str, object]:
    """Everything a metric holds, in a form that can be compared."""
    return {
        name: [column.tolist() for column in item.columns()] if isinstance(item, ProbabilityCells) else item
        for name, item in vars(metric).items()
    }


def exact_ece(rows: list[tuple[float, bool, float]], bins: int) -> float:
    """Return the ECE over equal-mass bins of the distinct probabilities, from all predictions at once."""
    p, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    _, place = np.unique(p, return_inverse=True)
    mass = np.bincount(place, w)
    middle = np.cumsum(mass) - mass / 2
    group = np.minimum((bins * middle / mass.sum()).astype(int), bins - 1)[place]
    return float(np.abs(np.bincount(group, w * (p - y))).sum() / w.sum())


# -- each measure against its definition ---------------------------------------------------------------------------
# ---------------------------------------------------------------------------


def test_log_loss_brier_and_ratio_equal_their_definitions() -> None:
    rows = stream(2_000)
    p, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    losses = -np.log(np.maximum(np.where(y == 1, p, 1 - p), 1e-6))
    assert filled(LogLoss, rows).get() == pytest.approx(np.average(losses, weights=w), rel=SUMS)
    assert filled(Brier, rows).get() == pytest.approx(np.average((p - y) ** 2, weights=w), rel=SUMS)
    assert filled(CalibrationRatio, rows).get() == pytest.approx((w * p).sum() / (w * y).sum(), rel=SUMS)


def test_log_loss_counts_wrong_certainties_and_caps_them() -> None:
    loss = LogLoss()
    loss.update(True, 1.0)
    assert (loss.get(), loss.infinite) == (0.0, 0)
    loss.update(True, 0.0, 2.0)
    loss.update(False, 1.0)
    assert loss.infinite == 2
    assert loss.get() == pytest.approx(3 * -math.log(1e-6) / 4, rel=SUMS)
    loss.revert(False, 1.0)
    assert loss.infinite == 1
    loss.merge(filled(LogLoss, [(0.0, True, 1.0), (1.0, False, 1.0), (0.5, True, 1.0)]))
    assert loss.infinite == 3


def test_log_loss_does_not_call_a_tiny_probability_a_certainty() -> None:
    loss = LogLoss(clip=1e-300)
    loss.update(True, 1e-20)
    assert loss.infinite == 0
    assert loss.get() == pytest.approx(20 * math.log(10), rel=SUMS)


def test_log_loss_leaves_click_probabilities_alone() -> None:
    loss = LogLoss()
    loss.update(True, 3e-6)
    assert loss.get() == pytest.approx(-math.log(3e-6), rel=SUMS)


@pytest.mark.parametrize("clip", [0.0, 1.0, -1.0, math.nan])
def test_log_loss_refuses_a_clip_that_is_no_probability(clip: float) -> None:
    with pytest.raises(InputError, match="clip"):
        LogLoss(clip)


def test_calibration_ratio_without_positives() -> None:
    ratio = CalibrationRatio()
    assert ratio.get() is None
    ratio.update(False, 0.0)
    assert ratio.get() is None
    ratio.update(False, 0.5)
    assert ratio.get() == math.inf


def test_calibration_ratio_forgets_reverted_positives_without_a_ghost() -> None:
    ratio = CalibrationRatio()
    ratio.update(False, 0.5)
    for w in (0.1, 0.2):
        ratio.update(True, 0.5, w)
    for w in (0.1, 0.2):
        ratio.revert(True, 0.5, w)
    assert ratio.get() == math.inf  # .1 + .2 − .1 − .2 is not 0 in floats


def test_the_interval_of_the_calibration_ratio_is_that_of_the_share() -> None:
    ratio = CalibrationRatio()
    assert ratio.interval() == (0.0, math.inf)
    ratio.update_many([True] * 20 + [False] * 80, [0.3] * 100)
    z, n, f = 1.959963984540054, 100, 0.2  # the p with (f − p)² = z² p (1 − p)/n, a quadratic equation
    ends = np.roots([1 + z * z / n, -2 * f - z * z / n, f * f])
    assert ratio.interval() == pytest.approx(sorted(0.3 / ends), rel=1e-9)
    low, high = ratio.interval(0.5)
    assert ratio.interval()[0] < low < ratio.get() < high < ratio.interval()[1]
    none = CalibrationRatio()
    none.update_many([False] * 100, [0.3] * 100)
    assert 1.0 < none.interval()[0] < none.interval()[1] == math.inf
    with pytest.raises(InputError, match="confidence"):
        ratio.interval(1.0)


def test_the_interval_of_the_calibration_ratio_covers() -> None:
    """Labels of different chances: at least 95 % of the intervals contain predicted over expected positives."""
    rng, covered, streams = np.random.default_rng(3), 0, 1_000
    chances = rng.beta(0.5, 20.0, 400)
    for _ in range(streams):
        ratio = CalibrationRatio()
        ratio.update_many(rng.random(400) < chances, 1.3 * chances)
        low, high = ratio.interval()
        covered += low <= 1.3 <= high
    assert covered >= 0.95 * streams - 3 * math.sqrt(0.95 * 0.05 * streams)  # three standard errors


def sampled_by_label(seed: int, of_positives: float, of_negatives: float, n: int = 20_000) -> tuple[np.ndarray, ...]:
    """Right probabilities of rare events, of which a label is sampled, and weights that make up for it."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 30, n)
    y = rng.random(n) < p
    w = np.where(y, of_positives, of_negatives)
    kept = rng.random(n) < 1.0 / w
    return p[kept], y[kept], w[kept]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("of_positives", "of_negatives"), [(1.0, 20.0), (1.0, 200.0), (10.0, 1.0), (1.0, 1.0)])
def test_the_interval_of_the_calibration_ratio_where_a_label_is_sampled(
    of_positives: float, of_negatives: float
) -> None:
    covered, lengths, logs, streams = 0, [], [], 150
    for seed in range(streams):
        p, y, w = sampled_by_label(seed, of_positives, of_negatives)
        ratio = CalibrationRatio()
        ratio.update_many(y, p, w)
        low, high = ratio.interval()
        covered += low <= 1.0 <= high
        lengths.append(math.log(high / low))
        logs.append(math.log(ratio.get() or 0.0))
    # Four standard errors of a share of 150 are 0.07; a standard deviation of 150 has a relative error of 6 %.
    assert covered >= 0.88 * streams
    assert np.mean(lengths) == pytest.approx(2 * 1.96 * np.std(logs), rel=0.2)


def test_scores_that_are_too_high_are_seen_in_a_sample_of_the_negatives() -> None:
    ratio = CalibrationRatio()
    p, y, w = sampled_by_label(0, 1.0, 20.0)
    for row in zip(y.tolist(), (1.3 * p).tolist(), w.tolist(), strict=True):
        ratio.update(*row)
    low, high = ratio.interval()
    assert low > 1.1
    assert high / low < 1.3  # 2.1 by (Σ w)²/Σ w²


def test_weights_that_do_not_depend_on_labels_leave_the_interval_by_their_effective_number() -> None:
    rng = np.random.default_rng(0)
    w, p = rng.choice([0.5, 1.0, 2.0], 2_000), rng.beta(1, 9, 2_000)
    y = rng.random(2_000) < p
    ratio = CalibrationRatio()
    ratio.update_many(y, p, w)
    ends = wilson_interval(w @ y / w.sum(), w.sum() ** 2 / (w @ w), 1.959963984540054)
    assert ratio.interval() == pytest.approx([w @ p / w.sum() / end for end in reversed(ends)], rel=1e-9)


# -- the laws of all measures --------------------------------------------------------------------------------------
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", METRICS)
def test_empty(make: type[Metric]) -> None:
    assert make().get() is None
    assert make().n == 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", METRICS)
@given(rows=observations)
def test_update_many_is_the_loop(make: type[Metric], rows: list[tuple[float, bool, float]]) -> None:
    many = make()
    p, y, w = zip(*rows, strict=True) if rows else ((), (), ())
    many.update_many(y, p, w)
    assert state(many) == state(filled(make, rows))


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", METRICS)
@given(first=observations, second=observations)
def test_merge_is_concatenation(make: type[Metric], first: list, second: list) -> None:
    merged, other = filled(make, first), filled(make, second)
    before = copy.deepcopy(state(other))
    merged.merge(other)
    whole = filled(make, first + second)
    assert merged.n == whole.n
    # Only the order of the additions differs.
    assert merged.get() == (whole.get() if whole.get() is None else pytest.approx(whole.get(), rel=SUMS, abs=1e-14))
    assert state(other) == before


@pytest.mark.parametrize("make", METRICS)
def test_merge_with_itself_doubles_the_weight(make: type[Metric]) -> None:
    metric = filled(make, stream(100))
    value, n = metric.get(), metric.n
    metric.merge(metric)
    assert metric.n == 2 * n
    assert metric.get() == pytest.approx(value, rel=SUMS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", METRICS)
@given(kept=exact_observations, gone=exact_observations, seed=st.integers(0, 5))
def test_revert_undoes_update(make: type[Metric], kept: list, gone: list, seed: int) -> None:
    rows = kept + gone
    random.Random(seed).shuffle(rows)
    metric, wanted = filled(make, rows), filled(make, kept)
    for p, y, w in gone:
        metric.revert(y, p, w)
    assert metric.n == wanted.n
    if make in (LogLoss, NormalizedEntropy) and wanted.get() is not None:
        # 80 additions and 40 subtractions round sums of at most 80 ⋅ 2 ⋅ 13.9 each by 1.1e-16 of it;
        # divided by n ≥ 1/8, and by the entropy of a share of 1/8 in 80 or more, which is above .01.
        assert metric.get() == pytest.approx(wanted.get(), abs=120 * 2_224 * 1.2e-16 / 0.125 / 0.01)
    else:
        assert metric.get() == wanted.get()


@pytest.mark.parametrize("make", METRICS)
def test_reverting_everything_leaves_exactly_nothing(make: type[Metric]) -> None:
    metric = make()
    for w in (0.1, 0.2):
        metric.update(True, 0.3, w)
    for w in (0.1, 0.2):
        metric.revert(True, 0.3, w)
    assert metric.get() is None
    assert state(metric) == state(make())  # .1 + .2 − .1 − .2 is not 0
    with pytest.raises(RetractionError):
        metric.revert(True, 0.3)


@pytest.mark.parametrize("make", METRICS)
def test_weight_zero_is_nothing(make: type[Metric]) -> None:
    metric = filled(make, stream(20))
    before = metric.n, metric.get()
    metric.update(True, 0.99, 0.0)
    metric.revert(True, 0.99, 0.0)
    assert (metric.n, metric.get()) == before


@pytest.mark.parametrize("make", METRICS)
def test_weight_two_is_twice(make: type[Metric]) -> None:
    rows = stream(50)
    twice = filled(make, [(p, y, 1.0) for p, y, _ in rows for _ in range(2)])
    heavy = filled(make, [(p, y, 2.0) for p, y, _ in rows])
    assert heavy.n == twice.n
    assert heavy.get() == pytest.approx(twice.get(), rel=SUMS)


SWAPPED = {
    "binary": (Brier, 0.3, True),
    "a difference": (LogLossDifference, 0.3, 0.2, True),
    "by level": (FieldwiseECE, 0.3, True, "a"),
    "classes": (MulticlassBrier, {"a": 0.5, "b": 0.5}, "a"),
    "outcomes": (CRPS, Normal(0.0, 1.0), 0.5),
    "a board": (Scoreboard, 0.3, True),
    "a monitor": (CalibrationMonitor, 0.3, True),
}


@pytest.mark.parametrize("kind", SWAPPED)
def test_arguments_in_the_other_order_are_refused(kind: str) -> None:
    """A metric that accepts them without a word would be wrong without one."""
    make, *row = SWAPPED[kind]
    metric = make()
    for verb in ("update", "revert"):
        if hasattr(metric, verb):
            with pytest.raises(InputError, match="the order is y_true, y_pred"):
                getattr(metric, verb)(*row)
    if hasattr(metric, "update_many"):
        labels = {"labels": ["a", "b"]} if kind == "classes" else {}
        first = [[0.5, 0.5]] if kind == "classes" else [row[0]]
        with pytest.raises(InputError, match="the order is y_true, y_pred"):
            metric.update_many(first, *([one] for one in row[1:]), **labels)


@pytest.mark.parametrize("make", METRICS)
@pytest.mark.parametrize(
    ("p", "y", "w"),
    [
        *((p, 0, 1.0) for p in (math.nan, 1.5, -1e-9, "x")),
        *((0.5, y, 1.0) for y in (2, 0.5, None)),
        *((0.5, 1, w) for w in (-1.0, math.nan, math.inf)),
    ],
)
def test_bad_calls_raise_and_change_nothing(make: type[Metric], p: object, y: object, w: float) -> None:
    metric = filled(make, stream(20))
    before = pickle.dumps(metric)
    for call in (
        lambda: metric.update(y, p, w),
        lambda: metric.revert(y, p, w),
        lambda: metric.update_many([1, y], [0.5, p], [1.0, w]),
    ):
        with pytest.raises(InputError):
            call()
    assert pickle.dumps(metric) == before


@pytest.mark.parametrize("make", METRICS)
def test_pickle_and_copy(make: type[Metric]) -> None:
    metric = filled(make, stream(50))
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), copy.copy(metric)):
        other.update(True, 0.9)
        metric_value = metric.get()
        assert other.get() != metric_value  # the copy learns alone
        other.revert(True, 0.9)
        assert other.get() == pytest.approx(metric_value, rel=SUMS)


def test_merge_refuses_another_class_and_other_parameters() -> None:
    for one, other in [(LogLoss(), Brier()), (LogLoss(), LogLoss(1e-15)), (EqualMassECE(15), EqualMassECE(10))]:
        with pytest.raises(MergeError, match="same class and parameters"):
            one.merge(other)  # type: ignore[arg-type]


# -- equal-mass ECE
# ------------------------------------------------------------------------------------------------


@functools.cache
def many_rows(rate: float) -> list:
    return stream(20_000, seed=3, rate=rate)


@pytest.mark.sample(12)
@pytest.mark.parametrize("rate", [0.5, 0.05, 0.003])
@pytest.mark.parametrize("bins", [1, 7, 15, 100])
def test_ece_is_within_its_own_bound_of_the_exact_one(rate: float, bins: int) -> None:
    rows = many_rows(rate)
    ece = EqualMassECE(bins)
    p, y, w = zip(*rows, strict=True)
    ece.update_many(y, p, w)
    exact = exact_ece(rows, bins)
    assert abs(ece.get() - exact) <= ece.error_bound + SUMS
    if bins <= 15:  # the bound is worth something: on these streams a fifth of what it bounds, or better
        assert ece.error_bound <= exact / 5


@given(rows=st.lists(st.tuples(probabilities, st.booleans(), st.sampled_from([0.5, 1.0, 2.0])), min_size=1))
def test_ece_bound_holds_for_any_observations(rows: list[tuple[float, bool, float]]) -> None:
    ece = filled(EqualMassECE, rows)
    assert abs(ece.get() - exact_ece(rows, 15)) <= ece.error_bound + SUMS


def test_ece_is_exact_where_every_cell_holds_one_probability() -> None:
    draw = random.Random(5)
    levels = [0.01 * k for k in range(1, 60)]
    rows = [(p, draw.random() < 0.8 * p, 1.0) for p in draw.choices(levels, k=5_000)]
    ece = filled(EqualMassECE, rows)
    assert ece.error_bound == 0.0
    assert ece.get() == pytest.approx(exact_ece(rows, 15), rel=SUMS)


def test_ece_of_one_bin_is_the_gap_of_the_means() -> None:
    rows = stream(1_000)
    p, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    ece = EqualMassECE(bins=1)
    ece.update_many(y, p, w)
    assert ece.get() == pytest.approx(abs(np.average(p - y, weights=w)), rel=SUMS)


def test_ece_memory_is_bounded() -> None:
    cells = ProbabilityCells()
    for k in range(-30_000, 30_000):
        cells.add(1.0 / (1.0 + math.exp(-k / 1_000)), 0.0, 1.0)
    for p in (0.0, 1.0, 5e-324, math.nextafter(1.0, 0.0)):
        cells.add(p, 1.0, 1.0)
    check(cells)
    assert len(cells.columns().p) <= 30_352


@given(rows=observations)
def test_cells_keep_their_invariants(rows: list[tuple[float, bool, float]]) -> None:
    cells = ProbabilityCells()
    for p, y, w in rows:
        cells.add(p, float(y), w)
        check(cells)
    for p, y, w in rows:
        assert cells.take(p, float(y), w)
        check(cells)
    assert len(cells.columns().p) == 0


def test_reverting_where_nothing_is_held_raises_and_changes_nothing() -> None:
    ece = filled(EqualMassECE, [(0.2, True, 1.0)])
    with pytest.raises(RetractionError, match=r"0\.9"):
        ece.revert(True, 0.9)
    assert (ece.n, ece.get()) == (1.0, 0.8)


@pytest.mark.parametrize("bins", [0, -1, 1.5])
def test_ece_refuses_impossible_bins(bins: float) -> None:
    with pytest.raises(InputError, match="bins"):
        EqualMassECE(bins)  # type: ignore[arg-type]


# -- reliability data ----------------------------------------------------------------------------------------------
# ----------------------------------------------------------------------------------------------


def test_reliability_bins_hold_everything_in_order() -> None:
    rows = stream(10_000, seed=1)
    ece = filled(EqualMassECE, rows)
    data = ece.reliability()
    p, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    assert len(data.bins) == 15
    assert sum(b.count for b in data.bins) == len(rows)
    assert data.n == pytest.approx(w.sum(), rel=SUMS)
    assert (
        data.ece
        == ece.get()
        == pytest.approx(sum(b.weight * abs(b.prediction - b.frequency) for b in data.bins) / data.n, rel=SUMS)
    )
    # One value under one name, whatever is drawn.
    assert ece.reliability(bins=6).ece == filled(DebiasedECE, rows).reliability().ece == ece.get()
    for b in data.bins:
        held = (p >= b.low) & (p <= b.high)
        assert b.count == held.sum()
        assert b.weight == pytest.approx(w[held].sum(), rel=SUMS)
        assert b.prediction == pytest.approx(np.average(p[held], weights=w[held]), rel=SUMS)
        assert b.frequency == pytest.approx(np.average(y[held], weights=w[held]), rel=SUMS)
        assert b.lower <= b.frequency <= b.upper
        # A bin may miss or gain half a cell at either edge: here a cell weighs less than a tenth of a bin.
        assert b.weight == pytest.approx(data.n / 15, rel=0.1)
    assert all(one.high < two.low for one, two in zip(data.bins, data.bins[1:], strict=False))
    assert np.average(data.scores, weights=data.weights) == pytest.approx(np.average(p, weights=w), rel=SUMS)


def test_equal_weights_give_the_interval_of_the_count() -> None:
    ece = EqualMassECE(bins=1)
    ece.update_many([True] * 10 + [False] * 30, [0.5] * 40, [0.25] * 40)
    only = ece.reliability(0.9).bins[0]
    assert (only.lower, only.upper) == pytest.approx(wilson_interval(0.25, 40, 1.6448536269514722), rel=SUMS)


def test_wilson_interval_solves_its_equation() -> None:
    """The ends are the p at which the observed frequency is exactly z standard errors away."""
    for frequency, n, z in [(0.003, 1_000, 1.96), (0.5, 10, 2.58), (0.98, 77.5, 1.0)]:
        for p in wilson_interval(frequency, n, z):
            assert abs(frequency - p) == pytest.approx(z * math.sqrt(p * (1 - p) / n), rel=1e-9)  # square roots
    assert wilson_interval(0.0, 50, 1.96)[0] == 0.0
    assert wilson_interval(1.0, 50, 1.96)[1] == 1.0


@pytest.mark.parametrize(("n", "rate"), [(2_000, 0.003), (2_000, 0.001), (2_000, 0.01), (500, 0.1), (200, 0.5)])
def test_wilson_interval_covers_rare_events(n: int, rate: float) -> None:
    """The exact coverage at 95 %, summed over all counts.

    Counts are whole numbers, so that the coverage of any interval swings around its level as the rate
    moves; Wilson's by up to .02 where 2 or more positives are expected. That of f ± 1.96 σ is .86 at n =
    2000, rate .001.
    """
    z = 1.959963984540054
    covered = sum(
        binom.pmf(k, n, rate)
        for k in range(n + 1)
        if wilson_interval(k / n, n, z)[0] <= rate <= wilson_interval(k / n, n, z)[1]
    )
    assert covered == pytest.approx(0.95, abs=0.02)


def test_reliability_refuses_nothing_and_bad_confidence() -> None:
    with pytest.raises(InputError, match="update the metric"):
        EqualMassECE().reliability()
    with pytest.raises(InputError, match="confidence"):
        filled(EqualMassECE, [(0.5, True, 1.0)]).reliability(95)


def test_metrics_do_not_change_when_read() -> None:
    ece = filled(EqualMassECE, stream(200))
    before = pickle.dumps(ece)
    _ = ece.get(), ece.error_bound, ece.reliability(), repr(ece)
    assert pickle.dumps(ece) == before


@pytest.mark.parametrize("make", [*METRICS, DebiasedECE])
@pytest.mark.parametrize("p", [0.5, 0.1])  # in the cell of what is reverted, and beside it
@pytest.mark.parametrize("w", [1e60, 1e10])
def test_a_retraction_that_leaves_what_rounding_has_reached_is_refused(make, p, w) -> None:
    metric = filled(make, [(0.5, True, w), (p, True, 1.0)])
    before = pickle.dumps(metric)
    with pytest.raises(RetractionError, match="rounding"):
        metric.revert(True, 0.5, w)
    assert pickle.dumps(metric) == before


@pytest.mark.parametrize("make", [EqualMassECE, DebiasedECE])
def test_an_effective_number_is_one_of_the_observations_held(make) -> None:
    metric = filled(make, [(0.5, True, 1e9), (0.5, True, 1.0), (0.5, False, 1.0), (0.5, False, 2.0)])
    metric.revert(True, 0.5, 1e9)  # whose square leaves nothing of the squares of the others
    (found,) = metric.reliability().bins
    assert found.weight == 4.0
    assert 0.0 < found.lower < found.frequency < found.upper < 1.0
    assert metric.get() <= 1.0
