"""The benchmark of `Segmented` at its smallest, and the figures of docs/segments.md."""

import re

import numpy as np
import pytest

from benchmarks import segments
from benchmarks.segments import PAGE, Stream

STREAM = segments.simulated(0.05, 3000, seed=0)


def test_the_simulator_has_the_rate_and_campaigns_that_come_and_go():
    stream = segments.simulated(0.05, 30_000, seed=1)
    assert stream.y.mean() == pytest.approx(0.05, abs=0.005)  # four standard errors
    first, last = (set(stream.fields["campaign"][part]) for part in (slice(5000), slice(-5000, None)))
    assert first - last
    assert last - first


def test_a_line_of_the_tables():
    line, forecasts = segments.row("simulator", [STREAM])
    assert re.fullmatch(r"\| simulator \|( [+-][\d,]+ ± [\d,]+ \|){5} [\d.]+ → [\d.]+ \|", line)
    assert len(forecasts) == 2
    assert re.search(r"\| [+-]\d\.\d\d \|$", segments.multicalibration_row("simulator", STREAM, *forecasts))
    assert re.fullmatch(r"\| simulator \| [+-]\d+ ± \d+ \| [+-]0\.\d+ \|", segments.late_row("simulator", STREAM, 500))
    assert "µs" in segments.cost(
        Stream(*(part[:200] for part in STREAM[:2]), {k: v[:200] for k, v in STREAM.fields.items()})
    )


def test_the_multicalibration_error_is_that_of_its_definition():
    stream = Stream(np.array([]), np.array([True, False, True, True]), {"a": ["x", "x", "y", "y"]})
    p = np.array([0.5, 0.9, 0.5, 0.5])
    # Level x: |1 − .5| + |0 − .9| in two bins; level y: |2 − 1|.
    assert segments.multicalibration(p, stream, 4)[0] == pytest.approx(1.4 / 4)


def test_the_page_has_the_tables():
    page = PAGE.read_text(encoding="utf-8")
    for mark in (*segments.HEADS, "cost", "made"):
        found = re.search(segments.MARKS.format(mark, mark), page, flags=re.DOTALL)
        assert found, mark
        assert len(found[0]) > 40, f"{mark} was not written"
