"""What can be counted of the style of the pages: long sentences, words to avoid, and numbers such as `.05`.

    python tools/style.py             prints the findings of all pages, by page
    python tools/style.py PAGE...     prints each finding of these pages

Code, tables, formulas, headings and links are left out. `tests/test_style.py` keeps the pages for users at none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
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


def main(pages: list[str]) -> int:
    """Print the findings of the given pages, or the number of findings of every page."""
    paths = [Path(page) for page in pages] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    total = 0
    for path in paths:
        found = list(findings(path.read_text(encoding="utf-8")))
        total += len(found)
        if pages:
            for one in found:
                print(f"{path}:{one.line}: {one.what}")
        else:
            print(f"{len(found):5d}  {path.relative_to(ROOT)}")
    print(f"{total:5d}  in all")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
