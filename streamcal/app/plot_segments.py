"""The forest plot of segments, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamcal.app.plot_frame import COLOURS, FAINT, INK, axes_for, draw_plain_frame, finish
from streamcal.app.prepared import MOST_DRAWN, cut, effect_limits, forest
from streamcal.live.segmented import Effect
from streamcal.stream.by_segment import level_text

#: Letters that have space beside the axis, also where pictures are side by side.
MOST_LETTERS = 12

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_effects(
    effects: Iterable[Effect], ax: Axes | None = None, *, most: int = MOST_DRAWN, title: str | None = None
) -> Axes:
    """Draw what segments add to the log-odds, as a forest plot: a dot for each level, on ± one standard deviation.

    Levels are in the order of their means. The standard deviation is that of the posterior (`Segmented.effect`), and no
    confidence interval with a guarantee.

    Parameters
    ----------
    effects
        Of `Segmented.effects(field)`, or `compare(…, segments=…).standings[name].effects[field]`.
    ax, title
        As for `plot_reliability`.
    most
        Levels to draw, those with the largest weight.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If there is nothing to draw.
    StreamcalError
        Without matplotlib.
    """
    drawn = forest(effects, most)
    ax = axes_for(drawn, "give at least one effect", ax)
    rows, means = range(len(drawn)), [one.mean for one in drawn]
    heaviest = max(one.n for one in drawn) or 1.0
    ax.errorbar(means, rows, xerr=[one.sd for one in drawn], fmt="none", ecolor=COLOURS[1], elinewidth=1.4)
    ax.scatter(means, rows, s=[8.0 + 30.0 * one.n / heaviest for one in drawn], color=COLOURS[1], zorder=3)
    ax.axvline(0.0, color=INK, linewidth=0.9, linestyle=(0, (5, 4)))
    ax.set(xlim=effect_limits(drawn), ylim=(-0.6, len(drawn) - 0.4), yticks=rows)
    ax.set_yticklabels([cut(level_text(one.level), MOST_LETTERS) for one in drawn])
    ax.set_xlabel("effect on the log-odds", color=INK)
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    ax.set_box_aspect(1)
    draw_plain_frame(ax)
    finish(ax, title, legend=False)
    return ax
