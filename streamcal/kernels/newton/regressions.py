# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Online logistic regressions with forgetting, in O(n²) a step: the inverse of the curvature is kept.

Symbols:

    φ, n                     the features of a regression, and their number
    z = θ·φ                  a forecast, in log-odds
    A, P = A⁻¹               the curvature of the losses so far and of the prior A₀; its inverse
    λ                        the part of a coordinate of A that a step keeps
"""

import cython
import numpy as np
from cython.cimports.libc.math import sqrt
from cython.cimports.streamcal.kernels.newton.implicit_regression import curvature, implicit

HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this, for numerical accuracy."""
MOST = 24
"""Coordinates of a regression, at most."""

SIZE = cython.declare(cython.Py_ssize_t, 0)
START = cython.declare(cython.Py_ssize_t, 1)
AT = cython.declare(cython.Py_ssize_t, 2)


class Plan:
    """The sizes, rates of forgetting and starting values of regressions; any number of `Regressions` share a plan.

    Parameters
    ----------
    regressions : list of tuples
        For each regression the indices of its features, and for each coordinate λ, the precision (A₀ is diagonal) and
        the initial θ.
    """

    def __init__(self, regressions):
        table, places, growth, renewal, precisions, start, inverse = [], [], [], [], [], [], []
        for where, keep, precision, theta in regressions:
            size = len(where)
            if size > MOST:
                raise ValueError(f"a regression of {size} coordinates is larger than {MOST}")
            table.append((size, len(places), len(inverse)))
            places.extend(where)
            growth.extend([part**-0.5 for part in keep])
            renewal.extend([(1.0 - part**size) * p for part, p in zip(keep, precision, strict=True)])
            precisions.extend(precision)
            start.extend(theta)
            inverse.extend(np.diag(1.0 / np.array(precision)).ravel().tolist())
        self.number = len(table)
        self._table = np.array(table, dtype=np.intp)
        self._places = np.array(places, dtype=np.intp)
        self._growth, self._renewal = np.array(growth), np.array(renewal)
        self.precisions, self.start, self.inverse = np.array(precisions), np.array(start), np.array(inverse)

    def sizes(self):
        """Return the number of coordinates of each regression."""
        return [int(self._table[index, SIZE]) for index in range(self.number)]


