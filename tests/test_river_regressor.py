"""The River edge of distributions: regressors that are calibrated as they learn."""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from river import base, checks, compose, datasets, dummy, linear_model, neighbors, preprocessing, stats, tree

from streamcal import Decay, InputError
from streamcal.metrics import CRPS, IntervalCoverage
from streamcal.regression import METHODS, ConformalPredictive, EmpiricalDensity, Normal, QuantileRecalibration
from streamcal.river import CalibratedRegressor

BASES = {
    "linear regression": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "Bayesian linear regression": lambda: preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(),
    "Hoeffding tree": lambda: tree.HoeffdingTreeRegressor(),
}
ROWS = list(datasets.TrumpApproval().take(300))


class Fixed(base.Regressor):
    """A base that always answers the same, and remembers what it learned."""

    def __init__(self, answer):
        self.answer = answer
        self.learned = []

    def learn_one(self, x, y, w=1.0):
        self.learned.append((y, w))

    def predict_one(self, x):
        return self.answer


def taught(model, rows=ROWS, **kwargs):
    for x, y in rows:
        model.learn_one(x, y, **kwargs)
    return model


@pytest.mark.full
@pytest.mark.parametrize("name", ["Bayesian linear regression", "linear regression", "Hoeffding tree"])
def test_all_of_rivers_checks(name):
    model = CalibratedRegressor(BASES[name](), half_life=50)
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        check(model.clone())


@pytest.mark.full
@pytest.mark.parametrize("params", list(CalibratedRegressor._unit_test_params()))
def test_rivers_checks_on_its_own_test_parameters(params):
    checks.check_estimator(CalibratedRegressor(**params))


def test_the_calibrator_learns_the_forecasts_that_were_made_before():
    """A plain transcription: residuals, their decayed mean square, and forecasts before each outcome."""
    model = taught(CalibratedRegressor(BASES["linear regression"](), ConformalPredictive(), half_life=10))
    plain, calibrator = BASES["linear regression"](), ConformalPredictive()
    squares, weight = 0.0, 0.0
    for x, y in ROWS:
        mean = plain.predict_one(x)
        if squares > 0.0:
            calibrator.learn_one(Normal(mean, math.sqrt(squares / weight)), y)
        squares, weight = 0.5**0.1 * squares + (y - mean) ** 2, 0.5**0.1 * weight + 1.0
        plain.learn_one(x, y)
    x = ROWS[7][0]
    expected = calibrator.predict_one(Normal(plain.predict_one(x), math.sqrt(squares / weight)))
    assert model.calibrator.n == calibrator.n == len(ROWS) - 1
    assert model.predict_distribution_one(x).cdf(40.0) == pytest.approx(expected.cdf(40.0), abs=1e-12)
    assert model.predict_one(x) == pytest.approx(expected.mean, abs=1e-9)


def test_a_base_with_distributions_is_asked_for_them():
    model = taught(CalibratedRegressor(linear_model.BayesianLinearRegression(), QuantileRecalibration()))
    assert model.residual_sd is None
    x = ROWS[3][0]
    given = model.regressor.predict_one(x, with_dist=True)
    expected = model.calibrator.predict_one(Normal(given.mu, given.sigma))
    assert model.predict_distribution_one(x).ppf(0.3) == expected.ppf(0.3)
    pipeline = preprocessing.StandardScaler() | linear_model.BayesianLinearRegression()
    assert CalibratedRegressor(pipeline)._with_dist
    assert not CalibratedRegressor(compose.Pipeline(linear_model.LinearRegression()))._with_dist


@pytest.mark.parametrize("answer", [None, math.nan, math.inf])
def test_a_base_without_a_finite_prediction_has_no_forecast(answer):
    model = taught(CalibratedRegressor(Fixed(answer)), ROWS[:3])
    assert model.calibrator.n == 0.0
    assert model.predict_distribution_one({}) is None
    assert model.predict_one({}) is answer
    assert len(model.regressor.learned) == 3


