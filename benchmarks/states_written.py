"""How far writing a state moves the later forecasts of what is written: the table of docs/states_measured.md.

Two calibrators learn the same; the state of one is written after every 50 observations, and forecasts of both are
compared between. Methods that are not named in the table differ in no bit.

python -m benchmarks.states_written
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from random import Random

import numpy as np

from streamcal import REGISTRY, Calibrator, Decay, VennAbers

ROWS, EVERY, SEEDS = 2_000, 50, (0, 1)
PROBES = np.arange(1, 64) / 64
WEIGHTS: dict[str, Callable[[Random], float]] = {
    "1": lambda rng: 1.0,
    "quarters": lambda rng: rng.randrange(1, 40) / 4,
    "tenths": lambda rng: rng.randrange(1, 40) / 10,
    "log-normal, σ = 2": lambda rng: rng.lognormvariate(0.0, 2.0),
    "log-normal, σ = 6": lambda rng: rng.lognormvariate(0.0, 6.0),
}
DECAYING = "venn-abers, Decay(500)"
SUBJECTS: dict[str, Callable[[], Calibrator]] = {**REGISTRY, DECAYING: lambda: VennAbers(forgetting=Decay(500))}


def moved(make: Callable[[], Calibrator], weight: Callable[[Random], float], seed: int, rows: int = ROWS) -> float:
    """Return the largest difference of forecasts between a calibrator whose state is written and one whose is not."""
    rng, largest = Random(seed), 0.0
    written, other = make(), make()
    for i in range(rows):
        score = rng.random()
        given = score, rng.random() < score**2, weight(rng)
        written.learn_one(*given)
        other.learn_one(*given)
        if i % EVERY == EVERY - 1:
            written.state_dict()
        elif i % EVERY == EVERY // 2:
            difference = np.abs(written.predict_many(PROBES) - other.predict_many(PROBES))
            largest = max(largest, float(difference.max()))
    return largest


def main() -> None:
    """Print the largest differences by method and kind of weight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="observations")
    rows = parser.parse_args().rows
    print("| method | " + " | ".join(WEIGHTS) + " |")
    print("|---|" + "---:|" * len(WEIGHTS))
    for name, make in SUBJECTS.items():
        found = [max(moved(make, weight, seed, rows) for seed in SEEDS) for weight in WEIGHTS.values()]
        if any(found):
            shown = ["0" if one == 0.0 else f"{one:.0e}" for one in found]
            print(f"| `{name}` | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
