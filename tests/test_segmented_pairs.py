"""`Segmented(pairs=True)`: the bound, plain formulas, loop ≡ many, merging, retraction, late labels, states."""

import copy
import json
import math
import pickle
from array import array
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import linear_model
from scipy.optimize import brentq
from scipy.special import expit, logit
from test_kernel_forms import twins
from test_segmented import bound, learned, losses, plain, rows_of
from test_segmented_states import damaged

import streamcal
from streamcal import InputError, MergeError, Platt, StateError
from streamcal.kernels.segments.joint_effects import JointEffects
from streamcal.kernels.segments.observed_levels import SHARE
from streamcal.live import LabelJoin, PairEffect, Segmented
from streamcal.live.pairs import pairs_of
from streamcal.river import CalibratedClassifier
from streamcal.states import plain as in_lists
from streamcal.states import signed

BY = ["campaign", "placement", "device"]


def stream(n, seed=0, missing=True):
    """Labels that depend on campaign and placement together, beside a field of no effect; some levels are missing."""
    rng = np.random.default_rng(seed)
    z = -1.0 + rng.standard_normal(n)
    campaign, placement = rng.integers(6, size=n), rng.integers(4, size=n)
    effects = rng.standard_normal((6, 4))
    y = rng.random(n) < expit(z + effects[campaign, placement])
    keys = {"campaign": [f"c{k}" for k in campaign.tolist()], "placement": placement.tolist()}
    keys["device"] = rng.integers(3, size=n).tolist()
    if missing:
        keys["placement"][::17] = [None] * len(keys["placement"][::17])
    return expit(z), keys, y


def paired(method="identity", by=BY, **parameters):
    return Segmented(method, by, pairs=True, **parameters)


# -- the bound ---------------------------------------------------------------------------------------------------------


def assert_bounded(loss, reference, prior, w=1.0):
    """At every row, the loss exceeds another one at most by that of its prior weight, and of sharing."""
    n = np.arange(1, len(loss) + 1)
    allowed = -math.log(prior) - n * w * math.log1p(-SHARE * (1.0 - prior))
    assert (np.cumsum(w * (loss - reference)) <= allowed + 1e-6).all()  # rounding of sums of thousands of logarithms


@pytest.mark.sample(9)
@pytest.mark.parametrize("w", [0.25, 1.0])
@pytest.mark.parametrize("labels", ["adversary", "drift", "calibrated", "pairs"])
def test_the_bound_holds_to_the_chain_to_the_joint_model_and_to_the_calibrator(labels, w):
    scores, keys, truth = stream(1500, seed=3)
    scores[::50], scores[25::50] = 0.0, 1e-9
    rng, cal, chain = np.random.default_rng(4), paired(max_levels=20), Segmented("identity", BY, max_levels=20)
    found, alone, joint, y = [], [], [], []
    for i, (score, key, label) in enumerate(rows_of(scores, keys, truth)):
        found.append(cal.predict_one(score, keys=key))
        alone.append(chain.predict_one(score, keys=key))
        joint.append(expit(cal.issue(score, keys=key).record[-1]))
        contradicted = found[-1] < alone[-1] if abs(found[-1] - alone[-1]) > 1e-12 else i % 3 == 0
        flipped = bool(label) if i // 300 % 2 else not label
        given = {"adversary": contradicted, "drift": flipped, "calibrated": rng.random() < score, "pairs": bool(label)}
        y.append(given[labels] if score > 1e-6 else False)
        for one in (cal, chain):
            one.learn_one(score, y[-1], w, keys=key)
    y = np.array(y)
    loss, of_chain, of_joint = (losses(np.array(p), y) for p in (found, alone, joint))
    assert_bounded(loss, of_chain, 0.5, w)
    assert_bounded(loss, of_joint, 0.25, w)
    excess = np.cumsum(w * (loss - losses(scores, y)))
    assert (excess <= [bound(n, len(BY) + 1, w) + 1e-6 for n in range(1, len(y) + 1)]).all()
    if labels == "adversary":
        assert np.sum(loss - of_chain) > 0.1, "the adversary does harm"


