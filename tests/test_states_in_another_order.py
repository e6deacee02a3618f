"""A state whose objects were written in another order, as a document of a database is, is the same state."""

import json
import math
from contextlib import suppress

import numpy as np
import pytest
from fuzz_states import content, room_of, stream_of, subjects
from live_rooms import LIVE

from streamcal.errors import CapabilityError


def is_full(subject):
    """Return whether only `-m full` tries it; `pytest` tries all that is live, and first variants in a window."""
    case = subject.case
    return subject.room not in LIVE and (case.policy not in (None, "window") or case.name.count("/") > 1)


LEARNERS = [
    pytest.param(one, id=one.name, marks=[pytest.mark.full] * is_full(one)) for one in subjects() if one.room != "map"
]


def reversed_objects(plain):
    """Return the same plain data, the names of every object from the last to the first."""
    if isinstance(plain, dict):
        return {name: reversed_objects(plain[name]) for name in reversed(plain)}
    return [*map(reversed_objects, plain)] if isinstance(plain, list) else plain


def numbers(found):
    """All numbers of some answers, sorted: e-values come in the order of their levels."""
    if isinstance(found, (dict, list)):
        return sorted(one for part in (found.values() if isinstance(found, dict) else found) for one in numbers(part))
    return [np.float64(math.nan if found is None else found).tobytes()]


@pytest.mark.sample(48)
@pytest.mark.parametrize("subject", LEARNERS)
def test_it_goes_on_as_in_its_own_order(subject):
    """To the last bit."""
    room, stream, learner = room_of(subject), stream_of(subject), type(subject.case.build())
    state, found = json.loads(content(subject)), []
    for other in (state, reversed_objects(state), json.loads(json.dumps(state, sort_keys=True))):
        one = room.apply_all(learner.from_state(other), stream["then"], subject.case.timed)
        answers = {}
        with suppress(CapabilityError):  # a monitor with a run length has no discoveries
            answers = room.answers(one, room.probes(subject.case.stream), None)
        found.append((numbers(answers), json.dumps(one.state_dict(), sort_keys=True)))
    assert found[0] == found[1] == found[2]
