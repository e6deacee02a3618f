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

#: Degrees of freedom that are tried first; the best is then searched within a factor of the best of these.
DEGREES = (2.0, 5.0, 12.0, 30.0)
FACTOR = 2.5
#: The search for the degrees of freedom ends at this width of their logarithm: the mean log likelihood is right to
#: 1e-6.
DEGREES_WIDTH = 0.02
#: Probabilities are clipped to [EDGE, 1 − EDGE]: densities are unbounded in the corners, where samples are empty.
EDGE = 1e-6
#: Smaller eigenvalues of a matrix of pairwise correlations are raised to this.
SMALLEST_EIGENVALUE = 1e-3
#: Mean log likelihoods that differ by less than this are equal, and the family named first is taken: several families
#: contain the independence copula or come near it, and rounding must not decide between them.
TIED = 1e-9
#: The search ends at this width of the parameter, on the scale of `_PAIRS`: a likelihood is flat to 1e-12 there.
WIDTH = 1e-6


# -- densities -----------------------------------------------------------------------------------------------------


def log_elliptical(x: Array, correlation: Array, degrees: float) -> Array:
    """Return the log density of the Gaussian (ν = ∞) or Student's t copula.

    Parameters
    ----------
    x : ndarray of shape (k, M)
        Quantiles of the margins, Φ⁻¹(u) or t_ν⁻¹(u).
    correlation : ndarray of shape (M, M)
        R, positive definite.
    degrees : float
        ν > 0, or ∞.

    Returns
    -------
    ndarray of shape (k,)
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
    bounds: tuple[float, float]


# From independence, to 1e-3, up to Kendall's τ of 0.96 (Clayton, Gumbel), 0.92 (Frank) or a Plackett odds ratio of e¹⁰.
_CLAYTON = _Pair(log_clayton, np.exp, (np.log(1e-3), np.log(50.0)))
_GUMBEL = _Pair(log_gumbel, lambda t: 1.0 + np.exp(t), (np.log(1e-3), np.log(25.0)))
_PAIRS = {
    "clayton": _CLAYTON,
    "rotated-clayton": _CLAYTON,
    "plackett": _Pair(log_plackett, np.exp, (-10.0, 10.0)),
    "frank": _Pair(log_frank, float, (-50.0, 50.0)),
    "gumbel": _GUMBEL,
    "rotated-gumbel": _GUMBEL,
}
#: The correlation is searched as tanh of what lies within these bounds: |ρ| < 0.9993.
_FISHER = (-4.0, 4.0)

#: The families in the order of paper 000, §5, and those that exist for any number of scores.
FAMILIES = (
    "gaussian",
    "clayton",
    "rotated-clayton",
    "plackett",
    "frank",
    "gumbel",
    "rotated-gumbel",
    "student",
)
ANY_WIDTH = ("gaussian", "student")


@dataclass(frozen=True, eq=False)
class Copula:
    """A fitted copula.

    Attributes
    ----------
    family : str
        One of FAMILIES, or "independence", which has no parameter.
    theta : float
        θ of the families of two scores.
    correlation : ndarray of shape (M, M) or None
        R of the elliptical families.
    degrees : float
        ν of the Student copula, ∞ for the Gaussian one.
    log_likelihood : float
        Mean log density over the sample it was fitted to.
    """

    family: str
    theta: float = 0.0
    correlation: Array | None = None
    degrees: float = np.inf
    log_likelihood: float = 0.0

    def log_density(self, u: Array) -> Array:
        """Return the log density of the copula.

        Parameters
        ----------
        u : ndarray of shape (k, M)
            Probabilities, clipped to [EDGE, 1 − EDGE].

        Returns
        -------
        ndarray of shape (k,)
        """
        u = np.clip(u, EDGE, 1.0 - EDGE)
        if self.correlation is not None:
            return log_elliptical(_quantiles(u, self.degrees), self.correlation, self.degrees)
        if self.family not in _PAIRS:
            return np.zeros(len(u))
        if self.family.startswith("rotated-"):
            u = 1.0 - u
        return _PAIRS[self.family].log_density(u[:, 0], u[:, 1], self.theta)


# -- the fit -------------------------------------------------------------------------------------------------------


def fit_copula(u: Array, weight: Array, families: Sequence[str] = FAMILIES) -> Copula:
    """Fit the copula with the largest likelihood.

    Parameters
    ----------
    u : ndarray of shape (k, M)
        Probabilities (ranks) of the scores, clipped to [EDGE, 1 − EDGE].
    weight : ndarray of shape (k,)
        Weights, > 0.
    families : sequence of str
        Candidates, of FAMILIES. For M > 2 only those of ANY_WIDTH are tried.

    Returns
    -------
    Copula
        "independence" for a single score, and where no family is better by more than TIED.

    Notes
    -----
    For M > 2 the correlations are fitted pair by pair, and moved to a positive definite matrix where they do not form
    one. A search cannot fail: it ends inside the bounds of the parameter or at one of them. Cost: some 10 to 15
    evaluations of a density, O(k) each, for every parameter that is searched. The correlations of the Student copula
    are searched for every ν of DEGREES, and for about seven values of ν near the best of them.
    """
    share = weight / weight.sum()
    width = u.shape[1]
    best = Copula("independence")
    for family in families if width > 1 else ():
        if family in ANY_WIDTH:
            copula = _fit_student(u, share) if family == "student" else _fit_elliptical(u, share, family, np.inf)
        elif width == 2:
            copula = _fit_pair(u, share, family)
        else:
            continue
        if copula.log_likelihood > best.log_likelihood + TIED:
            best = copula
    return best


def _fit_pair(u: Array, share: Array, family: str) -> Copula:
    """Fit the member of a family of two scores with the largest likelihood."""
    pair = _PAIRS[family]
    u = np.clip(u, EDGE, 1.0 - EDGE)
    first, second = (1.0 - u if family.startswith("rotated-") else u).T
    t, likelihood = _largest(lambda t: float(share @ pair.log_density(first, second, pair.parameter(t))), pair.bounds)
    return Copula(family, theta=float(pair.parameter(t)), log_likelihood=likelihood)


def _fit_elliptical(u: Array, share: Array, family: str, degrees: float) -> Copula:
    """Fit the Gaussian or Student copula of these degrees of freedom, its correlations pair by pair."""
    x = _quantiles(np.clip(u, EDGE, 1.0 - EDGE), degrees)
    width = x.shape[1]
    correlation = np.eye(width)
    for i in range(width):
        for j in range(i):
            correlation[i, j] = correlation[j, i] = _correlation(x[:, [i, j]], share, degrees)
    correlation = _repaired(correlation)
    likelihood = float(share @ log_elliptical(x, correlation, degrees))
    return Copula(family, correlation=correlation, degrees=degrees, log_likelihood=likelihood)


def _fit_student(u: Array, share: Array) -> Copula:
    """Fit the Student copula, its degrees of freedom included."""
    tried = [_fit_elliptical(u, share, "student", degrees) for degrees in DEGREES]
    best = max(tried, key=lambda one: one.log_likelihood)

    def fitted(log_degrees: float) -> Copula:
        return _fit_elliptical(u, share, "student", float(np.exp(log_degrees)))

    near = float(np.log(best.degrees / FACTOR)), float(np.log(best.degrees * FACTOR))
    found = fitted(_largest(lambda t: fitted(t).log_likelihood, near, DEGREES_WIDTH)[0])
    return max(found, best, key=lambda one: one.log_likelihood)


def _correlation(x: Array, share: Array, degrees: float) -> float:
    """Return the correlation with the largest likelihood at quantiles of two margins, shape (k, 2)."""

    def likelihood(t: float) -> float:
        rho = np.tanh(t)
        return float(share @ log_elliptical(x, np.array([[1.0, rho], [rho, 1.0]]), degrees))

    return float(np.tanh(_largest(likelihood, _FISHER)[0]))


def _largest(
    function: Callable[[float], float], bounds: tuple[float, float], width: float = WIDTH
) -> tuple[float, float]:
    """Return where a function of one variable is largest within bounds, and its value there."""
    found = minimize_scalar(lambda t: -function(t), bounds=bounds, method="bounded", options={"xatol": width})
    return float(found.x), -float(found.fun)


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
    repaired: Array = raised / scale[:, None] / scale
    return repaired
