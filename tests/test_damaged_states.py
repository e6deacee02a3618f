"""States that once ended the process, took gigabytes or made heap bytes a weight: each is refused now."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import streamcal
from streamcal import (
    Auto,
    Gaussian,
    HedgedOPS,
    HistogramBinning,
    Isotonic,
    LinearTrend,
    Platt,
    StateError,
    Temperature,
    TrackingOPS,
    VennAbers,
    Window,
    load_map,
)
from streamcal.fusion import LogisticFusion, PartialOrderVennAbers
from streamcal.kernels.mixture.hedging import Hedger
from streamcal.kernels.newton.online_softmax import OnlineSoftmax
from streamcal.kernels.tree.hull_tree import HullTree
from streamcal.multiclass import Dirichlet, MulticlassVennAbers, OnlineVectorScaling
from streamcal.regression import ConformalPredictive, Normal, QuantileRecalibration
from streamcal.states import checksum, numbers, signed

ROWS = [(0.1, 0), (0.35, 1), (0.35, 0), (0.6, 1), (0.9, 1)]


def after(cal: Any, rows: Any = ROWS) -> dict[str, Any]:
    """Return the state of a calibrator after some rows."""
    for row in rows:
        cal.learn_one(*row)
    return cal.state_dict()


def changed(state: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the state with another value at a path, and a matching checksum."""
    found = copy.deepcopy(state)
    *above, last = path.split(".")
    part = found
    for key in above:
        part = part[key]
    part[last] = value
    return signed(found)


def classes() -> dict[str, Any]:
    return after(OnlineVectorScaling(), [({"a": 0.7, "b": 0.3}, "a"), ({"a": 0.2, "b": 0.8}, "b")] * 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", [6, 100_000])
def test_more_labels_than_classes_were_learned(number):
    state = changed(classes(), "learned.labels", [f"label {k}" for k in range(number)])
    with pytest.raises(StateError, match=r"newton|numbers"):
        OnlineVectorScaling.from_state(state)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_lists_of_a_newton_step_of_odd_length(place):
    newton = classes()["learned"]["newton"]
    for shorter in (newton[place][:-1], [*newton[place], newton[place][-1]]):
        state = changed(classes(), "learned.newton", [*newton[:place], shorter, *newton[place + 1 :]])
        with pytest.raises(StateError):
            OnlineVectorScaling.from_state(state)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("mixture.guard", [50, 13.9, 13.9, 13.9, [[13.9 / 50, 50, 0]]]),  # a slot is missing
        ("mixture.guard", [50, 15.2, 15.2, 15.2, [[0.2, 1, 0], [0.3, 50, 0]]]),
        ("mixture.guard", [49, 13.9, 13.9, 13.9, [[13.9 / 50, 50, 0]]]),  # of another delay
        ("mixture.guard", [50, 13.9, 13.9, 13.9, [[13.9 / 51, 51, 1]]]),  # nothing is set aside for a surprise
        ("mixture.slots", 16),
        ("mixture.repeated", [[0.5, 0.0, 0.0, -1.0, 1.0]]),
        ("mixture.learned", [-1, 0.0, 0, False, 0, 0.0]),
    ],
)
def test_a_mixture_that_there_is_not(path, value):
    with pytest.raises(StateError):
        Auto.from_state(changed(after(Auto(delay=50)), f"learned.{path}", value))


@pytest.mark.parametrize("column", ["scores", "weight", "positive", "count"])
def test_a_tree_with_one_column_cut_short(column):
    tree = after(VennAbers())["learned"]["memory"]["statistic"]
    with pytest.raises(StateError, match="length"):
        VennAbers.from_state(changed(after(VennAbers()), f"learned.memory.statistic.{column}", tree[column][:1]))


