"""A process that counts predictions and their clicks is killed at random moments; what was acknowledged stays.

    python tests/counted_kills.py 75      # so many kills, about a minute; the time of one grows with their number

A child issues predictions, one by one and in columns, keeps the tokens whose events are on the disk, as a client does,
and clicks some of them, a fifth of them twice. It makes snapshots now and then. After a random time it is killed by
SIGKILL. A copy of each event is written to a file first, which survives the process. The journal then has to hold at
least the events that were acknowledged, each of them once, and the join that is resumed from it has to be in the state
of one that took all these events and was never interrupted, to the last bit. Tokens of acknowledged predictions are
known afterwards, and those of predictions that were lost are not.
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

from streamcal import OnlinePlatt
from streamcal.live import CountedJoin, Journal, counted_events

KEY, HORIZON = b"a key of the test", 500.0
SIZE, ACKNOWLEDGED = struct.Struct("<I"), struct.Struct("<q")


def new_join(journal=None):
    return CountedJoin(OnlinePlatt(discount=0.999), HORIZON, journal=journal, key=KEY, late=HORIZON, max_jump=1e9)


def work(folder, pipe, seed):
    """Issue and click in the child until it is killed."""
    rng = random.Random(seed)
    with (
        open(Path(folder, "copy"), "ab", buffering=0) as copy,
        open(Path(folder, "tokens"), "ab", buffering=0) as kept,
        Journal(Path(folder, "events.journal")) as journal,
    ):
        join, append = new_join(journal), journal.append

        def also(event):
            copy.write(SIZE.pack(len(event)) + event)
            append(event)

        journal.append = also
        tokens = [token for _, _, token in client(folder)][-2_000:]
        while True:
            clock = max(join.clock, 0.0)
            given = []
            for _ in range(rng.randrange(1, 40)):
                clock += rng.random()
                given.append((clock, join.issue(rng.random(), clock).token))
            many = [clock + k / 10.0 for k in range(rng.randrange(30))]
            answers = join.issue_many([rng.random() for _ in many], many)
            given += zip(many, answers.tokens.astype(str).tolist(), strict=True)
            for token in rng.sample(tokens, min(len(tokens), 10)):
                for _ in range(1 + (rng.random() < 0.2)):
                    join.resolve(token, True, join.clock)
            some = rng.sample(tokens, min(len(tokens), 5))
            join.resolve_many(some + some[:1], True, join.clock)
            lost = [json.dumps([False, t, token]) for t, token in given]
            kept.write("".join(f"{line}\n" for line in lost).encode())
            done = join.acknowledge()
            kept.write("".join(json.dumps([True, t, token]) + "\n" for t, token in given).encode())
            os.write(pipe, ACKNOWLEDGED.pack(done))
            tokens = (tokens + [token for _, token in given])[-2_000:]
            if rng.random() < 0.05:
                join.snapshot()


def client(folder):
    """Return what the client keeps: whether a token was acknowledged, its time, the token."""
    path = Path(folder, "tokens")
    lines = path.read_text(encoding="ascii").split("\n")[:-1] if path.exists() else []
    found = {}
    for line in lines:
        known, t, token = json.loads(line)
        found[token] = (known, t, token)
    return [one for one in found.values() if one[0]]


def killed_child(folder, seed):
    """Run a child for a random time and kill it; the number of events that it had acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(folder, writing, seed)
        finally:
            os._exit(1)
    os.close(writing)
    rng = random.Random(-seed)
    told = os.read(reading, ACKNOWLEDGED.size) if rng.random() < 0.8 else b""  # the others die while they resume
    time.sleep(rng.random() * 0.06)
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        told += pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "the child ended before it was killed"
    last = len(told) // ACKNOWLEDGED.size * ACKNOWLEDGED.size
    return ACKNOWLEDGED.unpack(told[last - ACKNOWLEDGED.size : last])[0] if last else 0


def copied(folder, place, number):
    """Return the next events of the copy and where they end, and drop what follows: it was lost with its process."""
    events = []
    with open(Path(folder, "copy"), "rb") as copy:
        copy.seek(place)
        for _ in range(number):
            events.append(copy.read(SIZE.unpack(copy.read(SIZE.size))[0]))
        place = copy.tell()
    os.truncate(Path(folder, "copy"), place)
    return events, place


def run(kills, folder):
    """Kill so many times; the number of events at the end."""
    Path(folder, "copy").write_bytes(b"")
    twin, acknowledged, place, taken = new_join(), 0, 0, []
    for seed in range(1, kills + 1):
        acknowledged = max(acknowledged, killed_child(folder, seed))
        with Journal(Path(folder, "events.journal")) as journal:
            resumed = new_join(journal)
            assert journal.n >= acknowledged, f"{acknowledged - journal.n} acknowledged events are lost"
            events, place = copied(folder, place, journal.n - len(taken))
            twin._take_again(iter(events))
            taken += events
            acknowledged = journal.n
            assert json.dumps(resumed.state_dict()) == json.dumps(twin.state_dict()), "the state is another one"
            known = [one for one in client(folder) if one[1] > resumed.clock - HORIZON]
            for _, _, token in known[:: max(1, len(known) // 50)]:
                assert resumed._resolve(resumed._tokens.read(token), False, resumed.clock), "a token is unknown"
        lines = "".join(f"{json.dumps(one)}\n" for one in known)  # others are not asked for again
        Path(folder, "tokens").write_text(lines, encoding="ascii")
    kinds = [counted_events.read(event) for event in taken]
    issued = sum(1 if one[0] == counted_events.ISSUE else len(one[1]) for one in kinds if one[0] in (16, 19))
    assert issued == twin.tally()["issued"] > 0 < twin.tally()["repeated"]
    return len(taken)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        events = run(number, place)
        print(f"{number} kills, {events} events, none lost, none twice; {time.perf_counter() - start:.0f} s")
