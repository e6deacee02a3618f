"""Damaged states of every learner of every room, and damaged maps: refused with `StateError`, or as good as any other.

    python tests/fuzz_states.py --number 2000             states and maps of all learners, in turn
    python tests/fuzz_states.py --case auto --number 500  of learners whose name contains this
    python tests/fuzz_states.py --only 'binary:auto' --seed 17   one damaged state, in this process, with its traceback

Each case of the golden files (`tests/golden/cases.py`, which takes new methods from the registries), and each of
`live_rooms.py` (segments, joins, shadows, monitors), is built and learns its stream; its state is damaged in one to
three places, given the checksum that belongs to it, and read. What is read goes on: it learns, retracts and merges what
the stream has, and predicts. It must not abort, hang, raise anything but errors of streamcal, predict anything outside
of [0, 1], take a second or 64 MB to be read, or write a state that it does not read. Maps are damaged and read by
`load_map` in the same way.

The states are read in another process, which says beforehand what comes, so that an abort has a name.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import json
import logging
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # for `golden`, however this file is run

import numpy as np
from golden.cases import ROOMS, Case
from golden.make import read as golden
from golden.streams import CALLS, Room
from live_rooms import LIVE

from streamcal import StateError, load_map
from streamcal.errors import StreamcalError
from streamcal.states import signed

#: What reading a damaged state may take: seconds of processor time, and bytes.
LONGEST, LARGEST = 1.0, 64 * 2**20
#: A worker that says nothing for so many seconds hangs.
PATIENCE = 120.0
#: The seed that ends the process, as a fault in a kernel would: it shows that this is seen.
ABORT = -1
#: Rounding of probabilities outside of [0, 1], and of the sum of those of several classes.
ROUNDED = 1e-9
#: Numbers that are put in the place of another one.
NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 10, 0.5, -0.5, 1e-3, -1e-3, 7, 64, -49),
    *(1e9, -1e9, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, -(10**400)),
    *(1e100, -1e100, 1e308, -1e308, 1e-100, 1e-300, 5e-324, -5e-324, math.nan, math.inf, -math.inf),
]
#: Longer texts are not repeated: several such changes to one text made it 700 MB long, which any reader has to hold.
LONG_TEXT = 10_000
#: Other values that are put in the place of anything.
OTHERS: list[Any] = [None, True, False, "", "x", "0x1", "1" * 1000, [], [0], [[]], {}, {"x": 1}, [0.5] * 1000]

Place = tuple[Any, ...]


# -- damaging ----------------------------------------------------------------------------------------------------------


def places(plain: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the paths to everything in plain data."""
    yield at
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from places(value, (*at, key))
    elif isinstance(plain, list):
        for key, value in enumerate(plain):
            yield from places(value, (*at, key))


def get(plain: Any, place: Place) -> Any:
    for key in place:
        plain = plain[key]
    return plain


def put(plain: Any, place: Place, value: Any) -> Any:
    """Return the data with a value at a place."""
    if not place:
        return value
    get(plain, place[:-1])[place[-1]] = value
    return plain


def chosen_place(rng: np.random.Generator, plain: Any) -> Place:
    """Walk down the data at random: a short list beside a long one is chosen as often."""
    place: Place = ()
    while isinstance(plain, (dict, list)) and plain and rng.random() < 0.93:
        keys = list(plain) if isinstance(plain, dict) else range(len(plain))
        place = (*place, keys[int(rng.integers(len(keys)))])
        plain = plain[place[-1]]
    return place


def damaged(rng: np.random.Generator, plain: Any) -> tuple[Any, str]:
    """Return the data, changed in one to three places, and what was changed."""
    plain, said = copy.deepcopy(plain), []
    for _ in range(int(rng.choice([1, 2, 3], p=[0.8, 0.15, 0.05]))):
        place = chosen_place(rng, plain)
        value = other_value(rng, get(plain, place), plain)
        plain = put(plain, place, value)
        said.append(f"{'.'.join(map(str, place))} = {json.dumps(value)[:80]}")
    return plain, "; ".join(said)


