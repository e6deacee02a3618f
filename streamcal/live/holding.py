"""The memory of a `LabelJoin`: predictions in the order of issue, outcomes, and what it drops for lack of space."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from streamcal.errors import warn
from streamcal.kernels.pending.pending_steps import PendingSteps
from streamcal.kernels.pending.pending_table import PendingTable
from streamcal.live.issued import Id, Issued, Outcome

#: A warning comes where this many outcomes were of unknown ids, and this many times those of known ones.
MANY_UNKNOWN, MOSTLY = 100, 9
#: Low-discrepancy sequence k·φ mod 1, in 32 bits: which impressions are held when there is not room for all.
GOLDEN, RANGE = 2_654_435_769, 2**32


class Predictions(Mapping[Id, Issued]):
    """The predictions of a table by id, in the order of issue; each is made when it is asked for."""

    def __init__(self, table: PendingTable) -> None:
        self._table = table

    def __getitem__(self, id: Any) -> Issued:
        place = self._table.place_of(id) if isinstance(id, (str, int)) else -1
        if place < 0:
            raise KeyError(id)
        return issued_at(self._table, place)

    def __contains__(self, id: Any) -> bool:
        return isinstance(id, (str, int)) and bool(self._table.place_of(id) >= 0)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Id]:
        return map(self._table.id_at, range(self._table.first, self._table.end))

    def __repr__(self) -> str:
        return f"Predictions of {len(self)} ids"


def issued_at(table: PendingTable, place: int) -> Issued:
    """Return the prediction at a place of a table."""
    # as `Issued(...)`, whose own constructor takes longer
    return tuple.__new__(Issued, table.issued(place))


def outcome_at(table: PendingTable, place: int) -> Outcome | None:
    """Return the outcomes of the prediction at a place of a table; None without one."""
    outcome = table.outcome(place)
    return None if outcome is None else tuple.__new__(Outcome, outcome)


class Holding(ABC):
    """The part of a join that holds predictions and outcomes; its owner has the clock and the counts.

    Invariants: predictions are in the table in the order of issue; labels of those at places before `unlearned` were
    learned, and the others wait; those at places before `unjudged` were passed to `_on_label`.
    """

    max_held: int
    max_unknown: int
    _now: PendingSteps

    def _hold_nothing(self) -> None:
        self._aside: OrderedDict[Id, Outcome] = OrderedDict()
        self._stride = 1  # one prediction of `_stride` is kept
        self._next_stride = -math.inf  # the clock from which on it may be smaller
        self._unmatched = 0  # outcomes of this process whose id was not held
        self._warned = False

    @property
    def waiting(self) -> int:
        """Number of predictions whose labels are to be learned."""
        return int(self._now.table.end - self._now.unlearned)

    @property
    def held(self) -> int:
        """Number of predictions remembered: those waiting, and those whose labels were learned."""
        return len(self._now.table)

    @property
    def set_aside(self) -> int:
        """Number of outcomes of unknown ids that are kept."""
        return len(self._aside)

    @property
    def predictions(self) -> Mapping[Id, Issued]:
        """The predictions remembered, by `Issued.id`, in the order of issue."""
        return Predictions(self._now.table)

    def outcome(self, id: Id) -> Outcome | None:
        """Return the outcomes of an id, as `Issued.id` has it, that are remembered or set aside; None without one."""
        place = self._now.table.place_of(id)
        return self._aside.get(id) if place < 0 else outcome_at(self._now.table, place)

    def oldest(self, now: float) -> float:
        """Return the seconds since the oldest prediction that waits for its label was issued; 0 if there is none."""
        return max(now, self._now.clock) - self._now.table.at(self._now.unlearned) if self.waiting else 0.0

    def _room(self, number: int) -> bool:
        """Return whether to keep a new prediction, after making space for it."""
        if self.waiting >= self.max_held:
            self._thin()
        elif self._stride > 1 and 4 * self.waiting < self.max_held and self._now.clock >= self._next_stride:
            self._set_stride(self._stride // 2)
        if self._stride > 1 and not self._chosen(number):
            return False
        if len(self._now.table) >= self.max_held:
            self._now.forget()
            self._now.forgotten += 1
        return True

    def _chosen(self, number: Any) -> Any:
        """Return whether to keep a prediction, or each of some: one of `stride`, spread evenly whatever the period."""
        return number % RANGE * GOLDEN % RANGE < -(-RANGE // self._stride)

    def _set_stride(self, stride: int) -> None:
        self._stride = stride
        self._next_stride = self._now.clock + self._now.hold  # what waits then was held with this stride

    def _thin(self) -> None:
        """Give up every second prediction that waits, with no regard to its outcome."""
        table = self._now.table
        while self.waiting >= self.max_held:
            self._set_stride(2 * self._stride)
            numbers = table.numbers(self._now.unlearned, table.end).astype(np.uint64)
            chosen = self._chosen(numbers)
            for place in (self._now.unlearned + np.flatnonzero(~chosen)).tolist():
                if table.record(place) is not None:
                    self._give_up(place)
            self._now.unheld += len(chosen) - int(chosen.sum())
            table.keep(self._now.unlearned, chosen)

    def _limit(self, most: int, most_unknown: int) -> bool:
        """Set the limits and forget what is beyond them; return whether they are others than before."""
        changed = (most, most_unknown) != (self.max_held, self.max_unknown)
        self.max_held, self.max_unknown = most, most_unknown
        if self.waiting > most:
            self._thin()
        while len(self._now.table) > most:
            self._now.forget()
            self._now.forgotten += 1
        while len(self._aside) > most_unknown:
            self._drop_aside()
        return changed

    def _turn_back(self, clock: float) -> None:
        """Set the clock back: what was issued or learned later counts as of this moment."""
        table, begin = self._now.table, self._now.unlearned
        self._now.clock = clock
        self._next_stride = min(self._next_stride, clock + self._now.hold)
        table.turn_back(table.first, begin, clock - self._now.soonest, clock)
        table.turn_back(begin, table.end, clock, clock)

    @abstractmethod
    def _give_up(self, place: int) -> None:
        """Tell the calibrator that the label of a prediction will not be learned."""

    def _set_aside(self, id: Id, positive: bool, t: float, w: float | None) -> None:
        """Keep the outcome of an unknown id; the one that has been there longest makes room."""
        before = self._aside.pop(id, None)
        self._now.unknown += 1
        self._unmatched += 1
        if self._unmatched >= max(MANY_UNKNOWN, MOSTLY * self._now.known) and self._stride == 1 and not self._warned:
            self._warned = True
            warn(
                f"{self._unmatched} outcomes are of unknown ids such as {id!r}, and {self._now.known} of known ones: "
                "give `resolve` the ids that `issue` got, and keep predictions until their outcomes come"
            )
        now = Outcome(positive, not positive, t, 0, w) if before is None else before.and_then(positive, t, 0, w)
        self._aside[id] = now
        if len(self._aside) > self.max_unknown:
            self._drop_aside()

    def _drop_aside(self) -> None:
        self._aside.popitem(last=False)
        self._now.overflowed += 1
