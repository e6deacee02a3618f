"""Parameter objects, scales, the prior, and the one place where input is checked."""

import json
import math
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import assert_close
from laws.binary import PROBES, is_sequential, realistic, variants

from streamcal import (
    REGISTRY,
    Decay,
    DummyObservations,
    EmpiricalCDF,
    FixedWidth,
    Forever,
    InputError,
    Interval,
    Isotonic,
    Logit,
    NearestScores,
    Prior,
    Probability,
    ScoreIntervals,
    Window,
)
from streamcal.kernels.common.logistic import logit, logits, sigmoid, sigmoids
from streamcal.parameters.inputs import (
    LARGEST_WEIGHT,
    SMALLEST_WEIGHT,
    check_batch,
    check_label,
    check_score,
    check_scores,
    check_time,
    check_times,
    check_weight,
)
from streamcal.parameters.prior import PRIOR_POINTS
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.settings import Setting, decode, encode, parse
from streamcal.regression import RBF
from streamcal.statistics.grid import Grid

# -- settings ----------------------------------------------------------------------------------------------------

SETTINGS = [
    Forever(),
    Window(5_000),
    Window(3600.0, by="time"),
    Decay(0.5),
    Decay(86_400.0, by="time"),
    Prior(20),
    DummyObservations(),
    DummyObservations(3),
    Probability(),
    Logit(),
    Logit(-8, 0.5),
    Interval(),
    Interval(-2, 2),
    Interval(lo=0.0),
    Interval(hi=-1e-3),
    EmpiricalCDF.from_scores([0.1, 0.2, 0.2, 0.9]),
    NearestScores(0.25),
    FixedWidth(1e-3),
    ScoreIntervals((-1.0, 1.0), (-1.5, 0.5), (-0.5, 1.5)),
    RBF(16.0, 0.5, 0.3),
]
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=repr)


def test_every_setting_class_is_tried():
    def concrete(kind):
        below = [leaf for sub in kind.__subclasses__() for leaf in concrete(sub)]
        return [*below, kind] if kind is Prior or not below else below

    public = {kind for kind in concrete(Setting) if not kind.__name__.startswith("_")}
    assert {type(setting) for setting in SETTINGS} == public


@each_setting
def test_a_setting_survives_as_plain_data(setting):
    plain = encode(setting)
    assert plain["setting"] == type(setting).__name__
    assert decode(plain) == setting
    assert type(decode(plain)) is type(setting)


@each_setting
def test_a_setting_survives_as_the_text_of_its_repr(setting):
    assert parse(repr(setting)) == setting


@pytest.mark.parametrize("scale", [Interval(), Interval(lo=-3.0), Interval(hi=2.0)], ids=repr)
def test_an_infinite_bound_is_not_written_since_json_has_no_such_number(scale):
    state = json.loads(json.dumps(Isotonic(scale=scale).state_dict(), allow_nan=False))
    assert Isotonic.from_state(state).scale == scale
    earlier = {"setting": "Interval", "lo": scale.lo, "hi": scale.hi}
    assert decode(earlier) == scale


@pytest.mark.parametrize("value", [1, -2.5, None, True, "osqp", (1.0, 2.0), (1, ("a", None))])
def test_plain_values_encode_as_themselves(value):
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20", 20),
        ("-1.5", -1.5),
        ("None", None),
        ("True", True),
        ("osqp", "osqp"),
        ("active-set", "active-set"),
        ("'quoted'", "quoted"),
        ("venn abers", "venn abers"),
        ("(1, 2)", (1, 2)),
        ("inf", math.inf),
        ("Window(5_000)", Window(5_000)),
        ("Window(size=60, by='time')", Window(60, by="time")),
        ("Interval(-inf, 3)", Interval(hi=3)),
        ("Prior(2)", Prior(2)),
    ],
)
def test_text_is_read_as_the_value_it_names(text, value):
    assert parse(text) == value


