"""Checkpoints of a run: which rows of which input a state has learned, and which bytes of the output hold them.

They are kept in the state file, under the name `RUN`, so that calibrator and position are always of the same moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from streamcal.errors import StateError
from streamcal.learners.learner import Learner
from streamcal.states import flag, listed, maybe, record, row, signed, text, whole
from streamcal.stream.batches import Batch
from streamcal.stream.durable import atomic_write, remove_left_over
from streamcal.stream.durable import load as load_state
from streamcal.stream.files import INPUTS, lock, same_file
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import PARSED_AS_PROBABILITY, LabelReader, RecordError, parse_label

#: The name of the checkpoint in a state file.
RUN = "run"
LONGEST_NAME = 4096
#: What to do about an input that was changed.
AGAIN = "--again to learn it from its start, or another --state"
LARGEST_CRC = 2**32 - 1


@dataclass
class Position:
    """How far an input has been read."""

    name: str  #: the name of the file, for messages; a file that was renamed is recognised
    rows: int = 0  #: the number of the last data row that was learned or skipped
    #: Checksums (CRC-32) of the first row, and of all rows that could be read: of their text, or of the columns in use
    #: of a table. Different files agree in both with a probability of 2⁻³².
    first: int = 0
    digest: int = 0

    def advance(self, batch: Batch, columns: Sequence[str]) -> None:
        """Count the rows of a batch, of which these columns are in use."""
        if len(batch):
            self.first = self.first or batch.take(slice(1)).digest(columns, 0)
            self.digest = batch.digest(columns, self.digest)
            self.rows = int(batch.numbers[-1])


@dataclass(frozen=True)
class Reading:
    """The options that give scores and labels their meaning, as those of the rows that a state has learned."""

    unit: str | None = None
    decreasing: bool = False
    positive: str | None = None
    time: bool = False  #: whether times were read
    negative: str | None = None  #: the label that was read as the negative one

    @property
    def conversion(self) -> str:
        """The options that convert scores, with a space between them; empty without any."""
        return " ".join(filter(None, self._meaning[:2]))

    def formula(self, *, probabilities: bool) -> str:
        """Return what a method is given for a score.

        >>> Reading("percent", decreasing=True).formula(probabilities=True)
        '1 - score / 100'
        """
        read = {"percent": "score / 100", "logit": "1 / (1 + exp(-score))"}.get(self.unit or "", "score")
        top = "1 - " if probabilities else "-"
        return f"{top if self.decreasing else ''}{read}"

    def require(self, now: Reading, place: str | os.PathLike[str], *, learned: bool) -> None:
        """Raise `StateError` where an option is left out now, so that scores or labels are taken for others.

        Where more is `learned`, also for an option that is given now and was not before, and where the label that was
        negative would be positive.

        Examples
        --------
        >>> Reading("percent").require(Reading(), "clicks.json", learned=False)
        Traceback (most recent call last):
        ...
        streamcal.errors.StateError: clicks.json learned with --scale percent; give it again, or use another
        >>> Reading().require(Reading(decreasing=True), "clicks.json", learned=True)
        Traceback (most recent call last):
        ...
        streamcal.errors.StateError: clicks.json learned without --decreasing; leave it out, or use another
        """
        for before, option in zip(self._meaning, now._meaning, strict=True):
            if before and not option:
                raise StateError(f"{place} learned with {before}; give it again, or use another")
            if learned and option != before:
                raise StateError(f"{place} learned without {option}; leave it out, or use another")
        with contextlib.suppress(RecordError):
            if learned and self.negative is not None and LabelReader(now.positive)(self.negative):
                before = f"--positive {self.positive}"
                raise StateError(f"{place} learned {self.negative!r} as negative; give {before} again, or use another")

    @property
    def _meaning(self) -> tuple[str, ...]:
        """The options on which the meaning of scores and labels depends, empty where they are not given."""
        return (
            "" if self.unit is None else f"--scale {self.unit}",
            "--decreasing" if self.decreasing else "",
            f"--positive {self.positive}" if _is_negative(self.positive) else "",
        )


#: Reads a `Reading` in a state.
READING = record(
    {
        "unit": maybe(text(LONGEST_NAME, "|".join(PARSED_AS_PROBABILITY))),
        "decreasing": flag,
        "positive": maybe(text(LONGEST_NAME)),
        "time": flag,
        "negative": maybe(text(LONGEST_NAME)),
    }
)


def _is_negative(word: str | None) -> bool:
    """Return whether a label is a negative one where none is named as positive."""
    with contextlib.suppress(RecordError):
        return word is not None and not parse_label(word)
    return False


class Written(NamedTuple):
    """An output file and the number of its bytes that hold the rows of a checkpoint; of Parquet, of the rows."""

    path: str
    size: int


@dataclass(frozen=True)
class Checkpoint:
    """The inputs that were read, the newest last, and the outputs of the newest by option ("out", "rejects").

    `reading` is how they were read, None where nothing was.
    """

    inputs: tuple[Position, ...] = ()
    outputs: dict[str, Written] = field(default_factory=dict)
    reading: Reading | None = None

    def require(self, now: Reading, place: str | os.PathLike[str]) -> None:
        """Raise `StateError` where `Reading.require` does for rows that are learned."""
        if self.reading is not None:
            self.reading.require(now, place, learned=True)

    def inputs_then(self, position: Position, before: Position | None) -> tuple[Position, ...]:
        """Return the inputs after more of one was read; `before` was its position until then."""
        return (*self.without(before).inputs, position)[-INPUTS:]

    def without(self, position: Position | None) -> Checkpoint:
        """Return the checkpoint without this position, whose file has been found."""
        return replace(self, inputs=tuple(other for other in self.inputs if other is not position))

    def position_in(self, reader: RecordReader, columns: Sequence[str], remedy: str = AGAIN) -> Position | None:
        """Return the furthest position whose rows the file begins with; None if it is another file.

        Reads as many rows as the furthest position that is still possible has. A file with the name of an input that
        was read before, and its first row, but not all of its rows, was changed: that is a `StateError`, which ends
        with `remedy`.
        """
        position, here = self._find(reader, columns)
        changed = [
            before for before in self.inputs if before.first == here.first and same_file(before.name, reader.path)
        ]
        if position is None and here.first and changed:
            raise StateError(
                f"{reader.path} was changed: {changed[-1].rows:,} rows of it were learned, and it does not begin with "
                f"these rows any more; give {remedy}"
            )
        return position

    def _find(self, reader: RecordReader, columns: Sequence[str]) -> tuple[Position | None, Position]:
        """Find the furthest position whose rows the file begins with, and how far the file was read."""
        furthest, here = None, Position(reader.path)
        possible = sorted((position for position in self.inputs if position.rows), key=lambda position: position.rows)
        with contextlib.suppress(RecordError):  # the run itself reports what cannot be read
            reader.require(*columns)
            for batch in reader:
                if len(batch) and not here.first:
                    first = batch.take(slice(1)).digest(columns, 0)  # 0 of a position after rows that cannot be read
                    possible = [position for position in possible if position.first in (0, first)]
                while len(batch) and possible and possible[0].rows <= batch.numbers[-1]:
                    nearest = possible.pop(0)
                    known = int(np.searchsorted(batch.numbers, nearest.rows, side="right"))
                    here.advance(batch.take(slice(known)), columns)
                    batch = batch.take(slice(known, None))
                    if (nearest.first, nearest.digest) == (here.first, here.digest):
                        furthest = nearest
                here.advance(batch, columns)
                if not possible:
                    return furthest, here
        return next((position for position in reversed(possible) if position.digest == here.digest), furthest), here

    def state(self) -> dict[str, Any]:
        """Return plain data that `read` reads."""
        files = [[position.name, position.rows, position.first, position.digest] for position in self.inputs]
        outputs = [[name, *written] for name, written in self.outputs.items()]
        state: dict[str, Any] = {"files": files, "outputs": outputs}
        return state if self.reading is None else {**state, "reading": asdict(self.reading)}

    @classmethod
    def read(cls, state: Any) -> Self:
        """Read the checkpoint that `state` wrote; `StateError` for anything else."""
        name, crc = text(LONGEST_NAME), whole(0, LARGEST_CRC)
        parts = {"files": listed(row(name, whole(), crc, crc)), "outputs": listed(row(name, name, whole()))}
        fields = record(parts, {"reading": READING})(state)
        reading = None if fields["reading"] is None else Reading(**fields["reading"])
        outputs = {option: Written(path, size) for option, path, size in fields["outputs"]}
        return cls(tuple(Position(*numbers) for numbers in fields["files"]), outputs, reading)


def save(calibrator: Learner, path: Path, checkpoint: Checkpoint) -> None:
    """Write calibrator and checkpoint to a state file, which `streamcal.load` reads too.

    If the file cannot be written, the `StateError` says where the state was written instead. Levels in a store are on
    the disk before the state that needs them, and those of the state before are kept until this one has taken its
    place: whenever a process is killed, the state that lies there can be loaded.
    """
    levels = getattr(calibrator, "_level_rows", None)  # in a store
    if levels is not None:
        levels.joined = True
    content = json.dumps(signed({**calibrator.state_dict(), RUN: checkpoint.state()})).encode()
    try:
        atomic_write(path, content)
    except OSError as error:
        before = "; the state that was there is whole" if path.exists() else ""
        what = f"{path}: the state cannot be written: {error.strerror or error}"
        raise StateError(f"{what}{before}{_aside(content)}") from None
    if levels is not None:
        levels.stored(levels.number)


def load(path: Path) -> tuple[Any, Checkpoint]:
    """Load a state file: a learner, and the checkpoint of the run that saved it, which may be empty.

    Raises
    ------
    StateError, OSError
        As `streamcal.load`.
    """
    learner = load_state(path)
    state = json.loads(path.read_bytes())
    try:
        return learner, Checkpoint.read(state[RUN]) if RUN in state else Checkpoint()
    except StateError as error:
        raise StateError(f"{path}: {error}") from None


def _aside(content: bytes) -> str:
    """Save content that cannot be written to its place elsewhere, and return where, for a message."""
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

    Raise `StateError` if another process holds it. The operating system releases the lock of a process that ends,
    however it ends. A process that is forked meanwhile leaves it.
    """
    process = os.getpid()
    place = Path(f"{os.path.realpath(path)}.lock")
    with _open_lock(place) as file:
        remove_left_over(path)
        try:
            yield
        finally:
            if process == os.getpid():
                with contextlib.suppress(OSError):
                    place.unlink()
                file.truncate(0)


def _open_lock(place: Path) -> Any:
    """Open and lock the lock file; `StateError` if that is not possible."""
    while True:
        try:
            file = open(place, "a+b")  # noqa: SIM115  (closed by the caller)
        except OSError as error:
            reason = f"its lock {place} cannot be written: {error.strerror or error}; use another state"
            raise StateError(f"{place.with_suffix('')}: {reason}") from None
        try:
            lock(file)
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
