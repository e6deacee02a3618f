"""Distributions: a predictive distribution → a calibrated distribution."""

from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import (
    CalibratedDistribution,
    Distribution,
    Normal,
    Piecewise,
    Quantiles,
    Sample,
)

#: The methods of this room: name → class. A new method is one file and one line here.
METHODS: dict[str, type[DistributionCalibrator]] = {}

__all__ = [
    "METHODS",
    "CalibratedDistribution",
    "Distribution",
    "DistributionCalibrator",
    "DistributionMap",
    "Normal",
    "Piecewise",
    "Quantiles",
    "Sample",
]
