"""File formats by file name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from streamcal.names import did_you_mean
from streamcal.stream.compression import COMPRESSIONS, Compression
from streamcal.stream.records import RecordError

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
        found = format or ("csv" if name == STANDARD_STREAM else _ENDINGS.get(ending.lower()))
        if found is None:
            raise RecordError("the ending of the name says no format that is known", ENDINGS_ALLOWED, file=name)
        if found == "parquet" and name == STANDARD_STREAM:
            reason = "Parquet has its index at the end, and cannot be read from a pipe or written to one"
            raise RecordError(reason, "the name of a file, or Arrow, CSV or JSON Lines in the pipe", file=name)
        if found == "parquet" and compression:
            raise RecordError("Parquet cannot be read or written here", "a file without .gz", file=name)
        if found == "arrow" and compression:
            raise RecordError("Arrow cannot be read or written here", "a file without .gz", file=name)
        tabs = found == "csv" and ending.lower() == ".tsv"
        return cls(cast(Format, found), compression, "\t" if tabs else None)

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


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two names refer to the same file (devices excluded), links resolved, existing or not.

    Examples
    --------
    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv"), same_file("/dev/null", "/dev/null")
    (True, False, False)
    """
    one, other = (os.fspath(name).removeprefix("file://") for name in (one, other))
    if Path(one).exists() and Path(other).exists():
        return Path(one).is_file() and os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
