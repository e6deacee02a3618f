"""The invariants of statistics, memories and learners, in code: tests check them after every change."""

import math

import numpy as np

from streamcal.learners.additive import Additive
from streamcal.learners.learner import Learner
from streamcal.memories.decay import RESCALE_HALF_LIVES, _DecayingMemory
from streamcal.memories.memory import Memory
from streamcal.memories.refreshing import Refreshing
from streamcal.memories.windows import CountWindow, TimeWindow
from streamcal.metrics.cells import ProbabilityCells
from streamcal.statistics.base import Statistic
from streamcal.statistics.bernstein_moments import BernsteinMoments
from streamcal.statistics.chebyshev_moments import ChebyshevMoments
from streamcal.statistics.class_subproblems import NOBODY, ClassSubproblems
from streamcal.statistics.class_table import ClassTable
from streamcal.statistics.folded_trees import FoldedTrees
from streamcal.statistics.keyed import Keyed
from streamcal.statistics.label_moments import TOLERATED_BITS, LabelMoments
from streamcal.statistics.pits import PITs
from streamcal.statistics.retractions import RETRACTION_TOLERANCE
from streamcal.statistics.score_table import GridTable, ScoreTable
from streamcal.statistics.score_tree import ScoreTree
from streamcal.statistics.subproblems import Subproblems
from streamcal.statistics.tensor_moments import TensorMoments
from streamcal.statistics.totals import Totals
from streamcal.statistics.vector_table import VectorTable

#: Relative accuracy of the sums of up to a million observations, as a share of the largest total weight ever held.
ACCURACY = 1e-9
#: Class → what has to be true of its objects.
CHECKS = {}


def of(cls):
    """Return a decorator of the check of a class."""
    return lambda function: CHECKS.setdefault(cls, function)


def check(one):
    """Raise `AssertionError` if an invariant of an object's class, or of a base class, does not hold."""
    for cls in reversed(type(one).__mro__):
        if cls in CHECKS:
            CHECKS[cls](one)


@of(Learner)
def learner(one):
    check(one._engine)


@of(Additive)
def additive(one):
    check(one.memory)
    check(one._refreshing)


@of(_DecayingMemory)
def decaying_memory(one):
    assert one._half_life > 0.0
    assert one._halvings >= 0
    if not math.isinf(one._clock):
        assert one._clock >= one._landmark
        exponent = (one._clock - one._landmark) / one._half_life - one._halvings
        assert 0.0 <= exponent < RESCALE_HALF_LIVES, "the newest weighs from 1 to 2^RESCALE_HALF_LIVES"


@of(Memory)
def memory(one):
    check(one.statistic)
    assert one.statistic.count >= one._prior_count or type(one).forgets_prior
    assert one.missed >= 0
    assert one.late >= 0


@of(Refreshing)
def refreshing(one):
    assert 0 <= one._since < max(one._every, 1)
    assert one._every > 1 or one._basis is None


@of(CountWindow)
def count_window(one):
    held = [(place, entry) for place, entry in enumerate(one._buffer, one._first) if entry is not None]
    assert one._live == len(held) <= one._size
    assert len(one._buffer) <= 2 * one._size + 1, "gaps are closed"
    assert one.statistic.count == one._live + one._prior_count
    if one._places is not None:
        places = {}
        for place, entry in held:
            places.setdefault(entry, []).append(place)
        assert {entry: list(own) for entry, own in one._places.items()} == places


@of(TimeWindow)
def time_window(one):
    times = [entry[0] for entry in one._entries]
    assert times == sorted(times)
    assert not times or times[-1] <= one._clock
    assert one.statistic.count == sum(t > one._edge for t in times) + one._prior_count


@of(ProbabilityCells)
def probability_cells(one):
    rows = one._table.rows
    assert not rows[rows[:, 2] == 0.0].any(), "a cell without observations is zero"
    for place in np.flatnonzero(rows[:, 2]).tolist():
        low, high, count = rows[place, :3].tolist()
        assert count >= 1.0
        assert 0.0 <= low <= high <= 1.0
        assert place == one._table.row_of(low) == one._table.row_of(high)


@of(Statistic)
def statistic(one):
    assert one.unit == 1.0, "what is kept has the unit 1, only views have others"
    assert one.count >= 0
    assert one.n >= 0.0


