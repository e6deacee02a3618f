"""`SmoothIsotonic`: a smooth monotone curve through the blocks of the isotonic fit."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeVar

import numpy as np

from streamcal.calibrators.table import BlockCalibrator
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import CubicMap, between
from streamcal.maps.portable import cubic
from streamcal.parameters.types import FloatArray
from streamcal.statistics.score_tree import ScoreTree

Value = TypeVar("Value", float, FloatArray)


class SmoothIsotonic(BlockCalibrator):
    """Smooth isotonic regression: the monotone cubic PCHIP curve through one point for each block of the isotonic fit.

    A block of scores sᵢ with weights wᵢ and labels yᵢ is represented by (Σwᵢsᵢ/Σwᵢ, Σwᵢyᵢ/Σwᵢ); the curve passes
    through these points, is nondecreasing between them, has a continuous slope (Fritsch and Butland's weighted harmonic
    mean, as in SciPy's `PchipInterpolator`), and is constant below the first point and above the last.

    Parameters
    ----------
    scale, forgetting, prior
        See `AdditiveCalibrator`. Points and curve are functions of the coordinate, so the scale matters.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory, on which the map has a step for each cell. The blocks are those of a step method, which a grid
        may change by more than its width: hence no grid by default.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    There is no penalty: paper 002, §5.3, chooses a λ for this method, but its §2.2.5 describes this interpolation,
    which has none.

    The paper leaves the representative score of a block open: the weighted mean is our choice. Neighbouring blocks of
    equal value are one block, to a relative 2⁻⁴², the rounding of sums; what a retraction leaves of a label at a score
    is nothing, to the same fraction of what was there. Cost: learning, unlearning and `predict_one` O(log² k)
    for k distinct scores; the first array after a change O(k); memory O(k).

    References
    ----------
    Jiang, Osl, Kim and Ohno-Machado 2011; paper 002, §2.2.5.

    Examples
    --------
    >>> cal = SmoothIsotonic()
    >>> cal.learn_many([0.1, 0.2, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1])
    >>> cal.predict_many([0.15, 0.3, 0.5, 0.8]).round(3).tolist()
    [0.0, 0.204, 0.5, 1.0]
    """

    name = "smooth-isotonic"
    summary = "monotone cubic curve through the blocks of the isotonic fit"

    def _beside(self, tree: ScoreTree, x: float) -> float:
        found = tree.points_around(x)
        if found is None:
            return math.nan
        centres, values, at = found
        if at < 0 or at == len(centres) - 1:
            return values[max(at, 0)]
        low, high = values[at], values[at + 1]
        x = x if tree.grid is None else tree.grid.round(x)
        t = between(x, centres[at], centres[at + 1], 0.0, 1.0)
        return min(max(cubic(t, low, high, *pchip_at(centres, values, at)), low), high)

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> ScaledMap:
        _, _, centre, value = statistic.centred_blocks()
        return CubicMap(self.scale, centre, value, *pchip(centre, value), statistic.grid)


def pchip(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """PCHIP slopes at the left and right end of each interval, times its width, shapes (m − 1,); x and y rise strictly.

    Slopes times widths are of the size of y, whatever the widths: scores may be neighbouring floats.
    """
    step = np.diff(y)
    if len(step) < 2:
        return step, step  # a straight line, or nothing
    width = np.diff(x) if float(x[-1]) - float(x[0]) < math.inf else np.diff(0.5 * x)
    both = width[:-1] + width[1:]
    a, b = (np.divide(part, both, out=np.full(len(both), 0.5), where=both > 0.0) for part in (width[:-1], width[1:]))
    u, v = step[:-1], step[1:]
    slope = _inner(a, b, u, v)
    first = _end(a[0], b[0], u[0], v[0])
    last = _end(b[-1], a[-1], v[-1], u[-1])
    return np.append(first, b * slope), np.append(a * slope, last)


def pchip_at(x: list[float], y: list[float], at: int) -> tuple[float, float]:
    """What `pchip` says of the interval from x[at] to x[at + 1], given one more point on either side if there is."""
    half = 1.0 if x[-1] - x[0] < math.inf else 0.5
    width = [half * right - half * left for left, right in pairwise(x)]
    step = [right - left for left, right in pairwise(y)]
    if len(step) < 2:
        return step[0], step[0]
    shares = [(a / (a + b), b / (a + b)) if a + b > 0.0 else (0.5, 0.5) for a, b in pairwise(width)]
    if at > 0:
        rise = shares[at - 1][1] * _inner(*shares[at - 1], step[at - 1], step[at])
    else:
        rise = _end(*shares[0], step[0], step[1])
    if at < len(step) - 1:
        return rise, shares[at][0] * _inner(*shares[at], step[at], step[at + 1])
    return rise, _end(shares[-1][1], shares[-1][0], step[-1], step[-2])


def _inner(a: Value, b: Value, u: Value, v: Value) -> Value:
    """The slope between two intervals times the sum of their widths; a and b are their shares of it, u and v steps."""
    slope: Value = 3.0 * u * v / ((1.0 + b) * a * v + (1.0 + a) * b * u)
    return slope


def _end(near: float, far: float, step: float, next_step: float) -> float:
    """The slope at an outer end times its interval's width: three points' parabola, unless that would decrease."""
    if (1.0 + near) * step * far <= near * near * next_step:
        return 0.0
    return float((1.0 + near) * step - near * near / far * next_step)
