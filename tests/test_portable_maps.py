"""Maps leave the package as JSON and as SQL, and say there what they say here: for every method, to rounding."""

import copy
import json
import math
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from laws import trying
from laws.binary import PROBES, realistic, variants
from sqlite_maps import in_sqlite

from streamcal import (
    BBQ,
    REGISTRY,
    Auto,
    Bernstein,
    BernsteinLogistic,
    Beta,
    CrossVennAbers,
    EmpiricalCDF,
    HedgedOPS,
    HistogramBinning,
    Identity,
    Interval,
    Isotonic,
    Logit,
    MonotonePolynomial,
    Platt,
    Protected,
    SmoothIsotonic,
    VennAbers,
    load_map,
)
from streamcal.maps import points, portable, sql
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap, LogOddsMap
from streamcal.maps.polynomials import BernsteinMap, ChebyshevMap
from streamcal.maps.sigmoids import BetaMap, SigmoidMap
from streamcal.maps.steps import BinnedSigmoidMap, StepMap
from streamcal.parameters.scales import Probability

PAGE = (Path(__file__).parents[1] / "docs" / "map_format.md").read_text(encoding="utf-8")
#: One formula in two forms: a polynomial by another scheme, a logarithm of 1 − s instead of log1p.
ONE_FORMULA = 1e-12

#: Kinds that are sums, products and quotients of the numbers written, in one order for one score and for many. On
#: scales with a logarithm or with ranks the coordinate itself may differ in its last bit.
SUMS = {"steps", "lines", "cubics", "interval", "cross-interval"}

SCALES = [
    Probability(),
    Logit(),
    Logit(-3.0, 1.0),
    Interval(),
    Interval(-1.0, 0.75),
    EmpiricalCDF.from_scores([0.0, 0.1, 0.3, 0.3, 0.5, 0.9, 1.0]),
]


def assert_same_elsewhere(found, scores):
    want = found.predict_many(scores)
    read = load_map(found.to_json())
    np.testing.assert_allclose(read.predict_many(scores), want, rtol=0.0, atol=ONE_FORMULA)
    one_by_one = [read(score) for score in scores.tolist()]
    np.testing.assert_allclose(one_by_one, want, rtol=0.0, atol=ONE_FORMULA)
    assert {type(p) for p in one_by_one} <= {float}
    if json.loads(found.to_json())["kind"] in SUMS and not isinstance(found.scale, (Logit, EmpiricalCDF)):
        assert one_by_one == read.predict_many(scores).tolist()
    np.testing.assert_allclose(in_sqlite(found.to_sql("s"), scores.tolist()), want, rtol=0.0, atol=ONE_FORMULA)
    if hasattr(found, "interval_at"):
        pairs = [found.interval_at(x) for x in found.scale.coordinates(scores)]
        np.testing.assert_allclose(np.transpose(read.predict_interval_many(scores)), pairs, rtol=0.0, atol=0.0)


# -- every method ------------------------------------------------------------------------------------------------


@pytest.mark.sample(24)
@pytest.mark.parametrize("method", REGISTRY.values(), ids=list(REGISTRY))
def test_the_map_of_every_method_is_the_same_elsewhere(method):
    """Empty, and after observations at scores that tie and at scores that do not."""
    scores, y = realistic(seed=4, size=400, a=1.0, b=2.0)
    scores[::2] = np.round(scores[::2] * 16) / 16
    x = np.concatenate((PROBES, scores, np.nextafter(scores, 2.0).clip(0.0, 1.0), np.nextafter(scores, -1.0).clip(0.0)))
    for params in variants(method):
        with trying(params):
            cal = method(**params)
            assert_same_elsewhere(cal.map(), PROBES)
            cal.learn_many(scores, y)
            assert_same_elsewhere(cal.map(), x)


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", REGISTRY.values(), ids=list(REGISTRY))
def test_the_map_of_every_method_can_be_handed_to_another_process(method):
    for params in variants(method):
        cal = method(**params)
        cal.learn_many(PROBES, PROBES > 0.25)
        found = cal.map()
        for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert twin.predict_many(PROBES).tolist() == found.predict_many(PROBES).tolist(), params


