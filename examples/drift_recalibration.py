"""Recalibration under drift: a model is trained once and then served, while the data drift.

    python examples/drift_recalibration.py

Three ways to keep its scores calibrated: remember everything, remember the last observations (`Window`), or watch the
calibrated probabilities with River's ADWIN and restart (`clone`) when they no longer fit the outcomes.
"""

from itertools import islice, pairwise

from river import compose, drift, linear_model, preprocessing

from streamcal import Bernstein, Identity, Window
from streamcal.calibrators.base import Calibrator
from streamcal.datasets import BANK_CATEGORICAL, BANK_NUMERIC, bank
from streamcal.metrics import LogLoss

TRAINING = 8_000
QUARTERS = 4


def served_scores() -> list[tuple[float, bool]]:
    """A logistic regression learns the first calls of the bank stream; its scores of all later ones, with labels."""
    numbers = compose.Select(*BANK_NUMERIC) | preprocessing.StandardScaler()
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder(drop_zeros=True)
    model = (numbers + words) | linear_model.LogisticRegression()
    rows = bank()
    for x, y in islice(rows, TRAINING):
        model.learn_one(x, y)
    return [(model.predict_proba_one(x)[True], y) for x, y in rows]


def run(name: str, calibrator: Calibrator, stream: list[tuple[float, bool]], *, watch: bool = False) -> None:
    """Predict, then learn; prints the log loss of the whole stream and of each quarter of it."""
    whole, quarters = LogLoss(), [LogLoss() for _ in range(QUARTERS)]
    detector, resets = drift.ADWIN(), 0
    for i, (score, y) in enumerate(stream):
        p = calibrator.predict_one(score)
        for loss in (whole, quarters[i * QUARTERS // len(stream)]):
            loss.update(y, p)
        calibrator.learn_one(score, y)
        if watch:
            detector.update(y - p)  # its mean is 0 as long as the probabilities are right on the whole
            if detector.drift_detected:
                calibrator = calibrator.clone()  # the same parameters, nothing learned
                resets += 1
    columns = "".join(f"{loss.get():>10.4f}" for loss in (whole, *quarters))
    print(f"{name:<24}{columns}{resets if watch else '-':>8}")


stream = served_scores()
cut = [len(stream) * q // QUARTERS for q in range(QUARTERS + 1)]
rates = [sum(y for _, y in stream[a:b]) / (b - a) for a, b in pairwise(cut)]
print(
    "log loss".ljust(24) + "".join(f"{title:>10}" for title in ("all", "1st", "2nd", "3rd", "4th")) + f"{'resets':>8}"
)
run("served score, raw", Identity(), stream)
run("Forever", Bernstein(degree=10), stream)
run("Window(1000)", Bernstein(degree=10, forgetting=Window(1_000)), stream)
run("ADWIN resets", Bernstein(degree=10), stream, watch=True)
overall = sum(y for _, y in stream) / len(stream)
print("share of positives".ljust(24) + "".join(f"{rate:>10.1%}" for rate in (overall, *rates)))
