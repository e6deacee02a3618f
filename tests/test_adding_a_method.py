"""The method of docs/adding_a_method.md, as its text stands: the laws hold for it, and nothing else is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding_a_method.md"
#: A plugin of pytest that adds the method to the list before the tests are collected, as the line in the registry does.
PLUGIN = """
from streamcal import REGISTRY

REGISTRY.places["shift"] = "shift.Shift"
"""
FILES = ("test_laws.py", "test_laws_binary.py", "test_map_exports.py", "test_names.py", "test_portable_maps.py")


def code_of(page):
    """Return the first block of Python on a page."""
    return page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


@pytest.mark.parametrize("marked", ["not full and not long", pytest.param("full", marks=pytest.mark.full)])
def test_the_method_of_the_guide_obeys_all_laws(tmp_path, marked):
    """A plain `pytest` tries what it tries of every method, in the first file."""
    (tmp_path / "shift.py").write_text(code_of(PAGE), encoding="utf-8")
    (tmp_path / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    files = [ROOT / "tests" / name for name in (FILES if marked == "full" else FILES[:1])]
    command = [sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-n", "0", "-k", "shift"]
    done = subprocess.run(
        [*command, "-m", marked, *files],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = int(done.stdout.rstrip().rpartition("\n")[2].split()[0])
    assert passed >= (100 if marked == "full" else 5), done.stdout[-4000:]
