"""What pip, an sdist and wheels are made of. `.ci/run` builds them, with tools/wheels.py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


@pytest.fixture(scope="module")
def wheels():
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_licence_of_the_data_is_named_too():
    shipped = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in PROJECT["license-files"])
    assert PROJECT["license"] == "BSD-3-Clause AND CC-BY-4.0"
    assert "Redistribution and use in source and binary forms" in shipped
    assert "CC BY 4.0" in shipped
    assert "S. Moro, P. Cortez and P. Rita" in shipped


def test_what_ci_installs_meets_what_the_project_needs():
    from packaging.requirements import Requirement

    spec = importlib.util.spec_from_file_location("lock", ROOT / "tools" / "lock.py")
    lock = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock)
    if not lock.CONSTRAINTS.exists():
        pytest.skip("an sdist has no .ci/")
    lines = [one for one in lock.CONSTRAINTS.read_text(encoding="utf-8").splitlines() if not one.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==\S+ --hash=sha256:[0-9a-f]{64}", one) for one in lines)
    versions = dict(one.partition(" ")[0].split("==") for one in lines)
    for one in map(Requirement, lock.wanted()):
        name = one.name.lower().replace("_", "-")
        assert name in versions, f"run tools/lock.py: {name} is new"
        assert one.specifier.contains(versions[name]), f"run tools/lock.py: {one} is not met"


def test_every_extra_is_installed_alone():
    ci = ROOT / ".ci" / "run"
    if not ci.exists():
        pytest.skip("an sdist has no .ci/")
    text = ci.read_text(encoding="utf-8")
    (listed,) = re.findall(r"for extra in (.*); do alone", text)
    tried = {*listed.split(), *re.findall(r"\balone (\w+) ", text)}
    # The tests are run where nothing but `test` was installed, and `bench` adds two packages to it.
    assert tried | {"test", "bench"} == set(PROJECT["optional-dependencies"])


def test_shares_of_the_suite_are_all_of_it(request):
    has_turn = request.config.pluginmanager.getplugin(str(ROOT / "tests" / "conftest.py")).has_turn
    for share in (2, 6, 24):
        for name in (f"tests/test_laws.py::test[{k}]" for k in range(500)):
            assert [has_turn(name, share, 1_776 + k) for k in range(share)].count(True) == 1
    ci = ROOT / ".ci" / "run"
    if ci.exists():  # an sdist has none
        shares = re.findall(r"--share \d+[^)]*", ci.read_text(encoding="utf-8"))
        assert shares
        assert all(one.endswith('--turn "$turn"') for one in shares), "a share that stays is all that is ever run"
        assert int((ROOT / ".ci" / "landing").read_text(encoding="utf-8")) > 0


@pytest.mark.full
@pytest.mark.in_every_share
def test_the_cases_from_outside_must_pass(tmp_path):
    """One that fails twice and then passes is a timing; one that always fails is wrong."""
    ci = ROOT / ".ci" / "run"
    if not ci.exists():
        pytest.skip("an sdist has no .ci/")
    text = ci.read_text(encoding="utf-8")
    part = text[text.index("\ncases_must_pass=") : text.index("step() {")]
    for name, source in {
        "right": "",
        "timing": "import pathlib\nwith open('tried', 'a') as file: file.write('.')\n"
        "raise SystemExit(pathlib.Path('tried').stat().st_size < 3)",
        "wrong": "raise SystemExit('too slow')",
    }.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")

    def ran(*names):
        script = f'set -euo pipefail\nwork="{tmp_path}"\n{part}\nrun_cases "$@"'
        files = [str(tmp_path / f"{name}.py") for name in names]
        return subprocess.run(["bash", "-c", script, "run", *files], capture_output=True, text=True)

    found = ran("right", "timing")
    assert (found.returncode, found.stdout) == (0, "2 cases right, 0 wrong: none\n")
    found = ran("right", "wrong")
    assert found.returncode == 1
    assert "too slow\n1 cases right, 1 wrong: wrong.py" in found.stdout


def test_addresses_stand_in_one_place():
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    (host,) = {re.match(r"https://([^/]+)", address)[1] for address in PROJECT["urls"].values()}
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("streamcal/**/*.py")]:
        assert host not in page.read_text(encoding="utf-8"), page


def test_there_are_wheels_for_every_version_of_python_that_is_supported():
    versions = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert PYPROJECT["tool"]["cibuildwheel"]["build"] == [f"cp{one.replace('.', '')}-*" for one in versions]
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_an_sdist_that_lacks_a_file_or_has_one_too_many_is_found(wheels):
    tracked = ["setup.py", "tests/conftest.py", ".ci/run", ".gitignore"]
    complete = ["setup.py", "tests/conftest.py", "PKG-INFO", "setup.cfg", "streamcal.egg-info/SOURCES.txt"]
    assert wheels.differences(complete, tracked) == ([], [])
    assert wheels.differences(complete[:1], tracked) == (["tests/conftest.py"], [])
    assert wheels.differences([*complete, "data/clicks.csv", ".ci/run"], tracked) == (
        [],
        [".ci/run", "data/clicks.csv"],
    )


@pytest.mark.skipif(os.name == "nt", reason="the script is for Linux")
def test_wheels_are_built_once_for_each_kind_of_python(wheels, tmp_path, monkeypatch):
    for folder, name, answer in [
        ("a", "3.11", "cp311"),
        ("a", "3.12", "cp312"),
        ("b", "3.12", "cp312"),
        ("b", "3.9", ""),
    ]:
        (tmp_path / folder).mkdir(exist_ok=True)
        python = tmp_path / folder / f"python{name}"
        python.write_text(f"#!/bin/sh\necho {answer}\n")
        python.chmod(0o755)
    (tmp_path / "b" / "python3.12-config").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    monkeypatch.setenv("HOME", str(tmp_path))  # without pyenv
    monkeypatch.setattr(wheels.sys, "executable", str(tmp_path / "b" / "python3.9"))
    assert wheels.pythons() == [str(tmp_path / "a" / "python3.11"), str(tmp_path / "a" / "python3.12")]


@pytest.fixture
def project(tmp_path):
    """Make a folder with the setup.py of streamcal and two small kernels; return what it prints for each kernel."""
    kernels = tmp_path / "streamcal" / "kernels" / "family"
    kernels.mkdir(parents=True)
    for name in ("one", "two"):
        (kernels / f"{name}.py").write_text("def f(x):\n    return x\n")
    shutil.copy(ROOT / "setup.py", tmp_path)

    def build(**environment):
        inherited = {name: value for name, value in os.environ.items() if name != "STREAMCAL_COMPILE"}
        run = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--build-lib", "lib"],
            cwd=tmp_path,
            env={**inherited, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        built = {file.name.split(".")[0] for file in tmp_path.glob("lib/streamcal/kernels/**/*.*")}
        outcomes = dict(re.findall(r"^  (\w+) +(compiled|unchanged|failed)\b", run.stdout, flags=re.MULTILINE))
        return outcomes, built

    build.kernels = kernels
    return build


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_only_what_has_changed_is_compiled_again(project):
    everything = {"_cython", "one", "two"}
    assert project() == (dict.fromkeys(everything, "compiled"), everything)
    assert project() == (dict.fromkeys(everything, "unchanged"), everything)
    (project.kernels / "two.py").write_text("def f(x):\n    return 2 * x\n")
    assert project() == ({"_cython": "unchanged", "one": "unchanged", "two": "compiled"}, everything)
    assert project(CFLAGS="-DANYTHING")[0] == dict.fromkeys(everything, "compiled")
    assert project(STREAMCAL_COMPILE="0")[0] == {}
    assert project(CC="/bin/false") == ({"_cython": "failed"}, set()), "nothing of an earlier build is left"
