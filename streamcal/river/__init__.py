"""River wrappers: calibrated classifiers and regressors, and the Brier score as a metric."""

from streamcal.river.binary import CalibratedClassifier, CrossCalibratedClassifier, ScoreCalibrator
from streamcal.river.brier import Brier
from streamcal.river.fused import FusedClassifier
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
