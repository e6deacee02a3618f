"""What the measures of probabilities cost: a value, a floor and an update; the table of docs/measures.md.

python -m benchmarks.measure_times
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.environment import environment, require_compiled
from streamcal.metrics import AUC, CORP, CalibrationSlope, DebiasedECE, EqualMassECE, SmoothECE
from streamcal.metrics.base import Metric
from streamcal.parameters.types import FloatArray

SEED, REPEATS, UPDATES = 1, 5, 20_000
MEASURES: tuple[Callable[[], Metric], ...] = (
    CORP, EqualMassECE, DebiasedECE, CalibrationSlope, AUC, SmoothECE,
)  # fmt: skip
#: Calibrated, so that errors are small, for which grids of a smooth error are fine; and with nearly all cells in use.
STREAMS: dict[str, tuple[int, Callable[[np.random.Generator, int], FloatArray]]] = {
    "1,000 of Beta(1, 4)": (1_000, lambda rng, n: rng.beta(1, 4, n)),
    "a million of Beta(1, 4)": (1_000_000, lambda rng, n: rng.beta(1, 4, n)),
    "ten million of Beta(1, 4)": (10_000_000, lambda rng, n: rng.beta(1, 4, n)),
    "a million click rates, .01 Beta(1, 4)": (1_000_000, lambda rng, n: 0.01 * rng.beta(1, 4, n)),
    "a million of Beta(.01, .01), most cells in use": (1_000_000, lambda rng, n: rng.beta(0.01, 0.01, n)),
}


def milliseconds(call: Callable[[], Any]) -> float:
    """Return the least processor time of a call."""
    found = []
    for _ in range(REPEATS):
        start = thread_time()
        call()
        found.append(thread_time() - start)
    return 1e3 * min(found)


def row(make: Callable[[], Metric], p: FloatArray, y: FloatArray) -> str:
    """Return the times of one measure of a stream, as cells of a table."""
    measure, other = make(), make()
    measure.update_many(y, p)
    first = y[:UPDATES], p[:UPDATES]
    singly = list(zip(*(column.tolist() for column in first), strict=True))

    def one_by_one() -> None:
        for observation in singly:
            other.update(*observation)

    times = (
        f"{milliseconds(lambda: measure.get()):.2f}",
        f"{milliseconds(lambda: measure.floor):.1f}" if hasattr(measure, "floor") else "",
        f"{1e3 * milliseconds(one_by_one) / len(singly):.2f}",
        f"{1e6 * milliseconds(lambda: other.update_many(*first)) / len(singly):.0f}",
    )
    return f"{measure!r} | {measure.get():.2g} | " + " | ".join(times)


def main() -> None:
    """Print the table of all measures on all streams."""
    require_compiled()
    for name, value in environment(SEED).items():
        print(f"{name}: {value}")
    print("\n| forecasts | measure | value | value, ms | floor, ms | update, µs | update_many, ns |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, (n, forecasts) in STREAMS.items():
        rng = np.random.default_rng(SEED)
        p = forecasts(rng, n)
        y = (rng.random(n) < p).astype(float)
        for make in MEASURES:
            print(f"| {name} | {row(make, p, y)} |")


if __name__ == "__main__":
    main()
