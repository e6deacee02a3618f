"""`ChebyshevMoments`: the sufficient statistic of least squares over all polynomials of degree k."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamcal.errors import RetractionError
from streamcal.kernels.common.compensated import add_arrays, settle
from streamcal.kernels.polynomial.chebyshev import add, add_many
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, LIGHTEST, ROUNDING, Field, ensure, number, numbers, row, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.bernstein_moments import dropped, require_dropped
from streamcal.statistics.retractions import RETRACTION_TOLERANCE, never_learned, require_accurate, require_learned


class ChebyshevMoments(Statistic):
    """Σ w T_m, m = 0..2k, and Σ w y T_m, m = 0..k, of the Chebyshev polynomials at the scale's unit coordinate.

    Tᵢ·Tⱼ = ½ (Tᵢ₊ⱼ + T_|i−j|), so `moments` determine the Gram matrix. Update O(k), retraction O(k) and, outside of
    windows, O(k³) to verify it, as in `BernsteinMoments`; fixed memory. Every sum is kept in two parts, of which `low`
    has the second (`streamcal.kernels.common.compensated`). T₀ = 1: `moments[0]` is the total weight and `cross[0]` the
    positive weight. The sums are never divided by the unit, also not in views: a least-squares problem depends only on
    the ratios of its sums.

    The sums of the Bernstein basis (`BernsteinMoments`) determine the same problem, but not accurately in double
    precision: a polynomial of degree 40 between 0 and 1 can have Bernstein coefficients of 10¹¹, whose squares would
    multiply sums rounded to 10⁻¹⁶.
    """

    bounded = True
    scale: Scale

    def __init__(self, degree: int, scale: Scale) -> None:
        self.degree = degree
        self.scale = scale
        self.moments = np.zeros(2 * degree + 1)
        self.cross = np.zeros(degree + 1)
        self.low = np.zeros(2 * degree + 1), np.zeros(degree + 1)
        self._count = 0
        self._peak = 0.0  # the largest weight ever summed, see `require_learned`

    @property
    def n(self) -> float:
        return float(self.moments[0]) / self.unit

    def update(self, x: float, y: float, w: float) -> None:
        add(self.moments, self.cross, self.low, self.scale.unit(x), w, w * y)
        self._count += 1
        self._peak = max(self._peak, self.n)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        add_many(self.moments, self.cross, self.low, self.scale.units(x), w, w * y)
        self._count += len(x)
        self._peak = max(self._peak, self.n)

    def unlearn(self, x: float, y: float, w: float) -> None:
        require_learned((self.n, float(self.cross[0]), self._count), x, y, w, self._peak)
        self._count -= 1
        if self._count == 0:
            for sums in (self.moments, self.cross, *self.low):
                sums[:] = 0.0
        else:
            add(self.moments, self.cross, self.low, self.scale.unit(x), -w, -w * y)
            settle(self.moments, self.low[0])
            settle(self.cross, self.low[1])

    def verify(self, x: float, y: float, w: float) -> None:
        require_learned((self.n, float(self.cross[0]), self._count), x, y, w, self._peak)
        require_accurate(float(self.moments[0]) - w + float(self.low[0][0]), self._count - 1, self._peak, w)
        taken, taken_cross = np.zeros_like(self.moments), np.zeros_like(self.cross)
        low = np.zeros_like(self.moments), np.zeros_like(self.cross)
        add(taken, taken_cross, low, self.scale.unit(x), w, w * y)
        left, positive, slack = self.moments - taken, self.cross - taken_cross, RETRACTION_TOLERANCE * self._peak
        for sums in (left, positive, left[: len(positive)] - positive):
            size = (len(sums) + 1) // 2
            index, distance = (op.outer(np.arange(size), np.arange(size)) for op in (np.add, np.subtract))
            gram = 0.5 * (sums[index] + sums[np.abs(distance)])
            if np.linalg.eigvalsh(gram).min() < -slack or (self._count == 1 and np.abs(sums).max() > slack):
                raise RetractionError(never_learned(x, y, w))

    def merge(self, other: Self) -> None:
        add_arrays(self.moments, self.low[0], other.moments, other.low[0])
        add_arrays(self.cross, self.low[1], other.cross, other.low[1])
        self._count += other._count
        self._peak = max(self._peak, other._peak, self.n)

    def decay(self, factor: float) -> None:
        for sums in (self.moments, self.cross, *self.low):
            sums *= factor
        self._peak *= factor

    def _summed(self) -> tuple[Any, ...]:
        return self.moments, self.cross

    def empty(self) -> Self:
        return type(self)(self.degree, self.scale)

    def fields(self) -> dict[str, Field]:
        moments, cross = numbers(2 * self.degree + 1), numbers(self.degree + 1)
        return {
            "moments": Field(moments, self.moments.copy),
            "cross": Field(cross, self.cross.copy),
            "count": Field(whole(), lambda: self._count),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
            "low": Field(row(moments, cross), lambda: dropped(self.low), optional=True),
        }

    def _load(self, moments: FloatArray, cross: FloatArray, count: int, peak: float, low: Any) -> None:
        slack = ROUNDING * peak
        weight, positive = moments[0], cross[0]
        ensure(-slack <= positive <= weight + slack and weight <= peak + slack, "a weight is not possible")
        ensure(weight == 0.0 or abs(weight) >= LIGHTEST, "a weight is not possible")
        ensure((np.abs(moments) <= weight + slack).all(), "a sum is above the weight")
        ensure((np.abs(cross) <= positive + slack).all(), "a sum is above the positive weight")
        ensure(count > 0 or not (moments.any() or cross.any()), "there is weight and no observation")
        require_dropped(low or (), peak)
        self.moments, self.cross = moments, cross
        self.low = low or (np.zeros_like(moments), np.zeros_like(cross))
        self._count, self._peak = count, peak
