"""Compiled ≡ uncompiled, bit for bit: each kernel's source, loaded as ordinary Python beside its compiled twin."""

import importlib
import importlib.util
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamcal.kernels
from streamcal.doctor import kernels

FOLDER = Path(streamcal.kernels.__file__).parent
#: Kernels whose two forms are compared in a file of their own.
ELSEWHERE = {
    "bernstein": "test_bernstein_kernels.py",
    "difference_qp": "test_tensor_kernels.py",
    "hull_nodes": "test_hull_tree.py",
    "hull_search": "test_hull_tree.py",
    "hull_tree": "test_hull_tree.py",
    "monotone_qp": "test_solvers.py",
    "sigmoid_fit": "test_solvers.py",
    "tensor_bernstein": "test_tensor_kernels.py",
}
HERE = {
    "chebyshev",
    "experts",
    "grid_cells",
    "hedging",
    "jumper",
    "logistic",
    "near_isotonic",
    "online_newton",
    "online_softmax",
    "partial_order",
    "usual",
}


def twins(name):
    """(compiled module, its source as ordinary Python), or skip."""
    if not kernels()[name]:
        pytest.skip(f"{name} is not compiled here: there is no second form to compare with")
    spec = importlib.util.spec_from_file_location(f"plain_{name}", FOLDER / f"{name}.py")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return importlib.import_module(f"streamcal.kernels.{name}"), plain


def bits(value):
    """A float, or a sequence of them, as the bytes it is made of: −0.0 and NaN compare too."""
    return np.asarray(value, dtype=np.float64).tobytes()


def test_every_kernel_has_its_two_forms_compared():
    assert set(kernels()) == HERE | set(ELSEWHERE)
    for name, file in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert name in text, f"{file} does not mention {name}"


def test_the_plain_form_is_plain():
    for name in HERE:
        compiled, plain = twins(name)
        assert plain.__file__.endswith(".py")
        assert not compiled.__file__.endswith(".py")


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


def online_newtons(radius, discount):
    """Both forms, from the identity, with the constants of the paper."""
    rest = (16.0, 1e-60, 1e60)  # the limit of the feature, and of the weights
    return [module.OnlineNewton(1.0, 0.0, 0.1, 100.0, radius, discount, *rest) for module in twins("online_newton")]


steps = st.lists(
    st.tuples(st.floats(-16.0, 16.0), st.sampled_from([0.0, 1.0]), st.floats(1e-60, 1e60) | st.floats(0.1, 10.0)),
    max_size=60,
)


@given(steps, st.sampled_from([1.0, 0.99, 0.5]), st.sampled_from([100.0, 2.0]))
def test_online_newton(steps, discount, radius):
    """Also where the steps leave the ball, and the projection searches for the way back."""
    made = online_newtons(radius, discount)
    for x, y, w in steps:
        for newton in made:
            newton.step(x, y, w)
        assert bits(made[0].state()) == bits(made[1].state())
        assert bits(made[0].predict(x)) == bits(made[1].predict(x))


def test_online_newton_loads_the_state_of_its_twin():
    fast, slow = online_newtons(100.0, 0.9)
    for k in range(50):
        fast.step(k / 10 - 2.5, float(k % 3 == 0), 1.0)
    slow.load(*fast.state())
    assert bits(slow.state()) == bits(fast.state())
    for newton in (fast, slow):
        newton.step(0.5, 1.0, 2.0)
    assert bits(slow.state()) == bits(fast.state())


def online_beta_newtons(radius):
    """Both forms of the step in three parameters, from the identity."""
    rest = (16.0, 1e-60, 1e60)  # the limit of the feature, and of the weights
    return [module.OnlineBetaNewton(1.0, 1.0, 0.0, 0.1, 25.0, radius, *rest) for module in twins("online_newton")]


@given(steps, st.sampled_from([100.0, 2.0]))
def test_online_beta_newton(steps, radius):
    """Also where the steps leave the ball, and the projection searches for the way back."""
    made = online_beta_newtons(radius)
    for x, y, w in steps:
        for newton in made:
            newton.step(x, y, w)
        assert bits(made[0].state()) == bits(made[1].state())
        assert bits(made[0].predict(x)) == bits(made[1].predict(x))


