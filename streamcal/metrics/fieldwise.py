"""`FieldwiseECE`: how far the total of each level of a field, such as each campaign, is from what was predicted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError, RetractionError
from streamcal.metrics.base import Summed, check_forecasts, check_probability, check_true
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.types import FloatArray, Label

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
        Σ w²·p(1 − p), that of `positive` if every p is right.
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
    rare events, most of the value is chance. `floor` is the value that right predictions would have on average, and
    `chi_square` the mean of squared gaps in units of their variance: 1 for right predictions, whatever the sizes.

    Notes
    -----
    The total of a level is all that is looked at: predictions that are wrong within it may be right on average.
    If predictions learn from outcomes, as prequential ones do, the gaps are sums of martingale differences with the
    same variances, so that `floor` and `chi_square` mean the same.

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
        held = np.where(w > 0.0, 1.0, 0.0)
        terms = (w, w * p, w * y, w * w * p * (1.0 - p), held)
        sums = np.array([np.bincount(codes, term, len(levels)) for term in terms])
        for level, found in zip(levels, sums.T.tolist(), strict=True):
            if found[-1]:
                one = self._levels.setdefault(level, [0.0, 0.0, 0.0, 0.0, 0])
                for place, term in enumerate(found):
                    one[place] += term
        self._count += int(held.sum())
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

    # -- what it says ----------------------------------------------------------------------------------------------

    def get(self) -> float | None:
        """Return the error, in [0, 1]; `None` before the first observation."""
        if self._weight <= 0.0:
            return None
        return math.fsum(abs(one[2] - one[1]) for one in self._levels.values()) / self._weight

    @property
    def floor(self) -> float | None:
        """What right predictions would have on average: Σ_k √(2 V_k / π) / Σ w, with V = Σ w²·p(1 − p) of a level.

        By the normal approximation; less than that for levels with few expected positives.
        """
        if self._weight <= 0.0:
            return None
        variances = (max(one[3], 0.0) for one in self._levels.values())  # reverted weights may leave rounding below 0
        return math.fsum(math.sqrt(2.0 / math.pi * variance) for variance in variances) / self._weight

    @property
    def chi_square(self) -> float | None:
        """The mean of z² over the levels with at least 5 expected positives and negatives; `None` without such levels.

        χ² over its degrees of freedom. With K levels, right predictions have 1 ± √(2/K).
        """
        found = [one.z**2 for one in self.levels().values() if _is_large(one)]
        return math.fsum(found) / len(found) if found else None

    @property
    def degrees(self) -> int:
        """The number of levels in `chi_square`."""
        return sum(map(_is_large, self.levels().values()))

    def levels(self) -> dict[Hashable, LevelData]:
        """Return the data of each level, in the order of their first observations."""
        return {level: LevelData(*one[:4]) for level, one in self._levels.items()}

    # -- sums ------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        #: Level → [Σ w, Σ w·p, Σ w·y, Σ w²·p(1 − p), number of observations].
        self._levels: dict[Hashable, list[float]] = {}

    def _add(self, key: Hashable, p: float, y: float, w: float, sign: int) -> None:
        one = self._levels.setdefault(key, [0.0, 0.0, 0.0, 0.0, 0])
        for place, term in enumerate((w, w * p, w * y, w * w * p * (1.0 - p), 1)):
            one[place] += sign * term
        if one[4] == 0:  # without the rounding errors of what is gone
            del self._levels[key]

    def _absorb(self, other: Self) -> None:
        for key, theirs in list(other._levels.items()):
            own = self._levels.setdefault(key, [0.0, 0.0, 0.0, 0.0, 0])
            self._levels[key] = [one + another for one, another in zip(own, theirs, strict=True)]


def _is_large(level: LevelData) -> bool:
    return min(level.predicted, level.n - level.predicted) >= FEWEST_EXPECTED and level.variance > 0.0


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
