"""`GridECE` against paper 000, §5.2, in plain loops, and what it refuses."""

import numpy as np
import pytest

from streamcal import InputError, MergeError, RetractionError
from streamcal.metrics import GridECE


def rows(n, width=2, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.random((n, width))
    return rng.random(n) < scores[:, 0], rng.random(n), scores, rng.integers(0, 3, n).astype(float)


def by_hand(y, p, scores, w, cells, fewest):
    found = {}
    for label, forecast, score, weight in zip(y, p, scores, w, strict=True):
        cell = tuple(min(int(one * cells), cells - 1) for one in score)
        found.setdefault(cell, []).append((weight, weight * forecast, weight * label))
    sums = [np.sum(one, axis=0) for one in found.values()]
    gaps = [abs(predicted - positive) / n for n, predicted, positive in sums if n >= max(fewest, 1e-9)]
    return (np.mean(gaps), np.max(gaps)) if gaps else (None, None)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("width", "cells", "fewest"), [(2, 10, 20), (2, 3, 0), (1, 7, 100), (3, 2, 150), (2, 10, 1e6)])
def test_it_is_its_formula(width, cells, fewest):
    data = rows(2_000, width)
    many, one, first, second = (GridECE(cells, fewest, width) for _ in range(4))
    many.update_many(*data)
    for row in zip(*data, strict=True):
        one.update(*row)
    first.update_many(*(column[:700] for column in data))
    second.update_many(*(column[700:] for column in data))
    first.merge(second)
    want = by_hand(*data, cells, fewest)
    for metric in (many, one, first):
        assert metric.n == pytest.approx(data[-1].sum())
        assert (metric.get(), metric.largest) == pytest.approx(want)
    more = rows(300, width, 1)
    one.update_many(*more)
    for row in zip(*more, strict=True):
        one.revert(*row)
    assert (one.get(), one.largest) == pytest.approx(want)


def test_ends_belong_to_the_last_cell_and_the_true_rate_has_no_error():
    metric = GridECE(4, 1)
    metric.update_many([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], [[1.0, 1.0], [0.75, 0.9], [0.0, 0.0], [0.2, 0.1]])
    assert list(metric.cells()) == [(3, 3), (0, 0)]
    assert metric.get() == metric.largest == 0.0


def test_bad_input_changes_nothing():
    metric = GridECE(fewest=0)
    assert metric.get() is None
    assert metric.largest is None
    for call in (
        lambda: metric.update(1, 0.5, [0.5]),
        lambda: metric.update(1, 0.5, [0.5, 1.5]),
        lambda: metric.update(1, 1.5, [0.5, 0.5]),
        lambda: metric.update_many([1, 0], [0.5, 0.5], [[0.5, 0.5], [0.5, -0.5]]),
        lambda: metric.update_many([1, 0], [0.5, 0.5], [[0.5, 0.5]]),
        lambda: GridECE(0),
        lambda: GridECE(n_scores=17),
        lambda: GridECE(fewest=-1),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(RetractionError):
        metric.revert(1, 0.5, [0.5, 0.5])
    with pytest.raises(MergeError):
        metric.merge(GridECE(9))
    assert metric.n == 0.0
