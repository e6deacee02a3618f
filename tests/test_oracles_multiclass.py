"""Many classes against what others wrote: venn-abers, scikit-learn, scipy; and plain transcriptions of the formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from weights_by_hand import WeightsByHand

from streamcal import REGISTRY, Beta, CrossVennAbers, InputError, VennAbers
from streamcal.multiclass import (
    Dirichlet,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from streamcal.multiclass.softmax import LOG_FLOOR

#: Sums of a handful of floats in another order.
ROUNDED = 1e-12
#: The oracle stops at a gradient of about 1e-9 of the loss: its probabilities are right to the root of what that
#: leaves of the loss, 1e-6 at worst.
ORACLE_STOPS = 1e-6


def stream(seed, size, classes, slope=1.6):
    """Scores that are too flat, or too steep, and lean to the first class; the places of the outcomes."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(classes, 0.7), size)
    truth = P**slope * np.linspace(2.0, 0.5, classes)
    truth /= truth.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < rng.random(size)[:, None]).sum(axis=1).clip(0, classes - 1)
    return P, y


# -- Venn-Abers --------------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(("strategy", "theirs"), [("ovr", "one_vs_rest"), ("ovo", "one_vs_one")])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [3, 5])
def test_venn_abers_is_that_of_the_package(strategy, theirs, ties, classes):
    """Probabilities and multiprobabilities, from raw scores that do not sum to one."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        package = pytest.importorskip("venn_abers.venn_abers")
    P, y = stream(classes, 300, classes)
    test = stream(classes + 1, 100, classes)[0]
    P, test = (0.01 + 0.9 * P, 0.01 + 0.9 * test)
    if ties:
        P, test = P.round(1) + 0.01, test.round(1) + 0.01
    with np.errstate(all="ignore"):
        expected, pairs = package.predict_proba_prefitted_va(P, y, test, va_tpe=theirs)
    cal = MulticlassVennAbers(strategy)
    labels = list(range(classes))
    cal.learn_many(P, y, labels=labels)
    np.testing.assert_allclose(cal.predict_many(test, labels=labels), expected, rtol=0, atol=ROUNDED)
    for row, scores in enumerate(test[:20].tolist()):
        found = cal.predict_intervals_one(dict(zip(labels, scores, strict=True)))
        assert list(found) == sorted(found)
        for own, theirs_of_all in zip(found.values(), pairs, strict=True):
            np.testing.assert_allclose(own, theirs_of_all[row], rtol=0, atol=ROUNDED)


@pytest.mark.parametrize("strategy", ["ovr", "ovo"])
@pytest.mark.parametrize("point", ["log-minimax", "brier-minimax", "self-consistent"])
def test_the_probability_before_dividing_lies_in_the_interval(strategy, point):
    P, y = stream(1, 200, 4)
    labels = ["a", "b", "c", "d"]
    cal = MulticlassVennAbers(strategy, point)
    cal.learn_many(P, [labels[i] for i in y], labels=labels)
    for scores in P[:50].tolist():
        named = dict(zip(labels, scores, strict=True))
        ends, p = cal.predict_interval_one(named), cal.predict_one(named)
        assert list(ends) == labels
        shares = [p[label] for label in labels]
        # There is a factor that puts all of the probabilities, before they were divided, between the ends.
        low = max(ends[label][0] / q for label, q in zip(labels, shares, strict=True) if q > 0)
        high = min(ends[label][1] / q for label, q in zip(labels, shares, strict=True) if q > 0)
        assert low <= high + ROUNDED
        assert all(0.0 <= lower <= upper <= 1.0 for lower, upper in ends.values())


# -- one against the rest ----------------------------------------------------------------------------------------------


def test_one_vs_rest_is_that_of_scikit_learn():
    """Isotonic regression a class, renormalised; scikit-learn's own clips and interpolates alike."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.naive_bayes import GaussianNB  # it calibrates the margins of a model that has any; this has none

    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 3))
    y = (X @ rng.normal(size=(3, 4)) + rng.gumbel(size=(600, 4))).argmax(axis=1)
    model = GaussianNB().fit(X[:300], y[:300])
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic").fit(X[300:], y[300:])
    cal = OneVsRest("isotonic")
    cal.learn_many(model.predict_proba(X[300:]), y[300:], labels=[0, 1, 2, 3])
    found = cal.predict_many(model.predict_proba(X), labels=[0, 1, 2, 3])
    # It keeps the single-precision knots of its isotonic regression.
    np.testing.assert_allclose(found, theirs.predict_proba(X), rtol=0, atol=1e-6)


