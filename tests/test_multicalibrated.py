"""`Multicalibrated`: the theorem against adversaries, late labels, loop ≡ many, weights, memory, merging and states."""

import copy
import json
import math
import pickle
import sys
from array import array
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from test_kernel_forms import twins

import streamcal
from streamcal import Auto, CapabilityError, InputError, MergeError, OnlinePlatt, Pending, Platt, StateError
from streamcal.kernels.segments.accounts import Accounts
from streamcal.kernels.segments.capitals import FINE, FINE_SIZE, LARGE, SIZE, TILTS
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented
from streamcal.live.multicalibrated import _bound
from streamcal.states import signed

BY = ["a", "b"]
H = np.array([*TILTS, *(-h for h in TILTS)])
D = np.expm1(H)


def loss(p, y):
    return -math.log(p) if y else -math.log1p(-p)


def stream(n, seed=0, levels=(4, 3)):
    """Probabilities, keys as columns, and labels whose log-odds differ by level."""
    rng = np.random.default_rng(seed)
    z, a, b = rng.normal(-1.0, 1.0, n), rng.integers(levels[0], size=n), rng.integers(levels[1], size=n)
    y = rng.random(n) < expit(z + 0.8 * (a == 1) - 0.5 * (b == 0))
    return expit(z), {"a": a.tolist(), "b": [f"b{k}" for k in b.tolist()]}, y


def with_keys(call, rows):
    scores, keys, y = rows
    return call(scores, y, keys=keys)


def rows_of(scores, keys, y):
    rows = [dict(zip(keys, levels, strict=True)) for levels in zip(*keys.values(), strict=True)]
    return zip(scores.tolist(), rows, y.tolist(), strict=True)


def plain(cal):
    """Return the state as JSON reads it back."""
    return json.loads(json.dumps(cal.state_dict()))


def capitals(cal):
    """Those of all accounts, by group; the further ones of large groups, and staked ones, in rows of their own."""
    accounts = cal._accounts
    parts = [accounts.capitals(j)[1][:, :SIZE] for j in range(accounts.size)]
    parts += [accounts.slots(j)[:, :SIZE] for j in range(accounts.size) if accounts.is_late]
    fine = [accounts.fine(j)[1][:, : 2 * FINE_SIZE].reshape(-1, FINE_SIZE) for j in range(accounts.size)]
    return np.vstack([*parts, *(np.pad(one, ((0, 0), (0, SIZE - FINE_SIZE))) for one in fine)])


def values(accounts, j, level):
    """Return the capitals in free slots, M and V of a group; None where it is not held."""
    levels, rows = accounts.capitals(j)
    return rows[levels.index(level)] if level in levels else None


def fine_values(accounts, j, level):
    """Return the further capitals in free slots of a group; None where it has none."""
    levels, (places, rows) = accounts.capitals(j)[0], accounts.fine(j)
    return {levels[place]: row[:FINE_SIZE] for place, row in zip(places, rows, strict=True)}.get(level)


def slots(accounts, j, level):
    """Return how many slots of a group are free and taken."""
    return accounts.slots(j)[accounts.capitals(j)[0].index(level), SIZE : SIZE + 2].tolist()


# -- the theorem -------------------------------------------------------------------------------------------------------


