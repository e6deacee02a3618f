"""The last mixture of `Auto`: its forecast, counts of scores that repeat, and regressions on the time.

`docs/auto_measured.md` has a table of the constants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamcal.calibrators.auto.panel import regression_state
from streamcal.calibrators.protected import shares_state
from streamcal.kernels.implicit_regression import ForgettingRegression
from streamcal.kernels.period_search import PeriodSearch
from streamcal.kernels.specialists import TIME_FEATURES, Judgement, ScoreCounts, Specialists
from streamcal.kernels.week_profile import WeekProfile
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
    """A regression on harmonics of the day, the week and a period found, beside a line in the score or the forecast."""

    prior: float
    of: str
    days: int
    weeks: int
    keep: float
    keep_cycle: float
    periods: int = 0

    def features(self) -> list[str]:
        line = ["x", "1", "clamped below", "clamped above"] if self.of == "x" else ["z", "1"]
        days = [f"{wave} {k} day" for k in range(1, self.days + 1) for wave in ("sin", "cos")]
        weeks = [f"{wave} {k} week" for k in range(1, self.weeks + 1) for wave in ("sin", "cos")]
        periods = [f"{wave} {k} period" for k in range(1, self.periods + 1) for wave in ("sin", "cos")]
        return [*line, *days, *weeks, *periods]

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
    "day": Cycle(0.02, "x", 2, 0, 0.9998, 0.9998),
    "day, week": Cycle(0.02, "x", 4, 3, 0.9995, 0.9998),
    "corrected by day": Cycle(0.02, "z", 2, 0, 0.999, 0.9995),
    "corrected by day, week": Cycle(0.02, "z", 4, 3, 0.999, 0.9998),
}
#: The same with a period that is found. Their weights, those of the cycles and that of the hours have the sum, rounding
#: too, that those of the cycles had alone: without a time forecasts are as before, to the last bit.
PERIOD_EXPERTS = {
    "period": Cycle(0.006, "x", 0, 0, 0.9998, 0.9998, 2),
    "corrected by period": Cycle(0.006, "z", 0, 0, 0.999, 0.9995, 2),
}
#: A line in the score and a profile of the week, which may have steps. What the profile keeps of the last 10,000
#: observations; observations before it is first computed; how firmly its factor is held at 1.
HOURS, HOURS_PRIOR, PROFILE_KEEP, PROFILE_FROM, PROFILE_PRECISION = "hours", 0.008, 0.9999, 128, 10.0
#: The period is searched in the last so many observations, from so many on; one look in a thousand finds one where
#: there is none.
SEARCHED, SEARCHED_FROM, FALSE_RATE = 4096, 128, 1e-3
#: As in the kernel: looks whose phases are kept. A phase is an angle in turns, moved by each change of the frequency.
PHASES, MOST_TURNS = 32, 1e6
#: As in the kernel: no error counts more.
HEAVIEST_ERROR = 1e6
#: As in the kernel: half-hours of a week, how far their offsets may be, and observations between two looks at most.
HALF_HOURS, FURTHEST_OFFSET, SELDOM = 336, 4.0, 4096
#: What sums over 10,000 observations, of which none counts more than 10, stay below, and their unit within 4,096.
LARGEST_SUM, LARGEST_UNIT = 1e6, 2.0
DAY = 86_400.0
#: Frequencies that the other cycles have.
COVERED = (
    *(k / DAY for k in range(1, 1 + max(cycle.days for cycle in CYCLE_EXPERTS.values()))),
    *(k / (7.0 * DAY) for k in range(1, 1 + max(cycle.weeks for cycle in CYCLE_EXPERTS.values()))),
)
#: What speaks in the last mixture, after the ensemble.
SPECIALISTS = (*COUNTS, *CYCLE_EXPERTS, *PERIOD_EXPERTS, HOURS)
_PRIOR = (
    BASE_PRIOR,
    *(prior for _, prior in COUNTS.values()),
    *(cycle.prior for cycle in (*CYCLE_EXPERTS.values(), *PERIOD_EXPERTS.values())),
    HOURS_PRIOR,
)
#: As an assessment of the ensemble: no log-probability of a label is further from 0.
LARGEST_GAIN = 1e3


def new_specialists(delay: int) -> Specialists:
    """The last mixture, where labels are so late.

    Unlike in the mixtures before it, no row that is judged by what was said then has learning rate 1: where labels
    persist and are 1,000 late, or late at random, counts look right for long before they are wrong (elec2: .002 to .006
    nats).
    """
    return Specialists(
        counts=ScoreCounts(SETS, FIRM, [keep for keep, _ in COUNTS.values()]),
        cycles=[cycle.made() for cycle in CYCLE_EXPERTS.values()],
        periodic=[cycle.made() for cycle in PERIOD_EXPERTS.values()],
        search=PeriodSearch(
            size=SEARCHED,
            least=SEARCHED_FROM,
            rate=FALSE_RATE,
            covered=COVERED,
            harmonics=max(cycle.periods for cycle in PERIOD_EXPERTS.values()),
        ),
        profile=WeekProfile(PROFILE_KEEP, PROFILE_FROM),
        hours=_hours_made(),
        timed_from=TIMED_FROM,
        prior=np.array(_PRIOR) / sum(_PRIOR),
        rates=RATES,
        late=delay,
    )


def _hours_made() -> ForgettingRegression:
    """The regression on the profile, before it has learned anything: the score."""
    line = Cycle(0.0, "x", 0, 0, 0.9998, 0.9998).features()
    return ForgettingRegression(
        [TIME_FEATURES[name] for name in (*line, "profile")],
        [0.9998] * (len(line) + 1),
        [*(CYCLE_PRECISION["x"][name] for name in line), PROFILE_PRECISION],
        [*(CYCLE_START.get(name, 0.0) for name in line), 1.0],
    )


def spikes(last: Specialists, knots: FloatArray) -> FloatArray:
    """Knots, and four for each score that has repeated: at both ends of it, and beside."""
    at = last.counts.repeated()
    bounds = (at - 0.5 * WIDTH, at + 0.5 * WIDTH)
    ends = [np.nextafter(bound, at) for bound in bounds]
    beside = [np.nextafter(bound, away) for bound, away in zip(bounds, (-np.inf, np.inf), strict=True)]
    return np.unique(np.clip(np.concatenate([knots, *ends, *beside]), -LOGIT_LIMIT, LOGIT_LIMIT))


def restored(last: Specialists, state: Any) -> None:
    """Load what `Specialists.state` wrote, of an earlier version too; `StateError` for anything else."""
    fields = {"shares": unread, "counts": unread, "counted": number(0.0, MOST), "timed": whole(), "cycles": unread}
    read = record(fields, {"search": unread, "periodic": unread, "hours": unread})(state)
    if read["hours"] is None:
        if read["search"] is None and read["periodic"] is None:
            read |= {"shares": _with_a_period(last, read["shares"]), "search": last.search.state(), "periodic": []}
        read |= {"shares": _with_hours(last, read["shares"]), "hours": []}
    read["shares"] = _shares_state(last, read["shares"])
    ensure(read["shares"][1].max() == 0.0, "the best row has another wealth than 1")
    ensure((read["shares"][0][:, 0] > 0.0).all(), "the forecast that always speaks has no weight")
    read["counts"] = _counts_state(read["counted"])(read["counts"])
    read["cycles"] = _regressions(CYCLE_EXPERTS, read["timed"] > 0)(read["cycles"])
    read["search"] = _search_state(read["timed"], read["search"])
    read["periodic"] = _regressions(PERIOD_EXPERTS, read["search"][3][0] > 0.0)(read["periodic"])
    read["hours"] = _hours_state(read["timed"], read["hours"])
    try:
        last.load(read)
    except ValueError as error:
        ensure(False, str(error))


def _regressions(cycles: dict[str, Cycle], learned: bool) -> Reader:
    """What reads the states of the regressions of these cycles, which are none before anything is learned."""
    if not learned:
        return listed(unread, length=0)
    return row(*(regression_state(cycle.made().size) for cycle in cycles.values()))


def _shares_state(last: Specialists, saved: Any) -> list[FloatArray]:
    """Weights, in twice as many rows where labels are late; earlier versions had as many, and both kinds are alike."""
    well_formed = isinstance(saved, (list, tuple)) and len(saved) == 2 and hasattr(saved[1], "__len__")
    doubled = well_formed and len(saved[1]) == 2 * len(RATES)
    shares: list[FloatArray] = shares_state((1 + doubled) * len(RATES), last.size)(saved)
    return [np.concatenate([one, one]) for one in shares] if last.half > 0 and not doubled else shares


def _with_a_period(last: Specialists, saved: Any) -> Any:
    """Weights of the first version: experts of the period have had theirs from the other cycles, in equal parts."""
    first, cycles = 1 + len(COUNTS), len(CYCLE_EXPERTS)
    shares, wealth = shares_state(len(RATES), first + cycles)(saved)
    prior = np.array(_PRIOR)
    periodic = prior[first + cycles : -1].sum() / prior[first:].sum()
    return [_shared_with(shares, slice(first, first + cycles), periodic, len(PERIOD_EXPERTS)), wealth]


def _with_hours(last: Specialists, saved: Any) -> Any:
    """Weights of the version before the profile of the week: its expert has had its weight from the cycles."""
    cycles = slice(1 + len(COUNTS), 1 + len(COUNTS) + len(CYCLE_EXPERTS))
    shares, wealth = shares_state(len(RATES), last.size - 1)(saved)
    return [_shared_with(shares, cycles, HOURS_PRIOR / (np.sum(_PRIOR[cycles]) + HOURS_PRIOR), 1), wealth]


def _shared_with(shares: FloatArray, of: slice, part: float, new: int) -> FloatArray:
    """The weights, with this part of those of some experts given to so many new ones, which follow all others."""
    given = shares[:, of].sum(axis=1, keepdims=True) * part / new
    kept = shares.copy()
    kept[:, of] *= 1.0 - part
    return np.hstack([kept, np.repeat(given, new, axis=1)])


def _hours_state(timed: int, value: Any) -> Any:
    """What was learned of the profile of the week, which is nothing before anything is; `StateError` else."""
    if value == []:
        return value
    sums = (numbers(HALF_HOURS, least=0.0, most=LARGEST_SUM), numbers(HALF_HOURS, least=-LARGEST_SUM, most=LARGEST_SUM))
    offsets = numbers(HALF_HOURS, least=-FURTHEST_OFFSET, most=FURTHEST_OFFSET)
    profile = row(*sums, offsets, number(1.0, LARGEST_UNIT), row(whole(1, SELDOM), whole(1)))
    read: Any = row(profile, regression_state(_hours_made().size))(value)
    ensure(read[0][4][1] <= timed, "the profile has learned more observations than had a time")
    return read


def _search_state(timed: int, value: Any) -> tuple[Any, ...]:
    """The state of a search that has seen so many times; `StateError` for anything else."""
    times, errors = numbers(None), numbers(None, least=-HEAVIEST_ERROR, most=HEAVIEST_ERROR)
    found = row(number(0.0), number(), number(0.0, 1.0))
    phases = listed(row(number(), number(-MOST_TURNS, MOST_TURNS)), most=PHASES)
    read = row(times, errors, row(whole(0), whole(0)), found, phases)(value)
    ensure(len(read[0]) == len(read[1]) <= min(timed, SEARCHED), "times and errors are not as many as were learned")
    ensure(read[2][0] > 0 and read[2][1] <= timed, "a search was not left so")
    ensure(read[3][0] > 0.0 or read[2][1] == 0 == len(read[4]), "what was learned of a period has none")
    return read


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
    """The judgement that was written as `Judgement.state`, by an earlier version too; `StateError` else."""
    gains = numbers(None, least=-LARGEST_GAIN, most=SILENT)
    z, of_rows = number(-LOGIT_LIMIT, LOGIT_LIMIT), numbers(None, least=-LARGEST_GAIN, most=LARGEST_GAIN)
    if isinstance(saved, (list, tuple)) and len(saved) == 4:  # what is said now counts as what was said then
        saved = [*saved, saved[2]]
    at, t, said, rows, now = row(z, maybe(number()), gains, of_rows, gains)(saved)
    if len(rows) == len(RATES):
        rows = np.tile(rows, last.rows // len(RATES))
    ensure(len(rows) == last.rows, "a judgement is of other rows")
    of_earlier = (last.size - 1, last.size - 1 - len(PERIOD_EXPERTS))
    ensure(len(said) == len(now) and len(said) in (last.size, *of_earlier), "a judgement is of other forecasts")
    silent = [SILENT] * (last.size - len(said))
    judged = Judgement(last.size, last.rows)
    judged.load(at, t, [*said.tolist(), *silent], rows, [*now.tolist(), *silent])
    return judged
