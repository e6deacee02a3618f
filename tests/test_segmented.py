"""`Segmented`: the bound, a dense oracle, loop ≡ many, situations of keys, memory, effects."""

import json
import math
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from test_kernel_forms import twins

from streamcal import InputError, Platt, Window
from streamcal.datasets import bank
from streamcal.kernels.segments.level_members import NOTHING
from streamcal.kernels.segments.observed_levels import SHARE
from streamcal.kernels.segments.segment_chain import SegmentChain
from streamcal.live import LabelJoin, Multicalibrated, Segmented, Shadow
from streamcal.multiclass import OneVsRest
from streamcal.states import plain as in_lists

BY = ["campaign", ("campaign", "placement")]


def stream(n, seed=0, campaigns=8, deviation=0.7, centre=-1.5):
    """Scores, keys as columns, and labels whose log-odds differ by campaign."""
    rng = np.random.default_rng(seed)
    z = centre + rng.standard_normal(n)
    campaign, placement = rng.integers(campaigns, size=n), rng.integers(3, size=n)
    effects = deviation * rng.standard_normal(campaigns)
    y = rng.random(n) < expit(z + effects[campaign])
    keys = {"campaign": [f"c{k}" for k in campaign.tolist()], "placement": placement.tolist()}
    return expit(z), keys, y


def rows_of(scores, keys, y):
    """Yield the same rows, one observation at a time."""
    rows = [dict(zip(keys, levels, strict=True)) for levels in zip(*keys.values(), strict=True)]
    return zip(scores.tolist(), rows, y.tolist(), strict=True)


def losses(p, y):
    """Log loss of each forecast."""
    with np.errstate(divide="ignore"):
        return -np.log(np.where(y, p, 1.0 - p))


def learned(cal, scores, keys, y):
    cal.learn_many(scores, y, keys=keys)
    return cal


def plain(cal):
    """Return the state as JSON reads it back."""
    return json.loads(json.dumps(cal.state_dict()))


# -- the bound ---------------------------------------------------------------------------------------------------------


def bound(n, fields, weight=1.0):
    """Return what each field may lose in n outcomes: ln 2 for the prior of "nothing", and the cost of sharing.

    The mixture of orders may lose the same, and counts as one field more.
    """
    return (fields + 1) * (-math.log(NOTHING) - n * weight * math.log1p(-SHARE * (1.0 - NOTHING)))


#: Rounding of sums of thousands of logarithms, and of forecasts near 1, whose loss is a difference.
ROUNDED = 1e-6


def assert_bounded(base, found, y, fields, w=1.0):
    excess = np.cumsum(w * (losses(found, y) - losses(base, y)))
    allowed = [bound(n, fields) for n in range(1, len(y) + 1)]
    assert (excess <= np.array(allowed) + ROUNDED).all()


def adversary(cal, n, levels):
    """Labels that contradict each forecast, which is all that a correction can be given to learn wrongly."""
    rng = np.random.default_rng(5)
    scores, found, base, y = rng.uniform(0.02, 0.98, n), [], [], []
    for score, level in zip(scores.tolist(), levels(rng, n), strict=True):
        keys = {"campaign": level, "placement": level % 3}
        found.append(cal.predict_one(score, keys=keys))
        base.append(score)
        y.append(found[-1] < score if abs(found[-1] - score) > 1e-12 else len(y) % 2 == 0)
        cal.learn_one(score, y[-1], keys=keys)
    return np.array(base), np.array(found), np.array(y)


