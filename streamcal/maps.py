"""Calibration maps: immutable functions score → probability, the snapshots that `Calibrator.map()` hands out."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from streamcal import sql
from streamcal.base import CalibrationMap, CapabilityError, FloatArray
from streamcal.inputs import check_score, check_scores
from streamcal.kernels.bernstein import evaluate, evaluate_many
from streamcal.kernels.logistic import sigmoid, sigmoids
from streamcal.portable import FORMAT, POINTS, cubic, cubics, lines, steps
from streamcal.scales import Interval, Probability, Scale
from streamcal.statistics.grid import Grid

#: A map in pieces, for SQL: piece i holds where cuts[i−1] ≤ x < cuts[i], and makes of the SQL for x that of p.
Pieces: TypeAlias = tuple[FloatArray, Sequence[Callable[[str], str]]]


class ScaledMap(CalibrationMap):
    """A map of the coordinate on a scale; the base of those below.

    A new kind of map has a `kind`, its `_content` and its `_pieces`, and a function of that name in
    `streamcal.portable.KINDS`.
    """

    #: Its name in JSON.
    kind: ClassVar[str]

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

    # -- elsewhere -----------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The map as JSON, in the format of `docs/maps.md`: `streamcal.load_map` reads it, and so can anything else.

        >>> from streamcal import Platt, load_map
        >>> cal = Platt()
        >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
        >>> serving = load_map(cal.map().to_json())
        >>> abs(serving(0.7) - cal.predict_one(0.7)) < 1e-12
        True
        """
        exact = self._without_grid()
        data = {
            "streamcal_map": FORMAT,
            "kind": exact.kind,
            "scale": exact._scale_written().portable(),
            **exact._content(),
        }
        return json.dumps(data, allow_nan=False)

    def to_sql(self, column: str) -> str:
        """The map as one SQL expression of `column`, put in as it stands: CASE, comparisons and arithmetic.

        LN and EXP occur where the scale is `Logit` or the map a sigmoid. NULL becomes NULL, and so does a score that
        is no probability where the scale wants one; clamped scores are clamped. See `docs/maps.md`.

        >>> from streamcal import HistogramBinning
        >>> cal = HistogramBinning(bins=2, resolution=None)
        >>> cal.learn_many([0.125, 0.25, 0.75, 0.75], [0, 0, 0, 1])
        >>> cal.map().to_sql("pctr")
        'CASE WHEN pctr >= 0.0e0 AND pctr <= 1.0e0 THEN CASE WHEN pctr < 0.5e0 THEN 0.0e0 ELSE 0.5e0 END END'
        """
        exact = self._without_grid()
        cuts, pieces = exact._pieces()
        own, coordinates = exact.scale.sql(column)
        cuts = exact.scale.first_scores(cuts)
        every = np.unique(np.concatenate((own, cuts[np.isfinite(cuts)])))
        starts = np.concatenate(([-math.inf], every))
        which = zip(
            np.searchsorted(cuts, starts, side="right").tolist(),
            np.searchsorted(own, starts, side="right").tolist(),
            strict=True,
        )
        whole = sql.case(column, every.tolist(), [pieces[i](coordinates[j]) for i, j in which])
        lo, hi = (sql.literal(end) for end in exact.scale.domain)
        return f"CASE WHEN {column} >= {lo} AND {column} <= {hi} THEN {whole} END"

    def _without_grid(self) -> ScaledMap:
        """The same function of the coordinate itself."""
        return self

    def _scale_written(self) -> Scale:
        """The scale of the coordinates in `_content`."""
        return self.scale

    def _content(self) -> dict[str, Any]:
        """What `streamcal.portable.KINDS` needs to know of it, as plain data."""
        raise CapabilityError(f"{type(self).__name__} has no portable form")

    def _pieces(self) -> Pieces:
        """The map in pieces."""
        raise CapabilityError(f"{type(self).__name__} has no form in SQL")


