"""Compiled ≡ uncompiled, bit for bit: each kernel's source, loaded as ordinary Python beside its compiled twin."""

import ast
import importlib
import importlib.util
import itertools
import math
import re
import shutil
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, gammaln, log_ndtr

import streamcal
from streamcal import Auto
from streamcal.kernels import COMPILED, FAMILIES, module_name, source
from streamcal.kernels.as_python import CIMPORTS, AsPython
from streamcal.kernels.newton.recent_logistic import RecentLogistic
from streamcal.kernels.newton.recent_points import RecentPoints
from streamcal.maps.points import MERGES
from streamcal.solvers.partial_order import ranks_of

PACKAGE = Path(streamcal.__file__).parent
#: Kernels whose two forms are compared in a file of their own.
ELSEWHERE = {
    "accounts": "test_multicalibrated.py",
    "balance": "test_multicalibrated.py",
    "bernstein": "test_bernstein_kernels.py",
    "capitals": "test_multicalibrated.py",
    "counted_rows": "test_counted_join.py",
    "delay_variance": "test_segmented_late.py",
    "difference_qp": "test_tensor_kernels.py",
    "forest_qp": "test_tensor_kernels.py",
    "pending_events": "test_pending_table.py",
    "pending_steps": "test_pending_table.py",
    "pending_table": "test_pending_table.py",
    "groups": "test_multicalibrated.py",
    "hull_changes": "test_hull_tree.py",
    "hull_fits": "test_hull_tree.py",
    "hull_nodes": "test_hull_tree.py",
    "hull_pools": "test_hull_tree.py",
    "hull_search": "test_hull_tree.py",
    "hull_tree": "test_hull_tree.py",
    "flat_rows": "test_bernstein_kernels.py",
    "monotone_qp": "test_solvers.py",
    "rank_tree": "test_rank_tree.py",
    "joint_effects": "test_segmented_pairs.py",
    "level_members": "test_segmented.py",
    "level_names": "test_segmented.py",
    "level_table": "test_segmented.py",
    "observed_levels": "test_segmented.py",
    "segment_chain": "test_segmented.py",
    "segmented_steps": "test_pending_table.py",
    "sigmoid_fit": "test_solvers.py",
    "tensor_bernstein": "test_tensor_kernels.py",
    "tokens": "test_counted_join.py",
}
HERE = {
    "bernstein_stream",
    "beta_scores",
    "bin_edges",
    "binnings",
    "change_bets",
    "anchored_logistic",
    "anchored_stream",
    "angular_slope",
    "auto_mixture",
    "auto_steps",
    "cell_bins",
    "cell_points",
    "cell_sums",
    "centred_blocks",
    "chebyshev",
    "class_scores",
    "combination",
    "codes",
    "compensated",
    "correction",
    "covers",
    "cubic",
    "day_and_week",
    "deviances",
    "equality_qp",
    "fast_path",
    "jumper",
    "folds",
    "grid_cells",
    "guard",
    "hashing",
    "hedging",
    "implicit_regression",
    "kink_path",
    "kinks",
    "knot_sums",
    "late_weights",
    "line_ladder",
    "logistic",
    "measures",
    "memory_ladder",
    "near_isotonic",
    "normal_depth",
    "newton_each",
    "online_newton",
    "online_softmax",
    "panel_logistic",
    "panel_tables",
    "partial_order",
    "point_nodes",
    "quadratic_model",
    "ramp_chain",
    "recent_logistic",
    "recent_moments",
    "recent_points",
    "regressions",
    "repeated_scores",
    "score_regressions",
    "tangent_qp",
    "taylor_sums",
    "weights",
    "working_set",
}


@cache
def plain_kernels():
    """Import all kernels as ordinary Python, apart from those in use: kernel → module."""
    in_use = _taken_out()
    finder = AsPython()
    finder.install()
    try:
        return {name: importlib.import_module(module_name(name)) for name in FAMILIES}
    finally:
        sys.meta_path.remove(finder)
        _taken_out()
        sys.modules.update(in_use)
        for full, module in in_use.items():
            package, _, name = full.rpartition(".")
            setattr(sys.modules[package], name, module)


def _taken_out():
    """Take the modules of kernels out of `sys.modules`, and return them by full name."""
    found = [full for full in sys.modules if full.startswith(("streamcal.kernels.", CIMPORTS))]
    return {full: sys.modules.pop(full) for full in found}


def twins(name):
    """(compiled module, its source as ordinary Python), or skip."""
    if not COMPILED:
        pytest.skip("kernels are not compiled here: there is no second form to compare with")
    return importlib.import_module(module_name(name)), plain_kernels()[name]


def bits(value):
    """Return a float, or a sequence of them, as its bytes: −0.0 and NaN compare too."""
    return np.asarray(value, dtype=np.float64).tobytes()


def test_every_kernel_has_its_two_forms_compared():
    assert set(FAMILIES) == HERE | set(ELSEWHERE)
    for name, file in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert name in text, f"{file} does not mention {name}"


def test_the_plain_form_is_plain():
    for name in HERE:
        compiled, source = twins(name)
        assert source.__file__.endswith(".py")
        assert not compiled.__file__.endswith(".py")


def test_the_c_form_of_a_function_is_stated_once():
    """In the `.pxd`, where it is declared there, and not by decorators of the `.py` too."""
    for name in FAMILIES:
        path = Path(source(name))
        if not path.with_suffix(".pxd").exists():
            continue
        declared = path.with_suffix(".pxd").read_text(encoding="utf-8")
        names = re.findall(r"^ *cp?def .*?\b(\w+)\(", declared, re.M)
        twice = []
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef) or f"cdef class {node.name}" in declared:
                for one in node.body if isinstance(node, ast.ClassDef) else [node]:
                    decorators = set(map(ast.unparse, getattr(one, "decorator_list", ())))
                    if getattr(one, "name", None) in names and decorators & {"cython.cfunc", "cython.ccall"}:
                        twice.append(one.name)
        assert not twice, f"{name}: {twice}"


@pytest.mark.full
@pytest.mark.parametrize("missing", [pytest.param("auto_steps", marks=pytest.mark.in_every_share), "compensated"])
def test_where_one_kernel_is_not_compiled_none_is_used_compiled(missing, tmp_path):
    """A copy of the package without one compiled kernel forecasts the same."""
    if not COMPILED:
        pytest.skip("kernels are not compiled here")
    package = shutil.copytree(PACKAGE, tmp_path / "streamcal", ignore=shutil.ignore_patterns("__pycache__"))
    for compiled in (package / "kernels").glob(f"*/{missing}.*"):
        if compiled.suffix in (".so", ".pyd"):
            compiled.unlink()
    code = """if True:
        import sys
        from streamcal import Auto
        from streamcal.app.doctor import environment
        cal = Auto(delay=2)
        for k in range(20):
            cal.learn_one(0.05 * k, k % 3 == 0)
        ours = {name: module for name, module in sys.modules.items() if name.startswith("streamcal.kernels.")}
        assert all(name == module.__spec__.name and module.__file__.endswith(".py") for name, module in ours.items())
        print(cal.predict_one(0.3), environment()["kernels"], sep="\\n")
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    forecast, said = done.stdout.splitlines()
    assert said.startswith(f"uncompiled, since these could not be compiled: {missing}; ")
    cal = Auto(delay=2)
    for k in range(20):
        cal.learn_one(0.05 * k, k % 3 == 0)
    assert float(forecast) == cal.predict_one(0.3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("degree", [1, 2, 5, 8])
def test_tangent_qp(degree):
    """The plain form runs on those of `angular_slope`, `equality_qp` and `working_set`."""
    rng = np.random.default_rng(degree)
    forms = [module.TangentQP(degree) for module in twins("tangent_qp")]
    start = np.zeros(0)
    for number in range(6):
        u = rng.random(200)
        columns = np.cos(np.arange(2 * degree + 1) * np.arccos(2.0 * u - 1.0)[:, None])
        y = rng.random(200) < 0.5 + 0.4 * np.sin(7.0 * u)
        moments, cross = columns.mean(axis=0), (columns[:, : degree + 1] * y[:, None]).mean(axis=0)
        assert len({form.solve(moments, cross, 1e-6, start) for form in forms}) == 1
        for name in ("x", "angles", "multipliers", "lift", "iterations"):
            assert bits(getattr(forms[0], name)) == bits(getattr(forms[1], name))
        start = forms[0].x.copy() if number % 2 else np.zeros(0)


def test_minima_under_equations():
    """The multipliers solve the KKT system; the plain form takes the same steps."""
    rng = np.random.default_rng(3)
    for n, number in [(1, 0), (1, 1), (5, 2), (9, 9)]:
        root, normals, d = rng.normal(size=(n, n)), rng.normal(size=(number, n)), rng.normal(size=n)
        h, bound = root @ root.T + np.eye(n), rng.normal(size=number)
        system = np.block([[h, -normals.T], [normals, np.zeros((number, number))]])
        expected = np.linalg.solve(system, np.concatenate([d, bound]))
        found = []
        for module in twins("equality_qp"):
            parts = h.copy(), d.copy(), normals.copy(), bound.copy(), np.zeros((n, n))
            assert module.minimise(*parts, number)
            found.append(np.concatenate([parts[1], parts[3]]))
        assert bits(found[0]) == bits(found[1])
        np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-9)
        for module in twins("equality_qp"):
            assert not module.minimise(-h, d.copy(), normals.copy(), bound.copy(), np.zeros((n, n)), number)


FORMS = [(True, True, False), (True, False, False), (False, True, True), (False, True, False), (False, False, False)]


def features(z, two, constant):
    """Return u and v of log-odds z, as `Beta` has them; v is 0 in a form with one feature."""
    shift = 0.0 if constant else math.log(2.0)
    return (z - np.logaddexp(0.0, z) + shift, np.logaddexp(0.0, z) - shift) if two else (z, 0.0 * z)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("two", "constant", "targets"), FORMS)
def test_recent_logistic(two, constant, targets):
    """Passes over points of fading weight, or over nodes in their place: both forms."""
    rng = np.random.default_rng(4)
    fits, size, by_nodes = [], 1400, set()
    for points, logistic in zip(twins("recent_points"), twins("recent_logistic"), strict=True):
        fits.append(logistic.RecentLogistic(points.RecentPoints(size), two, constant, targets, 1e-9))
    for number in range(2400):
        z, w = rng.normal(), 2.0 ** (number / (9.0 if number < 600 else 90.0))
        u, v = features(z, two, constant)
        slot = 2 * int(rng.integers(size // 2)) + int(rng.random() < 0.5 * (1.0 + math.tanh(0.5 * z)))
        for fit in fits:
            fit.replace(slot, u, v, w)
        if number > 40 and number % 19 == 0:
            assert len({fit.fit(0.99, 0.02, 0.8, 0.4, 0.1) for fit in fits}) == 1
            assert bits(fits[0].parameters()) == bits(fits[1].parameters())
            assert fits[0].by_nodes == fits[1].by_nodes
            by_nodes.add(fits[0].by_nodes)
    assert by_nodes == {False, True}


def exact_line(points, ridge, slope, offset):
    """Return slope and offset of the penalised minimum by Newton's method from near values."""
    points = [(Decimal(u), y, Decimal(w)) for u, y, w in points]
    total = sum(w for _, _, w in points)
    mean, scale = sum(u * w for u, _, w in points) / total, Decimal(ridge) * total
    a, c = Decimal(slope), Decimal(offset)
    for _ in range(6):  # each doubles the digits
        at_mean = c + (a - 1) * mean
        ga, gc = scale * (a - 1 + at_mean * mean), scale * at_mean
        haa, hac, hcc = scale * (1 + mean * mean), scale * mean, scale
        for u, y, w in points:
            p = 1 / (1 + (-(a * u + c)).exp())
            curve = w * p * (1 - p)
            ga, gc = ga + w * (p - y) * u, gc + w * (p - y)
            haa, hac, hcc = haa + curve * u * u, hac + curve * u, hcc + curve
        determinant = haa * hcc - hac * hac
        a, c = a - (hcc * ga - hac * gc) / determinant, c - (haa * gc - hac * ga) / determinant
    return a, c


