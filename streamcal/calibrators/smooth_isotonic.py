"""`SmoothIsotonic`: a smooth monotone curve through the blocks of the isotonic fit, or a monotone smoothing spline."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common
from streamcal.calibrators.near_isotonic import checked_penalty
from streamcal.errors import SolverError
from streamcal.kernels.polynomial.cubic import slopes
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import CubicMap
from streamcal.solvers.monotone_spline import MonotoneSpline
from streamcal.statistics.score_tree import TIED_VALUES, ScoreTree, score_tree


class SmoothIsotonic(AdditiveCalibrator[ScoreTree]):
    """Smooth isotonic regression: the monotone cubic PCHIP curve through one point for each block of the isotonic fit.

    A block of scores sᵢ with weights wᵢ and labels yᵢ is represented by (Σwᵢsᵢ/Σwᵢ, Σwᵢyᵢ/Σwᵢ). The curve passes
    through these points, is nondecreasing between them, has a continuous slope (Fritsch and Butland's weighted harmonic
    mean, as in SciPy's `PchipInterpolator`), and is constant below the first point and above the last.

    With a penalty λ it is a monotone smoothing spline instead:

        min  Σ wᵢ (f(sᵢ) − yᵢ)² / Σ wᵢ + λ ∫ f″(s)² ds   over monotone f with 0 ≤ f ≤ 1.

    Parameters
    ----------
    penalty : float or None
        λ ≥ 0, in units of the coordinate to the third power; None (default) selects the curve through the blocks.
        On `Probability()` good values lie between 1e-5 and 0.1; `PrequentialChoice` chooses among several. From 10⁴
        times the width of the scale to the third power on, f is the best straight line.
    scale, forgetting, prior
        See `AdditiveCalibrator`. Points and curve are functions of the coordinate, so the scale matters. A penalty
        needs a bounded scale.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory, on which the map has a step for each cell. The blocks are those of a step method, which a grid
        may change by more than its width: hence no grid by default.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Paper 002 describes both: the spline in eq. (13), where the square of f″ is missing, and the interpolation that
    replaces it in §2.2.5. Its §5.3 chooses a λ, which belongs to the spline. On the paper's data the spline with a λ
    chosen by cross-validation has a lower ECE than the interpolation in 8 of 8 cells
    (docs/papers/rpr_002_choices.md). The interpolation predicts 0 and 1 at both ends: on 17 of 18 development streams
    of the race a λ has the lower log loss (docs/papers/prequential_choice.md).

    The spline has 20 cubic pieces of equal width, and B-spline coefficients that do not decrease and lie in [0, 1],
    which is sufficient for a monotone f and not necessary. A ridge of 1e-10 on their differences selects the flattest
    curve where the data do not determine one. The solution is exact up to rounding.

    The paper leaves the representative score of a block open: the weighted mean is our choice. Neighbouring blocks of
    equal value are one block, to a relative 2⁻⁴², the rounding of sums. What unlearning leaves of a label's weight at a
    score counts as 0 below the same fraction. Cost: learning, unlearning and `predict_one` O(log² k) for k distinct
    scores; the first array after a change O(k); memory O(k). With a penalty the first prediction after a change costs
    O(k).

    References
    ----------
    Jiang, Osl, Kim and Ohno-Machado 2011; paper 002, §2.2.5 and eq. (13).

    Examples
    --------
    >>> cal = SmoothIsotonic()
    >>> cal.learn_many([0.1, 0.2, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1])
    >>> cal.predict_many([0.15, 0.3, 0.5, 0.8]).round(3).tolist()
    [0.0, 0.204, 0.5, 1.0]
    >>> cal = SmoothIsotonic(penalty=0.01)
    >>> cal.learn_many([0.1, 0.2, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1])
    >>> cal.predict_many([0.15, 0.3, 0.5, 0.8]).round(3).tolist()
    [0.15, 0.302, 0.494, 0.791]
    """

    name = "smooth-isotonic"
    summary = "monotone cubic curve through the blocks of the isotonic fit; with λ a monotone smoothing spline"
    default_resolution = None
    by_ratios = True

    def __init__(self, penalty: float | None = None, **common: Unpack[Common]) -> None:
        self.penalty = checked_penalty(penalty)
        super().__init__(**common)
        self._spline = None if self.penalty is None else MonotoneSpline()
        if self._spline is not None:
            self.scale.require_bounds("a smoothing spline")
        else:
            smooth = self._memory.statistic.tree.smooth
            self._at = lambda x: smooth(x, TIED_VALUES)

    def _keeps_up(self) -> bool:
        return self.penalty is None

    def new_statistic(self) -> ScoreTree:
        return score_tree(self.scale, self.resolution, keeps_fit=True, centred=True)

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> ScaledMap:
        if self._spline is not None and self.penalty is not None:
            return self._smoothed(self._spline, self.penalty, statistic)
        _, _, centre, value = statistic.centred_blocks()
        rises, falls = slopes(centre, value)
        return CubicMap(self.scale, centre, value, rises, falls, statistic.grid)

    def _smoothed(self, spline: MonotoneSpline, penalty: float, statistic: ScoreTree) -> CubicMap:
        x, weight, positive, _ = statistic.tree.to_arrays()
        lo, hi = self.scale.lo, self.scale.hi
        solution = spline.solve(self.scale.units(x), weight, positive, penalty / (hi - lo) / (hi - lo) / (hi - lo))
        if not solution.solved:
            raise SolverError(f"the smoothing spline of {self!r} ended with status {solution.status!r}")
        values, rises, falls = spline.knots(solution.x)
        return CubicMap(self.scale, np.linspace(lo, hi, len(values)), values, rises, falls, statistic.grid)
