"""Public data that are not part of the package: downloaded once from their publisher, verified, and cached."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from streamcal.errors import StreamcalError
from streamcal.parameters.numbers import one_of
from streamcal.stream.durable import atomic_write

logger = logging.getLogger(__name__)

#: Seconds without a byte before a download is given up.
TIMEOUT = 30.0
#: Bytes between two updates of the progress bar; the largest download has 13 MB.
CHUNK = 1 << 16
#: Bytes that a download, and what is packed in it, may have: five times the largest. A zip file can unpack to a
#: thousand times its size.
LARGEST = 1 << 27
#: Compression level of gzip: 9 makes files little smaller in many times the time.
LEVEL = 6
#: Bytes of an unknown file's header shown in an error.
SHOWN = 300

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    r"""Return the file of a public data set, downloaded from the UCI repository if the file is not there yet.

    Parameters
    ----------
    name : {"adult_train", "adult_test", "bank_full", "cdc_diabetes_brfss2015"}
        The README of this folder has their origin and licences.
    folder : path, optional
        Where to look for the file and to put it. Default: the folder named by the environment variable
        `STREAMCAL_DATA`, then `streamcal` inside `$XDG_CACHE_HOME` or `~/.cache`; a download goes to the first of
        these.

    Returns
    -------
    pathlib.Path
        Of `name.csv.gz`, a text with one header row, commas and `\n`.

    Raises
    ------
    InputError
        For another name.
    StreamcalError
        If the file can be neither found nor made.

    Notes
    -----
    A file that is found is not verified. A download is written atomically, and only if its text has the known sha256.
    Cost: up to 13 MB and some seconds the first time; later a look-up on disk.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "bank_full.csv.gz").touch()  # as if downloaded before
    >>> fetch("bank_full", folder).name
    'bank_full.csv.gz'
    """
    one_of(name, "name", SOURCES)
    places = [Path(folder)] if folder is not None else _default_places()
    for place in places:
        if (place / f"{name}.csv.gz").is_file():
            return place / f"{name}.csv.gz"
    path = places[0] / f"{name}.csv.gz"
    logger.info("downloading %s from %s to %s", name, SOURCES[name].url, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, gzip.compress(_checked(name, _download(name)), LEVEL, mtime=0))
    except (OSError, HTTPException) as error:
        raise StreamcalError(
            f"{path.name} is not in {' or '.join(map(str, places))}, and making it from {SOURCES[name].url} failed "
            f"({error}). Put it into {path.parent} by hand, for example from a machine with a network, where "
            f"streamcal.datasets.fetch({name!r}, '.') writes it; or set STREAMCAL_DATA to the folder that has it."
        ) from error
    return path


def _default_places() -> list[Path]:
    """Return the folders in which data are looked for; downloads go to the first of them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "streamcal")
    data = os.environ.get("STREAMCAL_DATA")
    return [Path(data), cache] if data else [cache]


def _download(name: str) -> bytes:
    """Return the bytes at the source's address, with a progress bar if standard error is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with (
        urlopen(SOURCES[name].url, timeout=TIMEOUT) as response,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        length = response.headers["Content-Length"]
        task = bar.add_task(name, total=None if length is None else int(length))
        content = bytearray()
        while chunk := response.read(CHUNK):
            content += chunk
            _refuse_above(len(content), name)
            bar.advance(task, len(chunk))
    return bytes(content)


def _checked(name: str, content: bytes) -> bytes:
    """Return the text of the file made from a download; raise `StreamcalError` if it is not the known text."""
    source = SOURCES[name]
    try:
        for member in source.members:
            with zipfile.ZipFile(io.BytesIO(content)).open(member) as packed:
                content = packed.read(LARGEST + 1)
            _refuse_above(len(content), name)
        text = _as_csv(source.rows(content.decode("utf-8")))
    except (zipfile.BadZipFile, zlib.error, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise StreamcalError(f"what {source.url} gives is not {name}: {error}") from error
    digest = hashlib.sha256(text).hexdigest()
    if digest != source.sha256:
        rows, header = text.count(b"\n") - 1, text.partition(b"\n")[0][:SHOWN].decode("utf-8", "replace")
        raise StreamcalError(
            f"what {source.url} gives is not the {name} that is known: {rows:,} rows under the header {header!r}, "
            f"sha256 {digest} instead of {source.sha256}"
        )
    return text


def _refuse_above(size: int, name: str) -> None:
    """Raise `StreamcalError` for more than `LARGEST` bytes."""
    if size > LARGEST:
        raise StreamcalError(f"what {SOURCES[name].url} gives is not {name}: it has more than {LARGEST:,} bytes")


def _as_csv(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _adult_rows(text: str) -> Iterator[list[str]]:
    """Add the header, and drop blanks after commas, the test file's own first line and its labels' final dots."""
    yield list(ADULT_COLUMNS)
    for row in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True):
        if len(row) == len(ADULT_COLUMNS):
            yield [*row[:-1], row[-1].removesuffix(".")]


def _bank_rows(text: str) -> Iterator[list[str]]:
    """Read semicolons, and words in quotes."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=";")


def _cdc_rows(text: str) -> Iterator[list[str]]:
    """Drop the first column, a row number."""
    return (row[1:] for row in csv.reader(io.StringIO(text, newline="")))


class Source(NamedTuple):
    """The source of a data set: its address, the path through nested zip files, its rows, the sha256 of its text."""

    url: str
    members: tuple[str, ...]
    rows: Callable[[str], Iterator[list[str]]]
    sha256: str


SOURCES = {
    "adult_train": Source(
        "https://archive.ics.uci.edu/static/public/2/adult.zip",
        ("adult.data",),
        _adult_rows,
        "3b8a6abd697a6623ef2ccbffc3e2802e167e7fdaa853003d3bd557b0ce7f5d2a",
    ),
    "adult_test": Source(
        "https://archive.ics.uci.edu/static/public/2/adult.zip",
        ("adult.test",),
        _adult_rows,
        "eb6e9f02496bed4137b1a069b8af64b90eb534ba46143948667034dddef9abd9",
    ),
    "bank_full": Source(
        "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        ("bank.zip", "bank-full.csv"),
        _bank_rows,
        "b44507c26634736d4a0619ec2d7c4b6ff56a2c63cbeb5176d3134e7b25e416f0",
    ),
    "cdc_diabetes_brfss2015": Source(
        "https://archive.ics.uci.edu/static/public/891/data.csv",
        (),
        _cdc_rows,
        "95213aea77507410829efed404c82cbb554f437c3af478fb73e0d7da975332ff",
    ),
}