def test_pairs_that_matter_are_found_and_others_cost_little():
    scores, keys, y = stream(8000, seed=1, missing=False)
    cal = paired()
    gain = losses(Segmented("identity", BY).predict_learn_many(scores, y, keys=keys), y).sum()
    gain -= losses(cal.predict_learn_many(scores, y, keys=keys), y).sum()
    assert gain > 250.0
    first, *others = cal.pair_effects()
    assert isinstance(first, PairEffect)
    assert first.fields == ("campaign", "placement")
    assert first.share > 0.99
    assert first.variance > 0.3
    assert [one.share * one.variance < 0.02 for one in others] == [True, True]
    none = np.random.default_rng(2).random(len(y)) < scores
    plain_loss = losses(Segmented("identity", BY).predict_learn_many(scores, none, keys=keys), none).sum()
    assert losses(paired().predict_learn_many(scores, none, keys=keys), none).sum() < plain_loss + bound(len(y), 1)


# -- what is computed --------------------------------------------------------------------------------------------------


def clip(value, limit):
    return min(max(value, -limit), limit)


def log_odds(p):
    return clip(math.log(p / (1.0 - p)) if 0.0 < p < 1.0 else math.inf * (p - 0.5), 36.0)


def likelihood(y, z):
    return expit(clip(z, 36.0) if y else -clip(z, 36.0))


