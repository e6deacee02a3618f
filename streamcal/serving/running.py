"""The process: uvicorn with one worker, bounds on what clients keep open, signals, and logs as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streamcal.serving.app import OPEN, application
from streamcal.serving.forking import CAN_FORK
from streamcal.serving.service import Service

logger = logging.getLogger(__name__)

#: Connections at once. A further one takes the place of the one that has waited longest for its client; where none
#: waits, it is answered with 503, but for probes.
MOST_CONNECTIONS = 1_000
#: Seconds in which the headers of a request have to come, from the connection, or their first byte, on.
HEAD_TIMEOUT = 10.0
#: Seconds between two warnings of connections that were dropped.
WARNED_EVERY = 60.0
#: Their addresses.
PROBES = {path.encode() for path in OPEN}
#: Seconds for requests under way when the process gets the signal to stop.
GRACE = 10
#: Bytes of a request before its headers end: more than any limit of `Settings.max_header` in use.
LONGEST_HEAD = 2**17
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
#: What every record of a log has; what is beside was given as `extra`.
PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class BoundedConnection(HttpToolsProtocol):
    """Closes a connection whose headers do not end or come too late, and one that waits, where others need its place.

    A connection waits for its client until a request is whole, and while the client does not read the answer.
    """

    #: The connections of this process that wait, those that have waited longest first.
    waiting: ClassVar[dict[BoundedConnection, None]] = {}
    _warned = -math.inf  # when connections that were dropped were told, of the class
    _head = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = (self.limit_concurrency or math.inf) - 1
        if len(self.connections) > most and self.waiting:
            next(iter(self.waiting))._drop()
        self.waiting[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self._head_came()
        super().connection_lost(exc)

    def _drop(self) -> None:
        """Give the place of this connection to another one."""
        self.waiting.pop(self, None)
        self.connections.discard(self)
        self.transport.abort()
        now, kind = time.monotonic(), BoundedConnection
        if now - kind._warned > WARNED_EVERY:
            kind._warned = now
            text = "there are as many connections as allowed; those that wait longest for their client are dropped"
            logger.warning(text, extra={"event": "connections dropped"})

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._head_late)

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_late(self) -> None:
        """Close a connection whose headers did not come in time; where some did, with an answer."""
        self._deadline = None
        if self._head and not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
        self.transport.close()

    def on_message_begin(self) -> None:
        self._head = 0
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_came()
        most = self.limit_concurrency
        if self.url.partition(b"?")[0] in PROBES:  # a service with many clients is alive
            self.limit_concurrency = None
        try:
            super().on_headers_complete()
        finally:
            self.limit_concurrency = most

    def on_message_complete(self) -> None:
        if not self.cycle.response_complete:
            self.waiting.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self.waiting[self] = None
            if self._in_head:  # of the next request, which began before this answer
                self._await_head()

    def pause_writing(self) -> None:
        self.waiting[self] = None
        super().pause_writing()

    def resume_writing(self) -> None:
        if not self.cycle.response_complete:
            self.waiting.pop(self, None)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:  # headers begin, or line ends, which may precede them
            self._await_head()
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self.transport.write(TOO_LONG)
                self.transport.close()


class Server(uvicorn.Server):
    """Stops at a signal to end when the requests under way are answered, and then ends as a process that is done.

    These are SIGTERM, SIGINT and, unless it is ignored, SIGHUP, which a terminal sends when it is closed.

    Where SIGCHLD is ignored, as some parents leave it, the system tells nothing of the children that make snapshots and
    reports; it is then given its default.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind the port, and say in the log which address it is."""
        await super().startup(sockets)
        for bound in (one for server in getattr(self, "servers", ()) for one in server.sockets):
            host, port = bound.getsockname()[:2]
            text = f"[{host}]" if ":" in host else host
            fields = {"event": "listening", "host": host, "port": port}
            logger.info("listening on http://%s:%d", text, port, extra=fields)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        heard = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as by `nohup`
            heard.append(signal.SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in heard}
        if CAN_FORK and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(service: Service, host: str, port: int, max_connections: int = MOST_CONNECTIONS) -> bool:
    """Serve until a signal; whether everything was written at the end."""
    config = uvicorn.Config(
        application(service),
        host=host,
        port=port,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        workers=1,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=max_connections + 1,  # of uvicorn, which counts the one that asks
        timeout_graceful_shutdown=GRACE,
    )
    server = Server(config)
    server.run()
    return service.stopped


class JSONFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in PLAIN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def log_as_json(level: str) -> None:
    """Write the records of this level and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    logging.getLogger("asyncio").setLevel(logging.WARNING)
