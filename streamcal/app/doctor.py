"""`streamcal doctor`: the form of the kernels, and versions; and the times of methods that were measured."""

from __future__ import annotations

import json
import platform
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import streamcal
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.compiled import PACKAGE, in_source_tree
from streamcal.kernels import COMPILED, FAMILIES, MISSING

NAME_AND_VERSION = f"streamcal {streamcal.__version__}"
PACKAGES = ("numpy", "scipy", "river", "sortedcontainers", "osqp", "Cython", "pyarrow", "typer", "rich")
#: Optional package → the extra that installs it.
OPTIONAL = {
    "matplotlib": "plot",
    "scikit-learn": "sklearn",
    "clarabel": "conic",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus-client": "serve",
    "msgspec": "serve",
    "pyspark": "spark",
}


#: How many times longer a step takes without compiled kernels (`python -m benchmarks.uncompiled`).
SLOWER = {"bernstein": 30, "online-platt": 35, "venn-abers": 80, "auto": 1_000}


def slower() -> str:
    """Describe how much slower methods are without compiled kernels, and which method is the default there."""
    factors = ", ".join(f"{factor} ({name})" for name, factor in SLOWER.items())
    return f"steps take longer by a factor of {factors}; the default method is {DEFAULT_METHOD}"


def kernel_form() -> str:
    """Return the form of the kernels, "compiled" or "uncompiled"."""
    return "compiled" if COMPILED else "uncompiled"


def summary() -> str:
    """Return the header of `streamcal run`: kernel form, and versions of streamcal, Python and numerical packages."""
    numerics = ", ".join(f"{package} {_version(package)}" for package in ("numpy", "osqp"))
    header = f"{NAME_AND_VERSION}, {kernel_form()} kernels, Python {platform.python_version()}, {numerics}"
    return header if COMPILED else f"{header}\n{kernel_form()} kernels: {slower()}"


def environment() -> dict[str, str]:
    """Return the output of `streamcal doctor`, by heading."""
    place = f"{PACKAGE} ({'a source tree' if in_source_tree() else 'installed'})"
    rows = {"streamcal": streamcal.__version__, "imported from": place, "kernels": _kernel_line()}
    rows["python"] = f"{platform.python_version()} ({platform.python_implementation()})"
    rows["platform"] = platform.platform()
    rows |= {package: _version(package) or "missing: streamcal needs it" for package in PACKAGES}
    missing = {package: f'not installed; pip install ".[{extra}]" brings it' for package, extra in OPTIONAL.items()}
    return rows | {package: _version(package) or missing[package] for package in OPTIONAL}


def _kernel_line() -> str:
    if COMPILED:
        return kernel_form()
    which = "" if len(MISSING) == len(FAMILIES) else f", since these could not be compiled: {', '.join(MISSING)}"
    return f"uncompiled{which}; everything works, but {slower()}; install a C compiler and reinstall"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def method_times() -> dict[str, Any]:
    """Return the median step of each method in microseconds; when and where it was measured; observations learned.

    `tools/generate.py` writes the file from the table in docs/performance.md.

    >>> sorted(method_times())
    ['learned', 'measured', 'microseconds']
    """
    times: dict[str, Any] = json.loads(
        resources.files("streamcal.app").joinpath("method_times.json").read_text("utf-8")
    )
    return times
