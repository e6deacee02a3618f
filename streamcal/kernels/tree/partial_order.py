# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Isotonic least squares on a partial order, by recursive partitioning of blocks at their means.

Symbols, after Spouge, Wan and Wilbur 2003 (J. Optim. Theory Appl. 117:585) and Luss and Rosset 2014:

    a_i, b_i     positive and negative weight at point i;  A_B, B_B their sums over a block B of points
    θ_B          A_B / (A_B + B_B), the mean of the block
    c_i          (a_i B_B − b_i A_B), the gain at point i, in units of 1 / (A_B + B_B), if the fit rises above θ_B
    U            the upper set of B with the largest Σ_U c

If Σ_U c = 0, the fit is θ_B on all of B; otherwise it is above θ_B on U and not above it on the rest, and both are
solved on their own. U is the source side of a minimum cut: flow runs from points with c > 0 along covers upwards to
points with c < 0. Capacities are 64-bit integers, so that the cut is exact: for whole weights of total below 2³¹ the
c are what they are; otherwise they are rounded to 2⁻⁶⁰ of their sum, and a value is clipped to the means of the cuts
that led to it, so that the fit is monotone despite rounding.

Points of two coordinates need no flow along covers. A point is below another if it comes before it in lexicographic
order and has a lower rank by the second coordinate. Points are met in lexicographic order, and each with c < 0 takes
from those with c > 0 met before it and of lower rank, the highest rank first: later points could use the lower ranks,
and so no other flow is larger. U is what can be reached from what is left over, along covers and back along the flow.
"""

import cython
import numpy as np

#: Whole weights up to this total: products of two of them, and sums of those, stay below 2⁶³.
LARGEST_TOTAL = 2.0**31
# The maximum sum of rounded capacities, so that no sum of them overflows.
_CAPACITY = cython.declare(cython.double, 2.0**60)


@cython.cclass
class BlockCutter:
    """One fit. `order` holds the points, block by block; a block is a stretch of it.

    Arcs are kept from both ends: those of point i are numbered first[i] .. first[i + 1], arc e leads to `to[e]`,
    `twin[e]` is the same arc from the other end, and `flow[e]` the residual capacity of e: unlimited upwards (−1),
    downwards the flow that came up.
    """

    size: cython.Py_ssize_t
    whole: cython.bint
    cuts = cython.declare(cython.Py_ssize_t, visibility="readonly")
    positive: cython.const[cython.double][::1]
    negative: cython.const[cython.double][::1]
    order: cython.Py_ssize_t[::1]
    block: cython.Py_ssize_t[::1]
    first: cython.Py_ssize_t[::1]
    to: cython.Py_ssize_t[::1]
    twin: cython.Py_ssize_t[::1]
    flow: cython.longlong[::1]
    excess: cython.longlong[::1]
    level: cython.Py_ssize_t[::1]
    arc: cython.Py_ssize_t[::1]
    queue: cython.Py_ssize_t[::1]
    path: cython.Py_ssize_t[::1]
    # For two coordinates: the ranks; a tree over them whose leaves are the point + 1 of a rank that may give, or 0; for
    # each point that takes the last flow into it (−1: none), and for each flow where it is from, and the one before it.
    pairs: cython.bint
    leaves: cython.Py_ssize_t
    rank: cython.const[cython.Py_ssize_t][::1]
    giving: cython.Py_ssize_t[::1]
    taken: cython.Py_ssize_t[::1]
    giver: cython.Py_ssize_t[::1]
    earlier: cython.Py_ssize_t[::1]

    def __init__(
        self,
        lower: cython.const[cython.Py_ssize_t][::1],
        upper: cython.const[cython.Py_ssize_t][::1],
        positive: cython.const[cython.double][::1],
        negative: cython.const[cython.double][::1],
        whole: cython.bint,
        ranks: tuple = (),
    ):
        """Make the order with arcs from lower[e] up to upper[e].

        The total weight of every point is above 0, an integer if `whole`.
        `ranks`, for points of two coordinates, are the points in lexicographic order, and the rank of each by the
        second coordinate and then the first.
        """
        size: cython.Py_ssize_t = positive.shape[0]
        arcs: cython.Py_ssize_t = lower.shape[0]
        e: cython.Py_ssize_t
        self.size, self.whole, self.cuts = size, whole, 0
        self.positive, self.negative = positive, negative
        self.order, self.block = np.arange(size).data, np.zeros(size, dtype=np.intp).data
        self.pairs = len(ranks) > 0
        if self.pairs:
            self.order, self.rank = ranks[0].copy().data, ranks[1].data
            self.leaves = 1
            while self.leaves < size:
                self.leaves *= 2
            self.giving = np.zeros(2 * self.leaves, dtype=np.intp).data
            self.taken, self.giver = np.zeros(size, dtype=np.intp).data, np.zeros(size, dtype=np.intp).data
            self.earlier = np.zeros(size, dtype=np.intp).data
        self.first, self.to = np.zeros(size + 2, dtype=np.intp).data, np.zeros(2 * arcs, dtype=np.intp).data
        self.twin, self.flow = np.zeros(2 * arcs, dtype=np.intp).data, np.zeros(2 * arcs, dtype=np.int64).data
        self.excess, self.level = np.zeros(size, dtype=np.int64).data, np.zeros(size, dtype=np.intp).data
        self.arc, self.queue = np.zeros(size, dtype=np.intp).data, np.zeros(size, dtype=np.intp).data
        self.path = np.zeros(size, dtype=np.intp).data
        for e in range(arcs):
            self.first[lower[e] + 2] += 1
            self.first[upper[e] + 2] += 1
        for e in range(2, size + 2):
            self.first[e] += self.first[e - 1]
        for e in range(arcs):
            up: cython.Py_ssize_t = self.first[lower[e] + 1]
            down: cython.Py_ssize_t = self.first[upper[e] + 1]
            self.first[lower[e] + 1] += 1
            self.first[upper[e] + 1] += 1
            self.to[up], self.to[down] = upper[e], lower[e]
            self.twin[up], self.twin[down] = down, up
            self.flow[up] = -1

    def fit(self, values: cython.double[::1]) -> None:
        """Write the fit at every point to `values`, shape (k,)."""
        stack: list = [(0, self.size, 0.0, 1.0)]
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        least: cython.double
        most: cython.double
        while stack:
            start, stop, least, most = stack.pop()
            mean: cython.double = self.mean(start, stop)
            middle: cython.Py_ssize_t = self.cut(start, stop)
            if start < middle < stop:
                mean = min(max(mean, least), most)
                stack.append((start, middle, least, mean))
                stack.append((middle, stop, mean, most))
            else:
                for i in range(start, stop):
                    values[self.order[i]] = min(max(mean, least), most)

    def fit_at(self, point: cython.Py_ssize_t) -> float:
        """Return the fit at one point: only blocks that hold it are cut."""
        start: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t = self.size
        least: cython.double = 0.0
        most: cython.double = 1.0
        while True:
            mean: cython.double = min(max(self.mean(start, stop), least), most)
            middle: cython.Py_ssize_t = self.cut(start, stop)
            if not start < middle < stop:
                return mean
            if self.level[point] >= 0:
                start, least = middle, mean
            else:
                stop, most = middle, mean

    @cython.cfunc
    @cython.exceptval(check=False)
    def mean(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.double:
        """Return θ of a block."""
        positive: cython.double = 0.0
        weight: cython.double = 0.0
        i: cython.Py_ssize_t
        for i in range(start, stop):
            positive += self.positive[self.order[i]]
            weight += self.positive[self.order[i]] + self.negative[self.order[i]]
        return positive / weight

    @cython.cfunc
    @cython.exceptval(check=False)
    def cut(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Move the points of U to the end of a block, the others to its beginning; returns where U begins.

        Afterwards `level` is >= 0 on U and −1 on the rest.
        """
        self.cuts += 1
        self.begin(start, stop)
        if self.pairs:
            self.match(start, stop)
            self.reach(start, stop)
        else:
            while self.search(start, stop):
                self.push(start, stop)
        i: cython.Py_ssize_t
        middle: cython.Py_ssize_t = start
        risen: cython.Py_ssize_t = 0
        for i in range(start, stop):
            point: cython.Py_ssize_t = self.order[i]
            if self.level[point] < 0:
                self.order[middle] = point
                middle += 1
            else:
                self.queue[risen] = point
                risen += 1
        for i in range(risen):
            self.order[middle + i] = self.queue[i]
        return middle

    @cython.cfunc
    @cython.exceptval(check=False)
    def begin(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """No flow inside the block; the capacities c as `excess`, points outside it marked."""
        i: cython.Py_ssize_t
        e: cython.Py_ssize_t
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for i in range(start, stop):
            positive += self.positive[self.order[i]]
            negative += self.negative[self.order[i]]
        scale: cython.double = 0.0
        share: cython.double = positive / (positive + negative)
        rest: cython.double = negative / (positive + negative)
        if not self.whole:
            for i in range(start, stop):
                gain: cython.double = self.positive[self.order[i]] * rest - self.negative[self.order[i]] * share
                scale += abs(gain)
            scale = _CAPACITY / scale if scale > 0.0 else 0.0
        for i in range(start, stop):
            point: cython.Py_ssize_t = self.order[i]
            self.block[point] = self.cuts
            if self.whole:
                self.excess[point] = cython.cast(cython.longlong, self.positive[point]) * cython.cast(
                    cython.longlong, negative
                ) - cython.cast(cython.longlong, self.negative[point]) * cython.cast(cython.longlong, positive)
            else:
                gain = self.positive[point] * rest - self.negative[point] * share
                self.excess[point] = cython.cast(cython.longlong, gain * scale)
            if not self.pairs:
                for e in range(self.first[point], self.first[point + 1]):
                    if self.flow[e] > 0:
                        self.flow[e] = 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def search(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
        """Breadth-first search from all points with excess: sets levels (−1: not reached); whether a deficit was."""
        i: cython.Py_ssize_t
        e: cython.Py_ssize_t
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 0
        reached: cython.bint = False
        for i in range(start, stop):
            point: cython.Py_ssize_t = self.order[i]
            self.arc[point] = self.first[point]
            self.level[point] = -1
            if self.excess[point] > 0:
                self.level[point] = 0
                self.queue[tail] = point
                tail += 1
        while head < tail:
            point = self.queue[head]
            head += 1
            for e in range(self.first[point], self.first[point + 1]):
                after: cython.Py_ssize_t = self.to[e]
                if self.flow[e] != 0 and self.block[after] == self.cuts and self.level[after] < 0:
                    self.level[after] = self.level[point] + 1
                    reached = reached or self.excess[after] < 0
                    self.queue[tail] = after
                    tail += 1
        return reached

    @cython.cfunc
    @cython.exceptval(check=False)
    def push(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Push a blocking flow along rising levels, depth first; `path` holds the arcs from its start.

        One loop that advances, pushes or retreats, since function calls would dominate the cost.
        """
        i: cython.Py_ssize_t
        e: cython.Py_ssize_t
        d: cython.Py_ssize_t
        for i in range(start, stop):
            source: cython.Py_ssize_t = self.order[i]
            if self.level[source] != 0:
                continue
            point: cython.Py_ssize_t = source
            depth: cython.Py_ssize_t = 0
            while self.excess[source] > 0:
                if self.excess[point] < 0:
                    amount: cython.longlong = min(self.excess[source], -self.excess[point])
                    for d in range(depth):
                        if self.flow[self.path[d]] > 0:
                            amount = min(amount, self.flow[self.path[d]])
                    self.excess[source] -= amount
                    self.excess[point] += amount
                    for d in range(depth):
                        e = self.path[d]
                        if self.flow[e] > 0:
                            self.flow[e] -= amount
                        if self.flow[self.twin[e]] >= 0:
                            self.flow[self.twin[e]] += amount
                    point, depth = source, 0
                    continue
                while self.arc[point] < self.first[point + 1]:
                    e = self.arc[point]
                    if (
                        self.flow[e] != 0
                        and self.block[self.to[e]] == self.cuts
                        and self.level[self.to[e]] == self.level[point] + 1
                    ):
                        break
                    self.arc[point] += 1
                if self.arc[point] < self.first[point + 1]:
                    self.path[depth] = self.arc[point]
                    depth += 1
                    point = self.to[self.arc[point]]
                elif depth == 0:
                    break
                else:  # a dead end: one step back, and on to the next arc
                    depth -= 1
                    point = self.to[self.twin[self.path[depth]]]
                    self.arc[point] += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def match(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Make the largest flow of a block of points of two coordinates."""
        i: cython.Py_ssize_t
        flows: cython.Py_ssize_t = 0
        for i in range(start, stop):
            point: cython.Py_ssize_t = self.order[i]
            self.taken[point] = -1
            if self.excess[point] > 0:
                self.give(self.rank[point], point + 1)
            while self.excess[point] < 0:
                source: cython.Py_ssize_t = self.next_giver(self.rank[point])
                if source < 0:
                    break
                amount: cython.longlong = min(self.excess[source], -self.excess[point])
                self.excess[source] -= amount
                self.excess[point] += amount
                self.giver[flows] = source
                self.earlier[flows] = self.taken[point]
                self.taken[point] = flows
                flows += 1  # each flow ends what its source has or what its point needs: fewer than there are points
                if self.excess[source] == 0:
                    self.give(self.rank[source], 0)
        for i in range(start, stop):
            if self.excess[self.order[i]] > 0:
                self.give(self.rank[self.order[i]], 0)

    @cython.cfunc
    @cython.exceptval(check=False)
    def give(self, rank: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
        """Set the leaf of a rank: a point + 1, or 0."""
        place: cython.Py_ssize_t = self.leaves + rank
        self.giving[place] = value
        while place > 1:
            place //= 2
            self.giving[place] = self.giving[2 * place] | self.giving[2 * place + 1]

    @cython.cfunc
    @cython.exceptval(check=False)
    def next_giver(self, rank: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the point that may give of the highest rank below this one, or −1."""
        place: cython.Py_ssize_t = self.leaves + rank
        while place > 1:
            if place % 2 == 0 or self.giving[place - 1] == 0:
                place //= 2
                continue
            place -= 1
            while place < self.leaves:
                place = 2 * place + 1 if self.giving[2 * place + 1] != 0 else 2 * place
            return self.giving[place] - 1
        return -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def reach(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Set `level` to 0 at the points reached from those with something left over, and to −1 at the others."""
        i: cython.Py_ssize_t
        e: cython.Py_ssize_t
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 0
        for i in range(start, stop):
            point: cython.Py_ssize_t = self.order[i]
            self.level[point] = -1
            if self.excess[point] > 0:
                self.level[point] = 0
                self.queue[tail] = point
                tail += 1
        while head < tail:
            point = self.queue[head]
            head += 1
            for e in range(self.first[point], self.first[point + 1]):
                after: cython.Py_ssize_t = self.to[e]
                if self.flow[e] < 0 and self.block[after] == self.cuts and self.level[after] < 0:
                    self.level[after] = 0
                    self.queue[tail] = after
                    tail += 1
            e = self.taken[point]
            while e >= 0:
                after = self.giver[e]
                if self.level[after] < 0:
                    self.level[after] = 0
                    self.queue[tail] = after
                    tail += 1
                e = self.earlier[e]
