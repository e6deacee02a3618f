"""The Bernstein basis, its sums and the sigmoid fit against exact arithmetic, and compiled against uncompiled."""

import pickle
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from test_kernel_forms import plain_kernels

from streamcal.kernels.newton import sigmoid_fit
from streamcal.kernels.polynomial import bernstein, flat_rows, monotone_qp

EPS = np.finfo(float).eps

DEGREES = [1, 2, 5, 20, 33, 50]

EDGES = [0.0, 1e-300, 5e-324, 1e-17, 0.1, 0.5, np.nextafter(0.5, 1.0), 0.9, 1.0 - EPS / 2, 1.0]


def exact_basis(n, u):
    u = Fraction(float(u))
    return [comb(n, k) * u**k * (1 - u) ** (n - k) for k in range(n + 1)]


def explicit(n, u):
    """V by scipy, which knows nothing of our kernels."""
    return binom.pmf(np.arange(n + 1), n, np.asarray(u)[:, None])


@pytest.mark.sample(5)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 20, 40, 51, 99, 100])
def test_basis_is_exact(n):
    for u in EDGES:
        out = np.full(n + 1, np.nan)
        bernstein.basis(n, u, out)
        # n + 2 factors and a rounded 1 - u, whose n-th power carries n/2 ulps: at most 2n roundings
        for computed, exact in zip(out, exact_basis(n, u), strict=True):
            # 1e-300: below it powers are subnormal and lose digits that nothing can see
            assert abs(Fraction(computed) - exact) <= exact * Fraction(2 * (n + 2) * EPS) + Fraction(1, 10**300), u


def test_basis_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="fit into"):
        bernstein.basis(3, 0.5, np.empty(3))
    with pytest.raises(ValueError, match=r"0\.\.100"):
        bernstein.basis(101, 0.5, np.empty(200))


