"""Calibration maps: immutable functions score → probability, the snapshots that `Calibrator.map()` hands out."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from streamcal.base import CalibrationMap, FloatArray
from streamcal.inputs import check_fold_scores, check_fold_scores_many, check_score, check_scores
from streamcal.kernels import chebyshev
from streamcal.kernels.bernstein import evaluate, evaluate_many
from streamcal.kernels.logistic import sigmoid, sigmoids
from streamcal.scales import Scale
from streamcal.statistics.grid import Grid


class ScaledMap(CalibrationMap):
    """A map of the coordinate on a scale; the base of those below."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    def predict_one(self, score: float) -> float:
        return self.at(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: npt.ArrayLike) -> FloatArray:
        return self.at_many(self.scale.coordinates(check_scores(scores)))

    @abstractmethod
    def at(self, x: float) -> float:
        """The probability at a coordinate."""

    @abstractmethod
    def at_many(self, x: FloatArray) -> FloatArray:
        """The probabilities at an array of coordinates."""


class IdentityMap(ScaledMap):
    """The score itself, read as a probability."""

    def at(self, x: float) -> float:
        return self.scale.probability(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        return self.scale.probabilities(x) + 0.0


class SigmoidMap(ScaledMap):
    """1 / (1 + exp(−(slope·x + offset)))."""

    def __init__(self, scale: Scale, slope: float, offset: float) -> None:
        super().__init__(scale)
        self.slope = slope
        self.offset = offset

    def at(self, x: float) -> float:
        return sigmoid(self.slope * x + self.offset)

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(self.slope * x + self.offset)


class BetaMap(ScaledMap):
    """1 / (1 + exp(−(a·ln s − b·ln(1 − s) + c))) at the score's probability s, its log-odds clamped by the scale."""

    def __init__(self, scale: Scale, a: float, b: float, c: float) -> None:
        super().__init__(scale)
        self.a = a
        self.b = b
        self.c = c

    def at(self, x: float) -> float:
        z = self.scale.logit(x)
        tail = math.log1p(math.exp(-abs(z)))
        return sigmoid(self.a * (min(z, 0.0) - tail) + self.b * (max(z, 0.0) + tail) + self.c)

    def at_many(self, x: FloatArray) -> FloatArray:
        ln_s, ln_not_s = log_probabilities(self.scale.logits(x))
        return sigmoids(self.a * ln_s - self.b * ln_not_s + self.c)


class BinnedSigmoidMap(ScaledMap):
    """values[i] where 1 / (1 + exp(−(slope·x + offset))) falls into bin i of len(values) bins of equal width."""

    def __init__(self, scale: Scale, slope: float, offset: float, values: Sequence[float]) -> None:
        super().__init__(scale)
        self.slope = slope
        self.offset = offset
        self.values = frozen(values)

    def at(self, x: float) -> float:
        return float(self.values[bin_of(sigmoid(self.slope * x + self.offset), len(self.values))])

    def at_many(self, x: FloatArray) -> FloatArray:
        bins = len(self.values)
        places = (sigmoids(self.slope * x + self.offset) * bins).astype(np.intp)
        return self.values[np.minimum(places, bins - 1)]


class SigmoidMixtureMap(ScaledMap):
    """Σ weights[k] / (1 + exp(−(slopes[k]·x + offsets[k]))); the weights sum to 1."""

    def __init__(self, scale: Scale, weights: FloatArray, slopes: Sequence[float], offsets: Sequence[float]) -> None:
        super().__init__(scale)
        self.weights = frozen(weights)
        self.slopes = tuple(slopes)
        self.offsets = tuple(offsets)

    def at(self, x: float) -> float:
        parts = zip(self.weights.tolist(), self.slopes, self.offsets, strict=True)
        return min(sum(weight * sigmoid(slope * x + offset) for weight, slope, offset in parts), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        p = np.zeros_like(x)
        for weight, slope, offset in zip(self.weights.tolist(), self.slopes, self.offsets, strict=True):
            p += weight * sigmoids(slope * x + offset)
        return np.minimum(p, 1.0)


class BernsteinMap(ScaledMap):
    """Σ cᵢ Bᵢⁿ(u) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)

    def at(self, x: float) -> float:
        return min(max(float(evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)


class ChebyshevMap(ScaledMap):
    """Σ cₘ Tₘ(u) at the scale's unit coordinate u; `coefficients` has shape (k + 1,)."""

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)

    def at(self, x: float) -> float:
        return min(max(float(chebyshev.evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(chebyshev.evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)


class BernsteinLogisticMap(ScaledMap):
    """1 / (1 + exp(−Σ cᵢ Bᵢⁿ(u))) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)

    def at(self, x: float) -> float:
        return sigmoid(evaluate(self.coefficients, self.scale.unit(x)))

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(evaluate_many(self.coefficients, self.scale.units(x)))


class RoundedMap(ScaledMap):
    """A function of the coordinate or, where there is a grid, of the coordinate rounded to it; base of those below."""

    def __init__(self, scale: Scale, grid: Grid | None) -> None:
        super().__init__(scale)
        self.grid = grid
        self._by_cell: FloatArray | None = None

    def at_many(self, x: FloatArray) -> FloatArray:
        if self.grid is None:
            return self._values_at(x)
        if self._by_cell is None:
            if len(x) < self.grid.cells:
                return self._values_at(self.grid.rounds(x))
            self._by_cell = frozen(self._values_at(self.grid.centres))
        return self.grid.take(self._by_cell, x)

    @abstractmethod
    def _values_at(self, x: FloatArray) -> FloatArray:
        """The probabilities at an array of coordinates, rounded already."""


class StepMap(RoundedMap):
    """values[i] where cuts[i−1] ≤ x < cuts[i]; shapes (m,) and (m − 1,)."""

    def __init__(self, scale: Scale, cuts: FloatArray, values: FloatArray, grid: Grid | None = None) -> None:
        super().__init__(scale, grid)
        self.cuts = frozen(cuts)
        self.values = frozen(values)

    def at(self, x: float) -> float:
        return float(self.values[bisect_right(self.cuts, x if self.grid is None else self.grid.round(x))])

    def _values_at(self, x: FloatArray) -> FloatArray:
        return self.values[np.searchsorted(self.cuts, x, side="right")]


class KnotMap(RoundedMap):
    """Linear between knots and constant outside."""

    def __init__(self, scale: Scale, knots: FloatArray, values: FloatArray, grid: Grid | None = None) -> None:
        super().__init__(scale, grid)
        self.knots = frozen(knots)
        self.values = frozen(values)

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.knots, x)
        if i in (0, len(self.knots)):
            return float(self.values[min(i, len(self.knots) - 1)])
        return between(x, *self.knots[i - 1 : i + 1].tolist(), *self.values[i - 1 : i + 1].tolist())

    def _values_at(self, x: FloatArray) -> FloatArray:
        i = np.searchsorted(self.knots, x, side="right")
        inside = (i > 0) & (i < len(self.knots))
        result = self.values[np.minimum(i, len(self.knots) - 1)]
        i = i[inside]
        ends = (self.knots[i - 1], self.knots[i], self.values[i - 1], self.values[i])
        result[inside] = [
            between(*one) for one in zip(x[inside].tolist(), *(end.tolist() for end in ends), strict=True)
        ]
        return result


def between(x: float, left: float, right: float, low: float, high: float) -> float:
    """The line from (left, low) to (right, high) at left ≤ x < right; the width may overflow or be subnormal."""
    width = right - left
    share = (x - left) / width if width < math.inf else (0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left)
    return low + share * (high - low)


class IntervalMap(RoundedMap):
    """Venn-Abers intervals: at and right of knots[i] the lower end is lower[i], at and left of it the upper end is
    upper[i] (paper 003, §2, the vectors F⁰ and F¹). `point` makes one probability of the two.
    """

    def __init__(
        self,
        scale: Scale,
        knots: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        point: Callable[[FloatArray, FloatArray], FloatArray],
        grid: Grid | None = None,
    ) -> None:
        super().__init__(scale, grid)
        self.knots = frozen(knots)
        self.lower = frozen(np.concatenate(([0.0], lower)))
        self.upper = frozen(np.concatenate((upper, [1.0])))
        self.point = point

    def interval_at(self, x: float) -> tuple[float, float]:
        """The pair (p₀, p₁) at a coordinate."""
        x = x if self.grid is None else self.grid.round(x)
        return float(self.lower[bisect_right(self.knots, x)]), float(self.upper[bisect_left(self.knots, x)])

    def at(self, x: float) -> float:
        low, high = self.interval_at(x)
        return float(self.point(np.array([low]), np.array([high]))[0])

    def intervals_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The pairs (p₀, p₁) at an array of coordinates."""
        return self._pairs_at(x if self.grid is None else self.grid.rounds(x))

    def _values_at(self, x: FloatArray) -> FloatArray:
        return self.point(*self._pairs_at(x))

    def _pairs_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = self.lower[np.searchsorted(self.knots, x, side="right")]
        return lower, self.upper[np.searchsorted(self.knots, x, side="left")]


class CrossIntervalMap(ScaledMap):
    """Interval maps, one a fold, whose pairs `merge` makes one probability of (paper 003, Algorithm 7).

    Asked for K scores it gives each to its fold; one score counts for every fold.
    """

    def __init__(self, scale: Scale, pieces: Sequence[IntervalMap], merge: Callable) -> None:
        super().__init__(scale)
        self.pieces = tuple(pieces)
        self.merge = merge

    def predict_one(self, score: float | Sequence[float]) -> float:
        return self._merged([self.scale.coordinate(s) for s in check_fold_scores(score, len(self.pieces))])

    def predict_many(self, scores: npt.ArrayLike) -> FloatArray:
        columns = check_fold_scores_many(scores, len(self.pieces))
        return self._merged_many([self.scale.coordinates(column) for column in columns])

    def at(self, x: float) -> float:
        return self._merged([x] * len(self.pieces))

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._merged_many([x] * len(self.pieces))

    def _merged(self, x: Sequence[float]) -> float:
        pairs = [piece.interval_at(place) for piece, place in zip(self.pieces, x, strict=True)]
        return float(self.merge(*zip(*pairs, strict=True)))

    def _merged_many(self, x: Sequence[FloatArray]) -> FloatArray:
        pairs = [piece.intervals_at(places) for piece, places in zip(self.pieces, x, strict=True)]
        merged: FloatArray = self.merge(*zip(*pairs, strict=True))
        return merged


def bin_of(p: float, bins: int) -> int:
    """Which of `bins` bins of equal width holds the probability p: [i/bins, (i + 1)/bins), the last with its end."""
    return min(int(p * bins), bins - 1)


def log_probabilities(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ln s and ln(1 − s) of log-odds z, each to its last digits."""
    tail = np.log1p(np.exp(-np.abs(z)))
    return np.minimum(z, 0.0) - tail, -np.maximum(z, 0.0) - tail


def frozen(values: npt.ArrayLike) -> FloatArray:
    """A read-only copy."""
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy
