"""Streaming, mergeable metrics of probabilities and of distributions, and the data of reliability diagrams."""

from streamcal.metrics.base import Metric
from streamcal.metrics.brier import Brier
from streamcal.metrics.calibration_ratio import CalibrationRatio
from streamcal.metrics.coverage import IntervalCoverage
from streamcal.metrics.crps import CRPS, Pinball
from streamcal.metrics.debiased_ece import DebiasedECE
from streamcal.metrics.distribution import DistributionMetric
from streamcal.metrics.ece import EqualMassECE
from streamcal.metrics.log_likelihood import LogLikelihood
from streamcal.metrics.log_loss import LogLoss
from streamcal.metrics.log_loss_difference import LogLossDifference
from streamcal.metrics.multiclass import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
from streamcal.metrics.pit_histogram import PITHistogram
from streamcal.metrics.reliability import ReliabilityBin, ReliabilityData

__all__ = [
    "CRPS",
    "Brier",
    "CalibrationRatio",
    "ClasswiseECE",
    "DebiasedECE",
    "DistributionMetric",
    "EqualMassECE",
    "IntervalCoverage",
    "LogLikelihood",
    "LogLoss",
    "LogLossDifference",
    "Metric",
    "MulticlassBrier",
    "MulticlassLogLoss",
    "PITHistogram",
    "Pinball",
    "ReliabilityBin",
    "ReliabilityData",
]
