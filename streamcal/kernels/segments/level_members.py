# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What the members of a level add to log-odds, and the steps that they make on outcomes.

Symbols, z being the log-odds that reach the level k of field j:

    m[a], v[a]               mean and variance of what member a adds to z
    H[k, a], E[k, a]         sums of natural parameters: m = E/(H + 1/τ²), v = 1/(H + 1/τ²); τ² see `observed_levels`
    A, B                     offset and slope of the last member, which adds A + B·x, x being z within ±16; its sums are
                             those of a Gaussian in two dimensions, with prior variances 1 and ¼
    c = w·(y − σ(end))       an implicit step: it ends where z + m + v·c = `end`

After a step with the curvature h = w·σ(end)(1 − σ(end)): H ← H + h, E ← E + c + h·(end − z), so that the new mean is
end − z.
"""

import cython
from cython.cimports.libc.math import sqrt
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, curvature, implicit, residual
from cython.cimports.streamcal.kernels.segments.observed_levels import LARGEST, ObservedLevels

#: The members: nothing, the offset with all memory, with recent memory, with variance 1, offset and slope.
MEMBERS = 5
#: Numbers kept of a level: its weight; H and E of the three offsets; C of the first two; H11, H12, H22, E1, E2. H of
#: offset a is at 1 + 2a.
WIDTH, C = 14, 7
#: H of recent memory is at most this: that of some 30 positives of a rare event.
RECENT_INFORMATION = 30.0
#: Larger weights of observations are clipped to this, for numerical accuracy, as in `implicit_regression`.
HEAVIEST = 1e6

_CAP = cython.declare(cython.double, RECENT_INFORMATION)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
STEEP = cython.declare(cython.double, 4.0)
"""The prior precision of the slope; that of the offset beside it is 1."""
FURTHEST = cython.declare(cython.double, 4.0)
"""A retraction moves no mean further from 0: where many are taken back in another
order than they came, what is taken is not what was added, and the error of each would add to that of the next."""


class LevelMembers(ObservedLevels):
    """Fields with a level each, and the members of every level.

    Parameters
    ----------
    fields, most : int
        See `SegmentChain`.
    prior : list of float
        The weights of the members of a field at first.
    """

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t, prior: list):
        super().__init__(fields, fields, most, 3, (WIDTH, 2, C, C + 1), fields, prior)

    def _offset(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, a: cython.Py_ssize_t) -> cython.double:
        """Return m of one of the three offsets."""
        return self._values[k, 2 + 2 * a] / (self._values[k, 1 + 2 * a] + self._precision[j, a])

    def _determinant(self, k: cython.Py_ssize_t) -> cython.double:
        """Return the determinant of (H11 + 1, H12; H12, H22 + 4), in which only H11·H22 − H12² ≥ 0 is a difference."""
        h11: cython.double = self._values[k, 9]
        h12: cython.double = self._values[k, 10]
        h22: cython.double = self._values[k, 11]
        return max(h11 * h22 - h12 * h12, 0.0) + STEEP * h11 + h22 + STEEP

    def _line(self, k: cython.Py_ssize_t, x: cython.double) -> cython.double:
        """Return a + B·x."""
        h11: cython.double = self._values[k, 9] + 1.0
        h12: cython.double = self._values[k, 10]
        h22: cython.double = self._values[k, 11] + STEEP
        e1: cython.double = self._values[k, 12]
        e2: cython.double = self._values[k, 13]
        return (h22 * e1 - h12 * e2 + x * (h11 * e2 - h12 * e1)) / self._determinant(k)

    def _line_variance(self, k: cython.Py_ssize_t, x: cython.double) -> cython.double:
        """Return the variance of A + B·x: that of a prior, and Σ h·(x − xᵢ)² ≥ 0, over the determinant."""
        h11: cython.double = self._values[k, 9]
        h12: cython.double = self._values[k, 10]
        h22: cython.double = self._values[k, 11]
        return (max(h22 - 2.0 * x * h12 + x * x * h11, 0.0) + STEEP + x * x) / self._determinant(k)

    def _learn_level(
        self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double
    ) -> cython.void:
        """Make the steps of all members of a level."""
        weight: cython.double = w if w < _HEAVIEST else _HEAVIEST
        self._values[k, 0] += w
        self._move(j, k, z, y, weight)
        self._move_line(k, z, y, weight)
        self._weigh_level(j, k)

    def _move(
        self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double
    ) -> cython.void:
        """Make the implicit steps of the three offsets."""
        a: cython.Py_ssize_t
        precision: cython.double
        mean: cython.double
        end: cython.double
        h: cython.double
        for a in range(3):
            precision = self._values[k, 1 + 2 * a] + self._precision[j, a]
            mean = self._values[k, 2 + 2 * a] / precision
            end = implicit(z + mean, w / precision, y)
            h = w * curvature(end)
            self._values[k, 1 + 2 * a] += h
            self._values[k, 2 + 2 * a] += w * residual(y, end) + h * (end - z)
        self._forget(k)

    def _forget(self, k: cython.Py_ssize_t) -> cython.void:
        """Scale the sums of recent memory down to its cap."""
        if self._values[k, 3] > _CAP:
            self._values[k, 4] *= _CAP / self._values[k, 3]
            self._values[k, 3] = _CAP

    def _move_line(self, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Make the implicit step of offset and slope."""
        x: cython.double = clamped(z, LARGEST)
        end: cython.double = implicit(z + self._line(k, x), w * self._line_variance(k, x), y)
        h: cython.double = w * curvature(end)
        step: cython.double = w * residual(y, end) + h * (end - z)
        self._values[k, 9] += h
        self._values[k, 10] += h * x
        self._values[k, 11] += h * x * x
        self._values[k, 12] += step
        self._values[k, 13] += step * x

    def _weigh_level(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.void:
        """Set C of a level, and S with it."""
        self._weigh(j, k, 0)
        self._weigh(j, k, 1)

    def _take(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double):
        """`unlearn` of one level; one without any weight left is dropped."""
        a: cython.Py_ssize_t
        precision: cython.double
        mean: cython.double
        h: cython.double
        total: cython.double
        limit: cython.double  # on |E|
        self._values[k, 0] -= w
        if self._values[k, 0] <= 1e-9 * w:  # rounding of sums of fractions
            self._drop(j, k)
            return
        w = w if w < _HEAVIEST else _HEAVIEST
        self._take_line(k, z, y, w)
        for a in range(3):
            precision = self._values[k, 1 + 2 * a] + self._precision[j, a]
            mean = self._values[k, 2 + 2 * a] / precision
            h = min(w * curvature(z + mean), self._values[k, 1 + 2 * a])
            total = self._values[k, 2 + 2 * a] - w * residual(y, z + mean) - h * mean
            limit = max(abs(mean), FURTHEST) * (precision - h)
            self._values[k, 1 + 2 * a] -= h
            self._values[k, 2 + 2 * a] = max(-limit, min(limit, total))
        self._weigh_level(j, k)

    def _take_line(self, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """`unlearn` of offset and slope."""
        x: cython.double = clamped(z, LARGEST)
        mean: cython.double = self._line(k, x)
        h: cython.double = min(w * curvature(z + mean), self._values[k, 9])
        step: cython.double = w * residual(y, z + mean) + h * mean
        bound: cython.double
        self._values[k, 9] -= h
        self._values[k, 11] = max(self._values[k, 11] - h * x * x, 0.0)
        bound = sqrt(self._values[k, 9] * self._values[k, 11])
        self._values[k, 10] = max(-bound, min(bound, self._values[k, 10] - h * x))
        self._values[k, 12] -= step
        self._values[k, 13] -= step * x
        after: cython.double = abs(self._line(k, x))
        limit: cython.double = max(abs(mean), FURTHEST)
        if after > limit:
            self._values[k, 12] *= limit / after
            self._values[k, 13] *= limit / after

    def _additions(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> tuple:
        """Return what the members add to the log-odds of a level, means and variances; k < 0: of one not held."""
        a: cython.Py_ssize_t
        x: cython.double = 0.0
        means: list = [0.0] * MEMBERS
        variances: list = [0.0, *[1.0 / self._precision[j, a] for a in range(3)], 1.0]
        if k >= 0:
            for a in range(3):
                variances[a + 1] = 1.0 / (self._values[k, 1 + 2 * a] + self._precision[j, a])
                means[a + 1] = self._values[k, 2 + 2 * a] * variances[a + 1]
            if self._values[k, 9] > 0.0:
                x = self._values[k, 10] / self._values[k, 9]
            means[4], variances[4] = self._line(k, x), self._line_variance(k, x)
        return means, variances