def test_certified_log_odds_are_those_of_the_minimum_to_the_rounding_that_is_allowed():
    """`recent_logistic.ROUNDED`: a light point far from the others magnifies the rounding of the sums, to 1e-7 here."""
    rng, served, refused = np.random.default_rng(1), [], 0
    for far in [10.0**k for k in range(1, 8) for _ in range(6)]:
        places = [far, *rng.normal(size=30).tolist()]
        labels = [True, *(rng.random() < 1.0 / (1.0 + math.exp(-2.0 * u)) for u in places[1:])]
        points = list(zip(places, map(int, labels), [10.0 ** rng.uniform(-14.0, 0.0)] + 30 * [1.0], strict=True))
        held = RecentPoints(2 * len(points))
        for i, (u, y, w) in enumerate(points):
            held.replace(2 * i + y, u, 0.0, w)
        fit = RecentLogistic(held, False, True, False, 1e-9)
        if fit.fit(0.0, 0.0, 1.0, 0.0, 0.0):
            a, _, c = fit.parameters()
            with localcontext() as context:
                context.prec = 40
                exact = exact_line(points, 1e-9, a, c)
                served.append(max(abs((Decimal(a) - exact[0]) * Decimal(u) + Decimal(c) - exact[1]) for u in places))
        else:
            refused += 1
    assert max(served) <= 1e-8
    assert len(served) >= 24
    assert refused >= 3


@pytest.mark.sample(6)
@pytest.mark.parametrize(("two", "constant", "targets"), FORMS)
def test_anchored_logistic(two, constant, targets):
    rng = np.random.default_rng(2)
    size = 1000
    z, weights = rng.standard_normal(size), rng.uniform(0.5, 2.0, size)
    u, v = features(z, two, constant)
    slots = 2 * np.arange(size) + (rng.random(size) < 1.0 / (1.0 + np.exp(-0.8 * z)))
    forms = [module.AnchoredLogistic(2 * size, two, constant, targets, 1e-9) for module in twins("anchored_logistic")]
    for one in forms:
        one.load(slots, u, v, weights)
        one.anchor_at(0.8, 0.8 if two else 0.0, 0.0)
    fits, served = [], 0
    for number in range(120):
        before = forms[0].served
        assert len({one.fit(0.99, 0.02) for one in forms}) == 1
        fits.append(bits(forms[0].parameters()))
        assert fits[-1] == bits(forms[1].parameters())
        assert forms[0].served == forms[1].served
        served += forms[0].served > before
        assert bits(forms[0].weights()) == bits(forms[1].weights())
        slot, x, w = int(slots[number]), features(rng.normal(), two, constant), float(rng.integers(0, 3))
        for one in forms:
            one.replace(slot, *x, w)
    assert served > 60, "the series is hardly ever of use"
    targets = [module.regularised_targets(2.0, 1e17) for module in twins("anchored_logistic")]
    assert targets[0] == targets[1] == (math.nextafter(1.0, 0.0), 0.25)
    assert len(set(fits)) > 100, "the fits are hardly ever found"


def test_panel_tables():
    found = [module.tables(3, 16) for module in twins("panel_tables")]
    for one, other in zip(*found, strict=True):
        assert bits(one) == bits(other)


@pytest.mark.sample(2)
@pytest.mark.parametrize("degree", [1, 3])
def test_panel_logistic(degree):
    rng, size = np.random.default_rng(6), 40
    u, weights = np.concatenate([[0.0, 1.0], rng.random(size - 2)]), rng.uniform(0.5, 2.0, size)
    slots = 2 * np.arange(size) + (rng.random(size) < u)
    forms = [module.PanelLogistic(degree, 16, 2 * size) for module in twins("panel_logistic")]
    start = np.linspace(-1.5, 1.5, degree + 1)
    for one in forms:
        one.load(slots.astype(np.intp), u, weights)
        assert one.start_at(start)
        assert not one.start_at(np.linspace(-15.0, 15.0, degree + 1))
    fits = []
    for number in range(30):
        assert len({one.fit() for one in forms}) == 1
        fits.append(bits(forms[0].coefficients))
        assert fits[-1] == bits(forms[1].coefficients)
        for sums in zip(*(one.model() for one in forms), strict=True):
            assert bits(sums[0]) == bits(sums[1])
        slot, x, w = int(slots[number]), rng.random(), float(rng.integers(0, 3))
        for one in forms:
            one.replace(slot, x, w)
    assert len(set(fits)) > 20, "the fits are hardly ever found"


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, 3.0, 9.75])] * 5), min_size=1, max_size=12))
def test_cell_points(rows):
    cells = np.array([(w, p * w / 10.0, 1.0, a, b) for w, p, _, a, b in rows])
    borders = np.linspace(0.0, 10.0, len(rows) + 1)
    found = [module.all_points(cells, borders) for module in twins("cell_points")]
    for one, other in zip(*found, strict=True):
        assert bits(one) == bits(other)
    alone = [module.points_of(cells, 0, 0.0, borders[1]) for module in twins("cell_points")]
    assert bits(alone[0]) == bits(alone[1])
    of_first = found[0][0] < 2
    expected = [value for pair in zip(found[0][1][of_first], found[0][2][of_first], strict=True) for value in pair]
    assert [x for w, x in zip(alone[0][1::2], alone[0][0::2], strict=True) if w > 0.0] == expected[0::2]


@given(st.lists(st.tuples(st.integers(0, 15), st.booleans(), st.sampled_from([0.3, 1.0, 7.5])), max_size=20))
def test_cell_sums_and_cell_bins(observations):
    centres = np.arange(16) + 0.5
    forms = []
    for sums, bins in zip(twins("cell_sums"), twins("cell_bins"), strict=True):
        table = sums.CellSums(16, int)
        table.set_fast_range(0.0, 16.0)
        other = sums.CellSums(16, int)
        readers = bins.FrequencyBins(table, centres, int, 3, 1e-10), bins.NearestCells(other, centres, int, 0.25)
        forms.append((table, other, readers))
    for cell, y, w in observations:
        for table, other, _ in forms:
            assert table.add_fast(cell + 0.25, y, w)
            other.add(cell + 0.25, float(y), w)
            assert not table.add_fast(17.0, y, w)
        found = [[reader.at(place) for reader in readers for place in centres.tolist()] for _, _, readers in forms]
        assert bits(found[0]) == bits(found[1])
    assert bits(forms[0][0].cells) == bits(forms[0][1].cells) == bits(forms[1][0].cells) == bits(forms[1][1].cells)
    pairs = [module.reduced(2.5, 1.5, 0.3, 1.5 - 1e-14) for module in twins("cell_sums")]
    assert bits(pairs[0]) == bits(pairs[1]) == bits([2.2, 0.0])
    for table in (forms[0][0], forms[1][0]):
        assert (table.count, table.peak) == (len(observations), table.cells[:, 0].max())
        table.take()
        table.note(3)
        table.note(3)
        assert table.take() == [3, 3]
        table.note_all()
        assert table.take() is None
        for _ in range(300):
            table.note(1)
        assert table.take() is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 15), st.booleans(), st.sampled_from([0.3, 1.0, 7.5])), max_size=40))