def damages() -> Any:
    """(class, path, value) of fields that were believed."""
    statistic = "learned.memory.statistic"
    yield Gaussian(), f"{statistic}.units", [10**9, 0]
    yield Gaussian(), f"{statistic}.sums", [["0x1", "0x1", "0x1" + "0" * 10**6], ["0x0"] * 3]
    yield Gaussian(), f"{statistic}.counts", [0, 0]
    yield HistogramBinning(), f"{statistic}.used", [10**9, 1, 2, 3]
    yield HistogramBinning(), "params.resolution", 10**9
    yield HistogramBinning(), "params.bins", 10**9
    yield LinearTrend(resolution=None), f"{statistic}.rows", [[0.1, 0.0, 0.0, 0], [0.2, 1e300, 1.0, 1]]
    yield TrackingOPS(), "learned.weight", [0.0] * 10
    yield HedgedOPS(2), "learned.hedger", [[[1.0, 1.0], [1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]], 1]
    yield Platt(resolution=None, refresh_every=2), "learned.basis", [{"cells": "nobody reads this"}, 1.0]
    yield Isotonic(forgetting=Window(5)), "learned.memory.buffer", [[0.5, 1e100, 1.0]]
    yield Isotonic(forgetting=Window(5)), "learned.memory.buffer", [[7.0, 1.0, 1.0]]


def other_rooms() -> Any:
    """Yield (learner, rows, path, value), found by `tests/fuzz_states.py` among 140,000 damaged states."""
    pairs, normal = [((0.2, 0.4), True), ((0.7, 0.3), False)], [(Normal(0.0, 1.0), 0.5), (Normal(0.0, 2.0), 1.0)]
    three = [({"a": 0.5, "b": 0.25, "c": 0.25}, label) for label in "abc"]
    theta = [1e308, *LogisticFusion(2)._state()["regression"][0][1:]]
    yield LogisticFusion(2), pairs, "learned.regression", [theta, LogisticFusion(2)._state()["regression"][1]]
    _, sums, products = after(LogisticFusion(2), pairs)["learned"]["moments"]
    for moments in ([1e-100, sums, products], [4.0, [1e200, *sums[1:]], products], [4.0, [9.0, *sums[1:]], products]):
        yield LogisticFusion(2), pairs, "learned.moments", moments
    yield Dirichlet(), three, "params.off_diagonal", 10**400
    yield QuantileRecalibration(), normal, "params.smoothing", 10**400
    yield Temperature(), ROWS, "params.scale", {"setting": "Logit", "lo": -1e308, "hi": 16.0}
    yield PartialOrderVennAbers(), pairs, "params.n_scores", 1_000
    window = ConformalPredictive(forgetting=Window(5))
    yield window, normal, "learned.memory.buffer", [[0.5, 5e-324, 1.0], [0.5, 0.0, 1.0]]
    named = after(MulticlassVennAbers(), three)["learned"]["memory"]["statistic"]
    without = {name: value for name, value in named.items() if name != "named"}
    yield MulticlassVennAbers(), three, "learned.memory.statistic", without


@pytest.mark.parametrize(("cal", "rows", "path", "value"), list(other_rooms()), ids=lambda value: str(value)[:40])
def test_a_field_of_another_room_that_was_believed(cal, rows, path, value):
    state = after(cal, rows)
    with pytest.raises(StateError):
        type(cal).from_state(changed(state, path, value))


@pytest.mark.parametrize(("cal", "path", "value"), list(damages()), ids=lambda value: str(value)[:40])
def test_a_field_that_was_believed(cal, path, value):
    state = after(cal)
    with pytest.raises(StateError):
        type(cal).from_state(changed(state, path, value))


# -- kernels check lengths themselves ------------------------------------------------------------------------------


def test_kernels_refuse_arrays_of_other_lengths():
    two, one = np.array([0.1, 0.2]), np.ones(1)
    for columns in ((two, one, two, two), (two, two, one, two), (two, two, two, one)):
        with pytest.raises(ValueError, match="lengths differ"):
            HullTree().rebuild(columns[0], columns[1], columns[2], columns[3].astype(np.int64))
    with pytest.raises(ValueError, match="rise"):
        HullTree().rebuild(two[::-1], two, two, np.ones(2, dtype=np.int64))
    softmax = OnlineSoftmax(0.1, 100.0, 100.0, 1.0)
    two, ones, rows = [0.0, 0.0], [1.0, 1.0], [[], [0.0]]
    for parts in (
        ([0.0], [1.0], [[]], [0.0]),
        (two, [1.0], rows, [0.0]),
        (two, ones, [[], []], [0.0]),
        (two, ones, rows, two),
    ):
        with pytest.raises(ValueError, match="go with"):
            softmax.load(*parts, 1.0, [0.0, 0.0])
    softmax.add_class()
    for places, x, came in (([0], [0.1, 0.2], 0), ([3], [0.1], 0), ([0], [0.1], 1), ([-1], [0.1], 0)):
        with pytest.raises(ValueError, match="class"):
            softmax.step(places, x, came, 1.0)
    with pytest.raises(IndexError):
        Hedger(3, 0).learn(3, 1.0, 1.0)
    assert np.isnan(Hedger(3, 0).forecast(-1))


