"""Maps that are polynomials of the unit coordinate, or sigmoids of such polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.kernels.polynomial import chebyshev
from streamcal.kernels.polynomial.bernstein import evaluate, evaluate_many
from streamcal.maps import sql
from streamcal.maps.base import Pieces, ScaledMap, frozen
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray

#: Degrees of a Chebyshev series per piece in SQL. T₄₀ is then accurate to 1e-13; with 8 degrees per piece to 3e-12,
#: because of cancellation between powers; 2 are no more accurate and double the length of the text.
PIECE_DEGREE = 4
#: Truncation error of the series of a piece; the values it interpolates have rounding errors of a few times 1e-15.
PIECE_TAIL = 1e-14


class SeriesMap(ScaledMap):
    """A map made of a polynomial of the scale's unit coordinate u, whose `coefficients` have shape (n + 1,)."""

    def __init__(self, scale: Scale, coefficients: FloatArray) -> None:
        super().__init__(scale)
        self.coefficients = frozen(coefficients)


class BernsteinMap(SeriesMap):
    """Σ cᵢ Bᵢⁿ(u) at the scale's unit coordinate u."""

    kind = "bernstein"

    def at(self, x: float) -> float:
        return min(max(float(evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)

    def _pieces(self) -> Pieces:
        return bernstein_halves(self.scale, self.coefficients)


class BernsteinLogisticMap(SeriesMap):
    """1 / (1 + exp(−Σ cᵢ Bᵢⁿ(u))) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    kind = "bernstein-logistic"

    def at(self, x: float) -> float:
        return sigmoid(evaluate(self.coefficients, self.scale.unit(x)))

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(evaluate_many(self.coefficients, self.scale.units(x)))

    def _pieces(self) -> Pieces:
        cut, halves = bernstein_halves(self.scale, self.coefficients)
        largest = float(np.abs(self.coefficients).max())
        return cut, [lambda x, half=half: sql.sigmoid(f"({half(x)})", largest) for half in halves]


class ChebyshevMap(SeriesMap):
    """Σ cₘ Tₘ(u) at the scale's unit coordinate u; `coefficients` has shape (k + 1,)."""

    kind = "chebyshev"

    def at(self, x: float) -> float:
        return min(max(float(chebyshev.evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(chebyshev.evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)

    def _pieces(self) -> Pieces:
        """Return polynomials in powers of t, which runs from −1 to 1 between two cuts.

        The cuts are the extrema of a Chebyshev polynomial, which are closest where the map can change fastest. On a
        piece the coefficients of the series in Tₘ(t) decrease so fast that its powers hardly cancel (`PIECE_DEGREE`);
        it is truncated where its remainder is below `PIECE_TAIL`.
        """
        degree = len(self.coefficients) - 1
        pieces = max(1, -(-degree // PIECE_DEGREE))
        cuts = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, pieces + 1))
        return (
            (self.scale.lo + (self.scale.hi - self.scale.lo) * cuts)[1:-1],
            [self._piece(left, right) for left, right in pairwise(cuts.tolist())],
        )

    def _piece(self, left: float, right: float) -> Callable[[str], str]:
        """Return a function that writes the SQL for left ≤ u < right."""
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        terms = len(self.coefficients)
        t = np.polynomial.chebyshev.chebpts1(terms)
        values = chebyshev.evaluate_many(self.coefficients, middle + half * t)
        series = 2.0 / terms * (np.polynomial.chebyshev.chebvander(t, terms - 1).T @ values)
        series[0] *= 0.5
        left_out = np.cumsum(np.abs(series[::-1]))[::-1]  # bound on the error if the series ends before term i
        series = series[: max(1, int(np.count_nonzero(left_out > PIECE_TAIL)))]
        powers = np.polynomial.chebyshev.cheb2poly(series).tolist()

        def piece(x: str) -> str:
            t = f"(({self.scale.sql_unit(x)} - {sql.literal(middle)}) / {sql.literal(half)})"
            return sql.polynomial(t, powers)

        return piece


def bernstein_halves(scale: Scale, coefficients: FloatArray) -> Pieces:
    """Write Σ cᵢ Bᵢⁿ(u): on each half a polynomial in the smaller of u/(1 − u) and its inverse.

    All powers are at most 1 and, since the coefficients are monotone, no sum cancels.
    """
    n = len(coefficients) - 1
    terms = [math.comb(n, i) * c for i, c in enumerate(coefficients.tolist())]

    def half(terms: list[float], small: str, large: str) -> str:
        return " * ".join([sql.polynomial(f"{small} / {large}", terms)] + [large] * n)

    def below(x: str) -> str:
        return half(terms, scale.sql_unit(x), f"(1e0 - {scale.sql_unit(x)})")

    def above(x: str) -> str:
        return half(terms[::-1], f"(1e0 - {scale.sql_unit(x)})", scale.sql_unit(x))

    return np.array([0.5 * scale.lo + 0.5 * scale.hi]), [below, above]
