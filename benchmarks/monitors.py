"""False alarms and delays of `CalibrationMonitor`, beside River's ADWIN on the log loss.

    python -m benchmarks.monitors                  # labels, some minutes; writes tables in docs/monitors_measured.md
    python -m benchmarks.monitors --pits           # the same of distributions
    python -m benchmarks.monitors --streams 100    # shortened, prints only

Streams: the log-odds of the issued probabilities are N(c, 0.8²), c such that their mean is the base rate. The outcomes
follow the issued probabilities until the change, and other ones from there. These streams were not used to choose the
bets: those were chosen at base rates of 2, 15 and 30 % with deviations 1.2, 0.6 and 1, and at 5 % on scores whose
log-odds have a gamma distribution, with other seeds and other changes.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from river.drift import ADWIN
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import streamcal
from streamcal.live import CalibrationMonitor
from streamcal.metrics import PITHistogram
from streamcal.regression import Piecewise

PAGE = Path(__file__).resolve().parents[1] / "docs" / "monitors_measured.md"
MARKS = r"(?<=<!-- {} -->\n).*?(?=<!-- end of {} -->)"
SEED = 181
DEVIATION = 0.8
RATES = (0.3, 0.05, 0.005)
BASE_RATE = 0.05
STREAMS, NULL_STREAMS, NULL_LENGTH = 1_000, 10_000, 10_000
BEFORE, AFTER = 5_000, 5_000
CAMPAIGNS = 10
ALPHA, RUN_LENGTH = 0.05, 1e5
#: Run lengths are measured where they can be: a tenth of the one above.
MEASURED_RUN_LENGTH = 1e4

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """Issued probabilities, outcomes and the campaign of each."""

    p: Array
    y: npt.NDArray[np.bool_]
    campaign: npt.NDArray[np.int64]


class Score(NamedTuple):
    """Alarms before the change, per stream, and the delays of the first ones after it; infinite without one."""

    early: float
    delays: Array


def centre(rate: float) -> float:
    """Return the mean log-odds for which the mean probability is `rate`."""
    levels = DEVIATION * norm.ppf((np.arange(20_000) + 0.5) / 20_000)  # by the midpoint rule
    return float(brentq(lambda c: np.mean(expit(c + levels)) - rate, -30.0, 30.0))


#: Name → log-odds of the outcomes, from those of the forecasts, their centre and the campaigns.
CHANGES: dict[str, Callable[[Array, float, npt.NDArray[np.int64]], Array]] = {
    "shift +½": lambda z, c, campaign: z + 0.5,
    "shift −½": lambda z, c, campaign: z - 0.5,
    "slope ½": lambda z, c, campaign: c + 0.5 * (z - c),
    "10 % of traffic +1.5": lambda z, c, campaign: z + 1.5 * (campaign == 0),
}


def stream(change: str, before: int, seed: int) -> Stream:
    """Draw a stream that changes after `before` outcomes."""
    rng = np.random.default_rng([SEED, seed, before])
    c = centre(BASE_RATE)
    z = c + DEVIATION * rng.standard_normal(before + AFTER)
    campaign = rng.integers(CAMPAIGNS, size=len(z))
    true = np.where(np.arange(len(z)) < before, z, CHANGES[change](z, c, campaign))
    return Stream(expit(z), rng.random(len(z)) < expit(true), campaign)


def alarms_of_monitor(given: Stream, keys: bool, **parameters: float) -> list[int]:
    """Return the numbers of the outcomes at which a monitor raised its alarms."""
    monitor = CalibrationMonitor(**parameters)
    found = monitor.update_many(given.y, given.p, {"campaign": given.campaign} if keys else None)
    return [alarm.n for alarm in found]


def alarms_of_adwin(given: Stream) -> list[int]:
    """Return the same for ADWIN with its defaults, on the log loss."""
    detector, found = ADWIN(), []
    for number, loss in enumerate(-np.log(np.where(given.y, given.p, 1.0 - given.p)), 1):
        detector.update(float(loss))
        if detector.drift_detected:
            found.append(number)
    return found


MONITORS: dict[str, Callable[[Stream], list[int]]] = {
    "`alpha=0.05`": lambda given: alarms_of_monitor(given, False, alpha=ALPHA),
    "`alpha=0.05`, campaigns as keys": lambda given: alarms_of_monitor(given, True, alpha=ALPHA),
    "`run_length=1e5`": lambda given: alarms_of_monitor(given, False, run_length=RUN_LENGTH),
    "`run_length=1e5`, campaigns as keys": lambda given: alarms_of_monitor(given, True, run_length=RUN_LENGTH),
    "ADWIN on log loss": alarms_of_adwin,
}


def scored(
    monitor: Callable[[Any], list[int]], make: Callable[[int], Any], streams: int, before: int = BEFORE
) -> Score:
    """Over streams of seeds 0, 1, ...; those on which a monitor with α stops before the change are not detected."""
    early, delays = 0, []
    for seed in range(streams):
        found = monitor(make(seed))
        early += sum(number <= before for number in found)
        delays.append(min((number - before for number in found if number > before), default=math.inf))
    return Score(early / streams, np.array(delays))


def delay_table(before: int, streams: int) -> str:
    """Median delay over all streams, and the share detected within `AFTER`."""
    lines = [f"| | {' | '.join(CHANGES)} | alarms before, a stream |", "|---|" + "---:|" * (len(CHANGES) + 1)]
    for name, monitor in MONITORS.items():
        found = [
            scored(monitor, lambda seed, change=change: stream(change, before, seed), streams, before)
            for change in CHANGES
        ]
        cells = [f"{shown(np.median(one.delays))} ({np.isfinite(one.delays).mean():.0%})" for one in found]
        early = np.mean([one.early for one in found]) if before else math.nan
        lines.append(f"| {name} | {' | '.join(cells)} | {'–' if math.isnan(early) else f'{early:.3f}'} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def shown(delay: float) -> str:
    """Write a delay in outcomes; an infinite one is "none"."""
    return f"{delay:,.0f}" if math.isfinite(delay) else "none"


def null_outcomes(rate: float, length: int, rng: np.random.Generator) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Draw calibrated forecasts of a base rate, and their labels."""
    p = expit(centre(rate) + DEVIATION * rng.standard_normal(length))
    return p, rng.random(length) < p


