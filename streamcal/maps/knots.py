"""Maps between knots: linear, linear in log-odds, and cubic."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import cached_property
from typing import Any

import numpy as np

from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.kernels.polynomial.cubic import values_at
from streamcal.maps.base import ScaledMap, frozen
from streamcal.maps.portable import Arrays, Knots, cubic, lines
from streamcal.maps.steps import RoundedMap
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.grid import Grid

#: Another library's coordinate x differs by at most this times 1 + |x|.
ROUNDING = 2.0**-50
#: By how much a probability may then differ elsewhere. Around steeper pieces coordinates have values of their own.
LARGEST_ERROR = 1e-10
#: The slope of a piece in multiples of that of its line; a cubic is at most three times as steep.
STEEPEST = 3.0
#: A steep piece narrower than this many roundings has values of its own throughout; others have them near their knots.
NARROW = 16.0


class KnotMap(RoundedMap):
    """Linear between knots and constant outside."""

    kind = "lines"
    shape = "piecewise linear"

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
        return lines(Arrays, x, self._between)

    @cached_property
    def _between(self) -> Knots:
        return Knots(self.knots, self.values)

    def _content(self) -> dict[str, Any]:
        return super()._content() | spots_of(self.scale, *steep_places(self))


class LogOddsMap(ScaledMap):
    """1 / (1 + exp(−z)), z being linear between knots and constant outside; knots and z have shape (m,)."""

    kind = "log-odds-lines"
    shape = "piecewise linear in log-odds"

    def __init__(self, scale: Scale, knots: FloatArray, log_odds: FloatArray) -> None:
        super().__init__(scale)
        self.knots = frozen(knots)
        self.log_odds = frozen(log_odds)

    def at(self, x: float) -> float:
        return sigmoid(float(np.interp(x, self.knots, self.log_odds)))

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(np.interp(x, self.knots, self.log_odds))

    def _content(self) -> dict[str, Any]:
        """Return the parameters, with the values of single coordinates stated for the scores, not for the coordinate.

        The neighbours of such a knot are the next floats. Another library's logarithm would miss the knot by its last
        bit.
        """
        below = np.append(True, self.knots[:-1] == np.nextafter(self.knots[1:], -math.inf))
        above = np.append(below[1:], True)
        own = below & above if len(self.knots) > 2 else np.zeros(len(self.knots), dtype=bool)
        spots = spots_of(self.scale, self.knots[own], sigmoids(self.log_odds[own]))
        return {"knots": self.knots[~own].tolist(), "log_odds": self.log_odds[~own].tolist(), **spots}


class CubicMap(RoundedMap):
    """Cubic between knots and constant outside.

    With t = (x − left)/(right − left) between two knots, whose values are `low` and `high`, the probability is
    low + (high − low)·t²·(3 − 2t) + rise·t·(1 − t)² − fall·t²·(1 − t); rises[i] and falls[i] are the slopes at the
    left and right end of interval i, times its width. Shapes: knots and values (m,), rises and falls (m − 1,).
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
        return min(max(cubic(t, low, high - low, float(self.rises[i - 1]), float(self.falls[i - 1])), low), high)

    def _values_at(self, x: FloatArray) -> FloatArray:
        return values_at(x, self.knots, self.values, self.rises, self.falls)

    def _content(self) -> dict[str, Any]:
        return super()._content() | spots_of(self.scale, *steep_places(self))


def between(x: float, left: float, right: float, low: float, high: float) -> float:
    """Interpolate between (left, low) and (right, high) linearly; right − left may overflow or be subnormal."""
    width = right - left
    share = (x - left) / width if width < math.inf else (0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left)
    return low + share * (high - low)


def steep_places(map: KnotMap | CubicMap) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates that scores have near the knots of steep pieces, and the probabilities there.

    If two knots almost touch, the last bit of a coordinate decides on the probability. Another library's logarithm may
    differ in this bit. Exports therefore state the values at these coordinates.
    """
    knots = map.knots
    with np.errstate(over="ignore"):
        width, rise = np.diff(knots), np.abs(np.diff(map.values))
    away = ROUNDING * (1.0 + np.abs(knots))
    most = np.maximum(away[:-1], away[1:])
    steep = STEEPEST * rise * most > LARGEST_ERROR * width
    if not (map.scale.rounds and steep.any()):
        return np.empty(0), np.empty(0)
    narrow = width < NARROW * most
    whole, parts = np.flatnonzero(steep & narrow), np.flatnonzero(steep & ~narrow)
    near = np.unique(np.concatenate((parts, parts + 1)))
    starts, ends = (np.concatenate(both) for both in ((whole, near), (whole + 1, near)))
    own = coordinates_within(map.scale.increasing, (knots - away)[starts], (knots + away)[ends])
    return own, map._values_at(own)


def coordinates_within(scale: Scale, starts: FloatArray, ends: FloatArray) -> FloatArray:
    """Return the coordinates of scores in any of the ranges from starts[i] to ends[i], in order."""
    coordinates, x = [np.empty(0)], np.maximum(starts, scale.lo)
    while len(x) > 0:
        scores = np.maximum(scale.first_scores(x), scale.domain[0])
        there = scores <= scale.domain[1]
        x, ends = scale.coordinates(scores[there]), ends[there]
        x, ends = x[x <= ends], ends[x <= ends]
        coordinates.append(x)
        x = np.nextafter(x, math.inf)
    return np.unique(np.concatenate(coordinates))


def spots_of(scale: Scale, x: FloatArray, values: FloatArray) -> dict[str, Any]:
    """Return the field `spots`: first and last rising score at each coordinate, and its probability; {} for none."""
    if len(x) == 0:
        return {}
    scale = scale.increasing
    lo, hi = scale.domain
    first = np.maximum(scale.first_scores(x), lo)
    last = np.minimum(np.nextafter(scale.first_scores(np.nextafter(x, math.inf)), -math.inf), hi)
    there = first <= last
    columns = {"first": first, "last": last, "values": values}
    return {"spots": {name: column[there].tolist() for name, column in columns.items()}}
