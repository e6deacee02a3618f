"""`MonotonePolynomial`: least squares over all monotone polynomials, by semidefinite programming."""

from __future__ import annotations

from typing import get_args

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.errors import SolverError, StreamcalError
from streamcal.maps.base import ScaledMap
from streamcal.maps.polynomials import ChebyshevMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of, real_number, whole_number
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.solvers.conic import MAX_DEGREE, Basis, MonotonePolynomialFit
from streamcal.statistics.chebyshev_moments import ChebyshevMoments


class MonotonePolynomial(AdditiveCalibrator[ChebyshevMoments]):
    """Shape-restricted polynomial regression: min Σ wⱼ (p(uⱼ) − yⱼ)² over polynomials with p' ≥ 0, 0 ≤ p ≤ 1 on [0, 1].

    u is the score's unit coordinate on the scale. The family is *all* monotone polynomials of the degree; those with
    nondecreasing Bernstein coefficients (`Bernstein`) are a part of it.

    Parameters
    ----------
    degree : int
        k, from 1 to 40. The paper has examples with 16 and chooses among 4, …, 20 by cross-validation.
    bound : float or None
        Upper bound λ > 0 of the sum of the absolute coefficients; None for no bound. Monotonicity alone prevents
        oscillation, and the paper's convergence needs no bound.
    basis : {"monomial", "chebyshev"}
        The basis whose coefficients are bounded: 1, u, u², … as in the paper (22d), or the Chebyshev polynomials, which
        is ours. Monomial coefficients depend on the position of 0 and grow with the degree to sizes without meaning:
        those of T₄₀, which lies between −1 and 1, add up to 2e30. With a bound of 10⁶ and more the solve may fail, and
        the last map is served. The coefficients of a probability in Chebyshev polynomials are at most 1 in size.
    scale, forgetting, prior, refresh_every
        See `AdditiveCalibrator`; needs a bounded scale. For margins use `Interval(lo, hi)`, for rare events
        `Logit(lo, hi)` around the scores that occur.

    Notes
    -----
    Needs Clarabel, the extra `conic`. The map is monotone by construction, up to rounding (1e-13). A ridge of 1e-6 on
    the Chebyshev coefficients, relative to the total weight, selects the flattest curve where the data do not determine
    it. The ridge and the solver's tolerance change fitted values by about 1e-6 in the root mean square, and between the
    scores of a few observations by 1e-3 (bounds: `streamcal.solvers.conic`).

    Cost: an observation O(k), with fixed memory. The first prediction after an observation needs a solve, whatever the
    number of observations: 0.04 to 0.06 ms at degree 16 from the last map, by the points where p' touches 0. Where
    these are not found, and with a `bound` that matters, it is a semidefinite program, which takes much longer.

    References
    ----------
    Paper 002, §3, programs (22) and (23).

    Examples
    --------
    A cubic that is flat in the middle is monotone, but its Bernstein coefficients are not:

    >>> from streamcal import Bernstein
    >>> free, sufficient = MonotonePolynomial(degree=3), Bernstein(degree=3)
    >>> for score in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
    ...     rate = 0.5 + 0.5 * (2.0 * score - 1.0) ** 3
    ...     for cal in (free, sufficient):
    ...         cal.learn_one(score, True, w=rate)
    ...         cal.learn_one(score, False, w=1.0 - rate)
    >>> [round(cal.predict_one(0.1), 3) for cal in (free, sufficient)]  # the rate is 0.244
    [0.244, 0.213]
    """

    name = "monotone-polynomial"
    by_ratios = True
    summary = "least squares over all monotone polynomials, by semidefinite programs (extra `conic`)"
    default_resolution = None

    def __init__(
        self,
        degree: int = 16,
        bound: float | None = None,
        basis: Basis = "monomial",
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        refresh_every: int = 1,
    ) -> None:
        self.degree = whole_number(degree, "degree", 1, MAX_DEGREE)
        finite = "None or a finite number above 0"
        self.bound = None if bound is None else real_number(bound, "bound", finite, above=0.0)
        self.basis = one_of(basis, "basis", get_args(Basis))
        try:
            self._fit = MonotonePolynomialFit(self.degree, self.bound, basis)
        except ModuleNotFoundError as error:
            raise StreamcalError(f"MonotonePolynomial cannot be used: {error}") from None
        super().__init__(scale=scale, forgetting=forgetting, prior=prior, refresh_every=refresh_every)

    def new_statistic(self) -> ChebyshevMoments:
        self.scale.require_bounds("a polynomial")
        return ChebyshevMoments(self.degree, self.scale)

    def solve(self, statistic: ChebyshevMoments, start: ScaledMap | None) -> ScaledMap:
        moments = statistic.moments
        last = start.coefficients if isinstance(start, ChebyshevMap) else None
        solution = self._fit.solve(moments, statistic.cross, float(moments[0]), last)
        if not solution.solved:
            raise SolverError(f"Clarabel, for {self!r}, ended with status {solution.status!r}")
        return ChebyshevMap(self.scale, solution.x)