class Adversary:
    """Chooses the label after it has seen the prediction."""

    def __init__(self, kind, seed):
        self.kind, self.rng, self.gaps, self.rising = kind, np.random.default_rng(seed), {}, True

    def __call__(self, t, p, z, keys, cal):
        return bool(getattr(self, self.kind)(t, p, z, keys, cal))

    def unlikely(self, t, p, z, keys, cal):
        return p < 0.5

    def push(self, t, p, z, keys, cal):
        """Return the label that widens the gaps of the levels."""
        sum_of_gaps = sum(self.gaps.get(item, 0.0) for item in keys.items())
        y = sum_of_gaps > 0.0 or (sum_of_gaps == 0.0 and t % 2 == 0)
        for item in keys.items():
            self.gaps[item] = self.gaps.get(item, 0.0) + y - p
        return y

    def against(self, t, p, z, keys, cal):
        """Return the label that punishes a prediction other than z."""
        return p < z

    def flip(self, t, p, z, keys, cal):
        """Draw labels from a rate that one level changes every 500 observations."""
        return self.rng.random() < ((0.02, 0.5)[t // 500 % 2] if keys["a"] == 0 else z)

    def pump(self, t, p, z, keys, cal):
        """Above a low prediction, then never."""
        if p > 0.5 or p < 0.05:
            self.rising = p < 0.05
        return self.rng.random() < (1.5 * p if self.rising else 0.0)

    def richest(self, t, p, z, keys, cal):
        """Return the label that feeds the largest account."""
        found = [values(cal._accounts, 1 + i, keys[name]) for i, name in enumerate(BY)]
        held = [one[:SIZE] for one in found if one is not None]
        return bool(np.argmax(np.max(held, axis=0)) < SIZE // 2) if held else True

    def certain(self, t, p, z, keys, cal):
        """Return a label that is always positive, except once in a while."""
        return t % 400 != 399

    def right(self, t, p, z, keys, cal):
        return self.rng.random() < z

    def coin(self, t, p, z, keys, cal):
        """Return one label for 31 observations in a row."""
        self.rising = self.rng.random() < 0.5 if t % 31 == 0 else self.rising
        return self.rising


KINDS = ("unlikely", "push", "against", "flip", "pump", "richest", "certain", "right")
BASES = {
    "half": lambda rng: 0.5,
    "any": lambda rng: 0.01 + 0.98 * rng.random(),
    "rare": lambda rng: 0.004,
    "extreme": lambda rng: float(rng.choice([0.0, 1e-12, 0.3, 1.0 - 1e-12, 1.0])),
}


def most_injected(cal, n):
    """Return a bound on what floors inject in n observations, whatever comes."""
    return 1.5 * cal.share * (n + len(capitals(cal)))  # large groups have twelve accounts


def require_theorem(cal, rows, before, after, n):
    """Both parts, for all groups over all their latest observations."""
    found, accounts = cal.certificate(), cal._accounts
    held = float(capitals(cal).sum())
    assert held == pytest.approx(accounts.total, rel=1e-9)
    assert before - after == pytest.approx(found.gain, rel=1e-9, abs=1e-9)
    assert after - before <= found.regret + 1e-9
    assert found.regret <= accounts.injected <= most_injected(cal, n)
    assert capitals(cal).min() >= 0.0
    assert held <= accounts.injected + (before - after) + 1e-9
    assert found.evidence == max(one.evidence for one in cal.worst(100_000))
    for (field, level), pairs in rows.items():
        gaps, variances = np.cumsum(np.array(pairs)[::-1], axis=0).T
        group = cal.gap(field, level)
        assert (group.gap, group.variance) == (pytest.approx(gaps[-1], abs=1e-9), pytest.approx(variances[-1]))
        for gap, variance in zip(gaps.tolist(), variances.tolist(), strict=True):
            bound = cal.bound(field, level, variance)
            assert abs(gap) <= bound + 1e-9
            everywhere = group.pending * math.log(held / (group.pending * accounts.lowest))
            assert bound <= min((everywhere + variance * (math.expm1(h) - h)) / h for h in TILTS) + 1e-9


@pytest.mark.sample(21)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("base", "large"), [*((base, LARGE) for base in BASES), ("any", 12.0)])
def test_the_theorem(kind, base, large):
    """Where groups are large from a variance of 12 on, most have further accounts in the end."""
    n, rng, nature, rows, before, after = 700, np.random.default_rng(7), Adversary(kind, 3), {}, 0.0, 0.0
    cal = Multicalibrated("identity", by=BY, pairs=True)
    cal._accounts.large = large
    for t in range(n):
        z, keys = BASES[base](rng), {"a": int(rng.integers(4)), "b": int(rng.integers(3))}
        p = cal.predict_one(z, keys=keys)
        y = nature(t, p, z, keys, cal)
        cal.learn_one(z, y, keys=keys)
        clamped = min(max(z, 2.0**-52), 1.0 - 2.0**-52)
        before, after = before + loss(clamped, y), after + loss(p, y)
        for field, level in ((None, None), *keys.items(), (("a", "b"), (keys["a"], keys["b"]))):
            rows.setdefault((field, level), []).append((y - p, p * (1.0 - p)))
    assert (fine_values(cal._accounts, 0, 0) is not None) is (large < cal.gap().variance)
    require_theorem(cal, rows, before, after, n)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heaviest", [1.0, 40.0])
def test_the_log_loss_with_weights(kind, heaviest):
    """Some are a multiple of their running mean. The certified regret is that of predictions as issued."""
    rng, nature, before, after = np.random.default_rng(9), Adversary(kind, 5), 0.0, 0.0
    cal, scale = Multicalibrated("identity", by=BY), streamcal.live.multicalibrated.WeightScale()
    for t in range(1500):
        z, keys = 0.01 + 0.98 * rng.random(), {"a": int(rng.integers(4)), "b": int(rng.integers(3))}
        w = float(7.0 * rng.random() if heaviest == 1.0 else heaviest ** rng.random())
        p = cal.predict_one(z, keys=keys)
        y = nature(t, p, z, keys, cal)
        cal.learn_one(z, y, w, keys=keys)
        relative = min(scale.relative(w), 32.0)
        before, after = before + relative * loss(z, y), after + relative * loss(p, y)
    found = cal.certificate()
    assert before - after == pytest.approx(found.gain, rel=1e-9, abs=1e-9)
    assert after - before <= found.regret + 1e-9
    assert float(capitals(cal).sum()) == pytest.approx(cal._accounts.total, rel=1e-9)


def test_a_factor_common_to_all_weights_changes_nothing():
    scores, keys, y = stream(600)
    found = [
        Multicalibrated("identity", by=BY).predict_learn_many(scores, y, np.full(600, factor), keys=keys)
        for factor in (1.0, 1e-9, 3e7)
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_a_heavy_observation_moves_as_far_as_several():
    once, many = (Multicalibrated("identity", by=BY) for _ in range(2))
    for cal in (once, many):
        cal.learn_many([0.2] * 400, [0, 1, 0, 0] * 100, keys={"a": [1, 2] * 200, "b": [3] * 400})
    start = once.predict_one(0.2, keys={"a": 1, "b": 3})
    once.learn_one(0.2, True, 8.0, keys={"a": 1, "b": 3})
    for _ in range(8):
        many.learn_one(0.2, True, keys={"a": 1, "b": 3})
    moved = [cal.predict_one(0.2, keys={"a": 1, "b": 3}) - start for cal in (once, many)]
    assert moved[0] == pytest.approx(moved[1], rel=0.02)  # the mean weight has risen a little
    assert moved[0] > 0.0


# -- the prediction ----------------------------------------------------------------------------------------------------


def oracle(z, capital, share, groups):
    """Return the prediction by a solver for roots, from the formulas: accounts below their floors are at them."""
    floor = share / (SIZE * groups)
    least = floor * 2.0 * (1.0 + z * D) / (2.0 + D)
    stakes = np.maximum(capital, least).sum(axis=0)
    return brentq(lambda p: z - p + p * (1.0 - p) * float((stakes * D / (1.0 + p * D)).sum()), 0.0, 1.0, xtol=1e-15)


def test_a_dense_oracle():
    """The recursion of the page, over dicts."""
    scores, keys, y = stream(400, seed=4)
    cal, held = Multicalibrated("identity", by=BY, pairs=True), {}
    groups = 1 + 2 + 1 + 1 + 2
    for z, key, label in rows_of(scores, keys, y):
        cell = math.floor(logit(z))
        names = [(), ("a", key["a"]), ("b", key["b"]), ("ab", key["a"], key["b"]), ("bin", cell)]
        names += [("a", key["a"], cell, "bin"), ("b", key["b"], cell, "bin")]
        capital = np.array([held.get(name, np.zeros(SIZE)) for name in names])
        p = oracle(z, capital, 0.005, groups)
        assert cal.predict_one(z, keys=key) == pytest.approx(p, rel=1e-9)
        least = 0.005 / (SIZE * groups) * 2.0 * (1.0 + z * D) / (2.0 + D)
        likelihood = (1.0 + D if label else 1.0) / (1.0 + p * D)
        for name, row in zip(names, np.maximum(capital, least) * likelihood, strict=True):
            held[name] = np.maximum(row, cal._accounts.lowest)
        cal.learn_one(z, label, keys=key)
    assert float(capitals(cal).sum()) == pytest.approx(sum(float(row.sum()) for row in held.values()), rel=1e-9)
    assert cal.gap("a", 1, bin=-1).variance > 0.0


@given(st.floats(-36.0, 36.0), st.integers(0, 10_000), st.floats(0.1, 3.0))
def test_accounts_gain_together_what_the_prediction_gains(u, seed, spread):
    """Whatever the label, ΣW·(r(y)/p(y) − 1) = 1 − z(y)/p(y), from probabilities near 0 to those near 1."""
    rng = np.random.default_rng(seed)
    accounts = Accounts(1, [], 0.0, 10, 0.01)
    accounts.load(0, [0], np.array([[*np.exp(rng.normal(0.0, spread, SIZE)), 0.0, 0.0]]), None)
    accounts.load(1, ["x"], np.array([[*np.exp(rng.normal(0.0, spread, SIZE)), 0.0, 0.0]]), None)
    z, p, _, _, _, *stakes = accounts.issue(float(expit(u)), ["x"], 1.0)
    stakes = np.array(stakes).reshape(2, SIZE).sum(axis=0)
    assert 0.0 < p < 1.0
    if min(p, 1.0 - p) < 1e-9:
        return  # a double is no more exact
    for y in (True, False):
        gained = ((1.0 - p) if y else -p) * stakes * D / (1.0 + p * D)
        anchor = 1.0 - (z / p if y else (1.0 - z) / (1.0 - p))
        assert float(gained.sum()) == pytest.approx(
            anchor, abs=1e-7 * (1.0 + abs(anchor) + float(np.abs(gained).sum()))
        )


def test_right_predictions_are_left_alone():
    """At most 0.3 nats on 6,000 observations, and next to nothing moves."""
    costs = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = expit(rng.normal(-2.0, 1.0, 6000))
        y = rng.random(6000) < z
        keys = {"a": rng.integers(20, size=6000).tolist(), "b": rng.integers(10, size=6000).tolist()}
        cal = Multicalibrated("identity", by=BY, pairs=True)
        p = cal.predict_learn_many(z, y, keys=keys)
        costs.append(-cal.certificate().gain)
        assert np.median(np.abs(logit(p) - logit(z))) < 0.01
    assert np.mean(costs) < 0.3


def test_a_wrong_level_is_found_and_corrected():
    scores, keys, y = stream(20_000, seed=2)
    cal = Multicalibrated("identity", by=BY)
    p = cal.predict_learn_many(scores, y, keys=keys)
    one = np.array(keys["a"]) == 1
    for q, wrong in ((scores, True), (p, False)):
        z = float((y - q)[one].sum() / np.sqrt((q * (1.0 - q))[one].sum()))
        assert (abs(z) > 8.0) is wrong
    assert abs(cal.gap("a", 1).z) < 6.0
    worst = cal.worst(5)
    of_one = cal.worst(1000, cal.by[0])
    assert of_one == [one for one in cal.worst(100_000) if one.field == cal.by[0]]
    assert len(worst) == 5
    assert worst[0].evidence == cal.certificate().evidence == max(one.evidence for one in cal.worst(1000))
    assert worst[0] == cal.gap(worst[0].field, worst[0].level, worst[0].bin)


@pytest.mark.full
def test_counters_do_not_drift():
    rng, accounts, gains = np.random.default_rng(0), Accounts(2, [], 1.0, 1000, 0.005), []
    for part in range(20):
        z = np.clip(rng.beta(1.0, 9.0, 100_000), 1e-6, 1.0 - 1e-6)
        columns = [rng.integers(50, size=len(z)).tolist() for _ in range(2)]
        y = rng.random(len(z)) < z * (1.0 + 0.5 * np.sin(part) * (np.array(columns[0]) == 3))
        p = np.empty(len(z))
        accounts.stream(z, columns, y.astype(float), np.ones(len(z)), p)
        gains += np.log(np.where(y, p / z, (1.0 - p) / (1.0 - z))).tolist()
    capital = [one for j in range(accounts.size) for one in accounts.capitals(j)[1][:, :SIZE].ravel().tolist()]
    capital += [one for j in range(accounts.size) for one in accounts.fine(j)[1][:, : 2 * FINE_SIZE].ravel().tolist()]
    assert accounts.total == pytest.approx(math.fsum(capital), rel=1e-9)
    assert accounts.gain == pytest.approx(math.fsum(gains), abs=1e-6)
    assert -math.fsum(gains) <= accounts.injected - math.fsum(capital) + 1e-6


# -- late labels -------------------------------------------------------------------------------------------------------


class Late:
    """A stream whose labels wait, with the rows of each group as labels came, and the most that waited."""

    def __init__(self, cal):
        self.cal, self.waiting, self.rows, self.most = cal, [], {}, {}
        self.n, self.before, self.after = 0, 0.0, 0.0

    def issue(self, z, keys):
        self.waiting.append((self.cal.issue(z, keys=keys), keys))
        self.n += 1
        for group in self.groups(keys):
            pending = sum(group in self.groups(other) for _, other in self.waiting)
            self.most[group] = max(self.most.get(group, 0), pending)
        return self.waiting[-1][0].p

    def settle(self, place, y):
        issued, keys = self.waiting.pop(place)
        self.cal.settle(issued, y)
        if y is not None:
            z, p = min(max(issued.x, 2.0**-52), 1.0 - 2.0**-52), issued.p
            self.before, self.after = self.before + loss(z, y), self.after + loss(p, y)
            for group in self.groups(keys):
                self.rows.setdefault(group, []).append((y - p, p * (1.0 - p)))

    def groups(self, keys):
        return ((None, None), *keys.items(), (("a", "b"), (keys["a"], keys["b"])))

    def require_theorem(self):
        require_theorem(self.cal, self.rows, self.before, self.after, self.n)
        assert {group: self.cal.gap(*group).pending for group in self.most} == self.most


@pytest.mark.sample(180)
@pytest.mark.parametrize("kind", [*KINDS, "coin"])
@pytest.mark.parametrize("delay", [0, 1, 30, 400])
@pytest.mark.parametrize(("base", "large"), [*((base, LARGE) for base in BASES), ("any", 3.0)])
def test_the_theorem_for_late_labels(kind, delay, base, large):
    """Labels come in any order, and one in ten never comes. Both parts are for the labels that came, at any moment."""
    rng, nature, labels = np.random.default_rng(8), Adversary(kind, 4), []
    late = Late(Multicalibrated("identity", by=BY, pairs=True))
    late.cal._accounts.large = large
    for t in range(600):
        z, keys = BASES[base](rng), {"a": int(rng.integers(4)), "b": int(rng.integers(3))}
        expected = late.cal.predict_one(z, keys=keys)
        p = late.issue(z, keys)
        assert p == expected
        y = nature(t, p, z, keys, late.cal)
        labels.append(y if rng.random() < 0.9 else None)
        if len(labels) > delay:
            place = int(rng.integers(len(labels)))
            late.settle(place, labels.pop(place))
        if t in (330, 599):
            late.require_theorem()
    everything = late.cal.gap()
    if everything.variance > large * everything.pending:
        assert fine_values(late.cal._accounts, 0, 0) is not None
    while labels:
        late.settle(0, labels.pop(0))
    late.require_theorem()


def test_a_bound_for_late_labels_is_reached():
    """One coin decides each block, and is known once the block is over: no method has less than √(N·V)."""
    late, rng, ratios = Late(Multicalibrated("identity", by=["a", "b"], bins=0)), np.random.default_rng(1), []
    for _ in range(25):
        y = bool(rng.random() < 0.5)
        for _ in range(50):
            late.issue(0.5, {"a": 0, "b": 0})
        for _ in range(50):
            late.settle(0, y)
        gaps, variances = np.cumsum(np.array(late.rows[None, None])[::-1], axis=0).T
        ratios += [abs(gap) / late.cal.bound(None, None, v) for gap, v in zip(gaps, variances, strict=True)]
    assert late.cal.gap().pending == 50
    assert 0.7 < max(ratios) <= 1.0
    assert abs(late.cal.gap().gap) > 3.0 * math.sqrt(late.cal.gap().variance), "what labels in time would not allow"


def delayed_by_400(issue, learn, n=3000):
    """Return the log loss of z minus that of predictions whose labels all come 400 observations late."""
    cal, rng, waiting, lost = Multicalibrated("identity", by=BY), np.random.default_rng(8), [], 0.0
    nature = Adversary("flip", 4)
    for t in range(n):
        z, keys = 0.01 + 0.5 * rng.random(), {"a": int(rng.integers(4)), "b": int(rng.integers(3))}
        issued = issue(cal, z, keys)
        waiting.append((issued, nature(t, issued.p, z, keys, cal)))
        if len(waiting) > 400:
            one, y = waiting.pop(0)
            learn(cal, one, y)
            lost += loss(one.p, y) - loss(one.x, y)
    return lost, cal


def test_multiplying_when_the_label_comes_diverges():
    """The mutant: accounts are multiplied by the ratio of their bet then, and nothing is set aside before."""

    def issue(cal, z, keys):
        return Pending(cal.predict_one(z, keys=keys), z, keys, 1.0, None, None, "Multicalibrated")

    def learn(cal, one, y):
        levels = [one.keys["a"], one.keys["b"]]
        now = cal._accounts.issue(one.x, levels, 1.0)
        cal._accounts.resolve(levels, np.array([one.x, one.p, *now[2:]]), float(y))

    lost, mutant = delayed_by_400(issue, learn)
    assert lost > 500.0
    assert mutant._accounts.injected > 1e6 * most_injected(mutant, 3000), "the test above fails for it"
    lost, cal = delayed_by_400(lambda cal, z, keys: cal.issue(z, keys=keys), Multicalibrated.settle)
    assert lost <= cal.certificate().regret <= cal._accounts.injected <= most_injected(cal, 3000)
    assert lost < 3.0


@pytest.mark.parametrize("base", ["identity", "ops", "auto", "segmented"])
def test_labels_in_time_that_are_issued(base):
    """Issued and learned at once, an observation is learned as by `learn_one`, but for rounding."""
    make = (lambda: Segmented("ops", by=["a"])) if base == "segmented" else lambda: base
    one, late = Multicalibrated(make(), by=BY), Multicalibrated(make(), by=BY)
    for z, keys, y in rows_of(*stream(300)):
        issued = late.issue(z, keys=keys)
        assert issued.p == pytest.approx(one.predict_one(z, keys=keys), rel=1e-6)
        one.learn_one(z, y, keys=keys)
        late.settle(issued, y)
    assert late.n == one.n
    assert late.certificate().gain == pytest.approx(one.certificate().gain, rel=1e-6, abs=1e-6)
    assert late.gap().pending == 1
    assert late.bound("a", 1, 10.0) == pytest.approx(one.bound("a", 1, 10.0), rel=1e-6)


def test_labels_that_never_come_give_everything_back():
    cal = Multicalibrated("auto", by=BY)
    scores, keys, y = stream(200)
    cal.learn_many(scores, y, keys=keys)
    before = capitals(cal)
    for z, key, _ in rows_of(*stream(50, seed=3)):
        cal.settle(cal.issue(z, keys=key), None)
    assert cal.n == 200.0
    after = values(cal._accounts, 0, 0)[:SIZE]
    np.testing.assert_allclose(after, np.maximum(before[0], after), rtol=1e-12)
    cal.settle(cal.issue(0.3, keys={"a": 1, "b": 2}, w=0.0), True)
    assert cal.n == 200.0


def with_number(record, place, value):
    """Return a copy of a record with another number at a place."""
    return array("d", [value if k == place else one for k, one in enumerate(record)])


def test_what_was_not_issued_is_refused():
    cal = Multicalibrated("identity", by=BY)
    with_keys(cal.learn_many, stream(50))
    issued, before = cal.issue(0.3, keys={"a": 1, "b": "b0"}), plain(cal)
    wrong = [None, 0.3, replace(issued, record=None)]
    wrong.append(replace(issued, keys={"a": 1, "b": None}, record=issued.record[:7]))
    for place, bad in ((0, 2.0), (4, 1.0), (4, 0.5), (5, math.nan), (5, -1.0)):
        wrong.append(replace(issued, record=with_number(issued.record, place, bad)))
    wrong.append(replace(issued, record=issued.record[:-1]))
    for one in wrong:
        with pytest.raises(InputError):
            cal.settle(one, True)
    with pytest.raises(InputError):
        cal.settle(issued, 2)
    assert plain(cal) == before
    cal.settle(issued, True)


# -- one at a time, and together ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: Multicalibrated("identity", by=["a"]), lambda: Segmented("identity", by=["a", "b"], pairs=True)]
)
def test_rounding_below_an_edge_changes_no_bin(make):
    """Log-odds of 0 begin a bin, and a fit says ½ or the number below it, as it was read from a state or not."""
    half, below = make(), make()
    for k in range(300):
        for cal, z in ((half, 0.5), (below, np.nextafter(0.5, 0.0))):
            cal.learn_one(z, k % 4 == 0, keys={"a": k % 3, "b": 0})
    for a in range(3):
        p = half.predict_one(0.5, keys={"a": a, "b": 0})
        assert below.predict_one(0.5, keys={"a": a, "b": 0}) == pytest.approx(p, rel=1e-12)
        assert p < 0.45


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "make", [lambda: "identity", OnlinePlatt, Auto, lambda: Segmented("ops", by=["a"], pairs=False)]
)
@pytest.mark.parametrize("bins", [0.0, 0.5])
def test_a_batch_is_the_loop_to_the_last_bit(make, bins):
    scores, keys, y = stream(500, seed=1)
    keys["a"] = [None if k % 11 == 0 else one for k, one in enumerate(keys["a"])]
    w = np.random.default_rng(0).choice([0.0, 1.0, 0.3, 5.0], 500)
    one, many, learner = (Multicalibrated(make(), by=[*BY, ("b", "a")], bins=bins, max_levels=8) for _ in range(3))
    found = []
    for (z, key, label), weight in zip(rows_of(scores, keys, y), w.tolist(), strict=True):
        found.append(one.predict_one(z, keys=key))
        one.learn_one(z, label, weight, keys=key)
    assert many.predict_learn_many(scores, y, w, keys=keys).tolist() == found
    learner.learn_many(scores, y, w, keys=keys)
    assert plain(one) == plain(many) == plain(learner)
    found = [one.predict_one(z, keys=key) for z, key, _ in rows_of(scores, keys, y)]
    np.testing.assert_allclose(
        one.predict_many(scores, keys=keys), found, rtol=1e-14
    )  # that of Auto differs in the last place
    assert plain(one) == plain(many), "predicting changes nothing"


def test_columns_may_be_iterators():
    scores, keys, y = stream(100)
    cals = [Multicalibrated(Segmented("ops", by=["a"]), by=["a"]) for _ in range(2)]
    found = cals[0].predict_learn_many(scores, y, keys=keys)
    assert cals[1].predict_learn_many(scores, y, keys={"a": iter(keys["a"])}).tolist() == found.tolist()
    expected = cals[0].predict_many(scores, keys=keys)
    assert cals[1].predict_many(scores, keys={"a": iter(keys["a"])}).tolist() == expected.tolist()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "make", [lambda by: Segmented(OnlinePlatt(), by, pairs=len(by) > 1), lambda by: Segmented("ops", by)]
)
@pytest.mark.parametrize("by", [BY, ["b", "a"], ["a"]])
def test_a_calibrator_that_reads_the_same_levels_is_the_one_alone(make, by):
    """Levels read once for both, by one observation and by many, against the probabilities of the calibrator alone."""
    scores, keys, y = stream(300, seed=12)
    w = np.where(np.arange(300) % 5 == 0, 0.0, 1.0 + np.arange(300) % 3)
    alone, held, one, many = make(by), *(Multicalibrated(inner, by=BY) for inner in ("identity", make(by), make(by)))
    z = alone.predict_learn_many(scores, y, w, keys=keys)
    expected = held.predict_learn_many(z, y, w, keys=keys).tolist()
    assert many.predict_learn_many(scores, y, w, keys=keys).tolist() == expected
    for (score, key, label), weight, p in zip(rows_of(scores, keys, y), w.tolist(), expected, strict=True):
        assert one.predict_one(score, keys=key) == p
        one.learn_one(score, label, weight, keys=key)
    assert plain(one) == plain(many)
    assert plain(one.inner) == plain(alone)
    later = held.predict_many(alone.predict_many(scores, keys=keys), keys=keys).tolist()
    assert one.predict_many(scores, keys=keys).tolist() == later


