"""Plots of reliability diagrams, distributions, segments, and what changes over time, with matplotlib (extra `plot`).

| function | takes |
|---|---|
| `plot_reliability` | name → `EqualMassECE.reliability()` |
| `save_reliability_picture` | a path, and title → name → `EqualMassECE.reliability()` |
| `plot_corp` | name → `CORP.reliability()` |
| `plot_calibrator` | a calibrator of one score; `cal.plot()` calls it |
| `plot_maps` | name → scores and calibrated probabilities, as `Standing.mapped` of a comparison |
| `plot_evidence` | `compare(…).history` |
| `plot_effects` | `Segmented.effects(field)` |
| `plot_pit` | name → `PITHistogram` |
| `plot_densities` | name → predictive distribution |
| `plot_rates` | the ends of the parts of a stream, and name → mean probability, or share of positives, of each part |
| `plot_weights` | `weights_over_time(steps, [cal.weights(), …])` of an `Auto` |
| `text_reliability` | name → `EqualMassECE.reliability()`; makes text, without matplotlib |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from streamcal.app.plot_distributions import plot_densities, plot_pit
from streamcal.app.plot_frame import (
    AREA_COLOURS,
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    axes_for,
    draw_plain_frame,
    finish,
    name_axes,
    name_observations,
    new_figure,
)
from streamcal.app.plot_segments import plot_effects
from streamcal.app.prepared import (
    MARGIN,
    Axis,
    Spacing,
    corp_limits,
    fit_line,
    heavy,
    histogram,
    limits,
    spacing_of,
    sqrt_ticks,
)
from streamcal.app.text_plot import check_reliability, of_forecasts, text_reliability
from streamcal.errors import InputError
from streamcal.metrics import CORP, CORPReliability, EqualMassECE, ReliabilityData
from streamcal.parameters.numbers import one_of
from streamcal.parameters.types import FloatArray
from streamcal.stream.history import RUN_LENGTH, History

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from streamcal.calibrators.base import Calibrator

__all__ = [
    "Spacing",
    "WeightsOverTime",
    "plot_calibrator",
    "plot_corp",
    "plot_densities",
    "plot_effects",
    "plot_evidence",
    "plot_maps",
    "plot_pit",
    "plot_rates",
    "plot_reliability",
    "plot_weights",
    "save_reliability_picture",
    "save_side_by_side",
    "text_reliability",
    "weights_over_time",
]

#: Scores at which a map is drawn, and the least of them on a logarithmic axis.
DRAWN, LEAST = 401, 1e-4
#: Larger evidence is drawn at the top.
HIGHEST_EVIDENCE = 1e12
#: The spacing of an axis by square roots, and its inverse.
SQUARE_ROOT = (lambda p: np.sqrt(np.maximum(p, 0.0)), np.square)


def plot_reliability(
    data: Mapping[str, ReliabilityData] | ArrayLike,
    p: ArrayLike | Mapping[str, ArrayLike] | None = None,
    ax: Axes | None = None,
    *,
    spacing: Spacing = "linear",
    title: str | None = None,
) -> Axes:
    """Draw reliability diagrams over one another, and the distribution of their probabilities below.

    A point is a bin of equal mass, with the mean probability on the x axis, and the frequency of positive labels and
    its confidence interval on the y axis. Its area is proportional to the weight. Points below the diagonal are
    probabilities that are too high.

    Parameters
    ----------
    data
        Name → data from `EqualMassECE.reliability`; the first is drawn in grey, as the baseline. Or labels, of shape
        (n,), whose predictions are `p`.
    p
        Predictions of the labels, of shape (n,), or name → such predictions.
    ax
        Axes to draw on; the histogram goes below them, over a quarter of their height. By default those of
        a new figure, which pyplot does not know: show `ax.figure` in a notebook, or save it with
        `ax.figure.savefig`.
    spacing
        Of both axes: "linear"; "sqrt", if most probabilities are below 0.1; "log", for rare events: points outside
        logarithmic axes, such as bins without positives, are open markers at the edge.
    title
        Title of the diagram.

    Returns
    -------
    Axes
        The axes of the diagram.

    Raises
    ------
    InputError
        If there is nothing to draw.
    StreamcalError
        Without matplotlib.
    """
    series: Mapping[str, ReliabilityData] = of_forecasts(data, p, EqualMassECE)
    check_reliability(series)
    ax = axes_for(series, "give at least one name with its ReliabilityData", ax)
    one_of(spacing, "spacing", get_args(Spacing))
    points = [value for bins in series.values() for b in bins.bins for value in (b.prediction, b.frequency)]
    low, high = limits(points, [(bins.scores, bins.weights) for bins in series.values()], spacing)
    below = _drawn_frame(ax, low, high, spacing)
    for i, (name, bins) in enumerate(series.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        _draw_bins(ax, bins, colour, marker, low, f"{name}   ECE {bins.ece:.4f}")
        _draw_histogram(below, bins, colour, low, high, spacing)
    finish(ax, title)
    return ax


def plot_corp(
    data: Mapping[str, CORPReliability] | ArrayLike,
    p: ArrayLike | Mapping[str, ArrayLike] | None = None,
    ax: Axes | None = None,
    *,
    spacing: Spacing | None = None,
    title: str | None = None,
) -> Axes:
    """Draw CORP reliability diagrams over one another, and the density of their predictions below.

    The line is the isotonic fit of the labels, a dot a block of it, with an area that grows with the weight. The band
    is where the fit of calibrated predictions lies with the confidence of the data, at each place.

    Parameters
    ----------
    data, p
        Name → data from `CORP.reliability`; the first is drawn in grey, as the baseline. Or labels and predictions, as
        for `plot_reliability`.
    ax, title
        As for `plot_reliability`.
    spacing
        Of both axes, as for `plot_reliability`; by default "log" where predictions are rare, "sqrt" where most are
        below ½, else "linear".
    """
    series = of_forecasts(data, p, CORP)
    if not isinstance(series, Mapping) or not all(isinstance(corp, CORPReliability) for corp in series.values()):
        what = f"{series!r} is no mapping of names to CORPReliability"
        raise InputError(f"{what}; give {{name: corp.reliability()}}, or labels and predictions")
    ax = axes_for(series, "give at least one name with its CORPReliability", ax)
    first = next(iter(series.values()))
    spacing = spacing_of(first.scores, first.weights) if spacing is None else spacing
    one_of(spacing, "spacing", get_args(Spacing))
    low, high = corp_limits(series.values(), spacing)
    below = _drawn_frame(ax, low, high, spacing)
    for i, (name, corp) in enumerate(series.items()):
        colour, parts = COLOURS[i % len(COLOURS)], corp.decomposition
        label = f"{name}   MCB {parts.miscalibration:.2g}, DSC {parts.discrimination:.2g}"
        _draw_fit(ax, corp, colour, MARKERS[i % len(MARKERS)], low, label)
        _draw_histogram(below, corp, colour, low, high, spacing)
    finish(ax, title)
    return ax


def plot_maps(
    data: Mapping[str, Sequence[tuple[float, float]]],
    ax: Axes | None = None,
    *,
    spacing: Spacing = "linear",
    title: str | None = None,
) -> Axes:
    """Draw calibration maps over one another: the calibrated probability over the score, and the diagonal.

    Parameters
    ----------
    data
        Name → pairs of a score and its calibrated probability, in ascending order.
    ax, spacing, title
        As for `plot_reliability`, whose errors and result it shares.
    """
    drawn = {name: pairs for name, pairs in data.items() if pairs}
    ax = axes_for(drawn, "give at least one name with its scores and probabilities", ax)
    low, high = limits([value for pairs in drawn.values() for pair in pairs for value in pair], [], spacing)
    _draw_square(ax, low, high, spacing)
    name_axes(ax, "score", "calibrated probability")
    for i, (name, pairs) in enumerate(drawn.items()):
        x, y = zip(*pairs, strict=True)
        ax.plot(np.maximum(x, low), np.maximum(y, low), color=COLOURS[(i + 1) % len(COLOURS)], label=name)
    finish(ax, title)
    return ax


def plot_calibrator(
    calibrator: Calibrator,
    ax: Axes | None = None,
    *,
    scores: ArrayLike | None = None,
    spacing: Spacing = "linear",
    title: str | None = None,
) -> Axes:
    """Draw the present map of a calibrator of one score, with the interval of a method that has one.

    Parameters
    ----------
    calibrator
        Its predictions are drawn, and it is not changed.
    ax
        As for `plot_reliability`.
    scores
        Where predictions are drawn, of shape (n,); by default from one end of the scale to the other.
    spacing
        As for `plot_reliability`, of scores that are probabilities; "log" begins at 1e-4.
    title
        The title; by default the name of the class.

    Raises
    ------
    InputError
        For scores of a scale without ends, if `scores` is not given.
    StreamcalError
        Without matplotlib.
    """
    one_of(spacing, "spacing", get_args(Spacing))
    scale, square = calibrator.scale, calibrator.scale.domain == (0.0, 1.0)
    knots = getattr(scale, "knots", None)
    low, high = (knots[0], knots[-1]) if knots else scale.domain if square else (scale.lo, scale.hi)
    if scores is None and not np.isfinite([low, high]).all():
        raise InputError(f"{scale!r} has no ends to draw; give scores=, as np.linspace(-5, 5, 400)")
    x = (
        _spaced(low, high, spacing if square else "linear")
        if scores is None
        else np.sort(np.asarray(scores, np.float64))
    )
    y = np.asarray(calibrator.predict_many(x))
    ax = axes_for(x.tolist(), "give at least one score", ax)
    if square:
        _draw_square(ax, float(x[0]) if spacing == "log" else 0.0, 1.0, spacing)
    else:
        ax.set(xlim=(float(x[0]), float(x[-1])), ylim=(0.0, 1.0))
        ax.grid(color=FAINT, linewidth=0.6)
    name_axes(ax, "score", "calibrated probability")
    if calibrator.has_interval:
        lower, upper = cast(Any, calibrator).predict_interval_many(x)
        ax.fill_between(x, lower, upper, color=COLOURS[1], alpha=0.25, linewidth=0, label="interval")
    ax.plot(x, y, color=COLOURS[1], label="probability")
    finish(ax, type(calibrator).__name__ if title is None else title, legend=calibrator.has_interval)
    return ax


def _spaced(low: float, high: float, spacing: Spacing) -> FloatArray:
    """Return scores at equal distances on an axis of this spacing; a logarithmic one begins at `LEAST`."""
    if spacing == "log":
        return np.geomspace(LEAST, high, DRAWN)
    steps = np.linspace(0.0, 1.0, DRAWN)
    return low + (high - low) * (steps**2 if spacing == "sqrt" else steps)


def plot_evidence(history: History, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the evidence against predictions over time, on a logarithmic axis, and alarms as marks at the top.

    Parameters
    ----------
    history
        Of a comparison. Values beyond 10¹², infinite ones among them, are drawn at the top.
    ax, title
        As for `plot_reliability`, whose errors and result it shares.
    """
    ends = np.cumsum([part.rows for part in history.parts(history.names[0])])
    ax = axes_for(ends.tolist(), "the history holds no observation", ax)
    middles = (np.append(0, ends[:-1]) + ends) / 2.0
    for i, name in enumerate(history.names):
        colour = COLOURS[i % len(COLOURS)]
        values = np.clip([part.evidence for part in history.parts(name)], 1.0, HIGHEST_EVIDENCE)
        ax.plot(middles, values, color=colour, linewidth=1.3, label=f"{name}   alarms: {history.alarms_in_all[name]:,}")
        at = history.marks(name)
        ax.plot(at, [HIGHEST_EVIDENCE / 3.0**i] * len(at), color=colour, marker="|", linestyle="none")
    ax.axhline(RUN_LENGTH, color=INK, linewidth=0.9, linestyle=(0, (5, 4)))
    ax.set(yscale="log", ylim=(1.0, 3.0 * HIGHEST_EVIDENCE), xlim=(0.0, ends[-1]))
    name_observations(ax, "evidence against the predictions")
    finish(ax, title)
    return ax


