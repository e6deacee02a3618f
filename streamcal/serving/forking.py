"""`Forked`: a child process makes bytes of what this one holds at the moment of the fork, and this one goes on."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import select
import signal
import struct
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from threading import Lock

from streamcal.errors import StateError

logger = logging.getLogger(__name__)

#: Whether this system can fork; elsewhere requests wait.
CAN_FORK = hasattr(os, "fork")
#: Seconds after which a child is given up.
LONGEST = 600.0
#: Seconds between two looks whether a child that has written everything has ended.
POLL = 0.005
#: The child leaves the processor to requests, where both want it.
NICE = 10
#: Bytes that are read at once.
PART = 2**20
#: The size of a part, before it.
_SIZE = struct.Struct("<Q")


async def made(make: Callable[[], bytes]) -> bytes:
    """Return what `make` returns of the state of this moment; requests continue meanwhile if this system can fork.

    Raises
    ------
    StateError
        If the child fails.
    """
    if not CAN_FORK:
        return make()
    child = Forked(lambda: [make()])
    return b"".join([part async for part in child.parts()])


class Forked:
    """A child process that makes bytes of what this process holds at this moment, such as its state.

    A fork shares all memory until one side changes it: the child sees the state of one moment, and this process is held
    up for the fork alone. Until the child has ended, what either side touches is there twice. The child has one thread
    and takes no lock that another one may have held; should it hang all the same, it is given up after ten minutes.
    `make` returns the bytes, in parts, in the child, where files and sockets of this process are closed. Raise
    `StateError` if the system makes no pipe or no further process.
    """

    def __init__(self, make: Callable[[], Iterable[bytes]]) -> None:
        self._lock = Lock()
        self._until: float | None = None  # when the child is given up, from the first part on that is asked for
        self._pipe: int | None = None
        try:
            self._pipe, writing = os.pipe()
        except OSError as error:
            raise StateError(f"no pipe to a further process could be made: {error}") from None
        try:
            with warnings.catch_warnings():  # of threads, see above
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process = os.fork()
        except OSError as error:
            os.close(self._pipe)
            raise StateError(f"no further process could be made: {error}") from None
        else:
            if not self._process:
                _write(make, writing)
        finally:
            os.close(writing)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts as they come, once; threads wait for them. Errors are those of `read`."""
        while (part := await asyncio.to_thread(self.read)) is not None:
            yield part

    def read(self) -> bytes | None:
        """Wait for the next part and return it; None when the child has ended.

        Raises
        ------
        StateError
            If the child fails, leaves no status or takes more than ten minutes.
        """
        if self._pipe is None:
            return None
        if self._until is None:
            self._until = time.monotonic() + LONGEST
        head = self._read(_SIZE.size)
        part = None
        if len(head) == _SIZE.size:
            size = _SIZE.unpack(head)[0]
            part = self._read(size)
            if len(part) == size:
                return part
        os.close(self._pipe)
        self._pipe = None
        status = self._ended()
        if status or part is not None:
            raise StateError(f"the process that had to make it ended with status {status}")
        return None

    def _read(self, size: int) -> bytes:
        """Return `size` bytes of the pipe, or fewer where it ends; a child that takes too long is stopped."""
        assert self._pipe is not None
        assert self._until is not None
        ready, pieces = select.poll(), []  # `select` takes no file whose number is 1,024 or more
        ready.register(self._pipe, select.POLLIN)
        while size:
            if not ready.poll(1_000.0 * max(self._until - time.monotonic(), 0.0)):
                self.end()
                break
            content = os.read(self._pipe, min(size, PART))
            if not content:
                break
            pieces.append(content)
            size -= len(content)
        return b"".join(pieces)

    def end(self) -> None:
        """Stop the child, if it has not ended; `read` then fails. Any thread may call it."""
        with self._lock:
            if self._process:
                with suppress(ProcessLookupError):  # where SIGCHLD is ignored: it ended, and nothing of it is left
                    os.kill(self._process, signal.SIGKILL)

    def _ended(self) -> int:
        """Wait for the end of the child; its exit code. `StateError` if it is gone without one."""
        while True:  # without a lock while it waits, so that the child can be stopped
            with self._lock:
                try:
                    process, status = os.waitpid(self._process, os.WNOHANG)
                except ChildProcessError:
                    self._process = 0  # its number may by now be that of another process
                    raise StateError("the process that had to make it left no status; SIGCHLD is ignored") from None
                if process:
                    self._process = 0
                    return os.waitstatus_to_exitcode(status)
            time.sleep(POLL)


def _write(make: Callable[[], Iterable[bytes]], pipe: int) -> None:
    """Run the child process: write the parts to the pipe and exit."""
    status = 1
    try:
        gc.disable()  # it would touch, and so copy, all memory
        signal.set_wakeup_fd(-1)
        # Which the whole group may get; the parent ends this process.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # Sockets too: where the parent is killed, its port is free at once.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(NICE)
        for part in make():
            for content in (memoryview(_SIZE.pack(len(part))), memoryview(part)):
                while content:
                    content = content[os.write(pipe, content) :]
        status = 0
    except BrokenPipeError:  # the parent is gone
        pass
    except Exception:
        logger.exception("a child process failed")
    finally:
        os._exit(status)
