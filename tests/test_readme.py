"""The README's code runs as it stands, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamcal.calibrators.registry import REGISTRY
from streamcal.fusion import METHODS

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {k}" for k in range(len(BLOCKS))])
def test_the_code_runs(block):
    exec(compile(block, str(README), "exec"), {})


def test_every_method_is_in_the_table():
    for name, method in {**REGISTRY, **METHODS}.items():
        assert f"| `{name}` | `{method.__name__}` | {method.summary} |" in TEXT


@pytest.mark.parametrize("page", [README, *sorted(README.parent.glob("docs/**/*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
