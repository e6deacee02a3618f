# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Chebyshev nodes in place of the points of a logistic regression: some hundred weights, whatever the number of points.

    z           the place of a point: its log-odds u + v in a regression on u = ln s and v = −ln(1 − s), else u
    panel       one of the intervals of half-width δ that cover the places of all points
    node        one of `_NODES` Chebyshev points of a panel;  l_k the Lagrange polynomials of these points
    weights     of a node: Σ w l(z) over the points of its panel, for the negatives and for the positives
    m           the slope of the log-odds in z, at most: the larger one of A and B
    ellipse     of a panel: the Bernstein ellipse around it whose half-axes a and b add up to R half-widths

The gradient is a sum Σ w g(z) of analytic functions: p = σ(η) of the negatives, or 1 − p of the positives, times a
feature. The sum over the nodes is that over the points, but for

    4 M R^(1 − NODES) / (R − 1)

per unit of weight, where |g| ≤ M in the ellipse (Trefethen 2013, Approximation Theory and Approximation Practice,
Theorem 8.2). It is taken as the one with mb = 2, or with b = 2 where m < 1, within the strips where u and v are
analytic. There |Im η| ≤ 2, so that |σ(η)| ≤ σ(Re η)/cos 1; Re η is above that on the real axis by no more than
m ln(1/cos(b/2)) ≤ ln(1/cos 1); and from there to a node of the panel η changes by no more than m(a + δ). So p and
1 − p are at most exp(m(a + δ))/cos² 1 times their values at any node. The weights do not depend on the parameters.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, log1p, pow, sqrt
from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints

#: The nodes of a panel, and the most panels.
_NODES = cython.declare(cython.Py_ssize_t, 32)
_MOST_PANELS = cython.declare(cython.Py_ssize_t, 64)
#: mδ of new panels, and where nothing is certain: the bound grows with it, and is of use up to some 1.5.
_WIDTH = cython.declare(cython.double, 1.2)
_STEEP = cython.declare(cython.double, 2.0)
#: Panels are discarded once the weight added to and removed from a label of one exceeds this many times the weight that
#: is left: rounding adds up to as many units.
WORN = 64.0
#: An extent of the ellipse in units of b: |u′| and |v′| are at most 1/cos 1 in it.
_STEEPEST = cython.declare(cython.double, 1.0 / math.cos(1.0))

_INFINITE = cython.declare(cython.double, math.inf)
_WORN = cython.declare(cython.double, WORN)


