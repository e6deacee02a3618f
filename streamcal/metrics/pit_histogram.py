"""The PIT histogram, and an e-process against its uniformity."""

from __future__ import annotations

import math

import numpy as np

from streamcal.errors import RetractionError
from streamcal.metrics.distribution import DistributionMetric
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import FloatArray
from streamcal.regression.distributions import Distribution
from streamcal.regression.reading import pit_interval

#: Jeffreys' prior over the histograms of the mixture (Krichevsky and Trofimov 1981): relative to the best histogram in
#: hindsight, log e is smaller by ½·(bins − 1)·log n and a constant.
PRIOR_COUNT = 0.5
#: Shares of a count below this are rounding, of a million additions and retractions.
SLACK = 1e-9


class PITHistogram(DistributionMetric):
    """Histogram of the probability integral transforms u = F(y), uniform where the distributions are calibrated.

    `get` is the mean over the inner bin edges of |share of u ≤ edge − edge|, from 0 to ½: the mean distance between
    the stated level of a quantile and the share of outcomes below it; lower is better.

    `log_e_value` is the logarithm of a test martingale. With k_b of n observations in bin b of M,

        e = Mⁿ · ∏_b Γ(k_b + ½)/Γ(½) · Γ(M/2)/Γ(n + M/2),

    the likelihood of the bins under a mixture of all histograms, relative to that of the uniform histogram. If PITs are
    independent and uniform, the probability that e ever exceeds 1/δ is at most δ (Ville's inequality), so that it may
    be read after every observation. It is a function of the counts alone, so that it can be merged and reverted;
    weights do not enter it.

    Parameters
    ----------
    bins : int
        M, at least 2, default 20.

    Raises
    ------
    InputError
        For another number of bins.
    RetractionError
        By `revert`, where the bin of the observation is empty.

    Notes
    -----
    An outcome y at which the cdf jumps, as all counts are, is spread uniformly over the levels from F(y−) to F(y), so
    that the PITs of calibrated counts are uniform too (Czado and others 2009). k_b is then a sum of shares, and e is at
    most the geometric mean of its values with one level drawn for each outcome: the bound applies. A bin includes its
    right end, as a cdf does, and the first bin both ends. Cost: `update` and `revert` one `cdf` of the distribution;
    `merge`, `get` and `log_e_value` O(M); O(M) memory.

    References
    ----------
    A. P. Dawid, Statistical theory: the prequential approach, Journal of the Royal Statistical Society A 147, 1984; A.
    Ramdas, P. Grünwald, V. Vovk and G. Shafer, Game-theoretic statistics and safe anytime-valid inference, Statistical
    Science 38, 2023, for e-processes; R. E. Krichevsky and V. K. Trofimov 1981 for the mixture; C. Czado, T. Gneiting
    and L. Held, Predictive model assessment for count data, Biometrics 65, 2009.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> histogram = PITHistogram(bins=4)
    >>> histogram.update_many([-1.0, -0.2, 0.2, 1.0], [Normal(0.0, 1.0)] * 4)
    >>> histogram.weights.tolist(), histogram.get()
    ([1.0, 1.0, 1.0, 1.0], 0.0)
    >>> histogram.update_many([3.0] * 40, [Normal(0.0, 1.0)] * 40)
    >>> round(histogram.log_e_value, 2)
    41.4
    """

    _sums = ("_weights", "_counts")

    def __init__(self, bins: int = 20) -> None:
        self.bins = whole_number(bins, "bins", 2, allowed="a whole number of at least 2, such as 20")
        super().__init__()

    def get(self) -> float | None:
        """Return the mean distance between levels and shares, in [0, ½]; `None` before the first observation."""
        if self._weight <= 0.0:
            return None
        edges = np.arange(1, self.bins) / self.bins
        return float(np.abs(np.cumsum(self._weights)[:-1] / self._weight - edges).mean())

    @property
    def weights(self) -> FloatArray:
        """Weight in each bin, a new array of shape (bins,)."""
        return self._weights.copy()

    @property
    def counts(self) -> FloatArray:
        """Number of observations in each bin, a new array of shape (bins,); of spread outcomes, their shares."""
        return self._counts.copy()

    @property
    def log_e_value(self) -> float:
        """The logarithm of the e-process; 0 before the first observation."""
        n, bins = self._count, self.bins
        inside = math.fsum(math.lgamma(k + PRIOR_COUNT) - math.lgamma(PRIOR_COUNT) for k in self._counts.tolist() if k)
        outside = math.lgamma(bins * PRIOR_COUNT) - math.lgamma(n + bins * PRIOR_COUNT)
        return n * math.log(bins) + inside + outside

    def _clear(self) -> None:
        self._weights = np.zeros(self.bins)
        self._counts = np.zeros(self.bins)

    def _term(self, distribution: Distribution, y: float) -> FloatArray:
        """Return the share of the observation in each bin."""
        low, high = pit_interval(distribution, y, normal=False)
        if low == high:
            shares = np.zeros(self.bins)
            shares[max(math.ceil(high * self.bins), 1) - 1] = 1.0
            return shares
        edges = np.clip(np.arange(self.bins + 1) / self.bins, low, high)
        return np.diff(edges) / (high - low)

    def _add(self, term: FloatArray, w: float, sign: int) -> None:
        counts = self._counts + sign * term
        if (counts < -SLACK).any():
            place = int(np.argmin(counts))
            raise RetractionError(f"no observation in bin {place} of the PIT histogram is held that could be reverted")
        left = counts > SLACK
        self._counts = np.where(left, counts, 0.0)
        self._weights = np.where(left, self._weights + sign * w * term, 0.0)
