"""Reader of the state of `Auto`: the fields of `AutoMixture.state`, each checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto.experts import (
    CORRECTION_KNOTS,
    CURVES,
    LABEL_MEANS,
    LINES,
    PRIOR,
    PROMISE,
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
    unread,
    weight_scale_state,
    whole,
)

#: As in the kernel: scores in the first mean, and the largest unit of a smoother.
FIRST, FULL = 10, 1e100
#: A is never far below A₀, which renews it. θ moves while a prediction is within log-odds ±16.
LARGEST_VARIANCE, LARGEST_COORDINATE = 1e3, 1e9
#: No curve of the correction is further from 0: its steps end where the log-odds of the prediction are clamped.
LARGEST_CURVE = 1e3


def mixture_state(state: Any) -> dict[str, Any]:
    """Check the plain data of an `AutoMixture`; `StateError` if no mixture can have that state."""
    mean, z = numbers(len(LABEL_MEANS), least=-1.0 - ROUNDING, most=1.0 + ROUNDING), number(-LOGIT_LIMIT, LOGIT_LIMIT)
    first = (whole(0, FIRST), number(-FIRST * LOGIT_LIMIT, FIRST * LOGIT_LIMIT))
    knots = round(2.0 * LOGIT_LIMIT * CORRECTION_KNOTS) + 1
    curve, curvature = (
        numbers(knots, least=-LARGEST_CURVE, most=LARGEST_CURVE),
        numbers(knots, least=0.0, most=HEAVIEST),
    )
    share, nats = number(0.0, 1.0), number(0.0, HEAVIEST)
    read: dict[str, Any] = record(
        {
            "learned": row(whole(), nats, *first),
            "information": row(nats, number(0.0, 1.0 + ROUNDING)),
            "ladder": ladder_state,
            "regressions": regressions_state(REGRESSIONS),
            "stack": regressions_state(STACKING),
            "correction": row(curve, curvature),
            "timed": maybe(regressions_state(TIMED)),
            "jumper": jumper_state(),
            "means": mean,
            "units": numbers(len(SMOOTHERS), least=1.0, most=FULL),
            "sums": numbers(len(SMOOTHERS), 2, KNOTS, least=0.0, most=HEAVIEST * FULL),
            "shares": weights_state(len(PRIOR)),
            "corrected": row(share, share),
            "repeated": listed(row(z, *(number(0.0, HEAVIEST),) * 4)),
            "slots": whole(FEWEST_SLOTS, MOST_SLOTS),
            "guard": guard_state(PROMISE),
            "scale": weight_scale_state,
            "worth": row(nats, nats),
        }
    )(state)
    learned, _, seen, _ = read["learned"]
    ensure(seen == min(learned, FIRST), "the first scores are more or fewer than were learned")
    return read


def weights_state(size: int) -> Reader:
    """Return what reads the state of `LateWeights` of this size."""
    reader = row(numbers(3, size, least=0.0, most=1.0 + ROUNDING), numbers(3, least=-HEAVIEST, most=0.0), flag)

    def read(value: Any) -> list[Any]:
        rows, wealth, late = reader(value)
        ensure((np.abs(rows.sum(axis=1) - 1.0) <= ROUNDING).all(), "the weights of a row do not sum to 1")
        ensure(wealth.max() == 0.0, "the best row has another wealth than 1")
        return [rows, wealth, late]

    return read


def ladder_state(value: Any) -> list[Any]:
    """Check and return the state of the ladder."""
    lines, curves = len(LINES), len(CURVES)
    read = row(
        numbers(2 * lines + 4 * curves, least=-LARGEST_COORDINATE, most=LARGEST_COORDINATE),
        numbers(3 * lines + 16 * curves, least=-HEAVIEST, most=HEAVIEST),
        numbers(16, least=-HEAVIEST, most=HEAVIEST),
        row(number(0.0, HEAVIEST), number(-LOGIT_LIMIT, LOGIT_LIMIT), number(0.0, HEAVIEST)),
        numbers(lines + curves, 4, least=0.0, most=HEAVIEST),
        unread,
        unread,
        unread,
    )(value)
    theta, curvatures, places, numbered, ends, *weights = read
    diagonal = [*curvatures[: 3 * lines].reshape(lines, 3)[:, [0, 2]].ravel(), *places[::5]]
    diagonal += [*curvatures[3 * lines :].reshape(curves, 16)[:, ::5].ravel()]
    ensure(min(diagonal) >= 0.0, "a curvature is below 0")
    ensure(abs(places[0] - numbered[2]) <= ROUNDING * (1.0 + places[0]), "the features are of other information")
    return [theta, curvatures, places, numbered, ends, *weights_state(lines + curves)(weights)]


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
