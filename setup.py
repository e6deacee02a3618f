"""Compiles the kernels where a C compiler is found; everything else stands in pyproject.toml.

Every kernel is an ordinary Python file in Cython's pure-Python mode. A kernel that does not compile is left out
(`optional=True`) and its `.py` serves instead: the same results, slower. `STREAMCAL_COMPILE=0` asks for that form.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# -ffp-contract=off: no fused multiply-add, so that compiled and uncompiled kernels round alike.
# -fno-strict-aliasing: kernels may look at the bits of a double.
FLAGS = [] if os.name == "nt" else ["-O3", "-ffp-contract=off", "-fno-strict-aliasing"]


def extensions() -> list[Extension]:
    """One extension for each file in streamcal/kernels."""
    if os.environ.get("STREAMCAL_COMPILE", "1") == "0":
        return []
    found = [
        Extension(f"streamcal.kernels.{path.stem}", [path.as_posix()], extra_compile_args=FLAGS, optional=True)
        for path in sorted(Path("streamcal/kernels").glob("[!_]*.py"))
    ]
    return cythonize(found, language_level=3, build_dir="build/cython")


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count()}})
