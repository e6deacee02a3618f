"""`Auto` where a cycle has a period that nobody told, and where there is none: with the search for it, and without.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.periods

It prints the log loss above that of the oracle, in 1e-4 nats a row, on simulated streams with a cycle, and what the
search costs on development streams of the race with invented times. `known` is the same stream with its times in such
a unit that the cycle is a day, which the regressions on the day know.
"""

from __future__ import annotations

import argparse
import time
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.environment import require_compiled

ROWS = 20_000
SEEDS = (0, 1, 2)
DAY = 86_400.0
START = 1_699_401_600.0
#: Name → seconds between two rows, whether they vary, seconds of the cycle, and its shape.
CYCLES = {
    "48 rows of 400 s": (400.0, False, 19_200.0, "wave"),
    "480 rows of 400 s, 20/9 days": (400.0, False, 192_000.0, "wave"),
    "7 rows of 400 s": (400.0, False, 2_800.0, "wave"),
    "480 rows of 30 s": (30.0, False, 14_400.0, "wave"),
    "480 rows of 97 s": (97.0, False, 46_560.0, "wave"),
    "480 rows of 97 s, open two fifths": (97.0, False, 46_560.0, "step"),
    "5.3 hours, random times, 10 minutes on average": (600.0, True, 19_080.0, "wave"),
    "5.3 hours, random times, 1 minute on average": (60.0, True, 19_080.0, "wave"),
    "5.3 hours, only from 8 to 18, 2 minutes on average": (120.0, True, 19_080.0, "office"),
    "a day, 48 rows": (1_800.0, False, DAY, "wave"),
    "a day, 480 rows, open two fifths": (180.0, False, DAY, "step"),
}
#: Development streams, and labels late.
COURSES = (
    *(
        ("elec2 frozen", 0),
        ("elec2 frozen", 48),
        ("elec2 online", 48),
        ("covtype frozen", 0),
        ("covtype frozen", 48),
        ("bank_full MLP", 0),
    ),
    *(("adult frozen", 0), ("cov-1d", 0), ("abrupt", 0), ("abrupt", 48), ("lab-10d-0.6", 0), ("leaves", 0)),
    *(("calibrated", 0), ("calibrated", 48), ("calibrated, rare", 0)),
)


def made(gap: float, varies: bool, period: float, shape: str, seed: int) -> tuple[Any, ...]:
    """Scores, labels, probabilities and times of a stream: x ~ N(−1, 1.5²); log-odds x + a cycle."""
    rng = np.random.default_rng([seed, 5])
    gaps = rng.exponential(gap, ROWS) if varies else np.full(ROWS, gap)
    t = np.cumsum(gaps)
    if shape == "office":  # ten hours of each day
        t = DAY * np.floor(t / 36_000.0) + 28_800.0 + t % 36_000.0
    along = t / period + rng.random()
    moved = np.where(along % 1.0 < 0.4, 0.75, -0.5) if shape == "step" else np.sin(2.0 * np.pi * along)
    x = rng.normal(-1.0, 1.5, ROWS)
    p = 1.0 / (1.0 + np.exp(-x - moved))
    return 1.0 / (1.0 + np.exp(-x)), rng.random(ROWS) < p, p, START + t


def losses(p: Any, y: Any) -> Any:
    return -np.log(np.where(y, p, 1.0 - p))


def run(delay: int, scores: Any, y: Any, t: Any, searches: bool = True) -> tuple[float, Any, float]:
    """Log loss, the calibrator, and µs a row."""
    from benchmarks.streams.entrants import stepwise
    from streamcal import Auto
    from streamcal.calibrators.auto import specialists

    with mock.patch.object(specialists, "SEARCHED_FROM", specialists.SEARCHED_FROM if searches else 10**9):
        cal = Auto(delay)
    begun = time.process_time()
    p = stepwise(cal, scores, y, delay, t)
    return float(losses(p, y).mean()), cal, 1e6 * (time.process_time() - begun) / len(y)


def cycles(seeds: tuple[int, ...], delays: tuple[int, ...], names: list[str]) -> None:
    print("| cycle | labels late | without | with | known | period found | µs without | with |")
    print("|---|---:|---|---|---|---|---:|---:|")
    for name in names:
        for delay in delays:
            rows: list[list[str]] = [[], [], [], []]
            costs = []
            for seed in seeds:
                scores, y, oracle, t = made(*CYCLES[name], seed)
                best = float(losses(oracle, y).mean())
                without, _, cost = run(delay, scores, y, t, False)
                found, cal, more = run(delay, scores, y, t)
                known, _, _ = run(delay, scores, y, t * (DAY / CYCLES[name][2]), False)
                frequency = cal._last.search.frequency
                costs.append((cost, more))
                for place, value in enumerate((without, found, known)):
                    rows[place].append(f"{1e4 * (value - best):.0f}")
                rows[3].append(f"{1.0 / frequency:.0f} s" if frequency else "none")
            least = [f"{min(column):.1f}" for column in zip(*costs, strict=True)]
            print(
                f"| {name} | {delay} | {' | '.join(', '.join(row) for row in (*rows, *[[c] for c in least]))} |",
                flush=True,
            )


def courses() -> None:
    from benchmarks.streams.catalogue import stream

    print("| stream | labels late | with, minus without | period at the end |\n|---|---:|---|---|")
    for name, delay in COURSES:
        data = stream(name, delay, ROWS)
        y = np.asarray(data.y)
        more, periods = [], []
        for gap in (1_800.0, 61.0):
            t = START + gap * np.arange(len(y))
            without, _, _ = run(delay, data.scores, y, t, False)
            found, cal, _ = run(delay, data.scores, y, t)
            more.append(f"{1e4 * (found - without):+.2f}")
            frequency = cal._last.search.frequency
            periods.append(f"{1.0 / frequency / gap:.0f} rows" if frequency else "none")
        print(f"| {name} | {delay} | {', '.join(more)} | {', '.join(periods)} |", flush=True)


def main() -> None:
    require_compiled()
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["cycles", "courses"])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 48])
    parser.add_argument("--names", nargs="+", default=list(CYCLES))
    given = parser.parse_args()
    if given.only != "courses":
        cycles(tuple(given.seeds), tuple(given.delays), given.names)
    if given.only != "cycles":
        courses()


if __name__ == "__main__":
    main()
