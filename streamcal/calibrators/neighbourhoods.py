"""The intervals around a score in which adaptive calibration counts observations."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.parameters.numbers import real_number
from streamcal.parameters.settings import Setting
from streamcal.parameters.types import FloatArray

Places = NDArray[np.intp]
#: Which of the sorted scores lie in the interval of x, as first place and place after the last: for the open stretches
#: of x between two cuts, and for the cuts. Shapes: cuts (m,), stretches two of (m + 1,), cuts' own two of (m,).
Windows = tuple[FloatArray, tuple[Places, Places], tuple[Places, Places]]

#: Tolerance of the required weight, as a share of the total: the rounding of the sums.
REACHED = 2.0**-42
#: The smallest fraction allowed, well above that rounding.
SMALLEST_FRACTION = 1e-9


class Neighbourhood(Setting):
    """The closed interval around a score whose observations are counted, in units of the scale's coordinate."""

    @abstractmethod
    def windows(self, x: FloatArray, weight: FloatArray) -> Windows:
        """Return the windows over sorted distinct coordinates `x` with these weights; no window is empty."""


@dataclass(frozen=True)
class NearestScores(Neighbourhood):
    """The smallest interval [x − r, x + r] with `fraction` of the total weight, including all ties at its ends.

    Which of two scores is nearer to x is decided by their midpoint, rounded to a float.

    Parameters
    ----------
    fraction : float
        Share of the total weight, above 0 and at most 1.

    Notes
    -----
    Cost: all windows O(k) for k distinct scores.

    Examples
    --------
    >>> NearestScores(0.1)
    NearestScores(fraction=0.1)
    """

    fraction: float = 0.05

    def __post_init__(self) -> None:
        allowed = f"a number from {SMALLEST_FRACTION:g} to 1"
        fraction = real_number(self.fraction, "fraction", allowed, least=SMALLEST_FRACTION, most=1.0)
        object.__setattr__(self, "fraction", fraction)

    def windows(self, x: FloatArray, weight: FloatArray) -> Windows:
        """Return the windows a … b that contain enough weight, and would not without the score farthest from x.

        The farthest is a while x is above the midpoint of a and b, and below the midpoint of a and b + 1. The farthest
        is b while x is above the midpoint of a − 1 and b, and below the midpoint of a and b. At a midpoint both are
        farthest. As x moves up, the pairs (a, b) walk down a staircase, so each kind occurs at most 2k times. O(k).
        """
        k = len(x)
        upto = np.concatenate(([0.0], np.cumsum(weight)))
        enough = (self.fraction - REACHED) * upto[-1]
        # the smallest b with which a … b holds enough; k where none does
        reach = np.append(np.searchsorted(upto, upto[:-1] + enough) - 1, k)
        a = np.flatnonzero(reach[:-1] < k)
        b = reach[a]
        wide_a, wide_b = _pairs(a, b, reach[a + 1])  # without a, too little: while a is the farthest
        padded = np.concatenate(([-math.inf], x, [math.inf]))
        lower = np.concatenate((_midpoints(padded[a], x[b]), _midpoints(x[wide_a], x[wide_b])))
        upper = np.concatenate((_midpoints(x[a], x[b]), _midpoints(x[wide_a], padded[wide_b + 2])))
        start, last = np.concatenate((a, wide_a)), np.concatenate((b, wide_b))
        stretches = np.flatnonzero(lower < upper)
        stretches = stretches[np.argsort(lower[stretches])]
        cuts = lower[stretches[1:]]
        even_a, even_b = _pairs(a, b, np.minimum(reach[a + 1] + 1, k))  # without both a and b, too little
        middle = _midpoints(x[even_a], x[even_b])
        order = np.lexsort((-even_b, even_a, middle))
        at = order[np.searchsorted(middle[order], cuts)]
        return cuts, (start[stretches], last[stretches] + 1), (even_a[at], even_b[at] + 1)


