"""The edits of `tests/mutants.py` still concern lines of the package: one that was moved would be tried on nothing."""

from pathlib import Path

from mutant_edits import MUTANTS
from mutants import FULL, PAGE, page, recorded

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "streamcal"


def test_every_edit_has_its_line():
    moved = {m.name for m in MUTANTS if (PACKAGE / m.file).read_text(encoding="utf-8").count(m.old) != 1}
    assert not moved
    assert not {m.name for m in MUTANTS if m.new == m.old}


def test_the_page_has_a_row_for_every_mutant_as_the_list_describes_it():
    """Written by `python tests/mutants.py --table`."""
    assert PAGE.read_text(encoding="utf-8") == page(recorded())


def test_the_tests_that_noticed_a_mutant_are_there():
    noticed = [by.removeprefix(FULL).partition("::") for by, _ in recorded().values() if "::" in by]
    assert len(noticed) > 80
    gone = {f"{file}::{test}" for file, _, test in noticed if f"def {test}(" not in (TESTS / file).read_text("utf-8")}
    assert not gone
