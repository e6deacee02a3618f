"""Copulas against pyvinecopulib, their distribution functions and quadrature; `CopulaFusion` against eq. (4)-(5)."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from streamcal import EmpiricalCDF, InputError, Interval, Logit
from streamcal.fusion.copula import STEPS, CopulaFusion, Margin
from streamcal.solvers import copulas
from streamcal.solvers.copulas import EDGE, FAMILIES, Copula, fit_copulas, likeliest

#: Parameters of each family: nearly independent, usual, strong.
THETAS = {
    "clayton": (0.01, 0.5, 3.0, 20.0),
    "rotated-clayton": (0.5, 3.0),
    "gumbel": (1.0001, 1.5, 5.0, 20.0),
    "rotated-gumbel": (2.0, 6.0),
    "frank": (-30.0, -3.0, 0.1, 5.0, 30.0),
    "plackett": (1e-3, 0.2, 1.0 + 1e-9, 3.0, 1e3),
}
PAIRS = [(family, theta) for family, thetas in THETAS.items() for theta in thetas]
RHOS = (-0.9, 0.0, 0.5, 0.95)


def fit_copula(u, weight, families=FAMILIES):
    """Return the likeliest of the copulas fitted."""
    return likeliest(fit_copulas(u, weight, families))


def correlated(rho):
    return np.array([[1.0, rho], [rho, 1.0]])


def everywhere(rng):
    """Probabilities all over the square, and at its edges and corners."""
    near = [EDGE, 1e-4, 0.5, 1.0 - 1e-4, 1.0 - EDGE]
    return np.concatenate((rng.random((500, 2)).clip(EDGE, 1 - EDGE), list(itertools.product(near, near))))


# -- densities -----------------------------------------------------------------------------------------------------


def vine_copula(family, *parameters):
    """Return the same copula of pyvinecopulib, which has no Plackett."""
    vine = pytest.importorskip("pyvinecopulib")
    kind = getattr(vine.BicopFamily, family.removeprefix("rotated-"))
    rotation = 180 if family.startswith("rotated-") else 0
    return vine.Bicop(family=kind, rotation=rotation, parameters=np.array(parameters)[:, None])


@pytest.mark.sample(18)
@pytest.mark.parametrize(("family", "theta"), [pair for pair in PAIRS if pair[0] != "plackett"])
def test_densities_are_those_of_pyvinecopulib(family, theta):
    u = everywhere(np.random.default_rng(0))
    expected = np.log(vine_copula(family, theta).pdf(u))
    # both take powers with exponents up to 1/θ
    np.testing.assert_allclose(Copula(family, theta=theta).log_density(u), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rho", RHOS)
def test_elliptical_densities_are_those_of_pyvinecopulib(rho):
    u = everywhere(np.random.default_rng(1))
    for family, degrees in (("gaussian", np.inf), *(("student", degrees) for degrees in copulas.DEGREES)):
        parameters = (rho,) if family == "gaussian" else (rho, degrees)
        density = vine_copula(family, *parameters).pdf(u)
        found = Copula(family, correlation=correlated(rho), degrees=degrees).log_density(u)
        seen = density > 1e-12  # it cuts the density off below
        np.testing.assert_allclose(found[seen], np.log(density[seen]), rtol=1e-11, atol=1e-11)


def test_elliptical_densities_of_three_scores():
    """The joint density over the product of its margins, by scipy.stats."""
    u = np.random.default_rng(2).random((100, 3))
    matrix = np.array([[1.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    x = stats.norm.ppf(u)
    expected = stats.multivariate_normal(cov=matrix).logpdf(x) - stats.norm.logpdf(x).sum(axis=1)
    np.testing.assert_allclose(Copula("gaussian", correlation=matrix).log_density(u), expected, atol=1e-12)
    x = stats.t(4).ppf(u)
    expected = stats.multivariate_t(shape=matrix, df=4).logpdf(x) - stats.t(4).logpdf(x).sum(axis=1)
    found = Copula("student", correlation=matrix, degrees=4.0).log_density(u)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def distribution(family, theta, u, v):
    """C(u, v) as it stands in the table at the top of `streamcal.solvers.copulas`."""
    if family.startswith("rotated-"):
        return u + v - 1 + distribution(family.removeprefix("rotated-"), theta, 1 - u, 1 - v)
    if family == "clayton":
        return (u**-theta + v**-theta - 1) ** (-1 / theta)
    if family == "gumbel":
        return np.exp(-(((-np.log(u)) ** theta + (-np.log(v)) ** theta) ** (1 / theta)))
    if family == "frank":
        return -np.log1p(np.expm1(-theta * u) * np.expm1(-theta * v) / np.expm1(-theta)) / theta
    s = 1 + (theta - 1) * (u + v)  # Plackett: the root of its quadratic equation
    return (s - np.sqrt(s * s - 4 * u * v * theta * (theta - 1))) / (2 * (theta - 1))


@pytest.mark.parametrize(("family", "theta"), [(f, t) for f, t in PAIRS if 0.05 < abs(t) < 10 and abs(t - 1) > 1e-3])
def test_densities_are_the_mixed_derivatives_of_the_distribution_functions(family, theta):
    u, v = np.random.default_rng(3).uniform(0.1, 0.9, (2, 100))
    h = 1e-3
    corners = [
        i * j * distribution(family, theta, u + i * h / 2, v + j * h / 2)
        for i, j in itertools.product((-1, 1), (-1, 1))
    ]
    found = np.exp(Copula(family, theta=theta).log_density(np.column_stack((u, v))))
    # the difference quotient is off by h²/24 times the fourth derivatives, of up to θ²/0.1² times the density
    np.testing.assert_allclose(found, np.sum(corners, axis=0) / h**2, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("family", "theta"), [(f, t) for f, t in PAIRS if f == "plackett" or t in (0.5, 2.0, -3.0)])
def test_densities_have_uniform_margins(family, theta):
    """∫ c(u, v) dv = 1, by the trapezoid rule on an s-shaped substitution that crowds its nodes at both ends."""
    t = np.linspace(-13.0, 13.0, 4001)
    v, step = expit(t), expit(t) * expit(-t) * (t[1] - t[0])
    for u in (0.01, 0.3, 0.9):
        density = np.exp(Copula(family, theta=theta).log_density(np.column_stack((np.full(len(v), u), v))))
        assert density @ step == pytest.approx(1.0, abs=2e-3)  # what lies within EDGE of 0 and 1 is cut off


def test_families_meet_independence_without_a_break():
    u = everywhere(np.random.default_rng(4))
    for family, theta in (("clayton", 1e-9), ("gumbel", 1.0), ("frank", 0.0), ("frank", -1e-12), ("plackett", 1.0)):
        np.testing.assert_allclose(Copula(family, theta=theta).log_density(u), 0.0, atol=1e-6)
    assert Copula("independence").log_density(u).tolist() == [0.0] * len(u)


# -- the fit -------------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("clayton", (2.0,)),
        ("rotated-clayton", (0.8,)),
        ("gumbel", (1.7,)),
        ("rotated-gumbel", (3.0,)),
        ("frank", (-6.0,)),
        ("gaussian", (0.6,)),
        ("student", (-0.4, 3.0)),
    ],
)
def test_the_fit_reaches_the_likelihood_of_pyvinecopulib(family, parameters):
    vine = pytest.importorskip("pyvinecopulib")
    u = np.asarray(vine_copula(family, *parameters).sample(1_000, seeds=[1, 2, 3])).clip(1e-4, 1 - 1e-4)
    found = fit_copula(u, np.ones(1_000), (family,))
    controls = vine.FitControlsBicop(family_set=[getattr(vine.BicopFamily, family.removeprefix("rotated-"))])
    controls.parametric_method = "mle"
    best = vine.Bicop.from_data(u, controls=controls)
    # degrees of freedom are searched to a hundredth
    assert 1_000 * found.log_likelihood > best.loglik(u) - (1e-3 if family == "student" else 1e-5)
    assert fit_copula(u, np.ones(1_000)).family == family  # and it is the likeliest of the eight


@pytest.mark.sample(5)
@pytest.mark.parametrize("degrees", [1.5, 2.7, 5.0, 11.0, 40.0])
def test_the_degrees_of_freedom_are_those_of_the_largest_likelihood(degrees):
    """No degrees of freedom of a fine grid have a larger likelihood, each with its best correlation."""
    rng = np.random.default_rng(8)
    normal = rng.multivariate_normal([0, 0], correlated(0.5), 400)
    u = stats.t(degrees).cdf(normal / np.sqrt(rng.chisquare(degrees, 400) / degrees)[:, None])
    found = fit_copula(u, np.ones(400), ("student",))
    u = np.clip(u, copulas.EDGE, 1.0 - copulas.EDGE)
    rivals = []
    for nu in np.exp(np.linspace(0.0, np.log(64.0), 40)):
        x = stats.t(nu).ppf(u)
        joint = [
            stats.multivariate_t(shape=correlated(rho), df=nu).logpdf(x).mean()
            for rho in np.tanh(np.linspace(0.3, 0.8, 41))
        ]
        rivals.append(max(joint) - stats.t(nu).logpdf(x).sum(axis=1).mean())
    assert found.log_likelihood > max(rivals) - 1e-6


def test_the_plackett_fit_is_the_best_of_a_fine_grid():
    rng = np.random.default_rng(5)
    u = stats.norm.cdf(rng.multivariate_normal([0, 0], correlated(0.4), 500))
    weight = rng.uniform(0.5, 2.0, 500)
    share = weight / weight.sum()
    found = fit_copula(u, weight, ("plackett",))
    grid = np.exp(np.linspace(-3.0, 3.0, 2001))
    best = max(float(share @ Copula("plackett", theta=theta).log_density(u)) for theta in grid)
    assert best <= found.log_likelihood <= best + 1e-5


def test_weights_are_repetitions():
    rng = np.random.default_rng(6)
    u, weight = rng.random((60, 2)) ** [1.0, 2.0], rng.integers(1, 4, 60)
    once, often = fit_copula(u, weight.astype(float)), fit_copula(np.repeat(u, weight, axis=0), np.ones(weight.sum()))
    assert once.family == often.family
    assert once.log_likelihood == pytest.approx(often.log_likelihood, abs=1e-9)


def test_correlations_of_pairs_are_made_those_of_all():
    bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    good = copulas._repaired(bad)
    assert np.linalg.eigvalsh(bad).min() < -0.5
    assert np.linalg.eigvalsh(good).min() > 0.0
    np.testing.assert_allclose(np.diag(good), 1.0)
    fine = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.1], [0.2, 0.1, 1.0]])
    assert copulas._repaired(fine) is fine


# -- margins -------------------------------------------------------------------------------------------------------


def test_a_margin_is_a_reflected_kernel_estimate():
    """Sums of Gaussians and of their mirror images at both ends, at the nodes and between them."""
    rng = np.random.default_rng(7)
    u, weight = np.append(rng.beta(2, 5, 60), [0.0, 1.0]), rng.uniform(0.5, 2.0, 62)
    u = np.round(u * STEPS) / STEPS  # at nodes, where nothing is shared out
    margin, share = Margin(u, weight, 1 / 128), weight / weight.sum()
    spread = math.sqrt(share @ (u - share @ u) ** 2)
    width = 1.06 * spread * weight.sum() ** -0.2
    images = np.concatenate((u, -u, 2.0 - u))
    at = np.linspace(0.0, 1.0, 4 * STEPS + 1)
    density = stats.norm.pdf(at[:, None], images, width) @ np.tile(share, 3)
    nodes = at * STEPS % 1 == 0
    np.testing.assert_allclose(np.exp(margin.log_density(at[nodes])), density[nodes], rtol=1e-6)
    np.testing.assert_allclose(np.exp(margin.log_density(at)), density, rtol=(1 / (width * STEPS)) ** 2 / 2)
    distribution = stats.norm.cdf(at[:, None], images, width) - stats.norm.cdf(0.0, images, width)
    np.testing.assert_allclose(margin.cdf(at), distribution @ np.tile(share, 3), atol=1e-4)
    assert margin.cdf(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]


def test_the_narrowest_kernel_is_a_cell():
    margin = Margin(np.array([0.5]), np.array([1e6]), 1 / 32)
    density = np.exp(margin.log_density(np.array([0.5, 0.5 + 1 / 32])))
    np.testing.assert_allclose(density, stats.norm.pdf([0.0, 1.0]) * 32, rtol=1e-9)


# -- the fusion ----------------------------------------------------------------------------------------------------


def two_normals(rng, n, rho=0.6, shift=1.2):
    """Log-odds of two classifiers, normal in each class, the labels, and the true probabilities."""
    y = rng.random(n) < 0.4
    root = np.linalg.cholesky(correlated(rho))
    z = rng.normal(size=(n, 2)) @ root.T + y[:, None] * shift - 1.0
    line = np.linalg.solve(correlated(rho), np.full(2, shift))
    truth = expit((z + 1.0 - shift / 2) @ line + math.log(0.4 / 0.6))
    return z, y, truth


def test_it_is_equations_4_and_5():
    """Transcribed: priors, kernel margins by scipy, and the likeliest copula at their distribution functions."""
    z, y, _ = two_normals(np.random.default_rng(8), 400)
    scale = Interval(-6.0, 6.0)
    z = scale.lo + np.round((z.clip(-6, 6) + 6) * STEPS / 12) * 12 / STEPS  # at nodes of the margins
    fused = CopulaFusion(scale=scale, resolution=None)
    fused.learn_many(z, y)
    probes = z[:100]
    joint = []
    for label in (False, True):
        held = (z[y == label] + 6) / 12
        at, density, ranks, own = (probes + 6) / 12, np.mean(y == label), [], []
        for m in range(2):
            width = max(1.06 * held[:, m].std() * len(held) ** -0.2, 4 / STEPS)
            images = np.concatenate((held[:, m], -held[:, m], 2 - held[:, m]))

            def margin(u, images=images, width=width):
                return (
                    (stats.norm.cdf(u[:, None], images, width) - stats.norm.cdf(0.0, images, width)).sum(1)
                    * 3
                    / len(images)
                )

            density = density * stats.norm.pdf(at[:, m][:, None], images, width).sum(axis=1) * 3 / len(images)
            own.append(margin(held[:, m]))
            ranks.append(margin(at[:, m]))
        copula = fit_copula(np.column_stack(own), np.ones(len(held)))
        joint.append(density * np.exp(copula.log_density(np.column_stack(ranks))))
    # In each class, the density of both counts as one observation. Distribution functions between nodes are trapezoids,
    # right to 1e-4.
    weights, of_both = (np.sum(~y), np.sum(y)), joint[0] + joint[1]
    mixed = [(n * one + n / len(y) * of_both) / (n + 1.0) for n, one in zip(weights, joint, strict=True)]
    np.testing.assert_allclose(fused.predict_many(probes), mixed[1] / (mixed[0] + mixed[1]), atol=2e-3)


def test_rare_events_keep_a_probability_far_from_the_positives_that_were_seen():
    """A kernel density of some fifty positives is nothing where new ones come: 1e-15 and less of a probability."""
    rng = np.random.default_rng(0)
    z = 1.5 * rng.standard_normal(20_000)
    truth = expit(z - 6.5)
    scores = expit(z[:, None] + 0.5 * rng.standard_normal((20_000, 2)) - 6.5)
    fused = CopulaFusion()
    fused.learn_many(scores[:15_000], rng.random(15_000) < truth[:15_000])
    found = fused.predict_many(scores[15_000:])
    assert np.mean(found < 0.01 * truth[15_000:]) < 0.001
    assert found.min() > 0.5 / 15_000
    assert found.sum() == pytest.approx(truth[15_000:].sum(), rel=0.3)


@pytest.mark.full
def test_it_finds_the_truth_and_a_grid_loses_little():
    rng = np.random.default_rng(9)
    z, y, _ = two_normals(rng, 20_000)
    probes, _, truth = two_normals(rng, 5_000)
    fine, coarse = CopulaFusion(scale=Logit(), resolution=None), CopulaFusion(scale=Logit())
    for fused in (fine, coarse):
        fused.learn_many(expit(z), y)
    found, rounded = (fused.predict_many(expit(probes)) for fused in (fine, coarse))
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.025
    assert np.sqrt(np.mean((rounded - found) ** 2)) < 0.003  # what `CopulaFusion` documents
    assert np.abs(rounded - found).max() < 0.03
    assert len(coarse._engine.memory.statistic.columns()[0]) < 1_000


def test_ranks_as_in_the_paper():
    rng = np.random.default_rng(10)
    z, y, _ = two_normals(rng, 500)
    fused = CopulaFusion(scale=tuple(EmpiricalCDF.from_scores(column) for column in z.T))
    fused.learn_many(z, y)
    probes, outcomes, truth = two_normals(rng, 5_000)
    p = fused.predict_many(probes)
    assert np.mean((p - outcomes) ** 2) < np.mean((truth - outcomes) ** 2) + 0.01


def test_the_copulas_matter():
    """Two classes with the same margins, and dependence of opposite signs: nothing else tells them apart."""
    rng = np.random.default_rng(11)
    y = rng.random(4_000) < 0.5
    z = rng.normal(size=(4_000, 2))
    z[:, 1] = np.where(y, 0.9, -0.9) * z[:, 0] + math.sqrt(1 - 0.81) * z[:, 1]
    fused = CopulaFusion(scale=Interval(-5.0, 5.0))
    fused.learn_many(z, y)
    assert fused.predict_one([1.0, 1.0]) > 0.95
    assert fused.predict_one([1.0, -1.0]) < 0.05
    independent = CopulaFusion(("clayton",), scale=Interval(-5.0, 5.0))  # which has no negative dependence
    independent.learn_many(z, ~y)
    assert independent.map().positive.copula.log_likelihood < 0.01


def test_three_scores():
    rng = np.random.default_rng(12)
    y = rng.random(3_000) < 0.5
    z = rng.normal(size=(3_000, 3)) + 0.8 * rng.normal(size=(3_000, 1)) + 0.7 * y[:, None]
    fused = CopulaFusion(n_scores=3, scale=Interval(-6.0, 6.0))
    fused.learn_many(z, y)
    cov = np.eye(3) + 0.64
    line = np.linalg.solve(cov, np.full(3, 0.7))
    truth = expit((z - 0.35) @ line)
    assert fused.map().positive.copula.family in ("gaussian", "student")
    np.testing.assert_allclose(fused.map().positive.copula.correlation[0, 1], 0.64 / 1.64, atol=0.06)
    assert np.sqrt(np.mean((fused.predict_many(z) - truth) ** 2)) < 0.05


def test_one_class_and_few_observations():
    fused = CopulaFusion()
    fused.learn_many([[0.2, 0.3], [0.4, 0.4]], [1, 1])
    assert fused.predict_many([[0.2, 0.3], [0.9, 0.9]]).tolist() == [1.0, 1.0]
    fused.learn_many([[0.3, 0.2]] * 9, [0] * 9)
    assert {fused.map().negative.copula.family, fused.map().positive.copula.family} == {"independence"}
    fused.unlearn_one([0.2, 0.3], 1)
    fused.unlearn_one([0.4, 0.4], 1)
    assert fused.predict_one([0.4, 0.4]) == 0.0


def test_retractions_leave_no_class_behind():
    """0.1 + 0.2 − 0.1 − 0.2 is not 0, and would be a positive class of its own."""
    fused = CopulaFusion()
    fused.learn_many([[0.5, 0.5]] * 3, [0, 1, 1], [1.0, 0.1, 0.2])
    fused.unlearn_one([0.5, 0.5], 1, 0.1)
    fused.unlearn_one([0.5, 0.5], 1, 0.2)
    assert fused._engine.memory.statistic.columns()[2].tolist() == [0.0]
    assert fused.predict_one([0.5, 0.5]) == 0.0


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("resolution", [None, 64])
def test_whatever_comes_there_is_a_probability(width, resolution):
    """Ties, subnormal scores, weights from 1e-60 to 1e60, far from all that is held."""
    scores = [0.0, 5e-324, 1e-300, 1e-9, 0.5, 0.5 + 1e-12, 1.0 - 1e-16, 1.0, 0.3, 0.7]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 40))
        fused = CopulaFusion(n_scores=width, resolution=resolution)
        fused.learn_many(rng.choice(scores, (n, width)), rng.integers(0, 2, n), 10.0 ** rng.choice([0, 0, -60, 60], n))
        p = fused.predict_many(rng.choice(scores, (30, width)))
        assert p.min() >= 0.0
        assert p.max() <= 1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"families": ("joe",)}, "families="),
        ({"families": ()}, "families="),
        ({"families": "gaussian"}, "families="),
        ({"families": ("clayton",), "n_scores": 3}, "of two scores"),
        ({"scale": Interval()}, "bounded scale"),
        ({"scale": Interval(), "resolution": None}, "bounded scale"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        CopulaFusion(**parameters)
    assert len(FAMILIES) == 8


# -- searches with a start ---------------------------------------------------------------------------------------


def samples(family, size):
    """Return a sample of the family."""
    rng = np.random.default_rng(12)
    if family == "student":
        normal = rng.multivariate_normal([0, 0], correlated(0.5), size)
        return stats.t(3.0).cdf(normal / np.sqrt(rng.chisquare(3.0, size) / 3.0)[:, None])
    if family == "clayton":
        first, second = rng.random((2, size))
        return np.column_stack((first, (1 + first**-2.0 * (second ** (-2.0 / 3.0) - 1.0)) ** -0.5))
    return stats.norm.cdf(rng.multivariate_normal([0, 0], correlated(-0.4 if family == "gaussian" else 0.0), size))


@pytest.mark.sample(6)
@pytest.mark.parametrize("family", ["student", "clayton", "gaussian", "independence"])
@pytest.mark.parametrize("more", [1, 20, 400])
def test_a_search_with_a_start_ends_where_one_without_does(family, more):
    """However much was learned since: then the start is too far, and is not used."""
    u = samples(family, 400 + more)
    start = copulas.fit_copulas(u[:400], np.ones(400))
    warm = copulas.fit_copulas(u, np.ones(len(u)), start=start)
    cold = copulas.fit_copulas(u, np.ones(len(u)))
    assert [one.family for one in warm] == list(FAMILIES)
    for one, other in zip(warm, cold, strict=True):
        assert one.degrees == other.degrees
        assert one.theta == pytest.approx(other.theta, rel=1e-5, abs=1e-5)
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-10)
        if one.correlation is not None:
            np.testing.assert_allclose(one.correlation, other.correlation, atol=1e-6)


def test_a_search_with_a_start_takes_few_evaluations(monkeypatch):
    u = samples("clayton", 401)
    start = copulas.fit_copulas(u[:400], np.ones(400))
    counted = []
    whole = copulas.log_plackett
    pair = copulas._PAIRS["plackett"]
    monkeypatch.setitem(
        copulas._PAIRS,
        "plackett",
        copulas._Pair(lambda *a: counted.append(1) or whole(*a), pair.parameter, pair.variable, pair.bounds),
    )
    copulas.fit_copulas(u, np.ones(401), ("plackett",), start)
    assert len(counted) == 5


def test_the_degrees_of_freedom_are_better_than_their_neighbours():
    u = samples("student", 400)
    found = fit_copula(u, np.ones(400), ("student",))
    share = np.full(400, 1.0 / 400)
    for step in (-1, 1):
        degrees = found.degrees * math.exp(step * copulas.DEGREES_STEP)
        near = copulas._fit_elliptical(np.clip(u, EDGE, 1.0 - EDGE), share, "student", degrees)
        assert near.log_likelihood <= found.log_likelihood


def test_a_stream_of_fusions_is_solved_as_from_nothing():
    rng = np.random.default_rng(13)
    y = rng.random(50) < 0.5
    p = expit(rng.normal(size=(50, 2)) @ [[1.0, 0.6], [0.0, 0.8]] + y[:, None])
    cal = CopulaFusion()
    for one, label in zip(p, y, strict=True):
        cal.learn_one(one, label)
        cal.predict_one([0.5, 0.5])
    cold = CopulaFusion()
    cold.learn_many(p, y)
    np.testing.assert_allclose(cal.predict_many(p), cold.predict_many(p), atol=1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", [5, 12])
def test_predicting_before_does_not_move_a_fit_of_few_tied_points(seed):
    """The likelihood of Student's copula has several maxima then, and a start would choose among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 45))
    scores, y = np.round(rng.random((n, 2)), 1).clip(0.05, 0.95), rng.random(n) < 0.5
    followed, fitted = CopulaFusion(families=("student",)), CopulaFusion(families=("student",))
    followed.predict_learn_many(scores, y)
    fitted.learn_many(scores, y)
    places = [[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]
    np.testing.assert_allclose(followed.predict_many(places), fitted.predict_many(places), atol=2.0 * copulas.WIDTH)