def test_online_beta_newton_loads_the_state_of_its_twin():
    fast, slow = online_beta_newtons(100.0)
    for k in range(50):
        fast.step(k / 10 - 2.5, float(k % 3 == 0), 1.0)
    slow.load(*fast.state())
    assert bits(slow.state()) == bits(fast.state())
    for newton in (fast, slow):
        newton.step(0.5, 1.0, 2.0)
    assert bits(slow.state()) == bits(fast.state())


UNUSUAL = [1, True, None, "0.5", math.nan, math.inf, -0.5, 1.5, np.float64(0.5), -0.0, 0.0, 5e-324, 1e-9, 0.5, 1.0]


@pytest.mark.parametrize("size", [2, 3])
def test_online_newton_takes_what_is_usual_and_leaves_the_rest(size):
    fast, slow = online_newtons(100.0, 0.9) if size == 2 else online_beta_newtons(100.0)
    for score in UNUSUAL:
        assert bits(fast.predict_usual(score)) == bits(slow.predict_usual(score))
        for y in (True, False, 1, np.True_, None, 2):
            for w in (1.0, 0.0, 2, -1.0, 1e-61, 1e61, math.nan, np.float64(1.0)):
                assert bool(fast.learn_usual(score, y, w)) == bool(slow.learn_usual(score, y, w))
                assert bits(fast.state()) == bits(slow.state())


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
        assert bits(fast.mixture()) == bits(slow.mixture())


def test_jumper_loads_the_state_of_its_twin():
    fast, slow = jumpers()
    for k in range(50):
        fast.step(k / 10 - 2.5, float(k % 3 == 0), 1.0)
    slow.load(*fast.state())
    for jumper in (fast, slow):
        jumper.step(0.5, 1.0, 2.0)
    assert bits(slow.mixture()) == bits(fast.mixture())


def mixtures():
    """Both forms of a panel, and of a mixture of its experts: two trackers, two smoothers, a curve, and the others."""
    made = []
    for module in twins("experts"):
        moving = module.Tracker((0, 1, 9), [0.9] * 5, [4.0, 1.0, 2.0, 30.0, 10.0], [1.0] + [0.0] * 4, 2, 1e-3)
        still = module.Tracker(
            (2, 3, 4, 5, 6, 7, 8, 1), [1.0] * 8, [0.5] * 8, [-6.0, 6.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]
        )
        panel = module.Panel([moving, still], [(0.3, 9.0), (1.0, 80.0)], 1, (0.7, 0.1), 8, 1, 2.0, 3)
        stack = module.Tracker(range(10), [0.99] * 10, [10.0] * 10, [1.0] + [0.0] * 9)
        shares = [
            module.FixedShare((0.25, 1e-5), (1.0, 0.25), prior, 0.25)
            for prior in ([0.1] * 6 + [0.2] * 2, [0.75, 0.25], [0.5, 0.375, 0.125])
        ]
        corrections = [module.Correction(width, 20.0, 4.0, 8) for width in (0.5, 1.0)]
        made.append((panel, module.Mixture(shares, stack, corrections, 8)))
    return made


def staked(panel, mixture, x, y, w):
    """One step of both; everything that can be seen of them."""
    left, right = np.empty((2, 8))
    knot = min(int((x + 16.0) * 8.0), 255)
    panel.forecast(knot, 0.25, 0.75, 0.5, left)
    panel.forecast(knot + 1, 0.0, 1.0, 1.0, right)
    outcome = mixture.judge(left, right, knot, (x + 16.0) * 8.0 - knot, y, w)
    mixture.learn(outcome)
    panel.learn(x, y, w)
    forecasts = [*left, *right, *outcome, mixture.blend(left, knot), mixture.blend(right, knot), *mixture.weights()]
    return [bits(forecasts), panel.state(), mixture.state()]


@given(steps)
def test_experts(steps):
    """Panel, trackers, smoothers and mixture; `repr` of floats tells them apart to the last bit."""
    fast, slow = mixtures()
    for x, y, w in steps:
        assert repr(staked(*fast, x, y, w)) == repr(staked(*slow, x, y, w))