@dataclass(frozen=True)
class FixedWidth(Neighbourhood):
    """The interval [x − half_width, x + half_width] or, if it contains no score, the nearest score.

    Two scores are used if they are equally near. A score s is inside from the float s − half_width up to the float
    s + half_width.

    Parameters
    ----------
    half_width : float
        In units of the scale's coordinate.

    Notes
    -----
    Cost: all windows O(k log k) for k distinct scores.

    Examples
    --------
    >>> FixedWidth(0.05)
    FixedWidth(half_width=0.05)
    """

    half_width: float

    def __post_init__(self) -> None:
        half_width = real_number(self.half_width, "half_width", "a finite number of at least 0", least=0.0)
        object.__setattr__(self, "half_width", half_width)

    def windows(self, x: FloatArray, weight: FloatArray) -> Windows:
        with np.errstate(over="ignore"):  # infinite ends are as good
            return _windows_between(x, x - self.half_width, x + self.half_width)


@dataclass(frozen=True)
class ScoreIntervals(Neighbourhood):
    """An interval for each score, [lo, hi], given at some `scores`, linear in between and constant beyond them.

    This is ACP as its authors define it, with the confidence intervals of the model that gives the scores. The score at
    which an interval begins or ceases to contain another one is interpolated, accurate to rounding. Empty intervals are
    treated as in `FixedWidth`.

    Parameters
    ----------
    scores, lo, hi : tuple of float
        Strictly increasing, with lo ≤ score ≤ hi.

    Notes
    -----
    Cost: all windows O(k log k) for k distinct scores.

    Examples
    --------
    >>> ScoreIntervals(scores=(0.0, 1.0), lo=(-0.01, 0.9), hi=(0.1, 1.01)).hi
    (0.1, 1.01)
    """

    scores: tuple[float, ...]
    lo: tuple[float, ...]
    hi: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("scores", "lo", "hi"):
            values = tuple(float(value) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not all(math.isfinite(value) for value in values) or any(a >= b for a, b in itertools.pairwise(values)):
                raise InputError(f"{name}={values!r} is not possible; give finite, strictly rising numbers")
        if not len(self.scores) == len(self.lo) == len(self.hi) >= 2:
            raise InputError("ScoreIntervals needs two or more scores, and as many lo and hi")
        if any(not lo <= s <= hi for s, lo, hi in zip(self.scores, self.lo, self.hi, strict=True)):
            raise InputError("ScoreIntervals needs lo ≤ score ≤ hi, so that every interval holds its score")

    def windows(self, x: FloatArray, weight: FloatArray) -> Windows:
        enter = np.interp(x, self.hi, self.scores, left=-math.inf, right=math.inf)
        leave = np.interp(x, self.lo, self.scores, left=-math.inf, right=math.inf)
        return _windows_between(x, enter, leave)


def _windows_between(x: FloatArray, enter: FloatArray, leave: FloatArray) -> Windows:
    """Return the windows in which score i is inside for enter[i] ≤ x ≤ leave[i], else the nearest; O(k log k)."""
    middles = _midpoints(x[:-1], x[1:])
    cuts = np.unique(np.concatenate((enter, leave, middles)))
    cuts = cuts[np.isfinite(cuts)]

    def windows(at_least: FloatArray, at_most: FloatArray) -> tuple[Places, Places]:
        """Return the windows at points, or on intervals from `at_least` to `at_most`."""
        start, stop = np.searchsorted(leave, at_most), np.searchsorted(enter, at_least, side="right")
        empty = start >= stop
        nearest = np.searchsorted(middles, at_most)[empty], np.searchsorted(middles, at_least, side="right")[empty] + 1
        start[empty], stop[empty] = nearest
        return start, stop

    ends = np.concatenate(([-math.inf], cuts, [math.inf]))
    return cuts, windows(ends[:-1], ends[1:]), windows(cuts, cuts)


def _pairs(first: Places, start: Places, stop: Places) -> tuple[Places, Places]:
    """Return (first[i], j) for every i and every j from start[i] to stop[i] − 1."""
    number = stop - start
    offset = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    return np.repeat(first, number), np.repeat(start, number) + offset


def _midpoints(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return (a + b) / 2, also if the sum overflows."""
    with np.errstate(over="ignore"):
        both = a + b
    return np.where(np.isinf(both), 0.5 * a + 0.5 * b, 0.5 * both)