def test_an_unknown_setting_is_refused_with_the_known_ones():
    for call in (lambda: parse("Windows(5)"), lambda: decode({"setting": "Windows", "size": 5})):
        with pytest.raises(ValueError, match=r"'Windows'; known are .*Window"):
            call()


@pytest.mark.parametrize("name", ["Scale", "Forgetting", "Setting"])
def test_a_contract_is_no_setting(name):
    with pytest.raises(ValueError, match=f"unknown setting '{name}'"):
        parse(f"{name}()")


@pytest.mark.parametrize(
    "text", ["Window(__import__('os'))", "Window(open('x'))", "Window(size=[].append)", "Logit(x)", "Logit(*[1])"]
)
def test_text_never_runs_code(text):
    with pytest.raises(ValueError, match="must be written out"):
        parse(text)


@pytest.mark.parametrize("method", REGISTRY.values(), ids=REGISTRY)
def test_a_calibrator_is_rebuilt_from_the_text_of_its_parameters(method):
    for params in variants(method):
        cal = method(**params)
        assert method(**{name: parse(repr(value)) for name, value in cal.params().items()}).params() == cal.params()


@pytest.mark.parametrize("method", REGISTRY.values(), ids=REGISTRY)
def test_impossible_parameters_are_refused(method):
    wrong = {
        "scale": [None, "logit", Logit],
        "forgetting": [None, 500, Window],
        "prior": [20, "strong", Prior],
        "resolution": [1, 0, -5, 2.5, True, "64"],
        "degree": [0, -1, 51, 2.0, True, "5"],
        "bins": [0, -1, 2.0, True],
        "folds": [0, -1, 1001, 2.0, True],
        "breadth": [0.5, -1.0, math.inf, math.nan, True, "10", None],
        "interval": [None, 0.05, NearestScores, lambda score: (score - 0.1, score + 0.1)],
        "solver": ["OSQP", None, ""],
        "point": ["log_minimax", None],
        "basis": ["bernstein", None],
        "tolerance": [0.0, 1.0, -1e-6, math.nan, "1e-6"],
        "penalty": [-0.1, math.nan, math.inf, True, "0.1"],
        "bound": [0.0, -1.0, math.nan, math.inf, True, "1.0"],
        "refresh_every": [0, -1, 2.0, True, "2", None],
        "variance": ["pooled", None],
        "form": ["a", "ABM", None],
        "discount": [0.0, -0.5, 1.5, math.nan, True, "0.9"],
        "seed": [-1, 2**64, 1.0, True, None, "1"],
        "delay": [-1, 100_001, 1.0, True, "1"],
        "jump_rates": [(), [0.01], (0.0,), (1.5,), (math.nan,), (True,), ("0.1",), 0.01],
        "passive": [0.0, 1.0, -0.5, math.nan, True, "0.5", None],
    }
    parameters = set(method().params())
    assert parameters <= set(wrong), "a new parameter needs values that are refused"
    for name in parameters:
        for value in wrong[name]:
            with pytest.raises(InputError, match=name):
                method(**{name: value})


@pytest.mark.parametrize("method", REGISTRY.values(), ids=REGISTRY)
def test_a_typing_error_in_a_parameter_is_not_swallowed(method):
    with pytest.raises(TypeError):
        method(forgeting=Forever())


# -- scales ------------------------------------------------------------------------------------------------------

SCALES = [setting for setting in SETTINGS if hasattr(setting, "coordinate")]
each_scale = pytest.mark.parametrize("scale", SCALES, ids=repr)
MARGINS = np.array([-1e308, -1e3, -2.0, -1e-3, 0.0, 5e-324, 1.0, 2.0, 1e308])


def scores_for(scale):
    return PROBES if isinstance(scale, (Probability, Logit)) else np.concatenate((MARGINS[:4], PROBES, MARGINS[6:]))


