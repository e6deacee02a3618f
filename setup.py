"""Compiles the kernels where a C compiler is found; everything else stands in pyproject.toml.

Every kernel is an ordinary Python file in Cython's pure-Python mode. Where one does not compile, all serve as they are:
the same results, slower. `STREAMCAL_COMPILE=0` asks for that form. pip shows what is printed here under `-v` only;
`streamcal doctor` tells afterwards which form is in use.

What is compiled stays in build/, and a later installation from this folder compiles only what has changed since.
"""

import multiprocessing
import os
import re
import sys
import textwrap
import time
from pathlib import Path

import Cython
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError
from setuptools.modified import newer_group

# What Cython would else write into every kernel that takes arrays: half of their code, and of the time to compile it.
SHARED = "streamcal.kernels._cython"

KERNELS = Path("streamcal/kernels")
#: Where the C files are, and the files that are newer than them, or than the kernels, if anything else that these
#: depend on has changed.
TRANSLATED = Path("build/cython")
OF_C = TRANSLATED / "settings.txt"
OF_KERNELS = TRANSLATED / "compiler.txt"

# -O3: the loops over arrays are vectorised, which -O2 leaves; they take a quarter more time without.
# -g0: Python's own flags ask for debug data, five times as large as the code.
# -ffp-contract=off: no fused multiply-add, so that compiled and uncompiled kernels round alike.
# -fno-strict-aliasing: kernels may look at the bits of a double.
FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-strict-aliasing"]
# -fno-asynchronous-unwind-tables: no tables for walking up the stack, a twentieth of a kernel: for debuggers
# alone, in C. It has been tried on Linux only.
if sys.platform == "linux":
    FLAGS.append("-fno-asynchronous-unwind-tables")
MSVC_FLAGS = ["/O2", "/fp:precise"]
# -s: without the names of functions inside of a kernel, an eighth of its size.
# -z noseparate-code: code and constants share pages; apart, each kernel has some pages that are mostly empty.
LINK_FLAGS = ["-Wl,-s", "-Wl,-z,noseparate-code"] if sys.platform == "linux" else []

# The library that has exp and log: a kernel that is linked to none is given the oldest versions of both, which check
# for errors besides what the present ones do.
LIBRARIES = [] if sys.platform == "win32" else ["m"]

# Arrays in kernels have two dimensions at most, one fewer than this: a reference to one then takes 88 bytes, and 208 by
# default. Modules of Cython read it when they are imported.
Options.buffer_max_dims = 3

# Functions without the attributes of Python functions, which Python calls sooner.
DIRECTIVES = {"binding": False}

# Processes that translate. Where they are not forked, each would run this file, and with it the whole installation.
PROCESSES = (os.cpu_count() or 0) if multiprocessing.get_start_method() == "fork" else 0

# Variables of the environment that change what is compiled, or by what.
VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCHFLAGS")

ADVICE = """
streamcal: {failed} of {number} kernels could not be compiled ({reason}), and so none is used compiled.
Everything works, with the same results, but a step takes some 30 (bernstein), 35 (online-platt), 80 (venn-abers) or
1,000 (auto) times as long, and the default method is online-platt in place of auto. For the fast form install a C
compiler and the header files of Python (Debian, Ubuntu: apt install gcc python3-dev; Fedora: dnf install gcc
python3-devel; macOS: xcode-select --install; Windows: Build Tools for Visual Studio with "Desktop development with
C++"), then install streamcal again.
`streamcal doctor` tells which form is in use.
"""


