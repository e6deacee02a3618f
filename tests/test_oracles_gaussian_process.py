"""`GaussianProcessCDF` and its solver against scikit-learn's classifier and a plain transcription of the textbook."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm, uniform
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import _gpc as sklearn_gpc
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from streamcal import Logit, Probability, RetractionError
from streamcal.errors import InputError, SolverError
from streamcal.regression import Normal, Sample
from streamcal.regression import gaussian_process_cdf as module
from streamcal.regression.gaussian_process_cdf import GAPS, KERNELS, RBF, GaussianProcessCDF
from streamcal.solvers import gaussian_process as solver
from streamcal.solvers.gaussian_process import LaplaceProblem, axis_over, axis_through, covariance

SUPPORT = (-4.0, 9.0)
KERNEL = RBF(3.0, 0.4, 0.3)
#: Features leave out 2e-7 of the prior variance and eigenvalues of 1e-10; scikit-learn stops its Newton steps when the
#: evidence moves by less than 1e-10, near its maximum a step of 1e-5 times the posterior's width.
SAME = 1e-5
#: Two solutions of one convex problem, on features that differ by what `NEGLIGIBLE` leaves out (seen: 1e-8).
SAME_PROBLEM = 1e-6


def log_evidence(problem, mode):
    """Laplace's approximation of the log marginal likelihood at the mode."""
    found = problem.at(mode)
    return -found.value - 0.5 * problem.posterior(found).log_det


def stream(size, seed=0):
    """Skewed outcomes under normal forecasts."""
    rng = np.random.default_rng(seed)
    x = rng.random(size)
    y = 2.0 * x + rng.exponential(size=size)
    return [Normal(2.0 * a + 1.0, 1.0) for a in x], y


def as_points(cal, distributions, y):
    """Return the training set of the paper: (x of q(t), t) and the label 1[y ≤ t], threshold after threshold."""
    cuts = cal._thresholds
    x = np.array([at_scale(cal, one, cuts) for one in distributions]).T.ravel()
    t = np.repeat(cuts, len(y))
    return x, t, (np.tile(y, len(cuts)) <= t).astype(float)


def at_scale(cal, distribution, t):
    """Return the coordinates of q(t), written plainly."""
    if cal.scale != "normal":
        return cal.scale.coordinates(distribution.cdf(t))
    is_normal = isinstance(distribution, Normal)  # of which 1 − q(t) may be below rounding
    z = (t - distribution.mean) / distribution.sd if is_normal else norm.ppf(distribution.cdf(t))
    return np.arcsinh(np.clip(z, -40.0, 40.0))


def scaled(cal, x, t, kernel):
    """Return inputs in units of the lengths: scikit-learn then has the lengths 1."""
    lo, hi = (-np.arcsinh(40.0), np.arcsinh(40.0)) if cal.scale == "normal" else (cal.scale.lo, cal.scale.hi)
    u = (x - lo) / (hi - lo) / kernel.q_length
    lo, hi = cal.support
    return np.column_stack((u, (t - lo) / (hi - lo) / kernel.t_length))


def by_sklearn(points, labels, variance):
    kernel = ConstantKernel(variance, "fixed") * SklearnRBF(1.0, "fixed")
    return GaussianProcessClassifier(kernel, optimizer=None).fit(points, labels)


def by_the_book(inputs, offset, weight, labels, new_inputs, variance):
    """Rasmussen & Williams, Algorithms 3.1 and 3.2, with weights, and an offset for the mean: f, var f, evidence."""

    def covariance_of(a, b):
        return variance * np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))

    K, f = covariance_of(inputs, inputs), np.zeros(len(offset))
    for _ in range(50):
        p = expit(offset + f)
        W, gradient = weight * p * (1.0 - p), weight * (labels - p)
        root = np.sqrt(W)
        L = np.linalg.cholesky(np.eye(len(f)) + root[:, None] * K * root)
        b = W * f + gradient
        a = b - root * np.linalg.solve(L.T, np.linalg.solve(L, root * (K @ b)))
        f = K @ a
    loss = weight * np.logaddexp(0.0, np.where(labels > 0.5, -1.0, 1.0) * (offset + f))
    evidence = -0.5 * a @ f - loss.sum() - np.log(np.diag(L)).sum()
    new = covariance_of(inputs, new_inputs)
    v = np.linalg.solve(L, root[:, None] * new)
    return new.T @ (weight * (labels - expit(offset + f))), variance - (v**2).sum(axis=0), evidence