@pytest.mark.parametrize("kind", ["few", "unique", "one"])
def test_the_bound_holds_against_an_adversary(kind):
    levels = {"few": lambda rng, n: rng.integers(5, size=n).tolist(), "unique": lambda rng, n: range(n)}
    cal = Segmented("identity", BY, max_levels=50)
    base, found, y = adversary(cal, 1500, levels.get(kind, lambda rng, n: [0] * n))
    assert_bounded(base, found, y, len(BY))
    if kind != "unique":  # whose levels are never seen again, so that forecasts are those of the calibrator
        assert np.sum(losses(found, y) - losses(base, y)) > 0.1, "the adversary does harm"


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["identity", "ops", "isotonic"])
@pytest.mark.parametrize("case", ["calibrated", "wrong", "drift", "extreme"])
def test_the_bound_holds_on_streams(method, case):
    scores, keys, y = stream(3000, seed=3, deviation=0.0 if case == "calibrated" else 1.0)
    if case == "drift":
        y = np.where(np.arange(len(y)) // 500 % 2 == 0, y, ~y)
    if case == "extreme":
        scores = np.where(np.arange(len(y)) % 3 == 0, 0.0, scores)
    cal = Segmented(method, BY)
    base = cal.overall.clone().predict_learn_many(scores, y)
    found = cal.predict_learn_many(scores, y, keys=keys)
    finite = np.isfinite(np.cumsum(losses(base, y)))
    assert_bounded(base[finite], found[finite], y[finite], len(BY))
    assert ((found > 0.0) & (found < 1.0)).all(), "where the calibrator says 0 too"


@pytest.mark.sample(3)
@pytest.mark.parametrize("calibrator", ["mirrored", "random", "follows labels"])
@pytest.mark.parametrize("labels", ["adversary", "of the score", "drift"])
def test_the_bound_to_the_score_holds_whatever_the_calibrator_says(calibrator, labels):
    """The second order starts from the score, and has one place more."""
    rng, chain, n = np.random.default_rng(9), SegmentChain(2, 20), 2000
    scores, found, said, y = rng.uniform(0.02, 0.98, n), [], [], []
    for k, score in enumerate(scores.tolist()):
        campaign = int(rng.integers(5))
        levels = [campaign, (campaign, int(rng.integers(40)))]  # more than are held
        last = 0.9 if y and y[-1] else 0.1
        p = {"mirrored": 1.0 - score, "random": rng.random(), "follows labels": last}[calibrator]
        found.append(chain.predict(p, score, levels))
        said.append(p)
        truth = {"of the score": score, "drift": score if k // 500 % 2 else 1.0 - score}.get(labels, 0.5)
        y.append(found[-1] < 0.5 if labels == "adversary" else bool(rng.random() < truth))
        chain.learn(p, score, levels, float(y[-1]), 1.0)
    y, found = np.array(y), np.array(found)
    assert_bounded(scores, found, y, 3)
    assert_bounded(np.array(said), found, y, 2)
    if labels == "of the score":
        assert np.sum(losses(np.array(said), y) - losses(found, y)) > 100.0, "what the calibrator would have lost"


@pytest.mark.full
def test_the_bound_holds_on_a_real_stream_and_much_is_gained():
    x, y = zip(*bank(), strict=True)
    y = np.array(y)
    scores = np.full(len(y), 0.1)
    keys = {name: [row[name] for row in x] for name in ("job", "contact", "month")}
    cal = Segmented("ops", list(keys))
    base = cal.overall.clone().predict_learn_many(scores, y)
    found = cal.predict_learn_many(scores, y, keys=keys)
    assert_bounded(base, found, y, len(keys))
    assert losses(found, y).sum() < losses(base, y).sum() - 100.0


@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_the_bound_holds_for_weights_up_to_one(weight):
    scores, keys, y = stream(2000, seed=4, deviation=0.0)
    found = Segmented("identity", BY).predict_learn_many(scores, y, np.full(len(y), weight), keys=keys)
    assert_bounded(scores, found, y, len(BY), weight)


# -- what is computed --------------------------------------------------------------------------------------------------


#: (place of the offset in a level, memory in units) of the offsets that each order has sums of.
FIRST, SECOND = {"all": math.inf, "long": 100.0, "short": 10.0}, {"all": math.inf, "long": 100.0}


def prior(size):
    return np.array([0.5, *(size - 1) * [0.5 / (size - 1)]])


def shared(weights, chances, share, of):
    weights = weights * chances
    return (1.0 - share) * weights / weights.sum() + share * of


class DenseOrder:
    """One order by its definition: sums in dicts, scipy's root of the implicit step, matrices for the line."""

    def __init__(self, places, memories, free_and_own):
        self.memories, self.more = memories, free_and_own
        size = 2 + len(memories) + 2 * free_and_own
        self.weights = np.tile(prior(size), (places, 1))
        self.levels = [{} for _ in range(places)]

    def tau(self, j):
        terms = [one["C"] for one in self.levels[j].values()]
        return (4 * 0.02 + sum(terms)) / (4 + len(terms))

    def new(self):
        sums = {name: [0.0, 0.0, 1.0] for name in self.memories}  # H, E, what is left of the prior
        return {"n": 0.0, "offsets": sums, "L": np.zeros((2, 2)), "e": np.zeros(2), "C": 0.0, "Q": prior(6)}

    def moments(self, j, level, x):
        """Return means and variances of the members with sums: offsets, and the line."""
        one = self.levels[j].get(level) or self.new()
        variances = [1.0 / (h + left / self.tau(j)) for h, _, left in one["offsets"].values()]
        means = [e * v for (_, e, _), v in zip(one["offsets"].values(), variances, strict=True)]
        cov, phi = np.linalg.inv(one["L"] + np.diag([1.0, 4.0])), np.array([1.0, x])
        return [*means, phi @ cov @ one["e"]], [*variances, phi @ cov @ phi]

    def forecasts(self, j, level, z, means):
        """Return what all members say."""
        if not self.more:
            return expit(z + np.array([0.0, *means]))
        one = self.levels[j].get(level) or self.new()
        h, e, _ = one["offsets"]["all"]
        mixed = expit(z + np.array([0.0, *means[:-1], e / (h + 1.0), means[-1]]))
        return np.array([*mixed, one["Q"] @ mixed])

    def look(self, p, levels):
        """Return the log-odds that leave the order, and for each place z, means, variances and forecasts."""
        z, said = logit(p), []
        for j, level in enumerate(levels):
            means, variances = self.moments(j, level, z)
            forecasts = self.forecasts(j, level, z, means)
            said.append((z, means, variances, forecasts))
            if level in self.levels[j]:
                z = logit(self.weights[j] @ forecasts)
        return z, said

    def learn(self, j, level, z, means, variances, chances, y):
        """Learn a label to which the members gave `chances`."""
        self.weights[j] = shared(self.weights[j], chances, 1e-5, prior(len(self.weights[j])))
        tau = self.tau(j)
        one = self.levels[j].setdefault(level, self.new())
        if self.more:
            one["Q"] = shared(one["Q"], chances[:6], max(1.0 / (one["n"] + 2.0), 1e-4), prior(6))
        one["n"] += 1.0
        for name, m, v in zip([*self.memories, "line"], means, variances, strict=True):
            excess = lambda c, m=m, v=v: c - y + expit(z + m + v * c)  # noqa: E731
            c = brentq(excess, y - 1.0, y, xtol=1e-15)
            end = m + v * c
            h = expit(z + end) * expit(-z - end)
            if name == "line":
                phi = np.array([1.0, z])
                one["L"] += h * np.outer(phi, phi)
                one["e"] += phi * (c + h * end)
            else:
                sums = np.add(one["offsets"][name], [h, c + h * end, 0.0])
                one["offsets"][name] = sums * min(1.0, self.memories[name] / sums[0])
        h, e, _ = one["offsets"]["all"]
        one["C"] = (e / (h + 1.0 / tau)) ** 2 + 1.0 / (h + 1.0 / tau)


class Dense:
    """Both orders and their mixture by their definition, for a calibrator that says p."""

    def __init__(self, fields):
        self.orders = DenseOrder(fields, FIRST, True), DenseOrder(fields + 1, SECOND, False)
        self.weights = np.array([0.5, 0.5])

    def look(self, p, levels, score=None):
        """Return the forecast, and what was said by both orders and their members."""
        starts = ((p, levels), (p if score is None else score, [*levels, 0]))
        said = [order.look(*one) for order, one in zip(self.orders, starts, strict=True)]
        return self.weights @ expit([z for z, _ in said]), said

    def take(self, p, levels, then, y, rate=1.0, score=None):
        """Learn y, of which `then` was said."""
        chances = lambda p: (p if y else 1.0 - np.asarray(p)) ** rate  # noqa: E731
        now = self.look(p, levels, score)[1]
        for order, (_, said), (_, issued) in zip(self.orders, now, then, strict=True):
            for j, (level, one, was) in enumerate(zip([*levels, 0], said, issued, strict=False)):
                order.learn(j, level, *one[:3], chances(was[3]), y)
        self.weights = shared(self.weights, chances(expit([z for z, _ in then])), 1e-5, prior(2))


def test_the_chain_is_that_of_its_definition():
    """With so few levels that the memories are full, and their priors have faded."""
    scores, keys, y = stream(1200, seed=8, campaigns=3, centre=-0.3)
    chain, dense, found, expected = SegmentChain(2, 100), Dense(2), [], []
    levels = [[c, (c, p)] for c, p in zip(keys["campaign"], keys["placement"], strict=True)]
    for score, level, label in zip(scores.tolist(), levels, y.astype(float).tolist(), strict=True):
        p = expit(0.8 * logit(score) - 0.3)  # what a calibrator says
        forecast, said = dense.look(p, level, score)
        expected.append(forecast)
        dense.take(p, level, said, label, score=score)
        found.append(chain.predict(p, score, level))
        chain.learn(p, score, level, label, 1.0)
    assert dense.orders[0].levels[0]["c1"]["offsets"]["short"][2] < 0.01, "what is left of the prior"
    # Roots by bisection to 1e-15, sums in another order and weights in single precision, over 1,200 steps.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@given(st.integers(0, 2**32), st.sampled_from([3, 100]), st.booleans())
def test_many_is_the_loop_to_the_last_bit(seed, most, weighted):
    scores, keys, y = stream(150, seed)
    w = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], len(y)) if weighted else np.ones(len(y))
    keys["campaign"][3] = None
    many, loop = (Segmented("ops", BY, max_levels=most) for _ in range(2))
    found = many.predict_learn_many(scores, y, w, keys=keys)
    expected = []
    for (score, key, label), weight in zip(rows_of(scores, keys, y), w.tolist(), strict=True):
        expected.append(loop.predict_one(score, keys=key))
        loop.learn_one(score, label, weight, keys=key)
    assert found.tolist() == expected
    assert many.state_dict() == loop.state_dict()
    learning = learned(Segmented("ops", BY, max_levels=most), scores, keys, y)
    if not weighted:
        assert learning.state_dict() == loop.state_dict()
    at = many.predict_many(scores, keys=keys)
    assert at.tolist() == [many.predict_one(score, keys=key) for score, key, _ in rows_of(scores, keys, y)]


