"""Run the race of every entrant on every stream; each result is written at once, so that a race can resume."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.streams.catalogue import CATALOGUE, Stream, cache, file_name, stream
from benchmarks.streams.entrants import Entrant, entrants
from benchmarks.streams.tables import Array
from streamcal.metrics.cells import Forecasts
from streamcal.stream.comparing import Standing

#: Name of the probabilities that nobody could beat, where the world is known. They do not race.
ORACLE = "oracle"


class Key(NamedTuple):
    """The identity of one result."""

    stream: str
    delay: int
    entrant: str


Result = dict[str, Any]


class Results:
    """The results of races over the first `rows` rows (all if None): a file of one line each, and the predictions."""

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows
        self._folder = cache() / ("results" if rows is None else f"results-rows{rows}")
        self._path = self._folder / "results.jsonl"
        self.found: dict[Key, Result] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                result = json.loads(line)
                self.found[Key(result["stream"], result["delay"], result["entrant"])] = result

    def add(self, key: Key, result: Result, predicted: Array) -> None:
        """Write a result, and keep what was predicted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        np.save(self._predictions(key), predicted)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(key._asdict() | result) + "\n")
        self.found[key] = key._asdict() | result

    def predicted(self, key: Key) -> Array:
        """Return the entrant's predictions."""
        return np.asarray(np.load(self._predictions(key)))

    def _predictions(self, key: Key) -> Path:
        return self._folder / f"{file_name(key.stream, key.delay, key.entrant.replace(' ', '_'))}.npy"


def race(streams: Iterable[str], chosen: Iterable[str] | None, results: Results, again: Iterable[str] = ()) -> None:
    """Run everything without a result, and the entrants in `again` anew."""
    racing = entrants()
    run = [name for name in racing if chosen is None or name in chosen]
    for name in streams:
        for delay in CATALOGUE[name].delays:
            keys = [Key(name, delay, entrant) for entrant in run]
            missing = [key for key in keys if key not in results.found or key.entrant in again]
            if missing:
                _run(missing, racing, stream(name, delay, results.rows), results)


def _run(keys: list[Key], racing: dict[str, Entrant], data: Stream, results: Results) -> None:
    """Entrants on one stream, and its oracle."""
    name, delay, _ = keys[0]
    start, rows = time.perf_counter(), len(data.y)
    if data.oracle is not None and Key(name, delay, ORACLE) not in results.found:
        results.add(Key(name, delay, ORACLE), measures(data.oracle, data), data.oracle)
    for number, key in enumerate(keys, 1):
        predicted = racing[key.entrant].predicted(data, delay)
        if predicted is not None:
            results.add(key, measures(predicted, data), predicted)
        print(f"\r{name}, delay {delay}: {number} of {len(keys)}, {key.entrant}".ljust(100), end="", flush=True)
    print(f"\r{name}, delay {delay}: {rows:,} rows, {time.perf_counter() - start:.0f} s".ljust(100), flush=True)


def measures(predicted: Array, data: Stream) -> Result:
    """Return the measures of one entrant on one stream: those of `streamcal.compare`."""
    found = Standing(name="", shown="")
    found.add(Forecasts.of(predicted, data.y.astype(np.float64), np.ones(len(data.y))))
    return {
        "rows": len(data.y),
        "positives": int(data.y.sum()),
        "log_loss": found.log_loss.get(),
        "infinite": found.log_loss.infinite,
        "brier": found.brier.get(),
        "ece": found.debiased_ece.get(),
        "floor": found.debiased_ece.floor,
        "ratio": found.ratio.get(),
    }
