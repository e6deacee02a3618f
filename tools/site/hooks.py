"""The pages of the site that are made when it is built: a page for each method of each room, and the reference.

mkdocs calls `on_config` and `on_files`. Docstrings are put in by mkdocstrings, where a page says `::: name`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.main import get_command

sys.path.insert(0, str(Path(__file__).parent))

import card
import notes
import pictures

import streamcal
import streamcal.sklearn
import streamcal.spark
from streamcal import REGISTRY, datasets, fusion, live, metrics, multiclass, plot, regression, river
from streamcal.app.cli import app
from streamcal.app.options import ALL
from streamcal.river import metrics as river_metrics

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
    "streamcal.sklearn": (streamcal.sklearn, None),
    "streamcal.river.metrics": (river_metrics, None),
    "streamcal.spark": (streamcal.spark, None),
    "streamcal.metrics": (metrics, None),
    "streamcal.plot": (plot, None),
    "streamcal.datasets": (datasets, None),
}
#: The title of the page with the help of every command.
COMMANDS = "commands"
#: What mkdocs.yml writes in place of a list of pages that are made or found.
PLACES = ("METHODS", "REFERENCE", "PAPERS")


class Room(NamedTuple):
    """The methods of one package, and where their pages go."""

    title: str
    folder: str
    module: str
    methods: Mapping[str, type[Any]]
    notes: Mapping[str, notes.Note]
    how_to: str


#: In the order of the tables of docs/methods/index.md.
ROOMS = (
    Room("One score", "", "streamcal", REGISTRY, notes.ONE_SCORE, "which"),
    Room("Several scores", "fusion/", "streamcal.fusion", fusion.METHODS, notes.FUSION, "fusion"),
    Room("Many classes", "multiclass/", "streamcal.multiclass", multiclass.METHODS, notes.MULTICLASS, "many_classes"),
    Room("Distributions", "regression/", "streamcal.regression", regression.METHODS, notes.REGRESSION, "regression"),
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that are made into the navigation."""
    found = {
        "METHODS": [
            "methods/index.md",
            *({room.title: [{name: f"methods/{room.folder}{name}.md"} for name in room.methods]} for room in ROOMS),
        ],
        "REFERENCE": [{title: f"reference/{title}.md"} for title in REFERENCE],
        "PAPERS": [{_title(path): f"papers/{path.name}"} for path in sorted((DOCS / "papers").glob("*.md"))],
    }
    for section in config.nav or []:
        for title, pages in section.items():
            if isinstance(pages, str):
                section[title] = found[pages]
                continue
            for part in pages:
                if isinstance(part, dict):
                    part.update({name: found[page] for name, page in part.items() if page in PLACES})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages of methods and of the reference to the site, and its card."""
    files.append(File.generated(config, "social_card.png", content=card.drawn()))
    for name, content in {**_method_pages(), **_reference_pages()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Names of methods in the tables become links. Links to files outside of docs/ become their names."""
    if page.file.src_uri == "methods/index.md":
        markdown = _linked(markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:[A-Z]|examples/|benchmarks/)[^)]*\)", r"\1", markdown)


def _linked(markdown: str) -> str:
    """Link each method in the tables of methods to the method's page."""
    rooms = iter(ROOMS)
    parts = re.split(r"(<!-- methods: [a-z ]+ -->)", markdown)
    for k in range(2, len(parts), 2):
        folder = next(rooms).folder
        table, end, rest = parts[k].partition("|\n\n")
        table = re.sub(r"^\| `([a-z-]+)` \|", rf"| [\1]({folder}\1.md) |", table, flags=re.MULTILINE)
        parts[k] = table + end + rest
    return "".join(parts)


def _title(path: Path) -> str:
    """Return the first heading of a page."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(",")[0]


# -- methods -----------------------------------------------------------------------------------------------------------


def _method_pages() -> dict[str, str | bytes]:
    pages: dict[str, str | bytes] = {}
    for room in ROOMS:
        for name in room.methods:
            cal = pictures.learned(room.module, name)
            pages[f"methods/{room.folder}{name}.md"] = _method_page(room, name, cal)
            pages[f"methods/{room.folder}{name}.png"] = pictures.drawn(room.module, name, cal)
    return pages


def _method_page(room: Room, name: str, cal: Any) -> str:
    method, note = room.methods[name], room.notes.get(name)
    when = (
        ""
        if note is None
        else f"""
**Take it** {note.take[0].lower()}{note.take[1:]}

**Take another one** {note.leave[0].lower()}{note.leave[1:]}
"""
    )
    up = "../" * (1 + room.folder.count("/"))
    command = f", on the command line `--method {name}`" if room.methods is REGISTRY else ""
    return f"""# {name}

