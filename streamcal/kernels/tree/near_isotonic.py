# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The whole path of nearly-isotonic regression, by the modified pool-adjacent-violators algorithm.

Symbols, after Tibshirani, Hoefling and Tibshirani 2011 (Technometrics 53:54), with weights:

    ω_i, ȳ_i     weight (Σω = 1) and mean label of the i-th distinct score, ascending
    p(λ)         minimises ½ Σ ω_i (p_i − ȳ_i)² + λ Σ (p_i − p_{i+1})₊
    block        neighbouring scores with one value; Ω_b its weight, m_b its mean label
    s_b          1 if the value falls from block b to the next, else 0

With growing λ blocks merge and never split (their lemma 1). As long as none merge, stationarity of a block says

    p_b(λ) = m_b + λ d_b,   d_b = (s_{b−1} − s_b) / Ω_b

so a value is a closed formula of the sums of its block, and rounding errors do not accumulate along the path. Two
neighbours merge where their lines cross or meet; s_b changes only at merges. Several may meet at one λ, also such whose
lines have the same slope from there on: values that are equal once stay equal, so all of them are one block. The
crossings are in a heap: a path over k scores takes O(k log k).
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, log

# Means with a relative difference below this are equal up to rounding, and form a block from the start.
INFINITY = cython.declare(cython.double, float("inf"))
TIED = cython.declare(cython.double, 1e-14)
# Crossings within this distance, relative to λ, are simultaneous, and values within this distance, relative to the
# terms they are sums of, are equal: on symmetric data many are, and rounding must not split a breakpoint in two.
AT_ONCE = cython.declare(cython.double, 1e-12)
# Relative rounding of a likelihood.
ROUNDING = cython.declare(cython.double, 1e-9)


