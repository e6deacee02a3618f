"""The solvers against independent ones: Clarabel, quadprog and scipy."""

import pickle

import clarabel
import numpy as np
import pytest
import quadprog
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from scipy.special import expit
from scipy.stats import binom

from streamcal import Interval, Platt
from streamcal.kernels.polynomial.bernstein import BernsteinSums, evaluate_many
from streamcal.kernels.polynomial.monotone_qp import RIDGE, MonotoneQP
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.newton import fit_sigmoid
from streamcal.solvers.osqp import WarmOSQP

SCORES = {
    "uniform": lambda rng, size: rng.random(size),
    "skewed": lambda rng, size: rng.beta(1, 200, size),
    "two ends": lambda rng, size: rng.beta(0.3, 0.3, size),
    "tied": lambda rng, size: rng.integers(0, 12, size) / 11.0,
    "narrow": lambda rng, size: 0.4 + 0.05 * rng.random(size),
}


def stream(kind, size, seed):
    rng = np.random.default_rng(seed)
    u = SCORES[kind](rng, size)
    y = (rng.random(size) < np.minimum(0.9, 0.05 * u + 0.8 * u**1.5 + 0.01)).astype(float)
    return u, y


def statistic(n, u, y):
    sums = BernsteinSums(n)
    sums.update_many(u, np.ones(len(u)), y)
    return sums


def vandermonde(n, u):
    return binom.pmf(np.arange(n + 1), n, u[:, None])


def constraints(n):
    """Rows G c >= h of 0 <= c_0 <= … <= c_n <= 1."""
    G = np.vstack([np.eye(1, n + 1), np.diff(np.eye(n + 1), axis=0), -np.eye(1, n + 1, n)])
    return G, np.append(np.zeros(n + 1), -1.0)


def solve_by_clarabel(n, u, y):
    """Solve the whole batch problem: residuals z = Vc − y are variables, so nothing is squared."""
    V, m, k = vandermonde(n, u), len(u), n + 1
    P = sparse.block_diag([sparse.csc_matrix((k, k)), 100.0 * sparse.eye_array(m)], format="csc")
    G, h = constraints(n)
    A = sparse.vstack(
        [
            sparse.hstack([sparse.csc_matrix(V), -sparse.eye_array(m)]),
            sparse.hstack([sparse.csc_matrix(-G), sparse.csc_matrix((k + 1, m))]),
        ],
        format="csc",
    )
    options = clarabel.DefaultSettings()
    options.verbose = False
    # on 100 times the sum of squares a gap of 1e-10 leaves 1e-6 in any fitted value (seen: 1e-7); 1e-14 is
    # out of its reach on skewed scores, where it then stops earlier
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    cones = [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(k + 1)]
    solver = clarabel.DefaultSolver(sparse.triu(P, format="csc"), np.zeros(k + m), A, np.append(y, -h), cones, options)
    solution = solver.solve()
    assert solution.status == clarabel.SolverStatus.Solved
    return np.array(solution.x)[:k]


def solve_by_quadprog(n, u, y, ridge):
    """On the Gram matrix, with a ridge that makes it positive definite in doubles."""
    V = vandermonde(n, u)
    D = np.diff(np.eye(n + 1), axis=0)
    Q = V.T @ V / len(u) + ridge * D.T @ D
    G, h = constraints(n)
    return quadprog.solve_qp(Q, V.T @ y / len(u), G.T, h)[0]


def kkt_residual(n, u, y, c, ridge=RIDGE):
    """Of the ridged problem, from the data, in increments; exact but for numpy's own rounding."""
    V = vandermonde(n, u)
    tails = np.cumsum(V[:, ::-1], axis=1)[:, ::-1]
    d = np.diff(c, prepend=0.0)
    slope = tails.T @ (V @ c - y) / len(u)
    slope[1:] += ridge * d[1:]
    multiplier = max(0.0, -slope.min()) if c[-1] > 1.0 - 1e-12 else 0.0
    slope = slope + multiplier
    return max(-slope.min(), np.abs(slope[d > 0]).max(initial=0.0), -d.min(), c[-1] - 1.0)