def false_alarms(rate: float, streams: int) -> int:
    """Count the calibrated streams of `NULL_LENGTH` outcomes on which a monitor with α raises an alarm."""
    found = 0
    for seed in range(streams):
        p, y = null_outcomes(rate, NULL_LENGTH, np.random.default_rng([SEED, seed, round(1e4 * rate)]))
        found += bool(CalibrationMonitor(alpha=ALPHA).update_many(y, p))
    return found


def false_segments(rate: float, streams: int, segments: int = 50) -> int:
    """Count the calibrated streams with segments of Zipf's frequencies on which any segment has an alarm."""
    share = 1.0 / np.arange(1, segments + 1)
    found = 0
    for seed in range(streams):
        rng = np.random.default_rng([SEED, seed, round(1e4 * rate), segments])
        p, y = null_outcomes(rate, NULL_LENGTH, rng)
        monitor = CalibrationMonitor(alpha=ALPHA)
        monitor.update_many(y, p, {"campaign": rng.choice(segments, NULL_LENGTH, p=share / share.sum())})
        found += bool(monitor.discoveries())
    return found


def run_lengths(rate: float, runs: int) -> Array:
    """Return the numbers of outcomes until the first alarm on calibrated streams."""
    lengths = []
    for seed in range(runs):
        rng = np.random.default_rng([SEED, seed, round(1e4 * rate), 7])
        monitor, alarms = CalibrationMonitor(run_length=MEASURED_RUN_LENGTH), []
        while not alarms:
            p, y = null_outcomes(rate, 20_000, rng)
            alarms = monitor.update_many(y, p)
        lengths.append(alarms[0].n)
    return np.array(lengths)


