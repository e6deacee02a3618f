"""`MulticlassVennAbers`: Venn-Abers predictors, one against the rest or one against one, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray

from streamcal.calibrators.venn_abers import VennAbers
from streamcal.learners.learner import in_turn
from streamcal.multiclass.base import rows_like
from streamcal.multiclass.binary_subproblems import BinarySubproblems
from streamcal.multiclass.labels import ClassLabel, ClassScores, read_scores
from streamcal.multiclass.strategies import OneAgainstOne, OneAgainstRest, Strategy, Subproblem, coupled
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of
from streamcal.parameters.types import FloatArray, Time, Times

STRATEGIES: dict[str, type[Strategy]] = {"ovr": OneAgainstRest, "ovo": OneAgainstOne}


class MulticlassVennAbers(BinarySubproblems):
    """Inductive Venn-Abers predictors for several classes, from raw score vectors.

    `"ovr"`: one predictor for each label L, with the score s_L and the binary label y = L; the probabilities are
    divided by their sum. `"ovo"`: one for each pair (I, J), with the score s_J/(s_I + s_J), from the observations whose
    label was I or J; with r the probability in favour of I in each of its pairs, p_I is proportional to 1 / (Σ 1/r − (K
    − 2)).

    Parameters
    ----------
    strategy : {"ovr", "ovo"}
        One against the rest, K predictors; or one against one, K(K − 1)/2.
    point : {"log-minimax", "brier-minimax", "self-consistent"}
        How each interval is reduced to one probability: see `VennAbers`.
    forgetting : Forgetting
        The forgetting policy, applied to whole observations: a window by count holds the last observations of the
        stream, and a predictor of a pair learns from those among them whose label is one of the two.
    resolution : int or None
        See `VennAbers`.

    Notes
    -----
    Scores lie in [0, 1] and need not sum to one. Cost: each predictor O(log² k) per observation and prediction, and
    O(k) memory, for k distinct scores. The Venn-Abers theorem holds for each predictor under its conditions (see
    `VennAbers`), on the observations it learns from, and not after coupling and dividing by the sum. For the same
    scores and labels the PyPI package venn-abers gives the same predictions.

    References
    ----------
    V. Manokhin, Multi-class probabilistic classification using inductive and cross Venn-Abers predictors, COPA 2017.

    Examples
    --------
    >>> cal = MulticlassVennAbers("ovo")
    >>> cal.learn_many([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.2, 0.3, 0.5]], ["a", "b", "c"], labels=["a", "b", "c"])
    >>> cal.predict_intervals_one({"a": 0.8, "b": 0.1, "c": 0.1})[("a", "b")]
    (0.0, 0.5)
    >>> {label: round(p, 3) for label, p in cal.predict_one({"a": 0.6, "b": 0.3, "c": 0.1}).items()}
    {'a': 0.333, 'b': 0.333, 'c': 0.333}
    """

    name = "multiclass-venn-abers"
    summary = "Venn-Abers predictors one against the rest or one against one, with their intervals"
    has_interval = True

    def __init__(
        self,
        strategy: Literal["ovr", "ovo"] = "ovr",
        point: Literal["log-minimax", "brier-minimax", "self-consistent"] = "log-minimax",
        *,
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
    ) -> None:
        self.strategy = one_of(strategy, "strategy", STRATEGIES)
        self.point = point
        self.forgetting = forgetting
        self._venn_abers = VennAbers(point, forgetting=forgetting, resolution=resolution)
        self.resolution = self._venn_abers.resolution
        super().__init__(self._venn_abers, STRATEGIES[strategy]())

    def predict_intervals_one(
        self, scores: ClassScores, t: Time | None = None
    ) -> dict[Subproblem, tuple[float, float]]:
        """Return the multiprobability (p₀, p₁) of each predictor: by (label,), or by (I, J), then in favour of J.

        Exact, before coupling and dividing. A predictor without observations gives (0, 1).
        """
        read = read_scores(scores, self.sums_to_one)
        predictors, intervals = self._predictors_at(t), {}
        for key in self._strategy.subproblems(list(read)):
            predictor: Any = predictors.get(key) or self._venn_abers.empty_map()
            intervals[key] = predictor.interval_at(self._venn_abers.scale.coordinate(self._strategy.score(key, read)))
        return intervals

    def predict_interval_one(self, scores: ClassScores, t: Time | None = None) -> dict[ClassLabel, tuple[float, float]]:
        """Return (p₀, p₁) for each label of `scores` before dividing by the sum; `predict_one` can lie outside.

        `"ovr"`: the multiprobability of its predictor. `"ovo"`: the ends of its pairs, coupled like the probabilities;
        coupling is increasing in every pair, so that the label's own probability, before dividing, lies between.
        """
        intervals = self.predict_intervals_one(scores, t)
        if self.strategy == "ovr":
            return {label: intervals[(label,)] for label in scores}
        ends: dict[ClassLabel, list[tuple[float, float]]] = {label: [] for label in scores}
        for (other, own), (lower, upper) in intervals.items():
            ends[own].append((lower, upper))
            ends[other].append((1.0 - upper, 1.0 - lower))
        return {
            label: (coupled([low for low, _ in pairs]), coupled([high for _, high in pairs]))
            for label, pairs in ends.items()
        }

    def predict_interval_learn_many(
        self,
        P: ArrayLike,
        y: Sequence[ClassLabel] | NDArray[Any],
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Do what `predict_learn_many` does and return (probabilities, lower, upper), three arrays of shape (n, K)."""
        rows = in_turn(self._predict_with_interval_one, self._learn_checked, self._rows(P, y, w, t, labels))
        p, lower, upper = (rows_like(P, [row[k] for row in rows], labels) for k in range(3))
        return p, lower, upper

    def _predict_with_interval_one(self, scores: ClassScores, t: Time | None) -> tuple[dict[ClassLabel, float], ...]:
        """Return the probabilities, and the lower and upper ends, by label."""
        ends = self.predict_interval_one(scores, t)
        lower, upper = ({label: pair[k] for label, pair in ends.items()} for k in (0, 1))
        return self.predict_one(scores, t), lower, upper
