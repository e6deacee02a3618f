"""`BernsteinMoments`: the sums that fix a Bernstein least-squares problem of degree n."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamcal.base import FloatArray, Statistic
from streamcal.kernels.bernstein import BernsteinSums
from streamcal.scales import Scale
from streamcal.statistics.held import require_held


class BernsteinMoments(Statistic):
    """VᵀV and Vᵀy of the degree-n Bernstein basis at the scale's unit coordinate, in 2n + 1 and n + 1 sums.

    Bᵢⁿ·Bⱼⁿ = C(n,i)C(n,j)/C(2n,i+j)·Bᵢ₊ⱼ²ⁿ, so the sums of the degree-2n basis are all of the Gram matrix. Update and
    retraction O(n); fixed memory. Nothing of the single scores is kept: a retraction can be refused only when it asks
    for more weight than is held.
    """

    bounded = True

    def __init__(self, degree: int, scale: Scale) -> None:
        self.degree = degree
        self.scale = scale
        self.sums = BernsteinSums(degree)
        self._count = 0
        self._peak = 0.0  # the largest weight ever summed, see `require_held`

    @property
    def n(self) -> float:
        return float(self.sums.weight)

    @property
    def count(self) -> int:
        return self._count

    def update(self, x: float, y: float, w: float) -> None:
        self.sums.update(self.scale.unit(x), w, w * y)
        self._count += 1
        self._peak = max(self._peak, self.sums.weight)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        self.sums.update_many(self.scale.units(x), w, w * y)
        self._count += len(x)
        self._peak = max(self._peak, self.sums.weight)

    def revert(self, x: float, y: float, w: float) -> None:
        require_held((self.sums.weight, self.sums.positive, self._count), x, y, w, self._peak)
        self._count -= 1
        if self._count == 0:
            self.sums.reset()
        else:
            self.sums.revert(self.scale.unit(x), w, w * y)

    def merge(self, other: Self) -> None:
        self.sums.merge(other.sums)
        self._count += other._count
        self._peak = max(self._peak, other._peak, self.sums.weight)

    def decay(self, factor: float) -> None:
        self.sums.multiply(factor)
        self._peak *= factor

    def empty(self) -> Self:
        return type(self)(self.degree, self.scale)

    def state(self) -> dict[str, Any]:
        moments, cross, weight, positive = self.sums.state()
        sums = {"moments": moments.tolist(), "cross": cross.tolist(), "weight": weight, "positive": positive}
        return {**sums, "count": self._count, "peak": self._peak}

    def restore(self, state: dict[str, Any]) -> None:
        self.sums.load(np.array(state["moments"]), np.array(state["cross"]), state["weight"], state["positive"])
        self._count, self._peak = int(state["count"]), float(state["peak"])