@pytest.mark.sample(2)
@pytest.mark.parametrize("most", [3, 1000])
def test_the_compiled_kernel_is_its_source_to_the_last_bit(most):
    """With `balance`, `groups` and `capitals`, of which it is made."""
    scores, keys, y = stream(300, seed=11)
    columns, w = [keys["a"], keys["b"]], np.where(np.arange(300) % 7 == 0, 2.5, 1.0)
    found = []
    for module in twins("accounts"):  # `level_table` is the plain one in the second
        accounts, other = (module.Accounts(2, [(0, 1)], 0.7, most, 0.005) for _ in range(2))
        accounts.large, other.large = 3.0, 1.0
        out, many = np.empty(300), np.empty(300)
        accounts.stream(scores, columns, y.astype(float), w, out)
        other.stream(scores[:50], [column[25:75] for column in columns], y[:50].astype(float), w, np.empty(0))
        issued = [accounts.issue(0.999, [1, "b1"], 0.5), accounts.issue(0.2, [1, None], 1.0)]
        for label in (1.0, -1.0):
            one = issued.pop()
            accounts.resolve([1, None if issued else "b1"], np.array(one), label)
        accounts.merge(other)
        accounts.predict_many(scores, columns, many)
        held = [(levels, rows.tolist()) for levels, rows in map(accounts.capitals, range(accounts.size))]
        counters = [accounts.injected, accounts.total, accounts.gone, accounts.gain, accounts.evicted]
        held += [
            (accounts.slots(j).tolist(), np.nan_to_num(accounts.evidence(j)[1]).tolist()) for j in range(accounts.size)
        ]
        held += [(places, rows.tolist()) for places, rows in map(other.fine, range(other.size))]
        found.append((out.tolist(), many.tolist(), held, counters))
    assert found[0] == found[1]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_few_levels_are_held_and_the_log_loss_stays_bounded():
    rng, before, after = np.random.default_rng(3), 0.0, 0.0
    cal = Multicalibrated("identity", by=["a"], max_levels=5)
    for _ in range(2000):
        z, keys = 0.01 + 0.5 * rng.random(), {"a": int(rng.integers(12))}
        p = cal.predict_one(z, keys=keys)
        y = bool(rng.random() < (0.9 if keys["a"] < 3 else z))
        cal.learn_one(z, y, keys=keys)
        before, after = before + loss(z, y), after + loss(p, y)
    accounts, found = cal._accounts, cal.certificate()
    assert cal.tally()["evicted"] > 500
    assert max(len(accounts.capitals(j)[0]) for j in range(accounts.size)) == 5
    assert before - after == pytest.approx(found.gain)
    assert after - before <= found.regret + 1e-9
    assert float(capitals(cal).sum()) + accounts.gone == pytest.approx(accounts.total, rel=1e-9)
    assert accounts.capitals(1)[0][-1] == keys["a"], "the newest is the last that was learned"
    assert cal.gap("a", 99) == cal.gap("a", 99)._replace(gap=0.0, variance=0.0, evidence=0.0)


