"""Isotonic fits on partial orders, `PartialOrderVennAbers` and `MRMIC` against their definitions and other solvers."""

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import quadprog
from sklearn.isotonic import isotonic_regression

from streamcal import Decay, InputError, Interval, Logit, Probability, RetractionError, VennAbers, Window
from streamcal.fusion.copula import CopulaFusion
from streamcal.fusion.mrmic import MRMIC
from streamcal.fusion.partial_order_venn_abers import PartialOrderVennAbers
from streamcal.solvers.manifold_isotonic import ManifoldIsotonic
from streamcal.solvers.partial_order import PartialOrder
from streamcal.states import plain
from streamcal.statistics.grid import Grid
from streamcal.statistics.vector_table import VectorTable, vector_table


def lexicographic(x):
    """Distinct rows in the order that the solvers want."""
    return np.unique(np.asarray(x, dtype=float), axis=0)


def below(x):
    """below[i, j]: row i ≤ row j in every coordinate."""
    return (x[:, None, :] <= x[None, :, :]).all(axis=2)


def max_min(x, positive, weight):
    """f(i) = max over upper sets U with i, min over lower sets L with i, of the mean on U ∩ L, by going through all."""
    size, order = len(x), below(x)
    above = [sum(1 << j for j in range(size) if order[i, j]) for i in range(size)]
    upper = [s for s in range(1 << size) if all(s & above[i] == above[i] for i in range(size) if s >> i & 1)]
    lower = [((1 << size) - 1) & ~s for s in upper]

    def mean(s):
        inside = [i for i in range(size) if s >> i & 1]
        return sum(positive[i] for i in inside) / sum(weight[i] for i in inside)

    return [max(min(mean(u & low) for low in lower if low >> i & 1) for u in upper if u >> i & 1) for i in range(size)]


def quadratic(hessian, linear, order):
    """Return argmin ½pᵀHp − lᵀp over p that rise along the covers, by quadprog."""
    rises = np.zeros((len(linear), len(order.lower)))
    rises[order.upper, np.arange(len(order.lower))] = 1.0
    rises[order.lower, np.arange(len(order.lower))] = -1.0
    return quadprog.solve_qp(hessian, linear, rises, np.zeros(len(order.lower)))[0]


def is_monotone(x, p):
    return all(p[i] <= p[j] for i, j in np.argwhere(below(x)))


# -- least squares on a partial order --------------------------------------------------------------------------------


def test_covers_are_the_transitive_reduction():
    rng = np.random.default_rng(0)
    for width in (1, 2, 3, 4):
        for levels in (2, 4, 1_000):
            x = lexicographic(rng.integers(0, levels, (30, width)))
            order = below(x) & ~np.eye(len(x), dtype=bool)
            between = order.astype(int) @ order.astype(int) > 0
            made = PartialOrder(x)
            assert sorted(zip(made.lower, made.upper, strict=True)) == [tuple(e) for e in np.argwhere(order & ~between)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_whole_weights_give_the_max_min_formula_to_the_last_bit(width):
    rng = np.random.default_rng(width)
    for _ in range(60):
        x = lexicographic(rng.integers(0, 4, (rng.integers(1, 8), width)))
        positive, negative = rng.integers(0, 3, (2, len(x)))
        positive[positive + negative == 0] = 1
        exact = max_min(
            x, [Fraction(int(a)) for a in positive], [int(a + b) for a, b in zip(positive, negative, strict=True)]
        )
        scale = 2.0 ** rng.integers(-40, 40)  # multiples of a power of two are whole
        found = PartialOrder(x).solve(positive * scale, negative * scale)
        assert found.solved
        assert found.x.tolist() == [float(value) for value in exact]


@pytest.mark.parametrize(("size", "width"), [(40, 1), (60, 2), (60, 3), (200, 2)])
def test_any_weights_give_the_quadratic_program(size, width):
    rng = np.random.default_rng(size + width)
    x = lexicographic(rng.random((size, width)))
    weight, mean = rng.uniform(0.1, 3.0, len(x)), rng.random(len(x)) * 0.7 + 0.3 * x.mean(axis=1)
    order = PartialOrder(x)
    found = order.solve(weight * mean, weight * (1.0 - mean)).x
    # quadprog works with dense matrices in doubles
    np.testing.assert_allclose(found, quadratic(np.diag(weight), weight * mean, order), rtol=0.0, atol=1e-12)
    assert is_monotone(x, found)
    if width == 1:
        np.testing.assert_allclose(found, isotonic_regression(mean, sample_weight=weight), rtol=0.0, atol=1e-14)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["tenths", "decayed", "wild"])