class Plain:
    """The same model by its formulas: dicts of levels, sums over all of them, scipy's root of the implicit step."""

    def __init__(self, fields, pairs, most):
        self.fields, self.pairs, self.most, self.evicted = fields, pairs, most, 0
        self.places = [OrderedDict() for _ in range(fields + len(pairs) + 1)]
        self.shares = [[0.9, 0.9] for _ in self.places]
        self.weights, self.prior = [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]

    def tau(self, j, g):
        return (4 * 0.02 + sum(one["C"][g] for one in self.places[j].values())) / (4 + len(self.places[j]))

    def terms(self, p, levels):
        """(place, level, term, f) of each term that takes part, and what it adds; and u."""
        u = log_odds(p)
        x = clip(u, 16.0)
        joined = [None if None in (levels[a], levels[b]) else (levels[a], levels[b]) for a, b in self.pairs]
        names, found = [*levels, *joined, math.floor(x)], []
        for j, level in enumerate(names):
            for g, f in enumerate((1.0, x / 2.0) if j < self.fields else (1.0,)):
                if level is not None:
                    one = self.places[j].get(level)
                    m = f * one["E"][g] / (one["H"][g] + 1.0 / self.tau(j, g)) if one else 0.0
                    found.append((j, level, g, f, m))
                    u += self.shares[j][g] * m
        return found, clip(u, 36.0)

    def said(self, p, chain, levels):
        z, u = log_odds(chain), self.terms(p, levels)[1]
        return [z, u, (z + u) / 2.0]

    def predict(self, p, chain, levels):
        return sum(w * expit(z) for w, z in zip(self.weights, self.said(p, chain, levels), strict=True))

    def learn(self, p, said, levels, y, w, rate=1.0):
        clipped = min(w, 1e6)
        chances = [rate * clipped * math.log(likelihood(y, z)) for z in said]
        odds = [weight * math.exp(one - max(chances)) for weight, one in zip(self.weights, chances, strict=True)]
        self.weights = [
            (1 - 1e-5) * one / sum(odds) + 1e-5 * prior for one, prior in zip(odds, self.prior, strict=True)
        ]
        found, u = self.terms(p, levels)
        tau = {(j, g): self.tau(j, g) for j, _, g, _, _ in found}
        nothing = {"H": [0.0, 0.0]}
        v = sum(
            self.shares[j][g] * f * f / (self.places[j].get(level, nothing)["H"][g] + 1.0 / tau[j, g])
            for j, level, g, f, _ in found
        )
        step = clipped * v
        c = brentq(lambda c: c - y + expit(u + step * c), y - 1.0, y, xtol=1e-16)  # y − σ(end)
        end = u + step * c
        r, h = clipped * (expit(-end) if y else -expit(end)), clipped * expit(end) * expit(-end)
        for j, level, g, f, m in found:
            one = self.held(j, level)
            one["n"] += w if g == 0 else 0.0
            mean = (one["E"][g] + f * r) / (one["H"][g] + 1.0 / tau[j, g])
            one["H"][g] += h * f * f
            one["E"][g] += f * r + h * f * f * self.shares[j][g] * mean
            self.weigh(one, g, tau[j, g])
            if m != 0.0:
                s = self.shares[j][g]
                evidence = rate * clipped * math.log(likelihood(y, u + (1 - s) * m) / likelihood(y, u - s * m))
                self.shares[j][g] = (1 - 1e-5) * expit(math.log(s / (1 - s)) + evidence) + 1e-5 * 0.9
        for j, level in {(j, level): None for j, level, *_ in found}:
            self.places[j].move_to_end(level)

    def held(self, j, level):
        if level not in self.places[j]:
            if len(self.places[j]) >= self.most:
                self.places[j].popitem(last=False)
                self.evicted += 1
            self.places[j][level] = {"n": 0.0, "H": [0.0, 0.0], "E": [0.0, 0.0], "C": [0.0, 0.0]}
        self.places[j].move_to_end(level)
        return self.places[j][level]

    def weigh(self, one, g, tau):
        variance = 1.0 / (one["H"][g] + 1.0 / tau)
        one["C"][g] = float(np.float32(min((one["E"][g] * variance) ** 2, 16.0) + variance))

    def unlearn(self, p, levels, y, w):
        found, end = self.terms(p, levels)
        clipped = min(w, 1e6)
        r, h = clipped * (expit(-end) if y else -expit(end)), clipped * expit(end) * expit(-end)
        tau = {(j, g): self.tau(j, g) for j, _, g, _, _ in found}
        for j, level, g, f, _ in found:
            one = self.places[j].get(level)
            if one is None:
                continue
            one["n"] -= w if g == 0 else 0.0
            if one["n"] <= 1e-9 * w:
                del self.places[j][level]
                continue
            mean = one["E"][g] / (one["H"][g] + 1.0 / tau[j, g])
            taken = min(h * f * f, one["H"][g])
            one["H"][g] -= taken
            limit = max(abs(mean), 4.0) * (one["H"][g] + 1.0 / tau[j, g])
            one["E"][g] = clip(one["E"][g] - f * r - taken * self.shares[j][g] * mean, limit)
            self.weigh(one, g, tau[j, g])

    def merge(self, other):
        for j, levels in enumerate(other.places):
            tau = [self.tau(j, g) for g in range(2)]
            for level, theirs in levels.items():
                one = self.held(j, level)
                one["n"] += theirs["n"]
                for g in range(2 if j < self.fields else 1):
                    one["H"][g] += theirs["H"][g]
                    one["E"][g] += theirs["E"][g]
                    self.weigh(one, g, tau[g])
            for g in range(2):
                odds = [s / (1 - s) for s in (self.shares[j][g], other.shares[j][g])]
                s = odds[0] * odds[1] / 9.0
                self.shares[j][g] = (1 - 1e-5) * s / (1 + s) + 1e-5 * 0.9
        product = [a * b / c for a, b, c in zip(self.weights, other.weights, self.prior, strict=True)]
        self.weights = [(1 - 1e-5) * a / sum(product) + 1e-5 * b for a, b in zip(product, self.prior, strict=True)]
        self.evicted += other.evicted

    def state(self):
        """As that of the kernel, without levels."""
        rows = [
            [one["n"], *(value for g in range(2) for value in (one["H"][g], one["E"][g])), *one["C"]]
            for levels in self.places
            for one in levels.values()
        ]
        return [self.weights, self.shares, rows]


