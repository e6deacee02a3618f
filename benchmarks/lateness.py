"""`Auto` where nobody tells how late labels are, on development streams of the race: told, not told, inferred, and
judged by what it said when it was asked, as in `LabelJoin`.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.lateness

It prints a table of the log loss when told, and of what is more in 1e-4 nats, over the first 20,000 rows of each; and
one, of all streams of the race, of what `Auto(48)` loses where every label is known at once.
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


def loss(p: Any, y: Any) -> float:
    from streamcal.metrics import LogLoss

    found = LogLoss()
    found.update_many(p, np.asarray(y))
    return found.value


def told_wrongly() -> None:
    """The delay is told, and is none."""
    from benchmarks.streams.catalogue import names, stream
    from benchmarks.streams.entrants import stepwise
    from streamcal import Auto

    print("| stream | `Auto()` | told 48 |\n|---|---:|---:|")
    for development in (True, False):
        for further in (False, True):
            for name in names(development, further):
                data = stream(name, 0, ROWS)
                right, wrong = (loss(stepwise(Auto(d), data.scores, data.y, 0, data.t), data.y) for d in (0, 48))
                print(f"| {name} | {right:.4f} | {1e4 * (wrong - right):+.1f} |", flush=True)


def main() -> None:
    require_compiled()
    from benchmarks.streams.catalogue import stream
    from benchmarks.streams.entrants import as_issued, stepwise
    from streamcal import Auto

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
            losses[key] = loss(p, data.y)
        more = [f"{1e4 * (losses[key] - losses['told']):+.0f}" for key in ("not told", "as issued", "inferred")]
        found = made["inferred"].label_delay
        cost = " | ".join(f"{costs[key]:.0f}" for key in ("told", "as issued", "inferred"))
        late = f"{delay:,}{', random' if data.lateness is not None else ''}"
        print(f"| {name} | {late} | {losses['told']:.4f} | {' | '.join(more)} | {found} | {cost} |", flush=True)
    told_wrongly()


if __name__ == "__main__":
    main()
