"""What follows from the lists of methods and their measured times: tables in docs/, `streamcal methods`, golden cases.

    python tools/generate.py            writes them
    python tools/generate.py --check    fails where a page says something else; `tests/test_golden.py` checks the cases

A table stands between `<!-- methods: KIND -->` and `<!-- end of methods -->`. It says of a method what its class says
(`name`, `summary`, `monotone`), what an instance with its defaults can do (`merges`, `unlearns`, `has_interval`,
`bounded_memory`), and the `shape` and `kind` of the map that it has after a few observations. Where to start, and the
chart of decisions, are made in `race_advice.py`, and what holds on long streams in `length_advice.py`. The times that
`streamcal methods` shows are those of the table in docs/performance.md, which `python -m benchmarks.methods` measured.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import length_advice
import numpy as np
import race_advice

from streamcal import REGISTRY, fusion, multiclass, regression
from streamcal.learners.additive import Additive
from streamcal.learners.learner import Learner
from streamcal.maps.portable import KINDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TABLE = re.compile(r"<!-- methods: (?P<kind>.+?) -->\n.*?<!-- end of methods -->", re.DOTALL)
#: The table of measured steps, and the line below it that tells when and where.
MEASURED = re.compile(
    r"<!-- benchmarks: methods -->\n(?P<table>.+?)\nMeasured (?P<made>.+?);.*?<!-- end: methods -->", re.S
)
#: What the package has of it, and the column: a step with so many observations learned.
TIMES, LEARNED = ROOT / "streamcal" / "app" / "method_times.json", "10,000"
HEADING = ["name", "class", "method", "merges, unlearns", "interval", "memory"]
#: The map is that of the candidate in front, which may be any.
SHAPES = {"prequential-fusion": "of its leader"}


def one_score() -> list[list[str]]:
    """Return the table of the methods of one score."""

    def learned(cal: Any) -> Any:
        cal.learn_many([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1])
        return cal.map()

    return rows_with_maps(REGISTRY, learned)


def several_scores() -> list[list[str]]:
    """Return the table of the methods of several scores."""

    def learned(cal: Any) -> Any:
        cal.learn_many([[0.1, 0.2], [0.3, 0.5], [0.6, 0.4], [0.8, 0.9]], [0, 1, 0, 1])
        return cal.map()

    return rows_with_maps(fusion.METHODS, learned)


def many_classes() -> list[list[str]]:
    """Return the table of the methods of many classes."""
    return [HEADING, *rows(multiclass.METHODS)]


def distributions() -> list[list[str]]:
    """Without the column of intervals: every calibrated distribution has them."""
    return [row[:4] + row[5:] for row in (HEADING, *rows(regression.METHODS))]


def kinds() -> list[list[str]]:
    """Return the table of the kinds of maps, and of the methods that write them by default and without a grid."""
    on_grid, exact = ({name: kind_of(cls, without) for name, cls in REGISTRY.items()} for without in (False, True))
    body = []
    for kind in KINDS:
        written = [f"`{name}`" for name in REGISTRY if on_grid[name] == kind]
        besides = [f"`{name}`" for name in REGISTRY if exact[name] == kind != on_grid[name]]
        body.append([f"`{kind}`", ", ".join(written), ", ".join(besides)])
    return [["kind", "methods", "with `resolution=None`"], *body]


def kind_of(cls: type[Any], without_grid: bool) -> str | None:
    """Return the kind of a method's map after a few observations; None for a method that never has a grid."""
    if without_grid and "resolution" not in inspect.signature(cls).parameters:
        return None
    cal = cls(resolution=None) if without_grid else cls()
    rng = np.random.default_rng(1)
    scores = rng.random(200).round(3)  # no score repeats often enough to have a probability of its own
    cal.learn_many(scores, rng.random(200) < scores**2)
    return str(json.loads(cal.map().to_json())["kind"])


