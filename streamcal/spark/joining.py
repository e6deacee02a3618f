"""The events of one key in a micro-batch, taken by its `LabelJoin`: what runs in the Python workers of an engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamcal.errors import InputError
from streamcal.live.issued import Id
from streamcal.live.label_join import LabelJoin

#: Seconds; the watermark of the engine says what is too late, and a key may be silent for years.
ANY_JUMP = 1e14


class Event(NamedTuple):
    """An impression, where there is a score; an outcome, where there is a label; both, where there are both.

    Parameters
    ----------
    id : str or int
        That of the impression.
    score : float or None
        The score of the model.
    label : float or None
        1 or 0.
    t : float
        The time of the impression or of the outcome, in seconds; NaN, which is refused, where there is none.
    """

    id: Id
    score: float | None
    label: float | None
    t: float


class Forecast(NamedTuple):
    """What is told of an event: a forecast, or why it was refused.

    Parameters
    ----------
    id, score, t
        Those of the event.
    p : float or None
        The calibrated probability; None where the event was refused.
    error : str or None
        Why it was refused.
    """

    id: Id
    score: float | None
    t: float
    p: float | None
    error: str | None


def take(join: LabelJoin, events: Iterable[Event]) -> Iterator[Forecast]:
    """Give a join the events of a micro-batch, in the order of time; impressions before outcomes of the same time.

    The result and the state afterwards do not depend on the order of `events`, so that a batch that is run again does
    the same.

    Yields
    ------
    Forecast
        One for each impression that is new, and one for each event that is refused. Nothing for an impression that is
        remembered with the same score, as after a duplicate in the source.
    """
    for event in sorted(events, key=_place):
        try:
            if event.score is None and event.label is None:
                raise InputError("the event has neither a score nor a label")
            if event.score is not None:
                number = join.tally()["issued"]
                issued = join.issue(event.id, event.score, event.t)
                if issued.number >= number:
                    yield Forecast(event.id, event.score, event.t, issued.p, None)
            if event.label is not None:
                join.resolve(event.id, event.label, event.t)
        except InputError as error:
            yield Forecast(event.id, event.score, event.t, None, str(error))


def _place(event: Event) -> tuple[float, bool, str, float, float]:
    """Where an event stands in its batch; NaN, of which no order is one, last."""
    t, score, label = (math.inf if one is None or one != one else one for one in (event.t, event.score, event.label))
    return t, event.score is None, str(event.id), score, label