class PointNodes:
    """The nodes of the points in `RecentPoints`. Fields are declared in `point_nodes.pxd`."""

    def __init__(self, two, constant):
        angles = (np.arange(_NODES) + 0.5) * np.pi / _NODES
        self.two, self.shift = two, math.log(2.0) if two and not constant else 0.0
        self.places, self.barycentric = np.cos(angles).data, (np.sin(angles) * (-1.0) ** np.arange(_NODES)).data
        self.u, self.v, self.negative, self.positive = (np.zeros(_MOST_PANELS * _NODES).data for _ in range(4))
        self.share = np.zeros(_NODES).data
        self.weight, self.handled = np.zeros(2 * _MOST_PANELS).data, np.zeros(2 * _MOST_PANELS).data
        self.number = np.zeros(2 * _MOST_PANELS, dtype=np.intp).data
        self.holds, self.panels, self.size = False, 0, 0
        self.start = self.half = self.error = self.extent = 0.0

    @cython.locals(low=cython.double, high=cython.double, half=cython.double, z=cython.double, tail=cython.double)
    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def _load(self, points: RecentPoints, slope: cython.double, most: cython.Py_ssize_t) -> cython.void:
        """Make the nodes of all points for log-odds of this slope, if there are no more than `most`."""
        low, high = self._place(points.low[0], points.low[1]), self._place(points.high[0], points.high[1])
        if self.two:
            slope = max(slope, 1.0)
        self.holds = slope > 0.0 and 0.5 * (high - low) * slope / _WIDTH < min(_MOST_PANELS, most // _NODES) - 1.0
        if not self.holds:
            return
        half = _WIDTH / slope
        self.panels = cython.cast(cython.Py_ssize_t, 0.5 * (high - low) / half) + 1
        self.size = self.panels * _NODES
        self.half, self.start = half, 0.5 * (low + high) - half * self.panels
        for i in range(2 * self.panels):
            self.weight[i] = self.handled[i] = 0.0
            self.number[i] = 0
        for i in range(self.panels):
            for k in range(_NODES):
                at, z = i * _NODES + k, self.start + (2 * i + 1 + self.places[k]) * half
                self.negative[at] = self.positive[at] = 0.0
                self.u[at], self.v[at] = z, 0.0
                if self.two:
                    tail = log1p(exp(-fabs(z)))
                    self.u[at], self.v[at] = min(z, 0.0) - tail + self.shift, max(z, 0.0) + tail - self.shift
        for i in range(points.end):
            if points.slot[i] >= 0:
                self._add(points.u[i], points.v[i], points._weight(i), points.slot[i] & 1, True)

    def _place(self, u: cython.double, v: cython.double) -> cython.double:
        return u + v if self.two else u

    @cython.locals(at=cython.double, t=cython.double, gap=cython.double, total=cython.double, label=cython.Py_ssize_t)
    @cython.locals(k=cython.Py_ssize_t, first=cython.Py_ssize_t, panel=cython.Py_ssize_t)
    def _add(
        self, u: cython.double, v: cython.double, w: cython.double, positive: cython.bint, comes: cython.bint
    ) -> cython.void:
        """Add a point of weight w, or take it off; `holds` becomes False where that is not possible."""
        to: cython.double[::1]
        at = 0.5 * (self._place(u, v) - self.start) / self.half
        if not 0.0 <= at < self.panels:
            self.holds = False
            return
        panel = cython.cast(cython.Py_ssize_t, at)
        t, total, first = 2.0 * (at - panel) - 1.0, 0.0, panel * _NODES
        for k in range(_NODES):
            gap = t - self.places[k]
            self.share[k] = self.barycentric[k] / (gap if gap != 0.0 else 1e-300)
            total += self.share[k]
        total = (w if comes else -w) / total
        label = 2 * panel + (1 if positive else 0)
        to = self.positive if positive else self.negative
        for k in range(_NODES):
            to[first + k] += total * self.share[k]
        self.weight[label] += w if comes else -w
        self.handled[label] += w
        self.number[label] += 1 if comes else -1
        if self.number[label] == 0:
            for k in range(_NODES):
                to[first + k] = 0.0
            self.weight[label] = self.handled[label] = 0.0
        elif not self.handled[label] <= _WORN * self.weight[label]:
            self.holds = False

    @cython.locals(i=cython.Py_ssize_t)
    def _scale(self, factor: cython.double) -> cython.void:
        """Multiply all weights by a power of two."""
        for i in range(self.size):
            self.negative[i] *= factor
            self.positive[i] *= factor
        for i in range(2 * self.panels):
            self.weight[i] *= factor
            self.handled[i] *= factor

    def _narrow(self, slope: cython.double) -> cython.bint:
        """Return whether half as many nodes would do for log-odds of this slope."""
        return self.half * (max(slope, 1.0) if self.two else slope) < 0.5 * _WIDTH

    @cython.locals(b=cython.double, a=cython.double, radius=cython.double)
    def _bound(self, slope: cython.double) -> cython.void:
        """Set `error`, of a sum relative to Σ w g at the nodes, for log-odds of this slope.

        `extent` is how far u and v in an ellipse are from those of a point, at most.
        """
        if not slope * self.half <= _STEEP:
            self.error = _INFINITE
            return
        b = 2.0 / max(slope, 1.0) if self.two else 2.0 / max(slope, 1e-6 / self.half)
        a = sqrt(b * b + self.half * self.half)
        radius = (a + b) / self.half
        self.error = 4.0 * pow(radius, 1.0 - _NODES) / (radius - 1.0)
        self.error *= exp(slope * (a + self.half)) * _STEEPEST * _STEEPEST
        self.extent = a + self.half + _STEEPEST * b
