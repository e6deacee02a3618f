"""What can be counted of the style of pages and docstrings: long sentences, words to avoid, numbers such as `.05`.

    python tools/style.py             prints the number of findings of each page and public module
    python tools/style.py NAME...     prints each finding of these pages (`docs/x.md`) or modules (`streamcal.live`)

Code, tables, formulas, headings and links are left out. `tests/test_style.py` keeps the pages for users and the
docstrings of public names at none.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
#: Modules whose names users import.
PUBLIC = (
    "streamcal",
    "streamcal.app.plot",
    "streamcal.datasets",
    "streamcal.fusion",
    "streamcal.live",
    "streamcal.metrics",
    "streamcal.multiclass",
    "streamcal.regression",
    "streamcal.river",
    "streamcal.river.metrics",
    "streamcal.sklearn",
)
#: More words than this in a sentence are too many.
LONGEST = 35
#: Words with a plain synonym, or from nobody's language but ours.
AVOIDED = re.compile(
    r"\b(anew|so many|so much|in turn|goes on|go on|going on|is told|are told|told|says of|said of|is said|"
    r"takes back|taken back|took back|take back|besides|thereby|whatsoever|therein|whereof)\b",
    re.IGNORECASE,
)
#: A fraction without its zero.
BARE = re.compile(r"(?<![\w.)\]])\.\d")


class Finding(NamedTuple):
    """Where, and what."""

    line: int
    what: str


def findings(text: str) -> Iterator[Finding]:
    """Yield what is to be improved in Markdown."""
    for line, sentence in sentences(text):
        words = len(re.findall(r"[^\W\d_][\w’'-]+", sentence))  # without signs and letters of formulas
        if words > LONGEST:
            yield Finding(line, f"{words} words: {sentence[:60]}…")
        for found in AVOIDED.finditer(sentence):
            yield Finding(line, f"{found[0]!r}: …{sentence[max(found.start() - 30, 0) : found.end() + 20]}…")
        for found in BARE.finditer(sentence):
            yield Finding(line, f"number without a zero: …{sentence[max(found.start() - 20, 0) : found.end() + 10]}…")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of Markdown prose, with the lines on which their paragraphs begin."""
    for line, paragraph in paragraphs(text):
        plain = re.sub(r"`[^`]*`", "code", paragraph)
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        plain = re.sub(r"[*_]{1,2}(\S.*?\S|\S)[*_]{1,2}", r"\1", plain)
        for sentence in re.split(r"(?<=[.!?])[)\"”]?\s+(?=\S)", plain):
            if sentence.strip():
                yield line, sentence.strip()


def words(text: str) -> int:
    """Return the number of words of Markdown prose."""
    return sum(len(sentence.split()) for _, sentence in sentences(text))


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items of lists, each as one line, without code, tables, formulas, quotes and headings."""
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    held: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        left_out = fenced or bare.startswith(("```", "|", "#", ">", "<", "![")) or not bare
        if (left_out or item) and held:
            yield start, " ".join(held)
            held = []
        if left_out or (not held and not item and re.match(r" {4}\S", line)):
            continue
        if not held:
            start = number
        held.append(line[item.end() :].strip() if item else bare)


def public_names(module: str) -> list[Any]:
    """Return the classes and functions of streamcal that a module makes public."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
    values = [getattr(found, name) for name in names]
    kinds = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    return [value for value in kinds if value.__module__.startswith("streamcal")]


def docstrings(module: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the prose of each docstring of a module's public names and of their public methods."""
    for value in public_names(module):
        yield value.__qualname__, prose(value)
        for name, member in vars(value).items() if inspect.isclass(value) else ():
            function = inspect.isfunction(member) or isinstance(member, (property, classmethod, staticmethod))
            if function and not name.startswith("_"):
                yield f"{value.__qualname__}.{name}", prose(member)


def prose(documented: Any) -> str:
    """Return a docstring as Markdown: without examples and headings, each name of a parameter a sentence of its own."""
    text = inspect.cleandoc(documented.__doc__ or "")
    text = re.sub(r"(?m)^ *>>>.*(?:\n.*\S.*)*", "", text)
    text = re.sub(r"(?m)^.*\n-{3,}$", "", text)
    return re.sub(r"(?m)^(\S.*)\n(?= {4}\S)", r"\1.\n", text)


def findings_of(name: str) -> Iterator[str]:
    """Yield the findings of a page, or of the docstrings of a module, each with its place."""
    if name in PUBLIC:
        for place, text in docstrings(name):
            for one in findings(text):
                yield f"{name}: {place}: {one.what}"
    else:
        for one in findings(Path(name).read_text(encoding="utf-8")):
            yield f"{name}:{one.line}: {one.what}"


def main(names: list[str]) -> int:
    """Print the findings of the given pages and modules, or the number of findings of each of all."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    total = 0
    for name in names or [*map(str, pages), *PUBLIC]:
        found = list(findings_of(name))
        total += len(found)
        for line in found if names else [f"{len(found):5d}  {name.removeprefix(f'{ROOT}/')}"]:
            print(line)
    print(f"{total:5d}  in all")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