@pytest.mark.parametrize("answer", ["3.5", b"3.5", [1.0], {"mean": 1.0}, 1j])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_base_whose_prediction_is_no_number_is_named_before_anything_is_learned(answer, rows):
    model = taught(CalibratedRegressor(Fixed(0.0)), ROWS[:rows])
    before = (model.residual_sd, model.calibrator.to_bytes(), len(model.regressor.learned))
    model.regressor.answer = answer
    for call in (lambda: model.learn_one({}, 1.0), lambda: model.predict_distribution_one({})):
        with pytest.raises(InputError, match=re.escape(f"the base predicts {answer!r}")):
            call()
    assert (model.residual_sd, model.calibrator.to_bytes(), len(model.regressor.learned)) == before
    model.regressor.answer = np.float32(0.5)
    model.learn_one({}, 1.0)
    assert len(model.regressor.learned) == rows + 1


@pytest.mark.parametrize("answer", [1, True, np.array(1.0), Fraction(1, 1), np.float32(1.0)])
def test_whatever_can_be_a_float_is_a_prediction(answer):
    models = [taught(CalibratedRegressor(Fixed(one)), ROWS[:9]) for one in (answer, 1.0)]
    assert models[0].calibrator.to_bytes() == models[1].calibrator.to_bytes()
    assert models[0].residual_sd == models[1].residual_sd


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["LinearRegression", "BayesianLinearRegression"])
def test_an_outcome_that_is_settled_at_once_is_learned_as_one_of_now(name):
    at_once, settled = (
        CalibratedRegressor(preprocessing.StandardScaler() | getattr(linear_model, name)(), half_life=30)
        for _ in range(2)
    )
    for k, (x, y) in enumerate(ROWS[:120]):
        y = 1e6 if k == 60 else y  # out of proportion: nothing for the calibrator
        issued, expected = settled.issue(x), at_once.predict_distribution_one(x)
        assert (issued.p is None) == (expected is None)
        assert expected is None or issued.p.mean == expected.mean
        settled.settle(issued, y)
        at_once.learn_one(x, y)
    assert settled.calibrator.state_dict() == at_once.calibrator.state_dict()
    assert settled.residual_sd == at_once.residual_sd
    assert settled.predict_one(ROWS[0][0]) == at_once.predict_one(ROWS[0][0])


def test_late_outcomes_have_the_residuals_of_what_was_issued():
    """The base moves between prediction and outcome; the first has no forecast, and one outcome never comes."""
    model = CalibratedRegressor(Fixed(0.0))
    without = model.issue({})
    model.regressor.answer = 100.0
    model.settle(without, 1.0)
    assert (without.p, model.residual_sd, model.calibrator.n) == (None, 1.0, 0.0)
    model.regressor.answer = 0.0
    first, second, third = (model.issue({}) for _ in range(3))
    model.regressor.answer = 100.0
    for one in (third, second):
        model.settle(pickle.loads(pickle.dumps(one)), 1.0)
    model.settle(first, None)
    assert (model.residual_sd, model.calibrator.n, model.regressor.learned) == (1.0, 2.0, [(1.0, 1.0)] * 3)


def test_learning_asks_the_base_once():
    model = taught(CalibratedRegressor(Counting()), [({}, 1.0)] * 5)
    assert model.regressor.asked == 5


@pytest.mark.parametrize("half_life", [None, 10])
def test_a_base_that_diverges_and_comes_back(half_life):
    model = taught(CalibratedRegressor(Fixed(0.0), half_life=half_life), [({}, 1.0)] * 5)
    before = model.residual_sd
    for far in (1e160, -1.7e308):  # finite, and their squares are not
        model.regressor.answer = far
        model.learn_one({}, 1e308)
    assert (model.residual_sd, model.calibrator.n, len(model.regressor.learned)) == (before, 4.0, 7)
    model.regressor.answer = 0.0
    assert model.predict_distribution_one({}) is not None


