"""Streaming, mergeable measures of probabilities; data of reliability diagrams (see `streamcal.plot`)."""

from streamcal.metrics.base import Metric
from streamcal.metrics.brier import Brier
from streamcal.metrics.calibration_ratio import CalibrationRatio
from streamcal.metrics.debiased_ece import DebiasedECE
from streamcal.metrics.ece import EqualMassECE
from streamcal.metrics.log_loss import LogLoss
from streamcal.metrics.log_loss_difference import LogLossDifference
from streamcal.metrics.reliability import ReliabilityBin, ReliabilityData

__all__ = [
    "Brier",
    "CalibrationRatio",
    "DebiasedECE",
    "EqualMassECE",
    "LogLoss",
    "LogLossDifference",
    "Metric",
    "ReliabilityBin",
    "ReliabilityData",
]
