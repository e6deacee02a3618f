"""`Journal`: events that are on the disk when they are acknowledged, in an embedded SQLite database."""

from __future__ import annotations

import os
import sqlite3
import struct
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from threading import Lock
from typing import Any, Self

from streamcal.errors import InputError, StateError
from streamcal.live.inherited import Database

#: "scal", the application id of the database, and the version of its tables.
APPLICATION, FORMAT = 0x7363616C, 1
#: Bytes of events that are not acknowledged, after which no more are taken.
MOST_UNACKNOWLEDGED = 64 * 2**20
#: Bytes of events whose room is given back at once.
TIDIED = 4 * 2**20
#: Pages of the write-ahead log, 4 kB each, after which SQLite moves them to the database.
CHECKPOINT_PAGES = 4_000
#: Pages of a backup that are copied at once.
COPIED_PAGES = 500
#: Bytes of events that are read at once.
PIECE = 2**20
#: What is written of an event, before itself.
SIZE = struct.Struct("<I")
#: Events in memory: how many, and their bytes with the size of each.
Written = tuple[int, bytes | bytearray]

_TABLES = (
    "CREATE TABLE log (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, crc INTEGER NOT NULL, events BLOB NOT NULL)",
    "CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL, number INTEGER NOT NULL, "
    "parts INTEGER NOT NULL)",
    "CREATE TABLE part (number INTEGER NOT NULL, place INTEGER NOT NULL, crc INTEGER NOT NULL, state BLOB NOT NULL, "
    "PRIMARY KEY (number, place))",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

_UPTO = "coalesce((SELECT upto FROM snapshot), 0)"
#: Events after the snapshot, and rows of those before it, which `tidy` deletes: their place and their bytes.
_AFTER = f"first + count > {_UPTO} ORDER BY first"
_BEFORE = f"SELECT first, length(events) FROM log WHERE first < {_UPTO} AND first + count <= {_UPTO} ORDER BY first"
#: Parts of other snapshots than the last one that was finished: their row and their bytes.
_LEFT = "SELECT rowid, length(state) FROM part WHERE number IS NOT (SELECT number FROM snapshot) ORDER BY rowid"
#: A part is compressed if its beginning then has at most this part of its size.
WORTHWHILE, TRIED = 0.7, 2**12
#: What a part ends with.
PLAIN, DEFLATED = b"\0", b"\1"
#: The file is shortened if at most this many pages in use have to be moved, or if this share of all is not in use.
MOVED_PAGES, MOSTLY_FREE = 4_000, 0.7


class Journal(Database):
    """A file of events: no acknowledged event is lost, and none is stored twice.

    `append` keeps an event in memory; `acknowledge` returns when all events so far are on the disk. All of them are
    written in one transaction (group commit), so that it pays to acknowledge many at once: threads that call
    `acknowledge` while another one writes are served together by the next write. A `snapshot` takes the place of the
    events that led to it.

    Parameters
    ----------
    path : str or path
        The file, created if missing. SQLite keeps a second file beside it, whose name ends in `-wal`.

    Raises
    ------
    StateError
        If the file cannot be opened, is in use by another journal, or is no journal.

    Notes
    -----
    SQLite in WAL mode with `synchronous=FULL`: a transaction is on the disk when it ends, and after a crash or a power
    failure the database holds all transactions that ended and no part of others. The journal holds the lock of the
    database as long as it is open, so that there is no second writer, nor a reader; the operating system releases it
    when the process ends, however it ends. A process that is forked afterwards, or is given a pickled journal, cannot
    use it: `StateError`.

    Cost: an fsync for each `acknowledge`, and a microsecond or two an event. On the disk an event has its own size, 4
    bytes and its part of a row. `append`, `acknowledge` and `snapshot` may be called by any thread.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "events.journal")
    >>> with Journal(path) as journal:
    ...     journal.append(b"one")
    ...     journal.append(b"two")
    ...     journal.acknowledge()
    2
    >>> with Journal(path) as journal:
    ...     list(journal.events())
    [b'one', b'two']
    """

    what = "journal"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._guard, self._writing = Lock(), Lock()  # of the events in memory, and of the database
        self._events: list[Written] = []
        self._bytes = 0
        self._closed = False
        try:
            place = os.path.abspath(self.path)  # to SQLite ":memory:" is no file
            self._database = sqlite3.connect(place, timeout=0.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StateError(f"{self.path}: the journal cannot be opened: {error}") from None
        try:
            self._open()
            self.n = self.durable = self._number()
        except BaseException:
            self._database.close()
            raise
        self._own()

    def _open(self) -> None:
        """Take the lock, and make the tables of a new file."""
        run = self._database.execute
        try:
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect before the first table only
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            run("BEGIN EXCLUSIVE")
            if not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES:
                    run(statement)
            run("COMMIT")
            kind, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StateError(f"{self.path} is in use by another journal; close it, or use another path") from None
            raise StateError(f"{self.path}: the journal cannot be opened: {error}") from None
        except sqlite3.DatabaseError as error:
            self._require(error.sqlite_errorcode != sqlite3.SQLITE_CORRUPT, str(error))
            raise StateError(f"{self.path} is no journal: {error}; use another path") from None
        if kind != APPLICATION:
            raise StateError(f"{self.path} is no journal but another SQLite database; use another path")
        if version != FORMAT:
            raise StateError(f"{self.path} is a journal of version {version}, only {FORMAT} can be read")

    def _number(self) -> int:
        """Return the number of events on the disk, including those before the snapshot."""
        queries = "SELECT first + count FROM log ORDER BY first DESC LIMIT 1", "SELECT upto FROM snapshot"
        numbers = [next(self._read(query), (0,))[0] for query in queries]
        self._require(None not in numbers, "the numbers of its events are missing")
        return max(numbers)

    # -- writing ---------------------------------------------------------------------------------------------------

    def require_room(self) -> None:
        """Raise `StateError` unless an event can be appended, before the caller changes anything."""
        if self.inherited:
            self.require_own()
        if self._bytes > MOST_UNACKNOWLEDGED:
            raise StateError(
                f"{self.path}: {self.n - self.durable} events are not acknowledged; call acknowledge() more often, and "
                "if it fails, make room on the disk"
            )
        if self._closed:
            raise StateError(f"{self.path}: the journal is closed; open it again")

    def append(self, event: bytes) -> None:
        """Append an event, which may be lost until `acknowledge` has returned.

        Raises
        ------
        StateError
            If 64 MB are not acknowledged, or the journal is closed.
        """
        self.append_many(1, SIZE.pack(len(event)) + event)

    def append_many(self, count: int, content: bytes | bytearray) -> None:
        """Append events in order; each is preceded by its size, a `SIZE`."""
        self.require_room()
        with self._guard:
            self._events.append((count, content))
            self._bytes += len(content)
            self.n += count

    def acknowledge(self) -> int:
        """Write all events to the disk.

        Returns
        -------
        int
            How many events there are on the disk, since the journal was made.

        Raises
        ------
        StateError
            If they cannot be written, as on a full disk: they are kept in memory, to be written with the next call.
        """
        self.require_own()  # before a lock that a thread of the other process may have held
        wanted = self.n
        with self._writing:
            if self.durable < wanted:  # otherwise the thread before has written them
                self._write(self._pop(self.n))
        return self.durable

    def _pop(self, upto: int) -> list[Written]:
        """Remove and return the events in memory up to this number that are not on the disk."""
        with self._guard:
            wanted, place = upto - self.durable, 0
            while wanted > 0:
                count, content = self._events[place]
                if count > wanted:
                    end = _end_of(content, wanted)
                    self._events[place : place + 1] = (wanted, content[:end]), (count - wanted, content[end:])
                    count = wanted
                wanted -= count
                place += 1
            events, self._events = self._events[:place], self._events[place:]
            self._bytes -= sum(len(content) for _, content in events)
        return events

    def _put_back(self, events: list[Written]) -> None:
        with self._guard:
            self._events = events + self._events
            self._bytes += sum(len(content) for _, content in events)

    def _write(self, events: list[Written]) -> None:
        """Write events in one row."""
        blob = b"".join([content for _, content in events])
        row = self.durable, _count(events), zlib.crc32(blob), blob
        self._transact(events, [("INSERT INTO log VALUES (?, ?, ?, ?)", row)])

    def _transact(self, events: list[Written], statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Run statements that put these events on the disk, in one transaction; after an error the events are kept.

        One statement alone is a transaction: this thread then waits once for the other ones of the process.
        """
        several = len(statements) > 1
        try:
            if several:
                self._database.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                self._database.execute(statement, values)
            if several:
                self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._put_back(events)
            raise StateError(
                f"{self.path}: the journal cannot be written: {error}; {_count(self._events)} events are kept in "
                "memory, to be written by the next acknowledge()"
            ) from None
        except BaseException:  # an interrupt, before the transaction ended or after it
            self._roll_back()
            if self._number() > self.durable:
                self.durable += _count(events)
            else:
                self._put_back(events)
            raise
        self.durable += _count(events)

    def _roll_back(self) -> None:
        """End a transaction that is open, with nothing written."""
        if not self._closed and self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def snapshot(self, state: bytes | Iterable[bytes | bytearray], upto: int | None = None) -> None:
        """Replace the events that led to a state by the state, and free their space on the disk.

        Parameters
        ----------
        state : bytes or iterable of bytes
            The state, such as from `to_bytes`, or its parts, of which one at a time is in memory. It is compressed.
        upto : int, optional
            The number of events that led to it; all so far by default.

        Raises
        ------
        StateError
            If it cannot be written; the journal then has the snapshot before.
        """
        parts = self.write_parts(self.n if upto is None else upto)
        for part in [state] if isinstance(state, bytes) else state:
            parts.add(self.compressed(part))
        parts.finish()
        while self.tidy():
            pass

    @staticmethod
    def compressed(part: bytes | bytearray) -> bytes | bytearray:
        """Return a part of a state compressed, as `Parts.add` accepts it; another process may call this."""
        beginning = part[:TRIED]
        if len(zlib.compress(beginning, 1)) <= WORTHWHILE * len(beginning):
            return zlib.compress(part, 1) + DEFLATED
        part += PLAIN
        return part

    def write_parts(self, upto: int) -> Parts:
        """Begin a snapshot whose parts are written one by one, so that events are acknowledged in between.

        Parameters
        ----------
        upto : int
            The number of events that led to it.

        Raises
        ------
        InputError
            If there are fewer events, or if they led to an earlier snapshot.
        """
        self.require_own()
        with self._writing:
            if not self.upto <= upto <= self.n:
                raise InputError(f"upto={upto!r} is not possible; give a number from {self.upto} to {self.n}")
            last = next(
                self._read(
                    "SELECT max(coalesce((SELECT max(number) FROM part), 0), coalesce(max(number), 0)) FROM snapshot"
                )
            )[0]
        return Parts(self, upto, last + 1)

    def tidy(self) -> bool:
        """Free some 4 MB of events and parts before the last snapshot, so that other threads do not wait long.

        Returns
        -------
        bool
            Whether there are more of them.

        Raises
        ------
        StateError
            If that cannot be written; it can be tried again.
        """
        self.require_own()
        with self._writing:
            for query, delete in (
                (_BEFORE, "DELETE FROM log WHERE first <= ?"),
                (_LEFT, "DELETE FROM part WHERE number IS NOT (SELECT number FROM snapshot) AND rowid <= ?"),
            ):
                last, size = -1, 0
                rows = self._read(query)
                while size <= TIDIED and (row := next(rows, None)):
                    last, size = row[0], size + row[1]
                rows.close()
                if last >= 0:
                    self._transact([], [(delete, (last,))])
                if size > TIDIED:
                    return True
            self._compact()
        return False

    def _compact(self) -> None:
        """Shorten the files, unless much would have to be moved that the next snapshot makes free.

        If the disk is too full for it, the next snapshot does it.
        """
        try:
            pages, free = (
                self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
            )
            if min(free, pages - free) <= MOVED_PAGES or free >= MOSTLY_FREE * pages:
                self._database.execute("PRAGMA incremental_vacuum").fetchall()
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def upto(self) -> int:
        """The number of events that led to the last snapshot; 0 if there is none."""
        return int(next(self._read("SELECT upto FROM snapshot"), (0,))[0])

    @property
    def has_snapshot(self) -> bool:
        """Whether there is a snapshot."""
        return next(self._read("SELECT 1 FROM snapshot"), None) is not None

    def state(self) -> bytes | None:
        """Return the state of the last snapshot; None if there is none.

        Raises
        ------
        StateError
            If it is damaged.
        """
        return b"".join(self.parts()) if self.has_snapshot else None

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the parts of the state of the last snapshot.

        Raises
        ------
        StateError
            If one is damaged or missing.
        """
        number, parts = next(self._read("SELECT number, parts FROM snapshot"), (0, 0))
        count = 0
        for crc, blob in self._read(f"SELECT crc, state FROM part WHERE number = {number} ORDER BY place"):
            self._require(zlib.crc32(blob) == crc, "its snapshot does not match its checksum")
            count += 1
            part = memoryview(blob)[:-1]
            yield zlib.decompress(part) if blob.endswith(DEFLATED) else part
        self._require(count == parts, "parts of its snapshot are missing")

    def events(self) -> Iterator[bytes]:
        """Iterate over the events on the disk after the last snapshot, in the order in which they were appended.

        Raises
        ------
        StateError
            If some are damaged or missing.
        """
        for piece in self.pieces():
            end = 0
            while end < len(piece):
                end, event = event_at(piece, end)
                yield event

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the bytes of the same events, each after its size, a `SIZE`; many are in one piece.

        Raises
        ------
        StateError
            As `events`.
        """
        start = upto = self.upto
        blobs: list[bytes] = []
        for first, count, crc, blob in self._read(f"SELECT first, count, crc, events FROM log WHERE {_AFTER}"):
            # The first of them may have been written in one piece with events before the snapshot.
            follows = first == upto or first < upto == start
            self._require(follows and zlib.crc32(blob) == crc, f"its events from number {upto} on are damaged")
            blobs.append(blob[_end_of(blob, upto - first) :] if first < upto else blob)
            upto = first + count
            if sum(map(len, blobs)) >= PIECE:
                yield b"".join(blobs)
                blobs = []
        if blobs:
            yield b"".join(blobs)

    def _read(self, query: str) -> Generator[tuple[Any, ...], None, None]:
        self.require_own()
        try:
            yield from self._database.execute(query)
        except sqlite3.Error as error:
            raise StateError(f"{self.path}: the journal cannot be read: {error}; use a copy that is whole") from None

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise StateError(f"{self.path}: the journal is damaged: {message}; use a copy that is whole")

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Copy the present journal to another file, which is replaced once the copy is complete.

        Other threads continue to append and acknowledge; events acknowledged meanwhile are in the copy too. The
        copy is a journal that can be opened like this one.

        Parameters
        ----------
        path : str or path
            The file of the copy.

        Returns
        -------
        int
            The number of events in the copy, those before its snapshot included.

        Raises
        ------
        StateError
            If it cannot be written, or is the file of this journal; a file that was there is then unchanged.
        """
        self.require_own()
        place = os.fspath(path)
        part = f"{place}.part"
        if os.path.exists(place) and os.path.samefile(place, self.path):
            raise StateError(f"{place} is the journal itself; give the backup another path")
        try:
            for left in (part, f"{part}-wal", f"{part}-shm"):
                if os.path.exists(left):
                    os.remove(left)
            with closing(sqlite3.connect(part, isolation_level=None)) as copy:
                self._copy_to(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # all of it is in one file
                query = f"SELECT max(coalesce(max(first + count), 0), {_UPTO}) FROM log"
                events = int(copy.execute(query).fetchone()[0])
            with open(part, "rb") as written:
                os.fsync(written.fileno())
            os.replace(part, place)
        except (sqlite3.Error, OSError) as error:
            raise StateError(
                f"{place}: the backup cannot be written: {error}; make room, or give another path"
            ) from None
        return events

    def _copy_to(self, copy: sqlite3.Connection) -> None:
        """Copy the database page by page; between two steps others may write, which the copy then has too."""

        def turn(*_: int) -> None:
            self._writing.release()
            time.sleep(0)
            self._writing.acquire()

        with self._writing:
            if self._closed:
                raise StateError(f"{self.path}: the journal is closed; open it again")
            self._database.backup(copy, pages=COPIED_PAGES, progress=turn, sleep=0.0)

    # -- the end ---------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Drop the events that are not on the disk, after the caller has failed between two steps of its own."""
        with self._guard:
            self.n -= _count(self._events)
            self._events, self._bytes = [], 0

    def close(self) -> None:
        """Acknowledge all events and release the file; do nothing in a forked process."""
        if self._closed or self.inherited:
            return
        try:
            self.acknowledge()
        finally:
            self._closed = True
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise StateError(f"{self.path}: a journal belongs to one process; give another one its path, to open it there")

    def __repr__(self) -> str:
        return f"Journal({self.path!r})"


class Parts:
    """A snapshot whose parts are written one by one; `upto` is the number of events that led to it.

    It is the last one of the journal once `finish` has returned.
    """

    def __init__(self, journal: Journal, upto: int, number: int) -> None:
        self._journal, self._upto, self._number = journal, upto, number
        self._written = 0
        self._last: bytes | bytearray | None = None  # the part that is to be written next

    def add(self, part: bytes | bytearray) -> None:
        """Add what `Journal.compressed` returned; the part before it is written to the disk.

        Raises
        ------
        StateError
            If that cannot be written.
        """
        self._journal.require_own()
        before, self._last = self._last, part
        if before is not None:
            with self._journal._writing:
                self._journal._transact([], [self._row(before)])

    def _row(self, part: bytes | bytearray) -> tuple[str, tuple[Any, ...]]:
        row = self._number, self._written, zlib.crc32(part), part
        self._written += 1
        return "INSERT INTO part VALUES (?, ?, ?, ?)", row

    def finish(self) -> None:
        """Write the last part, and that the snapshot is whole; the events before it are left to `tidy`.

        Raises
        ------
        StateError
            If that cannot be written; the journal then has the snapshot before.
        """
        journal = self._journal
        journal.require_own()
        with journal._writing:
            rows = [] if self._last is None else [self._row(self._last)]
            events = journal._pop(max(self._upto, journal.durable))
            whole = self._upto, self._number, self._written
            journal._transact(events, [*rows, ("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", whole)])


def event_at(piece: bytes, at: int) -> tuple[int, bytes]:
    """Return where an event ends, and the event."""
    begin = at + SIZE.size
    end = begin + SIZE.unpack_from(piece, at)[0]
    return end, piece[begin:end]


def _count(written: list[Written]) -> int:
    """Return the number of events."""
    return sum(count for count, _ in written)


def _end_of(content: bytes | bytearray, count: int) -> int:
    """Return the number of bytes of the first events."""
    end = 0
    for _ in range(count):
        end += SIZE.size + SIZE.unpack_from(content, end)[0]
    return end
