"""The site: every page is in it, every method has its notes, and the code of its pages runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from streamcal import REGISTRY

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Pages whose blocks are one program each; the blocks of others show calls on things that the reader has.
PROGRAMS = ("ads.md", "index.md", "tutorial.md", "states.md")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_code_of_a_page_runs(name):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), name, "exec"), {})


def test_every_method_has_notes():
    spec = importlib.util.spec_from_file_location("notes", ROOT / "tools" / "site" / "notes.py")
    notes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notes)
    assert list(notes.NOTES) == list(REGISTRY), "in the order of the registry"
    for pair in notes.NOTES.values():
        assert all(text.endswith(".") for text in pair)


def test_every_page_is_in_the_navigation():
    """Those of docs/papers and docs/race are found by the site itself, or linked from their page."""
    named = set(re.findall(r"([\w/]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {name for name in named if "/" not in name} == {path.name for path in DOCS.glob("*.md")}
