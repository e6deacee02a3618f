"""What SQLite computes from the SQL of a map."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from typing import Any


def in_sqlite(expression: str, scores: Iterable[Any]) -> list[Any]:
    """Return the expression in a column `s`, for each score; NULL is None."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute("SELECT LN(1.0), EXP(1.0)")
    except sqlite3.OperationalError:  # built without its mathematical functions
        database.create_function("LN", 1, math.log, deterministic=True)
        database.create_function("EXP", 1, math.exp, deterministic=True)
    database.execute("CREATE TABLE served (i INTEGER, s DOUBLE)")
    database.executemany("INSERT INTO served VALUES (?, ?)", enumerate(scores))
    return [row[0] for row in database.execute(f"SELECT {expression} FROM served ORDER BY i")]
