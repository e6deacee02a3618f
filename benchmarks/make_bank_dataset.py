"""Make `streamcal/datasets/bank.csv.gz` from the UCI file `bank-additional-full`.

    python benchmarks/make_bank_dataset.py /path/to/bank_additional_full.csv.gz
    STREAMCAL_DATA=/path/to python benchmarks/make_bank_dataset.py

The source is a comma-separated CSV with one header row, gzipped. The only change is that the column `duration` is left
out, since the length of a call is known only after it and nearly determines its outcome. The rows keep their order,
which is the order of their dates. Two runs write the same bytes: the gzip header has no time and no name.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
from pathlib import Path

SOURCE_NAME = "bank_additional_full.csv.gz"
LEAKING_COLUMN = "duration"
ROWS = 41_188
POSITIVES = 4_640
TARGET = Path(__file__).resolve().parent.parent / "streamcal" / "datasets" / "bank.csv.gz"


def without_duration(source: Path) -> bytes:
    """Return the source as CSV text without the leaking column, checked against the published counts."""
    with gzip.open(source, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    leak = header.index(LEAKING_COLUMN)
    positives = sum(row[-1] == "yes" for row in rows)
    if (len(rows), positives, header[-1]) != (ROWS, POSITIVES, "y"):
        raise SystemExit(f"{source}: {len(rows)} rows, {positives} positive; expected {ROWS} and {POSITIVES}")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(row[:leak] + row[leak + 1 :] for row in [header, *rows])
    return text.getvalue().encode("utf-8")


def main() -> None:
    """Write the compressed data set without the leaking column."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    default = Path(os.environ.get("STREAMCAL_DATA", ".")) / SOURCE_NAME
    parser.add_argument("source", nargs="?", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--target", type=Path, default=TARGET)
    arguments = parser.parse_args()
    packed = gzip.compress(without_duration(arguments.source), compresslevel=9, mtime=0)
    arguments.target.write_bytes(packed)
    print(f"{arguments.target}: {ROWS} rows, {len(packed)} bytes")


if __name__ == "__main__":
    main()
