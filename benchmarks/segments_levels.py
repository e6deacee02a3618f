"""A million levels in little memory: `Segmented` with a store, a line of docs/segments_measured.md.

    python -m benchmarks.segments_levels            # some two minutes; writes the line
    python -m benchmarks.segments_levels --rows 20000    # shortened, prints only

Levels are drawn with a Zipf-like law, so that many come once and some come often, and most that come have been evicted.
"""

from __future__ import annotations

import argparse
import datetime
import re
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.processes import resident
from benchmarks.segments import MARKS, PAGE
from streamcal.live import Segmented

ROWS, LEVELS, HELD = 1_000_000, 1_000_000, 10_000
PARTS = 10


def run(rows: int, store: str | None) -> tuple[list[float], float, Segmented]:
    """Memory after each tenth, microseconds a row, and what has learned."""
    rng = np.random.default_rng(0)
    cal = Segmented("identity", ["user"], max_levels=HELD if store else LEVELS, store=store)
    memory, spent = [], 0.0
    for _ in range(PARTS):
        users = np.minimum(LEVELS * rng.random(rows // PARTS) ** 3, LEVELS - 1).astype(int).tolist()
        scores = rng.uniform(0.01, 0.1, len(users))
        y = rng.random(len(users)) < scores
        start = time.process_time()
        cal.predict_learn_many(scores, y, keys={"user": users})
        spent += time.process_time() - start
        memory.append(resident() / 1e6)
    return memory, 1e6 * spent / rows, cal


def main(arguments: list[str] | None = None) -> None:
    """Measure memory and time with and without a store of levels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "levels.db"
        memory, cost, _ = run(given.rows, str(path))
        size = sum(file.stat().st_size for file in path.parent.iterdir()) / 1e6
        unbounded, plain, _ = run(given.rows, None)
    text = (
        f"{given.rows:,} rows of one field with {LEVELS:,} levels, of which {HELD:,} are held: {memory[0]:.0f}, "
        f"{memory[PARTS // 2 - 1]:.0f} and {memory[-1]:.0f} MB\nafter a tenth, half and all of the rows, {cost:.1f} µs "
        f"a row, and {size:.0f} MB on disk; without a store, all levels held, {unbounded[-1]:.0f} MB and {plain:.1f} "
        f"µs\n(`python -m benchmarks.segments_levels`, {datetime.date.today()}).\n"
    )
    print(text)
    if given.rows == ROWS:
        page = PAGE.read_text(encoding="utf-8")
        found = re.sub(MARKS.format("levels", "levels"), lambda _: text, page, flags=re.DOTALL)
        PAGE.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