@pytest.mark.sample(7)
@pytest.mark.parametrize("n", [5, 10, 20, 30])
@pytest.mark.parametrize("kind", SCORES)
def test_active_set_solves_the_batch_problem(kind, n):
    u, y = stream(kind, 800, seed=n)
    solution = MonotoneLeastSquares(n).solve(*statistic(n, u, y).state()[:3])
    assert solution.solved
    assert solution.residual <= 1e-12
    # numpy's sums of 800 terms are good to about 1e-14; the requirement is 1e-8
    assert kkt_residual(n, u, y, solution.x) <= 1e-12
    assert solution.x[0] >= 0.0
    assert solution.x[-1] <= 1.0
    assert (np.diff(solution.x) >= 0.0).all()
    V = vandermonde(n, u)
    fitted = V @ solution.x
    # 1e-6: the stated agreement with other solvers, theirs being the larger error
    np.testing.assert_allclose(fitted, V @ solve_by_clarabel(n, u, y), atol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "two ends"])
@pytest.mark.parametrize("n", [5, 10])
def test_active_set_agrees_with_quadprog(kind, n):
    """Up to degree 10 the Gram matrix is positive definite in doubles, and both work on the same ridge."""
    u, y = stream(kind, 2000, seed=3)
    x = MonotoneLeastSquares(n).solve(*statistic(n, u, y).state()[:3]).x
    # cond(VᵀV) is 2e5 at degree 10 (3e2 at 5): coefficients to 1e-9, fitted values to better
    np.testing.assert_allclose(x, solve_by_quadprog(n, u, y, RIDGE), atol=1e-8)


@pytest.mark.parametrize("n", [1, 20, 50])
@pytest.mark.parametrize("kind", SCORES)
def test_a_stream_is_solved_exactly_at_every_step(kind, n):
    u, y = stream(kind, 400, seed=1)
    sums, warm = BernsteinSums(n), MonotoneQP(n)
    for i in range(len(u)):
        sums.update(u[i], 1.0, y[i])
        assert warm.solve(sums.moments, sums.cross, sums.weight) == 0
        assert warm.kkt <= 1e-12  # the target; seen: 1e-14
    cold = MonotoneQP(n)
    cold.solve(sums.moments, sums.cross, sums.weight)
    # both are optimal to 1e-15; in fitted values that is sqrt(1e-15 · |Δd|), 1e-10 where the curves differ by 1e-5
    np.testing.assert_allclose(evaluate_many(warm.coefficients, u), evaluate_many(cold.coefficients, u), atol=1e-9)


