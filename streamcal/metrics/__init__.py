"""Streaming, mergeable metrics of probabilities and of distributions, and the data of reliability diagrams."""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.metrics.auc import AUC as AUC
    from streamcal.metrics.base import Metric as Metric
    from streamcal.metrics.brier import Brier as Brier
    from streamcal.metrics.calibration_ratio import CalibrationRatio as CalibrationRatio
    from streamcal.metrics.calibration_slope import CalibrationSlope as CalibrationSlope
    from streamcal.metrics.calibration_slope import Recalibration as Recalibration
    from streamcal.metrics.corp import CORP as CORP
    from streamcal.metrics.corp import CORPBlock as CORPBlock
    from streamcal.metrics.corp import CORPReliability as CORPReliability
    from streamcal.metrics.corp import Decomposition as Decomposition
    from streamcal.metrics.coverage import IntervalCoverage as IntervalCoverage
    from streamcal.metrics.crps import CRPS as CRPS
    from streamcal.metrics.crps import IntervalScore as IntervalScore
    from streamcal.metrics.crps import Pinball as Pinball
    from streamcal.metrics.crps import Sharpness as Sharpness
    from streamcal.metrics.crps import ThresholdWeightedCRPS as ThresholdWeightedCRPS
    from streamcal.metrics.debiased_ece import DebiasedECE as DebiasedECE
    from streamcal.metrics.distribution import DistributionMetric as DistributionMetric
    from streamcal.metrics.ece import EqualMassECE as EqualMassECE
    from streamcal.metrics.fieldwise import FieldwiseECE as FieldwiseECE
    from streamcal.metrics.fieldwise import LevelData as LevelData
    from streamcal.metrics.grid_ece import GridECE as GridECE
    from streamcal.metrics.log_likelihood import LogLikelihood as LogLikelihood
    from streamcal.metrics.log_loss import LogLoss as LogLoss
    from streamcal.metrics.log_loss_difference import LogLossDifference as LogLossDifference
    from streamcal.metrics.multiclass import ClasswiseECE as ClasswiseECE
    from streamcal.metrics.multiclass import MulticlassBrier as MulticlassBrier
    from streamcal.metrics.multiclass import MulticlassLogLoss as MulticlassLogLoss
    from streamcal.metrics.normalized_entropy import NormalizedEntropy as NormalizedEntropy
    from streamcal.metrics.pit_histogram import PITHistogram as PITHistogram
    from streamcal.metrics.reliability import ReliabilityBin as ReliabilityBin
    from streamcal.metrics.reliability import ReliabilityData as ReliabilityData
    from streamcal.metrics.smooth_ece import SmoothECE as SmoothECE
else:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {
            "streamcal.metrics.auc": "AUC",
            "streamcal.metrics.base": "Metric",
            "streamcal.metrics.brier": "Brier",
            "streamcal.metrics.calibration_ratio": "CalibrationRatio",
            "streamcal.metrics.calibration_slope": "CalibrationSlope Recalibration",
            "streamcal.metrics.corp": "CORP CORPBlock CORPReliability Decomposition",
            "streamcal.metrics.coverage": "IntervalCoverage",
            "streamcal.metrics.crps": "CRPS IntervalScore Pinball Sharpness ThresholdWeightedCRPS",
            "streamcal.metrics.debiased_ece": "DebiasedECE",
            "streamcal.metrics.distribution": "DistributionMetric",
            "streamcal.metrics.ece": "EqualMassECE",
            "streamcal.metrics.fieldwise": "FieldwiseECE LevelData",
            "streamcal.metrics.grid_ece": "GridECE",
            "streamcal.metrics.log_likelihood": "LogLikelihood",
            "streamcal.metrics.log_loss": "LogLoss",
            "streamcal.metrics.log_loss_difference": "LogLossDifference",
            "streamcal.metrics.multiclass": "ClasswiseECE MulticlassBrier MulticlassLogLoss",
            "streamcal.metrics.normalized_entropy": "NormalizedEntropy",
            "streamcal.metrics.pit_histogram": "PITHistogram",
            "streamcal.metrics.reliability": "ReliabilityBin ReliabilityData",
            "streamcal.metrics.smooth_ece": "SmoothECE",
        },
    )