# -- the solver --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_laplace_is_that_of_the_book(seed):
    """Offsets and weights included, at inputs beyond those learned too."""
    rng = np.random.default_rng(seed)
    cuts, per_cut = np.linspace(0.0, 1.0, 5), 12
    u, t = rng.random(5 * per_cut), np.repeat(cuts, per_cut)
    offset, weight = rng.normal(size=u.size), rng.choice([1.0, 2.0, 0.3, 40.0], u.size)
    labels = (rng.random(u.size) < expit(3.0 * u + 4.0 * t - 4.0)).astype(float)
    along_u, along_t = axis_over(0.0, 1.0, 0.4), axis_through(cuts, 0.3)
    columns = np.sqrt(3.0) * along_t.features(cuts)
    ends = per_cut * np.arange(1, 6)
    problem = LaplaceProblem(along_u.features(u), ends, columns, offset, weight * (1 - labels), weight * labels)
    solution = problem.mode(np.zeros(along_u.size * along_t.size))
    assert solution.solved
    new_u, new_t = rng.random(40), 1.4 * rng.random(40) - 0.2
    features = np.einsum("na,nb->nab", along_u.features(new_u), np.sqrt(3.0) * along_t.features(new_t)).reshape(40, -1)
    spread = np.einsum("nr,rs,ns->n", features, covariance(problem.precision(solution.x)), features)
    f, variance, evidence = by_the_book(
        np.column_stack((u / 0.4, t / 0.3)), offset, weight, labels, np.column_stack((new_u / 0.4, new_t / 0.3)), 3.0
    )
    np.testing.assert_allclose(features @ solution.x, f, atol=SAME_PROBLEM)
    np.testing.assert_allclose(spread + 3.0 - (features**2).sum(axis=1), variance, atol=SAME_PROBLEM)
    assert log_evidence(problem, solution.x) == pytest.approx(evidence, abs=SAME_PROBLEM)
    warm = problem.mode(solution.x + 0.1)
    np.testing.assert_allclose(warm.x, solution.x, atol=1e-10)  # Newton converges quadratically past its last step


@pytest.mark.parametrize("length", [0.02, 0.07, 0.15, 0.5, 1.0, 3.0, 10.0])
def test_inducing_inputs_leave_next_to_nothing_open(length):
    share = np.square(axis_over(0.0, 1.0, length).features(np.linspace(0.0, 1.0, 4001))).sum(axis=1)
    assert np.abs(1.0 - share).max() < 2e-7


def test_a_solver_that_did_not_solve_says_so(monkeypatch):
    monkeypatch.setattr(solver, "MAX_ITERATIONS", 1)
    cal = GaussianProcessCDF(support=SUPPORT)
    cal.learn_many(*stream(30))
    with pytest.raises(SolverError, match="iteration limit"):
        cal.solve(cal._engine.memory.statistic, None)


def test_weights_beyond_the_ridge_are_no_answer():
    along = axis_over(0.0, 1.0, 0.3)
    u = np.linspace(0.0, 1.0, 50)
    pos = 1e60 * np.random.default_rng(0).random(50)
    problem = LaplaceProblem(along.features(u), np.array([50]), np.ones((1, 1)), np.zeros(50), 1e60 - pos, pos)
    solution = problem.mode(np.ones(along.size))
    assert (solution.solved, solution.status) == (False, "too much weight")


@pytest.mark.sample(2)
@pytest.mark.parametrize("sd", [0.0, 0.5, 1.0, 2.0])
def test_the_mean_of_a_sigmoid_is_its_integral(sd):
    for mean in (-6.0, -1.0, 0.0, 3.0):
        exact = quad(lambda z, mean=mean: expit(mean + sd * z) * norm.pdf(z), -12, 12, epsabs=1e-13, limit=400)[0]
        assert expit(mean + sd * module._NODES) @ module._WEIGHTS == pytest.approx(exact, abs=2e-7)


