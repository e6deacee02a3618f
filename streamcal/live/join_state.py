"""The state of a `LabelJoin` as plain data: writing, reading, and checks of the parameters."""

from __future__ import annotations

import json
import math
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat
from typing import Any

import numpy as np

from streamcal.encoding import pack, unpack
from streamcal.live.early import DelayCurve
from streamcal.live.issued import Id, Issued, Keys, Outcome, check_id, check_keys, is_plain
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.states import MOST, counts, ensure, flag, listed, maybe, number, numbers, record, row, unread, whole

#: Predictions that are written at once; with 90 parts of a mixture, 6 MB.
CHUNK = 8_192
#: What `LabelJoin.tally` counts.
COUNTS = (
    "issued",
    "learned",
    "positives",
    "timed_out",
    "repeated",
    "contradicted",
    "corrected",
    "uncorrected",
    "unknown",
    "matched",
    "overflowed",
    "unheld",
    "forgotten",
    "backwards",
    "before_issue",
    "refused",
)


@dataclass
class Contents:
    """What a `LabelJoin` remembers and has counted, each in its attribute of this name with an underscore."""

    clock: float
    number: int
    versions: dict[Id | None, VersionLearner]
    newest: Id | None
    learned: deque[Issued]
    waiting: deque[Issued]
    index: dict[Id, Issued]  # those of both queues; it is not written
    outcomes: dict[Id, Outcome]
    aside: OrderedDict[Id, Outcome]
    stride: int
    next_stride: float
    counts: dict[str, int]
    curve: DelayCurve | None
    ages: list[tuple[float, int, int, Id]]
    note: str | None


def head_of(found: Contents) -> dict[str, Any]:
    """Return all of a state but the predictions held; the same for equal joins, in any order of their outcomes."""
    numbers = {id: one.number for _, _, _, id in found.ages if (one := found.index.get(id)) is not None}
    ages = [list(one) for one in sorted(found.ages, key=lambda one: one[:3]) if numbers.get(one[3]) == one[1]]
    written = {
        "clock": None if math.isinf(found.clock) else found.clock,
        "number": found.number,
        "versions": [[version, learner.state()] for version, learner in found.versions.items()],
        "newest": found.newest,
        "waiting": len(found.waiting),
        "aside": [[id, *outcome[:3], outcome.w] for id, outcome in found.aside.items()],
        "stride": found.stride,
        "next_stride": None if math.isinf(found.next_stride) else found.next_stride,
        "counts": dict(found.counts),
        "curve": None if found.curve is None else found.curve.state(),
        "ages": ages,
    }
    return written if found.note is None else {**written, "note": found.note}


def held_of(found: Contents) -> Iterator[dict[str, Any]]:
    """Yield the predictions held and their outcomes, as the columns of `CHUNK` predictions at once."""
    held = chain(found.learned, found.waiting)
    while chunk := list(islice(held, CHUNK)):
        yield _columns(chunk, found.outcomes)


def parts_of(found: Contents, name: str, params: dict[str, Any]) -> Iterator[bytes]:
    """Yield a state as bytes in parts, so that it is never in memory as a whole: the head, then chunks of predictions.

    The join must not change meanwhile.
    """
    yield pack([name, params, head_of(found)])
    for chunk in held_of(found):
        yield pack(chunk)


def written_in(parts: Iterator[bytes]) -> dict[str, Any]:
    """Return the state that `parts_of` wrote; its predictions are read as they are asked for."""
    name, params, learned = row(unread, unread, unread)(unpack(next(parts), arrays=True))
    ensure(isinstance(learned, dict), "the head of the state is no record")
    return {
        "class": name,
        "params": params,
        "learned": {**learned, "held": (unpack(one, arrays=True) for one in parts)},
    }


