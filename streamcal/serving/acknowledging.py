"""`Acknowledging`: many requests wait for one write to the disk, and snapshots are made beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from streamcal.errors import StateError
from streamcal.live.joining import paused_collector
from streamcal.live.journal import Journal
from streamcal.live.label_join import LabelJoin
from streamcal.serving.forking import CAN_FORK, Forked

logger = logging.getLogger(__name__)

#: Events are few if the number of predictions held is this many times as large.
FEW = 10


class Acknowledging:
    """Group commit for the requests of one event loop, which alone changes the join.

    A thread writes the events of all requests that wait, while the loop takes further ones; those are written together
    next. Without a journal there is nothing to wait for. A snapshot of the whole state is begun after every
    `snapshot_every` events.
    """

    def __init__(self, join: LabelJoin, journal: Journal | None, snapshot_every: int) -> None:
        self._join, self._journal, self._every = join, journal, snapshot_every
        self._thread = ThreadPoolExecutor(1, "journal")
        self._write: asyncio.Task[None] | None = None
        self._last = 0 if journal is None else journal.upto
        self._learned = join.tally()["learned"]  # when the last snapshot was made, or the process started
        self._writer: Forked | None = None  # of the last snapshot
        self._snapshot: asyncio.Task[None] | None = None
        self._levels_stored: Callable[[], None] = join._levels_stored()
        self._stopping = False
        self.failure: str | None = None  #: why the last write failed
        self.writes = self.snapshots = self.snapshot_failures = 0

    @property
    def pending(self) -> int:
        """Events that are not on the disk."""
        return 0 if self._journal is None else self._journal.n - self._journal.durable

    async def wait(self) -> None:
        """Return when all events so far are on the disk.

        Raises
        ------
        StateError
            If they cannot be written; they are kept, to be written with the next events.
        """
        if self._journal is None:
            return
        wanted = self._journal.n
        while self._journal.durable < wanted:
            await asyncio.shield(self.soon())  # the write goes on for others where one request is given up

    def soon(self) -> asyncio.Task[None]:
        """Return the write under way, or start one; callers need not wait for it."""
        if self._write is None or self._write.done():
            self._write = asyncio.get_running_loop().create_task(self._turn())
            self._write.add_done_callback(_looked_at)
        return self._write

    async def _turn(self) -> None:
        """Write events once; if a snapshot is due, first begin one of the state that they lead to."""
        assert self._journal is not None
        under_way = self._snapshot is not None and not self._snapshot.done()
        if self._journal.n - self._last >= self._every and not under_way and not self._stopping:
            self._begin_snapshot()
        await self._run(self._join.acknowledge)

    def _begin_snapshot(self) -> None:
        """Begin to write the state of this moment: in a child process if possible, else in this one."""
        assert self._journal is not None
        self._last = self._journal.n  # after a failure too: the next one is tried as many events later
        try:
            if CAN_FORK and not self._join.uses_store:
                self._writer = Forked(self._state)
                parts = self._writer.parts()
            else:
                self._writer, parts = None, _in_turn(list(self._state()))
        except Exception as error:  # whatever it is, the events are written
            self._fail_snapshot(error)
        else:
            self._snapshot = asyncio.get_running_loop().create_task(self._end_snapshot(parts, self._last))

    async def _end_snapshot(self, parts: AsyncIterator[bytes], upto: int) -> None:
        """Store a state, in parts that were made or come from the child."""
        try:
            await self._store(parts, upto)
        except Exception as error:  # whatever it is, it is counted, and the service ends as usual
            self._fail_snapshot(error)

    def _fail_snapshot(self, error: Exception) -> None:
        if not self._stopping:
            expected = isinstance(error, StateError)
            logger.error("no snapshot was made: %s", error if expected else repr(error), exc_info=not expected)
            self.snapshot_failures += 1

    def _state(self) -> Iterator[bytes]:
        """Yield the parts of the state, compressed."""
        yield from map(Journal.compressed, self._join._parts())
        self._levels_stored = self._join._levels_stored()

    async def _store(self, parts: AsyncIterator[bytes], upto: int) -> None:
        """Write a state in place of the events that led to it; acknowledgements take turns with the parts of that."""
        journal = self._journal
        assert journal is not None
        learned = self._join.tally()["learned"]
        written = await self._run(lambda: journal.write_parts(upto))
        writing: asyncio.Task[Any] | None = None
        async for part in parts:  # the next one is made while this one is written
            if writing is not None:
                await writing
            writing = asyncio.create_task(self._run(partial(written.add, part)))
            await asyncio.sleep(0)
        if writing is not None:
            await writing
        levels_stored = self._levels_stored  # in a child that made the state there are none
        await self._run(written.finish)
        levels_stored()
        self._learned = learned
        self.snapshots += 1
        while await self._run(journal.tidy):
            pass

    async def _run(self, write: Callable[[], Any]) -> Any:
        try:
            returned = await asyncio.get_running_loop().run_in_executor(self._thread, write)
        except StateError as error:
            if self.failure is None:
                logger.error("the journal cannot be written: %s", error)
            self.failure = str(error)
            raise
        if self.failure is not None:
            logger.warning("the journal can be written again")
        self.failure = None
        self.writes += 1
        return returned

    async def stop(self) -> None:
        """Write all events and close the journal, with a snapshot unless the last one and the events after it do.

        Raises
        ------
        StateError
            If they cannot be written.
        """
        try:
            if self._journal is not None:
                await self._give_up_snapshot()
                await self.wait()
                if not self._soon_replayed:
                    with paused_collector():
                        await self._store(_in_turn(self._state()), self._journal.n)
        finally:
            self._thread.shutdown()
            if self._journal is not None:
                self._journal.close()

    @property
    def _soon_replayed(self) -> bool:
        """Whether replaying the events after the last snapshot takes a start less time than a new one takes this stop.

        Events that only tell the time may learn many labels, so that these count too.
        """
        assert self._journal is not None
        learned = self._join.tally()["learned"] - self._learned
        return FEW * (self._journal.n - self._journal.upto + learned) <= self._join.held

    async def _give_up_snapshot(self) -> None:
        """End one that is under way; the last one takes its place."""
        self._stopping = True
        if self._writer is not None:
            self._writer.end()
        if self._snapshot is not None:
            await self._snapshot


async def _in_turn(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield parts that are here already, or are made as they are asked for."""
    for part in parts:
        yield part


def _looked_at(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a write that nobody waited for, so that asyncio does not report it; `failure` has it."""
    if not task.cancelled():
        task.exception()
