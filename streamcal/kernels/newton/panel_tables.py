# cython: language_level=3
"""Constants of `panel_logistic.py` for a degree and a number of panels; the symbols are those of that file."""

from __future__ import annotations

import math

import numpy as np

from streamcal.kernels.polynomial.bernstein import basis, binomials

#: q.
ORDER = 20
#: How far a sum over nodes may be from that over points, per unit of weight.
UNRESOLVED = 1e-15
#: The largest |σ(η)| of an accepted ellipse: 1/sin(2.75), 2.75 being the distance of η from 0 that is allowed there.
LARGEST_SIGMOID = 2.7
#: What `tables` has made, by degree and number of panels: constants, shared by all fits.
_TABLES = {}


def tables(degree, panels):
    """Return the constants of a degree and a number of panels, arrays flat and read-only.

    These are the edges of the panels; the nodes of a panel on [−1, 1], and their barycentric weights; the basis at all
    nodes, a row for every B_i, and again a row for every node; the basis of degree 2n; the matrices of `_taylor` of all
    panels; and how much η can change in any ellipse where no coefficient of it changes by more than 1.
    """
    if (degree, panels) not in _TABLES:
        _TABLES[degree, panels] = _made_tables(degree, panels)
    return _TABLES[degree, panels]


def _made_tables(degree, panels):
    edges = np.sin(0.5 * np.pi * np.arange(panels + 1) / panels) ** 2
    edges[0], edges[-1] = 0.0, 1.0
    middles, halves = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    angles = (np.arange(ORDER) + 0.5) * np.pi / ORDER
    places = np.cos(angles)
    nodes = (middles[:, None] + halves[:, None] * places).ravel()
    radius, growth = _ellipse(degree, middles, halves)
    at_nodes = _bases(degree, nodes)
    axis = 0.5 * (radius + 1.0 / radius)
    columns = (
        edges,
        places,
        np.sin(angles) * (-1.0) ** np.arange(ORDER),
        np.pad(at_nodes.T, ((0, -(degree + 1) % 4), (0, 0))),
        at_nodes,
        _bases(2 * degree, nodes),
        np.array([_taylor(degree, *panel) for panel in zip(middles.tolist(), (axis * halves).tolist(), strict=True)]),
    )
    return *(_frozen(column) for column in columns), growth


def _frozen(column):
    flat = np.ascontiguousarray(column).ravel()
    flat.flags.writeable = False
    return flat.data


def _bases(degree, u):
    """B_i(u_j), of shape (k, degree + 1)."""
    rows = np.empty((len(u), degree + 1))
    for row, one in zip(rows, u.tolist(), strict=True):
        basis(degree, one, row)
    return rows


def _ellipse(degree, middles, halves):
    """Return the least R with an error ≤ UNRESOLVED, and the largest Σ|B_i| in the ellipses, (|z| + |1 − z|)ⁿ."""
    angles = np.linspace(0.0, np.pi, 65)
    low, high = 1.0, 1e3
    for _ in range(60):
        radius = math.sqrt(low * high)
        outline = 0.5 * (radius * np.exp(1j * angles) + np.exp(-1j * angles) / radius)
        z = middles[:, None] + halves[:, None] * outline
        growth = float(((np.abs(z) + np.abs(1.0 - z)) ** degree).max())
        error = 4.0 * LARGEST_SIGMOID * growth * radius ** (1 - ORDER) / (radius - 1.0)
        low, high = (radius, high) if error > UNRESOLVED else (low, radius)
    return radius, growth


def _taylor(degree, middle, scale):
    """Return the matrix from Bernstein coefficients to a_k: Σ c_i B_i(middle + scale·s) = Σ a_k sᵏ; (n + 1, n + 1)."""
    rows, number = np.zeros((degree + 1, degree + 1)), binomials(degree)
    differences = np.eye(degree + 1)
    for k in range(degree + 1):
        rows[k] = number[k] * scale**k * (_bases(degree - k, np.array([middle]))[0] @ differences)
        differences = np.diff(differences, axis=0)
    return rows
