"""A join whose levels are in a store is killed at random moments: resumed, it says what one says that never was.

python tests/level_kills.py 40    # so many kills; the suite makes two
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from streamcal.live import Journal, LabelJoin, Segmented, level_store

EVENTS, LEVELS = 6_000, 300


def give(join, k):
    """Event `k` of the stream, which depends on nothing else; exactly one event of the journal."""
    rng = random.Random(k)
    if k % 3 < 2:
        join.issue(k, rng.uniform(0.05, 0.4), float(k), keys={"campaign": rng.randrange(LEVELS)})
    else:
        join.resolve(k - rng.randrange(3, 9), rng.random() < 0.4, float(k))


def run(folder):
    """Go on with the stream from where the journal ends, acknowledging now and then."""
    level_store.MOST_PENDING, level_store.FEWEST_ROWS = 50, 500
    with Journal(folder / "journal") as journal:
        store = folder / "levels.db"
        join = LabelJoin(Segmented("ops", ["campaign"], max_levels=20, store=store), 10.0, journal=journal)
        for k in range(journal.n, EVENTS):
            give(join, k)
            if k % 37 == 0:
                join.acknowledge()
            if k % 501 == 0:
                join.snapshot()
    return join.calibrator


def known(cal):
    return [cal.effect("campaign", k) for k in range(LEVELS)], cal.weights("campaign"), cal.variance("campaign")


def kill(kills, seed=0):
    """Return the number of kills that struck before the end; `AssertionError` if anything differs."""
    rng, struck = random.Random(seed), 0
    whole = LabelJoin(Segmented("ops", ["campaign"]), 10.0)
    for k in range(EVENTS):
        give(whole, k)
    with tempfile.TemporaryDirectory() as name:
        for _ in range(kills):
            child = subprocess.Popen([sys.executable, __file__, "--child", name], stdout=subprocess.PIPE)
            child.stdout.read(1)  # it has imported everything
            time.sleep(rng.uniform(0.02, 0.4))
            struck += child.poll() is None
            child.kill()
            child.communicate()
        found = known(run(Path(name)))
    assert found == known(whole.calibrator)
    return struck


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        print(end="x", flush=True)
        run(Path(sys.argv[2]))
    else:
        print(f"{kill(int(sys.argv[1]))} kills before the end of the stream, and nothing differs")
