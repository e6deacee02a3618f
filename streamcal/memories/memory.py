"""`Memory`: a statistic that keeps everything; the base of the memories that forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.held import saved

#: A coordinate as memories keep it: a number, a tuple of numbers where there are several scores, or a tuple of tuples
#: (of texts and numbers) where an observation names its own labels. Memories compare them, and look no further.
Coordinate: TypeAlias = float | tuple[Any, ...]


#: The statistic that is kept.
Held = TypeVar("Held", bound=Statistic)

#: Sums of the weights of a prior in two orders, rescaled, differ by less than this share.
PRIOR_ROUNDING = 1e-9
#: What leaves a window and weighs this many times all that stays has left rounding of 1e-10 of that behind, or more.
OUTWEIGHING = 1e6


class Memory(Generic[Held]):
    """A statistic that keeps everything; the base of the memories that forget.

    `version` changes whenever the statistic does, so that a solved map can be kept until then. `missed` counts
    retractions of what was already forgotten, `late` observations that came too late to be kept.
    """

    #: Whether `as_of` is always 1, and asking it moves nothing.
    steady: ClassVar[bool] = True
    #: Whether a prior fades, and its pseudo-observations may be dropped.
    forgets_prior: ClassVar[bool] = False

    def __init__(self, statistic: Held, prior: PseudoObservations | None) -> None:
        self.statistic = statistic
        self.prior = prior
        if prior is not None:
            statistic.hold(prior)
        # What of the statistic is the prior's, and does not count.
        self._prior_weight, self._prior_count = (0.0, 0) if prior is None else (statistic.n, statistic.count)
        self.version = 0
        self.missed = 0
        self.late = 0

    @property
    def n(self) -> float:
        """Total weight held, in today's units."""
        return self._learned()

    def _learned(self) -> float:
        """Weight in the statistic that is not the prior's."""
        return 0.0 if self.holds_nothing else max(self._beside_the_prior(), 0.0)

    def _beside_the_prior(self) -> float:
        return self.statistic.n - self._prior_weight * self._prior_growth()

    def _prior_growth(self) -> float:
        """The factor by which the prior has grown in the statistic since it was learned."""
        return 1.0

    @property
    def count(self) -> int:
        """Number of observations held, those of the prior apart; whatever was predicted as of a later time."""
        self.as_of(None)
        return self.statistic.count - self._prior_count

    @property
    def holds_nothing(self) -> bool:
        """Whether all that is held is the prior, as of the present view.

        The count tells an observation of weight 1e-60 from none; the weight, as many observations as decay has dropped
        rows of the prior.
        """
        if self.statistic.count != self._prior_count:
            return False
        return self._prior_count == 0 or self._beside_the_prior() <= PRIOR_ROUNDING * self.statistic.n

    def present(self, t: float | None) -> Held:
        """The statistic as of `t`, in units of an observation of that moment; to be read, until the next change."""
        return self.statistic.present(self.as_of(t))

    def as_of(self, t: float | None) -> float:
        """Turn the statistic to its view at `t`; the weight that an observation of that moment has in it."""
        return 1.0

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        """Take in one observation; `t` is read by timed memories only."""
        self.statistic.update(x, y, w)
        self.version += 1

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        """`Statistic.fast_update`, where learning is an update and no more; who calls it increments `version`."""
        return self.statistic.fast_update(lo, hi) if type(self).learn is Memory.learn else None

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Take in observations, in order."""
        self.statistic.update_many(x, y, w)
        self.version += 1

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        """Take back one observation; `RetractionError` where it is known never to have been learned."""
        self.statistic.revert(x, y, w)
        self.version += 1

    def merge(self, other: Memory[Held]) -> None:
        """Take in all that a memory under the same policy holds."""
        self.statistic.merge(other.statistic)
        if self.prior is not None:  # both brought it
            self.statistic.release(self.prior)
        self._merged(other)

    def state(self) -> dict[str, Any]:
        """Plain data that `restore` reads."""
        return {"missed": self.missed, "late": self.late, **self._own_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a saved state; called on a fresh memory."""
        self.missed, self.late = int(state["missed"]), int(state["late"])
        self._own_restore(state)
        self.version += 1

    def _check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests, after every change."""
        self.statistic._check()
        assert self.statistic.count >= self._prior_count or type(self).forgets_prior
        assert self.missed >= 0
        assert self.late >= 0

    def _refill(self, entries: list[tuple[Coordinate, float, float]]) -> None:
        """Replace the content of the statistic by the prior and these observations, and its rounding by none."""
        self.statistic.restore(self.statistic.empty().state())
        if self.prior is not None:
            self.statistic.hold(self.prior)
        if entries:
            self.statistic.update_many(*columns(entries, 3))

    def _outweighed(self, w: float, one: float) -> bool:
        """Whether an observation of weight `w` that has left the statistic outweighed by far all that is still held.

        `one` is the weight of one that is held, or 0: nearly always that settles it, and the total may cost O(k).
        """
        return w > OUTWEIGHING * one and self.statistic.drifts and w > OUTWEIGHING * self.statistic.n

    def _merged(self, other: Memory[Held]) -> None:
        self.missed += other.missed
        self.late += other.late
        self.version += 1

    def _own_state(self) -> dict[str, Any]:
        return {"statistic": self.statistic.state()}

    def _own_restore(self, state: dict[str, Any]) -> None:
        self.statistic.restore(state["statistic"])


def columns(rows: Any, width: int) -> tuple[FloatArray, ...]:
    """The columns of a sequence of tuples as float arrays; of a column of tuples, the rows."""
    rows = list(rows)
    if not rows:
        return tuple(np.empty(0) for _ in range(width))
    return tuple(_column(values) for values in zip(*rows, strict=True))


def saved_columns(rows: Any, width: int) -> tuple[FloatArray, ...]:
    """`columns` of a saved state; `ValueError` where a number is not finite, for which kernels have no place."""
    read = columns(rows, width)
    for column in read:
        if column.dtype != object:
            saved(column)
    return read


def _column(values: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Numbers, or tuples of them, as floats; tuples of tuples, which JSON has made lists, as objects."""
    first = values[0]
    if isinstance(first, (tuple, list)) and first and isinstance(first[0], (tuple, list)):
        read = values if isinstance(first, tuple) else map(_hashable, values)
        return np.fromiter(read, dtype=object, count=len(values))
    return np.array(values, dtype=np.float64)


def _hashable(plain: Any) -> Any:
    return tuple(map(_hashable, plain)) if isinstance(plain, (list, tuple)) else plain


def coordinates(x: FloatArray) -> list[Coordinate]:
    """An array of coordinates as memories keep them: the rows of a matrix become tuples, which can be found again."""
    return x.tolist() if x.ndim == 1 else [tuple(row) for row in x.tolist()]


def never_learned(x: Coordinate, y: float, w: float) -> str:
    return f"nothing equal to (coordinate {x!r}, label {y:g}, weight {w!r}) is held; unlearn only what was learned"
