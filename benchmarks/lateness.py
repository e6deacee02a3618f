"""`Auto` where nobody tells how late labels are, on development streams of the race: told, not told, inferred, and
judged by what it said when it was asked, as in `LabelJoin`.

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
    from benchmarks.streams.entrants import as_issued, stepwise
    from streamcal import Auto
    from streamcal.metrics import LogLoss

    print("| stream | labels late | told | not told | as issued | inferred | `label_delay` | µs told | issued | inf. |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, delay in COURSES:
        data = stream(name, delay, ROWS)
        made: dict[str, Any] = {
            "told": Auto(delay),
            "not told": Auto(),
            "as issued": Auto(),
            "inferred": Auto("inferred"),
        }
        losses, costs = {}, {}
        for key, cal in made.items():
            begun = time.process_time()
            run = as_issued if key == "as issued" else stepwise
            p = run(cal, data.scores, data.y, delay, None, data.lateness)
            costs[key] = 1e6 * (time.process_time() - begun) / len(p)
            loss = LogLoss()
            loss.update_many(p, np.asarray(data.y))
            losses[key] = loss.value
        more = [f"{1e4 * (losses[key] - losses['told']):+.0f}" for key in ("not told", "as issued", "inferred")]
        found = made["inferred"].label_delay
        cost = " | ".join(f"{costs[key]:.0f}" for key in ("told", "as issued", "inferred"))
        late = f"{delay:,}{', random' if data.lateness is not None else ''}"
        print(f"| {name} | {late} | {losses['told']:.4f} | {' | '.join(more)} | {found} | {cost} |", flush=True)


if __name__ == "__main__":
    main()
