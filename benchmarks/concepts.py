"""The pictures of docs/concepts.md, from seeded streams.

python -m benchmarks.concepts    # some seconds; writes docs/concepts/*.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.streams.tables import Array
from streamcal import Auto, Decay, Platt

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "concepts"
INK, GREY, BLUE, GREEN, RED = "#111827", "#6b7280", "#1d4ed8", "#0f766e", "#c2410c"
ROWS, SEED, BINS = 40_000, 7, 12


def logistic(z: Array) -> Array:
    """Return the sigmoid of z."""
    return 1.0 / (1.0 + np.exp(-z))


def new_figure(panels: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels side by side."""
    figure = Figure(figsize=(4.2 * panels, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(np.atleast_1d(figure.subplots(1, panels)))


def curve(p: Array, y: Array) -> tuple[Array, Array]:
    """Mean prediction and share of positives in bins of equal numbers of rows."""
    groups = np.array_split(np.argsort(p), BINS)
    return np.array([p[group].mean() for group in groups]), np.array([y[group].mean() for group in groups])


def reliability(path: Path) -> None:
    """Three scores for one outcome that rank all rows alike, and what they are worth as probabilities."""
    rng = np.random.default_rng(SEED)
    z = rng.normal(-1.0, 1.2, ROWS)
    y = rng.random(ROWS) < logistic(z)
    figure, panels = new_figure(3)
    for axes, (name, p) in zip(
        panels,
        {"calibrated": logistic(z), "too high": logistic(z + 1.0), "too confident": logistic(2.2 * z + 1.2)}.items(),
        strict=True,
    ):
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle="--")
        axes.plot(*curve(p, y), color=BLUE if name == "calibrated" else RED, marker="o", markersize=4)
        axes.set(title=name, xlabel="mean prediction", xlim=(0, 1), ylim=(0, 1))
    panels[0].set_ylabel("share of positives")
    figure.savefig(path, dpi=100)


def drift(path: Path) -> None:
    """Draw a rate that falls by half in the middle: the score, and the predictions of three calibrators."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(-1.0, 1.0, ROWS)
    y = rng.random(ROWS) < logistic(x - np.where(np.arange(ROWS) < ROWS // 2, 0.0, 0.8))
    scores = logistic(x)
    lines = {
        "score": (scores, GREY),
        "Platt()": (Platt().predict_learn_many(scores, y), RED),
        "Platt(forgetting=Decay(2_000))": (Platt(forgetting=Decay(2_000)).predict_learn_many(scores, y), BLUE),
        "Auto()": (Auto().predict_learn_many(scores, y), GREEN),
    }
    figure, (axes,) = new_figure(1)
    figure.set_size_inches(8.4, 3.6)
    size = ROWS // 40
    where = (np.arange(40) + 0.5) * size

    def mean(values: Array) -> Array:
        return values.reshape(40, size).mean(axis=1)

    axes.plot(where, mean(y.astype(float)), color=INK, linewidth=3.0, alpha=0.25, label="share of positives")
    for name, (p, colour) in lines.items():
        axes.plot(where, mean(p), color=colour, linewidth=1.5, label=name)
    axes.set(xlabel="observation", ylabel="mean of 1,000 observations", ylim=(0.15, 0.35))
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Draw the pictures of the page."""
    FOLDER.mkdir(exist_ok=True)
    reliability(FOLDER / "reliability.png")
    drift(FOLDER / "drift.png")


if __name__ == "__main__":
    main()
