"""Calibrators on disk: a JSON file, replaced in one step, so that a crash leaves the old state or the new."""

from __future__ import annotations

import json
import os
from pathlib import Path

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import StateError
from streamcal.stream.atomic import atomic_write


def save(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write the calibrator's state to `path`, atomically. Raises `OSError` where that is not possible.

    >>> import tempfile, streamcal
    >>> path = Path(tempfile.mkdtemp(), "state.json")
    >>> cal = streamcal.Platt()
    >>> cal.learn_one(0.3, True)
    >>> save(cal, path)
    >>> load(path).n
    1.0
    """
    atomic_write(path, json.dumps(calibrator.state_dict()).encode())


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote; `StateError` if the file is not one of its, or damaged."""
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise StateError(f"{os.fspath(path)} is not a streamcal state: {error}") from None
    classes = {method.__name__: method for method in REGISTRY.values()}
    name = state.get("class") if isinstance(state, dict) else None
    if name not in classes:
        raise StateError(f"{os.fspath(path)} is not a state of a method of this streamcal (class {name!r})")
    return classes[name].from_state(state)
