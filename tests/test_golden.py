"""What every learner did when its golden case was recorded, it still does: see `tests/golden/make.py`.

Two things are shown for each case. A saved state is read, says what it said, and goes on as it went on; and the stream
that led to it, given to a new learner, leads there again.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.cases import CLOSED, ROOMS, Case
from golden.make import plain, read
from golden.streams import CALLS
from laws import trying

from streamcal import load_map
from streamcal.states import CHECK

#: The cases of a method are tried in one test: one of the 1,200 takes as long as pytest takes for a test. A plain
#: `pytest` tries every eighth, from another one in each method, so that all policies and variants are among them.
METHODS: dict[tuple[str, str], list[Case]] = {}
for _room, (_, _cases) in ROOMS.items():
    for _case in _cases:
        METHODS.setdefault((_room, _case.name.split("/")[0]), []).append(_case)


def _parts() -> Iterator[Any]:
    for number, (key, cases) in enumerate(METHODS.items()):
        tried = cases[min(number % 8, len(cases) - 1) :: 8]
        yield pytest.param(key[0], tried, id="-".join(key))
        others = [case for case in cases if case not in tried]
        yield pytest.param(key[0], others, id="-".join((*key, "others")), marks=pytest.mark.full)


each = pytest.mark.parametrize(("room", "cases"), list(_parts()))

#: Replayed states hold sums of a hundred terms, and of sequential methods parameters after a hundred steps: where the
#: logarithms of two machines differ in the last place, 1e-16, no step magnifies that a thousand millionfold.
REPLAYED = 1e-7
#: An outcome at a level of a calibrated distribution moves by the error of the cdf over its slope, 1e-3 and more here.
OVER_SLOPE = 1e3
MISSING = "has no golden case: run `python tests/golden/make.py`, which adds missing cases and rewrites no recorded one"

golden = functools.cache(read)


def recorded(room: str, case: Case) -> dict[str, Any]:
    found: dict[str, Any] | None = golden(room)["cases"].get(case.name)
    return found or pytest.fail(f"{room} {case.name} {MISSING}", pytrace=False)


def answers(room: str, case: Case, cal: Any) -> dict[str, Any]:
    """Return the predictions of a copy: `Auto` logs the forecasts that it makes, which are no part of its state."""
    file = golden(room)
    later = file["streams"][case.stream]["later"] if case.timed else None
    return plain(CALLS[room].answers(copy.deepcopy(cal), file["probes"][case.stream], later))


def assert_answers(found: dict[str, Any], expected: dict[str, Any], within: float) -> None:
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        assert_close(found[name], numbers, within * (OVER_SLOPE if name == "ppf" else 1.0), name)


def assert_close(found: Any, expected: Any, within: float, where: str) -> None:
    """Assert that lists of numbers of equal shapes are close."""
    assert type(found) is type(expected), where
    if isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, within, f"{where}[{k}]")
    else:  # without `approx`, which takes most of the time of a hundred thousand numbers
        assert found == expected or abs(found - expected) <= within, f"{where}: {found} is not {expected}"


def assert_same_structure(found: Any, expected: Any, where: str = "state") -> None:
    """Equal keys, lengths, types, texts and whole numbers, and floats and exact sums within `REPLAYED`."""
    assert type(found) is type(expected), where
    if isinstance(expected, dict):
        found, expected = with_ratios(found), with_ratios(expected)
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same_structure(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same_structure(one, other, f"{where}[{k}]")
    elif isinstance(expected, float):
        within = REPLAYED * max(abs(expected), 1.0)
        assert found == expected or abs(found - expected) <= within, f"{where}: {found} is not {expected}"
    elif isinstance(expected, str) and expected.lstrip("-").startswith("0x"):
        assert int(found, 16) == pytest.approx(int(expected, 16), rel=REPLAYED), where
    else:
        assert found == expected, where


def with_ratios(state: dict[str, Any]) -> dict[str, Any]:
    """Divide the integers of `Totals` by their denominator, which the last place of a decayed weight may double."""
    if state.keys() != {"integers", "count"}:
        return state
    *numerators, denominator = (int(one, 16) for one in state["integers"])
    return {**state, "integers": [one / denominator for one in numerators]}


def unsigned(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without its checksum, since other machines round its numbers otherwise."""
    return {name: plain(value) for name, value in state.items() if name != CHECK}


