"""The memory of processes, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path

#: A megabyte of the tables.
MB = 2**20


def resident(pid: int | str = "self") -> int:
    """Return the bytes of a process that are in memory."""
    return _status(pid, "VmRSS")


def peak(pid: int | str = "self") -> int:
    """Return the most bytes of a process that were in memory since it began its program."""
    return _status(pid, "VmHWM")


def _status(pid: int | str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, name
    return 1024 * int(found[1])
