"""Every verb on many observations takes arrays as programs have them: read-only, views, of other types, columns.

What a method says must not depend on the form: each is compared with plain lists of floats, bit by bit. Since its third
version pandas hands out read-only arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laws import trying

import streamcal
from benchmarks.tree_counts import load_plain
from streamcal import fusion, multiclass, regression
from streamcal.kernels.tree.hull_tree import HullTree
from streamcal.statistics.score_tree import ScoreTree

ROWS = 48
SUPPORT = (-4.0, 4.0)
#: What the constructors of these need; every other method is made from its defaults.
PARAMETERS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "bernstein-fusion": ((), {"degrees": 3}),
    "empirical-density": (("isotonic", 4), {"support": SUPPORT}),
    "isotonic-distributional": ((4,), {"support": SUPPORT}),
    "venn-abers-regression": (("log-minimax", 4), {"support": SUPPORT}),
    "gaussian-process-cdf": ((4,), {"support": SUPPORT, "points": 32}),
}


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.setflags(write=False)
    return array


def strided(array: np.ndarray) -> np.ndarray:
    """Every other entry of an array, along each of its axes."""
    wide = np.full([2 * length for length in array.shape], np.nan)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def column(array: np.ndarray) -> Any:
    """Make a pandas Series, or a DataFrame."""
    pandas = pytest.importorskip("pandas")
    return pandas.Series(array) if array.ndim == 1 else pandas.DataFrame(array)


def polars_column(array: np.ndarray) -> Any:
    """Make a polars Series, or a DataFrame."""
    polars = pytest.importorskip("polars")
    return polars.Series(array) if array.ndim == 1 else polars.DataFrame(array)


def arrow_column(array: np.ndarray) -> Any:
    """Make an Arrow array in two chunks, or a table."""
    arrow = pytest.importorskip("pyarrow")
    chunked = lambda one: arrow.chunked_array([one[:5], one[5:]], arrow.float64())  # noqa: E731
    return (
        chunked(array)
        if array.ndim == 1
        else arrow.table(
            {f"column_{i}": chunked(one) for i, one in enumerate(array.T)}  # as polars names columns without a name
        )
    )


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": read_only,
    "strided": strided,
    "strided, read-only": lambda array: read_only(array.repeat(2, axis=0))[::2],
    "backwards": lambda array: array[::-1].copy()[::-1],
    "Fortran order": np.asfortranarray,
    "float32": lambda array: array.astype(np.float32),
    "big-endian": lambda array: array.astype(">f8"),
    "pandas": column,
    "polars": polars_column,
    "Arrow": arrow_column,
    "masked, nothing masked": np.ma.array,
}
#: These hold whole numbers only, and bools 0 and 1.
WHOLE_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "int": lambda array: array.astype(np.int64),
    "uint8": lambda array: array.astype(np.uint8),
    "bool": lambda array: array.astype(np.bool_),
    "int, pandas": lambda array: column(array.astype(np.int64)),
    "bool, pandas": lambda array: column(array.astype(np.bool_)),
}
ALL_FORMS = FORMS | WHOLE_FORMS
#: Forms are read where all methods of a room read them: a plain `pytest` gives every form to one method of each kind of
#: statistic, these two to the others.
EVERYWHERE = ("strided, read-only", "float32")
TRIED = ("venn-abers", "platt", "bernstein", "ops", "auto", "gaussian", "cross-venn-abers")


def methods_and_forms(methods: dict[str, Any], tried: tuple[str, ...]) -> Any:
    """Every method with every form: those of a plain `pytest` in one test, the others in another."""
    rows = []
    for name in methods:
        forms = [form for form in ALL_FORMS if name in tried or form in EVERYWHERE]
        rows.append(pytest.param(name, forms, id=name))
        rest = [form for form in ALL_FORMS if form not in forms]
        rows += [pytest.param(name, rest, id=f"{name}-other forms", marks=pytest.mark.full)] if rest else []
    return pytest.mark.parametrize(("name", "forms"), rows)


def made(methods: dict[str, Any], name: str) -> Any:
    args, named = PARAMETERS.get(name, ((), {}))
    return methods[name](*args, **named)


def values(form: str, *shape: int) -> np.ndarray:
    """Numbers in [0, 1] that the form holds exactly: sixteenths, or 0 and 1."""
    rng = np.random.default_rng(5)
    return rng.integers(0, 2 if form in WHOLE_FORMS else 17, shape) / (1.0 if form in WHOLE_FORMS else 16.0)


def labels(length: int) -> np.ndarray:
    return np.random.default_rng(6).integers(0, 2, length).astype(np.float64)


def weights(form: str, length: int) -> np.ndarray:
    """Powers of two; bools can only be 1."""
    return np.ones(length) if form.startswith("bool") else 2.0 ** np.random.default_rng(7).integers(0, 3, length)


def flat(answer: Any) -> list[np.ndarray]:
    """Return the arrays of an answer: one, or the lower and the upper end of the intervals."""
    return [np.asarray(one) for one in (answer if isinstance(answer, tuple) else (answer,))]


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(flat(one), flat(other), strict=True):
        np.testing.assert_array_equal(a, b)


def answers(cal: Any, scores: Any, **named: Any) -> list[Any]:
    """Return the predictions of a calibrator and of its map for many scores."""
    asked = [cal.predict_many(scores, **named), cal.map().predict_many(scores, **named)]
    for one in (cal, cal.map()):
        if hasattr(one, "predict_interval_many"):
            asked.append(one.predict_interval_many(scores, **named))
    return asked


def assert_form_does_not_matter(build: Callable[[], Any], form: str, columns: list[np.ndarray], **named: Any) -> None:
    """Ask, learn, stream and ask again, from lists and arrays of the form; `columns` are what `learn_many` takes."""
    plain, given = build(), build()
    lists = [column.tolist() for column in columns]
    arrays = [ALL_FORMS[form](column) if column.dtype.kind == "f" else column for column in columns]
    for verb in ("ask", "learn", "stream", "ask"):
        if verb == "learn":
            plain.learn_many(*lists, **named)
            given.learn_many(*arrays, **named)
        elif verb == "stream":
            few = [[column[:9] for column in form] for form in (lists, arrays)]
            assert_same(plain.predict_learn_many(*few[0], **named), given.predict_learn_many(*few[1], **named))
        else:
            for one, other in zip(answers(plain, lists[0], **named), answers(given, arrays[0], **named), strict=True):
                assert_same(one, other)
    assert given.state_dict() == plain.state_dict()


@pytest.mark.sample(4)
@methods_and_forms(streamcal.REGISTRY, TRIED)
def test_binary_methods(name, forms):
    build = lambda: made(streamcal.REGISTRY, name)  # noqa: E731 (a name for a line that is too long)
    for form in forms:
        with trying(form):
            columns = [values(form, ROWS), labels(ROWS), weights(form, ROWS)]
            assert_form_does_not_matter(build, form, columns)
            # Without weights: what stands for them then is itself a read-only view, of a single number.
            assert_form_does_not_matter(build, form, columns[:2])


@pytest.mark.sample(3)
@methods_and_forms(fusion.METHODS, ("bernstein-fusion", "logistic-fusion"))
def test_fusion_methods(name, forms):
    build = lambda: made(fusion.METHODS, name)  # noqa: E731
    for form in forms:
        with trying(form):
            columns = [values(form, ROWS, build().n_scores), labels(ROWS), weights(form, ROWS)]
            assert_form_does_not_matter(build, form, columns)


@pytest.mark.sample(3)
@methods_and_forms(multiclass.METHODS, ("temperature-scaling", "online-vector-scaling"))
def test_multiclass_methods(name, forms):
    for form in forms:
        with trying(form):
            assert_multiclass(name, form)


def assert_multiclass(name: str, form: str) -> None:
    classes = ["cat", "dog", "fox"]
    place = np.random.default_rng(8).integers(0, 3, ROWS)
    rows = np.eye(3)[place]
    if form not in WHOLE_FORMS:
        rows = rows / 2.0 + [0.25, 0.125, 0.125]
    y = np.array(classes)[(place + labels(ROWS).astype(int)) % 3]
    build = lambda: made(multiclass.METHODS, name)  # noqa: E731
    assert_form_does_not_matter(build, form, [rows, y, weights(form, ROWS)], labels=classes)


@pytest.mark.sample(8)
@methods_and_forms(regression.METHODS, ("quantile-recalibration", "empirical-density"))
def test_regression_methods(name, forms):
    for form in forms:
        with trying(form):
            assert_regression(name, form)


def assert_regression(name: str, form: str) -> None:
    """Distributions are objects; outcomes, weights, and what an ensemble or quantiles are made of, are arrays."""
    y, w = 2.0 * values(form, ROWS), weights(form, ROWS)
    samples = 2.0 * values(form, ROWS, 5) - (0.0 if form in WHOLE_FORMS else 0.5)
    if form.startswith("bool"):
        y, samples = y / 2.0, samples / 2.0
    plain, given = made(regression.METHODS, name), made(regression.METHODS, name)
    convert = ALL_FORMS[form]
    plain.learn_many([regression.Sample(row.tolist()) for row in samples], y.tolist(), w.tolist())
    given.learn_many([regression.Sample(convert(row)) for row in samples], convert(y), convert(w))
    assert given.state_dict() == plain.state_dict()
    where = [-1.0, 0.25, 0.5, 1.0, 1.5]
    asked = plain.predict_many([regression.Sample(row.tolist()) for row in samples[:5]])
    for one, other in zip(
        asked, given.predict_many([regression.Sample(convert(row)) for row in samples[:5]]), strict=True
    ):
        assert [one.cdf(x) for x in where] == [other.cdf(x) for x in where]


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("forgetting", [streamcal.Decay(8.0, by="time"), streamcal.Window(8.0, by="time")], ids=repr)
def test_times(forgetting, form):
    t = np.cumsum(values(form, ROWS)) if not form.startswith("bool") else np.ones(ROWS)
    columns = [values(form, ROWS), labels(ROWS), weights(form, ROWS), t]
    assert_form_does_not_matter(lambda: streamcal.VennAbers(forgetting=forgetting), form, columns)


@pytest.mark.parametrize("form", [read_only, strided, np.copy])
def test_a_tree_that_is_read_from_arrays_keeps_none_of_them(form):
    rng = np.random.default_rng(0)
    x, y, w = rng.random(500).round(2), rng.integers(0, 2, 500).astype(float), rng.random(500)
    tree, again = ScoreTree(), ScoreTree()
    tree.update_many(x, y, w)
    state = tree.state()
    arrays = {name: form(column) for name, column in state.items() if name != "heaviest"}
    before = {name: column.copy() for name, column in arrays.items()}
    again.restore({**state, **arrays})
    again.update_many(x, y, w)
    again.unlearn(x[0], y[0], w[0])
    for name, column in arrays.items():
        assert column.tolist() == before[name].tolist(), name
    again.restore({**state, **arrays})
    for column in arrays.values():
        if column.flags.writeable:
            column[...] = 0
    for name, column in again.state().items():
        assert np.asarray(column).tolist() == np.asarray(state[name]).tolist(), name


@pytest.mark.parametrize("make", [HullTree, load_plain(LEAF_FILL=3).HullTree])
@pytest.mark.parametrize("scores", [(0.1, 0.1), (0.2, 0.1), (0.1, np.nan), (np.nan, 0.1), (-0.0, 0.0)])
def test_scores_that_do_not_rise_change_no_tree(make, scores):
    tree = make()
    held = np.array([-0.0, 0.25, 0.5, 0.75]), np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4, dtype=np.int64)
    tree.rebuild(*map(read_only, held))
    with pytest.raises(ValueError, match="rise strictly"):
        tree.rebuild(np.array(scores), np.ones(2), np.ones(2), np.ones(2, dtype=np.int64))
    tree.check()
    assert [column.tolist() for column in tree.to_arrays()] == [column.tolist() for column in held]
    assert not np.signbit(tree.to_arrays()[0][0]), "the zero without a sign"