def table(rows: list[list[str]]) -> str:
    """Write rows as Markdown, the heading first."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


#: Page → kind, as in the comment → what stands there.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "methods/index.md": {
        "one score": lambda: table(one_score()),
        "several scores": lambda: table(several_scores()),
        "many classes": lambda: table(many_classes()),
        "distributions": lambda: table(distributions()),
    },
    "map_format.md": {"kinds": lambda: table(kinds())},
    "which.md": {
        "where to start": lambda: table(race_advice.rows()),
        "chart": race_advice.chart,
        "at length": length_advice.which,
    },
    "rare_events.md": {"late and sampled": length_advice.rare},
}


def times() -> str:
    """Return the median steps of docs/performance.md, as JSON."""
    found = MEASURED.search((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert found is not None
    head, _, *body = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in found["table"].split("\n") if line
    )
    place = head.index(LEARNED)
    steps = {row[0].strip("`"): float(row[place].split()[0]) for row in body}
    return json.dumps({"measured": found["made"], "learned": LEARNED, "microseconds": steps}, indent=1) + "\n"


def rows(methods: Mapping[str, type[Learner]]) -> list[list[str]]:
    """Return the columns of `HEADING`: the classes' summaries, and what new instances can do."""
    return [[f"`{name}`", f"`{cls.__name__}`", cls.summary, *abilities(new(cls))] for name, cls in methods.items()]


def rows_with_maps(methods: Mapping[str, type[Any]], learned: Callable[[Any], Any]) -> list[list[str]]:
    """Return the rows of methods with a column for the shape of the map."""
    shapes = {name: SHAPES.get(name) or shape(learned(new(cls)), cls) for name, cls in methods.items()}
    body = [[*row[:3], shapes[name], *row[3:]] for name, row in zip(methods, rows(methods), strict=True)]
    return [[*HEADING[:3], "map", *HEADING[3:]], *body]


def shape(found: Any, cls: type[Any]) -> str:
    """Describe the shape of a map, and whether the method is monotone."""
    return f"{found.shape}, monotone" if cls.monotone else str(found.shape)


def new(cls: type[Learner]) -> Learner:
    """Return an instance with its defaults, and with a `support` if the class needs one."""
    return cls(**({"support": (0.0, 1.0)} if "support" in inspect.signature(cls).parameters else {}))


def abilities(cal: Any) -> list[str]:
    """Describe whether a method merges and unlearns, has an interval, and has bounded memory."""
    interval = "yes" if getattr(cal, "has_interval", False) else "–"
    return [adds_up(cal), interval, "bounded" if cal.bounded_memory else "grows"]


def adds_up(cal: Learner) -> str:
    """Describe whether a method merges and unlearns."""
    if cal.merges and cal.unlearns:
        return "yes"
    return f"by its policy: `{cal.forgetting!r}`" if isinstance(cal._engine, Additive) else "no: sequential"


def written(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text with its tables as they should be."""

    def filled(found: re.Match[str]) -> str:
        return f"<!-- methods: {found['kind']} -->\n\n{tables[found['kind']]()}\n\n<!-- end of methods -->"

    return TABLE.sub(filled, text)


def main(arguments: list[str]) -> int:
    """Write the tables and the times, or with `--check` compare them; return the number for the exit code."""
    wrong = 0
    measured = times()  # first, since docs/which.md has them too
    if arguments != ["--check"]:
        TIMES.write_text(measured, encoding="utf-8")
    elif TIMES.read_text(encoding="utf-8") != measured:
        wrong += 1
        print(f"{TIMES.name} does not have the times of performance.md: run python tools/generate.py")
    for name, tables in PAGES.items():
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        kinds = [found["kind"] for found in TABLE.finditer(text)]
        if sorted(kinds) != sorted(tables):
            print(f"{name} has tables of {kinds}, not of {list(tables)}")
            return 1
        wanted = written(text, tables)
        if arguments == ["--check"]:
            wrong += wanted != text
            if wanted != text:
                print(f"{name} does not say what registries and race say: run python tools/generate.py")
        else:
            page.write_text(wanted, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        subprocess.run([sys.executable, ROOT / "tests" / "golden" / "make.py"], check=True)
    sys.exit(main(sys.argv[1:]))
