"""Databases in a forked process: those of its parent, which it must neither use nor close.

SQLite keeps its locks, its log and what it knows of both in the memory of one process. A fork that wrote with a
connection of its parent would lose events of both, and one that closed it, also at its end, would remove the log under
the parent.
"""

from __future__ import annotations

import os
import sqlite3
from weakref import WeakSet

from streamcal.errors import StateError


class Database:
    """A database that belongs to the process which opened it."""

    _database: sqlite3.Connection
    path: str
    what: str  #: the name of its kind, for messages
    inherited = False  #: whether this process is a fork of the one that opened it

    def _own(self) -> None:
        """Note that this process has opened the database."""
        _OPEN.add(self)

    def require_own(self) -> None:
        """Raise `StateError` in a process that was forked from the one that opened the database."""
        if self.inherited:
            raise StateError(
                f"{self.path}: a forked process cannot use the {self.what} of another one; open it after the fork, in "
                "one process alone"
            )


_OPEN: WeakSet[Database] = WeakSet()


def _inherit() -> None:
    """Mark all databases as inherited in a process that has just been forked, and keep them from being closed."""
    if not _OPEN:
        return
    from ctypes import py_object, pythonapi

    for one in _OPEN:
        one.inherited = True
        pythonapi.Py_IncRef(py_object(one._database))  # not closed even when the interpreter ends


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
