"""Calibration of regression: a predictive distribution → a calibrated distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.regression.adaptive_conformal import AdaptiveConformal
    from streamcal.regression.adaptive_scale import AdaptiveScale
    from streamcal.regression.base import DistributionCalibrator, DistributionMap
    from streamcal.regression.composition import Composition
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
    from streamcal.regression.logistic import Logistic
    from streamcal.regression.mondrian_conformal import MondrianConformal
    from streamcal.regression.quantile_recalibration import QuantileRecalibration
    from streamcal.regression.scale_recalibration import ScaleRecalibration
    from streamcal.regression.venn_abers_regression import VennAbersRegression

#: The methods of distributions: name → class, which is imported when it is first used.
#: A new method is one file and one line here.
METHODS: Methods[type[DistributionCalibrator]] = Methods(
    {
        "empirical-density": "streamcal.regression.empirical_density.EmpiricalDensity",
        "quantile-recalibration": "streamcal.regression.quantile_recalibration.QuantileRecalibration",
        "scale-recalibration": "streamcal.regression.scale_recalibration.ScaleRecalibration",
        "adaptive-scale": "streamcal.regression.adaptive_scale.AdaptiveScale",
        "composition": "streamcal.regression.composition.Composition",
        "conformal-predictive": "streamcal.regression.conformal_predictive.ConformalPredictive",
        "mondrian-conformal": "streamcal.regression.mondrian_conformal.MondrianConformal",
        "adaptive-conformal": "streamcal.regression.adaptive_conformal.AdaptiveConformal",
        "isotonic-distributional": "streamcal.regression.isotonic_distributional.IsotonicDistributional",
        "venn-abers-regression": "streamcal.regression.venn_abers_regression.VennAbersRegression",
        "gaussian-process-cdf": "streamcal.regression.gaussian_process_cdf.GaussianProcessCDF",
    }
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(
        globals(),
        {
            **METHODS.by_class,
            "CalibratedDistribution": "streamcal.regression.distributions.CalibratedDistribution",
            "Distribution": "streamcal.regression.distributions.Distribution",
            "DistributionCalibrator": "streamcal.regression.base.DistributionCalibrator",
            "DistributionMap": "streamcal.regression.base.DistributionMap",
            "Logistic": "streamcal.regression.logistic.Logistic",
            "Normal": "streamcal.regression.distributions.Normal",
            "Piecewise": "streamcal.regression.distributions.Piecewise",
            "Quantiles": "streamcal.regression.distributions.Quantiles",
            "RBF": "streamcal.regression.gaussian_process_cdf.RBF",
            "Sample": "streamcal.regression.distributions.Sample",
        },
    )

__all__ = [
    "METHODS",
    "RBF",
    "AdaptiveConformal",
    "AdaptiveScale",
    "CalibratedDistribution",
    "Composition",
    "ConformalPredictive",
    "Distribution",
    "DistributionCalibrator",
    "DistributionMap",
    "EmpiricalDensity",
    "GaussianProcessCDF",
    "IsotonicDistributional",
    "Logistic",
    "MondrianConformal",
    "Normal",
    "Piecewise",
    "QuantileRecalibration",
    "Quantiles",
    "Sample",
    "ScaleRecalibration",
    "VennAbersRegression",
]
