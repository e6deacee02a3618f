"""The warning where a source tree without compiled kernels was imported by mistake."""

from __future__ import annotations

import os
import warnings

from streamcal.kernels import COMPILED, FAMILIES, FOLDER, MISSING

PACKAGE = os.path.dirname(FOLDER)


def in_source_tree() -> bool:
    """Return whether the package was imported from a checkout instead of an installation."""
    root = os.path.dirname(PACKAGE)
    return any(os.path.exists(os.path.join(root, file)) for file in ("pyproject.toml", "setup.py"))


def warn_of_an_uncompiled_source_tree() -> None:
    """Warn with a `RuntimeWarning` if Python imports streamcal from a source tree without compiled kernels.

    Python started in a checkout imports the package of that folder instead of the installed one. The results are the
    same, but slower, and nobody would notice. Users who want this set STREAMCAL_COMPILE=0, as at the installation.
    """
    if not COMPILED and in_source_tree() and os.environ.get("STREAMCAL_COMPILE") != "0":
        warnings.warn(
            f"streamcal was imported from the source tree {os.path.dirname(PACKAGE)}, where {len(MISSING)} of "
            f"{len(FAMILIES)} kernels are not compiled, and none is used compiled: everything works, but slower. "
            "Compile them there with `pip install -e .`, or start Python in another folder to import an installed "
            "streamcal; STREAMCAL_COMPILE=0 in the environment says that this is meant.",
            RuntimeWarning,
            stacklevel=3,
        )