def _columns(held: Sequence[Issued], outcomes: Mapping[Id, Outcome]) -> dict[str, Any]:
    """Return predictions as columns, which are written and read many times faster than rows; None for one of Nones.

    `at` is None where it is `t` everywhere, `cell` where it is 0 everywhere, and `weight` where no outcome has
    its own. Outcomes have the place of their prediction, `of`, in rising order.
    """
    names = ("id", "p", "score", "t", "version", "keys", "w", "at", "number", "said")
    columns = dict(zip(names, zip(*held, strict=True), strict=True))
    known = [(place, *outcomes[id]) for place, id in enumerate(columns["id"]) if id in outcomes]
    of, positive, negative, when, cell, weight = zip(*known, strict=True) if known else ((),) * 6
    return {
        **{name: np.array(columns[name], dtype=np.float64) for name in ("p", "score", "t", "w")},
        "id": _written_ids(columns["id"]),
        "number": np.array(columns["number"], dtype=np.int64),
        "at": None if columns["at"] == columns["t"] else np.array(columns["at"], dtype=np.float64),
        "version": _written_versions(columns["version"]),
        "keys": _written_keys(columns["keys"]),
        "said": _written_said(columns["said"]),
        "of": list(of),
        "positive": list(positive),
        "negative": list(negative),
        "when": list(when),
        "cell": list(cell) if any(cell) else None,
        "weight": None if all(one is None for one in weight) else list(weight),
    }


def _written_ids(ids: Sequence[Id]) -> Any:
    """Return texts as one, since no id has a line break; integers as an array; a mixture as a list."""
    kinds = set(map(type, ids))
    if kinds == {str}:
        return "\n".join(ids)  # type: ignore[arg-type]
    if kinds == {int}:  # of at most 53 bits
        return np.array(ids, dtype=np.int64)
    return list(ids)


def _written_versions(versions: Sequence[Id | None]) -> Any:
    """Return each version once, and the place of that of each prediction."""
    places: dict[Id | None, int] = {}
    of = [places.setdefault(one, len(places)) for one in versions]
    return None if list(places) == [None] else {"each": list(places), "of": np.array(of, dtype=np.int64)}


def _written_keys(keys: Sequence[Keys | None]) -> Any:
    """Return each combination of levels once, as JSON, and the place of that of each prediction."""
    if all(one is None for one in keys):
        return None
    places: dict[Any, int] = {}
    each: list[Keys | None] = []
    of = []
    for one in keys:
        place = places.setdefault(None if one is None else tuple(one.items()), len(each))
        if place == len(each):
            each.append(one)
        of.append(place)
    return {"each": json.dumps(each), "of": np.array(of, dtype=np.int64)}


def _written_said(said: Sequence[array[float] | None]) -> Any:
    """Return what parts of mixtures said as one array, and how many numbers are those of each prediction."""
    if all(one is None for one in said):
        return None
    sizes = np.array([0 if one is None else len(one) for one in said], dtype=np.int64)
    return {"sizes": sizes, "values": np.frombuffer(b"".join([one for one in said if one is not None]))}