def with_large_groups(seed=1, n=4000, **more):
    cal = Multicalibrated("identity", by=BY, **more)
    cal._accounts.large = 30.0
    with_keys(cal.learn_many, stream(n, seed=seed))
    return cal


def large_groups(cal):
    return {
        (j, place): row.tolist()
        for j in range(cal._accounts.size)
        for place, row in zip(*cal._accounts.fine(j), strict=True)
    }


def large_in(cal, j):
    """Return the further accounts in a family, by level."""
    (levels, _), (places, rows) = cal._accounts.capitals(j), cal._accounts.fine(j)
    return {levels[place]: row[:FINE_SIZE] for place, row in zip(places, rows, strict=True)}


def test_a_gap_is_within_few_standard_deviations():
    """Within 6.6 for V from 5 to 4 million, by accounts of ±1/81 and ±1/243 where V is large."""
    cal = Multicalibrated("identity", by=BY, bins=0)
    large = np.array([0.0, 0.0, 1.0] + [11.0] * (SIZE + FINE_SIZE))
    known = np.array([*large[:-FINE_SIZE], *[math.nan] * FINE_SIZE])
    assert cal._accounts.large == LARGE == 10_000.0
    for variance in np.geomspace(5.0, 4e6, 200).tolist():
        bound = _bound(known if variance < LARGE else large, variance) / math.sqrt(variance)
        assert bound < (6.6 if variance < 200.0 else 5.7)
    assert _bound(known, 5e6) / math.sqrt(5e6) > 40.0


