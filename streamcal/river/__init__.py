"""River: calibrated classifiers and regressors and the Brier score, for `progressive_val_score` and pipelines."""

from streamcal.river.binary import CalibratedClassifier, CrossCalibratedClassifier, ScoreCalibrator
from streamcal.river.brier import Brier
from streamcal.river.regressor import CalibratedRegressor

__all__ = ["Brier", "CalibratedClassifier", "CalibratedRegressor", "CrossCalibratedClassifier", "ScoreCalibrator"]
