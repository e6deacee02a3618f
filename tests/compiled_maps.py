"""Maps as C, compiled together: one call of the compiler for all that a test needs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

#: What generated sources have to be compiled with, without a word.
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
POINTER = ctypes.POINTER(ctypes.c_double)


def compiled(maps, folder, *options, compiler="gcc", standard="-std=c99"):
    """Return a function of arrays of scores for each map; undefined behaviour ends the process."""
    if shutil.which(compiler) is None:
        pytest.skip(f"NOT TESTED: {compiler} is not installed")
    source, library = folder / "maps.c", folder / "maps.so"
    source.write_text("\n".join(one.to_c(f"map{place}") for place, one in enumerate(maps)))
    options = options or ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")
    command = [compiler, standard, *options, *WARNINGS, "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3_000]
    loaded = ctypes.CDLL(str(library))
    return [
        _function(getattr(loaded, f"map{place}"), getattr(loaded, f"map{place}_many")) for place in range(len(maps))
    ]


def _function(one, many):
    one.argtypes, one.restype = [ctypes.c_double], ctypes.c_double
    many.argtypes, many.restype = [POINTER, POINTER, ctypes.c_size_t], None

    def evaluated(scores):
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        found = np.empty(len(scores))
        many(scores.ctypes.data_as(POINTER), found.ctypes.data_as(POINTER), len(scores))
        np.testing.assert_array_equal([one(score) for score in scores[:50].tolist()], found[:50])
        return found

    return evaluated