#: Methods that treat a score and its opposite alike: 1 − c(s) is the map of (1 − s, 1 − y).
MIRRORED = ("identity", "platt", "temperature", "beta", "isotonic", "venn-abers", "gaussian")


@pytest.mark.parametrize("name", MIRRORED)
def test_two_classes_are_the_binary_method(name):
    P, y = stream(3, 400, 2)
    P = (P * 64).round() / 64  # 1 − s is then exact
    P[:, 1] = 1.0 - P[:, 0]
    binary, cal = REGISTRY[name](), OneVsRest(name)
    binary.learn_many(P[:, 1], y)
    cal.learn_many(P, y == 1, labels=[False, True])
    probes = np.column_stack((1.0 - np.arange(65) / 64, np.arange(65) / 64))
    found = cal.predict_many(probes, labels=[False, True])[:, 1]
    # The solvers stop at a gradient of 1e-12, `Beta` also where its ridge of 1e-9 decides.
    np.testing.assert_allclose(found, binary.predict_many(probes[:, 1]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("inner", [Beta("ab"), CrossVennAbers(folds=3)], ids=["beta", "folds"])
def test_one_vs_rest_is_a_binary_calibrator_a_label(inner):
    P, y = stream(4, 300, 3)
    cal = OneVsRest(inner)
    labels = ["x", "y", "z"]
    cal.learn_many(P[:150], [labels[i] for i in y[:150]], labels=labels)
    for row, i in zip(P[150:].tolist(), y[150:], strict=True):
        cal.learn_one(dict(zip(labels, row, strict=True)), labels[i])
    columns = []
    for k in range(3):
        binary = inner.clone()
        binary.learn_many(P[:, k], y == k)
        columns.append(binary.predict_many(P[:, k]))
    expected = np.column_stack(columns)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cal.predict_many(P, labels=labels), expected, rtol=0, atol=ROUNDED)


# -- vectors -----------------------------------------------------------------------------------------------------------


def transcribed(P, y, w, build, size, prior, odir=None):
    """Return argmin Σ w·loss + ½·prior·‖δ‖² (+ W·odir(δ)), by scipy; `build(δ)` is (n, K) log-odds."""
    rows = np.arange(len(y))

    def loss(delta):
        z = build(delta)
        value = (w * (logsumexp(z, axis=1) - z[rows, y])).sum() + 0.5 * prior * (delta @ delta)
        return (value + (0.0 if odir is None else w.sum() * odir(delta))) / w.sum()

    found = minimize(loss, np.zeros(size), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    return softmax(build(found.x), axis=1)


def logs_of(P):
    return np.maximum(np.log(np.maximum(P, 1e-300)), LOG_FLOOR)


def built_temperature(logs):
    return lambda d: logs * (1.0 + d[0]), 1


def built_vector(logs):
    k = logs.shape[1]
    return lambda d: logs * (1.0 + d[:k]) + d[k:], 2 * k


def built_dirichlet(logs):
    k = logs.shape[1]
    return lambda d: logs @ (np.eye(k) + d[: k * k].reshape(k, k)).T + d[k * k :], k * k + k


MODELS = {
    "temperature": (TemperatureScaling, built_temperature),
    "vector-scaling": (VectorScaling, built_vector),
    "dirichlet": (Dirichlet, built_dirichlet),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prior", [0.5, 20.0])
def test_the_fit_is_the_minimum_that_scipy_finds(name, prior):
    P, y = stream(5, 300, 3)
    w = np.random.default_rng(6).integers(1, 4, 300).astype(float)
    method, built = MODELS[name]
    build, size = built(logs_of(P))
    expected = transcribed(P, y, w, build, size, prior)
    cal = method(prior=prior)
    cal.learn_many(P, y, w, labels=[0, 1, 2])
    np.testing.assert_allclose(cal.predict_many(P, labels=[0, 1, 2]), expected, rtol=0, atol=ORACLE_STOPS)


@pytest.mark.parametrize("seed", [20, 137])
def test_the_fit_is_found_where_its_log_odds_cancel(seed):
    """Without a prior, certain and wrong scores make parameters in the thousands, whose log-odds round."""
    random = np.random.default_rng(seed)
    P = 10.0 ** random.integers(-9, 1, (8, 3))
    cal = Dirichlet(prior=0.0)
    cal.learn_many(P / P.sum(axis=1, keepdims=True), random.integers(0, 3, 8), labels=[0, 1, 2])
    cal.map()
    assert cal.tally()["unsolved"] == 0


def test_of_little_weight_the_fit_is_the_prior():
    """A billionth of an observation, as after 30 half-lives: the penalties are huge, and so is their rounding."""
    cal = Dirichlet(prior=3.0)
    cal.learn_many([[1.0, *[0.0] * 7]], [1], 1e-9, labels=range(8))
    scores = dict(zip(range(8), [0.5, *[0.5 / 7] * 7], strict=True))
    assert cal.predict_one(scores) == pytest.approx(scores, abs=1e-7)
    assert cal.tally()["unsolved"] == 0


def test_odir_is_the_penalty_of_the_paper():
    P, y = stream(7, 300, 3)
    build, size = built_dirichlet(logs_of(P))

    def odir(delta):
        off = delta[:9].reshape(3, 3)[~np.eye(3, dtype=bool)]
        return 0.3 * (off**2).mean() + 0.2 * (delta[9:] ** 2).mean()

    expected = transcribed(P, y, np.ones(300), build, size, 0.0, odir)
    cal = Dirichlet(off_diagonal=0.3, intercept=0.2, prior=0.0)
    cal.learn_many(P, y, labels=[0, 1, 2])
    np.testing.assert_allclose(cal.predict_many(P, labels=[0, 1, 2]), expected, rtol=0, atol=ORACLE_STOPS)


def test_dirichlet_is_multinomial_logistic_regression_of_the_logs():
    """scikit-learn without a penalty; ours has a ridge of 1e-9."""
    from sklearn.linear_model import LogisticRegression

    P, y = stream(8, 1_000, 4)
    logs = logs_of(P)
    theirs = LogisticRegression(C=np.inf, solver="newton-cg", tol=1e-10, max_iter=1_000).fit(logs, y)
    cal = Dirichlet(prior=0.0, limit=None)
    cal.learn_many(P, y, labels=[0, 1, 2, 3])
    found = cal.predict_many(P, labels=[0, 1, 2, 3])
    np.testing.assert_allclose(found, theirs.predict_proba(logs), rtol=0, atol=ORACLE_STOPS)


@pytest.mark.sample(4)
@pytest.mark.parametrize("strengths", [{}, {"slope": 2.0, "diagonal": 5.0, "off_diagonal": 20.0, "intercept": 0.5}])
@pytest.mark.parametrize("classes", [2, 4])
def test_structured_matrix_scaling_is_penalised_maximum_likelihood(classes, strengths):
    """Of a shared slope, slopes, the other entries of a matrix and offsets, each level with its strength; by scipy."""
    P, y = stream(14, 300, classes)
    w, k = np.random.default_rng(14).integers(1, 4, 300).astype(float), classes
    logs, rest = logs_of(P), ~np.eye(k, dtype=bool)
    given = {"slope": 0.1, "diagonal": 10.0, "off_diagonal": 10.0 * k, "intercept": 1.0, **strengths}
    strength = np.repeat(list(given.values()), [1, k, k * (k - 1), k])

    def log_odds(d):
        matrix = np.diag(1.0 + d[0] + d[1 : 1 + k])
        matrix[rest] = d[1 + k : 1 + k * k]
        return logs @ matrix.T + d[1 + k * k :]

    def loss(d):
        z = log_odds(d)
        lost = (w * (logsumexp(z, axis=1) - z[np.arange(300), y])).sum()
        return (lost + 0.5 * (strength * d * d).sum()) / w.sum()

    found = minimize(loss, np.zeros(len(strength)), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x
    cal = StructuredMatrixScaling(**strengths)
    cal.learn_many(P, y, w, labels=list(range(k)))
    expected = softmax(log_odds(found), axis=1)
    np.testing.assert_allclose(cal.predict_many(P, labels=list(range(k))), expected, rtol=0, atol=ORACLE_STOPS)


def test_structured_matrix_scaling_is_safer_than_a_free_matrix_where_observations_are_few():
    """Log loss on 2,000 further observations of ten classes, after 300; the truth is a slope and weights of classes."""
    P, y = stream(15, 300, 10)
    Q, z = stream(16, 2000, 10)
    losses = []
    for cal in (StructuredMatrixScaling(), Dirichlet(), VectorScaling()):
        cal.learn_many(P, y, labels=list(range(10)))
        losses.append(-np.log(cal.predict_many(Q, labels=list(range(10)))[np.arange(2000), z]).mean())
    assert losses[0] < losses[1]
    assert losses[0] < losses[2] + 0.03  # of the truth itself: 90 entries of a matrix are near 0, not at 0


def test_two_classes_of_dirichlet_are_beta_calibration():
    """Compare two classes with `Beta`: ln p/(1 − p) is any combination of ln s and ln(1 − s), within its bounds."""
    P, y = stream(9, 500, 2)
    beta = Beta(resolution=None)
    beta.learn_many(P[:, 1], y)
    cal = Dirichlet(prior=0.0)
    cal.learn_many(P, y, labels=[0, 1])
    found = cal.predict_many(P, labels=[0, 1])[:, 1]
    np.testing.assert_allclose(found, beta.predict_many(P[:, 1]), rtol=0, atol=1e-6)  # two ridges of 1e-9


def test_a_label_that_is_not_named_has_the_score_zero():
    """Observations of {a, b} and of {b, c}: all three labels take part in each, the third at the floor of ln s."""
    rng = np.random.default_rng(10)
    p, q = rng.uniform(0.1, 0.9, (2, 200))
    first, second = rng.random(200) < p**1.5, rng.random(200) < q**0.7
    cal = VectorScaling(prior=2.0)
    for one, two, s, r in zip(first, second, p.tolist(), q.tolist(), strict=True):
        cal.learn_one({"a": s, "b": 1.0 - s}, "a" if one else "b")
        cal.learn_one({"b": r, "c": 1.0 - r}, "b" if two else "c")
    zero = np.full(200, LOG_FLOOR)
    logs = np.vstack(
        (np.column_stack((np.log(p), np.log(1 - p), zero)), np.column_stack((zero, np.log(q), np.log(1 - q))))
    )
    came = np.concatenate((np.where(first, 0, 1), np.where(second, 1, 2)))

    def loss(d):
        z = (d[:3] + 1.0) * logs + d[3:]
        return (logsumexp(z, axis=1).sum() - z[np.arange(400), came].sum() + (d**2).sum()) / 400

    d = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-10}).x
    for label, slope, offset in zip("abc", d[:3], d[3:], strict=True):
        assert cal.map().parameters[label] == pytest.approx((1.0 + slope, offset), abs=1e-5)  # where BFGS stops


def test_a_temperature_is_over_the_labels_that_are_named():
    rng = np.random.default_rng(12)
    p = rng.uniform(0.1, 0.9, 200)
    came = rng.random(200) < p**2
    cal = TemperatureScaling(prior=0.0)
    for s, one, label in zip(p.tolist(), came, "bc" * 100, strict=True):
        cal.learn_one({"a": s, label: 1.0 - s}, "a" if one else label)

    def loss(slope):
        z = slope * np.column_stack((np.log(p), np.log(1 - p)))
        return logsumexp(z, axis=1).sum() - np.where(came, z[:, 0], z[:, 1]).sum()

    slope = minimize(lambda d: loss(d[0]) / 200, [1.0], method="BFGS", options={"gtol": 1e-10}).x[0]
    assert cal.map().slope == pytest.approx(slope, abs=1e-5)  # where BFGS stops


def test_a_temperature_is_never_negative():
    cal = TemperatureScaling(prior=0.0)
    cal.learn_many([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3, [1, 1, 0, 0, 0, 1], labels=[0, 1])
    assert cal.map().slope == 0.0
    assert cal.predict_one({0: 0.9, 1: 0.1}) == {0: 0.5, 1: 0.5}


def test_the_prior_on_the_slope_of_a_class_that_comes_at_tiny_scores():
    """It is (m/(8n²))³ times as strong, m the mean of (ln s)² over the n outcomes of the class."""
    rng = np.random.default_rng(2)
    logs = np.column_stack((np.log(rng.uniform(0.3, 0.7, 200)), np.full(200, -1.0), rng.uniform(-14.0, -10.0, 200)))
    P = softmax(logs, axis=1)
    came = rng.integers(0, 2, 200)
    came[:2] = 2
    logs, rows = np.log(P), np.arange(200)
    r = np.maximum([(logs[came == k, k] ** 2).mean() / (8.0 * (came == k).sum() ** 2) for k in range(3)], 1.0) ** 3
    assert r[:2].tolist() == [1.0, 1.0]
    assert r[2] > 20.0

    def loss(d):
        z = (d[:3] + 1.0) * logs + d[3:]
        penalty = (np.append(r, np.ones(3)) * d**2).sum() / 2.0
        return (logsumexp(z, axis=1).sum() - z[rows, came].sum() + penalty) / 200

    d = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-10}).x
    cal = VectorScaling()
    cal.learn_many(P, came, labels=range(3))
    for label in range(3):
        assert cal.map().parameters[label] == pytest.approx((1.0 + d[label], d[3 + label]), abs=1e-5)


BATCH_METHODS = [TemperatureScaling, VectorScaling, Dirichlet, StructuredMatrixScaling]


@pytest.mark.sample(10)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("classes", [2, 4, 10])
@pytest.mark.parametrize(
    ("method", "at"),
    [
        *((method, 700) for method in BATCH_METHODS),
        *((OnlineVectorScaling, at) for at in (0, 20, 700)),
        (Dirichlet, 10),
    ],
)
def test_a_class_seen_once_at_a_score_of_zero_is_no_rate_at_larger_scores(method, at, classes, named):
    """One outcome among 1,500, which predictions do not name or give 0: a score of 0.001 is not .04."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.full(classes, 2.0), 1_500)
    came = (P.cumsum(axis=1) < rng.random(1_500)[:, None]).sum(axis=1).clip(0, classes - 1)
    cal = method()
    for row, (scores, place) in enumerate(zip(P.tolist(), came.tolist(), strict=True)):
        given = {**dict(enumerate(scores)), **({99: 0.0} if named else {})}
        cal.learn_one(given, 99 if row == at else place)
    assert cal.predict_one({**dict.fromkeys(range(classes), 0.999 / classes), 99: 0.001})[99] < 0.005


@pytest.mark.parametrize("method", [VectorScaling, Dirichlet, StructuredMatrixScaling])
def test_a_base_that_gives_outcomes_a_score_of_zero_is_calibrated_all_the_same(method):
    """Log-odds ten times too far: half of the outcomes of each class come at scores below 1e-6."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(600, 3))
    came = (softmax(z, axis=1).cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    P = softmax(30.0 * z, axis=1)
    cal = method()
    cal.learn_many(P[:300], came[:300], labels=range(3))
    found = cal.predict_many(P[300:], labels=range(3))
    lost = -np.log(found[np.arange(300), came[300:]]).mean()
    assert lost < -np.log(softmax(z, axis=1)[300 + np.arange(300), came[300:]]).mean() + 0.1


def test_the_prior_on_a_matrix_of_a_class_that_comes_at_tiny_scores():
    """Entries have the larger r of their two classes, and the sum over each column the largest r less 1."""
    rng = np.random.default_rng(3)
    logs = np.column_stack((np.log(rng.uniform(0.3, 0.7, 200)), np.full(200, -1.0), rng.uniform(-14.0, -10.0, 200)))
    P = softmax(logs, axis=1)
    came = rng.integers(0, 2, 200)
    came[:2] = 2
    logs = np.log(P)
    r = np.maximum([(logs[came == k, k] ** 2).mean() / (8.0 * (came == k).sum() ** 2) for k in range(3)], 1.0) ** 3
    assert r[2] > 20.0

    def loss(d):
        matrix = d[:9].reshape(3, 3)
        z = logs @ (np.eye(3) + matrix).T + d[9:]
        penalty = (np.maximum.outer(r, r) * matrix**2).sum() + (r.max() - 1.0) * (matrix.sum(axis=0) ** 2).sum()
        return (logsumexp(z, axis=1).sum() - z[np.arange(200), came].sum() + 0.5 * (penalty + d[9:] @ d[9:])) / 200

    d = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-10}).x
    cal = Dirichlet()
    cal.learn_many(P, came, labels=range(3))
    np.testing.assert_allclose(cal.map().weights, np.eye(3) + d[:9].reshape(3, 3), atol=1e-5)


