"""The memories of `Decay`: weights that halve, by count or by time.

The weight of each new observation is increased instead of all old ones being reduced, so that a step costs O(1); at
intervals all weights are rescaled by a power of two.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from streamcal.errors import CapabilityError, MergeError, RetractionError
from streamcal.kernels.common.weights import exp2s
from streamcal.memories.memory import PIECE, Coordinate, Memory, StatisticT, coordinates, never_learned
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray
from streamcal.states import MOST, Field, ensure, maybe, number, whole
from streamcal.statistics.base import Piece
from streamcal.statistics.retractions import SMALLEST_WEIGHT

#: The stored weight of a new observation grows from 1 to 2^RESCALE_HALF_LIVES; then all weights are rescaled, exactly.
RESCALE_HALF_LIVES = 16
#: After this many half-lives without an observation all remaining weights (10⁻³⁰¹) are dropped.
FORGOTTEN_HALF_LIVES = 1000
#: Predictions further ahead than this many half-lives are made as of this time: by then the past has a relative weight
#: of 10⁻¹⁵⁰, and stored weights of SMALLEST_WEIGHT or more do not underflow in that unit.
FURTHEST_AHEAD = 498
#: Decay drops scores whose weights together are below this fraction (about 1e-9) of the total weight.
PRUNE_FRACTION = 2.0**-30
#: Rows that are learned at once: at first, since weights may have to be rescaled after few, and at most, which bounds
#: the memory of a batch.
FIRST_PART, LARGEST_PART = 64, 1 << 20
#: A loop is faster than parts for fewer rows than this, and where weights are rescaled after fewer.
FEWEST_ROWS = 32
#: Of rows that are predicted too, a loop is faster for fewer than this.
FEWEST_PREDICTED = 12


class _DecayingMemory(Memory[StatisticT]):
    """Forward decay from a landmark (Cormode, Shkapenyuk, Srivastava, Xu 2009).

    An observation of time t is stored with weight w·2^((t − landmark)/half_life − halvings), so that old weights need
    not change and a step costs O(1). When the exponent at the clock reaches RESCALE_HALF_LIVES, all weights are halved
    a whole number of times, which is exact; `_halvings` is the total number of halvings.
    """

    steady = False
    forgets_prior = True

    def __init__(self, statistic: StatisticT, prior: PseudoObservations | None, half_life: float) -> None:
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

    @abstractmethod
    def _clocks(self, w: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the times as of which rows are predicted and learned, and the clock after each of them."""

    def _in_a_loop(self, w: FloatArray, t: FloatArray, fewest: int) -> bool:
        """Return whether the rows are too few for parts, or those between two rescalings of the weights."""
        if len(w) < fewest:
            return True
        clock = self._clocks(w, t)[2]
        with np.errstate(over="ignore", invalid="ignore"):
            shares = np.diff(clock) / (RESCALE_HALF_LIVES * self._half_life)
        return bool(FEWEST_ROWS * np.minimum(shares, 1.0).sum() > len(w))

    def pieces(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> Iterator[Piece] | None:
        return None if self._in_a_loop(w, t, FEWEST_PREDICTED) else self._parts(x, y, w, t)

    def _parts(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> Iterator[Piece]:
        """Yield pieces that end with the prediction before weights are rescaled; that row is learned by `learn`."""
        nothing, start, reach = np.empty(0), 0, FIRST_PART
        while start < len(x):
            rows = slice(start, start + reach)
            predicted, learned, clock, size = self._until_rescaled(w[rows], t[rows])
            rows = slice(start, min(start + size + 1, start + len(predicted)))
            length = rows.stop - start
            unit = self._growths(predicted[:length])
            unit[0] = self.as_of(float(predicted[0]))  # also before the first observation
            weights = np.zeros(length)
            weights[:size] = w[start : start + size] * self._growths(learned[:size])
            late = (w[rows] > 0.0) & (weights < SMALLEST_WEIGHT)
            late[size:] = False
            weights[late] = 0.0
            yield Piece(rows, weights, unit, (nothing, nothing, nothing), PIECE)
            self.late += int(late.sum())
            if size:
                self._clock = float(clock[size - 1])
            self.version += 1
            start, reach = rows.stop, min(2 * size + FIRST_PART, PIECE)
            if size < length and w[start - 1] > 0.0:
                self.learn(float(x[start - 1]), float(y[start - 1]), float(w[start - 1]), float(t[start - 1]))

    def _until_rescaled(self, w: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, int]:
        """Return `_clocks`, and the number of rows before the first that begins or rescales the weights."""
        predicted, learned, clock = self._clocks(w, t)
        if math.isinf(self._clock):
            return predicted, learned, clock, 0
        before = np.concatenate(([self._clock], clock[:-1]))
        rescaled = np.flatnonzero((clock > before) & (self._exponents(clock) >= RESCALE_HALF_LIVES))
        return predicted, learned, clock, int(rescaled[0]) if len(rescaled) else len(clock)

    def _exponents(self, t: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            exponents: FloatArray = (t - self._landmark) / self._half_life - self._halvings
        return exponents

    def _growths(self, t: FloatArray) -> FloatArray:
        """Return `_growth` of each time."""
        return exp2s(np.minimum(self._exponents(t), FURTHEST_AHEAD))

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        # Weights are rescaled before the same rows as in a loop: what a statistic drops then depends on what it holds.
        if self._in_a_loop(w, t, FEWEST_ROWS):
            for one in zip(coordinates(x), y.tolist(), w.tolist(), t.tolist(), strict=True):
                self.learn(*one)
            return
        start, reach = 0, FIRST_PART
        while start < len(x):
            rows = slice(start, start + reach)
            _, learned, clock, size = self._until_rescaled(w[rows], t[rows])
            reach = min(2 * size + FIRST_PART, LARGEST_PART)
            if size == 0:
                self.learn(coordinates(x[start : start + 1])[0], float(y[start]), float(w[start]), float(t[start]))
                start += 1
                continue
            rows = slice(start, start + size)
            weights = w[rows] * self._growths(learned[:size])
            heavy = weights >= SMALLEST_WEIGHT
            self.statistic.update_many(x[rows][heavy], y[rows][heavy], weights[heavy])
            self.late += size - int(heavy.sum())
            self._clock = float(clock[size - 1])
            start = rows.stop
        self.version += 1

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


class CountDecay(_DecayingMemory[StatisticT]):
    """Decay by count: the clock is the number of observations learned."""

    def __init__(self, statistic: StatisticT, prior: PseudoObservations | None, half_life: float) -> None:
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

    def _clocks(self, w: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        learned = (w > 0.0).astype(np.float64)
        clock = self._clock + np.cumsum(learned)
        return clock - learned, clock, clock

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        raise CapabilityError("under decay by count an observation's age is not known; use Decay(half_life, by='time')")

    def merge(self, other: Memory[StatisticT]) -> None:
        raise MergeError("under decay by count two streams cannot be merged; use Decay by time or Forever()")


class TimeDecay(_DecayingMemory[StatisticT]):
    """Decay by time: the clock is the latest time learned."""

    def __init__(
        self, statistic: StatisticT, prior: PseudoObservations | None, half_life: float, max_jump: float = math.inf
    ) -> None:
        super().__init__(statistic, prior, half_life)
        self._max_jump = max_jump

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self.require_time(t)
        self._advance(t)
        weight = w * self._growth(t)
        if weight < SMALLEST_WEIGHT:
            self.late += 1
            return
        self.statistic.update(x, y, weight)
        self.version += 1

    def _clocks(self, w: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        clock = np.maximum.accumulate(np.concatenate(([self._clock], np.where(w > 0.0, t, -math.inf))))
        return np.maximum(clock[:-1], t), t, clock[1:]

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        if t > self._clock:
            raise RetractionError(never_learned(x, y, w))
        weight = w * self._growth(t)
        if weight < SMALLEST_WEIGHT or weight < PRUNE_FRACTION * self.statistic.n:  # may have been pruned
            self.missed += 1
            return
        self.statistic.verify(x, y, weight)
        self.statistic.unlearn(x, y, weight)
        self.version += 1

    def merge(self, other: Memory[StatisticT]) -> None:
        other = cast(TimeDecay[StatisticT], other)  # calibrators merge only equal policies
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
