"""`tools/house.py`: what it counts of a small package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "house.py"
SOURCE = '''"""A module."""


class One:
    """A class."""

    def few(self, a, /, b, *, c=1):
        """Documented

        in three lines.
        """
        return a

    @classmethod
    def none(cls, *rest, **more):
        return rest
'''


@pytest.fixture(scope="module")
def house() -> Any:
    spec = importlib.util.spec_from_file_location("house", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_parameters_lengths_and_folders(house: Any, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "top.py").write_text("x = 1\n", encoding="utf-8")
    found = {place: (house.parameters(one), house.length(one)) for place, one in house.functions(tmp_path)}
    assert found == {"inner/one.py:few": (3, 2), "inner/one.py:none": (0, 2)}
    assert house.lines(tmp_path) == {"inner": SOURCE.count("\n"), ".": 1}


@pytest.mark.full
@pytest.mark.in_every_share
def test_the_longest_function_of_the_package_is_on_the_page(house: Any) -> None:
    """The page names the function with most parameters."""
    most, place = max((house.parameters(one), place) for place, one in house.functions(TOOL.parents[1] / "streamcal"))
    page = (TOOL.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"{most} (`{place}`)" in page


def test_imports_that_go_up_or_round_are_counted(house: Any, tmp_path: Path) -> None:
    texts = {
        "low/a.py": "from package.high import c",
        "low/b.py": "import package.low.a",
        "high/c.py": "def late():\n    from package.high.d import name",
        "high/d.py": "from cython.cimports.package.high.c import name",
    }
    for name, text in texts.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    arrows = house.imports(tmp_path / "package")
    page = "## Packages\n| `low/` | foundation |\n| `high/` | edge |\n\n## Others\n| `none/` | no package |"
    assert house.arrows_up(arrows, page) == ["package.low.a -> package.high.c"]
    assert house.in_circles(arrows) == {"package.high.c", "package.high.d"}
    assert house.in_circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def test_a_python_that_cannot_run_the_package_is_named_with_the_reason(house: Any, tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("import a_package_that_is_not_installed\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"run by .*No module named 'a_package_that_is_not_installed'; use the Python"):
        house.walks(tmp_path)
