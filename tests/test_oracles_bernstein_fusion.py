"""`BernsteinFusion` against solvers and formulas somebody else wrote, and the bounds it states."""

import itertools
import json

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import binom

from streamcal import (
    Bernstein,
    Decay,
    EmpiricalCDF,
    Forever,
    InputError,
    Interval,
    Logit,
    Probability,
    SolverError,
    Window,
)
from streamcal.fusion import BernsteinFusion
from streamcal.kernels.polynomial.monotone_qp import RIDGE
from streamcal.solvers.tensor import IsotonicTensor, IsotonicTensorLeastSquares

DEGREES = [(1, 1), (2, 4), (5, 5), (8, 3), (2, 2, 2), (3, 2, 1, 1)]
#: Two exact solvers of one program of condition 1e10 at the worst: their coefficients, in direct comparison.
SOLVERS_AGREE = 1e-9


def sample(n, width, seed=0, kind="smooth"):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=n)
    scores = 1.0 / (1.0 + np.exp(-1.5 * latent[:, None] - rng.normal(size=(n, width))))
    if kind == "ties":
        scores = np.round(scores * 4.0) / 4.0
    if kind == "against the order":
        return scores, (rng.random(n) < 1.0 - scores.mean(axis=1)).astype(float)
    return scores, (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * latent))).astype(float)


def program(degrees, scores, y, w=None):
    """Write the program of eqs. (10) to (13) by nested loops, with V from scipy: P, r and Ac ≥ b."""
    w = np.ones(len(y)) if w is None else w
    v = np.ones((len(y), 1))
    for degree, column in zip(degrees, scores.T, strict=True):
        v = (v[:, :, None] * binom.pmf(np.arange(degree + 1), degree, column[:, None])[:, None, :]).reshape(len(y), -1)
    places = list(itertools.product(*(range(degree + 1) for degree in degrees)))
    rows, bounds = [], []
    for place in places:
        for axis, degree in enumerate(degrees):
            if place[axis] < degree:
                after = tuple(k + (m == axis) for m, k in enumerate(place))
                row = np.zeros(len(places))
                row[places.index(after)], row[places.index(place)] = 1.0, -1.0
                rows.append(row)
    differences = np.array(rows)
    first, last = np.eye(len(places))[0], -np.eye(len(places))[-1]
    bounds = [0.0] * len(rows) + [0.0, -1.0]
    p = (v * w[:, None]).T @ v / w.sum() + RIDGE * differences.T @ differences
    return p, v.T @ (w * y) / w.sum(), np.vstack([differences, first, last]), np.array(bounds)


def learned(degrees, scores, y, w=None, **params):
    fusion = BernsteinFusion(degrees, n_scores=scores.shape[1], **params)
    fusion.learn_many(scores, y, w)
    return fusion


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("kind", ["smooth", "ties", "against the order"])
def test_the_coefficients_are_those_of_quadprog(degrees, kind):
    quadprog = pytest.importorskip("quadprog")
    for seed, n in ((1, 300), (2, 30)):
        scores, y = sample(n, len(degrees), seed, kind)
        w = np.random.default_rng(seed).exponential(size=n)
        p, r, a, b = program(degrees, scores, y, w)
        found = learned(degrees, scores, y, w).map()
        expected = quadprog.solve_qp(p, r, a.T, b)[0]
        off = found.coefficients.ravel() - expected
        assert np.sqrt(off @ p @ off) <= SOLVERS_AGREE, "in mean square over the data"
        # between the observations the ridge alone decides, which magnifies rounding of 1e-16 by 1e10
        assert np.abs(off).max() <= 2e-5
        if n > 2 * len(r) and kind == "smooth":
            assert np.abs(off).max() <= SOLVERS_AGREE
        assert 0.0 <= found.gap <= 1e-11


def test_scipy_finds_no_better_point():
    scores, y = sample(120, 2, 3)
    p, r, a, b = program((3, 2), scores, y)
    found = learned((3, 2), scores, y).map().coefficients.ravel()

    def value(c):
        return 0.5 * c @ p @ c - r @ c

    other = minimize(
        value,
        np.full(12, 0.5),
        jac=lambda c: p @ c - r,
        method="SLSQP",
        constraints=LinearConstraint(a, b, np.inf),
        options={"maxiter": 500, "ftol": 1e-15},
    )
    assert value(found) <= other.fun + 1e-9
    np.testing.assert_allclose(found, other.x, atol=1e-4)


