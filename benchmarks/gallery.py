"""Run the examples and draw a picture of each for docs/examples.md.

    python -m benchmarks.gallery          # writes docs/examples/*.png
    python -m benchmarks.gallery NAME...  # of these examples alone

The numbers of a picture are those of the table that its example prints.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "examples"
BLUE, GREY, DARK, ORANGE = "#0072b2", "#7a7a7a", "#333333", "#d55e00"


class Done(NamedTuple):
    """An example that has run: the text that it printed, and its global names."""

    text: str
    names: dict[str, Any]


def run(name: str, *options: str) -> Done:
    """Run an example in this process."""
    path = ROOT / "examples" / f"{name}.py"
    printed = io.StringIO()
    with mock.patch.object(sys, "argv", [str(path), *options]), contextlib.redirect_stdout(printed):
        names = runpy.run_path(str(path), run_name="__main__")
    return Done(printed.getvalue(), names)


def rows(text: str) -> dict[str, list[float]]:
    """Return the numbers of each row of the first table in a text: row → its columns."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        cells = re.match(r"(?P<name>\S.*?)\s{2,}(?P<numbers>-?\d[\d.,%\s-]*)$", line)
        if cells:
            numbers = re.findall(r"-?\d[\d.]*", cells["numbers"].replace(",", ""))
            found.setdefault(cells["name"].rstrip(":"), [float(one) for one in numbers])
        elif found:
            break
    return found


def bars(ax: Any, table: dict[str, list[float]], column: int, label: str, *, best: float | None = None) -> None:
    """Draw one column of a table, rows of raw scores in grey; with `best`, its place as a line."""
    names = list(table)
    values = [table[name][column] for name in names]
    ax.barh(names, values, color=[GREY if "raw" in name else BLUE for name in names], height=0.6)
    for place, value in enumerate(values):
        ax.text(value, place, f" {value:#.3g}", va="center", color=DARK)
    if best is not None:
        ax.axvline(best, color=DARK, lw=1, ls="--")
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set(xlabel=label)


def of_column(column: int, label: str, best: float | None = None) -> Callable[[Any, Done], None]:
    """Return the drawing of one column of the table that an example prints."""
    return lambda ax, done: bars(ax, rows(done.text), column, label, best=best)


def quarters(ax: Any, done: Done) -> None:
    """Draw log loss by quarter of the stream."""
    table = {name: values for name, values in rows(done.text).items() if not name.startswith("share")}
    for (name, values), colour in zip(table.items(), (GREY, DARK, BLUE, ORANGE), strict=True):
        ax.plot(range(1, 5), values[1:5], "o-", color=colour, label=name)
    ax.set_yscale("log")
    ax.set_yticks([0.2, 0.5, 1, 2, 4], labels=["0.2", "0.5", "1", "2", "4"])
    ax.minorticks_off()
    ax.set(xlabel="quarter of the stream", ylabel="log loss", xticks=range(1, 5))
    ax.legend(frameon=False)


def against_truth(ax: Any, done: Done) -> None:
    """Draw served scores and calibrated probabilities against the true probabilities."""
    scores, calibrated, truth = (done.names[name] for name in ("scores", "calibrated", "truth"))
    order = np.argsort(truth)
    for values, colour, label in ((scores, GREY, "served score"), (calibrated, BLUE, "calibrated")):
        ax.loglog(truth[order], values[order], color=colour, lw=2, label=label)
    ax.loglog([1e-3, 1], [1e-3, 1], "--", color=DARK, lw=1, label="truth")
    ax.set(xlabel="true click probability", ylabel="probability", xlim=(1e-3, 1), ylim=(1e-3, 1))
    ax.legend(frameon=False)


#: Example → how its picture is drawn; those with an option --picture draw their own.
DRAWN: dict[str, Callable[[Any, Done], None] | None] = {
    "ad_clicks_river": of_column(0, "log loss, bank stream"),
    "served_scores": against_truth,
    "drift_recalibration": quarters,
    "auto_weights": None,
    "clicks_and_conversions": of_column(1, "predicted / actual conversions", 1.0),
    "fusing_two_models": of_column(0, "Brier score"),
    "many_classes": of_column(0, "log loss, seven classes"),
    "delivery_times": of_column(0, "CRPS, minutes"),
}


def draw(name: str, path: Path) -> None:
    """Run an example and draw its picture."""
    drawn = DRAWN[name]
    if drawn is None:
        run(name, "--picture", str(path))
        return
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    ax = figure.subplots()
    drawn(ax, run(name))
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main(names: list[str]) -> None:
    """Write the pictures of these examples, or of all."""
    PICTURES.mkdir(exist_ok=True)
    for name in names or DRAWN:
        path = PICTURES / f"{name}.png"
        draw(name, path)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", choices=[*DRAWN, []], metavar="NAME")
    main(parser.parse_args().names)
