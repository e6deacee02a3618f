"""What `Auto` loses where scores are calibrated already, which no method can improve.

    python -m benchmarks.calibrated_scores

It prints the summed log loss above that of the score, in nats, on calibrated scores of `benchmarks.streams.further`.
"""

from __future__ import annotations

import numpy as np

from benchmarks.environment import require_compiled

#: The two development streams of the race (centre and spread of the log-odds, seed), and four more of each kind; and
#: the two held-out ones.
STREAMS = {
    "calibrated": [(0.0, 1.5, seed) for seed in (0, 100, 101, 102, 103)],
    "calibrated, rare": [(-4.5, 1.0, seed) for seed in (1, 100, 101, 102, 103)],
    "calibrated again; calibrated, rare again": [(1.0, 1.0, 2), (-5.5, 1.0, 3)],
}
DELAYS = (0, 48)


def main() -> None:
    """Print the log loss of `Auto` minus that of the score, in nats, on streams of calibrated scores."""
    require_compiled()
    from benchmarks.streams.entrants import stepwise
    from benchmarks.streams.further import calibrated
    from streamcal import Auto
    from streamcal.metrics import LogLoss

    print("| stream | labels late | nats above the score, one for each seed |\n|---|---:|---|")
    for name, streams in STREAMS.items():
        for delay in DELAYS:
            above = []
            for given in streams:
                made, losses = calibrated(*given), []
                for p in (stepwise(Auto(delay), made.scores, made.y, delay), made.scores):
                    loss = LogLoss()
                    loss.update_many(made.y, np.asarray(p))
                    losses.append(loss.get() * len(made.y))
                above.append(f"{losses[0] - losses[1]:.1f}")
            print(f"| {name} | {delay} | {', '.join(above)} |", flush=True)


if __name__ == "__main__":
    main()