def test_clarabel_finds_the_same_point():
    clarabel = pytest.importorskip("clarabel")
    from scipy import sparse

    scores, y = sample(400, 3, 4)
    p, r, a, b = program((2, 2, 2), scores, y)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cone = [clarabel.NonnegativeConeT(len(b))]
    solver = clarabel.DefaultSolver(sparse.triu(p, format="csc"), -r, sparse.csc_matrix(-a), -b, cone, settings)
    expected = np.array(solver.solve().x)
    # an interior point of tolerance 1e-12 in the objective is within its root of the optimum
    np.testing.assert_allclose(learned((2, 2, 2), scores, y).map().coefficients.ravel(), expected, atol=2e-6)


@pytest.mark.parametrize("degree", [1, 5, 12])
def test_one_score_is_the_bernstein_polynomial(degree):
    scores, y = sample(500, 1, 5)
    one = Bernstein(degree)
    one.learn_many(scores[:, 0], y)
    fusion = learned((degree,), scores, y)
    np.testing.assert_allclose(fusion.map().coefficients, one.map().coefficients, rtol=0, atol=1e-7)
    np.testing.assert_allclose(fusion.predict_many(scores), one.predict_many(scores[:, 0]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("degrees", DEGREES)
def test_it_is_monotone_over_the_whole_cube(degrees):
    """At random pairs of which one is higher in every score, on the faces too; the coefficients are so exactly."""
    for kind in ("smooth", "against the order"):
        scores, y = sample(40, len(degrees), 6, kind)
        fusion = learned(degrees, scores, y)
        c = fusion.map().coefficients
        assert all(np.diff(c, axis=axis).min() >= 0.0 for axis in range(c.ndim))
        assert c.min() >= 0.0
        assert c.max() <= 1.0
        rng = np.random.default_rng(7)
        low = rng.random((2_000, len(degrees))).round(1)
        high = np.minimum(low + rng.random(low.shape) * (rng.random(low.shape) < 0.5), 1.0)
        # the rounding of a sum of Π(K + 1) terms that add up to at most 1
        assert (fusion.predict_many(high) - fusion.predict_many(low)).min() >= -1e-14


def test_a_gap_is_a_bound_for_any_multipliers():
    problem = IsotonicTensor((3, 2))
    scores, y = sample(100, 2, 8)
    p, r, *_ = program((3, 2), scores, y)
    best = IsotonicTensorLeastSquares((3, 2)).solve_quadratic(p, r).x
    rng = np.random.default_rng(9)
    for _ in range(50):
        c = problem.repaired(best + rng.normal(scale=0.1, size=problem.size))
        gap = problem.gap(p, r, c, rng.exponential(size=len(problem.bound)) * rng.integers(0, 2))
        assert 0.5 * c @ p @ c - r @ c - (0.5 * best @ p @ best - r @ best) <= gap + 1e-12


def test_a_gap_counts_what_is_not_stationary_and_what_is_not_tight():
    """By hand, for ½|c|² − rᵀc over 0 ≤ c₀ ≤ c₁ ≤ 1; in both cases c costs ¼ above the optimum."""
    problem, square = IsotonicTensor((1,)), np.eye(2)
    # r = 0, the optimum is 0: λ = (½, 1, 0) of (c₁ ≥ c₀, c₀ ≥ 0, c₁ ≤ 1) makes c stationary, and c₀ ≥ 0 is ½ from tight
    assert problem.gap(square, np.zeros(2), np.full(2, 0.5), np.array([0.5, 1.0, 0.0])) == 0.5
    # r = ½, the optimum is ½: without multipliers the gradient is −½ twice, and the way to c* may be as long as 1
    assert problem.gap(square, np.full(2, 0.5), np.zeros(2), np.zeros(3)) == 1.0


def test_ranks_by_a_fixed_empirical_distribution():
    """What is learned and asked as raw scores on these scales is what is learned and asked as ranks."""
    scores, y = sample(300, 2, 10)
    scores = scores * [10.0, 1.0] - [3.0, 0.0]
    scales = tuple(EmpiricalCDF.from_scores(column) for column in scores[:100].T)
    ranks = np.column_stack(
        [s.units(s.coordinates(np.ascontiguousarray(c))) for s, c in zip(scales, scores.T, strict=True)]
    )
    raw, ranked = learned((3, 3), scores[100:], y[100:], scale=scales), learned((3, 3), ranks[100:], y[100:])
    np.testing.assert_allclose(raw.predict_many(scores), ranked.predict_many(ranks), rtol=0, atol=1e-12)
    assert raw.tally()["clamped"] == sum(
        scale.count_clamped(np.ascontiguousarray(column)) for scale, column in zip(scales, scores[100:].T, strict=True)
    )


def test_a_flat_answer_where_the_data_say_no_more():
    fusion = BernsteinFusion(4)
    fusion.learn_one((0.3, 0.7), 1)
    fusion.learn_one((0.3, 0.7), 0, 3.0)
    # one place fixes one number; the ridge makes the surface flat, to rounding over 1e-10
    np.testing.assert_allclose(fusion.map().coefficients, 0.25, atol=1e-5)


def test_what_it_holds_does_not_depend_on_how_much_was_learned():
    scores, y = sample(2_000, 2, 11)
    fusion = BernsteinFusion(3)
    fusion.learn_many(scores[:10], y[:10])
    held = len(str(fusion.state_dict()).split(","))
    fusion.learn_many(scores, y)
    assert len(str(fusion.state_dict()).split(",")) == held
    assert fusion.bounded_memory


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"degrees": 0}, "whole numbers from 1 to 50"),
        ({"degrees": 51}, "whole numbers from 1 to 50"),
        ({"degrees": True}, "whole numbers"),
        ({"degrees": (3, 2.0)}, "whole numbers"),
        ({"degrees": (3, 2, 2)}, "n_scores=3"),
        ({"degrees": 40}, "1681 coefficients"),
        ({"degrees": 5, "n_scores": 4}, "1296 coefficients"),
        ({"n_scores": 0}, "from 1 to 256"),
        ({"scale": (Probability(), Interval())}, "bounded scale"),
        ({"scale": (Logit(),)}, "1 scales for 2 scores"),
        ({"scale": "logit"}, "scale="),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params, said):
    with pytest.raises(InputError, match=said):
        BernsteinFusion(**params)


