"""River wrappers: calibrated classifiers and regressors, and the measures as River metrics (`metrics`)."""

from streamcal.river.binary import CalibratedClassifier, CrossCalibratedClassifier, ScoreCalibrator
from streamcal.river.fused import FusedClassifier
from streamcal.river.metrics import Brier
from streamcal.river.multiclass import CalibratedMulticlassClassifier
from streamcal.river.regressor import CalibratedRegressor

__all__ = [
    "Brier",
    "CalibratedClassifier",
    "CalibratedMulticlassClassifier",
    "CalibratedRegressor",
    "CrossCalibratedClassifier",
    "FusedClassifier",
    "ScoreCalibrator",
]