@of(BernsteinMoments)
def bernstein_moments(one):
    moments_of_bernstein(*one.sums.state())


def moments_of_bernstein(moments, cross, weight, positive, count, peak):
    """Raise `AssertionError` unless these can be sums of functions that are not negative and sum to 1."""
    slack = ACCURACY * peak
    assert (moments >= -slack).all()
    assert abs(moments.sum() - weight) <= slack, "the basis is a partition of one"
    assert (cross >= -slack).all()
    assert abs(cross.sum() - positive) <= slack
    assert count > 0 or not moments.any()


@of(ChebyshevMoments)
def chebyshev_moments(one):
    assert (np.abs(one.moments) <= one.moments[0] + ACCURACY * one._peak).all(), "no polynomial is beyond ±1"
    assert one._count > 0 or not one.moments.any()


@of(ClassSubproblems)
def class_subproblems(one):
    assert all(size >= 1 and weight >= 0.0 for size, weight in one._named.values())
    assert {label for key in one._parts for label in key} <= {*one._named, NOBODY}


@of(ClassTable)
def class_table(one):
    assert one._count == sum(row[len(x[2])] for x, row in one._rows.items())
    assert one.limit is not None or one.depth is None
    for (texts, named, place), row in one._rows.items():
        size = len(place)
        assert len(texts) + len(named) == size
        assert len(row) == (size + 1 if one.depth is None else 2 * size + 1)
        assert row[size] >= 1, "a row without observations is dropped"
        assert min(row[:size]) >= 0.0


@of(FoldedTrees)
def folded_trees(one):
    check(one._whole)
    assert one._kernel.shares == one._number_of_shares()


@of(Keyed)
def keyed(one):
    assert all(part.unit == 1.0 for part in one._parts.values())
    for part in one._parts.values():
        check(part)


@of(LabelMoments)
def label_moments(one):
    one._settle()
    for (weight, first, second), count in zip(one._sums, one._counts, strict=True):
        assert count >= 0
        assert weight >= 0
        assert count > 0 or (weight, first, second) == (0, 0, 0), "a label without observations has no sums"
        # Up to rounding: a retraction under decay by time recomputes the weight that is left.
        assert (second * weight - first * first) << TOLERATED_BITS >= -second * weight, "the variance is not negative"


@of(PITs)
def pits(one):
    check(one.points)
    if one._order is not None:
        one._order.check()
        held = zip(one._order.to_arrays(), one.points.weights(), strict=True)
        assert all(np.array_equal(found, expected) for found, expected in held)
    assert one._count >= 0
    assert not one._cells[one._cells[:, 1] == 0.0].any(), "a cell without intervals has no weight"
    assert one.edges is not None or one._count == sum(row[1] for row in one._intervals.values())


@of(ScoreTable)
def score_table(one):
    assert one._count == sum(row[2] for row in one._rows.values())
    for weight, positive, count in one._rows.values():
        assert count >= 1, "a row without observations is dropped"
        assert 0.0 <= positive <= weight * (1.0 + RETRACTION_TOLERANCE)
        assert weight <= one._peak * (1.0 + RETRACTION_TOLERANCE)


@of(GridTable)
def grid_table(one):
    weight, positive, count, _, _ = one._cells.T
    assert one.sums.count == count.sum()
    assert not one._cells[count == 0.0].any(), "a cell without observations is zero"
    assert (positive >= 0.0).all()
    assert (positive <= weight * (1.0 + RETRACTION_TOLERANCE)).all()
    assert weight.max() <= one.sums.peak * (1.0 + RETRACTION_TOLERANCE)


@of(ScoreTree)
def score_tree(one):
    one._tree.check()


@of(Subproblems)
def subproblems(one):
    assert all(part.count >= 0 for part in one._parts.values())
    assert one._totals.count >= 0


@of(TensorMoments)
def tensor_moments(one):
    moments_of_bernstein(*one.sums.state(), one._count, one._peak)


@of(Totals)
def totals(one):
    assert 0 <= one._positive <= one._sum <= one._peak
    assert one._denominator & (one._denominator - 1) == 0, "a power of two"
    assert one._count > 0 or one._sum == 0


@of(VectorTable)
def vector_table(one):
    assert all(one.stored(x) == x for x in one._rows), "tuples are kept rounded"
