"""Crossed random effects, as a rival of `Segmented`: one online logistic regression with an effect for every level.

The log-odds are z + Σ u over the fields, z being those of a forecast, with a normal effect u of mean 0 for each level
of each field, of a variance τ² for each field. Effects have independent normal posteriors (assumed density filtering):
an outcome moves the sum of the effects at hand to the mode of its posterior, a step that is shared out by their
variances. τ² is estimated from the levels (empirical Bayes).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

#: The prior of τ² counts as so many levels, of this variance, as that of `Segmented` does.
FIRST_LEVELS, FIRST_VARIANCE = 4.0, 0.02
#: Log-odds are clamped to ± this.
LIMIT = 36.0


class CrossedEffects:
    """Posteriors of the effects of the levels of some fields.

    Parameters
    ----------
    fields : int
        Their number.

    Notes
    -----
    A level has the natural parameters of its likelihood, H and E: its effect has variance v = 1/(H + 1/τ²) and mean
    v·E. τ² = (4 · .02 + Σ (mean² + variance))/(4 + levels), the terms as they were at the last outcome of each level.
    """

    def __init__(self, fields: int) -> None:
        self.levels: list[dict[Hashable, list[float]]] = [{} for _ in range(fields)]  # H, E, its term in τ²
        self._sums = [0.0] * fields

    def variance(self, j: int) -> float:
        """τ² of field j."""
        return (FIRST_LEVELS * FIRST_VARIANCE + self._sums[j]) / (FIRST_LEVELS + len(self.levels[j]))

    def effect(self, j: int, level: Hashable) -> tuple[float, float]:
        """Mean and variance of the effect of a level of field j."""
        h, e, _ = self.levels[j].get(level, (0.0, 0.0, 0.0))
        v = 1.0 / (h + 1.0 / self.variance(j))
        return v * e, v

    def step(self, z: float, levels: Sequence[Hashable], y: bool) -> float:
        """Return the probability for an observation of these levels, then learn its outcome y.

        It is σ(m/√(1 + πv/8)) for log-odds of mean m and variance v (MacKay, *The evidence framework applied to
        classification networks*, 1992).
        """
        effects = [self.effect(j, level) for j, level in enumerate(levels)]
        mean, variance = z + sum(m for m, _ in effects), sum(v for _, v in effects)
        residual, h = _mode(mean, variance, y)
        for j, (level, (m, v)) in enumerate(zip(levels, effects, strict=True)):
            self._learn(j, level, m + v * residual, v * (1.0 - v * h / (1.0 + variance * h)))
        return _sigmoid(mean / math.sqrt(1.0 + math.pi * variance / 8.0))

    def _learn(self, j: int, level: Hashable, mean: float, variance: float) -> None:
        """Set the posterior of a level."""
        tau = self.variance(j)
        before = self.levels[j].get(level, (0.0, 0.0, 0.0))[2]
        term = mean * mean + variance
        self._sums[j] += term - before
        self.levels[j][level] = [max(1.0 / variance - 1.0 / tau, 0.0), mean / variance, term]


def _mode(mean: float, variance: float, y: bool) -> tuple[float, float]:
    """Return y − σ and σ(1 − σ) at the posterior mode of log-odds with a normal prior.

    The mode is x = mean + v·(y − σ(x)), found by Newton's method within the interval that contains it.
    """
    low, high = (mean, mean + variance) if y else (mean - variance, mean)
    x = mean
    for _ in range(60):
        p = _sigmoid(x)
        excess = x - mean - variance * (y - p)
        low, high = (low, x) if excess > 0.0 else (x, high)
        step = excess / (1.0 + variance * p * (1.0 - p))
        after = x - step if low < x - step < high else 0.5 * (low + high)
        if abs(after - x) <= 1e-12 * max(1.0, abs(x)):
            break
        x = after
    p = _sigmoid(x)
    return (_sigmoid(-x) if y else -p), p * _sigmoid(-x)


def _sigmoid(x: float) -> float:
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


def stream(
    base: npt.NDArray[np.float64], columns: Sequence[Iterable[Hashable]], y: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the forecast of each of n rows before its outcome, from base forecasts and columns of levels."""
    effects = CrossedEffects(len(columns))
    with np.errstate(divide="ignore"):
        z = np.clip(np.log(base) - np.log1p(-base), -LIMIT, LIMIT).tolist()
    rows = zip(z, zip(*columns, strict=True), y.tolist(), strict=True)
    return np.array([effects.step(*row) for row in rows])