DEGENERATE = {
    "one observation": ([0.3], [1.0], [1.0]),
    "one score, two labels": ([0.3, 0.3], [1.0, 2.0], [1.0, 0.0]),
    "only negatives": ([0.1, 0.5, 1.0], [1.0] * 3, [0.0] * 3),
    "only positives": ([0.0, 0.5, 1.0], [1.0] * 3, [1.0] * 3),
    "the two ends": ([0.0, 1.0], [1.0, 1.0], [0.0, 1.0]),
    "falling": ([0.2, 0.8], [1.0, 1.0], [1.0, 0.0]),
    "huge weights": ([0.2, 0.6], [1e300, 2e300], [0.0, 1.0]),
    "tiny weights": ([0.2, 0.6], [1e-300, 2e-300], [0.0, 1.0]),
    "tiny score": ([1e-300, 0.6], [1.0, 1.0], [0.0, 1.0]),
    "subnormal weight": ([0.2, 0.6], [5e-324, 5e-324], [0.0, 1.0]),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("n", [1, 5, 20, 50])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data(case, n):
    u, w, y = (np.array(column) for column in DEGENERATE[case])
    sums = BernsteinSums(n)
    sums.update_many(u, w, w * y)
    solution = MonotoneLeastSquares(n).solve(sums.moments, sums.cross, sums.weight)
    assert solution.solved
    assert solution.residual <= 1e-12
    if case in ("one observation", "one score, two labels", "only negatives", "only positives", "falling"):
        # the flattest curve through one value is flat; 1e-6 where the ridge alone decides
        np.testing.assert_allclose(solution.x, np.average(y, weights=w), atol=1e-6)
    by_osqp = WarmOSQP(n).solve(sums.moments, sums.cross, sums.weight)
    assert by_osqp.solved
    np.testing.assert_allclose(evaluate_many(by_osqp.x, u), evaluate_many(solution.x, u), atol=1e-4)


@pytest.mark.parametrize("make", [MonotoneLeastSquares, WarmOSQP])
def test_what_cannot_be_solved_is_said(make):
    solver, sums = make(5), BernsteinSums(5)
    empty = solver.solve(sums.moments, sums.cross, sums.weight)
    assert (empty.solved, empty.status) == (False, "no data")
    bad = solver.solve(np.full(11, np.nan), sums.cross, 1.0)
    assert (bad.solved, bad.status) == (False, "not finite")
    sums.update_many(np.array([0.2, 0.7]), np.ones(2), np.array([0.0, 1.0]))
    assert solver.solve(sums.moments, sums.cross, sums.weight).solved


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 50),
    st.lists(
        st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), st.floats(1e-3, 1e3), st.booleans()),
        min_size=1,
        max_size=25,
    ),
)
def test_any_small_stream_is_solved(n, rows):
    sums, qp = BernsteinSums(n), MonotoneQP(n)
    for u, w, y in rows:
        sums.update(u, w, w * y)
        assert qp.solve(sums.moments, sums.cross, sums.weight) == 0
        assert qp.kkt <= 1e-12
        assert qp.coefficients[0] >= 0.0
        assert (np.diff(qp.coefficients) >= 0.0).all()
        assert qp.coefficients[-1] <= 1.0


def test_sums_with_rounding_residues_are_solved():
    """A window of three, moved by taking back: the Gram matrix is no longer quite positive semidefinite."""
    rng = np.random.default_rng(0)
    u, y = rng.random(2000), (rng.random(2000) < 0.5).astype(float)
    sums, qp = BernsteinSums(20), MonotoneQP(20)
    for i in range(2000):
        sums.update(u[i], 1.0, y[i])
        if i >= 3:
            sums.unlearn(u[i - 3], 1.0, y[i - 3])
        assert qp.solve(sums.moments, sums.cross, sums.weight) == 0
        assert qp.kkt <= 1e-12


def test_the_active_set_is_the_whole_state():
    u, y = stream("uniform", 500, seed=2)
    data = statistic(20, u, y).state()[:3]
    qp = MonotoneQP(20)
    qp.solve(*data)
    again, restored = MonotoneQP(20), pickle.loads(pickle.dumps(qp))
    again.set_active_set(*qp.active_set())
    np.testing.assert_array_equal(restored.coefficients, qp.coefficients)
    for other in (again, restored):
        other.solve(*data)
        assert other.iterations == 0
        np.testing.assert_array_equal(other.coefficients, qp.coefficients)
    with pytest.raises(ValueError, match=r"0\.\.20"):
        again.set_active_set([21], False)
    with pytest.raises(ValueError, match="41 moments"):
        again.solve(data[0][1:], *data[1:])


