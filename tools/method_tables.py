"""The tables of methods in docs/, written from the registries and, where to start, from the race.

    python tools/method_tables.py            writes them
    python tools/method_tables.py --check    fails where a page says something else

A table stands between `<!-- methods: KIND -->` and `<!-- end of methods -->`. It says of a method what its class says
(`name`, `summary`, `monotone`), what an instance with its defaults can do (`merges`, `unlearns`, `has_interval`,
`bounded_memory`), and the `shape` of the map that it has after a few observations. Where to start, and the chart of
decisions, are made in `race_advice.py`.
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

DOCS = Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"<!-- methods: (?P<kind>.+?) -->\n.*?<!-- end of methods -->", re.DOTALL)
HEADING = ["name", "class", "method", "merges, unlearns", "interval", "memory"]
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
    return [HEADING, *rows(multiclass.METHODS)]


def distributions() -> list[list[str]]:
    """Without the column of intervals: every calibrated distribution has them."""
    return [row[:4] + row[5:] for row in (HEADING, *rows(regression.METHODS))]


def table(rows: list[list[str]]) -> str:
    """Rows as Markdown, the heading first."""
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
    "which.md": {"where to start": lambda: table(race_advice.rows()), "chart": race_advice.chart},
}


def rows(methods: Mapping[str, type[Learner]]) -> list[list[str]]:
    """The columns of `HEADING`: what classes say, and what new instances can do."""
    return [[f"`{name}`", f"`{cls.__name__}`", cls.summary, *abilities(new(cls))] for name, cls in methods.items()]


def rows_with_maps(methods: Mapping[str, type[Any]], learned: Callable[[Any], Any]) -> list[list[str]]:
    """The same with a column for the shape of the map."""
    shapes = {name: SHAPES.get(name) or shape(learned(new(cls)), cls) for name, cls in methods.items()}
    body = [[*row[:3], shapes[name], *row[3:]] for name, row in zip(methods, rows(methods), strict=True)]
    return [[*HEADING[:3], "map", *HEADING[3:]], *body]


def shape(found: Any, cls: type[Any]) -> str:
    return f"{found.shape}, monotone" if cls.monotone else str(found.shape)


def new(cls: type[Learner]) -> Learner:
    """An instance with its defaults; what has none is the range of the outcomes."""
    return cls(**({"support": (0.0, 1.0)} if "support" in inspect.signature(cls).parameters else {}))


def abilities(cal: Any) -> list[str]:
    interval = "yes" if getattr(cal, "has_interval", False) else "–"
    return [adds_up(cal), interval, "bounded" if cal.bounded_memory else "grows"]


def adds_up(cal: Learner) -> str:
    if cal.merges and cal.unlearns:
        return "yes"
    return f"by its policy: `{cal.forgetting!r}`" if isinstance(cal, AdditiveLearner) else "no: sequential"


def written(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The text with its tables as they should be."""

    def filled(found: re.Match[str]) -> str:
        return f"<!-- methods: {found['kind']} -->\n\n{tables[found['kind']]()}\n\n<!-- end of methods -->"

    return TABLE.sub(filled, text)


def main(arguments: list[str]) -> int:
    wrong = 0
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
                print(f"{name} does not say what registries and race say: run python tools/method_tables.py")
        else:
            page.write_text(wanted, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
