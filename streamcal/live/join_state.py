"""The state of a `LabelJoin` as plain data: writing, reading, and checks of the parameters."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcal.encoding import decode, encode, pack, unpack
from streamcal.kernels.pending.pending_steps import COUNTS, PendingSteps
from streamcal.kernels.pending.pending_table import PendingTable
from streamcal.live.early import CELLS, DelayCurve
from streamcal.live.issued import Id, Keys, Outcome, check_id, check_keys, is_plain
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.parameters.keys import LARGEST_WHOLE
from streamcal.states import MOST, counts, ensure, flag, listed, maybe, number, numbers, record, row, unread, whole

#: Predictions that are written at once; with 90 parts of a mixture, 6 MB.
CHUNK = 8_192
#: Bits of the flags of a row of a `PendingTable`: its outcomes, and the kind of its id.
POSITIVE, NEGATIVE, KIND = 1, 2, 12
#: Its columns of versions, and of levels of many fields; those of a field each follow.
VERSION, OTHERS = 0, 1
IntArray: TypeAlias = NDArray[np.int64]


def head_of(join: Any) -> dict[str, Any]:  # a `LabelJoin`, whose module imports this one
    """Return all of a state but the predictions held; the same for equal joins, in any order of their outcomes."""
    now, table = join._now, join._now.table
    places = {id: table.place_of(id) for _, _, _, id in now.ages}
    numbers = {id: table.number(place) for id, place in places.items() if place >= 0}
    ages = [list(age) for age in sorted(now.ages, key=lambda age: age[:3]) if numbers.get(age[3]) == age[1]]
    written = {
        "clock": None if math.isinf(now.clock) else now.clock,
        "number": now.number,
        "versions": [[version, learner.state()] for version, learner in join._versions.items()],
        "newest": join._newest,
        "waiting": table.end - now.unlearned,
        "aside": [[id, *outcome[:3], outcome.w] for id, outcome in join._aside.items()],
        "stride": join._stride,
        "next_stride": None if math.isinf(join._next_stride) else join._next_stride,
        "counts": now.counts,
        "curve": None if join._curve is None else join._curve.state(),
        "ages": ages,
    }
    return written if join._note is None else {**written, "note": join._note}


def held_of(table: PendingTable, *, copied: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the predictions held and their outcomes, as the columns of `CHUNK` predictions at once.

    Unless they are copied, columns are those of the join, which must not change meanwhile.
    """
    for begin in range(table.first, table.end, CHUNK):
        end = min(begin + CHUNK, table.end)
        yield _columns(table, table.columns(begin, end, copied), begin, end)


def parts_of(join: Any, name: str, params: dict[str, Any]) -> Iterator[bytes | bytearray]:
    """Yield a state as bytes in parts, so that it is never in memory as a whole: the head, then chunks of predictions.

    The join must not change meanwhile. Chunks have no checksum, which a journal has of each part.
    """
    yield pack([name, params, head_of(join)])
    for chunk in held_of(join._now.table, copied=False):
        yield encode(chunk)


def written_in(parts: Iterator[bytes | memoryview]) -> dict[str, Any]:
    """Return the state that `parts_of` wrote; its predictions are read as they are asked for."""
    name, params, learned = row(unread, unread, unread)(unpack(next(parts)))
    ensure(isinstance(learned, dict), "the head of the state is no record")
    return {
        "class": name,
        "params": params,
        "learned": {**learned, "held": map(decode, parts)},
    }


