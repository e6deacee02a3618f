"""Requests as they come: JSON that is checked field by field, and errors that say where and what is allowed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from streamcal.errors import ClockError, InputError
from streamcal.live.issued import ConflictError
from streamcal.live.levels import KeysError
from streamcal.names import did_you_mean
from streamcal.parameters.inputs import check_label, check_score, check_time, check_weight
from streamcal.serving.settings import LONGEST_TEXT

#: Ids and levels are integers of 64 bits, signed or not; of floats, those that are exact.
LEAST_WHOLE, LARGEST_WHOLE, LARGEST_LEVEL = -(2**63), 2**64 - 1, 2**53
#: What may be a key of JSON and the colon after it.
KEYS = re.compile(r'"\s*:')
#: Raises `InputError`; what it returns, unless None, is used in place of the value.
Check = Callable[[Any], Any]


class RefusedError(Exception):
    """A request that is answered with an error of this HTTP status.

    The message says after a semicolon what is allowed, as in an `InputError`; `where` is the field, or the part of the
    request.
    """

    def __init__(self, status: int, message: str, where: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.where, self.headers = status, where, headers
        self.id: Any = None  #: that of the item, for the log

    def content(self, place: str = "") -> dict[str, str]:
        """Return the error as the client gets it; `place` is that of the item."""
        error, _, allowed = str(self).partition("; ")
        where = self.where if not place else f"{place}.{self.where}" if self.where else place
        return {"error": error, "where": where, "allowed": allowed}


def parsed(body: bytes) -> Any:
    """Parse the JSON of a body; `RefusedError` for anything else, as NaN, or a key that is given twice."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_no_number)
        # Each key of the text is followed by a colon. If there are no more of those than keys, none was given twice.
        if value.__class__ is list and len(KEYS.findall(text)) == sum(map(_keys_in, value)):
            return value
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise RefusedError(400, f"the body is no JSON: {reason[:200]}; give JSON in UTF-8", "body") from None


def checked(item: Any, checks: Mapping[str, Check], needed: tuple[str, ...]) -> dict[str, Any]:
    """Check the fields of an item and drop those that are null; `RefusedError` naming the first invalid one."""
    if item.__class__ is not dict:
        raise RefusedError(422, f"{_short(item)} is no object; give one with {', '.join(needed)}", "")
    field = ""
    try:
        for field, value in item.items():
            check = checks[field]
            if value is not None or field in needed:
                better = check(value)
                if better is not None:
                    item[field] = better
    except KeyError:
        known = f"{', '.join(checks)}{did_you_mean(field, checks)}"
        raise RefusedError(
            422, f"field {_short(field)} is unknown; known are {known}", _short(field).strip("'")
        ) from None
    except InputError as error:
        raise RefusedError(422, str(error), field) from None
    for name in needed:
        if name not in item:
            raise RefusedError(422, f"{name} is missing; give {', '.join(needed)}", name)
    return {name: value for name, value in item.items() if value is not None} if None in item.values() else item


def refused(error: InputError) -> RefusedError:
    """Return the answer if the join refuses possible fields: 409 if the id or the clock conflicts."""
    if isinstance(error, ConflictError):
        return RefusedError(409, str(error), "id")
    if isinstance(error, ClockError):
        return RefusedError(409, str(error), "t")
    return RefusedError(422, str(error), "keys" if isinstance(error, KeysError) else "score")


def check_id(value: Any) -> int | None:
    """Check an id: printable ASCII text, or an integer of 64 bits; 5.0 is an integer in JSON and read as 5."""
    if value.__class__ is str:
        if 0 < len(value) <= LONGEST_TEXT and value.isascii() and value.isprintable():
            return None
    elif value.__class__ is int and LEAST_WHOLE <= value <= LARGEST_WHOLE:
        return None
    elif value.__class__ is float and value.is_integer() and abs(value) <= LARGEST_LEVEL:
        return int(value)
    allowed = f"give 1 to {LONGEST_TEXT} printable ASCII characters, or an integer of 64 bits"
    raise InputError(f"{_short(value)} is not possible; {allowed}")


def check_keys(value: Any, most: int) -> None:
    """Check an object of fields and their levels: texts, whole numbers, or null for an unknown level."""
    if value.__class__ is not dict:
        raise InputError(f"keys {_short(value)} are no object; give fields and levels, such as {{'campaign': 'c17'}}")
    if len(value) > most:
        raise InputError(f"{len(value)} keys are not possible; give at most {most}")
    for field, level in value.items():
        if level.__class__ is float and level.is_integer() and abs(level) <= LARGEST_LEVEL:
            value[field] = level = int(level)
        number = level.__class__ is int and LEAST_WHOLE <= level <= LARGEST_WHOLE
        if not (_is_text(field) and (number or level is None or _is_text(level))):
            allowed = f"give texts of up to {LONGEST_TEXT} characters, or as level a whole number of 64 bits or null"
            raise InputError(f"level {_short(level)} of {_short(field)} is not possible; {allowed}")


def issue_checks(max_keys: int) -> dict[str, Check]:
    """Return the check of each field of an impression."""
    return {
        "id": check_id,
        "score": _number(check_score, "score", finite=True),
        "t": _number(check_time, "time", finite=True),
        "keys": lambda value: check_keys(value, max_keys),
        "version": check_id,
        "w": _number(check_weight, "weight"),
    }


def outcome_checks() -> dict[str, Check]:
    """Return the check of each field of an outcome."""
    times, weights = _number(check_time, "time", finite=True), _number(check_weight, "weight")
    return {"id": check_id, "y": _label, "t": times, "w": weights}


def _label(value: Any) -> None:
    """Check a label, which the join accepts as it is."""
    check_label(value)


def _number(check: Check, name: str, finite: bool = False) -> Check:
    """Make a check of JSON numbers alone; with `finite` every finite float passes."""
    largest = math.inf if finite else -math.inf

    def checked_number(value: Any) -> None:
        if value.__class__ is float and -largest < value < largest:  # fast path
            return
        if value.__class__ is int:
            try:
                value = float(value)
            except OverflowError:
                raise InputError(f"{name} is an integer of many digits; give a number that a float can hold") from None
        elif value.__class__ is not float:
            raise InputError(f"{name} {_short(value)} is no number; give one")
        check(value)

    return checked_number


def _is_text(value: Any) -> bool:
    """Return whether a value is a text that can be written: JSON may contain halves of characters."""
    if value.__class__ is not str or len(value) > LONGEST_TEXT:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _short(value: Any) -> str:
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _keys_in(item: Any) -> int:
    """Return the number of keys of an item, and of the object in it."""
    if item.__class__ is not dict:
        return 0
    inner = item.get("keys")
    return len(item) + (len(inner) if inner.__class__ is dict else 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, whose keys have one value each."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {_short(next(key for key in keys if keys.count(key) > 1))} is given twice")
    return fields


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