def test_every_kind_of_map_can_be_written_and_read():
    def below(kind):
        return [kind, *(inner for sub in kind.__subclasses__() for inner in below(sub))]

    kinds = {map_class.kind for map_class in below(ScaledMap) if not getattr(map_class, "__abstractmethods__", None)}
    assert kinds == set(portable.KINDS)


@pytest.mark.parametrize("rule", points.POINTS)
def test_the_point_of_one_pair_is_the_merge_of_one(rule):
    """To the last bit, for floats and for arrays; arrays of K pairs are the merges of their rows."""
    ends = np.array([0.0, 5e-324, 1e-12, 0.1, 1.0 / 3.0, 0.5, 0.7, 1.0 - 2.0**-53, 1.0])
    lower, upper = (side.ravel() for side in np.meshgrid(ends, ends))
    lower, upper = lower[lower <= upper], upper[lower <= upper]
    vacuous = (lower == 0.0) & (upper == 1.0)
    assert vacuous.sum() == 1
    one, many = points.POINTS[rule], points.MERGES[rule]
    p = one(lower, upper).tolist()
    assert many([lower], [upper]).tolist() == p
    pairs = list(zip(lower.tolist(), upper.tolist(), strict=True))
    assert [one(*pair) for pair in pairs] == [many([low], [high]) for low, high in pairs] == p
    possible = (lower < 1.0) & (upper > 0.0)  # the label 0 pulls p₀ below 1, the label 1 pulls p₁ above 0
    folds = [np.roll(lower[possible], k) for k in range(4)], [np.roll(upper[possible], k) for k in range(4)]
    rows = zip(np.transpose(folds[0]).tolist(), np.transpose(folds[1]).tolist(), strict=True)
    assert many(*folds).tolist() == [many(*row) for row in rows]


def test_a_formula_is_compiled_once_for_maps_of_every_size():
    """Its text names numbers and tables, and has none of them, whatever a map contains."""
    maps = [KnotMap(Logit(), np.arange(float(n)), np.linspace(0.0, 1.0, n)) for n in (2, 50)]
    maps += [SigmoidMap(Logit(), slope, 0.5) for slope in (1.0, -2.0)]
    before = portable._code.cache_info().misses
    codes = [load_map(one.to_json())._at.__code__ for one in maps]
    assert codes[0] is codes[1]
    assert codes[2] is codes[3]
    assert portable._code.cache_info().misses <= before + 2


def test_a_map_that_was_read_can_be_handed_to_another_process():
    cal = CrossVennAbers(folds=3)
    cal.learn_many(PROBES, PROBES > 0.25)
    for found in (cal.map(), SmoothIsotonic().map(), Protected().map(), BernsteinLogistic(5).map()):
        read = load_map(found.to_json())
        twin = pickle.loads(pickle.dumps(read))
        assert [twin(score) for score in PROBES.tolist()] == [read(score) for score in PROBES.tolist()]


def test_the_documentation_lists_every_kind():
    """Which methods write it is in a table that `tools/generate.py` writes."""
    kinds = PAGE.split("## Kinds")[1].split("<!-- methods: kinds -->")[0]
    assert set(re.findall(r"^\| `(.+?)` \|", kinds, re.MULTILINE)) - {"kind"} == set(portable.KINDS)


# -- every scale -------------------------------------------------------------------------------------------------

METHODS_ON_SCALES = {
    "identity": Identity,
    "platt": lambda scale: Platt(scale=scale, resolution=None),
    "histogram-binning": lambda scale: HistogramBinning(5, scale=scale, resolution=None),
    "isotonic": lambda scale: Isotonic(scale=scale),
    "isotonic on a grid": lambda scale: Isotonic(scale=scale, resolution=64),
    "smooth": lambda scale: SmoothIsotonic(scale=scale),
    "bernstein": lambda scale: Bernstein(20, scale=scale),
    "bbq": lambda scale: BBQ(scale=scale, resolution=None),
    "venn-abers": lambda scale: VennAbers(scale=scale),
    "cross-venn-abers": lambda scale: CrossVennAbers(scale=scale, folds=3),
    "cross-venn-abers on a grid": lambda scale: CrossVennAbers(scale=scale, folds=3, resolution=64),
    "beta": lambda scale: Beta(scale=scale, resolution=None),
    "bernstein-logistic": lambda scale: BernsteinLogistic(scale=scale, resolution=None),
    "monotone-polynomial": lambda scale: MonotonePolynomial(6, scale=scale),
}
NEED_BOUNDS = {"bernstein", "bernstein-logistic", "monotone-polynomial"}


