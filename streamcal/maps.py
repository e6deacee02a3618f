"""Calibration maps: immutable functions score → probability, the snapshots that `Calibrator.map()` hands out."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from streamcal.base import CalibrationMap, FloatArray
from streamcal.inputs import check_score, check_scores
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


class BernsteinMap(ScaledMap):
    """Σ cᵢ Bᵢⁿ(u) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)

    def at(self, x: float) -> float:
        return min(max(float(evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)


class StepMap(ScaledMap):
    """values[i] where cuts[i−1] ≤ x < cuts[i]; shapes (m,) and (m − 1,). On a grid, x is the rounded coordinate.

    With `own`, shape (m − 1,), the value at cuts[i] itself is own[i], and values[i] holds strictly between the cuts.
    """

    def __init__(
        self,
        scale: Scale,
        cuts: FloatArray,
        values: FloatArray,
        grid: Grid | None = None,
        own: FloatArray | None = None,
    ) -> None:
        super().__init__(scale)
        self.cuts = frozen(cuts)
        self.values = frozen(values)
        self.own = frozen(values[1:] if own is None else own)
        self.grid = grid

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.cuts, x)
        return float(self.own[i - 1] if i > 0 and self.cuts[i - 1] == x else self.values[i])

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._values_at(x) if self.grid is None else self.grid.rounded(self._values_at, x)

    def _values_at(self, x: FloatArray) -> FloatArray:
        i = np.searchsorted(self.cuts, x, side="right")
        result = self.values[i]
        on_a_cut = np.flatnonzero(i)
        on_a_cut = on_a_cut[self.cuts[i[on_a_cut] - 1] == x[on_a_cut]]
        result[on_a_cut] = self.own[i[on_a_cut] - 1]
        return result


class KnotMap(ScaledMap):
    """Linear between knots and constant outside; on a grid, a function of the rounded coordinate."""

    def __init__(self, scale: Scale, knots: FloatArray, values: FloatArray, grid: Grid | None = None) -> None:
        super().__init__(scale)
        self.knots = frozen(knots)
        self.values = frozen(values)
        self.grid = grid

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.knots, x)
        if i in (0, len(self.knots)):
            return float(self.values[min(i, len(self.knots) - 1)])
        return between(x, *self.knots[i - 1 : i + 1].tolist(), *self.values[i - 1 : i + 1].tolist())

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._values_at(x) if self.grid is None else self.grid.rounded(self._values_at, x)

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


class CubicMap(ScaledMap):
    """Cubic between knots and constant outside; on a grid, a function of the rounded coordinate.

    With t the share of the way from a knot to the next, from `low` to `high` in value, the probability is
    low + (high − low)·t²·(3 − 2t) + rise·t·(1 − t)² − fall·t²·(1 − t); `rises[i]` and `falls[i]` are the slopes at the
    left and at the right end of interval i times its width. Shapes: knots and values (m,), rises and falls (m − 1,).
    """

    def __init__(
        self,
        scale: Scale,
        knots: FloatArray,
        values: FloatArray,
        rises: FloatArray,
        falls: FloatArray,
        grid: Grid | None = None,
    ) -> None:
        super().__init__(scale)
        self.knots = frozen(knots)
        self.values = frozen(values)
        self.rises = frozen(rises)
        self.falls = frozen(falls)
        self.grid = grid

    def at(self, x: float) -> float:
        return float(self._values_at(np.array([x if self.grid is None else self.grid.round(x)]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._values_at(x) if self.grid is None else self.grid.rounded(self._values_at, x)

    def _values_at(self, x: FloatArray) -> FloatArray:
        i = np.searchsorted(self.knots, x, side="right")
        inside = (i > 0) & (i < len(self.knots))
        result = self.values[np.minimum(i, len(self.knots) - 1)]
        i, x = i[inside] - 1, x[inside]
        left, right = self.knots[i], self.knots[i + 1]
        with np.errstate(over="ignore"):  # the width may overflow; then halves are taken
            t = np.where(
                right - left < math.inf, (x - left) / (right - left), (x / 2 - left / 2) / (right / 2 - left / 2)
            )
        low, high = self.values[i], self.values[i + 1]
        bend = t * (1.0 - t) * (self.rises[i] * (1.0 - t) - self.falls[i] * t)
        result[inside] = np.clip(low + (high - low) * t * t * (3.0 - 2.0 * t) + bend, low, high)
        return result


def between(x: float, left: float, right: float, low: float, high: float) -> float:
    """The line from (left, low) to (right, high) at left ≤ x < right; the width may overflow or be subnormal."""
    width = right - left
    share = (x - left) / width if width < math.inf else (0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left)
    return low + share * (high - low)


class IntervalMap(ScaledMap):
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
        super().__init__(scale)
        self.knots = frozen(knots)
        self.lower = frozen(np.concatenate(([0.0], lower)))
        self.upper = frozen(np.concatenate((upper, [1.0])))
        self.point = point
        self.grid = grid

    def interval_at(self, x: float) -> tuple[float, float]:
        """The pair (p₀, p₁) at a coordinate."""
        x = x if self.grid is None else self.grid.round(x)
        return float(self.lower[bisect_right(self.knots, x)]), float(self.upper[bisect_left(self.knots, x)])

    def at(self, x: float) -> float:
        low, high = self.interval_at(x)
        return float(self.point(np.array([low]), np.array([high]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._values_at(x) if self.grid is None else self.grid.rounded(self._values_at, x)

    def _values_at(self, x: FloatArray) -> FloatArray:
        lower = self.lower[np.searchsorted(self.knots, x, side="right")]
        return self.point(lower, self.upper[np.searchsorted(self.knots, x, side="left")])


def frozen(values: FloatArray) -> FloatArray:
    """A read-only copy."""
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy
