"""The memories of `Decay`: weights that halve, by count or by time.

The weight of each new observation is increased instead of all old ones being reduced, so that a step costs O(1); at
intervals all weights are rescaled by a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from streamcal.errors import CapabilityError, MergeError, RetractionError
from streamcal.memories.memory import PIECE, Coordinate, Held, Memory, coordinates, never_learned
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray
from streamcal.states import MOST, Field, ensure, maybe, number, whole
from streamcal.statistics.base import Piece
from streamcal.statistics.held import SMALLEST_HELD

#: The stored weight of a new observation grows from 1 to 2^RESCALE_HALF_LIVES; then all weights are rescaled, exactly.
RESCALE_HALF_LIVES = 16
#: After this many half-lives without an observation all remaining weights (10⁻³⁰¹) are dropped.
FORGOTTEN_HALF_LIVES = 1000
#: Predictions further ahead than this many half-lives are made as of this time: by then the past has a relative weight
#: of 10⁻¹⁵⁰, and stored weights of SMALLEST_HELD or more do not underflow in that unit.
FURTHEST_AHEAD = 498
#: Decay drops scores whose weights together are below this fraction (about 1e-9) of the total weight.
PRUNE_FRACTION = 2.0**-30
#: Most rows that are learned at once: they bound the memory of a batch.
LARGEST_PART = 1 << 20


class _DecayingMemory(Memory[Held]):
    """Forward decay from a landmark (Cormode, Shkapenyuk, Srivastava, Xu 2009).

    An observation of time t is stored with weight w·2^((t − landmark)/half_life − halvings), so that old weights need
    not change and a step costs O(1). When the exponent at the clock reaches RESCALE_HALF_LIVES, all weights are halved
    a whole number of times, which is exact; `_halvings` is the total number of halvings.
    """

    steady = False
    forgets_prior = True

    def __init__(self, statistic: Held, prior: PseudoObservations | None, half_life: float) -> None:
        super().__init__(statistic, prior)
        self._half_life = half_life
        self._clock = -math.inf
        self._landmark = 0.0
        self._halvings = 0

    @property
    def n(self) -> float:
        return self._learned() / self.as_of(None)

    @property
    def clock(self) -> float:
        return self._clock

    def _prior_growth(self) -> float:
        return self._growth(self._landmark)

    def as_of(self, t: float | None) -> float:
        if math.isinf(self._clock):
            return 1.0
        return self._growth(self._clock if t is None else max(self._clock, t))

    def _growth(self, t: float) -> float:
        """Return the stored weight of an observation of weight 1 at time `t`."""
        exponent = (t - self._landmark) / self._half_life - self._halvings
        return math.exp2(min(exponent, FURTHEST_AHEAD))

    def _advance(self, t: float) -> None:
        """Set the clock to `t` if that is later, and rescale if the stored weights have become too large."""
        if t <= self._clock:
            return
        if math.isinf(self._clock):
            self._landmark = t
        self._clock = t
        halvings = (t - self._landmark) / self._half_life - self._halvings
        if halvings >= FORGOTTEN_HALF_LIVES:
            self._forget_all()
            self._landmark = t
        elif halvings >= RESCALE_HALF_LIVES:
            self.statistic.decay(math.exp2(-math.floor(halvings)))
            self._halvings += math.floor(halvings)
            self.statistic.prune(PRUNE_FRACTION)

    def _forget_all(self) -> None:
        """Drop all observations and the prior."""
        self.statistic.restore(self.statistic.empty().state())
        self._halvings = 0
        self._forget_prior()

    def _forget_prior(self) -> None:
        self._prior_weight, self._prior_count = 0.0, 0

    def _own_fields(self) -> dict[str, Field]:
        return {
            "clock": Field(maybe(number()), lambda: None if math.isinf(self._clock) else self._clock),
            "landmark": Field(number(), lambda: self._landmark),
            "halvings": Field(whole(), lambda: self._halvings),
            **super()._own_fields(),
        }

    def _own_load(self, *, clock: float | None, landmark: float, halvings: int, statistic: Any) -> None:
        if clock is None:
            ensure(landmark == 0.0 and halvings == 0, "there is a landmark and no clock")
        else:
            exponent = (clock - landmark) / self._half_life - halvings
            ensure(0.0 <= exponent < RESCALE_HALF_LIVES, "the clock is not within the half-lives after the landmark")
        self._clock = -math.inf if clock is None else clock
        self._landmark, self._halvings = landmark, halvings
        super()._own_load(statistic=statistic)
        ensure(clock is not None or self.statistic.count == self._prior_count, "observations are held and no clock")


class CountDecay(_DecayingMemory[Held]):
    """Decay by count: the clock is the number of observations learned."""

    def __init__(self, statistic: Held, prior: PseudoObservations | None, half_life: float) -> None:
        super().__init__(statistic, prior, half_life)
        self._clock = 0.0

    def as_of(self, t: float | None) -> float:
        return self._growth(self._clock)

    def _own_load(self, *, clock: float | None, landmark: float, halvings: int, statistic: Any) -> None:
        ensure(clock is not None and clock == math.floor(clock) and 0.0 <= clock <= MOST, "the clock is no count")
        super()._own_load(clock=clock, landmark=landmark, halvings=halvings, statistic=statistic)
        if self._landmark > 0.0:  # it changes only when everything is forgotten
            self._forget_prior()

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self._advance(self._clock + 1.0)
        self.statistic.update(x, y, w * self._growth(self._clock))
        self.version += 1

    def pieces(self, x: FloatArray, y: FloatArray, w: FloatArray) -> Iterator[Piece] | None:
        return self._pieces(x, y, w)

    def _pieces(self, x: FloatArray, y: FloatArray, w: FloatArray) -> Iterator[Piece]:
        """Yield pieces that end with the prediction before weights are rescaled; that row is learned by `learn`."""
        nothing, start = np.empty(0), 0
        while start < len(x):
            clocks, stored = self._until_rescaled(w[start : start + PIECE])
            before = len(stored)
            size = min(before + 1, len(w) - start, PIECE)
            growths = np.empty(size)
            growths[0] = self._growth(self._clock)
            growths[1:] = stored[: size - 1]
            weights = np.zeros(size)
            weights[:before] = w[start : start + before] * stored
            rows = slice(start, start + size)
            yield Piece(rows, weights, growths, (nothing, nothing, nothing), PIECE)
            if before:
                self._clock = float(clocks[-1])
            self.version += 1
            start += size
            if before < size:
                self.learn(float(x[start - 1]), float(y[start - 1]), float(w[start - 1]), 0.0)

    def _until_rescaled(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the clock after each row, up to the first that rescales, and the growth at that clock."""
        learned = w > 0.0
        clocks: FloatArray = self._clock + np.cumsum(learned, dtype=np.float64)
        exponents = (clocks - self._landmark) / self._half_life - self._halvings
        rescaled = np.flatnonzero(learned & (exponents >= RESCALE_HALF_LIVES))
        before = int(rescaled[0]) if len(rescaled) else len(clocks)
        # by the function that `_growth` uses: the last place of NumPy's may differ
        return clocks[:before], np.array([math.exp2(one) for one in exponents[:before].tolist()])

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        # Weights are rescaled before the same rows as in a loop: what a statistic drops then depends on what it holds.
        start = 0
        while start < len(x):
            clocks, growths = self._until_rescaled(w[start : start + self._reach()])
            if len(clocks) == 0:
                self.learn(coordinates(x[start : start + 1])[0], float(y[start]), float(w[start]), 0.0)
                start += 1
                continue
            rows = slice(start, start + len(clocks))
            self.statistic.update_many(x[rows], y[rows], w[rows] * growths)
            self._clock = float(clocks[-1])
            start = rows.stop
        self.version += 1

    def _reach(self) -> int:
        """Return at most how many rows can be learned before weights are rescaled, and no more than a large piece."""
        return max(1, int(min(self._half_life * RESCALE_HALF_LIVES, LARGEST_PART)))

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        raise CapabilityError("under decay by count an observation's age is not known; use Decay(half_life, by='time')")

    def merge(self, other: Memory[Held]) -> None:
        raise MergeError("under decay by count two streams cannot be merged; use Decay by time or Forever()")


