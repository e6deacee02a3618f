"""Which kernels are used in their compiled form; a warning where a source tree without it was imported by mistake."""

from __future__ import annotations

import os
import warnings
from importlib.machinery import EXTENSION_SUFFIXES

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def has_binary(kernel: str) -> bool:
    """Whether a compiled form of the kernel lies beside its source. Imports nothing."""
    return any(os.path.exists(os.path.join(PACKAGE, "kernels", kernel + suffix)) for suffix in EXTENSION_SUFFIXES)


def kernels() -> dict[str, bool]:
    """Kernel name → whether its compiled form is in use. Looks at files and imports no kernel.

    >>> set(kernels()) >= {"bernstein", "hull_tree"}, set(kernels().values()) <= {True, False}
    (True, True)
    """
    from streamcal.kernels import FOLDER, NEEDS, has_compiled_form  # here: it may import kernels

    names = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
    return {name: all(map(has_compiled_form, (name, *NEEDS.get(name, ())))) for name in names}


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
    files = set(os.listdir(os.path.join(PACKAGE, "kernels")))
    names = [file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_")]
    missing = [name for name in names if not any(name + suffix in files for suffix in EXTENSION_SUFFIXES)]
    if missing:
        warnings.warn(
            f"streamcal was imported from the source tree {os.path.dirname(PACKAGE)}, where {len(missing)} of "
            f"{len(names)} kernels are not compiled: everything works, but slower. Compile them there with "
            "`pip install -e .`, or start Python in another folder to import an installed streamcal; "
            "STREAMCAL_COMPILE=0 in the environment says that this is meant.",
            RuntimeWarning,
            stacklevel=3,
        )
