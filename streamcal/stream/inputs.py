"""The files that names of inputs stand for: several files, globs and folders are read as one stream."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterable, Sequence
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

from streamcal.stream.formats import ADDRESS, ENDINGS_ALLOWED, STANDARD_STREAM, has_known_ending, same_file
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError

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
    given = [names] if isinstance(names, (str, os.PathLike)) else list(names)
    files = [file for name in given for file in _files_of(os.fspath(name))]
    if not files:
        raise RecordError("there is no input", "the name of a file")
    if len(files) > 1 and STANDARD_STREAM in files:
        raise RecordError("standard input is read alone", "one input, or files without it", file=STANDARD_STREAM)
    if len(files) > INPUTS:
        raise RecordError(f"these are {len(files):,} files", f"at most {INPUTS:,} at once", file=os.fspath(given[0]))
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
    return any(same_file(file, one) for one in files)


def readers_of(files: Iterable[str], used: Sequence[str], **reading: Any) -> Generator[RecordReader]:
    """Yield a reader of each file that has the columns in use, open until the next one is asked for."""
    for file in files:
        with RecordReader(file, **reading) as reader:
            reader.require(*used)
            yield reader


def check_alike(files: Sequence[str], used: Sequence[str], *, outputs: bool, **reading: Any) -> None:
    """Raise `RecordError`, before anything is learned, where a later file does not go with the first one.

    All have to be of one format and have the columns in use; for an output, all columns in the order of the first,
    but for lines of JSON. Pipes are not looked at.
    """
    if len(files) == 1 or not all(map(can_be_read_twice, files)):
        return
    first: RecordReader | None = None
    for reader in readers_of(files, used, **{**reading, "on_bad_row": lambda _: None}):  # reported when they are read
        if first is None:
            first = reader
        if reader.kind.format != first.kind.format:
            reason = f"the format is {reader.kind.format}, and that of {first.path} is {first.kind.format}"
            raise RecordError(reason, "files of one format", file=reader.path)
        if outputs and reader.kind.format != "jsonl" and reader.names != first.names:
            found, wanted = next(pair for pair in zip_longest(reader.names, first.names) if pair[0] != pair[1])
            there = "no column" if found is None else repr(found)
            reason = f"it has {there} where {first.path} has {'none' if wanted is None else repr(wanted)}"
            raise RecordError(reason, "for an output, the same columns in the same order", file=reader.path)


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
    found = sorted(glob.glob(name, recursive=True), key=_order)
    if not found:
        reason = "no file matches" if glob.has_magic(name) else "cannot be read: No such file or directory"
        raise RecordError(reason, file=name)
    return [file for one in found for file in (_files_in(one) if os.path.isdir(one) else [one])]


def _files_in(folder: str) -> list[str]:
    """Return the files of a folder and of its folders that have a known ending, sorted by their paths."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one[0] not in "._"]
        found += [os.path.join(place, one) for one in files if one[0] not in "._" and has_known_ending(one)]
    if not found:
        raise RecordError("no file in this folder has an ending that is known", ENDINGS_ALLOWED, file=folder)
    return sorted(found, key=_order)


def _order(path: str) -> tuple[str, ...]:
    """Return the parts of a path, by which files are sorted."""
    return PurePath(path).parts
