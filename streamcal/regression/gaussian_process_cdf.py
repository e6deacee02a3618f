"""`GaussianProcessCDF`: P(Y ≤ t) by a Gaussian process classifier over the predicted P(Y ≤ t) and t."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from streamcal.errors import InputError, SolverError
from streamcal.kernels.common.logistic import sigmoids
from streamcal.learners.additive import Additive, require
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of, real_number, whole_number
from streamcal.parameters.scales import Interval, Scale
from streamcal.parameters.settings import Setting
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import Distribution, Piecewise
from streamcal.regression.reading import cdf_at, cdfs_at, check_distributions, normal_scores, segment_edges
from streamcal.solvers.gaussian_process import (
    Axis,
    LaplaceProblem,
    Mode,
    Posterior,
    axis_over,
    axis_through,
    covariance,
)
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.threshold_tables import ThresholdTables

#: More observations than this are weighted as this many. At 10⁷ the prior has a share of 1e-7 and next to no influence;
#: with weights of 1e60 it would be lost in the rounding of the precision matrix, which would be singular.
MOST_WEIGHT = 1e7
#: Lengths outside of this are refused: a shorter one needs hundreds of inducing inputs and thresholds, a longer one
#: gives a constant process.
LENGTHS = (0.02, 10.0)
#: Variances outside of this are refused: below, a process is its mean; above, log-odds of ±100 are likely, and the mode
#: is lost in rounding.
VARIANCES = (1e-9, 1e3)
#: ℓₜ is at least this multiple of the widest gap between two thresholds. In between there are no labels: a shorter
#: process returns to its mean there, which makes the cdf a staircase, without an effect on the evidence.
GAPS = 1.1
#: Nodes of the Gauss-Hermite rule for the mean of a sigmoid under a normal distribution: accurate to 2e-4 at a standard
#: deviation of 4, to 2e-7 at 2.
NODES = 32


@dataclass(frozen=True)
class RBF(Setting):
    """The covariance σ² exp(−(u − u')²/2ℓᵤ² − (t − t')²/2ℓₜ²) of the latent process.

    Parameters
    ----------
    variance : float
        σ², from 1e-9 to 1,000: the prior variance, in log-odds, of the cdf around the prior mean.
    q_length : float
        ℓᵤ, along the predicted probability, as a share of the width of its scale; from 0.02 to 10.
    t_length : float
        ℓₜ, along the outcome, as a share of the width of the support; from 0.02 to 10. It is raised to 1.1 times the
        widest gap between two thresholds where it is shorter.

    Notes
    -----
    Frozen parameters; the cost is that of `GaussianProcessCDF`.

    Examples
    --------
    >>> RBF(q_length=0.5)
    RBF(variance=4.0, q_length=0.5, t_length=0.15)
    """

    variance: float = 4.0
    q_length: float = 0.25
    t_length: float = 0.15

    def __post_init__(self) -> None:
        for name, (low, high) in (("variance", VARIANCES), ("q_length", LENGTHS), ("t_length", LENGTHS)):
            allowed = f"a number from {low:g} to {high:g}"
            value = real_number(getattr(self, name), name, allowed, least=low, most=high)
            object.__setattr__(self, name, float(value))


#: The default kernels: small and large variance, with long, medium and short lengths.
KERNELS = (RBF(2.0, 0.5, 0.3), RBF(2.0, 0.25, 0.15), RBF(16.0, 0.5, 0.3), RBF(16.0, 0.25, 0.15), RBF(16.0, 0.15, 0.07))

#: Knots of a calibrated distribution.
MOST_POINTS = 2**16
#: Normal scores are kept within ±40: four standard deviations of the outcomes about a forecast ten times too narrow.
REACH = 40.0
#: With `scale="normal"` the prior mean is L·arsinh(λ/L) of the predicted log-odds λ: nearly λ up to L, 3.4 standard
#: deviations out, and logarithmic beyond, as are tails of probabilities that were found too light.
TAIL = 8.0


class Inputs(ABC):
    """How u is made of a predicted distribution at thresholds."""

    #: The scale of the coordinates, of which u is the share.
    scale: Scale

    @abstractmethod
    def of(self, distribution: Distribution, t: FloatArray) -> FloatArray:
        """Return the coordinates at ascending thresholds, shape (m,)."""

    def of_many(self, distributions: Sequence[Distribution], t: FloatArray) -> FloatArray:
        """Return the coordinates `of` each of n distributions, shape (n, m)."""
        return np.array([self.of(one, t) for one in check_distributions(distributions)]).reshape(-1, len(t))

    @abstractmethod
    def log_odds(self, x: FloatArray) -> FloatArray:
        """Return the prior mean at coordinates: the predicted log-odds, limited or compressed."""


class ProbabilityInputs(Inputs):
    """q(t) on a scale of probabilities, which clamps it."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    def of(self, distribution: Distribution, t: FloatArray) -> FloatArray:
        return self.scale.coordinates(cdf_at(distribution, t))

    def of_many(self, distributions: Sequence[Distribution], t: FloatArray) -> FloatArray:
        cdfs = cdfs_at(distributions, t)
        return self.scale.coordinates(cdfs.reshape(-1)).reshape(cdfs.shape)

    def log_odds(self, x: FloatArray) -> FloatArray:
        return self.scale.logits(x)


