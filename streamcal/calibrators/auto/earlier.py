"""What earlier versions of `Auto` saved and issued, in the form of today: neutral where they said nothing.

Versions had 25 experts instead of 26, no switch, no lines that begin anew, and, where labels were late, mixtures with
twice as many rows instead of three times as many: those judged by what is said now are copies of the last ones then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamcal.calibrators.auto.experts import NAMES
from streamcal.kernels.fixed_share import hindsight_weight

#: Share rates of each mixture; rows where labels were late, and are.
RATES, LATE_ROWS, NOW_ROWS = 2, 4, 6
LN2 = math.log(2.0)
#: Curvature of the stack in the weight of an expert, before anything is learned.
STACK_PRECISION = 30.0
#: What is mixed with lines that begin anew: a forecast, and four lines.
RESTARTED = 5
#: What an assessment has before its arrays, and a state in place of the switch that has switched.
SCALARS, SWITCHED = 4, -1e300


def tripled(rows: list[Any]) -> list[Any]:
    """Rows of a mixture where labels were late; others are as they are."""
    return [*rows, *rows[RATES:]] if len(rows) == LATE_ROWS else rows


def _shared(log_wealth: list[float], delay: int) -> list[float]:
    """Log-wealth of rows of which some are there twice now, and count for half each: what is judged by hindsight, by
    the delay, counts less than it has."""
    halves = [*log_wealth[:RATES], *(one - LN2 for one in log_wealth[RATES:])]
    shared = [*halves, *(one - math.log(hindsight_weight(delay)) for one in halves[RATES:])]
    return [one - max(shared) for one in shared]


def mixture(saved: Any, delay: int) -> Any:
    """The parts of a mixture with a label delay, of which there are nine today."""
    if not isinstance(saved, (list, tuple)) or len(saved) not in (6, 7, 8, 9):
        return saved  # the readers say what is wrong
    parts = list(saved)
    parts += [[SWITCHED]] * (len(parts) == 6)
    parts += [[0, 0.0, 1.0, []]] * (len(parts) == 7)
    parts += [[[[0.5, 0.5]], [0.0]]] * (len(parts) == 8)
    try:
        weights = np.asarray(parts[0][0], dtype=np.float64)
        stack = [np.asarray(one, dtype=np.float64) for one in parts[3]]
        if {len(one) for part in parts[:3] for one in part} == {LATE_ROWS}:
            parts[:3] = [[tripled(list(shares)), _shared(list(wealth), delay)] for shares, wealth in parts[:3]]
    except (TypeError, ValueError, IndexError, KeyError):
        return saved
    size = len(NAMES)
    sizes = (weights.shape[1:], *(one.shape for one in stack))
    if sizes == ((size - 1,), (size + 1,), (size + 1, size + 1)):
        parts[0] = [[[*one, 0.0] for one in parts[0][0]], parts[0][1]]
        theta, curvature = (np.insert(one, size, 0.0, axis=0) for one in stack)
        curvature = np.insert(curvature, size, 0.0, axis=1)
        curvature[size, size] = STACK_PRECISION
        parts[3] = [theta, curvature]
    return parts


def assessment(found: list[float]) -> list[float]:
    """An assessment of a label that is late: what is said now counts as what was said then, and lines as the rest."""
    for experts, switch in ((len(NAMES), 2), (len(NAMES) - 1, 2), (len(NAMES) - 1, 0)):
        if len(found) != SCALARS + 2 * experts + 7 + 3 * LATE_ROWS + switch:
            continue
        parts, place = [], 0
        for size in (SCALARS, 1, experts, 1, experts, LATE_ROWS, 2, LATE_ROWS, 3, LATE_ROWS, switch):
            parts.append(found[place : place + size])
            place += size
        scalars, of_mixture, of_experts, constant, gains, *rows = parts
        if experts < len(NAMES):  # the last one counts as one that says what all say
            of_experts, gains = [*of_experts, 0.0], [*gains, rows[0][0]]
        expert_rows, stacked, stacked_rows, corrected, corrected_rows, switched = rows
        return [
            *(*scalars, *of_mixture, *of_experts, *constant, *gains, *tripled(expert_rows)),
            *(*stacked, *tripled(stacked_rows), *corrected, *tripled(corrected_rows), *(switched or (0.0, 0.0))),
            *(0.0, 0.0, *gains, *stacked, *corrected, *[0.0] * RESTARTED),
        ]
    return found


def said(numbers: Sequence[float], specialists: int, means: int) -> Sequence[float]:
    """What `Auto` said of a score, as `AutoSteps.issue` returns it; what is none of an earlier version as it is.

    Versions of before 2026-11-23 said neither how many labels had been learned nor what the third mixture says; these
    are not known here. `specialists` is the number of forecasts in the last mixture, and `means` that of the means of
    labels.
    """
    tail = means + 2
    if isinstance(numbers, np.ndarray):
        numbers = numbers.tolist()
    if not isinstance(numbers, Sequence):
        return numbers
    for experts in (len(NAMES), len(NAMES) - 1):
        for rows in (RATES, LATE_ROWS):
            own = 2 * (experts + 6) + 6 * rows
            for of_specialists in (1, specialists + 2 * RATES):
                if len(numbers) == own + of_specialists + tail and numbers[-1] == rows:
                    return _said(list(numbers), experts, rows, own)
    return numbers


def _said(numbers: list[float], experts: int, rows: int, own: int) -> list[float]:
    sides = []
    for side in range(2):
        start = side * (experts + 5)
        components, rest = numbers[start : start + experts], numbers[start + experts : start + experts + 5]
        if experts < len(NAMES):
            components = [*components, rest[0]]
        sides += [*components, *rest]
    start = 2 * (experts + 5)
    of_rows = [one for k in range(6) for one in tripled(numbers[start + k * rows : start + (k + 1) * rows])]
    third = numbers[own - 2 : own]
    now = NOW_ROWS if rows == LATE_ROWS else rows
    return [*sides, *of_rows, *third, *third, *third, *numbers[own:-1], float(now)]
