"""Sizes of saved states after 20,000 different scores, and how long they take: the tables of docs/states_measured.md.

Times are of the processor, the least of some repetitions; those of large states are of 10⁶ different scores.

python -m benchmarks.state_sizes
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from streamcal import (
    Auto,
    Bernstein,
    Calibrator,
    Decay,
    HistogramBinning,
    Isotonic,
    OnlinePlatt,
    Platt,
    TrackingOPS,
    VennAbers,
    Window,
)

ROWS, LARGE, SEED, REPEATS = 20_000, 1_000_000, 0, 5
#: Small states are written and read so many times in a row, for a time that the clock can see.
IN_A_ROW = 50
SUBJECTS: dict[str, Calibrator] = {
    "OnlinePlatt()": OnlinePlatt(),
    "TrackingOPS()": TrackingOPS(),
    "Bernstein(20)": Bernstein(20),
    "VennAbers(resolution=4096)": VennAbers(resolution=4096),
    "HistogramBinning(15)": HistogramBinning(15),
    "Auto()": Auto(),
    "VennAbers(forgetting=Window(5_000))": VennAbers(forgetting=Window(5_000)),
    "VennAbers()": VennAbers(),
}


LARGE_SUBJECTS: dict[str, Calibrator] = {
    "VennAbers()": VennAbers(),
    "Isotonic(forgetting=Decay(100_000))": Isotonic(forgetting=Decay(100_000)),
    "Platt(forgetting=Window(1_000_000))": Platt(forgetting=Window(1_000_000)),
}


def seconds(work: Callable[[], Any], in_a_row: int) -> float:
    """Return the processor time of a call: the least of some repetitions."""
    times = []
    for _ in range(REPEATS):
        start = process_time()
        for _ in range(in_a_row):
            work()
        times.append((process_time() - start) / in_a_row)
    return min(times)


def times(cal: Calibrator, in_a_row: int) -> tuple[int, float, float]:
    """Return the number of bytes, and the seconds to write and to read them."""
    content = cal.to_bytes()
    kind = type(cal)
    return len(content), seconds(cal.to_bytes, in_a_row), seconds(lambda: kind.from_bytes(content), in_a_row)


def main() -> None:
    """Print the sizes and times of all states."""
    rng = np.random.default_rng(SEED)
    scores = rng.random(LARGE)
    y = rng.random(LARGE) < scores
    print("| method, after 20,000 different scores | bytes | compressed | as JSON | `to_bytes` µs | `from_bytes` µs |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, cal in SUBJECTS.items():
        cal.learn_many(scores[:ROWS], y[:ROWS])
        size, write, read = times(cal, IN_A_ROW)
        sizes = size, len(cal.to_bytes(compress=True)), len(json.dumps(cal.state_dict()))
        shown = [f"{number:,.0f}" for number in (*sizes, 1e6 * write, 1e6 * read)]
        print(f"| `{name}` | " + " | ".join(shown) + " |", flush=True)
    print("\n| method, after 1,000,000 different scores | bytes | `to_bytes` MB/s | `from_bytes` MB/s |")
    print("|---|---:|---:|---:|")
    for name, cal in LARGE_SUBJECTS.items():
        cal.learn_many(scores, y)
        size, write, read = times(cal, 1)
        print(f"| `{name}` | {size:,} | {size / write / 1e6:,.0f} | {size / read / 1e6:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
