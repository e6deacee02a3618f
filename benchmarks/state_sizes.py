"""Sizes of saved states after 20,000 different scores: the table of docs/states.md.

python -m benchmarks.state_sizes
"""

from __future__ import annotations

import json

import numpy as np

from streamcal import Auto, Bernstein, Calibrator, HistogramBinning, OnlinePlatt, TrackingOPS, VennAbers, Window

ROWS, SEED = 20_000, 0
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


def main() -> None:
    rng = np.random.default_rng(SEED)
    scores = rng.random(ROWS)
    y = rng.random(ROWS) < scores
    print("| method, after 20,000 different scores | bytes | compressed | as JSON |")
    print("|---|---:|---:|---:|")
    for name, cal in SUBJECTS.items():
        cal.learn_many(scores, y)
        sizes = len(cal.to_bytes()), len(cal.to_bytes(compress=True)), len(json.dumps(cal.state_dict()))
        print(f"| `{name}` | " + " | ".join(f"{size:,}" for size in sizes) + " |")


if __name__ == "__main__":
    main()
