"""`streamcal run` on whole files, beside Arrow reading them, adding a column and writing them; and what it imports.

The file is the iPinYou stream of `STREAMCAL_DATA`, repeated, or where that is not given one with the same columns.
"""

from __future__ import annotations

import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.plan import Plan

SOURCE = "ipinyou_2997_test.csv.gz"
#: What Arrow does alone, on one core and batch by batch; the numbers that are added are made before the clock runs.
ARROW = """
import sys, time
import numpy as np, pyarrow as pa, pyarrow.csv as csv, pyarrow.parquet as parquet
source, target, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
added, at, writer = pa.array(np.random.default_rng(1).random(rows) * 0.01), 0, None
start = time.process_time(), time.perf_counter()
if source.endswith(".csv"):
    batches = csv.open_csv(source, csv.ReadOptions(use_threads=False))
else:
    batches = parquet.ParquetFile(source).iter_batches(use_threads=False)
for batch in batches:
    batch = batch.append_column("calibrated", added.slice(at, len(batch)))
    at += len(batch)
    if writer is None:
        writer = (csv.CSVWriter if target.endswith(".csv") else parquet.ParquetWriter)(target, batch.schema)
    (writer.write if target.endswith(".csv") else writer.write_batch)(batch)
writer.close()
print(time.process_time() - start[0], time.perf_counter() - start[1])
"""


#: What a run of `online-platt` on CSV may take, as a multiple of Arrow; the others are measured against that.
ALLOWED = 2.0


class Subject(NamedTuple):
    """A run: what it costs at most, as a multiple of Arrow, or in microseconds a row above `ALLOWED` times Arrow.

    Without either there is no target.
    """

    format: str
    options: tuple[str, ...]
    times: float | None = None
    above: float | None = None
    #: Of how many rows it reads one: slow methods read fewer.
    one_in: int = 1
    #: The format that it writes, where that is another.
    to: str | None = None


SUBJECTS = [
    Subject("csv", ("--method", "online-platt"), times=ALLOWED),
    Subject("parquet", ("--method", "online-platt"), times=4.0),
    Subject("csv", ("--method", "venn-abers", "--window", "50000"), above=4.0, one_in=5),
    Subject("csv", ("--method", "auto"), above=10.0, one_in=50),
    Subject("csv", ("--method", "online-platt"), one_in=20, to="parquet"),
    Subject("parquet", ("--method", "online-platt"), one_in=20, to="csv"),
]


class Taken(NamedTuple):
    """Seconds."""

    processor: float
    wall: float


def runs(plan: Plan) -> dict[str, Any]:
    """Processor seconds of each run and of Arrow, the least of the rounds in which they take turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [_measured(one, folder, plan) for one in SUBJECTS]
        small = _file(folder, "csv", 10)
        starts = [
            _taken(_command(small, folder / "out.csv", ("--method", "online-platt"))) for _ in range(plan.start_rounds)
        ]
        imports = _imports(_command(small, folder / "out.csv", ("--method", "online-platt")))
    start = min(taken.processor for taken in starts)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "source": "iPinYou, repeated" if _ipinyou() else "synthetic",
        "rows": rows,
        "start": start,
        "imports": imports,
    }


def _measured(subject: Subject, folder: Path, plan: Plan) -> dict[str, Any]:
    count = plan.run_rows // subject.one_in
    source = _file(folder, subject.format, count)
    target = folder / f"out.{subject.to or subject.format}"
    ours, arrow = [], []
    for _ in range(plan.run_rounds):
        ours.append(_taken(_command(source, target, subject.options)))
        done = subprocess.run(
            [sys.executable, "-c", ARROW, str(source), str(target), str(count)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        arrow.append(Taken(*map(float, done.stdout.split())))
    source.unlink()
    target.unlink()
    run, alone = min(ours), min(arrow)
    return {
        "format": f"{subject.format} to {subject.to}" if subject.to else subject.format,
        "options": " ".join(subject.options), "count": count,
        "processor": run.processor, "wall": run.wall, "arrow": alone.processor,
        "times": subject.times, "above": subject.above,
    }  # fmt: skip


def _command(source: Path, target: Path, options: tuple[str, ...]) -> list[str]:
    named = ["--score", "pctr", "--label", "click", "--out", str(target)]
    return [sys.executable, "-m", "streamcal", "run", str(source), *named, *options]


def _taken(command: list[str]) -> Taken:
    """Return the time of a process, including its start."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def _imports(command: list[str]) -> dict[str, float]:
    """Milliseconds of importing by package, as `python -X importtime` has them, those above a millisecond."""
    done = subprocess.run([command[0], "-X", "importtime", *command[1:]], capture_output=True, text=True, check=True)
    found: Counter[str] = Counter()
    for micros, module in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", done.stderr, re.MULTILINE):
        package = module.partition(".")[0]
        found["Python" if package.lstrip("_") in sys.stdlib_module_names or package[0] == "_" else package] += int(
            micros
        )
    return {package: micros / 1_000 for package, micros in found.most_common() if micros > 1_000}


def _ipinyou() -> Path | None:
    path = Path(os.environ.get("STREAMCAL_DATA", "."), SOURCE)
    return path if path.exists() else None


def _file(folder: Path, format: str, rows: int) -> Path:
    """Write a file with `rows` rows of click, market_price and pctr, and return its path."""
    source = _ipinyou()
    header, lines = _lines(source) if source else _synthetic()
    content = header + b"\n" + b"\n".join((lines * (rows // len(lines) + 1))[:rows]) + b"\n"
    path = folder / "in.csv"
    path.write_bytes(content)
    if format == "csv":
        return path
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(path), folder / "in.parquet")
    return folder / "in.parquet"


def _lines(source: Path) -> tuple[bytes, list[bytes]]:
    header, *lines = gzip.decompress(source.read_bytes()).splitlines()
    return header, lines


def _synthetic() -> tuple[bytes, list[bytes]]:
    draw = np.random.default_rng(1)
    p = draw.beta(1.0, 200.0, 100_000)
    columns = (draw.random(len(p)) < p, draw.integers(0, 300, len(p)), p)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return b"click,market_price,pctr", [f"{int(y)},{price},{score}".encode() for y, price, score in rows]
