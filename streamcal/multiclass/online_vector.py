"""`OnlineVectorScaling`: vector scaling by the online Newton step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.calibrators.newton import INITIAL_CURVATURE, LARGEST_CURVATURE, NEWTON_GAMMA, RADIUS
from streamcal.kernels.common import class_scores
from streamcal.kernels.newton.online_softmax import OnlineSoftmax
from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap, VectorSharesMap, by_label
from streamcal.multiclass.labels import (
    ClassLabel,
    ClassScores,
    check_class,
    read_batch,
    read_observation,
    read_scores,
    shares,
    with_label,
)
from streamcal.multiclass.softmax import ScaledLogsMap
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.numbers import real_number
from streamcal.parameters.types import Time, Times
from streamcal.states import (
    HEAVIEST,
    ROUNDING,
    Field,
    ensure,
    listed,
    number,
    numbers,
    row,
    unread,
    weight_scale_state,
)
from streamcal.statistics.class_table import log_scores


class OnlineVectorScaling(MulticlassCalibrator):
    """Vector scaling, p_L proportional to exp(a_L ln s_L + b_L), updated by one online Newton step per outcome.

    With g the gradient of the log loss in all (a, b):  A ← A + g gᵀ,  (a, b) ← Π_A((a, b) − A⁻¹ g / γ), where
    Π_A is the projection on the ball of radius 100 around the identity in the norm of A; γ = 0.1 and A₀ = 100·I, as in
    `OnlinePlatt(discount=1)`. A label that appears later starts with a = 1, b = 0, and its part of A₀.

    Parameters
    ----------
    discount : float
        d in A ← d·A + (1 − d)·A₀ + g gᵀ, 0 < d ≤ 1. Below 1 the method keeps following drift, with a memory of about
        1/(1 − d) observations.

    Notes
    -----
    Weights count relative to their running mean: multiplying all by one number changes nothing. Scores must sum to one,
    up to 0.01; ln s is limited to −16 from below. For more than two classes the step, A₀ and γ are those for two, which
    is ours. So is this rule: for more than two classes, the n-th outcome, of a label that came m times before, moves
    the slope of that label by 30 m³/n, at least 0.1 and at most 1, of its part of g. The first outcomes of a rare
    label, which a base may not have named, then do not flatten it. Cost: O(K²) per observation for K labels, O(K³) with
    a discount: 8 µs to learn and predict for 10 labels without one; O(K²) memory.

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, algorithm 1, for two classes.

    Examples
    --------
    >>> cal = OnlineVectorScaling()
    >>> for _ in range(300):
    ...     cal.learn_one({"a": 0.8, "b": 0.1, "c": 0.1}, "c")
    >>> cal.predict_one({"a": 0.8, "b": 0.1, "c": 0.1})["c"] > 0.9
    True
    """

    name = "online-vector-scaling"
    summary = "a slope and an offset for each class, by online Newton steps"
    sums_to_one = True
    bounded_memory = True

    def __init__(self, *, discount: float = 1.0) -> None:
        self.discount = real_number(discount, "discount", "a number above 0 and at most 1", above=0.0, most=1.0)
        self._newton = OnlineSoftmax(NEWTON_GAMMA, INITIAL_CURVATURE, RADIUS, self.discount)
        self._places: dict[ClassLabel, int] = {}

    @property
    def n(self) -> float:
        return self._newton.weight

    def tally(self) -> dict[str, int]:
        """Return an empty dict: no input is clamped or dropped."""
        return {}

    def learn_many(
        self,
        P: ArrayLike,
        y: Sequence[ClassLabel] | NDArray[Any],
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> None:
        batch = read_batch(P, y, w, labels, self.sums_to_one)
        self._times(t, len(batch.outcome))
        for scores, label, weight in batch.one_by_one():
            self._learn(scores, label, weight, 0.0)

    def _checked(self, scores: ClassScores, y: ClassLabel, w: float, t: Time | None) -> tuple[Any, Any, float, float]:
        read, label = read_observation(scores, y, self.sums_to_one)
        return with_label(read, label), label, check_weight(w), 0.0

    def predict_one(self, scores: ClassScores, t: Time | None = None) -> dict[ClassLabel, float]:
        """Return the probabilities of the labels of `scores`, as of time `t`; the state does not change."""
        read = read_scores(scores, self.sums_to_one)
        labels, x = list(read), list(read.values())
        if not self._places:
            return by_label(scores, labels, shares(x))
        z = self._newton.log_odds(list(map(self._places.get, labels)), log_scores(x))
        return by_label(scores, labels, class_scores.softmax(z))

    def _map_at(self, t: Time | None) -> MulticlassMap:
        return self.map()

    def map(self) -> MulticlassMap:
        if not self._places:
            return VectorSharesMap()
        return ScaledLogsMap(dict(zip(self._places, self._newton.parameters(), strict=True)))

    def _step(self, scores: dict[ClassLabel, float], y: ClassLabel, w: float) -> None:
        places = list(map(self._places.get, scores))
        if None in places:
            for label in scores:
                if label not in self._places:
                    self._places[label] = len(self._places)
                    self._newton.add_class()
            places = [self._places[label] for label in scores]
        self._newton.step(places, log_scores(list(scores.values())), places.index(self._places[y]), w)

    def _fields(self) -> dict[str, Field]:
        newton = row(unread, unread, unread, unread, number(0.0, HEAVIEST), weight_scale_state)
        return {
            "labels": Field(listed(check_class), lambda: list(self._places)),
            "newton": Field(newton, lambda: list(self._newton.state())),
        }

    def _load(self, *, labels: list[ClassLabel], newton: tuple[Any, ...]) -> None:
        size, largest = 2 * len(labels), LARGEST_CURVATURE
        ensure(len(set(labels)) == len(labels), "a label occurs twice")
        delta = numbers(size)(newton[0])
        ensure(np.linalg.norm(delta) <= RADIUS * (1.0 + ROUNDING), "the parameters are outside of their ball")
        d = numbers(size, least=INITIAL_CURVATURE * (1.0 - ROUNDING), most=largest)(newton[1])
        rows = [
            numbers(i, least=-math.sqrt(largest), most=math.sqrt(largest))(one)
            for i, one in enumerate(listed(unread, length=size)(newton[2]))
        ]
        seen = numbers(len(labels), least=0.0, most=HEAVIEST)(newton[3])
        self._places = {label: place for place, label in enumerate(labels)}
        self._newton.load(delta.tolist(), d.tolist(), [one.tolist() for one in rows], seen.tolist(), *newton[4:])
