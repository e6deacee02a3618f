"""What a `LabelJoin` holds, as plain data: writing it, reading it, and checks of its parameters."""

from __future__ import annotations

import json
import math
from array import array
from collections import OrderedDict, deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from streamcal.errors import InputError
from streamcal.live.issued import Id, Issued, Outcome, check_id, check_keys
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.states import MOST, ensure, flag, listed, maybe, number, numbers, record, row, unread, whole

if TYPE_CHECKING:
    from streamcal.live.label_join import LabelJoin


class Learned(NamedTuple):
    """The fields of a state, as they were read."""

    clock: float | None
    number: int
    versions: list[tuple[Id | None, VersionLearner]]
    newest: Id | None
    waiting: int
    held: list[tuple[Any, ...]]
    aside: list[tuple[Any, ...]]
    stride: int
    next_stride: float | None
    counts: dict[str, int]
    curve: Any
    ages: list[tuple[float, int, int, Id]]
    note: str | None


def state_of(join: LabelJoin) -> dict[str, Any]:
    """Plain data for `read`; the same for equal joins, in whatever order their outcomes came."""
    ages = [list(one) for one in sorted(join._ages, key=lambda one: one[:3]) if _is_held(join, one)]
    written = {
        "clock": None if math.isinf(join._clock) else join._clock,
        "number": join._number,
        "versions": [[version, learner.state()] for version, learner in join._versions.items()],
        "newest": join._newest,
        "waiting": len(join._waiting),
        "held": [_row(one, join._outcomes.get(one.id)) for one in (*join._learned, *join._waiting)],
        "aside": [[id, *outcome] for id, outcome in join._aside.items()],
        "stride": join._stride,
        "next_stride": None if math.isinf(join._next_stride) else join._next_stride,
        "counts": dict(join._counts),
        "curve": None if join._curve is None else join._curve.state(),
        "ages": ages,
    }
    return written if join._note is None else {**written, "note": join._note}


def _is_held(join: LabelJoin, age: tuple[float, int, int, Id]) -> bool:
    """Whether the impression of a click is still remembered."""
    one = join._index.get(age[3])
    return one is not None and one.number == age[1]


def _row(one: Issued, outcome: Outcome | None) -> list[Any]:
    said = None if one.said is None else one.said.tolist()
    return [*one[:-1], said, None if outcome is None else list(outcome)]


def read(state: Any, factor: float) -> Learned:
    """The fields of what `state_of` wrote, scores being multiplied by `factor`; `StateError` for anything else."""
    time, version = number(), maybe(check_id)
    said = maybe(lambda value: array("d", numbers(None)(value)))
    outcome = maybe(row(flag, flag, time))
    weight = number(0.0, LARGEST_WEIGHT)
    share = number(0.0, 1.0)
    one = row(check_id, share, time, time, version, check_keys, weight, time, whole(), said, outcome)
    fields = {
        "clock": maybe(time),
        "number": whole(),
        "versions": listed(row(version, lambda value: VersionLearner.loaded(value, factor))),
        "newest": version,
        "waiting": whole(),
        "held": listed(one),
        "aside": listed(row(check_id, flag, flag, time)),
        "stride": whole(1, MOST),
        "next_stride": maybe(time),
        "counts": lambda value: record(dict.fromkeys(value, whole(0, MOST)))(value),
        "curve": unread,
        "ages": listed(row(time, whole(), whole(1), check_id)),
    }
    found = Learned(**record(fields, {"note": _note})(state))
    ensure(any(version == found.newest for version, _ in found.versions), "the newest version has no calibration")
    return found


def _note(value: Any) -> str:
    """The note of a user: JSON."""
    ensure(isinstance(value, str) and value.isascii(), "a note is no text")
    json.loads(value)
    return str(value)


def restore(join: LabelJoin, found: Learned) -> None:
    """Load the fields of a state into a new join; `StateError` if one contradicts another."""
    held = [Issued(*one[:-1]) for one in found.held]
    join._clock = -math.inf if found.clock is None else found.clock
    join._number, join._newest = found.number, found.newest
    join._versions = dict(found.versions)
    ensure(len(join._versions) == len(found.versions), "a version is there twice")
    ensure(found.waiting <= len(held) <= join.max_held, "there are too many forecasts")
    join._learned, join._waiting = deque(held[: len(held) - found.waiting]), deque(held[len(held) - found.waiting :])
    join._index = {one.id: one for one in held}
    ensure(len(join._index) == len(held), "an id is there twice")
    join._outcomes = {one[0]: Outcome(*one[-1]) for one in found.held if one[-1] is not None}
    join._aside = OrderedDict((id, Outcome(*outcome)) for id, *outcome in found.aside)
    ensure(len(join._aside) == len(found.aside) <= join.max_unknown, "there are too many outcomes")
    ensure(all(one.positive or one.negative for one in (*join._outcomes.values(), *join._aside.values())), "no label")
    ensure(found.counts.keys() == join._counts.keys(), "the counts are others")
    join._counts = dict(found.counts)
    join._note = found.note
    ensure(found.stride == 1 or found.next_stride is not None, "forecasts are thinned out since no time")
    join._stride, join._next_stride = found.stride, -math.inf if found.next_stride is None else found.next_stride
    _require_order(join, held)
    ensure((found.curve is None) == (join._curve is None), "there is a curve of delays without an early window")
    if join._curve is not None:
        join._curve.load(found.curve)
        _load_ages(join, found.ages)


def _require_order(join: LabelJoin, held: list[Issued]) -> None:
    """`StateError` unless forecasts are in the order of issue, and those whose time has come were learned."""
    ensure(all(a.number < b.number and a.at <= b.at for a, b in pairwise(held)), "forecasts are not in their order")
    if held:
        ensure(held[-1].number < join._number and held[-1].at <= join._clock, "a forecast was issued in the future")
    due = join._clock - join._hold
    ensure(all(one.at <= due for one in join._learned), "a label was learned before its time")
    ensure(all(one.at > due for one in join._waiting), "a label was not learned at its time")


def _load_ages(join: LabelJoin, ages: list[tuple[float, int, int, Id]]) -> None:
    """Take over the clicks whose impressions grow older."""
    assert join._curve is not None
    edges = join._curve.edges
    for when, number_, cell, id in ages:
        one = join._index.get(id)
        ensure(one is not None and one.number == number_ and id in join._outcomes, "a click has no impression")
        ensure(cell < len(edges) and one is not None and when == one.at + edges[cell], "a click is in no cell")
    join._ages = sorted(ages, key=lambda one: one[:3])  # and so a heap


def check_share(share: Any) -> float:
    """A number between 0 and 1; `InputError` otherwise."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0.0 < share < 1.0:
        raise InputError(f"early_share={share!r} is not possible; give a number between 0 and 1, both excluded")
    return float(share)


def check_count(count: Any, name: str, least: int) -> int:
    """A whole number of at least `least`; `InputError` otherwise."""
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise InputError(f"{name}={count!r} is not possible; give a whole number of at least {least}")
    return count
