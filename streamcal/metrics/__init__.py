"""Streaming, mergeable metrics of probabilities and of distributions, and the data of reliability diagrams."""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.metrics.base import Metric
    from streamcal.metrics.brier import Brier
    from streamcal.metrics.calibration_ratio import CalibrationRatio
    from streamcal.metrics.coverage import IntervalCoverage
    from streamcal.metrics.crps import CRPS, IntervalScore, Pinball, Sharpness, ThresholdWeightedCRPS
    from streamcal.metrics.debiased_ece import DebiasedECE
    from streamcal.metrics.distribution import DistributionMetric
    from streamcal.metrics.ece import EqualMassECE
    from streamcal.metrics.fieldwise import FieldwiseECE, LevelData
    from streamcal.metrics.log_likelihood import LogLikelihood
    from streamcal.metrics.log_loss import LogLoss
    from streamcal.metrics.log_loss_difference import LogLossDifference
    from streamcal.metrics.multiclass import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
    from streamcal.metrics.pit_histogram import PITHistogram
    from streamcal.metrics.reliability import ReliabilityBin, ReliabilityData
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "Brier": "streamcal.metrics.brier.Brier",
            "CRPS": "streamcal.metrics.crps.CRPS",
            "CalibrationRatio": "streamcal.metrics.calibration_ratio.CalibrationRatio",
            "ClasswiseECE": "streamcal.metrics.multiclass.ClasswiseECE",
            "DebiasedECE": "streamcal.metrics.debiased_ece.DebiasedECE",
            "DistributionMetric": "streamcal.metrics.distribution.DistributionMetric",
            "EqualMassECE": "streamcal.metrics.ece.EqualMassECE",
            "FieldwiseECE": "streamcal.metrics.fieldwise.FieldwiseECE",
            "IntervalCoverage": "streamcal.metrics.coverage.IntervalCoverage",
            "IntervalScore": "streamcal.metrics.crps.IntervalScore",
            "LevelData": "streamcal.metrics.fieldwise.LevelData",
            "LogLikelihood": "streamcal.metrics.log_likelihood.LogLikelihood",
            "LogLoss": "streamcal.metrics.log_loss.LogLoss",
            "LogLossDifference": "streamcal.metrics.log_loss_difference.LogLossDifference",
            "Metric": "streamcal.metrics.base.Metric",
            "MulticlassBrier": "streamcal.metrics.multiclass.MulticlassBrier",
            "MulticlassLogLoss": "streamcal.metrics.multiclass.MulticlassLogLoss",
            "PITHistogram": "streamcal.metrics.pit_histogram.PITHistogram",
            "Pinball": "streamcal.metrics.crps.Pinball",
            "ReliabilityBin": "streamcal.metrics.reliability.ReliabilityBin",
            "ReliabilityData": "streamcal.metrics.reliability.ReliabilityData",
            "Sharpness": "streamcal.metrics.crps.Sharpness",
            "ThresholdWeightedCRPS": "streamcal.metrics.crps.ThresholdWeightedCRPS",
        },
    )

__all__ = [
    "CRPS",
    "Brier",
    "CalibrationRatio",
    "ClasswiseECE",
    "DebiasedECE",
    "DistributionMetric",
    "EqualMassECE",
    "FieldwiseECE",
    "IntervalCoverage",
    "IntervalScore",
    "LevelData",
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
    "Sharpness",
    "ThresholdWeightedCRPS",
]
