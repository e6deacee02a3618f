"""`Statistic`: the contract of what is kept of the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from streamcal.parameters.types import FloatArray


class Statistic(ABC):
    """A sufficient summary of weighted outcomes by coordinate (the score on its scale).

    An observation is `(x, y, w)`: the coordinate, the label in [0, 1] (0 or 1 for real observations, between them
    for pseudo-observations of a prior) and the weight, w > 0. Callers have checked all three. Where there are several
    scores, x is the tuple of their coordinates and, in arrays, a row of shape (n, M); a statistic of classes or of
    real outcomes says what its y is.
    """

    #: Whether its memory is fixed whatever is learned.
    bounded: bool = False

    @property
    @abstractmethod
    def n(self) -> float:
        """Total weight held."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of observations held; nothing is left of the floats when it is 0."""

    @property
    def drifts(self) -> bool:
        """Whether `revert` may have left rounding behind that only a rebuild removes."""
        return True

    @abstractmethod
    def update(self, x: Any, y: float, w: float) -> None:
        """Add one observation."""

    def updater(self) -> Callable[[Any, float, float], None]:
        """What `update` comes down to: `update` itself, or a function of a kernel that a memory may call directly."""
        return self.update

    def taker(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        """A kernel's function of a score, label and weight as they came, or None.

        It does `update` where they are usual, the score a float from `lo` to `hi`, and says whether it did.
        """
        return None

    @abstractmethod
    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Add observations; the same state as a loop of `update`, up to rounding."""

    @abstractmethod
    def revert(self, x: Any, y: float, w: float) -> None:
        """Take back one earlier `update`; `RetractionError`, and no change, where it is known never to have been."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add all that `other` holds; `other` is left as it was."""

    @abstractmethod
    def decay(self, factor: float) -> None:
        """Multiply every weight by `factor` > 0."""

    def prune(self, fraction: float) -> None:
        """Drop what weighs so little that all of it together is below `fraction` of the total. May do nothing."""
        return None

    @abstractmethod
    def empty(self) -> Self:
        """A statistic of the same shape that holds nothing."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Plain data (numbers and lists) that `restore` reads."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Replace the content by a saved `state`."""
