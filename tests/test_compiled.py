"""A checkout without compiled kernels does not hide an installed package unnoticed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import streamcal
from streamcal import kernels
from streamcal.app.doctor import environment

PACKAGE = Path(streamcal.__file__).parent


@pytest.fixture
def tree(tmp_path):
    """Make a checkout as `git clone` leaves it."""
    leave = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "datasets")
    shutil.copytree(PACKAGE, tmp_path / "streamcal", ignore=leave)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def imported(tree, statement="import streamcal", **environment):
    """Return standard error of a new Python in the checkout, after checking where the package is from."""
    inherited = {name: value for name, value in os.environ.items() if name != "STREAMCAL_COMPILE"}
    code = f"{statement}; print(sys.modules['streamcal'].__file__)"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"],
        cwd=tree,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(run.stdout.strip()).parent == tree / "streamcal"
    return run.stderr


def compile_all(tree):
    for source in tree.glob("streamcal/kernels/*/[!_]*.py"):
        source.with_suffix(EXTENSION_SUFFIXES[0]).touch()


def test_an_uncompiled_checkout_warns_once_and_names_the_remedy(tree):
    said = imported(tree, "import streamcal, streamcal.errors; from streamcal import Window; import streamcal")
    assert said.count("RuntimeWarning") == 1
    assert str(tree) in said
    assert "pip install -e ." in said
    assert "STREAMCAL_COMPILE=0" in said
    assert f"{len(kernels.FAMILIES)} of {len(kernels.FAMILIES)} kernels" in said


def test_whoever_asks_for_uncompiled_kernels_is_not_warned(tree):
    assert imported(tree, STREAMCAL_COMPILE="0") == ""
    assert "RuntimeWarning" in imported(tree, STREAMCAL_COMPILE="1")


def test_no_warning_of_an_installed_package_nor_of_a_compiled_checkout(tree):
    (tree / "pyproject.toml").unlink()
    assert imported(tree) == ""
    (tree / "setup.py").touch()
    assert "RuntimeWarning" in imported(tree)
    compile_all(tree)
    assert imported(tree) == ""


def test_one_kernel_that_is_missing_is_enough(tree):
    compile_all(tree)
    (tree / "streamcal" / "kernels" / "common" / f"logistic{EXTENSION_SUFFIXES[0]}").unlink()
    assert f"1 of {len(kernels.FAMILIES)} kernels" in imported(tree)


def test_python_imports_the_form_that_is_in_use():
    for name in kernels.FAMILIES:
        module = importlib.import_module(kernels.module_name(name))
        assert module.__file__.endswith(".py") is not kernels.COMPILED, name


def test_doctor_says_which_files_are_in_use():
    assert environment()["imported from"].startswith(str(PACKAGE))
