"""The README's code runs as it stands, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamcal import REGISTRY, fusion, multiclass, regression
from streamcal.app.cli import app

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {k}" for k in range(len(BLOCKS))])
def test_the_code_runs(block):
    exec(compile(block, str(README), "exec"), {})


def test_the_sample_of_a_run_is_what_it_prints():
    if "STREAMCAL_DATA" not in os.environ:
        pytest.skip("needs the folder of data STREAMCAL_DATA")
    stream = Path(os.environ["STREAMCAL_DATA"], "ipinyou_2997_test.csv.gz")
    (sample,) = (block for block in re.findall(r"```text\n(.*?)```", TEXT, flags=re.DOTALL) if "log loss" in block)
    options = ["--method", "ops"]
    result = CliRunner().invoke(app, ["run", str(stream), "--score", "pctr", "--label", "click", *options])
    assert sample in result.stdout


@pytest.fixture
def tables():
    pytest.importorskip("clarabel", reason="the method rpr is an extra")
    spec = importlib.util.spec_from_file_location("readme_tables", README.parent / "tools" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_registries(tables, capsys):
    assert tables.main(["--check"]) == 0, capsys.readouterr().out


def test_a_table_that_says_something_else_is_found_and_put_right(tables, tmp_path, monkeypatch):
    copy = tmp_path / "README.md"
    monkeypatch.setattr(tables, "README", copy)
    row = next(line for line in TEXT.splitlines() if line.startswith("| `platt` |"))
    for wrong in (
        TEXT.replace(row + "\n", ""),
        TEXT.replace(row, row.replace("yes", "no")),
        TEXT.replace(row, row * 2),
    ):
        copy.write_text(wrong, encoding="utf8")
        assert tables.main(["--check"]) == 1
        assert copy.read_text(encoding="utf8") == wrong, "to check changes nothing"
        assert tables.main([]) == 0
        assert copy.read_text(encoding="utf8") == TEXT
    copy.write_text(TEXT.replace("<!-- methods: one score -->", ""), encoding="utf8")
    assert tables.main(["--check"]) == 1


def test_every_method_is_in_a_table():
    for methods in (REGISTRY, fusion.METHODS, multiclass.METHODS, regression.METHODS):
        for name, method in methods.items():
            assert f"| `{name}` | `{method.__name__}` | {method.summary} |" in TEXT


@pytest.mark.parametrize("page", [README, *sorted(README.parent.glob("docs/**/*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
