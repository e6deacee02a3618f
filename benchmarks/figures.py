"""The figure of docs/implementation.md: the contents of the hull tree and a query, drawn from the running kernel.

    python -m benchmarks.figures    # writes docs/implementation/tree.png

The kernel is loaded as ordinary Python with small leaves, so that its nodes can be inspected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.arrivals import Array
from benchmarks.tree_counts import load_plain, replace

PATH = Path(__file__).resolve().parents[1] / "docs" / "implementation" / "tree.png"
INK, GREY, PALE = "#111827", "#6b7280", "#d1d5db"
LEFT, RIGHT, POOL = "#1d4ed8", "#0f766e", "#c2410c"
LABEL_0, LABEL_1 = "#9333ea", "#c2410c"
#: What became of a pool when a learn passed it.
OUTCOMES = {"untouched": PALE, "skipped": LEFT, "kept": RIGHT, "searched": POOL}

#: Nineteen groups: the fractions of label 1 rise too early before the cut and fall back after it.
WEIGHTS = np.array([3, 2, 2, 3, 2, 2, 1, 2, 2, 2, 3, 2, 2, 2, 3, 2, 1, 2, 2], dtype=float)
FRACTIONS = np.array(
    [0.02, 0.1, 0.06, 0.16, 0.3, 0.22, 0.5, 0.62, 0.55, 0.7, 0.15, 0.3, 0.28, 0.5, 0.42, 0.72, 0.9, 0.8, 0.98]
)
TEST_SCORE, TEST_WEIGHT = 12.5, 2.0


def minorant(x: Array, y: Array) -> list[int]:
    """Return the points that are corners of the greatest convex minorant of points in order of x."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners


def draw(path: Path = PATH) -> None:
    """Draw the figure of the four panels."""
    figure = Figure(figsize=(13.0, 10.6), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    (pool, tree), (query, newton) = figure.subplots(2, 2)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr]
    module = load_plain(LEAF_CAPACITY=10, LEAF_FILL=10)
    held = module.HullTree()
    scores = np.arange(len(WEIGHTS), dtype=float)
    held.rebuild(scores, WEIGHTS, WEIGHTS * FRACTIONS, np.ones(len(WEIGHTS), dtype=np.int64))
    x, y = np.append(0.0, WEIGHTS.cumsum()), np.append(0.0, (WEIGHTS * FRACTIONS).cumsum())
    _draw_pool(pool, held._root, x, y)
    _draw_tree(tree)
    fits, slopes = _fits(held)
    _draw_query(query, x, y, fits)
    _draw_newton(newton, x, y, slopes, fits)
    for axes in (pool, tree, query, newton):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Software": None})


def _draw_pool(axes: Axes, root: Any, x: Array, y: Array) -> None:
    """Draw one inner node: the minorants of its children and the pool between them, as found by the kernel."""
    cut, lo, hi = int(root.cut), int(root.lo), int(root.hi)
    for colour, name, part in ((LEFT, "left", slice(0, cut + 1)), (RIGHT, "right", slice(cut, None))):
        corners = np.array(minorant(x[part], y[part])) + part.start
        axes.plot(x[corners], y[corners], "-", color=colour, linewidth=1.8, label=f"minorant of the {name} child")
    axes.plot(x[[lo, hi]], y[[lo, hi]], "-", color=POOL, linewidth=3.2, label="pool: the edge that crosses the cut")
    axes.plot(x, y, "o", color=INK, markersize=4.5, label="points of the cumulative sum diagram")
    axes.plot(x[[lo, hi]], y[[lo, hi]], "o", color=POOL, markersize=8.5)
    axes.axvline(x[cut], color=GREY, linestyle=":", linewidth=1.4)
    axes.text(x[cut], 0.985 * y[-1], " cut", color=GREY, va="top")
    middle = 0.5 * (x[lo] + x[hi]), 0.5 * (y[lo] + y[hi])
    axes.annotate(
        f"slope P/W = {root.P / root.W:.2f},\nthe fit of all groups in the pool", middle, (1.0, 9.6),
        color=POOL, arrowprops={"arrowstyle": "-", "color": POOL, "linewidth": 0.8},
    )  # fmt: skip
    level = -1.5
    for start, stop, name, colour in (
        (0, lo, "far", GREY), (lo, cut, "near", POOL), (cut, hi, "near", POOL), (hi, len(x) - 1, "far", GREY)
    ):  # fmt: skip
        arrow = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": colour, "shrinkA": 1, "shrinkB": 1}
        axes.annotate("", (x[start], level), (x[stop], level), arrowprops=arrow)
        axes.text(0.5 * (x[start] + x[stop]), level - 0.3, name, ha="center", va="top", color=colour)
    axes.set_ylim(level - 1.4, 1.02 * y[-1])
    axes.set_xlabel("cumulative weight, groups in order of score")
    axes.set_ylabel("cumulative positive weight")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.95))
    axes.set_title("1  An inner node: two children, a cut, a pool", loc="left", fontweight="bold")


