"""The streams by name: which are for development, how each is made, and where its scores are cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.streams.bases import clipped, frozen, frozen_tree, online, train_size
from benchmarks.streams.tables import Array, Flags, served, table
from streamcal.datasets.synthetic import generate

#: To be raised when bases, tables or generators change: what is in the cache is then made anew.
VERSION = "1"
DELAYS = (0, 48)
SEED = 0
#: How often each generated stream is drawn for the gap it leaves: once, with `SEED`, for the race, and then anew.
DRAWS = 10


class Stream(NamedTuple):
    """Scores and labels in order; the oracle's probabilities for generated streams."""

    scores: Array
    y: Flags
    oracle: Array | None = None


class Entry(NamedTuple):
    """A stream that can be made: `make(delay, rows)`, `rows` of it or all."""

    development: bool
    make: Callable[[int, int | None], Stream]
    #: Whether the scores depend on the delay: those of an online base do.
    learns: bool = False
    generated: bool = False
    #: 0 for what races. The others are drawn anew by the same generator, for the gap alone.
    draw: int = 0


def _frozen(name: str) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        train = train_size(name)
        data = table(name, None if rows is None else train + rows)
        base = frozen_tree if name == "elec2" else frozen
        return Stream(clipped(base(data, train)), data.y[train:])

    return make


def _online(name: str) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        train = train_size(name)
        data = table(name, None if rows is None else train + rows)
        return Stream(clipped(online(data, train, delay)), data.y[train:])

    return make


def _served(file: str) -> Callable[[int, int | None], Stream]:
    return lambda delay, rows: Stream(*served(file, rows))


def _generated(setting: str, draw: int) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        made = generate(setting, SEED + draw)
        return Stream(made.scores[:rows], made.y[:rows], made.oracle[:rows])

    return make


def draws(setting: str) -> list[str]:
    """The names of all draws of a generated stream, starting with the one of the race."""
    return [setting, *(f"{setting} draw {draw}" for draw in range(1, DRAWS))]


#: The split: see README.md. It was fixed before the first experiment.
DEVELOPMENT = ("elec2", "bank_full", "adult", "covtype")
HELD_OUT = ("bank_additional", "spambase", "census", "dota2", "coil2000")
SERVED_HELD_OUT = {"ipinyou_2997": "ipinyou_2997_test", "ipinyou_1458": "ipinyou_1458_stream"}
GENERATED_DEVELOPMENT = (
    *("cov-1d", "reg-10d-30", "reg-10d-90", "cov-10d-60", "cov-10d-180", "lab-10d-0.6", "lab-10d-0.9"),
    *("abrupt", "warp", "clicks-0.005"),
)
GENERATED_HELD_OUT = (
    *("lab-1d", "reg-1d", "reg-10d-0", "reg-10d-60", "cov-10d-0", "cov-10d-120", "lab-10d-0.5", "lab-10d-0.7"),
    *("recurring", "clicks-0.0005", "clicks-0.05"),
)

CATALOGUE: dict[str, Entry] = {
    **{f"{name} frozen": Entry(name in DEVELOPMENT, _frozen(name)) for name in DEVELOPMENT + HELD_OUT},
    **{f"{name} online": Entry(name in DEVELOPMENT, _online(name), learns=True) for name in DEVELOPMENT + HELD_OUT},
    **{f"{name} served": Entry(False, _served(file)) for name, file in SERVED_HELD_OUT.items()},
    **{
        drawn: Entry(name in GENERATED_DEVELOPMENT, _generated(name, draw), generated=True, draw=draw)
        for name in GENERATED_DEVELOPMENT + GENERATED_HELD_OUT
        for draw, drawn in enumerate(draws(name))
    },
}


def names(development: bool) -> list[str]:
    """The streams of one side of the split, as they race."""
    return [name for name, entry in CATALOGUE.items() if entry.development == development and entry.draw == 0]


def cache() -> Path:
    """The folder of cached scores and predictions."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "streamcal", "race", VERSION)


def file_name(stream: str, *parts: Any) -> str:
    """A name for a file of a stream."""
    return "-".join(map(str, (stream.replace(" ", "_"), *parts)))


def stream(name: str, delay: int, rows: int | None = None) -> Stream:
    """A stream whose labels are `delay` steps late: from the cache, or made and put there."""
    entry = CATALOGUE[name]
    parts = [f"delay{delay}"] * entry.learns + [f"rows{rows}"] * (rows is not None)
    path = cache() / "scores" / f"{file_name(name, *parts)}.npz"
    if not path.exists():
        made = entry.make(delay, rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {"scores": made.scores, "y": made.y}
        np.savez_compressed(path, **(held if made.oracle is None else {**held, "oracle": made.oracle}))
    with np.load(path) as kept:
        return Stream(kept["scores"], kept["y"], kept.get("oracle"))