# -- the method --------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("scale", ["normal", Probability(), Logit(-8.0, 8.0)])
def test_it_is_scikit_learns_classifier(scale):
    distributions, y = stream(25)
    options = {"support": SUPPORT, "kernel": KERNEL, "mean": "zero", "scale": scale, "resolution": None, "points": 40}
    cal = GaussianProcessCDF(6, point="mean", **options)
    cal.learn_many(distributions, y)
    x, t, labels = as_points(cal, distributions, y)
    theirs = by_sklearn(scaled(cal, x, t, KERNEL), labels, KERNEL.variance)
    # Their mean of the sigmoid is that of a mixture of error functions, which is nowhere farther from it than:
    z = np.linspace(-60.0, 60.0, 200_001)
    mixture = 0.5 * sklearn_gpc.COEFS.sum() + 0.5 * (
        sklearn_gpc.COEFS.ravel() * sklearn_gpc.erf(np.outer(z, sklearn_gpc.LAMBDAS.ravel()))
    ).sum(axis=1)
    theirs_off = np.abs(mixture - expit(z)).max()
    assert theirs_off < 0.01
    mode = GaussianProcessCDF(6, point="mode", **options)
    mode.learn_many(distributions, y)
    for one in (Normal(1.0, 1.0), Normal(3.5, 0.4), uniform(-6.0, 20.0)):
        points = scaled(cal, at_scale(cal, one, cal.map().knots), cal.map().knots, KERNEL)
        np.testing.assert_allclose(
            cal.map().probabilities(one), theirs.predict_proba(points)[:, 1], atol=theirs_off + SAME
        )
        latent, _ = theirs.latent_mean_and_variance(points)
        np.testing.assert_allclose(mode.map().probabilities(one), expit(latent), atol=SAME)


def test_the_kernel_is_the_one_of_the_largest_evidence():
    distributions, y = stream(25)
    kernels = (RBF(1.0, 0.4, 0.3), RBF(9.0, 0.4, 0.3), RBF(9.0, 0.2, 0.2))
    options = {"support": SUPPORT, "mean": "zero", "resolution": None}
    cal = GaussianProcessCDF(8, kernel=kernels, **options)
    cal.learn_many(distributions, y)
    x, t, labels = as_points(cal, distributions, y)
    evidences = [
        by_sklearn(scaled(cal, x, t, one), labels, one.variance).log_marginal_likelihood_value_ for one in kernels
    ]
    best = GaussianProcessCDF(8, kernel=kernels[int(np.argmax(evidences))], **options)
    best.learn_many(distributions, y)
    forecast = Normal(2.0, 1.0)
    assert (cal.predict_one(forecast).levels == best.predict_one(forecast).levels).all()
    others = [evidence for evidence in evidences if evidence != max(evidences)]
    assert max(evidences) > max(others) + 0.1, "not a matter of rounding"


def test_cells_lose_a_quarter_when_they_are_halved():
    """An error of second order in their width; with the default cells below what the docstring says."""
    distributions, y = stream(300)
    probabilities = {}
    for resolution in (None, 32, 64, 128, 256):
        cal = GaussianProcessCDF(12, support=SUPPORT, kernel=RBF(4.0, 0.25, 0.15), resolution=resolution)
        cal.learn_many(distributions, y)
        found = cal.map()
        probabilities[resolution] = np.array([found.probabilities(one) for one in distributions[:40]])
    errors = [np.abs(probabilities[r] - probabilities[None]).max() for r in (32, 64, 128, 256)]
    assert errors[-1] < 5e-4
    assert all(fine < coarse / 3.0 for coarse, fine in itertools.pairwise(errors))


