"""Reading a whole file of records, for the tests of reading and of writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamcal.stream.reading import BATCH_ROWS, RecordReader


def read(path: Path | str, **options: Any) -> tuple[list[int], list[dict[str, Any]]]:
    numbers, rows = [], []
    with RecordReader(path, **options) as reader:
        for chunk in reader:
            assert len(chunk.numbers) == len(chunk.rows) <= options.get("batch_rows", BATCH_ROWS)
            numbers += chunk.numbers.tolist()
            rows += chunk.rows
    return numbers, rows