@each_scale
def test_one_and_many_coordinates_agree_to_the_last_bit(scale):
    rng = np.random.default_rng(1)
    scores = np.concatenate((scores_for(scale), rng.random(2_000), rng.random(2_000) ** 30))
    assert [scale.coordinate(score) for score in scores.tolist()] == scale.coordinates(scores).tolist()
    x = scale.coordinates(scores)
    assert [scale.probability(one) for one in x.tolist()] == scale.probabilities(x).tolist()
    if math.isfinite(scale.lo) and math.isfinite(scale.hi):
        assert [scale.unit(one) for one in x.tolist()] == scale.units(x).tolist()


@each_scale
def test_a_coordinate_is_a_rising_number_within_the_bounds(scale):
    scores = np.sort(scores_for(scale))
    x = scale.coordinates(scores)
    assert (np.diff(x) >= 0.0).all()
    assert ((x >= scale.lo) & (x <= scale.hi)).all()
    p = scale.probabilities(x)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert (np.diff(p) >= 0.0).all()


@each_scale
def test_what_is_clamped_is_what_moves_to_a_bound(scale):
    scores = scores_for(scale)
    clamped = [scale.clamps(score) for score in scores.tolist()]
    assert scale.count_clamped(scores) == sum(clamped)
    x = scale.coordinates(scores)
    assert all(one in (scale.lo, scale.hi) for one, moved in zip(x.tolist(), clamped, strict=True) if moved)


@each_scale
def test_the_callers_array_is_left_alone(scale):
    scores = scores_for(scale).copy()
    before = scores.copy()
    scale.coordinates(scores)
    assert (scores == before).all()


def test_an_argument_that_a_setting_has_not_is_named():
    with pytest.raises(TypeError, match=r"\*\*\{'lo': 1\}"):
        parse("Logit(**{'lo': 1})")


@pytest.mark.parametrize("ends", [(-16, 16), (-800, 800), (-1e-9, 1e-9), (36, 37), (-37, -36), (-745, -744), (0, 5)])
def test_clamped_log_odds_are_counted_at_the_edge_of_every_bound(ends):
    """The count begins with a quick look, which may overlook none."""
    scale = Logit(*ends)
    middles = np.clip([sigmoid(ends[0]), sigmoid(ends[1]), 0.0, 0.5, 1.0], 0.0, 1.0)
    near = [np.clip(middles * (1.0 + k * 2.0**-53), 0.0, 1.0) for k in range(-5, 6)]
    rare = [1.0 - sigmoid(-ends[1]) * (1.0 + k * 2.0**-53) for k in range(-5, 6)]
    scores = np.concatenate([*near, rare, [5e-324, 1e-323, 1.0 - 2.0**-53]])
    for score in scores.tolist():
        assert scale.count_clamped(np.array([score])) == scale.clamps(score)
    assert scale.count_clamped(scores) == sum(map(scale.clamps, scores.tolist()))
    with pytest.raises(InputError, match=r"scores\[1\]"):
        scale.require(np.array([0.5, 1.5]))


@pytest.mark.parametrize("method", REGISTRY.values(), ids=REGISTRY)
def test_what_is_clamped_on_learning_is_counted(method):
    """One by one and in bulk, but not on predicting, not at weight 0, and in a merge for both."""
    cal = method() if is_sequential(method) else method(scale=Logit(-4, 4))
    cal.learn_one(0.0, 1)
    cal.learn_one(0.5, 0)
    cal.learn_many([0.0, 1.0, 0.5, 1.0], [0, 1, 1, 1], [1.0, 1.0, 1.0, 0.0])
    cal.learn_one(1.0, 1, 0.0)
    cal.predict_many([0.0, 1.0])
    assert cal.tally()["clamped"] == 3
    other = type(cal).from_state(cal.state_dict())
    assert other.tally()["clamped"] == 3
    if cal.merges:
        other.merge(cal)
        assert other.tally()["clamped"] == 6


@pytest.mark.parametrize("scale", [Probability(), Logit(), Logit(-8, 0)], ids=repr)
@pytest.mark.parametrize("score", [-1e-300, 1.0 + 2.0**-52, 3.2, -1e308])
def test_what_is_no_probability_is_refused_and_a_scale_suggested(scale, score):
    for call in (lambda: scale.coordinate(score), lambda: scale.coordinates(np.array([0.5, score]))):
        with pytest.raises(InputError, match=r"not a probability.*Interval") as error:
            call()
        assert repr(score) in str(error.value)