class Counting(base.Regressor):
    """A base that counts its predictions."""

    asked = 0

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        self.asked += 1
        return 0.5


class Scripted(base.Regressor):
    """A base that predicts what it is told to."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return x["mean"]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [({"mean": m}, m + e) for m, e in zip(rng.normal(size=n).tolist(), rng.normal(size=n).tolist(), strict=True)]


@pytest.mark.full
@pytest.mark.sample(6)
@pytest.mark.parametrize("outlier", [30.0, 1e6, 1e100])
@pytest.mark.parametrize("half_life", [None, 50])
def test_an_outlier_does_not_widen_the_forecasts_after_it(outlier, half_life):
    plain, given = rows(400), rows(400)
    given[200] = ({"mean": 0.0}, outlier)
    for seen in (100, 201, 400):
        sd = taught(CalibratedRegressor(Scripted(), half_life=half_life), given[:seen]).residual_sd
        known = taught(CalibratedRegressor(Scripted(), half_life=half_life), plain[:seen]).residual_sd
        # It counts as ten standard deviations: 100/201 of the variance, or 100/72 with a half-life of 50.
        assert known * (1.0 - 1e-12) <= sd < 1.7 * known
    model = taught(CalibratedRegressor(Scripted()), given)
    low, high = model.predict_distribution_one({"mean": 0.0}).interval(0.8)
    assert 1.5 < high - low < 4.0  # 2.56 is right
    assert abs(model.predict_one({"mean": 0.0})) < 0.5


@pytest.mark.sample(7)
@pytest.mark.parametrize("far", [100.0, 1e11, 1e150])
@pytest.mark.parametrize("row", [0, 1, 3, 60, 500])
@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_one_error_of_the_base_is_no_matter_for_what_is_predicted_after_it(far, row, unit):
    outcomes = (unit * np.random.default_rng(0).normal(size=row + 80)).tolist()
    given = [({"mean": far * unit if i == row else 0.0}, y) for i, y in enumerate(outcomes)]
    model = taught(CalibratedRegressor(Scripted()), given[: row + 1])
    # Three standard deviations, if the largest error is the 90 % quantile; and the rounding of the error itself.
    most = max(3.0 / 1.645 * max(map(abs, outcomes)), 1e-15 * far * unit)
    for i, (x, y) in enumerate(given[row + 1 :], row + 1):
        assert abs(model.predict_one(x)) <= most, i
        if i >= 40:
            low, high = model.predict_distribution_one(x).interval(0.8)
            assert -10.0 * unit < low < high < 10.0 * unit, i
            assert high - low > 0.3 * unit, i  # 2.56 is right
        model.learn_one(x, y)


def test_an_exact_base_that_erred_once_is_followed():
    given = [({"mean": 1e11 if i == 1 else 5.0}, 5.0) for i in range(100)]
    model = CalibratedRegressor(Scripted())
    for x, y in given:
        if (model.residual_sd or 0.0) > 0.0:
            assert model.predict_one({"mean": 5.0}) == 5.0
        model.learn_one(x, y)


def test_what_is_out_of_proportion_is_learned_where_it_comes_again():
    model = taught(CalibratedRegressor(Scripted()), rows(60))
    learned = []
    for y in (1e6, 1e6, 1e5, 1e8, 0.0):
        before = model.calibrator.n
        model.learn_one({"mean": 0.0}, y)
        learned.append(model.calibrator.n - before)
    assert learned == [0.0, 1.0, 1.0, 0.0, 1.0]


def test_errors_that_are_seldom_large_are_learned():
    """One in twelve is a thousand times as large as the others: s is small, and the 95 % interval has to be wide."""
    errors = np.random.default_rng(0).normal(size=600) * np.where(np.arange(600) % 12 == 0, 1000.0, 1.0)
    model = taught(CalibratedRegressor(Scripted()), [({"mean": 0.0}, e) for e in errors.tolist()])
    low, high = model.predict_distribution_one({"mean": 0.0}).interval(0.95)
    assert high - low > 100.0


def test_first_errors_of_any_size_are_forgotten():
    given = [({"mean": 1e11}, 0.0)] * 20 + rows(200)
    model = taught(CalibratedRegressor(Scripted()), given[:40])
    assert model.residual_sd > 1e10
    for x, y in given[40:]:
        model.learn_one(x, y)
    assert 0.8 < model.residual_sd < 4.0  # the last five of them count as ten standard deviations each, among 200
    low, high = model.predict_distribution_one({"mean": 0.0}).interval(0.8)
    assert 1.5 < high - low < 5.0


def test_residuals_of_which_most_are_zero_are_taken_as_they_are():
    errors = np.where(np.arange(300) % 20 == 0, 5.0, 0.0)
    model = taught(CalibratedRegressor(Scripted()), [({"mean": 0.0}, e) for e in errors.tolist()])
    assert model.residual_sd == pytest.approx(math.sqrt(np.mean(errors**2)))


def test_weights_count_in_what_is_kept():
    """One residual of weight 3 is three of weight 1, also after the first ones were dropped."""
    given = [({"mean": 1e9}, 0.0)] * 10 + rows(80)
    models = [CalibratedRegressor(Scripted(), ConformalPredictive()) for _ in range(2)]
    for i, (x, y) in enumerate(given):
        models[0].learn_one(x, y, w=3.0)
        models[1].learn_one(x, y, w=1.0)
        models[0].learn_one(x, y, w=0.0)
        assert models[0].residual_sd == pytest.approx(models[1].residual_sd, rel=1e-12), i


def test_while_all_residuals_are_0_the_forecast_is_the_point_of_the_base():
    model = CalibratedRegressor(Fixed(0.0))
    for k in range(100):
        found = model.predict_distribution_one({})
        assert (found is None) == (k == 0)
        assert found is None or (found.ppf(0.01), found.mean, found.ppf(0.99)) == (0.0, 0.0, 0.0)
        model.learn_one({}, 0.0)
    model.learn_one({}, 4.0)
    assert model.predict_distribution_one({}).ppf(0.99) > 0.0


def test_before_the_first_residual_the_base_speaks_alone():
    model = CalibratedRegressor(Fixed(2.0))
    assert (model.predict_one({}), model.predict_distribution_one({})) == (2.0, None)
    model.learn_one({}, 3.0)
    assert (model.residual_sd, model.calibrator.n) == (1.0, 0.0)
    assert model.predict_one({}) == pytest.approx(2.0, abs=1e-9)
    model.learn_one({}, 4.0, w=3.0)
    assert model.residual_sd == pytest.approx(math.sqrt((1.0 + 3.0 * 4.0) / 4.0))
    assert model.calibrator.n == 3.0
    assert model.regressor.learned == [(3.0, 1.0), (4.0, 3.0)]
    model.learn_one({}, 9.0, w=0.0)
    assert model.calibrator.n == 3.0


def test_times_reach_a_calibrator_that_forgets_by_time():
    model = CalibratedRegressor(Fixed(0.0), QuantileRecalibration(forgetting=Decay(1.0, by="time")))
    model.learn_one({}, 1.0, t=0.0)
    for time in (1.0, 2.0):
        model.learn_one({}, 1.0, t=time)
    assert model.calibrator.n == 1.5
    assert model.predict_distribution_one({}, t=5.0) is not None


def test_bad_arguments_are_refused_and_nothing_has_learned():
    for arguments in (
        (linear_model.LogisticRegression(),),
        (Fixed(0.0), stats.Mean()),
        (Fixed(0.0), None, 0.0),
        (Fixed(0.0), None, "week"),
    ):
        with pytest.raises(InputError):
            CalibratedRegressor(*arguments)
    model = taught(CalibratedRegressor(Fixed(0.0)), ROWS[:3])
    for bad in ({"y": math.nan}, {"y": "high"}, {"y": 1.0, "w": -1.0}):
        with pytest.raises(InputError):
            model.learn_one({}, **bad)
    assert len(model.regressor.learned) == 3
    assert model.calibrator.n == 2.0


def test_pickled_models_go_on():
    model = taught(CalibratedRegressor(BASES["linear regression"](), half_life=20), ROWS[:100])
    twin = taught(pickle.loads(pickle.dumps(model)), ROWS[100:150])
    assert twin.predict_one(ROWS[0][0]) == taught(model, ROWS[100:150]).predict_one(ROWS[0][0])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name",
    # Of the scale there is nothing to correct here, and an interval of one level is no shape.
    [
        pytest.param(n, marks=[pytest.mark.full] * (n == "gaussian-process-cdf"))
        for n in METHODS
        if n not in ("scale-recalibration", "adaptive-scale", "adaptive-conformal")
    ],
)
def test_every_method_improves_what_a_wrong_shape_says(name):
    """Outcomes are ±1 around the mean, and nothing is normal about them."""
    rng = np.random.default_rng(4)
    support = {"support": (-4.0, 4.0)} if "support" in METHODS[name].__init__.__annotations__ else {}
    model = CalibratedRegressor(dummy.StatisticRegressor(stats.Mean()), METHODS[name](**support))
    before, after, coverage = CRPS(), CRPS(), IntervalCoverage(0.8)
    for i, y in enumerate((rng.choice([-1.0, 1.0], 1200) + 0.1 * rng.normal(size=1200)).tolist()):
        if i >= 600 and i % 20 == 0:
            forecast = model.predict_distribution_one({})
            before.update(y, Normal(model.regressor.predict_one({}), model.residual_sd))
            after.update(y, forecast)
            coverage.update(y, forecast)
        model.learn_one({}, y)
    assert after.get() < before.get()
    assert coverage.get() >= 0.7  # 0.8 of 30 outcomes, less 1.4 standard errors


def test_a_base_that_is_no_normal_model_is_served():
    model = CalibratedRegressor(
        neighbors.KNNRegressor(), EmpiricalDensity("isotonic", 8, support=(30.0, 55.0)), half_life=100
    )
    forecast = taught(model).predict_distribution_one(ROWS[-1][0])
    assert 30.0 < forecast.mean < 55.0


def test_a_prediction_asks_the_base_once_and_builds_no_table_of_the_maps():
    """The mean and an interval are read from the knots of the maps in one compiled pass."""

    class Counted(linear_model.LinearRegression):
        asked = 0

        def predict_one(self, x):
            Counted.asked += 1
            return super().predict_one(x)

    model = CalibratedRegressor(Counted())
    rng = np.random.default_rng(0)
    for value in rng.normal(size=50).tolist():
        model.learn_one({"x": value}, value + rng.normal())
    before = Counted.asked
    model.predict_one({"x": 0.5})
    assert Counted.asked == before + 1
    forecast = model.predict_distribution_one({"x": 0.5})
    _ = forecast.mean, forecast.interval(0.9), forecast.crps(0.4)
    for ramp in (forecast.ramp, forecast.base.ramp):
        assert not {"_lower", "_upper", "_middle"} & set(vars(ramp))


def test_a_base_whose_wrapper_takes_no_weight_gets_none():
    model, twin = (preprocessing.TargetStandardScaler(linear_model.LinearRegression()) for _ in range(2))
    model = CalibratedRegressor(model)
    for x, y in ROWS[:20]:
        model.learn_one(x, y, w=2.0)
        twin.learn_one(x, y)
    assert model.regressor.predict_one(x) == twin.predict_one(x)
