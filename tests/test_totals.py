"""`Totals` against fractions: what is held is known to the last bit, whatever came and went."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import RetractionError
from streamcal.statistics.totals import KEPT_BITS, Totals

weights = st.one_of(st.sampled_from([1.0, 0.1, 2.5, 1e-60, 1e60]), st.floats(1e-60, 1e60))
outcomes = st.tuples(st.sampled_from([0.0, 1.0, 0.25]), weights)


def totals(held):
    one = Totals()
    for y, w in held:
        one.update(0.5, y, w)
    return one


@given(data=st.data(), stream=st.lists(outcomes, max_size=12))
def test_what_is_held_is_the_sum_rounded_once(data, stream):
    """One by one, in bulk, merged, written down, and after everything else was taken back."""
    cut = data.draw(st.integers(0, len(stream)))
    kept, extra = stream[:cut], stream[cut:]
    one, bulk, parts = totals(data.draw(st.permutations(stream))), Totals(), totals(extra)
    y, w = (np.array([o[place] for o in stream]) for place in (0, 1))
    bulk.update_many(y, y, w)
    parts.merge(totals(kept))
    expected = sum((Fraction(w) for _, w in stream), Fraction(0))
    assert one.n == bulk.n == parts.n == float(expected)
    assert one.count == bulk.count == parts.count == len(stream)
    again = Totals()
    again.restore(one.state())
    assert again.state() == one.state() == bulk.state()
    for observation in extra:
        again.unlearn(0.5, *observation)
    assert again.n == float(sum((Fraction(w) for _, w in kept), Fraction(0)))


def test_what_was_never_given_is_not_given_back():
    one = totals([(1.0, 2.0), (0.0, 3.0)])
    before = one.state()
    for y, w in ((1.0, 3.0), (0.0, 4.0), (1.0, 6.0)):
        with pytest.raises(RetractionError):
            one.unlearn(0.5, y, w)
    with pytest.raises(RetractionError):
        Totals().unlearn(0.5, 1.0, 1.0)
    assert one.state() == before
    one.unlearn(0.5, 1.0, 2.0)
    with pytest.raises(RetractionError, match="held"):
        one.unlearn(0.5, 0.0, 2.0)  # the last one must be all there is


@pytest.mark.parametrize("factor", [2.0**-16, 0.1, 3.0])
def test_decay_multiplies_and_integers_stay_short(factor):
    one = Totals()
    for step in range(1, 400):
        one.update(0.5, 1.0, 1.0)
        one.decay(factor)
        expected = math.fsum(factor**k for k in range(1, step + 1))
        # 2^-1200 is dropped, which no float sees; `factor**k` and the sum of them round.
        assert one.n == pytest.approx(expected, rel=1e-13)
    assert max(int(text, 16).bit_length() for text in one.state()["integers"]) <= KEPT_BITS + 700
