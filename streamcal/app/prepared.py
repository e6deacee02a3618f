"""Data of pictures: axes, histograms and lines, for matplotlib and for SVG."""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
#: Where 9 of 10 predictions are below these, axes are logarithmic, or spaced by square roots; logarithmic ones only if
#: nearly all predictions are below SELDOM, since overconfident predictions are rare as well.
RARE, SELDOM = 0.05, 0.5
#: A fit and a band that differ by less are equal but for rounding.
ROUNDING = 1e-12
#: Ticks that an axis has at most.
MOST_TICKS = 6
#: Levels in a forest plot.
MOST_DRAWN = 20
#: Letters that a name beside an axis may have; of longer ones both ends are shown.
MOST_LETTERS = 34
#: Steps between the ticks of an axis of dates, in seconds up to a fortnight, and beyond in months.
SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600)
MONTHS = (1, 3, 6, 12, 24, 60, 120, 600)
DAY, MONTH = 86_400.0, 2_629_746.0
#: Times in seconds that are shown as dates: 1973 to 2286. Others are numbers in units of their own.
DATES = (1e8, 1e10)
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
        """Return the fraction of the axis below a value, clipped to [0, 1]."""
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

    def text(self, value: float) -> str:
        """Write a tick in few characters."""
        return tick_text(value)


