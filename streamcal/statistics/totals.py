"""`Totals`: total weight and positive weight, summed without rounding."""

from __future__ import annotations

from typing import Any, Self

from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, Field, ensure, hexadecimal, listed, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.retractions import require_learned

#: Decay drops bits below 2^−1200, so that the integers stay bounded. New observations weigh at least 1e-60 = 2^−200,
#: and after 1,000 further half-lives the decaying memory drops everything.
KEPT_BITS = 1200
#: Hexadecimal digits of a sum that is read: more than the 1,200 bits kept and the 500 by which weights differ.
DIGITS = 1024


class Totals(Statistic):
    """Total weight, positive weight and number of observations. O(1) in time and memory.

    A float is an integer over a power of two, and so is a sum of floats: a unlearned observation leaves no rounding
    error, and a weight of 1e-60 is still held after a weight of 1e60 was added and removed.
    """

    bounded = True
    drifts = False

    def __init__(self) -> None:
        # The total weight, the positive weight and the largest total ever held (see `require_learned`) are these over
        # _denominator, a power of two.
        self._sum = 0
        self._positive = 0
        self._peak = 0
        self._denominator = 1
        self._count = 0

    @property
    def n(self) -> float:
        return self._sum / self._denominator / self.unit

    def update(self, x: Any, y: float, w: float) -> None:
        if y == 1.0:  # the common case, without a function call
            weight, denominator = w.as_integer_ratio()
            if denominator != self._denominator:
                weight = self._integer(w)
            positive = weight
        else:
            weight, positive = self._parts(y, w)
        self._sum += weight
        self._positive += positive
        self._count += 1
        if self._sum > self._peak:
            self._peak = self._sum

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        weight = self._integers(w)  # before `_sum` is read: this may rescale it
        self._sum += weight
        ones = y == 1.0
        binary = bool((ones | (y == 0.0)).all())
        positive = self._integers(w[ones] if binary else w * y)
        self._positive += positive
        self._count += len(w)
        self._peak = max(self._peak, self._sum)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        weight, positive = self._parts(y, w)
        spare, spare_positive = self._sum - weight, self._positive - positive
        if not 0 <= spare_positive <= spare or (self._count == 1 and spare):  # not exactly; accept it up to rounding
            over = self._denominator
            require_learned((self._sum / over, self._positive / over, self._count), x, y, w, self._peak / over)
        self._count -= 1
        self._sum = max(spare, 0) if self._count else 0
        self._positive = max(spare_positive, 0) if self._count else 0

    def merge(self, other: Self) -> None:
        self._make_finer(other._denominator)
        finer = self._denominator // other._denominator
        self._sum += other._sum * finer
        self._positive += other._positive * finer
        self._count += other._count
        self._peak = max(self._peak, other._peak * finer, self._sum)

    def decay(self, factor: float) -> None:
        numerator, denominator = factor.as_integer_ratio()
        self._denominator *= denominator
        excess = max(self._denominator.bit_length() - 1 - KEPT_BITS, 0)
        self._denominator >>= excess
        self._sum, self._positive, self._peak = (
            value * numerator >> excess for value in (self._sum, self._positive, self._peak)
        )

    def empty(self) -> Self:
        return type(self)()

    def fields(self) -> dict[str, Field]:
        integers = Field(listed(hexadecimal(DIGITS), length=4), self._in_lowest_terms)
        return {"integers": integers, "count": Field(whole(), lambda: self._count)}

    def _in_lowest_terms(self) -> list[str]:
        """Return the integers of equal totals alike, as text (`LabelMoments`)."""
        integers = (self._sum, self._positive, self._peak, self._denominator)
        common = self._sum | self._positive | self._peak | self._denominator
        common &= -common  # the largest power of two that divides all of them
        return [hex(value // common) for value in integers]

    def _load(self, integers: list[int], count: int) -> None:
        total, positive, peak, denominator = integers
        ensure(denominator > 0 and denominator & (denominator - 1) == 0, "the denominator is no power of two")
        ensure(0 <= positive <= total <= peak, "the sums are in no order")
        ensure(peak <= int(HEAVIEST) * denominator, "the sums are too large")
        ensure(count > 0 or total == 0, "there is weight and no observation")
        self._sum, self._positive, self._peak, self._denominator = total, positive, peak, denominator
        self._count = count

    def _parts(self, y: float, w: float) -> tuple[int, int]:
        """Return the weight and the positive weight of an observation, times the denominator."""
        weight = self._integer(w)
        if y == 1.0 or y == 0.0:
            return weight, weight if y else 0
        positive = self._integer(w * y)  # which may have changed the denominator
        return self._integer(w), positive

    def _integer(self, weight: float) -> int:
        """Return a weight times the denominator, which grows if the product would not be an integer."""
        numerator, denominator = weight.as_integer_ratio()
        if denominator > self._denominator:
            self._make_finer(denominator)
        return numerator * (self._denominator // denominator)

    def _integers(self, weights: FloatArray) -> int:
        """Return the sum of `_integer` over an array."""
        if len(weights) and (weights == weights[0]).all():
            return self._integer(float(weights[0])) * len(weights)
        ratios = [weight.as_integer_ratio() for weight in weights.tolist()]
        self._make_finer(max((denominator for _, denominator in ratios), default=1))
        finest = self._denominator
        return sum([numerator * (finest // denominator) for numerator, denominator in ratios])

    def _make_finer(self, denominator: int) -> None:
        """Make the denominator at least as large as this one."""
        finer = max(denominator // self._denominator, 1)
        self._denominator *= finer
        self._sum *= finer
        self._positive *= finer
        self._peak *= finer
