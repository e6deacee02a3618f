"""`SegmentFamily`: the bets on every segment of a stream, in bounded memory, as one family of hypotheses."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from streamcal.kernels.common.fast_path import LONGEST_LEVEL
from streamcal.kernels.mixture.change_bets import ChangeBets
from streamcal.live.alarms import LEVELS, Alarm, Segment, alarm_of, new_bets, stepped
from streamcal.states import (
    Field,
    Reader,
    attribute,
    ensure,
    flag,
    listed,
    load_fields,
    maybe,
    number,
    numbers,
    row,
    text,
    whole,
    write_fields,
)

#: The weights of segments fall with the order of their appearance; the first 16 share half of the total weight.
EARLY = 16
#: No sum of wealth is larger: alarms end the growth of bets far below.
RICHEST = 1e300


def family_weight(place: int) -> float:
    """Return the weight of the segment that was the `place`-th to appear, from 1: m/((place + m)(place + m − 1)).

    The weights sum to 1 over all places, so new segments may always appear.

    >>> round(sum(map(family_weight, range(1, 17))), 12), round(sum(map(family_weight, range(1, 10**5))), 3)
    (0.5, 1.0)
    """
    return EARLY / ((place + EARLY) * (place + EARLY - 1.0))


class Watched(NamedTuple):
    """A segment that is watched: its place in the order of appearance, and its bets."""

    place: int
    bets: ChangeBets


class Rejected(NamedTuple):
    """A segment that has raised its alarm: its place, and its e-value then."""

    place: int
    e_value: float


class SegmentFamily:
    """The segments of a monitor, at most `most` of them.

    A further one takes the place of the segment that has been longest without an outcome. Segments with an alarm stay;
    if all have one, a new segment is not watched. The threshold is 1/α, or the run length, after whose alarms segments
    restart.

    With α a segment with e-value e and weight w (`family_weight`) raises its alarm where w·e ≥ 1/(α·(R + 1)), R being
    the number of alarms so far: the e-BH procedure, one segment at a time. Since e-values stop at their alarm, the
    segments with one satisfy w·e ≥ 1/(α·R) at every time, and their false discovery rate is at most α·Σ w ≤ α, whatever
    the dependence between segments (Wang and Ramdas 2022). With a run length the alarm is at w·e ≥ run_length.
    """

    def __init__(self, threshold: float, restarting: bool, most: int) -> None:
        self.threshold = threshold
        self.restarting = restarting
        self.most = most
        self.appeared = 0
        self.evicted = 0
        self.unwatched = 0
        self._watched: OrderedDict[Segment, Watched] = OrderedDict()  # in the order of their last outcomes
        self._rejected: dict[Segment, Rejected] = {}

    def __len__(self) -> int:
        return len(self._watched) + len(self._rejected)

    @property
    def rejected(self) -> list[Segment]:
        """The segments that have raised an alarm, in the order of their alarms; empty with a run length."""
        return list(self._rejected)

    def e_values(self) -> dict[Segment, float]:
        """Return the e-values of the segments watched; segments with an alarm have the e-value at their alarm."""
        now = {segment: watched.bets.value() for segment, watched in self._watched.items()}
        return {**now, **{segment: rejected.e_value for segment, rejected in self._rejected.items()}}

    def discoveries(self) -> list[Segment]:
        """Apply the e-BH procedure to all segments: the largest R for which R segments have w·e ≥ 1/(α·R)."""
        places = self._places()
        weighted = {segment: family_weight(places[segment]) * e for segment, e in self.e_values().items()}
        order = sorted(weighted, key=lambda segment: -weighted[segment])
        ranks = [rank for rank, segment in enumerate(order, 1) if weighted[segment] * rank >= self.threshold]
        return order[: max(ranks, default=0)]

    def _places(self) -> dict[Segment, int]:
        """Return the places of the segments watched or rejected."""
        watched = {segment: one.place for segment, one in self._watched.items()}
        return {**watched, **{segment: one.place for segment, one in self._rejected.items()}}

    def step(self, segment: Segment, p: float, y: float | None, now: int) -> Alarm | None:
        """Update the segment by outcome number `now`, as in `stepped`, and return its alarm, if any."""
        if segment in self._rejected:
            return None
        watched = self._watched.get(segment) or self._admit(segment, new_bets(self.restarting))
        if watched is None:
            return None
        self._watched.move_to_end(segment)
        value = stepped(watched.bets, p, y, now)
        if value < self._threshold(watched.place):
            return None
        alarm = alarm_of(watched.bets, segment, p, y is None, now)
        if self.restarting:
            self._watched[segment] = Watched(watched.place, new_bets(restarting=True))
        else:
            del self._watched[segment]
            self._rejected[segment] = Rejected(watched.place, value)
        return alarm

    def _threshold(self, place: int) -> float:
        """Return the value at which the segment of this place raises its alarm."""
        return self.threshold / ((len(self._rejected) + 1) * family_weight(place))  # with a run length none is rejected

    def _admit(self, segment: Segment, bets: ChangeBets) -> Watched | None:
        """Add a segment, in the place of another if necessary; return None if there is no place for it."""
        if not self._make_room():
            self.unwatched += 1
            return None
        self.appeared += 1
        self._watched[segment] = watched = Watched(self.appeared, bets)
        return watched

    def merge(self, other: SegmentFamily) -> None:
        """Take over the evidence of another family on other outcomes; its new segments appear after those held."""
        for segment, rejected in other._rejected.items():
            if segment in self._rejected:
                continue
            watched_here = self._watched.pop(segment, None)
            if self._make_room():
                self.appeared += watched_here is None
                self._rejected[segment] = Rejected(
                    watched_here.place if watched_here else self.appeared, rejected.e_value
                )
        for segment, watched in other._watched.items():
            if segment in self._watched:
                self._watched[segment].bets.pool(watched.bets)
                self._watched.move_to_end(segment)
            elif segment not in self._rejected:
                self._admit(segment, copied(watched.bets, self.restarting))
        self.evicted += other.evicted
        self.unwatched += other.unwatched

    def _make_room(self) -> bool:
        """Return whether one more segment fits, after evicting the segment longest without an outcome if necessary."""
        if len(self) >= self.most and self._watched:
            self._watched.popitem(last=False)
            self.evicted += 1
        return len(self) < self.most

    def fields(self, n: int) -> dict[str, Field]:
        """Return the fields of the state by name, in a stream of n outcomes."""
        place, name = whole(1), text(LONGEST_LEVEL)
        watched, rejected = self._watched.items(), self._rejected.items()
        of_watched = listed(row(name, level, place, bets_fields(n)), most=self.most)
        of_rejected = listed(row(name, level, place, maybe(number(0.0, RICHEST))), most=self.most)
        return {
            "appeared": attribute(self, "appeared", whole()),
            "evicted": attribute(self, "evicted", whole()),
            "unwatched": attribute(self, "unwatched", whole()),
            "watched": Field(of_watched, lambda: [[*key, one.place, one.bets.state()] for key, one in watched]),
            "rejected": Field(of_rejected, lambda: [[*key, one.place, finite(one.e_value)] for key, one in rejected]),
        }

    def state(self) -> dict[str, Any]:
        """Return plain data for `restore`."""
        return write_fields(self.fields(0))

    def restore(self, state: Any, n: int) -> None:
        """Load a `state` of a stream of n outcomes; `StateError` if it is none, or one field contradicts another."""
        self._load(**load_fields(self.fields(n), state))

    def _load(self, watched: list[Any], rejected: list[Any]) -> None:
        for field, name, place, bets in watched:
            self._watched[field, name] = Watched(place, loaded(bets, self.restarting))
        for field, name, place, e_value in rejected:
            self._rejected[field, name] = Rejected(place, float("inf") if e_value is None else e_value)
        places = self._places()
        ensure(len(places) == len(watched) + len(rejected), "a segment is there twice")
        ensure(len(set(places.values())) == len(places), "two segments have one place")
        ensure(max(places.values(), default=0) <= self.appeared, "a place is above the number that appeared")
        ensure(not self.restarting or not self._rejected, "segments have stopped where they start anew")
        ensure(len(places) <= self.most, "there are too many segments")


# -- the state of bets -------------------------------------------------------------------------------------------------


def level(value: Any) -> str | int:
    """Read the level of a segment in a state."""
    return whole(-(2**63), 2**63)(value) if not isinstance(value, str) else value


def finite(value: float) -> float | None:
    """Return a number for JSON, and None for infinity, which JSON cannot write."""
    return None if value == float("inf") else value


def bets_fields(n: int) -> Reader:
    """Return a reader of `ChangeBets.state` of a stream of n outcomes."""
    size = len(LEVELS)
    return row(
        whole(most=n),
        flag,
        number(-1e4, 1e4),
        number(0.0, 1.0 + 1e-9),
        numbers(size, least=0.0, most=RICHEST),
        numbers(size, least=0.0, most=RICHEST),
        listed(whole(1, max(n, 1)), length=size),
    )


def loaded(state: tuple[Any, ...], restarting: bool) -> ChangeBets:
    """Return bets from the state that was read."""
    bets = new_bets(restarting)
    bets.load(*state)
    return bets


def copied(bets: ChangeBets, restarting: bool) -> ChangeBets:
    """Return an independent copy of bets, with the same wealth."""
    return loaded(tuple(bets.state()), restarting)
