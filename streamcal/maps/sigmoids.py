"""Maps made of sigmoids: of a line, of a·ln s − b·ln(1 − s) + c, and mixtures of sigmoids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.maps.base import ScaledMap, frozen
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray


class SigmoidMap(ScaledMap):
    """1 / (1 + exp(−(slope·x + offset)))."""

    kind = "sigmoid"

    def __init__(self, scale: Scale, slope: float, offset: float) -> None:
        super().__init__(scale)
        self.slope = slope
        self.offset = offset

    def at(self, x: float) -> float:
        return sigmoid(self.slope * x + self.offset)

    def at_many(self, x: FloatArray) -> FloatArray:
        return sigmoids(self.slope * x + self.offset)


class BetaMap(ScaledMap):
    """1 / (1 + exp(−(a·ln s − b·ln(1 − s) + c))) of the score's probability s, its log-odds clamped by the scale."""

    kind = "beta"

    def __init__(self, scale: Scale, a: float, b: float, c: float) -> None:
        super().__init__(scale)
        self.a = a
        self.b = b
        self.c = c

    def at(self, x: float) -> float:
        z = self.scale.logit(x)
        tail = math.log1p(math.exp(-abs(z)))
        return sigmoid(self.a * (min(z, 0.0) - tail) + self.b * (max(z, 0.0) + tail) + self.c)

    def at_many(self, x: FloatArray) -> FloatArray:
        ln_s, ln_not_s = log_probabilities(self.scale.logits(x))
        return sigmoids(self.a * ln_s - self.b * ln_not_s + self.c)


class SigmoidMixtureMap(ScaledMap):
    """Σ weights[k] / (1 + exp(−(slopes[k]·x + offsets[k]))); the weights sum to 1."""

    kind = "sigmoids"

    def __init__(self, scale: Scale, weights: FloatArray, slopes: Sequence[float], offsets: Sequence[float]) -> None:
        super().__init__(scale)
        self.weights = frozen(weights)
        self.slopes = tuple(slopes)
        self.offsets = tuple(offsets)

    def at(self, x: float) -> float:
        parts = zip(self.weights.tolist(), self.slopes, self.offsets, strict=True)
        return min(sum(weight * sigmoid(slope * x + offset) for weight, slope, offset in parts), 1.0)

    def at_many(self, x: FloatArray) -> FloatArray:
        p = np.zeros_like(x)
        for weight, slope, offset in zip(self.weights.tolist(), self.slopes, self.offsets, strict=True):
            p += weight * sigmoids(slope * x + offset)
        return np.minimum(p, 1.0)


def log_probabilities(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln s and ln(1 − s) of log-odds z, each to full relative accuracy."""
    tail = np.log1p(np.exp(-np.abs(z)))
    return np.minimum(z, 0.0) - tail, -np.maximum(z, 0.0) - tail