@cython.final
@cython.cclass
class NearIsotonicPath:
    """The fit at one λ, from λ = 0 upwards.

    Block b is identified by its first score. `after[b]` is the next block (k: none), `before[b]` the previous one (−1:
    none), `weight[b]` and `positive[b]` its sums, `means[b]` and `rates[b]` the mean label and W over the weight,
    `values[b]` the fit of the last likelihood. `version[b]` is increased when it merges, and −1 if it was absorbed: a
    crossing in the heap is valid only if it has the current versions of its two blocks.
    """

    size: cython.Py_ssize_t
    blocks = cython.declare(cython.Py_ssize_t, visibility="readonly")
    penalty = cython.declare(cython.double, visibility="readonly")
    total: cython.double
    weight: cython.double[::1]
    positive: cython.double[::1]
    means: cython.double[::1]
    rates: cython.double[::1]
    values: cython.double[::1]
    after: cython.Py_ssize_t[::1]
    before: cython.Py_ssize_t[::1]
    version: cython.Py_ssize_t[::1]
    falls: cython.Py_ssize_t[::1]
    # The crossings: a heap of λ, and of the block before and the versions of it and of the block after.
    crossings: cython.Py_ssize_t
    crossing: cython.double[::1]
    left: cython.Py_ssize_t[::1]
    left_version: cython.Py_ssize_t[::1]
    right_version: cython.Py_ssize_t[::1]

    def __init__(self, weight: cython.const[cython.double][::1], positive: cython.const[cython.double][::1]):
        """Start from weights above 0 and 0 <= `positive` <= `weight` of distinct ascending scores; not normalised."""
        i: cython.Py_ssize_t
        size: cython.Py_ssize_t = weight.shape[0]
        if size == 0 or positive.shape[0] != size:
            raise ValueError(f"{size} weights and {positive.shape[0]} positive weights make no path")
        self.size, self.penalty, self.crossings = size, 0.0, 0
        # A crossing for each pair at the start, and two for each merge.
        numbers: cython.double[::1] = np.empty(8 * size).data
        places: cython.Py_ssize_t[::1] = np.zeros(13 * size, dtype=np.intp).data
        self.weight, self.positive, self.means = numbers[:size], numbers[size : 2 * size], numbers[2 * size : 3 * size]
        self.rates, self.values = numbers[3 * size : 4 * size], numbers[4 * size : 5 * size]
        self.crossing = numbers[5 * size :]
        self.after, self.before = places[:size], places[size : 2 * size]
        self.version, self.falls = places[2 * size : 3 * size], places[3 * size : 4 * size]
        self.left, self.left_version = places[4 * size : 7 * size], places[7 * size : 10 * size]
        self.right_version = places[10 * size :]
        self.total = 0.0
        for i in range(size):
            self.weight[i], self.positive[i] = weight[i], positive[i]
            self.after[i], self.before[i] = i + 1, i - 1
            self.total += weight[i]
        for i in range(size):
            self.means[i], self.rates[i] = positive[i] / weight[i], self.total / weight[i]
        self.blocks = size
        self.start()

    @cython.cfunc
    @cython.exceptval(check=False)
    def start(self) -> cython.void:
        """Initialise at λ = 0: blocks of ties, decreasing pairs and the first crossings."""
        b: cython.Py_ssize_t = 0
        while self.after[b] < self.size:
            mean: cython.double = self.means[b]
            next_mean: cython.double = self.means[self.after[b]]
            if fabs(next_mean - mean) <= TIED * max(mean, next_mean):
                self.swallow(b)
            else:
                self.falls[b] = mean > next_mean
                b = self.after[b]
        b = 0
        while b < self.size:
            self.watch(b)
            b = self.after[b]

    @cython.cfunc
    @cython.exceptval(check=False)
    def drift(self, b: cython.Py_ssize_t) -> cython.double:
        """Return d_b, by which the value of a block grows with λ."""
        steps: cython.Py_ssize_t = 0
        if self.before[b] >= 0:
            steps += self.falls[self.before[b]]
        if self.after[b] < self.size:
            steps -= self.falls[b]
        return steps * self.rates[b]

    @cython.cfunc
    @cython.exceptval(check=False)
    def value(self, b: cython.Py_ssize_t) -> cython.double:
        return min(max(self.means[b] + self.penalty * self.drift(b), 0.0), 1.0)

    @cython.cfunc
    @cython.exceptval(check=False)
    def watch(self, b: cython.Py_ssize_t) -> cython.void:
        """Push the crossing of block `b` and the next one, if there is one."""
        after: cython.Py_ssize_t = self.after[b]
        if after >= self.size:
            return
        rate = self.drift(b) - self.drift(after)
        if rate > 0.0 if self.falls[b] == 0 else rate < 0.0:
            self.push(max((self.means[after] - self.means[b]) / rate, self.penalty), b)

    @cython.cfunc
    @cython.exceptval(check=False)
    def push(self, crossing: cython.double, b: cython.Py_ssize_t) -> cython.void:
        """Push a crossing of block `b` and the next one."""
        place: cython.Py_ssize_t = self.crossings
        above: cython.Py_ssize_t
        self.crossings += 1
        while place > 0:
            above = (place - 1) // 2
            if self.crossing[above] < crossing or (self.crossing[above] == crossing and self.left[above] <= b):
                break
            self.move(above, place)
            place = above
        self.crossing[place], self.left[place] = crossing, b
        self.left_version[place], self.right_version[place] = self.version[b], self.version[self.after[b]]

    @cython.cfunc
    @cython.exceptval(check=False)
    def pop(self) -> cython.void:
        """Drop the first crossing."""
        place: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = 1
        last: cython.Py_ssize_t = self.crossings - 1
        self.crossings = last
        while below < last:
            if below + 1 < last and self.precedes(below + 1, below):
                below += 1
            if not self.precedes(below, last):
                break
            self.move(below, place)
            place, below = below, 2 * below + 1
        self.move(last, place)

    @cython.cfunc
    @cython.exceptval(check=False)
    def precedes(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.bint:
        if self.crossing[one] != self.crossing[other]:
            return self.crossing[one] < self.crossing[other]
        return self.left[one] < self.left[other]

    @cython.cfunc
    @cython.exceptval(check=False)
    def move(self, source: cython.Py_ssize_t, place: cython.Py_ssize_t) -> cython.void:
        self.crossing[place], self.left[place] = self.crossing[source], self.left[source]
        self.left_version[place], self.right_version[place] = self.left_version[source], self.right_version[source]

    @cython.cfunc
    @cython.exceptval(check=False)
    def is_valid(self) -> cython.bint:
        """Return whether neither block of the first crossing has merged since it was pushed."""
        b: cython.Py_ssize_t = self.left[0]
        if self.version[b] != self.left_version[0] or self.after[b] >= self.size:
            return False
        return self.version[self.after[b]] == self.right_version[0]

    @cython.cfunc
    @cython.exceptval(check=False)
    def swallow(self, b: cython.Py_ssize_t) -> cython.void:
        """Merge block `b` with the next one."""
        after: cython.Py_ssize_t = self.after[b]
        self.weight[b] += self.weight[after]
        self.positive[b] += self.positive[after]
        self.means[b], self.rates[b] = self.positive[b] / self.weight[b], self.total / self.weight[b]
        self.falls[b] = self.falls[after]
        self.after[b] = self.after[after]
        if self.after[b] < self.size:
            self.before[self.after[b]] = b
        self.version[b] += 1
        self.version[after] = -1
        self.blocks -= 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def equal(self, b: cython.Py_ssize_t) -> cython.bint:
        """Return whether block `b` and the next one have the same value at this λ, up to rounding."""
        after: cython.Py_ssize_t = self.after[b]
        mean, next_mean = self.means[b], self.means[after]
        move, next_move = self.penalty * self.drift(b), self.penalty * self.drift(after)
        largest = max(max(mean, next_mean), max(fabs(move), fabs(next_move)))
        return fabs((mean - next_mean) + (move - next_move)) <= AT_ONCE * largest

    @cython.cfunc
    @cython.exceptval(check=False)
    def merge(self, b: cython.Py_ssize_t) -> cython.void:
        """Merge block `b` with the next one, and with the neighbours of the same value; push the new crossings."""
        self.swallow(b)
        grown: cython.bint = True
        while grown:  # a merge changes the drift, and with it the value up to rounding, of the whole block
            grown = False
            while self.after[b] < self.size and self.equal(b):
                self.swallow(b)
                grown = True
            while self.before[b] >= 0 and self.equal(self.before[b]):
                b = self.before[b]
                self.swallow(b)
                grown = True
        self.watch(b)
        if self.before[b] >= 0:
            self.watch(self.before[b])

    @cython.cfunc
    @cython.exceptval(check=False)
    def merge_until(self, penalty: cython.double) -> cython.void:
        """Merge the blocks that cross up to this λ, and move to the last crossing."""
        b: cython.Py_ssize_t
        while self.crossings and self.crossing[0] <= penalty:
            if self.is_valid():
                self.penalty, b = self.crossing[0], self.left[0]
                self.pop()
                self.merge(b)
            else:
                self.pop()

    @cython.ccall
    @cython.exceptval(check=False)
    def advance(self) -> cython.bint:
        """Move to the next breakpoint, where blocks merge; False if there is none."""
        if not self.has_next():
            return False
        self.merge_until(self.crossing[0] * (1.0 + AT_ONCE))
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def has_next(self) -> cython.bint:
        """Return whether there is a further breakpoint."""
        while self.crossings and not self.is_valid():
            self.pop()
        return self.crossings > 0

    def advance_to(self, penalty: cython.double) -> None:
        """Move to this λ if it is larger than the current one."""
        self.merge_until(penalty)
        self.penalty = max(penalty, self.penalty)

    @cython.ccall
    @cython.exceptval(check=False)
    def add_values(self, share: cython.double, values: cython.double[::1]) -> cython.void:
        """Add `share` times the fit at every score to `values`, shape (k,). O(k)."""
        b: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        while b < self.size:
            value = self.value(b)
            for i in range(b, self.after[b]):
                values[i] += share * value
            b = self.after[b]

    @cython.ccall
    @cython.exceptval(check=False)
    def log_likelihood(self) -> cython.double:
        """Σ w (ȳ log p + (1 − ȳ) log(1 − p)), in the weights that were given. O(blocks)."""
        result: cython.double = 0.0
        b: cython.Py_ssize_t = 0
        while b < self.size:
            p, positive = self.value(b), self.positive[b]
            self.values[b] = p
            negative = self.weight[b] - positive
            if (positive > 0.0 and p <= 0.0) or (negative > 0.0 and p >= 1.0):
                return -INFINITY
            if positive > 0.0:
                result += positive * log(p)
            if negative > 0.0:
                result += negative * log(1.0 - p)
            b = self.after[b]
        return result

    def bics(self, per_block: cython.double, limit: cython.double, values: cython.double[::1], average: cython.bint):
        """Move to the end, and return −2 log L + per_block · blocks at every breakpoint from the present one on.

        −2 log L does not decrease along the path: each block moves away from its mean. The sum is infinite where it is
        above `limit`, by the last −2 log L that was computed; at the last breakpoint it is always computed. `values`
        becomes the fit with the least sum, or the average of all whose sum was computed, with weights exp(−sum/2).
        """
        result = np.full(self.blocks, INFINITY)
        sums: cython.double[::1] = result
        best: cython.double[::1] = np.zeros(self.size).data
        ends: cython.Py_ssize_t[::1] = np.zeros(self.size, dtype=np.intp).data
        at: cython.Py_ssize_t = 0
        least: cython.double = INFINITY
        total: cython.double = 0.0
        share: cython.double
        deviance: cython.double = -2.0 * self.log_likelihood()
        last: cython.bint = False
        while not last:
            last = not self.has_next()
            if last or deviance + per_block * self.blocks <= limit + ROUNDING * (1.0 + fabs(limit)):
                sums[at] = -2.0 * self.log_likelihood() + per_block * self.blocks
                if sums[at] < INFINITY:
                    deviance = max(deviance, sums[at] - per_block * self.blocks)
                if average and sums[at] < INFINITY:
                    share = exp(-0.5 * (sums[at] - least)) if sums[at] >= least else 1.0
                    total = total + share if sums[at] >= least else 1.0 + total * exp(-0.5 * (least - sums[at]))
                    self.mix(share / total, values)
                elif sums[at] < least:
                    self.copy(best, ends)
                least = min(least, sums[at])
            at += 1
            self.advance()
        if not average:
            expand(best, ends, values)
        return result[:at]

    @cython.cfunc
    @cython.exceptval(check=False)
    def mix(self, share: cython.double, values: cython.double[::1]) -> cython.void:
        """Move `values` towards the fit whose likelihood was computed last, by this share of the way. O(k)."""
        b: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        part: cython.double
        while b < self.size:
            part = share * self.values[b]
            for i in range(b, self.after[b]):
                values[i] = (1.0 - share) * values[i] + part
            b = self.after[b]

    @cython.cfunc
    @cython.exceptval(check=False)
    def copy(self, values: cython.double[::1], ends: cython.Py_ssize_t[::1]) -> cython.void:
        """Copy the fit whose likelihood was computed last: value and end by the first score of a block. O(blocks)."""
        b: cython.Py_ssize_t = 0
        while b < self.size:
            values[b], ends[b] = self.values[b], self.after[b]
            b = self.after[b]


@cython.cfunc
@cython.exceptval(check=False)
def expand(values: cython.double[::1], ends: cython.Py_ssize_t[::1], fit: cython.double[::1]) -> cython.void:
    """Set the fit at every score from the values and ends of blocks."""
    b: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    while b < fit.shape[0]:
        for i in range(b, ends[b]):
            fit[i] = values[b]
        b = ends[b]


def isotonic_bic(
    weight: cython.const[cython.double][::1], positive: cython.const[cython.double][::1], per_block: cython.double
) -> float:
    """Return −2 log L + per_block · blocks of the isotonic fit, by pooling adjacent violators."""
    i: cython.Py_ssize_t
    blocks: cython.Py_ssize_t = 0
    result: cython.double = 0.0
    total: cython.double[::1] = np.empty(weight.shape[0]).data
    ones: cython.double[::1] = np.empty(weight.shape[0]).data
    for i in range(weight.shape[0]):
        total[blocks], ones[blocks] = weight[i], positive[i]
        blocks += 1
        while blocks > 1 and ones[blocks - 2] * total[blocks - 1] >= ones[blocks - 1] * total[blocks - 2]:
            blocks -= 1
            total[blocks - 1] += total[blocks]
            ones[blocks - 1] += ones[blocks]
    for i in range(blocks):
        if ones[i] > 0.0:
            result += ones[i] * log(ones[i] / total[i])
        if ones[i] < total[i]:
            result += (total[i] - ones[i]) * log((total[i] - ones[i]) / total[i])
    return per_block * blocks - 2.0 * result