def test_other_weights_give_it_to_rounding(kind):
    """Against exact fractions, where many sums are equal but for rounding, or differ by 24 orders of magnitude."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        x = lexicographic(rng.integers(0, 3, (rng.integers(1, 8), 2)))
        shape, labels = (2, len(x)), rng.integers(0, 2, (2, len(x)))
        positive, negative = {
            "tenths": rng.integers(0, 4, shape) * 0.1,
            "decayed": 0.5 ** (rng.integers(0, 30, shape) / 4) * labels,
            "wild": 10.0 ** rng.uniform(-12, 12, shape) * labels,
        }[kind]
        positive[positive + negative == 0.0] = 0.3
        pairs = list(zip(map(Fraction, positive), map(Fraction, negative), strict=True))
        exact = max_min(x, [a for a, _ in pairs], [a + b for a, b in pairs])
        found = PartialOrder(x).solve(positive, negative).x
        ratio = (positive + negative).sum() / (positive + negative).min() if kind == "wild" else 1.0
        np.testing.assert_allclose(found, np.array(exact, dtype=float), rtol=0.0, atol=4e-16 * ratio)


def test_light_points_beside_heavy_ones():
    """Weights from 1e-60 to 1e60: monotone to the last bit, and right where a light point is alone with its kind."""
    x = lexicographic([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])  # none comparable
    found = PartialOrder(x).solve(np.array([1e60, 0.0, 1e-60]), np.array([0.0, 1.0, 0.0])).x
    assert found.tolist() == [1.0, 0.0, 1.0]
    found = PartialOrder(np.array([[0.0], [1.0]])).solve(np.array([1e-60, 0.0]), np.array([0.0, 1e60])).x
    np.testing.assert_allclose(found, 1e-120, rtol=1e-15)
    rng = np.random.default_rng(1)
    for _ in range(200):
        x = lexicographic(rng.integers(0, 5, (25, 2)))
        positive, negative = 10.0 ** rng.uniform(-60, 60, (2, len(x))) * (rng.random((2, len(x))) < 0.6)
        positive[positive + negative == 0.0] = 1.0
        found = PartialOrder(x).solve(positive, negative).x
        assert is_monotone(x, found)
        assert found.min() >= 0.0
        assert found.max() <= 1.0


def test_the_pair_at_a_point_is_the_fit_with_it_added():
    rng = np.random.default_rng(2)
    for weight in (1.0, 0.37):
        x = lexicographic(rng.integers(0, 6, (20, 2)))
        positive, negative = rng.integers(0, 3, (2, len(x))).astype(float)
        positive[positive + negative == 0] = 1.0
        order = PartialOrder(x)
        for point in lexicographic(rng.integers(-1, 8, (40, 2)) / 1.25):
            rows = np.concatenate((x, point[None]))
            both, place = np.unique(rows, axis=0, return_inverse=True)
            ends = []
            for label in (0.0, 1.0):
                a = np.bincount(place.ravel(), np.append(positive, label * weight))
                b = np.bincount(place.ravel(), np.append(negative, (1.0 - label) * weight))
                ends.append(PartialOrder(both).solve(a, b).x[place.ravel()[-1]])
            np.testing.assert_allclose(order.pair_at(positive, negative, point, weight), ends, rtol=1e-15)


# -- the table of tuples -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resolution", [None, 8])
def test_the_table_of_tuples_is_a_dictionary(resolution):
    rng = np.random.default_rng(3)
    scales = (Interval(0.0, 1.0), Logit(-2.0, 2.0))
    table, held = vector_table(scales, resolution), Counter()
    x = rng.choice([0.0, -0.0, 0.25, 0.7, 1.0], (200, 2))
    y, w = rng.integers(0, 2, 200).astype(float), rng.integers(1, 4, 200).astype(float)
    table.update_many(x[:100], y[:100], w[:100])
    for row in zip(map(tuple, x[100:].tolist()), y[100:].tolist(), w[100:].tolist(), strict=True):
        table.update(*row)
    for row in zip(map(tuple, x[:50].tolist()), y[:50].tolist(), w[:50].tolist(), strict=True):
        table.unlearn(*row)
    for one, label, weight in zip(x[50:].tolist(), y[50:], w[50:], strict=True):
        if table.grids is not None:
            one = [
                grid.centres[np.searchsorted(grid.edges, v, "right")] for grid, v in zip(table.grids, one, strict=True)
            ]
        held[tuple(v + 0.0 for v in one), "w"] += weight
        held[tuple(v + 0.0 for v in one), "p"] += weight * label
    expected = sorted({key for key, _ in held})
    found = table.columns()
    assert found[0].tolist() == [list(key) for key in expected]
    assert not np.signbit(found[0][found[0] == 0.0]).any()
    assert found[1].tolist() == [held[key, "w"] for key in expected]
    assert found[2].tolist() == [held[key, "p"] for key in expected]
    assert table.count == 150
    again = table.empty()
    again.restore(json.loads(json.dumps(plain(table.state()))))
    again.merge(table)
    assert again.columns()[1].tolist() == (2.0 * found[1]).tolist()
    with pytest.raises(RetractionError):
        table.unlearn((0.33, 0.33), 1.0, 1e9)


def test_the_bounds_of_the_table():
    assert not VectorTable(2).bounded
    assert vector_table((Interval(0.0, 1.0),) * 2, 4).bounded
    with pytest.raises(InputError, match="bounded scale"):
        vector_table((Interval(),), 4)


# -- Venn-Abers on a partial order -------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize(("width", "policy"), [(2, None), (3, None), (2, Window(7)), (2, Decay(half_life=4))])
def test_pairs_are_the_max_min_formula_with_the_object_added(width, policy):
    rng = np.random.default_rng(width)
    fused = PartialOrderVennAbers(n_scores=width, **({} if policy is None else {"forgetting": policy}))
    seen = []
    for step in range(14 if policy else 8):
        s, y = tuple((rng.integers(0, 5, width) / 4).tolist()), int(rng.integers(2))
        fused.learn_one(s, y)
        seen.append((s, y, 1.0))
        held = seen[-7:] if policy == Window(7) else seen
        if isinstance(policy, Decay):
            held = [(s, y, 0.5 ** ((step - i) / 4)) for i, (s, y, _) in enumerate(seen)][-7:]
            if step >= 7:
                break  # the formula goes through all upper sets
        query = tuple((rng.integers(-1, 10, width) / 8).clip(0, 1).tolist())
        ends = []
        for label in (0, 1):
            rows = [*held, (query, label, 1.0)]
            x = lexicographic([row[0] for row in rows])
            place = [int(np.flatnonzero((x == row[0]).all(axis=1))[0]) for row in rows]
            weight = np.bincount(place, [row[2] for row in rows])
            positive = np.bincount(place, [row[1] * row[2] for row in rows])
            ends.append(max_min(x, positive, weight)[place[-1]])
        np.testing.assert_allclose(fused.predict_interval_one(query), ends, rtol=0.0, atol=1e-15)


def test_on_a_grid_a_test_object_is_rounded_like_what_was_learned():
    rng, grid = np.random.default_rng(5), Grid(Probability(), 16)
    scores = rng.random((60, 2))
    cal = PartialOrderVennAbers(resolution=16)
    cal.learn_many(scores, rng.random(60) < scores.mean(axis=1))
    for one in rng.random((40, 2)):
        rounded = [grid.round(score) for score in one.tolist()]
        assert cal.predict_interval_one(one) == cal.predict_interval_one(rounded)
        assert cal.predict_one(one) == cal.predict_one(rounded)


def test_with_one_score_it_is_venn_abers():
    rng = np.random.default_rng(4)
    for point in ("log-minimax", "brier-minimax", "self-consistent"):
        fused, one = PartialOrderVennAbers(point, n_scores=1), VennAbers(point)
        s = rng.integers(0, 40, 300) / 40
        y = rng.random(300) < s
        fused.learn_many(s[:, None], y)
        one.learn_many(s, y)
        q = np.append(rng.random(30), s[:10])
        np.testing.assert_allclose(fused.predict_interval_many(q[:, None]), one.predict_interval_many(q), rtol=1e-15)
        np.testing.assert_allclose(fused.predict_many(q[:, None]), one.predict_many(q), rtol=1e-14)
        np.testing.assert_allclose(fused.map().predict_many(q[:, None]), one.predict_many(q), rtol=1e-14)


@pytest.mark.parametrize("resolution", [None, 8])
def test_both_ends_grow_with_every_score(resolution):
    rng = np.random.default_rng(5)
    fused = PartialOrderVennAbers(scale=Interval(0.0, 1.0), resolution=resolution)
    s = rng.random((100, 2))
    fused.learn_many(s, rng.random(100) < s.mean(axis=1))
    steps = np.linspace(0.0, 1.0, 13)
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    ends = fused.predict_interval_many(grid)
    assert (ends[0] <= ends[1]).all()
    for end in (*ends, fused.predict_many(grid)):
        # two block means of the same value may have been summed in two orders
        assert min(np.diff(end.reshape(13, 13), axis=axis).min() for axis in (0, 1)) >= -1e-15


def test_weights_of_observations_and_of_the_object():
    fused = PartialOrderVennAbers()
    fused.learn_one([0.2, 0.2], True, w=3.0)
    assert fused.predict_interval_one([0.4, 0.4]) == (0.75, 1.0)
    assert fused.predict_interval_one([0.4, 0.4], w=3.0) == (0.5, 1.0)
    assert fused.predict_interval_one([0.4, 0.1]) == (0.0, 1.0)  # not comparable
    with pytest.raises(InputError, match="weight 0"):
        fused.predict_interval_one([0.4, 0.4], w=0.0)
    with pytest.raises(InputError, match="point='mean'"):
        PartialOrderVennAbers("mean")


def miscalibration(p, y):
    """How many standard errors the sum of y − p is away from 0 in each eighth of [0, 1] that 100 or more p are in."""
    found = []
    for b in range(8):
        inside = (p >= b / 8) & (p < (b + 1) / 8 + (b == 7))
        if inside.sum() >= 100:
            found.append((y - p)[inside].sum() / math.sqrt((p * (1.0 - p))[inside].sum() + 1e-12))
    return np.array(found)


@pytest.mark.full
def test_the_right_one_of_the_pair_is_perfectly_calibrated_and_an_isotonic_fit_is_not():
    """E(Y | p_Y) = p_Y on a partial order too; the same statistic refutes the isotonic fit of the same observations."""
    rng = np.random.default_rng(6)
    right, fits, labels = [], [], []
    for _ in range(2_000):
        s = lexicographic(rng.integers(0, 8, (26, 2)) / 8 + 1 / 16)
        s = s[rng.permutation(len(s))]
        y = (rng.random(len(s)) < s.mean(axis=1)).astype(float)
        fused = PartialOrderVennAbers()
        fused.learn_many(s[:-1], y[:-1])
        right.append(fused.predict_interval_one(s[-1])[int(y[-1])])
        x = lexicographic(s[:-1])
        place = np.array([int(np.flatnonzero((x == row).all(axis=1))[0]) for row in s[:-1]])
        fit = PartialOrder(x).solve(np.bincount(place, y[:-1]), np.bincount(place, 1.0 - y[:-1])).x
        fits.append(fit[(x <= s[-1]).all(axis=1)].max(initial=0.0))
        labels.append(y[-1])
    right, fits, labels = np.array(right), np.array(fits), np.array(labels)
    z = miscalibration(right, labels)
    assert len(z) >= 6
    assert np.abs(z).max() < 4.0, z  # 8 bins: the chance of a false alarm is 5e-4, and the seed is fixed
    assert np.abs(miscalibration(fits, labels)).max() > 8.0


# -- MR-MIC ------------------------------------------------------------------------------------------------------------


def laplacian(x, weight):
    """Of the similarities wᵢ wⱼ / ‖xᵢ − xⱼ‖."""
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    similarity = np.outer(weight, weight) / distance
    return np.diag(similarity.sum(axis=1)) - similarity


@pytest.mark.parametrize("penalty", [0.0, 1e-5, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize(("size", "width"), [(12, 2), (80, 2), (60, 3)])
def test_mrmic_is_the_quadratic_program(penalty, size, width):
    rng = np.random.default_rng(size)
    x = lexicographic(rng.random((size, width)))
    for weight in (np.ones(size), rng.uniform(0.1, 3.0, size)):
        mean = (rng.random(size) < x.mean(axis=1)).astype(float)
        problem = ManifoldIsotonic(x, weight, penalty)
        found = problem.solve(mean)
        hessian = 2.0 * np.diag(weight) + penalty * laplacian(x, weight)
        expected = quadratic(hessian, 2.0 * weight * mean, problem.order)
        assert found.solved
        np.testing.assert_allclose(found.x, expected, rtol=0.0, atol=1e-11)  # of quadprog too, conditioned up to 1e5
        assert is_monotone(x, found.x)
        assert found.iterations <= 10


def test_mrmic_is_equation_6_of_the_paper():
    """Observation by observation, as it stands there, with distinct tuples and unit weights: its values are ours."""
    rng = np.random.default_rng(7)
    s = rng.random((40, 2))
    y = (rng.random(40) < s.mean(axis=1)).astype(float)
    fused = MRMIC(penalty=0.02)
    fused.learn_many(s, y)
    x = lexicographic(s)
    labels = y[np.lexsort(s.T[::-1])]
    hessian = 2.0 * np.eye(40) + 0.02 * laplacian(x, np.ones(40))
    expected = quadratic(hessian, 2.0 * labels, PartialOrder(x))
    np.testing.assert_allclose(fused.predict_many(x), expected, rtol=0.0, atol=1e-12)


def test_the_similarity_itself_would_be_no_penalty():
    """Check that ω without a diagonal takes negative values: the program would have no minimum for large λ.

    The form of its Laplacian does not.
    """
    x = np.random.default_rng(8).random((30, 2))
    matrix = laplacian(x, np.ones(30))
    assert np.linalg.eigvalsh(np.diag(np.diag(matrix)) - matrix).min() < -1.0
    assert np.linalg.eigvalsh(matrix).min() > -1e-10


def test_mrmic_takes_weights_for_repetitions_in_any_unit():
    rng = np.random.default_rng(9)
    s, y = rng.integers(0, 6, (30, 2)) / 6, rng.integers(0, 2, 30)
    once, twice, decayed = MRMIC(0.01), MRMIC(0.01), MRMIC(0.01, forgetting=Decay(half_life=1e9))
    once.learn_many(s, y, np.full(30, 2.0))
    twice.learn_many(np.repeat(s, 2, axis=0), np.repeat(y, 2))
    decayed.learn_many(s, y, np.full(30, 2.0))
    probes = rng.random((50, 2))
    assert once.predict_many(probes).tolist() == twice.predict_many(probes).tolist()
    np.testing.assert_allclose(decayed.predict_many(probes), once.predict_many(probes), atol=1e-6)  # 30/1e9 of a life


def test_a_large_penalty_leaves_the_mean():
    fused = MRMIC(penalty=1e8)
    fused.learn_many([[0.1, 0.1], [0.9, 0.2], [0.5, 0.8]], [0, 1, 1])
    np.testing.assert_allclose(fused.predict_many([[0.1, 0.1], [0.9, 0.2], [0.5, 0.8]]), 2 / 3, atol=1e-7)


def test_between_held_tuples_it_is_linear_and_outside_the_nearest():
    fused = MRMIC(penalty=0.0)
    corners = np.array([[0.1, 0.1], [0.9, 0.2], [0.3, 0.9]])
    fused.learn_many(np.repeat(corners, [1, 2, 1], axis=0), [0, 0, 1, 1])
    assert fused.predict_many(corners).tolist() == [0.0, 0.5, 1.0]
    shares = np.random.default_rng(10).dirichlet(np.ones(3), 20)
    np.testing.assert_allclose(fused.predict_many(shares @ corners), shares @ [0.0, 0.5, 1.0], atol=1e-14)
    assert fused.predict_many([[0.0, 0.0], [1.0, 0.0], [0.4, 1.0]]).tolist() == [0.0, 0.5, 1.0]


def test_it_is_not_monotone_as_its_documentation_says():
    fused = MRMIC(penalty=0.0)
    fused.learn_many([[0.0, 0.5], [0.5, 0.4], [1.0, 0.3], [0.5, 1.0]], [1, 0, 0, 1])
    assert fused.predict_one([0.1, 0.48]) > fused.predict_one([0.4, 0.48])
    assert not MRMIC.monotone


@pytest.mark.parametrize(
    ("held", "probe", "expected"),
    [
        ([[0.3, 0.3]], [0.9, 0.1], 0.0),  # one place
        ([[0.2, 0.2], [0.8, 0.8]], [0.5, 0.5], 0.5),  # a line
        ([[0.2, 0.5], [0.8, 0.5]], [0.35, 0.9], 0.25),  # what lies beside a line is projected onto it
        ([[0.2, 0.5], [0.8, 0.5]], [0.1, 0.5], 0.0),  # and beyond its ends the nearest holds
        ([[0.2, 0.2, 0.2], [0.8, 0.2, 0.2], [0.2, 0.2, 0.8]], [0.4, 0.9, 0.4], 1 / 3),  # a plane
    ],
)
def test_few_or_aligned_tuples(held, probe, expected):
    fused = MRMIC(penalty=0.0, n_scores=len(probe))
    fused.learn_many(held, [0, 1, 0][: len(held)])
    assert fused.predict_one(probe) == pytest.approx(expected, abs=1e-12)


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_mrmic_solves_whatever_comes(width):
    """Ties, subnormal distances, weights from 1e-60 to 1e60: values in [0, 1], no failure."""
    scores = [0.0, 5e-324, 1e-300, 1e-9, 0.5, 0.5 + 1e-12, 1.0 - 1e-16, 1.0, 0.3, 0.7]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 12))
        fused = MRMIC(n_scores=width)
        s, w = rng.choice(scores, (n, width)), 10.0 ** rng.choice([0, 0, 0, -60, 60, -3], n)
        fused.learn_many(s, rng.integers(0, 2, n), w)
        p = fused.predict_many(np.concatenate((s, rng.random((20, width)))))
        assert p.min() >= 0.0
        assert p.max() <= 1.0


@pytest.mark.parametrize("penalty", [None, True, -1.0, math.inf, math.nan, "much"])
def test_a_bad_penalty_is_named(penalty):
    with pytest.raises(InputError, match="penalty="):
        MRMIC(penalty)


@pytest.mark.parametrize("method", [CopulaFusion, MRMIC, PartialOrderVennAbers])
def test_the_table_of_methods_has_it(method):
    text = (Path(__file__).parents[1] / "docs" / "methods" / "index.md").read_text(encoding="utf8")
    assert f"| `{method.name}` | `{method.__name__}` | {method.summary} |" in text


def test_a_few_places_are_interpolated_as_many():
    """With the triangles' affine maps, and without: at random places, at corners and edges, and outside."""
    rng = np.random.default_rng(21)
    fused = MRMIC(penalty=0.02)
    s = rng.random((200, 2)).round(2)
    fused.learn_many(s, rng.random(200) < s.mean(axis=1))
    places = np.concatenate((rng.random((300, 2)), s, 0.5 * (s[:50] + s[50:100]), [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    alone = [fused.predict_one(one) for one in places]
    np.testing.assert_allclose(fused.predict_many(places), alone, rtol=0.0, atol=1e-13)
