"""Atomic replacement of files: readers, also after a crash, see the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import Any


def atomic_write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path` in one step: a temporary file in the same folder, on the disk, then renamed.

    An existing file keeps its permissions, a new file gets the default ones (the umask applies). A symbolic link is
    kept, and the file it points to is replaced. On an error (`OSError`) the old file is unchanged and no temporary file
    is left. Safe against power failure where renaming is atomic, as on POSIX file systems.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "state.json")
    >>> atomic_write(path, b"{}")
    >>> path.read_bytes()
    b'{}'
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def remove_left_over(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of `atomic_write` to this path left by a killed process; nobody may be writing it."""
    folder, name = os.path.split(os.path.realpath(path))
    for entry in os.listdir(folder):
        if entry.startswith(f".{name}.") and entry.endswith(".tmp"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, entry))


def lock(file: Any) -> None:
    """Lock an open file until it is closed.

    Raises
    ------
    BlockingIOError
        If another process, or another opened file, has locked it.
    OSError
        If the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except PermissionError as error:  # of a file that is locked
            raise BlockingIOError(*error.args) from None
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, where folders can be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