class Regressions:
    """Online logistic regressions with forgetting.

    A step that forgets begins with  A ← ΛAΛ, Λ = diag(√λ);  the next coordinate k in turn is renewed,
    A[k, k] += (1 − λₖⁿ)·A₀[k, k].
    Each step is  θ ← θ + Pφ·(m − z)/v, v = φᵀPφ, m being the log-odds z + v·w·(y − σ(m)) of the implicit step;
    A ← A + w·σ(m)(1 − σ(m))·φφᵀ. Where `hold` has set a centre, the constant is renewed along the features there.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self._cut(np.concatenate([plan.start, plan.inverse, np.zeros(plan.number)]), len(plan.start), plan.number)
        self._offset = 0

    def _cut(self, block: cython.double[::1], at: cython.Py_ssize_t, number: cython.Py_ssize_t):
        """Make the arrays slices of one block: separate arrays take 0.3 kB more each."""
        end: cython.Py_ssize_t = block.shape[0] - number
        self._theta, self._inverse, self._turns, self._centre = block[:at], block[at:end], block[end:], block[:0]

    def predict(self, index, phi):
        """Return θ·φ of a regression."""
        k: cython.Py_ssize_t
        start: cython.Py_ssize_t = self.plan._table[index, START]
        z: cython.double = 0.0
        for k in range(start, start + self.plan._table[index, SIZE]):
            z += self._theta[k] * phi[self.plan._places[k]]
        return z

    def learn(self, index, phi, y, w, forgets):
        """Learn the label y of weight w at the features φ; `forgets` says whether the regression forgets before."""
        _step(
            self._theta,
            self._inverse,
            self.plan._table,
            self.plan._places,
            self.plan._growth,
            self.plan._renewal,
            self._centre,
            self._offset,
            self._turns,
            index,
            phi,
            y,
            min(w, HEAVIEST),
            forgets,
        )

    def hold(self, phi, offset):
        """Reset A to a prior that penalises changes of the forecast at the features φ, in place of the constant.

        `offset` is the index of the constant. The entry p of the constant on the diagonal of A₀ is replaced by pφφᵀ.
        """
        alone = np.count_nonzero(phi) == 1  # the constant itself
        self._centre, self._offset = np.zeros(0) if alone else np.array(phi), offset
        places, precisions, inverse = np.asarray(self.plan._places), self.plan.precisions, np.asarray(self._inverse)
        for index in range(self.plan.number):
            size, start, at = (int(number) for number in np.asarray(self.plan._table)[index])
            prior, features = np.diag(precisions[start : start + size]), np.asarray(phi)[places[start : start + size]]
            k = places[start : start + size].tolist().index(offset)
            p = prior[k, k]
            prior[k, k] = 0.0
            block = np.linalg.inv(prior + p * np.outer(features, features))
            inverse[at : at + size * size] = (0.5 * (block + block.T)).ravel()  # symmetric to the last bit

    def state(self):
        """Return [θ, P, turns] of all regressions as plain data, for `load`."""
        return [np.asarray(self._theta).tolist(), np.asarray(self._inverse).tolist(), [int(k) for k in self._turns]]

    def load(self, theta, inverse, turns):
        """Load an earlier `state`."""
        np.asarray(self._theta)[...] = theta
        np.asarray(self._inverse)[...] = inverse
        np.asarray(self._turns)[...] = turns


# Arrays are passed rather than read from fields: the compiler then knows that they do not move.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _along_centre(
    inverse: cython.const[cython.double][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    grown: cython.p_double,
    h: cython.p_double,
    r: cython.p_double,
) -> cython.double:
    """Set r = Λ⁻¹PΛ⁻¹h, and return h·r, h being the centre."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    u: cython.double
    for k in range(size):
        r[k] = 0.0
    for j in range(size):
        u = h[j] * grown[j]
        if u != 0.0:
            for k in range(size):
                r[k] = r[k] + u * inverse[at + j * size + k]
    u = 0.0
    for k in range(size):
        r[k] = r[k] * grown[k]
        u += r[k] * h[k]
    return u


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _forget(
    inverse: cython.double[::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    grown: cython.p_double,
    r: cython.p_double,
    f: cython.p_double,
    g: cython.p_double,
) -> cython.void:
    """Replace P by Λ⁻¹PΛ⁻¹ − rrᵀ, and add Pf to g.

    P stays symmetric to the last bit, since products are the same in any order: asymmetry would grow by 1/λ a step.
    """
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    c: cython.double
    for j in range(size):
        c = r[j]
        for k in range(size):
            inverse[at + k] = grown[j] * grown[k] * inverse[at + k] - c * r[k]
        if f[j] != 0.0:
            for k in range(size):
                g[k] = g[k] + f[j] * inverse[at + k]
        at += size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _subtract_square(
    inverse: cython.double[::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t, g: cython.p_double
) -> cython.void:
    """Subtract ggᵀ from P."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    a: cython.double
    for j in range(size):
        a = g[j]
        for k in range(size):
            inverse[at + k] = inverse[at + k] - a * g[k]
        at += size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _move(
    theta: cython.double[::1],
    inverse: cython.double[::1],
    start: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    f: cython.p_double,
    g: cython.p_double,
    y: cython.double,
    w: cython.double,
) -> cython.void:
    """Make the implicit step on the label y at the features f, with g = Pf, which is overwritten."""
    k: cython.Py_ssize_t
    c: cython.double
    u: cython.double
    z: cython.double = 0.0
    v: cython.double = 0.0
    for k in range(size):
        z += theta[start + k] * f[k]
        v += f[k] * g[k]
    if v <= 0.0:
        return
    c = implicit(z, v * w, y)
    u = w * curvature(c)
    u = sqrt(u / (1.0 + u * v))
    c = (c - z) / v
    for k in range(size):
        theta[start + k] += c * g[k]
        g[k] = u * g[k]
    _subtract_square(inverse, at, size, g)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _step(
    theta: cython.double[::1],
    inverse: cython.double[::1],
    table: cython.const[cython.Py_ssize_t][:, ::1],
    places: cython.const[cython.Py_ssize_t][::1],
    growth: cython.const[cython.double][::1],
    renewal: cython.const[cython.double][::1],
    centre: cython.const[cython.double][::1],
    offset: cython.Py_ssize_t,
    turns: cython.double[::1],
    index: cython.Py_ssize_t,
    phi: cython.const[cython.double][::1],
    y: cython.double,
    w: cython.double,
    forgets: cython.bint,
) -> cython.void:
    """Do `Regressions.learn`."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    size: cython.Py_ssize_t = table[index, SIZE]
    start: cython.Py_ssize_t = table[index, START]
    at: cython.Py_ssize_t = table[index, AT]
    turn: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, turns[index])
    u: cython.double
    f = cython.declare(cython.double[24])  # `MOST`
    g = cython.declare(cython.double[24])
    r = cython.declare(cython.double[24])
    grown = cython.declare(cython.double[24])
    h = cython.declare(cython.double[24])
    for k in range(size):
        f[k] = phi[places[start + k]]
        grown[k] = growth[start + k]
        g[k] = 0.0
    if not forgets:
        for j in range(size):
            if f[j] != 0.0:
                for k in range(size):
                    g[k] = g[k] + f[j] * inverse[at + k]
            at += size
        _move(theta, inverse, start, table[index, AT], size, f, g, y, w)
        return
    if centre.shape[0] > 0 and places[start + turn] == offset:
        for k in range(size):
            h[k] = centre[places[start + k]]
        u = _along_centre(inverse, at, size, grown, h, r)
    else:
        for k in range(size):
            r[k] = grown[turn] * grown[k] * inverse[at + turn * size + k]
        u = r[turn]
    u = sqrt(renewal[start + turn] / (1.0 + renewal[start + turn] * u))
    for k in range(size):
        r[k] = u * r[k]
    _forget(inverse, at, size, grown, r, f, g)
    turns[index] = turn + 1 if turn + 1 < size else 0
    _move(theta, inverse, start, at, size, f, g, y, w)
