"""Compressed files: gzip, bzip2 and, where a module for it is there, Zstandard."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, Literal, cast

from streamcal.stream.records import RecordError

Compression = Literal["gzip", "bzip2", "Zstandard"]
#: The compression by the last ending of a name.
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard"}
#: What a gzip file begins with.
GZIP_MAGIC = b"\x1f\x8b"
#: Bytes of a Zstandard file taken at a time; they can become some hundred times as many.
ZSTANDARD_BLOCK = 1 << 14


def opened_to_read(raw: BinaryIO, compression: Compression, file: str) -> BinaryIO:
    """What is compressed in `raw`, as a file; `read1` raises `EOFError`, `OSError` or `zlib.error` where it is damaged.

    Raises
    ------
    RecordError
        Where no module for Zstandard is installed; it names `file`.
    """
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if compression == "bzip2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    return cast(BinaryIO, _ZstandardReader(raw, file))


def opened_to_write(raw: BinaryIO, compression: Compression, file: str) -> BinaryIO:
    """A file that writes to `raw`, compressed; the same bytes for the same content. `RecordError` as above."""
    if compression == "gzip":  # mtime=0: the same rows give the same bytes
        return cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
    if compression == "bzip2":
        return cast(BinaryIO, bz2.BZ2File(raw, "wb"))
    module = _zstandard(file)
    if hasattr(module, "ZstdFile"):
        return cast(BinaryIO, module.ZstdFile(raw, "wb"))
    return cast(BinaryIO, module.ZstdCompressor().stream_writer(raw, closefd=False))


class _ZstandardReader:
    """As much of a binary file as `RecordReader` needs. Unlike the streams of `zstandard` it misses a lost end."""

    def __init__(self, raw: BinaryIO, file: str) -> None:
        module = _zstandard(file)
        self._raw = raw
        self._error = module.ZstdError
        #: The decompressors of both modules have `decompress`, `eof` and `unused_data`.
        self._new: Callable[[], Any] = module.ZstdDecompressor
        if not hasattr(module, "ZstdFile"):
            self._new = lambda: module.ZstdDecompressor().decompressobj()
        self._frame: Any = None

    def read1(self, _: int = -1) -> bytes:
        """The next bytes, as many as come from a block; none at the end."""
        while block := self._raw.read(ZSTANDARD_BLOCK):
            if content := self._decompressed(block):
                return content
        if self._frame is not None and not self._frame.eof:
            raise EOFError("the file ends before its last frame does")
        return b""

    def __enter__(self) -> _ZstandardReader:
        return self

    def __exit__(self, *_: object) -> None:
        """The file below is closed by who opened it."""

    def _decompressed(self, block: bytes) -> bytes:
        content = b""
        try:
            while block:
                if self._frame is None or self._frame.eof:
                    self._frame = self._new()
                content += self._frame.decompress(block)
                block = self._frame.unused_data if self._frame.eof else b""
        except self._error as error:
            raise EOFError(str(error)) from None
        return content


def _zstandard(file: str) -> Any:
    """Python's own module (3.14 or later) or `zstandard`; `RecordError` where there is neither."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return import_module(name)
        except ImportError:
            pass
    raise RecordError(".zst needs Python 3.14 or zstandard; install it with: pip install zstandard", file=file)
