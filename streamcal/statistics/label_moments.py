"""`LabelMoments`: Σw, Σwx and Σwx² of each label, summed without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from streamcal.errors import RetractionError
from streamcal.kernels.normal.recent_moments import RecentMoments
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, LIGHTEST, ROUNDING, Field, counts, ensure, hexadecimal, listed, number, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.retractions import can_contain, never_learned

#: Decay drops the bits that lie this far below the weight of a label, so that the integers stay bounded; weights from
#: 1e-60 to 1e60 span 452 bits.
KEPT_BITS = 1024
#: A weighted sum of squares that is negative by less than 2^−40 of what it was is 0.
TOLERATED_BITS = 40
#: Hexadecimal digits of a sum that is read, and the largest unit: coordinates, of which squares are summed, span 2,098
#: bits.
DIGITS, LARGEST_UNIT = 4096, 8192


class LabelMoments(Statistic):
    """Count, Σw, Σwx and Σwx² of each label, as exact integers in units of powers of two. All operations O(1).

    A float is an integer times a power of two, and so is a sum of products of floats. Only results are rounded, not
    the sums: they do not depend on the order of the observations, and a unlearned observation leaves no rounding error.
    Variances are computed from Σwx² without cancellation, however far from 0 the coordinates are.

    Integers of some hundred bits cost microseconds. So single observations wait to be added together, and meanwhile
    `summary` is read from sums in twice the precision of a double, which are made of the exact ones every
    128 observations.
    """

    bounded = True
    drifts = False

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale
        self._reset()

    def _reset(self) -> None:
        # _sums[label] = [Σw, Σwx, Σwx²] in units of 2^_weight_unit, times 2^_x_unit and 2^(2·_x_unit)
        self._sums = [[0, 0, 0], [0, 0, 0]]
        self._counts = [0, 0]
        self._weight_unit = 0
        self._x_unit = 0
        self._count = 0
        self._peak = 0.0  # the largest weight ever held, see `can_contain`
        #: Observations that are not in `_sums` and `_counts` yet; only `_count` has them.
        self._recent = RecentMoments()

    def present(self, unit: float) -> Self:
        if unit == self.unit:
            return self
        self._settle()  # a view has sums of its own
        return super().present(unit)

    def _settle(self) -> None:
        """Add the recent observations to the exact sums."""
        negative_x, negative_w, positive_x, positive_w = self._recent.take()
        for label, x, w in ((0, negative_x, negative_w), (1, positive_x, positive_w)):
            if x:
                self._add_many(label, x, w)

    def _follow(self) -> None:
        """Set the sums in twice the precision, if the exact ones have changed."""
        if not self._recent.ready:
            self._settle()
            units = [self._weight_unit + k * self._x_unit for k in range(3)]
            parts = [_in_two(value, unit) for own in self._sums for value, unit in zip(own, units, strict=True)]
            if all(math.isfinite(hi) for hi, _ in parts):
                self._recent.set([hi for hi, _ in parts], [lo for _, lo in parts])

    @property
    def n(self) -> float:
        if self._recent.ready and self.unit == 1.0:
            return float(self._recent.total())
        self._settle()
        return self._as_float(self._sums[0][0] + self._sums[1][0]) / self.unit

    def weights(self) -> tuple[float, float]:
        """Return the weights of the negative and of the positive observations."""
        self._settle()
        return self._as_float(self._sums[0][0]) / self.unit, self._as_float(self._sums[1][0]) / self.unit

    def means(self) -> tuple[float, float]:
        """Return μ₀ and μ₁, the mean coordinates of the two labels; each label must have been observed."""
        self._settle()
        negative, positive = (_ratio(s1, s0, self._x_unit) for s0, s1, _ in self._sums)
        return negative, positive

    def mean_and_square(self, label: int) -> tuple[float, float]:
        """Return the mean of the coordinates of a label and of their squares; the label must have been observed."""
        self._settle()
        weight, first, second = self._sums[label]
        return _ratio(first, weight, self._x_unit), _ratio(second, weight, 2 * self._x_unit)

    def gap(self) -> float:
        """Return μ₁ − μ₀, rounded once."""
        self._settle()
        (a0, a1, _), (b0, b1, _) = self._sums
        return _ratio(b1 * a0 - a1 * b0, a0 * b0, self._x_unit)

    def gap_by_variance(self, *, within: bool) -> float:
        """Return (μ₁ − μ₀)·W / Σ w (x − μ)², rounded once; infinite if the quotient overflows.

        μ is the mean of the label (`within`) or of all observations. The quotient overflows if the sum of squares is 0,
        or very small.
        """
        self._settle()
        (a0, a1, a2), (b0, b1, b2) = self._sums
        weight, gap = a0 + b0, b1 * a0 - a1 * b0
        # Σ w (x − μ)² times the weights of both labels, and times that of all
        squares = ((a2 * a0 - a1 * a1) * b0 + (b2 * b0 - b1 * b1) * a0) * weight + (0 if within else gap * gap)
        squares = max(squares, 0)  # retractions under decay by time recompute a weight, with another rounding
        return _ratio(gap * weight * weight, squares, -self._x_unit)

    def summary(self, *, within: bool) -> tuple[float, float, float, float, float, float] | None:
        """Return `weights()`, `means()`, `gap()` and `gap_by_variance()`; None unless both labels have weight.

        Recent observations are included. Each value is rounded once, or, if it is read from sums in twice the precision
        of a double, correct to 2⁻⁵² of it.
        """
        if self.unit == 1.0:
            self._follow()
            recent: tuple[float, float, float, float, float, float] | None = self._recent.summary(within)
            if recent is not None:
                return recent
        negative, positive = self.weights()
        if not (negative > 0.0 and positive > 0.0):
            return None
        return negative, positive, *self.means(), self.gap(), self.gap_by_variance(within=within)

    def update(self, x: float, y: float, w: float) -> None:
        if self._recent.add(x, y, w):
            self._count += 1
            return
        self._settle()
        self._recent.forget()
        for label, part in _parts(y, w):
            self._add(label, x, part, 1)
        self._count += 1

    def stream(
        self, x: FloatArray, y: FloatArray, w: FloatArray, start: int, *, within: bool, steepest: float, p: FloatArray
    ) -> int:
        """Write the prediction for each row from `start` on by `normal_line` to `p`, and then add it if it has weight.

        Returns the first row that is to be predicted from the exact sums and added to them, or the number of rows.
        """
        stop: int = self._recent.run(x, y, w, start, within, steepest, p)
        self._count += int(np.count_nonzero(w[start:stop] > 0.0))
        return stop

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        self._settle()
        self._recent.forget()
        for label, part in ((0, w - w * y), (1, w * y)):
            weighted = part > 0.0
            if weighted.any():
                self._add_many(label, x[weighted].tolist(), part[weighted].tolist())
        self._count += len(x)

    def require(self, x: float, y: float, w: float) -> None:
        weights = self.weights()
        for label, part in _parts(y, w):
            if not can_contain((weights[label], 0.0, self._counts[label]), 0.0, part, self._peak):
                raise RetractionError(never_learned(x, y, w))

    def verify(self, x: float, y: float, w: float) -> None:
        """Raise `RetractionError` unless the sums left without an observation are possible.

        They must have a mean square of at least their squared mean, and those of a single observation exactly that, up
        to `TOLERATED_BITS`: under decay by time the unlearned weight is recomputed.
        """
        self.require(x, y, w)  # which settles
        for label, part in _parts(y, w):
            (left, first, second), before = self._left(label, x, part)
            squares, slack = second * left - first * first, before >> TOLERATED_BITS
            count = self._counts[label] - 1
            if count == 0:
                possible = max(first * first, abs(squares)) <= slack
            else:
                possible = left > 0 and squares >= -slack and (count > 1 or squares <= slack)
            if not possible:
                raise RetractionError(never_learned(x, y, w))

    def _left(self, label: int, x: float, weight: float) -> tuple[list[int], int]:
        """Return the sums of a label less an observation, in units as fine as both need, and Σw·Σwx² before."""
        (w, weight_unit), (a, x_unit) = _integer(weight), _integer(x)
        own, own_x = max(self._weight_unit - weight_unit, 0), max(self._x_unit - x_unit, 0)
        shift, x_shift = max(weight_unit - self._weight_unit, 0), max(x_unit - self._x_unit, 0)
        sums = [value << (own + k * own_x) for k, value in enumerate(self._sums[label])]
        w, a = w << shift, a << x_shift
        return [value - w * a**k for k, value in enumerate(sums)], sums[0] * sums[2]

    def unlearn(self, x: float, y: float, w: float) -> None:
        self.require(x, y, w)
        self._recent.forget()
        parts = _parts(y, w)
        for label, part in parts:
            self._add(label, x, part, -1)
            if self._counts[label] == 0:
                self._sums[label] = [0, 0, 0]
        self._count -= 1

    def merge(self, other: Self) -> None:
        self._settle()
        other._settle()
        self._recent.forget()
        for label in (0, 1):
            self._add_sums(label, other._sums[label], other._weight_unit, other._x_unit)
            self._counts[label] += other._counts[label]
        self._count += other._count
        self._peak = max(self._peak, other._peak, *self.weights())

    def decay(self, factor: float) -> None:
        self._settle()
        self._recent.forget()
        numerator, unit = _integer(factor)
        self._weight_unit += unit
        self._sums = [[value * numerator for value in sums] for sums in self._sums]
        self._peak *= factor
        excess = max(weight.bit_length() for weight, _, _ in self._sums) - KEPT_BITS
        if excess > 0:
            self._weight_unit += excess
            self._sums = [[value >> excess for value in sums] for sums in self._sums]

    def empty(self) -> Self:
        return type(self)(self.scale)

    def fields(self) -> dict[str, Field]:
        sums = listed(listed(hexadecimal(DIGITS), length=3), length=2)  # texts: many JSON parsers read floats
        units = listed(whole(-LARGEST_UNIT, LARGEST_UNIT), length=2)
        return {
            "sums": Field(sums, lambda: [list(map(hex, own)) for own in self._sums]),
            "units": Field(units, lambda: [self._weight_unit, self._x_unit]),
            "counts": Field(counts(2), self._counts.copy),
            "count": Field(whole(), lambda: self._count),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
        }

    def _load(self, sums: list[list[int]], units: list[int], counts: Any, count: int, peak: float) -> None:
        ensure(counts.max() <= count <= counts.sum(), "the counts do not add up")  # pseudo-labels count for both
        for (weight, first, second), of_label in zip(sums, counts.tolist(), strict=True):
            self._require_moments(weight, first, second, of_label, units, peak)
        self._recent = RecentMoments()
        self._sums, self._counts = [list(own) for own in sums], counts.tolist()
        self._weight_unit, self._x_unit = units
        self._count, self._peak = count, peak

    def _require_moments(self, s0: int, s1: int, s2: int, count: int, units: list[int], peak: float) -> None:
        """Raise `StateError` unless these can be Σw, Σwx and Σwx² of a label."""
        if count == 0:
            ensure(s0 == s1 == s2 == 0, "there is weight and no observation")
            return
        weight = _ratio(s0, 1, units[0])
        ensure(s0 >= 0 and weight <= peak * (1.0 + ROUNDING), "a weight is not possible")
        ensure((s0 == 0) <= (s1 == s2 == 0), "there are sums without weight")
        if s0 > 0:
            ensure(weight >= LIGHTEST, "a weight is not possible")
            self._require_coordinates(np.array([_ratio(s1, s0, units[1])]), self.scale)
            # Up to rounding: a retraction under decay by time recomputes the weight that is left.
            ensure((s2 * s0 - s1 * s1) << 20 >= -s2 * s0 and s2 >= 0, "a variance is below 0")
            ensure(math.isfinite(_ratio(s2, s0, 2 * units[1])), "a mean square is too large")

    def _add(self, label: int, x: float, weight: float, sign: int) -> None:
        """Add weight at x to the sums of a label (`sign` 1), or subtract it (`sign` −1)."""
        w, weight_unit = _integer(weight)
        a, x_unit = _integer(x)
        w *= sign
        self._add_sums(label, (w, w * a, w * a * a), weight_unit, x_unit)
        self._counts[label] += sign
        self._peak = max(self._peak, self._as_float(self._sums[label][0]))

    def _add_many(self, label: int, x: list[float], weights: list[float]) -> None:
        """Do `_add` for lists: sum in units of their own first, then align once."""
        w, weight_unit = _integers(weights)
        a, x_unit = _integers(x)
        wa = [one * other for one, other in zip(w, a, strict=True)]
        squares = sum(one * other for one, other in zip(wa, a, strict=True))
        self._add_sums(label, (sum(w), sum(wa), squares), weight_unit, x_unit)
        self._counts[label] += len(x)
        self._peak = max(self._peak, self._as_float(self._sums[label][0]))

    def _add_sums(self, label: int, added: Sequence[int], weight_unit: int, x_unit: int) -> None:
        """Add Σw, Σwx and Σwx² in these units."""
        weight_shift, x_shift = self._align(weight_unit, x_unit)
        sums = self._sums[label]
        sums[0] += added[0] << weight_shift
        sums[1] += added[1] << weight_shift + x_shift
        sums[2] += added[2] << weight_shift + 2 * x_shift

    def _align(self, weight_unit: int, x_unit: int) -> tuple[int, int]:
        """Make the units at least as fine as these; return by how many bits they are finer."""
        finer, x_finer = max(self._weight_unit - weight_unit, 0), max(self._x_unit - x_unit, 0)
        if finer or x_finer:
            self._sums = [[value << (finer + k * x_finer) for k, value in enumerate(sums)] for sums in self._sums]
            self._weight_unit -= finer
            self._x_unit -= x_finer
        return weight_unit - self._weight_unit, x_unit - self._x_unit

    def _as_float(self, weight: int) -> float:
        return _ratio(weight, 1, self._weight_unit)


def _parts(y: float, w: float) -> list[tuple[int, float]]:
    """Split the pseudo-observation (y, w) into (label, weight): both labels if y is between them."""
    return [(label, part) for label, part in ((0, w - w * y), (1, w * y)) if part > 0.0]


def _integer(value: float) -> tuple[int, int]:
    """Return (k, e) with value = k·2^e, without rounding."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def _integers(values: list[float]) -> tuple[list[int], int]:
    """Return integers k and one exponent e with values = k·2^e, without rounding."""
    ratios = [value.as_integer_ratio() for value in values]
    common = max(denominator for _, denominator in ratios)  # all are powers of two
    return [numerator * (common // denominator) for numerator, denominator in ratios], 1 - common.bit_length()


def _in_two(value: int, exponent: int) -> tuple[float, float]:
    """Return value·2^exponent as the sum of two floats; infinite or 0 beyond their range."""
    hi = _ratio(value, 1, exponent)
    if not math.isfinite(hi):
        return hi, 0.0
    own, unit = _integer(hi)
    least = min(unit, exponent)
    return hi, _ratio((value << exponent - least) - (own << unit - least), 1, least)


def _ratio(numerator: int, denominator: int, exponent: int) -> float:
    """Return numerator / denominator · 2^exponent, rounded once; infinite beyond the largest float and over 0."""
    try:
        if exponent >= 0:
            return (numerator << exponent) / denominator
        return numerator / (denominator << -exponent)
    except (OverflowError, ZeroDivisionError):
        return math.inf if numerator >= 0 else -math.inf