@pytest.mark.sample(10)
@pytest.mark.parametrize("n", [5, 10, 20, 30])
@pytest.mark.parametrize("kind", SCORES)
# the stated accuracies of the default tolerance and of 1e-9
@pytest.mark.parametrize(("tolerance", "error"), [(1e-6, 1e-4), (1e-9, 1e-6)])
def test_osqp_follows_the_exact_solution(kind, n, tolerance, error):
    u, y = stream(kind, 560, seed=n)
    sums, exact, warm = BernsteinSums(n), MonotoneLeastSquares(n), WarmOSQP(n, tolerance)
    sums.update_many(u[:500], np.ones(500), y[:500])
    V = vandermonde(n, u)
    for i in range(500, 560):
        sums.update(u[i], 1.0, y[i])
        solution = warm.solve(sums.moments, sums.cross, sums.weight)
        reference = exact.solve(sums.moments, sums.cross, sums.weight)
        assert solution.solved
        assert (np.diff(solution.x) >= 0.0).all()
        assert solution.x[0] >= 0.0
        assert solution.x[-1] <= 1.0
        assert warm.violation <= 20 * tolerance  # a row of c_i − c_{i−1} sums errors of up to n rows
        np.testing.assert_allclose((V @ solution.x)[: i + 1], (V @ reference.x)[: i + 1], atol=error)


def test_osqp_runs_repeat_and_are_silent(capfd):
    u, y = stream("uniform", 120, seed=5)
    runs = []
    for _ in range(2):
        sums, solver, run = BernsteinSums(20), WarmOSQP(20), []
        for i in range(len(u)):
            sums.update(u[i], 1.0, y[i])
            solution = solver.solve(sums.moments, sums.cross, sums.weight)
            run.append((solution.iterations, solution.status, solution.x.tolist()))
        runs.append(run)
    assert runs[0] == runs[1]
    assert capfd.readouterr() == ("", "")


def log_loss(A, B, x, a, b):
    eta = A * x + B
    return np.sum((a + b) * np.logaddexp(0.0, eta) - a * eta)


def table(seed, size, location, spread):
    rng = np.random.default_rng(seed)
    z = np.sort(rng.standard_normal(size))
    x = np.unique(location + spread * z)
    z = (x - location) / spread
    pos, neg = rng.random(len(x)) * expit(z), rng.random(len(x)) * expit(-z)
    t_plus, t_minus = (pos.sum() + 1) / (pos.sum() + 2), 1 / (neg.sum() + 2)
    return x, neg, pos, t_plus, t_minus


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "location", "spread"), [(3, 0, 1), (50, 0, 2), (2000, -3, 1), (300, 5, 300.0)])
def test_sigmoid_fit_equals_scipy(seed, size, location, spread):
    x, neg, pos, t_plus, t_minus = table(seed, size, location, spread)
    a, b = pos * t_plus + neg * t_minus, pos * (1 - t_plus) + neg * (1 - t_minus)
    solution = fit_sigmoid(x, neg, pos, t_plus, t_minus)
    assert solution.solved
    assert solution.residual <= 1e-12
    scale = np.std(x)

    def value(v):
        return log_loss(v[0] / scale, v[1], x, a, b) / (a + b).sum()

    def gradient(v):
        excess = ((a + b) * expit(v[0] / scale * x + v[1]) - a) / (a + b).sum()
        return np.array([excess @ x / scale, excess.sum()])

    bounds = [(0, None), (None, None)]
    best = optimize.minimize(value, [1.0, 0.0], jac=gradient, bounds=bounds, method="L-BFGS-B", tol=1e-16)
    A, B = solution.x
    assert value([A * scale, B]) <= best.fun + 1e-15
    if A > 0.0:
        # scipy from there: a root of the gradient to 1e-15, so that A and B are good to 1e-8 and better
        root = optimize.root(gradient, best.x, tol=1e-15).x
        np.testing.assert_allclose([A * scale, B], root, rtol=1e-8, atol=1e-8)
    else:
        assert gradient([0.0, B])[0] >= -1e-12