def test_an_unsolved_program_raises(monkeypatch):
    fusion = learned((2, 2), *sample(20, 2))
    monkeypatch.setattr("streamcal.solvers.tensor.GAP_ALLOWED", -1.0)
    with pytest.raises(SolverError, match="inaccurate"):
        fusion.solve(fusion._engine.memory.statistic, None)


def test_the_solver_says_why_it_did_not_solve():
    solver = IsotonicTensorLeastSquares((2, 2))
    assert solver.solve(np.zeros(25), np.zeros(9), 0.0).status == "no data"
    assert not solver.solve(np.full(25, np.nan), np.zeros(9), 1.0).solved


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy", [Forever(), Window(150), Decay(60.0, by="time")], ids=repr)
def test_a_fit_from_the_last_active_set_is_that_from_none(policy):
    """After every step, retractions, batches and heavy observations included; and a saved one goes on alike."""
    rng = np.random.default_rng(31)
    cal = BernsteinFusion((3, 2), forgetting=policy)
    copy, gone = cal.clone(), []
    cold, solve = [], cal._least_squares.solve_quadratic
    cal._least_squares.solve_quadratic = lambda *given: cold.append(1) or solve(*given)
    for k in range(260):
        x, w = rng.random(2).tolist(), 1e6 if k == 150 else float(rng.integers(1, 4))
        gone.append((x, bool(rng.random() < x[0] * x[1]), w, float(k)))
        for one in (cal, copy) if k > 200 else (cal,):
            one.learn_one(*gone[-1])
            if one.unlearns and k > 10 and k % 5 == 2:
                one.unlearn_one(*gone[-11])
        if k == 90:
            cal.learn_many(rng.random((30, 2)), rng.random(30) < 0.5, t=np.full(30, 90.0))
        if k == 200:
            copy = BernsteinFusion.from_state(json.loads(json.dumps(cal.state_dict())))
        found = cal.map()
        if k > 200:
            assert copy.map().coefficients.tobytes() == found.coefficients.tobytes()
        if k % 4 == 0:
            sums = cal._engine.memory.present(None).sums
            solver = IsotonicTensorLeastSquares((3, 2))
            expected = solver.solve_quadratic(
                solver.problem.quadratic(sums.moments, sums.weight), sums.cross / sums.weight
            )
            # Coefficients that the data hardly determine differ by rounding over the ridge: 1e-16 over 1e-10.
            np.testing.assert_allclose(found.coefficients.ravel(), expected.x, rtol=0.0, atol=1e-6)
    assert len(cold) <= 20, "the last active set is hardly ever of use"
