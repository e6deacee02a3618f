"""`PITs`: the probability integral transforms of outcomes, those of atoms as intervals, as a single statistic."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr, ndtr

from streamcal.errors import RetractionError
from streamcal.kernels.tree.hull_tree import LIGHTEST
from streamcal.kernels.tree.rank_tree import RankTree
from streamcal.parameters.scales import Interval, Probability
from streamcal.parameters.types import FloatArray
from streamcal.states import (
    HEAVIEST,
    MOST,
    ROUNDING,
    Field,
    ensure,
    in_columns,
    number,
    numbers,
    read_fields,
    whole,
    write_fields,
)
from streamcal.statistics.base import Statistic
from streamcal.statistics.retractions import RETRACTION_TOLERANCE, never_learned, require_learned
from streamcal.statistics.score_tree import ScoreTree

#: Normal scores are kept within this; outcomes further out are alike.
FURTHEST = 1e6
#: Intervals whose shares are computed at once: a few megabytes for thousands of places.
AT_ONCE = 256


def shares_below(low: FloatArray, high: FloatArray, at: FloatArray, normal: bool) -> FloatArray:
    """Return the share of each interval (low, high] at or below each place, shape (intervals, places).

    Levels are uniform in an interval. With `normal`, ends and places are normal scores, and the shares are accurate
    however far out they are.
    """
    low, high = low[:, np.newaxis], high[:, np.newaxis]
    if not normal:
        return np.clip((at - low) / (high - low), 0.0, 1.0)
    at = np.clip(at, low, high)
    upper = low >= 0.0  # masses of the upper tail, since those of the lower one are all near 1
    across = ~upper & (high > 0.0)
    # Of an interval within a tail, masses relative to that of its end near the middle.
    near, far, place = np.where(upper, -low, high), np.where(upper, -high, low), np.where(upper, -at, at)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = -np.expm1(log_ndtr(place) - log_ndtr(near)) / -np.expm1(log_ndtr(far) - log_ndtr(near))
        inside = np.where(upper, beyond, 1.0 - beyond)
        inside = np.where(across, (ndtr(at) - ndtr(low)) / (ndtr(high) - ndtr(low)), inside)
    return np.clip(inside, 0.0, 1.0)


class SortedWeights:
    """Scores in order with their weights: a `RankTree` as arrays."""

    def __init__(self, x: FloatArray, weight: FloatArray) -> None:
        self._x, self._weight = x, weight
        self._upto = np.concatenate(([0.0], np.cumsum(weight)))
        self._after = np.concatenate((np.cumsum(weight[::-1])[::-1], [0.0]))

    @property
    def total(self) -> float:
        """The weight of all scores."""
        return float(self._upto[-1])

    def around(self, x: float) -> tuple[float, ...]:
        """Return what `RankTree.around` returns."""
        place = int(np.searchsorted(self._x, x, side="right"))
        low = (self._x[place - 1], self._weight[place - 1]) if place else (np.nan, 0.0)
        high = (self._x[place], self._weight[place]) if place < len(self._x) else (np.nan, 0.0)
        return tuple(map(float, (*low, self._upto[place], *high, self._after[place])))

    def reaching(self, weight: float) -> float:
        """Return what `RankTree.reaching` returns."""
        place = int(np.searchsorted(self._upto[1:], weight))
        return float(self._x[min(place, len(self._x) - 1)]) if len(self._x) else np.nan

    def to_arrays(self) -> tuple[FloatArray, FloatArray]:
        """Return the scores, ascending, and their weights."""
        return self._x, self._weight


class PITs(Statistic):
    """Weights of PITs: points in a `ScoreTree`, and intervals over which an observation is spread uniformly.

    In an observation (x, y, w), x is the PIT, or its normal score, and y is 0; or, where the outcome is an atom of its
    distribution, x is the upper end of the interval of levels that the atom takes up, and y > 0 its width.

    `edges` are the inner edges of cells, ascending, to whose upper ends points have been rounded. Intervals are then
    kept as their weight in each cell, in fixed memory; with None each distinct interval is kept. Cost: a point O(log k)
    for k distinct ones, an interval O(1), or O(M) with cells. Without intervals the state is that of the tree.
    """

    def __init__(self, edges: FloatArray | None, normal: bool) -> None:
        self.edges = edges
        self.normal = normal
        self.bounded = edges is not None
        self.scale = Interval(-FURTHEST, FURTHEST) if normal else Probability()
        self.points = ScoreTree(scale=self.scale)
        cells = 0 if edges is None else len(edges) + 1
        #: Weight and number of intervals in each cell; a cell without intervals has no weight.
        self._cells = np.zeros((cells, 2))
        #: Without cells: (x, y) → weight and number of an interval.
        self._intervals: dict[tuple[float, float], list[float]] = {}
        self._count = 0
        self._weight = 0.0
        self._peak = 0.0
        #: The points in an immutable tree, made when it is first asked for and then kept up with them; None before.
        self._order: RankTree | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def n(self) -> float:
        return (self.points.n + self._weight) / self.unit

    @property
    def count(self) -> int:
        return self.points.count + self._count

    @property
    def drifts(self) -> bool:
        return self.points.drifts or self._count > 0

    @property
    def has_intervals(self) -> bool:
        """Whether an interval is held."""
        return self._count > 0

    def order(self) -> RankTree | SortedWeights:
        """Return the points in order, immutable: a tree, in O(k) at first and then O(1).

        Under decay and with weights that are not whole, sums would depend on the shape of a tree: the result is an
        array, in O(k).
        """
        if self.unit != 1.0 or self.points.drifts:
            return SortedWeights(*self.weights())
        if self._order is None:
            self._order = RankTree(*self.points.weights())
        return self._order

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the points held, ascending, and their weights. O(k)."""
        x, weight = self.points.weights()
        return x, weight / self.unit

    def ends(self) -> FloatArray:
        """Return the ends of the distinct intervals, in any order; empty with cells."""
        x, y, _ = self._columns()
        return np.concatenate((x - y, x))

    def interval_weight_below(self, at: FloatArray) -> FloatArray:
        """Return the weight of intervals at or below each place; with cells, places are edges.

        O(intervals · places).
        """
        if self.edges is not None:
            below = np.concatenate((np.cumsum(self._cells[:, 0]), [self._weight]))
            return below[np.searchsorted(self.edges, at, side="left")] / self.unit
        x, y, weight = self._columns()
        below = np.zeros(len(at))
        for start in range(0, len(x), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            below += weight[part] @ shares_below(x[part] - y[part], x[part], at, self.normal)
        return below / self.unit

    def interval_weight(self) -> float:
        """Return the weight of all intervals."""
        return self._weight / self.unit

    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = np.array([[x, y, row[0]] for (x, y), row in self._intervals.items()]).reshape(-1, 3)
        return rows[:, 0], rows[:, 1], rows[:, 2]

    def _shares(self, x: float, y: float) -> FloatArray:
        """Return the share of an interval in each cell."""
        assert self.edges is not None
        below = shares_below(np.array([x - y]), np.array([x]), self.edges, self.normal)[0]
        return np.diff(below, prepend=0.0, append=1.0)

    # -- changing ------------------------------------------------------------------------------------------------

    def update(self, x: float, y: float, w: float) -> None:
        if y == 0.0:
            self.points.update(x, 0.0, w)
            if self._order is not None:
                self._order = None if self.points.drifts else self._order.changed(x, w)
            return
        if self.edges is None:
            row = self._intervals.setdefault((x, y), [0.0, 0.0])
            row[0] += w
            row[1] += 1.0
        else:
            share = self._shares(x, y)
            self._cells[:, 0] += w * share
            self._cells[:, 1] += share > 0.0
        self._count += 1
        self._weight += w
        self._peak = max(self._peak, self._weight)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        point = y == 0.0
        self._order = None
        self.points.update_many(x[point], y[point], w[point])
        for one in zip(x[~point].tolist(), y[~point].tolist(), w[~point].tolist(), strict=True):
            self.update(*one)

    def require(self, x: Any, y: float, w: float) -> None:
        if y == 0.0:
            self.points.require(x, y, w)
        elif self.edges is None:
            row = self._intervals.get((x, y), [0.0, 0.0])
            require_learned((row[0], 0.0, int(row[1])), x, 0.0, w, self._peak)
        else:
            share = self._shares(x, y)
            covered = share > 0.0
            short = self._cells[covered, 0] < w * share[covered] - RETRACTION_TOLERANCE * self._peak
            if not self._count or short.any() or (self._cells[covered, 1] < 1.0).any():
                raise RetractionError(never_learned(x, y, w))

    def unlearn(self, x: Any, y: float, w: float) -> None:
        if y == 0.0:
            self.points.unlearn(x, y, w)
            if self._order is not None:
                self._order = None if self.points.drifts else self._order.changed(x, -w)
            return
        self.require(x, y, w)
        if self.edges is None:
            row = self._intervals[(x, y)]
            row[0], row[1] = max(row[0] - w, 0.0), row[1] - 1.0
            if not row[1]:
                del self._intervals[(x, y)]
        else:
            share = self._shares(x, y)
            self._cells[:, 1] -= share > 0.0
            rest = np.maximum(self._cells[:, 0] - w * share, 0.0)
            self._cells[:, 0] = np.where(self._cells[:, 1] > 0.0, rest, 0.0)
        self._count -= 1
        self._sum_up()

    def merge(self, other: Self) -> None:
        self._order = None
        self.points.merge(other.points)
        self._cells = self._cells + other._cells
        for key, (weight, count) in list(other._intervals.items()):
            row = self._intervals.setdefault(key, [0.0, 0.0])
            row[0] += weight
            row[1] += count
        self._count += other._count
        self._sum_up()
        self._peak = max(self._peak, other._peak, self._weight)

    def decay(self, factor: float) -> None:
        self._order = None
        self.points.decay(factor)
        self._cells[:, 0] *= factor
        for row in self._intervals.values():
            row[0] *= factor
        self._peak *= factor
        self._sum_up()
        self._drop_below(LIGHTEST)

    def prune(self, fraction: float) -> None:
        self._order = None
        self.points.prune(fraction)
        self._drop_below(fraction * self._weight / max(len(self._intervals), 1))

    def empty(self) -> Self:
        return type(self)(self.edges, self.normal)

    def _sum_up(self) -> None:
        rows = self._cells[:, 0].tolist() if self.edges is not None else [row[0] for row in self._intervals.values()]
        self._weight = sum(rows) if self._count else 0.0

    def _drop_below(self, threshold: float) -> None:
        """Drop the intervals with less weight; all of them where cells keep them together."""
        if self.edges is not None and 0.0 < self._weight < threshold:
            self._cells[:] = 0.0
            self._count = 0
        for key in [key for key, row in self._intervals.items() if row[0] < threshold]:
            self._count -= int(self._intervals.pop(key)[1])
        self._sum_up()

    # -- state ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        self.points._settle()

    def fields(self) -> dict[str, Field]:
        spread = {
            "rows": Field(numbers(None, 4), lambda: in_columns([[*x, *row] for x, row in self._intervals.items()])),
            "cells": Field(numbers(len(self._cells), 2, least=0.0), self._cells.copy),
            "count": Field(whole(least=1), lambda: self._count),
            "weight": Field(number(0.0, HEAVIEST), lambda: self._weight),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
        }
        read = partial(read_fields, spread)
        written = Field(read, lambda: write_fields(spread) if self._count else None, optional=True)
        return {**self.points.fields(), "spread": written}

    def _load(self, *, spread: dict[str, Any] | None, **points: Any) -> None:
        fresh = self.empty()
        fresh.points._load(**points)
        fresh._require_at_edges(fresh.points.weights()[0])
        if spread is not None:
            fresh._load_spread(**spread)
        self.points, self._cells, self._intervals, self._order = fresh.points, fresh._cells, fresh._intervals, None
        self._count, self._weight, self._peak = fresh._count, fresh._weight, fresh._peak

    def _load_spread(self, rows: FloatArray, cells: FloatArray, count: int, weight: float, peak: float) -> None:
        """Load the intervals into an empty statistic."""
        masses = rows[:, 2:] if self.edges is None else cells
        ensure(self.edges is None or not len(rows), "there are intervals beside the cells")
        ensure((masses[:, 1] == np.floor(masses[:, 1])).all() and masses[:, 1].sum() <= MOST, "a count is not possible")
        ensure(not masses[masses[:, 1] == 0.0].any(), "there is weight and no interval")
        # A share of an interval in a cell may be as small as a float.
        ensure(((masses[:, 0] >= 0.0) & (masses[:, 0] <= peak * (1.0 + ROUNDING))).all(), "a weight is not possible")
        if self.edges is None:
            self.require_possible(rows[:, 0], rows[:, 1])
            ensure((rows[:, 1] > 0.0).all() and rows[:, 3].sum() == count, "the intervals are not possible")
        else:
            ensure(cells[:, 1].max(initial=0.0) <= count <= cells[:, 1].sum(), "the counts do not add up")
        slack = RETRACTION_TOLERANCE * peak * len(masses)
        ensure(abs(masses[:, 0].sum() - weight) <= slack, "the weights do not add up")
        self._cells = cells
        self._intervals = {(x, y): [one, number] for x, y, one, number in rows.tolist()}
        ensure(len(self._intervals) == len(rows), "an interval is there twice")
        self._count, self._weight, self._peak = count, weight, peak

    def require_possible(self, x: Any, y: FloatArray) -> None:
        self._require_coordinates(x, self.scale)
        least = -FURTHEST if self.normal else 0.0
        # of the lower end of an interval, the width of which is rounded
        ensure(((y >= 0.0) & (x - y >= least - RETRACTION_TOLERANCE)).all(), "an interval is not possible")
        ensure(((y == 0.0) | (x - y < x)).all(), "an interval has no width")
        self._require_at_edges(x[y == 0.0])

    def _require_at_edges(self, x: FloatArray) -> None:
        """Raise `StateError` unless points are at the upper ends of cells, if there are cells."""
        if self.edges is not None:
            ends = [*self.edges, FURTHEST if self.normal else 1.0]
            ensure(bool(np.isin(x, ends).all()), "a point is not at the upper end of a cell")

    def _summed(self) -> tuple[Any, ...]:
        rows = sorted([x, y, row[0]] for (x, y), row in self._intervals.items())
        return (self.n, *self.points._summed(), self._cells[:, 0], np.array(rows).reshape(-1, 3))
