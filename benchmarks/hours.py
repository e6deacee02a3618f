"""`Auto` where log-odds move in steps within the day, and where they do not: with the profile of the week, and without.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.hours

It prints the log loss above that of the oracle, in 1e-4 nats a row, on simulated streams with times, and what the
profile costs on development streams of the race with invented times. Without the profile, the weight of its expert is
given back to the experts on the day and the week. The next table is of labels that come late to a `LabelJoin`, and the
last one of logistic regressions that are told what `Auto` has to find.
"""

from __future__ import annotations

import argparse
import math
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.environment import require_compiled
from benchmarks.periods import COURSES, START, losses
from benchmarks.streams import further

DELAYS = (0, 48)
#: Rows a day, when they open and close (parts of the day), and the seed.
HOURS = (
    (24, 0.25, 0.75, 110),
    (48, 0.33, 0.7, 111),
    (96, 0.4, 0.8, 112),
    (480, 0.37, 0.73, 113),
    (1440, 0.3, 0.9, 114),
)
WAVES = ((48, 0.3, 115), (480, 0.7, 116))
WEEKS = ((48, 117), (480, 118))


def streams() -> dict[str, further.Made]:
    """Streams by name; `hours` are closed on two days of the week in a row."""
    made = {f"hours, {rows} rows a day": further.hours(rows, *more) for rows, *more in HOURS}
    for rows, opens, closes, seed in HOURS[1:4:2]:
        one = further.hours(rows, opens, closes, seed + 10)
        made[f"hours, {rows} rows a day, 9 h from UTC"] = one._replace(t=one.t + 9.4 * 3600.0)  # type: ignore[operator]
    made |= {f"a daily wave, {rows} rows a day": further.waves(rows, *more) for rows, *more in WAVES}
    for rows, seed in WEEKS:
        day = np.arange(further.ROWS) / rows
        moved = 0.7 * np.sin(2.0 * math.pi * day) + 0.6 * np.sin(2.0 * math.pi * day / 7.0)
        made[f"a daily and a weekly wave, {rows} rows a day"] = further._cycle(day, moved, seed)
    return made


def loss(delay: int, scores: Any, y: Any, t: Any, profile: bool = True) -> float:
    """Log loss of `Auto`."""
    from benchmarks.streams.entrants import stepwise
    from streamcal import Auto
    from streamcal.calibrators.auto import specialists

    cycles = [cycle.prior for cycle in specialists.CYCLE_EXPERTS.values()]
    more = 0.0 if profile else specialists.HOURS_PRIOR
    first = 1 + len(specialists.COUNTS)
    prior = list(specialists._PRIOR)
    prior[first : first + len(cycles)] = [one * (1.0 + more / sum(cycles)) for one in cycles]
    prior[-1] -= more
    with mock.patch.object(specialists, "_PRIOR", tuple(prior)):
        return float(losses(stepwise(Auto(delay), scores, y, delay, t), y).mean())


