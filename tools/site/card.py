"""The picture that is shown where somebody shares a link to the site: 1,200 × 630 pixels."""

from __future__ import annotations

import io

import numpy as np
import pictures
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from streamcal import Auto

#: The colours of the head of the site.
GROUND, LIGHT = "#37474f", "#ffffff"
RAW, CALIBRATED = "#ffab91", "#80d8ff"
BINS = 12


def drawn() -> bytes:
    """Draw the card: what streamcal is, and one score before and after calibration, as PNG."""
    scores, y = pictures.stream_of("streamcal")[:2]
    served = Auto().predict_learn_many(scores, y)
    figure = Figure(figsize=(12.0, 6.3), dpi=100, facecolor=GROUND)
    FigureCanvasAgg(figure)
    figure.text(0.06, 0.66, "streamcal", color=LIGHT, fontsize=58, weight="bold")
    figure.text(
        0.06,
        0.38,
        "Keep the probabilities\nof a deployed model calibrated\nwhile outcomes arrive",
        color=LIGHT,
        fontsize=25,
    )
    ax = figure.add_axes((0.62, 0.17, 0.32, 0.61), facecolor=GROUND)
    ax.plot([0, 1], [0, 1], "--", color=LIGHT, lw=1)
    half = len(y) // 2  # once it has learned
    for p, colour, name in ((scores, RAW, "score"), (served, CALIBRATED, "calibrated")):
        parts = np.array_split(half + np.argsort(p[half:]), BINS)
        ax.plot(
            [p[part].mean() for part in parts], [y[part].mean() for part in parts], "o-", color=colour, lw=3, label=name
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 1), yticks=(0, 1))
    ax.set_xlabel("probability", color=LIGHT, fontsize=15)
    ax.set_ylabel("share of events", color=LIGHT, fontsize=15)
    ax.tick_params(colors=LIGHT, labelsize=13)
    for spine in ax.spines.values():
        spine.set_color(LIGHT)
    ax.legend(frameon=False, labelcolor=LIGHT, fontsize=14, loc="upper left")
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()
