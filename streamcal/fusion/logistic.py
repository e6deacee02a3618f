"""`LogisticFusion`: online logistic regression on the log-odds of the scores, which may be missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import StateError
from streamcal.fusion.base import Fusion, FusionMap, MeanMap
from streamcal.fusion.missing import Missing
from streamcal.fusion.named_scores import NamedScores, Scores, coordinate, coordinates_of
from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.kernels.common.weights import WeightScale
from streamcal.kernels.newton.implicit_regression import ForgettingRegression
from streamcal.maps.base import frozen
from streamcal.parameters.columns import like
from streamcal.parameters.numbers import one_of, real_number
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Time
from streamcal.states import HEAVIEST as HEAVIEST_SUM
from streamcal.states import ROUNDING, Field, attribute, ensure, number, numbers, part, row, weight_scale_state
from streamcal.statistics.present_scores import ABSENT, Places, by_places, places_of

#: Precisions of the normal prior on the weights a_m around 1/M, on c_m around 0, and on the offset around 0. Of 1, 4
#: and 16 for a_m the first had the lowest Brier scores on short streams, by a little.
PRECISIONS = (1.0, 0.25, 1.0)
#: The prior of the joint distribution of the features has the weight of this many observations; z has a standard
#: deviation of 2, tanh z the moments that belong to it, and scores have a correlation of 0.9: models of one outcome
#: agree until they are seen to differ.
PRIOR_WEIGHT = 2.0
PRIOR_MOMENTS = ((4.0, 1.4), (1.4, 0.6))
PRIOR_CORRELATION = 0.9
#: No coefficient is further from 0: its steps end where the log-odds of a forecast are clamped.
FARTHEST = 1e9
#: Added to variances, so that scores that are functions of one another can be regressed on each other.
JITTER = 1e-6


class LogisticFusion(Fusion):
    """Online logistic fusion: logit p = b + Σ (a_m z_m + c_m tanh z_m), z_m the log-odds of score m.

    Scores may be missing. Each outcome is one implicit step of logistic regression with forgetting, from the mean of
    the log-odds (a_m = 1/M, b = c_m = 0), with a normal prior. The second feature lets the influence of a score
    saturate, as it has to where a model is overconfident. Beside it mean and covariance of the features are estimated.
    The features of a score that is missing (None, NaN, or a name that a dict does not have) are replaced by their
    regression on those that are there. The log-odds are then divided by √(1 + πv/8), where v is their remaining
    variance. This integrates the unknown score out, up to the usual approximation of a sigmoid by a normal distribution
    function. So a model that is down passes its weight to those that agree with it.

    Parameters
    ----------
    n_scores : int
        M, at least 1.
    scale : Scale or tuple of Scale
        The scale of the scores: one for all, or M of them; z is the log-odds of the probability that a score reads as.
    missing : {"marginal", "raise"}
        `"raise"` refuses missing scores.
    discount : float
        In (0, 1]; past losses lose this factor at every observation, in the weights as in the moments of z, and the
        prior gains what they lose. The default, 1, weights all alike; 0.999 has a memory of about 1,000 observations,
        and follows models that continue to learn.
    bound : float
        Log-odds z beyond ±bound are taken as ±bound (default 8: p = 0.00034), since a model that says 0 or 1 is
        certain of more than it knows. Give more where forecasts are rarer than that.

    Notes
    -----
    The map is not monotone: the weight of a model that says less than the others may be negative. Weights count
    relative to their running mean: multiplying all by one number changes nothing. Cost: an observation O(M²), and a
    factorisation of O(4M³/3), together 20 to 40 µs for two to five scores; a prediction O(M), and O(M³) for a set of
    scores that is asked for the first time after an observation; memory O(M²).

    References
    ----------
    Genest and Zidek, Combining probability distributions, Statistical Science 1986 (logarithmic pooling); Kulis and
    Bartlett, Implicit online learning, ICML 2010; MacKay, The evidence framework applied to classification networks,
    Neural Computation 1992 (the division by √(1 + πv/8)).

    Examples
    --------
    >>> fusion = LogisticFusion()
    >>> for k in range(300):
    ...     fusion.learn_one({"a": 0.2 + k % 2 * 0.6, "b": 0.5}, k % 20 in (0, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19))
    >>> fusion.predict_one({"a": 0.8, "b": 0.5}) > 0.8
    True
    >>> fusion.predict_one({"a": 0.8}) > 0.8  # b is missing
    True
    """

    name = "logistic-fusion"
    summary = "online logistic regression on the log-odds of the scores, which may be missing"
    monotone = False
    bounded_memory = True
    noted = "clamped"

    def __init__(
        self,
        n_scores: int = 2,
        *,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "marginal",
        discount: float = 1.0,
        bound: float = 8.0,
    ) -> None:
        self.discount = real_number(discount, "discount", "a number above 0 and at most 1", above=0.0, most=1.0)
        self.bound = real_number(bound, "bound", "a finite number above 0", above=0.0)
        self.missing = one_of(missing, "missing", ("raise", "marginal"))
        self.scale = scale
        self._read_by(NamedScores(n_scores, scale, takes_missing=missing == "marginal"))
        n_scores, discount = self.n_scores, self.discount
        start = [1.0 / n_scores] * n_scores + [0.0] * n_scores + [0.0]
        precisions = [*PRECISIONS[:1] * n_scores, *PRECISIONS[1:2] * n_scores, PRECISIONS[2]]
        self._regression = ForgettingRegression(discount, precisions, start)
        self._moments = FeatureMoments(n_scores, discount)
        self._weight_scale = WeightScale()
        self._n = 0.0
        self._map: FusionMap | None = None

    @property
    def n(self) -> float:
        return self._n

    def _step(self, x: Sequence[float], y: float, w: float) -> None:
        phi, left = np.array(features(self._scales, x, self.bound)), None
        if ABSENT in x:
            phi, left = self._moments.completed(phi, places_of(x))
        relative = self._weight_scale.relative(w)
        self._regression.learn(np.append(phi, 1.0), y, relative)
        self._moments.update(phi, left, relative)
        self._n = self.discount * self._n + w
        self._map = None

    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        x = coordinate(self._scales, self._named.read(scores))
        if self._n > 0.0 and ABSENT not in x:  # without the moments, which a map needs
            return float(sigmoid(self._regression.predict(np.array([*features(self._scales, x, self.bound), 1.0]))))
        return self.map().at(x)

    def predict_many(self, scores: ArrayLike, t: Time | None = None) -> FloatArray:
        x = coordinates_of(self._scales, self._in_order(scores)[0], self._named.takes_missing)
        return like(scores, self.map().at_many(x))

    def map(self) -> FusionMap:
        if self._map is None:
            weights = np.array(self._regression.state()[0])
            normal = self._moments.normal()
            self._map = LogisticMap(self._scales, weights, normal, self.bound, self._named.takes_missing, self._n > 0.0)
        return self._map

    def _fields(self) -> dict[str, Field]:
        size = 2 * self.n_scores
        regression = row(numbers(size + 1, least=-FARTHEST, most=FARTHEST), numbers(size + 1, size + 1))
        return {
            **super()._fields(),
            "weight_scale": part(self._weight_scale, weight_scale_state),
            "n": attribute(self, "_n", number(0.0, HEAVIEST_SUM)),
            "regression": Field(regression, self._regression.state, self._load_regression),
            "moments": part(self._moments, row(number(0.0, HEAVIEST_SUM), numbers(size), numbers(size, size))),
        }

    def _load_regression(self, read: tuple[FloatArray, FloatArray]) -> None:
        weights, curvature = read
        require_symmetric(curvature)
        try:
            np.linalg.cholesky(curvature)
        except np.linalg.LinAlgError:
            raise StateError("the curvature is not positive definite") from None
        self._regression.load(weights.tolist(), curvature.tolist())


def require_symmetric(matrix: FloatArray) -> None:
    """Raise `StateError` unless a matrix is symmetric, up to rounding."""
    ensure(np.allclose(matrix, matrix.T, rtol=ROUNDING, atol=0.0), "a matrix is not symmetric")


class FeatureMoments:
    """Weight, sums and sums of products of 2M features, with forgetting towards a prior.

    Online expectation-maximisation: missing features enter with their conditional mean and covariance
    given the features that are present, under the normal distribution of the present moments, so that the covariance
    stays positive semidefinite.
    """

    def __init__(self, n_scores: int, discount: float) -> None:
        self._discount = discount
        correlation = np.full((n_scores, n_scores), PRIOR_CORRELATION)
        np.fill_diagonal(correlation, 1.0)
        self._prior = PRIOR_WEIGHT * np.kron(np.array(PRIOR_MOMENTS), correlation)
        self._weight = PRIOR_WEIGHT
        self._sums = np.zeros(2 * n_scores)
        self._products = self._prior.copy()

    def update(self, phi: FloatArray, left: FloatArray | None, w: float) -> None:
        """Add features of weight `w`, with their conditional covariance `left` where some were missing."""
        keep, fade = self._discount, 1.0 - self._discount
        self._weight = keep * self._weight + fade * PRIOR_WEIGHT + w
        self._sums = keep * self._sums + w * phi
        added = np.outer(phi, phi) if left is None else np.outer(phi, phi) + left
        self._products = keep * self._products + fade * self._prior + w * added

    def normal(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean, shape (2M,), and the covariance, shape (2M, 2M)."""
        mean = self._sums / self._weight
        covariance = self._products / self._weight - np.outer(mean, mean)
        covariance[np.diag_indices_from(covariance)] += JITTER
        return mean, covariance

    def completed(self, phi: FloatArray, places: Places) -> tuple[FloatArray, FloatArray]:
        """Fill in the features of the scores not at `places` by their conditional means.

        Return the features and the conditional covariance, which is 0 for the features that are known.
        """
        here, rest = indices(places, len(phi) // 2)
        mean, covariance = self.normal()
        slope, left = regression_on(covariance, here, rest)
        full, spread = phi.copy(), np.zeros_like(covariance)
        full[rest] = mean[rest] + slope @ (phi[here] - mean[here])
        spread[np.ix_(rest, rest)] = left
        return full, spread

    def state(self) -> list[Any]:
        """Return plain data, for `load`."""
        return [self._weight, self._sums.tolist(), self._products.tolist()]

    def load(self, weight: float, sums: FloatArray, products: FloatArray) -> None:
        """Load an earlier `state`; `StateError` unless they are moments of features."""
        require_symmetric(products)
        ensure(weight >= (1.0 - ROUNDING) * PRIOR_WEIGHT, "the moments have less weight than their prior")
        self._weight, self._sums, self._products = weight, sums, products
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = self.normal()[1]
        largest = np.abs(products).max() / weight
        ensure(largest <= FARTHEST**2 and np.isfinite(covariance).all(), "the moments are too large")
        ensure(np.linalg.eigvalsh(covariance)[0] >= -ROUNDING * largest, "the moments are of no distribution")


class LogisticMap(FusionMap):
    """The map of `LogisticFusion`: σ of a linear function of the features of the scores that are there.

    `weights` are those of all features and the offset, shape (2M + 1,); `normal` are mean and covariance of the
    features. Before anything is learned the map is the mean of the scores that are there.
    """

    def __init__(
        self,
        scales: tuple[Scale, ...],
        weights: FloatArray,
        normal: tuple[FloatArray, FloatArray],
        bound: float,
        takes_missing: bool,
        learned: bool,
    ) -> None:
        super().__init__(scales)
        mean, covariance = normal
        self.takes_missing = takes_missing
        self.weights, self.mean, self.covariance = frozen(weights), frozen(mean), frozen(covariance)
        self.bound = bound
        self._learned = learned
        self._linear: dict[Places, tuple[FloatArray, float]] = {}

    def linear_at(self, places: Places) -> tuple[FloatArray, float]:
        """Return the weights of the scores at these places, and the offset, if the other scores are missing."""
        linear = self._linear.get(places)
        if linear is None:
            here, rest = indices(places, len(self.scales))
            a, b = self.weights[:-1], float(self.weights[-1])
            slope, left = regression_on(self.covariance, here, rest)
            own = a[here] + a[rest] @ slope
            offset = b + float(a[rest] @ (self.mean[rest] - slope @ self.mean[here]))
            shrink = math.sqrt(1.0 + math.pi / 8.0 * max(float(a[rest] @ left @ a[rest]), 0.0))
            linear = self._linear[places] = own / shrink, offset / shrink
        return linear

    def at(self, x: tuple[float, ...]) -> float:
        return float(self.at_many(np.array([x]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        p = np.empty(len(x))
        for places, rows in by_places(x):
            scales = tuple([self.scales[place] for place in places])
            present = np.ascontiguousarray(x[rows][:, places])
            if not self._learned:
                p[rows] = MeanMap(scales).at_many(present)
                continue
            own, offset = self.linear_at(places)
            z = [scale.logits(np.ascontiguousarray(column)) for scale, column in zip(scales, present.T, strict=True)]
            clipped = np.clip(np.column_stack(z), -self.bound, self.bound)
            p[rows] = sigmoids(offset + np.column_stack((clipped, np.tanh(clipped))) @ own)
        return p


def features(scales: tuple[Scale, ...], x: Sequence[float], bound: float) -> list[float]:
    """Return z within ±bound of every score, then tanh z of every score; 0 for a missing score."""
    each = zip(scales, x, strict=True)
    z = [0.0 if x_m == ABSENT else max(-bound, min(bound, scale.logit(x_m))) for scale, x_m in each]
    return [*z, *map(math.tanh, z)]


def indices(places: Places, n_scores: int) -> tuple[list[int], list[int]]:
    """Return the indices of the features of the scores at `places`, and those of the other features."""
    here = [*places, *(n_scores + place for place in places)]
    return here, [index for index in range(2 * n_scores) if index not in here]


def regression_on(covariance: FloatArray, here: list[int], rest: list[int]) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of coordinates `rest` on `here`, shape (rest, here), and their conditional covariance."""
    across = covariance[np.ix_(here, rest)]
    slope: FloatArray = np.linalg.solve(covariance[np.ix_(here, here)], across).T.astype(np.float64, copy=False)
    return slope, covariance[np.ix_(rest, rest)] - slope @ across