def save_reliability_picture(
    path: str | os.PathLike[str], panels: Mapping[str, Mapping[str, ReliabilityData]], *, spacing: Spacing = "linear"
) -> None:
    """Save diagrams side by side, one per title in `panels`.

    The extension of `path` determines the format (.png, .svg, .pdf). `panels` is title → (name → data), each inner
    mapping as for `plot_reliability`.
    """
    if not panels:
        raise InputError("there is nothing to draw: give at least one panel")

    def draw(title: str, data: Mapping[str, ReliabilityData]) -> Callable[[Axes], Axes]:
        return lambda ax: plot_reliability(data, ax=ax, spacing=spacing, title=title)

    save_side_by_side(path, *(draw(title, data) for title, data in panels.items()))


def save_side_by_side(path: str | os.PathLike[str], *draw: Callable[[Axes], Axes]) -> None:
    """Save a picture of several axes in a row, each drawn by one of the functions, in the format of the path's name."""
    figure = new_figure(len(draw), layout="constrained")
    for ax, draw_panel in zip(figure.axes, draw, strict=True):
        draw_panel(ax)
        ax.set_anchor("N")
    figure.savefig(path, dpi=160, facecolor="white", bbox_inches="tight", pad_inches=0.2)


def plot_rates(
    ends: Sequence[float], rates: Mapping[str, Sequence[float]], ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw mean probabilities, and the share of positive labels, in consecutive parts of a stream: drift.

    The y axis is spaced by square roots.

    Parameters
    ----------
    ends
        Number of observations at the end of each part, shape (n,), increasing.
    rates
        Name → n values in [0, 1]; the first, the share of positive labels, is drawn as an area.
    ax, title
        As for `plot_reliability`.

    Raises
    ------
    InputError
        As `plot_reliability`, and if the lengths differ.
    """
    if not rates or not len(ends) or any(len(values) != len(ends) for values in rates.values()):
        raise InputError("give the end of at least one part, and for each name as many values as parts")
    ax = axes_for(rates, "give at least one name with its values", ax)
    starts = [0.0, *ends[:-1]]
    middles = [(start + end) / 2.0 for start, end in zip(starts, ends, strict=True)]
    (first, observed), *predicted = rates.items()
    ax.stairs(observed, [0.0, *ends], fill=True, color=FAINT, alpha=0.6, label=first)
    ax.stairs(observed, [0.0, *ends], color=INK, linewidth=0.9)
    for i, (name, values) in enumerate(predicted):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        ax.plot(middles, values, color=colour, marker=marker, markersize=5.5, linewidth=1.3, label=name, clip_on=False)
    high = MARGIN * max(max(values) for values in rates.values()) or 1.0
    ax.set_yscale("function", functions=SQUARE_ROOT)
    ticks = sqrt_ticks(high)
    ax.set(xlim=(0.0, ends[-1]), ylim=(0.0, high), yticks=ticks, yticklabels=ticks)
    name_observations(ax, "share of positive labels, mean probability")
    finish(ax, title)
    return ax


class WeightsOverTime(NamedTuple):
    """Weights of a mixture at n steps: m names, in descending order of weight, and shares of shape (m, n)."""

    steps: FloatArray
    names: tuple[str, ...]
    shares: FloatArray


def weights_over_time(
    steps: Sequence[float], history: Sequence[Mapping[str, float]], *, most: int = 7, without: Sequence[str] = ()
) -> WeightsOverTime:
    """Prepare results of `Auto.weights()` at several steps for `plot_weights`.

    Parameters
    ----------
    steps
        The x coordinates, shape (n,), such as numbers of observations learned.
    history
        The weights at each step: dicts with the same names.
    most
        Number of names to keep, those with the largest mean weight; the rest is summed as "others".
    without
        Names to leave out; the weights of the others are normalised to sum to 1.

    Examples
    --------
    >>> data = weights_over_time([0, 1], [{"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 0.7, "b": 0.1, "c": 0.2}], most=1)
    >>> data.names, data.shares.tolist()
    (('a', 'others'), [[0.5, 0.7], [0.5, 0.3]])
    """
    if not history or len(steps) != len(history) or any(weights.keys() != history[0].keys() for weights in history):
        raise InputError("give as many steps as weights, at least one, and weights of the same names")
    names = [name for name in history[0] if name not in without]
    shares = np.array([[weights[name] for weights in history] for name in names])
    shares = shares / shares.sum(axis=0)
    order = np.argsort(-shares.mean(axis=1), kind="stable")
    largest = [names[k] for k in order[:most]]
    rest = shares[order[most:]].sum(axis=0)
    rows = shares[order[:most]] if len(order) <= most else np.vstack((shares[order[:most]], np.round(rest, 15)))
    return WeightsOverTime(np.array(steps, dtype=np.float64), (*largest, *["others"][: len(rows) - len(largest)]), rows)


def plot_weights(data: WeightsOverTime, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw weights over time as stacked areas, the largest at the bottom, labelled at the side.

    `ax`, `title` and errors as for `plot_reliability`.
    """
    ax = axes_for(data.names, "give the weights of at least one name", ax)
    colours = [AREA_COLOURS[i % len(AREA_COLOURS)] for i in range(len(data.names))]
    colours = [FAINT if name == "others" else colour for name, colour in zip(data.names, colours, strict=True)]
    ax.stackplot(data.steps, data.shares, labels=data.names, colors=colours, edgecolor="white", linewidth=0.3)
    ax.set(xlim=(data.steps[0], data.steps[-1]), ylim=(0.0, 1.0))
    ax.set_xlabel("observations learned", color=INK)
    ax.set_ylabel("weight", color=INK)
    draw_plain_frame(ax)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1],
        labels[::-1],
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    if title is not None:
        ax.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold", pad=10)
    return ax


def _drawn_frame(ax: Axes, low: float, high: float, spacing: Spacing) -> Axes:
    """Draw the frame of a diagram; return the axes of the histogram below it."""
    below = ax.inset_axes((0.0, -0.23, 1.0, 0.18), sharex=ax)
    _draw_square(ax, low, high, spacing)
    ax.set_ylabel("frequency of positive labels", color=INK)
    ax.tick_params(labelbottom=False)
    below.set_xlabel("predicted probability", color=INK)
    below.set_ylabel("share of\npredictions", color=INK)
    below.yaxis.set_major_formatter("{x:.0%}")
    for axes in (ax, below):
        axes.set_axisbelow(True)
        draw_plain_frame(axes)
    return below


def _draw_square(ax: Axes, low: float, high: float, spacing: Spacing) -> None:
    """Draw two equal axes, lines and the diagonal."""
    if spacing == "log":
        ax.set(xscale="log", yscale="log")
    elif spacing == "linear":
        ax.locator_params(nbins=6)
    else:
        ax.set_xscale("function", functions=SQUARE_ROOT)
        ax.set_yscale("function", functions=SQUARE_ROOT)
        ticks = sqrt_ticks(high)
        ax.set(xticks=ticks, yticks=ticks, xticklabels=ticks, yticklabels=ticks)
    ax.set(xlim=(low, high), ylim=(low, high))
    ax.set_box_aspect(1)
    ax.plot([low, high], [low, high], color=INK, linewidth=0.9, linestyle=(0, (5, 4)), zorder=1)
    ax.grid(color=FAINT, linewidth=0.6)


def _draw_fit(ax: Axes, corp: CORPReliability, colour: str, marker: str, low: float, label: str) -> None:
    """Draw the band, the line of the isotonic fit, and its blocks."""
    ax.fill_between(corp.places, np.maximum(corp.lower, low), corp.upper, color=colour, alpha=0.18, linewidth=0)
    x, y = np.maximum(np.array(fit_line(corp)), low).T
    ax.plot(x, y, color=colour, linewidth=1.4, zorder=2)
    blocks = heavy(corp)
    heaviest = max(block.weight for block in blocks)
    ax.scatter(
        [max(block.prediction, low) for block in blocks],
        [max(block.frequency, low) for block in blocks],
        s=[6.0 + 26.0 * block.weight / heaviest for block in blocks],
        marker=marker,
        color=colour,
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
        clip_on=False,
    )
    ax.plot([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.4, label=label)  # for the legend


def _draw_bins(ax: Axes, reliability: ReliabilityData, colour: str, marker: str, low: float, label: str) -> None:
    """Draw points with their intervals; a point below the lower limit is an open marker at the edge."""
    heaviest = max(b.weight for b in reliability.bins)
    xs = [max(b.prediction, low) for b in reliability.bins]
    ys = [max(b.frequency, low) for b in reliability.bins]
    outside = [min(b.prediction, b.frequency) < low for b in reliability.bins]
    lower, upper = [max(b.lower, low) for b in reliability.bins], [b.upper for b in reliability.bins]
    ax.vlines(xs, lower, upper, color=colour, linewidth=1.3, alpha=0.55, zorder=2)
    ax.plot(xs, ys, color=colour, linewidth=1.0, alpha=0.5, zorder=2)
    ax.scatter(
        xs,
        ys,
        s=[10.0 + 26.0 * b.weight / heaviest for b in reliability.bins],
        marker=marker,
        facecolors=["white" if out else colour for out in outside],
        edgecolors=[colour if out else "white" for out in outside],
        linewidths=0.6,
        zorder=3,
        clip_on=False,
    )
    ax.plot([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.0, label=label)  # for the legend


def _draw_histogram(
    below: Axes, reliability: ReliabilityData | CORPReliability, colour: str, low: float, high: float, spacing: Spacing
) -> None:
    """Draw the outline of a histogram of weights; weight outside the limits is counted in the outermost bins."""
    shares, edges = histogram(reliability.scores, reliability.weights, Axis(low, high, spacing))
    below.stairs(shares, edges, color=colour, linewidth=1.2, alpha=0.9)
    below.stairs(shares, edges, color=colour, fill=True, alpha=0.08)
