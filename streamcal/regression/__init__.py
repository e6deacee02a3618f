"""Calibration of regression: a predictive distribution → a calibrated distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.regression.adaptive_conformal import AdaptiveConformal as AdaptiveConformal
    from streamcal.regression.adaptive_scale import AdaptiveScale as AdaptiveScale
    from streamcal.regression.base import DistributionCalibrator as DistributionCalibrator
    from streamcal.regression.base import DistributionMap as DistributionMap
    from streamcal.regression.composition import Composition as Composition
    from streamcal.regression.conformal_predictive import ConformalPredictive as ConformalPredictive
    from streamcal.regression.distributions import CalibratedDistribution as CalibratedDistribution
    from streamcal.regression.distributions import Distribution as Distribution
    from streamcal.regression.distributions import Normal as Normal
    from streamcal.regression.distributions import Piecewise as Piecewise
    from streamcal.regression.distributions import Quantiles as Quantiles
    from streamcal.regression.distributions import Sample as Sample
    from streamcal.regression.empirical_density import EmpiricalDensity as EmpiricalDensity
    from streamcal.regression.gaussian_process_cdf import RBF as RBF
    from streamcal.regression.gaussian_process_cdf import GaussianProcessCDF as GaussianProcessCDF
    from streamcal.regression.isotonic_distributional import IsotonicDistributional as IsotonicDistributional
    from streamcal.regression.logistic import Logistic as Logistic
    from streamcal.regression.mondrian_conformal import MondrianConformal as MondrianConformal
    from streamcal.regression.quantile_recalibration import QuantileRecalibration as QuantileRecalibration
    from streamcal.regression.scale_recalibration import ScaleRecalibration as ScaleRecalibration
    from streamcal.regression.venn_abers_regression import VennAbersRegression as VennAbersRegression

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

if not TYPE_CHECKING:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {
            "streamcal.regression.base": "DistributionCalibrator DistributionMap",
            "streamcal.regression.distributions": (
                "CalibratedDistribution Distribution Normal Piecewise Quantiles Sample"
            ),
            "streamcal.regression.gaussian_process_cdf": "RBF",
            "streamcal.regression.logistic": "Logistic",
        },
        METHODS.by_class,
    )
    __all__ += ["METHODS"]
