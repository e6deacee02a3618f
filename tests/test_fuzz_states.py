"""Damaged states and maps are refused, or are as good as any other: see `fuzz_states.py`, which tries more of them."""

from __future__ import annotations

import pytest
from fuzz_states import ABORT, LIVE, ROOMS, Report, fuzz, subjects


def assert_clean(report: Report) -> None:
    assert not report.failures, str(report)
    assert report.outcomes["refused"] > report.outcomes["read"] > 0, "damage is seen, and not everything is damage"


def test_every_learner_and_kind_of_map_is_damaged():
    found = subjects()
    assert {subject.room for subject in found} == {*ROOMS, *LIVE, "map"}
    assert len({subject.name for subject in found}) == len(found)


def test_some_damaged_states():
    """Of a third of the learners one each: in a plain `pytest` as many as take some seconds."""
    assert_clean(fuzz(80, seed=1))


@pytest.mark.full
def test_many_damaged_states():
    assert_clean(fuzz(2_000, seed=2))


@pytest.mark.full
def test_what_ends_the_process_is_named_and_the_rest_goes_on():
    name = "fusion:prequential-fusion/discount=0.875"
    report = fuzz(3, seed=ABORT, case=name)
    ended = [(name, seed) for name, seed, _ in report.failures]
    assert ended == [(name, ABORT)]
    assert report.outcomes["ended the process"] == 1
    assert sum(report.outcomes.values()) == 3