@dataclass(frozen=True)
class TimeAxis(Axis):
    """An axis of times in seconds since 1970 UTC, with dates as ticks.

    >>> axis = TimeAxis(1767225600.0, 1767484800.0)
    >>> [axis.text(tick) for tick in axis.ticks()], axis.range_text()
    (['Jan 1', 'Jan 2', 'Jan 3', 'Jan 4'], '2026-01-01 to 2026-01-04, UTC')
    >>> axis = TimeAxis(1767225600.0, 1767232800.0)
    >>> [axis.text(tick) for tick in axis.ticks()], axis.range_text()
    (['Jan 1', '00:30', '01:00', '01:30', '02:00'], '2026-01-01 00:00 to 2026-01-01 02:00, UTC')
    """

    def ticks(self, most: int = MOST_TICKS) -> list[float]:
        """Round dates that lie apart, at most as many as `most`."""
        span = self.high - self.low
        step = next((step for step in SECONDS if span / step < most), None)
        if step is not None:
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            return [float(k * step) for k in range(first, last + 1)]
        months = next((k for k in MONTHS if span / (k * MONTH) < most), MONTHS[-1])
        begin, end = moment(self.low), moment(self.high)
        starts = range((12 * begin.year + begin.month - 1) // months, (12 * end.year + end.month) // months + 1)
        places = [datetime(k * months // 12, k * months % 12 + 1, 1, tzinfo=UTC).timestamp() for k in starts]
        return [tick for tick in places if self.low <= tick <= self.high]

    def text(self, value: float) -> str:
        """Write a tick in few characters: a date at midnight, a month with the year in January, or the time of day."""
        at = moment(value)
        if self.high - self.low < 60 and value % 60:
            return f"{at:%H:%M:%S}"
        if value % DAY:
            return f"{at:%H:%M}"
        month = calendar.month_abbr[at.month]
        if self.high - self.low < SECONDS[-1] * MOST_TICKS:
            return f"{month} {at.day}"
        return f"{at.year}" if at.month == 1 else month

    def range_text(self) -> str:
        """Write the first and the last date, with times of day within a few days."""
        return f"{self.moment_text(self.low)} to {self.moment_text(self.high)}, UTC"

    def moment_text(self, value: float) -> str:
        """Write a date, with the time of day on an axis of a few days."""
        short = self.high - self.low < 3 * DAY
        return f"{moment(value):%Y-%m-%d %H:%M}" if short else f"{moment(value):%Y-%m-%d}"


def moment(value: float) -> datetime:
    """Return the date of a time in seconds."""
    return datetime.fromtimestamp(value, UTC)


def tick_text(value: float) -> str:
    """Write a number in few characters.

    >>> [tick_text(value) for value in (0.0, 0.05, 1e-5, 40000.0, 2500.0, 1.5e6)]
    ['0', '0.05', '1e-5', '40k', '2500', '1.5M']
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:g}".replace("e-0", "e-")


def _decades(low: float, high: float) -> list[float]:
    """Return the powers of ten inside, as many as there is space for; if few, also 2 and 5 times each."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    if len(powers) < FEW_TICKS:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [tick for e in exponents for k in (1, 2, 5) if low <= (tick := float(f"{k}e{e}")) <= high]
    return [float(f"1e{e}") for e in powers[:: -(-len(powers) // MOST_TICKS)]]


def sqrt_ticks(high: float) -> list[float]:
    """Return ticks of an axis from 0 to `high` that is spaced by square roots, not crowded at 0."""
    return [tick for tick in SQRT_TICKS if tick == 0.0 or high / 100.0 <= tick <= high]


def spacing_of(scores: Sequence[float], weights: Sequence[float]) -> Spacing:
    """Return the spacing that shows most of these predictions, in ascending order.

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
    """Return the range of both axes: all points, and nearly all single probabilities of (scores, weights)."""
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
    """Return the shares of the weight in bins of equal length on the axis, clipped to it, and their edges."""
    steps, low, high = np.linspace(0.0, 1.0, bins + 1), axis.low, axis.high
    curved = low * (high / low) ** steps if axis.spacing == "log" else high * steps**2
    edges = high * steps if axis.spacing == "linear" else curved
    # The last edge may differ from `high` by a rounding error: clip to the edges themselves.
    shares, _ = np.histogram(
        np.clip(scores, edges[0], edges[-1]), edges, weights=np.asarray(weights) / math.fsum(weights)
    )
    return shares, edges


def cut(name: str, most: int = MOST_LETTERS) -> str:
    """Shorten a name to at most a number of letters in its middle, since pairs of levels often differ at the end.

    >>> cut("c17", 9), cut("a long campaign", 9)
    ('c17', 'a lo…aign')
    """
    half = most // 2
    return name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}" if half else "…"


def fit_line(data: CORPReliability) -> list[tuple[float, float]]:
    """Return the isotonic fit as a line: level over each block, straight between two.

    >>> from streamcal.metrics import CORP
    >>> corp = CORP()
    >>> corp.update_many([False, True, False, True], [0.1, 0.2, 0.3, 0.4])
    >>> fit_line(corp.reliability())
    [(0.1, 0.0), (0.2, 0.5), (0.3, 0.5), (0.4, 1.0)]
    """
    ends = ((end, b.frequency) for b in data.blocks for end in ((b.low, b.high) if b.low < b.high else (b.low,)))
    return list(ends)


def corp_limits(data: Iterable[CORPReliability], spacing: Spacing) -> tuple[float, float]:
    """Return the range of both axes of CORP diagrams."""
    series = list(data)
    points = [value for corp in series for b in heavy(corp) for value in (b.prediction, b.frequency)]
    return limits(points, [(corp.scores, corp.weights) for corp in series], spacing)


def heavy(data: CORPReliability) -> list[CORPBlock]:
    """Return the blocks whose share of the weight is large enough to be seen."""
    total = math.fsum(data.weights)
    return [b for b in data.blocks if b.weight > TAIL * total] or list(data.blocks)


def fitted(data: CORPReliability, at: Sequence[float]) -> FloatArray:
    """Return the fitted line's values at some probabilities."""
    line = np.array(fit_line(data))
    return np.interp(at, line[:, 0], line[:, 1])


def outside(data: CORPReliability) -> float:
    """Return the share of the predictions at which the fit is outside the consistency band."""
    fit = fitted(data, data.scores)
    lower, upper = (np.interp(data.scores, data.places, band) for band in (data.lower, data.upper))
    beyond = (fit < lower - ROUNDING) | (fit > upper + ROUNDING)
    return float(np.average(beyond, weights=data.weights))


def effect_limits(effects: Iterable[Effect]) -> tuple[float, float]:
    """Return the range of an axis with 0 and all effects ± one standard deviation.

    >>> effect_limits([Effect("a", 0.5, 0.25, 9.0), Effect("b", -0.125, 0.125, 7.0)])
    (-0.3, 0.8)
    """
    listed = list(effects)
    low = min(0.0, *(effect.mean - effect.sd for effect in listed))
    high = max(0.0, *(effect.mean + effect.sd for effect in listed))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin
