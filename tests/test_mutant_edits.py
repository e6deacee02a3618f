"""The edits of `tests/mutants.py` still concern lines of the package: one that was moved would be tried on nothing."""

from pathlib import Path

from mutant_edits import MUTANTS

PACKAGE = Path(__file__).resolve().parents[1] / "streamcal"


def test_every_edit_has_its_line():
    moved = {m.name for m in MUTANTS if (PACKAGE / m.file).read_text(encoding="utf-8").count(m.old) != 1}
    assert not moved
    assert not {m.name for m in MUTANTS if m.new == m.old}