def simulated() -> None:
    print("| stream | delay 0 | delay 48 |\n|---|---|---|")
    for name, (scores, y, oracle, t) in streams().items():
        best = losses(oracle, y).mean()
        cells = []
        for delay in DELAYS:
            without, with_it = (1e4 * (loss(delay, scores, y, t, one) - best) for one in (False, True))
            cells.append(f"{without:.0f} → {with_it:.0f}" if "hours" in name else f"{without:.1f} → {with_it:.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def joined() -> None:
    """A `LabelJoin` whose labels come at the horizon, with and without the times for its `Auto`."""
    from streamcal import Auto
    from streamcal.live import LabelJoin

    def in_join(made: further.Made, horizon: float) -> Any:
        join, said = LabelJoin(Auto(), horizon), np.empty(len(made.y))
        assert made.t is not None
        for k, (score, y, t) in enumerate(zip(made.scores.tolist(), made.y.tolist(), made.t.tolist(), strict=True)):
            said[k] = join.issue(k, score, t).p
            join.resolve(k, y, t)
        return losses(said, made.y).mean()

    print("| stream | learned after 2 hours | after 24 hours |\n|---|---|---|")
    for name, made in streams().items():
        best = losses(made.oracle, made.y).mean()
        cells = []
        for hours in (2, 24):
            with mock.patch.object(Auto, "learns_time", False):
                without = in_join(made, 3600.0 * hours)
            cells.append(f"{1e4 * (without - best):.0f} → {1e4 * (in_join(made, 3600.0 * hours) - best):.0f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def courses() -> None:
    from benchmarks.streams.catalogue import stream

    print("| stream | labels late | with, minus without |\n|---|---:|---|")
    for name, delay in COURSES:
        data = stream(name, delay, further.ROWS)
        y, more = np.asarray(data.y), []
        for gap in (1_800.0, 61.0):
            t = START + gap * np.arange(len(y))
            without, with_it = (loss(delay, data.scores, y, t, one) for one in (False, True))
            more.append(f"{1e4 * (with_it - without):+.2f}")
        print(f"| {name} | {delay} | {', '.join(more)} |", flush=True)


def told() -> None:
    """Bayesian logistic regressions that are told which days are closed; `Auto` is told nothing."""
    print("| stream | `Auto`, told nothing | told the weekend, a number for each hour | told when it is open |")
    print("|---|---|---|---|")
    for rows, opens, closes, seed in HOURS:
        made = further.hours(rows, opens, closes, seed)
        x, best = np.log(made.scores / (1.0 - made.scores)), losses(made.oracle, made.y).mean()
        day = np.arange(len(x)) / rows
        closed = day % 7.0 >= 5.0
        hour = np.where(closed, 24, (24.0 * (day % 1.0) + 1e-9).astype(int))
        is_open = (day % 1.0 >= opens) & (day % 1.0 < closes) & ~closed
        features = (hour[:, None] == np.arange(25), np.column_stack((np.ones(len(x)), is_open)))
        found = [[loss(delay, made.scores, made.y, made.t) for delay in DELAYS]]
        for more in features:
            said = (bayesian(np.column_stack((x, more)), made.y, delay) for delay in DELAYS)
            found.append([losses(p, made.y).mean() for p in said])
        cells = [", ".join(f"{1e4 * (one - best):.0f}" for one in both) for both in found]
        print(f"| hours, {rows} rows a day | {' | '.join(cells)} |", flush=True)


def bayesian(features: Any, y: Any, delay: int) -> Any:
    """Forecasts of a logistic regression whose first coefficient is N(1, 1/10) and the others N(0, ½) beforehand.

    The posterior is taken for normal about its mode, which is found anew whenever a 60th more labels are known; so the
    mean of the sigmoid is nearly the sigmoid of the mean over √(1 + π/8 variance).
    """
    size = features.shape[1]
    mean, precision = np.eye(size)[0], np.array([10.0] + [2.0] * (size - 1))
    mode, covariance, refit = mean, np.diag(1.0 / precision), 1
    said = np.empty(len(y))
    for i, row in enumerate(features.astype(float)):
        known = i - delay
        if known >= refit:
            refit = known + max(1, known // 60)
            past, labels = features[:known].astype(float), y[:known]
            for _ in range(8):  # Newton steps, which begin near the mode
                p = 1.0 / (1.0 + np.exp(-past @ mode))
                covariance = np.linalg.inv((past.T * (p * (1.0 - p))) @ past + np.diag(precision))
                mode = mode - covariance @ (past.T @ (p - labels) + precision * (mode - mean))
        said[i] = 1.0 / (1.0 + math.exp(-(row @ mode) / math.sqrt(1.0 + math.pi / 8.0 * (row @ covariance @ row))))
    return said


def main() -> None:
    require_compiled()
    parser = argparse.ArgumentParser()
    parts = {"simulated": simulated, "courses": courses, "joined": joined, "told": told}
    parser.add_argument("--only", choices=parts)
    given = parser.parse_args()
    for name, part in parts.items():
        if given.only in (None, name):
            part()


if __name__ == "__main__":
    main()
