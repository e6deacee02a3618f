"""`BernsteinMoments`: the sufficient statistic of least squares in the Bernstein basis of degree n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from streamcal.errors import RetractionError
from streamcal.kernels.polynomial.bernstein import BernsteinSums, basis, binomials
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, LIGHTEST, ROUNDING, Field, ensure, number, numbers, row, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.retractions import RETRACTION_TOLERANCE, never_learned, require_accurate, require_learned


class BernsteinMoments(Statistic):
    """VᵀV and Vᵀy of the degree-n Bernstein basis at the scale's unit coordinate, in 2n + 1 and n + 1 sums.

    Bᵢⁿ·Bⱼⁿ = C(n,i)C(n,j)/C(2n,i+j)·Bᵢ₊ⱼ²ⁿ, so the sums of the degree-2n basis determine the Gram matrix. Update O(n),
    retraction O(n) and, outside of windows, O(n³) to verify it; fixed memory. Single scores are not kept: a retraction
    is refused where what is left could not be sums of nonnegative weights of both labels, which shows in negative sums
    of the basis or a Gram matrix that is not positive semidefinite, or where it would be accurate to less than 1e-10
    (`require_accurate`). `sums` is never divided by the unit, not even in views: a least-squares problem depends only
    on the ratios of its sums.
    """

    bounded = True
    scale: Scale

    def __init__(self, degree: int, scale: Scale) -> None:
        self.degree = degree
        self.scale = scale
        self.sums = BernsteinSums(degree, scale.lo, scale.hi)

    @property
    def n(self) -> float:
        return float(self.sums.weight) / self.unit

    @property
    def count(self) -> int:
        return int(self.sums.count)

    def update(self, x: float, y: float, w: float) -> None:
        self.sums.update_one(x, y, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        self.sums.update_many(self.scale.units(x), w, w * y)

    def unlearn(self, x: float, y: float, w: float) -> None:
        require_learned((self.sums.weight, self.sums.positive, self.sums.count), x, y, w, self.sums.peak)
        self.sums.unlearn(self.scale.unit(x), w, w * y)

    def verify(self, x: float, y: float, w: float) -> None:
        moments, cross, weight, positive, count, peak = self.sums.state()
        require_learned((weight, positive, count), x, y, w, peak)
        require_accurate(weight - w + float(self.sums.low[2][0]), count - 1, peak, w)
        u, slack = self.scale.unit(x), RETRACTION_TOLERANCE * peak
        for sums, part in ((moments, w), (cross, w * y), (_lowered(moments, self.degree) - cross, w - w * y)):
            added = np.empty(len(sums))
            basis(len(sums) - 1, u, added)
            left = sums - part * added
            even = _lowered(left, (len(left) - 1) // 2 * 2)
            if (
                left.min() < -slack
                or np.linalg.eigvalsh(_gram(even)).min() < -slack
                or (count == 1 and left.max() > slack)
            ):
                raise RetractionError(never_learned(x, y, w))

    def merge(self, other: Self) -> None:
        self.sums.merge(other.sums)

    def decay(self, factor: float) -> None:
        self.sums.multiply(factor)

    def _summed(self) -> tuple[Any, ...]:
        return self.sums.moments, self.sums.cross

    def empty(self) -> Self:
        return type(self)(self.degree, self.scale)

    def fields(self) -> dict[str, Field]:
        sums, moments, cross = self.sums, numbers(2 * self.degree + 1), numbers(self.degree + 1)
        return {
            "moments": Field(moments, sums.moments.copy),
            "cross": Field(cross, sums.cross.copy),
            "weight": Field(number(-HEAVIEST, HEAVIEST), lambda: sums.weight),
            "positive": Field(number(-HEAVIEST, HEAVIEST), lambda: sums.positive),
            "count": Field(whole(), lambda: sums.count),
            "peak": Field(number(0.0, HEAVIEST), lambda: sums.peak),
            "low": Field(row(moments, cross, numbers(2)), lambda: dropped(sums.low), optional=True),
        }

    def _load(self, low: Any, **read: Any) -> None:
        require_moments(**read)
        require_dropped(low or (), read["peak"])
        self.sums.load(**read, low=low)


def dropped(low: Sequence[FloatArray]) -> list[FloatArray] | None:
    """Return copies of what sums have dropped in rounding; None if they have dropped nothing."""
    return [part.copy() for part in low] if any(part.any() for part in low) else None


def require_dropped(low: tuple[FloatArray, ...], peak: float) -> None:
    """Raise `StateError` unless sums can have dropped this in rounding, far below the largest weight."""
    ensure(all((np.abs(part) <= ROUNDING * peak).all() for part in low), "more was dropped than rounding")


def _lowered(sums: FloatArray, degree: int) -> FloatArray:
    """Return sums of the Bernstein basis of a lower degree: Bᵢᵐ⁻¹ = ((m − i)·Bᵢᵐ + (i + 1)·Bᵢ₊₁ᵐ)/m."""
    for m in range(len(sums) - 1, degree, -1):
        i = np.arange(m)
        sums = ((m - i) * sums[:-1] + (i + 1.0) * sums[1:]) / m
    return sums


def _gram(sums: FloatArray) -> FloatArray:
    """Return the Gram matrix of the basis of degree m, from the sums of degree 2m."""
    half = (len(sums) - 1) // 2
    scale, index = binomials(half), np.add.outer(np.arange(half + 1), np.arange(half + 1))
    return np.multiply.outer(scale, scale) / binomials(2 * half)[index] * sums[index]


def require_moments(
    moments: FloatArray, cross: FloatArray, weight: float, positive: float, count: int, peak: float
) -> None:
    """Raise `StateError` unless these can be sums of nonnegative functions that sum to 1, up to rounding."""
    slack = ROUNDING * peak
    ensure(-slack <= positive <= weight + slack and weight <= peak + slack, "a weight is not possible")
    ensure(weight == 0.0 or abs(weight) >= LIGHTEST, "a weight is not possible")
    ensure((moments >= -slack).all() and (cross >= -slack).all(), "a sum is below 0")
    ensure(abs(moments.sum() - weight) <= slack, "the sums do not add up to the weight")
    ensure(abs(cross.sum() - positive) <= slack, "the sums do not add up to the positive weight")
    ensure(count > 0 or not (moments.any() or cross.any() or weight or positive), "there is weight and no observation")
