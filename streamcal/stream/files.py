"""Files: formats by their names, compression, locks, and the files that names of inputs stand for.

gzip and bzip2 are read by Python's own modules, Zstandard and LZ4 by Arrow.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, cast, get_args

from streamcal.names import did_you_mean
from streamcal.stream.arrow import pyarrow
from streamcal.stream.records import RecordError

Compression = Literal["gzip", "bzip2", "Zstandard", "LZ4"]
#: The compression by the last ending of a name.
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard", ".lz4": "LZ4"}
#: What compressed files begin with.
MAGIC: dict[bytes, Compression] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
}
#: Arrow's names of those that it reads and writes here. It loses what it has read before damage: hence not the others.
IN_ARROW = {"Zstandard": "zstd", "LZ4": "lz4"}
#: Bytes taken from Arrow at a time, for the same reason.
BLOCK = 1 << 16


def recognised(begin: bytes) -> Compression | None:
    """Return the compression of a file that begins with these bytes.

    >>> recognised(b"BZh9"), recognised(b"score")
    ('bzip2', None)
    """
    return next((compression for magic, compression in MAGIC.items() if begin.startswith(magic)), None)


def opened_to_read(raw: BinaryIO, compression: Compression) -> BinaryIO:
    """Open what is compressed in `raw` as a file; `read1` raises `EOFError`, `OSError` or `zlib.error` if damaged.

    Files of several streams, one after another, are read as one.
    """
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if compression == "bzip2":
        return cast(BinaryIO, _FromBzip2(raw))
    return cast(BinaryIO, _FromArrow(raw, IN_ARROW[compression]))


def opened_to_write(raw: BinaryIO, compression: Compression) -> BinaryIO:
    """Open a file that writes to `raw`, compressed; the same bytes for the same content."""
    if compression == "gzip":  # mtime=0: the same rows give the same bytes
        return cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
    if compression == "bzip2":
        return cast(BinaryIO, bz2.BZ2File(raw, "wb"))
    return cast(BinaryIO, _ToArrow(raw, IN_ARROW[compression]))


class _FromBzip2:
    """As much of a binary file as `RecordReader` needs.

    `bz2.BZ2File` takes a later stream that is damaged for the end of the file.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._read = getattr(raw, "read1", raw.read)  # of a pipe what there is
        self._stream = bz2.BZ2Decompressor()

    def read1(self, size: int = BLOCK) -> bytes:
        """Read the next bytes; none at the end, where zeros may fill up the file."""
        while True:
            compressed = b""
            if self._stream.eof:
                compressed = self._stream.unused_data.lstrip(b"\0")
                while not compressed:
                    block = self._read(BLOCK)
                    if not block:
                        return b""
                    compressed = block.lstrip(b"\0")
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input:
                compressed = self._read(BLOCK)
                if not compressed:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            try:
                content = self._stream.decompress(compressed, size)
            except OSError as error:
                raise EOFError(str(error)) from None
            if content:
                return content

    def __enter__(self) -> _FromBzip2:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: whoever opened the file below closes it."""


class _FromArrow:
    """As much of a binary file as `RecordReader` needs."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._stream = pyarrow.CompressedInputStream(raw, name)

    def read1(self, size: int = BLOCK) -> bytes:
        """Read the next bytes, at most `BLOCK`; none at the end."""
        try:
            return cast(bytes, self._stream.read(min(size, BLOCK)))
        except OSError as error:
            if error.errno is not None:  # of the file below
                raise
            raise EOFError(str(error)) from None

    def __enter__(self) -> _FromArrow:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: whoever opened the file below closes it."""


class _ToArrow:
    """As much of a binary file as `RecordWriter` needs: each `write` is a stream of its own."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._raw = raw
        self._codec = pyarrow.Codec(name)
        self._empty = True

    def write(self, content: Any) -> None:
        """Compress and write; at once, so that a killed process leaves whole streams."""
        self._empty = False
        self._raw.write(self._codec.compress(content, asbytes=True))

    def flush(self) -> None:
        self._raw.flush()

    def __enter__(self) -> _ToArrow:
        return self

    def __exit__(self, *_: object) -> None:
        if self._empty:
            self.write(b"")