def test_logit_clamps_log_odds():
    assert Logit().coordinate(0.0) == -LOGIT_LIMIT
    assert Logit().coordinate(1.0) == LOGIT_LIMIT
    assert Logit(-8, 0).coordinate(0.9) == 0.0
    assert Logit(-8, 0).clamps(0.9)
    assert not Logit(-8, 0).clamps(0.4)
    assert Logit().coordinate(0.25) == math.log(0.25) - math.log1p(-0.25)


def test_an_interval_reads_its_place_as_a_probability_or_its_sigmoid():
    assert Interval(-2, 2).probability(1.0) == 0.75
    assert Interval().probability(0.0) == 0.5
    assert Interval(lo=0).probability(800.0) == 1.0


def test_ranks_are_those_of_the_sample():
    scale = EmpiricalCDF.from_scores([1.0, 2.0, 2.0, 4.0])
    assert scale.coordinate(2.0) == 0.5  # the mean of its ranks 1/3 and 2/3
    assert scale.coordinate(3.0) == 0.75
    assert scale.coordinate(-5.0) == 0.0
    assert scale.coordinate(99.0) == 1.0
    sample = np.random.default_rng(2).normal(size=5_000)
    x = np.sort(EmpiricalCDF.from_scores(sample).coordinates(sample))
    assert_close(x, (np.arange(5_000) + 0.5) / 5_000, 1.0 / 256)


def test_scores_of_a_sample_that_almost_touch_have_finite_ranks():
    """Between knots 1e-310 apart the slope is infinite, and so was the coordinate."""
    for sample in ([0.0, 1e-310, 5e-324, 1.0], [-1e-310, 1e-310, 1.0], [0.0, 1e-290, 3e-281, 2e-280, 1.0]):
        scale = EmpiricalCDF.from_scores(sample)
        scores = np.concatenate([sample, np.linspace(min(sample), 1e-290, 7), [5e-311, 1.5e-280]])
        found = scale.coordinates(scores)
        assert ((found >= 0.0) & (found <= 1.0)).all()
        assert (np.diff(found[np.argsort(scores, kind="stable")]) >= 0.0).all()
        assert found.tolist() == list(map(scale.coordinate, scores))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Logit(0, 0),
        lambda: Logit(3, -3),
        lambda: Logit(-math.inf, 0),
        lambda: Logit("a", 3),
        lambda: Logit(math.nan, 1),
        lambda: Interval(2, -2),
        lambda: Interval(0, math.nan),
        lambda: Interval(None, 1),
        lambda: Interval(-1e308, 1e308),
        lambda: Interval(0, 10**400),
        lambda: Logit(-(10**400), 0),
        lambda: EmpiricalCDF((1.0,), (0.0,)),
        lambda: EmpiricalCDF((1.0, 1.0), (0.0, 1.0)),
        lambda: EmpiricalCDF((1.0, 2.0), (0.0, 0.5)),
        lambda: EmpiricalCDF((1.0, 2.0, 3.0), (0.0, 1.0)),
        lambda: EmpiricalCDF((0.0, 1e-310, 3.0), (0.0, 0.5, 1.0)),
        lambda: EmpiricalCDF((-1e308, 1e308), (0.0, 1.0)),
        lambda: EmpiricalCDF((0.0, math.inf), (0.0, 1.0)),
        lambda: EmpiricalCDF.from_scores([0.0, 1e-310]),
        lambda: EmpiricalCDF.from_scores([]),
        lambda: EmpiricalCDF.from_scores([0.5, 0.5]),
        lambda: EmpiricalCDF.from_scores([0.5, math.nan]),
    ],
)
def test_impossible_scales_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize(
    "name", ["bernstein", "monotone-polynomial", "platt", "histogram-binning", "isotonic", "venn-abers"]
)
def test_a_grid_and_a_polynomial_need_bounds(name):
    params = {} if name in ("bernstein", "monotone-polynomial") else {"resolution": 64}
    with pytest.raises(InputError, match="bounded scale"):
        REGISTRY[name](scale=Interval(), **params)


