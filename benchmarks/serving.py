"""How many requests `streamcal serve` answers, and how fast; whether its memory stays flat.

    python -m benchmarks.serving                  # about two minutes; writes the table in docs/serving_measured.md
    python -m benchmarks.serving --seconds 2      # shortened, prints only
    python -m benchmarks.serving --snapshots 15   # latencies while a snapshot is made; prints them
    python -m benchmarks.serving --soak 60        # minutes of impressions and outcomes; prints the memory

Clients are processes on the same machine, so that they and the server share its cores. The processor time of the server
alone, from the operating system, does not depend on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import io
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.processes import MB, resident

PAGE = Path(__file__).resolve().parents[1] / "docs" / "serving_measured.md"
MARKS = r"(?<=<!-- load -->\n).*?(?=<!-- end of load -->)"
SECONDS, PROCESSES = 5.0, 2
#: Options of the server, by what the table calls it.
JOURNALS = {
    "on disk before the answer": (),
    "impressions answered before": ("--issue-durability", "memory"),
    "no journal": ("--memory",),
}


class Load(NamedTuple):
    """What the clients ask: items of a request (1: the single form), connections of each process, and the form."""

    items: int
    connections: int
    arrow: bool = False


LOADS = (Load(100, 1), Load(100, 4), Load(1_000, 4, arrow=True), Load(1, 16))
ARROW = "application/vnd.apache.arrow.stream"


class Measured(NamedTuple):
    """Impressions a second, milliseconds of a request, and microseconds of the server's processor time for one."""

    rate: float
    half: float
    most: float
    processor: float


@contextmanager
def server(folder: str, *options: str) -> Iterator[tuple[int, int]]:
    """Run a server in its own process; yield its process id and port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    journal = () if "--memory" in options else ("--journal", str(Path(folder, f"{port}.journal")))
    command = [sys.executable, "-P", "-m", "streamcal", "serve", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen([*command, *journal, *options])
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                time.sleep(0.05)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait() != 0:
            raise RuntimeError("the server did not stop as it should")


def request(path: str, content: str | bytes, kind: str = "application/json") -> bytes:
    """Return the bytes of a POST request, whose answer is of the same kind."""
    body = content.encode() if isinstance(content, str) else content
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nAccept: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def streamed(name: str, first: int, scores: list[float]) -> bytes:
    """Return impressions as a stream of Arrow."""
    numbers = range(first, first + len(scores))
    keys = pa.StructArray.from_arrays([pa.array([number % 50 for number in numbers])], ["campaign"])
    table, sink = pa.table({"id": [f"{name}-{k}" for k in numbers], "score": scores, "keys": keys}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> bytes:
    """Send a request and read its answer."""
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
    return await reader.readexactly(length)


async def client(port: int, name: str, load: Load, until: float, most: float = math.inf) -> list[float]:
    """Ask until a time, or this many times; return the seconds of each request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    rng, taken, number = random.Random(name), [], 0
    while time.perf_counter() < until and len(taken) < most:
        scores = [round(rng.random(), 6) for _ in range(load.items)]
        if load.arrow:
            asked = request("/v1/issue/batch", streamed(name, number, scores), ARROW)
        else:
            items = [
                f'{{"id":"{name}-{k}","score":{score},"keys":{{"campaign":{k % 50}}}}}'
                for k, score in enumerate(scores, number)
            ]
            single = load.items == 1
            asked = request("/v1/issue", items[0]) if single else request("/v1/issue/batch", f"[{','.join(items)}]")
        number += load.items
        start = time.perf_counter()
        await exchange(reader, writer, asked)
        taken.append(time.perf_counter() - start)
    writer.close()
    return taken


def process_of_clients(port: int, name: str, load: Load, until: float) -> list[float]:
    """Run a process of clients; return the seconds of each request."""

    async def all_of_them() -> list[float]:
        names = [f"{name}.{k}" for k in range(load.connections)]
        return list(chain(*await asyncio.gather(*(client(port, one, load, until) for one in names))))

    return asyncio.run(all_of_them())


def asked_by_all(port: int, load: Load, seconds: float, name: str) -> list[float]:
    """Run all processes, whose ids start with this name; return the seconds of each request."""
    until = time.perf_counter() + seconds
    with ProcessPoolExecutor(PROCESSES) as pool:
        asking = [pool.submit(process_of_clients, port, f"{name}{k}", load, until) for k in range(PROCESSES)]
        return list(chain(*(one.result() for one in asking)))


