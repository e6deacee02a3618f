"""Calibration of regression: a predictive distribution → a calibrated distribution."""

from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.conformal_predictive import ConformalPredictive
from streamcal.regression.distributions import (
    CalibratedDistribution,
    Distribution,
    Normal,
    Piecewise,
    Quantiles,
    Sample,
)
from streamcal.regression.empirical_density import EmpiricalDensity
from streamcal.regression.gaussian_process_cdf import RBF, GaussianProcessCDF
from streamcal.regression.isotonic_distributional import IsotonicDistributional
from streamcal.regression.quantile_recalibration import QuantileRecalibration
from streamcal.regression.venn_abers_regression import VennAbersRegression

#: The methods of this sub-package: name → class. A new method is one file and one line here.
METHODS: dict[str, type[DistributionCalibrator]] = {
    method.name: method
    for method in (
        EmpiricalDensity,
        QuantileRecalibration,
        ConformalPredictive,
        IsotonicDistributional,
        VennAbersRegression,
        GaussianProcessCDF,
    )
}

__all__ = [
    "METHODS",
    "RBF",
    "CalibratedDistribution",
    "ConformalPredictive",
    "Distribution",
    "DistributionCalibrator",
    "DistributionMap",
    "EmpiricalDensity",
    "GaussianProcessCDF",
    "IsotonicDistributional",
    "Normal",
    "Piecewise",
    "QuantileRecalibration",
    "Quantiles",
    "Sample",
    "VennAbersRegression",
]
