"""The last mixture of `Auto`: its forecast, counts of scores that repeat, and regressions on the time.

`docs/auto.md` has a table of the constants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamcal.calibrators.auto.panel import regression_state
from streamcal.calibrators.protected import shares_state
from streamcal.kernels.implicit_regression import ForgettingRegression
from streamcal.kernels.specialists import TIME_FEATURES, Judgement, ScoreCounts, Specialists
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, MOST, Reader, ensure, listed, maybe, number, numbers, record, row, unread, whole

#: As in the kernel: places for a score; in the place of a log-probability where nothing was said; width of a score.
WAYS, SILENT, WIDTH = 4, 1.0, 2.0**-30
#: Share rates, as those of the mixtures before it.
RATES = (1e-5, 1e-3)
#: The forecast of the ensemble, which is what the mixture falls back to: ln 1/.8 = .22 nats is what it may cost.
BASE_PRIOR = 0.8
#: A score that repeats: sets of four places for 1,024 scores; what is said without it counts as 10 labels.
SETS, FIRM = 256, 10.0
#: What a label keeps of the earlier ones at its score: all, or a memory of 300; and prior weights.
COUNTS = {"score counts 1": (1.0, 0.05), "score counts .997": (1.0 - 1.0 / 300.0, 0.05)}
#: Regressions on the time speak after so many observations that had one.
TIMED_FROM = 100


class Cycle(NamedTuple):
    """A regression on harmonics of the day and the week, beside a line in the score or in the forecast."""

    prior: float
    of: str
    days: int
    weeks: int
    keep: float
    keep_cycle: float

    def features(self) -> list[str]:
        line = ["x", "1", "clamped below", "clamped above"] if self.of == "x" else ["z", "1"]
        days = [f"{wave} {k} day" for k in range(1, self.days + 1) for wave in ("sin", "cos")]
        weeks = [f"{wave} {k} week" for k in range(1, self.weeks + 1) for wave in ("sin", "cos")]
        return [*line, *days, *weeks]

    def made(self) -> ForgettingRegression:
        """The regression, before it has learned anything: the score, or the forecast."""
        names = self.features()
        line = 4 if self.of == "x" else 2
        keep = [self.keep] * line + [self.keep_cycle] * (len(names) - line)
        precision = [CYCLE_PRECISION[self.of].get(name, HARMONIC_PRECISION) for name in names]
        start = [CYCLE_START.get(name, 0.0) for name in names]
        return ForgettingRegression([TIME_FEATURES[name] for name in names], keep, precision, start)


#: As in the experts; a line in the forecast is held more firmly, since the forecast is right on the whole.
CYCLE_START = {"x": 1.0, "z": 1.0, "clamped below": -6.0, "clamped above": 6.0}
CYCLE_PRECISION = {
    "x": {"x": 3.0, "1": 6.0, "clamped below": 0.1, "clamped above": 0.1},
    "z": {"z": 100.0, "1": 40.0},
}
HARMONIC_PRECISION = 4.0
#: A line and the cycle are remembered for 5,000 observations; what corrects the forecast for 1,000, and 5,000.
CYCLE_EXPERTS = {
    "day": Cycle(0.025, "x", 2, 0, 0.9998, 0.9998),
    "day, week": Cycle(0.025, "x", 4, 3, 0.9995, 0.9998),
    "corrected by day": Cycle(0.025, "z", 2, 0, 0.999, 0.9995),
    "corrected by day, week": Cycle(0.025, "z", 4, 3, 0.999, 0.9998),
}
#: What speaks in the last mixture, after the ensemble.
SPECIALISTS = (*COUNTS, *CYCLE_EXPERTS)
_PRIOR = (BASE_PRIOR, *(prior for _, prior in COUNTS.values()), *(cycle.prior for cycle in CYCLE_EXPERTS.values()))
#: As an assessment of the ensemble: no log-probability of a label is further from 0.
LARGEST_GAIN = 1e3


def new_specialists(slow: float) -> Specialists:
    """The last mixture. All of it has the learning rate `slow`, which is below 1 where labels are late.

    Unlike in the mixtures before it, no row has learning rate 1 then: where labels persist and are 1,000 late, or late
    at random, counts look right for long before they are wrong (elec2: .002 to .006 nats).
    """
    return Specialists(
        counts=ScoreCounts(SETS, FIRM, [keep for keep, _ in COUNTS.values()]),
        cycles=[cycle.made() for cycle in CYCLE_EXPERTS.values()],
        timed_from=TIMED_FROM,
        prior=np.array(_PRIOR) / sum(_PRIOR),
        rates=RATES,
        learning_rates=[slow] * len(RATES),
        row_rate=slow,
    )


def spikes(last: Specialists, knots: FloatArray) -> FloatArray:
    """Knots, and four for each score that has repeated: at both ends of it, and beside."""
    at = last.counts.repeated()
    bounds = (at - 0.5 * WIDTH, at + 0.5 * WIDTH)
    ends = [np.nextafter(bound, at) for bound in bounds]
    beside = [np.nextafter(bound, away) for bound, away in zip(bounds, (-np.inf, np.inf), strict=True)]
    return np.unique(np.clip(np.concatenate([knots, *ends, *beside]), -LOGIT_LIMIT, LOGIT_LIMIT))


def restored(last: Specialists, state: Any) -> None:
    """Load what `Specialists.state` wrote; `StateError` for anything else."""
    regressions = [regression_state(cycle.made().size) for cycle in CYCLE_EXPERTS.values()]
    fields = {"shares": shares_state(last.rows, last.size), "counts": unread, "counted": number(0.0, MOST)}
    read = record({**fields, "timed": whole(), "cycles": unread})(state)
    ensure(read["shares"][1].max() == 0.0, "the best row has another wealth than 1")
    ensure((read["shares"][0][:, 0] > 0.0).all(), "the forecast that always speaks has no weight")
    read["counts"] = _counts_state(read["counted"])(read["counts"])
    read["cycles"] = (row(*regressions) if read["timed"] else listed(unread, length=0))(read["cycles"])
    try:
        last.load(read)
    except ValueError as error:
        ensure(False, str(error))


def _counts_state(counted: float) -> Reader:
    """What reads the scores that were counted: rows of log-odds, when, how often, and counts."""
    rows = numbers(None, 3 + 2 * len(COUNTS))

    def read(value: Any) -> list[Any]:
        found = rows(value)
        ensure(len(found) <= SETS * WAYS, "there are too many scores")
        at, when, seen, counts = found[:, 0], found[:, 1], found[:, 2], found[:, 3:]
        ensure((np.abs(at) <= LOGIT_LIMIT).all(), "a score is not possible")
        ensure(((when >= 1.0) & (when <= counted)).all(), "a score was learned at no time")
        ensure(((seen >= 1.0) & (seen <= MOST)).all(), "a score was learned an impossible number of times")
        ensure(((counts >= 0.0) & (counts <= HEAVIEST)).all(), "a count is not possible")
        for column in (at, when):
            ensure(len(np.unique(column)) == len(found), "two scores are one, or were learned at once")
        return list(found.tolist())

    return read


def judgement_of(last: Specialists, saved: Any) -> Judgement:
    """The judgement that was written as `Judgement.state`; `StateError` for anything else."""
    gains = numbers(last.size, least=-LARGEST_GAIN, most=SILENT)
    rows = numbers(last.rows, least=-LARGEST_GAIN, most=LARGEST_GAIN)
    z = number(-LOGIT_LIMIT, LOGIT_LIMIT)
    read = row(z, maybe(number()), gains, rows)(saved)
    judged = Judgement(last.size, last.rows)
    judged.load(*read)
    return judged