def processor_seconds(pid: int) -> float:
    """Those of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(load: Load, seconds: float, *options: str) -> Measured:
    """Measure a load on a new server."""
    with tempfile.TemporaryDirectory() as folder, server(folder, "--horizon", "1h", *options) as (pid, port):
        asked_by_all(port, load, 1.0, "warm")
        before = processor_seconds(pid)
        taken = asked_by_all(port, load, seconds, "client")
        used = processor_seconds(pid) - before
    impressions = load.items * len(taken)
    half, most = np.quantile(taken, [0.5, 0.99]) * 1e3
    return Measured(impressions / seconds, float(half), float(most), 1e6 * used / impressions)


def table(seconds: float) -> str:
    """Write the table of loads by method and journal."""
    rows = [
        "| method | journal | asked | impressions a second | p50, ms | p99, ms | processor time, µs each |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for method in ("online-platt", "auto"):
        for journal, options in JOURNALS.items():
            for load in LOADS:
                m = measure(load, seconds, "--method", method, *options)
                batches = "one by one" if load.items == 1 else f"lists of {load.items:,}{' in Arrow' * load.arrow}"
                asked = f"{batches}, {PROCESSES * load.connections} connections"
                figures = f"{m.rate:,.0f} | {m.half:.1f} | {m.most:.1f} | {m.processor:.0f}"
                rows.append(f"| `{method}` | {journal} | {asked} | {figures} |")
                print(rows[-1], flush=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    today = datetime.date.today()
    rows.append(f"\n{today}, {os.cpu_count()} cores for server and clients, load averages {load} at the end.\n")
    return "\n".join(rows)


# -- while snapshots are made --------------------------------------------------------------------------------------

#: Forecasts held, and events after which a snapshot is made: one in the time measured.
HELD, EVERY = 200_000, 220_000
#: Requests of batches of 100 a second, and of single impressions.
PACES = {100: 20.0, 1: 50.0}


async def paced(port: int, items: int, seconds: float) -> list[tuple[float, float]]:
    """Send requests at a steady pace, answered or not; return when each was due, and its seconds."""
    start, taken, asked = time.perf_counter(), [], []

    async def one(number: int, due: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ids = [f'{{"id":"{items}-{number}-{k}","score":0.{k + 1:03}}}' for k in range(items)]
        path, content = ("/v1/issue", ids[0]) if items == 1 else ("/v1/issue/batch", f"[{','.join(ids)}]")
        await exchange(reader, writer, request(path, content))
        writer.close()
        taken.append((due, time.perf_counter() - due))

    for number in range(int(seconds * PACES[items])):
        due = start + number / PACES[items]
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        asked.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*asked)
    return taken


def snapshots(seconds: float) -> None:
    """Latencies at a steady pace, in which one snapshot of 200,000 forecasts held is made."""
    for method in ("online-platt", "auto"):
        options = ("--horizon", "1h", "--method", method, "--snapshot-every", str(EVERY))
        with tempfile.TemporaryDirectory() as folder, server(folder, *options) as (pid, port):
            fill = Load(1000, 1)
            asyncio.run(client(port, "fill", fill, math.inf, HELD // fill.items))
            before = resident(pid) / MB

            async def both(port: int = port) -> list[list[tuple[float, float]]]:
                return await asyncio.gather(*(paced(port, items, seconds) for items in PACES))

            latencies, now = asyncio.run(both()), resident(pid) / MB
            for items, taken in zip(PACES, latencies, strict=True):
                print(f"{method}, {items} at once: {told(taken)}; {before:.0f}, now {now:.0f} MB", flush=True)


def told(taken: list[tuple[float, float]]) -> str:
    """Quantiles of latencies; also of the second with the worst of them."""
    due, latency = np.array(taken).T
    half, most = np.quantile(latency, [0.5, 0.99]) * 1e3
    worst = due[latency.argmax()]
    near = np.quantile(latency[abs(due - worst) < 0.5], 0.99) * 1e3
    longest = 1e3 * latency.max()
    return f"p50 {half:.1f}, p99 {most:.1f}, p99 of the worst second {near:.1f}, longest {longest:.1f} ms"


# -- memory over a long time ---------------------------------------------------------------------------------------


async def traffic(port: int, seconds: float, told: list[int]) -> None:
    """Batches of impressions of ever new ids and levels, and outcomes of a tenth of them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    until, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        ids = range(number, number + 100)
        issue = [{"id": f"i{k}", "score": k % 97 / 97, "keys": {"campaign": k // 500}} for k in ids]
        await exchange(reader, writer, request("/v1/issue/batch", json.dumps(issue)))
        outcome = [{"id": f"i{k}", "y": k % 97 > 50} for k in ids[::10]]
        await exchange(reader, writer, request("/v1/outcome/batch", json.dumps(outcome)))
        number += 100
        told[0] = number
        await asyncio.sleep(0.005)
    writer.close()


def soak(minutes: float) -> None:
    """Memory and the journal's size while labels are learned 5 seconds after their impressions."""
    options = ("--horizon", "5s", "--method", "online-platt", "--snapshot-every", "100000", "--max-held", "200000")
    with tempfile.TemporaryDirectory() as folder, server(folder, *options) as (pid, port):

        async def watched() -> None:
            told = [0]
            sending = asyncio.create_task(traffic(port, 60.0 * minutes, told))
            start = time.perf_counter()
            while not sending.done():
                await asyncio.wait([sending], timeout=max(2.0 * minutes, 1.0))
                files = sum(path.stat().st_size for path in Path(folder).iterdir())
                minute = (time.perf_counter() - start) / 60
                sizes = f"{resident(pid) / MB:.1f} MB in memory, {files / 2**20:.1f} MB on disk"
                print(f"{minute:6.2f} min  {told[0]:>9,} impressions  {sizes}", flush=True)
            sending.result()

        asyncio.run(watched())


def main() -> None:
    """Run the measurements, and print or write their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="of each row; prints only")
    parser.add_argument("--snapshots", type=float, metavar="SECONDS")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    given = parser.parse_args()
    if given.soak is not None:
        soak(given.soak)
        return
    if given.snapshots is not None:
        snapshots(given.snapshots)
        return
    text = table(given.seconds or SECONDS)
    if given.seconds is None:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(MARKS, lambda _: text, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
