"""The pages of the site that are made when it is built: a page per method, and the reference.

mkdocs calls `on_config` and `on_files`. Docstrings are put in by mkdocstrings, where a page says `::: name`.
"""

from __future__ import annotations

import functools
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from notes import NOTES

import streamcal
from streamcal import REGISTRY, datasets, fusion, live, metrics, multiclass, regression, river

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Pages of the reference: title → (module, the names that it shows; None is all that it exports).
REFERENCE: dict[str, tuple[Any, tuple[str, ...] | None]] = {
    "streamcal": (streamcal, None),
    "streamcal.live": (live, None),
    "streamcal.fusion": (fusion, None),
    "streamcal.multiclass": (multiclass, None),
    "streamcal.regression": (regression, None),
    "streamcal.river": (river, None),
    "streamcal.metrics": (metrics, None),
    "streamcal.datasets": (datasets, None),
}
#: Rows of the picture of each method, and its seed.
ROWS, SEED = 4_000, 1
#: What solves for milliseconds is shown on fewer.
SLOW, FEW = ("rpr", "elite", "bbq"), 1_000


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that are made into the navigation."""
    found = {
        "METHODS": ["methods/index.md", *[{name: f"methods/{name}.md"} for name in REGISTRY]],
        "REFERENCE": [{title: f"reference/{title}.md"} for title in REFERENCE],
        "PAPERS": [{_title(path): f"papers/{path.name}"} for path in sorted((DOCS / "papers").glob("*.md"))],
    }
    for section in config.nav or []:
        for title, pages in section.items():
            if isinstance(pages, str):
                section[title] = found[pages]
            else:
                for page in pages:
                    if isinstance(page, dict) and page.get("Papers") == "PAPERS":
                        page["Papers"] = found["PAPERS"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, content in {**_method_pages(), **_reference_pages()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the advice of the README into its page. Links to files outside of docs/ become their names."""
    if "WHERE_TO_START" in markdown:
        markdown = markdown.replace("WHERE_TO_START", _where_to_start())
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?!papers|race)[A-Z][^)]*\)", r"\1", markdown)


def _where_to_start() -> str:
    """The table that tools/readme_tables.py keeps in the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return readme.partition("<!-- methods: where to start -->")[2].partition("<!-- end of methods -->")[0].strip()


def _title(path: Path) -> str:
    """The first heading of a page."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(",")[0]


# -- methods -----------------------------------------------------------------------------------------------------------


def _method_pages() -> dict[str, str | bytes]:
    pages: dict[str, str | bytes] = {"methods/index.md": _overview()}
    for name in REGISTRY:
        pages[f"methods/{name}.md"] = _method_page(name)
        pages[f"methods/{name}.png"] = _picture(name)
    return pages


def _overview() -> str:
    lines = [
        "# Methods of one score\n",
        "What each is, whether its map is monotone, whether it gives an interval, whether a label can be retracted, "
        "and whether its memory has a bound. Costs are on [Performance](../performance.md); "
        "[Which calibrator?](../which.md) says where to start.\n",
        "| method | class | what it is | monotone | interval | retracts | bounded memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, method in REGISTRY.items():
        cal = method()
        flags = (cal.monotone, cal.has_interval, cal.unlearns, cal.bounded_memory)
        shown = " | ".join("yes" if flag else "–" for flag in flags)
        lines.append(f"| [{name}]({name}.md) | `{method.__name__}` | {method.summary} | {shown} |")
    return "\n".join(lines) + "\n"


def _method_page(name: str) -> str:
    method = REGISTRY[name]
    take, leave = NOTES[name]
    path = f"{method.__module__}.{method.__name__}"
    return f"""# {name}

{method.summary[0].upper()}{method.summary[1:]}. In Python `streamcal.{method.__name__}`, on the command line
`--method {name}`.

**Take it** {take[0].lower()}{take[1:]}

**Take another one** {leave[0].lower()}{leave[1:]}

![The map of {name} after {_rows(name):,} overconfident scores]({name}.png)

The scores are the same on every page: their log-odds are twice those of the truth (the dashed line), and below a bound
they are equal. Dots are shares of positives in bins of equal size.

## Reference

::: {path}
    options:
      heading_level: 3
"""


def _rows(name: str) -> int:
    return FEW if name in SLOW else ROWS


@functools.cache
def _stream() -> tuple[Any, Any, Any]:
    """Scores, the true probabilities, and labels."""
    rng = np.random.default_rng(SEED)
    z = 1.4 * rng.standard_normal(ROWS) - 0.5
    scores = 1.0 / (1.0 + np.exp(-2.0 * np.maximum(z, -1.2)))
    truth = 1.0 / (1.0 + np.exp(-z))
    return scores, truth, rng.random(ROWS) < truth


def _picture(name: str) -> bytes:
    """The map that the method has learned, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scores, _, y = (part[: _rows(name)] for part in _stream())
    cal = REGISTRY[name]()
    cal.learn_many(scores, y)
    grid = np.linspace(0.0, 1.0, 401)
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    order = np.argsort(scores)
    for part in np.array_split(order, 12):
        ax.plot(scores[part].mean(), y[part].mean(), "o", color="#7a7a7a", ms=5)
    inner = np.clip(grid, 1e-4, 1.0 - 1e-4)
    truth = 1.0 / (1.0 + np.sqrt((1.0 - inner) / inner))
    ax.plot(grid, truth, "--", color="#333333", lw=1, label="truth")
    if cal.has_interval:
        lower, upper = cal.predict_interval_many(grid)
        ax.fill_between(grid, lower, upper, color="#0072b2", alpha=0.25, lw=0, label="interval")
    ax.plot(grid, cal.predict_many(grid), color="#0072b2", lw=1.8, label=name)
    ax.set(xlabel="score", ylabel="calibrated probability", xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left", frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


# -- reference ---------------------------------------------------------------------------------------------------------


def _reference_pages() -> dict[str, str]:
    return {f"reference/{title}.md": _reference(title, *shown) for title, shown in REFERENCE.items()}


def _reference(title: str, module: Any, names: Iterable[str] | None) -> str:
    parts = [f"# {title}\n"]
    for name in names or module.__all__:
        found = getattr(module, name)
        if not hasattr(found, "__module__") or not hasattr(found, "__qualname__"):
            continue  # a table of methods, or a module
        page = next((key for key in REGISTRY if REGISTRY[key] is found), None)
        if page is not None and module is streamcal:
            parts.append(f"## {name}\n\nSee [{page}](../methods/{page}.md).\n")
        else:
            parts.append(f"::: {found.__module__}.{found.__qualname__}\n")
    return "\n".join(parts)
