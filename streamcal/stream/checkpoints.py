"""Checkpoints of a run: which rows of which input a state has learned, and which bytes of the output hold them.

They are kept in the state file, under the name `RUN`, so that calibrator and position are always of the same moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self
from zlib import crc32

from streamcal.calibrators.base import Calibrator
from streamcal.errors import StateError
from streamcal.states import listed, record, row, signed, text, whole
from streamcal.stream import durable
from streamcal.stream.atomic import atomic_write, remove_left_over
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError

#: The name of the checkpoint in a state file.
RUN = "run"
#: Inputs remembered, the newest: a file that comes again is recognised among them.
INPUTS = 100
LONGEST_NAME = 4096
LARGEST_CRC = 2**32 - 1


@dataclass
class Position:
    """How far an input has been read.

    Parameters
    ----------
    name : str
        The name of the file, for messages; a file that was renamed is recognised.
    rows : int
        The number of the last data row that was learned or skipped.
    first, digest : int
        Checksums (CRC-32) of what was read of the first row, and of all rows: different files agree in both with a
        probability of 2⁻³².
    """

    name: str
    rows: int = 0
    first: int = 0
    digest: int = 0

    def advance(self, number: int, fields: Iterable[Any]) -> None:
        """Count a data row, of which these fields were read."""
        written = "\x1f".join([one if isinstance(one, str) else repr(one) for one in fields])
        self.digest = crc32(written.encode("utf-8", "surrogatepass"), self.digest)
        if self.rows == 0:
            self.first = self.digest
        self.rows = number


class Written(NamedTuple):
    """An output file and the number of its bytes that hold the rows of a checkpoint."""

    path: str
    size: int


@dataclass(frozen=True)
class Checkpoint:
    """The inputs that were read, the newest last, and the outputs of the newest by option ("out", "rejects")."""

    inputs: tuple[Position, ...] = ()
    outputs: dict[str, Written] = field(default_factory=dict)

    def inputs_then(self, position: Position, before: Position | None) -> tuple[Position, ...]:
        """The inputs after more of one was read, of which `before` was the position until now."""
        return (*[one for one in self.inputs if one is not before], position)[-INPUTS:]

    def position_in(self, reader: RecordReader, columns: Sequence[str]) -> Position | None:
        """The furthest position whose rows the file begins with; None if it is another file.

        Reads as many rows as the furthest position that is still possible has.
        """
        found, here, possible = None, Position(reader.path), [one for one in self.inputs if one.rows]
        with contextlib.suppress(RecordError):  # what cannot be read is told by the run itself
            for chunk in reader:
                for number, fields in zip(chunk.numbers, chunk.rows, strict=True):
                    found = _agreeing(possible, here, number) or found
                    possible = [one for one in possible if one.rows >= number]
                    if not possible:
                        return found
                    here.advance(number, map(fields.get, columns))
                    possible = [one for one in possible if one.first == here.first]
        return _agreeing(possible, here, None) or found

    def state(self) -> dict[str, Any]:
        """Plain data that `read` reads."""
        inputs = [[one.name, one.rows, one.first, one.digest] for one in self.inputs]
        return {"inputs": inputs, "outputs": [[name, *one] for name, one in self.outputs.items()]}

    @classmethod
    def read(cls, state: Any) -> Self:
        """The checkpoint that was written by `state`; `StateError` for anything else."""
        name, crc = text(LONGEST_NAME), whole(0, LARGEST_CRC)
        fields = {"inputs": listed(row(name, whole(), crc, crc)), "outputs": listed(row(name, name, whole()))}
        found = record(fields)(state)
        inputs = tuple(Position(*one) for one in found["inputs"])
        return cls(inputs, {option: Written(path, size) for option, path, size in found["outputs"]})


def _agreeing(possible: Iterable[Position], here: Position, number: int | None) -> Position | None:
    """The last of the positions before row `number` whose checksum is the one here."""
    ended = [one for one in possible if number is None or one.rows < number]
    return next((one for one in reversed(ended) if one.digest == here.digest and one.rows >= here.rows), None)


def save(calibrator: Calibrator, path: Path, checkpoint: Checkpoint) -> None:
    """Write calibrator and checkpoint to a state file, which `streamcal.load` reads too.

    Raises
    ------
    StateError
        If the file cannot be written; it says where the state was written instead.
    """
    content = json.dumps(signed({**calibrator.state_dict(), RUN: checkpoint.state()})).encode()
    try:
        atomic_write(path, content)
    except OSError as error:
        raise StateError(f"{path}: the state cannot be written: {error.strerror or error}{_aside(content)}") from None


def load(path: Path) -> tuple[Any, Checkpoint]:
    """What a state file holds: a learner, and the checkpoint of the run that saved it, which may be empty.

    Raises
    ------
    StateError, OSError
        As `streamcal.load`.
    """
    learner = durable.load(path)
    state = json.loads(path.read_bytes())
    try:
        return learner, Checkpoint.read(state[RUN]) if RUN in state else Checkpoint()
    except StateError as error:
        raise StateError(f"{path}: {error}") from None


def _aside(content: bytes) -> str:
    """Where content that cannot be written to its place was written, to be added to a message."""
    try:
        handle, place = tempfile.mkstemp(prefix="streamcal-", suffix=".json")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        return f"; nor can it be written to {tempfile.gettempdir()} ({error.strerror or error})"
    return f"; it is in {place}: move it to its place, and the run goes on from there"


@contextlib.contextmanager
def locked(path: Path) -> Any:
    """Hold a state file for this process alone, by a lock on the file of its name and `.lock`, which is removed.

    Raises
    ------
    StateError
        If another process holds it.

    Notes
    -----
    The operating system releases the lock of a process that ends, however it ends.
    """
    place = Path(f"{os.path.realpath(path)}.lock")
    with _open_lock(place) as file:
        remove_left_over(path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                place.unlink()
            file.truncate(0)


def _open_lock(place: Path) -> Any:
    """The lock file, locked; `StateError` if it cannot be."""
    while True:
        file = open(place, "a+b")  # noqa: SIM115  (closed by the caller)
        try:
            _lock(file)
        except OSError:
            file.close()
            raise StateError(
                f"{place.with_suffix('')} is in use by another run; wait for its end, or use another state"
            ) from None
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(place)):
                return file
        except FileNotFoundError:  # removed by the run before, between our opening it and our locking it
            pass
        file.close()


def _lock(file: Any) -> None:
    """Lock an open file, `OSError` if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