def other_value(rng: np.random.Generator, value: Any, plain: Any) -> Any:
    if rng.random() < 0.08:
        return copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    if rng.random() < 0.05:  # something from elsewhere in the state
        return copy.deepcopy(get(plain, chosen_place(rng, plain)))
    if isinstance(value, bool) or value is None:
        return copy.deepcopy([*NUMBERS, *OTHERS][rng.integers(len(NUMBERS) + len(OTHERS))])
    if isinstance(value, (int, float)):
        return other_number(rng, value)
    if isinstance(value, str):
        return other_text(rng, value)
    return other_list(rng, value) if isinstance(value, list) else other_dict(rng, value)


def other_number(rng: np.random.Generator, value: float) -> Any:
    near = [value + 1, value - 1, -value, value * 2]
    if abs(value) < 1e300:
        near += [value / 2, value * 1.001, value * (1.0 + 1e-9), float(value)]
    shown = repr(value)
    digits = [k for k, character in enumerate(shown) if character.isdigit()]
    if digits and rng.random() < 0.3:  # one digit of it
        at = digits[rng.integers(len(digits))]
        shown = f"{shown[:at]}{rng.integers(10)}{shown[at + 1 :]}"
        try:
            return json.loads(shown)
        except ValueError:
            return value
    every = [*near, *NUMBERS]
    return every[rng.integers(len(every))]


def other_text(rng: np.random.Generator, value: str) -> Any:
    at = int(rng.integers(len(value) + 1))
    long = value * 400 if len(value) < LONG_TEXT else value
    every = [value[:at], value + "0" * 3, value[:at] + str(rng.choice(list("0af-x_ ٣"))) + value[at + 1 :], long]
    return every[rng.integers(len(every))]


def other_list(rng: np.random.Generator, value: list[Any]) -> Any:
    changed = copy.deepcopy(value)
    at, to = (int(k) for k in rng.integers(len(value) + 1, size=2))
    verb = rng.choice(["drop", "double", "swap", "reverse", "empty", "cut", "long", "flat"])
    if verb == "drop":
        return changed[:at] + changed[at + 1 :]
    if verb == "double":
        return changed[:at] + changed[max(at - 1, 0) :]
    if verb == "swap" and at < len(value) and to < len(value):
        changed[at], changed[to] = changed[to], changed[at]
    if verb == "reverse":
        return changed[::-1]
    if verb == "cut":
        return changed[:at]
    if verb == "long":
        return changed * 50
    if verb == "flat":
        return [one for part in changed for one in (part if isinstance(part, list) else [part])]
    return [] if verb == "empty" else changed


def other_dict(rng: np.random.Generator, value: dict[str, Any]) -> Any:
    changed = copy.deepcopy(value)
    if changed and rng.random() < 0.6:
        del changed[list(changed)[rng.integers(len(changed))]]
    else:
        changed["x"] = 1
    return changed


# -- what is read goes on ----------------------------------------------------------------------------------------------


class Misbehaved(Exception):
    """What a state that was read must not do."""


@dataclass(frozen=True)
class Subject:
    """A learner with its state, or a map."""

    room: str
    case: Case

    @property
    def name(self) -> str:
        return f"{self.room}:{self.case.name}"


def subjects() -> list[Subject]:
    """Every learner, and for each written map of the golden files `map` as its room."""
    found = [Subject(room, case) for of in (ROOMS, LIVE) for room, (_, cases) in of.items() for case in cases]
    written = [case for case in ROOMS["binary"][1] if "map" in recorded("binary")["cases"].get(case.name, {})]
    return found + [Subject("map", case) for case in written]


recorded = functools.cache(golden)


def room_of(subject: Subject) -> Room:
    return LIVE[subject.room][0] if subject.room in LIVE else CALLS[subject.room]


