# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What the members of a level add to log-odds, and the steps that they make on outcomes.

Symbols, z being the log-odds that reach the level k of place j:

    m[a], v[a]               mean and variance of what member a adds to z
    H, E                     sums of natural parameters of an offset: m = E/(H + λ/τ²), v = 1/(H + λ/τ²); τ² see
                             `observed_levels`
    λ                        what is left of the prior, 1 at first. An offset with a memory of M units scales H, E and λ
                             down where H exceeds M, which leaves its mean
    s                        min(s, M) is H, and min(1, M/s) is λ: an offset with a memory keeps one number for both
    A, B                     offset and slope of a line, which adds A + B·x, x being z within ±16; its sums are those of
                             a Gaussian in two dimensions, with prior variances 1 and ¼
    Q[k, a]                  the weights of the other members in "own", which share max(1/(n + 2), 1e-4) after a label,
                             n being the weight of the level before
    c = w·(y − σ(end))       an implicit step: it ends where z + m + v·c = `end`

After a step with the curvature h = w·σ(end)(1 − σ(end)): H ← H + h, E ← E + c + h·(end − z), so that the new mean is
end − z. Members of the first order are nothing, offsets with all memory, 100 and 10 units, "free" (the first offset's
sums, with variance 1 in place of τ²), a line, and their own mixture. The second order has sums of its own for nothing,
offsets with all memory and 100 units, and a line.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, sqrt
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, curvature, implicit, residual
from cython.cimports.streamcal.kernels.segments.observed_levels import LARGEST, ObservedLevels

#: The members of the first order, and how many of them "own" mixes; the members of the second order.
MEMBERS, MIXED, SECOND = 7, 6, 4
#: The prior of "nothing".
NOTHING = 0.5
#: The memories of offsets in units of p(1 − p), each the information of so many rare positives.
LONG, SHORT = 100.0, 10.0
#: An offset has no more than this times less left of its prior.
FADED = 1e30
#: The numbers of a level in double precision are its weight; H and E with all memory; s and E of both memories; H11,
#: H12, H22, E1, E2 of the line. Then, for the second order, H and E, s and E, and the line.
DOUBLES = 21
#: Where Q is, after C of both orders, in single precision as it is; and all numbers kept of a level.
OWN, WIDTH = DOUBLES + 2, DOUBLES + 2 + MIXED
#: How far H of the second order follows that of the first.
APART = 11
#: Larger weights of observations are clipped to this, for numerical accuracy, as in `implicit_regression`.
HEAVIEST = 1e6

