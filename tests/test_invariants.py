"""The invariants of every statistic under every memory, checked after each change of hard streams of operations.

`invariants.check` says in code what stands as prose above the data of a statistic, a memory and a learner. Here every
learner of every kind is driven by Hypothesis: learning, in bulk too, retracting, merging, predicting as of a later
time, saving and loading, with ties, weights from 1e-60 to 1e60 and times out of order.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invariants import check

from streamcal import (
    Bernstein,
    CrossVennAbers,
    Decay,
    Forever,
    Gaussian,
    HistogramBinning,
    Identity,
    Isotonic,
    MonotonePolynomial,
    NearIsotonic,
    Platt,
    Prior,
    RetractionError,
    Window,
)
from streamcal.fusion import BernsteinFusion, PartialOrderVennAbers
from streamcal.multiclass import MulticlassVennAbers, OneVsRest, TemperatureScaling
from streamcal.regression import EmpiricalDensity, GaussianProcessCDF, Normal, QuantileRecalibration

POLICIES = {
    "forever": Forever(),
    "window": Window(4),
    "time-window": Window(6.0, by="time"),
    "decay": Decay(1.5),
    "time-decay": Decay(2.0, by="time"),
}
#: One learner for each statistic, and for each way in which statistics are put together.
LEARNERS = {
    "Totals": lambda policy: Identity(forgetting=policy),
    "LabelMoments": lambda policy: Gaussian(forgetting=policy),
    "BernsteinMoments": lambda policy: Bernstein(3, forgetting=policy),
    "ChebyshevMoments": lambda policy: MonotonePolynomial(2, forgetting=policy),
    "ScoreTable": lambda policy: HistogramBinning(3, resolution=None, forgetting=policy),
    "GridTable": lambda policy: NearIsotonic(resolution=16, forgetting=policy, refresh_every=3),
    "ScoreTree": lambda policy: Isotonic(forgetting=policy),
    "ScoreTree on a grid": lambda policy: Isotonic(resolution=8, forgetting=policy),
    "FoldedTrees": lambda policy: CrossVennAbers(folds=2, forgetting=policy),
    "VectorTable": lambda policy: PartialOrderVennAbers(resolution=4, forgetting=policy),
    "TensorMoments": lambda policy: BernsteinFusion(2, forgetting=policy),
    "ClassTable": lambda policy: TemperatureScaling(forgetting=policy),
    "Subproblems": lambda policy: OneVsRest(Isotonic(forgetting=policy)),
    "Subproblems of pairs": lambda policy: MulticlassVennAbers("ovo", forgetting=policy),
    "Subproblems of segments": lambda policy: EmpiricalDensity(
        HistogramBinning(2, forgetting=policy), 3, support=(-2.0, 2.0)
    ),
    "ThresholdTables": lambda policy: GaussianProcessCDF(3, support=(-2.0, 2.0), resolution=16, forgetting=policy),
    "ScoreTree of PITs": lambda policy: QuantileRecalibration(forgetting=policy),
}
FUSED, CLASSES, DISTRIBUTIONS = (
    {"VectorTable", "TensorMoments"},
    {"ClassTable", "Subproblems", "Subproblems of pairs"},
    {"Subproblems of segments", "ThresholdTables", "ScoreTree of PITs"},
)

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["learn", "learn", "learn", "many", "unlearn", "merge", "as of", "save"]),
        st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
        st.booleans(),
        st.sampled_from([1.0, 1.0, 1.0, 0.5, 3.0, 0.0, 1e-60, 1e60]),
        st.floats(0.0, 40.0),
    ),
    max_size=24,
)


def observation(kind, score, label):
    """Return the arguments of a learner for a score and a label."""
    if kind in FUSED:
        return [score, 1.0 - score], label
    if kind in CLASSES:
        return {"a": score, "b": 1.0 - score, 3: 0.0}, "b" if label else 3
    if kind in DISTRIBUTIONS:
        return Normal(4.0 * score - 2.0, 1.0), 1.5 if label else -2.5
    return score, label


def bulk(cal, kind, x, y, w, t):
    """Learn three equal observations at once."""
    if kind in CLASSES:
        cal.learn_many([list(x.values())] * 3, [y] * 3, [w] * 3, [t] * 3, labels=list(x))
    else:
        cal.learn_many([x] * 3, [y] * 3, [w] * 3, [t] * 3)


@pytest.mark.sample(15)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", LEARNERS)
@given(operations=OPERATIONS)
def test_invariants_hold_after_every_change(kind, policy, operations):
    cal = LEARNERS[kind](POLICIES[policy])
    check(cal)
    learned = []
    for operation, score, label, w, t in operations:
        x, y = observation(kind, score, label)
        if operation == "learn":
            cal.learn_one(x, y, w, t)
            learned.append((x, y, w, t))
        elif operation == "many":
            bulk(cal, kind, x, y, w, t)
            learned += [(x, y, w, t)] * 3
        elif operation == "unlearn" and learned and cal.unlearns:
            try:
                cal.unlearn_one(*learned.pop(len(learned) // 2))
            except RetractionError:
                assert policy in ("forever", "time-window", "time-decay")  # sums that were rounded may refuse
        elif operation == "merge" and cal.merges:
            other = cal.clone()
            other.learn_one(x, y, w, t)
            cal.merge(other)
            check(other)
            learned.append((x, y, w, t))
        elif operation == "as of":
            cal._engine.memory.present(t)
        elif operation == "save":
            cal = type(cal).from_state(json.loads(json.dumps(cal.state_dict())))
        check(cal)


@pytest.mark.sample(24)
@pytest.mark.parametrize("policy", ["forever", "window", "time-window", "decay"])
@pytest.mark.parametrize("method", [Platt, Isotonic, HistogramBinning, Bernstein, Gaussian, CrossVennAbers])
@given(operations=OPERATIONS)
def test_invariants_hold_beside_a_prior(method, policy, operations):
    cal = method(prior=Prior(2.0), forgetting=POLICIES[policy])
    check(cal)
    for operation, score, label, _, t in operations:
        if operation == "save":
            cal = type(cal).from_state(json.loads(json.dumps(cal.state_dict())))
        else:
            cal.learn_one(score, label, 1.0, t)
        check(cal)


@pytest.mark.parametrize("by", ["count", "time"])
def test_scores_that_have_faded_away_are_not_counted(by):
    cal = HistogramBinning(3, resolution=None, forgetting=Decay(1.0, by=by))
    cal.learn_one(0.1, True, t=0.0)
    for k in range(600):
        cal.learn_one(0.9, False, t=float(k))
    check(cal)
    assert cal._engine.memory.statistic.count == 600
