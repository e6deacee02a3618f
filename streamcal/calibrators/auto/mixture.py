"""The mixture in `Auto`: of its experts, of a stack upon them, and of corrections of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto import earlier
from streamcal.calibrators.auto.experts import NAMES, PRIOR
from streamcal.calibrators.auto.panel import (
    KNOTS,
    KNOTS_A_UNIT,
    LARGEST_COORDINATE,
    LARGEST_CURVATURE,
    ExpertPanel,
    regression_state,
)
from streamcal.calibrators.protected import shares_state
from streamcal.kernels.ensemble import Ensemble as Step
from streamcal.kernels.fixed_share import FixedShare
from streamcal.kernels.implicit_regression import Correction, ForgettingRegression
from streamcal.kernels.mixture import Assessment, Mixture
from streamcal.kernels.restarts import Restarts, Switch
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, listed, number, numbers, record, row, unread, whole

STACK, BY_SCORE, BY_FORECAST, LINES = "stack", "corrected by score", "corrected by forecast", "lines begun anew"
#: The expert that is the score, which has a weight of its own beside.
SCORE = "identity"
#: All that a forecast is made of, as `Ensemble.weights` counts it.
PARTS = (*NAMES, STACK, BY_SCORE, BY_FORECAST, LINES)
#: Prior weights: of the mixture of the experts and the stack; of what these give, and its two corrections.
STACK_PRIOR, CORRECTION_PRIOR = (0.9, 0.1), (0.5, 0.25, 0.25)
#: The prior weight of the score itself, before all else, and how much of it leaves at every step for good: a score that
#: needs nothing may lose ln 4 = 1.4 nats and 1e-5 a step, and any other ln 4/3 = .3 nats.
SCORE_PRIOR, LEAVING = 0.25, 1e-5
#: Its largest weight after a label that came late: if labels persist, it may look right for long before it is wrong.
MOST_SCORE = 0.85
#: After so many observations a line begins anew at the score; the rate of the changes that it is for, and how much of
#: all weight goes back to the forecast at every step. Chosen on development streams.
ANEW_EVERY, ANEW_RATE, ANEW_BACK = 25, 3e-5, 1e-4
#: Where labels are late, the forecasts without and with lines have these weights, of which so much is shared anew.
LINES_PRIOR, LINES_RATE = (0.5, 0.5), 1e-4
#: As in the kernel: lines that are held at most, and the curvature that each has at least.
MOST_LINES, LEAST_SLOPE, LEAST_OFFSET = 4, 3.0, 6.0
#: The log-odds of its weight lie within ± this, and in states of versions that did not know it they are the least.
FAR = 1e300
#: Share rates: calm spells of 100,000 observations, and of 1,000.
RATES = (1e-5, 1e-3)
#: The stack forgets within 2,000 observations, and starts as the mixture: firmly in the weights of single experts,
#: which are many, less so in its slope and offset.
STACK_KEEP, STACK_PRECISION, STACK_ENDS = 0.9995, 30.0, 10.0
#: A correction looks as far as 1 in log-odds, and remembers 1,000 observations there; it is held at 0 as 160 of even
#: odds (curvature ¼ each) would. Chosen on development streams.
WIDTH, CORRECTION_MEMORY, FIRMNESS = 1.0, 1_000.0, 40.0
#: No log-probability of a label under forecasts within log-odds ±16 is further from 0, and no feature larger.
LARGEST_GAIN = 1e3
#: No curve of a correction is further from 0: its steps end where the log-odds of the forecast are clamped.
FARTHEST = 1e6


class Ensemble:
    """The experts and their mixture, at one state of knowledge. `delay` is the label delay, in observations.

    O(1) per observation; memory for the last 1,000 observations.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._mixture = Mixture(
            experts=_fixed_share(PRIOR, RATES),
            stack=_stack(),
            stacked=_fixed_share(STACK_PRIOR, RATES),
            by_score=Correction(WIDTH, CORRECTION_MEMORY, FIRMNESS, KNOTS_A_UNIT),
            by_forecast=Correction(WIDTH, CORRECTION_MEMORY, FIRMNESS, KNOTS_A_UNIT),
            corrected=_fixed_share(CORRECTION_PRIOR, RATES),
            switch=Switch(SCORE_PRIOR, LEAVING, MOST_SCORE),
            restarts=Restarts(ANEW_EVERY, ANEW_RATE, ANEW_BACK),
            lined=_fixed_share(LINES_PRIOR, (LINES_RATE,)),
            knots_a_unit=KNOTS_A_UNIT,
            late=delay,
        )
        self._panel = ExpertPanel(delay)
        self.kernel = Step(
            experts=self._panel.kernel,
            mixture=self._mixture,
            size=len(NAMES),
            knots=len(KNOTS),
            knots_a_unit=KNOTS_A_UNIT,
        )

    def at(self, x: float) -> float:
        """The log-odds of the forecast at the log-odds x."""
        return float(self.kernel.at(x))

    def weights(self) -> dict[str, float]:
        """The weight in the forecast of each of `PARTS`; they sum to 1."""
        experts, stack, by_score, by_forecast, score, lines = self._mixture.weights()
        named = dict(zip(NAMES, experts.tolist(), strict=True))
        named[SCORE] += score
        return {**named, STACK: stack, BY_SCORE: by_score, BY_FORECAST: by_forecast, LINES: lines}

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain data, for `restore`."""
        return {"panel": self._panel.state(), "mixture": self._mixture.state()}

    def restore(self, state: Any) -> None:
        """Take over what `state` wrote; called on a new ensemble. `StateError` for anything else."""
        mixture = row(*self._mixture_state())
        read = record({"panel": unread, "mixture": lambda value: mixture(earlier.mixture(value, self._delay))})(state)
        rows = {len(wealths) for _, wealths in read["mixture"][:3]}
        ensure(len(rows) == 1, "the mixtures have other numbers of rows")
        self._panel.restore(read["panel"])
        self._mixture.load(read["mixture"])
        self._mixture.set_late(self.late)
        self.kernel.forget()

    def _mixture_state(self) -> tuple[Reader, ...]:
        """What reads the parts of the mixture, in the order of `Mixture.state`."""
        shares = [_wealths(size, len(RATES), self._delay > 0) for size in (len(NAMES), 2, 3)]
        corrections = (_correction_state, _correction_state)
        switch, lined = row(number(-FAR, FAR)), shares_state(1, len(LINES_PRIOR))
        return (*shares, regression_state(len(NAMES) + 2), *corrections, switch, _restarts_state, lined)

    @property
    def late(self) -> int:
        """How many labels were learned between the last label's forecast and it."""
        return self._panel.late

    @property
    def learned(self) -> int:
        """Number of observations learned."""
        return self._panel.learned

    def assessment(self, saved: Any) -> Assessment:
        """The assessment that was written as `Assessment.state`; `StateError` for anything else."""
        found = earlier.assessment(listed(number(-HEAVIEST, HEAVIEST))(saved))
        ensure(len(found) > 4, "an assessment is too short")
        y, w, place, second, *rest = found
        ensure(y in (0.0, 1.0) and 0.0 <= w <= HEAVIEST, "a label or a weight is not possible")
        ensure(0.0 <= place <= len(KNOTS) - 1 and abs(second) <= LOGIT_LIMIT, "a score is not possible")
        ensure(max(map(abs, rest)) <= LARGEST_GAIN, "a log-probability or a feature is too large")
        gains = len(NAMES) + 2  # features come before them, whose signs are any
        ensure(max(rest[gains:], default=0.0) <= ROUNDING, "a log-probability is above 0")
        return self._mixture.assessment(found)


