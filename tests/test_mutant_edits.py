"""The edits of `tests/mutants.py` still concern lines of the package: one that was moved would be tried on nothing."""

from pathlib import Path

import pytest
from mutant_edits import MUTANTS

PACKAGE = Path(__file__).resolve().parents[1] / "streamcal"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_an_edit_has_its_line(mutant):
    assert (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.new != mutant.old
