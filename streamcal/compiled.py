"""Which kernels have their compiled form, and a warning where a source tree without it was imported by mistake."""

from __future__ import annotations

import os
import warnings
from importlib.machinery import EXTENSION_SUFFIXES

PACKAGE = os.path.dirname(os.path.abspath(__file__))
#: The compiled form of kernels/x.py is a file beside it, and Python imports that one of the two.
KERNELS = os.path.join(PACKAGE, "kernels")


def kernels() -> dict[str, bool]:
    """Kernel name → whether its compiled form is in use. Reads a folder and imports nothing.

    >>> set(kernels()) >= {"bernstein", "hull_tree"}, set(kernels().values()) <= {True, False}
    (True, True)
    """
    files = set(os.listdir(KERNELS))
    names = sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_"))
    return {name: any(name + suffix in files for suffix in EXTENSION_SUFFIXES) for name in names}


def in_source_tree() -> bool:
    """Whether the package was imported from a checkout, and not from where `pip install` puts packages."""
    root = os.path.dirname(PACKAGE)
    return any(os.path.exists(os.path.join(root, file)) for file in ("pyproject.toml", "setup.py"))


def warn_of_an_uncompiled_source_tree() -> None:
    """A `RuntimeWarning` where a checkout without compiled kernels hides what may be installed.

    Python started in a checkout imports the package there, and not the installed one: the same results, but slower, and
    nobody would notice. Whoever wants that form says so with STREAMCAL_COMPILE=0, as at the installation.
    """
    if not in_source_tree() or os.environ.get("STREAMCAL_COMPILE") == "0":
        return
    missing = [name for name, compiled in kernels().items() if not compiled]
    if missing:
        warnings.warn(
            f"streamcal was imported from the source tree {os.path.dirname(PACKAGE)}, where {len(missing)} of "
            f"{len(kernels())} kernels are not compiled: everything works, but slower. Compile them there with "
            "`pip install -e .`, or start Python in another folder to import an installed streamcal; "
            "STREAMCAL_COMPILE=0 in the environment says that this is meant.",
            RuntimeWarning,
            stacklevel=3,
        )