class NormalInputs(Inputs):
    """arsinh of the normal score Φ⁻¹(q(t)): like the score in the middle, and its logarithm in the tails."""

    scale = Interval(-math.asinh(REACH), math.asinh(REACH))

    def of(self, distribution: Distribution, t: FloatArray) -> FloatArray:
        cdf_at(distribution, t)  # which checks that it is a cdf
        return self.scale.coordinates(np.arcsinh(np.clip(normal_scores(distribution, t), -REACH, REACH)))

    def log_odds(self, x: FloatArray) -> FloatArray:
        z = np.sinh(x)
        return TAIL * np.arcsinh((log_ndtr(z) - log_ndtr(-z)) / TAIL)


class GaussianProcessCDF(DistributionCalibrator):
    """P(Y ≤ t | q) = 1/(1 + exp(−m − g)) with a Gaussian process g over (u, t): u the predicted q(t) on a scale, and t.

    Every observation is K + 1 labels 1[y ≤ tⱼ] at the points (q(tⱼ), tⱼ). The statistic is a table of labels by cells
    of u for each threshold; the posterior given all labels, by Laplace's method, is a function of it.

    Parameters
    ----------
    thresholds : int or array-like of shape (K − 1,)
        K, for K + 1 equidistant tⱼ from one end of the support to the other, or the tⱼ strictly between the ends.
    support : (float, float)
        The support of calibrated distributions, in the unit of y, fixed in advance; it should contain all possible
        outcomes with some margin.
    kernel : RBF or tuple of RBF
        The covariance; of several, the one with the largest evidence (marginal likelihood), chosen at every refresh.
    mean : {"base", "zero"}
        m: the log-odds of q(t), so that the prediction is kept where there are no data, with heavier tails (see Notes);
        or 0, as in the paper.
    point : {"mode", "mean"}
        1/(1 + e^−f) at the mode of f, or its mean under the posterior of f, as in the paper. See Notes.
    scale : "normal" or Scale
        From q to u. "normal": arsinh of the normal score Φ⁻¹(q), from the logarithms of tail masses, which resolves
        tails up to ±40. `Logit(lo, hi)` clamps log-odds: what is beyond is a single point, as all tails are with the
        paper's `Probability()`.
    resolution : int or None
        Cells of each table. None keeps every q: the paper's classifier on all of its points, without subsampling.
    points : int
        Equidistant knots over the support, two or more; calibrated densities are uniform between two of them.
    forgetting, refresh_every
        See `streamcal.learners.additive.Additive`. A step on a stream takes 3 to 4 ms for all of the default kernels; a
        solve from nothing, and one with `point="mean"`, take longer.

    Notes
    -----
    *Exact*: with `resolution=None` this is the classifier of the paper with all N (K + 1) points, on features that
    represent all but 2e-7 of the prior variance. *Rounded*: the labels of a cell are placed at their mean coordinates,
    one for each label. The error is of second order in the width of a cell (observed: 5e-4 in a cdf with 256 cells of
    the default scale, a quarter of it with twice as many). *Laplace*: the posterior of f is approximated as normal.
    *From the paper*: the labels of one observation are treated as independent, which they are not, so that the
    posterior is too narrow; `point="mode"` does not use its width. More than 10⁷ observations are weighted as 10⁷.

    *Tails*: with `scale="normal"` forecasts that are too narrow are widened. Of 5,000 pairs Normal(m, 1/c) and y from
    N(m, 1), the 80, 90 and 95 % intervals cover within 0.02 of that for c from 0.3 to 10. The prior mean is
    8 arsinh(λ/8) of the predicted log-odds λ, which is smooth, moves no probability by more than 0.004, and has heavier
    tails: what is 8 standard deviations out has the probability 3e-8 in place of 6e-16. With `scale=Logit(-8.0, 8.0)`
    all outcomes beyond 3.4 standard deviations are alike, and the prior mean has a kink there that no kernel follows:
    intervals then cover less than their level.

    The classifier need not be monotone in t. Its values at the knots are sorted, which is the rearrangement of
    Chernozhukov, Fernández-Val and Galichon (2009). In every mean (Lp) the sorted values are at least as close to any
    cdf as the unsorted ones. Unlike isotonic regression, sorting makes no flat pieces, where the density would be 0.
    The mass beyond the support is added to the first and the last piece.

    Cost: an observation O(K), a first solve O(α² cells K + (αβ)³) with α and β features along u and t, at most 115 and
    K + 1, whatever the number of observations. Later solves start from the last one: their Newton steps use its
    precision matrix, and bounds of the evidence choose the kernel, in O(α² cells K + α³ K + (αβ)²). Where these steps
    converge too slowly, or the bounds cannot choose, matrices are factored again. A prediction costs O(α · points).

    References
    ----------
    Paper 004, §5; Rasmussen & Williams 2006, §3.4.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = GaussianProcessCDF(support=(-10.0, 10.0))
    >>> cal.learn_many([Normal(0.0, 1.0)] * 200, [-3.0, 3.0] * 100)  # two modes, which no normal distribution has
    >>> forecast = cal.predict_one(Normal(0.0, 1.0))
    >>> forecast.pdf(3.0) > 5 * forecast.pdf(1.5), round(forecast.cdf(0.0), 2)
    (True, 0.5)
    """

    name = "gaussian-process-cdf"
    summary = "Gaussian process classifier over the predicted probability and the threshold, smooth densities"

    def __init__(
        self,
        thresholds: int | ArrayLike = 16,
        *,
        support: tuple[float, float],
        kernel: RBF | tuple[RBF, ...] = KERNELS,
        mean: Literal["base", "zero"] = "base",
        point: Literal["mode", "mean"] = "mode",
        scale: Scale | Literal["normal"] = "normal",
        resolution: int | None = 256,
        points: int = 1024,
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        self._thresholds = segment_edges(thresholds, support)
        inside = tuple(self._thresholds[1:-1].tolist())
        self.thresholds = int(thresholds) if isinstance(thresholds, (int, np.integer)) else inside
        self.support = (float(self._thresholds[0]), float(self._thresholds[-1]))
        self.kernel = kernel
        self._kernels = kernel if isinstance(kernel, tuple) else (kernel,)
        if not self._kernels:
            raise InputError("kernel=() is not possible; give RBF(variance, q_length, t_length), or some of them")
        for one in self._kernels:
            require(one, RBF, "kernel", "RBF(variance, q_length, t_length), or a tuple of them")
        self.points = whole_number(points, "points", 2, MOST_POINTS)
        self.mean = one_of(mean, "mean", ("base", "zero"))
        self.point = one_of(point, "point", ("mode", "mean"))
        self.scale = scale
        self._inputs = inputs_of(scale)
        self.resolution = check_resolution(resolution)
        self._knots = np.linspace(*self.support, self.points)
        self._knots.flags.writeable = False
        self._axes = [self._axes_of(one) for one in self._kernels]
        self._engine = Additive(self.new_statistic(), forgetting, refresh_every)
        self.forgetting, self.refresh_every = forgetting, self._engine.refresh_every

    def new_statistic(self) -> ThresholdTables:
        """Return an empty statistic for these parameters."""
        return ThresholdTables(len(self._thresholds), self._inputs.scale, self.resolution)

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, ...], float, bool]:
        x = self._inputs.of(distribution, self._thresholds)
        below = float(np.searchsorted(self._thresholds, y))
        return tuple(x.tolist()), below, not self.support[0] <= y <= self.support[1]

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        x = self._inputs.of_many(distributions, self._thresholds)
        below = np.searchsorted(self._thresholds, y).astype(np.float64)
        return x, below, (y < self.support[0]) | (y > self.support[1])

    # -- the solve -----------------------------------------------------------------------------------------------

    def empty_map(self) -> DistributionMap:
        """Return the map of an empty statistic."""
        return GaussianProcessMap(self._knots, self._inputs, None)

    def solve(self, statistic: ThresholdTables, start: DistributionMap | None) -> DistributionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        problems = self._problems(statistic)
        earlier: tuple[Posterior | None, ...] = (None,) * len(problems)
        if isinstance(start, GaussianProcessMap) and start.posteriors:
            earlier = start.posteriors
        modes, posteriors = [], []
        for kernel, problem, before in zip(self._kernels, problems, earlier, strict=True):
            mode = None if before is None else problem.followed(before)
            if mode is None or before is None:
                solution = problem.mode(np.zeros(math.prod(problem.shape)) if before is None else before.mode)
                if not solution.solved:
                    raise SolverError(f"the mode under {kernel!r} was not found: status {solution.status!r}")
                mode = problem.at(solution.x)
                before = problem.posterior(mode)
            modes.append(mode)
            posteriors.append(before._replace(mode=mode.point))
        chosen = most_evident(problems, modes, posteriors)
        latent = self._latent(chosen, problems[chosen], modes[chosen].point)
        return GaussianProcessMap(self._knots, self._inputs, latent, tuple(posteriors))

    def _problems(self, statistic: ThresholdTables) -> list[LaplaceProblem]:
        """Return the problem under each kernel."""
        x, neg, pos, ends = points_of(statistic)
        units = self._inputs.scale.units(x)
        offset = self._inputs.log_odds(x) if self.mean == "base" else np.zeros(len(x))
        along = {along_q.length: along_q for along_q, _ in self._axes}
        rows = {length: along_q.features(units) for length, along_q in along.items()}
        return [
            LaplaceProblem(
                rows[along_q.length],
                ends,
                math.sqrt(kernel.variance) * along_t.features(self._shares(self._thresholds)),
                offset,
                neg,
                pos,
            )
            for kernel, (along_q, along_t) in zip(self._kernels, self._axes, strict=True)
        ]

    def _axes_of(self, kernel: RBF) -> tuple[Axis, Axis]:
        """Return the axes of the kernel.

        The first axis has inducing inputs over the whole scale. The second has them at the thresholds, where all
        labels are, and so is exact.
        """
        cuts = self._shares(self._thresholds)
        length = max(kernel.t_length, GAPS * float(np.diff(cuts).max()))
        return axis_over(0.0, 1.0, kernel.q_length), axis_through(cuts, length)

    def _shares(self, t: FloatArray) -> FloatArray:
        """Return outcomes as shares of the support."""
        return (t - self.support[0]) / (self.support[1] - self.support[0])

    def _latent(self, i: int, problem: LaplaceProblem, coefficients: FloatArray) -> Latent:
        """Return the posterior of the latent process under a kernel, at the knots."""
        (along_q, along_t), variance = self._axes[i], self._kernels[i].variance
        features = along_t.features(self._shares(self._knots))  # (points, β)
        mode = math.sqrt(variance) * coefficients.reshape(along_q.size, -1) @ features.T
        if self.point == "mode":
            return Latent(along_q, self.mean == "base", mode, variance, None)
        shape = along_q.size, along_t.size
        posterior = covariance(problem.precision(coefficients)).reshape(*shape, *shape)
        spread = np.einsum("tb,abcd,td->tac", features, posterior, features, optimize=True)
        spread -= np.square(features).sum(axis=1)[:, None, None] * np.eye(along_q.size)
        return Latent(along_q, self.mean == "base", mode, variance, variance * spread)


