"""The comparison of the methods of many classes runs, on a piece of the stream that ships with River."""

import re

import pytest

multiclass = pytest.importorskip("benchmarks.multiclass", reason="the benchmarks stand in the checkout alone")


def test_the_limits_are_compared_on_the_same_rows():
    lines = multiclass.by_limit(multiclass.image_segments(120)).splitlines()
    assert len(lines) == 2 + len(multiclass.LIMITED)
    for line in lines[2:]:
        losses = re.findall(r"\d+\.\d+", line)
        assert len(losses) == len(multiclass.LIMITS)
        assert len(set(losses)) == 1, "96 vectors are below every limit"


@pytest.mark.full
def test_the_table_has_a_row_for_each_method():
    rows = multiclass.measured(multiclass.image_segments(40))
    lines = multiclass.table_of(rows).splitlines()
    assert multiclass.reading(rows, rows).count("\n") + 1 == len(multiclass.MEASURES) + len(multiclass.PAIRS)
    assert len(lines) == 3 + len(multiclass.METHODS)
    for line in lines[2:]:
        loss, brier, ece = (float(cell) for cell in re.findall(r"\d+\.\d+", line)[:3])
        assert loss > 0.0
        assert 0.0 <= brier <= 2.0
        assert 0.0 <= ece <= 1.0
