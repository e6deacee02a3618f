"""`Segmented`: merging, retraction, states, copies and damaged states."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from test_segmented import BY, learned, plain, prior, rows_of, stream

import streamcal
from streamcal import CapabilityError, Decay, InputError, MergeError, Platt, StateError, Window
from streamcal.live import Journal, LabelJoin, Segmented
from streamcal.states import signed

# -- merging and retraction --------------------------------------------------------------------------------------------


def test_merging_adds_the_sums_of_levels():
    scores, keys, y = stream(4000, seed=2)
    halves = [slice(0, 2000), slice(2000, None)]
    one, other = (
        learned(Segmented("platt", BY), scores[half], {name: column[half] for name, column in keys.items()}, y[half])
        for half in halves
    )
    expected = {
        level: one.effect("campaign", level)[2] + other.effect("campaign", level)[2] for level in keys["campaign"]
    }
    sums = [np.array(cal._chain.state(0)[3])[np.argsort(cal.levels("campaign"))] for cal in (one, other)]
    before = other.state_dict()
    one.merge(other)
    assert other.state_dict() == before
    merged = np.array(one._chain.state(0)[3])[np.argsort(one.levels("campaign"))]
    exact = [0, 1, 2, *range(7, 14), *range(16, 21)]  # what has no memory that fades
    np.testing.assert_array_equal(merged[:, exact], (sums[0] + sums[1])[:, exact])
    assert {level: one.effect("campaign", level)[2] for level in expected} == expected
    assert one.levels("campaign") == other.levels("campaign")
    whole = learned(Segmented("platt", BY), scores, keys, y)
    for level in set(keys["campaign"]):
        mean, sd, _ = whole.effect("campaign", level)
        assert one.effect("campaign", level)[0] == pytest.approx(mean, abs=sd)  # means moved by other z, not more
    Segmented.from_state(plain(one))


def test_the_weights_of_merged_members_are_those_of_independent_evidence():
    one, other = (learned(Segmented("platt", ["campaign"]), *stream(300, seed)) for seed in (1, 2))
    evidence = [
        (cal._chain.weights(0), cal._chain.weights_twice(0), cal._chain.weights_twice(1)) for cal in (one, other)
    ]
    orders = [cal._chain.orders() for cal in (one, other)]
    one.merge(other)
    found = one._chain.weights(0), one._chain.weights_twice(0), one._chain.weights_twice(1)
    for merged, parts in zip(found, zip(*evidence, strict=True), strict=True):
        product = np.prod(parts, axis=0) / prior(len(merged))
        np.testing.assert_allclose(merged, product / product.sum(), rtol=1e-12)
    product = np.prod(orders, axis=0)
    np.testing.assert_allclose(one._chain.orders(), product / product.sum(), rtol=1e-12)


def test_memories_of_merged_levels_have_no_more_than_one():
    """What is left of the prior is multiplied, and the own weights of a level are those of independent evidence."""
    parts = [
        learned(Segmented("identity", ["campaign"]), *stream(n, seed, campaigns=2)) for n, seed in ((900, 1), (40, 2))
    ]
    one, other = parts
    rows = [dict(zip(cal.levels("campaign"), np.array(cal._chain.state(0)[3]), strict=True)) for cal in parts]
    one.merge(other)
    for level, row in zip(one.levels("campaign"), np.array(one._chain.state(0)[3]), strict=True):
        a, b = rows[0][level], rows[1][level]
        for at, memory in ((3, 100.0), (5, 10.0), (14, 100.0)):
            h = min(a[at], memory) + min(b[at], memory)
            left = min(1.0, memory / a[at]) * min(1.0, memory / b[at]) * min(1.0, memory / h)
            assert min(row[at], memory) == pytest.approx(min(h, memory))
            assert min(1.0, memory / row[at]) == pytest.approx(left)
            assert row[at + 1] == pytest.approx((a[at + 1] + b[at + 1]) * min(1.0, memory / h))
        own = a[23:] * b[23:] / prior(6)
        np.testing.assert_allclose(row[23:], own / own.sum(), rtol=1e-6)
    assert Segmented.from_state(plain(one)).state_dict() == one.state_dict()


@pytest.mark.parametrize("pairs", [False, True])
def test_hundreds_that_agree_are_merged_and_saved(pairs):
    """Each leaves a member the least weight that there is; 64 such factors are no double above 0."""
    rng = np.random.default_rng(1)
    level, z = rng.integers(2, size=2000), rng.standard_normal(2000)
    keys, y = {"a": level.tolist(), "b": [0] * 2000}, rng.random(2000) < expit(z + np.where(level, 2.0, -2.0))
    parts = [learned(Segmented("identity", ["a", "b"], pairs=pairs), expit(z), keys, y) for _ in range(2)]
    whole, part = parts
    for _ in range(200):
        whole.merge(part)
    assert 0.0 < whole.weights("a")["nothing"] < 1e-90
    again = Segmented.from_state(plain(whole))
    for key in ({"a": 0}, {"a": 1, "b": 0}):
        assert again.predict_one(0.5, keys=key) == whole.predict_one(0.5, keys=key)
        for one in (again, whole):
            one.learn_one(0.5, True, keys=key)
    assert again.weights("a")["nothing"] > 1e-6, "what comes later decides anew"


def test_what_cannot_be_merged():
    cal = Segmented("platt", BY)
    for other in (
        cal,
        Segmented("platt", ["campaign"]),
        Segmented("isotonic", BY),
        Segmented("platt", BY, max_levels=7),
    ):
        with pytest.raises(MergeError):
            cal.merge(other)
    for base, merges, unlearns in [
        ("ops", False, False),
        (Platt(), True, True),
        (Platt(forgetting=Window(10)), False, True),
        (Platt(forgetting=Decay(10)), False, False),
    ]:
        cal, other = Segmented(base, BY), Segmented(base, BY)
        assert (cal.merges, cal.unlearns) == (merges, unlearns)
        if not merges:
            with pytest.raises(MergeError):
                cal.merge(other)
        if not unlearns:
            with pytest.raises(CapabilityError):
                cal.unlearn_one(0.5, True, keys={})


def test_merging_keeps_the_bound_of_memory():
    one, other = (Segmented("platt", ["c"], max_levels=3) for _ in range(2))
    one.learn_many([0.5] * 3, [0, 1, 0], keys={"c": ["a", "b", "c"]})
    other.learn_many([0.5] * 3, [0, 1, 0], keys={"c": ["d", "a", "e"]})
    one.merge(other)
    assert one.levels("c") == ["d", "a", "e"]
    assert one.tally()["evicted"] == 3


def test_the_last_observation_of_a_level_is_taken_back():
    scores, keys, y = stream(600, seed=6)
    cal = learned(Segmented("platt", BY), scores, keys, y)
    before, effect = cal.state_dict(), cal.effect("campaign", "c1")
    cal.learn_one(0.4, True, keys={"campaign": "c1", "placement": 1})
    assert cal.effect("campaign", "c1")[0] > effect[0]
    cal.unlearn_one(0.4, True, keys={"campaign": "c1", "placement": 1})
    assert cal.n == 600.0
    assert cal.effect("campaign", "c1")[2] == effect[2]
    # τ² has moved by one of 8 levels' terms, and the weights of the members by one outcome.
    assert cal.effect("campaign", "c1")[0] == pytest.approx(effect[0], abs=1e-3)
    rows, was = (np.array(state["learned"]["fields"][0][3]) for state in (cal.state_dict(), before))
    order, old = (np.argsort(state["learned"]["fields"][0][2]) for state in (cal.state_dict(), before))
    lines = [*range(7, 12), *range(16, 21)]  # of variances 1 and ¼: exact but for rounding
    np.testing.assert_allclose(rows[order][:, lines], was[old][:, lines], rtol=1e-9, atol=1e-9)
    memories = [3, 4, 5, 6, 14, 15]  # full ones are given back what they had scaled down, but for τ²
    np.testing.assert_allclose(rows[order][:, memories], was[old][:, memories], rtol=1e-4)


def test_taking_everything_back_in_reverse_leaves_no_level():
    rows = list(rows_of(*stream(200, seed=9)))
    cal = Segmented("platt", BY)
    for score, key, y in rows:
        cal.learn_one(score, y, keys=key)
    for score, key, y in reversed(rows):
        cal.unlearn_one(score, y, keys=key)
        assert 0.0 < cal.predict_one(score, keys=key) < 1.0
    assert cal.levels("campaign") == cal.levels(BY[1]) == []
    assert cal.variance("campaign") == pytest.approx(0.02, abs=1e-15)
    Segmented.from_state(plain(cal))


def correct(cal, score, keys, y):
    """Learn the label of an observation that was learned as a negative."""
    cal.unlearn_one(score, False, keys=keys)
    cal.learn_one(score, y, keys=keys)


def test_labels_that_are_corrected():
    """Clicks that were learned as negatives, and are corrected 500 rows later: one of seven is late."""
    scores, keys, y = stream(6000, seed=10)
    late = y & (np.arange(len(y)) % 7 == 0)
    rows, truth, cal = list(rows_of(scores, keys, y)), Segmented("platt", BY), Segmented("platt", BY)
    for i, (score, key, label) in enumerate(rows):
        truth.learn_one(score, label, keys=key)
        cal.learn_one(score, label and not late[i], keys=key)
        if i >= 500 and late[i - 500]:
            correct(cal, *rows[i - 500])
    for i in np.flatnonzero(late[-500:]) + len(y) - 500:
        correct(cal, *rows[i])
    assert cal.n == truth.n
    for level in truth.levels("campaign"):
        _, sd, n = truth.effect("campaign", level)
        # Expansions at other means: less than what the data say of the level. Weights keep what they learned.
        offset, wanted = (one._chain.terms(0, level)[0][0] for one in (cal, truth))
        assert offset == pytest.approx(wanted, abs=sd)
        assert cal.effect("campaign", level)[2] == n


def test_retraction_of_most_in_another_order_is_survived():
    rows = list(rows_of(*stream(300, seed=10)))
    cal = Segmented("platt", BY)
    for score, key, y in rows:
        cal.learn_one(score, y, 3.0, keys=key)
    for score, key, y in rows[:250]:
        cal.unlearn_one(score, y, 3.0, keys=key)
        assert 0.0 < cal.predict_one(score, keys=key) < 1.0
    assert Segmented.from_state(plain(cal)).state_dict() == cal.state_dict()
    with pytest.raises(InputError):
        cal.unlearn_one(0.123456, True, keys={"campaign": "c1"})
    cal.unlearn_one(rows[250][0], rows[250][2], 3.0, keys={"campaign": "nowhere"})
    assert "nowhere" not in cal.levels("campaign")


# -- as a learner ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.sampled_from([4, 1000]), st.sampled_from(["ops", "isotonic", "auto"]))
def test_saved_in_mid_stream(cut, most, method):
    scores, keys, y = stream(310, seed=14)
    parts = [{name: column[part] for name, column in keys.items()} for part in (slice(cut), slice(cut, None))]
    whole = Segmented(method, BY, max_levels=most)
    expected = whole.predict_learn_many(scores, y, keys=keys)
    first = Segmented(method, BY, max_levels=most)
    before = first.predict_learn_many(scores[:cut], y[:cut], keys=parts[0])
    second = Segmented.from_state(plain(first))
    assert plain(second) == plain(first)
    after = second.predict_learn_many(scores[cut:], y[cut:], keys=parts[1])
    assert [*before, *after] == expected.tolist()
    assert second.state_dict() == whole.state_dict()


def test_copies_clones_and_files(tmp_path):
    cal = learned(Segmented(Platt(forgetting=Decay(100)), BY), *stream(100))
    for other in (copy.copy(cal), copy.deepcopy(cal), pickle.loads(pickle.dumps(cal))):
        assert other.state_dict() == cal.state_dict()
    assert cal.clone().n == 0.0
    assert cal.clone().same_parameters(cal)
    assert cal.clone().levels("campaign") == []
    fields = "by=('campaign', ('campaign', 'placement'))"
    expected = f"Segmented(calibrator='ops', {fields}, max_levels=100000, store=None, pairs=False)"
    assert repr(Segmented("ops", BY)) == expected
    streamcal.save(cal, tmp_path / "state.json")
    assert streamcal.load(tmp_path / "state.json").state_dict() == cal.state_dict()
    command = f"import streamcal; print(streamcal.load({str(tmp_path / 'state.json')!r}).n)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment, check=True)
    assert float(found.stdout) == cal.n


def test_the_calibrator_that_learns_is_a_clone():
    base = Platt()
    cal = learned(Segmented(base, BY), *stream(50))
    assert base.n == 0.0
    assert cal.overall.n == cal.n == 50.0
    assert cal.fields == ("campaign", "placement")
    assert (cal.has_interval, cal.bounded_memory) == (False, Platt().bounded_memory)


def damaged(state, seed):
    """Return the state with one value of its fields replaced, and a matching checksum."""
    rng = np.random.default_rng(seed)
    found = copy.deepcopy(state)
    values = [None, "x", -1, 0, 1e300, -1e300, 1e30, -0.5, 2**60, [], [1], {}, True, 1e9, -1e9]
    part = found["learned"]
    while True:
        keys = list(part) if isinstance(part, dict) else range(len(part))
        key = keys[rng.integers(len(keys))]
        if not isinstance(part[key], (dict, list)) or not part[key] or rng.random() < 0.1:
            part[key] = values[rng.integers(len(values))]
            return signed(found)
        part = part[key]


def test_damaged_states_are_refused_or_go_on():
    state = plain(learned(Segmented("platt", BY), *stream(60)))
    refused = 0
    for seed in range(60):
        try:
            cal = Segmented.from_state(damaged(state, seed))
        except StateError:
            refused += 1
            continue
        scores, keys, y = stream(40, seed)
        found = cal.predict_learn_many(scores, y, keys=keys)
        assert ((found >= 0.0) & (found <= 1.0)).all(), seed
        Segmented.from_state(plain(cal))
    assert 30 < refused < 60
    with pytest.raises(StateError, match="checksum"):
        Segmented.from_state({**state, "params": {**state["params"], "max_levels": 5}})


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (21, 0.1, "not in single precision"),
        (22, -0.5, "a level has no variance"),
        (22, 64.0, "not those of the levels"),
        (23, 0.1, "weights are not possible|not in single precision"),
    ],
)
def test_numbers_of_a_level_that_are_not_possible_say_why(column, value, message):
    state = plain(learned(Segmented("platt", BY), *stream(60)))
    state["learned"]["fields"][0][3][0][column] = value
    with pytest.raises(StateError, match=message):
        Segmented.from_state(signed(state))


def test_a_method_is_the_same_by_its_name_and_as_an_object(tmp_path):
    """A journal that `streamcal serve` wrote, of `Segmented(Auto(), …)`, is that of `Segmented("auto", …)`."""
    named, given = Segmented("platt", by=["a"]), Segmented(Platt(), by=["a"])
    assert named.same_parameters(given)
    assert not named.same_parameters(Segmented("ops", by=["a"]))
    assert not named.same_parameters(Segmented(Platt(resolution=64), by=["a"]))
    given.learn_one(0.3, True, keys={"a": 1})
    named.merge(given)
    assert named.n == 1.0
    with Journal(tmp_path / "journal") as journal:
        join = LabelJoin(Segmented("platt", by=["a"]), 60.0, journal=journal)
        join.issue("one", 0.3, 0.0, keys={"a": 1})
    with Journal(tmp_path / "journal") as journal:
        again = LabelJoin(Segmented(Platt(), by=["a"]), 60.0, journal=journal)
        assert again.waiting == 1
