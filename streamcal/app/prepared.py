"""What pictures are drawn from, apart from drawing: axes, histograms and lines. Used by matplotlib and by SVG alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamcal.live.segmented import Effect
from streamcal.metrics import CORPBlock, CORPReliability
from streamcal.parameters.types import FloatArray

#: Scales of the axes: `sqrt` expands small probabilities and includes 0; `log` is for rates far below one percent.
Spacing = Literal["linear", "sqrt", "log"]
HISTOGRAM_BINS = 50
#: Margin around the points, as a factor of the largest value (linear axes) or of both ends (logarithmic axes).
MARGIN = 1.06
LOG_MARGIN = 1.5
#: Lower limit of logarithmic axes; smaller probabilities are drawn at the edge. Overconfident models predict 1e-100.
LOG_RANGE = 1e5
SQRT_TICKS = (0.0, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
#: Fraction of the weight that may lie outside the axes on each side; it is counted in the outermost histogram bin.
TAIL = 0.002
#: Where 9 of 10 forecasts are below these, axes are logarithmic, or spaced by square roots; logarithmic ones only if
#: nearly all forecasts are below SELDOM, since overconfident forecasts are rare as well.
RARE, SELDOM = 0.05, 0.5
#: A fit and a band that differ by less are equal but for rounding.
ROUNDING = 1e-12
#: Ticks that an axis has at most.
MOST_TICKS = 6
#: Levels in a forest plot: the heaviest.
MOST_DRAWN = 20
#: Powers of ten that are too few for a logarithmic axis.
FEW_TICKS = 3


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; a logarithmic one begins above 0.

    >>> axis = Axis(0.0, 0.4, "sqrt")
    >>> axis.place(0.1), axis.place(2.0), axis.ticks()
    (0.5, 1.0, [0.0, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4])
    >>> Axis(2e-5, 0.03, "log").ticks(), Axis(0.0, 41188.0).ticks()
    ([0.0001, 0.001, 0.01], [0.0, 10000.0, 20000.0, 30000.0, 40000.0])
    """

    low: float
    high: float
    spacing: Spacing = "linear"

    def place(self, value: float) -> float:
        """The fraction of the axis below a value, from 0 to 1 also for those outside."""
        low, value, high = self.low, min(max(value, self.low), self.high), self.high
        if self.spacing == "log":
            return math.log(value / low) / math.log(high / low)
        if self.spacing == "sqrt":
            return (math.sqrt(value) - math.sqrt(low)) / (math.sqrt(high) - math.sqrt(low))
        return (value - low) / (high - low)

    def ticks(self, most: int = MOST_TICKS) -> list[float]:
        """Round values that lie apart; on a linear axis about as many as `most`."""
        if self.spacing == "sqrt":
            return sqrt_ticks(self.high)
        if self.spacing == "log":
            return _decades(self.low, self.high)
        step = 10.0 ** math.floor(math.log10(self.high - self.low))
        step *= next(k for k in (0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if (self.high - self.low) / (step * k) <= most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) for k in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten inside, as many as there is space for; of few also twice and five times as much."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    if len(powers) < FEW_TICKS:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [tick for e in exponents for k in (1, 2, 5) if low <= (tick := float(f"{k}e{e}")) <= high]
    return [float(f"1e{e}") for e in powers[:: -(-len(powers) // MOST_TICKS)]]


def sqrt_ticks(high: float) -> list[float]:
    """Ticks of an axis from 0 to `high` that is spaced by square roots, not crowded at 0."""
    return [tick for tick in SQRT_TICKS if tick == 0.0 or high / 100.0 <= tick <= high]


def spacing_of(scores: Sequence[float], weights: Sequence[float]) -> Spacing:
    """The spacing that shows most of these forecasts, in ascending order.

    >>> spacing_of([0.001, 0.3], [95.0, 5.0]), spacing_of([0.1, 0.9], [95.0, 5.0]), spacing_of([0.1, 0.8], [1.0, 1.0])
    ('log', 'sqrt', 'linear')
    """
    reached = np.cumsum(weights)
    most, nearly_all = (scores[int(np.searchsorted(reached, share * reached[-1]))] for share in (0.9, 1.0 - TAIL))
    if most < RARE and nearly_all < SELDOM:
        return "log"
    return "sqrt" if most < SELDOM else "linear"


def limits(
    points: Iterable[float], densities: Iterable[tuple[Sequence[float], Sequence[float]]], spacing: Spacing
) -> tuple[float, float]:
    """The range of both axes: all points, and nearly all single probabilities of (scores, weights)."""
    values = list(points)
    for scores, weights in densities:
        reached = np.cumsum(weights) / math.fsum(weights)
        values += [scores[min(int(np.searchsorted(reached, share)), len(scores) - 1)] for share in (TAIL, 1.0 - TAIL)]
    high = (max(values) or 1.0) * (LOG_MARGIN if spacing == "log" else MARGIN)
    high = 1.0 if high > 0.9 else high
    if spacing != "log":
        return 0.0, high
    low = min((value for value in values if value > 0.0), default=high / LOG_RANGE)
    return max(low / LOG_MARGIN, high / LOG_RANGE), high


def histogram(
    scores: Sequence[float], weights: Sequence[float], axis: Axis, bins: int = HISTOGRAM_BINS
) -> tuple[FloatArray, FloatArray]:
    """Shares of the weight in bins of equal length on the axis, the last with what lies outside; and their edges."""
    steps, low, high = np.linspace(0.0, 1.0, bins + 1), axis.low, axis.high
    curved = low * (high / low) ** steps if axis.spacing == "log" else high * steps**2
    edges = high * steps if axis.spacing == "linear" else curved
    # The last edge may differ from `high` by a rounding error: clip to the edges themselves.
    shares, _ = np.histogram(
        np.clip(scores, edges[0], edges[-1]), edges, weights=np.asarray(weights) / math.fsum(weights)
    )
    return shares, edges


def cut(name: str, most: int) -> str:
    """A name in at most so many letters, to stand beside an axis.

    >>> cut("c17", 9), cut("a long campaign", 9)
    ('c17', 'a long c…')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def fit_line(data: CORPReliability) -> list[tuple[float, float]]:
    """The isotonic fit as a line: level over each block, straight between two.

    >>> from streamcal.metrics import CORP
    >>> corp = CORP()
    >>> corp.update_many([0.1, 0.2, 0.3, 0.4], [False, True, False, True])
    >>> fit_line(corp.reliability())
    [(0.1, 0.0), (0.2, 0.5), (0.3, 0.5), (0.4, 1.0)]
    """
    ends = ((end, b.frequency) for b in data.blocks for end in ((b.low, b.high) if b.low < b.high else (b.low,)))
    return list(ends)


def corp_limits(data: Iterable[CORPReliability], spacing: Spacing) -> tuple[float, float]:
    """The range of both axes of CORP diagrams."""
    given = list(data)
    points = [value for one in given for b in heavy(one) for value in (b.prediction, b.frequency)]
    return limits(points, [(one.scores, one.weights) for one in given], spacing)


def heavy(data: CORPReliability) -> list[CORPBlock]:
    """The blocks with a share of the weight that can be seen."""
    total = math.fsum(data.weights)
    return [b for b in data.blocks if b.weight > TAIL * total] or list(data.blocks)


def fitted(data: CORPReliability, at: Sequence[float]) -> FloatArray:
    """The line of the fit at some probabilities."""
    line = np.array(fit_line(data))
    return np.interp(at, line[:, 0], line[:, 1])


def outside(data: CORPReliability) -> float:
    """The share of the forecasts at which the fit lies outside the consistency band."""
    fit = fitted(data, data.scores)
    lower, upper = (np.interp(data.scores, data.places, band) for band in (data.lower, data.upper))
    beyond = (fit < lower - ROUNDING) | (fit > upper + ROUNDING)
    return float(np.average(beyond, weights=data.weights))


def forest(effects: Iterable[Effect], most: int = MOST_DRAWN) -> tuple[Effect, ...]:
    """The heaviest effects, from the lowest mean to the highest, as a forest plot shows them.

    >>> found = [Effect("a", 0.5, 0.1, 9.0), Effect("b", -0.1, 0.2, 7.0), Effect("c", 0.0, 0.5, 1.0)]
    >>> [one.level for one in forest(found, 2)]
    ['b', 'a']
    """
    return tuple(sorted(sorted(effects, key=lambda one: -one.n)[:most], key=lambda one: one.mean))


def effect_limits(effects: Iterable[Effect]) -> tuple[float, float]:
    """The range of an axis with 0 and all effects ± one standard deviation.

    >>> effect_limits([Effect("a", 0.5, 0.25, 9.0), Effect("b", -0.125, 0.125, 7.0)])
    (-0.3, 0.8)
    """
    given = list(effects)
    low = min(0.0, *(one.mean - one.sd for one in given))
    high = max(0.0, *(one.mean + one.sd for one in given))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin
