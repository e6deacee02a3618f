"""What was saved in mid-stream and read again goes on as what was not: the same predictions to the last bit."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import json
from typing import Any

import numpy as np
import pytest
from golden.cases import ROOMS, Case
from golden.make import plain, read
from golden.streams import CALLS

from benchmarks.states_written import DECAYING, SUBJECTS, WEIGHTS, moved
from streamcal import REGISTRY, RetractionError

golden = functools.cache(read)

#: The recorded streams are given again, each time so much later.
LATER = 60.0
#: Operations before the state is saved, and after it is read.
BEFORE, AFTER = 45, 100


#: By what the weights of the recorded streams are multiplied: sums that are exact, and sums that round.
TIMES = {"whole": 1.0, "thirds": 1.0 / 3.0}


def is_full(case: Case, times: str) -> bool:
    """Return whether only `-m full` tries a case; `pytest` tries first variants in a window and under decay."""
    tried = {None: "thirds", "window": "thirds", "time-decay": "whole"}
    return tried.get(case.policy) != times or case.name.count("/") > 1


CASES = [
    pytest.param(room, case, value, id=f"{room}-{case.name}-{name}", marks=[pytest.mark.full] * is_full(case, name))
    for room, (_, cases) in ROOMS.items()
    for case in cases
    for name, value in TIMES.items()
]


def changed(operation: list[Any], times: float, later: float) -> list[Any]:
    """Return the operation with other weights, and its observations `later` later."""
    verb, *given = operation
    if verb == "predict":
        return operation
    rows = given[0] if verb in ("many", "merge") else [given]
    rows = [[x, y, w * times, t + later] for x, y, w, t in rows]
    return [verb, rows] if verb in ("many", "merge") else [verb, *rows[0]]


def apply(room: str, case: Case, cal: Any, operation: list[Any]) -> None:
    with contextlib.suppress(RetractionError):  # of what was unlearned already; both refuse it
        CALLS[room].apply(cal, operation, case.timed)


def bits(found: Any) -> bytes:
    """All numbers of some answers."""
    if isinstance(found, (dict, list)):
        return b"".join(map(bits, found.values() if isinstance(found, dict) else found))
    return np.float64(found).tobytes()


@pytest.mark.sample(120)
@pytest.mark.parametrize(("room", "case", "times"), CASES)
def test_what_was_saved_goes_on_to_the_last_bit(room: str, case: Case, times: float) -> None:
    """Also where sums of thirds have rounding errors, and where a solver starts from the map before."""
    stream, probes = golden(room)["streams"][case.stream], golden(room)["probes"][case.stream]
    once = stream["first"] + stream["then"]
    operations = (changed(one, times, again * LATER) for again in itertools.count() for one in once)
    live, twin = case.build(), None
    for step, operation in enumerate(itertools.islice(operations, BEFORE + AFTER)):
        apply(room, case, live, operation)
        if step == BEFORE:
            before = plain(live.state_dict())
            twin = type(live).from_state(json.loads(json.dumps(before)))
            assert plain(live.state_dict()) == before == plain(twin.state_dict())
        elif twin is not None:
            apply(room, case, twin, operation)
        if step % 4 == 0 or step == BEFORE:  # a solve depends on the solve before
            # Copies answer: `Auto` logs the forecasts that it is asked for, which are no part of its state.
            found = CALLS[room].answers(copy.deepcopy(live), probes, None)
            if twin is not None:
                assert bits(CALLS[room].answers(copy.deepcopy(twin), probes, None)) == bits(found), (
                    f"{step - BEFORE} steps later"
                )
    assert twin is not None
    assert plain(twin.state_dict()) == plain(live.state_dict())


@pytest.mark.parametrize("name", ["centered-isotonic", "smooth-isotonic"])
def test_centres_of_blocks_go_on_to_the_last_bit(name: str) -> None:
    """Their sums round with whole weights too, in an order that depends on the shape of the tree."""
    rng, live = np.random.default_rng(5), REGISTRY[name]()
    scores, labels = rng.random(2_000), rng.random(2_000)
    for score, label in zip(scores[:1_500].tolist(), labels[:1_500].tolist(), strict=True):
        live.learn_one(score, label < score)
    twin = type(live).from_bytes(live.to_bytes())
    for score, label in zip(scores[1_500:].tolist(), labels[1_500:].tolist(), strict=True):
        assert twin.predict_one(score) == live.predict_one(score)
        twin.learn_one(score, label < score)
        live.learn_one(score, label < score)


@pytest.mark.parametrize("name", ["bernstein", "platt", "bernstein-logistic"])
def test_a_state_has_the_same_bytes_before_and_after_a_prediction(name: str) -> None:
    scores = np.random.default_rng(6).random(500)
    silent, asked = REGISTRY[name](), REGISTRY[name]()
    for one in (silent, asked):
        one.learn_many(scores, np.sin(30.0 * scores) < scores)
    asked.predict_one(0.3)
    assert asked.to_bytes() == silent.to_bytes()


#: What has an exact tree of scores, which is built anew where it is written, unless all weights are whole numbers.
TREES = ["isotonic", "venn-abers", "cross-venn-abers", "auto"]
#: As docs/states_measured.md has it: of trees, and of methods that solve from a start.
LITTLE, SOLVED = 1e-14, 1e-12


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("weights", ["1", "quarters"])
def test_writing_a_state_changes_no_later_forecast_where_sums_are_exact(name: str, weights: str) -> None:
    assert moved(SUBJECTS[name], WEIGHTS[weights], seed=0, rows=600) == 0.0


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "weights", "within"),
    [
        *((name, "tenths", LITTLE) for name in TREES),
        (DECAYING, "1", LITTLE),
        ("platt", "1", LITTLE),
        ("bernstein-logistic", "1", SOLVED),
    ],
)
def test_writing_a_state_changes_later_forecasts_by_little_elsewhere(name: str, weights: str, within: float) -> None:
    assert moved(SUBJECTS[name], WEIGHTS[weights], seed=0, rows=600) <= within
