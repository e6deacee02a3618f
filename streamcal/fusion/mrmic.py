"""`MRMIC`: isotonic least squares on the tuples of scores held, smoothed between near tuples, and interpolated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.spatial import Delaunay

from streamcal.errors import SolverError
from streamcal.fusion.base import AdditiveFusion, FusionMap
from streamcal.fusion.missing import Missing
from streamcal.parameters.forgetting import Forgetting, Window
from streamcal.parameters.numbers import real_number
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray
from streamcal.solvers.manifold_isotonic import ManifoldIsotonic
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.vector_table import VectorTable, check_limit, vector_table

#: Points whose spread in some direction is below this share of their largest coordinate lie in a plane (on a line, at
#: one place): a triangle there would have no correct digits.
FLAT = 1e-7
#: Scores are limited to this multiple of the largest score held, so that squares of distances stay finite.
FAR = 1e100
#: Up to this many places are sought in all triangles; for more, the affine maps of the triangles are faster.
FEW = 8
#: A share of a corner that is nearer to 0 than this is not trusted to decide whether a place is in a triangle.
EDGE = 1e-6


class MRMIC(AdditiveFusion[VectorTable]):
    """Manifold-regularised isotonic regression of several scores.

        min Σ wᵢ (pᵢ − ȳᵢ)² + λ/2 Σ_{i<j} wᵢ wⱼ ωᵢⱼ (pᵢ − pⱼ)²,   ωᵢⱼ = 1/‖xᵢ − xⱼ‖,   pᵢ ≥ pⱼ where xᵢ ≥ xⱼ

    over the values pᵢ at the distinct tuples xᵢ of scores held, with weights wᵢ and mean labels ȳᵢ; ≥ holds in every
    coordinate. Between these tuples the map is linear on the triangles (simplices) of a Delaunay triangulation, and
    outside their convex hull it is the value at the nearest one.

    **The map is not monotone.** Only the values at the tuples held are ordered: a triangle may join three incomparable
    tuples, and the map may then decrease along a coordinate, as may the nearest value outside (paper 000, §3.2).

    Parameters
    ----------
    penalty : float
        λ ≥ 0 in the units of the paper (default 1e-5, its choice in §5.1). The second sum grows with the square of the
        weight and the first does not, so that the effect of λ depends on the size of the window.
    n_scores, scale, missing, refresh_every
        See `AdditiveFusion`. Distances are measured on the coordinates.
    forgetting : Forgetting
        Default `Window(500)`, the size of the paper's training sets: a fit takes O(k²) memory for k distinct tuples.
    resolution : int or None
        Cells of a grid for each score to which tuples are rounded from the start; None (default): see `limit`.
    limit : int or None
        Distinct tuples that are kept (default 500, which the default window cannot exceed). When there are more, they
        are rounded to the finest grid of 4,096, 2,048, … cells for each score of which no more cells are in use. So a
        fit stays below a second whatever the policy. None keeps every tuple. With a scale without bounds there is no
        limit.

    Notes
    -----
    What the limit costs: 1,500 pairs under `Forever` on 64 cells moved predictions by 0.08 in the root mean square, and
    0.4 at most, from a map that is itself a rough estimate; the Brier score rose by 0.002.

    Cost: an observation O(M log k), the first prediction after it a fit that starts from the last one, a few steps of
    O(k³) at most: 5 ms for 500 distinct tuples, so that `refresh_every` is useful on a stream. The fit is exact to
    rounding, by `streamcal.solvers.manifold_isotonic`.

    The paper calls Ω "the similarity matrix" in pᵀΩp. Here it is the Laplacian of ω, so that pᵀΩp is the sum above:
    with ω itself the form is indefinite, and would draw values to 0, not to each other.

    References
    ----------
    Zhong and Kwok 2013; paper 000, eq. (6) and §5.

    Examples
    --------
    >>> fused = MRMIC()
    >>> fused.learn_many([[0.1, 0.2], [0.3, 0.1], [0.4, 0.6], [0.8, 0.7]], [0, 1, 0, 1])
    >>> [round(fused.predict_one(s), 3) for s in ([0.1, 0.2], [0.3, 0.1], [0.35, 0.35], [0.9, 0.9])]
    [0.0, 0.5, 0.5, 1.0]
    """

    name = "mrmic"
    summary = "isotonic regression on tuples, smoothed by distance, interpolated linearly"
    monotone = False

    def __init__(
        self,
        penalty: float = 1e-5,
        *,
        n_scores: int = 2,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "raise",
        forgetting: Forgetting = Window(500),
        resolution: int | None = None,
        limit: int | None = 500,
        refresh_every: int = 1,
    ) -> None:
        self.penalty = real_number(penalty, "penalty", "a finite number of at least 0", least=0.0)
        self.resolution = check_resolution(resolution)
        self.limit = check_limit(limit)
        super().__init__(
            n_scores=n_scores, scale=scale, missing=missing, forgetting=forgetting, refresh_every=refresh_every
        )

    def new_statistic(self) -> VectorTable:
        return vector_table(self._scales, self.resolution, self.limit)

    def solve(self, statistic: VectorTable, start: FusionMap | None) -> FusionMap:
        x, weight, positive = statistic.columns()
        weighted = weight > 0.0
        x, weight, positive = x[weighted], weight[weighted], positive[weighted]
        mean = positive / weight
        near = start.values_at(x, mean) if isinstance(start, ScatterMap) else None
        solution = ManifoldIsotonic(x, weight, self.penalty).solve(mean, near)
        if not solution.solved:
            raise SolverError(f"{self!r}: {solution.status} after {solution.iterations} iterations")
        return ScatterMap(self._scales, x, solution.x)


class ScatterMap(FusionMap):
    """Values at scattered points: linear between them, and that of the nearest point outside.

    Where all points lie in a subspace of fewer dimensions (fewer than M + 1 of them always do), coordinates are first
    projected onto it.
    """

    shape = "piecewise linear"

    def __init__(self, scales: tuple[Scale, ...], x: FloatArray, values: FloatArray) -> None:
        super().__init__(scales)
        self._points = x, values
        self._size = float(np.abs(x).max()) or 1.0
        centred = x / self._size
        self._centre = centred.mean(axis=0)
        centred = centred - self._centre
        _, spread, directions = np.linalg.svd(centred, full_matrices=False)
        self._plane = directions[spread > FLAT * np.sqrt(len(x))]
        if len(self._plane) == x.shape[1]:
            self._plane = np.eye(x.shape[1])
        self._between = _interpolation(centred @ self._plane.T, values)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScatterMap, (self.scales, *self._points)

    def values_at(self, x: FloatArray, others: FloatArray) -> FloatArray:
        """Return the values at points that are held, and `others` at those that are not."""
        known = dict(zip(map(tuple, self._points[0].tolist()), self._points[1].tolist(), strict=True))
        return np.array([known.get(tuple(row), other) for row, other in zip(x.tolist(), others.tolist(), strict=True)])

    def at(self, x: tuple[float, ...]) -> float:
        return float(self.at_many(np.array([x]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            shares = np.clip(x / self._size, -FAR, FAR)
        return self._between((shares - self._centre) @ self._plane.T)


class Triangles:
    """A triangulation of places in the plane, read at a few of them without the affine map of every triangle.

    `LinearNDInterpolator` computes those maps at its first call, which takes longer than the triangulation itself.
    """

    def __init__(self, points: FloatArray, values: FloatArray, simplices: NDArray[np.int32]) -> None:
        corners = points[simplices]  # (T, 3, 2)
        self._last = corners[:, 2]
        self._first_edge, self._second_edge = corners[:, 0] - self._last, corners[:, 1] - self._last
        self._area = _cross(self._first_edge, self._second_edge)
        self._values = values[simplices]

    def at_few(self, places: FloatArray) -> FloatArray | None:
        """Return the values, NaN outside of all triangles; None if a place is too near to an edge of all of them."""
        values = np.full(len(places), np.nan)
        for i, place in enumerate(places):
            away = place - self._last
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                first = _cross(away, self._second_edge) / self._area
                second = _cross(self._first_edge, away) / self._area
                shares = np.stack((first, second, 1.0 - first - second))
            least = np.nan_to_num(shares.min(axis=0), nan=-1.0)
            best = int(np.argmax(least))
            if abs(least[best]) < EDGE:
                return None
            if least[best] > 0.0:
                values[i] = shares[:, best] @ self._values[best]
        return values


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the determinants of pairs of vectors in the plane, shape (T,)."""
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _interpolation(points: FloatArray, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Interpolate values linearly at points of shape (k, d), whose rank is d."""
    if points.shape[1] == 0:
        return lambda places: np.full(len(places), values[0])
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        return lambda places: np.interp(places[:, 0], points[order, 0], values[order])
    triangulation = Delaunay(points)
    inside = LinearNDInterpolator(triangulation, values)
    triangles = Triangles(points, values, triangulation.simplices) if points.shape[1] == 2 else None

    def at_many(places: FloatArray) -> FloatArray:
        probabilities = None if triangles is None or len(places) > FEW else triangles.at_few(places)
        if probabilities is None:
            probabilities = np.asarray(inside(places))
        outside = np.isnan(probabilities)
        if outside.any():
            probabilities[outside] = NearestNDInterpolator(points, values)(places[outside])
        return np.clip(probabilities, 0.0, 1.0)

    return at_many
