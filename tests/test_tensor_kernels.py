"""The tensor Bernstein kernels and the dual active set: against direct sums and formulas, and compiled ≡ uncompiled."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from test_kernel_forms import twins

from streamcal import Interval, Probability, RetractionError
from streamcal.kernels.polynomial import tensor_bernstein
from streamcal.kernels.polynomial.difference_qp import DifferenceQP
from streamcal.kernels.polynomial.forest_qp import ForestQP
from streamcal.solvers.tensor import IsotonicTensor, IsotonicTensorLeastSquares
from streamcal.states import plain
from streamcal.statistics.tensor_moments import TensorMoments

DEGREES = [(1,), (5,), (2, 3), (5, 5), (2, 1, 3)]


def basis(degrees, u):
    """Return the rows of V by scipy, which knows nothing of our kernels: shape (n, Π(K + 1))."""
    rows = np.ones((len(u), 1))
    for degree, column in zip(degrees, np.asarray(u).T, strict=True):
        one = binom.pmf(np.arange(degree + 1), degree, column[:, None])
        rows = (rows[:, :, None] * one[:, None, :]).reshape(len(u), -1)
    return rows


def stream(degrees, n, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.random((n, len(degrees)))
    u[: n // 4] = np.round(u[: n // 4])  # corners and edges
    w = rng.exponential(size=n)
    return u, w, w * rng.integers(0, 2, n)


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_sums_hold_the_gram_matrix_and_the_cross_sums(degrees):
    """To rounding: an entry is a sum of 200 positive terms, each of up to 4·ΣK roundings."""
    u, w, positive = stream(degrees, 200)
    sums = tensor_bernstein.TensorSums(degrees)
    sums.update_many(u, w, positive)
    v, problem = basis(degrees, u), IsotonicTensor(degrees, ridge=0.0)
    direct = v.T @ (w[:, None] * v) / w.sum()
    np.testing.assert_allclose(problem.quadratic(sums.moments, sums.weight), direct, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(sums.cross, v.T @ positive, rtol=1e-12, atol=1e-300)
    assert sums.weight == pytest.approx(w.sum(), rel=1e-14)
    assert sums.positive == pytest.approx(positive.sum(), rel=1e-14)


@pytest.mark.parametrize("degrees", DEGREES)
def test_one_by_one_is_in_bulk_and_what_is_reverted_is_gone(degrees):
    u, w, positive = stream(degrees, 40)
    loop, many, other = (tensor_bernstein.TensorSums(degrees) for _ in range(3))
    for row in zip(u.tolist(), w.tolist(), positive.tolist(), strict=True):
        loop.update(*row)
    many.update_many(u[:25], w[:25], positive[:25])
    first = many.state()
    many.update_many(u[25:], w[25:], positive[25:])
    for one, twin in zip(loop.state(), many.state(), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(twin).tobytes()
    for row in zip(u[25:].tolist(), w[25:].tolist(), positive[25:].tolist(), strict=True):
        loop.unlearn(*row)
    for one, before in zip(loop.state(), first, strict=True):
        np.testing.assert_allclose(one, before, rtol=1e-11, atol=1e-14 * w.sum())
    other.load(*first)
    other.multiply(0.25)
    other.merge(other)
    assert other.moments.tolist() == (first[0] * 0.5).tolist()
    with pytest.raises(ValueError, match="degrees differ"):
        other.merge(tensor_bernstein.TensorSums((7,)))
    with pytest.raises(ValueError, match="scores are needed"):
        other.update([0.5] * (len(degrees) + 1), 1.0, 0.0)
    with pytest.raises(ValueError, match="got shapes"):
        other.load(np.zeros(2), np.zeros(2), 1.0, 0.0)
    with pytest.raises(ValueError, match=r"degrees must lie in 1\.\.50"):
        tensor_bernstein.TensorSums((0,))


@pytest.mark.parametrize("degrees", DEGREES)
def test_values_are_those_of_the_formula(degrees):
    rng = np.random.default_rng(1)
    problem = IsotonicTensor(degrees)
    c = problem.repaired(rng.normal(0.4, 0.3, problem.size))
    u = np.vstack([stream(degrees, 60)[0], np.zeros((1, len(degrees))), np.ones((1, len(degrees)))])
    polynomial = tensor_bernstein.TensorPolynomial(c, degrees)
    values = polynomial.at_many(u)
    np.testing.assert_allclose(values, basis(degrees, u) @ c, rtol=0, atol=1e-14)
    assert values.tolist() == [polynomial.at(row) for row in u.tolist()]
    assert values[-2] == c[0]
    assert values[-1] == c[-1]
    flat = tensor_bernstein.TensorPolynomial(np.full(problem.size, 0.3), degrees)
    assert set(flat.at_many(u).tolist()) == {0.3}
    assert pickle.loads(pickle.dumps(polynomial)).at_many(u).tolist() == values.tolist()
    with pytest.raises(ValueError, match="do not fit"):
        tensor_bernstein.TensorPolynomial(c[1:], degrees)
    with pytest.raises(ValueError, match=r"degrees must lie in 1\.\.50"):
        tensor_bernstein.TensorPolynomial(c, (51,))
    for call in (polynomial.at, lambda wrong: polynomial.at_many(np.array([wrong]))):
        with pytest.raises(ValueError, match="scores are needed"):
            call([0.5] * (len(degrees) + 1))


rows = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(1e-60, 1e60) | st.floats(0.1, 10.0), st.booleans()),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize("degrees", [(1, 2), (4, 3)])
@given(rows)
@settings(max_examples=10)
def test_both_forms_of_the_tensor_kernel(degrees, rows):
    found = []
    u = np.array([row[:2] for row in rows])
    w = np.array([row[2] for row in rows])
    positive = w * [row[3] for row in rows]
    c = np.sort(np.random.default_rng(2).random(int(np.prod(np.array(degrees) + 1))))
    for module in twins("tensor_bernstein"):
        sums = module.TensorSums(degrees)
        sums.update_many(u, w, positive)
        sums.unlearn(u[0].tolist(), w[0], positive[0])
        values = module.TensorPolynomial(c, degrees).at_many(u)
        found.append(np.concatenate([*map(np.atleast_1d, sums.state()), values]).tobytes())
    assert found[0] == found[1]


def random_program(seed, n=7, constraints=12):
    """Draw a factor, a linear term, and constraints that 0 ≤ x_0 … and constants meet."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    quadratic = root @ root.T + 0.01 * np.eye(n)
    above, below = rng.integers(-1, n, constraints), rng.integers(-1, n, constraints)
    bound = np.where((above < 0) | (below < 0), -1.0, 0.0) * (above != below)
    inverse = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(quadratic)))
    return quadratic, np.tril(inverse), rng.normal(size=n) * 3.0, above, below, bound


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(30))
def test_both_forms_of_the_dual_active_set_and_the_optimality_of_its_answer(seed):
    quadratic, inverse, linear, above, below, bound = random_program(seed)
    found = []
    for module in twins("difference_qp"):
        qp = module.DifferenceQP(len(linear), above, below, bound)
        assert qp.solve(inverse, linear) == module.SOLVED
        found.append((qp.x.tobytes(), qp.multipliers.tobytes(), qp.working, qp.iterations))
    assert found[0] == found[1]
    x, multipliers = np.frombuffer(found[0][0]), np.frombuffer(found[0][1])
    ends = np.append(x, 0.0)
    slack = ends[above] - ends[below] - bound
    gradient = np.append(quadratic @ x - linear, 0.0)
    np.subtract.at(gradient, above, multipliers)
    np.add.at(gradient, below, multipliers)
    # rounding of a program whose inverse has entries of 100
    np.testing.assert_allclose(gradient[:-1], 0.0, atol=1e-10)
    assert multipliers.min() >= 0.0
    assert slack.min() >= -1e-11
    assert abs(multipliers * slack).max() <= 1e-10
    assert set(np.flatnonzero(multipliers)) <= set(found[0][2])