def inputs_of(scale: Scale | Literal["normal"]) -> Inputs:
    """Return the inputs that a scale makes; `InputError` if it makes none."""
    if isinstance(scale, str) and scale == "normal":
        return NormalInputs()
    require(scale, Scale, "scale", "'normal', Logit(lo, hi) or Probability()")
    if scale.domain != (0.0, 1.0):
        raise InputError(f"scale={scale!r} is not possible: it is read with probabilities; give Logit(lo, hi)")
    return ProbabilityInputs(scale)


def points_of(tables: ThresholdTables) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.intp]]:
    """Return coordinates, negative and positive weights of all thresholds, and where each threshold ends."""
    parts = [table.points() for table in tables.parts.values()]
    x, neg, pos = (np.concatenate(column) for column in zip(*parts, strict=True))
    share = min(1.0, MOST_WEIGHT / tables.n)
    return x, share * neg, share * pos, np.cumsum([len(part[0]) for part in parts])


def most_evident(problems: list[LaplaceProblem], modes: list[Mode], posteriors: list[Posterior]) -> int:
    """Return the place of the largest evidence at its mode, the first of equals.

    Bounds from the earlier posteriors decide where they can. Where they cannot, `posteriors` of those that may be the
    largest are replaced by those at their modes.
    """
    if len(problems) == 1:
        return 0
    rows = zip(problems, modes, posteriors, strict=True)
    bounds = [problem.evidence_bounds(mode, earlier) for problem, mode, earlier in rows]
    largest = max(least for least, _ in bounds)
    open_ones = [i for i, (_, most) in enumerate(bounds) if most >= largest]
    if len(open_ones) == 1:
        return open_ones[0]
    for i in open_ones:
        posteriors[i] = problems[i].posterior(modes[i])
    return max(open_ones, key=lambda i: -modes[i].value - 0.5 * posteriors[i].log_det)