def null_table(streams: int) -> str:
    """Write the table of false alarms by base rate."""
    lines = [
        f"| base rate | streams of {NULL_LENGTH:,} with an alarm, `alpha=0.05` "
        "| of those with 50 segments, any segment | mean run length, `run_length=1e4` |",
        "|---:|---:|---:|---:|",
    ]
    for rate in RATES:
        alone, some = false_alarms(rate, streams), max(1, streams // 10)
        segments, runs = false_segments(rate, some), run_lengths(rate, some)
        error = runs.std(ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else math.nan
        lines.append(
            f"| {100 * rate:g} % | {alone:,} of {streams:,} ({alone / streams:.1%}) "
            f"| {segments:,} of {some:,} ({segments / some:.1%}) | {runs.mean():,.0f} ± {error:,.0f} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


TEXT = """
Median delay in outcomes over {streams:,} streams of base rate 5 %. A stream without an alarm counts as infinite; in
brackets is the share with an alarm within {after:,} outcomes of the change. The change comes after {before:,} outcomes
that follow their predictions. The segment that changes is one of ten campaigns.

{late}

The same where the predictions are wrong from the first outcome on:

{at_once}

Outcomes that follow their predictions; ± is a standard error:

{null}

`python -m benchmarks.monitors`, {date}, streamcal {version}, seed {seed}, {seconds:.0f} s on two shared cores.
"""


# -- distributions ---------------------------------------------------------------------------------------------------

#: Name → outcomes from those that are N(0, 1), as every forecast says they are.
CHANGES_OF_DISTRIBUTIONS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "mean +½ sd": lambda z, rng: z + 0.5,
    "mean +¼ sd": lambda z, rng: z + 0.25,
    "sd × 1.25": lambda z, rng: 1.25 * z,
    "sd × .8": lambda z, rng: 0.8 * z,
    "Student's t, 4 degrees, sd 1": lambda z, rng: rng.standard_t(4, len(z)) / math.sqrt(2.0),
}


def pits(change: str, seed: int) -> Array:
    """PITs of `BEFORE` outcomes in order and `AFTER` others."""
    rng = np.random.default_rng([SEED, seed, 11])
    z = rng.standard_normal(BEFORE + AFTER)
    return norm.cdf(np.concatenate((z[:BEFORE], CHANGES_OF_DISTRIBUTIONS[change](z[BEFORE:], rng))))


def alarms_of_histogram(u: Array) -> list[int]:
    """Return the first time at which the e-process of `PITHistogram` reaches 1/α."""
    histogram = PITHistogram()
    for number, one in enumerate(u.tolist(), 1):
        histogram.update(one, UNIFORM)
        if histogram.log_e_value >= -math.log(ALPHA):
            return [number]
    return []


def alarms_of_adwin_on(u: Array) -> list[int]:
    """Return the alarms of ADWIN on PIT values."""
    detector, found = ADWIN(), []
    for number, one in enumerate(u.tolist(), 1):
        detector.update(one)
        if detector.drift_detected:
            found.append(number)
    return found


UNIFORM = Piecewise([0.0, 1.0], [0.0, 1.0])
MONITORS_OF_DISTRIBUTIONS: dict[str, Callable[[Array], list[int]]] = {
    "`alpha=0.05`": lambda u: [alarm.n for alarm in CalibrationMonitor(alpha=ALPHA).update_pits(u)],
    "`run_length=1e5`": lambda u: [alarm.n for alarm in CalibrationMonitor(run_length=RUN_LENGTH).update_pits(u)],
    "`PITHistogram`, e-value 20": alarms_of_histogram,
    "ADWIN on PITs": alarms_of_adwin_on,
}


def pit_table(streams: int) -> str:
    """Write the table of delays for monitors of distributions, as in `delay_table`."""
    heading = " | ".join(CHANGES_OF_DISTRIBUTIONS)
    lines = [f"| | {heading} | alarms before, a stream |", "|---|" + "---:|" * (len(CHANGES_OF_DISTRIBUTIONS) + 1)]
    for name, monitor in MONITORS_OF_DISTRIBUTIONS.items():
        some = streams if "PITHistogram" not in name else max(1, streams // 10)  # it computes its sum at every outcome
        found = [
            scored(monitor, lambda seed, change=change: pits(change, seed), some) for change in CHANGES_OF_DISTRIBUTIONS
        ]
        cells = [f"{shown(np.median(one.delays))} ({np.isfinite(one.delays).mean():.0%})" for one in found]
        lines.append(f"| {name} | {' | '.join(cells)} | {np.mean([one.early for one in found]):.3f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


PIT_TEXT = """
Median delay over {streams:,} streams of normal forecasts ({some:,} for `PITHistogram`), the change after {before:,}
outcomes in order, and in brackets the share with an alarm within {after:,}:

{table}

`python -m benchmarks.monitors --pits`, {date}, streamcal {version}, seed {seed}.
"""


def write(mark: str, text: str) -> None:
    """Replace what stands between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(MARKS.format(mark, mark), lambda _: text + "\n", page, flags=re.DOTALL), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Measure the monitors, and print or write their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--streams", type=int, help=f"streams for every figure (default {STREAMS:,}; without change {NULL_STREAMS:,})"
    )
    parser.add_argument("--pits", action="store_true", help="distributions, instead of probabilities")
    given = parser.parse_args(arguments)
    logging.getLogger("streamcal").setLevel(logging.ERROR)  # alarms are what is counted here
    start = time.perf_counter()
    streams = given.streams or STREAMS
    known = {"streams": streams, "before": BEFORE, "after": AFTER, "seed": SEED, "version": streamcal.__version__}
    known["date"] = datetime.date.today().isoformat()
    if given.pits:
        text = PIT_TEXT.format(table=pit_table(streams), some=max(1, streams // 10), **known)
        print(text)
        if given.streams is None:
            write("results of distributions", text)
        return
    text = TEXT.format(
        null=null_table(given.streams or NULL_STREAMS),
        late=delay_table(BEFORE, streams),
        at_once=delay_table(0, streams),
        seconds=time.perf_counter() - start,
        **known,
    )
    print(text)
    if given.streams is None:
        write("results", text)


if __name__ == "__main__":
    main()
