"""Draw the pictures of docs/, with what each shows written into its file; or compare that with what is drawn now.

    python tools/draw.py                     # some minutes; docs/report.png needs Chromium
    python tools/draw.py demo.png concepts/drift.png
    python tools/draw.py --check             # draws nothing; exit 1 where a committed picture shows something else

The text in a file is that of the key Description of PNG: titles, labels and numbers. Pictures of measurements, in
docs/performance/, docs/race/ and docs/papers/, are drawn by the scripts that measure.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import io
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from benchmarks import concepts, figures, gallery  # noqa: E402 - it is no package that is installed
from streamcal import compare  # noqa: E402
from streamcal.app import demo, demo_report, html_report, report_data  # noqa: E402
from streamcal.datasets import bank  # noqa: E402

#: Points of a line that are written, and bars.
POINTS, BARS = 12, 40
#: Two numbers are the same: rounding, another libm or River may move them.
RELATIVE, ABSOLUTE = 0.02, 2e-3
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
#: The width of the picture of the report.
WIDTH = 1180


def shown(figure: Figure) -> str:
    """Describe what a figure of matplotlib shows, in words and numbers."""
    return "\n".join(_shown(axes) for axes in figure.axes)


def _shown(axes: Axes) -> str:
    legend = axes.get_legend()
    names = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    titles = (axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel())
    words = [*titles, *names, *(text.get_text() for text in axes.texts)]
    numbers: list[float] = []
    for line in axes.get_lines():
        for values in (list(line.get_xdata()), list(line.get_ydata())):
            numbers += values[:: max(len(values) // POINTS, 1)]
    for patch in axes.patches[:BARS]:
        if isinstance(patch, Rectangle):
            numbers += [patch.get_width(), patch.get_height()]
        elif isinstance(patch, StepPatch):
            numbers += list(patch.get_data().values)[:BARS]
    for drawn in axes.collections:
        at = drawn.get_offsets() if isinstance(drawn, PathCollection) else drawn.get_paths()[0].vertices
        numbers += at[:: max(len(at) // POINTS, 1), 1].tolist()
    return "; ".join([*filter(None, words), " ".join(f"{float(number):.3g}" for number in numbers)])


@contextlib.contextmanager
def describing() -> Iterator[None]:
    """Write into every PNG that matplotlib saves what it shows."""
    save = Figure.savefig

    def saved(figure: Figure, path: object, **options: object) -> None:
        save(figure, path, **options | {"metadata": {"Description": shown(figure), "Software": None}})

    with mock.patch.object(Figure, "savefig", saved):
        yield


def _demo(path: Path) -> None:
    demo_report.save_picture(demo.run(lambda rows, share: None), path, Console(quiet=True))


@functools.cache
def _data() -> report_data.ReportData:
    """Return the data of the report on naive Bayes on the bank stream, as docs/compare.md makes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bank_scores.csv")
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["score", "subscribed"])
            rows.writerows((score, int(y)) for score, y in demo.score_stream(demo.gaussian_naive_bayes(), bank()))
        return report_data.prepared(compare(path, label="subscribed"))


def report_text() -> str:
    """Return what the page of the report says, but times and sizes."""
    data = _data()
    columns = [k for k, name in enumerate(data.headings) if name not in ("µs a row", "state")]
    rows = (data.headings, *data.table)
    sentences = [one for one in data.sentences if "times as fast" not in one]
    return "\n".join([*sentences, *(" | ".join(row[k] for k in columns) for row in rows)])


def _report(path: Path) -> None:
    """Draw the page down to its first row of pictures."""
    sys.path.append(str(ROOT / "tests"))
    from chromium import Browser

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        file.write_text(html_report.page(_data()), encoding="utf-8")
        with Browser(Path(folder, "profile")) as browser:
            browser.open(file.as_uri(), WIDTH)
            end = browser.value("document.querySelector('figure').getBoundingClientRect().bottom")
            browser.picture(Path(folder, "page.png"))
        info = PngInfo()
        info.add_itxt("Description", report_text())
        Image.open(Path(folder, "page.png")).crop((0, 0, WIDTH, int(end) + 12)).save(path, pnginfo=info, optimize=True)


def _of_page(page: str, name: str, path: Path) -> None:
    """Run the Python of a page, which saves a picture of this name."""
    code = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            exec("\n".join(code), {"__name__": page})
        finally:
            os.chdir(before)
        shutil.move(Path(folder, name), path)


#: Picture in docs/ → what draws it to a path.
PICTURES: dict[str, Callable[[Path], None]] = {
    "demo.png": _demo,
    "report.png": _report,
    "concepts/reliability.png": concepts.reliability,
    "concepts/drift.png": concepts.drift,
    "implementation/tree.png": figures.draw,
    "calibration_display.png": functools.partial(_of_page, "sklearn.md", "calibration.png"),
    "distributions.png": functools.partial(_of_page, "measures.md", "distributions.png"),
    **{f"examples/{name}.png": functools.partial(gallery.draw, name) for name in gallery.DRAWN},
}


def text_in(path: Path) -> str:
    """Return what a picture shows, from its file."""
    with Image.open(path) as image:
        return str(getattr(image, "text", {}).get("Description", ""))


def text_now(name: str) -> str:
    """Return what a picture shows if it is drawn now."""
    if name == "report.png":
        return report_text()
    with tempfile.TemporaryDirectory() as folder, describing():
        path = Path(folder, Path(name).name)
        PICTURES[name](path)
        return text_in(path)


def same(one: str, other: str) -> bool:
    """Return whether two texts have the same words, and numbers that are nearly the same."""
    if re.sub(NUMBER, "#", one) != re.sub(NUMBER, "#", other):
        return False
    pairs = zip(*([float(n.replace(",", "")) for n in re.findall(NUMBER, text)] for text in (one, other)), strict=True)
    return all(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)


def main(arguments: list[str] | None = None) -> int:
    """Draw pictures or compare them; return the number for the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and draw nothing")
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], metavar="NAME")
    asked = parser.parse_args(arguments)
    wrong = 0
    for name in asked.names or PICTURES:
        if asked.check:
            found = same(text_in(DOCS / name), text_now(name))
            print(f"docs/{name}: {'as drawn now' if found else 'shows something else: python tools/draw.py ' + name}")
            wrong += not found
        else:
            with describing():
                PICTURES[name](DOCS / name)
            print(f"docs/{name}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
