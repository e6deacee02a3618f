"""Data of pictures of predictive distributions: PIT histograms with a band, and densities on one axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamcal.errors import InputError
from streamcal.parameters.types import FloatArray

if TYPE_CHECKING:  # both import scipy
    from streamcal.metrics import PITHistogram
    from streamcal.regression.distributions import Distribution

#: The quantiles between which a density is drawn, and in how many steps.
TAIL, STEPS = 0.002, 120
#: Margin at both ends, as a share of the range.
MARGIN = 0.05


class PITBars(NamedTuple):
    """A PIT histogram as densities: 1 everywhere for calibrated forecasts, but for chance.

    `edges` has the shape (bins + 1,), `density` (bins,); `low` and `high` are the band in which the bar of a calibrated
    forecaster lies with probability `confidence`, each bar by itself.
    """

    edges: FloatArray
    density: FloatArray
    low: float
    high: float
    confidence: float


class Densities(NamedTuple):
    """Densities of distributions on the intervals between `edges`, shape (n + 1,): name → shape (n,)."""

    edges: FloatArray
    of: dict[str, FloatArray]


def pit_bars(histogram: PITHistogram, confidence: float = 0.9) -> PITBars:
    """Return the bars of a PIT histogram, and their band by the binomial distribution of the number of observations.

    Bars are by weight, and the band is by number: with unequal weights, bars scatter more widely than the band. Raise
    `InputError` for a confidence outside (0, 1), and before the first observation.

    Examples
    --------
    >>> from streamcal.metrics import PITHistogram
    >>> from streamcal.regression import Normal
    >>> histogram = PITHistogram(bins=4)
    >>> histogram.update_many([-1.0, -0.5, 0.2, 1.0], [Normal(0.0, 1.0)] * 4)
    >>> bars = pit_bars(histogram)
    >>> bars.edges.tolist(), bars.density.tolist(), bars.low, bars.high
    ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 1.0, 1.0, 1.0], 0.0, 3.0)
    """
    from scipy.stats import binom  # not at the top: it takes a while to import

    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence {confidence!r} is not allowed; give a probability, such as 0.9")
    n, bins = int(histogram.counts.sum()), histogram.bins
    if not n:
        raise InputError("there is no picture of nothing: update the histogram with observations first")
    weights = histogram.weights
    ends = binom.ppf([(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0], n, 1.0 / bins)
    low, high = (np.asarray(ends) * bins / n).tolist()
    return PITBars(np.arange(bins + 1) / bins, weights / weights.sum() * bins, low, high, confidence)


def densities(
    distributions: Mapping[str, Distribution], limits: tuple[float, float] | None = None, steps: int = STEPS
) -> Densities:
    """Compute predictive densities on one axis, each the probability of a short interval over its length.

    A single value with mass, as of a count or a sample, therefore has a high bar and not an infinite one. The range is
    by default from the smallest quantile at 0.002 to the largest at 0.998, and some margin. Raise `InputError` if there
    is no distribution, or limits do not rise or cannot be found.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> found = densities({"before": Normal(0.0, 1.0), "after": Normal(0.5, 2.0)}, (-10.0, 10.0), 4)
    >>> [round(value, 3) for value in found.of["before"].tolist()]
    [0.0, 0.1, 0.1, 0.0]
    """
    if not distributions:
        raise InputError("there is nothing to draw: give at least one name with its distribution")
    low, high = _limits(distributions) if limits is None else limits
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"limits {low!r} to {high!r} are no range; give two numbers, the lower first")
    edges = np.linspace(low, high, steps + 1)
    return Densities(
        edges, {name: np.diff(forecast.cdf(edges)) / np.diff(edges) for name, forecast in distributions.items()}
    )


def _limits(distributions: Mapping[str, Any]) -> tuple[float, float]:
    """Return the range that contains nearly all probability of every distribution."""
    without = [name for name, forecast in distributions.items() if not hasattr(forecast, "ppf")]
    if without:
        raise InputError(f"{without[0]!r} has no quantiles (`ppf`); give limits=(lowest, highest)")
    ends = np.array(
        [[float(forecast.ppf(level)) for level in (TAIL, 1.0 - TAIL)] for forecast in distributions.values()]
    )
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin
