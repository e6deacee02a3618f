"""What the conformance suite of fusion works with: every method in its variants, and streams whose scores are tuples.

The models of the policies, and what else does not depend on the number of scores, are those of `laws`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from laws import (
    POLICIES,
    RIDGED,
    SOLVED,
    Observation,
    assert_close,
    exact_times,
    exact_weights,
    is_sequential,
    labels,
    marks,
    solved_exactly,
    variants,
)

from streamcal import Forever, Interval, Logit
from streamcal.fusion import METHODS, BernsteinFusion, Fusion

#: By how much two may differ that ought to be equal; a method not named here: SOLVED.
TOLERANCES = {"bernstein-fusion": RIDGED, "prequential-fusion": RIDGED}
#: The laws are walked with these, and with every other value a parameter may have (`laws.variants`).
SMALL: dict[str, dict[str, Any]] = {
    "bernstein-fusion": {"degrees": 3},
    "prequential-fusion": {"candidates": (BernsteinFusion(1), BernsteinFusion(3))},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "bernstein-fusion": [{"degrees": (2, 4)}, {"n_scores": 3, "degrees": 2}, {"n_scores": 1}],
}
SCALES = [{"scale": (Logit(), Interval(-1.0, 2.0))}]
#: As many as make the suite last seconds: the memories have met their laws in `test_conformance.py`.
few = settings(max_examples=max(2, settings.default.max_examples // 4))


@dataclass(frozen=True)
class Case:
    """A method under a policy; sequential methods have none."""

    method: type[Fusion]
    policy: str | None

    def __str__(self):
        return self.method.name if self.policy is None else f"{self.method.name}-{self.policy}"

    def build(self, **params):
        params = {**SMALL.get(self.method.name, {}), **params}
        return self.method(**params, **({} if self.policy is None else {"forgetting": POLICIES[self.policy]}))

    def variants(self):
        scales = SCALES if "scale" in self.build().params() else []
        return variants(self.method) + scales + MORE.get(self.method.name, [])

    def fusions(self):
        return st.sampled_from(self.variants()).map(lambda params: self.build(**params))


ALL = [
    Case(method, policy)
    for method in METHODS.values()
    for policy in ([None] if is_sequential(method) else list(POLICIES))
]

#: One method of each statistic.
FIRST = (METHODS["bernstein-fusion"], METHODS["partial-order-venn-abers"])


def each(keep=lambda case: True):
    found = [
        pytest.param(case, id=str(case), marks=marks(case.policy, case.method in FIRST)) for case in ALL if keep(case)
    ]
    return pytest.mark.parametrize("case", found)


def under(*policies):
    return each(lambda case: case.policy in policies)


ANY_POLICY = tuple(POLICIES)

# -- streams of observations whose score is a tuple ----------------------------------------------------------------

exact_scores = st.integers(0, 8).map(lambda k: k / 8)
observations = st.builds(Observation, st.tuples(*[exact_scores] * 3), labels, exact_weights, exact_times)
rough_observations = st.builds(
    Observation, st.tuples(*[st.floats(0.0, 1.0)] * 3), labels, st.floats(0.01, 100.0), exact_times
)


def drawn(data, cal, min_size=0, max_size=10, of=observations):
    """A stream for as many scores as the fusion takes."""
    stream = data.draw(st.lists(of, min_size=min_size, max_size=max_size))
    return [o._replace(score=o.score[: cal.params().get("n_scores", 2)]) for o in stream]


def columns(stream, width):
    scores = np.array([o.score for o in stream], dtype=np.float64).reshape(-1, width)
    return scores, *(np.array([o[k] for o in stream], dtype=np.float64) for k in (1, 2, 3))


def width_of(cal):
    return cal.params().get("n_scores", 2)


def learned_many(cal, stream):
    cal.learn_many(*columns(stream, width_of(cal)))
    return cal


def probes(cal):
    """The corners of the cube, and places within it, the same ones always."""
    width = width_of(cal)
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=width)))
    return np.vstack((corners, np.random.default_rng(0).random((20, width)), np.full((1, width), 0.125)))


def tolerance(cal):
    return TOLERANCES.get(cal.name, SOLVED)


def assert_same(one, other, within=None):
    """The two hold the same weight and predict the same."""
    assert one.n == pytest.approx(other.n, rel=1e-12, abs=1e-12)
    atol, one, other = tolerance(one) if within is None else within, solved_exactly(one), solved_exactly(other)
    assert_close(one.predict_many(probes(one)), other.predict_many(probes(one)), atol)
    if one.has_interval:
        assert_close(one.predict_interval_many(probes(one)), other.predict_interval_many(probes(one)), atol)


def without_forgetting(cal, held):
    return learned_many(type(cal)(**{**cal.params(), "forgetting": Forever()}), held)
