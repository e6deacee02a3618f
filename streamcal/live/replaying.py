"""`Replaying`: the events of a journal are taken again by a `LabelJoin`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamcal.kernels.pending.pending_events import ISSUE, RESOLVE, read_events
from streamcal.live import events
from streamcal.live.issued import AT_ONCE, RETRIED, Id, Rows
from streamcal.live.joining import Takers
from streamcal.live.journal import Journal, event_at

#: Fewer rows of one kind that follow one another are taken again one by one.
FEW_ALIKE = 16


class Issues(NamedTuple):
    """Impressions of a journal, with the outcomes that follow them."""

    ids: list[Id]
    scores: list[float]
    t: list[float]
    p: list[float]
    rests: list[bytes | None]  #: version, levels and weight of each
    y: list[bool]
    when: list[float]  #: the times of the outcomes, ∞ for none


class Replaying:
    """Takes events of a journal again, in columns as far as they are plain: equal to one by one, to the last bit."""

    def __init__(self, join: Any) -> None:  # a `LabelJoin`, whose module imports this one
        self._join = join
        self._take: Takers = {
            **join._takers(),
            ISSUE: join._issue,
            RESOLVE: join._resolve,
            events.REPEAT: join._repeat,
        }

    def __call__(self, journal: Journal) -> int:
        """Take all events after the snapshot again, and return how many they are."""
        number, horizon = 0, self._join.spans.horizon
        for piece in journal.pieces():
            at = 0
            while at < len(piece):
                read: tuple[Any, ...] = read_events(piece, at, AT_ONCE, horizon)
                issues, ids, *columns, ends = read
                if len(ids) < FEW_ALIKE:
                    end = ends[-1] if ids else event_at(piece, at)[0]
                    number += self._one_by_one(piece, at, end)
                else:
                    end, places = ends[-1], [at, *ends]
                    if issues:
                        number += self._issued(Issues(ids, *columns), piece, places)
                    else:
                        number += self._resolved(ids, columns, piece, places)
                at = end
        return number

    def _one_by_one(self, piece: bytes, begin: int, end: int) -> int:
        """Take the events of some bytes again, and return how many they are."""
        number = 0
        while begin < end:
            begin, event = event_at(piece, begin)
            kind, *arguments = events.read(event)
            self._take[kind](*arguments)
            number += 1
        return number

    def _issued(self, issues: Issues, piece: bytes, places: list[int]) -> int:
        """Take impressions again with their outcomes; the row k is the bytes from `places[k]` to `places[k + 1]`."""
        versions, keys, w = zip(*map(events.read_rest, issues.rests), strict=True)
        served, labels, came = np.array(issues.p), np.array(issues.y, dtype=np.uint8), np.array(issues.when)
        rows = Rows(issues.ids, np.array(issues.scores), np.array(issues.t), np.array(w), labels, came, list(keys))
        at, number, count, join = 0, 0, len(issues.ids), self._join
        plain = set(versions) <= {join.newest}
        while plain and at < count:
            before, at = at, join._issue_rows(rows, at, served, served=True)
            number += at - before + int(np.count_nonzero(came[before:at] < math.inf))
            alone = min(at + RETRIED, count)
            number += self._one_by_one(piece, places[at], places[alone])
            plain, at = alone - before > RETRIED, alone
        return number + self._one_by_one(piece, places[at], places[count])

    def _resolved(self, ids: list[Id], columns: list[list[Any]], piece: bytes, places: list[int]) -> int:
        """Take outcomes again: `columns` are their times and labels."""
        t, y = columns
        at = self._join._resolve_rows(ids, np.array(y, dtype=np.uint8), np.array(t), 0, again=True)
        return at + self._one_by_one(piece, places[at], places[len(ids)])
