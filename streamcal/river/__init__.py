"""River: calibrated classifiers and the Brier score, for `evaluate.progressive_val_score` and pipelines."""

from streamcal.river.binary import CalibratedClassifier, CrossCalibratedClassifier, ScoreCalibrator
from streamcal.river.brier import Brier

__all__ = ["Brier", "CalibratedClassifier", "CrossCalibratedClassifier", "ScoreCalibrator"]