def test_a_length_between_thresholds_is_no_shorter_than_they_are_apart():
    """Else the classifier is a staircase between the thresholds, where nothing speaks against it."""
    distributions, y = stream(300)
    found = []
    for length in (0.03, GAPS / 8):
        cal = GaussianProcessCDF(8, support=SUPPORT, kernel=RBF(16.0, 0.15, length))
        cal.learn_many(distributions, y)
        found.append(cal.predict_one(Normal(2.0, 1.0)))
    assert (found[0].levels == found[1].levels).all()


def test_it_learns_a_shape_the_base_does_not_have():
    """Two modes under one wide normal forecast; the truth is known, and nobody can have a larger expected density."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(3000) < 0.5, -2.0, 2.0) + 0.3 * rng.normal(size=3000)
    base = Normal(0.0, 2.0)
    cal = GaussianProcessCDF(32, support=(-6.0, 6.0))
    cal.learn_many([base] * 2000, y[:2000])
    calibrated, fresh = cal.predict_one(base), y[2000:]
    truth = np.log(0.5 * norm.pdf(fresh, -2.0, 0.3) + 0.5 * norm.pdf(fresh, 2.0, 0.3)).mean()
    found = calibrated.log_prob(fresh).mean()
    assert base.log_prob(fresh).mean() < truth - 1.0
    assert truth - 0.15 < found < truth + 0.05  # .05: three standard errors of a thousand outcomes
    knots = np.linspace(-6.0, 6.0, 500)
    cdf = 0.5 * norm.cdf(knots, -2.0, 0.3) + 0.5 * norm.cdf(knots, 2.0, 0.3)
    assert np.abs(calibrated.cdf(knots) - cdf).max() < 0.05


def test_a_calibrated_forecast_stays():
    rng = np.random.default_rng(4)
    mean, sd = rng.normal(size=1000), np.exp(rng.normal(size=1000) / 3)
    cal = GaussianProcessCDF(support=(-8.0, 8.0))
    cal.learn_many([Normal(a, b) for a, b in zip(mean, sd, strict=True)], mean + sd * rng.normal(size=1000))
    t = np.linspace(-3.0, 3.0, 61)
    for one in (Normal(0.0, 1.0), Normal(0.5, 0.7)):
        assert np.abs(cal.predict_one(one).cdf(t) - one.cdf(t)).max() < 0.05  # a thousand outcomes: ±.016 each


def test_rearranging_brings_it_nearer_to_any_cdf():
    """Chernozhukov, Fernández-Val and Galichon 2009, Proposition 1, for p = 1, 2 and ∞."""
    rng = np.random.default_rng(5)
    x = rng.random(200)
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0) * (1.0 + x) + 0.2 * rng.normal(size=200)
    cal = GaussianProcessCDF(support=(-6.0, 6.0), kernel=KERNELS[-1])
    cal.learn_many([Normal(0.3 * a, 1.5) for a in x], y)
    knots, fell = cal.map().knots, 0
    for a in np.linspace(0.0, 1.0, 9):
        base = Normal(0.3 * a, 1.5)
        before, after = cal.map().probabilities(base), cal.predict_one(base).levels
        fell += (np.diff(before) < -1e-3).any()
        truth = 0.5 * norm.cdf(knots, -1.0 - a, 0.2) + 0.5 * norm.cdf(knots, 1.0 + a, 0.2)
        for cdf in (truth, base.cdf(knots)):
            for p in (1, 2, np.inf):
                assert np.linalg.norm(np.sort(before) - cdf, p) <= np.linalg.norm(before - cdf, p) + 1e-12
        assert (after[1:-1] == np.sort(before)[1:-1]).all()
        assert (np.diff(after) > 0.0).all(), "no flat piece: the density is positive"
    assert fell >= 5, "or this tests nothing"


weights = st.sampled_from([1e-60, 1e-3, 1.0, 7.0, 1e6, 1e60])
forecasts = st.builds(Normal, st.floats(-30.0, 30.0), st.sampled_from([1e-9, 1e-2, 1.0, 50.0])) | st.sampled_from(
    [Sample([0.0]), Sample([-100.0, 100.0]), norm(1.0, 2.0), uniform(-4.0, 13.0)]
)


@pytest.mark.sample(2)
@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(forecasts, st.floats(-30.0, 30.0), weights), max_size=8), forecasts)
@pytest.mark.parametrize("options", [{}, {"mean": "zero", "point": "mean", "scale": Probability()}])
def test_whatever_comes_the_answer_is_a_distribution(options, learned, asked):
    cal = GaussianProcessCDF(4, support=SUPPORT, points=64, kernel=KERNELS[-1], **options)
    for one in learned:
        cal.learn_one(*one)
    found = cal.predict_one(asked)
    assert (np.diff(found.levels) >= 0.0).all()
    assert (found.levels[0], found.levels[-1]) == (0.0, 1.0)
    assert SUPPORT[0] <= found.mean <= SUPPORT[1]
    assert cal.tally()["outside"] == sum(not SUPPORT[0] <= y <= SUPPORT[1] for _, y, _ in learned)


def test_nothing_learned_is_what_was_predicted_and_a_feather_of_it_next_to_it():
    cal = GaussianProcessCDF(support=SUPPORT)
    base = Normal(2.0, 1.5)
    inside = cal.map().knots[1:-1]
    assert (cal.predict_one(base).cdf(inside) == base.cdf(inside)).all()
    cal.learn_one(base, 5.0, 1e-60)
    logit = norm.logcdf(inside, 2.0, 1.5) - norm.logsf(inside, 2.0, 1.5)
    found = cal.predict_one(base).cdf(inside)
    np.testing.assert_allclose(found, expit(8.0 * np.arcsinh(logit / 8.0)), atol=1e-15)
    assert np.abs(found - base.cdf(inside)).max() < 0.004, "as the docstring says"
    before = GaussianProcessCDF(support=SUPPORT, scale=Logit(-8.0, 8.0))
    before.learn_one(base, 5.0, 1e-60)
    clamped = np.clip(base.cdf(inside), expit(-8.0), expit(8.0))  # as the log-odds of which the process is learned
    np.testing.assert_allclose(before.predict_one(base).cdf(inside), clamped, atol=1e-15)


def test_a_refused_retraction_changes_no_table():
    cal = GaussianProcessCDF(4, support=(0.0, 4.0), forgetting=module.Forever())
    cal.learn_one(Normal(2.0, 1.0), 2.5)
    before = json.dumps(cal.state_dict())
    with pytest.raises(RetractionError):
        cal.unlearn_one(Normal(2.0, 1.0), 1.5)  # equal at three of the five thresholds
    assert json.dumps(cal.state_dict()) == before
    cal.unlearn_one(Normal(2.0, 1.0), 2.4)  # the thresholds cannot tell it from 2.5
    assert cal.n == 0.0


def test_signs_of_features_are_settled():
    for length in (0.1, 0.3, 1.0):
        whitening = axis_over(0.0, 1.0, length).whitening
        for vector in whitening.T:
            assert vector[np.abs(vector) >= 0.5 * np.abs(vector).max()][0] > 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"support": (1.0, 1.0)}, "support"),
        ({"thresholds": 0}, "thresholds"),
        ({"thresholds": [9.5]}, "thresholds"),
        ({"kernel": ()}, "kernel"),
        ({"kernel": (1.0,)}, "kernel"),
        ({"mean": "one"}, "mean"),
        ({"point": "median"}, "point"),
        ({"points": 1}, "points"),
        ({"scale": module.Setting()}, "scale"),
    ],
)
def test_parameters_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        GaussianProcessCDF(**{"support": SUPPORT, **options})


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1001.0, -1.0, float("nan"), float("inf"), True, "1"])
def test_variances_that_cannot_be(variance):
    with pytest.raises(InputError, match=r"variance=.* is not possible"):
        RBF(variance)


@pytest.mark.parametrize("length", [0.0, 0.01, 11.0, float("nan"), True, "1"])
def test_lengths_that_cannot_be(length):
    with pytest.raises(InputError, match=r"q_length=.* is not possible"):
        RBF(1.0, length, 0.2)
    with pytest.raises(InputError, match=r"t_length=.* is not possible"):
        RBF(1.0, 0.2, length)
