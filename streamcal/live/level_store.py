"""`LevelStore`: the levels of a `Segmented` that are not held in memory, in an embedded SQLite database."""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from json.encoder import encode_basestring_ascii as _text
from threading import Lock, RLock
from typing import Any

import numpy as np

from streamcal.errors import StateError, StoreError
from streamcal.kernels.segments.level_members import WIDTH
from streamcal.live.inherited import Database
from streamcal.live.levels import Level
from streamcal.parameters.types import FloatArray

#: "sclv", the application id of the database, and the version of its tables.
APPLICATION, FORMAT = 0x73636C76, 1
#: Rows kept in memory until they are written in one transaction.
MOST_PENDING = 4096
#: If rows cannot be written, the number kept in memory before learning stops with an error.
MOST_UNWRITTEN = 262_144
#: The states taken last whose levels are kept: of one alone; and of a join, beside that of its last snapshot.
STATES, STATES_OF_JOIN = 2, 8
#: Older rows are dropped only after this many were written.
FEWEST_ROWS = 20_000
#: Levels read at once where all are.
PAGE = 1000

_TABLES = (
    "CREATE TABLE levels (owner INTEGER, field INTEGER, level TEXT, number INTEGER, chain INTEGER NOT NULL, "
    "numbers BLOB NOT NULL, PRIMARY KEY (owner, field, level, number)) WITHOUT ROWID",
    "CREATE UNIQUE INDEX by_number ON levels (owner, number)",
    "CREATE TABLE owners (owner INTEGER PRIMARY KEY, kept TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)
_READ = "SELECT numbers FROM levels WHERE owner = ? AND field = ? AND level = ? AND number <= ? ORDER BY number DESC"
_LATER = (
    "EXISTS (SELECT 1 FROM levels AS later WHERE later.owner = levels.owner AND later.field = levels.field AND "
    "later.level = levels.level AND later.number > levels.number AND later.number <= ?)"
)
_PAGE = (
    "SELECT number, level, numbers FROM levels WHERE owner = ? AND number > ? AND number <= ? AND field = ? "
    f"AND NOT {_LATER} ORDER BY number LIMIT {PAGE}"
)
_DROP = f"DELETE FROM levels WHERE owner = ? AND number > ? AND number <= ? AND {_LATER}"
_OPEN: weakref.WeakValueDictionary[str, LevelStore] = weakref.WeakValueDictionary()
_OPENING = Lock()


def is_path(store: Any) -> bool:
    """Return whether this is the path of a file, and not a name with another meaning for SQLite."""
    path = os.fspath(store) if isinstance(store, (str, os.PathLike)) else None
    return isinstance(path, str) and path not in ("", ":memory:") and "\0" not in path


def opened(path: str) -> LevelStore:
    """Open the store at a path; all users in this process share one store."""
    place = os.path.realpath(path)
    with _OPENING:
        store = _OPEN.get(place)
        if store is None or store.inherited:
            store = _OPEN[place] = LevelStore(path)
        return store


class LevelStore(Database):
    """The database: rows of (owner, field, level, number, checksum of all rows of the owner so far, values).

    Each `Segmented` that uses it is an owner of its own, whose rows are numbered. The values of a level are those of
    its row with the highest number, followed by a checksum of their own. The file is made if it is not there;
    `StateError` if it cannot be opened, another process has it, or it is something else.

    SQLite in WAL mode with `synchronous=FULL`, and locked as long as it is open, as a `Journal`. A process that is
    forked afterwards cannot use it.
    """

    what = "store of levels"

    def __init__(self, path: str) -> None:
        self.path, self.lock = path, RLock()
        self.generation = 0  # goes up when rows are dropped
        try:
            self._database = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
            # at once, and not when the garbage collector finds it: the file is locked until then
            weakref.finalize(self, _close, self._database, os.getpid()).atexit = False
            self._prepare()
        except sqlite3.OperationalError as error:
            locked = "locked" in str(error)
            why = "in use by another process; close that, or use another path" if locked else f"not opened: {error}"
            raise StateError(f"the store of levels {path} is {why}") from None
        except sqlite3.DatabaseError as error:
            raise StateError(f"{path} is no store of levels: {error}; use another path") from None
        self._own()

    def _prepare(self) -> None:
        """Take the lock, and make the tables of a new file."""
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        new = not run("SELECT count(*) FROM sqlite_master").fetchone()[0]
        kind, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if not new and (kind, version) != (APPLICATION, FORMAT):
            raise StateError(f"{self.path} is no store of levels, or one of another version; use another path")
        if new:
            run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN EXCLUSIVE")
        for statement in _TABLES if new else ():
            run(statement)
        run("COMMIT")

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement, and return the rows that it reads.

        Raises
        ------
        StateError
            If it cannot be read, or in a process that was forked from that which opened it.
        """
        self.require_own()
        try:
            with self.lock:
                return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: the store of levels cannot be read: {error}") from None

    def transact(self, statements: list[tuple[str, Any]]) -> None:
        """Run statements with their rows of values in one transaction; `StateError` if they cannot be written."""
        self.require_own()
        with self.lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                for statement, values in statements:
                    self._database.executemany(statement, values)
                self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                raise StoreError(f"{self.path}: the store of levels cannot be written: {error}") from None

    def shorten(self) -> None:
        """Give room on the disk back; where that is not possible, the next time does it."""
        try:
            with self.lock:
                self._database.execute("PRAGMA incremental_vacuum").fetchall()
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass


def _close(database: sqlite3.Connection, process: int) -> None:
    """Close a database that nobody uses any more, unless it is that of another process."""
    if process == os.getpid():
        database.close()


class LevelRows:
    """The rows of one `Segmented` in a store: what its kernel reads and writes, and what its state says of them.

    The store is opened when it is first needed. `owner`, `number` and `chain` are what `taken` returned, of a saved
    state: rows beyond `number` are no part of it, and are dropped when the first one is written. Raise `StateError` if
    the store does not have the levels of this state.
    """

    def __init__(self, path: str, owner: int | None = None, number: int = 0, chain: int = 0) -> None:
        self.path = path
        self._store: LevelStore | None = None
        self._owner, self._number, self._chain = owner, number, chain
        self._base = number, chain  # the last row on the disk
        self._pending: dict[tuple[int, str], tuple[int, int, bytes]] = {}
        self._states: list[int] = []  # numbers of the states taken
        self._written, self._size, self._generation = 0, 0, -1
        self.joined = False  # to what says which states are safe, with `stored`: a journal, or a run with a state file
        if owner is not None:
            if not os.path.exists(path):
                place = os.path.abspath(path)  # a relative path is that of this process
                raise StateError(f"the store of levels {place} is missing; it belongs to the state, move it with that")
            self.require()

    def require(self) -> None:
        """Raise `StateError` unless levels can be read and written."""
        if self._store is None:
            self._store = opened(self.path)
        if self._owner is not None and self._generation != self._store.generation:
            self._require_base()
        if len(self._pending) > MOST_UNWRITTEN:
            self.flush()

    def _require_base(self) -> None:
        """Raise `StateError` unless the store has the rows that were there when the state was taken."""
        store = self._opened()
        number, chain = self._base
        chains = store.rows("SELECT chain FROM levels WHERE owner = ? AND number = ?", self._owner, number)
        row = store.rows("SELECT kept FROM owners WHERE owner = ?", self._owner)
        numbers = [int(value) for value in json.loads(row[0][0])] if row else []
        if chains != [(chain,)] or (number != self._head() and number not in numbers):
            raise StateError(
                f"the store of levels {self.path} does not have those of this state: it belongs to another one, or "
                f"a copy has gone on since; of a store only the last {STATES} states can be loaded"
            )
        self._states = [earlier for earlier in numbers if earlier <= number]
        self._generation = store.generation

    def _opened(self) -> LevelStore:
        assert self._store is not None
        return self._store

    def _head(self) -> int:
        rows = self._opened().rows("SELECT max(number) FROM levels WHERE owner = ?", self._owner)
        return rows[0][0] or 0

    # -- what the kernel calls -------------------------------------------------------------------------------------

    def read(self, field: int, level: Level) -> FloatArray | None:
        """Return the values of a level; None if the level is not there."""
        self.require()
        name = _name(level)
        waiting = self._pending.get((field, name))
        if waiting is not None:
            content = waiting[2]
        else:
            rows = (
                []
                if self._owner is None
                else self._opened().rows(_READ + " LIMIT 1", self._owner, field, name, self._base[0])
            )
            content = rows[0][0] if rows else b""
        return self._values(content, name) if content else None

    def _values(self, content: Any, name: str) -> FloatArray:
        """Return the values of a level from its row; raise `StoreError` if they are damaged."""
        size = 8 * WIDTH
        if type(content) is bytes and len(content) == size + 4 and content[size:] == _checksum(content[:size], name):
            values = np.frombuffer(content, count=WIDTH)
            if np.isfinite(values).all():
                return values
        raise StoreError(f"{self.path}: the store of levels is damaged: level {name}; go back to a copy of it")

    def write(self, field: int, level: Level, values: bytes) -> None:
        """Keep the values of a level; none: forget it. Errors of the disk come with the next `require` or `taken`."""
        name = _name(level)
        values = values + _checksum(values, name) if values else values
        self._number += 1
        self._chain = zlib.crc32(values, zlib.crc32(f"{field} {name}".encode(), self._chain))
        self._pending[field, name] = self._number, self._chain, values
        if len(self._pending) % MOST_PENDING == 0:
            with suppress(StateError):  # the rows are still there
                self.flush()

    def absent(self, field: int, in_memory: Container[Level]) -> Iterator[tuple[Level, FloatArray]]:
        """Yield a field's stored levels and values that are not in memory, longest without an outcome first."""
        self.flush()
        last, upto = 0, self._base[0]
        while page := self._opened().rows(_PAGE, self._owner, last, upto, field, upto) if upto else []:
            for last, name, values in page:  # noqa: B007
                level = _level(name)
                if values and level not in in_memory:
                    yield level, self._values(values, name)

    # -- states ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all rows to the disk; `StateError` if that is not possible: they are kept in memory."""
        if not self._pending:
            return
        store, pending = self._opened(), self._pending
        with store.lock:
            statements: list[tuple[str, Any]] = []
            owner = self._owner
            if owner is None:
                owner = store.rows("SELECT coalesce(max(owner), 0) + 1 FROM owners")[0][0]
                statements.append(("INSERT INTO owners VALUES (?, ?)", [(owner, "[]")]))
            elif behind := self._head() != self._base[0]:  # resumed from an earlier state
                self._require_base()
                statements.append(("DELETE FROM levels WHERE owner = ? AND number > ?", [(owner, self._base[0])]))
                store.generation += behind
            rows = [(owner, field, name, *row) for (field, name), row in pending.items()]
            statements.append(("INSERT INTO levels VALUES (?, ?, ?, ?, ?, ?)", rows))
            store.transact(statements)
            self._owner, self._base, self._pending = owner, (self._number, self._chain), {}
            self._generation = store.generation
        self._written += len(rows)
        if self._written > max(FEWEST_ROWS, self._size):
            self.compact()

    def taken(self) -> list[int] | None:
        """Write and keep a state's rows on the disk, and return [owner, number, checksum]; None without rows."""
        if self._store is None or (self._owner is None and not self._pending):
            return None if self._owner is None else [self._owner, *self._base]
        self.require()
        self.flush()
        number = self._base[0]
        if number not in self._states:
            numbers = [*self._states, number]
            self._keep([*numbers[:1], *numbers[1:][-STATES_OF_JOIN:]] if self.joined else numbers[-STATES:])
        return [int(self._owner or 0), *self._base]

    def _keep(self, numbers: list[int]) -> None:
        self._opened().transact([("UPDATE owners SET kept = ? WHERE owner = ?", [(json.dumps(numbers), self._owner)])])
        self._states = numbers

    def stored(self, number: int) -> None:
        """Keep no state before that with this number, which is safe."""
        if self._states and self._states[0] < number:
            self._keep([state for state in self._states if state >= number])

    def compact(self) -> None:
        """Drop rows that no state needs that is kept: of a level each of them needs one."""
        ends = [*self._states, self._base[0]]
        starts = [0, *self._states]
        spans = [(self._owner, start, end, end) for start, end in zip(starts, ends, strict=True) if start < end]
        store = self._opened()
        store.transact([(_DROP, spans)])
        store.shorten()
        store.generation += 1
        self._generation, self._written = store.generation, 0
        self._size = store.rows("SELECT count(*) FROM levels WHERE owner = ?", self._owner)[0][0]

    def is_of(self, other: LevelRows) -> bool:
        """Return whether both have the same rows, as copies of one `Segmented` have."""
        same = os.path.realpath(self.path) == os.path.realpath(other.path)
        return same and self._owner is not None and self._owner == other._owner

    @property
    def number(self) -> int:
        """The number of the last row on the disk."""
        return self._base[0]


def _checksum(values: bytes, name: str) -> bytes:
    return zlib.crc32(values, zlib.crc32(name.encode())).to_bytes(4, "little")


def _name(level: Level) -> str:
    """Write a level as JSON.

    >>> _name("a"), _name(3), _name(("a", 3))
    ('"a"', '3', '["a",3]')
    """
    if level.__class__ is tuple:
        return f"[{','.join([_name(part) for part in level])}]"
    return _text(level) if isinstance(level, str) else int.__repr__(level)


def _level(name: str) -> Level:
    read = json.loads(name)
    return tuple(read) if isinstance(read, list) else read