def _draw_tree(axes: Axes) -> None:
    """Draw a whole tree with the pool of every node, and how a learned observation changes the pools on its path."""
    rng = np.random.default_rng(11)
    module = load_plain(LEAF_CAPACITY=6, LEAF_FILL=4, MERGED_FILL=4)
    tree = module.HullTree()
    scores = np.arange(64, dtype=float)
    labels = (rng.random(64) < scores / 64).astype(float)
    tree.rebuild(scores, np.ones(64), labels, np.ones(64, dtype=np.int64))
    score, y = 37.5, 1.0
    outcomes = _outcomes(module, tree, score, y)
    depth = _draw_node(axes, tree._root, 0, -0.5, 63.5, outcomes)
    axes.plot([score, score], [0.35, -depth - 0.35], ":", color=INK, linewidth=1.2)
    axes.annotate(f"learned here,\nlabel {y:.0f}", (score, 0.35), (score + 1.0, 0.62), color=INK, fontsize=9)
    for name, colour in OUTCOMES.items():
        axes.plot([], [], linewidth=6, color=colour, label=name)
    axes.legend(frameon=False, loc="upper left", ncols=4, handlelength=1.2, columnspacing=1.2, title="pool was …")
    axes.set_ylim(-depth - 0.9, 2.0)
    axes.set_yticks([0, -depth], ["root", "leaves"])
    axes.set_xlabel("groups in order of score")
    axes.set_title("2  The tree: one pool per node; a learn looks at one path", loc="left", fontweight="bold")


def _outcomes(module: Any, tree: Any, score: float, y: float) -> dict[int, str]:
    """Learn, and record for each node on the path how its pool was updated."""
    found: dict[int, str] = {}

    def settled(self: Any, inner: Any, side: int) -> None:
        inside = inner.lo <= score < inner.hi
        settle(self, inner, side)
        if id(inner) not in found:
            moved = inside or inner.lo <= score < inner.hi
            found[id(inner)] = "kept" if moved else "skipped"

    def searched(self: Any, inner: Any) -> None:
        found[id(inner)] = "searched"
        find(self, inner)

    settle, find = replace(module, "settle", settled), replace(module, "find_pool", searched)
    tree.update(score, 1.0, y, 1)
    return found


def _draw_node(axes: Axes, node: Any, depth: int, start: float, stop: float, outcomes: dict[int, str]) -> int:
    """Draw a subtree that spans start … stop; returns the depth of its lowest leaf."""
    if node.leaves == 1:
        axes.plot([start + 0.25, stop - 0.25], [-depth] * 2, color=GREY, linewidth=1.0)
        axes.plot(node.scores[: node.n], [-depth] * node.n, "o", color=GREY, markersize=2.6)
        return depth
    cut = node.cut - 0.5
    axes.plot([start + 0.25, stop - 0.25], [-depth] * 2, color=PALE, linewidth=1.0, zorder=1)
    colour = OUTCOMES[outcomes.get(id(node), "untouched")]
    ends = [max(node.lo - 0.5, start), min(node.hi - 0.5, stop)]
    axes.plot(ends, [-depth] * 2, color=colour, linewidth=7.0, solid_capstyle="butt", zorder=2)
    axes.plot([cut, cut], [-depth - 0.17, -depth + 0.17], color=INK, linewidth=1.2, zorder=3)
    return max(
        _draw_node(axes, node.left, depth + 1, start, cut, outcomes),
        _draw_node(axes, node.right, depth + 1, cut, stop, outcomes),
    )


def _fits(tree: Any) -> tuple[tuple[float, float], list[list[float]]]:
    """Return the interval of the test object, and the slopes that Newton's method tried for each of its two fits."""
    tried: list[list[float]] = []
    fit, step = type(tree)._newton, type(tree)._step

    def fitted(self: Any, p: float, w: float) -> float:
        tried.append([])
        return float(fit(self, p, w))

    def stepped(self: Any, p: float, w: float) -> bool:
        tried[-1].append(self._line.slope)
        return bool(step(self, p, w))

    type(tree)._newton, type(tree)._step = fitted, stepped
    return tree.interval(TEST_SCORE, TEST_WEIGHT), tried