# -- checksum and version ------------------------------------------------------------------------------------------


def test_one_digit_that_was_changed_is_seen():
    """Such a state was accepted and predicted with a log loss of 4.5."""
    text = json.dumps(after(Platt()))
    digits = [k for k, character in enumerate(text) if character.isdigit()]
    for k in digits[:: max(len(digits) // 50, 1)]:
        other = f"{text[:k]}{(int(text[k]) + 1) % 10}{text[k + 1 :]}"
        try:
            state = json.loads(other)
        except ValueError:
            continue
        if state == json.loads(text):  # the seventeenth digit of a float may be another one
            continue
        with pytest.raises(StateError, match=r"checksum|version|plain"):
            Platt.from_state(state)


def test_a_checksum_is_of_values_and_not_of_their_text():
    state = after(Platt())
    again = json.loads(json.dumps(state, indent=3, sort_keys=True).replace(".0,", ","))
    assert Platt.from_state(again).predict_one(0.3) == Platt.from_state(state).predict_one(0.3)
    assert checksum(again) == state["check"]


def test_a_state_has_a_version_and_a_checksum():
    state = after(Platt())
    assert state["streamcal"] == 1
    without = {name: value for name, value in state.items() if name != "check"}
    for other in (without, {**state, "check": None}, {**state, "check": "0" * 16}, {**state, "streamcal": 2}):
        with pytest.raises(StateError, match=r"checksum|version"):
            Platt.from_state(other)
    for version in (0, 2, True, "1", None):
        with pytest.raises(StateError, match="version"):
            Platt.from_state({**state, "streamcal": version})


def test_parameters_that_a_state_lacks_are_not_made_up():
    state = after(Platt())
    for params in ({}, {**state["params"], "lam": 1.0}):
        with pytest.raises(StateError, match="parameters are not those"):
            Platt.from_state(signed({**state, "params": params}))


def test_a_damaged_file_says_so(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**after(Platt()), "learned": {}}))
    with pytest.raises(StateError, match=r"state\.json: the state does not match its checksum"):
        streamcal.load(path)


# -- maps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cuts", [0.5, 0.25]),
        ("cuts", []),
        ("values", [0.0, 0.5, 1.5]),
        ("values", [0.0, float("nan"), 1.0]),
        ("values", ["0", "0.5", "1"]),
        ("scale", {"kind": "interval", "lo": 1.0, "hi": 0.0}),
        ("scale", {"kind": "interval", "lo": {}, "hi": 0.0}),
        ("kind", ["steps"]),
    ],
)
def test_a_damaged_map_is_refused(name, value):
    map = {"streamcal_map": 1, "kind": "steps", "scale": {"kind": "probability"}}
    map |= {"cuts": [0.25, 0.5], "values": [0.0, 0.5, 1.0]}
    assert load_map(json.dumps(map))(0.3) == 0.5
    with pytest.raises(ValueError, match=r"map|known"):
        load_map(json.dumps({**map, name: value}))


# -- lists of numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ((None,), [*[1.0] * 5_000, "1" * 5_000]),
        ((None, 1), [*[[1.0]] * 5_000, ["1" * 5_000]]),
        ((None,), [*[[1.0]] * 5_000, ["1" * 5_000]]),
    ],
    ids=["text", "text in a row", "text in a row too many"],
)
def test_a_long_text_among_numbers_takes_no_memory(shape, value):
    """NumPy makes all entries as long as the longest: 5,000 of 5,000 characters are 100 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(StateError, match="not all entries of a list are numbers"):
            numbers(*shape)(value)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
