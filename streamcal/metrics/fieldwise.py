"""`FieldwiseECE`: how far the total of each level of a field, such as each campaign, is from what was predicted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError, RetractionError
from streamcal.metrics.base import Summed, check_forecasts, check_probability, check_true
from streamcal.metrics.cells import dot
from streamcal.metrics.label_weights import weights_by_label
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.types import FloatArray, Label

#: The 95 % quantile of the standard normal distribution.
ONE_SIDED_95 = 1.6448536269514722
#: The third central moment of |z| for a standard normal z.
THIRD_MOMENT = math.sqrt(2.0 / math.pi) * (4.0 / math.pi - 1.0)
#: A level with fewer expected positives, or negatives, is left out of χ²: its statistic is far from normal.
FEWEST_EXPECTED = 5.0


class LevelData(NamedTuple):
    """What is known of one level.

    Parameters
    ----------
    n : float
        The weight of its observations.
    predicted, positive : float
        Σ w·p and Σ w·y.
    variance : float
        That of `positive` if every p is right: Σ w²·p(1 − p), and less or more where weights depend on the label.
    """

    n: float
    predicted: float
    positive: float
    variance: float

    @property
    def z(self) -> float:
        """(positive − predicted) in standard deviations; infinite where a certain prediction was wrong.

        >>> LevelData(100.0, 10.0, 16.0, 9.0).z
        2.0
        """
        gap = self.positive - self.predicted
        if self.variance > 0.0:
            return gap / math.sqrt(self.variance)
        return math.copysign(math.inf, gap) if gap else 0.0


class FieldwiseECE(Summed):
    """Field-wise calibration error (Field-ECE): Σ_k |Σ_{i∈k} wᵢ (yᵢ − pᵢ)| / Σ wᵢ, over the levels k of a field.

    Each level is one bin: a model with the right total may still promise one campaign too much and another too little,
    and here this does not cancel. Lower is better, but a perfect prediction does not have 0: with many small levels, or
    rare events, most of the value is chance. 95 % of right predictions stay below `floor`, and `chi_square` is the mean
    of squared gaps in units of their variance: 1 for right predictions, whatever the sizes.

    Notes
    -----
    The total of a level is all that is looked at: predictions that are wrong within it may be right on average.
    If predictions learn from outcomes, as prequential ones do, the gaps are sums of martingale differences with the
    same variances, so that `floor` and `chi_square` mean the same. Weights may depend on the label, as where negatives
    are sampled (`importance_weight`): variances are then those of the sample, by the mean weights of both labels.

    Cost: `update` and `revert` O(1); `get`, `floor`, `chi_square` and `merge` O(levels). Memory: one row for each level
    ever seen.

    References
    ----------
    F. Pan and others, Field-aware calibration: a simple and empirically strong method for reliable probabilistic
    predictions, WWW 2020.

    Examples
    --------
    >>> ece = FieldwiseECE()
    >>> ece.update_many([1, 1, 0, 0], [0.5] * 4, ["a", "a", "b", "b"])
    >>> ece.get(), ece.levels()["a"].positive
    (0.5, 2.0)
    """

    def update(self, y_true: Label, y_pred: float, level: Hashable, w: float = 1.0) -> None:
        """Add one observation of a level, otherwise as `Metric.update`.

        The level is a text, a number or a tuple; missing levels (None, NaN, and pandas' NA and NaT) are one level.
        """
        label, probability, weight, key = check_true(y_true), check_probability(y_pred), check_weight(w), _key(level)
        self._take(key, probability, label, weight)

    def update_many(
        self, y_true: ArrayLike, y_pred: ArrayLike, levels: Iterable[Hashable], w: ArrayLike | None = None
    ) -> None:
        """Add n observations, with n levels, otherwise as `Metric.update_many`."""
        probabilities, labels, weights = check_forecasts(y_true, y_pred, w)
        plain: Any = levels.tolist() if isinstance(levels, np.ndarray) else levels
        if isinstance(plain, (str, bytes, Set, Mapping)) or not isinstance(plain, Iterable):
            raise InputError(f"levels={levels!r} is not a list; give one for each of {len(probabilities)} observations")
        keys = [_key(level) for level in plain]
        if len(keys) != len(probabilities):
            raise InputError(f"levels are {len(keys)}; give one for each of {len(probabilities)} observations")
        places: dict[Hashable, int] = {}
        codes = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.intp)
        self.update_coded(list(places), codes, probabilities, labels, weights)

    def update_coded(
        self, levels: Sequence[Hashable], codes: NDArray[np.intp], p: FloatArray, y: FloatArray, w: FloatArray
    ) -> None:
        """Add observations as `update_many` does, from checked arrays and levels `levels[code]`; weights may be 0."""
        used = np.where(w > 0.0, 1.0, 0.0)
        squared, both, of_positive = w * w, w * p * (1.0 - p), w * y * p
        terms = (w, w * p, w * y, squared * p * (1.0 - p), squared, both, of_positive, of_positive * (1.0 - p), used)
        sums = np.array([np.bincount(codes, term, len(levels)) for term in terms])
        for level, row in zip(levels, sums.T.tolist(), strict=True):
            if row[-1]:
                sums_of_level = self._levels.setdefault(level, [0.0] * len(terms))
                for place, term in enumerate(row):
                    sums_of_level[place] += term
        self._positive += dot(w, y)
        self._squares += float(squared.sum())
        self._of_positives += dot(squared, y)
        self._count += int(used.sum())
        self._weight += float(w.sum())

    def revert(self, y_true: Label, y_pred: float, level: Hashable, w: float = 1.0) -> None:
        """Remove one earlier `update` with the same arguments.

        `RetractionError` where none of this level is held, or where rounding has reached the weight that is left.
        """
        label, probability, weight, key = check_true(y_true), check_probability(y_pred), check_weight(w), _key(level)
        if weight:
            if key not in self._levels:
                raise RetractionError(f"no observation of the level {level!r} is held that could be reverted")
            self._give_back(key, probability, label, weight)

    # -- results ----------------------------------------------------------------------------------------------

    def get(self) -> float | None:
        """Return the error, in [0, 1]; `None` before the first observation."""
        if self._weight <= 0.0:
            return None
        return math.fsum(abs(sums[2] - sums[1]) for sums in self._levels.values()) / self._weight

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `get` for right predictions, approximately; `None` before the first observation.

        The total of a level is binomial, with the variance that the predictions imply, and its mean absolute deviation
        is de Moivre's. Their sum over the levels has a quantile by Cornish and Fisher, with the variances and the third
        moments of absolute deviations.
        """
        if self._weight <= 0.0:
            return None
        n, predicted, _, variance = np.array([level for level in self.levels().values()]).T
        share = np.clip(predicted / n, 0.0, 1.0)
        counted = (variance > 0.0) & (share > 0.0) & (share < 1.0)
        deviation = mean_deviation(n[counted], share[counted], variance[counted])
        variance = np.maximum(variance[counted], deviation**2)
        middle, spread = float(deviation.sum()), float((variance - deviation**2).sum())
        if spread <= 0.0:
            return middle / self._weight
        skewness = THIRD_MOMENT * float((variance**1.5).sum()) / spread**1.5
        quantile = ONE_SIDED_95 + (ONE_SIDED_95**2 - 1.0) / 6.0 * skewness
        return (middle + quantile * math.sqrt(spread)) / self._weight

    @property
    def chi_square(self) -> float | None:
        """The mean of z² over the levels with at least 5 expected positives and negatives; `None` without such levels.

        χ² over its degrees of freedom. With K levels, right predictions have 1 ± √(2/K).
        """
        squares = [level.z**2 for level in self._large_levels()]
        return math.fsum(squares) / len(squares) if squares else None

    @property
    def degrees(self) -> int:
        """The number of levels in `chi_square`."""
        return len(self._large_levels())

    def levels(self) -> dict[Hashable, LevelData]:
        """Return the data of each level, in the order of their first observations."""
        by_label = self._by_label()
        return {
            level: LevelData(row[0], row[1], row[2], _variance(row, by_label)) for level, row in self._levels.items()
        }

    def _large_levels(self) -> list[LevelData]:
        """Return the levels with enough expected observations of both labels."""
        of_positive, of_negative = (FEWEST_EXPECTED * mean for mean in self._by_label())
        return [
            level
            for level in self.levels().values()
            if level.predicted >= of_positive and level.n - level.predicted >= of_negative and level.variance > 0.0
        ]

    def _by_label(self) -> tuple[float, float]:
        """Return the mean weights of both labels, (1, 1) where weights do not depend on labels."""
        negative, of_negatives = self._weight - self._positive, self._squares - self._of_positives
        return weights_by_label(self._positive, negative, self._of_positives, of_negatives)

    # -- sums ------------------------------------------------------------------------------------------------------

    #: Σ w y, Σ w² and Σ w² y over all levels.
    _sums = ("_positive", "_squares", "_of_positives")
    _positive, _squares, _of_positives = 0.0, 0.0, 0.0

    def _clear(self) -> None:
        super()._clear()
        #: Level → [Σ w, Σ w·p, Σ w·y, Σ w²·p(1 − p), Σ w², Σ w·p(1 − p), Σ w·y·p, Σ w·y·p(1 − p), number of rows].
        self._levels: dict[Hashable, list[float]] = {}

    def _add(self, key: Hashable, p: float, y: float, w: float, sign: int) -> None:
        squared, both, of_positive = w * w, w * p * (1.0 - p), w * y * p
        terms = (w, w * p, w * y, squared * p * (1.0 - p), squared, both, of_positive, of_positive * (1.0 - p), 1)
        sums = self._levels.setdefault(key, [0.0] * len(terms))
        for place, term in enumerate(terms):
            sums[place] += sign * term
        if sums[-1] == 0:  # without the rounding errors of what is gone
            del self._levels[key]
        self._positive += sign * w * y
        self._squares += sign * squared
        self._of_positives += sign * squared * y

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        for key, theirs in list(other._levels.items()):
            own = self._levels.setdefault(key, [0.0] * len(theirs))
            self._levels[key] = [left + right for left, right in zip(own, theirs, strict=True)]


def mean_deviation(n: FloatArray, share: FloatArray, variance: FloatArray) -> FloatArray:
    """Return E|X − E X| of binomial totals X with the means n · share in (0, n) and these variances, arrays.

    By de Moivre's formula 2 ν C(m, ν) pᵛ (1 − p)^(m − ν + 1) with ν = ⌊m p⌋ + 1, where m trials of the weight n/m have
    the variance; for m that are no whole numbers it is interpolated by the gamma function.

    Examples
    --------
    >>> one, many = mean_deviation(np.array([1.0, 1e4]), np.array([0.5, 0.5]), np.array([0.25, 2500.0]))
    >>> round(float(one), 9), round(float(many) / math.sqrt(2.0 / math.pi * 2500.0), 3)
    (0.5, 1.0)
    """
    from scipy.special import gammaln  # not at the top: importing it takes long

    trials = np.maximum(n * n * share * (1.0 - share) / variance, 1.0)
    above = np.floor(trials * share) + 1.0
    ways = gammaln(trials + 1.0) - gammaln(above + 1.0) - gammaln(trials - above + 1.0)
    chance = ways + above * np.log(share) + (trials - above + 1.0) * np.log1p(-share)
    return np.asarray(2.0 * above * np.exp(chance) * n / trials)


def _variance(sums: list[float], by_label: tuple[float, float]) -> float:
    """Return the variance of the positive weight of a level; reverted weights may leave a rounding error below 0.

    Where weights depend on the label, with means r₁ of positives and r₀ of negatives, it is r₁ A + r₀ B with
    A = Σ p (1 − p)² and B = Σ p² (1 − p) over the whole that was sampled. Positives alone and negatives alone estimate
    both. They are mixed so that the errors are not correlated with the gap: by the other label's part of the variance.
    """
    n, predicted, positive, variance, squared, both, of_positive, both_of_positive, _ = sums
    r1, r0 = by_label
    if r1 == r0:
        return variance
    both_of_negative = both - both_of_positive
    by_positives = (positive - of_positive - both_of_positive, both_of_positive)
    by_negatives = (both_of_negative, predicted - of_positive - both_of_negative)
    a, b = (x + y for x, y in zip(by_positives, by_negatives, strict=True))
    share = r0 * b / (r1 * a + r0 * b) if r1 * a + r0 * b > 0.0 else 0.0
    a, b = (share * x + (1.0 - share) * y for x, y in zip(by_positives, by_negatives, strict=True))
    return (r1 * a + r0 * b) * squared / (r1 * positive + r0 * (n - positive))


def _key(level: Any) -> Hashable:
    """Return a level as a key, None for a missing one; `InputError` for a value that cannot be a key.

    >>> _key("a"), _key(np.float32("nan")), _key(np.datetime64("NaT"))
    ('a', None, None)
    """
    level = level.as_py() if hasattr(level, "as_py") else level  # a value of Arrow
    try:
        hash(level)
    except (TypeError, ValueError):  # of an unhashable object, and of a timedelta64 without a unit
        raise InputError(f"level {str(level)[:60]!r} is not possible; give a text, a number or a tuple") from None
    try:
        return None if level != level else level
    except TypeError:  # of pandas' NA, which has no truth value
        return None
