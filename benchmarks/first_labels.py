"""Where `Auto` loses against `VennAbers` on overconfident scores: before the first label, soon after it, and later.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.first_labels

It prints summed log losses, in nats, on the streams of the race with naive Bayes and with a network as the base.
"""

from __future__ import annotations

import numpy as np

from benchmarks.environment import require_compiled

STREAMS = ("adult naive Bayes", "census naive Bayes", "bank_full MLP", "dota2 MLP")
DELAYS = (0, 48)
#: Forecasts are told apart at the first that can know a label, and at this one.
SOON = 200


def main() -> None:
    require_compiled()
    from benchmarks.periods import losses
    from benchmarks.streams.catalogue import stream
    from benchmarks.streams.entrants import stepwise
    from streamcal import Auto, VennAbers

    print(f"| stream | rows | labels late | without a label | from then to {SOON} | later |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in STREAMS:
        for delay in DELAYS:
            data = stream(name, delay)
            of_auto, of_other = (
                losses(stepwise(cal, data.scores, data.y, delay), data.y) for cal in (Auto(delay), VennAbers())
            )
            parts = [part.sum() for part in np.split(of_auto - of_other, (delay + 1, SOON))]
            print(
                f"| {name} | {len(data.y):,} | {delay} | {' | '.join(f'{part:+.1f}' for part in parts)} |", flush=True
            )


if __name__ == "__main__":
    main()
