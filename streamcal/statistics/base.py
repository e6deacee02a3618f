"""`Statistic`: the contract of what is kept of the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from streamcal.parameters.prior import PseudoObservations
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
    #: What a weight of one is in the sums kept. 1, but in a view of a statistic whose weights fade, see `present`;
    #: every weight that is read of a statistic, `n` among them, is divided by it.
    unit: float = 1.0

    def present(self, unit: float) -> Self:
        """The same statistic, to be read only, with every weight divided by `unit`: what weighs `unit` in it weighs 1.

        It shares what is kept, and is valid until the next change of that. O(1).
        """
        if unit == self.unit:
            return self
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view.unit = unit
        return view

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

    def _in_units(self, one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Two arrays of weights that are kept, divided by the unit."""
        return (one, other) if self.unit == 1.0 else (one / self.unit, other / self.unit)

    @abstractmethod
    def update(self, x: Any, y: float, w: float) -> None:
        """Add one observation."""

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        """The fast path: a kernel's function of a score, label and weight as they came, or None.

        It does what `update` does and returns True where they need no conversion, the score being a float from `lo` to
        `hi` that is its own coordinate; otherwise it changes nothing and returns False.
        """
        return None

    @abstractmethod
    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Add observations; the same state as a loop of `update`, up to rounding."""

    def hold(self, prior: PseudoObservations) -> None:
        """Add the pseudo-observations of a prior."""
        self.update_many(*prior)

    def release(self, prior: PseudoObservations) -> None:
        """Take back the pseudo-observations of a prior."""
        rows = prior.x.tolist() if prior.x.ndim == 1 else map(tuple, prior.x.tolist())
        for x, y, w in zip(rows, prior.y.tolist(), prior.w.tolist(), strict=True):
            self.revert(x, y, w)

    def labelled(self, x: Any, y: Any) -> Any:
        """What `update` takes for the label, of an observation of which coordinate and label are all that is known.

        For arrays of them too. That is the label itself, but where a statistic keeps more than a label in its place.
        """
        return y

    def require(self, x: Any, y: float, w: float) -> None:
        """`RetractionError` where `revert` would raise one and that can be told beforehand."""
        return None

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

    def _check(self) -> None:
        """Raise `AssertionError` if an invariant of what is kept does not hold; for tests, after every change."""
        assert self.unit == 1.0, "what is kept has the unit 1, only views have others"
        assert self.count >= 0
        assert self.n >= 0.0
