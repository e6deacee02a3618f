"""`ScaleRecalibration`: a stated mean and standard deviation, corrected online."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from streamcal.learners.additive import Additive
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of, real_number
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import LOG_SQRT_2PI, CalibratedDistribution, Distribution, Normal
from streamcal.regression.ramps import NormalRamp
from streamcal.regression.reading import (
    check_distribution,
    counted,
    pit_interval,
    pit_intervals,
    spread,
)
from streamcal.regression.recalibrated import recalibrated
from streamcal.statistics.pits import FURTHEST
from streamcal.statistics.scale_moments import ScaleMoments

#: The corrected standard deviation is within these multiples of the stated one.
SCALES = (1e-6, 1e6)


class ScaleRecalibration(DistributionCalibrator):
    """A location and a scale for all forecasts: of Normal(m, s) it predicts Normal(m + a·s, b·s).

    It learns from the errors z = (y − m)/s in standard deviations. With ``fit="likelihood"`` a and b² are the mean and
    the variance of z, at which the likelihood of the outcomes is largest. With ``fit="moments"`` the errors are in the
    unit of y: a·s is their mean δ, the same for all forecasts, and b² their variance, divided by the mean stated
    variance s². So observations with a large s determine b², and a few much too small s do no harm.

    Of a distribution that is not normal z is the normal score Φ⁻¹(F(y)), and the calibrated cdf Φ((Φ⁻¹(F(t)) − a)/b): a
    map of levels, so that the calibrated distribution keeps the atoms and the support of the base.

    Parameters
    ----------
    fit : {"likelihood", "moments"}
        See above.
    smoothing : float
        λ > 0, default 1, for a stable start: with the weight W held, a is multiplied by W/(W + λ), and (λ/(W + λ))² is
        added to b², so that b is above λ/(W + λ), and 1 before the first observation.
    forgetting : Forgetting
        The forgetting policy, default `Forever()`.

    Notes
    -----
    Additive: a function of five sums, which are kept without rounding. Of an outcome that is an atom, the mean and the
    variance of the normal score over its levels (F(y−), F(y)] are learned. An outcome to which no mass was predicted
    (`tally()["outside"]`) counts as a normal score of ±8.25, and no map of levels can give it mass. Of an ensemble that
    is too narrow, give the normal distribution of its mean and spread, or a kernel density. b is from 10⁻⁶ to 10⁶. A
    few errors of hundreds of standard deviations determine a variance for as long as they are held: where a model
    starts overconfident, give `Decay` or `Window`.

    Only the location and the scale are corrected, and alike for all forecasts. `Composition` has quantile recalibration
    learn the shape that is left. Cost: O(1).

    References
    ----------
    Levi, Gispan, Giladi and Fetaya, Evaluating and calibrating uncertainty prediction in regression tasks, 2019; Laves,
    Ihler, Fast, Kahrs and Ortmaier, Well-calibrated regression uncertainty in medical imaging, MIDL 2020, for the
    likelihood.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = ScaleRecalibration()
    >>> cal.learn_many([Normal(0.0, 1.0)] * 99, [-3.0, 0.0, 3.0] * 33)
    >>> cal.predict_one(Normal(5.0, 2.0)).mean, round(cal.predict_one(Normal(5.0, 2.0)).sd, 3)
    (5.0, 4.899)
    """

    name = "scale-recalibration"
    summary = "a stated mean and standard deviation, corrected by moments or by likelihood"

    def __init__(
        self,
        fit: Literal["likelihood", "moments"] = "likelihood",
        smoothing: float = 1.0,
        *,
        forgetting: Forgetting = Forever(),
    ) -> None:
        self.fit = one_of(fit, "fit", ("likelihood", "moments"))
        self.smoothing = real_number(smoothing, "smoothing", "a finite weight above 0", above=0.0)
        self._engine = Additive(self.new_statistic(), forgetting)
        self.forgetting = forgetting

    def new_statistic(self) -> ScaleMoments:
        """Return an empty statistic for these parameters."""
        return ScaleMoments()

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, ...], float, bool]:
        low, high = pit_interval(distribution, y)
        unit = spread(distribution) if self.fit == "moments" else 1.0
        centre, deviation = (counted(high, distribution), 0.0) if low == high else moments_between(low, high)
        outside = low == high and abs(high) == FURTHEST
        return (centre * unit, deviation * unit, unit), 0.0, outside

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        if distributions and all(type(distribution) is Normal for distribution in distributions):
            _, scores = pit_intervals(distributions, y)
            units = np.array([spread(distribution) if self.fit == "moments" else 1.0 for distribution in distributions])
            x = np.column_stack((scores * units, np.zeros(len(y)), units))
            return x, np.zeros(len(y)), np.abs(scores) == FURTHEST
        read = [self._read(one, outcome) for one, outcome in zip(distributions, y.tolist(), strict=True)]
        x = np.array([row[0] for row in read]).reshape(-1, 3)
        return x, np.zeros(len(y)), np.array([row[2] for row in read], dtype=bool)

    # -- the map -------------------------------------------------------------------------------------------------

    def solve(self, statistic: ScaleMoments, start: DistributionMap | None) -> DistributionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        error, square, within, unit = statistic.means()
        share = statistic.n / (statistic.n + self.smoothing)
        location = share * error
        # the mean of (e − location)²
        variance = max(square - location * (2.0 * error - location), 0.0) + within
        scale = math.sqrt(variance / unit + (1.0 - share) ** 2)
        return ScaleMap(location, min(max(scale, SCALES[0]), SCALES[1]), self.fit == "moments")

    def empty_map(self) -> DistributionMap:
        """Return the map of an empty statistic."""
        return ScaleMap(0.0, 1.0, False)


class ScaleMap(DistributionMap):
    """Normal(m, s) → Normal(m + location, scale·s); without `in_units`, the location is in units of s."""

    def __init__(self, location: float, scale: float, in_units: bool) -> None:
        self.location = location
        self.scale = scale
        self.in_units = in_units

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        shift = self.location / spread(check_distribution(distribution)) if self.in_units else self.location
        if type(distribution) is Normal:  # the most frequent one
            return Normal(distribution.mean + shift * distribution.sd, self.scale * distribution.sd)
        return recalibrated(distribution, NormalRamp(shift, self.scale))


def moments_between(low: float, high: float) -> tuple[float, float]:
    """Return the mean and the standard deviation of a standard normal variable between two values."""
    if low > 0.0:
        mean, deviation = moments_between(-high, -low)
        return -mean, deviation
    # P(low < Z ≤ high), relative to P(Z ≤ high): both may be beyond floats
    log_mass = float(log_ndtr(high)) + math.log(-math.expm1(float(log_ndtr(low) - log_ndtr(high))))
    at_low, at_high = (math.exp(-0.5 * z * z - LOG_SQRT_2PI - log_mass) for z in (low, high))
    mean = min(max(at_low - at_high, low), high)
    variance = 1.0 + low * at_low - high * at_high - mean * mean
    return mean, math.sqrt(min(max(variance, 0.0), 0.25 * (high - low) ** 2))
