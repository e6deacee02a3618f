# cython: language_level=3
"""Exact isotonic regression and inductive Venn-Abers over a multiset of weighted binary outcomes.

First version: sorted lists and one pool-adjacent-violators pass per query, O(k) each. The interface is final,
the data structure is not.
"""

import math
from bisect import bisect_left

import numpy as np

MASS_TOLERANCE = 1e-6  # relative: what rounding may take from a group's weight over a long life


class HullTree:
    """The groups of tied scores in order, each with its weight, positive weight and count of observations."""

    def __init__(self):
        self._scores, self._w, self._positive, self._count = [], [], [], []

    def __reduce__(self):
        return _restored, self.to_arrays()

    @property
    def size(self):
        return len(self._scores)

    @property
    def weight(self):
        return math.fsum(self._w)

    @property
    def positive(self):
        return math.fsum(self._positive)

    @property
    def count(self):
        return sum(self._count)

    def update(self, score, w, positive, count):
        score, w, positive, count = float(score) + 0.0, float(w), float(positive), int(count)
        i = bisect_left(self._scores, score)
        if i < len(self._scores) and self._scores[i] == score:
            self._w[i] += w
            self._positive[i] += positive
            self._count[i] += count
        else:
            self._scores.insert(i, score)
            self._w.insert(i, w)
            self._positive.insert(i, positive)
            self._count.insert(i, count)

    def revert(self, score, w, positive, count):
        score, w, positive, count = float(score) + 0.0, float(w), float(positive), int(count)
        i = bisect_left(self._scores, score)
        if i == len(self._scores) or self._scores[i] != score or count > self._count[i]:
            return 1
        held_w, held_p = self._w[i], self._positive[i]
        slack = MASS_TOLERANCE * held_w
        rest_w, rest_p = held_w - w, held_p - positive
        if rest_w < -slack or rest_p < -slack or rest_w - rest_p < -slack:
            return 1
        if count == self._count[i]:
            if rest_w > slack:
                return 1
            for column in (self._scores, self._w, self._positive, self._count):
                del column[i]
            return 0
        self._w[i] = rest_w = max(rest_w, held_w * 2.0**-53)
        self._positive[i] = min(max(rest_p, 0.0), rest_w)
        self._count[i] -= count
        return 0

    def find(self, score):
        i = bisect_left(self._scores, float(score))
        if i < len(self._scores) and self._scores[i] == score:
            return self._w[i], self._positive[i], self._count[i]
        return 0.0, 0.0, 0

    def _blocks(self, w, positive):
        """Pool adjacent violators: lists of (start, weight, positive)."""
        blocks = []
        for i in range(len(w)):
            start, bw, bp = i, w[i], positive[i]
            while blocks and blocks[-1][2] * bw >= bp * blocks[-1][1]:
                start, lw, lp = blocks.pop()
                bw, bp = lw + bw, lp + bp
            blocks.append((start, bw, bp))
        return blocks

    def interval(self, score, w):
        score, w = float(score), float(w)
        i = bisect_left(self._scores, score)
        tied = i < len(self._scores) and self._scores[i] == score
        found = []
        for label in (0.0, 1.0):
            ws, ps = list(self._w), list(self._positive)
            if tied:
                ws[i], ps[i] = ws[i] + w, ps[i] + label * w
            else:
                ws.insert(i, w)
                ps.insert(i, label * w)
            for start, bw, bp in self._blocks(ws, ps):
                if start <= i:
                    value = bp / bw
            found.append(value)
        return found[0], max(found)

    def isotonic(self, score):
        if not self._scores:
            return math.nan
        return float(np.interp(float(score), self._scores, self._fitted()))

    def _fitted(self):
        fitted = np.empty(self.size)
        for start, bw, bp in self._blocks(self._w, self._positive):
            fitted[start:] = bp / bw
        return fitted

    def rebuild(self, scores, w, positive, count):
        self._scores = [s + 0.0 for s in np.asarray(scores, dtype=float).tolist()]
        self._w = np.asarray(w, dtype=float).tolist()
        self._positive = np.asarray(positive, dtype=float).tolist()
        self._count = np.asarray(count).tolist()

    def update_sorted(self, scores, w, positive, count):
        for s, sw, sp, sc in zip(scores, w, positive, count, strict=True):
            self.update(s, sw, sp, sc)

    def to_arrays(self):
        return (
            np.array(self._scores, dtype=float),
            np.array(self._w, dtype=float),
            np.array(self._positive, dtype=float),
            np.array(self._count, dtype=np.int64),
        )

    def intervals(self, scores, w):
        both = np.array([self.interval(s, w) for s in scores], dtype=float).reshape(-1, 2)
        return both[:, 0].copy(), both[:, 1].copy()

    def isotonics(self, scores):
        if not self._scores:
            return np.full(len(scores), math.nan)
        return np.interp(np.asarray(scores, dtype=float), self._scores, self._fitted())

    def blocks(self):
        blocks = self._blocks(self._w, self._positive)
        starts = [start for start, _, _ in blocks]
        ends = [s - 1 for s in starts[1:]] + [self.size - 1] * bool(blocks)
        scores = np.array(self._scores, dtype=float)
        return (
            scores[np.array(starts, dtype=int)],
            scores[np.array(ends, dtype=int)],
            np.array([bp / bw for _, bw, bp in blocks], dtype=float),
        )

    def multiply(self, factor):
        self._w = [x * factor for x in self._w]
        self._positive = [x * factor for x in self._positive]

    def prune(self, threshold):
        scores, w, positive, count = self.to_arrays()
        kept = w >= threshold
        self.rebuild(scores[kept], w[kept], positive[kept], count[kept])
        return int(count[~kept].sum())

    def check(self):
        assert all(a < b for a, b in zip(self._scores, self._scores[1:], strict=False))
        assert all(w > 0 and 0 <= p <= w for w, p in zip(self._w, self._positive, strict=True))
        assert all(c > 0 for c in self._count)


def _restored(scores, w, positive, count):
    tree = HullTree()
    tree.rebuild(scores, w, positive, count)
    return tree
