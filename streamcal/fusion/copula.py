"""`CopulaFusion`: Bayes' rule for the densities of two classes, each composed of margins and a copula."""

from __future__ import annotations

import math

import numpy as np

from streamcal.errors import InputError
from streamcal.fusion.base import AdditiveFusion, FusionMap
from streamcal.fusion.missing import Missing
from streamcal.kernels.common.logistic import sigmoids
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.scales import LOGIT_LIMIT, Probability, Scale
from streamcal.parameters.types import FloatArray
from streamcal.solvers.copulas import ANY_WIDTH, FAMILIES, Copula, fit_copulas, likeliest
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.vector_table import VectorTable, check_limit, vector_table

#: A margin is stored at this many equal steps over its range, and is linear between them.
STEPS = 512
#: The narrowest kernel, in steps: the error of the linear pieces is then below (1/4)²/8, 1 % of a density.
NARROWEST = 4
#: A density below this is treated as 0: a Gaussian kernel 36 of its widths away.
NOTHING = 1e-290
#: A class of less weight has no copula: a parameter fitted to a few observations ends at a bound.
FEWEST = 10.0
#: With three or more scores this many times the limit of tuples are kept: their grids are coarser.
MORE_TUPLES = 4
#: A share of a class in a tuple below this is the rounding error of a retraction.
GHOST = 1e-12


class CopulaFusion(AdditiveFusion[VectorTable]):
    """Bayes' rule for the densities of the scores of the two classes, composed of margins and copulas.

        p(s) = π₁ f₁(s) / (π₀ f₀(s) + π₁ f₁(s)),    f_y(s) = c_y(F_y1(s₁), …, F_yM(s_M)) Π_m f_ym(s_m)

    π_y is the share of class y. The margins f_ym, with distribution functions F_ym, are Gaussian kernel estimates. The
    copula c_y is the one with the largest likelihood at F_y of the tuples held, among eight families. Far from the
    tuples of a class a kernel density is next to nothing. So the density of both classes counts in each as one
    observation.

    Parameters
    ----------
    families : tuple of str
        Any of "gaussian", "clayton", "rotated-clayton", "plackett", "frank", "gumbel", "rotated-gumbel", "student"
        (default: all; rotated by 180°). With M ≥ 3 scores only "gaussian" and "student" are defined, and the others
        are ignored; their correlations are fitted pair by pair. A class of weight below 10 has the independence copula.
    n_scores, scale, missing, forgetting, refresh_every
        See `AdditiveFusion`. The scale must be bounded. Kernels are placed on log-odds for `Probability()` and
        `Logit()`, otherwise on the coordinate, and are reflected at the ends of the scale.
    resolution : int or None
        Cells of a grid for each score on which tuples are counted from the start; None (default) leaves that to
        `limit`.
    limit : int or None
        Distinct tuples that are kept (default 1,024; with three or more scores four times as many). When there are
        more, they are rounded to the finest grid of 4,096, 2,048, … cells for each score of which no more cells are in
        use; None keeps every tuple.

    Notes
    -----
    The map is not monotone. The statistic is the table of tuples: additive, and bounded by the limit. Up to the limit
    nothing is rounded. Beyond it margins and likelihood use a tuple at the centre of its cell. The rounding errors were
    measured at random places, for scores that are negatively dependent in each class. With two scores: 0.003 to 0.005
    in the root mean square and 0.02 (near the data 0.2) at most, on 64 cells (5,000 and 20,000 observations). With
    three: 0.009 and 0.05 on 64 cells (5,000), 0.04 and 0.12 on 32 (20,000). A fixed `resolution` also rounds few
    tuples: with 128 cells, 600 pairs and places far from all of them 0.4 was seen. The degrees of freedom of Student's
    copula are those of the largest likelihood between 0.8 and 75, in steps of 2 %. A kernel has the width
    1.06 σ n^(−1/5), where n is the weight of the class, and at least 1/128 of the range and a cell of `resolution`.

    Cost: an observation O(M log k) for k tuples held. The first prediction after it starts from the parameters of all
    families found before and makes some 70 passes over the tuples of each class, O(k) each: 7 to 10 ms a step at the
    limit. Without a start there are some 170 passes.

    References
    ----------
    Ozdemir, Allen, Choi, Wimalajeewa and Varshney 2017; paper 000, eqs. (4), (5) and §5.

    Examples
    --------
    >>> fused = CopulaFusion()
    >>> fused.learn_many([[0.1, 0.2], [0.3, 0.1], [0.4, 0.6], [0.8, 0.7]] * 5, [0, 0, 1, 1] * 5)
    >>> fused.predict_one([0.2, 0.2]) < 0.1, fused.predict_one([0.7, 0.7]) > 0.9
    (True, True)
    """

    name = "copula-fusion"
    summary = "Bayes' rule, kernel margins and one copula per class"
    monotone = False

    def __init__(
        self,
        families: tuple[str, ...] = FAMILIES,
        *,
        n_scores: int = 2,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "raise",
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        limit: int | None = 1024,
        refresh_every: int = 1,
    ) -> None:
        known = isinstance(families, tuple) and all(family in FAMILIES for family in families)
        if not known or not families:
            raise InputError(f"families={families!r} is not possible; give a tuple of {', '.join(map(repr, FAMILIES))}")
        self.families = families
        self.resolution = check_resolution(resolution)
        self.limit = check_limit(limit)
        super().__init__(
            n_scores=n_scores, scale=scale, missing=missing, forgetting=forgetting, refresh_every=refresh_every
        )
        if self.n_scores > 2 and not set(families) & set(ANY_WIDTH):
            raise InputError(f"families={families!r} are of two scores; for {n_scores} add 'gaussian' or 'student'")
        for one in self._scales:
            one.require_bounds("CopulaFusion")

    def new_statistic(self) -> VectorTable:
        more = MORE_TUPLES if self.n_scores > 2 else 1
        return vector_table(self._scales, self.resolution, None if self.limit is None else more * self.limit)

    def solve(self, statistic: VectorTable, start: FusionMap | None) -> FusionMap:
        x, weight, positive = statistic.columns()
        labels = [np.where(of > GHOST * weight, of, 0.0) for of in (weight - positive, positive)]
        u = kernel_units(self._scales, x)
        earlier = (start.negative, start.positive) if isinstance(start, DensityMap) else (None, None)
        fitted = [() if density is None else density.fitted for density in earlier]
        rows = zip(labels, fitted, strict=True)
        densities = tuple(self._density(u[of > 0.0], of[of > 0.0], before) for of, before in rows)
        return DensityMap(self._scales, densities)

    def _density(self, u: FloatArray, weight: FloatArray, start: tuple[Copula, ...]) -> ClassDensity | None:
        """Return the weighted density of one class; None if no observation of the class is kept."""
        if len(u) == 0:
            return None
        cell = 1.0 / STEPS if self.resolution is None else 1.0 / self.resolution
        margins = tuple(Margin(column, weight, cell) for column in u.T)
        ranks = np.column_stack([margin.cdf(column) for margin, column in zip(margins, u.T, strict=True)])
        total = float(weight.sum())
        fitted = fit_copulas(ranks, weight, self.families, start) if total >= FEWEST else ()
        return ClassDensity(total, margins, likeliest(fitted), fitted)


