"""Saving calibrators to JSON files. Files are replaced atomically: after a crash they hold the old or the new state."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from streamcal.errors import StateError
from streamcal.learners.learner import Learner
from streamcal.stream.atomic import atomic_write

logger = logging.getLogger(__name__)


def save(calibrator: Learner, path: str | os.PathLike[str]) -> None:
    """Write everything a calibrator has learned to a JSON file, atomically.

    Parameters
    ----------
    calibrator : Learner
        Any method: of one score, of several scores, of many classes or of distributions.
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
    logger.debug("saved %s of weight %g, %d bytes, to %s", type(calibrator).__name__, calibrator.n, len(content), path)


def load(path: str | os.PathLike[str]) -> Learner:
    """Load a calibrator written by `save`; it can continue to learn.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Learner
        A calibrator of the class, parameters and state that were saved.

    Raises
    ------
    StateError
        If the file is damaged, was not written by `save`, or names a method that this version does not have.
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
    """
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise StateError(f"{os.fspath(path)} is not a streamcal state: {error}") from None
    name = state.get("class") if isinstance(state, dict) else None
    if not isinstance(name, str):
        raise StateError(f"{os.fspath(path)} is not a streamcal state: it names no class")
    try:
        calibrator = Learner.class_named(name).from_state(state)
    except StateError as error:
        raise StateError(f"{os.fspath(path)}: {error}") from error
    logger.debug("loaded %s of weight %g from %s", name, calibrator.n, path)
    return calibrator
