"""Reader of the state of `Auto`: the fields of `AutoMixture.state`, each checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto.experts import (
    CORRECTION_KNOTS,
    EXPERTS,
    FIRMNESS,
    LABEL_MEANS,
    REGRESSIONS,
    SMOOTHERS,
    STACKING,
    TIMED,
)
from streamcal.calibrators.guarded import guard_state
from streamcal.calibrators.protected import jumper_state
from streamcal.kernels.mixture.knot_sums import KNOTS
from streamcal.kernels.mixture.repeated_scores import FEWEST_SLOTS, MOST_SLOTS
from streamcal.kernels.newton.regressions import Plan
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.states import (
    HEAVIEST,
    ROUNDING,
    Reader,
    ensure,
    flag,
    listed,
    maybe,
    number,
    numbers,
    record,
    row,
    weight_scale_state,
    whole,
)

#: As in the kernel: scores in the first mean, and the largest unit of a smoother.
FIRST, FULL = 10, 1e100
#: A is never far below A₀, which renews it. θ moves while a prediction is within log-odds ±16.
LARGEST_VARIANCE, LARGEST_COORDINATE = 1e3, 1e9
#: No curve of a correction is further from 0: its steps end where the log-odds of the prediction are clamped.
FARTHEST = 1e6


def mixture_state(state: Any) -> dict[str, Any]:
    """Check the plain data of an `AutoMixture`; `StateError` if no mixture can have that state."""
    knots = round(2.0 * LOGIT_LIMIT * CORRECTION_KNOTS) + 1
    curve, curvature = numbers(knots, least=-FARTHEST, most=FARTHEST), numbers(knots, least=FIRMNESS * (1.0 - ROUNDING))
    mean, z = numbers(len(LABEL_MEANS), least=-1.0 - ROUNDING, most=1.0 + ROUNDING), number(-LOGIT_LIMIT, LOGIT_LIMIT)
    first = (whole(0, FIRST), number(-FIRST * LOGIT_LIMIT, FIRST * LOGIT_LIMIT))
    line = (number(-LARGEST_COORDINATE, LARGEST_COORDINATE),) * 2
    share = number(0.0, 1.0)
    read: dict[str, Any] = record(
        {
            "learned": row(whole(), number(0.0, HEAVIEST), whole(), flag, *first),
            "regressions": regressions_state(REGRESSIONS),
            "stack": regressions_state(STACKING),
            "correction": row(curve, curvature),
            "timed": maybe(regressions_state(TIMED)),
            "jumper": jumper_state(),
            "means": mean,
            "units": numbers(len(SMOOTHERS), least=1.0, most=FULL),
            "sums": numbers(len(SMOOTHERS), 2, KNOTS, least=0.0, most=HEAVIEST * FULL),
            "whole": numbers(2, KNOTS, least=0.0, most=HEAVIEST),
            "curve": numbers(KNOTS, least=-LOGIT_LIMIT, most=LOGIT_LIMIT),
            "line": row(*line, z, z),
            "shares": numbers(2, len(EXPERTS) + 1, least=0.0, most=1.0 + ROUNDING),
            "wealth": numbers(2, least=-HEAVIEST, most=0.0),
            "late": flag,
            "corrected": row(share, share),
            "repeated": listed(row(z, *(number(0.0, HEAVIEST),) * 4)),
            "slots": whole(FEWEST_SLOTS, MOST_SLOTS),
            "guard": guard_state,
            "scale": weight_scale_state,
        }
    )(state)
    learned, _, due, drawn, seen, _ = read["learned"]
    ensure((np.abs(read["shares"].sum(axis=1) - 1.0) <= ROUNDING).all(), "the weights of a row do not sum to 1")
    ensure(read["wealth"].max() == 0.0, "the best row has another wealth than 1")
    ensure(seen == min(learned, FIRST), "the first scores are more or fewer than were learned")
    ensure(due == 0 if learned == 0 else due > learned, "a fit was due before")
    ensure((read["whole"].sum() > 0.0) == (learned > 0), "the sums of all observations are of another number")
    ensure(learned > 0 or not drawn, "a curve was drawn of nothing")
    return read


def regressions_state(plan: Plan) -> Reader:
    """Return what reads the state of `Regressions`: θ, symmetric inverses of A, and the coordinates in turn."""
    sizes = plan.sizes()
    coordinates, entries = sum(sizes), sum(size * size for size in sizes)
    reader = row(
        numbers(coordinates, least=-LARGEST_COORDINATE, most=LARGEST_COORDINATE),
        numbers(entries, least=-LARGEST_VARIANCE, most=LARGEST_VARIANCE),
        row(*(whole(0, size - 1) for size in sizes)),
    )

    def read(value: Any) -> list[Any]:
        theta, inverse, turns = reader(value)
        at = 0
        for size in sizes:
            each = inverse[at : at + size * size].reshape(size, size)
            at += size * size
            diagonal = np.diag(each)
            ensure((diagonal >= 0.0).all(), "a variance is below 0")
            root = np.sqrt(diagonal)
            ensure((each == each.T).all(), "a variance is not symmetric")
            ensure((np.abs(each) <= (1.0 + ROUNDING) * np.outer(root, root)).all(), "a correlation is beyond 1")
        return [theta, inverse, turns]

    return read
