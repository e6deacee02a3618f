"""The style of the pages and of public docstrings, as far as it can be counted (`tools/style.py`)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

import style  # noqa: E402 - it is no package

#: Pages of results, most of which scripts write.
OTHERS = {"performance", "race", "rare_events", "long_streams"}
PAGES = [
    ROOT / "README.md",
    *(
        path
        for path in sorted((ROOT / "docs").glob("*.md"))
        if not path.stem.endswith("_measured") and path.stem not in OTHERS
    ),
]


#: The race has lists of courses and methods, which a script writes as sentences.
STYLED = [*PAGES, *(path for path in sorted((ROOT / "docs").glob("*.md")) if path not in PAGES and path.stem != "race")]


@pytest.mark.parametrize("page", STYLED, ids=lambda page: page.stem)
def test_pages_are_in_plain_sentences(page):
    assert not list(style.findings(page.read_text(encoding="utf-8")))


#: Words of prose that a page may have, where it is no page with a goal: those of the rules and of the inside.
LONGER = {
    "command_line_rules": 1400,
    "map_format": 800,
    "reliability": 1100,
    "architecture": 900,
    "implementation": 2200,
    "decisions": 3700,
}
BUDGET = 700
#: Words of prose of all pages by hand.
IN_ALL = 25_000


def test_pages_are_within_their_budgets():
    """A page that outgrows its budget has two subjects, or tells what no reader needs."""
    counts = {page.stem: style.words(page.read_text(encoding="utf-8")) for page in PAGES}
    found = {name: count for name, count in counts.items() if count > LONGER.get(name, BUDGET)}
    assert not found
    assert sum(counts.values()) <= IN_ALL
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 450


@pytest.mark.parametrize("module", style.PUBLIC)
def test_public_docstrings_are_in_plain_sentences(module):
    assert not list(style.findings_of(module))


def test_a_docstring_is_read_without_its_examples_headings_and_names_of_parameters():
    def documented():
        """Return a number.

        Parameters
        ----------
        x : float
            It is .5 at first.

        Notes
        -----
        Begun anew.

        Examples
        --------
        >>> told
        'so many'
        """

    assert [one for _, one in style.sentences(style.prose(documented))] == [
        "Return a number.",
        "x : float.",
        "It is .5 at first.",
        "Begun anew.",
    ]
    assert len(list(style.findings(style.prose(documented)))) == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{'Word ' * 36}ends.", "37 words"),
        ("It begins anew.", "'anew'"),
        ("- an item of .05", "number without a zero"),
        ("A paragraph\nthat goes on\nfor lines.", "'goes on'"),
    ],
)
def test_what_is_counted_is_found(text, what):
    (found,) = style.findings(text)
    assert what in found.what


@pytest.mark.parametrize(
    "text",
    [
        "`anew` is code, and [anew.md](anew.md)" + " is none.",
        "    z = .05",
        "```\nso many\n```",
        "| .05 | told |",
        "v0.5 and p.05",
    ],
)
def test_code_tables_and_formulas_are_left_out(text):
    assert not [one for one in style.findings(text) if "[anew" not in text]


def test_the_script_fails_where_something_is_found(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("Told.", encoding="utf-8")
    assert style.main([str(page)]) == 1
    assert f"{page}:1: 'Told'" in capsys.readouterr().out
    page.write_text("Plain.", encoding="utf-8")
    assert style.main([str(page)]) == 0
