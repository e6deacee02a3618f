"""The inner loops, in Cython's pure-Python mode: ordinary Python files, compiled at installation where possible.

A kernel takes arrays and scalars, and imports nothing of the package but other kernels. Kernels that belong together
are in one folder, and no two have the same name. `importlib` finds the compiled extension first and the `.py` file
otherwise. A `.pxd` file beside the `.py` file declares the classes and functions that kernels share at C level. Their C
form is stated there alone, so that they need no decorator. Only classes that the garbage collector skips (`no_gc`)
repeat theirs, since Cython reads that decorator in the `.py` file.

Kernels name one another by `cython.cimports.streamcal.kernels…`. In C these are the declarations of the `.pxd` files. A
kernel in Python does not see what another one has in C, nor the reverse: all are compiled, or none is used compiled.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES

FOLDER = os.path.dirname(os.path.abspath(__file__))
#: Kernel → its folder, and the kernels without a compiled form beside their source.
FAMILIES: dict[str, str] = {}
MISSING: list[str] = []
for _family in sorted(one.name for one in os.scandir(FOLDER) if one.is_dir() and not one.name.startswith("_")):
    _files = set(os.listdir(os.path.join(FOLDER, _family)))
    for _name in sorted(file.removesuffix(".py") for file in _files if file.endswith(".py") and file[0] != "_"):
        FAMILIES[_name] = _family
        if not any(_name + suffix in _files for suffix in EXTENSION_SUFFIXES):
            MISSING.append(_name)
#: Whether the compiled forms are used.
COMPILED = not MISSING


def module_name(kernel: str) -> str:
    """Return the full name of a kernel's module."""
    return f"{__name__}.{FAMILIES[kernel]}.{kernel}"


def source(kernel: str) -> str:
    """Return the path of a kernel's `.py` file."""
    return os.path.join(FOLDER, FAMILIES[kernel], f"{kernel}.py")


if not COMPILED:
    from streamcal.kernels.as_python import AsPython

    AsPython().install()
