"""`Auto` where nobody tells how late labels are: told, not told and inferred, on development streams of the race.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.lateness

It prints a table of the log loss when told, and of what is more in 1e-4 nats, over the first 20,000 rows of each.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.environment import require_compiled

ROWS = 20_000
COURSES = (
    *(("elec2 frozen", 0), ("elec2 frozen", 48), ("elec2 frozen late", 1_000)),
    *(("elec2 frozen random", 48), ("elec2 frozen random", 1_000), ("elec2 online", 48)),
    *(("covtype frozen", 48), ("covtype naive Bayes", 48), ("bank_full MLP", 48)),
    *(("adult frozen", 48), ("adult frozen random", 1_000)),
    *(("cov-1d", 48), ("abrupt", 48), ("lab-10d-0.6", 48)),
    *(("leaves", 48), ("calibrated", 0), ("calibrated", 48)),
)


def main() -> None:
    require_compiled()
    from benchmarks.streams.catalogue import stream
    from benchmarks.streams.entrants import stepwise
    from streamcal import Auto
    from streamcal.metrics import LogLoss

    print("| stream | labels late | told | not told | inferred | `label_delay` | µs told | µs inferred |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, delay in COURSES:
        data = stream(name, delay, ROWS)
        made: dict[str, Any] = {"told": Auto(delay), "not told": Auto(), "inferred": Auto("inferred")}
        losses, costs = {}, {}
        for key, cal in made.items():
            begun = time.process_time()
            p = stepwise(cal, data.scores, data.y, delay, None, data.lateness)
            costs[key] = 1e6 * (time.process_time() - begun) / len(p)
            loss = LogLoss()
            loss.update_many(p, np.asarray(data.y))
            losses[key] = loss.value
        more = [f"{1e4 * (losses[key] - losses['told']):+.0f}" for key in ("not told", "inferred")]
        found = made["inferred"].label_delay
        cost = f"{costs['told']:.0f} | {costs['inferred']:.0f}"
        late = f"{delay:,}{', random' if data.lateness is not None else ''}"
        print(f"| {name} | {late} | {losses['told']:.4f} | {more[0]} | {more[1]} | {found} | {cost} |", flush=True)


if __name__ == "__main__":
    main()
