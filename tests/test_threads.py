"""Two threads that use one calibrator without a lock: they may get errors, and do not end the process."""

import subprocess
import sys

import pytest

from streamcal import REGISTRY

PROGRAM = """
import random, sys, threading, time
from streamcal import REGISTRY
cal, until, rows = REGISTRY[sys.argv[1]](), time.monotonic() + 0.5, random.Random(0)
rows = [(s, rows.random() < s) for s in (rows.random() for _ in range(2_000))]

def use(first):
    at = first
    while time.monotonic() < until:
        at = (at + 1) % len(rows)
        try:
            cal.predict_one(rows[at][0])
            cal.learn_one(*rows[at])
        except Exception:
            pass

sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=use, args=(first,)) for first in (0, 1_000)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


@pytest.mark.full
@pytest.mark.parametrize("name", REGISTRY)
def test_two_threads_do_not_end_the_process(name):
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