def observations(rng, n, issued):
    """Yield the calls for each row, whose labels may be late, weighted or retracted."""
    past = []
    for _ in range(n):
        levels = [rng.choice(["a", "b", "c", None], p=[0.4, 0.3, 0.2, 0.1]), int(rng.integers(4)), ("t", 1)]
        levels[0] = None if levels[0] is None else str(levels[0])
        levels[2] = None if rng.random() < 0.3 else ("t", int(rng.integers(3)))
        p = float(rng.choice([0.0, 1.0, 1e-9, 0.2, 0.5, rng.random()], p=[0.02, 0.02, 0.02, 0.3, 0.3, 0.34]))
        chain = float(expit(log_odds(p) + 0.3 * rng.standard_normal()))
        w = float(rng.choice([1.0, 0.5, 3.0, 1e-3], p=[0.7, 0.1, 0.1, 0.1]))
        one = (p, chain, levels, bool(rng.random() < 0.4), w)
        kind = rng.choice(["learn", "issued", "unlearn"], p=[0.7, 0.2, 0.1])
        if kind == "unlearn" and past:
            yield "unlearn", past.pop(int(rng.integers(len(past))))
        else:
            past.append(one)
            yield "issued" if issued and kind == "issued" else "learn", one


def in_kernel(effects, kind, one):
    """One call, and what was forecast before."""
    p, chain, levels, y, w = one
    found = effects.predict(p, chain, levels)
    if kind == "unlearn":
        effects.unlearn(p, levels, float(y), w)
    elif kind == "issued":
        effects.learn_issued(p, levels, [0.7, -0.2], float(y), w, 0.4)
    else:
        effects.learn(p, chain, levels, float(y), w)
    return found


def in_python(model, kind, one):
    """Do the same by the formulas."""
    p, chain, levels, y, w = one
    found = model.predict(p, chain, levels)
    if kind == "unlearn":
        model.unlearn(p, levels, y, w)
    elif kind == "issued":
        model.learn(p, [0.7, -0.2, 0.25], levels, y, w, 0.4)
    else:
        model.learn(p, model.said(p, chain, levels), levels, y, w)
    return found


def numbers_of(effects):
    weights, places = effects.state()
    return [weights, [shares for shares, *_ in places], [row for place in places for row in place[3]]]