def test_binnings(observations):
    centres = np.arange(16) + 0.5

    def numbers(total, distinct):
        return range(1 + (total > 30.0), min(distinct, int(total / 3.0) + 2) + 1)

    def ends(x):
        return np.concatenate(([0.0], 0.5 * (x[1:] + x[:-1]), [16.0])) / 16.0

    forms = []
    for sums, binnings in zip(twins("cell_sums"), twins("binnings"), strict=True):
        table = sums.CellSums(16, int)
        forms.append((table, binnings.Binnings(table, centres, int, numbers, ends, 1e-10, 2.0, 1e-9, 2.0**-80)))
    for number, (cell, y, w) in enumerate(observations):
        for table, _ in forms:
            table.add(cell + 0.25, float(y), w)
            if number % 3 == 2:
                past, label, weight = observations[number - 1]
                table.remove(past, past + 0.25, float(label), weight)
        found = [[kernel.at(place) for place in (0.5, 7.5, 15.5)] for _, kernel in forms]
        assert bits(found[0]) == bits(found[1])


def test_scores_of_bins():
    """In both forms, and against the beta function of SciPy, which is accurate to 1e-13 of the logarithms of Γ."""
    rng = np.random.default_rng(4)
    n = np.exp(rng.uniform(-9.0, 12.0, 400))
    m = n * rng.choice([0.0, 1e-6, 0.3, 1.0], 400)
    alpha, beta = np.exp(rng.uniform(-20.0, 1.0, (2, 400)))
    compiled, plain = (module.bin_scores(n, m, alpha, beta) for module in twins("beta_scores"))
    assert bits(compiled) == bits(plain)
    expected = betaln(m + alpha, n - m + beta) - betaln(alpha, beta)
    size = np.abs(gammaln(n + alpha + beta)) + np.abs(expected) + 1.0
    assert (np.abs(compiled - expected) <= 1e-13 * size).all()
    assert np.isfinite(compiled).all()
    heavy = [np.array([value]) for value in (1e150, 1e-10, 1e-12, 2.0)]
    assert np.isfinite([module.bin_scores(*heavy) for module in twins("beta_scores")]).all()
    for module in twins("beta_scores"):
        with pytest.raises(ValueError, match="lengths"):
            module.bin_scores(n, m, alpha, beta[1:])


@given(
    st.integers(1, 300) | st.integers(1, 2**24),
    st.floats(0.0, 1.0),
    st.integers(1, 3000),
    st.floats(1e-9, 1.0 - 1e-9) | st.just(1e-9),
)
def test_no_score_of_a_bin_is_above_its_bound(n, positive, binning, prior):
    """And bounds are multiples of the unit, so that their sums are exact. For two pseudo-observations in a binning."""
    size, m = 2.0 / binning, float(round(positive * n))
    for module in twins("beta_scores"):
        bound = module.bin_bound(float(n), m, module.share_of_both(size))
        score = module.bin_score(float(n), m, size * prior, size * (1.0 - prior))
        assert score <= bound + 1e-13 * math.lgamma(n + 1.0)
        assert (bound / module.UNIT).is_integer()


@given(st.lists(st.tuples(st.floats(-9.0, 9.0), st.booleans(), st.floats(0.01, 9.0)), max_size=30))
def test_recent_moments(observations):
    forms = [module.RecentMoments() for module in twins("recent_moments")]
    for one in forms:
        assert not one.add(1.0, 1.0, 1.0)
        one.set([3.0, 1.5, 2.0, 2.0, 2.5, 4.0], [1e-17, 0.0, -1e-17, 0.0, 0.0, 1e-16])
    for x, y, w in observations:
        assert len({one.add(x, float(y), w) for one in forms}) == 1
        for within in (True, False):
            found = [one.summary(within) for one in forms]
            assert found[0] == found[1]
            if found[0] is not None:
                lines = [
                    module.normal_line(*found[0], 0.0 if within else 2.5, 32.0) for module in twins("recent_moments")
                ]
                assert bits(lines[0]) == bits(lines[1])
        assert bits(forms[0].weights()) == bits(forms[1].weights())
        assert forms[0].total() == forms[1].total()
    assert forms[0].take() == forms[1].take()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=40))
def test_folds(observations):
    """In both forms, and the merges of `maps/points.py`."""
    forms, made = twins("folds"), []
    for form in (0, 1):
        trees = [made_of(form, "hull_tree", "HullTree") for _ in range(5)]
        made.append((trees[0], trees[1:], made_of(form, "folds", "Folds", trees[1:], trees[0], None)))
        made[form][2].set_fast_range(0.0, 2.0)
        assert made[form][2].merged(0.5, 0) == 0.5
    for number, (score, y) in enumerate([(5, 1), *observations]):
        x = float(score) / 7.0
        for _, _, kernel in made:
            assert kernel.deal_fast(x, y == 1, 1.0) if number % 2 else kernel.deal_unit(x, float(y))
        pairs = [tree.interval(x, 1.0) for tree in made[0][1] if tree.count]
        for rule, merge in enumerate(MERGES.values()):
            found = [kernel.merged(x, rule) for _, _, kernel in made]
            assert found[0] == found[1] == merge(*zip(*pairs, strict=True))
    (whole, trees, kernel), (_, _, other) = made
    assert kernel.shares == other.shares == sum(tree.count for tree in trees)
    assert whole.to_arrays()[1].sum() == 1 + len(observations)
    for whole, _, kernel in made:
        whole.update(0.25, 0.25, 0.25, 1)
        before = kernel.shares
        assert not kernel.deal_unit(0.25, 1.0)
        assert not kernel.deal_fast(0.25, True, 1.0)
        assert not kernel.deal_fast(0.5, True, 2.0)
        assert not kernel.deal_fast(3.0, True, 1.0)
        assert kernel.shares == before
    for x in (0.3, -0.0, 0.0, 1e300):
        codes = [(module.hash_of(x), module.hash_with(module.hash_of(x), 7.5)) for module in forms]
        assert codes[0] == codes[1]


def test_records_of_the_ladder():
    records = []
    for module in twins("line_ladder"):
        ladder = module.LineLadder((0.0, -0.2, 3.0), (1.0, 4.0, 1.0), 16.0)
        for k in range(40):
            ladder.step(0.1 * k - 2.0, float(k % 3 == 0), 1.0)
        content = ladder.issue_bytes(0.7, False)
        assert ladder.unpacked(content, ladder.issued) == ladder.issue(0.7)
        assert ladder.unpacked(ladder.issue_bytes(0.7, True), 0.5) == ladder.issue(0.7)
        assert ladder.unpacked(content[1:], ladder.issued) == []
        records.append((content, bits(ladder.issue(0.7))))
    assert records[0] == records[1]


@given(st.floats(-100.0, 100.0))
def test_codes(value):
    codes = [(module.coded(value, 32.0), module.coarse(value)) for module in twins("codes")]
    assert codes[0] == codes[1]
    two, one = codes[0]
    for module in twins("codes"):
        assert [module.with_sign(two & 65535, 65536), module.with_sign(one & 255, 256)] == [two, one]
        wanted = max(-32.0, min(value, 32.0))  # half a step of the root, and of the fourth root
        assert module.decoded(two, 32.0) == pytest.approx(
            wanted, abs=1e-8 + 32.0 / 32767.0 * math.sqrt(abs(wanted) / 32.0)
        )
        assert module.fine(one) == pytest.approx(wanted, abs=1e-6 + 64.0 / 127.0 * (abs(wanted) / 32.0) ** 0.75)


@given(st.lists(st.floats(allow_nan=False), max_size=20))
def test_logistic(values):
    compiled, plain = twins("logistic")
    array = np.array([*values, -0.0, 0.0, 1.0, 5e-324, 1.0 - 2.0**-53, 0.3, math.inf, -math.inf])
    for name in ("logit", "sigmoid"):
        fast, slow = getattr(compiled, name), getattr(plain, name)
        many = bits(getattr(compiled, f"{name}s")(array))
        assert many == bits(getattr(plain, f"{name}s")(array))
        assert many == bits([fast(value) for value in array.tolist()])
        assert many == bits([slow(value) for value in array.tolist()])


def test_logistic_takes_read_only_arrays_and_leaves_them():
    compiled, plain = twins("logistic")
    array = np.array([0.25, 0.5])
    array.setflags(write=False)
    for module in (compiled, plain):
        assert module.logits(array).flags.writeable
        assert array.tolist() == [0.25, 0.5]


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 5e-324, 1e-12]), st.booleans(), st.floats(0.0, 9.0)),
        max_size=30,
    )
)
def test_measures(rows):
    p, y, w = np.array([(p, y, w) for p, y, w in rows], dtype=np.float64).reshape(-1, 3).T.copy()
    made = []
    for module in twins("measures"):
        losses = module.log_losses(p)
        one_by_one, at_once, sums = module.CellTable(64, 4.0, 8), module.CellTable(64, 4.0, 8), np.zeros(4)
        at_once.add_many(p, y, w, *losses)
        for row in zip(p.tolist(), y.tolist(), w.tolist(), strict=True):
            if row[2]:
                one_by_one.add(*row)
        assert bits(at_once.rows) == bits(one_by_one.rows)
        at_once.merge(one_by_one.rows)
        taken = [at_once.take(0.3, 1.0, 0.5), at_once.take(0.0, 0.0, 1.0)]
        assert taken == [bool(one_by_one.rows[one_by_one.row_of(place), 2]) for place in (0.3, 0.0)]
        module.add_differences(sums, w, y)
        made.append([bits(losses), bits(at_once.rows), bits(sums)])
    assert made[0] == made[1]


#: Where θ starts, and the initial curvature, for two parameters and for three.
NEWTONS = {2: ((1.0, 0.0), 100.0), 3: ((1.0, 1.0, 0.0), 25.0)}


def online_newtons(size, radius, discount):
    """Both forms, from the identity, with the constants of the paper."""
    theta, initial = NEWTONS[size]
    rest = (0.1, initial, radius, discount, 16.0)  # the last is the limit of the feature
    return [module.OnlineNewton(theta, *rest) for module in twins("online_newton")]


