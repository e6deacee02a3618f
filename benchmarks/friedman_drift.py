"""How soon `CalibrationMonitor` notices the drifts of River's FriedmanDrift, beside River's ADWIN.

    python -m benchmarks.friedman_drift               # some minutes; writes the table in docs/monitors_measured.md
    python -m benchmarks.friedman_drift --streams 2   # shortened, prints only

A regression on quadratic features is fitted to 5,000 outcomes and left as it is. The PIT of an outcome is the rank of
its residual among those before it, ties and ends spread at random: uniform and independent as long as residuals are
exchangeable, whatever their distribution. Monitors see 2,500 PITs before the drift and 5,000 after it.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import combinations_with_replacement, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from river.datasets.synth import FriedmanDrift
from river.drift import ADWIN

import streamcal
from benchmarks.monitors import shown
from streamcal.live import CalibrationMonitor

PAGE = Path(__file__).resolve().parents[1] / "docs" / "monitors_measured.md"
MARKS = r"(?<=<!-- friedman -->\n).*?(?=<!-- end of friedman -->)"
STREAMS, FITTED, BEFORE, AFTER = 20, 5_000, 2_500, 5_000
DRIFT = FITTED + BEFORE
#: Drift type → where it begins, and where it changes again, beyond the end; the slow one takes 2,000 outcomes.
DRIFTS: dict[str, tuple[int, ...]] = {
    "gra": (DRIFT, 10 * DRIFT),
    "gsg": (DRIFT, 10 * DRIFT),
    "lea": (DRIFT, 10 * DRIFT, 20 * DRIFT),
}
NAMES = {"gra": "global, abrupt", "gsg": "global, gradual over 2,000", "lea": "local, abrupt"}
Array = npt.NDArray[np.float64]


def residuals(drift: str, seed: int) -> Array:
    """Those of a regression after the outcomes that it was fitted to."""
    stream = FriedmanDrift(drift_type=drift, position=DRIFTS[drift], transition_window=2_000, seed=seed)
    rows = [(list(x.values()), y) for x, y in islice(stream, DRIFT + AFTER)]
    x, y = np.array([row for row, _ in rows]), np.array([label for _, label in rows])
    pairs = combinations_with_replacement(range(x.shape[1]), 2)
    features = np.column_stack([np.ones(len(x)), x, *(x[:, i] * x[:, j] for i, j in pairs)])
    coefficients = np.linalg.lstsq(features[:FITTED], y[:FITTED], rcond=None)[0]
    found: Array = (y - features @ coefficients)[FITTED:]
    return found


def ranks(values: Array, rng: np.random.Generator) -> Array:
    """PITs: the rank of each value among those before it and itself."""
    held: list[float] = []
    found = []
    for value, u in zip(values.tolist(), rng.random(len(values)).tolist(), strict=True):
        low, high = bisect_left(held, value), bisect_right(held, value)
        found.append((low + u * (high - low + 1)) / (len(held) + 1))
        insort(held, value)
    return np.array(found)


def adwin(values: Array) -> list[int]:
    """Return the alarms of ADWIN with its defaults."""
    detector, found = ADWIN(), []
    for number, one in enumerate(values.tolist(), 1):
        detector.update(one)
        if detector.drift_detected:
            found.append(number)
    return found


#: Name → alarms of residuals and their PITs.
MONITORS: dict[str, Callable[[Array, Array], list[int]]] = {
    "`CalibrationMonitor(alpha=0.05)`": lambda _, u: [one.n for one in CalibrationMonitor(alpha=0.05).update_pits(u)],
    "`CalibrationMonitor(run_length=1e5)`": lambda _, u: [
        one.n for one in CalibrationMonitor(run_length=1e5).update_pits(u)
    ],
    "ADWIN on PITs": lambda _, u: adwin(u),
    "ADWIN on absolute residuals": lambda r, _: adwin(abs(r)),
}


def table(streams: int) -> str:
    """Median delays, the share noticed within `AFTER`, and the share with an alarm before the drift."""
    delays: dict[str, dict[str, list[float]]] = {name: {drift: [] for drift in DRIFTS} for name in MONITORS}
    early = dict.fromkeys(MONITORS, 0)
    for drift in DRIFTS:
        for seed in range(streams):
            r = residuals(drift, seed)
            u = ranks(r, np.random.default_rng(seed))
            for name, monitor in MONITORS.items():
                alarms = monitor(r, u)
                early[name] += any(n <= BEFORE for n in alarms)
                delays[name][drift].append(min((n - BEFORE for n in alarms if n > BEFORE), default=np.inf))
    lines = [f"| | {' | '.join(NAMES[drift] for drift in DRIFTS)} | alarm before |", "|---|---:|---:|---:|---:|"]
    for name, found in delays.items():
        cells = [f"{shown(np.median(one))} ({np.isfinite(one).mean():.0%})" for one in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {early[name] / (streams * len(DRIFTS)):.1%} |")
    return "\n".join(lines)


def main() -> None:
    """Count the alarms on every drift, and write the table on the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, help=f"of each drift (default {STREAMS}); prints only")
    given = parser.parse_args()
    logging.getLogger("streamcal").setLevel(logging.ERROR)  # alarms are what is counted here
    streams = given.streams or STREAMS
    run = f"`python -m benchmarks.friedman_drift`, {datetime.date.today()}, streamcal {streamcal.__version__}"
    text = f"{table(streams)}\n\n{run}, {streams} streams of each drift.\n"
    print(text)
    if given.streams is None:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(MARKS, lambda _: text, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
