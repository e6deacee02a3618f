"""A label that comes late: what was learned before it was known counts against it.

An observation that does not name a label is one in which the label has the score 0. The state of every additive
method is a function of the observations held, so that the order of learning, merging and retraction need no rule for
labels that are new.
"""

import numpy as np
import pytest
from laws import ROUNDED, Observation, learned
from laws.multiclass import RIDGED

from streamcal import Decay, Isotonic, Prior, Window
from streamcal.multiclass import (
    Dirichlet,
    MulticlassVennAbers,
    OneVsRest,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)

#: Every method with parameters of a label, and the largest probability that one occurrence in 2,001 observations gives
#: to a label whose score is 0.001. Of a sum over three pairs the interval adds twice 1/2,001 to the share; a softmax
#: passes between the share at the score 0 and its prior, which is the score.
METHODS = {
    "isotonic": (lambda: OneVsRest("isotonic"), 0.001),
    "beta": (lambda: OneVsRest("beta"), 0.001),
    "platt": (lambda: OneVsRest("platt"), 0.001),
    "bernstein": (lambda: OneVsRest("bernstein"), 0.001),
    "histogram-binning": (lambda: OneVsRest("histogram-binning"), 0.001),
    "one-vs-rest venn-abers": (lambda: OneVsRest("venn-abers"), 0.0015),
    "ovr": (lambda: MulticlassVennAbers("ovr"), 0.0015),
    "ovo": (lambda: MulticlassVennAbers("ovo"), 0.0015),
    "vector-scaling": (VectorScaling, 0.05),
    "dirichlet": (Dirichlet, 0.05),
    "structured": (StructuredMatrixScaling, 0.05),
}
STEPS = ("isotonic", "ovr", "ovo")
PROBE = {"a": 0.3, "b": 0.4, "c": 0.299, "z": 0.001}
LATE = Observation({"a": 0.3, "b": 0.4, "c": 0.3}, "z")
each = pytest.mark.parametrize("name", METHODS)