def stream_of(subject: Subject) -> dict[str, Any]:
    """Return the operations of a learner: the recorded ones, if there are any."""
    streams = {} if subject.room in LIVE else recorded(subject.room)["streams"]
    name = subject.case.stream
    return streams[name] if name in streams else room_of(subject).stream(name)


@functools.cache
def content(subject: Subject) -> str:
    """Return the state of a learner after its stream, or a map, as text."""
    case = subject.case
    if subject.room == "map":
        return json.dumps(recorded("binary")["cases"][case.name]["map"]["json"])
    cal = room_of(subject).apply_all(case.build(), stream_of(subject)["first"], case.timed)
    return json.dumps(cal.state_dict())


def tried(subject: Subject, seed: int) -> tuple[str, str]:
    """Damage, read and use one; (what became of it, what was damaged). Raises what must not be raised."""
    if seed == ABORT:
        os.abort()
    rng = np.random.default_rng([seed, *subject.name.encode()])
    state = json.loads(content(subject))
    if subject.room == "map":
        state, said = damaged(rng, state)
        return _tried_map(json.dumps(state), said)
    state.pop("check")
    part = str(rng.choice(["learned", "params", "all"], p=[0.9, 0.08, 0.02]))
    if part == "all":
        state, said = damaged(rng, state)
    else:
        state[part], said = damaged(rng, state[part])
    if isinstance(state, dict):
        state = signed(state) if state.get("streamcal") == 1 else state
    return _tried_state(subject, json.loads(json.dumps(state)), said)


def _tried_state(subject: Subject, state: Any, said: str) -> tuple[str, str]:
    before, start = _memory(), time.process_time()
    try:
        cal = type(subject.case.build()).from_state(state)
    except StateError:
        cal = None
    took, grown = time.process_time() - start, _memory() - before
    if took > LONGEST or grown > LARGEST:
        raise Misbehaved(f"reading took {took:.2f} s and {grown / 2**20:.0f} MB: {said}")
    if cal is None:
        return "refused", said
    try:
        _use(subject, cal)
    except StreamcalError as error:
        return f"read, then {type(error).__name__}", said
    except Exception as error:
        raise Misbehaved(f"{said}: {type(error).__name__}: {error}") from error
    return "read", said


def _use(subject: Subject, cal: Any) -> None:
    """Predict and go on as the golden stream does, and save and read again."""
    room, case, stream = room_of(subject), subject.case, stream_of(subject)
    probes, later = room.probes(case.stream), stream["later"] if case.timed else None
    require_possible(room.answers(cal, probes, later))
    for operation in stream["then"]:
        try:
            room.apply(cal, operation, case.timed)
        except StreamcalError:
            if operation[0] != "unlearn":
                raise
    require_possible(room.answers(cal, probes, later))
    if subject.room not in ("join", "counts") and not 0.0 <= cal.n < math.inf:
        raise Misbehaved(f"n is {cal.n}")
    twin = type(cal).from_state(json.loads(json.dumps(cal.state_dict(), allow_nan=False)))
    if subject.room in LIVE and twin.state_dict() != cal.state_dict():
        raise Misbehaved("what is read is not what was written")
    require_possible(room.answers(twin, probes, later))


def require_possible(answers: dict[str, Any]) -> None:
    """`Misbehaved` unless every number is finite and every probability in [0, 1]."""
    for name, values in answers.items():
        flat = np.concatenate([np.ravel(np.array(one, dtype=np.float64)) for one in values]) if values else np.empty(0)
        if not np.isfinite(flat).all():
            raise Misbehaved(f"{name} is not finite")
        if name not in ("mean", "crps", "ppf") and ((flat < -ROUNDED) | (flat > 1.0 + ROUNDED)).any():
            raise Misbehaved(f"{name} is {flat.min()!r} to {flat.max()!r}")