def _stack() -> ForgettingRegression:
    """On the mixture, what each expert says beside it, and a constant; it starts as the mixture."""
    size = len(NAMES) + 2
    precision = [STACK_ENDS, *[STACK_PRECISION] * len(NAMES), STACK_ENDS]
    return ForgettingRegression(range(size), [STACK_KEEP] * size, precision, [1.0] + [0.0] * (size - 1))


def _fixed_share(prior: tuple[float, ...], rates: tuple[float, ...]) -> FixedShare:
    """Weights in a row for each share rate."""
    return FixedShare(rates, np.array(prior) / sum(prior))


def _wealths(size: int, rows: int, late: bool) -> Reader:
    """What reads the state of one of the mixtures: the best row has wealth 1, only the differences being kept.

    There are three times as many rows where labels are late, with a delay always.
    """
    once, thrice = shares_state(rows, size), shares_state(3 * rows, size)

    def read(value: Any) -> list[FloatArray]:
        weights: Any = value[0] if isinstance(value, (list, tuple)) and len(value) > 0 else None
        tripled = late or (hasattr(weights, "__len__") and len(weights) == 3 * rows)
        found = (thrice if tripled else once)(value)
        ensure(found[1].max() == 0.0, "the best row has another wealth than 1")
        return found

    return read


def _restarts_state(value: Any) -> tuple[Any, ...]:
    """How many labels were learned, the sum of the scores since a line began, the weight of the forecast, and lines."""
    most = 2.0 * LARGEST_CURVATURE
    place, began, weight = whole(0, MOST_LINES - 1), whole(1), number(0.0, 1.0)
    theta = (number(-LARGEST_COORDINATE, LARGEST_COORDINATE),) * 2
    curvature = (number(LEAST_SLOPE, most), number(-most, most), number(LEAST_OFFSET, most))
    line = row(place, began, weight, number(-LOGIT_LIMIT, LOGIT_LIMIT), *theta, *curvature)
    total = number(-ANEW_EVERY * LOGIT_LIMIT, ANEW_EVERY * LOGIT_LIMIT)
    read: tuple[Any, ...] = row(whole(0), total, number(0.0, 1.0), listed(line, most=MOST_LINES))(value)
    learned, _, base, lines = read
    ensure(len({one[0] for one in lines}) == len(lines), "two lines are one")
    ensure(len({one[1] for one in lines}) == len(lines), "two lines began at once")
    ensure(all(one[1] <= learned and one[1] % ANEW_EVERY == 0 for one in lines), "a line began at no time")
    ensure(abs(base + sum(one[2] for one in lines) - 1.0) <= ROUNDING, "weights do not sum to 1")
    for *_, slope, both, offset in lines:
        ensure(both * both <= slope * offset * (1.0 + ROUNDING), "a curvature is below 0")
    return read


def _correction_state(value: Any) -> tuple[FloatArray, FloatArray]:
    """A curve, and its curvature, which is never below the first one."""
    size = len(KNOTS)
    curvature = numbers(size, least=FIRMNESS * (1.0 - ROUNDING), most=HEAVIEST)
    read: tuple[FloatArray, FloatArray] = row(numbers(size, least=-FARTHEST, most=FARTHEST), curvature)(value)
    return read