steps = st.lists(
    st.tuples(st.floats(-16.0, 16.0), st.sampled_from([0.0, 1.0]), st.floats(1e-60, 1e60) | st.floats(0.1, 10.0)),
    max_size=60,
)


@pytest.mark.parametrize("size", NEWTONS)
@given(steps, st.sampled_from([1.0, 0.99, 0.5]), st.sampled_from([100.0, 2.0]))
def test_online_newton(size, steps, discount, radius):
    """Also where the steps leave the ball, and the projection searches for the way back."""
    made = online_newtons(size, radius, discount)
    for x, y, w in steps:
        for newton in made:
            newton.step(x, y, w)
        assert bits(made[0].state()) == bits(made[1].state())
        assert bits(made[0].predict(x)) == bits(made[1].predict(x))


@pytest.mark.parametrize("size", NEWTONS)
def test_online_newton_loads_the_state_of_its_twin_and_no_other(size):
    fast, slow = online_newtons(size, 100.0, 0.9)
    for k in range(50):
        fast.step(k / 10 - 2.5, float(k % 3 == 0), 1.0)
    slow.load(*fast.state())
    assert bits(slow.state()) == bits(fast.state())
    assert slow.parameters() == fast.state()[:size]
    for newton in (fast, slow):
        newton.step(0.5, 1.0, 2.0)
    assert bits(slow.state()) == bits(fast.state())
    for newton in (fast, slow):
        with pytest.raises(ValueError, match="numbers"):
            newton.load(*fast.state()[1:])
        with pytest.raises(ValueError, match="two or three"):
            type(newton)((1.0,), 0.1, 100.0, 100.0, 1.0, 16.0)


@given(st.lists(st.floats(1e-60, 1e60) | st.floats(0.1, 10.0), min_size=1, max_size=60))
def test_relative_weights(weights):
    forms = twins("weights")
    made = [module.WeightScale() for module in forms]
    for w in weights:
        found = [scale.relative(w) for scale in made]
        assert bits(found[0]) == bits(found[1]) == bits(made[1].ratio(w))
        assert forms[0].steps_of(found[0]) == forms[1].steps_of(found[1])
    for scale, module in zip(made, forms, strict=True):
        other = module.WeightScale()
        other.load(*scale.state())
        scale.merge(other)
        assert scale.state() == [2.0 * one for one in other.state()]
    mixed = np.array([0.0, *weights, 0.0])
    assert bits(made[0].relative_many(mixed)) == bits([made[1].relative(w) if w else 0.0 for w in mixed.tolist()])


UNUSUAL = [1, True, None, "0.5", math.nan, math.inf, -0.5, 1.5, np.float64(0.5), -0.0, 0.0, 5e-324, 1e-9, 0.5, 1.0]


@pytest.mark.parametrize("size", NEWTONS)
def test_the_fast_path_takes_what_needs_no_check_and_leaves_the_rest(size):
    fast, slow = online_newtons(size, 100.0, 0.9)
    for score in UNUSUAL:
        assert bits(fast.predict_fast(score)) == bits(slow.predict_fast(score))
        for y in (True, False, 1, np.True_, None, 2):
            for w in (1.0, 0.0, 2, -1.0, 1e-61, 1e61, math.nan, np.float64(1.0)):
                assert bool(fast.learn_fast(score, y, w)) == bool(slow.learn_fast(score, y, w))
                assert bits(fast.state()) == bits(slow.state())


@pytest.mark.parametrize("size", NEWTONS)
def test_several_online_newtons_in_one_call(size):
    """Each as by itself; what needs the full checks is left alone and named, and what is beyond the limit is."""
    labels = [k % 3 == 0 for k in range(len(UNUSUAL))]
    together, alone = ([online_newtons(size, 100.0, 0.9) for _ in UNUSUAL] for _ in range(2))
    for form, module in enumerate(twins("newton_each")):
        newtons, single = [pair[form] for pair in together], [pair[form] for pair in alone]
        for w in (1.0, 2.0):
            learned = [one.learn_fast(s, y, w) for one, s, y in zip(single, UNUSUAL, labels, strict=True)]
            clamped = [not done and type(s) is float and 0 <= s <= 1 for done, s in zip(learned, UNUSUAL, strict=True)]
            for one, s, y in itertools.compress(zip(single, UNUSUAL, labels, strict=True), clamped):
                one.step(-16.0 if s < 0.5 else 16.0, y, w)
            left, beyond = module.learn_each(newtons, UNUSUAL, labels, w)
            assert beyond == [i for i, done in enumerate(clamped) if done]
            assert left == [i for i in range(len(UNUSUAL)) if not (learned[i] or clamped[i])]
            assert left
            assert beyond
            assert any(learned)
        assert [bits(one.state()) for one in newtons] == [bits(one.state()) for one in single]
        found = module.predict_each(newtons, UNUSUAL)
        assert bits(found) == bits([one.predict_fast(s) for one, s in zip(single, UNUSUAL, strict=True)])
        with pytest.raises(ValueError, match="lengths"):
            module.predict_each(newtons, UNUSUAL[1:])
        with pytest.raises(ValueError, match="lengths"):
            module.learn_each(newtons, UNUSUAL, labels[1:], 1.0)


# -- streams -------------------------------------------------------------------------------------------------------


def made_of(form, name, attribute, *arguments):
    """Return what a kernel makes, compiled (0) or as ordinary Python (1), from kernels in the same form."""
    return getattr(twins(name)[form], attribute)(*arguments)


def numbers_in(state):
    return [one for part in state for one in np.ravel(part)]


def newton_streams(form):
    newton = made_of(form, "online_newton", "OnlineNewton", (1.0, 1.0, 0.0), 0.1, 25.0, 100.0, 0.9, 16.0)
    return newton.stream, newton.state


def ladder_streams(form):
    """Every third label is learned from a record that was issued twenty labels before."""
    ladder = made_of(form, "line_ladder", "LineLadder", (0.0, -0.2, 3.0, 30.0), (1.0, 4.0, 1.0, 1.0), 16.0)

    def stream(x, y, w, p):
        ladder.stream(x, y, w, p)
        records = [ladder.issue(0.1 * k - 3.0) for k in range(20)]
        for k in range(60):
            ladder.step(0.1 * k - 3.0, k % 2, 1.0 + k % 3)
            if k % 3 == 0:
                ladder.learn_issued(0.1 * (k % 20) - 3.0, k % 4 == 0, 1.0, records[k % 20])
            records[k % 20] = ladder.issue(0.1 * (k % 20) - 3.0)

    return stream, lambda: [*numbers_in(ladder.state()), *ladder.issue(0.5), *numbers_in(ladder.lines())]


def jumper_streams(form):
    jumper = made_of(form, "jumper", "Jumper", (1.0, 0.5, 2.0), (0.0, 1.0, -1.0), (0.25, 1e-4), 0.5)
    return jumper.stream, lambda: numbers_in(jumper.state())


def bin_streams(kind, *arguments):
    def streams(form):
        newton = made_of(form, "online_newton", "OnlineNewton", (1.0, 0.0), 0.1, 100.0, 100.0, 1.0, 16.0)
        bins = made_of(form, "hedging", kind, 4, *arguments)
        both = made_of(form, "hedging", "Calibeaten", newton, bins)
        return both.stream, lambda: [*newton.state(), *numbers_in(bins.state())]

    return streams


def bernstein_streams(form):
    sums = made_of(form, "bernstein", "BernsteinSums", 4, -16.0, 16.0)
    qp = made_of(form, "monotone_qp", "MonotoneQP", 4)
    qp.watch(sums.moments, sums.cross)
    curve = made_of(form, "bernstein", "Curve", qp.coefficients, -16.0, 16.0)
    loop = made_of(form, "bernstein_stream", "BernsteinStream", sums, qp, curve)

    def stream(x, y, w, p):
        leaving = [column[np.resize(w, len(column)) > 0.0] for column in (x, y, w)]
        assert loop.run(x, y, w, *leaving, 5, 0, np.zeros(len(x)) if len(p) == 0 else p) == len(x)

    return stream, lambda: [*sums.moments, *sums.cross, sums.weight, sums.count, *qp.coefficients, loop.solved]


def cells_held(form):
    """Cells of scores from 0 to 1, and what makes the rows of a batch for them, of which the first ones leave again."""
    sums = made_of(form, "cell_sums", "CellSums", 16, int)

    def rows(x, y, w):
        leaving = [np.resize(column, 100)[np.resize(w, 100) > 0.0] for column in (x, y, w)]
        cells = [np.minimum(16.0 * column, 15.0).astype(np.intp) for column in (x, leaving[0])]
        return made_of(form, "cell_sums", "CellRows", sums, cells[0], x, y, w, cells[1], *leaving, 50)

    return sums, rows


def of_length(p, x):
    """Where predictions are written; all loops over cells predict."""
    return np.zeros(len(x)) if len(p) == 0 else p


def cell_streams(kind, *arguments):
    def streams(form):
        sums, rows = cells_held(form)
        tree = made_of(form, "cell_bins", kind, sums, np.arange(16) + 0.5, int, *arguments)
        return lambda x, y, w, p: tree.run(rows(x, y, w), of_length(p, x)), lambda: [*sums.cells.ravel(), sums.count]

    return streams