def _tried_map(text: str, said: str) -> tuple[str, str]:
    before, start = _memory(), time.process_time()
    try:
        found = load_map(text)
    except ValueError:
        found = None
    took, grown = time.process_time() - start, _memory() - before
    if took > LONGEST or grown > LARGEST:
        raise Misbehaved(f"reading took {took:.2f} s and {grown / 2**20:.0f} MB: {said}")
    if found is None:
        return "refused", said
    probes = [x for x in CALLS["binary"].probes("long")]
    try:
        many = found.predict_many(probes)
        require_possible({"many": many.tolist(), "one": [found.predict_one(x) for x in probes]})
        np.testing.assert_allclose([found.predict_one(x) for x in probes], many, rtol=0.0, atol=1e-9)
    except Exception as error:
        raise Misbehaved(f"{said}: {type(error).__name__}: {error}") from error
    return "read", said


def _memory() -> int:
    """Return the most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# -- many --------------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What became of the damaged states, and those that misbehaved: (learner, seed, how)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.most_common())
        lines = [f"{name} --seed {seed}: {how}" for name, seed, how in self.failures]
        return "\n".join([*lines, f"{sum(self.outcomes.values()):,} damaged: {counts}"])


def fuzz(number: int, seed: int = 0, case: str = "", shown: bool = False) -> Report:
    """Try so many damaged states and maps of the learners whose name contains `case`, in turn."""
    report = Report()
    named = [place for place, subject in enumerate(subjects()) if case in subject.name]
    chosen = np.random.default_rng(0).permutation(named).tolist()  # of a few, some of every room
    work = [(chosen[k % len(chosen)], seed + k // len(chosen)) for k in range(number)]
    while work:
        work = _worked(work, report, shown)
    return report


def _worked(work: list[tuple[int, int]], report: Report, shown: bool) -> list[tuple[int, int]]:
    """Let a new process try what is to be tried; what is left when it ends, the one that ended it left out."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    worker = context.Process(target=_work, args=(there, work), daemon=True)
    worker.start()
    there.close()
    done, names = 0, subjects()
    try:
        while here.poll(PATIENCE):
            outcome, said = here.recv()
            place, seed = work[done]
            if outcome == "misbehaved":
                report.failures.append((names[place].name, seed, said))
                if shown:
                    print(f"{names[place].name} --seed {seed}: {said}", flush=True)
            report.outcomes[outcome] += 1
            done += 1
            if shown and sum(report.outcomes.values()) % 500 == 0:
                print(report, flush=True)
            if done == len(work):
                return []
        how = f"hangs for {PATIENCE:.0f} s"
    except EOFError:
        how = "ends the process"
    worker.kill()
    worker.join()
    place, seed = work[done]
    report.outcomes["ended the process"] += 1
    report.failures.append((names[place].name, seed, f"{how} (exit code {worker.exitcode})"))
    if shown:
        print(*report.failures[-1], flush=True)
    return work[done + 1 :]


def _work(there: Connection, work: list[tuple[int, int]]) -> None:
    """In the worker: try one after the other, and say what became of each."""
    warnings.simplefilter("ignore")
    logging.disable()  # alarms of monitors
    every = subjects()
    for place, seed in work:
        try:
            there.send(tried(every[place], seed))
        except Misbehaved as error:
            there.send(("misbehaved", str(error)))
        except Exception:
            there.send(("misbehaved", traceback.format_exc(limit=-3)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", default="", help="only learners whose name contains this")
    parser.add_argument("--only", default="", help="one learner, one seed, in this process")
    given = parser.parse_args()
    if given.only:
        (subject,) = [one for one in subjects() if one.name == given.only]
        print(*tried(subject, given.seed))
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # a state may name a store, which is made
        report = fuzz(given.number, given.seed, given.case, shown=True)
    print(report, f"{time.monotonic() - start:.0f} s", sep="\n")
    return min(len(report.failures), 1)


if __name__ == "__main__":
    sys.exit(main())