class TimeDecay(_DecayingMemory[Held]):
    """Decay by time: the clock is the latest time learned."""

    def __init__(
        self, statistic: Held, prior: PseudoObservations | None, half_life: float, max_jump: float = math.inf
    ) -> None:
        super().__init__(statistic, prior, half_life)
        self._max_jump = max_jump

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self.require_time(t)
        self._advance(t)
        weight = w * self._growth(t)
        if weight < SMALLEST_HELD:
            self.late += 1
            return
        self.statistic.update(x, y, weight)
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        for one in zip(coordinates(x), y.tolist(), w.tolist(), t.tolist(), strict=True):
            self.learn(*one)

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        if t > self._clock:
            raise RetractionError(never_learned(x, y, w))
        weight = w * self._growth(t)
        if weight < SMALLEST_HELD or weight < PRUNE_FRACTION * self.statistic.n:  # may have been pruned
            self.missed += 1
            return
        self.statistic.verify(x, y, weight)
        self.statistic.unlearn(x, y, weight)
        self.version += 1

    def merge(self, other: Memory[Held]) -> None:
        other = cast(TimeDecay[Held], other)  # calibrators merge only equal policies
        if not math.isinf(other._clock):
            self._advance(other._clock)
            shift = (other._landmark - self._landmark) / self._half_life + other._halvings - self._halvings
            factor = math.exp2(shift)
            if factor > 0.0:
                moved = other.statistic.empty()
                moved.merge(other.statistic)
                moved.decay(factor)
                self.statistic.merge(moved)
        self._merged(other)