def stream(size, seed=0):
    """Rows of a, b and c, calibrated."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), size)
    came = (P.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    return [Observation(dict(zip("abc", row, strict=True)), "abc"[y]) for row, y in zip(P.tolist(), came, strict=True)]


def learn_together(cal, rows):
    cal.learn_many([list(o.x.values()) for o in rows], [o.y for o in rows], labels=list("abc"))
    return cal


@each
def test_one_occurrence_does_not_take_the_forecast(name):
    build, most = METHODS[name]
    cal = learn_together(build(), stream(2000))
    cal.learn_one(*LATE)
    assert cal.predict_one(PROBE)["z"] < most
    assert cal.map()(PROBE) == pytest.approx(cal.predict_one(PROBE), abs=ROUNDED)
    assert cal.predict_many([list(PROBE.values())], labels=list(PROBE))[0, 3] < most


@each
def test_a_label_that_goes_on_coming_is_believed(name):
    """100 observations in which it has the score 0.6, and comes in six of ten."""
    cal = learn_together(METHODS[name][0](), stream(500))
    cal.learn_one(*LATE)
    for k in range(100):
        cal.learn_one(
            {"a": 0.2, "b": 0.1, "c": 0.1, "z": 0.6}, "z" if k % 10 < 6 else "a" if k % 10 < 8 else "bc"[k % 2]
        )
    p = cal.predict_one({"a": 0.2, "b": 0.1, "c": 0.1, "z": 0.6})["z"]
    assert p == pytest.approx(0.6, abs=0.15)  # four binary fits, divided by their sum


@pytest.mark.sample(7)
@each
@pytest.mark.parametrize("places", [(0, 60), (60, 0), (30, 1)])
def test_the_row_that_names_a_label_first_may_stand_anywhere(name, places):
    rows = stream(60)
    named = Observation({"a": 0.25, "b": 0.25, "c": 0.25, "z": 0.25}, "z")
    found = []
    for put in (places, (60, 60)):
        order = list(rows)
        for place, late in zip(put, (LATE, named), strict=True):
            order.insert(place, late)
        found.append([learned(METHODS[name][0](), order).predict_one(probe) for probe in (PROBE, named.x)])
    for one, other in zip(*found, strict=True):
        # Sums of weights 1 are exact; solvers stop, and those without a prior end at a ridge.
        assert one == pytest.approx(other, abs=ROUNDED if name in STEPS else RIDGED)


@each
def test_calibrators_of_which_one_never_saw_the_label_merge(name):
    build, rows = METHODS[name][0], stream(80)
    named = Observation({"z": 0.5, "a": 0.5}, "a")
    left, right = rows[:40], [*rows[40:], LATE, named]
    whole = learned(build(), left + right)
    for one, other in ((left, right), (right, left)):
        merged = learned(build(), one)
        merged.merge(learned(build(), other))
        for probe in (PROBE, named.x):
            assert merged.predict_one(probe) == pytest.approx(
                whole.predict_one(probe), abs=ROUNDED if name in STEPS else RIDGED
            )


@each
def test_a_label_that_is_retracted_is_unknown_again(name):
    build, rows = METHODS[name][0], stream(40)
    cal, never = learned(build(), [*rows[:20], LATE, *rows[20:]]), learned(build(), rows)
    cal.unlearn_one(*LATE)
    within = ROUNDED if name in STEPS else RIDGED
    assert cal.predict_one(PROBE) == pytest.approx(never.predict_one(PROBE), abs=within)
    for o in rows:
        cal.unlearn_one(*o)
    assert cal.predict_one(PROBE) == pytest.approx(PROBE, abs=ROUNDED)


@pytest.mark.parametrize(
    "build", [lambda p: OneVsRest(Isotonic(forgetting=p)), lambda p: MulticlassVennAbers("ovo", forgetting=p)]
)
@pytest.mark.parametrize("policy", [Window(30), Decay(8.0)], ids=repr)
def test_a_policy_forgets_what_counts_against_a_label(build, policy):
    """A window is a fresh fit of what it holds, and decay one with the weights of today."""
    rows = [*stream(50), LATE, *stream(20, 1), Observation(PROBE, "a")]
    cal, fresh = learned(build(policy), rows), build(type(policy)(10**9))
    weights = [1.0] * 30 if isinstance(policy, Window) else [2.0 ** (-k / 8.0) for k in range(len(rows))][::-1]
    for o, w in zip(rows[-len(weights) :], weights, strict=True):
        fresh.learn_one(o.x, o.y, w)
    assert cal.predict_one(PROBE) == pytest.approx(fresh.predict_one(PROBE), abs=1e-6)  # half-lives of 10⁹


def test_subproblems_without_a_prior_and_with_one_hold_the_same_rows():
    """With pseudo-observations the rows that do not name a label are still those of every other label."""
    rows = stream(50)
    with_prior = learned(OneVsRest(Isotonic(prior=Prior(2.0))), [*rows, LATE])
    binary = Isotonic(prior=Prior(2.0))
    binary.learn_many([0.0] * 51, [0] * 50 + [1])
    p = with_prior.predict_one({**LATE.x, "z": 0.0})
    shares = {}
    for label in "abc":
        one = Isotonic(prior=Prior(2.0))
        one.learn_many([o.x[label] for o in [*rows, LATE]], [o.y == label for o in [*rows, LATE]])
        shares[label] = one.predict_one(LATE.x[label])
    shares["z"] = binary.predict_one(0.0)
    total = sum(shares.values())
    assert p == pytest.approx({label: share / total for label, share in shares.items()}, abs=1e-9)


def test_a_temperature_has_nothing_to_learn_of_a_label():
    rows = stream(50)
    cal = learned(TemperatureScaling(), [*rows, Observation({"a": 0.5, "z": 0.5}, "a")])
    other = learned(TemperatureScaling(), [*rows, Observation({"a": 0.5, "b": 0.5}, "a")])
    assert cal.map().slope == pytest.approx(other.map().slope, abs=1e-9)
