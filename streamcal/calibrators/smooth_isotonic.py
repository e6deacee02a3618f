"""`SmoothIsotonic`: a smooth monotone curve through the blocks of the isotonic fit."""

from __future__ import annotations

from collections.abc import Callable

from streamcal.calibrators.table import BlockCalibrator
from streamcal.kernels.cubic import slopes
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import CubicMap
from streamcal.statistics.score_tree import TIED_VALUES, ScoreTree


class SmoothIsotonic(BlockCalibrator):
    """Smooth isotonic regression: the monotone cubic PCHIP curve through one point for each block of the isotonic fit.

    A block of scores sᵢ with weights wᵢ and labels yᵢ is represented by (Σwᵢsᵢ/Σwᵢ, Σwᵢyᵢ/Σwᵢ). The curve passes
    through these points, is nondecreasing between them, has a continuous slope (Fritsch and Butland's weighted harmonic
    mean, as in SciPy's `PchipInterpolator`), and is constant below the first point and above the last.

    Parameters
    ----------
    scale, forgetting, prior
        See `AdditiveCalibrator`. Points and curve are functions of the coordinate, so the scale matters.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory, on which the map has a step for each cell. The blocks are those of a step method, which a grid
        may change by more than its width: hence no grid by default.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    There is no penalty: paper 002, §5.3, chooses a λ for this method, but its §2.2.5 describes this interpolation,
    which has none.

    The paper leaves the representative score of a block open: the weighted mean is our choice. Neighbouring blocks of
    equal value are one block, to a relative 2⁻⁴², the rounding of sums; what a retraction leaves of a label at a score
    is nothing, to the same fraction of what was there. Cost: learning, unlearning and `predict_one` O(log² k)
    for k distinct scores; the first array after a change O(k); memory O(k).

    References
    ----------
    Jiang, Osl, Kim and Ohno-Machado 2011; paper 002, §2.2.5.

    Examples
    --------
    >>> cal = SmoothIsotonic()
    >>> cal.learn_many([0.1, 0.2, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1])
    >>> cal.predict_many([0.15, 0.3, 0.5, 0.8]).round(3).tolist()
    [0.0, 0.204, 0.5, 1.0]
    """

    name = "smooth-isotonic"
    summary = "monotone cubic curve through the blocks of the isotonic fit"

    def _value_at(self, tree: ScoreTree) -> Callable[[float], float]:
        smooth = tree.tree.smooth
        return lambda x: smooth(x, TIED_VALUES)

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> ScaledMap:
        """Fit the map to a non-empty statistic whose weights are in units of a new observation."""
        _, _, centre, value = statistic.centred_blocks()
        rises, falls = slopes(centre, value)
        return CubicMap(self.scale, centre, value, rises, falls, statistic.grid)
