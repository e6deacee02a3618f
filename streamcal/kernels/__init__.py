"""The inner loops, in Cython's pure-Python mode: ordinary Python files, compiled at installation where possible.

A kernel takes arrays and scalars, and imports nothing of the package but other kernels. Kernels that belong together
are in one folder, and no two have the same name. `importlib` finds the compiled extension first and the `.py` file
otherwise. A `.pxd` file beside the `.py` file declares the classes and functions that kernels share at C level. Their C
form is stated there alone, so that they need no decorator. Only classes that the garbage collector skips (`no_gc`)
repeat theirs, since Cython reads that decorator in the `.py` file.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

#: The kernels of `Auto` alone, each listed after those it uses, and those that the last but one uses.
AUTO = (
    *("guard", "knot_sums", "repeated_scores", "score_regressions", "combination", "day_and_week"),
    *("auto_mixture", "auto_steps"),
)
AUTO_USES = (
    *("fast_path", "logistic", "weights", "implicit_regression", "regressions", "online_newton", "jumper"),
    *AUTO[:-2],
)
#: Kernel → the kernels whose `.pxd` it uses, directly or indirectly. Each is listed after those it uses.
USES = {
    "point_nodes": ("recent_points",),
    "quadratic_model": ("recent_points",),
    "recent_logistic": ("point_nodes", "quadratic_model", "recent_points"),
    "taylor_sums": ("compensated", "quadratic_model", "recent_points"),
    "anchored_logistic": (
        *("compensated", "point_nodes", "quadratic_model", "recent_logistic", "recent_points", "taylor_sums"),
    ),
    "bernstein": ("compensated",),
    "difference_qp": ("working_set",),
    "kink_path": ("deviances", "kinks"),
    "tangent_qp": ("angular_slope", "equality_qp", "working_set"),
    "monotone_qp": ("flat_rows",),
    "bernstein_stream": ("bernstein", "compensated", "flat_rows", "monotone_qp"),
    "panel_logistic": ("bernstein", "compensated", "flat_rows", "monotone_qp"),
    "cell_sums": ("fast_path",),
    "anchored_stream": (
        *("anchored_logistic", "cell_points", "cell_sums", "compensated", "fast_path", "logistic", "point_nodes"),
        *("quadratic_model", "recent_logistic", "recent_points", "taylor_sums"),
    ),
    "cell_bins": ("cell_sums", "fast_path"),
    "bin_edges": ("cell_bins", "cell_sums", "fast_path"),
    "binnings": ("beta_scores", "bin_edges", "cell_bins", "cell_sums", "fast_path"),
    "chebyshev": ("compensated",),
    "hull_search": ("hull_nodes",),
    "hull_pools": ("hull_nodes", "hull_search"),
    "hull_fits": ("cubic", "hull_nodes", "hull_search"),
    "hull_changes": ("cubic", "hull_fits", "hull_nodes", "hull_pools", "hull_search"),
    "hull_tree": ("cubic", "fast_path", "hull_changes", "hull_fits", "hull_nodes", "hull_pools", "hull_search"),
    "folds": (
        *("cubic", "fast_path", "hull_changes", "hull_fits", "hull_nodes", "hull_pools", "hull_search", "hull_tree"),
    ),
    "online_newton": ("fast_path", "weights"),
    "newton_each": ("fast_path", "online_newton", "weights"),
    "ramp_chain": ("normal_depth",),
    "online_softmax": ("weights",),
    "recent_moments": ("logistic",),
    "hedging": ("fast_path", "online_newton", "weights"),
    "change_bets": ("fast_path",),
    "implicit_regression": ("logistic",),
    "jumper": ("fast_path", "online_newton", "weights"),
    "venn_abers_curve": ("logistic",),
    "regressions": ("implicit_regression", "logistic"),
    "knot_sums": ("implicit_regression", "logistic"),
    "repeated_scores": ("implicit_regression", "knot_sums", "logistic"),
    "score_regressions": ("implicit_regression", "knot_sums", "logistic", "regressions"),
    "combination": ("guard", "implicit_regression", "knot_sums", "logistic", "regressions"),
    "day_and_week": ("combination", "guard", "implicit_regression", "knot_sums", "logistic", "regressions"),
    "auto_mixture": AUTO_USES,
    "auto_steps": (*AUTO_USES, "auto_mixture"),
    "level_table": ("level_names",),
    "groups": ("level_names", "level_table", "logistic"),
    "capitals": ("groups", "level_names", "level_table", "logistic"),
    "accounts": ("balance", "capitals", "groups", "level_names", "level_table", "logistic", "weights"),
    "observed_levels": (
        "level_names",
        "level_table",
    ),
    "joint_effects": ("implicit_regression", "level_names", "level_table", "logistic", "observed_levels"),
    "level_members": ("implicit_regression", "level_names", "level_table", "logistic", "observed_levels"),
    "segment_chain": (
        "implicit_regression",
        "level_members",
        "level_names",
        "level_table",
        "logistic",
        "observed_levels",
    ),
}
#: An uncompiled class (`HullTree`) cannot extend a compiled one (`Search`): all of these are compiled, or none.
TOGETHER = ("fast_path", "cubic", "hull_nodes", "hull_search", "hull_pools", "hull_fits", "hull_changes", "hull_tree")
#: The same, since these use what only C, or only Python, sees of one another; and those that they use.
CELLS = (
    *("cell_points", "cell_sums", "cell_bins", "bin_edges", "binnings", "point_nodes", "quadratic_model"),
    *("recent_logistic", "taylor_sums", "anchored_logistic", "anchored_stream"),
)
CELLS_USE = ("beta_scores", "compensated", "fast_path", "logistic", "recent_points", *CELLS)
#: The same.
LEVELS = (
    *("level_names", "level_table", "balance", "groups", "capitals", "accounts", "observed_levels", "joint_effects"),
    *("level_members", "segment_chain"),
)
#: The same.
TRENDS = ("deviances", "kinks", "kink_path")
#: Kernel → the kernels that must be compiled for its own compiled form to be used. Each is listed after those it uses.
NEEDS = dict.fromkeys(TOGETHER[2:], TOGETHER) | dict.fromkeys(CELLS, CELLS_USE)
NEEDS |= {name: used for name, used in USES.items() if name not in (*NEEDS, *LEVELS, *AUTO)}
NEEDS |= dict.fromkeys(LEVELS, ("implicit_regression", "logistic", "weights", *LEVELS))
NEEDS |= dict.fromkeys(AUTO, (*AUTO_USES, *AUTO[-2:])) | dict.fromkeys(TRENDS, TRENDS)
FOLDER = Path(__file__).parent
#: Kernel → its source.
SOURCES = {path.stem: path for path in sorted(FOLDER.glob("*/[!_]*.py"))}


def module_name(kernel: str) -> str:
    """Return the full name of a kernel's module."""
    return f"{__name__}.{SOURCES[kernel].parent.name}.{kernel}"


@cache  # of a process: which form is in use does not change once kernels are imported
def has_compiled_form(kernel: str) -> bool:
    """Return whether a compiled extension of the kernel exists beside its `.py` file."""
    return any(SOURCES[kernel].with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)


def _import_source(kernel: str) -> None:
    """Import a kernel from its `.py` file, even if a compiled form exists."""
    spec = spec_from_file_location(module_name(kernel), SOURCES[kernel])
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    setattr(import_module(spec.parent), kernel, module)
    spec.loader.exec_module(module)


# A compiled kernel cannot import the C types of an uncompiled one (if the compiler failed on that one alone). It is
# then imported as Python as well.
for _kernel, _needed in NEEDS.items():
    if has_compiled_form(_kernel) and not all(map(has_compiled_form, _needed)):
        _import_source(_kernel)
