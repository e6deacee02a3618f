"""River: calibrated classifiers and the Brier score, for `evaluate.progressive_val_score` and pipelines."""

from streamcal.river.binary import CalibratedClassifier, CrossCalibratedClassifier, ScoreCalibrator
from streamcal.river.brier import Brier
from streamcal.river.multiclass import CalibratedMulticlassClassifier

__all__ = [
    "Brier",
    "CalibratedClassifier",
    "CalibratedMulticlassClassifier",
    "CrossCalibratedClassifier",
    "ScoreCalibrator",
]