def opened_with(accounts, values):
    """Return what further accounts open with, by the formula, for the capitals and V of a group."""
    cost, found = {h: math.expm1(h) - h for h in (*TILTS, *FINE)}, []
    for coarse in (values[len(TILTS) - 1], values[SIZE - 1]):
        evidence = math.log(max(coarse / accounts.lowest, 1.0))
        for h in FINE:
            rest = values[SIZE + 1] * (cost[TILTS[-1]] * h / TILTS[-1] - cost[h])
            found.append(accounts.lowest * math.exp(evidence * h / TILTS[-1] + rest))
    return found


def test_further_accounts_bound_what_was_before_they_were_opened():
    """They open with the capital by the formula, which is enough for part 2 over any latest observations."""
    scores, keys, y = stream(3000, seed=5)
    cal, found = Multicalibrated("identity", by=BY, bins=0), []
    cal._accounts.large = 200.0
    for z, key, label in rows_of(scores, keys, y):
        p = cal.predict_one(z, keys=key)
        cal.learn_one(z, label, keys=key)
        found.append((label - p, p * (1.0 - p)))
        if fine_values(cal._accounts, 0, 0) is not None:
            break
    capital = fine_values(cal._accounts, 0, 0)
    assert capital.tolist() == pytest.approx(opened_with(cal._accounts, values(cal._accounts, 0, 0)), rel=1e-9)
    assert 200.0 < cal.gap().variance < 200.25
    gaps, variances = np.cumsum(np.array(found)[::-1], axis=0).T
    for h, held in zip((*FINE, *(-h for h in FINE)), capital.tolist(), strict=True):
        needed = h * gaps - variances * (math.expm1(abs(h)) - abs(h))
        assert needed.max() <= math.log(held / cal._accounts.lowest)


def test_large_groups_in_states_and_merges():
    cal, other = with_large_groups(1), with_large_groups(2)
    groups = large_groups(cal)
    assert len(groups) > 5
    assert any(row[0] > 2.0 * cal._accounts.lowest for row in groups.values())
    loaded = Multicalibrated.from_bytes(cal.to_bytes())
    loaded._accounts.large = 30.0
    assert large_groups(loaded) == groups
    assert plain(loaded) == plain(cal)
    for one in (cal, loaded):
        with_keys(one.learn_many, stream(500, seed=3))
    assert plain(loaded) == plain(cal)
    regret = cal.certificate().regret + other.certificate().regret
    cal.merge(other)
    assert cal.certificate().regret == pytest.approx(regret)
    assert float(capitals(cal).sum()) == pytest.approx(cal._accounts.total, rel=1e-9)
    for j in range(cal._accounts.size):
        parts = [large_in(one, j) for one in (loaded, other)]
        for level, row in large_in(cal, j).items():
            alone = [part.get(level) for part in parts]
            opened = np.array(opened_with(cal._accounts, values(cal._accounts, j, level)))
            known = [one for one in alone if one is not None]
            expected = sum(known) if len(known) == 2 else sum(known) + opened
            assert row.tolist() == pytest.approx(np.asarray(expected).tolist(), rel=1e-12)
    Multicalibrated.from_state(plain(cal))


