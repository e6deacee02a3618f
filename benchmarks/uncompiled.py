"""Microseconds of a step, predict and then learn, with compiled kernels and without: the factors in `streamcal doctor`.

Each form runs in a process of its own; the uncompiled one in a copy of the package without its binaries. Processor
time, the least of some repetitions.

python -m benchmarks.uncompiled
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

ROWS, SLOW_ROWS, SEED, REPEATS = 3_000, 100, 0, 3


def microseconds(rows: int) -> dict[str, float]:
    """Return the microseconds of a step in this process, by method of the demonstration."""
    from streamcal.app.demo import methods
    from streamcal.calibrators.auto import Auto

    draw, found = random.Random(SEED), {}
    for name, calibrator in {**methods(), "auto": Auto()}.items():
        n = min(rows, SLOW_ROWS) if name == "auto" and rows < ROWS else ROWS
        stream = [(score := draw.random(), draw.random() < score) for _ in range(n)]
        times = []
        for _ in range(REPEATS):
            one, begun = calibrator.clone(), process_time()
            for score, y in stream:
                one.predict_one(score)
                one.learn_one(score, y)
            times.append((process_time() - begun) / n)
        found[name] = 1e6 * min(times)
    return found


def uncompiled() -> dict[str, float]:
    """`microseconds` of a copy of the package without compiled kernels."""
    import streamcal

    with tempfile.TemporaryDirectory() as folder:
        binaries = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(Path(streamcal.__file__).parent, Path(folder, "streamcal"), ignore=binaries)
        code = "from benchmarks.uncompiled import microseconds; import json; print(json.dumps(microseconds(100)))"
        paths = os.pathsep.join([folder, str(Path(__file__).parents[1])])
        place = {**os.environ, "PYTHONPATH": paths, "STREAMCAL_COMPILE": "0"}
        done = subprocess.run([sys.executable, "-P", "-c", code], env=place, capture_output=True, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def main() -> None:
    """Print the table."""
    fast, slow = microseconds(ROWS), uncompiled()
    print(f"{'method':12} {'compiled':>10} {'uncompiled':>11} {'times':>6}")
    for name, one in fast.items():
        print(f"{name:12} {one:8.2f} µs {slow[name]:8.0f} µs {slow[name] / one:6.0f}")


if __name__ == "__main__":
    main()
