"""The streams by name: which are for development, how each is made, and where its scores are cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.streams import further, packaged
from benchmarks.streams.bases import clipped, frozen, frozen_tree, naive_bayes, network, online, train_size
from benchmarks.streams.tables import Array, Flags, Table, served, table
from streamcal.datasets.synthetic import generate

#: To be raised when bases, tables or generators change: what is in the cache is then made anew.
VERSION = "1"
DELAYS = (0, 48, 1_000)
SEED = 0
#: How often each generated stream is drawn for the gap it leaves: once, with `SEED`, for the race, and then anew.
DRAWS = 10


class Stream(NamedTuple):
    """Scores and labels in order, with the oracle's probabilities for generated streams.

    `t` has times in seconds, if there are any; `lateness` has how late each label is, if that varies.
    """

    scores: Array
    y: Flags
    oracle: Array | None = None
    t: Array | None = None
    lateness: Array | None = None


class Entry(NamedTuple):
    """A stream that can be made: `make(delay, rows)`, `rows` of it or all."""

    development: bool
    make: Callable[[int, int | None], Stream]
    #: Whether the scores depend on the delay: those of an online base do.
    learns: bool = False
    generated: bool = False
    #: 0 for what races. The others are drawn anew by the same generator, for the gap alone.
    draw: int = 0
    #: Whether it belongs to the further streams, which have a race of their own.
    further: bool = False
    #: The same for the tables of packages, whose development streams are those to choose by.
    packaged: bool = False
    delays: tuple[int, ...] = DELAYS


def _frozen(name: str, base: Callable[[Table, int], Array] | None = None) -> Callable[[int, int | None], Stream]:
    base = base or (frozen_tree if name == "elec2" else frozen)

    def make(delay: int, rows: int | None) -> Stream:
        train = train_size(name)
        data = table(name, None if rows is None else train + rows)
        return Stream(clipped(base(data, train)), data.y[train:])

    return make


def _random(name: str) -> Callable[[int, int | None], Stream]:
    """Return a maker of a stream whose labels are late by a random number of steps with this mean."""

    def make(delay: int, rows: int | None) -> Stream:
        made = stream(name, delay, rows)
        return made._replace(lateness=further.lateness(len(made.y), delay))

    return make


def _made(generator: Callable[..., further.Made], *given: float) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        made = generator(*given)
        return Stream(*(None if column is None else column[:rows] for column in made))

    return make


def _online(name: str) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        train = train_size(name)
        data = table(name, None if rows is None else train + rows)
        return Stream(clipped(online(data, train, delay)), data.y[train:])

    return make


def _served(file: str) -> Callable[[int, int | None], Stream]:
    return lambda delay, rows: Stream(*served(file, rows))


def _packaged(name: str) -> Callable[[int, int | None], Stream]:
    return lambda delay, rows: Stream(*packaged.scored(name, delay, rows))


def _generated(setting: str, draw: int) -> Callable[[int, int | None], Stream]:
    def make(delay: int, rows: int | None) -> Stream:
        made = generate(setting, SEED + draw)
        return Stream(made.scores[:rows], made.y[:rows], made.oracle[:rows])

    return make


def draws(setting: str) -> list[str]:
    """Return the names of all draws of a generated stream, starting with that of the race."""
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

#: Further streams, of what the first ones lack: (whether it is for development, how it is made, its delays). A number
#: at the end of a name is the rows in a day.
FURTHER: dict[str, tuple[bool, Callable[[int, int | None], Stream], tuple[int, ...]]] = {
    "wave-48": (True, _made(further.waves, 48, 0.1, 0), DELAYS),
    "wave-480": (True, _made(further.waves, 480, 0.1, 1), DELAYS),
    "leaves": (True, _made(further.leaves, 0.0, 0), DELAYS),
    "leaves, rare": (True, _made(further.leaves, -4.5, 1), DELAYS),
    "calibrated": (True, _made(further.calibrated, 0.0, 1.5, 0), DELAYS),
    "calibrated, rare": (True, _made(further.calibrated, -4.5, 1.0, 1), DELAYS),
    "adult naive Bayes": (True, _frozen("adult", naive_bayes), DELAYS),
    "covtype naive Bayes": (True, _frozen("covtype", naive_bayes), DELAYS),
    "bank_full MLP": (True, _frozen("bank_full", network), DELAYS),
    "open_bandit online": (True, _online("open_bandit"), DELAYS),
    "elec2 frozen late": (True, _frozen("elec2"), (1_000,)),
    "elec2 frozen random": (True, _random("elec2 frozen"), (48, 1_000)),
    "adult frozen random": (True, _random("adult frozen"), (48, 1_000)),
    "hours-48": (False, _made(further.hours, 48, 0.35, 0.75, 2), DELAYS),
    "hours-480": (False, _made(further.hours, 480, 0.4, 0.9, 3), DELAYS),
    "wave-96": (False, _made(further.waves, 96, 0.6, 4), DELAYS),
    "leaves again": (False, _made(further.leaves, -1.0, 2), DELAYS),
    "leaves, rare again": (False, _made(further.leaves, -5.0, 3), DELAYS),
    "calibrated again": (False, _made(further.calibrated, 1.0, 1.0, 2), DELAYS),
    "calibrated, rare again": (False, _made(further.calibrated, -5.5, 1.0, 3), DELAYS),
    "census naive Bayes": (False, _frozen("census", naive_bayes), DELAYS),
    "bank_additional naive Bayes": (False, _frozen("bank_additional", naive_bayes), DELAYS),
    "dota2 MLP": (False, _frozen("dota2", network), DELAYS),
    "ipinyou_1458 served late": (False, _served("ipinyou_1458_stream"), (1_000,)),
    "bank_additional frozen late": (False, _frozen("bank_additional"), (1_000,)),
    "bank_additional frozen random": (False, _random("bank_additional frozen"), (48, 1_000)),
}
CATALOGUE |= {
    name: Entry(development, make, learns=True, further=True, delays=delays)
    for name, (development, make, delays) in FURTHER.items()
}
CATALOGUE |= {
    f"{name} {'online' if online else 'frozen'}": Entry(
        choose, _packaged(name), learns=online, packaged=True, delays=packaged.delays(name)
    )
    for name, (choose, online) in packaged.drawn().items()
}


def names(development: bool, further: bool = False, packaged: bool = False) -> list[str]:
    """Return the streams of one side of the split, as they race."""
    return [
        name
        for name, entry in CATALOGUE.items()
        if (entry.development, entry.further, entry.packaged, entry.draw) == (development, further, packaged, 0)
    ]


def cache() -> Path:
    """Return the folder of cached scores and predictions."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "streamcal", "race", VERSION)


def file_name(stream: str, *parts: Any) -> str:
    """Return a name for a file of a stream."""
    return "-".join(map(str, (stream.replace(" ", "_"), *parts)))


def stream(name: str, delay: int, rows: int | None = None) -> Stream:
    """Return a stream whose labels are `delay` steps late: from the cache, or made and put there."""
    entry = CATALOGUE[name]
    parts = [f"delay{delay}"] * entry.learns + [f"rows{rows}"] * (rows is not None)
    path = cache() / "scores" / f"{file_name(name, *parts)}.npz"
    if not path.exists():
        made = entry.make(delay, rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.part")  # of a run that was killed, never read
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **{name: column for name, column in made._asdict().items() if column is not None})
        unfinished.replace(path)
    with np.load(path) as kept:
        return Stream(**kept)
