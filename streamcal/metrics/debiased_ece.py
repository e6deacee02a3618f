"""The calibration error without its sampling bias, and the level below which it is not distinguishable from 0."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamcal.metrics.ece import EqualMassECE
from streamcal.metrics.reliability import equal_mass
from streamcal.parameters.types import FloatArray

#: The 95 % quantile of the standard normal distribution.
ONE_SIDED_95 = 1.6448536269514722
#: A bin with less than this effective number of observations holds a single one, up to rounding.
ONE = 1.0 + 1e-9


class _Terms(NamedTuple):
    """The terms of the bins with more than one observation, arrays of shape (bins,)."""

    weight: FloatArray
    gap: FloatArray  #: mean probability − frequency
    by_labels: FloatArray  #: variance of the frequency, estimated from the labels
    by_predictions: FloatArray  #: the same, if the model is calibrated


class DebiasedECE(EqualMassECE):
    """Root of the debiased squared calibration error over bins of equal mass, in [0, 1]; lower is better.

    The squared gap of a bin, (mean probability p̄ − frequency f)², overestimates the squared error by the variance of
    f. So

        value² = max(0, Σ_b W_b/W ⋅ [(p̄_b − f_b)² − f_b (1 − f_b)/(n_b − 1)]),

    where n_b is the effective number of observations, as in `ReliabilityBin`. A bin with a single observation has no
    estimate of its variance and is left out. The value itself has a sampling error: below `floor` it cannot be
    distinguished from 0. Bins and cells are those of `EqualMassECE`; `error_bound` refers to the value of that class,
    not of this one.

    Parameters
    ----------
    bins : int
        Number of bins, at least 1, default 15.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `get` and `floor` O(c) for c occupied cells, 0.1 to 0.5 ms;
    `merge` O(c). Memory as in `EqualMassECE`.

    References
    ----------
    A. Kumar, P. Liang and T. Ma, Verified uncertainty calibration, NeurIPS 2019, §4.

    Examples
    --------
    >>> ece = DebiasedECE(bins=1)
    >>> ece.update_many([True, False] * 100, [0.4] * 200)
    >>> round(ece.get(), 4), round(ece.floor, 4)  # √(.1² − .25/199); the plain value is .1
    (0.0935, 0.0528)
    """

    def get(self) -> float | None:
        """Return the error, in [0, 1]; `None` before the first observation. O(c)."""
        terms = self._terms()
        if terms is None:
            return None
        squared = float(terms.weight @ (terms.gap * terms.gap - terms.by_labels)) / self._weight
        return math.sqrt(max(0.0, squared))

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `get` for a calibrated model, approximately; `None` before the first observation.

        √(1.645 σ), where σ² = Σ_b (W_b/W)² ⋅ 2 v_b² is the variance of value² for gaps that are normal with variance
        v_b = Σ w² p(1 − p) / W_b², times `variance_factor` where weights depend on labels. With fewer than a few
        expected positives in a bin the gaps are not normal, and the floor is only indicative. O(c).
        """
        terms = self._terms()
        if terms is None:
            return None
        variance = 2.0 * float(np.sum((terms.weight * terms.by_predictions) ** 2))
        return math.sqrt(ONE_SIDED_95 * math.sqrt(variance) / self._weight)

    def _terms(self) -> _Terms | None:
        """Return the terms of the bins; None while the metric holds no weight."""
        columns = self._columns()
        if columns is None:
            return None
        bins = equal_mass(columns, self.bins)
        by_label = bins.frequency * (1.0 - bins.frequency)
        predicted = np.add.reduceat(columns.variance, bins.first)
        usable = bins.effective >= ONE
        return _Terms(
            weight=bins.weight[usable],
            gap=(bins.predicted / bins.weight - bins.frequency)[usable],
            by_labels=by_label[usable] / (bins.effective[usable] - 1.0),
            by_predictions=(predicted / bins.weight**2)[usable],
        )
