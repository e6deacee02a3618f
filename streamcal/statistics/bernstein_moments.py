"""`BernsteinMoments`: the sufficient statistic of least squares in the Bernstein basis of degree n."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamcal.kernels.bernstein import BernsteinSums
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.held import require_held

#: Relative accuracy of the sums of up to a million observations, as a share of the largest total weight ever held.
ROUNDING = 1e-9


class BernsteinMoments(Statistic):
    """VᵀV and Vᵀy of the degree-n Bernstein basis at the scale's unit coordinate, in 2n + 1 and n + 1 sums.

    Bᵢⁿ·Bⱼⁿ = C(n,i)C(n,j)/C(2n,i+j)·Bᵢ₊ⱼ²ⁿ, so the sums of the degree-2n basis determine the Gram matrix. Update and
    retraction O(n); fixed memory. Single scores are not kept: a retraction is refused only if it would remove more
    weight than is held. `sums` is never divided by the unit, also not in views: a least-squares problem depends only
    on the ratios of its sums.
    """

    bounded = True

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
        slack = ROUNDING * peak
        assert (moments >= -slack).all()
        assert abs(moments.sum() - weight) <= slack, "the basis is a partition of one"
        assert (cross >= -slack).all()
        assert abs(cross.sum() - positive) <= slack
        assert count > 0 or not moments.any()

    def empty(self) -> Self:
        return type(self)(self.degree, self.scale)

    def state(self) -> dict[str, Any]:
        moments, cross, weight, positive, count, peak = self.sums.state()
        sums = {"moments": moments.tolist(), "cross": cross.tolist(), "weight": weight, "positive": positive}
        return {**sums, "count": count, "peak": peak}

    def restore(self, state: dict[str, Any]) -> None:
        names = ("weight", "positive", "count", "peak")
        self.sums.load(np.array(state["moments"]), np.array(state["cross"]), *(state[name] for name in names))