def read(state: Any, params: Mapping[str, Any]) -> Contents:
    """Read what `head_of` and `held_of` wrote of a join with these parameters; `StateError` for anything else."""
    time, version, early = number(), maybe(check_id), params["early"]
    fields = {
        "clock": maybe(time),
        "number": whole(),
        "versions": listed(row(version, VersionLearner.loaded)),
        "newest": version,
        "waiting": whole(),
        "held": _held,
        "aside": listed(row(check_id, flag, flag, time, maybe(number(0.0, LARGEST_WEIGHT)))),
        "stride": whole(1, MOST),
        "next_stride": maybe(time),
        "counts": record(dict.fromkeys(COUNTS, whole(0, MOST))),
        "curve": maybe(lambda value: DelayCurve.loaded(value, early, params["horizon"], params["early_share"])),
        "ages": listed(row(time, whole(), whole(1), check_id)),
    }
    read = record(fields, {"note": _note})(state)
    held, outcomes = read["held"]
    learned = len(held) - read["waiting"]
    ensure(learned >= 0 and len(held) <= params["max_held"], "there are too many predictions")
    ensure((read["curve"] is None) == (early is None), "there is a curve of delays without an early window")
    found = Contents(
        **{name: read[name] for name in ("number", "newest", "stride", "counts", "curve", "note")},
        clock=-math.inf if read["clock"] is None else read["clock"],
        versions=dict(read["versions"]),
        learned=deque(held[:learned]),
        waiting=deque(held[learned:]),
        index={one.id: one for one in held},
        outcomes=outcomes,
        aside=OrderedDict((id, Outcome(yes, no, t, 0, w)) for id, yes, no, t, w in read["aside"]),
        next_stride=-math.inf if read["next_stride"] is None else read["next_stride"],
        ages=sorted(read["ages"], key=lambda one: one[:3]),  # and so a heap
    )
    ensure(found.newest in found.versions, "the newest version has no calibration")
    ensure(len(found.versions) == len(read["versions"]), "a version is there twice")
    ensure(len(found.index) == len(held), "an id is there twice")
    ensure(len(found.aside) == len(read["aside"]) <= params["max_unknown"], "there are too many outcomes")
    ensure(all(one.positive or one.negative for one in (*outcomes.values(), *found.aside.values())), "no label")
    ensure(found.stride == 1 or read["next_stride"] is not None, "predictions are thinned out since no time")
    soonest = params["horizon"] if early is None else early
    _require_order(found, held, soonest, soonest if found.curve is None else found.curve.hold)
    _require_ages(found)
    return found


def _held(value: Any) -> tuple[list[Issued], dict[Id, Outcome]]:
    """Read the chunks that `held_of` wrote."""
    ensure(isinstance(value, (list, Iterator)), "predictions are in no chunks")
    held: list[Issued] = []
    outcomes: dict[Id, Outcome] = {}
    for chunk in value:
        some, known = _read_columns(chunk)
        held += some
        outcomes |= known
    return held, outcomes


def _read_columns(value: Any) -> tuple[list[Issued], dict[Id, Outcome]]:
    """Read predictions and outcomes that `_columns` wrote."""
    fields = {"id": _ids, "p": numbers(None, least=0.0, most=1.0), "score": numbers(None), "t": numbers(None)}
    fields |= {"version": maybe(_versions), "keys": maybe(_keys), "said": maybe(_all_said)}
    fields |= {"w": numbers(None, least=0.0, most=LARGEST_WEIGHT), "at": maybe(numbers(None)), "number": counts()}
    fields |= {"of": counts(), "positive": listed(flag), "negative": listed(flag), "when": numbers(None)}
    fields |= {"cell": maybe(counts()), "weight": maybe(listed(maybe(number(0.0, LARGEST_WEIGHT))))}
    read = record(fields)(value)
    columns = [_listed(read["t" if name == "at" and read["at"] is None else name]) for name in Issued._fields]
    size = len(columns[0])
    ensure(all(one is None or len(one) == size for one in columns), "predictions have columns of several lengths")
    # as `Issued(...)`, whose own constructor takes longer than all the rest
    rows = zip(*(repeat(None, size) if one is None else one for one in columns), strict=True)
    held = [tuple.__new__(Issued, one) for one in rows]
    of, *known = (_listed(read[name]) for name in ("of", "positive", "negative", "when"))
    known.append([0] * len(of) if read["cell"] is None else _listed(read["cell"]))
    known.append([None] * len(of) if read["weight"] is None else read["weight"])
    ensure(all(len(one) == len(of) for one in known), "outcomes have columns of several lengths")
    ensure(not of or of[-1] < size, "an outcome is that of no prediction")
    ensure(bool((np.diff(read["of"]) > 0).all()), "outcomes are not in the order of their predictions")
    outcomes = zip(of, zip(*known, strict=True), strict=True)
    return held, {columns[0][place]: Outcome(*outcome) for place, outcome in outcomes}


