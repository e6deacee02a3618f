"""Ad clicks with River: a pipeline that learns online, and whose probabilities are calibrated online.

    python examples/ad_clicks_river.py

The first stream ships with streamcal: phone calls instead of impressions, subscriptions instead of clicks, and the
same troubles, rare positives and drift. The second is a real ad-click stream with the score of a model that was served;
it may not be shipped, and is read if STREAMCAL_DATA names the folder that holds ipinyou_2997_test.csv.gz.
"""

import csv
import gzip
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from river import base, compose, linear_model, preprocessing

from streamcal import Auto, Identity
from streamcal.datasets import BANK_NUMERIC, bank
from streamcal.river import CalibratedClassifier, ScoreCalibrator
from streamcal.stream.prequential import Scoreboard

WORDS = ("job", "contact", "month", "poutcome")


def pipeline() -> base.Classifier:
    """Scaled numbers and one-hot words into a logistic regression."""
    numbers = compose.Select(*BANK_NUMERIC) | preprocessing.StandardScaler()
    words = compose.Select(*WORDS) | preprocessing.OneHotEncoder(drop_zeros=True)
    return (numbers + words) | linear_model.LogisticRegression()


def prequential(model: base.Classifier, rows: Iterable[tuple[dict, bool]]) -> Scoreboard:
    """Predict each row, then learn it; the score of the predictions."""
    board = Scoreboard()
    for x, y in rows:
        board.update(y, model.predict_proba_one(x)[True])
        model.learn_one(x, y)
    return board


def show(name: str, board: Scoreboard) -> None:
    """One line of the table."""
    print(f"{name:<34}{board.log_loss.get():>10.5f}{board.brier.get():>10.5f}{board.ratio.get():>18.3f}")


def ad_clicks(path: Path) -> Iterator[tuple[dict, bool]]:
    """The impressions: the score of the served model is already a feature."""
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            yield {"pctr": float(row["pctr"])}, row["click"] == "1"


print(f"{'conversions (bank)':<34}{'log loss':>10}{'Brier':>10}{'predicted/actual':>18}")
show("pipeline, raw", prequential(pipeline(), bank()))
# The wrapper is a River classifier itself: the pipeline scores each row before it learns it.
show("calibrated: Auto", prequential(CalibratedClassifier(pipeline(), Auto()), bank()))

log = Path(os.environ.get("STREAMCAL_DATA", ""), "ipinyou_2997_test.csv.gz")
if "STREAMCAL_DATA" in os.environ and log.exists():
    print(f"\n{'ad clicks (iPinYou 2997)':<34}{'log loss':>10}{'Brier':>10}{'predicted/actual':>18}")
    show("served score, raw", prequential(ScoreCalibrator(Identity(), on="pctr"), ad_clicks(log)))
    show("calibrated: Auto", prequential(ScoreCalibrator(Auto(), on="pctr"), ad_clicks(log)))
else:
    print("\nSet STREAMCAL_DATA to the folder of ipinyou_2997_test.csv.gz for the ad-click stream.")
