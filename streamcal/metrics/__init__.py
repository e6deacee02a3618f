"""Streaming, mergeable metrics of probabilities and of distributions, and the data of reliability diagrams."""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.metrics.auc import AUC
    from streamcal.metrics.base import Metric
    from streamcal.metrics.brier import Brier
    from streamcal.metrics.calibration_ratio import CalibrationRatio
    from streamcal.metrics.calibration_slope import CalibrationSlope, Recalibration
    from streamcal.metrics.corp import CORP, CORPBlock, CORPReliability, Decomposition
    from streamcal.metrics.coverage import IntervalCoverage
    from streamcal.metrics.crps import CRPS, IntervalScore, Pinball, Sharpness, ThresholdWeightedCRPS
    from streamcal.metrics.debiased_ece import DebiasedECE
    from streamcal.metrics.distribution import DistributionMetric
    from streamcal.metrics.ece import EqualMassECE
    from streamcal.metrics.fieldwise import FieldwiseECE, LevelData
    from streamcal.metrics.grid_ece import GridECE
    from streamcal.metrics.log_likelihood import LogLikelihood
    from streamcal.metrics.log_loss import LogLoss
    from streamcal.metrics.log_loss_difference import LogLossDifference
    from streamcal.metrics.multiclass import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
    from streamcal.metrics.normalized_entropy import NormalizedEntropy
    from streamcal.metrics.pit_histogram import PITHistogram
    from streamcal.metrics.reliability import ReliabilityBin, ReliabilityData
    from streamcal.metrics.smooth_ece import SmoothECE
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "AUC": "streamcal.metrics.auc.AUC",
            "Brier": "streamcal.metrics.brier.Brier",
            "CORP": "streamcal.metrics.corp.CORP",
            "CORPBlock": "streamcal.metrics.corp.CORPBlock",
            "CORPReliability": "streamcal.metrics.corp.CORPReliability",
            "CRPS": "streamcal.metrics.crps.CRPS",
            "CalibrationRatio": "streamcal.metrics.calibration_ratio.CalibrationRatio",
            "CalibrationSlope": "streamcal.metrics.calibration_slope.CalibrationSlope",
            "ClasswiseECE": "streamcal.metrics.multiclass.ClasswiseECE",
            "DebiasedECE": "streamcal.metrics.debiased_ece.DebiasedECE",
            "Decomposition": "streamcal.metrics.corp.Decomposition",
            "DistributionMetric": "streamcal.metrics.distribution.DistributionMetric",
            "EqualMassECE": "streamcal.metrics.ece.EqualMassECE",
            "FieldwiseECE": "streamcal.metrics.fieldwise.FieldwiseECE",
            "IntervalCoverage": "streamcal.metrics.coverage.IntervalCoverage",
            "IntervalScore": "streamcal.metrics.crps.IntervalScore",
            "GridECE": "streamcal.metrics.grid_ece.GridECE",
            "LevelData": "streamcal.metrics.fieldwise.LevelData",
            "LogLikelihood": "streamcal.metrics.log_likelihood.LogLikelihood",
            "LogLoss": "streamcal.metrics.log_loss.LogLoss",
            "LogLossDifference": "streamcal.metrics.log_loss_difference.LogLossDifference",
            "Metric": "streamcal.metrics.base.Metric",
            "MulticlassBrier": "streamcal.metrics.multiclass.MulticlassBrier",
            "MulticlassLogLoss": "streamcal.metrics.multiclass.MulticlassLogLoss",
            "NormalizedEntropy": "streamcal.metrics.normalized_entropy.NormalizedEntropy",
            "PITHistogram": "streamcal.metrics.pit_histogram.PITHistogram",
            "Pinball": "streamcal.metrics.crps.Pinball",
            "Recalibration": "streamcal.metrics.calibration_slope.Recalibration",
            "ReliabilityBin": "streamcal.metrics.reliability.ReliabilityBin",
            "ReliabilityData": "streamcal.metrics.reliability.ReliabilityData",
            "Sharpness": "streamcal.metrics.crps.Sharpness",
            "SmoothECE": "streamcal.metrics.smooth_ece.SmoothECE",
            "ThresholdWeightedCRPS": "streamcal.metrics.crps.ThresholdWeightedCRPS",
        },
    )

__all__ = [
    "AUC",
    "CORP",
    "CRPS",
    "Brier",
    "CORPBlock",
    "CORPReliability",
    "CalibrationRatio",
    "CalibrationSlope",
    "ClasswiseECE",
    "DebiasedECE",
    "Decomposition",
    "DistributionMetric",
    "EqualMassECE",
    "FieldwiseECE",
    "GridECE",
    "IntervalCoverage",
    "IntervalScore",
    "LevelData",
    "LogLikelihood",
    "LogLoss",
    "LogLossDifference",
    "Metric",
    "MulticlassBrier",
    "MulticlassLogLoss",
    "NormalizedEntropy",
    "PITHistogram",
    "Pinball",
    "Recalibration",
    "ReliabilityBin",
    "ReliabilityData",
    "Sharpness",
    "SmoothECE",
    "ThresholdWeightedCRPS",
]
