"""Streaming, mergeable measures of probabilities; data of reliability diagrams (see `streamcal.plot`)."""

from streamcal.metrics.base import Metric
from streamcal.metrics.brier import Brier
from streamcal.metrics.calibration_ratio import CalibrationRatio
from streamcal.metrics.ece import EqualMassECE
from streamcal.metrics.log_loss import LogLoss
from streamcal.metrics.multiclass import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
from streamcal.metrics.reliability import ReliabilityBin, ReliabilityData

__all__ = [
    "Brier",
    "CalibrationRatio",
    "ClasswiseECE",
    "EqualMassECE",
    "LogLoss",
    "Metric",
    "MulticlassBrier",
    "MulticlassLogLoss",
    "ReliabilityBin",
    "ReliabilityData",
]
