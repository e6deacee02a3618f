"""Common parts of matplotlib pictures: colours, a figure without pyplot, the frame, the legend and the title."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Literal

from streamcal.errors import InputError, StreamcalError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's colours, which colour-blind readers can distinguish; the first, a grey, is for the raw scores.
COLOURS = ("#7a7a7a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
#: The same for areas, with yellow instead of black; the grey is for "others".
AREA_COLOURS = (*COLOURS[1:-1], "#f0e442")
MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*")
INK, FAINT = "#333333", "#dddddd"


def new_figure(columns: int, layout: Literal["constrained"] | None = None) -> Any:
    """Create a figure with square axes side by side, without pyplot, whose state is global.

    With a layout, axes make space for long names, legends and histograms of their neighbours.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise StreamcalError('drawing needs matplotlib; install it with: pip install ".[plot]"') from None
    figure = Figure(figsize=(5.6 * columns, 6.6), layout=layout)
    space = None if layout else {"wspace": 0.22, "bottom": 0.3, "top": 0.92}
    figure.subplots(1, columns, squeeze=False, gridspec_kw=space)
    return figure


def axes_for(data: Sized, what: str, ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure; without data raise `InputError` that names `what` to give."""
    if not data:
        raise InputError(f"there is nothing to draw: {what}")
    return new_figure(1).axes[0] if ax is None else ax


def draw_plain_frame(ax: Axes) -> None:
    """Draw ticks, and lines at the left and at the bottom only."""
    ax.tick_params(colors=INK, labelsize=9, length=3, which="both", width=0.6)
    ax.tick_params(which="minor", length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#999999")


def name_axes(ax: Axes, x: str, y: str | None = None) -> None:
    """Make the axes square, name them, and draw their plain frame."""
    ax.set_box_aspect(1)
    ax.set_xlabel(x, color=INK)
    if y is not None:
        ax.set_ylabel(y, color=INK)
    draw_plain_frame(ax)


def name_observations(ax: Axes, y: str) -> None:
    """Do `name_axes` where the x axis counts observations, with a grid."""
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.grid(color=FAINT, linewidth=0.6)
    name_axes(ax, "observations", y)


def finish(ax: Axes, title: str | None, *, legend: bool = True) -> None:
    """Add legend and title."""
    if legend:
        ax.legend(loc="best", framealpha=0.85, edgecolor="none", fontsize=9, labelcolor=INK, handletextpad=0.6)
    if title is not None:
        ax.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold", pad=10)
