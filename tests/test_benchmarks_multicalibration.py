"""The benchmark of `Multicalibrated` at its smallest, and the page that it writes."""

import re

import numpy as np
import pytest
from scipy.special import logit

from benchmarks import multicalibration, segments

STREAM = segments.simulated(0.05, 6000, seed=0)


def test_the_worst_gap_is_that_of_some_group_in_some_window():
    """Against loops over groups and windows."""
    p, n = STREAM.scores, len(STREAM.y)
    bins = np.floor(logit(p)).astype(int)
    columns = [np.zeros(n), bins, *(np.array(levels) for levels in STREAM.fields.values())]
    columns += [100 * np.array(levels) + bins for levels in STREAM.fields.values()]

    def one(start, end):
        found = 0.0
        for column in columns:
            for group in np.unique(column):
                rows = np.flatnonzero(column == group)
                rows = rows[(rows >= start) & (rows < end)]
                variance = (p * (1.0 - p))[rows].sum()
                if variance >= multicalibration.LEAST:
                    found = max(found, abs((STREAM.y - p)[rows].sum()) / np.sqrt(variance))
        return found

    windows = max(one(start, start + multicalibration.WINDOW) for start in (0, 1000))
    assert multicalibration.worst(p, STREAM, p) == (pytest.approx(one(0, n)), pytest.approx(windows))


def test_a_line_of_the_table():
    found = multicalibration.Found(STREAM, STREAM.scores)
    assert re.fullmatch(
        r"[+-][\d.]+ \| [\d.]+ → [\d.]+ \| [\d.]+ → [\d.]+ \| [+-][\d.]+ \| [\d.]+ \| [+-][\d.]+", str(found)
    )
    assert multicalibration.summarised([found, found]).count("→") == 2
    assert multicalibration.cost(200).count("\n") == 1 + len(multicalibration.ACTIVE)
    assert multicalibration.memory(10_000).count("\n") == 2


def test_the_page_keeps_the_promises():
    """On no stream is the log loss worse by more than 1e-4 a row, nor a gap larger than seven standard deviations."""
    page = multicalibration.PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.count("→") == 2 and "(" not in line.split("→")[1]]
    assert len(rows) >= 50
    for row in rows:
        loss, ends, late = float(row[2]), [float(cell.split("→")[1]) for cell in row[3:5]], float(row[7].rstrip(" |"))
        assert loss <= 1.0
        assert late <= 1.0
        assert max(ends) <= 7.0