@pytest.mark.full
@pytest.mark.sample(3)
@pytest.mark.parametrize("method", [TemperatureScaling, VectorScaling, Dirichlet])
def test_rare_labels_keep_their_rates(method):
    """Half a percent of clicks, conversions rarer still: in sum the predictions are what happened."""
    rng = np.random.default_rng(11)
    truth = np.column_stack((rng.beta(2, 600, 20_000), rng.beta(1, 2_000, 20_000)))
    P = np.column_stack((1.0 - truth.sum(axis=1), truth))
    y = (P.cumsum(axis=1) < rng.random(20_000)[:, None]).sum(axis=1)
    cal = method()
    cal.learn_many(P, y, labels=[0, 1, 2])
    p = cal.predict_many(P, labels=[0, 1, 2])
    if method is TemperatureScaling:
        return  # no offsets: it keeps no sum; that it solved is enough
    for k in range(3):
        assert p[:, k].sum() == pytest.approx((y == k).sum(), rel=0.05)  # the prior of 1 against a dozen sales


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_online_vector_scaling_takes_newton_steps(discount):
    """The definition, with a matrix inverted; the third label comes in the middle."""
    P, y = stream(13, 120, 3)
    rng = np.random.default_rng(14)
    cal = OnlineVectorScaling(discount=discount)
    delta, curvature, weights = np.zeros(6), 100.0 * np.eye(6), WeightsByHand()
    outcomes = np.zeros(3)
    for i, (row, came) in enumerate(zip(P, y, strict=True)):
        k = 2 if i < 60 else 3
        came, scores, w = int(came) % k, row[:k] / row[:k].sum(), float(rng.integers(1, 4))
        logs = np.maximum(np.log(scores), LOG_FLOOR)
        curvature = discount * curvature + (1.0 - discount) * 100.0 * np.eye(6)
        outcomes *= discount
        for r in weights.steps(w):
            q = softmax(logs * (1.0 + delta[: 2 * k : 2]) + delta[1 : 2 * k : 2])
            gradient = np.zeros(6)
            gradient[1 : 2 * k : 2] = q - np.eye(k)[came]
            gradient[: 2 * k : 2] = gradient[1 : 2 * k : 2] * logs
            if k > 2:
                gradient[2 * came] *= min(1.0, max(0.1, 30.0 * outcomes[came] ** 3 / (outcomes.sum() + r)))
            outcomes[came] += r
            curvature = curvature + r * np.outer(gradient, gradient)
            delta = delta - r * np.linalg.solve(curvature, gradient) / 0.1
        cal.learn_one(dict(enumerate(scores.tolist())), came, w)
        found = cal.map().parameters
        for label, (slope, offset) in found.items():
            assert slope == pytest.approx(1.0 + delta[2 * label], abs=1e-9)
            assert offset == pytest.approx(delta[2 * label + 1], abs=1e-9)


