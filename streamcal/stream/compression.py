"""Compressed files: gzip and bzip2 by Python's own modules, Zstandard and LZ4 by Arrow."""

from __future__ import annotations

import bz2
import gzip
from typing import Any, BinaryIO, Literal, cast

from streamcal.stream.arrow import pyarrow

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
            given = b""
            if self._stream.eof:
                given = self._stream.unused_data.lstrip(b"\0")
                while not given:
                    block = self._read(BLOCK)
                    if not block:
                        return b""
                    given = block.lstrip(b"\0")
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input:
                given = self._read(BLOCK)
                if not given:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            try:
                found = self._stream.decompress(given, size)
            except OSError as error:
                raise EOFError(str(error)) from None
            if found:
                return found

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
