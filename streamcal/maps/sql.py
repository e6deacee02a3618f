"""SQL text for calibration maps: only CASE, comparisons, + − * /, and LN and EXP where a map needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Branches of one CASE. 10⁵ pieces are then nested 5 deep, well below the limits of databases on the depth of
#: expressions (SQLite: 100 in its parser, 1,000 in expressions); a flat CASE would need 10⁵ comparisons.
BRANCHES = 16
#: EXP of larger numbers is an error in some databases; the sigmoid of minus this is below 1e-300.
LARGEST_EXPONENT = 700.0


def literal(value: float) -> str:
    """A literal that reads back as the same float; with an exponent, since other literals may be read as decimals."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def case(column: str, cuts: Sequence[float], leaves: Sequence[str]) -> str:
    """leaves[i] where cuts[i−1] ≤ column < cuts[i], by nested CASEs of `BRANCHES` each."""
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
    """1 / (1 + exp(−z)), without overflow; z is an operand, and `largest` a known bound on |z|."""
    inside = f"(1e0 / (1e0 + EXP(-{z})))"
    if largest <= LARGEST_EXPONENT:
        return inside
    bound = literal(LARGEST_EXPONENT)
    return f"CASE WHEN {z} < -{bound} THEN 0e0 WHEN {z} < {bound} THEN {inside} ELSE 1e0 END"


def log_sigmoid(z: str, largest: float = math.inf) -> str:
    """The logarithm of `sigmoid`, for the same arguments."""
    inside = f"(-LN(1e0 + EXP(-{z})))"
    if largest <= LARGEST_EXPONENT:
        return inside
    bound = literal(LARGEST_EXPONENT)
    return f"CASE WHEN {z} < -{bound} THEN {z} WHEN {z} < {bound} THEN {inside} ELSE 0e0 END"


def polynomial(x: str, coefficients: Sequence[float]) -> str:
    """Σ coefficients[i]·xⁱ, in parentheses, by Horner's scheme."""
    *rest, last = [literal(c) for c in coefficients]
    return "(" * (len(rest) + 1) + last + "".join(f" * {x} + {c})" for c in reversed(rest)) + ")"