@pytest.mark.sample(14)
@pytest.mark.parametrize("scale", SCALES, ids=repr)
@pytest.mark.parametrize("method", METHODS_ON_SCALES)
def test_every_scale_is_the_same_elsewhere(scale, method):
    if scale == Interval() and (method in NEED_BOUNDS or "grid" in method):
        pytest.skip("needs bounds")
    cal = METHODS_ON_SCALES[method](scale=scale)
    rng = np.random.default_rng(2)
    scores = rng.random(300) if scale.domain[0] == 0.0 else rng.normal(0.3, 0.8, 300)
    scores[:100] = np.round(scores[:100] * 8) / 8
    cal.learn_many(scores, rng.random(300) < 1.0 / (1.0 + np.exp(-scores)))
    beside = np.concatenate((np.nextafter(scores, 9.0), np.nextafter(scores, -9.0))).clip(*scale.domain)
    ends = np.array([0.0, 0.75, 1.0] if scale.domain[0] == 0.0 else [-1e300, -1.0, 0.75, 1.0, 1e300])
    assert_same_elsewhere(cal.map(), np.concatenate((scores, beside, ends)))


@pytest.mark.parametrize("scale", SCALES, ids=repr)
def test_the_first_score_of_a_coordinate_is_the_first(scale):
    rng = np.random.default_rng(7)
    scores = rng.random(1_000) if scale.domain[0] == 0.0 else rng.normal(0.0, 2.0, 1_000)
    x = np.unique(np.concatenate((scale.coordinates(scores), [-20.0, -1.0, 0.0, 0.5, 0.75, 1.0, 20.0])))
    first = scale.first_scores(x)
    inside = np.isfinite(first)
    assert (scale.coordinates(first[inside]) >= x[inside]).all()
    before = np.nextafter(first[inside], -math.inf).clip(*scale.domain)
    moved = before < first[inside]
    assert (scale.coordinates(before[moved]) < x[inside][moved]).all()
    lowest, highest = (scale.coordinates(np.array([end]))[0] for end in scale.domain)
    assert (first[x <= lowest] == -math.inf).all()
    assert (first[x > highest] == math.inf).all()


# -- single kinds ------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("scale", [Probability(), Interval(-1.0, 2.0)], ids=repr)
@pytest.mark.parametrize("degree", [0, 1, 4, 5, 16, 40])
def test_a_chebyshev_series_of_any_degree_is_the_same_elsewhere(degree, scale):
    """The Chebyshev polynomial itself turns faster than any other between 0 and 1."""
    wave = np.zeros(degree + 1)
    wave[0] = 0.5
    wave[degree] += 0.5 if degree else 0.0
    rng = np.random.default_rng(degree)
    u = np.concatenate((rng.random(500), rng.random(500) ** 6, 1.0 - rng.random(500) ** 6, [0.0, 0.5, 1.0]))
    lo, hi = scale.lo, scale.hi
    x = lo + (hi - lo) * np.concatenate((u, 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, 11))))
    assert_same_elsewhere(ChebyshevMap(scale, wave), x.clip(lo, hi))


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("slope", "offset"), [(1.0, 0.0), (-2.0, 0.3), (0.0, 0.4), (1e-3, 0.0), (40.0, -9.0), (0.7, 30.0), (1.0, -3.0)]
)
@pytest.mark.parametrize("bins", [1, 2, 10, 333])
def test_a_binned_sigmoid_has_its_steps_where_they_are(slope, offset, bins):
    """To the float, unless `exp` falls there by its last bit."""
    found = BinnedSigmoidMap(Logit(), slope, offset, np.random.default_rng(bins).random(bins))
    assert_same_elsewhere(found, np.concatenate((PROBES[1:], np.random.default_rng(0).random(2_000))))
    cuts = np.array(json.loads(found.to_json())["cuts"])
    read = load_map(found.to_json())
    for places in (cuts, cuts - 4.0 * np.spacing(cuts), cuts + 4.0 * np.spacing(cuts)):
        places = places.clip(0.0, 1.0)
        assert read.predict_many(places).tolist() == found.predict_many(places).tolist()
    assert len(cuts) <= bins - 1