PAIRS = [(0, 1), (1, 2)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("most", [2, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_is_its_formulas(seed, most):
    rng = np.random.default_rng(seed)
    ones, twos = [JointEffects(3, PAIRS, most) for _ in range(2)], [Plain(3, PAIRS, most) for _ in range(2)]
    for effects, model in zip(ones, twos, strict=True):
        for kind, one in observations(rng, 200, issued=True):
            found, expected = in_kernel(effects, kind, one), in_python(model, kind, one)
            # Roots by bisection to 1e-16 and sums in another order, over 200 steps.
            assert found == pytest.approx(expected, rel=1e-8, abs=1e-14)
    ones[0].merge(ones[1])
    twos[0].merge(twos[1])
    for effects, model in zip(ones, twos, strict=True):
        for part, expected in zip(numbers_of(effects), model.state(), strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-7, atol=1e-9)
        assert [place[2] for place in effects.state()[1]] == [list(levels) for levels in model.places]
        assert effects.evicted == model.evicted
        assert effects.variance(4) == pytest.approx(model.tau(4, 0), rel=1e-7)
    assert (ones[0].evicted > 0) == (most == 2)


@pytest.mark.sample(2)
@pytest.mark.parametrize("most", [2, 1000])
def test_the_compiled_kernel_is_its_source_to_the_last_bit(most):
    found = []
    for module in twins("joint_effects"):
        rng = np.random.default_rng(7)
        effects, other = (module.JointEffects(3, PAIRS, most) for _ in range(2))
        said = [in_kernel(one, *row) for one in (effects, other) for row in observations(rng, 120, issued=True)]
        rows = [one for _, one in observations(rng, 50, issued=False)]
        p, chain, y, w = (np.array([row[k] for row in rows], dtype=float) for k in (0, 1, 3, 4))
        columns, out, at = [list(column) for column in zip(*(row[2] for row in rows), strict=True)], np.empty(50), chain
        effects.stream(p, chain, columns, y, w * (w != 0.5), out)
        effects.predict_many(p, columns, at)
        effects.merge(other)
        again = module.JointEffects(3, PAIRS, most)
        again.load(*effects.state())
        assert in_lists(again.state()) == in_lists(effects.state())
        parts = [again.parts(*row[:3]) for row in rows[:5]]
        found.append((said, out.tolist(), at.tolist(), parts, in_lists(effects.state()), effects.evicted))
    assert found[0] == found[1]


def test_kernels_refuse_other_lengths():
    for module in twins("joint_effects"):
        effects = module.JointEffects(2, [(0, 1)], 10)
        with pytest.raises(ValueError, match="1 levels"):
            effects.predict(0.5, 0.5, ["a"])
        with pytest.raises(ValueError, match="expected 2 columns of 1 levels"):
            effects.predict_many(np.array([0.5]), [["a"], []], np.array([0.5]))
        with pytest.raises(ValueError, match="at 6 places are not those of 4"):
            effects.merge(module.JointEffects(3, PAIRS, 10))
        with pytest.raises(ValueError, match="expected 3 weights and 4 places"):
            effects.load([1.0], [])
        with pytest.raises(ValueError, match="expected 7 numbers"):
            effects.load([0.5, 0.25, 0.25], [[[0.9, 0.9], [0.0, 0.0], ["a"], [[1.0]]]] * 4)


@given(st.integers(0, 2**32), st.sampled_from([3, 100]), st.booleans())
def test_many_is_the_loop_to_the_last_bit(seed, most, weighted):
    scores, keys, y = stream(150, seed)
    scores.setflags(write=False)
    w = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0, 1e9], len(y)) if weighted else np.ones(len(y))
    many, loop = (paired("ops", max_levels=most) for _ in range(2))
    found = many.predict_learn_many(scores, y, w, keys=keys)
    expected = []
    for (score, key, label), weight in zip(rows_of(scores, keys, y), w.tolist(), strict=True):
        expected.append(loop.predict_one(score, keys=key))
        loop.learn_one(score, label, weight, keys=key)
    assert found.tolist() == expected
    assert many.state_dict() == loop.state_dict()
    learning = paired("ops", max_levels=most)
    learning.learn_many(scores, y, w, keys=keys)
    assert learning.state_dict() == loop.state_dict()
    at = many.predict_many(scores, keys=keys)
    assert at.tolist() == [many.predict_one(score, keys=key) for score, key, _ in rows_of(scores, keys, y)]


# -- situations --------------------------------------------------------------------------------------------------------


def test_without_any_level_the_score_alone_is_corrected():
    cal = paired()
    assert cal.predict_one(0.3, keys={}) == pytest.approx(0.3, abs=1e-15)  # rounding of a logit
    for k in range(400):
        cal.learn_one(0.3, k % 10 == 0, keys={})
    assert cal.predict_one(0.3, keys={}) == pytest.approx(0.1, abs=0.03)  # two standard errors of 400 labels
    assert cal.predict_one(0.3, keys={"campaign": "new", "placement": 7}) == cal.predict_one(0.3, keys={})
    assert cal.levels("campaign") == []


@pytest.mark.parametrize("label", [False, True])
def test_one_class_repeated_scores_and_scores_that_are_0_and_1(label):
    cal = paired()
    for k in range(300):
        key = {"campaign": "a", "placement": k % 2}
        cal.learn_one((0.0, 1.0, 0.5)[k % 3], label, keys=key)
        assert 0.0 < cal.predict_one((1.0, 0.5, 0.0)[k % 3], keys=key) < 1.0
    assert abs(cal.predict_one(0.5, keys={"campaign": "a", "placement": 0}) - label) < 0.05
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()


def test_weight_zero_is_no_observation_and_large_weights_are_survived():
    cal = learned(paired("ops"), *stream(100))
    before, key = cal.state_dict(), {"campaign": "c1", "placement": 1, "device": 0}
    cal.learn_one(0.3, True, 0.0, keys={"campaign": "brand new", "placement": 1})
    assert cal.state_dict() == before
    for k, w in enumerate((1e60, 1e-60, 1e6) * 20):
        cal.learn_one(0.3, k % 2 == 0, w, keys=key)
        assert 0.0 < cal.predict_one(0.3, keys=key) < 1.0
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()


def test_bad_arguments_change_nothing():
    cal = learned(paired("ops"), *stream(100))
    before = cal.state_dict()
    for score, keys, y, w in [
        *((0.3, {"campaign": 0.5}, True, 1.0), (1.2, {}, True, 1.0), (0.3, {}, 2, 1.0), (0.3, {}, True, -1.0)),
        (0.3, None, True, 1.0),
    ]:
        with pytest.raises(InputError):
            cal.learn_one(score, y, w, keys=keys)
    with pytest.raises(InputError):
        cal.predict_learn_many([0.5, 0.5], [True, False], keys={"campaign": ["c1"]})
    with pytest.raises(InputError, match="not the numbers that were issued"):
        cal.settle(Segmented("ops", BY).issue(0.3, keys={"campaign": "c1"}), True)
    assert cal.state_dict() == before


@pytest.mark.parametrize(
    ("by", "more", "message"),
    [
        (["a"], {}, "give 2 to 16 fields that are no tuples"),
        (["a", "b", ("b", "a")], {}, "give 2 to 16 fields"),
        ([("a", "b"), ("c", "d")], {}, "give 2 to 16 fields"),
        ([f"f{k}" for k in range(17)], {}, "give 2 to 16 fields"),
        (["a", "b"], {"store": "levels.db"}, "a file holds no levels of pairs"),
        (["a", "b"], {"pairs": 1}, "pairs=1 is not possible; give True or False"),
    ],
)
def test_parameters_that_are_not_possible(by, more, message):
    with pytest.raises(InputError, match=message):
        Segmented("ops", by, **{"pairs": True, **more})


def test_which_pairs_there_are():
    assert pairs_of(["a", ("a", "b"), "b", "c", ("a", "b", "c")]) == [(0, 3), (2, 3)]
    cal = paired(by=["a", ("a", "b"), "b", "c"])
    assert {one.fields for one in cal.pair_effects()} == {("a", "c"), ("b", "c")}
    assert Segmented("ops", BY).pair_effects() == []


def test_a_field_whose_levels_are_all_unique_takes_bounded_memory():
    scores, keys, y = stream(2000)
    cal = paired(by=["user", "placement"], max_levels=50)
    cal.learn_many(scores, y, keys={"user": list(range(2000)), "placement": keys["placement"]})
    assert [len(place[2]) for place in plain(cal)["learned"]["pairs"]["places"]] == [
        50,
        4,
        50,
        len(set(np.floor(logit(scores)))),
    ]
    pairs = sum(level is not None for level in keys["placement"])
    assert cal.tally()["evicted"] == 2 * 1950 + pairs - 50
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()


def test_in_river():
    keyed = CalibratedClassifier(linear_model.LogisticRegression(), paired("ops", ["a", "b"]), keys=["a", "b"])
    rng = np.random.default_rng(5)
    for _ in range(600):
        x = {"x": rng.standard_normal(), "a": int(rng.integers(2)), "b": int(rng.integers(2))}
        keyed.learn_one(x, bool(rng.random() < (0.9 if x["a"] == x["b"] else 0.1)))
    same, other = (keyed.predict_proba_one({"x": 0.0, "a": 1, "b": b})[True] for b in (1, 0))
    assert same > 0.8
    assert other < 0.2


# -- merging and retraction --------------------------------------------------------------------------------------------


def test_merging_learns_what_both_have_learned():
    scores, keys, y = stream(6000, seed=2)
    halves = [slice(0, 3000), slice(3000, None)]
    one, other = (
        learned(paired("platt"), scores[half], {name: column[half] for name, column in keys.items()}, y[half])
        for half in halves
    )
    before, alone = other.state_dict(), losses(one.predict_many(scores, keys=keys), y).sum()
    one.merge(other)
    assert other.state_dict() == before
    whole = learned(paired("platt"), scores, keys, y)
    merged, both = (losses(cal.predict_many(scores, keys=keys), y).sum() for cal in (one, whole))
    assert merged < alone
    assert merged < both + 0.1 * (alone - both)  # means moved by other z: a tenth of what the other half has to add
    assert Segmented.from_state(plain(one)).state_dict() == one.state_dict()
    for wrong in (Segmented("platt", BY), one, paired("platt", max_levels=9), paired("platt", BY[:2])):
        with pytest.raises(MergeError):
            one.merge(wrong)


def test_an_observation_taken_back_leaves_little_of_what_it_changed():
    scores, keys, y = stream(600, seed=6, missing=False)
    cal = learned(paired("platt"), scores, keys, y)
    before = cal.predict_many(scores, keys=keys)
    for weight in (1.0, 3.0):
        cal.learn_one(0.4, True, weight, keys={"campaign": "c1", "placement": 1, "device": 0})
        moved = np.abs(cal.predict_many(scores, keys=keys) - before).max()
        cal.unlearn_one(0.4, True, weight, keys={"campaign": "c1", "placement": 1, "device": 0})
        # Shares and weights keep what they learned, and the sums are taken back to second order in the step.
        assert np.abs(cal.predict_many(scores, keys=keys) - before).max() < 0.3 * moved
    assert cal.n == 600.0


def test_taking_everything_back_leaves_no_level():
    rows = list(rows_of(*stream(40, seed=9)))
    for order in (reversed(rows), rows):
        cal = paired("platt")
        for score, key, y in rows:
            cal.learn_one(score, y, 0.3, keys=key)
        for score, key, y in order:
            cal.unlearn_one(score, y, 0.3, keys=key)
            assert 0.0 < cal.predict_one(score, keys=key) < 1.0
            Segmented.from_state(plain(cal))
        # The bins of scores are those of the calibrator as it is now, so that some of them keep a weight.
        assert [place[2] for place in plain(cal)["learned"]["pairs"]["places"][:-1]] == [[]] * 6
        assert cal.pair_effects()[0].variance == pytest.approx(0.02, abs=1e-12)  # rounding of 40 sums


# -- late labels -------------------------------------------------------------------------------------------------------


def test_what_is_learned_at_once_as_issued_is_what_is_learned():
    at_once, issued = paired("ops"), paired("ops")
    for score, key, label in rows_of(*stream(300, seed=12)):
        one = pickle.loads(pickle.dumps(issued.issue(score, keys=key)))
        at_once.learn_one(score, label, keys=key)
        issued.settle(one, label)
    assert issued.state_dict() == at_once.state_dict()


def test_late_labels_in_a_join_that_is_saved():
    scores, keys, y = stream(3000, seed=13, missing=False)
    join, found = LabelJoin(paired(), 300.0), []
    for i, (score, key, label) in enumerate(rows_of(scores, keys, y)):
        found.append(join.issue(f"r{i}", score, float(i), keys=key).p)
        if label:
            join.resolve(f"r{i}", True, i + 100.0)
        if i == 1500:
            join = LabelJoin.from_state(json.loads(json.dumps(join.state_dict())))
    alone = losses(Segmented("identity", BY).predict_learn_many(scores, y, keys=keys), y).sum()
    assert losses(np.array(found), y).sum() < alone - 50.0, "pairs gain with labels 300 rows late"


def test_the_later_a_label_the_less_it_moves_the_weights():
    scores, keys, y = stream(2000, seed=13)
    moved = []
    for between in (1, 10, 500):
        cal, key = learned(paired(), scores, keys, y), {"campaign": "c1", "placement": 1, "device": 0}
        issued = cal.issue(0.9, keys=key)
        cal.learn_many([0.5] * between, [k % 2 for k in range(between)], keys={})
        before = cal._corrections.effects.weights()[1]
        issued.record[-2:] = array("d", [2.0, -2.0])
        cal.settle(issued, True)
        moved.append(abs(math.log(cal._corrections.effects.weights()[1] / before)))
    assert moved[0] > 1.5 * moved[1] > 2.0 * moved[2] > 0.0


# -- states ------------------------------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(st.integers(0, 300), st.sampled_from([4, 1000]), st.sampled_from(["ops", "isotonic"]))
def test_saved_in_mid_stream(cut, most, method):
    scores, keys, y = stream(310, seed=14)
    parts = [{name: column[part] for name, column in keys.items()} for part in (slice(cut), slice(cut, None))]
    by = ["campaign", ("campaign", "device"), "placement", "device"]
    whole, first = (paired(method, by, max_levels=most) for _ in range(2))
    expected = whole.predict_learn_many(scores, y, keys=keys)
    before = first.predict_learn_many(scores[:cut], y[:cut], keys=parts[0])
    for second in (Segmented.from_state(plain(first)), Segmented.from_bytes(first.to_bytes())):
        assert second.state_dict() == first.state_dict()
        after = second.predict_learn_many(scores[cut:], y[cut:], keys=parts[1])
        assert [*before, *after] == expected.tolist()
        assert second.state_dict() == whole.state_dict()


def test_copies_clones_and_files(tmp_path):
    cal = learned(paired(Platt()), *stream(100))
    for other in (copy.copy(cal), copy.deepcopy(cal), pickle.loads(pickle.dumps(cal))):
        assert other.state_dict() == cal.state_dict()
        other.learn_one(0.5, True, keys={"campaign": "c1", "placement": 2})
        assert other.pair_effects() != cal.pair_effects(), "copies share nothing"
    assert cal.clone().pairs is True
    assert {one.share for one in cal.clone().pair_effects()} == {0.9}
    streamcal.save(cal, tmp_path / "state.json")
    assert streamcal.load(tmp_path / "state.json").state_dict() == cal.state_dict()


def test_pairs_are_in_the_parameters_and_in_what_is_learned_or_in_neither():
    cal = learned(Segmented("ops", BY), *stream(50))
    state = plain(cal)
    assert "pairs" not in state["learned"]
    assert Segmented.from_state(state).pairs is False
    with_pairs = plain(learned(paired("ops"), *stream(50)))
    for one, other, wrong in ((state, with_pairs, "pairs missing"), (with_pairs, state, "unknown fields pairs")):
        with pytest.raises(StateError, match=wrong):
            Segmented.from_state(signed({**one, "params": other["params"]}))


def test_damaged_states_are_refused_or_go_on():
    state = plain(learned(paired("platt"), *stream(60)))
    for part in ("overall", "fields"):
        assert part in state["learned"]
    refused, seeds = 0, 30
    for seed in range(seeds):
        found = copy.deepcopy(state)
        found["learned"]["pairs"] = damaged({"learned": found["learned"]["pairs"]}, seed)["learned"]
        try:
            cal = Segmented.from_state(signed(found))
        except StateError:
            refused += 1
            continue
        scores, keys, y = stream(40, seed)
        forecasts = cal.predict_learn_many(scores, y, keys=keys)
        assert ((forecasts > 0.0) & (forecasts < 1.0)).all(), seed
        Segmented.from_state(plain(cal))
    assert 15 < refused < seeds


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("places", 3, 0), [1.0, 0.9], "not all numbers are from"),
        (("places", 3, 2, 0), ["c1", None], "'NoneType'|no whole number|is no"),
        (("places", 3, 3), [], "not one row for each level"),
        (("places", 3, 3, 0, 0), 0.0, "no weight or no variance"),
        (("places", 3, 3, 0, 1), -1.0, "a sum of curvatures"),
        (("places", 3, 3, 0, 2), 1e12, "the mean of a level"),
        (("places", 3, 3, 0, 3), 0.1, "a pair has slopes"),
        (("places", 3, 3, 0, 6), 0.5, "a pair has slopes"),
        (("places", 3, 3, 0, 5), 0.1, "not in single precision"),
        (("places", 3, 1), [99.0, 0.0], "not those of the levels"),
        (("places", 6, 2, 0), 17, "17"),
        (("weights", 0), 0.1, "do not sum to 1"),
        (("weights",), [1.0, 0.0, 0.0], "not all numbers are from"),
        (("more",), 1, "pairs are not possible"),
    ],
)
def test_a_state_that_is_not_possible_says_why(path, value, message):
    state = plain(learned(paired("platt"), *stream(60)))
    *where, last = path
    part = state["learned"]["pairs"]
    for key in where:
        part = part[key]
    part[last] = value
    with pytest.raises(StateError, match=message):
        Segmented.from_state(signed(state))
