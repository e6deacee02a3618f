"""A process that issues forecasts and learns their labels is killed at random moments; what was acknowledged stays.

    python tests/journal_kills.py 1000             # so many kills, about two minutes; the suite makes a few
    python tests/journal_kills.py 1000 --shadow    # of a `Shadow` whose calibrators change all the time

A child goes on with a fixed stream of events from where its journal ends, acknowledges groups of random size, makes
snapshots now and then, and writes the number of acknowledged events to a pipe. After a random time it is killed by
SIGKILL. The journal then has to hold at least the events that were acknowledged, each of them once, and the join that
is resumed from it has to be in the state of one that was never interrupted, to the last bit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

from streamcal import CapabilityError, Identity, InputError, OnlinePlatt, TrackingOPS
from streamcal.live import Journal, LabelJoin, Shadow

HORIZON, EARLY = 200.0, 40.0
NUMBER = struct.Struct("<q")


def new_join(journal=None):
    return LabelJoin(OnlinePlatt(discount=0.999), HORIZON, early=EARLY, journal=journal)


def give(join, number):
    """Event `number` of the stream, which depends on nothing else; exactly one event of the journal."""
    rng = random.Random(number)
    k, now = number // 2, number / 4.0
    if number % 2 == 0:
        join.issue(f"impression-{k}", rng.random(), now, keys={"campaign": k % 7} if k % 5 == 0 else None)
    else:
        join.resolve(f"impression-{max(k - rng.randrange(40), 0)}", rng.random() < 0.3, now)


def new_shadow(journal=None):
    return LabelJoin(Shadow(Identity(), {"ops": OnlinePlatt()}), 20.0, journal=journal)


def give_to_shadow(join, number):
    """Give events with scores far too high, versions of the model, promotions, rollbacks, and changing challengers."""
    rng = random.Random(number)
    k, now = number // 2, number / 4.0
    if number % 41 == 40:
        change(join, number // 41, now)
    elif number % 2 == 0:
        join.issue(k, rng.uniform(0.8, 0.95), now, version=f"v{number // 3000}")
    else:
        join.resolve(k - rng.randrange(40), rng.random() < 0.1, now)


def change(join, number, now):
    """Change the shadow, or tell the time where that is refused: one event in any case."""
    shadow = join.calibrator
    try:
        if number % 5 < 2:
            shadow.promote()
        elif number % 5 == 2:
            shadow.rollback(1)
        elif number % 5 == 3:
            shadow.add(f"challenger {number}", TrackingOPS())
        else:
            shadow.remove(next(name for name in shadow.challengers if name.startswith("challenger")))
    except (CapabilityError, InputError, StopIteration):
        join.advance(now)


#: How a join is made, and what it is given.
PLAIN, SHADOW = (new_join, give), (new_shadow, give_to_shadow)


def work(path, pipe, seed, stream):
    """Write events in the child until it is killed."""
    rng, (new, give_one) = random.Random(seed), stream
    with Journal(path) as journal:
        join = new(journal)
        while True:
            for _ in range(rng.randrange(1, 60)):
                give_one(join, journal.n)
            os.write(pipe, NUMBER.pack(join.acknowledge()))
            if rng.random() < 0.05:
                join.snapshot()


def killed_child(path, seed, stream):
    """Run a child for a random time and kill it; the number of events that it had acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(path, writing, seed, stream)
        finally:
            os._exit(1)
    os.close(writing)
    rng, told = random.Random(-seed), b""
    if rng.random() < 0.8:  # the others die while they resume
        told = os.read(reading, NUMBER.size)
    time.sleep(rng.random() * 0.06)
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        told += pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "the child ended before it was killed"
    last = len(told) // NUMBER.size * NUMBER.size
    return NUMBER.unpack(told[last - NUMBER.size : last])[0] if last else 0


class Uninterrupted:
    """A join that was given the same events, and was never killed."""

    def __init__(self, stream=PLAIN):
        new, self.give = stream
        self.join, self.given = new(), 0

    def state_after(self, number):
        while self.given < number:
            self.give(self.join, self.given)
            self.given += 1
        return json.dumps(self.join.state_dict())


def run(kills, folder, stream=PLAIN):
    """Kill so many times; the number of events at the end."""
    path, twin, acknowledged, events = Path(folder, "events.journal"), Uninterrupted(stream), 0, 0
    for seed in range(1, kills + 1):
        acknowledged = max(acknowledged, killed_child(path, seed, stream))
        with Journal(path) as journal:
            resumed = stream[0](journal)
            assert journal.n >= acknowledged, f"{acknowledged - journal.n} acknowledged events are lost"
            assert journal.n >= events
            assert json.dumps(resumed.state_dict()) == twin.state_after(journal.n), "the state is another one"
            events = acknowledged = journal.n
    return events


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        held = run(number, place, SHADOW if "--shadow" in sys.argv else PLAIN)
        print(f"{number} kills, {held} events, none lost, none twice; {time.perf_counter() - start:.0f} s")
