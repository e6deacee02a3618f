"""SQL text for calibration maps: only CASE, comparisons, + − * /, and LN and EXP where a map needs them.

The text is the same for all databases but PostgreSQL and Snowflake. There a plain literal is a decimal, and a product
that underflows is an error, or may be one. `writing_for` makes the functions below write typed literals and keep every
factor well above underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

#: Databases for which text can be written.
DIALECTS = ("sqlite", "postgresql", "duckdb", "bigquery", "spark", "snowflake", "clickhouse")
#: Those in which an overflow is an error, and an underflow too. Snowflake, which no test runs, is taken to be strict.
OVERFLOW_FAILS, UNDERFLOW_FAILS = (
    frozenset({"postgresql", "bigquery", "snowflake"}),
    frozenset({"postgresql", "snowflake"}),
)
#: How a float is written from its text, where a plain literal is a decimal.
TYPED = {"postgresql": "float8'{}'", "snowflake": "CAST('{}' AS DOUBLE)"}
_DIALECT: ContextVar[str] = ContextVar("dialect", default="sqlite")

#: Branches of one CASE. 10⁵ pieces are then nested 5 deep, well below the limits of databases on the depth of
#: expressions (SQLite: 100 in its parser, 1,000 in expressions); a flat CASE would need 10⁵ comparisons.
BRANCHES = 16
#: EXP of larger numbers is an error in some databases; the sigmoid of minus this is below 1e-300.
LARGEST_EXPONENT = 700.0
#: The same where an underflow is an error: factors are then at least 1e-87, and may be multiplied.
LARGEST_CAREFUL_EXPONENT = 200.0
#: Coordinates nearer to 0 are 0 where an underflow is an error, and smaller coefficients are this.
LEAST_COORDINATE, LEAST_COEFFICIENT = 1e-100, 1e-200
#: Coordinates beyond ± this are clamped where an overflow is an error; no knot that was learned is further away.
LARGEST_COORDINATE = 1e100


@contextmanager
def writing_for(dialect: str) -> Iterator[None]:
    """Let the functions of this module write for a database."""
    token = _DIALECT.set(dialect)
    try:
        yield
    finally:
        _DIALECT.reset(token)


def careful(x: str, lo: float, hi: float, furthest: float) -> str:
    """Clip a coordinate within [lo, hi] where a dialect treats overflow or underflow as an error.

    Every knot is at most `furthest` away from 0.
    """
    dialect, largest = _DIALECT.get(), max(LARGEST_COORDINATE, furthest)
    whens = []
    if dialect in OVERFLOW_FAILS:
        whens += [f"WHEN {x} < -{literal(largest)} THEN -{literal(largest)}"] if lo < -largest else []
        whens += [f"WHEN {x} > {literal(largest)} THEN {literal(largest)}"] if hi > largest else []
    if dialect in UNDERFLOW_FAILS and lo < LEAST_COORDINATE:
        least = literal(LEAST_COORDINATE)
        below = f"{x} > -{least} AND " if lo < 0.0 else ""
        whens.append(f"WHEN {below}{x} < {least} THEN 0e0")
    return f"(CASE {' '.join(whens)} ELSE {x} END)" if whens else x


def literal(value: float) -> str:
    """Write a literal that reads back as the same float; the exponent keeps it from being read as a decimal."""
    text = repr(float(value))
    if _DIALECT.get() in TYPED:
        return TYPED[_DIALECT.get()].format(text)
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def case(column: str, cuts: Sequence[float], leaves: Sequence[str]) -> str:
    """Write leaves[i] for cuts[i−1] ≤ column < cuts[i], by nested CASEs of `BRANCHES` each."""
    if len(leaves) == 1:
        return leaves[0]
    size = BRANCHES
    while size * BRANCHES < len(leaves):
        size *= BRANCHES
    size = 1 if len(leaves) <= BRANCHES else size
    starts = range(0, len(leaves), size)
    branches = [case(column, cuts[start : start + size - 1], leaves[start : start + size]) for start in starts]
    ends = [literal(cuts[start - 1]) for start in starts[1:]]
    whens = [f"WHEN {column} < {end} THEN {branch}" for end, branch in zip(ends, branches[:-1], strict=True)]
    return f"CASE {' '.join(whens)} ELSE {branches[-1]} END"


def sigmoid(z: str, largest: float = math.inf) -> str:
    """Write 1 / (1 + exp(−z)), without overflow; z is an operand, and `largest` a known bound on |z|."""
    inside = f"(1e0 / (1e0 + EXP(-{z})))"
    if largest <= _largest_exponent():
        return inside
    bound = literal(_largest_exponent())
    return f"CASE WHEN {z} < -{bound} THEN 0e0 WHEN {z} < {bound} THEN {inside} ELSE 1e0 END"


def log_sigmoid(z: str, largest: float = math.inf) -> str:
    """Write the SQL of the logarithm of `sigmoid`, for the same arguments."""
    inside = f"(-LN(1e0 + EXP(-{z})))"
    if largest <= _largest_exponent():
        return inside
    bound = literal(_largest_exponent())
    return f"CASE WHEN {z} < -{bound} THEN {z} WHEN {z} < {bound} THEN {inside} ELSE 0e0 END"


def _largest_exponent() -> float:
    return LARGEST_CAREFUL_EXPONENT if _DIALECT.get() in UNDERFLOW_FAILS else LARGEST_EXPONENT


def coefficient(value: float) -> str:
    """Write a literal for a factor, large enough that its product does not underflow where that is an error."""
    if _DIALECT.get() in UNDERFLOW_FAILS and abs(value) < LEAST_COEFFICIENT:
        return literal(LEAST_COEFFICIENT)
    return literal(value)


def polynomial(x: str, coefficients: Sequence[float]) -> str:
    """Write Σ coefficients[i]·xⁱ, in parentheses, by Horner's scheme."""
    *rest, last = [coefficient(c) for c in coefficients]
    return "(" * (len(rest) + 1) + last + "".join(f" * {x} + {c})" for c in reversed(rest)) + ")"