Format = Literal["csv", "jsonl", "parquet", "arrow"]
#: The name of standard input or standard output.
STANDARD_STREAM = "-"

_ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
}
ENDINGS_ALLOWED = (
    ".csv, .tsv, .jsonl, .ndjson (each also with .gz, .bz2, .zst, .lz4), .parquet, .arrow, .feather, .arrows, "
    "or for an input --format"
)

#: What can stand between the fields of a CSV file without being named.
DELIMITERS = (",", ";", "\t", "|")
#: What an address has and a path has not.
ADDRESS = "://"


@dataclass(frozen=True)
class FileKind:
    """How a file is written: its format, what compresses it, and of CSV the delimiter, where the name says it.

    Examples
    --------
    >>> FileKind.of("clicks.csv.gz")
    FileKind(format='csv', compression='gzip', delimiter=None)
    >>> FileKind.of("-", "jsonl")
    FileKind(format='jsonl', compression=None, delimiter=None)
    >>> FileKind.of("s3://bucket/clicks.parquet?region=eu-west-1").format
    'parquet'
    """

    format: Format
    compression: Compression | None = None
    delimiter: str | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], format: str | None = None) -> FileKind:
        """Return the kind by the ending of the name; `format` overrules it, but `.gz` and the like still count.

        Standard input and output ("-") are CSV unless `format` is given. `RecordError` for an unknown
        extension or format.
        """
        name = os.fspath(path)
        if format is not None and format not in get_args(Format):
            nearest = did_you_mean(format, get_args(Format))
            raise RecordError(f"format {format!r} is not known{nearest}", ", ".join(get_args(Format)), file=name)
        stem, ending = os.path.splitext(name.partition("?")[0] if ADDRESS in name else name)
        compression = COMPRESSIONS.get(ending.lower())
        if compression is not None:
            ending = os.path.splitext(stem)[1]
        chosen = format or ("csv" if name == STANDARD_STREAM else _ENDINGS.get(ending.lower()))
        if chosen is None:
            raise RecordError("the ending of the name says no format that is known", ENDINGS_ALLOWED, file=name)
        if chosen == "parquet" and name == STANDARD_STREAM:
            reason = "Parquet has its index at the end, and cannot be read from a pipe or written to one"
            raise RecordError(reason, "the name of a file, or Arrow, CSV or JSON Lines in the pipe", file=name)
        if chosen == "parquet" and compression:
            raise RecordError("Parquet cannot be read or written here", "a file without .gz", file=name)
        if chosen == "arrow" and compression:
            raise RecordError("Arrow cannot be read or written here", "a file without .gz", file=name)
        tabs = chosen == "csv" and ending.lower() == ".tsv"
        return cls(cast(Format, chosen), compression, "\t" if tabs else None)

    @property
    def on_standard_output(self) -> Format:
        """The format for rows of such a file on standard output: CSV for Parquet."""
        return "csv" if self.format == "parquet" else self.format


def has_known_ending(name: str) -> bool:
    """Return whether the ending of a name says a format.

    >>> has_known_ending("part-0.csv.gz"), has_known_ending("part-0.parquet"), has_known_ending("readme.md")
    (True, True, False)
    """
    stem, ending = os.path.splitext(name)
    if ending.lower() in COMPRESSIONS:
        ending = os.path.splitext(stem)[1]
    return ending.lower() in _ENDINGS