def test_repeated_scores_have_their_value_where_a_logarithm_differs_in_its_last_bit(monkeypatch):
    exact = portable.coordinate
    cal = Auto()
    scores, y = realistic(seed=4, size=2_000, a=1.0, b=2.0)
    scores = np.round(scores * 16) / 16
    scores[scores == 0.5] = 1.0  # repeated at the end of the scale too
    cal.learn_many(scores, y)
    text = cal.map().to_json()
    assert len(json.loads(text)["spots"]["first"]) > 8
    for toward in (-math.inf, math.inf):
        with monkeypatch.context() as patch:
            patch.setattr(portable, "coordinate", lambda *given, toward=toward: np.nextafter(exact(*given), toward))
            found = load_map(text).predict_many(np.unique(scores))
        np.testing.assert_allclose(found, cal.predict_many(np.unique(scores)), rtol=0.0, atol=ONE_FORMULA)
    between = np.unique(np.concatenate((np.nextafter(scores, 0.0), np.nextafter(scores, 1.0))))
    assert_same_elsewhere(cal.map(), between)
    assert_same_elsewhere(LogOddsMap(Logit(), np.array([-1.0, 1.0]), np.array([2.0, 3.0])), PROBES)


@pytest.mark.parametrize("grid", [None, 64])
@pytest.mark.parametrize("point", points.MERGES)
def test_k_scores_are_the_same_elsewhere(point, grid):
    cal = CrossVennAbers(point, 3, resolution=grid)
    scores, y = realistic(seed=5, size=300, a=1.0, b=2.0)
    cal.learn_many(scores, y, fold=np.arange(300) % 3)
    table = np.random.default_rng(1).random((50, 3))
    read = load_map(cal.map().to_json())
    np.testing.assert_allclose(read.predict_many(table), cal.predict_many(table), rtol=0.0, atol=ONE_FORMULA)
    assert read([0.2, 0.3, 0.4]) == pytest.approx(cal.predict_one([0.2, 0.3, 0.4]), abs=ONE_FORMULA)
    with pytest.raises(ValueError, match="or 3, one of each fold; got 2"):
        read([0.2, 0.3])


def test_logarithms_stay_finite_on_wide_scales():
    scores = np.array([0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0 - 1e-16, 1.0])
    for scale in (Logit(-1000.0, 1000.0), Logit(), Probability(), Interval(), Interval(0.0, 1.0)):
        for a, b, c in ((1.0, 1.0, 0.0), (0.01, 0.0, -1.0), (0.0, 0.02, 1.0), (300.0, 200.0, 5.0)):
            assert_same_elsewhere(BetaMap(scale, a, b, c), scores)
    assert_same_elsewhere(BetaMap(Interval(), 0.5, 2.0, 1.0), np.array([-1e300, -800.0, -16.5, 0.0, 15.5, 40.0, 1e300]))


