"""The hot loops, in Cython's pure-Python mode: ordinary Python files, compiled at installation where possible.

A kernel takes arrays and scalars and imports nothing of ours but other kernels. The same file serves both forms:
`importlib` finds the compiled extension first and the `.py` otherwise. Where kernels share classes or functions at C
level, a `.pxd` beside the `.py` declares what is shared.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

#: Kernel → the kernels whose `.pxd` it uses, directly or through another. Each stands below those that it uses.
USES = {
    "hull_search": ("hull_nodes",),
    "hull_tree": ("fast_path", "hull_nodes", "hull_search"),
    "online_newton": ("fast_path",),
    "fixed_share": ("logistic",),
    "implicit_regression": ("logistic",),
    "expert_panel": ("implicit_regression", "logistic"),
    "mixture": ("fixed_share", "implicit_regression", "logistic"),
}
#: An uncompiled class (`HullTree`) cannot extend a compiled one (`Search`): all of these are compiled, or none.
TOGETHER = ("fast_path", "hull_nodes", "hull_search", "hull_tree")
#: Kernel → the kernels without whose compiled forms its own is not used.
NEEDS = dict.fromkeys(TOGETHER[1:], TOGETHER) | {name: used for name, used in USES.items() if name not in TOGETHER}
FOLDER = Path(__file__).parent


def has_compiled_form(name: str) -> bool:
    """Whether the compiled form of a kernel is beside its `.py`."""
    return any((FOLDER / f"{name}{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def _import_source(name: str) -> None:
    """Import a kernel from its `.py`, whether or not it is compiled."""
    spec = spec_from_file_location(f"{__name__}.{name}", FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = globals()[name] = module
    spec.loader.exec_module(module)


# A compiled kernel cannot use the C types of one that is not, as where the compiler failed on that one alone: it would
# fail on import. It is then used as Python too.
for _kernel, _needed in NEEDS.items():
    if has_compiled_form(_kernel) and not all(map(has_compiled_form, _needed)):
        _import_source(_kernel)