def _columns(table: PendingTable, columns: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """Return predictions as plain columns, written and read many times faster than rows; None for one of Nones.

    `at` is None where it is `t` everywhere, `cell` where it is 0 everywhere, and `weight` where no outcome has
    its own. Outcomes have the place of their prediction, `of`, in rising order.
    """
    flags, size = columns["flags"], end - begin
    of = np.flatnonzero(flags & (POSITIVE | NEGATIVE))
    cell, weight = columns["cell"], columns["outcome_w"]
    cell = None if cell is None else cell[of].astype(np.int64)
    weight = None if weight is None else [None if w != w else w for w in weight[of].tolist()]
    weight = None if weight is None or all(w is None for w in weight) else weight
    t = columns["at"] if columns["t"] is None else columns["t"]
    when = columns["when"]
    return {
        "p": columns["p"],
        "score": columns["score"],
        "t": t,
        "w": np.ones(size) if columns["w"] is None else columns["w"],
        "id": _written_ids(table, columns, begin, end),
        "number": columns["number"],
        "at": None if (t == columns["at"]).all() else columns["at"],
        "version": _written_versions(table, columns["levels"]),
        "keys": _written_keys(table, columns["levels"]),
        "records": _written_records(columns["records"], size),
        "of": of,
        "positive": (flags[of] & POSITIVE).astype(np.bool_),
        "negative": (flags[of] & NEGATIVE).astype(np.bool_),
        "when": np.zeros(0) if when is None else when[of],
        "cell": None if cell is None or not cell.any() else cell,
        "weight": weight,
    }


def _written_ids(table: PendingTable, columns: dict[str, Any], begin: int, end: int) -> Any:
    """Return texts as one, since no id has a line break; integers as an array; a mixture as a list."""
    if not (columns["flags"] & KIND).any():  # of at most 53 bits
        return columns["key"]
    ids = table.ids(begin, end)
    return "\n".join(ids) if set(map(type, ids)) == {str} else ids


def _written_versions(table: PendingTable, levels: list[Any]) -> Any:
    """Return each version once, and the place of that of each prediction."""
    if not levels or levels[VERSION] is None or not levels[VERSION].any():
        return None
    numbers, of = _first_seen(levels[VERSION][:, np.newaxis])
    return {"each": [table.names[VERSION].values[number] for number in numbers[:, 0].tolist()], "of": of}


def _written_keys(table: PendingTable, levels: list[Any]) -> Any:
    """Return each combination of levels once, as JSON, and the place of that of each prediction."""
    used = [k for k in range(OTHERS, len(levels)) if levels[k] is not None and levels[k].any()]
    if not used:
        return None
    numbers, of = _first_seen(np.column_stack([levels[k] for k in used]))
    each = []
    for row_ in numbers.tolist():
        keys: dict[str, Any] = {}
        for k, place in zip(used, row_, strict=True):
            level = table.names[k].values[place]
            if level is not None and k == OTHERS:
                keys.update(level)
            elif level is not None:
                keys[table.fields[k - OTHERS - 1]] = level
        each.append(dict(sorted(keys.items())) or None)
    return {"each": json.dumps(each), "of": of}


def _first_seen(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows in the order in which they come first, and the place of each row among them."""
    distinct, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return distinct[order], places[of.ravel()]


def _written_records(records: Any, size: int) -> Any:
    """Return what is remembered as one array of signed bytes, and how many are those of each prediction."""
    if records is None:
        return None
    if isinstance(records, list):
        sizes = np.array([0 if packed is None else len(packed) for packed in records], dtype=np.int64)
        if not sizes.any():
            return None
        content = np.frombuffer(b"".join([packed for packed in records if packed is not None]), dtype=np.int8)
    else:
        sizes, content = np.full(size, records.shape[1], dtype=np.int64), records.ravel().view(np.int8)
    return {"sizes": sizes, "values": content}


def read(state: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `head_of` and `held_of` wrote of a join with these parameters; `StateError` for anything else.

    Values are by the names of the attributes of the join, without the underscore.
    """
    time, version, early = number(), maybe(check_id), params["early"]
    fields = {
        "clock": maybe(time),
        "number": whole(),
        "versions": listed(row(version, VersionLearner.loaded)),
        "newest": version,
        "waiting": whole(),
        "held": unread,
        "aside": listed(row(check_id, flag, flag, time, maybe(number(0.0, LARGEST_WEIGHT)))),
        "stride": whole(1, MOST),
        "next_stride": maybe(time),
        "counts": record(dict.fromkeys(COUNTS, whole(0, MOST))),
        "curve": maybe(lambda value: DelayCurve.loaded(value, early, params["horizon"], params["early_share"])),
        "ages": listed(row(time, whole(), whole(1), check_id)),
    }
    read = record(fields, {"note": _note})(state)
    table = _held(read["held"], params["max_held"])
    ensure(read["waiting"] <= len(table), "more predictions wait than there are")
    ensure((read["curve"] is None) == (early is None), "there is a curve of delays without an early window")
    now = PendingSteps(table, params["horizon"], early, params["late"])
    now.clock = -math.inf if read["clock"] is None else read["clock"]
    now.number, now.unlearned, now.counts = read["number"], table.end - read["waiting"], read["counts"]
    now.ages = sorted(read["ages"], key=lambda age: age[:3])  # and so a heap
    contents: dict[str, Any] = {name: read[name] for name in ("newest", "stride", "curve", "note")}
    contents["now"], contents["versions"] = now, dict(read["versions"])
    contents["aside"] = aside = OrderedDict((id, Outcome(yes, no, t, 0, w)) for id, yes, no, t, w in read["aside"])
    contents["next_stride"] = -math.inf if read["next_stride"] is None else read["next_stride"]
    ensure(read["newest"] in contents["versions"], "the newest version has no calibration")
    ensure(len(contents["versions"]) == len(read["versions"]), "a version is there twice")
    ensure(not table.has_twice(), "an id is there twice")
    ensure(len(aside) == len(read["aside"]) <= params["max_unknown"], "there are too many outcomes")
    ensure(all(outcome.positive or outcome.negative for outcome in aside.values()), "no label")
    ensure(read["stride"] == 1 or read["next_stride"] is not None, "predictions are thinned out since no time")
    _require_order(now, now.soonest if read["curve"] is None else read["curve"].hold)
    _require_ages(now, [] if read["curve"] is None else read["curve"].edges)
    return contents


def _held(value: Any, most: int) -> PendingTable:
    """Read the chunks that `held_of` wrote."""
    ensure(isinstance(value, (list, Iterator)), "predictions are in no chunks")
    table = PendingTable()
    for chunk in value:
        _read_columns(table, chunk)
        ensure(len(table) <= most, "there are too many predictions")
    table.enter_all()
    return table


def _read_columns(table: PendingTable, value: Any) -> None:
    """Read predictions and outcomes that `_columns` wrote into a table."""
    fields = {"id": _ids, "p": numbers(None, least=0.0, most=1.0), "score": numbers(None), "t": numbers(None)}
    fields |= {"version": maybe(_versions), "keys": maybe(_keys), "records": maybe(_records)}
    fields |= {"w": numbers(None, least=0.0, most=LARGEST_WEIGHT), "at": maybe(numbers(None)), "number": counts()}
    fields |= {"of": counts(), "positive": listed(flag), "negative": listed(flag), "when": numbers(None)}
    fields |= {"cell": maybe(counts()), "weight": maybe(listed(maybe(number(0.0, LARGEST_WEIGHT))))}
    read = record(fields)(value)
    size, at = len(read["p"]), read["t"] if read["at"] is None else read["at"]
    versions, version_of = read["version"] or (None, None)
    keys, keys_of = read["keys"] or (None, None)
    parts = (read["id"], read["score"], read["t"], read["w"], at, read["number"], version_of, keys_of, read["records"])
    ensure(all(part is None or len(part) == size for part in parts), "predictions have columns of several lengths")
    ids = read["id"]
    whole_ids = {"key": ids, "flags": np.zeros(size, dtype=np.uint8), "sizes": None, "texts": None}
    columns = whole_ids if isinstance(ids, np.ndarray) else table.keyed(ids)
    columns |= {"p": read["p"], "score": read["score"], "at": at, "number": read["number"], "records": read["records"]}
    columns["t"] = None if read["at"] is None else read["t"]
    columns["w"] = None if (read["w"] == 1.0).all() else read["w"]
    columns["levels"] = table.numbered(versions, version_of, keys, keys_of)
    _read_outcomes(columns, read, size)
    table.extend(columns)


def _read_outcomes(columns: dict[str, Any], read: dict[str, Any], size: int) -> None:
    """Add outcomes that were read to the columns of their predictions."""
    of, when = read["of"], read["when"]
    positive, negative = (np.array(read[name], dtype=np.bool_) for name in ("positive", "negative"))
    cell, weight = read["cell"], read["weight"]
    parts = (positive, negative, when, cell, weight)
    ensure(all(part is None or len(part) == len(of) for part in parts), "outcomes have columns of several lengths")
    ensure(not len(of) or int(of[-1]) < size, "an outcome is that of no prediction")
    ensure(bool((np.diff(of) > 0).all()), "outcomes are not in the order of their predictions")
    ensure(bool((positive | negative).all()), "no label")
    columns["when"] = columns["cell"] = columns["outcome_w"] = None
    if not len(of):
        return
    columns["flags"][of] |= (POSITIVE * positive + NEGATIVE * negative).astype(np.uint8)
    columns["when"] = np.zeros(size)
    columns["when"][of] = when
    if cell is not None:
        ensure(int(cell.max()) <= CELLS + 1, "a click is in no cell")
        columns["cell"] = np.zeros(size, dtype=np.uint8)
        columns["cell"][of] = cell
    if weight is not None:
        columns["outcome_w"] = np.full(size, np.nan)
        columns["outcome_w"][of] = [np.nan if w is None else w for w in weight]


def _ids(value: Any) -> Any:
    """Read ids; each must be as `check_id` returns it. Whole numbers are returned as an array."""
    if isinstance(value, np.ndarray) and value.dtype == np.int64:
        ensure(not len(value) or int(np.abs(value).max()) <= LARGEST_WHOLE, "an id is not as written")
        return value
    ids: list[Id] = [*value.split("\n")] if isinstance(value, str) else listed(unread)(value)
    if isinstance(value, str) and _are_plain(value, ids):
        return ids
    for id in ids:
        known = (id.__class__ is str and is_plain(id)) or (isinstance(id, (str, int)) and check_id(id) == id)
        ensure(known, "an id is not as written")
    return ids


def _are_plain(text: str, ids: Sequence[Any]) -> bool:
    """Return whether all parts of a text are ids as `is_plain` has it, in less time than one by one."""
    sizes = list(map(len, ids))
    if not (min(sizes) > 0 and max(sizes) <= 64 and text.replace("\n", "").isprintable()):
        return False
    return not any(first.isdigit() or first == "-" for first in {id[0] for id in ids})


def _places(value: Any, number: int) -> IntArray:
    places: IntArray = counts()(value)
    ensure(not len(places) or int(places.max()) < number, "a place is beyond the end")
    return places


def _versions(value: Any) -> tuple[list[Id | None], IntArray]:
    read = record({"each": listed(maybe(check_id)), "of": unread})(value)
    return read["each"], _places(read["of"], len(read["each"]))


def _keys(value: Any) -> tuple[list[Keys | None], IntArray]:
    """Read levels; predictions with equal ones share them."""
    read = record({"each": json.loads, "of": unread})(value)
    each = listed(check_keys)(read["each"])
    return each, _places(read["of"], len(each))


def _records(value: Any) -> Any:
    read = record({"sizes": counts(), "values": _bytes})(value)
    sizes, content = read["sizes"], read["values"]
    total = int(sizes.sum())
    ensure(total == len(content), "parts of mixtures said more or less")
    if len(sizes) and total and (sizes == sizes[0]).all():
        return content.view(np.uint8).reshape(len(sizes), -1)
    places, raw = [0, *np.cumsum(sizes).tolist()], content.tobytes()
    return [raw[a:b] if a < b else None for a, b in pairwise(places)]


def _bytes(value: Any) -> NDArray[np.int8]:
    """Read signed bytes."""
    content = np.asarray(value)
    ensure(content.ndim == 1 and (content.dtype in (np.int8, np.int64) or not len(content)), "the numbers are no bytes")
    ensure(not len(content) or (int(content.min()) >= -128 and int(content.max()) < 128), "the numbers are no bytes")
    return content.astype(np.int8)


def _note(value: Any) -> str:
    """Check and return the note of a user, which is JSON."""
    ensure(isinstance(value, str) and value.isascii(), "a note is no text")
    json.loads(value)
    return str(value)


def _require_order(now: PendingSteps, hold: float) -> None:
    """Raise `StateError` unless predictions are in the order of issue, and all that are due were learned.

    Labels are learned at the age `hold` now.
    """
    table = now.table
    at, numbered = -math.inf, -1
    for begin in range(table.first, table.end, CHUNK):
        end = min(begin + CHUNK, table.end)
        columns = table.columns(begin, end)
        times, numbers_ = columns["at"], columns["number"]
        rising = (numbers_[1:] > numbers_[:-1]).all() and (times[1:] >= times[:-1]).all()
        ensure(rising and numbers_[0] > numbered and times[0] >= at, "predictions are not in their order")
        at, numbered = float(times[-1]), int(numbers_[-1])
        learned = max(now.unlearned - begin, 0)
        ensure((times[:learned] <= now.clock - now.soonest).all(), "a label was learned before its time")
        ensure((times[learned:] > now.clock - hold).all(), "a label was not learned at its time")
    ensure(numbered < now.number and at <= now.clock, "a prediction was issued in the future")


def _require_ages(now: PendingSteps, edges: list[float]) -> None:
    """Raise `StateError` unless the clicks whose impressions grow older are known, each with the end of its cell."""
    table = now.table
    for when, number_, cell, id in now.ages:
        place = table.place_of(id)
        known = place >= 0 and table.number(place) == number_ and table.outcome(place) is not None
        ensure(known, "a click has no impression")
        ensure(cell < len(edges) and when == table.at(place) + edges[cell], "a click is in no cell")
    for begin in range(table.first, table.end, CHUNK):
        cells = table.columns(begin, min(begin + CHUNK, table.end))["cell"]
        ensure(cells is None or int(cells.max()) <= len(edges), "a click is in no cell")
