"""What slow solves read at a step: fits, cells and points, in place of times.

    python -m benchmarks.solve_counts      # writes its tables to docs/performance.md

Counts are those of the kernels, at 10,000 observations of a uniform stream, after a step as in `benchmarks.methods`.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.__main__ import DOCS, PAGE
from benchmarks.arrivals import Stream
from benchmarks.environment import require_compiled
from benchmarks.methods import DECAYING, HALF_LIVES, HELD, SEED
from benchmarks.report import fill, table
from streamcal import Decay
from streamcal.calibrators.registry import REGISTRY

STEPS = 1_000


def trends(name: str, held: int = HELD, steps: int = STEPS) -> tuple[float, float, float]:
    """Return medians: the fits of a step, the cells that each reads, and the fits whose logarithms are taken."""
    cal: Any
    cal, stream = REGISTRY[name](), Stream(held, steps, SEED)
    cal.learn_many(*stream.start())
    found = []
    for query, x, y in stream.part(0, steps).steps:
        cal.learn_one(x, y)
        cal.predict_one(query)
        path = cal._path._problem._path
        found.append((path.fits, len(path.values), path.computed))
    return tuple(median(column) for column in zip(*found, strict=True))


def points(name: str, half_life: float, held: int = HELD, steps: int = STEPS) -> float:
    """Return the median of the points, or of the nodes in their place, that all passes of a step read together."""
    method: Any = REGISTRY[name]
    cal, stream = method(forgetting=Decay(half_life)), Stream(held, steps, SEED)
    cal.learn_many(*stream.start())
    found, served = [], 0
    for query, x, y in stream.part(0, steps).steps:
        cal.learn_one(x, y)
        cal.predict_one(query)
        kernel = cal._following.kernel
        found.append(0 if kernel.served > served else kernel.passes.visited)  # fits from sums make no pass
        served = kernel.served
    return median(found)


def main() -> None:
    """Count, and write the tables."""
    require_compiled()
    rows = [(f"`{name}`", *(f"{number:,.0f}" for number in trends(name))) for name in ("linear-trend", "elite")]
    text = table(("medians of a step", "fits", "cells of each", "fits with logarithms, beside bounds"), rows)
    print(text)
    fill(DOCS / PAGE, {"trend-counts": text})
    rows = [(f"`{name}`", *(f"{points(name, half_life):,.0f}" for half_life in HALF_LIVES)) for name in DECAYING]
    text = table(("points read", *(f"{half_life:,}" for half_life in HALF_LIVES)), rows)
    print(text)
    fill(DOCS / PAGE, {"point-counts": text})


if __name__ == "__main__":
    main()