class Latent(NamedTuple):
    """The latent process at (u, t) for each of m values of t, given a(u) of shape (α,).

    Its mean is m + a·mode[:, t], with m the log-odds of the base where `from_base`; its variance, where it is needed,
    variance + aᵀ spread[t] a.
    """

    axis: Axis
    from_base: bool
    mode: FloatArray  # (α, m)
    variance: float
    spread: FloatArray | None  # (m, α, α)


class GaussianProcessMap(DistributionMap):
    """The classifier at fixed knots or, without a latent process, the predicted distribution.

    `knots` lead from one end of the support to the other, `inputs` from a distribution at the knots to u. Of each
    kernel `posteriors` has the mode of the weights, with the posterior there or at the mode of an earlier solve: what
    the next solve starts from.
    """

    def __init__(
        self, knots: FloatArray, inputs: Inputs, latent: Latent | None, posteriors: tuple[Posterior, ...] = ()
    ) -> None:
        self.knots = knots
        self.inputs = inputs
        self._latent = latent
        self.posteriors = posteriors

    def predict_one(self, distribution: Distribution) -> Piecewise:
        """Return the calibrated distribution: the sorted probabilities at the knots, with 0 first and 1 last."""
        levels = np.sort(self.probabilities(distribution))
        levels[0], levels[-1] = 0.0, 1.0
        return Piecewise(self.knots, levels)

    def probabilities(self, distribution: Distribution) -> FloatArray:
        """Return the classifier before rearrangement: P(Y ≤ t) at each knot t, shape (m,)."""
        if self._latent is None:
            return cdf_at(distribution, self.knots)
        axis, from_base, mode, variance, spread = self._latent
        x = self.inputs.of(distribution, self.knots)
        a = axis.features(self.inputs.scale.units(x))
        f = np.einsum("ta,at->t", a, mode)
        if from_base:
            f += self.inputs.log_odds(x)
        if spread is None:
            return np.asarray(sigmoids(f))
        sd = np.sqrt(np.maximum(variance + np.einsum("ta,tac,tc->t", a, spread, a, optimize=True), 0.0))
        sigmoid_at = np.asarray(sigmoids((f[:, None] + sd[:, None] * _NODES).reshape(-1))).reshape(len(f), -1)
        return np.minimum(sigmoid_at @ _WEIGHTS, 1.0)


def _normal_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the mean of a function of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / weights.sum()


_NODES, _WEIGHTS = _normal_rule()