class IdentityMap(ScaledMap):
    """The score itself, read as a probability."""

    kind = "identity"

    def at(self, x: float) -> float:
        return self.scale.probability(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        return self.scale.probabilities(x) + 0.0

    def _content(self) -> dict[str, Any]:
        return {}

    def _pieces(self) -> Pieces:
        return np.empty(0), [self.scale.sql_probability]


class SigmoidMap(ScaledMap):
    """1 / (1 + exp(−(slope·x + offset)))."""

    kind = "sigmoid"

    def __init__(self, scale: Scale, slope: float, offset: float) -> None:
        super().__init__(scale)
        self.slope = slope
        self.offset = offset

    def at(self, x: float) -> float:
        return sigmoid(self.slope * x + self.offset)

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(self.slope * x + self.offset)

    def _content(self) -> dict[str, Any]:
        return {"slope": self.slope, "offset": self.offset}

    def _pieces(self) -> Pieces:
        return np.empty(0), [lambda x: sql.sigmoid(sql.polynomial(x, (self.offset, self.slope)))]


class BernsteinMap(ScaledMap):
    """Σ cᵢ Bᵢⁿ(u) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    kind = "bernstein"

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)

    def at(self, x: float) -> float:
        return min(max(float(evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)

    def _content(self) -> dict[str, Any]:
        return {"coefficients": self.coefficients.tolist()}

    def _pieces(self) -> Pieces:
        """On each half a polynomial in the smaller of u/(1 − u) and its inverse: no power grows, no sum cancels."""
        n = len(self.coefficients) - 1
        terms = [math.comb(n, i) * c for i, c in enumerate(self.coefficients.tolist())]

        def half(terms: list[float], small: str, large: str) -> str:
            return " * ".join([sql.polynomial(f"{small} / {large}", terms)] + [large] * n)

        def below(x: str) -> str:
            return half(terms, self.scale.sql_unit(x), f"(1e0 - {self.scale.sql_unit(x)})")

        def above(x: str) -> str:
            return half(terms[::-1], f"(1e0 - {self.scale.sql_unit(x)})", self.scale.sql_unit(x))

        return np.array([0.5 * self.scale.lo + 0.5 * self.scale.hi]), [below, above]


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

    def _without_grid(self) -> ScaledMap:
        return self if self.grid is None else steps_of_cells(self.scale, self.grid, self._values_at(self.grid.centres))


class StepMap(RoundedMap):
    """values[i] where cuts[i−1] ≤ x < cuts[i]; shapes (m,) and (m − 1,).

    With `own`, shape (m − 1,), the value at cuts[i] itself is own[i], and values[i] holds strictly between the cuts.
    """

    kind = "steps"

    def __init__(
        self,
        scale: Scale,
        cuts: FloatArray,
        values: FloatArray,
        grid: Grid | None = None,
        own: FloatArray | None = None,
    ) -> None:
        super().__init__(scale, grid)
        self.cuts = frozen(cuts)
        self.values = frozen(values)
        self.own = None if own is None else frozen(own)

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.cuts, x)
        if self.own is not None and i > 0 and self.cuts[i - 1] == x:
            return float(self.own[i - 1])
        return float(self.values[i])

    def _values_at(self, x: FloatArray) -> FloatArray:
        result = steps(x, self.cuts, self.values)
        if self.own is not None and len(self.cuts) > 0:
            place = np.maximum(np.searchsorted(self.cuts, x, side="right") - 1, 0)
            result = np.where(self.cuts[place] == x, self.own[place], result)
        return result

    def _scale_written(self) -> Scale:
        return scale_of_scores(self.scale)

    def _content(self) -> dict[str, Any]:
        """Over the scores: a logarithm that rounds otherwise elsewhere must not move a score across a step."""
        cuts, values = self._closed_left()
        cuts = self.scale.first_scores(cuts)
        starts = np.unique(cuts[np.isfinite(cuts)])
        values = steps(np.append(-math.inf, starts), cuts, values)
        return {"cuts": starts.tolist(), "values": values.tolist()}

    def _pieces(self) -> Pieces:
        cuts, values = self._closed_left()
        return cuts, [constant(value) for value in values.tolist()]

    def _closed_left(self) -> tuple[FloatArray, FloatArray]:
        """Cuts and values without `own`: a cut is a step of its own, up to the next float."""
        if self.own is None:
            return self.cuts, self.values
        cuts = np.column_stack((self.cuts, np.nextafter(self.cuts, math.inf))).ravel()
        return cuts, np.append(self.values[:1], np.column_stack((self.own, self.values[1:])).ravel())


class KnotMap(RoundedMap):
    """Linear between knots and constant outside."""

    kind = "lines"

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
        return lines(x, self.knots, self.values)

    def _content(self) -> dict[str, Any]:
        return {"knots": self.knots.tolist(), "values": self.values.tolist()}

    def _pieces(self) -> Pieces:
        ends = self.values.tolist()
        return self.knots, between_knots(self.knots, ends, [[low, high - low] for low, high in pairwise(ends)])


class CubicMap(RoundedMap):
    """Cubic between knots and constant outside.

    With t the share of the way from a knot to the next, from `low` to `high` in value, the probability is
    low + (high − low)·t²·(3 − 2t) + rise·t·(1 − t)² − fall·t²·(1 − t); rises[i] and falls[i] are the slopes at the
    left and at the right end of interval i times its width. Shapes: knots and values (m,), rises and falls (m − 1,).
    """

    kind = "cubics"

    def __init__(
        self,
        scale: Scale,
        knots: FloatArray,
        values: FloatArray,
        rises: FloatArray,
        falls: FloatArray,
        grid: Grid | None = None,
    ) -> None:
        super().__init__(scale, grid)
        self.knots = frozen(knots)
        self.values = frozen(values)
        self.rises = frozen(rises)
        self.falls = frozen(falls)

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.knots, x)
        if i in (0, len(self.knots)):
            return float(self.values[min(i, len(self.knots) - 1)])
        left, right = self.knots[i - 1 : i + 1].tolist()
        low, high = self.values[i - 1 : i + 1].tolist()
        t = between(x, left, right, 0.0, 1.0)
        return min(max(cubic(t, low, high, float(self.rises[i - 1]), float(self.falls[i - 1])), low), high)

    def _values_at(self, x: FloatArray) -> FloatArray:
        return cubics(x, self.knots, self.values, self.rises, self.falls)

    def _content(self) -> dict[str, Any]:
        names = ("knots", "values", "rises", "falls")
        return {name: getattr(self, name).tolist() for name in names}

    def _pieces(self) -> Pieces:
        low, step = self.values[:-1], np.diff(self.values)
        powers = (low, self.rises, 3.0 * step - 2.0 * self.rises - self.falls, self.rises + self.falls - 2.0 * step)
        return self.knots, between_knots(self.knots, self.values.tolist(), np.column_stack(powers).tolist())


def between(x: float, left: float, right: float, low: float, high: float) -> float:
    """The line from (left, low) to (right, high) at left ≤ x < right; the width may overflow or be subnormal."""
    width = right - left
    share = (x - left) / width if width < math.inf else (0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left)
    return low + share * (high - low)


class IntervalMap(RoundedMap):
    """Venn-Abers intervals: at and right of knots[i] the lower end is lower[i], at and left of it the upper end is
    upper[i] (paper 003, §2, the vectors F⁰ and F¹). `point` makes one probability of the two.
    """

    kind = "interval"

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

    def _values_at(self, x: FloatArray) -> FloatArray:
        lower = self.lower[np.searchsorted(self.knots, x, side="right")]
        return self.point(lower, self.upper[np.searchsorted(self.knots, x, side="left")])

    def _without_grid(self) -> ScaledMap:
        return self

    def _content(self) -> dict[str, Any]:
        names = [name for name, point in POINTS.items() if point is self.point]
        if not names:
            raise CapabilityError(f"the point rule {self.point!r} has no name to be written under")
        lower, upper = self._ends()
        return {"point": names[0], "lower": lower._content(), "upper": upper._content()}

    def _scale_written(self) -> Scale:
        return scale_of_scores(self.scale)

    def _pieces(self) -> Pieces:
        """Of the one probability."""
        if self.grid is not None:
            return steps_of_cells(self.scale, self.grid, self._values_at(self.grid.centres))._pieces()
        own = self.point(self.lower[1:], self.upper[:-1])
        return StepMap(self.scale, self.knots, self.point(self.lower, self.upper), None, own)._pieces()

    def _ends(self) -> tuple[StepMap, StepMap]:
        """Lower and upper ends as maps without a grid."""
        if self.grid is None:
            lower = StepMap(self.scale, self.knots, self.lower)
            return lower, StepMap(self.scale, self.knots, self.upper, None, self.upper[:-1])
        lower, upper = np.transpose([self.interval_at(x) for x in self.grid.centres.tolist()])
        return steps_of_cells(self.scale, self.grid, lower), steps_of_cells(self.scale, self.grid, upper)


def scale_of_scores(scale: Scale) -> Scale:
    """The scale with the same scores, each of which is its own coordinate."""
    return Probability() if scale.domain == Probability.domain else Interval()


def steps_of_cells(scale: Scale, grid: Grid, values: FloatArray) -> StepMap:
    """The map that has values[i] in cell i of the grid."""
    first = np.flatnonzero(np.diff(values))
    return StepMap(scale, grid.edges[first], np.append(values[:1], values[first + 1]))


def constant(value: float) -> Callable[[str], str]:
    """SQL for a piece of one value."""
    text = sql.literal(value)
    return lambda x: text


def between_knots(
    knots: FloatArray, values: list[float], polynomials: list[list[float]]
) -> Sequence[Callable[[str], str]]:
    """SQL for the pieces of a map: between knots, polynomials in the share of the way; outside, the end values."""

    def piece(left: float, right: float, coefficients: list[float]) -> Callable[[str], str]:
        half = "" if right - left < math.inf else "5e-1 * "
        width = right - left if right - left < math.inf else 0.5 * right - 0.5 * left
        low = left if right - left < math.inf else 0.5 * left
        return lambda x: sql.polynomial(f"(({half}{x} - {sql.literal(low)}) / {sql.literal(width)})", coefficients)

    inner = [piece(*ends, c) for ends, c in zip(pairwise(knots.tolist()), polynomials, strict=True)]
    return [constant(values[0]), *inner, constant(values[-1])]


def frozen(values: FloatArray) -> FloatArray:
    """A read-only copy."""
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy
