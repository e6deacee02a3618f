"""Maps that are polynomials of the unit coordinate, or sigmoids of such polynomials."""

from __future__ import annotations

import numpy as np

from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.kernels.polynomial import chebyshev
from streamcal.kernels.polynomial.bernstein import evaluate, evaluate_many
from streamcal.maps.base import ScaledMap, frozen
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


class BernsteinLogisticMap(SeriesMap):
    """1 / (1 + exp(−Σ cᵢ Bᵢⁿ(u))) at the scale's unit coordinate u; `coefficients` has shape (n + 1,)."""

    kind = "bernstein-logistic"

    def at(self, x: float) -> float:
        return sigmoid(evaluate(self.coefficients, self.scale.unit(x)))

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(evaluate_many(self.coefficients, self.scale.units(x)))


class ChebyshevMap(SeriesMap):
    """Σ cₘ Tₘ(u) at the scale's unit coordinate u; `coefficients` has shape (k + 1,)."""

    kind = "chebyshev"

    def at(self, x: float) -> float:
        return min(max(float(chebyshev.evaluate(self.coefficients, self.scale.unit(x))), 0.0), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        return np.clip(chebyshev.evaluate_many(self.coefficients, self.scale.units(x)), 0.0, 1.0)
