"""The plots of docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from benchmarks.targets import OURS, US, Results

#: Line → (colour, width, label). Ours in colour, the floor in black, rivals in greys of one family.
STYLES: dict[str, tuple[str, float]] = {
    "VennAbers": ("#c2410c", 2.6),
    "VennAbers, Window": ("#ea9a62", 1.8),
    "VennAbers, 2^12 cells": ("#9333ea", 1.8),
    "Bernstein, degree 20": ("#1d4ed8", 2.2),
    "OnlinePlatt": ("#0f766e", 2.2),
    "SortedList": ("#000000", 1.6),
    "no-op method call": ("#000000", 1.0),
    "River, logistic regression": ("#6b7280", 1.4),
    "Bernstein, degree 20, OSQP": ("#6b7280", 1.4),
}
RIVAL = ("#6b7280", 1.4)
#: Of the methods in a panel.
COLOURS = ("#c2410c", "#1d4ed8", "#0f766e", "#9333ea", "#000000", "#b45309", "#0891b2", "#be185d")


def draw(results: Results, folder: Path) -> None:
    """Draw what was run."""
    if results.get("ladder"):
        _save(_cost(results), folder / "cost.png")
    if results.get("growth"):
        _save(_growth(results), folder / "growth.png")
    if results.get("tail"):
        _save(_tail(results), folder / "tail.png")


def _cost(results: Results) -> Figure:
    """Cost of a step against n, log-log; rivals that refit as lines that rise with n."""
    figure, axes = _axes("distinct scores held, n", "seconds per step", (9.0, 6.4))
    labels = []
    for name, points in _lines(results["ladder"] + results.get("refits", [])).items():
        if name not in STYLES and name in {row["subject"] for row in results["ladder"]}:
            continue  # as flat as its neighbours: it stands in the table
        colour, width = STYLES.get(name, RIVAL)
        sizes, seconds = zip(*points, strict=True)
        style = "--" if colour == RIVAL[0] or name == "no-op method call" else "-"
        axes.plot(sizes, seconds, style, color=colour, linewidth=width, marker="o", markersize=3)
        labels.append((sizes[-1], seconds[-1], name, colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    _label_ends(axes, labels)
    axes.set_title("Learn one observation, predict one score", loc="left")
    return figure


def _growth(results: Results) -> Figure:
    """Draw the step of the tree with the fitted line a + b·log₂² n, on an axis on which the line is straight."""
    fit = results["growth"]
    figure, axes = _axes("distinct scores held, n  (axis: log² n)", "µs per step", (7.0, 4.2))
    for name, label in ((OURS, "VennAbers"), ("SortedList", "SortedList: add + bisect_left")):
        points = _lines(results["ladder"])[name]
        x, y = np.array(points).T
        axes.plot(np.log2(x) ** 2, y * US, "o", color=STYLES[name][0], label=label)
        if name == OURS:
            line = np.linspace(np.log2(x[0]) ** 2, np.log2(x[-1]) ** 2, 2)
            text = f"{fit['a'] * US:.2f} + {fit['b'] * US:.4f}·log₂² n"
            axes.plot(line, (fit["a"] + fit["b"] * line) * US, color=STYLES[name][0], linewidth=1.2, label=text)
            axes.set_xticks(np.log2(x) ** 2, [f"{size:,.0f}" for size in x], rotation=30, ha="right")
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, loc="upper left")
    axes.set_title("Growth of a step", loc="left")
    return figure


def _tail(results: Results) -> Figure:
    """Draw the share of steps that are slower than a time."""
    tail = results["tail"]
    figure, axes = _axes("µs", "share of steps that take as long", (7.0, 4.2))
    seconds, shares = np.array(tail["exceeded"]).T
    axes.plot(seconds * US, shares, color=STYLES[OURS][0], linewidth=2.0)
    axes.axvline(tail["control"]["maximum"] * US, color=RIVAL[0], linestyle="--", linewidth=1.0)
    axes.text(tail["control"]["maximum"] * US, 1.0, "longest control step ", ha="right", va="top", color=RIVAL[0])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"Steps of a Window over {tail['size']:,} scores", loc="left")
    return figure


def draw_methods(rows: list[dict[str, Any]], about: dict[str, str], path: Path) -> None:
    """Draw the median step of every method against n: four panels, from the fastest methods to the slowest."""
    lines = _lines([row | {"subject": row["method"]} for row in rows])
    slowest = sorted(lines, key=lambda name: lines[name][-1][1])
    figure = Figure(figsize=(11.0, 8.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, names in zip(figure.subplots(2, 2, sharex=True).flat, np.array_split(slowest, 4), strict=True):
        _style(axes)
        labels = []
        for name, colour in zip(names.tolist(), COLOURS, strict=False):
            sizes, seconds = zip(*lines[name], strict=True)
            axes.plot(sizes, np.array(seconds) * US, color=colour, linewidth=1.8, marker="o", markersize=3)
            labels.append((sizes[-1], seconds[-1] * US, name, colour))
        axes.set(xscale="log", yscale="log", xlabel="observations held, n", ylabel="µs, median")
        axes.set_ylim(0.6 * axes.get_ylim()[0], 1.6 * axes.get_ylim()[1])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        _label_ends(axes, labels, apart=(axes.get_ylim()[1] / axes.get_ylim()[0]) ** 0.06)
    figure.suptitle(f"learn_one and predict_one by the number of observations ({about['date']})", fontsize=10)
    figure.savefig(path)


def _lines(rows: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Subject → (size, median seconds), ascending."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        lines.setdefault(row["subject"], []).append((row["size"], row["median"]))
    return lines


def _axes(x: str, y: str, size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _style(axes)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _style(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#e5e7eb", linewidth=0.8)


def _label_ends(axes: Axes, labels: list[tuple[int, float, str, str]], apart: float = 1.7) -> None:
    """Names at the ends of the lines; neighbours on the logarithmic axis differ by the factor `apart` at least."""
    height = 0.0
    for size, seconds, name, colour in sorted(labels, key=lambda label: label[1]):
        height = max(seconds, height * apart)
        axes.annotate(
            f" {name}", (size, seconds), (1.02, height), textcoords=axes.get_yaxis_transform(), color=colour,
            va="center", fontsize=8, annotation_clip=False,
        )  # fmt: skip


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
