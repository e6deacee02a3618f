"""Pictures of predictive distributions, with matplotlib: PIT histograms, and densities before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from streamcal.app.distribution_data import densities, pit_bars
from streamcal.app.plot_frame import COLOURS, FAINT, INK, axes_for, finish, name_axes

if TYPE_CHECKING:  # the last two import scipy
    from matplotlib.axes import Axes

    from streamcal.metrics import PITHistogram
    from streamcal.regression.distributions import Distribution


def plot_pit(
    data: Mapping[str, PITHistogram], ax: Axes | None = None, *, confidence: float = 0.9, title: str | None = None
) -> Axes:
    """Draw histograms of the PITs F(y) over one another: level at 1 where the distributions are calibrated.

    A hill means that the distributions are too wide, a valley that they are too narrow, a slope that they are too low
    (rising to the right) or too high. The band is where a bar of a calibrated forecaster lies with the confidence, each
    by itself, for the number of observations of the last histogram.

    Parameters
    ----------
    data
        Name → `PITHistogram`; the first is drawn in grey, as the baseline.
    ax, title
        As for `plot_reliability`.
    confidence
        Of the band, above 0 and below 1.

    Raises
    ------
    InputError
        As `plot_reliability`, and for another confidence.
    """
    bars = {name: pit_bars(histogram, confidence) for name, histogram in data.items()}
    ax = axes_for(bars, "give at least one name with its PITHistogram", ax)
    last = list(bars.values())[-1]
    ax.axhspan(last.low, last.high, color=FAINT, alpha=0.7, label=f"{confidence:.0%} of calibrated bars")
    ax.axhline(1.0, color=INK, linewidth=0.9, linestyle=(0, (5, 4)))
    for i, (name, histogram) in enumerate(bars.items()):
        colour = COLOURS[i % len(COLOURS)]
        label = f"{name}   distance {data[name].get():.3f}"
        ax.stairs(histogram.density, histogram.edges, color=colour, linewidth=1.5, label=label)
        ax.stairs(histogram.density, histogram.edges, color=colour, fill=True, alpha=0.1)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, None))
    name_axes(ax, "PIT: the forecast probability below the outcome", "density")
    finish(ax, title)
    return ax


def plot_densities(
    data: Mapping[str, Distribution],
    ax: Axes | None = None,
    *,
    outcome: float | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw predictive densities over one another, as before and after calibration, and the outcome as a line.

    Parameters
    ----------
    data
        Name → distribution: anything with a `cdf`, and a `ppf` where there are no limits. The first is drawn in grey.
    ax, title
        As for `plot_reliability`.
    outcome
        What came.
    limits
        The range of outcomes; by default nearly all of the probability.

    Raises
    ------
    InputError
        As `plot_reliability`, and if limits do not rise or cannot be determined.
    """
    drawn = densities(data, limits)
    ax = axes_for(drawn.of, "give at least one name with its distribution", ax)
    for i, (name, values) in enumerate(drawn.of.items()):
        colour = COLOURS[i % len(COLOURS)]
        ax.stairs(values, drawn.edges, color=colour, linewidth=1.5, label=name)
        ax.stairs(values, drawn.edges, color=colour, fill=True, alpha=0.1)
    if outcome is not None:
        ax.axvline(outcome, color=INK, linewidth=1.2, linestyle=(0, (2, 2)), label="outcome")
    ax.set(xlim=(drawn.edges[0], drawn.edges[-1]), ylim=(0.0, 1.05 * max(np.max(v) for v in drawn.of.values())))
    name_axes(ax, "outcome", "density")
    finish(ax, title)
    return ax