@pytest.mark.parametrize(
    ("location", "spread"), [(0, 1), (700, 1e-9), (-700, 1.0), (0.3, 1e-9), (0, 700.0), (1e-300, 1e-301)]
)
@pytest.mark.parametrize("start", [(0.0, 0.0), (1e9, -1e9), (-5.0, 3.0), (1e300, 1e300), (1e-300, -700.0)])
def test_sigmoid_fit_does_not_depend_on_the_start(location, spread, start):
    x, neg, pos, t_plus, t_minus = table(1, 40, location, spread)
    cold = fit_sigmoid(x, neg, pos, t_plus, t_minus)
    warm = fit_sigmoid(x, neg, pos, t_plus, t_minus, start)
    assert cold.solved
    assert warm.solved
    assert warm.residual <= 1e-12
    # A (x − x̄), not B: where all scores are within 1e-9, B is A x̄, and A x̄ + B cancels nine digits by nature
    middle = x[len(x) // 2]
    np.testing.assert_allclose(warm.x[0] * (x - middle), cold.x[0] * (x - middle), atol=1e-9)
    # a good start is recognised: at most the rounding of (A, B) has to be repaired
    assert fit_sigmoid(x, neg, pos, t_plus, t_minus, (cold.x[0], cold.x[1])).iterations <= 4


#: Tables (feature, negative weight, positive weight) where light observations decide on a slope so large that α z and β
#: cancel in the log-odds of heavy ones.
CANCELLING = [
    [
        (-50.294996839900605, 33436.88379164606, 0.0),
        (-0.012100989316605498, 26535.6181657189, 0.0),
        (0.006795345836716053, 0.0, 3955.2944497688463),
        (0.1734784031118619, 9.41603686592764e-06, 0.0),
        (56.62135352163068, 0.0, 2.4725639651636087),
    ],
    [
        (-2.41783035126105, 0.0, 7.909757426743039e-08),
        (-2.417829380533827, 504525226.09365195, 0.0),
        (-2.417829047626901, 0.0, 2.482098248014282),
        (-2.417828962608101, 0.0, 0.0003590942876906173),
        (-2.4178262891023663, 5.15827839583942e-06, 0.0),
        (-2.4178239333859364, 49054.09771617624, 0.0),
        (-2.4178239281048066, 0.0, 122866.13209848116),
    ],
    [
        (-20.22376140589469, 0.0, 6.775568976914554e-10),
        (-0.6112517179033145, 0.0, 0.0002992815182188345),
        (-0.026226470841732706, 4363234.322816125, 0.0),
        (-0.005514771385717559, 0.0, 2256322.4836781085),
        (1.9258344576336462e-05, 9.392303745395511e-08, 0.0),
        (0.4191836229266729, 0.0, 0.0925543244959751),
        (334.76365597198884, 0.0, 3348393.7086216654),
    ],
]


@pytest.mark.parametrize("rows", CANCELLING)
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("start", [(0.0, 0.0), (1.0, 0.0), (0.0, -11.0)])
def test_sigmoid_fit_converges_where_its_log_odds_cancel(rows, factor, start):
    x, neg, pos = np.array(rows).T.copy()
    targets = (pos.sum() + 1) / (pos.sum() + 2), 1 / (neg.sum() + 2)
    solution = fit_sigmoid(x, factor * neg, factor * pos, *targets, start)
    assert solution.solved, solution
    same = fit_sigmoid(x, neg, pos, *targets)
    # of log-odds whose parts are 3e9, rounding leaves 1e-6
    np.testing.assert_allclose(expit(solution.x[0] * x + solution.x[1]), expit(same.x[0] * x + same.x[1]), atol=1e-6)


def test_sigmoid_slope_is_never_negative():
    falling = fit_sigmoid(np.array([0.0, 1.0]), np.array([0.0, 3.0]), np.array([3.0, 0.0]), 0.8, 0.2)
    assert falling.solved
    assert falling.x.tolist() == [0.0, 0.0]
    subnormal = fit_sigmoid(np.array([0.0, 5e-324]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), 2 / 3, 1 / 3)
    assert subnormal.solved
    assert subnormal.x.tolist() == [0.0, 0.0]
    single = fit_sigmoid(np.array([4.0]), np.array([3.0]), np.array([1.0]), 2 / 3, 1 / 5)
    assert single.x[0] == 0.0
    # log odds of the mean target, (2/3 + 3/5) / 4
    assert expit(single.x[1]) == pytest.approx((2 / 3 + 3 / 5) / 4, rel=1e-15)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(st.floats(-700.0, 700.0), st.floats(0.0, 1e6), st.floats(0.0, 1e6)), min_size=1, max_size=12),
    st.floats(-1e3, 1e3),
    st.floats(-1e3, 1e3),
)
def test_any_table_is_fitted(rows, slope0, offset0):
    """Separable tables, saturated starts and extreme weights included."""
    x, neg, pos = (np.array(column) for column in zip(*rows, strict=True))
    t_plus, t_minus = (pos.sum() + 1) / (pos.sum() + 2), 1 / (neg.sum() + 2)
    solution = fit_sigmoid(x, neg, pos, t_plus, t_minus, (slope0, offset0))
    assert solution.solved or neg.sum() + pos.sum() == 0.0
    assert solution.residual <= 1e-12
    assert solution.x[0] >= 0.0