def anchored_streams(form):
    """With a fit that is not certified, the sums are made anew at the parameters before."""
    sums, rows = cells_held(form)
    kernel = made_of(form, "anchored_logistic", "AnchoredLogistic", 32, False, True, True, 0.0)
    loop = made_of(form, "anchored_stream", "AnchoredStream", sums, np.arange(17) / 16.0)
    fits = []

    def stream(x, y, w, p):
        loop.slope, loop.offset, loop.solved = 1.0, 0.0, True
        kernel.anchor_at(1.0, 0.0, 0.0)
        sums.take()
        loop.following, row, made, p = True, 0, rows(x, y, w), of_length(p, x)
        while (row := loop.run(kernel, made, np.ones(len(x)), row, p)) < len(x):
            kernel.anchor_at(loop.slope, 0.0, loop.offset)
            loop.solved = True
            fits.append(row)
        assert len(fits) < 100, "hardly any fit is certified"

    return stream, lambda: [*sums.cells.ravel(), loop.slope, loop.offset, loop.fitted, loop.following, *fits]


def moment_streams(form):
    moments = made_of(form, "recent_moments", "RecentMoments")

    def stream(x, y, w, p):
        made, start = of_length(p, x), 0
        if len(made) == len(x) == len(y) == len(w):
            moments.set([3.0, 1.5, 2.0, 2.0, 1.5, 4.0], [0.0] * 6)
        while (start := moments.run(x, y, w, start, True, 32.0, made)) < len(x):
            moments.take()

    return stream, lambda: [*moments.summary(True), *moments.summary(False), moments.total()]


STREAMS = {
    "online_newton": newton_streams,
    "line_ladder": ladder_streams,
    "jumper": jumper_streams,
    "shares": bin_streams("Shares"),
    "hedger": bin_streams("Hedger", 7),
    "bernstein_stream": bernstein_streams,
    "frequency_bins": cell_streams("FrequencyBins", 3, 1e-10),
    "nearest_cells": cell_streams("NearestCells", 0.25),
    "anchored_stream": anchored_streams,
    "recent_moments": moment_streams,
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("predicts", [True, False])
def test_a_stream_is_the_same_in_both_forms(name, predicts):
    rng, n = np.random.default_rng(5), 120
    x = rng.choice([0.0, 1e-9, *rng.random(40), 1.0 - 1e-9, 1.0], n)
    y, w = rng.integers(0, 2, n) * 1.0, rng.random(n) * (rng.random(n) > 0.2)
    found = []
    for form in (0, 1):
        stream, state = STREAMS[name](form)
        p = np.empty(n if predicts else 0)
        stream(x, y, w, p)
        found.append((bits(p), bits(state())))
        for wrong in ((x[1:], y, w, p), (x, y[1:], w, p), (x, y, w[1:], p), (x, y, w, np.empty(7))):
            with pytest.raises(ValueError, match="lengths"):
                stream(*wrong)
    assert found[0] == found[1]


def change_bets(horizon):
    """Both forms of two bets."""
    return [module.ChangeBets((0.5, 0.0), (0.0, -0.5), (0.25, 0.75), 0.5, horizon) for module in twins("change_bets")]


@pytest.mark.parametrize("horizon", [0.0, 3.0])
@given(outcomes=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=30))
def test_change_bets(horizon, outcomes):
    made = change_bets(horizon)
    for now, (p, y) in enumerate(outcomes, 1):
        fast, slow = [bets.step(p, float(y), now) for bets in made]
        assert bits(fast) == bits(slow)
    for given_ in ((0.5, 1.0), (1, True), (1.0, True), (-0.1, False), (math.nan, True), (0.5, True)):
        fast, slow = [bets.step_fast(*given_, 31) for bets in made]
        assert bits(fast) == bits(slow)
    for z in (0.3, -2.0, math.inf):
        fast, slow = [bets.step_score(z, 31) for bets in made]
        assert bits(fast) == bits(slow)
    assert made[0].step_scores(np.array([0.1, -0.4]), 32, 1.1) == made[1].step_scores(np.array([0.1, -0.4]), 32, 1.1)
    p, y = np.array([0.5, 0.9, 0.2]), np.array([0.0, 0.0, 1.0])
    assert made[0].step_many(p, y, 32, 1.2) == made[1].step_many(p, y, 32, 1.2)
    for bets, more in zip(made, change_bets(horizon), strict=True):
        more.step(0.3, 1.0, 1)
        bets.pool(more)
    assert made[0].state() == made[1].state()
    made[1].load(*made[0].state())
    assert made[0].state() == made[1].state()


def jumpers():
    """Both forms, over three calibrators and two jump rates."""
    given = ((1.0, 0.5, 2.0), (0.0, 1.0, -1.0), (0.25, 1e-4), 0.5)
    return [module.Jumper(*given) for module in twins("jumper")]


@given(steps)
def test_jumper(steps):
    fast, slow = made = jumpers()
    for x, y, w in steps:
        for jumper in made:
            jumper.step(x, y, w)
        for one, other in zip(fast.state(), slow.state(), strict=True):
            assert bits(one) == bits(other)
        assert bits(fast.predict(x)) == bits(slow.predict(x))
        assert bits(fast.weights()) == bits(slow.weights())


def test_jumper_loads_the_state_of_its_twin():
    fast, slow = jumpers()
    for k in range(50):
        fast.step(k / 10 - 2.5, float(k % 3 == 0), 1.0)
    slow.load(*fast.state())
    for jumper in (fast, slow):
        jumper.step(0.5, 1.0, 2.0)
    assert bits(slow.weights()) == bits(fast.weights())


def forgetting(steps):
    """Make a regression of three features."""
    return steps.ForgettingRegression(0.9, [4.0, 1.0, 2.0], [1.0, 0.0, 0.0])


@given(steps)
def test_implicit_regression(steps):
    made = [forgetting(module) for module in twins("implicit_regression")]
    for x, y, w in steps:
        x = min(max(x, -16.0), 16.0)
        for regression in made:
            regression.learn(np.array([x, 1.0, x > 0.0]), y, w)
        fast, slow = made
        assert repr(fast.state()) == repr(slow.state())


def test_implicit_regression_refuses_states_of_another_size():
    for module in twins("implicit_regression"):
        with pytest.raises(ValueError, match="size"):
            forgetting(module).load([0.0, 0.0], [[1.0]])


def plan_of(module):
    """Two regressions of the first features of `Auto`."""
    first = ((0, 1, 2, 3), [0.9] * 4, [3.0, 6.0, 0.1, 0.1], [1.0, 0.0, -6.0, 6.0])
    return module.Plan([first, ((0, 1, 4, 5, 6), [0.9, 0.9, 0.99, 0.99, 0.5], [2.0] * 5, [1.0] + [0.0] * 4)])


@given(steps)
def test_regressions(steps):
    made = [module.Regressions(plan_of(module)) for module in twins("regressions")]
    for number, (x, y, w) in enumerate(steps):
        u = x / 4.0
        phi = np.array([x, 1.0, x > 4.0, x < -4.0, u * u, u**3, 0.5])
        for regressions in made:
            if number == 3:
                regressions.hold(phi, 1)
            for k in range(2):
                regressions.learn(k, phi, y, w, number % 3 > 0)
        fast, slow = made
        assert repr(fast.state()) == repr(slow.state())
        assert bits(fast.predict(1, phi)) == bits(slow.predict(1, phi))


def test_a_regression_may_be_too_large():
    for module in twins("regressions"):
        with pytest.raises(ValueError, match="larger than 24"):
            module.Plan([(range(25), [0.9] * 25, [1.0] * 25, [0.0] * 25)])


def autos(delay):
    """Both forms of the steps of a small `Auto`: two regressions, two smoothers, a log of at most nine forecasts."""
    names = (
        *("auto_steps", "auto_mixture", "combination", "correction", "day_and_week", "guard", "jumper", "knot_sums"),
        *("memory_ladder", "regressions", "score_regressions"),
    )
    made = []
    for form in range(2):
        of = {name: twins(name)[form] for name in names}
        plan = of["regressions"].Plan
        stack = plan([(range(10), [keep] * 10, [5.0] * 10, [1.0] + [0.0] * 9) for keep in (0.99, 0.9)])
        timed = plan([(range(17), [0.99] * 17, [9.0] * 17, [1.0] + [0.0] * 16)])
        guard, correction = of["guard"].Guard(1.0, 0.25, 1.0, 0.25), of["correction"].Correction(1.0, 9.0, 1.0, 4)
        mixture = of["auto_mixture"].AutoMixture(
            ladder=of["memory_ladder"].MemoryLadder((0.0, 30.0), (0.0, 9.0), [1.0] * 4),
            regressions=of["score_regressions"].ScoreRegressions(plan_of(of["regressions"]), np.array([0.7])),
            sums=of["knot_sums"].KnotSums([[0.3, 9.0 / 8.0], [1.0, 80.0 / 79.0]]),
            jumper=of["jumper"].Jumper((1.0, 0.5), (0.0, 1.0), (0.25,), 0.5),
            combination=of["combination"].Combination(np.full(10, 0.1), stack, correction, 0.25, guard, 4),
            times=of["day_and_week"].DayAndWeek(timed, 0.1),
        )
        made.append(of["auto_steps"].AutoSteps(mixture, 9, delay))
    return made


