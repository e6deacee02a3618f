"""The contracts of a measure: `Summed`, what every metric can do, and `Metric`, of probabilities and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamcal.errors import InputError, MergeError, RetractionError
from streamcal.parameters.inputs import check_batch, check_label, check_weight
from streamcal.parameters.types import Label


class Summed(ABC):
    """A measure that is a function of sums over observations, so that it adds up and takes back.

    The order does not matter, and `merge` is the same as one long stream. The sums are plain, not compensated: n terms
    of one sign carry a relative error of at most n ⋅ 1.1e-16, which is 1e-7 after 1e9 observations. Beside its float
    weight a metric counts its observations, and holds exact zeros again once all were reverted. To revert what weighed
    10¹⁶ times as much as the rest leaves nothing of the rest: where no weight is left, `value` is None.
    """

    def __init__(self) -> None:
        self._count = 0
        self._weight = 0.0
        self._clear()

    @property
    @abstractmethod
    def value(self) -> float | None:
        """The measure over all observations held, `None` where it is not defined (nothing was observed)."""

    @property
    def n(self) -> float:
        """Total weight held."""
        return self._weight

    def merge(self, other: Self) -> None:
        """Add all that `other` holds, as if both streams had been one; `other` is left as it was.

        `MergeError` unless `other` is a metric of the same class and parameters.
        """
        if type(other) is not type(self) or other._params() != self._params():
            raise MergeError(f"{self!r} cannot take {other!r}: give a metric of the same class and parameters")
        self._absorb(other)
        self._count += other._count
        self._weight += other._weight

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._params().items())
        return f"{type(self).__name__}({given})"

    def _params(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {}

    def _require_held(self) -> None:
        """`RetractionError` where nothing is held that could be taken back."""
        if not self._count:
            raise RetractionError(f"{type(self).__name__} holds no observation that could be reverted")

    def _released(self, weight: float) -> None:
        """One observation of this weight was taken from the sums."""
        self._count -= 1
        self._weight -= weight
        if not self._count:
            self._weight = 0.0
            self._clear()

    @abstractmethod
    def _clear(self) -> None:
        """Hold nothing."""

    @abstractmethod
    def _absorb(self, other: Self) -> None:
        """Add the sums of `other`, which may be this very metric."""


class Metric(Summed):
    """A measure of probabilities `p` against labels `y`: takes observations one by one or back, and adds up.

    An observation of weight 0 is checked and then changes nothing. Cost: less than a microsecond per
    observation.
    """

    def update(self, p: float, y: Label, w: float = 1.0) -> None:
        """Add the probability `p` in [0, 1] that was given to the label `y`, with weight `w` ≥ 0.

        `InputError`, and no change, where one of them is not allowed.
        """
        self.update_checked(check_probability(p), check_label(y), check_weight(w))

    def update_checked(self, p: float, y: float, w: float) -> None:
        """`update` for floats that have been checked already: p in [0, 1], y 0.0 or 1.0, w ≥ 0."""
        if w:
            self._count += 1
            self._weight += w
            self._add(p, y, w, 1)

    def update_many(self, p: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike | None = None) -> None:
        """Add arrays of shape (n,): the same state as a loop of `update`. On an error nothing is added."""
        probabilities, labels, weights = check_batch(p, y, w)
        outside = (probabilities < 0.0) | (probabilities > 1.0)
        if outside.any():
            check_probability(float(probabilities[np.argmax(outside)]))
        for probability, label, weight in zip(probabilities.tolist(), labels.tolist(), weights.tolist(), strict=True):
            self.update_checked(probability, label, weight)

    def revert(self, p: float, y: Label, w: float = 1.0) -> None:
        """Take back one earlier `update` of the same arguments; `RetractionError` where nothing is held.

        Whether this very observation was among those held is known only to the caller.
        """
        probability, label, weight = check_probability(p), check_label(y), check_weight(w)
        if not weight:
            return
        self._require_held()
        self._add(probability, label, weight, -1)
        self._released(weight)

    @abstractmethod
    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        """Add (`sign` 1) or take back (−1) one checked observation of weight w > 0."""


def check_probability(p: Any) -> float:
    """A float in [0, 1]; `InputError` otherwise."""
    try:
        value = float(p)
    except (TypeError, ValueError):
        raise InputError(f"probability {p!r} is not a number; give a float in [0, 1]") from None
    if not 0.0 <= value <= 1.0:
        raise InputError(f"probability {p!r} is not allowed; give a float in [0, 1]")
    return value
