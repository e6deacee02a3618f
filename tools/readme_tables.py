"""The tables of methods in README.md, written from the registries and, where to start, from the race.

    python tools/readme_tables.py            writes them
    python tools/readme_tables.py --check    fails where the file says something else

A table stands between `<!-- methods: KIND -->` and `<!-- end of methods -->`. It says of a method what its class says
(`name`, `summary`, `monotone`), what an instance with its defaults can do (`merges`, `unlearns`), and the `shape` of
the map that it has after a few observations. Where to start is decided in `race_advice.py`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import race_advice

from streamcal import REGISTRY, fusion, multiclass, regression
from streamcal.learners.additive import AdditiveLearner
from streamcal.learners.learner import Learner

README = Path(__file__).parents[1] / "README.md"
TABLE = re.compile(r"<!-- methods: (?P<kind>.+?) -->\n.*?<!-- end of methods -->", re.DOTALL)
#: The map is that of the candidate in front, which may be any.
SHAPES = {"prequential-fusion": "of its leader"}


def one_score() -> list[list[str]]:
    def learned(cal: Any) -> Any:
        cal.learn_many([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1])
        return cal.map()

    return rows_with_maps(REGISTRY, learned)


def several_scores() -> list[list[str]]:
    def learned(cal: Any) -> Any:
        cal.learn_many([[0.1, 0.2], [0.3, 0.5], [0.6, 0.4], [0.8, 0.9]], [0, 1, 0, 1])
        return cal.map()

    return rows_with_maps(fusion.METHODS, learned)


def many_classes() -> list[list[str]]:
    return [["name", "class", "method", "merges, unlearns"], *(rows(multiclass.METHODS))]


def distributions() -> list[list[str]]:
    return [["name", "class", "method", "merges, unlearns"], *(rows(regression.METHODS))]


#: Kind, as in the comment → rows of the table, the heading first.
TABLES: dict[str, Callable[[], list[list[str]]]] = {
    "one score": one_score,
    "where to start": race_advice.rows,
    "several scores": several_scores,
    "many classes": many_classes,
    "distributions": distributions,
}


def rows(methods: Mapping[str, type[Learner]]) -> list[list[str]]:
    """Name, class, summary, and whether a new instance merges and unlearns."""
    return [[f"`{name}`", f"`{cls.__name__}`", cls.summary, adds_up(new(cls))] for name, cls in methods.items()]


def rows_with_maps(methods: Mapping[str, type[Any]], learned: Callable[[Any], Any]) -> list[list[str]]:
    """The same with a column for the shape of the map."""
    heading = ["name", "class", "method", "map", "merges, unlearns"]
    shapes = {name: SHAPES.get(name) or shape(learned(new(cls)), cls) for name, cls in methods.items()}
    return [heading, *([*row[:3], shapes[name], row[3]] for name, row in zip(methods, rows(methods), strict=True))]


def shape(found: Any, cls: type[Any]) -> str:
    return f"{found.shape}, monotone" if cls.monotone else str(found.shape)


def new(cls: type[Learner]) -> Learner:
    """An instance with its defaults; what has none is the range of the outcomes."""
    return cls(**({"support": (0.0, 1.0)} if "support" in inspect.signature(cls).parameters else {}))


def adds_up(cal: Learner) -> str:
    if cal.merges and cal.unlearns:
        return "yes"
    return f"by its policy: `{cal.forgetting!r}`" if isinstance(cal, AdditiveLearner) else "no: sequential"


def written(text: str) -> str:
    """The text with its tables as they should be."""

    def table(found: re.Match[str]) -> str:
        heading, *body = TABLES[found["kind"]]()
        lines = ["| " + " | ".join(row) + " |" for row in (heading, *body)]
        lines.insert(1, "|---" * len(heading) + "|")
        return "\n".join([f"<!-- methods: {found['kind']} -->", *lines, "<!-- end of methods -->"])

    return TABLE.sub(table, text)


def main(arguments: list[str]) -> int:
    text = README.read_text(encoding="utf-8")
    kinds = [found["kind"] for found in TABLE.finditer(text)]
    if sorted(kinds) != sorted(TABLES):
        print(f"{README.name} has tables of {kinds}, not of {list(TABLES)}")
        return 1
    wanted = written(text)
    if arguments == ["--check"]:
        if wanted != text:
            print(f"{README.name} does not say what the registries and the race say: run python tools/readme_tables.py")
        return int(wanted != text)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
