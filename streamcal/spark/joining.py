"""The events of one key in a micro-batch, taken by its `LabelJoin`: what runs in the Python workers of an engine."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from streamcal.errors import InputError
from streamcal.live.issued import Id, is_plain
from streamcal.live.label_join import LabelJoin
from streamcal.live.replaying import FEW_ALIKE
from streamcal.parameters.keys import LARGEST_WHOLE

#: Seconds; the watermark of the engine decides what is too late, and a key may be silent for years.
ANY_JUMP = 1e14
#: Kinds of events: those that columns take, and the others, which are taken one by one.
IMPRESSIONS, OUTCOMES, OTHERS = 0, 1, 2


class Event(NamedTuple):
    """An impression, where there is a score; an outcome, where there is a label; both, where there are both."""

    id: Id  #: that of the impression
    score: float | None  #: the score of the model
    label: float | None  #: 1 or 0
    t: float  #: the time of the impression or of the outcome, in seconds; NaN, which is refused, where there is none


class Forecast(NamedTuple):
    """What is returned for an event: a prediction, or why it was refused."""

    #: Those of the event.
    id: Id
    score: float | None
    t: float
    p: float | None  #: the calibrated probability; None where the event was refused
    error: str | None  #: why it was refused


class Learned(NamedTuple):
    """A summary of the labels that a join has learned, whatever their order: counts and sums over their ids.

    Notes
    -----
    A label that is missing, learned twice or replaced changes the count, or the sum and the hash. Spark has functions
    of all three.
    """

    learned: int = 0  #: the number of labels
    ids: int = 0  #: the sum of the CRC-32 of each id as text, in UTF-8
    hash: int = 0  #: the exclusive or of the first 8 bytes of the MD5 of each, big-endian and signed
    #: The same of the positive labels.
    positives: int = 0
    positive_ids: int = 0
    positive_hash: int = 0

    def with_ids(self, labels: Iterable[tuple[Id, bool]]) -> Learned:
        """Return the sums with more labels added: ids, and whether each is positive."""
        sums = list(self)
        for id, positive in labels:
            text = str(id).encode()
            check = zlib.crc32(text)
            hashed = int.from_bytes(hashlib.md5(text, usedforsecurity=False).digest()[:8], "big", signed=True)
            for first in (0, 3) if positive else (0,):
                sums[first] += 1
                sums[first + 1] += check
                sums[first + 2] ^= hashed
        return Learned(*sums)


def take(join: LabelJoin, events: Iterable[Event]) -> Iterator[Forecast]:
    """Give a join the events of a micro-batch, in the order of time; impressions before outcomes of the same time.

    The result and the state afterwards do not depend on the order of `events`, so that a batch that is run again does
    the same. Yield a forecast for each impression that is new, and one for each event that is refused; nothing for an
    impression that is remembered with the same score, as after a duplicate in the source.
    """
    ordered, number = _in_order(events), join.tally()["issued"]
    for kind, begin, end in _runs(join, ordered):
        if kind != OTHERS:
            yield from _take_columns(join, ordered[begin:end], kind)
            number += end - begin if kind == IMPRESSIONS else 0
            continue
        for id, score, label, t in ordered[begin:end]:
            try:
                if score is not None:
                    issued = join.issue(id, score, t)
                    if issued.number >= number:
                        number = issued.number + 1
                        yield Forecast(id, score, t, issued.p, None)
                elif label is None:
                    raise InputError("the event has neither a score nor a label")
                if label is not None:
                    join.resolve(id, label, t)
            except InputError as error:
                yield Forecast(id, score, t, None, str(error))


def _take_columns(join: LabelJoin, events: list[Event], kind: int) -> Iterator[Forecast]:
    """Give a join events of one kind that it cannot refuse, as `take` does."""
    ids, scores, labels, t = map(list, zip(*events, strict=True))
    if kind == OUTCOMES:
        join.resolve_many(ids, labels, t)
        return
    for event, p in zip(events, join.issue_many(ids, scores, t).tolist(), strict=True):
        yield Forecast(event.id, event.score, event.t, p, None)


def _runs(join: LabelJoin, events: list[Event]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of events of one kind, and where they begin and end."""
    kinds = _kinds(join, events) if len(events) >= FEW_ALIKE else [OTHERS] * len(events)
    at = 0
    for kind, run in groupby(kinds):
        begin, at = at, at + len(list(run))
        yield (kind if at - begin >= FEW_ALIKE else OTHERS), begin, at


def _kinds(join: LabelJoin, events: list[Event]) -> list[int]:
    """Return for each event whether columns may have it: an impression of a new id, or an outcome, that is possible."""
    first, last = join.calibrator.scale.domain
    seen: set[Id] = set()
    kinds = []
    for id, score, label, t in events:
        kind = OTHERS
        own = is_plain(id) if type(id) is str else type(id) is int and abs(id) <= LARGEST_WHOLE
        if own and math.isfinite(t):
            if label is None and score is not None and first <= score <= last:
                kind = OTHERS if id in seen or id in join.predictions else IMPRESSIONS
                seen.add(id)
            elif score is None and label in (0.0, 1.0):
                kind = OUTCOMES
        kinds.append(kind)
    return kinds


def _in_order(events: Iterable[Event]) -> list[Event]:
    """Sort events by `_place`, which is computed only if times are missing or tied."""
    listed = list(events)
    times = [event.t for event in listed]
    plain = len(set(times)) == len(times) and not any(map(math.isnan, times))
    return sorted(listed, key=itemgetter(3) if plain else _place)


def _place(event: Event) -> tuple[float, bool, str, float, float]:
    """Return the sort key of an event in its batch; NaN, which has no order, is last."""
    t, score, label = (math.inf if one is None or one != one else one for one in (event.t, event.score, event.label))
    return t, event.score is None, str(event.id), score, label