def same_file(file: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two names refer to the same file (devices excluded), links resolved, existing or not.

    Examples
    --------
    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv"), same_file("/dev/null", "/dev/null")
    (True, False, False)
    """
    file, other = (os.fspath(name).removeprefix("file://") for name in (file, other))
    if Path(file).exists() and Path(other).exists():
        return Path(file).is_file() and os.path.samefile(file, other)
    return os.path.realpath(file) == os.path.realpath(other)


#: Inputs remembered by a state, the newest, and the most files of one stream.
INPUTS = 10_000


def input_files(names: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the files of a stream in the order in which they are read.

    Names are files, addresses, globs such as "clicks-*.csv" or "**/*.parquet", folders, or "-" alone, and keep their
    order. The files of a glob and of a folder are sorted by their paths. A folder means all files in it and in its
    folders that have a known ending, except names that begin with "." or "_", such as Spark's markers. Raise
    `RecordError` where a file is not there or nothing matches, a file comes twice, or "-" is not alone.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("day=2.csv", "day=1.csv", "_SUCCESS"):
    ...     _ = (place / name).write_text("score,click")
    >>> [pathlib.Path(file).name for file in input_files(place)]
    ['day=1.csv', 'day=2.csv']
    >>> input_files(["s3://bucket/clicks.csv", "-"])
    Traceback (most recent call last):
    ...
    streamcal.stream.records.RecordError: -: standard input is read alone; allowed: one input, or files without it
    """
    paths = [names] if isinstance(names, (str, os.PathLike)) else list(names)
    files = [file for name in paths for file in _files_of(os.fspath(name))]
    if not files:
        raise RecordError("there is no input", "the name of a file")
    if len(files) > 1 and STANDARD_STREAM in files:
        raise RecordError("standard input is read alone", "one input, or files without it", file=STANDARD_STREAM)
    if len(files) > INPUTS:
        raise RecordError(f"these are {len(files):,} files", f"at most {INPUTS:,} at once", file=os.fspath(paths[0]))
    places: set[str] = set()
    for file in files:
        place = file if ADDRESS in file else os.path.realpath(file)
        if place in places:
            raise RecordError("the file is given twice", "each file once", file=file)
        places.add(place)
    return tuple(files)


def title_of(files: Iterable[str]) -> str:
    """Return a short name of a stream.

    >>> title_of(["-"]), title_of(["logs/clicks.csv"]), title_of(["a.csv", "b.csv", "c.csv"])
    ('standard input', 'clicks.csv', 'a.csv and 2 more')
    """
    first, *more = files
    name = "standard input" if first == STANDARD_STREAM else os.path.basename(first)
    return f"{name} and {len(more):,} more" if more else name


def is_among(file: str | os.PathLike[str], files: Iterable[str]) -> bool:
    """Return whether a name refers to one of these files."""
    return any(same_file(file, other) for other in files)


def lock(file: Any) -> None:
    """Lock an open file until it is closed.

    Raises
    ------
    BlockingIOError
        If another process, or another opened file, has locked it.
    OSError
        If the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except PermissionError as error:  # of a file that is locked
            raise BlockingIOError(*error.args) from None
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def can_be_read_twice(file: str) -> bool:
    """Return whether a source is a file or an object in a store, and no pipe."""
    return ADDRESS in file or (file != STANDARD_STREAM and os.path.isfile(file))


def _files_of(name: str) -> list[str]:
    if name == STANDARD_STREAM or ADDRESS in name or os.path.isfile(name):
        return [name]
    if os.path.isdir(name):
        return _files_in(name)
    if os.path.exists(name):  # a pipe or a device
        return [name]
    matches = sorted(glob.glob(name, recursive=True), key=_order)
    if not matches:
        reason = "no file matches" if glob.has_magic(name) else "cannot be read: No such file or directory"
        raise RecordError(reason, file=name)
    return [file for match in matches for file in (_files_in(match) if os.path.isdir(match) else [match])]


def _files_in(folder: str) -> list[str]:
    """Return the files of a folder and of its folders that have a known ending, sorted by their paths."""
    paths = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        paths += [os.path.join(place, name) for name in files if name[0] not in "._" and has_known_ending(name)]
    if not paths:
        raise RecordError("no file in this folder has an ending that is known", ENDINGS_ALLOWED, file=folder)
    return sorted(paths, key=_order)


def _order(path: str) -> tuple[str, ...]:
    """Return the parts of a path, by which files are sorted."""
    return PurePath(path).parts
