"""The job of `streamcal run`: reads records and writes calibrated records, batch by batch, in bounded memory."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.errors import ClockError, InputError, SolverError, StateError, StoreError, StreamcalError
from streamcal.parameters.types import FloatArray
from streamcal.stream.batches import Batch, Row
from streamcal.stream.checkpoints import AGAIN, LONGEST_NAME, Checkpoint, Position, Reading, Written
from streamcal.stream.columns import Columns, FieldReader
from streamcal.stream.files import STANDARD_STREAM, FileKind, can_be_read_twice, same_file
from streamcal.stream.prequential import ADDED, Prediction, Prequential
from streamcal.stream.reading import LONGEST_FIELD, RecordReader, check_alike, readers_of
from streamcal.stream.records import Reasons, RecordError
from streamcal.stream.tables import rows_beside, rows_in
from streamcal.stream.times import TimeOrder
from streamcal.stream.writing import RecordWriter, to_json

if TYPE_CHECKING:  # what late labels and segments need is imported where they are asked for
    from streamcal.live.keyed import Keyed
    from streamcal.live.label_join import LabelJoin
    from streamcal.stream.applying import Applying
    from streamcal.stream.impressions import ImpressionReader
    from streamcal.stream.replay import Replay

#: The options that name outputs.
OUT, REJECTS = "out", "rejects"
CALIBRATED = ADDED[0]
REJECT_COLUMNS = ("file", "row", "column", "reason", "record")
#: Characters of a record in a row of the rejects, which may have four bytes each, and what the next row says.
LONGEST_REJECT = LONGEST_FIELD // 4 - 1
CONTINUED = "continuation of the record"
#: Rows that a run begins with, and seconds that it takes for one part of a batch: then it writes, reports its
#: progress and handles interrupts. The parts of a method double or halve until they take as long.
FIRST_ROWS = 16
SHORTEST, LONGEST = 0.05, 0.2
#: Rows that are read one by one where one of them cannot be used.
PIECE = 256
#: Seconds between two checkpoints: what a crash may cost, and a fraction of a percent of the time of a run.
KEEP_EVERY = 30.0


@dataclass
class Run:
    """One pass over a stream: `execute` predicts, then learns, each row, and writes it with its prediction.

    Attributes
    ----------
    late : int
        The number of rows too old to be learned, by the method's own count.
    order : TimeOrder
        The times read, and whether they are in order.
    started : bool
        Whether the files were opened and contain the columns.
    """

    calibrator: Calibrator | Keyed  #: continues to learn from its current state
    sources: Sequence[str]  #: files that `RecordReader` can read, one after the other: one stream
    columns: Columns
    format: str | None = None  #: that of the files, where their names do not say it
    #: a file for the input columns, which all sources share then, plus `calibrated`, and `lower` and `upper` where the
    #: method has an interval; "-" is standard output, in the format of the sources (CSV for Parquet).
    out: str | None = None
    skip: bool = False  #: continue after a row that cannot be used, instead of raising its `RecordError`
    rejects: str | None = None  #: a file for the rows skipped, each with its number, column, reason and text
    #: The delimiter of a CSV source, and of a CSV output unless their names imply another. None: the one that
    #: `RecordReader` finds.
    delimiter: str | None = None
    #: {"percent", "logit"}: scores are percentages or log-odds: the method, and the comparison with raw, read them as
    #: probabilities.
    unit: str | None = None
    #: That of the state from which the calibrator comes: rows of the sources that it has learned are passed over, and
    #: the output that has them is continued.
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    again: bool = False  #: learn them again instead
    #: Called with a checkpoint whenever one is due, and at the end: it saves it with the calibrator. The outputs are on
    #: the disk by then.
    keep: Callable[[Checkpoint], None] | None = None
    keep_every: float = KEEP_EVERY  #: seconds between two checkpoints
    #: Where labels come late, the join whose calibrator this is; `columns` has an id and the time of the label then.
    join: LabelJoin | None = None
    frozen: bool = False  #: rows are predicted and not learned; `columns` has no label
    column: str = CALIBRATED  #: the name of the column of the output with the probabilities, default "calibrated"
    evaluation: Prequential | Replay | Applying = field(init=False)  #: it predicts, learns and measures
    replay: Replay | None = field(default=None, init=False)  #: the evaluation, where labels come late
    taken: int = field(default=0, init=False)  #: the number of rows that were predicted
    skipped: int = field(default=0, init=False)  #: the number of rows skipped
    skipped_lines: int = field(default=0, init=False)  #: the number of lines that they take in the file
    #: Why rows were skipped, but for those without a label that `missing_label` leaves out.
    reasons: Reasons = field(default_factory=Reasons, init=False)
    seconds: float = field(default=0.0, init=False)  #: elapsed time, with reading and writing
    #: The number of rows at the start of the sources that had been learned before.
    passed_over: int = field(default=0, init=False)
    #: The sources with the name of an input that was read before, and another first row.
    replaced: list[str] = field(default_factory=list, init=False)
    #: Sources whose last line has no line end: it may be half a row, and is left for the next run.
    open_ended: list[str] = field(default_factory=list, init=False)
    interrupted_by: int = field(default=signal.SIGINT, init=False)  #: the signal that ended the run, if one did

    def __post_init__(self) -> None:
        reader: type[FieldReader] | type[ImpressionReader] = FieldReader
        if self.frozen:
            from streamcal.stream.applying import Applying

            self.evaluation = Applying(self.calibrator)
        elif self.join is None:
            self.evaluation = Prequential(self.calibrator)
        else:
            from streamcal.stream.impressions import ImpressionReader as reader
            from streamcal.stream.replay import Replay

            self.evaluation = self.replay = Replay(self.join, self.columns)
        if self.unit is not None and self.evaluation.raw is None:
            raise InputError(f"scores read as {self.unit} become probabilities, which {self.calibrator!r} has not")
        scores = "finite" if self.evaluation.raw is None else "probability"
        self._steps: Any = self.evaluation  # which takes the fields that the reader reads
        self._fields = reader(self.columns, self.unit or scores)
        self._late_before = self.tally()["late"]
        self.order = TimeOrder()
        # Rows and their lines, those not counted yet: the reader is ahead of what is learned.
        self._rejected: list[tuple[dict[str, Any], int]] = []
        self._rows_at_once = FIRST_ROWS
        self._writers: dict[str, RecordWriter] = {}  # by option
        self._unwritten = False  # whether writing has failed, so that outputs and calibrator differ
        self._positions: dict[str, Position] = {}  # how far sources had been read before this run
        self._position = Position(self.sources[0])  # in the source that is being read
        self._before: Position | None = None  # the position that this run takes further
        self._last_kept = 0.0  # when the last checkpoint was kept
        #: Allowed columns of a row; None where the reader guarantees them (all formats but JSON Lines).
        self._known: frozenset[str] | None = None
        #: The columns that the output adds.
        self._added = (self.column, *self.evaluation.added[1:])
        if self.column in self._added[1:]:
            raise InputError(f"{self.calibrator!r} adds a column {self.column!r}; give another --output-column")
        # While rows are learned and written, an interrupt takes effect after the part of a batch, so that output and
        # calibrator contain the same rows; while the run waits for input, it takes effect at once.
        self._waiting = True
        self._interrupted = False

    def execute(self, progress: Callable[[int, float | None], None] = lambda rows, share: None) -> None:
        """Read to the end; `progress(rows, share of the file or None)` is called after each part of a batch.

        Raises `RecordError` at the first row that cannot be used, unless `skip`, `SolverError` if a solver fails, and
        `KeyboardInterrupt` after an `interrupt`; the rows before are in the output and have been learned.
        """
        self._refuse_same_files()
        outputs = self._go_on()
        with ExitStack() as files:
            readers = self._readers()
            files.callback(readers.close)
            first = next(readers)
            self._open_out(files, first, outputs.get(OUT))
            if self.rejects is not None:
                rejected = RecordWriter(self.rejects, REJECT_COLUMNS, append_at=outputs.get(REJECTS))
                self._writers[REJECTS] = files.enter_context(rejected)
            begun = self._last_kept = time.perf_counter()
            try:
                for number, reader in enumerate(chain([first], readers)):
                    for part in self._parts(reader):
                        self._take(part)
                        share = reader.share
                        progress(
                            self.taken + self.skipped, None if share is None else (number + share) / len(self.sources)
                        )
                        if time.perf_counter() - self._last_kept >= self.keep_every:
                            self._keep()
            except BaseException as error:
                self.seconds = time.perf_counter() - begun
                self._keep_after(error)
                raise
            self.seconds = time.perf_counter() - begun
            self._keep()

    @property
    def reading(self) -> Reading:
        """How scores and labels are read."""
        columns, before = self.columns, self.checkpoint.reading
        timed = columns.time is not None or (before is not None and before.time)
        negative = self._fields.negative or (None if before is None else before.negative)
        return Reading(self.unit, columns.decreasing, columns.positive, timed, negative and negative[:LONGEST_NAME])

    @property
    def latest(self) -> float | None:
        """The latest time read."""
        return self.order.latest

    @property
    def late(self) -> int:
        """The number of rows of this run that were too old to be learned."""
        return max(self.tally()["late"] - self._late_before, 0)  # versions may have been forgotten meanwhile

    @property
    def learning(self) -> list[Calibrator | Keyed]:
        """What learns: where labels come late, a calibrator for each version of the model remembered, the newest last.

        The first of them is `calibrator`, as long as it is remembered.
        """
        return [self.calibrator] if self.join is None else [calibrator for _, calibrator, _ in self.join.versions]

    def tally(self) -> Counter[str]:
        """Return the counts of all learners, all versions together."""
        counts: Counter[str] = Counter()
        for calibrator in self.learning:
            counts.update(calibrator.tally())
        return counts

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """End the run with a `KeyboardInterrupt` after this part of a batch. For handlers of the signal `number`."""
        self.interrupted_by = number
        self._interrupted = True
        if self._waiting:
            self._waiting = False  # the files are closed next
            raise KeyboardInterrupt

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def _reading(self) -> dict[str, Any]:
        return {"format": self.format, "delimiter": self.delimiter}

    def _readers(self) -> Generator[RecordReader]:
        """Yield the readers of the sources, each open until the next one is requested."""
        bad_row = self._reject_unread if self.skip else None
        reading = {**self._reading, "on_bad_row": bad_row, "growing": self.keep is not None}
        for reader in readers_of(self.sources, self.columns.used(), **reading):
            self._before = self._positions.get(reader.path)
            self._position = replace(self._before or Position(reader.path), name=reader.path)
            yield reader
            self.open_ended += [reader.path] * reader.open_ended
            self.checkpoint = replace(self.checkpoint, inputs=self._inputs)
            self._before = self._position

    def _go_on(self) -> dict[str, int]:
        """Find the rows of the sources that were learned before; returns the sizes of the outputs that have them."""
        check_alike(self.sources, self.columns.used(), outputs=self.out is not None, **self._reading)
        if self.keep is not None and not self._are_files and any(map(can_be_read_twice, self.sources)):
            reason = "a pipe beside files cannot be resumed, since it is read once"
            raise RecordError(reason, "files alone, or a run without --state", file=self.sources[0])
        if not self._are_files:
            return self._outputs_that_go_on(_end_of_rows)
        if self.again or not self.checkpoint.inputs:
            return {}
        known = self.checkpoint
        for source in self.sources:
            with RecordReader(source, on_bad_row=lambda _: None, **self._reading) as reader:
                remedy = AGAIN if self.join is None else "another --journal"
                position = known.position_in(reader, self.columns.used(), remedy)
            if position is not None:
                self._positions[source], known = position, known.without(position)
            elif any(same_file(before.name, source) for before in self.checkpoint.inputs):
                self.replaced.append(source)
        self.passed_over = sum(position.rows for position in self._positions.values())
        if not self.passed_over:
            return {}
        newest = any(position is self.checkpoint.inputs[-1] for position in self._positions.values())
        sizes = self._outputs_that_go_on(lambda written: written.size) if newest else {}
        self._refuse_to_replace(sizes)
        return sizes

    def _refuse_to_replace(self, sizes: Mapping[str, int]) -> None:
        """Raise `RecordError` if an output with rows would be replaced by the rows after those passed over."""
        if self.out is None or not os.path.isfile(self.out):
            return
        if not os.path.getsize(self.out) and not os.path.exists(rows_beside(self.out)):
            return
        if FileKind.of(self.out, None).format == "arrow":
            reason = "a file of Arrow cannot be continued"
        elif OUT not in sizes:
            reason = "the file is not the output of the run that learned them last: it would be replaced"
        else:
            return
        again = "" if self.replay is not None else ", or --again"
        raise RecordError(
            f"the first {self.passed_over:,} rows were learned before, and {reason}",
            f"another --out for the rows after them{again}",
            file=self.out,
        )

    def _outputs_that_go_on(self, size: Callable[[Written], int]) -> dict[str, int]:
        """Return the sizes at which the outputs of the run before are continued, if they are those of this run."""
        sizes = {}
        for option, path in ((OUT, self.out), (REJECTS, self.rejects)):
            written = self.checkpoint.outputs.get(option)
            if path is not None and written is not None and os.path.exists(path) and same_file(path, written.path):
                sizes[option] = size(written)
        return sizes

    @cached_property
    def _are_files(self) -> bool:
        """Whether the sources can be read twice: they are files, or objects in a store."""
        return all(map(can_be_read_twice, self.sources))

    @property
    def _inputs(self) -> tuple[Position, ...]:
        """The inputs of the next checkpoint."""
        if not self._are_files:
            return self.checkpoint.inputs
        return self.checkpoint.inputs_then(self._position, self._before)

    def _keep(self) -> None:
        """Write the outputs to the disk, and have a checkpoint of them and of the calibrator saved."""
        if self.keep is None:
            return
        try:
            sizes = {option: (os.path.realpath(writer.path), writer.sync()) for option, writer in self._writers.items()}
        except BaseException:
            self._unwritten = True
            raise
        outputs = {option: Written(path, size) for option, (path, size) in sizes.items() if size is not None}
        reading = self.reading if self.taken else self.checkpoint.reading
        self.keep(Checkpoint(self._inputs, outputs, reading))
        self._last_kept = time.perf_counter()

    def _keep_after(self, error: BaseException) -> None:
        """Write the last checkpoint of a run that ends by an error, unless learned rows could not be written.

        No checkpoint is written either if a store of levels failed, which may have been between two levels of a row.
        """
        try:
            self._settle_rejected()
            if not self._unwritten and not isinstance(error, StoreError):
                self._keep()
        except (RecordError, StateError) as another:
            if isinstance(error, StreamcalError):
                raise type(another)(f"{error}; and then: {another}") from None
            raise

    # -- rows --------------------------------------------------------------------------------------------------------

    def _parts(self, reader: RecordReader) -> Iterator[Batch]:
        """Yield the rows not learned before, in parts that take long enough; an interrupt takes effect here."""
        batches, passed_over = iter(reader), self._position.rows
        try:
            while True:
                self._wait()
                batch = next(batches, None)
                self._waiting = False
                if batch is None:
                    return
                batch = batch.after(passed_over)
                while len(batch) and not self._interrupted:
                    begun, part = time.perf_counter(), batch.take(slice(self._rows_at_once))
                    yield part
                    batch = batch.take(slice(len(part), None))
                    self._adapt(len(part), time.perf_counter() - begun)
                if not self._interrupted:
                    self._position.rows = max(self._position.rows, reader.row)  # rows at the end may be unreadable
                    self._settle_rejected()
        finally:
            self._waiting = False

    def _adapt(self, rows: int, seconds: float) -> None:
        """Make the parts larger where this many rows were learned in little time, smaller where it was long."""
        if seconds > LONGEST:
            self._rows_at_once = max(rows // 2, 1)
        elif seconds < SHORTEST and rows == self._rows_at_once:
            self._rows_at_once *= 2

    def _wait(self) -> None:
        """Let an interrupt take effect at once, a pending one included."""
        self._waiting = True
        if self._interrupted:
            raise KeyboardInterrupt

    def _take(self, part: Batch) -> None:
        """Predict, learn and write rows: by column, and row by row from the first that cannot be used."""
        fields = self._fields.many(part) if self._keys_fit(part) else None
        if fields is None and len(part) > PIECE:  # with few bad rows most pieces have none
            for begin in range(0, len(part), PIECE):
                if not self._interrupted:
                    self._take(part.take(slice(begin, begin + PIECE)))
            return
        if fields is not None:
            values = self._steps.step_many(*fields)
            self.taken += len(values)
            done = part if len(values) == len(part) else part.take(slice(len(values)))
            if fields.times is not None and len(done):
                self.order.add(fields.times[: len(done)])
            self._write_out(done, values)
            self._advance(done)
            part = part.take(slice(len(done), None))
        if len(part):
            self._take_rows(part)

    def _take_rows(self, part: Batch) -> None:
        """Process and write rows one by one, up to the first that cannot be used or an interrupt."""
        done: list[int] = []
        values: list[tuple[float, ...]] = []
        taken = 0
        try:
            for number in part.numbers.tolist():
                if self._interrupted:
                    break
                row = None
                try:
                    row = part.row(taken)
                    values.append(self._step(row))
                except RecordError as error:
                    error.at(self._position.name, number, error.column)
                    error.lines = part.lines(taken)
                    error.label = None if row is None else self._fields.label_of(row)
                    if not self.skip and not self._fields.skips(error):
                        self._fields.advise(error, part.readable())
                        raise
                    self._reject(error, row)
                except SolverError as error:  # a failure of the solver, not of the row: never skipped
                    raise SolverError(f"{self._position.name}, row {number}: {error}") from None
                else:
                    done.append(taken)
                taken += 1
        finally:
            places = np.array(done, dtype=np.int64)
            self.taken += len(done)
            self._write_out(part.take(places), np.array(values, dtype=np.float64).reshape(-1, len(self._added)))
            self._advance(part.take(slice(taken)))
            self._settle_rejected()

    def _step(self, row: Row) -> tuple[float, ...]:
        """Predict and learn one row; what the output adds to it."""
        if self._known is not None:
            self._check_keys(row)
        observation = self._fields.one(row)
        if observation.t is not None:
            self.order.add_one(observation.t)
        try:
            return _values(self._steps.step(*observation))
        except RecordError:
            raise
        except InputError as error:
            column = self.columns.time if isinstance(error, ClockError) else self.columns.score
            raise RecordError(str(error), column=column) from None

    def _advance(self, done: Batch) -> None:
        """Count rows as learned or skipped."""
        if self.keep is not None and self._are_files:
            self._position.advance(done, self.columns.used())
        elif len(done):
            self._position.rows = int(done.numbers[-1])

    def _keys_fit(self, part: Batch) -> bool:
        """Return whether no row has a column that `_check_keys` would refuse; False if only the row can show it."""
        if not self._known:
            return self._known is None or not part.mentions(self._added)
        try:
            return all(row.keys() <= self._known for row in part.rows)
        except RecordError:  # of one row: the others are usable
            return False

    def _check_keys(self, row: Row) -> None:
        """Raise `RecordError` if a row of JSON Lines has a column that the output cannot have, or that it adds."""
        for name in row:
            if name in self._added:
                raise RecordError("the output adds a column of this name", "other names", column=name)
            if self._known and name not in self._known:
                raise RecordError("the first row has no such column", "its columns, or JSON Lines out", column=name)

    # -- rows that cannot be used ------------------------------------------------------------------------------------

    def _reject_unread(self, error: RecordError) -> None:
        """Reject a row that the reader cannot split."""
        if error.row is None or error.row > (0 if self._before is None else self._before.rows):
            self._reject(error, None)

    def _reject(self, error: RecordError, row: Row | None) -> None:
        if not self._fields.skips(error):
            self.reasons.add(error)
        self._rejected.append((reject_of(error, row), error.lines))

    def _settle_rejected(self) -> None:
        """Count and write the rows rejected up to the present position."""
        self._rejected.sort(key=lambda rejected: rejected[0]["row"])
        settled = [(row, lines) for row, lines in self._rejected if row["row"] <= self._position.rows]
        del self._rejected[: len(settled)]
        self.skipped += len(settled)
        self.skipped_lines += sum(lines for _, lines in settled)
        if REJECTS in self._writers and settled:
            self._writing(REJECTS, lambda writer: writer.write(part for row, _ in settled for part in parts_of(row)))

    def _write_out(self, done: Batch, values: FloatArray) -> None:
        if OUT in self._writers and len(done):
            self._writing(OUT, lambda writer: writer.write_batch(done, self._added, values))

    def _writing(self, option: str, write: Callable[[RecordWriter], None]) -> None:
        """Write and flush, so that readers of the file or pipe receive the rows."""
        try:
            write(self._writers[option])
            self._writers[option].flush()
        except BaseException:
            self._unwritten = True
            raise

    # -- files -------------------------------------------------------------------------------------------------------

    def _refuse_same_files(self) -> None:
        """Raise `RecordError` if one file would overwrite another."""
        earlier_files = [("the input", source) for source in self.sources]
        for what, file in (("--out", self.out), ("--rejects", self.rejects)):
            if file is None:
                continue
            for other, earlier in earlier_files:
                both = file == earlier == STANDARD_STREAM
                if other != "the input" if both else _would_overwrite(file, earlier):
                    raise RecordError(f"{what} would overwrite {other}", "another file", file=file)
            earlier_files.append((what, file))

    def _open_out(self, files: ExitStack, reader: RecordReader, append_at: int | None) -> None:
        if self.out is None:
            return
        for name in self._added:
            if name in reader.names:
                reason = "the input has a column of this name already, which the output would overwrite"
                raise RecordError(
                    reason, "another --output-column, or another name in the input", file=reader.path, column=name
                )
        names = [*reader.names, *self._added]
        format = reader.kind.on_standard_output if self.out == STANDARD_STREAM else None
        paths = () if self.out == STANDARD_STREAM else (reader.path, self.out)
        named = any(FileKind.of(path, "csv").delimiter is not None for path in paths)
        between = None if named else reader.delimiter
        how: dict[str, Any] = {"types": reader.types, "delimiter": between, "decimal": self.columns.decimal}
        writer = RecordWriter(self.out, names, format, append_at=append_at, **how)
        if reader.kind.format == "jsonl":
            self._known = frozenset() if writer.kind.format == "jsonl" else frozenset(reader.names)
        self._writers[OUT] = files.enter_context(writer)


def reject_of(error: RecordError, row: Row | None) -> dict[str, Any]:
    """Return a row of the rejects: number, column and reason of a row that cannot be used, and its record."""
    record = error.record if row is None else to_json(row)
    return dict(zip(REJECT_COLUMNS, (error.file, error.row, error.column, error.explanation, record), strict=True))


def parts_of(rejected: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row of the rejects, split into several if its record is longer than a field of CSV.

    Records are cut at line ends if possible.
    """
    record = rejected["record"]
    begin, size = 0, len(record or "")
    while True:
        end = min(begin + LONGEST_REJECT, size)
        if end < size:
            end = record.rfind("\n", begin, end) + 1 or end
        yield {**rejected, "record": record and record[begin:end]}
        if end >= size:
            return
        rejected, begin = {**rejected, "reason": CONTINUED}, end