@given(st.floats(0.0, 1.0))
def test_sigmoid_undoes_logit(p):
    z = logit(p)
    assert sigmoid(z) == pytest.approx(p, rel=1e-12)  # log-odds of 745 and less have errors of 1e-13
    assert [z, sigmoid(z)] == [logits(np.array([p]))[0], sigmoids(np.array([z]))[0]]


# -- grids -------------------------------------------------------------------------------------------------------

BOUNDED = [scale for scale in SCALES if math.isfinite(scale.lo) and math.isfinite(scale.hi)]


@pytest.mark.parametrize("scale", BOUNDED, ids=repr)
@pytest.mark.parametrize("cells", [2, 3, 64, 4096])
def test_a_grid_has_its_cells_in_order_with_their_centres_inside(scale, cells):
    grid = Grid(scale, cells)
    assert grid.edges.shape == (cells - 1,)
    assert grid.centres.shape == (cells,)
    assert (np.diff(grid.edges) > 0.0).all()
    assert grid.cells_of(grid.centres).tolist() == list(range(cells))
    assert grid.cells_of(grid.edges).tolist() == list(range(1, cells))  # an edge belongs to the cell on its right
    assert [grid.cell(scale.lo), grid.cell(scale.hi)] == [0, cells - 1]


@pytest.mark.parametrize("scale", BOUNDED, ids=repr)
def test_rounding_is_monotone_stays_in_the_cell_and_is_the_same_for_one_and_many(scale):
    grid = Grid(scale, 64)
    x = scale.coordinates(np.sort(np.concatenate((PROBES, realistic(1, 500, 0.3, 3.0)[0]))))
    x = np.sort(np.concatenate((x, grid.edges, np.nextafter(grid.edges, -math.inf))))
    rounded = grid.rounds(x)
    assert [grid.round(one) for one in x.tolist()] == rounded.tolist()
    assert [grid.cell(one) for one in x.tolist()] == grid.cells_of(x).tolist()
    assert grid.cells_of(rounded).tolist() == grid.cells_of(x).tolist()
    assert (np.diff(rounded) >= 0.0).all()


def test_cells_of_probabilities_are_narrow_where_clicks_live():
    """Edges and centres are equally spaced in log-odds."""
    grid = Grid(Probability(), 64)
    assert_close(logits(grid.edges), np.arange(-15.5, 16.0, 0.5), 1e-9)
    assert_close(logits(grid.centres), np.arange(-15.75, 16.0, 0.5), 1e-9)


# -- the prior ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [0, -1.0, math.nan, math.inf, 1.1e60, 10**400, "5", None, True])
def test_impossible_priors_are_refused(strength):
    with pytest.raises(InputError, match="Prior"):
        Prior(strength)


@pytest.mark.parametrize("scale", [Probability(), Logit(), Logit(-4, 0)], ids=repr)
def test_a_prior_lies_along_the_identity_with_its_strength_in_all(scale):
    seed = Prior(20.0).pseudo_observations(scale)
    assert seed.x.shape == seed.y.shape == seed.w.shape == (PRIOR_POINTS,)
    assert seed.w.sum() == pytest.approx(20.0)
    assert seed.x.tolist() == scale.coordinates(seed.y).tolist()


WITH_PRIOR = [name for name, method in REGISTRY.items() if not is_sequential(method) and "prior" in method().params()]


@pytest.mark.parametrize("name", WITH_PRIOR)
def test_a_prior_needs_a_scale_of_probabilities(name):
    with pytest.raises(InputError, match="scale of probabilities"):
        REGISTRY[name](prior=Prior(20.0), scale=Interval(-2, 2))


