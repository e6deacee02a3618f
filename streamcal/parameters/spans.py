"""Spans of time: a number and a unit, as in "6h", or a `timedelta`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streamcal.errors import InputError

#: The end of the year 9999, which means no end in some tables; as milliseconds since 1970 it is in 1978.
LARGEST_SECONDS = 253_402_300_799.0
#: In the year 2286, and no time of today in a shorter unit.
LARGEST_NANOSECONDS = 1e19
#: Hardly a span in milliseconds: below 17 minutes, and as seconds up to 11 days.
LARGEST_SPAN = 1e6
#: Units of time shorter than a second: how many make a second, and the times that they give today.
SHORTER_UNITS = ((1e9, "nanoseconds", 1e17), (1e6, "microseconds", 1e14), (1e3, "milliseconds", LARGEST_SECONDS))
#: Seconds of the units of a span.
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def in_shorter_unit(t: float) -> bool:
    """Return whether a time is likely to be one of today, or of the next 200 years, in a unit shorter than a second."""
    return LARGEST_SECONDS < t < LARGEST_NANOSECONDS


def shorter_unit(t: float) -> tuple[float, str]:
    """Return how many of the likely unit of a time above `LARGEST_SECONDS` make a second, and the unit's name.

    >>> shorter_unit(1.7e12)
    (1000.0, 'milliseconds')
    """
    return next((factor, unit) for factor, unit, least in SHORTER_UNITS if t > least)


def parse_span(text: str) -> tuple[float, str]:
    """Return the number and the unit of a text, which is empty where there is none; `ValueError` for other texts.

    >>> parse_span("1.5h"), parse_span("5000")
    ((1.5, 'h'), (5000.0, ''))
    """
    number = text.strip()
    unit = number[-1:].lower()
    return (float(number[:-1]), unit) if unit in UNITS else (float(number), "")


def in_seconds(span: Any, name: str) -> Any:
    """Return a `timedelta`, or a text such as "6h", in seconds, and anything else as it is.

    `InputError` for a text that is no number with a unit.

    >>> in_seconds("6h", "horizon"), in_seconds(timedelta(minutes=1), "horizon"), in_seconds(10, "horizon")
    (21600.0, 60.0, 10)
    """
    if isinstance(span, timedelta):
        return span.total_seconds()
    if not isinstance(span, str):
        return span
    try:
        number, unit = parse_span(span)
        return number * UNITS[unit]
    except (ValueError, KeyError):
        allowed = "give a number with s, m, h, d or w, as in '90s' or '6h', a timedelta, or a number"
        raise InputError(f"{name}={span!r} is no span of time; {allowed}") from None


def span_text(size: float) -> str:
    """Write seconds in the longest unit of which they are a whole number.

    >>> span_text(21_600.0), span_text(90.0), span_text(0.5)
    ('6h', '90s', '0.5s')
    """
    unit = next((unit for unit in reversed(UNITS) if size and not size % UNITS[unit]), "s")
    return f"{size / UNITS[unit]:.15g}{unit}"