def _would_overwrite(file: str, earlier: str) -> bool:
    """Return whether an output would overwrite an earlier file of the run, which may be standard input."""
    if earlier == STANDARD_STREAM:
        try:
            standard = os.fstat(sys.stdin.fileno())
            return stat.S_ISREG(standard.st_mode) and os.path.samestat(standard, os.stat(file))
        except (OSError, ValueError):  # there is no such file yet, or no standard input
            return False
    return same_file(file, earlier)


def _end_of_rows(written: Written) -> int:
    """Return where an output continues if its input, a pipe, is gone: later rows stay, without a last half row.

    `RecordError` if they are compressed, since the end of a stream that was killed cannot be found.
    """
    kind = FileKind.of(written.path, "csv" if "." not in written.path else None)
    if kind.format == "parquet":
        return max(rows_in(written.path), written.size)
    size = os.path.getsize(written.path)
    if kind.compression is not None and size != written.size:
        reason = "the run before was killed, and compressed rows after its last checkpoint cannot be continued"
        raise RecordError(reason, "another file", file=written.path)
    with open(written.path, "rb") as file:
        file.seek(written.size)
        return file.tell() + file.read().rfind(b"\n") + 1


def _values(prediction: Prediction) -> tuple[float, ...]:
    """Return what the output adds to a row."""
    return (prediction.calibrated, *(prediction.interval or ()))