def test_the_dual_active_set_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="shapes differ"):
        DifferenceQP(3, [0, 1], [1], [0.0])
    with pytest.raises(ValueError, match=r"0\.\.2"):
        DifferenceQP(3, [3], [0], [0.0])
    with pytest.raises(ValueError, match="inverse factor"):
        DifferenceQP(3, [1], [0], [0.0]).solve(np.eye(2), np.zeros(3))


@pytest.mark.sample(2)
@pytest.mark.parametrize("degrees", [(4,), (2, 3), (1, 2, 2)])
def test_both_forms_of_the_forest_and_the_optimality_of_its_answer(degrees):
    """From no working set at all, and then from that of the program before."""
    problem = IsotonicTensor(degrees)
    kernels_of = [module.ForestQP for module in twins("forest_qp")]
    zero = problem.size
    edges = np.where(problem.above < 0, zero + 1, problem.above), np.where(problem.below < 0, zero, problem.below)
    problems = [one(problem.size, *edges, problem._ratio, problem._penalty, problem._place) for one in kernels_of]
    solved, moved = 0, 0
    for seed in range(12):
        sums = tensor_bernstein.TensorSums(degrees)
        u, w, positive = stream(degrees, 60 + seed, seed // 6)
        sums.update_many(u, w, positive if seed != 3 else 0.0 * positive)
        found = [one.solve(sums.moments, sums.cross, sums.weight) for one in problems]
        assert found[0] == found[1]
        if not found[0]:
            for one in problems:
                one.start_from([])
            continue
        solved, moved = solved + 1, moved + (problems[0].solves > 1)
        assert problems[0].x.tobytes() == problems[1].x.tobytes()
        assert (problems[0].gap, problems[0].solves) == (problems[1].gap, problems[1].solves)
        x, quadratic = problems[0].x, problem.quadratic(sums.moments, sums.weight)
        assert problem.slacks(x).min() >= 0.0
        # A gap of a few units of rounding of a sum of N terms: it bounds how far the objective is from its minimum.
        assert 0.0 <= problems[0].gap <= 1e-13
        cold = IsotonicTensorLeastSquares(degrees).solve_quadratic(quadratic, sums.cross / sums.weight)
        own, other = (0.5 * c @ quadratic @ c - c @ sums.cross / sums.weight for c in (x, cold.x))
        assert own == pytest.approx(other, abs=1e-13)
    assert solved >= 10
    assert moved >= 2, "the working set never had to change"


def test_the_forest_refuses_what_does_not_fit():
    matrix = np.eye(2)
    with pytest.raises(ValueError, match="4 nodes"):
        ForestQP(2, [4], [0], matrix, matrix, matrix)
    with pytest.raises(ValueError, match="2 x 2"):
        ForestQP(2, [1], [0], matrix[0], matrix, matrix)
    qp = ForestQP(2, [1, 0, 3, 1], [0, 2, 1, 0], matrix, 0.0 * matrix, np.array([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match="moments"):
        qp.solve(np.ones(2), np.ones(2), 1.0)
    moments, cross = np.array([1.0, 0.0, 1.0]), np.array([0.75, 0.25])
    for working in ([0, 3], [0, 1, 2]):  # a cycle; 0 and 1 joined
        qp.start_from(working)
        assert not qp.solve(moments, cross, 1.0)
    for working in ([], [0]):
        qp.start_from(working)
        assert qp.solve(moments, cross, 1.0)
        assert qp.x.tolist() == [0.5, 0.5]
    assert not qp.solve(moments * np.nan, cross, 1.0) or not qp.gap <= 1.0


def test_tensor_moments_are_the_gram_matrix_of_what_is_held():
    """After learning, merging, retracting and fading: to rounding of the sums, which retractions leave behind."""
    degrees, scales = (2, 3), (Probability(), Interval(-1.0, 3.0))
    u, w, positive = stream(degrees, 60, seed=3)
    x = u * [1.0, 4.0] - [0.0, 1.0]
    one, other = TensorMoments(degrees, scales), TensorMoments(degrees, scales)
    y = positive / w
    one.update_many(x[:30], y[:30], w[:30])
    other.update_many(x[30:], y[30:], w[30:])
    one.merge(other)
    for k in range(10, 20):
        one.unlearn(tuple(x[k].tolist()), y[k], w[k])
    one.decay(0.25)
    held = np.r_[0:10, 20:60]
    v = basis(degrees, u[held])
    problem = IsotonicTensor(degrees, ridge=0.0)
    expected = v.T @ (w[held, None] * v) / w[held].sum()
    assert (one.n, one.count) == (pytest.approx(0.25 * w[held].sum(), rel=1e-12), 50)
    np.testing.assert_allclose(problem.quadratic(one.sums.moments, one.n), expected, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(one.sums.cross, 0.25 * v.T @ positive[held], rtol=1e-11, atol=1e-13)
    twin = one.empty()
    twin.restore(json.loads(json.dumps(plain(one.state()))))
    assert plain(twin.state()) == plain(one.state())
    with pytest.raises(RetractionError):
        one.unlearn(tuple(x[0].tolist()), 1.0, 1e3)
    assert plain(twin.state()) == plain(one.state())
    for k in held:
        twin.unlearn(tuple(x[k].tolist()), y[k], 0.25 * w[k])
    assert twin.n == 0.0
    assert not twin.sums.moments.any()
