"""Eight families of copulas: log densities that neither overflow nor cancel, and their fit by maximum likelihood.

Symbols: u, v in (0, 1); c(u, v) = ∂²C/∂u∂v. Parameters are those of Nelsen, "An Introduction to Copulas", and Joe,
"Dependence Modeling with Copulas":

    gaussian    x = Φ⁻¹(u):  c = φ_R(x) / Π φ(x_m)                      R correlations, any number M of scores
    student     x = t_ν⁻¹(u):  c = t_{ν,R}(x) / Π t_ν(x_m)              0.8 ≤ ν ≤ 75, any M
    clayton     C = (u^−θ + v^−θ − 1)^(−1/θ)                            θ > 0
    gumbel      C = exp(−(x^θ + y^θ)^(1/θ)),  x = −log u, y = −log v    θ ≥ 1
    frank       C = −log(1 + (e^(−θu) − 1)(e^(−θv) − 1)/(e^−θ − 1)) / θ      θ ≠ 0
    plackett    (C (1 − u − v + C)) / ((u − C)(v − C)) = θ              θ > 0
    rotated-…   c(1 − u, 1 − v), the survival copula (rotation by 180°)

Frank at −θ and Plackett at 1/θ are the same copulas with 1 − v in place of v; negative dependence is computed this way.
Every density costs O(k) for k points of two scores, and O(k M²) for the elliptical families in M scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ndtri, stdtrit

Array = NDArray[np.float64]

#: Logarithms of degrees of freedom are multiples of this: the mean log likelihood is right to 1e-6.
DEGREES_STEP = 0.02
#: Degrees of freedom of which the search takes the best first, from the nearest to the Gaussian copula; the least and
#: the most.
DEGREES = (30.0, 12.0, 5.0, 2.0)
DEGREES_RANGE = (0.8, 75.0)
#: The first change of the search for degrees of freedom, in steps. A start is used this near to the best of DEGREES.
FIRST_CHANGE, BESIDE = 32, 48
#: Probabilities are clipped to [EDGE, 1 − EDGE]: densities are unbounded in the corners, where samples are empty.
EDGE = 1e-6
#: Smaller eigenvalues of a matrix of pairwise correlations are raised to this.
SMALLEST_EIGENVALUE = 1e-3
#: Mean log likelihoods that differ by less than this are equal, and the family named first is taken: several families
#: contain the independence copula or come near it, and rounding must not decide between them.
TIED = 1e-9
#: The search ends at this width of the parameter, on the scale of `_PAIRS`: a likelihood is flat to 1e-12 there.
WIDTH = 1e-6
#: A search with a start reads the maximum off the cubic through four places within this distance of it. Its error is
#: some 1e-9 times the ratio of the fourth to the second derivative.
NEAR = 0.01
#: Second differences smaller than this are lost in rounding.
FLAT = 1e-9
_PLACES = np.array([-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0])
#: Values at the places → the coefficients of the cubic.
_CUBIC = np.linalg.inv(np.vander(_PLACES, increasing=True))


# -- densities -----------------------------------------------------------------------------------------------------


def log_elliptical(x: Array, correlation: Array, degrees: float) -> Array:
    """Return the log density of the Gaussian (ν = ∞) or Student's t copula.

    `x` are quantiles of the margins, Φ⁻¹(u) or t_ν⁻¹(u), of shape (k, M); R is positive definite.
    """
    width = x.shape[1]
    root = np.linalg.cholesky(correlation)
    square = np.sum(np.linalg.solve(root, x.T) ** 2, axis=0)
    log_volume = float(np.log(np.diag(root)).sum())
    if degrees == np.inf:
        return -log_volume - 0.5 * (square - np.sum(x * x, axis=1))
    constant = gammaln((degrees + width) / 2) + (width - 1) * gammaln(degrees / 2) - width * gammaln((degrees + 1) / 2)
    joint = 0.5 * (degrees + width) * np.log1p(square / degrees)
    return constant - log_volume - joint + 0.5 * (degrees + 1) * np.sum(np.log1p(x * x / degrees), axis=1)


def log_clayton(u: Array, v: Array, theta: float) -> Array:
    """Return the log density of the Clayton copula at shapes (k,), the sum relative to its largest term.

    It is log((1 + θ) (uv)^(−1−θ) (u^−θ + v^−θ − 1)^(−2−1/θ)).
    """
    a, b = -theta * np.log(u), -theta * np.log(v)
    top = np.maximum(a, b)
    # e^a + e^b − 1 = e^top (1 + e^−top (e^low − 1)): nothing cancels, also where θ is small
    log_sum = top + np.log1p(np.exp(-top) * np.expm1(np.minimum(a, b)))
    return np.log1p(theta) + (1 + theta) / theta * (a + b) - (2 + 1 / theta) * log_sum


def log_gumbel(u: Array, v: Array, theta: float) -> Array:
    """Return log(C (xy)^(θ−1) A^(1−2θ) (A + θ − 1) / uv) with A = (x^θ + y^θ)^(1/θ), at shapes (k,)."""
    x, y = -np.log(u), -np.log(v)
    log_x, log_y = np.log(x), np.log(y)
    log_a = np.logaddexp(theta * log_x, theta * log_y) / theta
    a = np.exp(log_a)
    return x + y - a + (theta - 1) * (log_x + log_y) + (1 - 2 * theta) * log_a + np.log(a + (theta - 1))


def log_frank(u: Array, v: Array, theta: float) -> Array:
    """Return the log density of the Frank copula at shapes (k,).

    It is log(θ (1 − e^−θ) e^(−θ(u+v)) / D²), with D = e^(−θu) (1 − e^(−θv)) + e^(−θv) (1 − e^(−θ(1−v))).
    """
    if theta < 0.0:
        return log_frank(u, 1.0 - v, -theta)
    theta = max(theta, 1e-9)  # the independence copula, to a share of as much
    first = -theta * u + np.log(-np.expm1(-theta * v))
    second = -theta * v + np.log(-np.expm1(-theta * (1.0 - v)))
    return np.log(-theta * np.expm1(-theta)) - theta * (u + v) - 2.0 * np.logaddexp(first, second)


def log_plackett(u: Array, v: Array, theta: float) -> Array:
    """Return the log density of the Plackett copula at shapes (k,).

    It is log(θ (1 + η s) / (1 + 2 η s + η² (u − v)²)^(3/2)), with η = θ − 1 and s = u + v − 2uv.
    """
    if theta < 1.0:
        return log_plackett(u, 1.0 - v, 1.0 / theta)
    eta, s = theta - 1.0, u * (1.0 - v) + v * (1.0 - u)
    return np.log(theta) + np.log1p(eta * s) - 1.5 * np.log1p(eta * (2.0 * s + eta * (u - v) ** 2))


@dataclass(frozen=True)
class _Pair:
    """A family of two scores: its log density, and its parameter as a function of the variable of the search."""

    log_density: Callable[[Array, Array, float], Array]
    parameter: Callable[[float], float]
    variable: Callable[[float], float]  # the inverse of `parameter`
    bounds: tuple[float, float]


# From independence, to 1e-3, up to Kendall's τ of 0.96 (Clayton, Gumbel), 0.92 (Frank) or a Plackett odds ratio of e¹⁰.
_CLAYTON = _Pair(log_clayton, np.exp, np.log, (np.log(1e-3), np.log(50.0)))
_GUMBEL = _Pair(log_gumbel, lambda t: 1.0 + np.exp(t), lambda theta: np.log(theta - 1.0), (np.log(1e-3), np.log(25.0)))
_PAIRS = {
    "clayton": _CLAYTON,
    "rotated-clayton": _CLAYTON,
    "plackett": _Pair(log_plackett, np.exp, np.log, (-10.0, 10.0)),
    "frank": _Pair(log_frank, float, float, (-50.0, 50.0)),
    "gumbel": _GUMBEL,
    "rotated-gumbel": _GUMBEL,
}
#: The correlation is searched as tanh of what lies within these bounds: |ρ| < 0.9993.
_FISHER = (-4.0, 4.0)

#: The families in the order of paper 000, §5, and those that exist for any number of scores.
FAMILIES = ("gaussian", "clayton", "rotated-clayton", "plackett", "frank", "gumbel", "rotated-gumbel", "student")
ANY_WIDTH = ("gaussian", "student")


@dataclass(frozen=True, eq=False)
class Copula:
    """A fitted copula."""

    family: str  #: one of FAMILIES, or "independence", which has no parameter
    theta: float = 0.0  #: θ of the families of two scores
    correlation: Array | None = None  #: R of the elliptical families, of shape (M, M)
    degrees: float = np.inf  #: ν of the Student copula, ∞ for the Gaussian one
    log_likelihood: float = 0.0  #: mean log density over the sample it was fitted to

    def log_density(self, u: Array) -> Array:
        """Return the log density at probabilities of shape (k, M), which are clipped to [EDGE, 1 − EDGE]."""
        u = np.clip(u, EDGE, 1.0 - EDGE)
        if self.correlation is not None:
            return log_elliptical(_quantiles(u, self.degrees), self.correlation, self.degrees)
        if self.family not in _PAIRS:
            return np.zeros(len(u))
        if self.family.startswith("rotated-"):
            u = 1.0 - u
        return _PAIRS[self.family].log_density(u[:, 0], u[:, 1], self.theta)


# -- the fit -------------------------------------------------------------------------------------------------------


def likeliest(copulas: Sequence[Copula]) -> Copula:
    """Return the copula of the largest likelihood; "independence" where none is better than that by more than TIED."""
    best = Copula("independence")
    for copula in copulas:
        if copula.log_likelihood > best.log_likelihood + TIED:
            best = copula
    return best


def fit_copulas(
    u: Array, weight: Array, families: Sequence[str] = FAMILIES, start: Sequence[Copula] = ()
) -> tuple[Copula, ...]:
    """Fit the copula with the largest likelihood of each family tried, in their order; none for a single score.

    `u` are probabilities (ranks) of the scores, of shape (k, M), clipped to [EDGE, 1 − EDGE], with weights > 0. For M >
    2 only families of ANY_WIDTH are tried. Searches start from copulas fitted to similar data, `start`, which change a
    parameter by no more than WIDTH.

    For M > 2 the correlations are fitted pair by pair, and moved to a positive definite matrix where they do not form
    one. A search cannot fail: it ends inside the bounds of the parameter or at one of them. Cost: some 10 to 15
    evaluations of a density, O(k) each, for every parameter that is searched, and 5 with a start. The correlations of
    the Student copula are searched for some 15 values of ν, and for 7 with a start, each from those of the ν before.
    Those of the Gaussian copula are searched in O(1), from sums of squares.
    """
    share = weight / weight.sum()
    width = u.shape[1]
    u = np.clip(u, EDGE, 1.0 - EDGE)
    known = {copula.family: copula for copula in start}
    fitted = []
    for family in families if width > 1 else ():
        if family == "student":
            fitted.append(_fit_student(u, share, known.get(family)))
        elif family == "gaussian":
            fitted.append(_fit_elliptical(u, share, family, np.inf))
        elif width == 2:
            fitted.append(_fit_pair(u, share, family, known.get(family)))
    return tuple(fitted)


def _fit_pair(u: Array, share: Array, family: str, start: Copula | None) -> Copula:
    """Fit the member of a family of two scores with the largest likelihood."""
    pair = _PAIRS[family]
    first, second = (1.0 - u if family.startswith("rotated-") else u).T

    def likelihood(t: float) -> float:
        return float(share @ pair.log_density(first, second, pair.parameter(t)))

    t = _largest(likelihood, pair.bounds, None if start is None else float(pair.variable(start.theta)))
    return Copula(family, theta=float(pair.parameter(t)), log_likelihood=likelihood(t))


def _fit_elliptical(u: Array, share: Array, family: str, degrees: float, near: Array | None = None) -> Copula:
    """Fit the Gaussian or Student copula of these degrees of freedom, its correlations pair by pair.

    `near` are correlations to start from.
    """
    x = _quantiles(u, degrees)
    width = x.shape[1]
    correlation = np.eye(width)
    for i in range(width):
        for j in range(i):
            start = None if near is None else float(near[i, j])
            correlation[i, j] = correlation[j, i] = _correlation(x[:, i], x[:, j], share, degrees, start)
    correlation = _repaired(correlation)
    likelihood = float(share @ log_elliptical(x, correlation, degrees))
    return Copula(family, correlation=correlation, degrees=degrees, log_likelihood=likelihood)


def _fit_student(u: Array, share: Array, start: Copula | None) -> Copula:
    """Fit the Student copula, its degrees of freedom included.

    The likelihood may have several maxima in the degrees of freedom and in the correlations, as of few or tied points.
    So the search begins at DEGREES whatever the start is, and continues from the start if that is near the best one.
    """
    least, most = (int(np.log(degrees) / DEGREES_STEP) for degrees in DEGREES_RANGE)
    tried: dict[int, Copula] = {}
    gaussian = _fit_elliptical(u, share, "gaussian", np.inf)

    def value(step: int) -> float:
        if not least <= step <= most:
            return -np.inf
        if step not in tried:
            near = (tried[min(tried, key=lambda one: abs(one - step))] if tried else gaussian).correlation
            tried[step] = _fit_elliptical(u, share, "student", float(np.exp(DEGREES_STEP * step)), near)
        return tried[step].log_likelihood

    best, change = max((_step_of(degrees) for degrees in DEGREES), key=value), FIRST_CHANGE
    place = best if start is None else _step_of(start.degrees)
    if abs(place - best) <= BESIDE and value(place) > value(best):
        best, change = place, 1
    while change:
        place = max((best, best - change, best + change), key=value)
        if place == best:
            change //= 2
        best = place
    return tried[best]


def _step_of(degrees: float) -> int:
    return round(float(np.log(degrees)) / DEGREES_STEP)


def _correlation(x: Array, y: Array, share: Array, degrees: float, near: float | None) -> float:
    """Return the correlation with the largest likelihood at quantiles of two margins, shape (k,)."""
    squares, products = x * x + y * y, x * y
    if degrees == np.inf:
        square, product = float(share @ squares), float(share @ products)

    def likelihood(t: float) -> float:
        """Return the part of the mean log density that depends on the correlation."""
        rho = np.tanh(t)
        rest = 1.0 - rho * rho
        if degrees == np.inf:
            return float(-0.5 * (np.log(rest) + (square - 2.0 * rho * product) / rest))
        joint = np.log1p((squares - 2.0 * rho * products) / (rest * degrees))
        return float(-0.5 * (np.log(rest) + (degrees + 2.0) * (share @ joint)))

    return float(np.tanh(_largest(likelihood, _FISHER, None if near is None else float(np.arctanh(near)))))


def _largest(function: Callable[[float], float], bounds: tuple[float, float], near: float | None) -> float:
    """Return where a function of one variable is largest within bounds; `near` is where the search starts, or None."""
    place = None if near is None else _largest_near(function, bounds, near)
    if place is None:
        place = float(
            minimize_scalar(lambda t: -function(t), bounds=bounds, method="bounded", options={"xatol": WIDTH}).x
        )
    return place


def _largest_near(function: Callable[[float], float], bounds: tuple[float, float], near: float) -> float | None:
    """Return the maximum of the cubic through four values about a place, or None if it has none among them.

    A place at a bound to which the values rise is returned as it is.
    """
    low, high = bounds
    centre = min(max(near, low + NEAR), high - NEAR)
    values = np.array([function(centre + NEAR * place) for place in _PLACES])
    rises = np.diff(values) > 0.0
    if (near - low < 10.0 * WIDTH and not rises.any()) or (high - near < 10.0 * WIDTH and rises.all()):
        return near
    _, slope, half, third = (_CUBIC @ values).tolist()
    root = half * half - 3.0 * slope * third
    if not (half < -FLAT and root > 0.0):
        return None
    place = -slope / (half - np.sqrt(root))
    return float(centre + NEAR * place) if abs(place) <= 1.0 else None


def _quantiles(u: Array, degrees: float) -> Array:
    """Return standard normal or Student quantiles of the probabilities `u`."""
    return np.asarray(ndtri(u) if degrees == np.inf else stdtrit(degrees, u), dtype=np.float64)


def _repaired(correlation: Array) -> Array:
    """Return the matrix itself, or with eigenvalues raised to SMALLEST_EIGENVALUE and a unit diagonal."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= SMALLEST_EIGENVALUE or len(values) == 2:
        return correlation
    raised = (vectors * np.maximum(values, SMALLEST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(raised))
    return raised / scale[:, None] / scale
