"""`TensorMoments`: the sufficient statistic of least squares in a tensor product of Bernstein bases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from streamcal.kernels.polynomial.tensor_bernstein import TensorSums
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, Field, ensure, number, numbers, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.bernstein_moments import require_moments
from streamcal.statistics.retractions import require_learned
from streamcal.statistics.vector_table import require_tuples


class TensorMoments(Statistic):
    """VᵀV and Vᵀy of the tensor Bernstein basis of degrees (K₁, …, K_M), in Π(2Kₘ + 1) and Π(Kₘ + 1) sums.

    Along every axis Bᵢᴷ·Bⱼᴷ = C(K,i)C(K,j)/C(2K,i+j)·Bᵢ₊ⱼ²ᴷ, so that the sums of the doubled degrees determine the
    Gram matrix: 121 of them for two scores of degree 5 instead of 36². A coordinate is a tuple, mapped to [0, 1]ᴹ by
    the scales. Update and retraction O(Π(2Kₘ + 1)); fixed memory. Single scores are not kept: a retraction is refused
    only if it would remove more weight than is held. `sums` is never divided by the unit, also not in views: a
    least-squares problem depends only on the ratios of its sums.
    """

    bounded = True

    def __init__(self, degrees: tuple[int, ...], scales: tuple[Scale, ...]) -> None:
        self.degrees = degrees
        self.scales = scales
        self.sums = TensorSums(degrees)
        self._count = 0
        self._peak = 0.0  # the largest weight ever summed, see `require_learned`

    @property
    def n(self) -> float:
        return float(self.sums.weight) / self.unit

    def update(self, x: tuple[float, ...], y: float, w: float) -> None:
        self.sums.update(self._units(x), w, w * y)
        self._count += 1
        self._peak = max(self._peak, self.sums.weight)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(x) == 0:  # an empty refill has no columns
            return
        self.sums.update_many(units(self.scales, x), w, w * y)
        self._count += len(x)
        self._peak = max(self._peak, self.sums.weight)

    def unlearn(self, x: tuple[float, ...], y: float, w: float) -> None:
        require_learned((self.sums.weight, self.sums.positive, self._count), x, y, w, self._peak)
        self._count -= 1
        if self._count == 0:
            self.sums.load(np.zeros_like(self.sums.moments), np.zeros_like(self.sums.cross), 0.0, 0.0)
        else:
            self.sums.unlearn(self._units(x), w, w * y)

    def merge(self, other: Self) -> None:
        self.sums.merge(other.sums)
        self._count += other._count
        self._peak = max(self._peak, other._peak, self.sums.weight)

    def add_projection(self, other: TensorMoments, columns: Sequence[int]) -> None:
        """Add the sums of a statistic of more scores, of which those at `columns` are those of this one.

        The bases of the other scores add up to 1, and the sums over their indices are those of an observation without
        them.
        """
        moments, cross, weight, positive = other.sums.state()
        rest = tuple([axis for axis in range(len(other.degrees)) if axis not in columns])
        projected = TensorSums(self.degrees)
        projected.load(
            moments.reshape([2 * degree + 1 for degree in other.degrees]).sum(axis=rest).reshape(-1),
            cross.reshape([degree + 1 for degree in other.degrees]).sum(axis=rest).reshape(-1),
            weight,
            positive,
        )
        self.sums.merge(projected)
        self._count += other._count
        self._peak = max(self._peak, other._peak, self.sums.weight)

    def decay(self, factor: float) -> None:
        self.sums.multiply(factor)
        self._peak *= factor

    def _summed(self) -> tuple[Any, ...]:
        return self.sums.moments, self.sums.cross

    def empty(self) -> Self:
        return type(self)(self.degrees, self.scales)

    def fields(self) -> dict[str, Field]:
        sums = self.sums
        return {
            "moments": Field(numbers(len(sums.moments)), sums.moments.copy),
            "cross": Field(numbers(len(sums.cross)), sums.cross.copy),
            # weights of NumPy where the kernel is not compiled
            "weight": Field(number(-HEAVIEST, HEAVIEST), lambda: float(sums.weight)),
            "positive": Field(number(-HEAVIEST, HEAVIEST), lambda: float(sums.positive)),
            "count": Field(whole(), lambda: self._count),
            "peak": Field(number(0.0, HEAVIEST), lambda: float(self._peak)),
        }

    def _load(self, count: int, peak: float, **sums: Any) -> None:
        require_moments(**sums, count=count, peak=peak)
        self.sums.load(**sums)
        self._count, self._peak = count, peak

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_tuples(x, self.scales, len(self.degrees))
        ensure(((y == 0.0) | (y == 1.0)).all(), "a label is neither 0 nor 1")

    def _units(self, x: tuple[float, ...]) -> list[float]:
        return [scale.unit(score) for scale, score in zip(self.scales, x, strict=True)]


def units(scales: tuple[Scale, ...], x: FloatArray) -> FloatArray:
    """Return the unit coordinates, in [0, 1], of coordinates, both of shape (n, M)."""
    columns = [scale.units(np.ascontiguousarray(column)) for scale, column in zip(scales, x.T, strict=True)]
    return np.column_stack(columns)
