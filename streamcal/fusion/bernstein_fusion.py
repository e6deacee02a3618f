"""`BernsteinFusion`: the isotonic Bernstein polynomial of least squares in several scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.errors import InputError, SolverError
from streamcal.fusion.base import AdditiveFusion, FusionMap
from streamcal.fusion.missing import Missing
from streamcal.kernels.polynomial.bernstein import MAX_DEGREE
from streamcal.kernels.polynomial.tensor_bernstein import TensorPolynomial
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray
from streamcal.solvers.tensor import IsotonicTensorLeastSquares
from streamcal.statistics.present_scores import Places
from streamcal.statistics.tensor_moments import TensorMoments, units

#: Limit of the number of coefficients. A solve costs its third power, with matrices of 8 MB at the limit.
MAX_COEFFICIENTS = 1_000


#: The degree of every axis that is chosen for one, two, three … scores, and for more than these.
CHOSEN, CHOSEN_FOR_MORE = (5, 5, 3, 2), 1


class BernsteinFusion(AdditiveFusion[TensorMoments]):
    """BernPolyFusion: p(u) = Σ βₖ Πₘ Bₖₘ(uₘ), fitted by weighted least squares, nondecreasing along every axis.

    The fit minimises Σ wⱼ (p(uⱼ) − yⱼ)² over β in [0, 1], nondecreasing along every axis.

    u are the unit coordinates of the M scores on their scales, Bₖₘ the Bernstein basis of degree Kₘ. The constraints on
    β, eqs. (10) to (12), make p nondecreasing in every score over the whole cube, also between the observations. They
    are sufficient for that, not necessary. A ridge of 1e-10 on the differences of neighbouring coefficients, relative
    to the total weight, makes the solution unique where the data do not determine it: the flattest surface.

    Parameters
    ----------
    degrees : int, tuple of int or None
        K of every axis, or (K₁, …, K_M); each from 1 to 50, with Π(Kₘ + 1) ≤ 1,000 coefficients. None (default) chooses
        K from M: 5 for one and two scores, 3 for three, 2 for four, 1 for more, so that a solve takes at most ½ ms for
        up to six scores. From seven on it takes 0.1 s to 3 s, and from ten on there are too many coefficients: use
        `LogisticFusion`.
    n_scores : int
        M, at least 1.
    scale : Scale or tuple of Scale
        One for all scores or one for each, with bounds. The paper works on ranks: give
        `EmpiricalCDF.from_scores(sample)` of an earlier sample for each score; ranks that change with the data would
        corrupt the sums.
    missing, forgetting, refresh_every
        See `AdditiveFusion`. Learning never solves; the solve is at the first prediction after it.

    Notes
    -----
    Cost: an observation O(Π(2Kₘ + 1)), with fixed memory: 121 + 36 sums for two scores of degree 5, 1,331 + 216 for
    three. The time of a solve does not depend on the number of observations held. A solve starts from the active set of
    the last one: a step takes 0.02 ms for M = 2 and K = 5, and 0.2 ms for M = 3 and K = 5, 216 coefficients. The first
    solve, and one after a change of many observations, take longer.

    Every solution has a certified bound: its fitted values are within √(2·gap) of the optimum in root mean square
    over the data. A gap above 1e-8 (1.4e-4) raises `SolverError`; it was at most 3e-11 in 20,000
    random programs. Coefficients are repaired to satisfy the constraints exactly, so that p is monotone and within [0,
    1], up to the rounding of its terms.

    References
    ----------
    Wang & Liu, "Multivariate Probability Calibration with Isotonic Bernstein Polynomials" (paper 000), section 4.

    Examples
    --------
    >>> fusion = BernsteinFusion(degrees=3)
    >>> fusion.learn_many([[0.1, 0.2], [0.3, 0.7], [0.6, 0.4], [0.9, 0.8]], [0, 0, 1, 1])
    >>> fusion.predict_one([0.2, 0.3]) < 0.3, fusion.predict_one([0.8, 0.8]) > 0.7
    (True, True)
    >>> named = BernsteinFusion(degrees=(2, 4))
    >>> named.learn_one({"model a": 0.3, "model b": 0.8}, True)
    >>> round(named.predict_one({"model a": 0.3, "model b": 0.8}), 6)
    1.0
    """

    name = "bernstein-fusion"
    by_ratios = True
    summary = "isotonic tensor-product Bernstein polynomial by least squares"

    def __init__(
        self,
        degrees: int | tuple[int, ...] | None = None,
        n_scores: int = 2,
        *,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "raise",
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        self.degrees = degrees
        if isinstance(degrees, tuple):
            self.degrees = tuple(map(_degree, degrees))
        elif degrees is not None:
            self.degrees = _degree(degrees)
        super().__init__(
            n_scores=n_scores, scale=scale, missing=missing, forgetting=forgetting, refresh_every=refresh_every
        )
        self._least_squares = IsotonicTensorLeastSquares(self._degrees)

    def _params_at(self, places: Places) -> dict[str, Any]:
        return {"degrees": tuple([self._degrees[place] for place in places])}

    def new_statistic(self) -> TensorMoments:
        self._degrees = _each_degree(self.degrees, self.n_scores)
        for scale in self._scales:
            scale.require_bounds("a Bernstein polynomial")
        return TensorMoments(self._degrees, self._scales)

    def solve(self, statistic: TensorMoments, start: FusionMap | None) -> FusionMap:
        sums = statistic.sums
        solution = self._least_squares.solve(sums.moments, sums.cross, sums.weight)
        if not solution.solved:
            raise SolverError(
                f"the solver of Bernstein degrees {self._degrees} ended with status {solution.status!r}"
                f" and gap {solution.residual:.1e}"
            )
        return TensorMap(self._scales, self._degrees, solution.x, solution.residual)

    def _forget_solved(self) -> None:
        super()._forget_solved()
        self._least_squares.reset()


class TensorMap(FusionMap):
    """Σ βₖ Πₘ Bₖₘ(uₘ) at the unit coordinates of the scales.

    `coefficients` has shape (K₁ + 1, …, K_M + 1); `gap` bounds the excess of half the mean squared error over the
    optimum.
    """

    def __init__(self, scales: tuple[Scale, ...], degrees: tuple[int, ...], flat: FloatArray, gap: float) -> None:
        super().__init__(scales)
        self.degrees = degrees
        self.gap = gap
        self._polynomial = TensorPolynomial(flat, degrees)
        self.coefficients = self._polynomial.coefficients.reshape([degree + 1 for degree in degrees])

    def at(self, x: tuple[float, ...]) -> float:
        return float(self._polynomial.at([scale.unit(score) for scale, score in zip(self.scales, x, strict=True)]))

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._polynomial.at_many(units(self.scales, x))


def _degree(degree: int) -> int:
    return whole_number(degree, "degrees", 1, MAX_DEGREE, f"whole numbers from 1 to {MAX_DEGREE}")


def _each_degree(degrees: int | tuple[int, ...] | None, n_scores: int) -> tuple[int, ...]:
    """Return (K₁, …, K_M), or raise `InputError`."""
    if degrees is None:
        degrees = CHOSEN[n_scores - 1] if n_scores <= len(CHOSEN) else CHOSEN_FOR_MORE
    each = degrees if isinstance(degrees, tuple) else (degrees,) * n_scores
    if len(each) != n_scores:
        raise InputError(f"degrees={degrees!r} do not fit {n_scores} scores; give one, or n_scores={len(each)}")
    coefficients = int(np.prod([degree + 1 for degree in each], dtype=object))
    if coefficients > MAX_COEFFICIENTS:
        raise InputError(
            f"degrees={degrees!r} of {n_scores} scores make {coefficients} coefficients, and {MAX_COEFFICIENTS} are"
            " possible; give lower degrees, or use LogisticFusion"
        )
    return each