@pytest.mark.parametrize("method", ["identity", "ops", Platt(forgetting=Window(50))])
def test_what_needs_no_check_is_learned_as_what_is_converted(method):
    scores, keys, y = stream(200, seed=14)
    plain_one, converted = Segmented(method, BY), Segmented(method, BY)
    for k, (score, key, label) in enumerate(rows_of(scores, keys, y)):
        plain_one.learn_one(score, label, 2.0 if k % 3 == 0 else 1.0, keys=key)
        levels = {**key, "placement": float(key["placement"])}
        converted.learn_one(
            np.float64(score), (int, float, np.bool_)[k % 3](label), 2 if k % 3 == 0 else 1, keys=levels
        )
        assert plain_one.predict_one(score, keys=key) == converted.predict_one(np.float64(score), keys=levels)
    assert plain_one.state_dict() == converted.state_dict()


@pytest.mark.sample(2)
@pytest.mark.parametrize("most", [4, 1000])
def test_the_compiled_kernel_is_its_source_to_the_last_bit(most):
    modules = twins("segment_chain")  # `level_table`, `observed_levels` and `level_members` are plain in the second
    scores, keys, y = stream(400, seed=11)
    columns = [keys["campaign"], list(zip(keys["campaign"], keys["placement"], strict=True))]
    w, p = np.where(np.arange(len(y)) % 7 == 0, 2.5, 1.0), 0.9 * scores
    level = [columns[0][0], columns[1][0]]
    found = []
    for module in modules:
        chain, other, out = module.SegmentChain(2, most), module.SegmentChain(2, most), np.empty(len(y))
        chain.stream(p, scores, columns, y.astype(float), w, out)
        of_other = [column[25:75] for column in columns]
        other.stream(p[:50], scores[:50], of_other, y[:50].astype(float), w, np.empty(0)[:0])
        chain.merge(other)
        parts = chain.parts(0.3, 0.4, level)
        chain.learn_issued(0.3, 0.4, level, np.array(parts[1]), 0, 1.0, 1.0, 0.5)
        late = chain.predict(0.3, 0.4, level), chain.weights(0), chain.weights_twice(2), chain.orders()
        chain.unlearn(0.3, 0.4, level, 1.0, 1.0)
        again = module.SegmentChain(2, most)
        for j in range(3):
            again.load(j, *chain.state(j))
        again.load_orders(chain.orders())
        assert again.predict(0.3, 0.4, level) == chain.predict(0.3, 0.4, level)
        terms = chain.terms(0, chain.levels(0)[-1]), chain.effect(0, "c1")
        found.append((out.tolist(), parts, late, terms, [in_lists(again.state(j)) for j in range(3)]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("keys", "levels"),
    [
        ({"a": "x", "b": 3, "c": []}, ["x", ("x", 3)]),
        ({"a": None, "b": "y"}, [None, None]),
        ({}, [None, None]),
        ({"a": 1.0, "b": 3}, None),
        ({"a": True, "b": 3}, None),
        ({"a": "xxxx", "b": 3}, None),
        ({"a": None, "b": 2**53}, None),
        ([], None),
    ],
)
def test_levels_that_need_no_check(keys, levels):
    assert [module.fast_levels(keys, ("a", ("a", "b")), 3) for module in twins("fast_path")] == [levels] * 2


@pytest.mark.parametrize(
    ("keys", "plain"),
    [
        *(({"a": "x", "b": -3}, True), ({}, True), ({"a": "xxxx"}, False), ({"aaaa": 1}, False), ({3: "x"}, False)),
        *(({"a": value}, False) for value in (None, True, 1.0, 2**53, -(2**53), np.int64(3), np.str_("x"), (1, 2))),
        *((value, False) for value in (None, [], "a")),
    ],
)
def test_keys_that_need_no_check(keys, plain):
    for module in twins("fast_path"):
        found = module.plain_keys(keys, 3)
        assert found == (keys if plain else None)
        assert found is not keys or keys is None


def test_kernels_refuse_other_lengths():
    chain = twins("segment_chain")[0].SegmentChain(2, 10)
    with pytest.raises(ValueError, match="1 levels"):
        chain.predict(0.5, 0.5, ["a"])
    with pytest.raises(ValueError, match="expected 2 columns of 1 levels"):
        chain.predict_many(np.array([0.5]), np.array([0.5]), [["a"], []], np.empty(1))
    for levels, begin, numbers in ((["a", "b"], 0, 28), (["a", None], 0, 17), (["a", None], 2, 17)):
        assert chain.numbers(levels) == numbers
        with pytest.raises(ValueError, match=f"expected {numbers} numbers"):
            chain.learn_issued(0.5, 0.5, levels, np.zeros(begin + numbers - 1), begin, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="not one of 2"):
        chain.merge(twins("segment_chain")[0].SegmentChain(3, 10))
    with pytest.raises(ValueError, match="expected 11 weights"):
        chain.load(0, [1.0], [0.0, 0.0], [], [])
    with pytest.raises(ValueError, match="expected 2 weights"):
        chain.load_orders([1.0])


def test_segments_that_differ_are_told_apart_and_those_that_do_not_cost_little():
    scores, keys, y = stream(20_000, seed=1)
    cal, alike = Segmented("identity", ["campaign"]), Segmented("identity", ["campaign"])
    gain = losses(scores, y).sum() - losses(cal.predict_learn_many(scores, y, keys=keys), y).sum()
    assert gain > 250.0
    assert cal.weights("campaign")["nothing"] < 0.01
    assert cal.variance("campaign") > 0.1
    none = np.random.default_rng(2).random(len(y)) < scores
    loss = losses(alike.predict_learn_many(scores, none, keys=keys), none).sum() - losses(scores, none).sum()
    assert loss < bound(len(y), 1)
    assert alike.weights("campaign")["nothing"] > 0.5
    assert alike.variance("campaign") < 0.01


# -- situations of keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [{}, {"campaign": None}, {"campaign": math.nan}, {"campaign": pd.NA, "x": []}])
def test_a_field_that_is_missing_is_passed(missing):
    cal = learned(Segmented("identity", BY), *stream(500))
    before = cal.state_dict()["learned"]["fields"]
    assert cal.predict_one(0.3, keys={**missing, "placement": 1}) == cal.predict_one(0.3, keys={})
    cal.learn_one(0.3, True, keys={**missing, "placement": 1})
    *fields, all_traffic = cal.state_dict()["learned"]["fields"]
    assert fields == before[:2]
    assert all_traffic != before[2], "which every observation is part of"
    assert cal.n == 501.0


def test_a_pair_with_one_half_missing_has_no_level_and_its_other_field_has():
    cal = learned(Segmented("identity", BY), *stream(500))
    n, pair = cal.effect("campaign", "c1")[2], cal.levels(BY[1])
    cal.learn_one(0.3, True, keys={"campaign": "c1"})
    assert cal.effect("campaign", "c1")[2] == n + 1.0
    assert cal.levels(BY[1]) == pair


def test_a_level_never_seen_leaves_the_forecast_and_repeats_do_not():
    cal = learned(Segmented("identity", BY), *stream(500))
    assert cal.predict_one(0.3, keys={"campaign": "new", "placement": 0}) == cal.predict_one(0.3, keys={})
    assert cal.predict_one(0.3, keys={"campaign": "c1", "placement": 0}) != pytest.approx(
        cal.predict_one(0.3, keys={}), abs=1e-3
    )
    cal.predict_one(0.3, keys={"campaign": "new", "placement": 0})
    assert "new" not in cal.levels("campaign"), "predicting learns nothing"


@pytest.mark.parametrize(
    "same", [(1, 1.0, True, "1", "1.0", b"1", np.int64(1), np.float64(1.0), np.bool_(True)), ("a", np.str_("a"))]
)
def test_levels_that_are_equal_are_one(same):
    cal = Segmented("identity", ["device"])
    for level in same:
        cal.learn_one(0.3, True, keys={"device": level})
    cal.learn_many([0.3] * len(same), [True] * len(same), keys={"device": list(same)})
    assert cal.levels("device") == [same[0]]
    assert cal.effect("device", same[0])[2] == 2 * len(same)
    assert plain(cal) == cal.state_dict()


def test_the_text_of_a_number_is_the_number_as_pandas_writes_it_with_or_without_missing_ones():
    cal = Segmented("identity", ["device"])
    cal.learn_many([0.5] * 5, [1, 0, 1, 0, 1], keys={"device": [1, "01", "1.0", "+1", "1.5"]})
    assert set(cal.levels("device")) == {1, "01", "+1", "1.5"}
    cal.learn_one(0.5, True, keys={"device": "1.0"})
    assert cal.effect("device", 1)[2] == 3.0


@pytest.mark.parametrize("keys", [{"campagin": "c1"}, {"Campaign": "c1", "placement": 0}, {"site": "a", "page": 3}])
def test_a_field_under_another_name_is_an_error(keys):
    cal = learned(Segmented("ops", BY), *stream(100))
    before, columns = cal.state_dict(), {name: [level] for name, level in keys.items()}
    calls = [
        lambda: cal.predict_one(0.3, keys=keys),
        lambda: cal.learn_one(0.3, True, keys=keys),
        lambda: cal.predict_many([0.3], keys=columns),
        lambda: cal.learn_many([0.3], [True], keys=columns),
        lambda: LabelJoin(cal, 10.0).issue(1, 0.3, 0.0, keys=keys),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"keys have no 'campaign', but .* give 'campaign', with None where"):
            call()
    assert cal.state_dict() == before
    for fine in ({}, {"campaign": None, "site": "a"}, {"campaign": "c1", "placement": 0, "campagin": "c1"}):
        LabelJoin(cal, 10.0).issue(1, cal.predict_one(0.3, keys=fine), 0.0, keys=fine)


@pytest.mark.parametrize(
    "keys",
    [
        *(None, 3, "c1", {"campaign": 0.5}, {"campaign": []}, {"campaign": b"\xff"}, {"campaign": "x" * 20_000}),
        *({"campaign": math.inf}, {"campaign": 2.0**60}, {"campaign": "c1", "placement": ("a", "b")}),
    ],
)
def test_bad_keys_change_nothing(keys):
    cal = learned(Segmented("ops", BY), *stream(100))
    before = cal.state_dict()
    for call in (lambda: cal.predict_one(0.3, keys=keys), lambda: cal.learn_one(0.3, True, keys=keys)):
        with pytest.raises(InputError):
            call()
    columns = {name: ["c1", level] for name, level in keys.items()} if isinstance(keys, dict) else keys
    with pytest.raises(InputError):
        cal.predict_learn_many([0.2, 0.3], [0, 1], keys=columns)
    assert cal.state_dict() == before


@pytest.mark.parametrize(
    "row", [(1.2, True, 1.0), (math.nan, True, 1.0), (0.3, 2, 1.0), (0.3, True, -1.0), (0.3, True, math.nan)]
)
def test_bad_observations_change_nothing(row):
    cal = learned(Segmented("ops", BY), *stream(100))
    before = cal.state_dict()
    score, y, w = row
    with pytest.raises(InputError):
        cal.learn_one(score, y, w, keys={"campaign": "c1"})
    with pytest.raises(InputError):
        cal.predict_learn_many([0.5, score], [True, y], [1.0, w], keys={"campaign": ["c1", "c2"]})
    with pytest.raises(InputError):
        cal.learn_many([0.5, 0.5], [True, False], keys={"campaign": ["c1"]})
    with pytest.raises(InputError):
        cal.learn_many([0.5, 0.5], [True, False], keys={"campaign": "c1"})
    assert cal.state_dict() == before


@pytest.mark.parametrize("by", ["campaign", 3, [], [3], [("a",)], [("a", "a")], ["a", "a"], [("a", "b"), ("b", "a")]])
def test_fields_that_are_none(by):
    with pytest.raises(InputError, match=r"is not possible|has no field"):
        Segmented("ops", by)


def test_columns_of_other_libraries_and_a_series_of_scores():
    scores, keys, y = stream(60)
    keys["campaign"][5] = None
    expected = Segmented("identity", BY).predict_learn_many(scores, y, keys=keys)
    frame = pd.DataFrame({**keys, "score": scores, "y": y}, index=range(100, 160))
    found = Segmented("identity", BY).predict_learn_many(frame["score"], frame["y"], keys=frame)
    assert found.tolist() == expected.tolist()
    assert found.index.tolist() == frame.index.tolist()
    arrays = {"campaign": np.array(keys["campaign"], dtype=object), "placement": np.array(keys["placement"])}
    assert Segmented("identity", BY).predict_learn_many(scores, y, keys=arrays).tolist() == expected.tolist()
    nullable = frame.astype({"placement": "Int64"}).assign(campaign=frame["campaign"].astype("string"))
    assert Segmented("identity", BY).predict_learn_many(scores, y, keys=nullable).tolist() == expected.tolist()


def test_weight_zero_is_no_observation_and_large_weights_are_survived():
    cal = learned(Segmented("ops", BY), *stream(100))
    before = cal.state_dict()
    cal.learn_one(0.3, True, 0.0, keys={"campaign": "brand new"})
    assert cal.state_dict() == before
    for w in (1e60, 1e-60, 1e6):
        cal.learn_one(0.3, False, w, keys={"campaign": "c1", "placement": 1})
        assert 0.0 < cal.predict_one(0.3, keys={"campaign": "c1", "placement": 1}) < 1.0
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()


def test_repeated_scores_and_scores_that_are_0_and_1():
    cal = Segmented("identity", ["campaign"])
    for k in range(200):
        cal.learn_one(float(k % 2), k % 4 < 2, keys={"campaign": "c"})
        cal.learn_one(0.5, k % 4 == 0, keys={"campaign": "d"})
    assert cal.predict_one(0.5, keys={"campaign": "d"}) == pytest.approx(
        0.25, abs=0.05
    )  # 1.5 standard errors of 200 labels
    for score in (0.0, 1.0):  # half of whose labels are positive
        assert cal.predict_one(score, keys={"campaign": "c"}) == pytest.approx(0.5, abs=0.05)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_a_field_whose_levels_are_all_unique_takes_bounded_memory():
    n, most = 3000, 100
    scores, _, y = stream(n)
    cal = Segmented("identity", ["user"], max_levels=most)
    cal.learn_many(scores, y, keys={"user": range(n)})
    assert cal.levels("user") == list(range(n - most, n))
    assert cal.tally()["evicted"] == n - most
    assert len(pickle.dumps(cal)) < 100_000
    sizes = [len(json.dumps(cal.state_dict()))]
    cal.learn_many(scores, y, keys={"user": range(n, 2 * n)})
    sizes.append(len(json.dumps(cal.state_dict())))
    assert sizes[1] < 1.1 * sizes[0]  # digits of numbers differ
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()


def test_the_level_longest_without_an_outcome_makes_room():
    cal = Segmented("identity", ["c"], max_levels=3)
    for level in ("a", "b", "c", "a", "d"):
        cal.learn_one(0.5, True, keys={"c": level})
    assert cal.levels("c") == ["c", "a", "d"]
    cal.learn_one(0.5, True, keys={"c": "b"})
    assert cal.effect("c", "b")[2] == 1.0, "what comes back starts with nothing"


@pytest.mark.sample(2)
@pytest.mark.parametrize("most", [1, 3, 70, 200])
def test_levels_make_room_in_the_order_of_their_last_outcomes(most):
    """As in a dict whose entries are moved to its end; with more levels than are sorted at once, and with few."""
    rng, held = np.random.default_rng(most), {}
    cal = Segmented("identity", ["c"], max_levels=most)
    drawn = rng.zipf(1.3, 3_000) % (3 * most)
    for k, level in enumerate(drawn.tolist()):
        cal.learn_one(0.5, True, keys={"c": level})
        held.pop(level, None)
        if len(held) == most:
            del held[next(iter(held))]
        held[level] = None
        if k % 100 == 0:
            assert cal.levels("c") == list(held)
    assert cal.levels("c") == list(held)
    assert Segmented.from_state(cal.state_dict()).levels("c") == list(held)


#: Texts whose characters have 1, 2 and 4 bytes, one that no file can have, and whole numbers of several sizes.
LEVELS = ["", "a", "ab", "é", "日本", "😀x", "\udc80", "x" * 300, "7", 7, 0, -1, 255, 256, 2**53, -(2**53)]
LEVELS += [("a", 1), ("a", "b"), ("b", "a"), ("ab", ""), ("é", -5, "日")]


def test_names_of_levels_are_kept_as_they_are():
    """In one buffer, which is gathered when levels have made room; pairs are found as such and read as tuples."""
    plain_form, names = twins("level_table")[1], twins("level_names")[1]
    rng, held = np.random.default_rng(6), {}
    table = plain_form.LevelTable(2, 12, 2)
    for level in map(LEVELS.__getitem__, rng.integers(len(LEVELS), size=600).tolist()):
        k = table.find(0, level)
        assert (k >= 0) == (level in held)
        if k < 0:
            if table.is_full(0):
                table.drop(0, table.oldest(0))
                del held[next(iter(held))]
            table.admit(0, level, -1)
        else:
            table.use(k)
        held.pop(level, None)
        held[level] = None
        assert table.levels(0) == list(held)
        assert [type(one) for one in table.levels(0)] == list(map(type, held))
    assert table._names._bytes.shape[0] < 5_000
    k = table.admit(1, names.LevelPair("é", 1), -1)
    assert table.find(1, names.LevelPair("é", 1)) == k
    assert table.find(1, names.LevelPair(1, "é")) == -1
    assert table.levels(1) == [("é", 1)]
    with pytest.raises(ValueError, match="too long"):
        table.admit(1, "x" * 70_000, -1)


def test_a_level_takes_224_bytes_and_its_name():
    """Its numbers take 200: 21 in double precision, and 8 in single. The name of a whole number takes 6 and more."""
    levels = np.arange(20_000)
    cal = Segmented("identity", ["a"])
    cal.learn_many(np.full(100, 0.3), np.zeros(100, dtype=bool), keys={"a": levels[:100]})
    tracemalloc.start()
    try:
        cal.learn_many(np.full(len(levels), 0.3), np.zeros(len(levels), dtype=bool), keys={"a": levels})
        assert tracemalloc.get_traced_memory()[0] < 239.0 * (len(levels) - 100)
    finally:
        tracemalloc.stop()


def test_names_of_all_kinds_are_kept_by_the_compiled_kernels():
    """With so few levels held that each makes room for another."""
    kept = [one for one in LEVELS if not isinstance(one, tuple) and one not in ("", "7")]
    drawn = np.random.default_rng(7).integers(len(kept), size=(2, 4_000)).tolist()
    keys = {name: [kept[k] for k in places] for name, places in zip("ab", drawn, strict=True)}
    scores, y = np.full(4_000, 0.1), np.arange(4_000) % 10 == 0
    pairs = list(dict.fromkeys(reversed(list(zip(*keys.values(), strict=True)))))[8::-1]
    singles = list(dict.fromkeys(reversed(keys["a"])))[8::-1]
    joint = Segmented("identity", ["a", ("a", "b")], max_levels=9)
    paired = Segmented("identity", ["a", "b"], max_levels=9, pairs=True)
    held = Multicalibrated("identity", ["a", "b"], max_levels=9, pairs=True)
    for cal in (joint, paired, held):
        cal.learn_many(scores, y, keys=keys)
        assert type(cal).from_bytes(cal.to_bytes()).to_bytes() == cal.to_bytes()
    assert [joint.levels("a"), joint.levels(("a", "b")), paired.levels("a")] == [singles, pairs, singles]
    assert [held._accounts.capitals(j)[0] for j in (1, 3)] == [singles, pairs]


def test_uses_are_numbered_anew_where_numbers_end(monkeypatch):
    """The order stays, whatever has been sorted before."""
    plain_form = twins("level_table")[1]
    monkeypatch.setattr(plain_form, "MOST_USES", 37)
    table, held, rng = plain_form.LevelTable(1, 12, 2), {}, np.random.default_rng(5)
    for level in rng.integers(20, size=500).tolist():
        k = table.find(0, level)
        if k >= 0:
            table.use(k)
        else:
            if table.is_full(0):
                table.drop(0, table.oldest(0))
                del held[next(iter(held))]
            table.admit(0, level, -1)
        held.pop(level, None)
        held[level] = None
        assert table.levels(0) == list(held)
        assert table.values.shape[0] <= 40


# -- effects -----------------------------------------------------------------------------------------------------------


def test_the_deviation_of_an_effect_is_that_of_its_error():
    rng = np.random.default_rng(7)
    levels, n = 300, 60_000
    truth = 0.5 * rng.standard_normal(levels)
    k = (levels * rng.random(n) ** 2).astype(int)  # some have hundreds of outcomes, some few
    z = -2.0 + rng.standard_normal(n)
    cal = Segmented("identity", ["c"])
    cal.learn_many(expit(z), rng.random(n) < expit(z + truth[k]), keys={"c": k.tolist()})
    errors = [(truth[level] - mean) / sd for level in range(levels) for mean, sd, _ in [cal.effect("c", level)]]
    # Of 300 standard normal variables the root mean square is 1 ± .04; a posterior of estimated τ² is a little off.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=0.15)
    assert cal.effect("c", "new")[0] == 0.0
    assert cal.effect("c", "new")[1] == pytest.approx(0.5, abs=0.15)  # τ of 300 levels, and the free members


def test_effects_of_unknown_fields_and_levels():
    cal = Segmented("identity", BY)
    assert cal.effect(["campaign", "placement"], ("c1", 2))[0] == 0.0
    for field, level in [("x", 1), ("campaign", None), ("campaign", [1]), (BY[1], "c1"), (BY[1], ("c1", None))]:
        with pytest.raises(InputError):
            cal.effect(field, level)


def test_an_empty_text_is_no_level():
    """As in every file: otherwise a service and a run would correct the same rows in two ways."""
    one, many, none = (Segmented("online-platt", ["c", ("c", "d")]) for _ in range(3))
    levels = ["", "a"] * 50
    for k, level in enumerate(levels):
        one.learn_one(0.3, k % 4 == 0, keys={"c": level, "d": b""})
        none.learn_one(0.3, k % 4 == 0, keys={"c": level or None, "d": None})
    many.learn_many([0.3] * 100, [k % 4 == 0 for k in range(100)], keys={"c": levels, "d": [""] * 100})
    assert one.levels("c") == ["a"]
    assert one.to_bytes() == many.to_bytes() == none.to_bytes()
    assert one.predict_one(0.3, keys={"c": "", "d": ""}) == one.predict_one(0.3, keys={"c": None, "d": None})


# -- a calibrator that waits for the labels of its predictions ------------------------------------------------------


def tied(n=80, seed=3):
    """Scores of four values, so that a label could be that of several predictions; some weights are 0."""
    rng = np.random.default_rng(seed)
    scores, y = rng.choice([0.0, 0.1, 0.5, 1.0], n).tolist(), (rng.random(n) < 0.3).tolist()
    return scores, y, rng.choice([0.0, 1.0, 2.0], n).tolist(), rng.choice(["a", "b"], n).tolist()


AROUND_AUTO = {
    "segmented": lambda: Segmented("auto", ["c"]),
    "multicalibrated": lambda: Multicalibrated("auto", ["c"]),
    "multicalibrated segments": lambda: Multicalibrated(Segmented("auto", ["c"]), ["c"]),
    "shadow": lambda: Shadow("auto", {"segments": Segmented("auto", ["c"]), "ops": "ops"}),
}


@pytest.mark.parametrize("name", AROUND_AUTO)
def test_a_prediction_that_was_asked_for_is_not_asked_for_again_by_learning(name):
    """Otherwise the second one would wait for the label of the next observation with the same score."""
    scores, y, w, levels = tied()
    many, one, unasked = (AROUND_AUTO[name]() for _ in range(3))
    found = []
    for score, label, weight, level in zip(scores, y, w, levels, strict=True):
        keys = {"c": level}
        found.append(one.predict_one(score, keys=keys))
        one.learn_one(score, label, weight, keys=keys)
        unasked.learn_one(score, label, weight, keys=keys)
    assert many.predict_learn_many(scores, y, w, keys={"c": levels}).tolist() == found
    assert many.to_bytes() == one.to_bytes() == unasked.to_bytes()


def test_a_prediction_of_weight_0_waits_for_no_label_in_any_subproblem():
    rng = np.random.default_rng(4)
    P, y = rng.dirichlet([1.0, 1.0], 40).round(1), rng.choice(["a", "b"], 40)
    cals, w = [OneVsRest("auto") for _ in range(2)], rng.choice([0.0, 1.0], 40)
    cals[0].predict_learn_many(P, y, w, labels=["a", "b"])
    cals[1].learn_many(P, y, w, labels=["a", "b"])
    assert cals[0].to_bytes() == cals[1].to_bytes()


@pytest.mark.parametrize("make", [lambda: Segmented("ops", by=["z"]), lambda: Multicalibrated("ops", ["z"])])
def test_a_mapping_right_after_the_score_is_the_keys(make):
    rng = np.random.default_rng(3)
    scores, z = rng.random(200), rng.choice(list("abc"), 200).tolist()
    y = rng.random(200) < scores
    named, placed = make(), make()
    named.learn_many(scores, y, keys={"z": z})
    placed.learn_many(scores, {"z": z}, y)
    named.learn_one(0.3, True, 2.0, keys={"z": "a"})
    placed.learn_one(0.3, {"z": "a"}, True, 2.0)
    of_named = named.predict_learn_many(scores, y, keys={"z": z})
    assert of_named.tolist() == placed.predict_learn_many(scores, {"z": z}, y).tolist()
    assert named.predict_one(0.3, keys={"z": "a"}) == placed.predict_one(0.3, {"z": "a"})
    assert named.predict_many(scores, keys={"z": z}).tolist() == placed.predict_many(scores, {"z": z}).tolist()
    assert named.to_bytes() == placed.to_bytes()


def test_a_level_takes_as_much_memory_as_the_docstring_says():
    """224 bytes and its name, here a whole number; 10 for those and for what grows ahead."""
    cal, n = Segmented("identity", ["user"], max_levels=1_000_000), 65_536
    cal.learn_one(0.1, False, keys={"user": 0})
    tracemalloc.start()
    try:
        cal.learn_many(np.full(n, 0.1), np.arange(n) % 7 == 0, keys={"user": np.arange(1, n + 1)})
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 224 <= taken / n <= 234
    assert "224 bytes for a level, and its name" in Segmented.__doc__
