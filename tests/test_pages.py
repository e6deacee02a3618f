"""The Python code of README.md and of every page in docs/ runs as it stands, and says nothing else than what is there.

The blocks of a page are one program: they share their names, and run in the order of the page, in an empty folder, with
warnings as errors. A block that cannot run says so where readers see it, in the title of its fence:

    ```python title="Not run: needs a web server"
"""

from __future__ import annotations

import functools
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command

from streamcal.app.cli import app

ROOT = Path(__file__).parents[1]
#: A fence and its code, which may be indented, as in a list.
FENCE = re.compile(r"^(?P<indent> *)```(?P<said>python.*)\n(?P<code>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE)
NOT_RUN = re.compile(r'python title="Not run: \S.+"')
#: Pages whose programs take some tenths of a second or more; they run with -m full.
LONG = {
    "docs/ads.md",
    "docs/compare.md",
    "docs/fusion.md",
    "docs/many_classes.md",
    "docs/maps.md",
    "docs/measures.md",
    "docs/regression.md",
    "docs/river.md",
    "docs/segments.md",
    "docs/sklearn.md",
    "docs/tutorial.md",
}
#: Packages that the programs of a page need beside those of the extra `test` that every system has.
NEEDED = {"docs/maps.md": ("lightgbm", "onnxmltools", "onnxruntime")}
#: Pages whose blocks show, in comments that begin a line, all that they print.
PRINTED = {
    "README.md",
    "docs/ads.md",
    "docs/command_line.md",
    "docs/compare.md",
    "docs/drift.md",
    "docs/fusion.md",
    "docs/index.md",
    "docs/many_classes.md",
    "docs/maps.md",
    "docs/monitors.md",
    "docs/multicalibration.md",
    "docs/regression.md",
    "docs/river.md",
    "docs/segments.md",
    "docs/sklearn.md",
    "docs/tutorial.md",
}


class Block(NamedTuple):
    """Code, the line of the page on which it begins, and whether it is to be run."""

    code: str
    line: int
    runs: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        runs = match["said"] == "python"
        assert runs or NOT_RUN.fullmatch(match["said"]), f"{page.name}:{line - 1}: say 'Not run: ' and why"
        code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        found.append(Block(code, line, runs))
    return found


PAGES = {str(page.relative_to(ROOT)): page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))}
PROGRAMS = {name: found for name, page in PAGES.items() if (found := blocks(page))}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in LONG else []) for name in PROGRAMS]
)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, capsys):
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": name}
    for block in PROGRAMS[name]:
        if block.runs:
            above = "\n" * (block.line - 1)  # so that errors name lines of the page
            code = compile(above + block.code, str(PAGES[name]), "exec")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(code, names)
            printed = capsys.readouterr().out.splitlines()
            if name in PRINTED:
                assert printed == re.findall(r"^# (.*)$", block.code, re.MULTILINE)


def test_code_is_found_and_marked(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```python\na = 1\n```\n- one\n    ```python title="Not run: no server"\n    b = 1\n    ```\n')
    assert blocks(page) == [Block("a = 1\n", 2, True), Block("b = 1\n", 6, False)]
    page.write_text("```python title='not today'\na = 1\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:1: say 'Not run: '"):
        blocks(page)


def test_every_named_page_is_there_and_all_blocks_run_but_these():
    """A block that does not run goes stale: give it what it needs, or name its page here."""
    assert set(PROGRAMS) >= LONG
    marked = [name for name, found in PROGRAMS.items() for block in found if not block.runs]
    in_test_serving = ["docs/serving.md"]
    assert marked == [*in_test_serving, *["docs/spark.md"] * 4, "docs/testing.md"]


@functools.cache
def all_commands():
    return get_command(app).commands


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_their_options_are_there(name):
    """Those in fences and in the text: `streamcal run --option`."""
    text = PAGES[name].read_text(encoding="utf-8")
    commands = all_commands()
    fences = "".join(re.findall(r"^```(?:bash|sh|text)\n((?:.*\n)*?)```$", text, re.MULTILINE))
    typed = re.findall(r"(?:^|^\$ |&& )streamcal ([a-z].*)$", fences.replace("\\\n", " "), re.MULTILINE)
    for said in typed + re.findall(r"`streamcal ([a-z][^`]*)`", text):
        command, *words = said.split()
        known = {option for parameter in commands[command].params for option in parameter.opts}
        options = {word.strip("[]") for word in words if word.strip("[").startswith("--")}
        assert options <= known | {"--help"}, f"{name}: streamcal {said}"


@pytest.mark.parametrize("name", PAGES)
def test_python_is_called_python(name):
    """Code in a fence of another name would not be run."""
    for language, code in re.findall(
        r"^ *```(\w*).*\n((?:.*\n)*?) *```$", PAGES[name].read_text("utf-8"), re.MULTILINE
    ):
        if language not in ("python", "bash", "sh"):
            assert not re.search(r"^(import|from) \w|^\w+ = \w+\(", code, re.MULTILINE), f"{name}: {code}"
