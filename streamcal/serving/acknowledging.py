"""`Acknowledging`: many requests wait for one write to the disk, and snapshots take their turn among the writes."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from streamcal.errors import StateError
from streamcal.live.journal import Journal
from streamcal.live.label_join import LabelJoin

logger = logging.getLogger(__name__)


class Acknowledging:
    """Group commit for the requests of one event loop.

    A thread writes the events of all requests that wait, while the loop takes further ones; those are written together
    next. Without a journal there is nothing to wait for.

    Parameters
    ----------
    join : LabelJoin
        Its journal's events are written; the loop alone changes it.
    journal : Journal or None
        That of the join.
    snapshot_every : int
        Events after which a write is a snapshot of the whole state, which ends with the events on the disk as well.
    """

    def __init__(self, join: LabelJoin, journal: Journal | None, snapshot_every: int) -> None:
        self._join, self._journal, self._every = join, journal, snapshot_every
        self._thread = ThreadPoolExecutor(1, "journal")
        self._write: asyncio.Task[None] | None = None
        self._last = 0 if journal is None else journal.n
        self.failure: str | None = None  #: why the last write failed
        self.writes = self.snapshots = 0

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
        """The write under way, or a new one; it need not be waited for."""
        if self._write is None or self._write.done():
            self._write = asyncio.get_running_loop().create_task(self._turn())
            self._write.add_done_callback(_looked_at)
        return self._write

    async def _turn(self) -> None:
        """One write: of the events, or where it is time, of the whole state."""
        assert self._journal is not None
        due = self._journal.n - self._last >= self._every
        await (self._snapshot() if due else self._run(self._join.acknowledge))

    async def _snapshot(self) -> None:
        """The state is taken on the loop, between two requests, and is written by the thread."""
        assert self._journal is not None
        journal, upto = self._journal, self._journal.n
        state = self._join.to_bytes()
        await self._run(lambda: journal.snapshot(state, upto))
        self._last = upto
        self.snapshots += 1

    async def _run(self, write: object) -> None:
        assert callable(write)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, write)
        except StateError as error:
            if self.failure is None:
                logger.error("the journal cannot be written: %s", error)
            self.failure = str(error)
            raise
        if self.failure is not None:
            logger.warning("the journal can be written again")
        self.failure = None
        self.writes += 1

    async def stop(self) -> None:
        """Write all events and a snapshot, and close the journal.

        Raises
        ------
        StateError
            If they cannot be written.
        """
        try:
            if self._journal is not None:
                await self.wait()
                await self._snapshot()
        finally:
            self._thread.shutdown()
            if self._journal is not None:
                self._journal.close()


def _looked_at(task: asyncio.Task[None]) -> None:
    """So that no error of a write that nobody waited for is reported as forgotten: `failure` has it."""
    if not task.cancelled():
        task.exception()