def _listed(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _ids(value: Any) -> list[Id]:
    """Read ids; each must be as `check_id` returns it."""
    ids: list[Id] = [*value.split("\n")] if isinstance(value, str) else listed(unread)(value)
    if isinstance(value, str) and _are_plain(value, ids):
        return ids
    for one in ids:
        known = (one.__class__ is str and is_plain(one)) or (isinstance(one, (str, int)) and check_id(one) == one)
        ensure(known, "an id is not as written")
    return ids


def _are_plain(text: str, ids: Sequence[Any]) -> bool:
    """Return whether all parts of a text are ids as `is_plain` has it, in less time than one by one."""
    sizes = list(map(len, ids))
    if not (min(sizes) > 0 and max(sizes) <= 64 and text.replace("\n", "").isprintable()):
        return False
    return not any(first.isdigit() or first == "-" for first in {one[0] for one in ids})


def _places(value: Any, number: int) -> list[int]:
    found = counts()(value)
    ensure(not len(found) or int(found.max()) < number, "a place is beyond the end")
    return list(found.tolist())


def _versions(value: Any) -> list[Id | None]:
    read = record({"each": listed(maybe(check_id)), "of": unread})(value)
    return [read["each"][place] for place in _places(read["of"], len(read["each"]))]


def _keys(value: Any) -> list[Keys | None]:
    """Read levels; predictions with equal ones share them."""
    read = record({"each": json.loads, "of": unread})(value)
    each = listed(check_keys)(read["each"])
    return [each[place] for place in _places(read["of"], len(each))]


def _all_said(value: Any) -> list[array[float] | None]:
    read = record({"sizes": counts(), "values": numbers(None, copy=False)})(value)
    ends = np.cumsum(read["sizes"])
    ensure((int(ends[-1]) if len(ends) else 0) == len(read["values"]), "parts of mixtures said more or less")
    content, places = memoryview(np.ascontiguousarray(read["values"]).view(np.uint8)), [0, *(8 * ends).tolist()]
    return [array("d", bytes(content[a:b])) if a < b else None for a, b in pairwise(places)]


def _note(value: Any) -> str:
    """Check and return the note of a user, which is JSON."""
    ensure(isinstance(value, str) and value.isascii(), "a note is no text")
    json.loads(value)
    return str(value)


def _require_order(found: Contents, held: list[Issued], soonest: float, hold: float) -> None:
    """Raise `StateError` unless predictions are in the order of issue, and all that are due were learned.

    Labels are learned at the age `hold` now, and never were before the age `soonest`.
    """
    at, numbers_ = np.array([one.at for one in held]), np.array([one.number for one in held], dtype=np.int64)
    ensure((numbers_[1:] > numbers_[:-1]).all() and (at[1:] >= at[:-1]).all(), "predictions are not in their order")
    if held:
        ensure(held[-1].number < found.number and held[-1].at <= found.clock, "a prediction was issued in the future")
    learned = len(found.learned)
    ensure((at[:learned] <= found.clock - soonest).all(), "a label was learned before its time")
    ensure((at[learned:] > found.clock - hold).all(), "a label was not learned at its time")


def _require_ages(found: Contents) -> None:
    """Raise `StateError` unless the clicks whose impressions grow older are known, each with the end of its cell."""
    edges = [] if found.curve is None else found.curve.edges
    for when, number_, cell, id in found.ages:
        one = found.index.get(id)
        ensure(one is not None and one.number == number_ and id in found.outcomes, "a click has no impression")
        ensure(cell < len(edges) and one is not None and when == one.at + edges[cell], "a click is in no cell")
    last = max((outcome.cell for outcome in found.outcomes.values()), default=0)
    ensure(last <= len(edges), "a click is in no cell")
