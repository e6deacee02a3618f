"""What a `LabelJoin` holds, as plain data: writing it, reading it, and checks of its parameters."""

from __future__ import annotations

import json
import math
from array import array
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamcal.live.issued import Id, Issued, Outcome, check_id, check_keys
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.states import MOST, counts, ensure, flag, listed, maybe, number, numbers, record, row, unread, whole

if TYPE_CHECKING:
    from streamcal.live.label_join import LabelJoin


class Learned(NamedTuple):
    """The fields of a state, as they were read."""

    clock: float | None
    number: int
    versions: list[tuple[Id | None, VersionLearner]]
    newest: Id | None
    waiting: int
    held: tuple[list[Issued], dict[Id, Outcome]]
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
        "held": _columns([*join._learned, *join._waiting], join._outcomes),
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


def _columns(held: Sequence[Issued], outcomes: Mapping[Id, Outcome]) -> dict[str, Any]:
    """Forecasts as columns, which are written and read several times faster than rows; None for a column of Nones.

    `at` is None where it is `t` everywhere. Outcomes have the place of their forecast, `of`, in rising order.
    """
    rows = list(zip(*held, strict=True)) or [()] * len(Issued._fields)
    columns: dict[str, Any] = {name: list(values) for name, values in zip(Issued._fields, rows, strict=True)}
    columns["said"] = [None if one is None else one.tolist() for one in columns["said"]]
    for name in ("version", "keys", "said"):
        if all(one is None for one in columns[name]):
            columns[name] = None
    if columns["at"] == columns["t"]:
        columns["at"] = None
    known = [(place, *outcomes[one.id]) for place, one in enumerate(held) if one.id in outcomes]
    names = zip(("of", "positive", "negative", "when"), list(zip(*known, strict=True)) or [()] * 4, strict=True)
    return {**columns, **{name: list(values) for name, values in names}}


def read(state: Any, factor: float) -> Learned:
    """The fields of what `state_of` wrote, scores being multiplied by `factor`; `StateError` for anything else."""
    time, version = number(), maybe(check_id)
    fields = {
        "clock": maybe(time),
        "number": whole(),
        "versions": listed(row(version, lambda value: VersionLearner.loaded(value, factor))),
        "newest": version,
        "waiting": whole(),
        "held": lambda value: (_read_rows if isinstance(value, list) else _read_columns)(value),
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


def _said(value: Any) -> array[float]:
    return array("d", numbers(None)(value))


def _read_rows(value: Any) -> tuple[list[Issued], dict[Id, Outcome]]:
    """Forecasts and outcomes as states had them before they had columns: a row for each forecast."""
    time = number()
    outcome = maybe(row(flag, flag, time))
    weight, share = number(0.0, LARGEST_WEIGHT), number(0.0, 1.0)
    said, version = maybe(_said), maybe(check_id)
    one = row(check_id, share, time, time, version, check_keys, weight, time, whole(), said, outcome)
    rows = listed(one)(value)
    return [Issued(*one[:-1]) for one in rows], {one[0]: Outcome(*one[-1]) for one in rows if one[-1] is not None}


def _read_columns(value: Any) -> tuple[list[Issued], dict[Id, Outcome]]:
    """Forecasts and outcomes that `_columns` wrote."""
    fields = {"id": _ids, "p": numbers(None, least=0.0, most=1.0), "score": numbers(None), "t": numbers(None)}
    fields |= {"version": maybe(listed(maybe(check_id))), "keys": maybe(listed(check_keys)), "said": _all_said}
    fields |= {"w": numbers(None, least=0.0, most=LARGEST_WEIGHT), "at": maybe(numbers(None)), "number": counts()}
    fields |= {"of": counts(), "positive": listed(flag), "negative": listed(flag), "when": numbers(None)}
    read = record(fields)(value)
    columns = [_listed(read["t" if name == "at" and read["at"] is None else name]) for name in Issued._fields]
    size = len(columns[0])
    ensure(all(one is None or len(one) == size for one in columns), "forecasts have columns of several lengths")
    # as `Issued(...)`, whose own constructor takes longer than all the rest
    rows = zip(*(repeat(None, size) if one is None else one for one in columns), strict=True)
    held = [tuple.__new__(Issued, one) for one in rows]
    of, *known = (_listed(read[name]) for name in ("of", "positive", "negative", "when"))
    ensure(all(len(one) == len(of) for one in known), "outcomes have columns of several lengths")
    ensure(not of or of[-1] < size, "an outcome is that of no forecast")
    ensure(bool((np.diff(read["of"]) > 0).all()), "outcomes are not in the order of their forecasts")
    outcomes = zip(of, zip(*known, strict=True), strict=True)
    return held, {columns[0][place]: Outcome(*outcome) for place, outcome in outcomes}


def _listed(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _ids(value: Any) -> list[Id]:
    return listed(check_id)(value)


def _all_said(value: Any) -> list[array[float] | None] | None:
    return maybe(listed(maybe(_said)))(value)


def _note(value: Any) -> str:
    """The note of a user: JSON."""
    ensure(isinstance(value, str) and value.isascii(), "a note is no text")
    json.loads(value)
    return str(value)


def restore(join: LabelJoin, found: Learned) -> None:
    """Load the fields of a state into a new join; `StateError` if one contradicts another."""
    held, outcomes = found.held
    join._clock = -math.inf if found.clock is None else found.clock
    join._number, join._newest = found.number, found.newest
    join._versions = dict(found.versions)
    ensure(len(join._versions) == len(found.versions), "a version is there twice")
    ensure(found.waiting <= len(held) <= join.max_held, "there are too many forecasts")
    join._learned, join._waiting = deque(held[: len(held) - found.waiting]), deque(held[len(held) - found.waiting :])
    join._index = {one.id: one for one in held}
    ensure(len(join._index) == len(held), "an id is there twice")
    join._outcomes = outcomes
    join._aside = OrderedDict((id, Outcome(*outcome)) for id, *outcome in found.aside)
    ensure(len(join._aside) == len(found.aside) <= join.max_unknown, "there are too many outcomes")
    ensure(all(one.positive or one.negative for one in (*join._outcomes.values(), *join._aside.values())), "no label")
    ensure(found.counts.keys() == join._counts.keys(), "the counts are others")
    join._counts = {name: found.counts[name] for name in join._counts}
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
    at, numbers_ = np.array([one.at for one in held]), np.array([one.number for one in held], dtype=np.int64)
    ensure((numbers_[1:] > numbers_[:-1]).all() and (at[1:] >= at[:-1]).all(), "forecasts are not in their order")
    if held:
        ensure(held[-1].number < join._number and held[-1].at <= join._clock, "a forecast was issued in the future")
    due, learned = join._clock - join._hold, len(join._learned)
    ensure((at[:learned] <= due).all(), "a label was learned before its time")
    ensure((at[learned:] > due).all(), "a label was not learned at its time")


def _load_ages(join: LabelJoin, ages: list[tuple[float, int, int, Id]]) -> None:
    """Take over the clicks whose impressions grow older."""
    assert join._curve is not None
    edges = join._curve.edges
    for when, number_, cell, id in ages:
        one = join._index.get(id)
        ensure(one is not None and one.number == number_ and id in join._outcomes, "a click has no impression")
        ensure(cell < len(edges) and one is not None and when == one.at + edges[cell], "a click is in no cell")
    join._ages = sorted(ages, key=lambda one: one[:3])  # and so a heap