def test_binomials_are_exact():
    for n in (0, 1, 20, 50, 100):
        assert bernstein.binomials(n).tolist() == [float(comb(n, k)) for k in range(n + 1)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("n", DEGREES)
def test_evaluate_is_exact(n):
    rng = np.random.default_rng(n)
    c = np.sort(rng.random(n + 1))
    u = np.array(EDGES + rng.random(20).tolist())
    computed = bernstein.evaluate_many(c, u)
    for x, p in zip(u, computed, strict=True):
        exact = float(sum(Fraction(a) * b for a, b in zip(c.tolist(), exact_basis(n, x), strict=True)))
        # 2n roundings of terms that add up to at most 1, and the last one
        assert p == pytest.approx(exact, abs=2 * (n + 2) * EPS)
        assert bernstein.evaluate(c, x) == p
        assert c[0] <= p <= c[-1]
    assert computed[0] == c[0]
    assert computed[len(EDGES) - 1] == c[-1]


def test_flat_curves_are_flat_exactly():
    u = np.linspace(0, 1, 1001)
    assert np.unique(bernstein.evaluate_many(np.full(21, 0.3), u)).tolist() == [0.3]


@pytest.mark.parametrize("n", range(1, 51))
def test_moments_hold_the_gram_matrix(n):
    rng = np.random.default_rng(n)
    u = np.concatenate([rng.random(100), rng.beta(1, 200, 100), [0.0, 1.0, 1e-300]])
    w = rng.random(len(u)) + 0.5
    y = (rng.random(len(u)) < 0.3).astype(float)
    sums = bernstein.BernsteinSums(n)
    sums.update_many(u, w, w * y)
    V = explicit(n, u)
    # relative to each entry, as all terms are positive: 2n roundings on our side, more on scipy's
    np.testing.assert_allclose(sums.gram(), V.T @ (w[:, None] * V), rtol=1e-12, atol=1e-290)
    # and relative to the matrix, where scipy's errors average out
    assert np.abs(sums.gram() - V.T @ (w[:, None] * V)).max() <= 1e-13 * np.abs(sums.gram()).max()
    np.testing.assert_allclose(sums.cross, V.T @ (w * y), rtol=1e-12, atol=1e-290)
    # Σ_k B_k = 1: the moments add up to the weight
    assert sums.moments.sum() == pytest.approx(sums.weight, rel=1e-13)
    assert sums.positive == pytest.approx((w * y).sum(), rel=1e-14)


def test_sums_form_an_algebra():
    rng = np.random.default_rng(0)
    u, w, y = rng.random(60), rng.random(60) + 0.1, (rng.random(60) < 0.5).astype(float)
    whole, loop, left, right = (bernstein.BernsteinSums(7) for _ in range(4))
    whole.update_many(u, w, w * y)
    for row in zip(u, w, w * y, strict=True):
        loop.update(*row)
    assert_same_state(loop, whole)
    left.update_many(u[:20], w[:20], (w * y)[:20])
    right.update_many(u[20:], w[20:], (w * y)[20:])
    left.merge(right)
    # the same sums of positive terms in another order: some ulps
    np.testing.assert_allclose(left.moments, whole.moments, rtol=1e-14)
    for row in zip(u[20:], w[20:], (w * y)[20:], strict=True):
        whole.unlearn(*row)
    # what was taken back leaves a rounding residue of the size of the larger sum
    fresh = bernstein.BernsteinSums(7)
    fresh.update_many(u[:20], w[:20], (w * y)[:20])
    np.testing.assert_allclose(whole.moments, fresh.moments, atol=1e-14 * left.weight)
    whole.reset()
    assert_same_state(whole, bernstein.BernsteinSums(7))
    with pytest.raises(ValueError, match="degrees differ"):
        whole.merge(bernstein.BernsteinSums(8))
    with pytest.raises(ValueError, match="lengths differ"):
        whole.update_many(u, w, y[1:])
    with pytest.raises(ValueError, match=r"1\.\.50"):
        bernstein.BernsteinSums(51)


def test_multiplying_by_a_power_of_two_is_exact():
    sums, double = bernstein.BernsteinSums(20), bernstein.BernsteinSums(20)
    sums.update_many(np.array([0.1, 0.7]), np.ones(2), np.array([0.0, 1.0]))
    double.update_many(np.array([0.1, 0.7]), np.full(2, 2.0), np.array([0.0, 2.0]))
    sums.multiply(2.0)
    assert_same_state(sums, double)


def test_state_round_trips():
    sums = bernstein.BernsteinSums(4)
    sums.update(0.3, 2.0, 0.5)
    assert_same_state(pickle.loads(pickle.dumps(sums)), sums)
    other = bernstein.BernsteinSums(4)
    other.load(*sums.state())
    assert_same_state(other, sums)
    other.update(0.5, 1.0, 1.0)
    assert sums.weight == 2.0
    assert sums.positive == 0.5
    with pytest.raises(ValueError, match="9 moments and 5 cross"):
        other.load(np.zeros(8), np.zeros(5), 0.0, 0.0, 0, 0.0)


def assert_same_state(a, b):
    for x, y in zip(a.state(), b.state(), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module")
def forms():
    """Each kernel twice; where nothing was compiled, both are the source and the comparison is trivial."""
    names = {bernstein: "bernstein", flat_rows: "flat_rows", monotone_qp: "monotone_qp", sigmoid_fit: "sigmoid_fit"}
    return {module: plain_kernels()[name] for module, name in names.items()}


unit = st.one_of(st.floats(0.0, 1.0), st.sampled_from(EDGES))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 50), st.lists(st.tuples(unit, st.floats(0.01, 100.0), st.booleans()), min_size=1, max_size=6))
def test_compiled_equals_uncompiled(forms, n, rows):
    """Bit for bit: the build forbids fused multiply-add, and both forms add in the same order."""
    answers = []
    for kernels in (lambda m: m, forms.__getitem__):
        sums = kernels(bernstein).BernsteinSums(n)
        qp = kernels(monotone_qp).MonotoneQP(n)
        answer = []
        for u, w, y in rows:
            sums.update(u, w, w * y)
            status = qp.solve(sums.moments, sums.cross, sums.weight)
            answer += [status, qp.kkt, qp.iterations, qp.active_set(), qp.coefficients.tolist()]
            answer.append(kernels(bernstein).evaluate_many(qp.coefficients, np.array(EDGES)).tolist())
        u, w, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
        answer.append(kernels(sigmoid_fit).fit(u, w * (1 - y), w * y, 0.9, 0.2, 1.0, 0.5))
        answers.append(answer)
    assert answers[0] == answers[1]
