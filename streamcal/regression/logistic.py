"""`Logistic`: unregularised logistic regression on the mass of a segment, for the e-logistic of paper 004."""

from __future__ import annotations

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Table
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.solvers.logistic import fit_logistic

#: Scores whose standard deviation is below this are one score, between which no slope is finite.
SMALLEST_DEVIATION = 1e-290


class Logistic(AdditiveCalibrator[Table]):
    """Logistic regression on the score itself: p = 1 / (1 + exp(−(γ·s + δ))), γ and δ by maximum likelihood.

    It is logistic calibration as in eq. (3) of paper 004: the feature is the probability s, not its log-odds, the
    labels are not regularised as in `Platt`, and γ may be negative. `EmpiricalDensity("logistic")` has one for each
    segment; on the score of a classifier, `Platt` and `Beta` fit better.

    Parameters
    ----------
    scale, forgetting, prior, refresh_every
        See `AdditiveCalibrator`; the default scale is `Probability()`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 8,192); None keeps every distinct score.

    Notes
    -----
    A ridge of 1e-9 per unit of weight, on the slope in standard deviations of the score and on the log-odds at its
    mean, makes the solution finite where the likelihood has none. With a single label the log-odds end near ±18, which
    is a probability of 2e-8. Cost: that of `Platt`.

    References
    ----------
    Song, Kull and Flach; paper 004, §2.1 and §4.

    Examples
    --------
    >>> cal = Logistic()
    >>> cal.learn_many([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> round(cal.predict_one(0.25), 3), round(cal.predict_one(0.4), 3)
    (0.5, 0.796)
    """

    name = "logistic"
    summary = "unregularised logistic regression on the score itself"
    by_ratios = True
    monotone = False
    default_resolution = 8192

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        share = (negative + positive) / (negative + positive).sum()
        mean = float(share @ x)
        deviation = float(np.sqrt(share @ (x - mean) ** 2))
        one_score = deviation < SMALLEST_DEVIATION
        z = np.zeros_like(x) if one_score else (x - mean) / deviation
        features, free = np.column_stack((z, np.ones_like(z))), np.full(2, -np.inf)
        initial = np.zeros(2)
        if isinstance(start, SigmoidMap):
            initial = np.array([start.slope * deviation, start.offset + start.slope * mean])
        solution = fit_logistic(features, np.zeros_like(x), negative, positive, free, initial)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Logistic ended with status {solution.status!r}")
        slope = 0.0 if one_score else float(solution.x[0]) / deviation
        return SigmoidMap(self.scale, slope, float(solution.x[1]) - slope * mean)