def test_online_vector_scaling_is_projected_in_the_norm_of_its_curvature():
    """Against the minimum of the distance over the ball that scipy finds."""
    from streamcal.kernels.newton.online_softmax import OnlineSoftmax

    small, free = (OnlineSoftmax(0.1, 100.0, radius, 1.0) for radius in (0.2, 1e9))
    for newton in (small, free):
        newton.add_class()
        newton.add_class()
        newton.step([0, 1], [-0.1, -2.4], 1, 3.0)
    assert np.linalg.norm(free.state()[0]) > 0.2
    lower = np.eye(4)
    for i, row in enumerate(free.state()[2]):
        lower[i, :i] = row
    A, z = (lower * free.state()[1]) @ lower.T, np.array(free.state()[0])
    ball = {"type": "ineq", "fun": lambda d: 0.04 - d @ d}
    best = minimize(lambda d: (d - z) @ A @ (d - z), z / 4, constraints=ball, method="SLSQP", options={"ftol": 1e-14})
    np.testing.assert_allclose(small.state()[0], best.x, rtol=0, atol=1e-5)  # SLSQP stops at 1e-14 of the objective
    assert np.linalg.norm(small.state()[0]) == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("strategy", ["ovr", "ovo"])
def test_two_classes_of_venn_abers_are_venn_abers(strategy):
    P, y = stream(12, 200, 2)
    binary, cal = VennAbers(), MulticlassVennAbers(strategy)
    P = (P * 64).round() / 64
    P[:, 0] = 1.0 - P[:, 1]
    binary.learn_many(P[:, 1], y)
    cal.learn_many(P, y, labels=[0, 1])
    for s in (0.125, 0.5, 0.7):
        named = {0: 1.0 - s, 1: s}
        assert cal.predict_one(named)[1] == pytest.approx(binary.predict_one(s), abs=ROUNDED)
        assert cal.predict_interval_one(named)[1] == pytest.approx(binary.predict_interval_one(s), abs=ROUNDED)


def test_scores_that_are_no_probability_vector_are_refused_where_one_is_read():
    with pytest.raises(InputError, match="sum to"):
        VectorScaling().learn_one({"a": 0.5, "b": 0.3}, "a")
    MulticlassVennAbers().learn_one({"a": 0.5, "b": 0.3}, "a")


def test_one_vs_rest_of_a_name_is_that_of_the_method():
    named, given = OneVsRest("beta"), OneVsRest(Beta())
    given.learn_one({"a": 0.7, "b": 0.3}, "a")
    named.merge(given)
    assert named.n == 1.0
    assert not named.same_parameters(OneVsRest(Beta("am")))
    assert not named.same_parameters(OneVsRest("platt"))
