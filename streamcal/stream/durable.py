"""Saving calibrators, and what learns beside them, to JSON files.

Files are replaced atomically: readers, also after a crash, see the old content or the new, never a part.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from streamcal.errors import StateError
from streamcal.lazy import imported
from streamcal.learners.learner import Learner
from streamcal.live import SAVED
from streamcal.saved import Saved

#: What to do about a file that is no state.
OTHER_STATE = "give a copy that is whole, or another name to begin anew"

#: What a journal, and a store of levels, begin with.
DATABASE = b"SQLite format 3"

Kind = TypeVar("Kind", bound=Saved)

logger = logging.getLogger(__name__)


def save(calibrator: Saved, path: str | os.PathLike[str]) -> None:
    """Write everything a calibrator has learned to a JSON file, atomically.

    Parameters
    ----------
    calibrator : Learner, LabelJoin, CalibrationMonitor or Shadow
        Any method, of one score, of several scores, of many classes or of distributions, and any class of
        `streamcal.live` with a state. The journal of a join is not saved.
    path : str or path
        The file to write or to replace.

    Raises
    ------
    OSError
        If the file cannot be written; an existing file is then unchanged.

    Notes
    -----
    Cost: O(size of the state). Readers of the file see the old content or the new one.

    Examples
    --------
    >>> import tempfile, streamcal
    >>> path = Path(tempfile.mkdtemp(), "state.json")
    >>> cal = streamcal.Platt()
    >>> cal.learn_one(0.3, True)
    >>> streamcal.save(cal, path)
    >>> streamcal.load(path).predict_one(0.3) == cal.predict_one(0.3)
    True
    """
    content = json.dumps(calibrator.state_dict()).encode()
    atomic_write(path, content)
    logger.debug("saved %s, %d bytes, to %s", _described(calibrator), len(content), path)


@overload
def load(path: str | os.PathLike[str]) -> Saved: ...
@overload
def load(path: str | os.PathLike[str], kind: Callable[..., Kind]) -> Kind: ...
def load(path: str | os.PathLike[str], kind: Any = Saved) -> Any:
    """Load what `save` wrote; learning resumes from the loaded state.

    Parameters
    ----------
    path : str or path
        The file.
    kind : type
        The class that is expected, such as `VennAbers`, or one that it inherits from, such as `Calibrator`, any method
        of one score. Type checkers then know what is returned. The default accepts every class.

    Returns
    -------
    Learner, LabelJoin, CalibrationMonitor or Shadow
        An object of the class, parameters and state that were saved.

    Raises
    ------
    StateError
        If the file is damaged, was not written by `save`, names a class that this version does not have, or a class
        that is not `kind`.
    OSError
        If the file cannot be read.

    Notes
    -----
    Cost: O(size of the state). The file contains only data; loading executes none of it.

    Examples
    --------
    >>> import tempfile, streamcal
    >>> path = Path(tempfile.mkdtemp(), "state.json")
    >>> streamcal.save(streamcal.Platt(), path)
    >>> type(streamcal.load(path)).__name__
    'Platt'
    >>> streamcal.load(path, streamcal.Calibrator).predict_one(0.3)
    0.3
    """
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        reason = "the file is empty" if not os.path.getsize(path) else str(error)
        with open(path, "rb") as file:
            if file.read(len(DATABASE)) == DATABASE:
                reason = "the file is a journal of late labels, or a store of levels"
        raise StateError(f"{os.fspath(path)} is not a streamcal state: {reason}; {OTHER_STATE}") from None
    name = state.get("class") if isinstance(state, dict) else None
    if not isinstance(name, str):
        raise StateError(f"{os.fspath(path)} is not a streamcal state: it names no class; {OTHER_STATE}")
    try:
        cls = _class_named(name)
        if not issubclass(cls, kind):
            raise StateError(f"the file holds the state of {_a(name)}, not of {_a(kind.__name__)}; give kind={name}")
        loaded = cls.from_state(state)
    except StateError as error:
        raise StateError(f"{os.fspath(path)}: {error}") from error
    logger.debug("loaded %s from %s", _described(loaded), path)
    return loaded


def _a(name: str) -> str:
    """Return the name of a class after its article."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _described(learner: Saved) -> str:
    """Describe a learner: its class, and the weight that it holds."""
    name = type(learner).__name__
    return f"{name} of weight {learner.n:g}" if isinstance(learner, Learner) else name


def _class_named(name: str) -> type[Any]:
    """Return the class of a state; `StateError` if there is none."""
    return imported(SAVED[name]) if name in SAVED else Learner.class_named(name)


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


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, where folders can be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