{method.summary[0].upper()}{method.summary[1:]}. In Python `{room.module}.{method.__name__}`{command};
[how to]({up}{room.how_to}.md).
{when}
{pictures.captioned(room.module, name)}

{_facts(method, cal, note, up)}

## Formula, parameters and cost

::: {method.__module__}.{method.__name__}
    options:
      heading_level: 3
"""


def _facts(method: type[Any], cal: Any, note: notes.Note | None, up: str) -> str:
    """Write the table of a method: its guarantees, abilities, costs and state size."""
    size = f"{len(cal.to_bytes()):,} bytes"
    rows = {
        **({} if note is None else {"guaranteed": note.holds}),
        "merges, unlearns": _can(cal),
        "rises with the score": {True: "always", False: "not always", None: "–"}[getattr(cal, "monotone", None)],
        "interval": "yes" if getattr(cal, "has_interval", False) else "no",
        "memory": f"{'bounded' if cal.bounded_memory else 'grows'}; saved after the stream of the picture, {size}",
        **_costs(method, up),
    }
    if "regression" in method.__module__:
        del rows["rises with the score"], rows["interval"]
    if "multiclass" in method.__module__:
        del rows["rises with the score"]
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join([f"| | `{method.__name__}` |", "|---|---|", *lines])


def _can(cal: Any) -> str:
    if cal.merges and cal.unlearns:
        return "both, exactly"
    return {(True, False): "merges", (False, True): "unlearns"}.get((cal.merges, cal.unlearns), "neither")


def _costs(method: type[Any], up: str) -> dict[str, str]:
    """Return the median steps of docs/performance.md, by the number of observations kept."""
    name = f"`{method.name}`" if method.__module__.startswith("streamcal.calibrators") else f"`{method.__name__}()`"
    for kind in ("methods", "rooms"):
        heading, *body = _table_of_performance(kind)
        for row in (row for row in body if row[0] == name):
            medians = [(n, cell.partition(" ")[0]) for n, cell in zip(heading[1:], row[1:], strict=True) if cell]
            steps = ", ".join(f"{_readable(median)} after {n} observations" for n, median in medians)
            return {"to learn and predict one": f"{steps} ([Performance]({up}performance.md))"}
    return {}


def _readable(microseconds: str) -> str:
    """Microseconds as the tables write them; a thousand and more as milliseconds, a million and more as seconds."""
    value = float(microseconds.replace(",", ""))
    if value < 1e3:
        return f"{microseconds} µs"
    return f"{value / 1e3:.3g} ms" if value < 1e6 else f"{value / 1e6:.3g} s"


def _table_of_performance(kind: str) -> list[list[str]]:
    """Return the cells of a table, without the line of dashes."""
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    table = text.partition(f"<!-- benchmarks: {kind} -->")[2].partition("<!-- end")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return [row for row in rows if not set(row[1]) <= set("-: ")]


# -- reference ---------------------------------------------------------------------------------------------------------


def _reference_pages() -> dict[str, str]:
    pages = {f"reference/{title}.md": _reference(title, *shown) for title, shown in REFERENCE.items()}
    return {**pages, f"reference/{COMMANDS}.md": _commands()}


def _commands() -> str:
    """The help of every command, with all options."""
    parts = [
        "# Commands\n\nAll options of every command. `streamcal COMMAND --help` shows those that are often needed, and "
        "`--help-all` all of these. [Rules of the command line](../command_line_rules.md) describes what commands "
        "convert and keep.\n"
    ]
    for name, command in get_command(app).commands.items():
        context = command.context_class(command, info_name=f"streamcal {name}", terminal_width=100)
        context.meta[ALL] = True
        parts.append(f"## {name}\n\n```text\n{command.get_help(context).strip()}\n```\n")
    return "\n".join(parts)


def _reference(title: str, module: Any, names: Iterable[str] | None) -> str:
    parts = [f"# {title}\n"]
    for name in names or module.__all__:
        if module is streamcal.spark:  # read, and not imported: its modules need PySpark
            parts.append(f"::: {title}.{name}\n")
            continue
        found = getattr(module, name)
        if isinstance(found, ModuleType) or name == "__version__":
            continue
        if not hasattr(found, "__module__") or not hasattr(found, "__qualname__"):
            parts.append(f"::: {module.__name__}.{name}\n")  # a constant
            continue
        page = next(
            (f"{room.folder}{key}" for room in ROOMS for key in room.methods if room.methods[key] is found), None
        )
        if page is not None:
            parts.append(f"## {name}\n\nSee [{page}](../methods/{page}.md).\n")
        else:
            parts.append(f"::: {found.__module__}.{found.__qualname__}\n")
    return "\n".join(parts)
