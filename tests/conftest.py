"""Configure the tests.

Set where the package is imported from, how much Hypothesis tries in every file, and what is done once for all tests.
"""

import functools
import gc
import math
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

# Before NumPy is imported, here and by every worker: on cores that others use too, threads of BLAS wait for one another
# and the small matrices of Gaussian processes take eight times the processor time.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# `python -m pytest` puts the checkout first on the path, where no kernel is compiled. It comes last, for `benchmarks`,
# so that this command and `pytest` test the same installation. A checkout named in PYTHONPATH keeps its place.
CHECKOUT = str(Path(__file__).parents[1])
if CHECKOUT not in map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != CHECKOUT]
sys.path.append(CHECKOUT)

from streamcal.app.doctor import kernel_form  # noqa: E402 - it imports NumPy

# Every file is tried with one profile, run alone or with the others. Examples are derandomised: a test that passes
# today passes tomorrow. To search for counterexamples: `HYPOTHESIS_PROFILE=search pytest tests/test_laws.py`.
# There is no deadline, which would fail whoever runs the tests on a busy machine.
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": False}
settings.register_profile("compiled", max_examples=10, derandomize=True, stateful_step_count=12, **COMMON)
settings.register_profile("uncompiled", max_examples=4, derandomize=True, stateful_step_count=8, **COMMON)
settings.register_profile("search", max_examples=300, stateful_step_count=25, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "compiled" if kernel_form() == "compiled" else "uncompiled"))

#: The name that pytest-xdist gives this process, such as "gw1"; empty with `-n 0`.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
#: What `-m` says in a plain run (pyproject.toml).
PLAIN = "not full and not long"

# Of one app, typer builds the same command: all options of all commands, from their annotations.
typer.testing._get_command = functools.cache(typer.testing._get_command)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1, metavar="N", help="run one test of N, chosen by their names")
    parser.addoption(
        "--turn", type=int, default=0, metavar="K", help="which tests of --share N: N numbers in a row run all of them"
    )


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Mark as `full` the cases that `sample` leaves to `-m full`.

    A plain run makes no tests of cases marked so: half of all cases, which would only be deselected. One case is kept,
    since a test without cases would run without its arguments.
    """
    yield
    of_test = list(metafunc.definition.iter_markers())
    leave_to_full(metafunc.definition.nodeid, metafunc._calls, of_test)
    if metafunc.config.option.markexpr == PLAIN:
        is_full = any(mark.name == "full" for mark in of_test)
        kept = [case for case in metafunc._calls if not (is_full or named("full", case.marks))]
        metafunc._calls = kept or metafunc._calls[:1]


def leave_to_full(name: str, cases: list[Any], of_test: list[pytest.Mark]) -> None:
    """Of the cases of a test marked `sample(n)`, keep every n-th for a plain run, and at least one.

    Where the count starts depends on the name of the test: what one test leaves out, the next one tries.
    """
    sampled = [case for case in cases if named("sample", [*case.marks, *of_test]) and not named("full", case.marks)]
    for number, case in enumerate(sampled, zlib.crc32(name.encode())):
        of = math.prod(mark.args[0] for mark in named("sample", [*case.marks, *of_test]))
        if number % min(of, len(sampled)):
            case.marks.append(pytest.mark.full.mark)


def named(name: str, marks: list[Any]) -> list[pytest.Mark]:
    """Return the marks of this name; those of a parameter may be decorators."""
    return [mark for mark in (getattr(one, "mark", one) for one in marks) if mark.name == name]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Let every other process collect backwards: the first run translates each test file once, not in each process.

    They meet in the middle, and by then the other half is in the cache of bytecode.
    """
    report = yield
    if WORKER.endswith(tuple("13579")) and isinstance(collector, pytest.Dir):
        report.result = report.result[::-1]
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest reads `-m`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one test of N with `--share N`, those of the turn `--turn K`, and those marked `in_every_share`."""
    if WORKER:
        items.sort(key=lambda item: item.path)  # pytest-xdist needs one order in all processes
    share, turn = config.getoption("--share"), config.getoption("--turn")
    if share > 1:
        chosen = [
            has_turn(item.nodeid, share, turn) or item.get_closest_marker("in_every_share") is not None
            for item in items
        ]
        config.hook.pytest_deselected(items=[item for item, kept in zip(items, chosen, strict=True) if not kept])
        items[:] = [item for item, kept in zip(items, chosen, strict=True) if kept]


def has_turn(name: str, share: int, turn: int) -> bool:
    """Return whether the test of this name is one of those that run at a turn."""
    return (zlib.crc32(name.encode()) - turn) % share == 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect thousands of tests, and the modules that they import, without the garbage collector.

    They are frozen afterwards: each collection would walk through them for a quarter of a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
