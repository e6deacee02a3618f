"""`BernsteinMoments`: the sufficient statistic of least squares in the Bernstein basis of degree n."""

from __future__ import annotations

from typing import Any, Self

from streamcal.kernels.bernstein import BernsteinSums
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, LIGHTEST, ROUNDING, Fields, ensure, number, numbers, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.held import require_held

#: Relative accuracy of the sums of up to a million observations, as a share of the largest total weight ever held.
ACCURACY = 1e-9


class BernsteinMoments(Statistic):
    """VᵀV and Vᵀy of the degree-n Bernstein basis at the scale's unit coordinate, in 2n + 1 and n + 1 sums.

    Bᵢⁿ·Bⱼⁿ = C(n,i)C(n,j)/C(2n,i+j)·Bᵢ₊ⱼ²ⁿ, so the sums of the degree-2n basis determine the Gram matrix. Update and
    retraction O(n); fixed memory. Single scores are not kept: a retraction is refused only if it would remove more
    weight than is held. `sums` is never divided by the unit, also not in views: a least-squares problem depends only
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

    def revert(self, x: float, y: float, w: float) -> None:
        require_held((self.sums.weight, self.sums.positive, self.sums.count), x, y, w, self.sums.peak)
        self.sums.revert(self.scale.unit(x), w, w * y)

    def merge(self, other: Self) -> None:
        self.sums.merge(other.sums)

    def decay(self, factor: float) -> None:
        self.sums.multiply(factor)

    def _check(self) -> None:
        super()._check()
        moments, cross, weight, positive, count, peak = self.sums.state()
        slack = ACCURACY * peak
        assert (moments >= -slack).all()
        assert abs(moments.sum() - weight) <= slack, "the basis is a partition of one"
        assert (cross >= -slack).all()
        assert abs(cross.sum() - positive) <= slack
        assert count > 0 or not moments.any()

    def _summed(self) -> tuple[Any, ...]:
        return self.sums.moments, self.sums.cross

    def empty(self) -> Self:
        return type(self)(self.degree, self.scale)

    def state(self) -> dict[str, Any]:
        moments, cross, weight, positive, count, peak = self.sums.state()
        sums = {"moments": moments.tolist(), "cross": cross.tolist(), "weight": weight, "positive": positive}
        return {**sums, "count": count, "peak": peak}

    def fields(self) -> Fields:
        return {
            "moments": numbers(2 * self.degree + 1),
            "cross": numbers(self.degree + 1),
            **dict.fromkeys(("weight", "positive"), number(-HEAVIEST, HEAVIEST)),
            "count": whole(),
            "peak": number(0.0, HEAVIEST),
        }

    def _load(self, **read: Any) -> None:
        require_moments(**read)
        self.sums.load(**read)


def require_moments(
    moments: FloatArray, cross: FloatArray, weight: float, positive: float, count: int, peak: float
) -> None:
    """`StateError` unless these can be sums of nonnegative functions that sum to 1, up to rounding."""
    slack = ROUNDING * peak
    ensure(-slack <= positive <= weight + slack and weight <= peak + slack, "a weight is not possible")
    ensure(weight == 0.0 or abs(weight) >= LIGHTEST, "a weight is not possible")
    ensure((moments >= -slack).all() and (cross >= -slack).all(), "a sum is below 0")
    ensure(abs(moments.sum() - weight) <= slack, "the sums do not add up to the weight")
    ensure(abs(cross.sum() - positive) <= slack, "the sums do not add up to the positive weight")
    ensure(count > 0 or not (moments.any() or cross.any() or weight or positive), "there is weight and no observation")