@pytest.mark.parametrize(
    "rows",
    [
        [(0.0, 142.0, 5810.0), (1e-12, 0.0, 1.0), (-1.0, 1e-12, 0.0)],
        [(0.0, 1.0, 0.0), (1e-12, 0.0, 0.0), (1.0, 1e12, 1e12), (1e6, 0.0, 1e-12)],
        [(-1.7e308, 142.0, 5810.0), (0.0, 0.0, 1e-12), (1e300, 0.0, 0.0), (1e308, 0.0, 1e4)],
        [(-1e300, 1.0, 0.0), (1e300, 0.0, 1.0), (2e300, 1.0, 0.0), (1.7e308, 0.0, 1.0)],
    ],
)
def test_sigmoid_fit_where_the_loss_is_flat_and_where_distances_overflow(rows):
    """Steps change the loss by less than its rounding before the gradient is small; and x − x′ may not be a float."""
    x, neg, pos = (np.array(column) for column in zip(*sorted(rows), strict=True))
    solution = fit_sigmoid(x, neg, pos, (pos.sum() + 1) / (pos.sum() + 2), 1 / (neg.sum() + 2))
    assert solution.solved
    assert solution.residual <= 1e-12
    assert solution.x[0] >= 0.0


@pytest.mark.parametrize("size", [11, 17, 18, 20, 25])
def test_sigmoid_fit_of_one_label_and_a_target_next_to_1(size):
    """The mean of the targets is no more than the larger target, though the sum of these shares rounds to 1."""
    solution = fit_sigmoid(np.arange(size) / size, np.zeros(size), np.ones(size), np.nextafter(1.0, 0.0), 0.5)
    assert solution.solved
    assert solution.x[0] == 0.0
    assert solution.x[1] == pytest.approx(53.0 * np.log(2.0))


def test_sigmoid_fit_says_what_it_cannot_do():
    one = np.ones(1)
    assert fit_sigmoid(one, 0 * one, 0 * one, 0.5, 0.5).status == "no data"
    assert fit_sigmoid(one * np.nan, one, one, 0.6, 0.4).status == "not finite"
    assert fit_sigmoid(one, one * np.inf, one, 0.6, 0.4).status == "not finite"
    assert fit_sigmoid(one, 0 * one, one, 1.0, 0.0).status == "unbounded"
    with pytest.raises(ValueError, match="lengths differ"):
        fit_sigmoid(np.ones(2), one, one, 0.6, 0.4)


def test_platt_of_margins_near_the_largest_float():
    rng = np.random.default_rng(4)
    for _ in range(50):
        cal = Platt(scale=Interval(), resolution=None)
        scores = rng.choice([-1.7e308, -1e300, 0.0, 1.0, 1e300, 1.7e308], 8) * rng.random(8)
        cal.learn_many(scores, rng.integers(0, 2, 8))
        p = cal.predict_many(np.sort(scores))
        assert cal.tally()["unsolved"] == 0
        assert np.diff(p).min() >= 0.0
        assert ((p >= 0.0) & (p <= 1.0)).all()