@pytest.mark.parametrize(
    ("cal", "at_most"),
    [
        (Beta(), 2_500),
        (Protected(), 8_000),
        (HedgedOPS(), 1_000),
        (VennAbers(), 10_000),
        (Auto(), 30_000),
        (BernsteinLogistic(50, scale=Logit()), 40_000),
        (MonotonePolynomial(40, scale=Logit()), 40_000),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_the_text_of_a_map_is_short(cal, at_most):
    """No value is written out twice at every degree, and pieces of one text are one piece."""
    cal.learn_many(*realistic(seed=4, size=400, a=1.0, b=2.0))
    assert len(cal.map().to_sql("score")) < at_most


# -- JSON --------------------------------------------------------------------------------------------------------


def test_numbers_survive_to_the_last_bit():
    values = np.sort(np.random.default_rng(1).random(50))
    cuts = np.array([5e-324, 1e-300, *np.sort(np.random.default_rng(2).random(47))])
    read = load_map(StepMap(Probability(), cuts, values).to_json())
    assert read.predict_many(np.concatenate(([0.0], cuts))).tolist() == values.tolist()


def test_a_map_needs_numpy_alone():
    """The one file, copied to an interpreter that cannot see the package."""
    cal = Isotonic(scale=Interval())
    cal.learn_many([0.1, 0.2, 0.7, 0.9], [0, 1, 0, 1])
    program = (
        "import sys, importlib.util as u\n"
        f"spec = u.spec_from_file_location('portable', {str(Path(portable.__file__))!r})\n"
        "portable = u.module_from_spec(spec); sys.modules['portable'] = portable; spec.loader.exec_module(portable)\n"
        "print(portable.load_map(sys.stdin.read()).predict_many([0.15, 0.5]).tolist())\n"
        "assert not {name.split('.')[0] for name in sys.modules} & {'streamcal', 'scipy', 'river'}\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", program], input=cal.map().to_json(), capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == cal.predict_many([0.15, 0.5]).tolist()


def test_the_file_can_be_copied(tmp_path):
    """To a folder of its own, where nothing else of the package can be imported."""
    shutil.copy(portable.__file__, tmp_path / "portable.py")
    cal = VennAbers("log-minimax")
    cal.learn_many(PROBES, PROBES > 0.25)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "sys.modules['streamcal'] = None\n"  # importing it raises
        "from portable import load_map\n"
        "serve = load_map(sys.stdin.read())\n"
        "print([serve(score) for score in (0.1, 0.5)])\n"
    )
    command = [sys.executable, "-I", "-c", program, str(tmp_path)]
    run = subprocess.run(command, input=cal.map().to_json(), capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [cal.predict_one(0.1), cal.predict_one(0.5)]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        "not json",
        '{"streamcal_map": 2, "kind": "identity", "scale": {"kind": "probability"}}',
        '{"streamcal_map": 1, "kind": "stranger", "scale": {"kind": "probability"}}',
        '{"streamcal_map": 1, "kind": "identity", "scale": {"kind": "stranger"}}',
        '{"streamcal_map": 1}',
        '{"streamcal_map": 1, "kind": "identity", "scale": "probability"}',
        '{"streamcal_map": 1, "kind": "sigmoid", "scale": {"kind": "probability"}, "slope": 1.0}',
        '{"streamcal_map": 1, "kind": "identity", "scale": {"kind": "logit"}}',
        '{"streamcal_map": 1, "kind": "steps", "scale": {"kind": "probability"}, "cuts": 0.5, "values": null}',
        '{"streamcal_map": 1, "kind": "interval", "scale": {"kind": "probability"}, "point": "middle",'
        ' "lower": {"cuts": [], "values": [0.0]}, "upper": {"cuts": [], "values": [1.0]}}',
    ],
)
def test_what_is_no_map_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - json has its own
        load_map(text)


@pytest.mark.parametrize("long", ["x" * 100_000, ["x"] * 100_000, {"x": "y" * 100_000}])
def test_a_message_does_not_repeat_what_is_long(long):
    for name in ("streamcal_map", "kind", "scale"):
        content = json.loads(Platt().map().to_json())
        content[name] = {"kind": long} if name == "scale" else long
        with pytest.raises(ValueError, match=r"cannot be read|of kind") as caught:
            load_map(json.dumps(content))
        assert len(str(caught.value)) < 300


def test_scores_that_are_no_probabilities_are_refused():
    read = load_map(Identity().map().to_json())
    for score in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"probabilities|finite"):
            read(score)
    for scores in ([[0.1, 0.2]], 0.5):  # a column a fold is for the maps of folds
        with pytest.raises(ValueError, match="shape"):
            read.predict_many(scores)
    with pytest.raises(ValueError, match="shape"):
        read.predict_one([0.1, 0.2])
    with pytest.raises(ValueError, match="no intervals"):
        read.predict_interval_many([0.5])


# -- SQL ---------------------------------------------------------------------------------------------------------


def test_null_and_scores_out_of_range_become_null_and_others_are_clamped():
    cal = Platt()
    cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    found = in_sqlite(cal.map().to_sql("s"), [None, -0.1, 1.1, 0.0, 1.0])
    assert found[:3] == [None, None, None]
    np.testing.assert_allclose(found[3:], cal.predict_many([0.0, 1.0]), rtol=0.0, atol=ONE_FORMULA)
    margins = Isotonic(scale=Interval(-1.0, 1.0))
    margins.learn_many([-5.0, 0.0, 0.5], [0, 0, 1])
    assert in_sqlite(margins.map().to_sql("s"), [None, -9.0, 9.0]) == [None, 0.0, 1.0]