@pytest.mark.parametrize("room", ROOMS)
def test_every_method_has_golden_cases(room: str) -> None:
    """Try a new method under the policies and in the variants that its signature offers.

    This holds in the rooms of one score and of several; for the other two, `golden/cases.py` has to state how it is
    built.
    """
    methods, cases = ROOMS[room]
    made = golden(room)["cases"]
    classes = {content["state"]["class"] for content in made.values()}
    without = [name for name, method in methods.items() if method.__name__ not in classes]
    assert not without, f"of {room}, {without} {MISSING}"
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert sorted(set(names) - set(made)) == [], MISSING
    assert sorted(set(made) - set(names)) == [], "a recorded case is not built"


@each
def test_a_recorded_state_is_read_and_goes_on(room: str, cases: list[Case]) -> None:
    """Reading computes nothing, so that what was read is written as it was, to the last bit."""
    for case in cases:
        with trying(case.name):
            assert_read_and_goes_on(room, case)


def assert_read_and_goes_on(room: str, case: Case) -> None:
    expected = recorded(room, case)
    cal = type(case.build()).from_state(expected["state"])
    assert cal.same_parameters(case.build())
    assert plain(cal.state_dict()) == expected["state"]
    assert cal.n == pytest.approx(expected["n"], rel=CLOSED, abs=CLOSED)
    assert cal.tally() == expected["tally"]
    assert_answers(answers(room, case, cal), expected["answers"], case.within)
    CALLS[room].apply_all(cal, golden(room)["streams"][case.stream]["then"], case.timed)
    assert cal.n == pytest.approx(expected["then"]["n"], rel=CLOSED, abs=CLOSED)
    assert cal.tally() == expected["then"]["tally"]
    assert_answers(answers(room, case, cal), expected["then"]["answers"], case.within)


@each
def test_a_recorded_stream_leads_to_the_recorded_state(room: str, cases: list[Case]) -> None:
    for case in cases:
        with trying(case.name):
            assert_leads_there(room, case)


def assert_leads_there(room: str, case: Case) -> None:
    expected = recorded(room, case)
    cal = CALLS[room].apply_all(case.build(), golden(room)["streams"][case.stream]["first"], case.timed)
    assert_same_structure(unsigned(cal.state_dict()), unsigned(expected["state"]))
    assert cal.n == pytest.approx(expected["n"], rel=CLOSED, abs=CLOSED)
    assert cal.tally() == expected["tally"]
    assert_answers(answers(room, case, cal), expected["answers"], case.within)


MAPS = [
    (case, content["map"])
    for case in ROOMS["binary"][1]
    if "map" in (content := golden("binary")["cases"].get(case.name, {}))
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", sorted({case.name.split("/")[0] for case, _ in MAPS}))
def test_a_recorded_map_is_read_and_written(method: str) -> None:
    """The map as it was written, and that of the recorded state as it is written today."""
    for case, expected in MAPS:
        if case.name.split("/")[0] == method:
            with trying(case.name):
                assert_read_and_written(case, expected)


def assert_read_and_written(case: Case, expected: dict[str, Any]) -> None:
    probes = golden("binary")["probes"][case.stream]
    np.testing.assert_allclose(
        load_map(json.dumps(expected["json"])).predict_many(probes), expected["answers"], rtol=0.0, atol=CLOSED
    )
    found = type(case.build()).from_state(recorded("binary", case)["state"]).map()
    written = found.to_json()
    assert json.loads(written).keys() == expected["json"].keys()
    assert json.loads(written)["kind"] == expected["json"]["kind"]
    assert json.loads(written)["scale"] == expected["json"]["scale"]
    np.testing.assert_allclose(load_map(written).predict_many(probes), expected["answers"], rtol=0.0, atol=case.within)
    np.testing.assert_allclose(found.predict_many(probes), expected["answers"], rtol=0.0, atol=case.within)


def test_every_kind_of_map_is_recorded() -> None:
    """Those of `docs/map_format.md`; a new kind needs a case whose map is short enough (`golden.make.LONGEST_MAP`)."""
    page = (Path(__file__).parents[1] / "docs" / "map_format.md").read_text(encoding="utf-8")
    table = page.split("| `kind` | fields |")[1].split("\n\n")[0]
    kinds = set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))
    assert {expected["json"]["kind"] for _, expected in MAPS} == kinds
