"""Validation of retractions, shared by the statistics."""

from __future__ import annotations

from typing import Any

from streamcal.errors import RetractionError

#: Decayed weights below this are not stored: fits are compared by products of two weights, which would underflow.
SMALLEST_WEIGHT = 1e-150
#: Trees and tables of up to this many scores are not pruned: half a megabyte, and 500 half-lives of 16 observations,
#: from which on a weight is not stored.
LARGEST_UNPRUNED = 8192
#: Sums in two parts are accurate to 2^−100 of the largest weight they ever held, so that what weighs this share of it
#: or more is left accurate to RETRACTION_TOLERANCE.
SMALLEST_LEFT = 1e-20
#: Tolerance of retractions, as a fraction of the largest weight the statistic ever held: the rounding of up to a
#: million additions and subtractions.
RETRACTION_TOLERANCE = 1e-10


def require_learned(row: tuple[float, float, float], x: Any, y: float, w: float, peak: float) -> None:
    """Raise `RetractionError` unless a row (weight, positive weight, count) can contain the observation (x, y, w)."""
    if not can_contain(row, y, w, peak):
        raise RetractionError(never_learned(x, y, w))


def can_contain(row: tuple[float, float, float], y: float, w: float, peak: float) -> bool:
    """Return whether a row (weight, positive weight, count) can contain an observation of label y and weight w.

    The last observation of a row must account for all of its weight. `peak` is the largest weight ever held.
    """
    weight, positive, count = row
    slack = RETRACTION_TOLERANCE * peak
    spare, spare_positive = weight - w, positive - w * y
    possible = count >= 1 and spare >= -slack and -slack <= spare_positive <= spare + slack
    return possible and not (count == 1 and (spare > slack or spare_positive > slack))


def require_accurate(left: float, count: int, peak: float, w: float) -> None:
    """Raise `RetractionError` if what would be left of sums in two parts is too small beside what they once held.

    Such sums are accurate to 2^−100 of `peak`; `left` is the weight that a retraction of weight w would leave, in
    `count` observations.
    """
    if count > 0 and left < SMALLEST_LEFT * peak:
        raise RetractionError(
            f"beside weight {peak!r} the {count} observations left after a retraction of weight {w!r} would be accurate"
            f" to less than {RETRACTION_TOLERANCE:g}: learn them anew without it, or use a window, which keeps "
            "observations"
        )


def never_learned(x: Any, y: float, w: float) -> str:
    """Return the message for unlearning an observation that was never learned."""
    return f"no observation (coordinate {x!r}, label {y:g}, weight {w!r}) is held; unlearn only what was learned"
