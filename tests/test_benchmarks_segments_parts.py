"""The benchmark of `Segmented` in parts at its smallest."""

import numpy as np
import pytest

from benchmarks import segments, segments_parts
from streamcal.live import Segmented

STREAM = segments.simulated(0.05, 3_000, seed=0)


def learned(cal, part):
    one = Segmented.from_bytes(cal.to_bytes())
    keys = {name: levels[part] for name, levels in STREAM.fields.items()}
    one.learn_many(STREAM.scores[part], STREAM.y[part], keys=keys)
    return one


def test_one_part_alone_is_what_it_has_learned():
    before = learned(Segmented("identity", [*STREAM.fields]), slice(2_000))
    alone = learned(before, slice(2_000, 3_000))
    found = segments_parts.added(before, [alone])
    keys = {name: levels[:500] for name, levels in STREAM.fields.items()}
    # τ² is computed from all levels as they are now, and not from each as it was when it was last learned: it moves
    # means by thousandths
    np.testing.assert_allclose(
        found.predict_many(STREAM.scores[:500], keys=keys),
        alone.predict_many(STREAM.scores[:500], keys=keys),
        rtol=0.02,
    )
    for field in STREAM.fields:
        np.testing.assert_allclose(list(found.weights(field).values()), list(alone.weights(field).values()), rtol=1e-9)
    assert found.levels("campaign") == alone.levels("campaign")


def test_parts_hold_each_observation_once():
    before = learned(Segmented("identity", [*STREAM.fields]), slice(1_000))
    parts = [learned(before, slice(1_000, 2_000)), learned(before, slice(2_000, 3_000))]
    found = segments_parts.added(before, parts)
    whole = learned(before, slice(1_000, 3_000))
    for field in STREAM.fields:
        held = {one.level: one.n for one in whole.effects(field)}
        assert {one.level: one.n for one in found.effects(field)} == held


def test_batches_learned_in_order_are_one_stream():
    few = segments.Stream(*(part[:80] for part in STREAM[:2]), {k: v[:80] for k, v in STREAM.fields.items()})
    in_order = segments_parts.in_batches(few, few.scores, 1, 1)
    expected = segments.segmented(few, few.scores)
    assert in_order.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


def test_the_cost_of_a_row():
    assert "µs" in segments_parts.cost(rows=2_000, repeats=1)
