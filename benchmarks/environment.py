"""The environment of a benchmark, and checks of whether it may run."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from streamcal import __version__
from streamcal.app.doctor import kernel_form
from streamcal.kernels import FAMILIES, module_name

PACKAGES = (
    "numpy", "scipy", "sortedcontainers", "osqp",
    "river", "scikit-learn", "venn-abers", "betacal", "online-cp", "numba",
)  # fmt: skip


def require_compiled() -> None:
    """Exit unless every kernel runs in its compiled form.

    Without a compiled form, Python imports the `.py` without a warning.
    """
    if kernel_form() != "compiled":
        raise SystemExit(
            "The kernels are not compiled, and the times would be those of interpreted Python.\n"
            'Install a C compiler, run  pip install -e ".[bench]"  in the root of the repository, and see what\n'
            "`streamcal doctor` says; STREAMCAL_COMPILE=0 must not be set."
        )


def stale_kernels() -> list[str]:
    """Kernels whose compiled file is older than their source, and so probably different from it."""
    modules = {name: Path(str(import_module(module_name(name)).__file__)) for name in FAMILIES}
    return [
        name
        for name, compiled in modules.items()
        if (source := compiled.with_name(f"{name}.py")).exists() and source.stat().st_mtime > compiled.stat().st_mtime
    ]


def environment(seed: int) -> dict[str, str]:
    """Return the environment printed above every result, by heading."""
    stale = stale_kernels()
    found = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": f"{os.cpu_count()}, of which this process may use {len(_cores())}",
        "load average": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()) if hasattr(os, "getloadavg") else "unknown",
        "system": platform.platform(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "streamcal": f"{__version__}, kernels {kernel_form()}"
        + (f", OLDER THAN THEIR SOURCE: {stale}" if stale else ""),
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "seed": str(seed),
    }
    return found


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _processor() -> str:
    """Return the processor's name and its caches, as far as the system reports them."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1] for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index[23]/size"))
    sizes = ", ".join(f"L{2 + i} {path.read_text().strip()}" for i, path in enumerate(caches))
    return f"{names[0].strip() if names else platform.processor()} ({sizes or 'caches unknown'})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