def _with_test(x: Array, y: Array, label: float) -> tuple[Array, Array]:
    """Return the diagram after the test object has moved all points above its score."""
    at = int(np.ceil(TEST_SCORE)) + 1
    return (
        np.concatenate([x[:at], x[at - 1 :] + TEST_WEIGHT]),
        np.concatenate([y[:at], y[at - 1 :] + label * TEST_WEIGHT]),
    )


def _crossing_edge(x: Array, y: Array) -> tuple[int, int]:
    """Return the two corners of the minorant around the test object."""
    at = int(np.ceil(TEST_SCORE))
    corners = minorant(x, y)
    i = next(i for i, corner in enumerate(corners) if corner > at)
    return corners[i - 1], corners[i]


def _draw_query(axes: Axes, x: Array, y: Array, fits: tuple[float, float]) -> None:
    """Draw the two diagrams of a query, and the edges that are its answer."""
    at = int(np.ceil(TEST_SCORE))
    axes.plot(x[: at + 1], y[: at + 1], "o", color=INK, markersize=4.5, label="points below the score: fixed")
    for label, colour, fit in ((1.0, LABEL_1, fits[1]), (0.0, LABEL_0, fits[0])):
        moved, risen = _with_test(x, y, label)
        axes.plot(moved[at + 1 :], risen[at + 1 :], "o", color=colour, markersize=4.5)
        axes.annotate(
            "", (moved[at + 1], risen[at + 1]), (x[at], y[at]),
            arrowprops={"arrowstyle": "-|>", "color": colour, "linestyle": "--", "shrinkA": 3, "shrinkB": 3},
        )  # fmt: skip
        a, b = _crossing_edge(moved, risen)
        slope = (risen[b] - risen[a]) / (moved[b] - moved[a])
        assert abs(slope - fit) < 1e-12, "the picture must show what the kernel says"
        name = f"test object with label {label:.0f}: slope f{'₁' if label else '₀'} = {fit:.3f}"
        axes.plot(moved[[a, b]], risen[[a, b]], "-", color=colour, linewidth=2.8, label=name, zorder=1)
        axes.plot(moved[[a, b]], risen[[a, b]], "o", color=colour, markersize=8.5, zorder=1)
    axes.axvline(x[at], color=GREY, linestyle=":", linewidth=1.4)
    axes.text(x[at] - 0.3, -0.4, "score of the test object", color=GREY, ha="right")
    axes.set_xlabel("cumulative weight")
    axes.set_ylabel("cumulative positive weight")
    axes.legend(frameon=False, loc="upper left")
    axes.set_title("3  A query: the edge over the test object, for both labels", loc="left", fontweight="bold")


def _draw_newton(axes: Axes, x: Array, y: Array, tried: list[list[float]], fits: tuple[float, float]) -> None:
    """Draw the height whose zero is the slope sought, and the slopes tried."""
    at = int(np.ceil(TEST_SCORE))
    slopes = np.linspace(0.2, 0.95, 1501)
    axes.axhline(0.0, color=GREY, linewidth=1.0)
    for label, colour, name in ((0.0, LABEL_0, "f₀"), (1.0, LABEL_1, "f₁")):
        moved, risen = _with_test(x, y, label)

        def height(slope: float, moved: Array = moved, risen: Array = risen) -> float:
            """Return the height of the supporting line of the points above over that of the points below."""
            above = risen - slope * moved
            return float(above[at + 1 :].min() - above[: at + 1].min())

        axes.plot(slopes, [height(slope) for slope in slopes], color=colour, linewidth=1.8)
        path = tried[int(label)]
        for number, (slope, following) in enumerate(zip(path, [*path[1:], fits[int(label)]], strict=True), 1):
            axes.plot([slope, following], [height(slope), 0.0], "--", color=colour, linewidth=1.0)
            axes.plot([following, following], [0.0, height(following)], ":", color=colour, linewidth=1.0)
            axes.plot([slope], [height(slope)], "o", color=colour, markersize=6)
            if abs(slope - fits[int(label)]) > 1e-9:
                axes.annotate(f"{number}", (slope, height(slope)), (5, 5), textcoords="offset points", color=colour)
        axes.annotate(
            f"{name} = {fits[int(label)]:.3f}",
            (fits[int(label)], 0.0),
            (8, 12),
            textcoords="offset points",
            color=colour,
        )
    axes.set_xlabel("slope λ of the line tried")
    axes.set_ylabel("right supporting line above the left one")
    axes.set_title("4  Newton's method: the line that supports both sides", loc="left", fontweight="bold")


if __name__ == "__main__":
    draw()
