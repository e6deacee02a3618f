"""What is in use: the form of the kernels, and versions."""

from __future__ import annotations

import importlib
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import streamcal
import streamcal.kernels

PACKAGES = ("numpy", "scipy", "river", "sortedcontainers", "osqp", "Cython", "matplotlib", "pyarrow", "scikit-learn")


def kernels() -> dict[str, bool]:
    """Kernel name → whether its compiled form is in use.

    >>> sorted(kernels())
    ['bernstein', 'hull_tree', 'monotone_qp', 'sigmoid_fit']
    """
    folder = Path(streamcal.kernels.__file__).parent
    names = sorted(path.stem for path in folder.glob("[!_]*.py"))
    return {name: _is_compiled(importlib.import_module(f"streamcal.kernels.{name}")) for name in names}


def kernel_form() -> str:
    """ "compiled", "uncompiled" or "partly compiled"."""
    forms = set(kernels().values())
    return "partly compiled" if len(forms) > 1 else "compiled" if True in forms else "uncompiled"


def environment() -> dict[str, str]:
    """What `streamcal doctor` prints, by heading."""
    found = {"streamcal": streamcal.__version__, "kernels": _kernel_line()}
    found["python"] = f"{platform.python_version()} ({platform.python_implementation()})"
    found["platform"] = platform.platform()
    return found | {package: _version(package) for package in PACKAGES}


def _kernel_line() -> str:
    form = kernel_form()
    if form == "compiled":
        return form
    missing = ", ".join(name for name, compiled in kernels().items() if not compiled)
    return f"{form} ({missing}): everything works, slower; install a C compiler and reinstall for the fast form"


def _is_compiled(module: ModuleType) -> bool:
    spec = find_spec(module.__name__)
    return spec is not None and not str(spec.origin).endswith(".py")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
