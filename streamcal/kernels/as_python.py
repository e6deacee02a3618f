"""Kernels as ordinary Python, where they are not compiled, and in tests beside their compiled forms."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_file_location, spec_from_loader

from streamcal import kernels

CIMPORTS = f"cython.cimports.{kernels.__name__}"


class AsPython(MetaPathFinder, Loader):
    """Finds the `.py` files of kernels, and has `cython.cimports.streamcal.kernels…` mean `streamcal.kernels…`."""

    def install(self):
        """Find kernels in this way from now on."""
        sys.meta_path.insert(0, self)
        sys.modules[CIMPORTS] = kernels

    def find_spec(self, name, path=None, target=None):
        """Return where a module is found, if it is such a one."""
        if name.startswith(CIMPORTS):
            return spec_from_loader(name, self)
        folder, _, kernel = name.rpartition(".")
        ours = folder.startswith(f"{kernels.__name__}.") and kernel in kernels.FAMILIES
        return spec_from_file_location(name, kernels.source(kernel)) if ours else None

    def create_module(self, spec):
        """Return the module that a name in `cython.cimports` means."""
        module = import_module(kernels.__name__ + spec.name.removeprefix(CIMPORTS))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """Leave the module as it is."""
        module.__spec__ = module.__spec__.loader_state