def test_experts_load_the_state_of_their_twins_and_no_other():
    fast, slow = mixtures()
    for k in range(50):
        staked(*fast, k / 10 - 2.5, float(k % 3 == 0), 1.0)
    fast[0].draw(0, np.linspace(-20.0, 20.0, 257))
    slow[0].load(fast[0].state())
    slow[1].load(fast[1].state())
    assert repr(staked(*fast, 0.5, 1.0, 2.0)) == repr(staked(*slow, 0.5, 1.0, 2.0))
    for module in twins("experts"):
        other = module.Panel([], [(0.3, 9.0)], 1, (0.7, 0.1), 8, 0, 2.0, 3)
        with pytest.raises(ValueError, match="another size"):
            other.load(fast[0].state())
        with pytest.raises(ValueError, match="shape"):
            module.FixedShare((0.25,), (1.0,), [0.5, 0.5]).load(*fast[1].state()[0])
        with pytest.raises(ValueError, match="knots"):
            module.Correction(1.0, 20.0, 4.0, 4).load(*fast[1].state()[-1])
        with pytest.raises(ValueError, match="size"):
            module.Tracker((0,), [1.0], [1.0], [0.0]).load([0.0, 0.0], [[1.0]])


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
    """The inner edges of a grid, equally spaced in log-odds or in x, and the finders of both forms."""
    edges = np.linspace(-16.0, 16.0, cells + 1)[1:-1]
    if kind == "logarithmic":
        edges = 1.0 / (1.0 + np.exp(-edges))
    centres = np.arange(cells) / 7.0
    return edges, [module.CellFinder(edges, centres, kind == "logarithmic") for module in twins("grid_cells")]


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
        loop, many = ([np.zeros(2 * degree + 1), np.zeros(degree + 1)] for _ in range(2))
        for row in zip(u.tolist(), w.tolist(), positive.tolist(), strict=True):
            module.add(*loop, *row)
        module.add_many(*many, u, w, positive)
        values = module.evaluate_many(coefficients, u)
        assert bits(values) == bits([module.evaluate(coefficients, one) for one in u.tolist()])
        assert bits(np.concatenate(loop)) == bits(np.concatenate(many))
        found.append(bits(np.concatenate([*many, values])))
    assert found[0] == found[1]


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
    for module in twins("partial_order"):
        lower, upper = (np.array(ends, dtype=int) for ends in module.covers(x))
        cutter = module.BlockCutter(lower, upper, positive, negative, whole)
        values = np.zeros(len(x))
        cutter.fit(values)
        alone = [module.BlockCutter(lower, upper, positive, negative, whole).fit_at(i) for i in range(len(x))]
        np.testing.assert_allclose(alone, values, rtol=1e-15)  # sums over a block in another order
        found.append((lower.tolist(), upper.tolist(), bits(values), bits(alone), cutter.cuts))
    assert found[0] == found[1]


def test_usual_observations_are_those_that_need_no_check():
    edges = [1e-60, 1e60, math.nextafter(1e-60, 0.0), math.nextafter(1e60, math.inf), 0.0, -1.0, math.nan, math.inf, 1]
    finite = [0.5, -0.0, 5e-324, -1.7976931348623157e308, 1.0, math.nextafter(1.0, 2.0)]
    scores = [*finite, math.inf, -math.inf, math.nan, 1, True, "0.5", np.float64(0.5)]
    for module in twins("usual"):
        for lo, hi in [(0.0, 1.0), (-math.inf, math.inf), (math.inf, -math.inf)]:
            for score in scores:
                usual = any(score is one for one in finite)
                plain = usual and lo <= score <= hi
                expected = module.PLAIN if plain else module.USUAL if usual else module.UNUSUAL
                assert module.usual(score, True, 1.0, lo, hi) == expected
            for w in [*edges, "1.0", None, np.float64(1.0)]:
                found = module.usual(0.5, False, w, lo, hi)
                assert (found != module.UNUSUAL) == (type(w) is float and 1e-60 <= w <= 1e60)
            for y in (0, 1, 1.0, None, np.True_):
                assert module.usual(0.5, y, 1.0, lo, hi) == module.UNUSUAL


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