def test_large_groups_open_further_slots_and_follow_what_was_issued_before():
    """A group becomes large while labels are awaited whose stakes do not include further accounts."""
    late, found = Late(Multicalibrated("identity", by=BY, pairs=True)), []
    late.cal._accounts.large = 1.0
    for k in range(400):
        late.issue(0.4, {"a": k % 4, "b": k % 3})
        if k >= 20:
            late.settle(0, k % 2 == 0)
        found += late.cal._accounts.fine(0)[1][:, 2 * FINE_SIZE :].tolist()
    assert found[0] == [21.0, 0.0], "as many slots as the group has, all of them free"
    assert found[1] == [20.0, 1.0]
    assert found[-1] == [1.0, 20.0]
    late.require_theorem()
    loaded = Multicalibrated.from_bytes(late.cal.to_bytes())
    assert plain(loaded) == plain(late.cal)
    for _ in range(20):
        late.settle(0, True)
    late.require_theorem()
    assert late.cal._accounts.fine(0)[1][:, FINE_SIZE:].tolist() == [[*[pytest.approx(0.0, abs=1e-15)] * 4, 21.0, 0.0]]


def test_merged_slots():
    """Those that are free are joined in pairs, and those taken wait for the labels of either stream."""
    parts = [Late(with_large_groups(seed)) for seed in (1, 2)]
    for part, size in zip(parts, (3, 5), strict=True):
        for k in range(size):
            part.issue(0.3, {"a": 1, "b": f"b{k % 2}"})
    for _ in range(3):
        parts[1].settle(0, True)
    merged = parts[0].cal
    merged.merge(parts[1].cal)
    accounts = merged._accounts
    assert slots(accounts, 0, 0) == [3.0, 5.0]  # of 0 and 3 free, of 3 and 2 taken
    assert float(capitals(merged).sum()) == pytest.approx(accounts.total, rel=1e-9)
    for part in parts:
        for issued, _ in part.waiting:
            merged.settle(issued, True)
    assert slots(accounts, 0, 0) == [8.0, 0.0]
    assert merged.gap("a", 1).pending == 8
    assert float(capitals(merged).sum()) == pytest.approx(accounts.total, rel=1e-9)
    Multicalibrated.from_state(plain(merged))
    in_time = with_large_groups(3)
    in_time.merge(merged)
    assert in_time.gap().pending == 8
    assert in_time.gap("a", 0).pending == 1


def test_a_large_group_that_makes_room_takes_its_accounts_along():
    cal = with_large_groups(max_levels=2)
    accounts = cal._accounts
    held = float(capitals(cal).sum())
    assert cal.tally()["evicted"] > 100
    assert large_groups(cal)
    assert all(values(accounts, j, accounts.capitals(j)[0][place]) is not None for j, place in large_groups(cal))
    assert held + accounts.gone == pytest.approx(accounts.total, rel=1e-9)


@pytest.mark.parametrize("alike", [1, 4])
@pytest.mark.parametrize("most", [1, 60, 400])
def test_the_table_of_levels_is_an_ordered_dict(alike, most):
    """Levels of equal hashes come and go: who is held, in what order, and which numbers are whose."""
    rng, expected = np.random.default_rng(1), {}
    known = [number // alike + number % alike * sys.hash_info.modulus for number in range(150)]
    assert len(set(map(hash, known))) == math.ceil(150 / alike)
    accounts = Accounts(1, [], 0.0, most, 0.005)
    for level in map(known.__getitem__, rng.integers(150, size=1500).tolist()):
        p = accounts.predict(0.5, [level])
        accounts.learn(0.5, [level], 1.0, 1.0)
        variance = expected.pop(level, 0.0) + p * (1.0 - p)
        if len(expected) == most:
            expected.pop(next(iter(expected)))
        expected[level] = variance
    levels, rows = accounts.capitals(1)
    assert levels == list(expected)
    assert rows[:, SIZE + 1].tolist() == pytest.approx(list(expected.values()))
    assert all(accounts.evidence_of(1, level) is not None for level in expected)
    assert accounts.evidence_of(1, 999) is None


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["unlikely", "coin", "flip"])
def test_the_theorem_for_late_labels_of_levels_that_make_room(kind):
    """Of the observations since the level was last admitted, and for the log loss of all."""
    rng, nature, waiting, rows, times = np.random.default_rng(5), Adversary(kind, 6), [], {}, {}
    cal = Multicalibrated("identity", by=["a"], max_levels=3)
    cal._accounts.large, gain = 1.0, 0.0
    for t in range(3000):
        a = min(int(rng.exponential(1.2)), 5)
        if a not in cal._accounts.capitals(1)[0]:
            times[a], rows[a] = t, []
        issued = cal.issue(0.2, keys={"a": a})
        waiting.append((issued, times[a], nature(t, issued.p, 0.2, {"a": a, "b": 0}, cal)))
        if len(waiting) > 20:
            issued, since, y = waiting.pop(int(rng.integers(len(waiting))))
            cal.settle(issued, y)
            gain += loss(0.2, y) - loss(issued.p, y)
            if since == times[issued.keys["a"]]:
                rows[issued.keys["a"]].append((y - issued.p, issued.p * (1.0 - issued.p)))
        if t % 100 == 99:
            for level in cal._accounts.capitals(1)[0]:
                found = np.cumsum(np.array([(0.0, 0.0), *rows[level]])[::-1], axis=0).tolist()
                assert cal.gap("a", level).gap == pytest.approx(found[-1][0], abs=1e-9)
                assert all(abs(gap) <= cal.bound("a", level, variance) + 1e-9 for gap, variance in found)
    accounts = cal._accounts
    assert cal.tally()["evicted"] > 100
    assert gain == pytest.approx(cal.certificate().gain, rel=1e-9)
    assert -gain <= cal.certificate().regret + 1e-9
    assert float(capitals(cal).sum()) + accounts.gone == pytest.approx(accounts.total, rel=1e-9)
    assert plain(Multicalibrated.from_state(plain(cal))) == plain(cal)


def test_stakes_of_a_level_that_made_room_are_gone():
    """Its label is none of the group that has the level when it comes, which keeps the slots it has."""
    cal = Multicalibrated("identity", by=["a"], max_levels=1)
    first = cal.issue(0.3, keys={"a": 1})
    for level in (2, 1):
        cal.learn_one(0.3, True, keys={"a": level})
    second, before = cal.issue(0.3, keys={"a": 1}), cal.gap("a", 1)
    cal.settle(first, False)
    accounts = cal._accounts
    assert cal.gap("a", 1) == before
    assert slots(accounts, 1, 1) == [0.0, 1.0]
    assert float(capitals(cal).sum()) + accounts.gone == pytest.approx(accounts.total, rel=1e-12)
    cal.settle(second, False)
    assert slots(accounts, 1, 1) == [1.0, 0.0]
    assert cal.gap("a", 1).gap < before.gap
    assert float(capitals(cal).sum()) + accounts.gone == pytest.approx(accounts.total, rel=1e-12)
    Multicalibrated.from_state(plain(cal))