def test_the_column_may_be_an_expression_and_values_at_knots_are_exact():
    cal = Isotonic()
    scores, y = realistic(seed=9, size=2_000, a=1.0, b=3.0)
    cal.learn_many(scores, y)
    halves = (0.5 * scores).tolist()
    assert in_sqlite(cal.map().to_sql("(2e0 * s)"), halves) == cal.map().predict_many(scores).tolist()


def assert_large_map_in_sqlite(kind, pieces):
    rng = np.random.default_rng(pieces)
    places = np.unique(rng.random(pieces + 1))
    values = np.sort(rng.random(len(places)))
    found = kind(Probability(), places[1:] if kind is StepMap else places, values)
    scores = np.concatenate((rng.choice(places, 20), rng.random(20), [0.0, 1.0]))
    expression = found.to_sql("s")
    assert deepest(expression) <= 2 + math.ceil(math.log(max(pieces, 2), sql.BRANCHES))
    found_there = in_sqlite(expression, scores.tolist())
    np.testing.assert_allclose(found_there, found.predict_many(scores), rtol=0.0, atol=ONE_FORMULA)


def deepest(expression):
    """How deep CASEs nest."""
    depth = np.cumsum([{"CASE": 1, "END": -1}[word] for word in re.findall(r"\bCASE\b|\bEND\b", expression)])
    assert depth[-1] == 0
    return depth.max()


@pytest.mark.sample(4)
@pytest.mark.parametrize("pieces", [1, 15, 16, 17, 255, 256, 257, 2_000])
@pytest.mark.parametrize("kind", [StepMap, KnotMap])
def test_maps_of_any_size_are_the_same_in_sqlite(kind, pieces):
    assert_large_map_in_sqlite(kind, pieces)


@pytest.mark.long
def test_100_000_steps_are_the_same_in_sqlite():
    """Half a minute: the time SQLite takes to read an expression is quadratic in its numbers."""
    assert_large_map_in_sqlite(StepMap, 100_000)


@pytest.mark.full
def test_100_000_knots_nest_no_deeper_than_a_database_allows():
    """SQLite refuses a parser stack of 100 and an expression of depth 1,000."""
    places = np.linspace(0.0, 1.0, 100_000)
    assert deepest(KnotMap(Probability(), places, places).to_sql("s")) <= 7


def test_extremes_do_not_overflow():
    steep = SigmoidMap(Interval(), 1e4, -3.0)
    flat = BernsteinMap(Logit(), np.linspace(0.0, 1.0, 51))
    apart = KnotMap(Interval(), np.array([-1.7e308, 1.7e308]), np.array([0.0, 1.0]))
    assert in_sqlite(steep.to_sql("s"), [-1e300, -1.0, 0.0003, 1.0, 1e300]) == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.0])
    assert_same_elsewhere(flat, np.linspace(0.0, 1.0, 101))
    assert in_sqlite(apart.to_sql("s"), [-1.7e308, 0.0, 8.5e307]) == pytest.approx([0.0, 0.5, 0.75])
    assert load_map(apart.to_json()).predict_many([-1.7e308, 0.0, 8.5e307]) == pytest.approx([0.0, 0.5, 0.75])


def test_the_twenty_lines_of_the_documentation_are_enough():
    program = re.findall(r"```python\n(import json.*?)```", PAGE, flags=re.DOTALL)[0]
    names = {}
    exec(compile(program, "map_format.md", "exec"), names)
    scores, y = realistic(seed=11, size=300, a=1.0, b=2.0)
    for cal in (Platt(), Isotonic(), Isotonic(scale=Logit()), HistogramBinning(), BBQ(), Isotonic(resolution=64)):
        cal.learn_many(scores, y)
        text = cal.map().to_json()
        found = [names["evaluate"](text, score) for score in [*scores.tolist(), 0.0, 1.0]]
        np.testing.assert_allclose(found, cal.predict_many([*scores, 0.0, 1.0]), rtol=0.0, atol=ONE_FORMULA)
