"""The pictures of the pages of methods: what each has learned from the same stream of its room."""

from __future__ import annotations

import functools
import importlib
import inspect
import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from streamcal import REGISTRY
from streamcal.regression import Normal

SEED = 1
#: Rows of the streams; what solves for milliseconds, or holds what grows with the rows squared, is shown on fewer.
ROWS, FEW = 4_000, 1_000
SLOW = (
    "monotone-polynomial",
    "elite",
    "bbq",
    "copula-fusion",
    "mrmic",
    "partial-order-venn-abers",
    "prequential-fusion",
)
#: A Gaussian process takes a second for a solve of any size; classes and distributions are learned in Python.
ROWS_OF = {"streamcal.multiclass": 1_000, "streamcal.regression": 1_000}
BLUE, GREY, DARK = "#0072b2", "#7a7a7a", "#333333"

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """What the methods of a room learn, and the truth where there is one."""

    scores: Any
    y: Any
    truth: Any = None


@functools.cache
def stream_of(module: str) -> Stream:
    """Return the stream from which the methods of a module learn for their pictures."""
    rng = np.random.default_rng(SEED)
    z = 1.4 * rng.standard_normal(ROWS) - 0.5
    truth = 1.0 / (1.0 + np.exp(-z))
    if module == "streamcal":
        return Stream(1.0 / (1.0 + np.exp(-2.0 * np.maximum(z, -1.2))), rng.random(ROWS) < truth, truth)
    if module == "streamcal.fusion":  # two models that see the truth with noise of their own, and are too confident
        noisy = 1.5 * (z[:, None] + rng.normal(0.0, (0.6, 1.2), (ROWS, 2)))
        return Stream(1.0 / (1.0 + np.exp(-noisy)), rng.random(ROWS) < truth, truth)
    if module == "streamcal.multiclass":  # three classes, log-probabilities stated 1.8 times too large
        log_odds = rng.normal(0.0, 1.2, (ROWS, 3))
        P = np.exp(log_odds) / np.exp(log_odds).sum(axis=1, keepdims=True)
        labels = (P.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1)
        stated = P**1.8 / (P**1.8).sum(axis=1, keepdims=True)
        return Stream(stated, labels, P)
    means = rng.uniform(0.0, 10.0, ROWS)  # errors are three times the stated deviation, and skewed
    errors = 1.5 * (rng.gamma(2.0, 1.0, ROWS) - 2.0) / np.sqrt(2.0)
    return Stream([Normal(mean, 0.5) for mean in means], means + errors, means)


def rows_of(module: str, name: str) -> int:
    """Return the number of rows that a method learns for its picture."""
    return FEW if name in SLOW else ROWS_OF.get(module, ROWS)


def learned(module: str, name: str) -> Any:
    """Return the method with its defaults, after it has learned the stream of its module."""
    package = importlib.import_module(module)
    method = (REGISTRY if module == "streamcal" else package.METHODS)[name]
    cal = method(**({"support": (-3.0, 18.0)} if "support" in inspect.signature(method).parameters else {}))
    stream, n = stream_of(module), rows_of(module, name)
    named = {"labels": [0, 1, 2]} if module == "streamcal.multiclass" else {}
    cal.learn_many(stream.scores[:n], stream.y[:n], **named)
    return cal


def captioned(module: str, name: str) -> str:
    """Write the picture as Markdown, and the paragraph below it."""
    alt, below = {
        "streamcal": (
            "The map of {name} after {n:,} overconfident scores",
            "The scores are the same on every page: their log-odds are twice those of the truth (the dashed line), and "
            "below a bound they are equal. Dots are shares of positives in bins of equal size.",
        ),
        "streamcal.fusion": (
            "Forecasts of {name} by both scores after {n:,} pairs",
            "The pairs are the same on every page: two models see the truth with noise, the second with twice as much, "
            "and both are too confident. Lines are pairs of scores with the same forecast; dots are some of the pairs.",
        ),
        "streamcal.multiclass": (
            "Reliability of the first of three classes, as stated and after {name} had learned {n:,} observations",
            "The observations are the same on every page: the stated log-probabilities of three classes are 1.8 times "
            "too large. Dots are forecasts of the first class for further observations against the truth.",
        ),
        "streamcal.regression": (
            "A stated and a calibrated distribution, by {name} after {n:,} forecasts",
            "The forecasts are the same on every page: normal, with a third of the standard deviation that their "
            "errors have, whose distribution is skewed. Drawn are the distribution functions of one more forecast.",
        ),
    }[module]
    return f"![{alt.format(name=name, n=rows_of(module, name))}]({name}.png)\n\n{below}"


