"""`solve(statistic, start)` is a pure function of a statistic in units of an observation of today.

A calibrator that has learned nothing solves the statistic that another one holds, and gives the map of that one: so
nothing is read but the argument. The statistic is left as it was, and so is the calibrator that solved.
"""

import json

import numpy as np
import pytest
from laws import trying

import streamcal.fusion
import streamcal.multiclass
import streamcal.regression
from streamcal import REGISTRY, Decay, Forever, Window
from streamcal.multiclass import MulticlassVennAbers, OneVsRest
from streamcal.regression import EmpiricalDensity, Normal
from streamcal.states import plain

POLICIES = {
    "forever": Forever(),
    "window": Window(20),
    "time-window": Window(15.0, by="time"),
    "decay": Decay(5.0),
    "time-decay": Decay(8.0, by="time"),
}
#: Solvers are started from nothing here and from the previous map there: so much lies between their answers. Of the
#: Bernstein methods and `monotone-polynomial`, sums in another order of rounding are magnified by small ridges.
WITHIN = {
    "bernstein": 1e-4,
    "bernstein-logistic": 1e-4,
    "monotone-polynomial": 5e-3,
    "copula-fusion": 1e-4,
    "bernstein-fusion": 1e-6,
}
SUPPORT = (-3.0, 3.0)


def additive(methods):
    return [method for method in methods.values() if hasattr(method, "solve")]


def each_of_one_score():
    return [(method.name, lambda policy, method=method: method(forgetting=policy)) for method in additive(REGISTRY)]


def each_fusion():
    return [
        (method.name, lambda policy, method=method: method(forgetting=policy))
        for method in additive(streamcal.fusion.METHODS)
    ]


def each_of_many_classes():
    plain = [method for method in additive(streamcal.multiclass.METHODS) if method not in (OneVsRest,)]
    made = [(method.name, lambda policy, method=method: method(forgetting=policy)) for method in plain]
    made += [("ovo", lambda policy: MulticlassVennAbers("ovo", forgetting=policy))]
    return made + [
        (f"one-vs-rest {name}", lambda policy, name=name: OneVsRest(REGISTRY[name](forgetting=policy)))
        for name in ("beta", "isotonic", "bernstein", "cross-venn-abers")
    ]


def of_segments(policy):
    return EmpiricalDensity(REGISTRY["beta"](forgetting=policy), 4, support=SUPPORT)


def each_of_distributions():
    plain = [method for method in additive(streamcal.regression.METHODS) if method is not EmpiricalDensity]
    needs_support = ("isotonic-distributional", "venn-abers-regression", "gaussian-process-cdf")
    made = [
        (
            method.name,
            lambda policy, method=method: (
                method(forgetting=policy, support=SUPPORT, thresholds=4)
                if method.name in needs_support
                else method(forgetting=policy)
            ),
        )
        for method in plain
    ]
    made.append(("empirical-density", of_segments))
    return made


def stream():
    rng = np.random.default_rng(3)
    scores = rng.integers(1, 20, 40) / 20.0
    return zip(scores.tolist(), (rng.random(40) < scores).tolist(), np.arange(40.0).tolist(), strict=True)


def of_one_score(cal):
    for score, y, t in stream():
        cal.learn_one(score, y, t=t)
    return lambda map: map.predict_many(np.linspace(0.02, 0.98, 25))


def of_several(cal):
    for score, y, t in stream():
        cal.learn_one([score, score**2], y, t=t)
    return lambda map: map.predict_many(np.array([[0.1, 0.4], [0.5, 0.5], [0.9, 0.2]]))


def of_classes(cal):
    for score, y, t in stream():
        cal.learn_one(
            {"a": score / 2.0, "b": 1.0 - score, "c": score / 2.0}, "a" if y else "b" if score < 0.5 else "c", t=t
        )
    return lambda map: map.predict_many([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], labels=["a", "b", "c"])


def of_distributions(cal):
    for score, y, t in stream():
        cal.learn_one(Normal(score - 0.5, 1.0), 1.4 if y else -score, t=t)
    return lambda map: map.predict_one(Normal(0.1, 1.0)).cdf(np.linspace(-2.0, 2.0, 9))


KINDS = [
    *[(*one, of_one_score) for one in each_of_one_score()],
    *[(*one, of_several) for one in each_fusion()],
    *[(*one, of_classes) for one in each_of_many_classes()],
    *[(*one, of_distributions) for one in each_of_distributions()],
]


@pytest.mark.sample(14)
@pytest.mark.parametrize(("name", "make", "learn"), KINDS, ids=[name for name, _, _ in KINDS])
def test_a_calibrator_that_learned_nothing_solves_the_statistic_of_another(name, make, learn):
    for policy in POLICIES.values():
        with trying(policy):
            assert_solves(name, make(policy), learn)


def assert_solves(name, cal, learn):
    predictions = learn(cal)
    solver = cal.clone()
    statistic = cal._engine.memory.present(None)
    held = json.dumps(plain(statistic.state()))
    expected = predictions(cal.map())

    first = predictions(solver.solve(statistic, None))
    assert first == pytest.approx(expected, rel=0.0, abs=WITHIN.get(name, 1e-6 if "beta" in name else 1e-8))
    again = predictions(solver.solve(statistic, solver.solve(statistic, None)))
    assert again == pytest.approx(first, rel=0.0, abs=WITHIN.get(name, 1e-6 if "beta" in name else 1e-8))
    assert json.dumps(plain(statistic.state())) == held, "solving changes nothing that is held"
    assert solver.n == 0.0
    assert solver._engine.memory.holds_nothing


@pytest.mark.parametrize(("name", "make", "learn"), KINDS, ids=[name for name, _, _ in KINDS])
def test_the_present_statistic_is_in_units_of_today(name, make, learn):
    for policy in ("decay", "time-decay"):
        cal = make(POLICIES[policy])
        learn(cal)
        assert cal._engine.memory.present(None).n == pytest.approx(cal.n, rel=1e-12)
        assert cal._engine.memory.statistic.unit == 1.0, "what is kept has its own units"