def test_a_prediction_settled_in_an_earlier_state_takes_no_slot():
    """It was issued after the state was saved: its stakes are of no group, and the log loss stays bounded."""
    cal = Multicalibrated("identity", by=["a"])
    cal.learn_many([0.3] * 100, [0, 1] * 50, keys={"a": [1] * 100})
    earlier = copy.deepcopy(cal)
    earlier.settle(cal.issue(0.3, keys={"a": 1}), False)
    accounts = earlier._accounts
    assert slots(accounts, 1, 1) == [1.0, 0.0]
    assert float(capitals(earlier).sum()) + accounts.gone == pytest.approx(accounts.total, rel=1e-12)
    assert -earlier.certificate().gain <= earlier.certificate().regret
    Multicalibrated.from_state(plain(earlier))


# -- merging, retraction, states ---------------------------------------------------------------------------------------


def test_what_the_theorem_says_of_merged_objects():
    """The log loss of both streams together, and the gaps of each apart and of what follows."""
    parts, tails = [], []
    for seed in (1, 2):
        scores, keys, y = stream(2000, seed=seed)
        cal = Multicalibrated(Platt(), by=BY)
        p = cal.predict_learn_many(scores, y, keys=keys)
        one = np.array(keys["a"]) == 1
        tails.append(np.column_stack([y - p, p * (1.0 - p)])[one])
        parts.append(cal)
    alone = [cal.certificate() for cal in parts]
    merged, other = copy.deepcopy(parts[0]), plain(parts[1])
    merged.merge(parts[1])
    assert plain(parts[1]) == other
    found = merged.certificate()
    assert found.regret == pytest.approx(sum(one.regret for one in alone))
    assert found.gain == pytest.approx(sum(one.gain for one in alone))
    assert -found.gain <= found.regret
    assert merged.gap("a", 1).variance == pytest.approx(sum(one.gap("a", 1).variance for one in parts))
    scores, keys, y = stream(1000, seed=3)
    p = merged.predict_learn_many(scores, y, keys=keys)
    one = np.array(keys["a"]) == 1
    for tail in tails:
        rows = np.vstack([tail, np.column_stack([y - p, p * (1.0 - p)])[one]])
        for gap, variance in np.cumsum(rows[::-1], axis=0).tolist():
            assert abs(gap) <= merged.bound("a", 1, variance) + 1e-9
    Multicalibrated.from_state(plain(merged))


def test_what_cannot_be_merged_or_unlearned():
    cal = Multicalibrated(Platt(), by=BY)
    for other in (
        cal,
        Multicalibrated(Platt(), by=["a"]),
        Multicalibrated(Platt(), by=BY, bins=0.5),
        Multicalibrated(Platt(), by=BY, share=0.01),
        Multicalibrated("isotonic", by=BY),
        Multicalibrated(Segmented(Platt(), by=BY), by=BY),
        Segmented(Platt(), by=BY),
    ):
        with pytest.raises(MergeError):
            cal.merge(other)
    with pytest.raises(MergeError):
        Multicalibrated("ops", by=BY).merge(Multicalibrated("ops", by=BY))
    assert cal.merges
    assert not cal.unlearns
    with pytest.raises(CapabilityError, match="cannot unlearn: later bets"):
        cal.unlearn_one(0.5, True, keys={})


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "make", [lambda: "identity", lambda: Auto(delay=2), lambda: Segmented("ops", by=["a", "b"], pairs=True)]
)
def test_states_continue_to_the_last_bit(make):
    scores, keys, y = stream(400)
    cal = Multicalibrated(make(), by=[*BY, ("a", "b")], max_levels=9)
    cal.learn_many(scores, y, keys=keys)
    issued = [cal.issue(z, keys=key) for z, key, _ in rows_of(*stream(20, seed=5))]
    waiting = pickle.dumps(issued)
    copies = [
        Multicalibrated.from_state(plain(cal)),
        Multicalibrated.from_bytes(cal.to_bytes()),
        Multicalibrated.from_bytes(cal.to_bytes(compress=True)),
        pickle.loads(pickle.dumps(cal)),
        copy.deepcopy(cal),
    ]
    wanted = None
    for one in (cal, *copies):
        for k, late in enumerate(pickle.loads(waiting)):
            one.settle(late, (True, False, None)[k % 3])
        found = with_keys(one.predict_learn_many, stream(200, seed=6)).tolist(), plain(one)
        wanted = wanted or found
        assert found == wanted
    assert cal.clone().n == 0.0
    assert cal.clone().same_parameters(cal)
    assert cal.clone().certificate() == (0.0, 0.0, 0.0)


def test_a_state_is_found_by_its_name(tmp_path):
    cal = Multicalibrated("ops", by=BY)
    with_keys(cal.learn_many, stream(50))
    streamcal.save(cal, tmp_path / "cal.json")
    assert plain(streamcal.load(tmp_path / "cal.json")) == plain(cal)


def changed(cal, change):
    state = copy.deepcopy(plain(cal))
    change(state["learned"])
    return signed(state)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "change",
    [
        lambda learned: learned["counters"].__setitem__(1, 1e6),
        lambda learned: learned["counters"].__setitem__(0, -1.0),
        lambda learned: learned["counters"].__setitem__(3, -1e6),
        lambda learned: learned["counters"].pop(),
        lambda learned: learned["families"].pop(),
        lambda learned: learned.__setitem__("large", []),
        lambda learned: learned.__setitem__("large", [[[99], [[*[0.0] * 8, 1.0, 0.0]]], *[[[], []]] * 5]),
        lambda learned: learned.__setitem__("large", [[[0], []], *[[[], []]] * 5]),
        lambda learned: learned.__setitem__("large", [[[0], [[1e3, *[0.0] * 7, 1.0, 0.0]]], *[[[], []]] * 5]),
        lambda learned: learned.__setitem__("large", [[[0], [[*[0.0] * 8, 0.0, 0.0]]], *[[[], []]] * 5]),
        lambda learned: learned["slots"].pop(),
        lambda learned: learned["slots"][1].pop(),
        lambda learned: learned["slots"][1][0].__setitem__(0, 1e3),
        lambda learned: learned["slots"][1][0].__setitem__(0, -1.0),
        lambda learned: learned["slots"][1][0].__setitem__(SIZE, 0.5),
        lambda learned: learned["slots"][1].__setitem__(0, [*[0.0] * SIZE, 0.0, 0.0, 0.0]),
        lambda learned: learned["slots"][1][0].__setitem__(SIZE + 2, 1.0),
        lambda learned: learned["families"][1][0].append(77),
        lambda learned: learned["families"][1][0].__setitem__(0, learned["families"][1][0][1]),
        lambda learned: learned["families"][1][0].__setitem__(0, [1, 2]),
        lambda learned: learned["families"][0][0].__setitem__(0, 5),
        lambda learned: learned["families"][1][1][0].__setitem__(0, -1.0),
        lambda learned: learned["families"][1][1][0].__setitem__(SIZE + 1, -1.0),
        lambda learned: learned["families"][1][1][0].__setitem__(0, 1e3),
        lambda learned: learned["families"][1][1][0].__setitem__(0, "x"),
        lambda learned: learned["families"][1][1][0].pop(),
        lambda learned: learned["families"][3][0].__setitem__(0, 10_000),
        lambda learned: learned.__setitem__("issued", 0),
        lambda learned: learned.__setitem__("inner", None),
        lambda learned: learned["inner"]["params"].__setitem__("scale", None),
        lambda learned: learned.pop("weight_scale"),
    ],
)
def test_damaged_states(change):
    cal = Multicalibrated("ops", by=BY)
    with_keys(cal.learn_many, stream(50))
    cal.settle(cal.issue(0.3, keys={"a": 1, "b": "b1"}), True)
    assert plain(Multicalibrated.from_state(changed(cal, lambda learned: None))) == plain(cal)
    with pytest.raises(StateError):
        Multicalibrated.from_state(changed(cal, change))