@given(
    st.lists(st.tuples(st.floats(-17.0, 17.0) | st.integers(-4, 4), st.booleans(), st.booleans()), min_size=1),
    st.integers(0, 20),
)
def test_what_auto_keeps_at_knots_changes_no_forecast(steps, loaded):
    """Forecasts at many scores between two labels, in any order; a mixture keeps knots, is loaded, and keeps them."""
    plain, kept = (autos(0)[0].mixture for _ in range(2))
    kept.keep_knots()
    for number, (x, learns, y) in enumerate(steps):
        x = min(max(float(x), -16.0), 16.0)
        if number == loaded:
            kept.load(plain.state())
            plain.load(plain.state())
        assert bits(plain.at(x, math.nan)) == bits(kept.at(x, math.nan))
        if learns:
            for mixture in (plain, kept):
                mixture.learn(x, float(y), 1.0, math.nan, None, 0.0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("delay", [0, 3])
@given(steps=steps)
def test_auto_steps(delay, steps):
    """Labels in time and late ones, in the order of the forecasts and in another; times; scores that repeat."""
    fast, slow = made = autos(delay)
    waiting = []
    for number, (x, y, w) in enumerate(steps):
        x = min(max(x, -16.0), 16.0)
        x = float(round(x)) if number % 2 else x
        score = 1.0 / (1.0 + math.exp(-x))
        given = (None, 20_000 * number, 2e4 * number)[number % 3]
        t = math.nan if given is None else float(given)
        assert bits(fast.predict_fast(score, given)) == bits(slow.predict_fast(score, given))
        for refused in ((1, given), (score, math.nan), (score, 1.7e12), (score, 2**53)):
            assert math.isnan(fast.predict_fast(*refused))
            assert math.isnan(slow.predict_fast(*refused))
        waiting.append((score, y > 0.0))
        records = [np.empty(form.mixture.width) for form in made]
        for form, record in zip(made, records, strict=True):
            form.mixture.write(x, t, record)
            form.require(record)
        assert bits(records[0]) == bits(records[1])
        packed = np.empty((2, fast.packed), dtype=np.uint8)
        read = np.empty((2, fast.mixture.width))
        for form, record, content, out in zip(made, records, packed, read, strict=True):
            form.pack(record, x / 2.0, content)
            form.unpack(content, x, x / 2.0, out)
        assert packed[0].tobytes() == packed[1].tobytes()
        assert bits(read[0]) == bits(read[1])
        fast.pack(read[0], x / 2.0, packed[1])
        assert packed[0].tobytes() == packed[1].tobytes()  # what is rounded stays as it is
        if number % 4 == 3:
            for form in made:
                form.step(x, y, w, t)
            for form, record in zip(made, records, strict=True):
                form.learn_issued(x, y, w, t, record)
        if len(waiting) > delay:
            score, label = waiting.pop(number % len(waiting))
            assert fast.learn_fast(score, label, w, given) == slow.learn_fast(score, label, w, given)
        assert bits(fast.mixture.at(x, 1e4)) == bits(slow.mixture.at(x, 1e4))
        assert repr(fast.mixture.state()) == repr(slow.mixture.state())
    columns = [np.array(column) for column in zip(*steps, strict=True)] if steps else [np.empty(0)] * 3
    columns[0] = np.clip(columns[0], -16.0, 16.0)
    columns.append(np.where(np.arange(len(steps)) % 2, np.nan, 3e4))
    found = np.empty((2, len(steps)))
    for form, out in zip(made, found, strict=True):
        form.stream(*columns, out)
        with pytest.raises(ValueError, match="lengths"):
            form.stream(*columns, np.empty(len(steps) + 1))
    assert bits(found[0]) == bits(found[1])
    curves = [form.mixture.curve_at() for form in made]
    assert bits(curves[0][0]) == bits(curves[1][0])
    assert bits(curves[0][1]) == bits(curves[1][1])


def test_auto_refuses_records_and_parts_of_another_size():
    for form in autos(3):
        record = np.zeros(form.mixture.width)
        form.require(record)
        wrongs = ((0, 17.0, "log-odds"), (-3, 1.0, "units"), (-2, 1.0, "labels were"), (-1, 2.0, "mean of labels"))
        for place, value, said in wrongs:
            wrong = record.copy()
            wrong[place] = value
            with pytest.raises(ValueError, match=said):
                form.require(wrong)
        with pytest.raises(ValueError, match="numbers are not"):
            form.require(record[1:])


#: The first numbers of SplitMix64 with the seed 1234567, published with several implementations of it.
SPLITMIX = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**63))
def test_uniform(seed, number):
    fast, slow = twins("hedging")
    for module in (fast, slow):
        assert [module.uniform(1234567, k) for k in range(5)] == [(z >> 11) * 2.0**-53 for z in SPLITMIX]
    assert fast.uniform(seed, number) == slow.uniform(seed, number)
    assert 0.0 <= fast.uniform(seed, number) < 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(1e-60, 1e60) | st.just(1.0)), max_size=60))
def test_hedger(outcomes):
    fast, slow = made = [module.Hedger(4, 9) for module in twins("hedging")]
    for row, y, w in outcomes:
        for hedger in made:
            hedger.learn(row, float(y), w)
        assert fast.state() == slow.state()
        assert [fast.forecast(k) for k in range(4)] == [slow.forecast(k) for k in range(4)]
    again = twins("hedging")[1].Hedger(4, 9)
    again.load(*fast.state())
    assert again.state() == fast.state()


@cache
def edges_and_finders(kind, cells):
    """Return the inner edges of a grid, equally spaced in log-odds or in x, and the finders of both forms."""
    edges = np.linspace(-16.0, 16.0, cells + 1)[1:-1]
    if kind == "logarithmic":
        edges = 1.0 / (1.0 + np.exp(-edges))
    centres = np.arange(cells) / 7.0
    return edges, [module.CellFinder(edges, centres, kind == "logarithmic") for module in twins("grid_cells")]


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", ["linear", "logarithmic"])
@pytest.mark.parametrize("cells", [2, 3, 64, 4096, 2**16])
@given(data=st.data())
def test_grid_cells(kind, cells, data):
    """Both forms, and numpy's search in the edges: on them, beside them, and anywhere."""
    edges, finders = edges_and_finders(kind, cells)
    inside = st.floats(0.0, 1.0) if kind == "logarithmic" else st.floats(-20.0, 20.0)
    near = np.concatenate((edges[:20], edges[-20:]))
    x = np.concatenate(
        [
            near,
            np.nextafter(near, -9.0),
            np.nextafter(near, 9.0),
            [0.0, -0.0, 5e-324, 1.0],
            data.draw(st.lists(inside, max_size=50)),
        ]
    )
    y, w = np.arange(len(x)) % 2 * 1.0, 1.0 / (1.0 + np.arange(len(x)))
    expected, sums, values = np.searchsorted(edges, x, side="right").tolist(), [], np.arange(cells) / 3.0
    for finder in finders:
        assert [finder.find(one) for one in x.tolist()] == expected
        assert [finder.round(one) for one in x.tolist()] == [cell / 7.0 for cell in expected]
        assert np.asarray(finder.find_many(x)).tolist() == expected
        assert np.asarray(finder.take(values, x)).tolist() == values[expected].tolist()
        sums.append(np.zeros((cells, 5)))
        finder.add(x, y, w, sums[-1])
        with pytest.raises(ValueError, match="sums of shape"):
            finder.add(x, y, w, sums[-1].T.copy())
        with pytest.raises(ValueError, match="values for"):
            finder.take(values[1:], x)
        with pytest.raises(ValueError, match="centres for"):
            type(finder)(edges, values[1:], kind == "logarithmic")
    assert bits(sums[0]) == bits(sums[1])
    assert sums[0][:, 2].tolist() == np.bincount(expected, minlength=cells).tolist()


@given(rows=st.lists(st.tuples(st.floats(-1e60, 1e60), st.floats(1e-60, 1.0)), min_size=1, max_size=20))
def test_compensated(rows):
    """Both forms, and against exact fractions: two parts lose 2⁻¹⁰⁰ of the largest sum at most."""
    found, terms = [], [term for row in rows for term in row]
    for module in twins("compensated"):
        sums, low, exact, largest = np.zeros(1), np.zeros(1), Fraction(0), 0.0
        for term in terms:
            module.add_arrays(sums, low, np.array([term]), np.zeros(1))
            exact += Fraction(term)
            largest = max(largest, abs(float(exact)), abs(term))
        assert abs(Fraction(sums[0]) + Fraction(low[0]) - exact) <= Fraction(largest) / 2**100
        assert abs(low[0]) <= abs(sums[0]) * 2.0**-53
        found.append((sums[0], low[0]))
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="lengths differ"):
        twins("compensated")[0].add_arrays(np.zeros(2), np.zeros(2), np.zeros(1), np.zeros(2))


@pytest.mark.sample(2)
@pytest.mark.parametrize("degree", [1, 2, 16, 40])
@given(rows=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(1e-60, 1e60) | st.floats(0.1, 10.0), st.booleans())))
def test_chebyshev(degree, rows):
    """Both forms, one by one and in bulk, for sums and for series."""
    u = np.array([*(row[0] for row in rows), -0.0, 0.0, 5e-324, 0.5, 1.0 - 2.0**-53, 1.0])
    w = np.append([row[1] for row in rows], np.ones(6))
    positive = w * np.append([row[2] for row in rows], np.arange(6) % 2)
    coefficients = 1.0 / (1.0 + np.arange(degree + 1))
    found = []
    for module in twins("chebyshev"):
        loop, many = ([np.zeros(size) for size in (2 * degree + 1, degree + 1) * 2] for _ in range(2))
        for row in zip(u.tolist(), w.tolist(), positive.tolist(), strict=True):
            module.add(*loop[:2], loop[2:], *row)
        module.add_many(*many[:2], many[2:], u, w, positive)
        values = module.evaluate_many(coefficients, u)
        assert bits(values) == bits([module.evaluate(coefficients, one) for one in u.tolist()])
        assert bits(np.concatenate(loop)) == bits(np.concatenate(many))
        found.append(bits(np.concatenate([*many, values])))
    assert found[0] == found[1]


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.booleans(), st.floats(-9.0, 9.0))
def test_ramp_chain(factors, geometric, z):
    above = np.cumprod(factors)
    knots = np.arange(len(factors)) * 0.7 - 1.0
    ramp = knots, twins("ramp_chain")[0].depths_of(knots), 1.0 - above, above, geometric
    fast, slow = (module.RampChain(ramp, ramp) for module in twins("ramp_chain"))
    assert fast.mean() == pytest.approx(slow.mean(), rel=1e-12, abs=1e-12)
    assert fast.beyond_distance(z) == pytest.approx(slow.beyond_distance(z), rel=1e-12, abs=1e-12)
    for level in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert fast.depth(level) == pytest.approx(slow.depth(level), rel=1e-12)


