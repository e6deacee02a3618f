"""The times of a stream: numbers, ISO 8601 or a given format, in seconds since 1970 UTC, and their order."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from streamcal.errors import InputError
from streamcal.names import did_you_mean
from streamcal.parameters.inputs import check_time
from streamcal.parameters.types import FloatArray
from streamcal.stream.arrow import ERRORS, as_array, cast, in_zone, numbers_in, pyarrow, replaced, with_points
from streamcal.stream.records import (
    TIME_ALLOWED,
    RecordError,
    as_read,
    is_missing,
    label_text,
    number_in,
    refused,
    shown,
)

#: How many of a unit make a second.
TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
#: Microseconds beyond which a double does not hold them exactly.
EXACT = 2.0**53
#: Zones after a space, as SQL engines write them, and what ISO 8601 has in their place.
ZONES_APART = ((r"(:\d\d(?:\.\d+)?) +(?:UTC|GMT)$", r"\1Z"), (r"(:\d\d(?:\.\d+)?) +([+-]\d\d(?::?\d\d)?)$", r"\1\2"))
#: A format of text, for messages.
EXAMPLE_FORMAT = "%d.%m.%Y %H:%M"
#: The remedy where times with a zone and without one are mixed.
ZONE_ALLOWED = "times with a zone throughout, or --timezone UTC, Europe/Berlin, … for those without"
#: A row is out of order where it is older than the latest by more than this part of the times so far.
PART_OF_SPAN = 0.1
#: Rows from which on their order says something.
ROWS_FOR_ORDER = 20


@dataclass(frozen=True)
class TimeOptions:
    """How times are written."""

    unit: str = "s"  #: {"s", "ms", "us", "ns"}: the unit of times that are numbers
    #: The format of times that are text, in the notation of `datetime.strptime`, in place of numbers and ISO 8601.
    format: str | None = None
    #: The time zone of times without one. Without it they are UTC, and an error beside times with a zone or numbers.
    zone: ZoneInfo | None = None

    def __post_init__(self) -> None:
        if self.unit not in TIME_UNITS:
            nearest = did_you_mean(self.unit, TIME_UNITS)
            raise InputError(f"time_unit={self.unit!r} is not one of {', '.join(TIME_UNITS)}{nearest}")
        if self.format is not None and re.search(r"(?<!%)(%%)*%Z", self.format):  # `strptime` drops the zone
            raise InputError(
                f"time_format={self.format!r} cannot read the name of a zone with %Z; write a name that is in all "
                "times as it is, such as '%H:%M:%S GMT', and give its zone as timezone; %z reads +01:00"
            )


class TimeReader:
    """Read the times of the columns of a run.

    Times without a time zone are refused after times with one, and the other way round, unless a zone is given: nobody
    can tell how far the two are apart.

    >>> [TimeReader().one(value, "t") for value in ("12.5", "1970-01-01T01:00:00+01:00", "1970-01-02")]
    [12.5, 0.0, 86400.0]
    """

    def __init__(self, options: TimeOptions | None = None, *, commas: bool = False) -> None:
        self._commas = commas  # numbers in texts have decimal commas
        self._options = options = options or TimeOptions()
        self._factor = TIME_UNITS[options.unit]
        self._first: tuple[Hashable, bool] | None = None  # the first column read, and whether its times had no zone

    def one(self, value: Any, column: str) -> float:
        """Return a time in seconds; `RecordError` for what is none, or has a zone where others have not."""
        try:
            moment = self._moment(value)
            if not isinstance(moment, datetime):
                self._note(column, False, value)
                return check_time(moment / self._factor)
            naive = moment.tzinfo is None
            self._note(column, naive, value)
            return check_time(moment.replace(tzinfo=self._options.zone or UTC) if naive else moment)
        except ValueError as error:
            if isinstance(error, RecordError):
                raise
            allowed = TIME_ALLOWED if self._options.format is None else f"a time such as {self._options.format!r}"
            if self._options.format is None and isinstance(value, str) and not is_missing(value):
                allowed += f", or --time-format, as '{EXAMPLE_FORMAT}'"
            raise refused(value, allowed) from None

    def repeated(self, value: Any) -> str:
        """Return what to add to an error where a time is in the hour that its zone repeats; else nothing.

        >>> berlin = TimeReader(TimeOptions(zone=ZoneInfo("Europe/Berlin")))
        >>> berlin.repeated("2026-10-25T03:30:00"), berlin.repeated("2026-10-25T02:30:00")
        ('', ', in the hour that Europe/Berlin has twice when its clocks are set back; give times with a zone')
        """
        zone, moment = self._options.zone, self._moment(value)
        if zone is None or not isinstance(moment, datetime) or moment.tzinfo is not None:
            return ""
        first, second = (moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        if not first.timestamp() < second.timestamp():
            return ""
        return f", in the hour that {zone.key} has twice when its clocks are set back; give times with a zone"

    def many(self, column: Any, name: str) -> FloatArray:
        """Return the times in a column of Arrow; one of `ERRORS`, or a `RecordError`, where `one` may refuse one."""
        if not len(column):
            return np.empty(0)
        if self._options.format is not None and not pyarrow.types.is_timestamp(column.type):
            if pyarrow.types.is_floating(column.type):
                raise ValueError("dates written as numbers, whose last digits a double may have lost")
            return np.array([self.one(as_read(value), name) for value in column.to_pylist()], dtype=np.float64)
        if not pyarrow.types.is_timestamp(column.type):
            column = with_points(column) if self._commas else column
            try:
                numbers = numbers_in(column)
                self._note(name, False, None)
                return numbers / self._factor
            except ERRORS:
                text = cast(column, pyarrow.string())
                for pattern, zone in ZONES_APART:
                    text = replaced(text, pattern, zone)
                try:
                    column = cast(text, pyarrow.timestamp("us"))
                except ERRORS:
                    column = cast(text, pyarrow.timestamp("us", "UTC"))
        if column.null_count:
            raise ValueError("a time is missing")
        naive = column.type.tz is None
        self._note(name, naive, None)
        if naive and self._options.zone is not None:  # moments that a change of the clock skips or repeats: one by one
            column = in_zone(column, self._options.zone.key)
        micros = as_array(cast(column, pyarrow.timestamp("us", column.type.tz)), np.int64)
        if (np.abs(micros) > EXACT).any():
            raise ValueError("a time that a double does not hold exactly")
        return micros / 1e6

    def _moment(self, value: Any) -> float | datetime:
        if self._options.format is not None and isinstance(value, (str, Real, Decimal)):
            text = value.strip() if isinstance(value, str) else label_text(value)  # a date may be written as a number
            return datetime.strptime(text, self._options.format)
        if isinstance(value, str):
            value = value.replace(",", ".") if self._commas else value
            try:
                return number_in(value, TIME_ALLOWED)
            except RecordError:
                value = value.strip()
                for pattern, zone in ZONES_APART:
                    value = re.sub(pattern, zone, value)
                return datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day)
        return value if isinstance(value, datetime) else number_in(value, TIME_ALLOWED)

    def _note(self, column: str, naive: bool, value: Any) -> None:
        """Refuse times with a zone, or numbers, beside times without one."""
        if self._options.zone is not None:
            return
        if self._first is None:
            self._first = column, naive
        first, first_naive = self._first
        if naive != first_naive:
            this, other = ("no time zone", "one") if naive else ("a time zone, or is a number", "none")
            where = "rows before" if first == column else f"those of column {first!r}"
            raise RecordError(f"{shown(value)} has {this}, and {where} have {other}", ZONE_ALLOWED, column=column)


class TimeOrder:
    """Whether the times of a stream are in order: how many rows there are, and how many are `behind`.

    Those are older than the latest row before them by more than a tenth of the times so far.

    Examples
    --------
    >>> order = TimeOrder()
    >>> order.add(np.array([5.0, 4.0, 3.0, 2.0, 1.0] * 10))
    >>> order.behind, order.disordered
    (40, True)
    """

    def __init__(self) -> None:
        self.rows = self.behind = 0
        self.earliest: float | None = None
        self.latest: float | None = None

    @property
    def disordered(self) -> bool:
        """Whether more than half of at least 20 rows are behind."""
        return self.rows >= ROWS_FOR_ORDER and 2 * self.behind > self.rows

    def add(self, times: FloatArray) -> None:
        """Add times in the order of their rows."""
        if not len(times):
            return
        low = np.minimum.accumulate(times)
        high = np.maximum.accumulate(times)
        if self.earliest is not None and self.latest is not None:
            low, high = np.minimum(low, self.earliest), np.maximum(high, self.latest)
        self.rows += len(times)
        self.behind += int(np.count_nonzero(times < high - PART_OF_SPAN * (high - low)))
        self.earliest, self.latest = float(low[-1]), float(high[-1])

    def add_one(self, t: float) -> None:
        """Add the time of one row."""
        low = t if self.earliest is None else min(t, self.earliest)
        high = t if self.latest is None else max(t, self.latest)
        self.rows += 1
        self.behind += t < high - PART_OF_SPAN * (high - low)
        self.earliest, self.latest = low, high
