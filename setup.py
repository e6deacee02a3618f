"""Compiles the kernels where a C compiler is found; everything else stands in pyproject.toml.

Every kernel is an ordinary Python file in Cython's pure-Python mode. A kernel that does not compile is left out and its
`.py` serves instead: the same results, slower. `STREAMCAL_COMPILE=0` asks for that form. pip shows what is printed here
under `-v` only; `streamcal doctor` tells afterwards which form is in use.
"""

import os
import textwrap
import time
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

# What Cython would else write into every kernel that takes arrays: half of their code, and of the time to compile it.
SHARED = "streamcal.kernels._cython"

# -O3: the loops over arrays are vectorised, which -O2 leaves; they take a quarter more time without.
# -g0: Python's own flags ask for debug data, five times as large as the code.
# -ffp-contract=off: no fused multiply-add, so that compiled and uncompiled kernels round alike.
# -fno-strict-aliasing: kernels may look at the bits of a double.
FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-strict-aliasing"]
MSVC_FLAGS = ["/O2", "/fp:precise"]

# Functions without the attributes of Python functions, which Python calls sooner.
DIRECTIVES = {"binding": False}

ADVICE = """
streamcal: {failed} of {number} kernels could not be compiled ({reason}) and are installed uncompiled.
Everything works, with the same results, but tens of times slower. For the fast form install a C compiler and the header
files of Python (Debian, Ubuntu: apt install gcc python3-dev; Fedora: dnf install gcc python3-devel; macOS: xcode-select
--install; Windows: Build Tools for Visual Studio with "Desktop development with C++"), then install streamcal again.
`streamcal doctor` tells which form is in use.
"""


class BuildKernels(build_ext):
    """Compiles what it can, and says how long each kernel took. No kernel that fails makes the installation fail."""

    def build_extensions(self) -> None:
        """The shared module first: without it no kernel can be imported, so that none is compiled where it fails."""
        self.reasons: dict[str, str] = {}
        shared, *kernels = self.extensions
        print(f"streamcal: compiling {len(kernels)} kernels", flush=True)
        self.build_extension(shared)
        if SHARED in self.reasons:
            self.reasons |= {extension.name: self.reasons[SHARED] for extension in kernels}
        else:
            self.extensions = kernels
            super().build_extensions()  # in parallel
        self.extensions = [extension for extension in (shared, *kernels) if extension.name not in self.reasons]
        failed = [why for name, why in self.reasons.items() if name != SHARED]
        if failed:
            print(ADVICE.format(failed=len(failed), number=len(kernels), reason=failed[0]), flush=True)

    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = MSVC_FLAGS if self.compiler.compiler_type == "msvc" else FLAGS
        start = time.perf_counter()
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, OSError) as error:
            self.reasons[ext.name] = textwrap.shorten(str(error), 120)
        outcome = "failed" if ext.name in self.reasons else "compiled"
        print(f"  {ext.name.rpartition('.')[2]:<18} {outcome} in {time.perf_counter() - start:.1f} s", flush=True)


def extensions() -> list[Extension]:
    """One extension for what the kernels share, and one for each file in streamcal/kernels."""
    if os.environ.get("STREAMCAL_COMPILE", "1") == "0":
        return []
    kernels = [
        Extension(f"streamcal.kernels.{path.stem}", [path.as_posix()])
        for path in sorted(Path("streamcal/kernels").glob("[!_]*.py"))
    ]
    made = cythonize(
        [Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"]), *kernels],
        language_level=3,
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
    )
    for extension in made:
        extension.optional = True  # what `Extension` is told of it, `cythonize` may forget
    return made


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildKernels},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
