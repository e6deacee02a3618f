"""`NearIsotonic`: near-isotonic regression (L1 penalty on decreases), between the raw means and the isotonic fit."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.kernels.tree.near_isotonic import NearIsotonicPath, isotonic_bic
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.parameters.numbers import real_number
from streamcal.parameters.types import FloatArray

#: A fit whose BIC is this much above the best has e⁻⁴⁰ of its likelihood: below the rounding of any average, also of
#: millions of fits. Fits that cannot be closer are skipped.
NEGLIGIBLE = 80.0


class NearIsotonic(AdditiveCalibrator[Table]):
    """Near-isotonic regression: min Σ wᵢ (pᵢ − ȳᵢ)² / W + λ Σ (pᵢ − pᵢ₊₁)₊ over the values pᵢ at the distinct scores.

    ȳᵢ and wᵢ are the mean label and the weight at a score, W = Σ wᵢ. At λ = 0 p is ȳ; from some λ ≤ 1/2 on
    it is the isotonic fit. Between the scores held the map is linear, beyond them constant, as for `Isotonic`. The map
    is not monotone.

    Parameters
    ----------
    penalty : float or None
        λ ≥ 0, in the units of the formula, which do not depend on the number of observations (the authors'
        ½ Σ w (p − ȳ)² + λ' Σ (…)₊ is the same at λ' = λ·W/2). None (default): of all breakpoints of the path, λ = 0
        included, the one with the least BIC = −2 log L + d log max(W, 1), L the likelihood of the labels, d the number
        of blocks.
    scale, forgetting, prior
        See `AdditiveCalibrator`. Any order-preserving scale gives the same fit at the scores held.
    resolution : int or None
        Cells of the grid to which scores are rounded (default 1,024: fixed memory); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Paper 002 chooses λ by the best BDeu score; the default here is BIC in its place. See docs/papers/rpr_002_choices.md
    for both on the paper's data.

    Cost: an observation O(log k) for k distinct scores (cells). A prediction after it computes the exact path, which is
    piecewise linear in λ: O(k log k), and by BIC O(k²) in the worst case, 0.1 ms on the default grid; memory O(k).

    References
    ----------
    Tibshirani, Hoefling and Tibshirani 2011, algorithm 1 and §3 (d); paper 002, eq. (10).

    Examples
    --------
    >>> cal = NearIsotonic(penalty=0.1, resolution=None)
    >>> cal.learn_many([0.2, 0.2, 0.4, 0.4, 0.6, 0.6], [0, 1, 0, 0, 1, 1])
    >>> [round(cal.predict_one(s), 3) for s in (0.2, 0.4, 0.6)]
    [0.35, 0.15, 1.0]
    """

    name = "near-isotonic"
    summary = "near-isotonic regression: L1 penalty on decreases; λ by BIC or given"
    monotone = False
    default_resolution = 1024

    def __init__(self, penalty: float | None = None, **common: Unpack[Common]) -> None:
        self.penalty = checked_penalty(penalty)
        super().__init__(**common)

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        values = np.zeros(len(x))
        if self.penalty is None:
            follow_path(weight, positive, values, 0.0)
        else:
            path = NearIsotonicPath(weight, positive)
            path.advance_to(0.5 * self.penalty)
            path.add_values(1.0, values)
        return KnotMap(self.scale, x, values, statistic.grid)


def follow_path(
    weight: FloatArray, positive: FloatArray, values: FloatArray, allowance: float, average: bool = False
) -> None:
    """Set `values` to the fit with the least BIC of the path, or to the average of all, with weights exp(−BIC/2).

    Fits whose BIC is surely larger than the least by more than the allowance are skipped. The isotonic fit at the end
    of the path is an upper bound of the least.
    """
    per_block = math.log(max(float(weight.sum()), 1.0))
    limit = isotonic_bic(weight, positive, per_block) + allowance
    NearIsotonicPath(weight, positive).bics(per_block, limit, values, average)


def checked_penalty(penalty: float | None) -> float | None:
    """Check that a penalty is None or a finite number of at least 0, and return it."""
    allowed = "None, or a finite number of at least 0"
    return None if penalty is None else real_number(penalty, "penalty", allowed, least=0.0)
