"""The memory of a `LabelJoin`: predictions in the order of issue, outcomes, and what it drops for lack of space."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Mapping

from streamcal.errors import warn
from streamcal.live.issued import Id, Issued, Outcome

#: A warning comes where this many outcomes were of unknown ids, and this many times those of known ones.
MANY_UNKNOWN, MOSTLY = 100, 9
#: Low-discrepancy sequence k·φ mod 1, in 32 bits: which impressions are held when there is not room for all.
GOLDEN, RANGE = 2_654_435_769, 2**32


class Holding(ABC):
    """The part of a join that holds predictions and outcomes; its owner has the clock and the counts.

    Invariants: the index has the predictions of both queues and no others; those learned were issued before those that
    wait; outcomes are of ids in the index.
    """

    max_held: int
    max_unknown: int
    _hold: float  # the age at which labels are learned now
    _soonest: float  # the least age at which labels have been learned
    _clock: float
    _counts: dict[str, int]

    def _hold_nothing(self) -> None:
        self._index: dict[Id, Issued] = {}
        self._waiting: deque[Issued] = deque()  # to be learned, in the order of issue
        self._learned: deque[Issued] = deque()  # remembered, in the order of issue; all of them before those that wait
        self._outcomes: dict[Id, Outcome] = {}  # of what is in the index
        self._aside: OrderedDict[Id, Outcome] = OrderedDict()
        self._stride = 1  # one prediction of `_stride` is kept
        self._next_stride = -math.inf  # the clock from which on it may be smaller
        self._matched = self._unmatched = 0  # outcomes of this process, by whether the id was held
        self._warned = False

    @property
    def waiting(self) -> int:
        """Number of predictions whose labels are to be learned."""
        return len(self._waiting)

    @property
    def held(self) -> int:
        """Number of predictions remembered: those waiting, and those whose labels were learned."""
        return len(self._index)

    @property
    def set_aside(self) -> int:
        """Number of outcomes of unknown ids that are kept."""
        return len(self._aside)

    @property
    def predictions(self) -> Mapping[Id, Issued]:
        """The predictions remembered, by `Issued.id`, in the order of issue."""
        return self._index

    def outcome(self, id: Id) -> Outcome | None:
        """Return the outcomes of an id, as `Issued.id` has it, that are remembered or set aside; None without one."""
        return self._outcomes.get(id) or self._aside.get(id)

    def oldest(self, now: float) -> float:
        """Return the seconds since the oldest prediction that waits for its label was issued; 0 if there is none."""
        return max(now, self._clock) - self._waiting[0].at if self._waiting else 0.0

    def _room(self, number: int) -> bool:
        """Return whether to keep a new prediction, after making space for it."""
        if len(self._waiting) >= self.max_held:
            self._thin()
        elif self._stride > 1 and 4 * len(self._waiting) < self.max_held and self._clock >= self._next_stride:
            self._set_stride(self._stride // 2)
        if self._stride > 1 and not self._chosen(number):
            return False
        if len(self._index) >= self.max_held:
            self._forget(self._learned.popleft())
            self._counts["forgotten"] += 1
        return True

    def _chosen(self, number: int) -> bool:
        """Return whether to keep a prediction: one of `stride`, spread evenly whatever the traffic's period."""
        return number * GOLDEN % RANGE * self._stride < RANGE

    def _set_stride(self, stride: int) -> None:
        self._stride = stride
        self._next_stride = self._clock + self._hold  # what waits then was held with this stride

    def _thin(self) -> None:
        """Give up every second prediction that waits, with no regard to its outcome."""
        while len(self._waiting) >= self.max_held:
            self._set_stride(2 * self._stride)
            kept = deque(one for one in self._waiting if self._chosen(one.number))
            for one in self._waiting:
                if not self._chosen(one.number):
                    self._forget(one)
                    self._give_up(one)
            self._counts["unheld"] += len(self._waiting) - len(kept)
            self._waiting = kept

    def _limit(self, held: int, unknown: int) -> bool:
        """Set the limits and forget what is beyond them; return whether they are others than before."""
        changed = (held, unknown) != (self.max_held, self.max_unknown)
        self.max_held, self.max_unknown = held, unknown
        if len(self._waiting) > held:
            self._thin()
        while len(self._index) > held:
            self._forget(self._learned.popleft())
            self._counts["forgotten"] += 1
        while len(self._aside) > unknown:
            self._drop_aside()
        return changed

    def _turn_back(self, clock: float) -> None:
        """Set the clock back: what was issued or learned later counts as of this moment."""

        def moved(queue: deque[Issued], latest: float) -> deque[Issued]:
            return deque(
                one._replace(t=min(one.t, clock), at=min(one.at, latest)) if max(one.t, one.at) > latest else one
                for one in queue
            )

        self._clock = clock
        self._next_stride = min(self._next_stride, clock + self._hold)
        self._learned, self._waiting = moved(self._learned, clock - self._soonest), moved(self._waiting, clock)
        self._index = {one.id: one for one in (*self._learned, *self._waiting)}

    @abstractmethod
    def _give_up(self, one: Issued) -> None:
        """Tell the calibrator that the label of a prediction will not be learned."""

    def _forget(self, one: Issued) -> None:
        del self._index[one.id]
        self._outcomes.pop(one.id, None)

    def _set_aside(self, id: Id, positive: bool, t: float, w: float | None) -> None:
        """Keep the outcome of an unknown id; the one that has been there longest makes room."""
        before = self._aside.pop(id, None)
        self._counts["unknown"] += 1
        self._unmatched += 1
        if self._unmatched >= max(MANY_UNKNOWN, MOSTLY * self._matched) and self._stride == 1 and not self._warned:
            self._warned = True
            warn(
                f"{self._unmatched} outcomes are of unknown ids such as {id!r}, and {self._matched} of known ones: "
                "give `resolve` the ids that `issue` got, and keep predictions until their outcomes come"
            )
        now = Outcome(positive, not positive, t, 0, w) if before is None else before.and_then(positive, t, 0, w)
        self._aside[id] = now
        if len(self._aside) > self.max_unknown:
            self._drop_aside()

    def _drop_aside(self) -> None:
        self._aside.popitem(last=False)
        self._counts["overflowed"] += 1