def drawn(module: str, name: str, cal: Any) -> bytes:
    """Draw what the method has learned, as PNG."""
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    draw = {
        "streamcal": _map,
        "streamcal.fusion": _contours,
        "streamcal.multiclass": _first_class,
        "streamcal.regression": _distribution,
    }[module]
    draw(ax, name, cal, stream_of(module), rows_of(module, name))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)  # above the axes
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _map(ax: Any, name: str, cal: Any, stream: Stream, n: int) -> None:
    """Score → probability."""
    scores, y = stream.scores[:n], stream.y[:n]
    grid = np.linspace(0.0, 1.0, 401)
    for part in np.array_split(np.argsort(scores), 12):
        ax.plot(scores[part].mean(), y[part].mean(), "o", color=GREY, ms=5)
    inner = np.clip(grid, 1e-4, 1.0 - 1e-4)
    ax.plot(grid, 1.0 / (1.0 + np.sqrt((1.0 - inner) / inner)), "--", color=DARK, lw=1, label="truth")
    if cal.has_interval:
        lower, upper = cal.predict_interval_many(grid)
        ax.fill_between(grid, lower, upper, color=BLUE, alpha=0.25, lw=0, label="interval")
    ax.plot(grid, cal.predict_many(grid), color=BLUE, lw=1.8, label=name)
    ax.set(xlabel="score", ylabel="calibrated probability", xlim=(0, 1), ylim=(0, 1))


def _contours(ax: Any, name: str, cal: Any, stream: Stream, n: int) -> None:
    """Two scores → probability."""
    side = np.linspace(0.01, 0.99, 41)
    first, second = np.meshgrid(side, side)
    p = cal.predict_many(np.column_stack((first.ravel(), second.ravel()))).reshape(first.shape)
    few = stream.scores[:300]
    ax.plot(*few[~stream.y[:300]].T, "o", color=GREY, ms=3, mfc="none", label="negative")
    ax.plot(*few[stream.y[:300]].T, "o", color=DARK, ms=3, label="positive")
    lines = ax.contour(first, second, p, levels=np.arange(0.1, 1.0, 0.1), colors=BLUE, linewidths=1.2)
    ax.clabel(lines, fmt="%.1f", fontsize=8)
    ax.set(xlabel="score of the first model", ylabel="score of the second model", xlim=(0, 1), ylim=(0, 1))


def _first_class(ax: Any, name: str, cal: Any, stream: Stream, n: int) -> None:
    """Truth → forecast, of observations that were not learned."""
    later = slice(ROWS - 400, ROWS)
    stated, truth = stream.scores[later], stream.truth[later]
    p = np.array([cal.predict_one(dict(enumerate(row)))[0] for row in stated.tolist()])
    ax.plot([0, 1], [0, 1], "--", color=DARK, lw=1, label="truth")
    ax.plot(truth[:, 0], stated[:, 0], "o", color=GREY, ms=3, mfc="none", label="as stated")
    ax.plot(truth[:, 0], p, "o", color=BLUE, ms=3, label=name)
    ax.set(xlabel="probability of the first class", ylabel="forecast", xlim=(0, 1), ylim=(0, 1))


def _distribution(ax: Any, name: str, cal: Any, stream: Stream, n: int) -> None:
    """Distribution functions of one forecast."""
    forecast, t = Normal(5.0, 0.5), np.linspace(1.0, 11.0, 401)
    errors = np.sort(np.asarray(stream.y) - stream.truth)
    found = cal.predict_one(forecast)
    if hasattr(found, "lower"):
        lower, upper = ([part.cdf(x) for x in t] for part in (found.lower, found.upper))
        ax.fill_between(t, lower, upper, color=BLUE, alpha=0.25, lw=0, label="interval")
    ax.plot(t, np.searchsorted(errors, t - 5.0) / len(errors), "--", color=DARK, lw=1, label="truth")
    ax.plot(t, [forecast.cdf(x) for x in t], color=GREY, lw=1.2, label="as stated")
    ax.plot(t, [found.cdf(x) for x in t], color=BLUE, lw=1.8, label=name)
    ax.set(xlabel="outcome", ylabel="share of outcomes below", ylim=(0, 1))