class BuildKernels(build_ext):
    """Compiles what it can, and says how long each kernel took. No kernel that fails makes the installation fail."""

    def build_extensions(self) -> None:
        """Compile the shared module first: no kernel can be imported without it, so none is compiled if it fails."""
        self.reasons: dict[str, str] = {}
        shared, *kernels = self.extensions
        print(f"streamcal: compiling {len(kernels)} kernels", flush=True)
        self.build_extension(shared)
        if SHARED in self.reasons:
            for extension in kernels:
                self.leave_out(extension, self.reasons[SHARED])
        else:
            self.extensions = kernels
            super().build_extensions()  # in parallel
        self.extensions = [extension for extension in (shared, *kernels) if extension.name not in self.reasons]
        failed = [why for name, why in self.reasons.items() if name != SHARED]
        if failed:
            print(ADVICE.format(failed=len(failed), number=len(kernels), reason=failed[0]), flush=True)

    def build_extension(self, ext: Extension) -> None:
        name = ext.name.rpartition(".")[2]
        if not self.force and not newer_group([*ext.sources, *ext.depends], self.get_ext_fullpath(ext.name)):
            self.say(name, "unchanged")
            return
        ext.extra_compile_args = MSVC_FLAGS if self.compiler.compiler_type == "msvc" else FLAGS
        ext.extra_link_args = LINK_FLAGS
        start = time.perf_counter()
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, OSError) as error:
            self.leave_out(ext, textwrap.shorten(str(error), 120))
        outcome = "failed" if ext.name in self.reasons else "compiled"
        self.say(name, f"{outcome} in {time.perf_counter() - start:.1f} s")

    def say(self, name: str, outcome: str) -> None:
        """In one piece: `print` writes the end of a line separately, and another kernel may come between."""
        sys.stdout.write(f"  {name:<18} {outcome}\n")
        sys.stdout.flush()

    def leave_out(self, ext: Extension, reason: str) -> None:
        """Note why, and remove what an earlier build has left: it would be installed as if it were of these sources."""
        self.reasons[ext.name] = reason
        Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)


def extensions() -> list[Extension]:
    """One extension for what the kernels share, and one for each kernel, all translated to C."""
    if os.environ.get("STREAMCAL_COMPILE", "1") == "0":
        return []
    paths = sorted(KERNELS.glob("*/[!_]*.py"))
    sources = {f"streamcal.kernels.{path.parent.name}.{path.stem}": path.as_posix() for path in paths}
    in_c = {name: f"{TRANSLATED.as_posix()}/{name.replace('.', '/')}.c" for name in (SHARED, *sources)}
    translate(sources, in_c)
    # Optional: setuptools copies those that were compiled in place, and goes on where one is missing.
    return [
        Extension(name, [file], depends=[str(OF_KERNELS)], libraries=LIBRARIES, optional=True)
        for name, file in in_c.items()
    ]


def translate(sources: dict[str, str], in_c: dict[str, str]) -> None:
    """Write the C files that are not there, or older than what they are made of.

    `cythonize` would compare their age with Cython's own files too, and these are new in every installation, for which
    pip makes a new environment: hence `force`, and only what has changed.
    """
    from Cython.Build import cythonize

    write_settings()
    changed = [
        Extension(name, [file])
        for name, file in sources.items()
        if newer_group([str(OF_C), *declarations(file)], in_c[name])
    ]
    if newer_group([str(OF_C)], in_c[SHARED]):
        changed.append(Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"]))
    cythonize(
        changed,
        force=True,
        nthreads=PROCESSES,
        language_level=3,
        build_dir=TRANSLATED.as_posix(),
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
    )


def declarations(file: str) -> set[str]:
    """Return the file, its declarations (.pxd), and what these `cimport` in turn: all that its C file is made of."""
    found: set[str] = set()
    waiting = {file, str(Path(file).with_suffix(".pxd"))}
    while waiting:
        path = Path(waiting.pop())
        if str(path) not in found and path.exists():
            found.add(str(path))
            cimported = re.findall(
                r"streamcal\.kernels\.(\w+)\.(\w+)(?: cimport | import )", path.read_text(encoding="utf-8")
            )
            waiting.update(str(KERNELS / folder / f"{module}.pxd") for folder, module in cimported)
    return found


def write_settings() -> None:
    """Everything but their sources that the C files and the kernels depend on."""
    in_c = (Cython.__version__, DIRECTIVES, Options.buffer_max_dims)
    variables = {name: os.environ.get(name) for name in VARIABLES}
    write_changed(OF_C, repr(in_c))
    write_changed(OF_KERNELS, repr((in_c, FLAGS, LIBRARIES, LINK_FLAGS, MSVC_FLAGS, variables)))


def write_changed(file: Path, text: str) -> None:
    """Write a file; one that contains the text already keeps its age."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildKernels},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
