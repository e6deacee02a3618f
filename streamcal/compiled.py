"""Which kernels are used in their compiled form; a warning where a source tree without it was imported by mistake."""

from __future__ import annotations

import glob
import os
import warnings
from importlib.machinery import EXTENSION_SUFFIXES

PACKAGE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(PACKAGE, "kernels")


def has_binary(kernel: str) -> bool:
    """Return whether a compiled form of a kernel, such as `tree/hull_tree`, lies beside its source. Import nothing."""
    return any(os.path.exists(os.path.join(KERNELS, kernel + suffix)) for suffix in EXTENSION_SUFFIXES)


def kernels() -> dict[str, bool]:
    """Return for each kernel whether its compiled form is in use. Look at files and import no kernel.

    >>> set(kernels()) >= {"bernstein", "hull_tree"}, set(kernels().values()) <= {True, False}
    (True, True)
    """
    from streamcal.kernels import NEEDS, SOURCES, has_compiled_form  # here: it may import kernels

    return {name: all(map(has_compiled_form, (name, *NEEDS.get(name, ())))) for name in sorted(SOURCES)}


def in_source_tree() -> bool:
    """Return whether the package was imported from a checkout instead of an installation."""
    root = os.path.dirname(PACKAGE)
    return any(os.path.exists(os.path.join(root, file)) for file in ("pyproject.toml", "setup.py"))


def warn_of_an_uncompiled_source_tree() -> None:
    """Warn with a `RuntimeWarning` if Python imports streamcal from a source tree without compiled kernels.

    Python started in a checkout imports the package of that folder instead of the installed one. The results are the
    same, but slower, and nobody would notice. Users who want this set STREAMCAL_COMPILE=0, as at the installation.
    """
    if not in_source_tree() or os.environ.get("STREAMCAL_COMPILE") == "0":
        return
    names = [file.removesuffix(".py") for file in glob.glob("*/[!_]*.py", root_dir=KERNELS)]
    missing = [name for name in names if not has_binary(name)]
    if missing:
        warnings.warn(
            f"streamcal was imported from the source tree {os.path.dirname(PACKAGE)}, where {len(missing)} of "
            f"{len(names)} kernels are not compiled: everything works, but slower. Compile them there with "
            "`pip install -e .`, or start Python in another folder to import an installed streamcal; "
            "STREAMCAL_COMPILE=0 in the environment says that this is meant.",
            RuntimeWarning,
            stacklevel=3,
        )