@given(st.floats(0.0, 50.0) | st.floats(0.0, 1e6))
def test_normal_depth(x):
    """Both forms agree, with SciPy to the last places, and the table to 1e-12; a place is the inverse of a depth."""
    modules = twins("normal_depth")
    exact = -log_ndtr(-x)
    assert {bits(module.depth_of(x)) for module in modules} == {bits(modules[0].depth_of(x))}
    assert modules[0].depth_of(x) == pytest.approx(exact, rel=1e-14)
    for module in modules:
        assert module.quick_depth(x) == pytest.approx(exact, rel=1e-14, abs=1e-12)
        assert module.place_of(exact) == pytest.approx(x, rel=1e-12, abs=1e-15)
        assert module.quick_place(exact) == pytest.approx(x, rel=1e-12, abs=1e-12)


@given(st.lists(st.tuples(st.floats(1e-60, 1e60) | st.sampled_from([1.0, 2.0]), st.floats(0.0, 1.0)), min_size=1))
def test_near_isotonic_path(rows):
    weight = np.array([w for w, _ in rows])
    positive = weight * np.array([mean if k % 2 else round(2.0 * mean) / 2.0 for k, (_, mean) in enumerate(rows)])
    fast, slow = (module.NearIsotonicPath(weight, positive) for module in twins("near_isotonic"))
    went_on = True
    while went_on:
        values = np.zeros((2, len(weight)))
        for path, row in zip((fast, slow), values, strict=True):
            path.add_values(0.75, row)
        assert bits(values[0]) == bits(values[1])
        assert bits((fast.penalty, fast.log_likelihood())) == bits((slow.penalty, slow.log_likelihood()))
        assert fast.blocks == slow.blocks
        went_on = fast.advance()
        assert slow.advance() == went_on
    assert np.diff(values[0]).min(initial=0.0) >= 0.0
    for path in (fast, slow):
        path.advance_to(0.5)
    assert fast.penalty == slow.penalty >= 0.5
    found, best = [], np.zeros((2, len(weight)))
    for module, row in zip(twins("near_isotonic"), best, strict=True):
        limit = module.isotonic_bic(weight, positive, 2.5)
        found.append([limit])
        for average in (False, True):
            bics = module.NearIsotonicPath(weight, positive).bics(2.5, limit + 80.0 * average, row, average)
            found[-1] += [bits(bics), bits(row)]
    assert found[0] == found[1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40, unique=True))
def test_covers_of_pairs(rows):
    """A third column of zeros changes no order; the general search is the oracle of that for two columns."""
    x = np.array(sorted(rows), dtype=np.float64).reshape(-1, 2)
    fast, slow = (module.covers(x) for module in twins("covers"))
    general = twins("covers")[0].covers(np.column_stack((x, np.zeros(len(x)))))
    assert fast == slow == general


@given(
    st.lists(
        st.tuples(*[st.integers(0, 5)] * 2, *[st.floats(1e-3, 1e3) | st.sampled_from([0.0, 1.0, 2.0])] * 2),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[:2],
    ),
    st.booleans(),
)
def test_cuts_of_pairs(rows, whole):
    """The minimum cuts of pairs are those by flows along covers: the certificate that no other flow is larger."""
    rows = np.array(sorted(rows), dtype=np.float64)
    x, positive, negative = np.ascontiguousarray(rows[:, :2]), rows[:, 2].copy(), rows[:, 3].copy()
    if whole:
        positive, negative = np.ceil(positive.clip(0.0, 3.0)), np.ceil(negative.clip(0.0, 3.0))
    positive[positive + negative == 0.0] = 1.0
    lower, upper = (np.array(ends, dtype=int) for ends in twins("covers")[0].covers(x))
    found = []
    for module in twins("partial_order"):
        for ranks in ((), ranks_of(x)):
            cutter = module.BlockCutter(lower, upper, positive, negative, whole, ranks)
            values = np.zeros(len(x))
            cutter.fit(values)
            cutters = [module.BlockCutter(lower, upper, positive, negative, whole, ranks) for _ in x]
            alone = [one.fit_at(i) for i, one in enumerate(cutters)]
            found.append((bits(values), bits(alone), cutter.cuts))
    assert found[0] == found[1] == found[2] == found[3]


@given(
    st.lists(
        st.tuples(*[st.integers(0, 4)] * 3, *[st.floats(1e-60, 1e60) | st.sampled_from([0.0, 1.0, 2.0])] * 2),
        min_size=1,
        max_size=20,
        unique_by=lambda row: row[:3],
    ),
    st.booleans(),
)
def test_partial_order(rows, whole):
    rows = np.array(sorted(rows), dtype=np.float64)
    x, positive, negative = np.ascontiguousarray(rows[:, :3]), rows[:, 3].copy(), rows[:, 4].copy()
    if whole:
        positive, negative = np.ceil(positive.clip(0.0, 3.0)), np.ceil(negative.clip(0.0, 3.0))
    positive[positive + negative == 0.0] = 1.0
    found = []
    lower, upper = (np.array(ends, dtype=int) for ends in twins("covers")[1].covers(x))
    for module in twins("partial_order"):
        cutter = module.BlockCutter(lower, upper, positive, negative, whole)
        values = np.zeros(len(x))
        cutter.fit(values)
        alone = [module.BlockCutter(lower, upper, positive, negative, whole).fit_at(i) for i in range(len(x))]
        np.testing.assert_allclose(alone, values, rtol=1e-15)  # sums over a block in another order
        found.append((lower.tolist(), upper.tolist(), bits(values), bits(alone), cutter.cuts))
    assert found[0] == found[1]


def test_the_fast_path_passes_what_needs_no_check():
    edges = [1e-60, 1e60, math.nextafter(1e-60, 0.0), math.nextafter(1e60, math.inf), 0.0, -1.0, math.nan, math.inf, 1]
    finite = [0.5, -0.0, 5e-324, -1.7976931348623157e308, 1.0, math.nextafter(1.0, 2.0)]
    scores = [*finite, math.inf, -math.inf, math.nan, 1, True, "0.5", np.float64(0.5)]
    for module in twins("fast_path"):
        for lo, hi in [(0.0, 1.0), (-math.inf, math.inf), (math.inf, -math.inf)]:
            for score in scores:
                in_range = any(score is one for one in finite) and lo <= score <= hi
                assert bool(module.fast_observation(score, True, 1.0, lo, hi)) == in_range
                assert bool(module.fast_score(score, lo, hi)) == in_range
            for w in [*edges, "1.0", None, np.float64(1.0)]:
                usable = type(w) is float and 1e-60 <= w <= 1e60
                assert bool(module.fast_observation(0.5, False, w, lo, hi)) == (usable and lo <= 0.5 <= hi)
            for y in (0, 1, 1.0, None, np.True_):
                assert not module.fast_observation(0.5, y, 1.0, lo, hi)


softmax_steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
        st.lists(st.floats(-16.0, 0.0), min_size=4, max_size=4),
        st.integers(0, 3),
        st.floats(1e-60, 1e60) | st.floats(0.1, 10.0),
    ),
    max_size=30,
)


@given(softmax_steps, st.sampled_from([1.0, 0.99, 0.5]), st.sampled_from([100.0, 0.75]))
def test_online_softmax(steps, discount, radius):
    """Also with classes that come later, and outside the ball."""
    made = [module.OnlineSoftmax(0.1, 100.0, radius, discount) for module in twins("online_softmax")]
    for places, x, came, w in steps:
        for newton in made:
            while newton.classes <= max(places):
                newton.add_class()
            newton.step(places, x[: len(places)], came % len(places), w)
        for one, other in zip(made[0].state()[:2], made[1].state()[:2], strict=True):
            assert bits(one) == bits(other)
        assert sum(d * d for d in made[0].state()[0]) <= radius * radius * (1.0 + 1e-9)
    rows = [[value for row in newton.state()[2] for value in row] for newton in made]
    assert bits(rows[0]) == bits(rows[1])
    fresh = twins("online_softmax")[1].OnlineSoftmax(0.1, 100.0, radius, discount)
    fresh.load(*made[0].state())
    assert fresh.state() == made[0].state()
    assert fresh.parameters() == made[0].parameters()
    places, x = [None, *range(fresh.classes)], [-1.0] * (fresh.classes + 1)
    z = [newton.log_odds(places, x) for newton in (*made, fresh)]
    assert bits(z[0]) == bits(z[1]) == bits(z[2])
    assert bits(z[0]) == bits([-1.0, *(a * -1.0 + b for a, b in fresh.parameters())])
    for wrong in ([fresh.classes], [-1], [0, 0]):
        with pytest.raises(ValueError, match="class"):
            fresh.log_odds(wrong, [-1.0])


labels_and_scores = st.dictionaries(st.text(max_size=2), st.sampled_from([0.0, -0.0, 5e-324, 1e-9, 0.25, 0.5, 1.0]))
odd_scores = st.dictionaries(
    st.sampled_from(["a", "b", 1, True]), st.sampled_from([0.5, 1, True, -0.1, 1.5, math.nan, np.float64(0.5), "0.5"])
)


@given(labels_and_scores, odd_scores)
def test_class_scores_in_order(scores, odd):
    """A copy in the order of the labels, without a zero below 0; and None where the full checks are needed."""
    for module in twins("class_scores"):
        found = module.plain_scores(scores)
        if not scores:
            assert found is None
        else:
            assert list(found) == sorted(scores)
            assert found is not scores
            assert bits(list(found.values())) == bits([scores[label] + 0.0 for label in sorted(scores)])
            back = module.by_label(scores, list(found), list(range(len(found))))
            assert list(back) == list(scores)
            assert [found[label] for label in sorted(back, key=back.get)] == list(found.values())
        plain_ones = {k: v for k, v in odd.items() if type(k) is str and type(v) is float and 0.0 <= v <= 1.0}
        assert module.plain_scores(odd) == (plain_ones if odd and len(plain_ones) == len(odd) else None)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12), st.lists(st.floats(-700.0, 700.0), min_size=1))
