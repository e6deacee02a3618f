"""Tables of tuples with a limit: what is kept depends on what was added, and not on its order."""

import json

import numpy as np
import pytest
from invariants import check
from scipy.stats import norm

from streamcal import Forever, InputError, Interval, StateError, Window
from streamcal.fusion import MRMIC, CopulaFusion, PartialOrderVennAbers
from streamcal.parameters.scales import Probability
from streamcal.states import plain
from streamcal.statistics.vector_table import VectorTable, vector_table

METHODS = {
    "copula-fusion": CopulaFusion,
    "mrmic": lambda **params: MRMIC(**{"forgetting": Forever(), **params}),
    "partial order": PartialOrderVennAbers,
}
each = pytest.mark.parametrize("name", METHODS)


def pairs(size, seed=0, correlation=-0.6):
    """Scores of two models that are negatively dependent within each class, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(size) < 0.5
    z = rng.multivariate_normal(np.zeros(2), [[1.0, correlation], [correlation, 1.0]], size)
    return norm.cdf(z + np.where(y, 0.7, -0.7)[:, None]), y.astype(int)


def table_of(x, order=None, limit=64, step=7):
    table = vector_table((Probability(), Interval(0.0, 1.0)), None, limit)
    x = x if order is None else x[order]
    for start in range(0, len(x), step):
        table.update_many(
            x[start : start + step], np.ones(len(x[start : start + step])), np.ones(len(x[start : start + step]))
        )
        check(table)
    return table


def test_tuples_are_exact_up_to_the_limit_and_rounded_beyond():
    x, _ = pairs(200)
    exact = table_of(x[:64])
    assert exact.cells == 0
    np.testing.assert_array_equal(exact.columns()[0], np.unique(x[:64], axis=0))
    rounded = table_of(x)
    assert rounded.cells > 0
    assert len(rounded._rows) <= 64
    assert rounded.n == 200.0
    finer = vector_table((Probability(), Interval(0.0, 1.0)), None, 10**6)
    finer.update_many(x, np.ones(200), np.ones(200))
    finer._round_to(rounded.cells * 2)
    assert len(finer._rows) > 64, "the grid is the finest that keeps the limit"


def held(table):
    return plain(table.state())


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_does_not_matter_and_merging_is_concatenation(seed):
    x, _ = pairs(300, seed)
    order = np.random.default_rng(seed).permutation(300)
    whole = table_of(x)
    assert held(table_of(x, order, step=1)) == held(whole)
    left, right = table_of(x[:40]), table_of(x[40:])
    right.merge(left)
    left.merge(table_of(x[40:]))
    assert held(left) == held(right) == held(whole)
    twin = whole.empty()
    twin.restore(json.loads(json.dumps(held(whole))))
    assert held(twin) == held(whole)
    twin.update((0.3, 0.3), 0.0, 1.0)
    for row in [*x.tolist()]:
        twin.unlearn(row, 1.0, 1.0)
    assert twin.cells == whole.cells
    twin.unlearn((0.3, 0.3), 0.0, 1.0)
    assert (twin.cells, twin.count, held(twin)["rows"]) == (0, 0, []), "exact again when nothing is held"


@pytest.mark.sample(3)
@each
def test_a_stream_beyond_the_limit_has_bounded_memory(name):
    build = METHODS[name]
    fused = build(limit=100)
    assert fused.bounded_memory
    assert not build(limit=None).bounded_memory
    scores, y = pairs(1500)
    fused.learn_many(scores, y)
    assert len(fused._engine.memory.statistic._rows) <= 100
    p = fused.predict_many(scores[:50])
    assert ((p >= 0.0) & (p <= 1.0)).all()
    np.testing.assert_allclose(fused.map().predict_many(scores[:50]), p, rtol=0, atol=1e-12)
    looped, copied = build(limit=100), type(fused).from_state(fused.state_dict())
    for row, label in zip(scores[:300], y[:300], strict=True):
        looped.learn_one(row, label)
    many = build(limit=100)
    many.learn_many(scores[:300], y[:300])
    np.testing.assert_allclose(looped.predict_many(scores[:50]), many.predict_many(scores[:50]), rtol=0, atol=1e-9)
    np.testing.assert_allclose(copied.predict_many(scores[:50]), p, rtol=0, atol=1e-9)
    # Against the fit to every tuple: as far off as a proper score says, .002 to .003 for limits of a thousand.
    exact = build(limit=None)
    exact.learn_many(scores[:600], y[:600])
    near = build()
    near.learn_many(scores[:600], y[:600])
    test, came = pairs(400, seed=1)
    assert np.mean((near.predict_many(test) - came) ** 2) < np.mean((exact.predict_many(test) - came) ** 2) + 0.01


def test_a_copula_of_some_hundred_tuples_is_exact_everywhere():
    """600 negatively dependent pairs, and places where there are none: a grid of 128 cells was off by 0.4 there."""
    scores, y = pairs(600)
    fused, exact = CopulaFusion(), CopulaFusion(limit=None)
    for one in (fused, exact):
        one.learn_many(scores, y)
    probes = np.random.default_rng(2).random((500, 2))
    np.testing.assert_array_equal(fused.predict_many(probes), exact.predict_many(probes))


@pytest.mark.full
def test_a_copula_beyond_the_limit_is_near_the_one_of_every_tuple():
    """5,000 pairs on 64 cells: 0.006 in the root mean square and 0.02 at most were seen."""
    scores, y = pairs(5000, seed=3)
    fused, exact = CopulaFusion(), CopulaFusion(limit=None)
    for one in (fused, exact):
        one.learn_many(scores, y)
    probes = np.random.default_rng(2).random((300, 2))
    off = np.abs(fused.predict_many(probes) - exact.predict_many(probes))
    assert fused._engine.memory.statistic.cells > 0
    assert np.sqrt(np.mean(off**2)) < 0.02
    assert off.max() < 0.1


def test_unbounded_scales_and_grids_have_no_limit():
    scales = (Interval(),)
    assert vector_table(scales, None, 100).limit is None
    assert vector_table((Probability(),), 16, 100).limit is None
    assert PartialOrderVennAbers(scale=Interval(), forgetting=Window(50)).limit == 1000


@pytest.mark.parametrize("limit", [0, 63, 2.5, True, "all"])
def test_limits_that_are_not_possible_are_refused(limit):
    with pytest.raises(InputError, match="limit"):
        PartialOrderVennAbers(limit=limit)


def test_a_state_with_other_cells_is_refused():
    table = table_of(pairs(200)[0])
    state = table.state()
    for cells in (3, 1, 8192):
        with pytest.raises(StateError):
            table.empty().restore({**state, "cells": cells})
    with pytest.raises(StateError):
        VectorTable(2).restore(state)
