"""Calibrators on disk: a JSON file, replaced in one step, so that a crash leaves the old state or the new."""

from __future__ import annotations

import json
import os
from pathlib import Path

from streamcal.errors import StateError
from streamcal.learners.learner import Learner
from streamcal.stream.atomic import atomic_write


def save(calibrator: Learner, path: str | os.PathLike[str]) -> None:
    """Write everything a calibrator has learned to a JSON file, atomically: readers see the old file or the new one.

    Parameters
    ----------
    calibrator : Learner
        A method of any kind: of one score, of several scores, of many classes or of distributions.
    path : str or path
        The file to write or to replace.

    Raises
    ------
    OSError
        Where the file cannot be written; what was there is left as it was.

    >>> import tempfile, streamcal
    >>> path = Path(tempfile.mkdtemp(), "state.json")
    >>> cal = streamcal.Platt()
    >>> cal.learn_one(0.3, True)
    >>> streamcal.save(cal, path)
    >>> streamcal.load(path).predict_one(0.3) == cal.predict_one(0.3)
    True
    """
    atomic_write(path, json.dumps(calibrator.state_dict()).encode())


def load(path: str | os.PathLike[str]) -> Learner:
    """The calibrator that `save` wrote, of whichever method; it goes on learning where the saved one stood.

    The file holds data only, and nothing in it is executed.

    Raises
    ------
    StateError
        Where the file is damaged, or not one of `save`, or of a method this version does not have.
    OSError
        Where the file cannot be read.
    """
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise StateError(f"{os.fspath(path)} is not a streamcal state: {error}") from None
    name = state.get("class") if isinstance(state, dict) else None
    if not isinstance(name, str):
        raise StateError(f"{os.fspath(path)} is not a streamcal state: it names no class")
    try:
        return Learner.class_named(name).from_state(state)
    except StateError as error:
        raise StateError(f"{os.fspath(path)}: {error}") from error