@pytest.mark.parametrize("name", [name for name in WITH_PRIOR if REGISTRY[name].monotone])
def test_a_strong_prior_predicts_nearly_the_score(name):
    folds = REGISTRY[name]().params().get("folds", 1)  # which share the prior out
    cal = REGISTRY[name](prior=Prior(2_000.0 * folds))
    scores = np.linspace(0.02, 0.98, 97)
    # Its points are half a unit of log-odds apart; and the log-odds of their labels are not normal.
    assert np.abs(cal.predict_many(scores) - scores).max() < (0.085 if name == "gaussian" else 0.08)
    cal.learn_one(0.3, 0)
    assert np.abs(cal.predict_many(scores) - scores).max() < 0.1


@pytest.mark.parametrize("name", [name for name in WITH_PRIOR if REGISTRY[name].monotone])
def test_a_prior_keeps_one_early_outcome_from_ruling_the_map(name):
    cold, warm = REGISTRY[name](), REGISTRY[name](prior=Prior(20.0))
    for cal in (cold, warm):
        cal.learn_one(0.3, 0)
    if name != "gaussian":  # which asks for both labels first
        assert abs(warm.predict_one(0.9) - 0.9) < abs(cold.predict_one(0.9) - 0.9)
    assert warm.predict_one(0.3) > 0.0


# -- the checks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2), Decimal("0.5"), np.array(0.5)]
)
def test_a_score_is_anything_that_is_a_number(value):
    assert check_score(value) == 0.5
    assert type(check_score(value)) is float


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, np.int8(1), np.float32(1.0), np.uint64(1), Decimal(1)])
def test_a_positive_label_is_true_or_equal_to_one(value):
    assert check_label(value) == 1.0
    assert check_label(type(value)(0)) == 0.0


@pytest.mark.parametrize(
    "value", ["1", b"1", None, 2, -1, 0.5, math.nan, np.nan, [1], "True", object(), Decimal("sNaN")]
)
def test_any_other_label_is_refused_by_name(value):
    with pytest.raises(InputError) as error:
        check_label(value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1, SMALLEST_WEIGHT, LARGEST_WEIGHT, np.float32(2.0), True])
def test_a_weight_is_zero_or_within_the_range(value):
    assert check_weight(value) == float(value)
    assert check_batch([0.5], [1], [value])[2].tolist() == [float(value)]


@pytest.mark.parametrize("value", [-1, 1e-61, 1e61, 5e-324, math.nan, math.inf, -math.inf, 10**400])
def test_any_other_weight_is_refused_by_name(value):
    with pytest.raises(InputError, match="weight"):
        check_weight(value)
    with pytest.raises(InputError, match=r"w\[1\]"):
        check_batch([0.5, 0.5], [1, 0], [1.0, value])


