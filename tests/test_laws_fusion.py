"""What the methods of several scores obey besides the laws of `test_laws.py`: scores have names."""

import copy
import pickle

import numpy as np
import pytest
from laws import Observation, each, held, learned, size_of, through_json
from laws.fusion import CASES

from streamcal import Forever, InputError, MergeError


@each(CASES)
def test_before_anything_is_learned_it_is_the_mean_of_the_scores(case):
    cal = case.build()
    if not cal.has_interval:
        assert cal.predict_one((0.25, 0.75)) == cal.predict_many([[0.25, 0.75]])[0] == 0.5
    assert cal.n == 0.0


@each(CASES)
def test_scores_by_name_are_read_in_the_order_of_the_names(case):
    cal, twin = case.build(), case.build()
    for k in range(8):
        cal.learn_one({"b": k / 8, "a": 1.0 - k / 16}, k > 3, 1.0, 0.0)
        twin.learn_one((1.0 - k / 16, k / 8), k > 3, 1.0, 0.0)
    case.assert_same(cal, twin)
    copied = through_json(cal)
    for one in (cal, copied):
        before = held(one)
        assert one.predict_one({"a": 0.25, "b": 0.5}) == one.predict_one((0.25, 0.5))
        for call in (
            lambda one=one: one.predict_one({"a": 0.25, "c": 0.5}),
            lambda one=one: one.learn_one({"c": 0.1}, 1),
        ):
            with pytest.raises(InputError):
                call()
        assert held(one) == before


@each(CASES)
def test_a_map_can_be_handed_to_another_process(case):
    cal = learned(case.build(), [Observation((k / 8, k % 3 / 2), k > 3, 1.0, 0.0) for k in range(8)])
    found, places = cal.map(), case.places(cal)
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert twin.predict_many(places).tolist() == found.predict_many(places).tolist()


@each(case for case in CASES if case.adds)
def test_scores_of_other_names_do_not_merge(case):
    cal, other = case.build(), case.build()
    cal.learn_one({"a": 0.2, "b": 0.3}, 1, 1.0, 0.0)
    other.learn_one({"a": 0.2, "c": 0.3}, 1, 1.0, 0.0)
    before = held(cal)
    with pytest.raises(MergeError, match="named"):
        cal.merge(other)
    assert held(cal) == before


@each(CASES)
@pytest.mark.parametrize("scores", [{1: 0.2, 2: 0.3}, {"a": 0.2, 2: 0.3}, {None: 0.2, "a": 0.3}])
def test_names_are_texts(case, scores):  # JSON has no others: what was learned under 1 would come back under "1"
    cal = case.build()
    before = held(cal)
    for call in (lambda: cal.learn_one(scores, 1, 1.0, 0.0), lambda: cal.predict_one(scores)):
        with pytest.raises(InputError, match="texts"):
            call()
    assert held(cal) == before


@each(CASES)
def test_memory_is_bounded_where_claimed(case):
    if not case.build().bounded_memory:
        pytest.skip("grows")
    grid = {"resolution": 8} if "resolution" in case.build().params() else {}
    scores, y = np.random.default_rng(2).random((800, 2)), np.arange(800) % 2  # they reach every cell
    cal, sizes = case.make(**grid), []
    for part in (scores, scores[::-1] * 0.999):
        cal.learn_many(part, y, None, np.zeros(800))
        sizes.append(size_of(cal.state_dict()))
    if case.policy in ("decay", "time-decay"):  # how many cells have faded varies: none at all is the most
        full = case.method(**{**cal.params(), "forgetting": Forever()})
        full.learn_many(scores, y)
        assert max(sizes) <= size_of(full.state_dict()) + 8
    else:
        assert sizes[0] == sizes[1]
