"""The methods with a λ path against their definitions, solved by Clarabel, and their criteria in plain NumPy."""

from itertools import pairwise

import clarabel
import numpy as np
import pytest
from scipy import sparse

from streamcal import ENIR, Isotonic, NearIsotonic
from streamcal.kernels.near_isotonic import NearIsotonicPath

# Clarabel stops at a relative gap of 1e-12 (settings below): the fit is then right to about its root.
CLARABEL = {"rtol": 0.0, "atol": 3e-6}
#: Two formulas of the same sums.
ROUNDING = {"rtol": 1e-11, "atol": 1e-11}


def solved_by_clarabel(quadratic, linear, constraints, bounds):
    """argmin ½ zᵀPz + qᵀz with Gz ≤ h."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(bounds))]
    args = (sparse.csc_matrix(sparse.triu(quadratic)), linear, sparse.csc_matrix(constraints), bounds, cones)
    solution = clarabel.DefaultSolver(*args, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return np.array(solution.x)


def penalised(distinct, weight, mean, operator, penalty, *, signed):
    """argmin Σ w (p − ȳ)² / W + λ Σ (Bp)₊, or λ Σ |Bp| where `signed` is False: z = (p, t), Bp ≤ t, 0 ≤ t."""
    k, m = len(distinct), operator.shape[0]
    share = weight / weight.sum()
    quadratic = sparse.block_diag((sparse.diags(2.0 * share), sparse.csc_matrix((m, m))))
    linear = np.concatenate((-2.0 * share * mean, np.full(m, penalty)))
    rows = [sparse.hstack((operator, -sparse.eye(m)))]
    rows.append(sparse.hstack((sparse.csc_matrix((m, k)) if signed else -operator, -sparse.eye(m))))
    return solved_by_clarabel(quadratic, linear, sparse.vstack(rows), np.zeros(2 * m))[:k]


def stream(seed, size, levels=None, weights="one"):
    """Scores, labels and weights of a miscalibrated, not monotone truth."""
    rng = np.random.default_rng(seed)
    s = rng.random(size) if levels is None else (rng.integers(0, levels, size) + 0.5) / levels
    y = (rng.random(size) < 0.5 + 0.4 * np.sin(5.0 * s)).astype(float)
    w = {"one": np.ones(size), "any": rng.uniform(0.1, 3.0, size), "far": 10.0 ** rng.uniform(-1.5, 1.5, size)}[weights]
    return s, y, w


def sums(s, y, w):
    """Distinct scores, their weights, their mean labels."""
    distinct, group = np.unique(s, return_inverse=True)
    weight = np.bincount(group, w)
    return distinct, weight, np.bincount(group, w * y) / weight


def taught(cal, s, y, w):
    cal.learn_many(s, y, w)
    return cal


# -- near-isotonic -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["one", "any", "far"])
@pytest.mark.parametrize("levels", [None, 12])
@pytest.mark.parametrize("penalty", [0.0, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3])
def test_near_isotonic_is_its_definition(penalty, levels, weights):
    s, y, w = stream(7, 60, levels, weights)
    distinct, weight, mean = sums(s, y, w)
    falls = sparse.diags([1.0, -1.0], [0, 1], shape=(len(distinct) - 1, len(distinct)))
    expected = penalised(distinct, weight, mean, falls, penalty, signed=True)
    cal = taught(NearIsotonic(penalty=penalty, resolution=None), s, y, w)
    np.testing.assert_allclose(cal.predict_many(distinct), expected, **CLARABEL)


@pytest.mark.parametrize("seed", range(20))
def test_near_isotonic_ends_as_isotonic(seed):
    """From λ = 1/2 on, everywhere; and not long before it on labels that only fall."""
    s, y, w = stream(seed, 80, 15 if seed % 2 else None, "any")
    probes = np.concatenate((s, np.linspace(0.0, 1.0, 101)))
    for resolution in (None, 64):
        near = taught(NearIsotonic(penalty=0.5, resolution=resolution), s, y, w)
        isotonic = taught(Isotonic(resolution=resolution), s, y, w)
        np.testing.assert_allclose(near.predict_many(probes), isotonic.predict_many(probes), **ROUNDING)
    falling = ([0.2, 0.4], [1, 0], None)
    assert taught(NearIsotonic(penalty=0.49), *falling).predict_one(0.2) > 0.5
    assert taught(NearIsotonic(penalty=0.5), *falling).predict_one(0.2) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_near_isotonic_path_is_piecewise_linear_between_its_breakpoints(seed):
    s, y, w = stream(seed, 60, 40, "any")
    _, weight, mean = sums(s, y, w)
    path, places = NearIsotonicPath(weight, weight * mean), [0.0]
    blocks = [path.blocks]
    while path.advance():
        places.append(path.penalty)
        blocks.append(path.blocks)
    assert (np.diff(places) > 0.0).all()
    assert (np.diff(blocks) < 0).all()

    def fit(penalty):
        one, values = NearIsotonicPath(weight, weight * mean), np.zeros(len(weight))
        one.advance_to(penalty)
        one.add_values(1.0, values)
        return values

    for left, right in pairwise(places):
        middle = 0.5 * (left + right)
        np.testing.assert_allclose(fit(middle), 0.5 * (fit(left) + fit(right)), **ROUNDING)
    assert np.diff(fit(places[-1])).min() >= 0.0
    for k in range(1, len(places)):  # one slope ends at every breakpoint, or it would not be one
        before, at, after = (fit(place) for place in (places[k - 1], places[k], places[k] + 0.01))
        slopes = (at - before) / (places[k] - places[k - 1]), (after - at) / 0.01
        assert np.abs(slopes[0] - slopes[1]).max() > 1e-6


def test_what_meets_at_one_penalty_is_one_breakpoint():
    """Ten pairs that fall by the same 0.03, which no two of them do in floating point."""
    mean = np.repeat(np.arange(10.0), 2) / 10.0 + np.tile([0.06, 0.03], 10)
    assert len(np.unique(mean[::2] - mean[1::2])) > 1
    path = NearIsotonicPath(np.ones(20), mean)
    assert path.blocks == 20
    assert path.advance()
    assert path.blocks == 10
    assert path.penalty == pytest.approx(0.03 / 2 / 20)
    assert not path.advance()


# -- BIC and the ensemble ----------------------------------------------------------------------------------------


def path_by_definition(weight, mean):
    """(fits, BIC) at the breakpoints, by the paper: fuse neighbours, move all values along their slopes, again."""
    k = len(weight)
    share, penalty = weight / weight.sum(), 0.0
    blocks = [[i] for i in range(k)]
    values = mean.copy()
    fits = []
    while True:
        joined = [blocks[0]]  # neighbours of one value are one block
        for block in blocks[1:]:
            if abs(values[block[0]] - values[joined[-1][0]]) < 1e-11:
                joined[-1] = joined[-1] + block
            else:
                joined.append(block)
        blocks = joined
        fits.append((values.copy(), len(blocks)))
        level = np.array([values[block[0]] for block in blocks])
        falls = np.concatenate(([0.0], (level[:-1] > level[1:]) * 1.0, [0.0]))
        slope = (falls[:-1] - falls[1:]) / np.array([share[block].sum() for block in blocks])
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = -np.diff(level) / np.diff(slope)
        meets = meets[meets > 1e-13]
        if len(meets) == 0 or not (falls > 0).any():
            break
        penalty += meets.min()
        for block, speed in zip(blocks, slope, strict=True):
            values[block] += speed * meets.min()
    n = weight.sum()
    bic = []
    for p, number in fits:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(mean > 0, mean * np.log(p), 0.0) + np.where(mean < 1, (1 - mean) * np.log(1 - p), 0.0)
        bic.append(-2.0 * (weight * terms).sum() + number * np.log(n))
    return np.array([p for p, _ in fits]), np.array(bic)


@pytest.mark.parametrize("seed", range(12))
def test_near_isotonic_by_bic_and_enir_are_their_definitions(seed):
    s, y, w = stream(seed, 200, (10, 25, None)[seed % 3], ("one", "any")[seed % 2])
    distinct, weight, mean = sums(s, y, w)
    fits, bic = path_by_definition(weight, mean)
    chosen = taught(NearIsotonic(resolution=None), s, y, w)
    np.testing.assert_allclose(chosen.predict_many(distinct), fits[bic.argmin()], rtol=0.0, atol=1e-9)
    share = np.exp(-0.5 * (bic - bic.min()))
    average = share @ fits / share.sum()
    np.testing.assert_allclose(taught(ENIR(resolution=None), s, y, w).predict_many(distinct), average, atol=1e-9)


def test_enir_weighs_several_fits():
    """The average is none of them where BIC leaves it open."""
    s, y, w = stream(3, 200, 10)
    distinct, weight, mean = sums(s, y, w)
    fits, _ = path_by_definition(weight, mean)
    found = taught(ENIR(resolution=None), s, y, w).predict_many(distinct)
    assert np.abs(fits - found).max(axis=1).min() > 1e-4