class Margin:
    """A Gaussian kernel density on [0, 1], reflected at both ends, and its distribution function.

    `u` are points with weights; their mass is divided between the two nearest of STEPS + 1 nodes.
    """

    def __init__(self, u: FloatArray, weight: FloatArray, cell: float) -> None:
        share = weight / weight.sum()
        mean = float(share @ u)
        spread = math.sqrt(float(share @ (u - mean) ** 2))
        scott = 1.06 * spread * max(float(weight.sum()), 1.0) ** -0.2
        width = STEPS * max(scott, cell, NARROWEST / STEPS)
        left = np.minimum((u * STEPS).astype(int), STEPS - 1)
        right = share * (u * STEPS - left)
        mass = np.bincount(left, share - right, STEPS + 1) + np.bincount(left + 1, right, STEPS + 1)
        # the mirror images of the ends' neighbours; each end represents two half steps
        mirrored = np.concatenate((mass[:0:-1], mass[:1] * 2.0, mass[1:-1], mass[-1:] * 2.0, mass[-2::-1]))
        kernel = np.exp(-0.5 * (np.arange(-STEPS, STEPS + 1) / width) ** 2)
        density = np.convolve(mirrored, kernel, "same")[STEPS : 2 * STEPS + 1]
        area = np.concatenate(([0.0], np.cumsum(0.5 * (density[1:] + density[:-1])))) / STEPS
        self.nodes = np.linspace(0.0, 1.0, STEPS + 1)
        self.densities = np.maximum(density / area[-1], NOTHING)
        self.areas = area / area[-1]

    def log_density(self, u: FloatArray) -> FloatArray:
        return np.log(np.interp(u, self.nodes, self.densities))

    def cdf(self, u: FloatArray) -> FloatArray:
        return np.interp(u, self.nodes, self.areas)


class ClassDensity:
    """The density of one class times its weight, on [0, 1]^M.

    `fitted` are the copulas of all families, from which the next solve starts.
    """

    def __init__(
        self, weight: float, margins: tuple[Margin, ...], copula: Copula, fitted: tuple[Copula, ...] = ()
    ) -> None:
        self.weight, self.margins, self.copula, self.fitted = weight, margins, copula, fitted

    def log_at(self, u: FloatArray) -> FloatArray:
        """Return the density's logarithm at points of shape (n, M), shape (n,)."""
        ranks = np.column_stack([margin.cdf(column) for margin, column in zip(self.margins, u.T, strict=True)])
        result = math.log(self.weight) + self.copula.log_density(ranks)
        for margin, column in zip(self.margins, u.T, strict=True):
            result += margin.log_density(column)
        return result


class DensityMap(FusionMap):
    """Bayes' rule for the densities of the negative and of the positive class; None for a class that is not held."""

    def __init__(self, scales: tuple[Scale, ...], densities: tuple[ClassDensity | None, ...]) -> None:
        super().__init__(scales)
        self.negative, self.positive = densities

    def at(self, x: tuple[float, ...]) -> float:
        return float(self.at_many(np.array([x]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        if self.negative is None or self.positive is None:
            return np.full(len(x), 0.0 if self.positive is None else 1.0)
        u = kernel_units(self.scales, x)
        positive, negative = self.positive.weight, self.negative.weight
        p = np.asarray(sigmoids(self.positive.log_at(u) - self.negative.log_at(u)))
        # (1 − ε) f + ε f̄ over the density f̄ of both classes is p/π₁ with (1 − ε) and 1 with ε, and so for the other
        first = (positive * p + positive / (positive + negative)) / (positive + 1.0)
        second = (negative * (1.0 - p) + negative / (positive + negative)) / (negative + 1.0)
        return np.asarray(first / (first + second))


def kernel_units(scales: tuple[Scale, ...], x: FloatArray) -> FloatArray:
    """Map coordinates of shape (n, M) to [0, 1]: log-odds between their limits for probabilities."""
    columns = [
        (scale.logits(np.ascontiguousarray(column)) + LOGIT_LIMIT) / (2.0 * LOGIT_LIMIT)
        if isinstance(scale, Probability)
        else scale.units(column)
        for scale, column in zip(scales, x.T, strict=True)
    ]
    return np.column_stack(columns)
