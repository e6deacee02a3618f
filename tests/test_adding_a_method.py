"""docs/adding_a_method.md typed as it stands into a copy of the tree: its method obeys the laws, and all tests pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamcal

ROOT = Path(__file__).parents[1]
#: Not copied: what is not the tree's, and large.
OTHERS = (".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".hypothesis", ".*_cache")
#: What a plain `pytest` tries: the laws of the method, and what a new name, class and module may break.
LAWS = ("test_laws.py",)
STRUCTURE = ("test_layers.py", "test_names.py", "test_readme.py", "test_site.py", "test_docstrings.py")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of the tree, with the installed package, in which the steps of the guide were taken."""
    copy = tmp_path_factory.mktemp("guide") / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*OTHERS))
    installed = Path(streamcal.__file__).parent  # with its compiled kernels, if it has some
    shutil.copytree(installed, copy / "streamcal", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs" / "adding_a_method.md").read_text(encoding="utf-8")
    method, _, oracle = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    in_registry, in_package = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (copy / "streamcal" / "calibrators" / "shift.py").write_text(method, encoding="utf-8")
    edit(copy / "streamcal" / "calibrators" / "registry.py", "    }\n)\n", in_registry + "    }\n)\n")
    before = "    from streamcal.calibrators.smooth_isotonic"
    edit(copy / "streamcal" / "__init__.py", before, in_package + before)
    oracles = copy / "tests" / "test_oracles.py"
    edit(oracles, "    VennAbers,\n", "    Shift,\n    VennAbers,\n")
    oracles.write_text(f"{oracles.read_text(encoding='utf-8')}\n\n{oracle}", encoding="utf-8")
    return copy


def edit(path, old, new):
    """Replace the first place of a text."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def run(tree, *arguments):
    """Run Python in the copy; return what it printed."""
    # A worker of pytest-xdist tells its own children by these.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**inherited, "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def passed(tree, *arguments):
    """Return how many tests pass in the copy, where these are left out; none may fail."""
    found = run(tree, "-m", "pytest", "-p", "no:cacheprovider", "--ignore", "tests/test_adding_a_method.py", *arguments)
    return int(re.findall(r"(\d+) passed", found)[-1])


@pytest.mark.full
@pytest.mark.in_every_share
def test_the_method_of_the_guide_obeys_the_laws(tree):
    assert passed(tree, "-n", "0", "-v", "-k", "shift", *(f"tests/{name}" for name in LAWS)) >= 5


@pytest.mark.full
def test_nothing_else_breaks(tree):
    run(tree, "tools/generate.py")
    # The commands of pages on the sample take seconds, and no method changes them.
    assert passed(tree, "-n", "0", "-v", "-k", "not sample", *(f"tests/{name}" for name in STRUCTURE)) > 100


@pytest.mark.full
def test_the_method_of_the_guide_obeys_all_laws(tree):
    files = ("test_laws.py", "test_laws_binary.py", "test_map_exports.py", "test_names.py", "test_portable_maps.py")
    assert passed(tree, "-n", "0", "-v", "-m", "full", "-k", "shift", *(f"tests/{name}" for name in files)) >= 100


@pytest.mark.full
def test_the_default_run_of_the_tree_passes(tree):
    assert passed(tree, "-v") > 2_000


@pytest.mark.full
def test_the_code_of_the_guide_is_clean(tree):
    pytest.importorskip("mypy", reason="the extra lint is not installed")
    run(tree, "-m", "ruff", "check", ".")
    run(tree, "-m", "ruff", "format", "--check", ".")
    run(tree, "-m", "mypy")
