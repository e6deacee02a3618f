"""Slope and intercept of a logistic recalibration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamcal.errors import SolverError
from streamcal.metrics.base import Metric
from streamcal.metrics.cells import LOGIT_LIMIT, CellColumns
from streamcal.parameters.types import FloatArray
from streamcal.solvers.logistic import fit_logistic

#: The 97.5 % quantile of the standard normal distribution.
TWO_SIDED_95 = 1.959963984540054
#: Weight of a label in a cell that is rounding, relative to the weight of the cell.
ROUNDING = 1e-12


class Recalibration(NamedTuple):
    """log(P/(1 − P)) = intercept + slope · log(p/(1 − p))."""

    intercept: float
    slope: float


class CalibrationSlope(Metric):
    """Slope of the logistic recalibration log(P/(1 − P)) = a + b · log(p/(1 − p)), by maximum likelihood.

    1 is best. Below 1 the probabilities are too far apart (overconfident), above 1 too close together. `fit` has the
    intercept a too; `in_the_large` is the intercept where b is fixed at 1: above 0, probabilities are too low on the
    whole. All three are of the mean probabilities of cells, with log-odds limited to ±24.

    Notes
    -----
    The slope says nothing about bends: a slope of 1 and an intercept of 0 are necessary for calibration, and not
    sufficient. Cost: `update` and `revert` O(1), less than 1 µs; `get`, `fit`, `in_the_large` and `floor` O(c) for c
    occupied cells, and some ten Newton steps of O(c); `merge` O(c). Memory as in `EqualMassECE`.

    References
    ----------
    D. R. Cox, Two further applications of a model for binary regression, Biometrika 45, 1958; B. Van Calster and
    others, A calibration hierarchy for risk models was defined, Journal of Clinical Epidemiology 74, 2016.

    Examples
    --------
    >>> slope = CalibrationSlope()
    >>> slope.update_many([False, True] * 7 + [True, False] * 3, [0.1, 0.9] * 10)
    >>> round(slope.get(), 3), abs(slope.fit.intercept) < 1e-9  # log(7/3) / log(9)
    (0.386, True)
    """

    def get(self) -> float | None:
        """Return the slope b; `None` if `fit` is None."""
        fit = self.fit
        return None if fit is None else fit.slope

    @property
    def fit(self) -> Recalibration | None:
        """Intercept and slope.

        `None` without two labels and two cells. Where a threshold separates the labels the likelihood has no maximum:
        the slope is then ∞, or −∞ where the lower probabilities have the positives, and the intercept NaN.

        Raises
        ------
        SolverError
            Where the Newton steps do not converge.
        """
        columns = self._columns()
        if columns is None or len(columns.p) < 2 or _one_label(columns):
            return None
        if sign := _separated(columns):
            return Recalibration(math.nan, sign * math.inf)
        x = _log_odds(columns.p)
        intercept, more = _solved(np.column_stack((np.ones_like(x), x)), x, columns)
        return Recalibration(intercept, 1.0 + more)

    @property
    def in_the_large(self) -> float | None:
        """The intercept where the slope is 1; `None` without two labels."""
        columns = self._columns()
        if columns is None or _one_label(columns):
            return None
        return _solved(np.ones((len(columns.p), 1)), _log_odds(columns.p), columns)[0]

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of |slope − 1| for a calibrated model, approximately; `None` without two cells.

        1.96 standard errors at a = 0, b = 1, by the information in the probabilities themselves: H⁻¹ J H⁻¹ with
        H = Σ w p(1 − p) x xᵀ and J = Σ w² p(1 − p) x xᵀ, x = (1, log(p/(1 − p))). Where weights depend on labels, as
        with sampled negatives, w² p(1 − p) is the variance of the weight of the positives that follows from them.
        """
        columns = self._columns()
        if columns is None or len(columns.p) < 2:
            return None
        x, variance = _log_odds(columns.p), columns.p * (1.0 - columns.p)
        centred = x - float(columns.weight * variance @ x) / max(float(columns.weight @ variance), math.ulp(0.0))
        information = float(columns.weight * variance @ centred**2)
        spread = float(columns.variance @ centred**2)
        return TWO_SIDED_95 * math.sqrt(spread) / information if information > 0.0 else math.inf


def _log_odds(p: FloatArray) -> FloatArray:
    """Return log(p/(1 − p)), within the limits of the cells."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -LOGIT_LIMIT, LOGIT_LIMIT)


def _one_label(columns: CellColumns) -> bool:
    rounding = columns.weight * ROUNDING
    return not ((columns.positive > rounding).any() and (columns.negative > rounding).any())


def _separated(columns: CellColumns) -> int:
    """Return 1 if no positive has a lower probability than a negative, −1 if none has a higher one, else 0."""
    rounding = columns.weight * ROUNDING
    positive, negative = np.flatnonzero(columns.positive > rounding), np.flatnonzero(columns.negative > rounding)
    if positive[0] >= negative[-1]:
        return 1
    return -1 if positive[-1] <= negative[0] else 0


def _solved(features: FloatArray, offset: FloatArray, columns: CellColumns) -> list[float]:
    """Return the parameters of a logistic regression with this offset; `SolverError` if the solver finds none."""
    free = np.full(features.shape[1], -math.inf)
    solution = fit_logistic(features, offset, columns.negative, columns.positive, free, np.zeros(len(free)))
    if not solution.solved:
        raise SolverError(f"the logistic recalibration of {len(offset)} cells was not solved: {solution.status}")
    return [float(value) for value in solution.x]