# -- parameters and groups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": []},
        {"by": "campaign"},
        {"pairs": 1},
        {"by": ["a"], "pairs": True},
        {"bins": -1.0},
        {"bins": 0.01},
        {"bins": 37.0},
        {"bins": "1"},
        {"share": 0.0},
        {"share": 0.6},
        {"max_levels": 0},
        {"calibrator": "nothing"},
        {"calibrator": 3},
    ],
)
def test_parameters_that_are_not_possible(wrong):
    with pytest.raises(InputError):
        Multicalibrated(**{"calibrator": "identity", "by": BY, **wrong})


def test_groups_that_cannot_be():
    cal = Multicalibrated("identity", by=[*BY, ("a", "c")], pairs=True)
    for field, level, cell in [
        ("x", 1, None),
        (None, 1, None),
        ("a", None, None),
        ("a", (1, 2), None),
        (("a", "b"), 1, None),
        (("a", "b"), (1, 2), 3),
        ("a", 1, 0.5),
        ("a", 1, 5000),
        ([[]], 1, None),
    ]:
        with pytest.raises(InputError):
            cal.gap(field, level, cell)
    with pytest.raises(InputError, match="variance"):
        cal.bound("a", 1, -1.0)
    with pytest.raises(InputError):
        cal.worst(0)
    with pytest.raises(InputError, match="bins=0"):
        Multicalibrated("identity", by=BY, bins=0).gap(bin=1)
    assert cal.gap(("a", "c"), (1, 2), bin=0).bin == 0
    assert cal.gap(["a", "b"], (1.0, "2")).level == (1, 2)


def test_keys_are_read_as_by_segmented():
    cal = Multicalibrated("identity", by=BY)
    for keys in ({"a": "7", "b": "x"}, {"a": 7.0, "b": "x"}, {"a": np.int64(7), "b": "x"}):
        cal.learn_one(0.3, True, keys=keys)
    assert cal.gap("a", 7).variance == pytest.approx(cal.gap().variance)
    before = plain(cal)
    for keys in ([1], {"aa": 1, "bb": 2}, {"a": 0.5, "b": 1}, None):
        with pytest.raises(InputError):
            cal.learn_one(0.3, True, keys=keys)
        with pytest.raises(InputError):
            cal.predict_one(0.3, keys=keys)
        with pytest.raises(InputError):
            cal.issue(0.3, keys=keys)
    for given_rows in (([0.1, 2.0], {"a": [1, 2], "b": [1, 2]}, [0, 1]), ([0.1], {"a": [[]], "b": [1]}, [0])):
        with pytest.raises(InputError):
            with_keys(cal.predict_learn_many, given_rows)
    assert plain(cal) == before
    assert Multicalibrated(Segmented("ops", by=["c"]), by=BY).fields == ("a", "b", "c")


# -- where it is used --------------------------------------------------------------------------------------------------


def traffic(n, seed=0):
    scores, keys, y = stream(n, seed)
    return list(rows_of(scores, keys, y))


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", [lambda: "identity", lambda: "auto", lambda: Segmented("ops", by=["b", "c"])])
def test_a_join_issues_and_settles(make):
    """Against `issue` and `settle`, called by hand on a queue."""
    join, queue = LabelJoin(Multicalibrated(make(), by=BY), 50.0), []
    by_hand = Multicalibrated(make(), by=BY)
    missing = {"c": None} if "c" in by_hand.fields else {}
    for k, (score, keys, y) in enumerate(traffic(400)):
        if k >= 50:
            by_hand.settle(*queue.pop(0))
        queue.append((by_hand.issue(score, float(k), keys={**keys, **missing}), y))
        looked = join.predict_one(score, float(k) if k % 2 else None, keys=keys) if k else None
        issued = join.issue(k, score, float(k), keys=keys)
        assert issued.p == queue[-1][0].p
        assert looked is None or 0.0 < looked < 1.0
        join.resolve(k, y, float(k))
    assert join.calibrator.certificate() == by_hand.certificate()
    assert -join.calibrator.certificate().gain <= join.calibrator.certificate().regret


def test_a_join_goes_on_from_its_state_and_its_journal(tmp_path):
    events, states = traffic(300), []
    for stops in ((300,), (90, 200, 300)):
        done = 0
        for stop in stops:
            with Journal(tmp_path / f"{len(stops)}.journal") as journal:
                join = LabelJoin(Multicalibrated("auto", by=BY), 50.0, journal=journal, max_held=40)
                for k, (score, keys, y) in enumerate(events[done:stop], done):
                    join.issue(f"i{k}", score, float(k), keys=keys, version="v1" if k < 150 else "v2", w=1.0 + k % 2)
                    join.resolve(f"i{k}", y, float(k))
                if stop == 200:
                    join.snapshot()
            done = stop
        states.append(plain(join))
        assert plain(LabelJoin.from_bytes(join.to_bytes())) == states[-1]
    assert states[0] == states[1]


def test_a_join_that_gives_up_labels_gives_the_stakes_back():
    cal = Multicalibrated("identity", by=BY)
    join = LabelJoin(cal, 1000.0, max_held=20)
    for k, (score, keys, _) in enumerate(traffic(300)):
        join.issue(k, score, float(k), keys=keys)
    assert join.tally()["unheld"] > 200
    assert slots(cal._accounts, 0, 0)[1] == 19.0
    join.advance(5000.0)
    assert join.waiting == 0
    assert slots(cal._accounts, 0, 0) == [21.0, 0.0]


def test_a_river_model_passes_its_levels_on():
    from river import linear_model

    from streamcal.river import CalibratedClassifier

    model = CalibratedClassifier(linear_model.LogisticRegression(), Multicalibrated("identity", by=["a"]), keys=["a"])
    for k, (score, keys, y) in enumerate(traffic(300)):
        x = {"score": score, **keys, "b": k % 3}
        assert 0.0 < model.predict_proba_one(x)[True] < 1.0
        model.learn_one(x, y)
    assert model.calibrator.gap("a", 1).variance > 0.0
    with pytest.raises(InputError, match="fields of the calibrator"):
        CalibratedClassifier(linear_model.LogisticRegression(), Multicalibrated("ops", by=["a"]), keys=["b"])


def test_it_is_evaluated_and_compared():
    from streamcal import compare
    from streamcal.stream.prequential import Prequential

    scores, keys, y = stream(500)
    run, alone = Prequential(Multicalibrated("identity", by=BY)), Multicalibrated("identity", by=BY)
    found = run.step_many(scores, y, keys=keys)
    assert found[:, 0].tolist() == alone.predict_learn_many(scores, y, keys=keys).tolist()
    data = pd.DataFrame({"score": scores, "label": y, **keys})
    methods = {"held": Multicalibrated("ops", by=BY), "ops": "ops"}
    for delay in (0, 20):
        compared = compare(data, score="score", label="label", methods=methods, delay=delay)
        held, without = (compared.standings[name].log_loss.get() for name in ("held", "ops"))
        assert 0.0 < abs(held - without) < 0.01