def test_class_scores_as_numbers(values, z):
    """Their shares, and logarithms from a floor on, and exponentials, as `math` has them."""
    total, top = math.fsum(values), max(z)
    e = [math.exp(one - top) for one in z]
    for module in twins("class_scores"):
        expected = [one / total for one in values] if total > 0.0 else [1.0 / len(values)] * len(values)
        assert bits(module.shares(values)) == bits(expected)
        logs = [max(math.log(one), -16.0) if one > 0.0 else -16.0 for one in expected] if total > 0.0 else None
        assert bits(module.log_scores(values, -16.0)) == bits(logs or [-16.0] * len(values))
        assert bits(module.softmax(z)) == bits([one / math.fsum(e) for one in e])


# -- blocks and cubics -------------------------------------------------------------------------------------------------

finite = st.floats(-1e300, 1e300, allow_subnormal=True)


@given(st.lists(st.tuples(finite, st.floats(1e-6, 1e6), st.floats(0.0, 1.0)), unique_by=lambda group: group[0]))
def test_centred_blocks(groups):
    fast, slow = twins("centred_blocks")
    x, w, share = np.array(sorted(groups), dtype=np.float64).reshape(-1, 3).T
    found, expected = (one.centred_blocks(x, w, w * share, 1e-12) for one in (fast, slow))
    assert list(map(bits, found)) == list(map(bits, expected))
    first, last, mean, value = found
    assert (np.diff(value) > 0.0).all()
    assert (first <= mean).all()
    assert (mean <= last).all()


@given(st.lists(finite, unique=True, max_size=12), st.lists(finite, max_size=12), st.data())
def test_cubics(knots, places, data):
    fast, slow = twins("cubic")
    knots = np.array(sorted(knots))
    values = np.sort(data.draw(st.lists(st.floats(0.0, 1.0), min_size=len(knots), max_size=len(knots), unique=True)))
    places = np.array([*places, *knots])
    found, expected = (one.slopes(knots, values) for one in (fast, slow))
    assert list(map(bits, found)) == list(map(bits, expected))
    if len(knots):
        for at in range(len(knots) - 1):
            x = float(0.3 * knots[at] + 0.7 * knots[at + 1])
            near = np.clip(np.arange(at - 1, at + 3), 0, len(knots) - 1)
            value = fast.value_beside(x, *knots[near], *values[near])
            assert bits(value) == bits(slow.value_beside(x, *knots[near], *values[near]))
            # Slopes are those of `slopes`; its place in the interval is rounded, by an ulp of x over the width.
            rough = 1e-15 * (1.0 + abs(x) / (knots[at + 1] - knots[at]))
            assert value == pytest.approx(fast.values_at(np.array([x]), knots, values, *found)[0], abs=min(rough, 1.0))
        there = fast.values_at(places, knots, values, *found)
        assert bits(there) == bits(slow.values_at(places, knots, values, *found))
        np.testing.assert_array_equal(there[-len(knots) :], values)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.05, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30))
def test_kinks(cells):
    gaps, share, y = np.array(cells).T
    z = np.cumsum(gaps) - gaps[0]
    columns = z / max(z[-1], 1.0), share / share.sum(), y - y @ share / share.sum()
    forms = [module.Kinks(*columns, 1e-13, 1e-9, 1e-12) for module in twins("kinks")]
    most = forms[0].most()
    for part in (1.0, 0.5, 0.2, 0.01, 1e-4, 0.3):
        assert [one.solve(part * most, 10 * len(z)) for one in forms] == [0, 0]
        assert bits(forms[0].fit) == bits(forms[1].fit)
        found = [(one.rounds, one.excess, one.most(), one.number(1e-9)) for one in forms]
        assert found[0] == found[1]
        # Optimality: |u| is at most the penalty, to the tolerance (1e-9 of it, and 1e-12).
        assert found[0][2] <= part * most * (1.0 + 2e-9) + 2e-12


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.05, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.floats(1.0, 1e5),
)
def test_kink_path_and_deviances(cells, n):
    """Both forms, the best fit and the average, are those of all fits, each solved and compared by itself."""
    gaps, share, y = map(np.ascontiguousarray, np.array(cells).T)
    z, share = np.cumsum(gaps) - gaps[0], share / share.sum()
    z /= max(z[-1], 1.0)
    labels = y, np.ascontiguousarray(y[::-1]), 0.9 * y[::-1] + 0.1 * y, y
    paths, found = {}, {False: [], True: []}
    for form, average in itertools.product(range(2), (False, True)):
        kinks = twins("kinks")[form].Kinks(z, share, y - y @ share, 1e-13, 1e-9, 1e-12)
        path = twins("kink_path")[form].KinkPath(kinks, 12, 0.4, 80.0, 1e-9, 10 * len(z))
        found[average].clear()
        for mean in labels:
            centre = float(mean @ share)
            kinks.renew(share, mean - centre)
            most = kinks.most() if kinks.most() > 1e-12 else 0.0
            assert path.run(n, centre, most, len(z), average) == 0
            found[average].append(path.values.copy())
        paths[form, average] = bits(found[average])
    assert paths[0, False] == paths[1, False]
    assert paths[0, True] == paths[1, True]
    for mean, best, average in zip(labels, found[False], found[True], strict=True):
        fits, criteria = trend_fits(z, share, mean, n)
        assert np.abs(fits - best).max(axis=1)[criteria <= criteria.min() + 1e-6].min() < 1e-9
        shares = np.exp(-0.5 * (criteria - criteria.min()))
        np.testing.assert_allclose(average, shares @ np.clip(fits, 0.0, 1.0) / shares.sum(), rtol=0.0, atol=1e-7)


def trend_fits(z, share, mean, n):
    """Return the fits of a path and their AICc by NumPy, up to the end of the path."""
    centre, fits, criteria = float(mean @ share), [], []
    kinks = twins("kinks")[0].Kinks(z, share, mean - centre, 1e-13, 1e-9, 1e-12)
    most = kinks.most() if kinks.most() > 1e-12 else 0.0
    doubt = 1.0 / (n + 2.0)
    for k in range(12):
        assert kinks.solve(most * 0.4**k if most > 0.0 else math.inf, 10 * len(z)) == 0
        d = min(2 + kinks.number(1e-9), len(z))
        if k > 0 and (n - d - 1.0 <= 0.0 or most == 0.0):
            break
        p = np.clip(centre + kinks.fit, doubt, 1.0 - doubt)
        criterion = -2.0 * n * float(share @ (mean * np.log(p) + (1.0 - mean) * np.log(1.0 - p)))
        criterion += 2.0 * d * (1.0 + (d + 1.0) / (n - d - 1.0)) if n > d + 1.0 else 0.0
        if criterion > min(criteria, default=math.inf) + 80.0:
            break
        fits.append(centre + kinks.fit)
        criteria.append(criterion)
    return np.array(fits), np.array(criteria)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(*[st.floats(0.0, 1.0)] * 3, st.floats(0.01, 5.0)), min_size=1, max_size=40),
    st.floats(0.1, 1e5),
    st.floats(0.0, 1.0),
)
def test_bounds_of_deviances(cells, n, near):
    """The exact deviance is between the bounds, for references that are near and far; both forms are equal."""
    fit, other, y, share = map(np.ascontiguousarray, np.array(cells).T)
    share = share / share.sum()
    fit, doubt = near * other + (1.0 - near) * fit, max(1.0 / (n + 2.0), 2.0**-52)
    found = []
    for module in twins("deviances"):
        one = module.Deviances(len(fit))
        one.begin(n, share, y, 0.0)
        one.refer(other)
        one.begin(n, share, y, 0.0)
        one.bound(fit)
        found.append([one.low, one.high, one.exact(fit), one.following(other), one.following(fit)])
    assert bits(found[0]) == bits(found[1])
    p = np.clip(fit, doubt, 1.0 - doubt)
    expected = -2.0 * n * math.fsum(share * (y * np.log(p) + (1.0 - y) * np.log(1.0 - p)))
    low, high, exact, _, following = found[0]
    assert exact == pytest.approx(expected, rel=1e-13, abs=1e-13 * n)
    assert following == pytest.approx(expected, rel=1e-12, abs=1e-12 * n)
    assert low <= expected <= high


def test_kernels_of_curves_refuse_other_lengths():
    three, two = np.arange(3.0), np.arange(2.0)
    for form in range(2):
        with pytest.raises(ValueError, match="lengths"):
            twins("kinks")[form].Kinks(three, two, three, 0.0, 0.0, 0.0)
        with pytest.raises(ValueError, match="lengths"):
            twins("kinks")[form].Kinks(three, three, three, 0.0, 0.0, 0.0).renew(three, two)
        with pytest.raises(ValueError, match="lengths"):
            twins("centred_blocks")[form].centred_blocks(three, two, three, 0.0)
        with pytest.raises(ValueError, match="knots"):
            twins("cubic")[form].slopes(three, two)
        with pytest.raises(ValueError, match="knots"):
            twins("cubic")[form].values_at(three, three, three, three, two)


def test_hashes_are_those_of_splitmix():
    """`hashing`: the first numbers of SplitMix64 from the seed 1234567, of its authors' program, in both forms."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for module in twins("hashing"):
        numbers = [(1234567 + k * module.GOLDEN) % 2**64 for k in (1, 2, 3)]
        assert [module.mixed(number) for number in numbers] == expected
