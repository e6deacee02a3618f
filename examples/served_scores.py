"""Plain scores of a served model: late labels, a restart, two machines, and threads that serve.

    python examples/served_scores.py

The traffic is made up, so that the true click probability of every impression is known: the served model is too high
and overconfident, by a sigmoid, which is what Platt scaling repairs. A click comes up to two thousand impressions after
its score was served.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from scipy.special import expit

from streamcal import Platt
from streamcal.metrics import CalibrationRatio, LogLoss
from streamcal.stream.durable import load, save

IMPRESSIONS = 20_000
LONGEST_DELAY = 2_000


def traffic(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores that were served, clicks, delays of the clicks in impressions, and true click probabilities."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-3.5, 1.0, IMPRESSIONS)
    truth = expit(log_odds)
    score = expit(1.5 * log_odds + 2.5)
    return score, rng.random(IMPRESSIONS) < truth, rng.integers(1, LONGEST_DELAY, IMPRESSIONS), truth


def day(calibrator: Platt, seed: int) -> int:
    """Learn a day of traffic as it comes in; how many labels had to be corrected."""
    scores, clicks, delays, _ = traffic(seed)
    waiting: list[tuple[int, float]] = []  # clicks to come: when, and the score that was issued
    corrected = 0
    for i, score in enumerate(scores.tolist()):
        calibrator.learn_one(score, False)  # no click yet
        if clicks[i]:
            heappush(waiting, (i + int(delays[i]), score))
        while waiting and (waiting[0][0] <= i or i == IMPRESSIONS - 1):
            _, issued = heappop(waiting)
            calibrator.unlearn_one(issued, False)  # the label was wrong: take it back, exactly
            calibrator.learn_one(issued, True)
            corrected += 1
    return corrected


# Two machines share the traffic. Machine A is restarted after its first day and resumes from the saved state.
folder = tempfile.TemporaryDirectory()
state = Path(folder.name, "machine-a.json")
machine_a, machine_b = Platt(), Platt()
corrected = day(machine_a, seed=11)
save(machine_a, state)
machine_a = load(state)
corrected += day(machine_a, seed=12) + day(machine_b, seed=13)
folder.cleanup()

# At night their statistics are added up: the same as one machine that saw everything, with the right labels at once.
machine_a.merge(machine_b)
one = Platt()
for seed in (11, 12, 13):
    scores, clicks, _, _ = traffic(seed)
    one.learn_many(scores, clicks)

# The serving threads are given an immutable snapshot.
snapshot = machine_a.map()
scores, clicks, _, truth = traffic(seed=14)
with ThreadPoolExecutor(4) as pool:
    calibrated = np.concatenate(list(pool.map(snapshot.predict_many, np.array_split(scores, 8))))

print(f"observations held: {machine_a.n:,.0f}; labels corrected: {corrected:,}")
print(
    f"largest difference to one machine with all labels at once: {abs(calibrated - one.predict_many(scores)).max():.1e}"
)
print(f"\n{'a day nobody learned':<24}{'log loss':>10}{'predicted/actual':>18}{'mean |p - truth|':>18}")
for name, p in (("served score, raw", scores), ("calibrated", calibrated), ("true probability", truth)):
    loss, ratio = LogLoss(), CalibrationRatio()
    loss.update_many(clicks, p)
    ratio.update_many(clicks, p)
    print(f"{name:<24}{loss.get():>10.4f}{ratio.get():>18.3f}{abs(p - truth).mean():>18.5f}")
