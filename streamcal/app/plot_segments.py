"""The forest plot of segments, with matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamcal.app.plot_frame import COLOURS, FAINT, INK, axes_for, finish, name_axes
from streamcal.app.prepared import MOST_DRAWN, cut, effect_limits
from streamcal.live.segmented import Effect
from streamcal.stream.by_segment import level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_effects(
    effects: Iterable[Effect], ax: Axes | None = None, *, most: int = MOST_DRAWN, title: str | None = None
) -> Axes:
    """Draw what segments add to the log-odds, as a forest plot: a dot for each level, on ± one standard deviation.

    Levels are drawn in the order given, from the top. The standard deviation is that of the posterior
    (`Segmented.effect`), and no confidence interval with a guarantee.

    Parameters
    ----------
    effects
        Of `Segmented.effects(field)`, or `compare(…, segments=…).standings[name].effects[field]`.
    ax, title
        As for `plot_reliability`.
    most
        Number of levels to draw, the first ones.
    """
    drawn = list(itertools.islice(effects, most))
    ax = axes_for(drawn, "give at least one effect", ax)
    rows, means = [-row for row in range(len(drawn))], [effect.mean for effect in drawn]
    heaviest = max(effect.n for effect in drawn) or 1.0
    ax.errorbar(means, rows, xerr=[effect.sd for effect in drawn], fmt="none", ecolor=COLOURS[1], elinewidth=1.4)
    ax.scatter(means, rows, s=[8.0 + 30.0 * effect.n / heaviest for effect in drawn], color=COLOURS[1], zorder=3)
    ax.axvline(0.0, color=INK, linewidth=0.9, linestyle=(0, (5, 4)))
    ax.set(xlim=effect_limits(drawn), ylim=(0.4 - len(drawn), 0.6), yticks=rows)
    ax.set_yticklabels([cut(level_text(effect.level)) for effect in drawn])
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    name_axes(ax, "effect on the log-odds")
    finish(ax, title, legend=False)
    return ax
