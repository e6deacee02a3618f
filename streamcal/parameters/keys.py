"""`canonical`: one form for the value of an id or a level, whatever type it comes in."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np

#: Whole numbers up to this size are kept as integers, larger ones as text: JSON readers take numbers as floats.
LARGEST_WHOLE = 2**53
#: The number of characters of the largest, with its sign.
LONGEST_WHOLE = 17


def canonical(value: Any) -> str | int | None:
    """Return the one form of an id or a level, so that the same value is the same key from every source.

    It is a whole number from −2⁵³ to 2⁵³, or a text; None for what can be neither. Texts that are whole numbers, as CSV
    has them, are numbers, also with decimals that are 0: pandas writes them for whole numbers of which one is missing.
    So are floats, decimals and NumPy scalars with whole values. A UUID is its text, 16 bytes that are no text are a
    UUID, and other bytes are the text that they encode.

    Examples
    --------
    >>> [canonical(one) for one in (7, "7", "7.0", 7.0, np.uint8(7), Decimal("7.00"), b"7")]
    [7, 7, 7, 7, 7, 7, 7]
    >>> canonical(2**64 - 1), canonical("007"), canonical(0.5), canonical([7])
    ('18446744073709551615', '007', None, None)
    """
    if isinstance(value, str):
        return _number_or_text(str.__str__(value))  # of an `Enum`, its value
    if isinstance(value, bytes):
        return _of_bytes(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (np.timedelta64, np.datetime64)):
        return None
    if isinstance(value, (int, np.integer, np.bool_)):
        return _of_integer(int(value))
    if isinstance(value, (float, np.floating)):  # from 2⁵³ on several whole numbers are the same float
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < LARGEST_WHOLE else None
    if isinstance(value, Decimal):
        return _of_integer(int(value)) if value.is_finite() and value == value.to_integral_value() else None
    return None


def _of_integer(value: int) -> str | int:
    return value if -LARGEST_WHOLE <= value <= LARGEST_WHOLE else str(value)


def _number_or_text(text: str) -> str | int:
    """Return the whole number whose shortest form the text is, perhaps with decimals that are 0, else the text."""
    if not text or text[0] not in "-0123456789" or not text.isascii():
        return text
    whole, point, decimals = text.partition(".")
    digits = whole.removeprefix("-")
    if len(whole) > LONGEST_WHOLE or not digits.isdigit() or (digits[0] == "0" and whole != "0"):
        return text
    if point and (not decimals or decimals.strip("0")):
        return text
    return _of_integer(int(whole))


def _of_bytes(value: bytes) -> str | int | None:
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError:
        text = "\n"
    if text.isprintable():
        return _number_or_text(text)
    return str(uuid.UUID(bytes=bytes(value))) if len(value) == 16 else None