def test_a_time_is_a_number_or_a_date():
    assert check_time(3) == 3.0
    assert check_time(datetime(1970, 1, 2)) == 86_400.0
    assert check_time(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400.0
    assert check_time(np.datetime64("1970-01-02")) == 86_400.0
    assert check_time(np.datetime64("1970-01-01T00:00:00.500")) == 0.5


@pytest.mark.parametrize("label", [True, 1, 1.0])
def test_an_array_of_shape_0_is_what_it_holds(label):
    assert check_score(np.array(0.5)) == 0.5
    assert (check_label(np.array(label)), check_label(np.array(label) * 0)) == (1.0, 0.0)
    assert check_weight(np.array(label)) == 1.0
    assert check_time(np.array(3.0)) == 3.0
    assert check_time(np.array("1970-01-02", dtype="datetime64[s]")) == 86_400.0
    for one in (np.array(2.0), np.float64(2.0), 2, np.array(2)):
        assert check_batch([0.5, 0.25], [1, 0], one)[2].tolist() == [2.0, 2.0]
    for one in (True, np.True_, np.array(True)):
        assert check_batch([0.5, 0.25], [1, 0], one)[2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("held", ["0.5", b"1", 0.5j, None])
def test_an_array_of_shape_0_without_a_number_is_none(held):
    for call in (check_score, check_label, check_weight, check_time, lambda w: check_batch([0.5], [1], w)):
        with pytest.raises(InputError):
            call(np.array(held))


@pytest.mark.parametrize("value", [b"1", bytearray(b"1"), memoryview(b"1")])
def test_bytes_are_no_number(value):
    """`float` reads all three as texts."""
    for call in (check_score, check_label, check_weight, check_time):
        with pytest.raises(InputError):
            call(value)


def test_a_date_without_a_time_of_day_is_no_time():
    with pytest.raises(InputError, match="give a number or a datetime"):
        check_time(date(2026, 1, 1))


@pytest.mark.parametrize("value", [np.datetime64("NaT"), math.nan, math.inf, "2024-03-01", None, 10**400, [1.0]])
def test_any_other_time_is_refused(value):
    with pytest.raises(InputError, match="time"):
        check_time(value)
    with pytest.raises(InputError):
        check_times([0.0, value], 2)


def test_no_time_of_pandas_either():
    """It is a datetime by its class, and has no timestamp."""
    missing = pytest.importorskip("pandas").NaT
    with pytest.raises(InputError, match="NaT"):
        check_time(missing)
    with pytest.raises(InputError, match="NaT"):
        check_times([missing, 0.0], 2)


@pytest.mark.parametrize(
    "values", [[0.25, 0.5], (0.25, 0.5), np.array([0.25, 0.5], dtype=np.float32), np.array([0.25, 0.5], dtype=object)]
)
def test_arrays_come_in_every_form(values):
    found = check_scores(values)
    assert found.dtype == np.float64
    assert found.tolist() == [0.25, 0.5]


def test_arrays_of_labels_come_in_every_form():
    for labels in ([True, False], [1, 0], [1.0, 0.0], np.array([True, False], dtype=object), np.array([1, 0], np.int8)):
        assert check_batch([0.5, 0.5], labels, None)[1].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("values", [0.5, [[0.5]], np.zeros((2, 1)), [[1], [2, 3]], ["0.5"], [None], [object()], "0.5"])
def test_what_is_no_array_of_numbers_is_refused(values):
    with pytest.raises(InputError, match="scores"):
        check_scores(values)


def test_the_first_bad_place_is_named():
    with pytest.raises(InputError, match=r"scores\[2\].*nan"):
        check_scores([0.5, 0.5, math.nan, math.inf])
    with pytest.raises(InputError, match=r"y\[1\].*2\.0"):
        check_batch([0.5, 0.5], [1, 2], None)
    with pytest.raises(InputError, match=r"t\[1\].*nan"):
        check_times([0.0, math.nan], 2)


@pytest.mark.parametrize("text", ["0.5", b"0.5"])
def test_text_among_numbers_is_named_with_its_place(text):
    """Name the place of a text among numbers, although numpy makes texts of the whole list."""
    with pytest.raises(InputError) as error:
        check_scores([0.25, text, 0.75])
    assert "scores[1]" in str(error.value)
    assert repr(text) in str(error.value)
    with pytest.raises(InputError) as error:
        check_times([0.0, text, 1.0], 3)
    assert repr(text) in str(error.value)


def test_values_are_named_as_python_writes_them():
    with pytest.raises(InputError) as error:
        check_scores([0.25, math.nan])
    assert "np." not in str(error.value)


@pytest.mark.parametrize("value", [1j, np.complex128(0.5), np.complex64(0.5 + 1j)])
def test_complex_numbers_are_refused_and_not_cut(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in (
            lambda: check_score(value),
            lambda: check_scores([0.25, value]),
            lambda: check_weight(value),
            lambda: check_time(value),
            lambda: check_times([0.25, value], 2),
        ):
            with pytest.raises(InputError):
                call()


def test_lengths_that_differ_are_named():
    with pytest.raises(InputError, match="scores and y differ in length: 2 and 1"):
        check_batch([0.5, 0.5], [1], None)
    with pytest.raises(InputError, match="length 1"):
        check_times([0.0], 2)