_MIXED = cython.declare(cython.Py_ssize_t, MIXED)
_LONG = cython.declare(cython.double, LONG)
_SHORT = cython.declare(cython.double, SHORT)
_FADED = cython.declare(cython.double, FADED)
_NOTHING = cython.declare(cython.double, NOTHING)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
FIRST_LINE = cython.declare(cython.Py_ssize_t, 7)
"""Where the sums of the first order's line begin."""
ALL_TWICE = cython.declare(cython.Py_ssize_t, 12)
"""Where the second order's offset with all memory is, then that with a memory, then the line."""
LONG_TWICE = cython.declare(cython.Py_ssize_t, 14)
SECOND_LINE = cython.declare(cython.Py_ssize_t, 16)
FIRST_OWN = cython.declare(cython.Py_ssize_t, 2)
"""Where Q begins, among the numbers in single precision."""
STEEP = cython.declare(cython.double, 4.0)
"""The prior precision of the slope; that of the offset beside it is 1."""
FURTHEST = cython.declare(cython.double, 4.0)
"""A retraction moves no mean further from 0: where many are taken back in another
order than they came, what is taken is not what was added, and the error of each would add to that of the next."""
LEAST_SHARE = cython.declare(cython.double, 1e-4)
"""The least fraction of Q that is redistributed after a label."""
NEAR = cython.declare(cython.double, 1e-10)
"""v·δ⁶ below this, δ being a step: the terms of its Taylor series beyond the fifth are below 1e-13."""
FAR = cython.declare(cython.double, 36.0)
"""Log-odds are clamped to ± this where their probabilities are known."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _at_least(s: cython.double, memory: cython.double) -> cython.double:
    """Return H of an offset with a memory."""
    return s if s < memory else memory


class LevelMembers(ObservedLevels):
    """Fields with a level each, one more place with the single level of all traffic, and the members of every level.

    Parameters
    ----------
    fields, most : int
        See `SegmentChain`.
    prior : list of list of float
        The weights of each mixture at first.
    """

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t, prior: list):
        super().__init__(fields, fields + 1, most, 2, (DOUBLES, APART, WIDTH - DOUBLES), prior)

    # -- what members add ------------------------------------------------------------------------------------------

    def _offset(self, k: cython.Py_ssize_t, at: cython.Py_ssize_t, precision: cython.double) -> cython.double:
        """Return m of an offset with all memory."""
        return self._values[k, at + 1] / (self._values[k, at] + precision)

    def _certainty(
        self, k: cython.Py_ssize_t, at: cython.Py_ssize_t, memory: cython.double, precision: cython.double
    ) -> cython.double:
        """Return 1/v of an offset with a memory."""
        s: cython.double = self._values[k, at]
        return s + precision if s <= memory else memory + precision * (memory / s)

    def _line(self, k: cython.Py_ssize_t, at: cython.Py_ssize_t, x: cython.double) -> cython.double:
        """Return A + B·x."""
        h11: cython.double = self._values[k, at] + 1.0
        h12: cython.double = self._values[k, at + 1]
        h22: cython.double = self._values[k, at + 2] + STEEP
        e1: cython.double = self._values[k, at + 3]
        e2: cython.double = self._values[k, at + 4]
        return (h22 * e1 - h12 * e2 + x * (h11 * e2 - h12 * e1)) / self._determinant(k, at)

    def _determinant(self, k: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.double:
        """Return the determinant of (H11 + 1, H12; H12, H22 + 4), in which only H11·H22 − H12² ≥ 0 is a difference."""
        h11: cython.double = self._values[k, at]
        h12: cython.double = self._values[k, at + 1]
        h22: cython.double = self._values[k, at + 2]
        return max(h11 * h22 - h12 * h12, 0.0) + STEEP * h11 + h22 + STEEP

    def _line_variance(self, k: cython.Py_ssize_t, at: cython.Py_ssize_t, x: cython.double) -> cython.double:
        """Return the variance of A + B·x: that of a prior, and Σ h·(x − xᵢ)² ≥ 0, over the determinant."""
        h11: cython.double = self._values[k, at]
        h12: cython.double = self._values[k, at + 1]
        h22: cython.double = self._values[k, at + 2]
        return (max(h22 - 2.0 * x * h12 + x * x * h11, 0.0) + STEEP + x * x) / self._determinant(k, at)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _advance(
        self, u: cython.double, p: cython.double, q: cython.double, v: cython.double, y: cython.double
    ) -> cython.double:
        """Return δ = v·(y − σ(u + δ)), where p = σ(u) and q = σ(−u); set the residual and the curvature there.

        A small step is the root of its Taylor series to the fifth order, which takes no exponential.
        """
        r: cython.double = q if y > 0.0 else -p
        c: cython.double = p * q
        part: cython.double = v / (1.0 + v * c)
        step: cython.double = r * part
        square: cython.double = step * step
        second: cython.double
        third: cython.double
        fourth: cython.double
        fifth: cython.double
        end: cython.double
        if abs(u) < FAR and v * square * square * square < NEAR:
            second, third = c * (q - p) / 2.0, c * (1.0 - 6.0 * c) / 6.0
            fourth, fifth = c * (q - p) * (1.0 - 12.0 * c) / 24.0, c * (1.0 - 30.0 * c + 120.0 * c * c) / 120.0
            for _ in range(3):
                step = part * (r - step * step * (second + step * (third + step * (fourth + step * fifth))))
            self._residual = step / v
            r = abs(self._residual)
            self._curvature = r * (1.0 - r)
            return step
        end = implicit(u, v, y)
        self._residual, self._curvature = residual(y, end), curvature(end)
        return end - u

    def _move(
        self,
        k: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        memory: cython.double,
        precision: cython.double,
        z: cython.double,
        p: cython.double,
        q: cython.double,
        y: cython.double,
        w: cython.double,
    ) -> cython.void:
        """Make the implicit step of an offset that forecasts p = σ(z + m), q = 1 − p; 0 is the memory of everything."""
        s: cython.double = self._values[k, at]
        certainty: cython.double
        certainty = s + precision if memory <= 0.0 else self._certainty(k, at, memory, precision)
        mean: cython.double = self._values[k, at + 1] / certainty
        step: cython.double = self._advance(z + mean, p, q, w / certainty, y)
        h: cython.double = w * self._curvature
        e: cython.double = self._values[k, at + 1] + w * self._residual + h * (mean + step)
        if memory <= 0.0 or s + h <= memory:
            s += h
        else:
            e *= memory / (min(s, memory) + h)
            s = min(s + h if s < memory else s * (1.0 + h / memory), memory * _FADED)
        self._values[k, at], self._values[k, at + 1] = s, e

    def _move_line(
        self,
        k: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        z: cython.double,
        p: cython.double,
        q: cython.double,
        y: cython.double,
        w: cython.double,
    ) -> cython.void:
        """Make the implicit step of a line that forecasts p, q = 1 − p."""
        x: cython.double = clamped(z, LARGEST)
        mean: cython.double = self._line(k, at, x)
        step: cython.double = self._advance(z + mean, p, q, w * self._line_variance(k, at, x), y)
        h: cython.double = w * self._curvature
        e: cython.double = w * self._residual + h * (mean + step)
        self._values[k, at] += h
        self._values[k, at + 1] += h * x
        self._values[k, at + 2] += h * x * x
        self._values[k, at + 3] += e
        self._values[k, at + 4] += e * x

    def _begin(self, k: cython.Py_ssize_t) -> cython.void:
        """Set Q of a new level."""
        a: cython.Py_ssize_t
        self._singles[k, FIRST_OWN] = _NOTHING
        for a in range(1, _MIXED):
            self._singles[k, FIRST_OWN + a] = (1.0 - _NOTHING) / (_MIXED - 1)

    def _judge_own(
        self,
        k: cython.Py_ssize_t,
        r: cython.Py_ssize_t,
        chances: cython.const[cython.double][:, ::1],
        w: cython.double,
    ) -> cython.void:
        """Multiply Q of a level by the probabilities of the label to the power w, and share."""
        a: cython.Py_ssize_t
        share: cython.double = max(1.0 / (self._values[k, 0] + 2.0), LEAST_SHARE)
        total: cython.double = 0.0
        best: cython.double = 0.0
        likelihood: cython.double
        if w != 1.0:
            for a in range(_MIXED):
                best = max(best, chances[r, a])
        for a in range(_MIXED):
            likelihood = chances[r, a] if w == 1.0 else exp(w * log(chances[r, a] / best))
            self._own[a] = float(self._singles[k, FIRST_OWN + a]) * likelihood
            total += self._own[a]
        rest: cython.double = (1.0 - share) / total
        for a in range(_MIXED):
            prior: cython.double = _NOTHING if a == 0 else (1.0 - _NOTHING) / (_MIXED - 1)
            self._singles[k, FIRST_OWN + a] = rest * self._own[a] + share * prior

    def _weigh_level(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.void:
        """Set C of a level, and S with it; all traffic is no level of the first order."""
        if j < self._fields:
            self._weigh(j, k, 0)
        self._weigh(j, k, 1)

    # -- retraction ------------------------------------------------------------------------------------------------

    def _take(
        self,
        k: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        memory: cython.double,
        precision: cython.double,
        z: cython.double,
        y: cython.double,
        w: cython.double,
    ) -> cython.void:
        """`unlearn` of an offset."""
        s: cython.double = self._values[k, at]
        certainty: cython.double
        certainty = s + precision if memory <= 0.0 else self._certainty(k, at, memory, precision)
        mean: cython.double = self._values[k, at + 1] / certainty
        e: cython.double = self._values[k, at + 1]
        h: cython.double = w * curvature(z + mean)
        before: cython.double
        limit: cython.double  # on |E|
        if memory <= 0.0 or s <= memory:
            h = min(h, s)
            s -= h
        else:  # what the memory scaled down
            before = s / (1.0 + h / memory)
            before = before if before >= memory else max(s - h, 0.0)
            e *= (_at_least(before, memory) + h) / memory
            s = before
        e -= w * residual(y, z + mean) + h * mean
        self._values[k, at] = s
        certainty = s + precision if memory <= 0.0 else self._certainty(k, at, memory, precision)
        limit = max(abs(mean), FURTHEST) * certainty
        self._values[k, at + 1] = max(-limit, min(limit, e))

    def _take_line(
        self, k: cython.Py_ssize_t, at: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double
    ) -> cython.void:
        """`unlearn` of offset and slope."""
        x: cython.double = clamped(z, LARGEST)
        mean: cython.double = self._line(k, at, x)
        h: cython.double = min(w * curvature(z + mean), self._values[k, at])
        step: cython.double = w * residual(y, z + mean) + h * mean
        bound: cython.double
        self._values[k, at] -= h
        self._values[k, at + 2] = max(self._values[k, at + 2] - h * x * x, 0.0)
        bound = sqrt(self._values[k, at] * self._values[k, at + 2])
        self._values[k, at + 1] = max(-bound, min(bound, self._values[k, at + 1] - h * x))
        self._values[k, at + 3] -= step
        self._values[k, at + 4] -= step * x
        after: cython.double = abs(self._line(k, at, x))
        limit: cython.double = max(abs(mean), FURTHEST)
        if after > limit:
            self._values[k, at + 3] *= limit / after
            self._values[k, at + 4] *= limit / after

    # -- merging ---------------------------------------------------------------------------------------------------

    def _absorb(self, j: cython.Py_ssize_t, row: cython.const[cython.double][::1]):
        """Add the numbers of a level of others to those of the level at a place; "own" multiplies its evidence."""
        a: cython.Py_ssize_t
        total: cython.double = 0.0
        k: cython.Py_ssize_t = self._use(j)
        if self._values[k, 0] <= 0.0:
            self._begin(k)
        self._add_offset(k, 3, _LONG, row)
        self._add_offset(k, 5, _SHORT, row)
        self._add_offset(k, LONG_TWICE, _LONG, row)
        for a in (0, 1, 2, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20):
            self._values[k, a] += row[a]
        for a in range(_MIXED):
            prior: cython.double = _NOTHING if a == 0 else (1.0 - _NOTHING) / (_MIXED - 1)
            self._own[a] = max(float(self._singles[k, FIRST_OWN + a]) * row[OWN + a] / prior, 1e-30)
            total += self._own[a]
        for a in range(_MIXED):
            self._singles[k, FIRST_OWN + a] = max(self._own[a] / total, 1e-30)
        self._weigh_level(j, k)

    def _add_offset(
        self,
        k: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        memory: cython.double,
        row: cython.const[cython.double][::1],
    ) -> cython.void:
        """Add the sums of an offset with a memory; what is left of its prior is multiplied."""
        s: cython.double = self._values[k, at]
        h: cython.double = _at_least(s, memory) + _at_least(row[at], memory)
        left: cython.double = (memory / s if s > memory else 1.0) * (memory / row[at] if row[at] > memory else 1.0)
        e: cython.double = self._values[k, at + 1] + row[at + 1]
        if h >= memory:
            e *= memory / h
            h = min(h / left, memory * _FADED)
        self._values[k, at], self._values[k, at + 1] = h, e

    # -- what is known ---------------------------------------------------------------------------------------------

    def _additions(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> tuple:
        """Return the means and variances of what the members add to log-odds; k < 0: for an unknown level."""
        x: cython.double = 0.0
        precision: cython.double = self._precision[j, 0]
        v: cython.double = 1.0 / precision
        if k < 0:
            own: list = [NOTHING] + (MIXED - 1) * [(1.0 - NOTHING) / (MIXED - 1)]
            means: list = MIXED * [0.0]
            variances: list = [0.0, v, v, v, 1.0, 1.0]
        else:
            own = self._own_weights(k)
            if self._values[k, 7] > 0.0:
                x = self._values[k, 8] / self._values[k, 7]
            long: cython.double = self._certainty(k, 3, _LONG, precision)
            short: cython.double = self._certainty(k, 5, _SHORT, precision)
            variances = [1.0 / (self._values[k, 1] + precision), 1.0 / long, 1.0 / short]
            means = [self._values[k, 2] * variances[0], self._values[k, 4] / long, self._values[k, 6] / short]
            means = [0.0, *means, self._offset(k, 1, 1.0), self._line(k, FIRST_LINE, x)]
            free: cython.double = 1.0 / (self._values[k, 1] + 1.0)
            variances = [0.0, *variances, free, self._line_variance(k, FIRST_LINE, x)]
        mean = sum([q * m for q, m in zip(own, means, strict=True)])
        squares = [q * (v + (m - mean) ** 2) for q, m, v in zip(own, means, variances, strict=True)]
        return [*means, mean], [*variances, sum(squares)]

    def _own_weights(self, k: cython.Py_ssize_t) -> list:
        """Return Q of a level, whose sum is 1."""
        weights = np.asarray(self._singles[k])[FIRST_OWN:].astype(float)
        return (weights / weights.sum()).tolist()
