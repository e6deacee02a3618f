"""How many predictions a join may remember: those that fit into a quarter of the memory there is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The part of the available memory that predictions may take.
SHARE = 0.25
#: Bytes of a prediction beside what its method remembers of it, with an id of 16 bytes and an outcome; and those of the
#: levels of a method that reads keys.
EACH, KEYED = 80, 500
#: Never fewer, and where the memory is not known this many; never more.
FEWEST, USUAL, MOST = 100_000, 1_000_000, 1_000_000_000
#: Where a system, or a container of it, tells what memory is left.
MEMINFO = Path("/proc/meminfo")
LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


def available() -> int | None:
    """Return the bytes of memory that this process can still take; None where the system does not tell."""
    limits: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for limit, used in LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            limits.append(max(int(limit.read_text()) - int(used.read_text()), 0))
    if not limits:
        with suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=None)


def room_for(calibrator: Any) -> int:
    """Return how many predictions of a calibrator, or of a `Shadow`, may be remembered.

    Examples
    --------
    >>> from streamcal import Auto, OnlinePlatt
    >>> room_for(OnlinePlatt()) >= room_for(Auto()) >= 100_000
    True
    """
    from streamcal.calibrators.base import Calibrator
    from streamcal.live.versions import VersionLearner

    memory = available()
    if memory is None:
        return USUAL
    first, last = calibrator.scale.domain
    score = 0.5 if (first, last) == (0.0, 1.0) else 0.0
    remembered = VersionLearner(calibrator.clone()).issue(score, None, 0.0, 1.0, apart=False)[1]
    each = EACH + len(remembered or b"") + (0 if isinstance(calibrator, Calibrator) else KEYED)
    return min(max(int(SHARE * memory / each), FEWEST), MOST)
