"""Published algorithms for multicalibration, row by row, as rivals of `Multicalibrated`, and adversaries of all.

Each is written from its paper, in NumPy, and stands for what it predicts, not for what it costs. A rival is asked with
`predict(z, groups)` and taught with `learn(y)`: z is the probability that comes in, and `groups` has the number of each
group of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

Groups = npt.NDArray[np.int64]

#: Rivals predict within this and 1 minus this: a prediction of 0 or 1 that is wrong costs without bound.
LOWEST = 1e-4
#: Points of the grid of `Multivalid`, and the rate of its exponential weights.
POINTS, RATE = 20, 0.5
#: The step of `Debiaser`.
STEP = 0.05


class Rival(Protocol):
    """What predicts, and then learns, one row after the other."""

    def predict(self, z: float, groups: Groups) -> float: ...

    def learn(self, y: bool) -> None: ...


class Incoming:
    """The probabilities as they come in."""

    def predict(self, z: float, groups: Groups) -> float:
        return z

    def learn(self, y: bool) -> None:
        pass


class K29:
    """The algorithm of large numbers (Vovk, Takemura and Shafer, AISTATS 2005), its kernel the number of common groups.

    The prediction is the root of Σ M + k·(1 − 2p)/2, M = Σ(y − p) being the gap of each of the k groups of the row.
    """

    def __init__(self, groups: int) -> None:
        self.gap = np.zeros(groups)

    def predict(self, z: float, groups: Groups) -> float:
        self.groups = groups
        self.p = min(max(0.5 + float(self.gap[groups].mean()), LOWEST), 1.0 - LOWEST)
        return self.p

    def learn(self, y: bool) -> None:
        self.gap[self.groups] += y - self.p


class AnchoredK29:
    """K29 with each group's kernel divided by its variance, and the gradient of the log loss of z beside the gaps.

    The prediction is the root of (z − p)/(p(1 − p)) + Σ (M + (1 − 2p)/2)/(1 + V + p(1 − p)), V = Σp(1 − p).
    """

    def __init__(self, groups: int) -> None:
        self.gap, self.variance = np.zeros(groups), np.zeros(groups)

    def predict(self, z: float, groups: Groups) -> float:
        self.groups = groups
        gap, variance = self.gap[groups], self.variance[groups]
        low, high = LOWEST, 1.0 - LOWEST
        for _ in range(30):
            p = 0.5 * (low + high)
            pull = (z - p) / (p * (1.0 - p)) + float(((gap + 0.5 - p) / (1.0 + variance + p * (1.0 - p))).sum())
            low, high = (p, high) if pull > 0.0 else (low, p)
        self.p = 0.5 * (low + high)
        return self.p

    def learn(self, y: bool) -> None:
        self.gap[self.groups] += y - self.p
        self.variance[self.groups] += self.p * (1.0 - self.p)


class Multivalid:
    """Online multivalid means (Gupta, Jung, Noarov, Pai and Roth, ITCS 2022): exponential weights of group and point.

    The prediction lies at one of two neighbouring points of a grid between which the pressure Σ (exp(ηM/f) −
    exp(−ηM/f))/f changes its sign, f = √(n + 1)·ln(n + 2), with M and n of each cell of group and point: drawn at
    random as published, or the point of less pressure.
    """

    def __init__(self, groups: int, *, randomised: bool) -> None:
        self.points = np.clip((np.arange(POINTS) + 0.5) / POINTS, LOWEST, 1.0 - LOWEST)
        self.gap, self.count = np.zeros((groups, POINTS)), np.zeros((groups, POINTS))
        self.draw = np.random.default_rng(0) if randomised else None

    def predict(self, z: float, groups: Groups) -> float:
        self.groups = groups
        count = self.count[groups]
        scale = np.sqrt(count + 1.0) * np.log(count + 2.0)
        pressure = (np.sinh(np.clip(RATE * self.gap[groups] / scale, -30.0, 30.0)) / scale).sum(axis=0)
        self.place = self._place(pressure, z)
        self.p = float(self.points[self.place])
        return self.p

    def _place(self, pressure: npt.NDArray[np.float64], z: float) -> int:
        changes = np.flatnonzero((pressure[:-1] > 0.0) & (pressure[1:] <= 0.0))
        if not len(changes):
            if not pressure.any():
                return int(np.abs(self.points - z).argmin())
            return POINTS - 1 if pressure[-1] > 0.0 else 0
        near = changes[np.abs(self.points[changes] - z).argmin()]
        below, above = abs(pressure[near]), abs(pressure[near + 1])
        if self.draw is None:
            return int(near + (above < below))
        return int(near + (self.draw.random() < below / (below + above)))

    def learn(self, y: bool) -> None:
        self.gap[self.groups, self.place] += y - self.p
        self.count[self.groups, self.place] += 1.0


class Debiaser:
    """Gradient equilibrium (Angelopoulos, Jordan and Tibshirani, 2025): an offset of each group, in log-odds of z."""

    def __init__(self, groups: int) -> None:
        self.offset = np.zeros(groups)

    def predict(self, z: float, groups: Groups) -> float:
        self.groups = groups
        u = math.log(z / (1.0 - z)) + float(self.offset[groups].sum())
        self.p = min(max(1.0 / (1.0 + math.exp(-min(max(u, -30.0), 30.0))), LOWEST), 1.0 - LOWEST)
        return self.p

    def learn(self, y: bool) -> None:
        self.offset[self.groups] += STEP * (y - self.p)


#: Each rival by name, made for a number of groups.
RIVALS: dict[str, Callable[[int], Rival]] = {
    "K29": K29,
    "K29, anchored": AnchoredK29,
    "multivalid, rounded": lambda groups: Multivalid(groups, randomised=False),
    "multivalid, randomised": lambda groups: Multivalid(groups, randomised=True),
    "gradient debiaser": Debiaser,
}


def predictions(rival: Rival, z: npt.NDArray[np.float64], groups: Groups, y: npt.NDArray[np.bool_]) -> Iterator[float]:
    """Yield a rival's prediction of each row; `groups` has a row of group numbers for each."""
    for score, row, label in zip(z.tolist(), groups, y.tolist(), strict=True):
        yield rival.predict(score, row)
        rival.learn(label)


# -- adversaries -------------------------------------------------------------------------------------------------------


class Adversary:
    """Chooses the label of a row once it knows the prediction."""

    def __init__(self, kind: str, groups: int, seed: int = 0) -> None:
        self.kind, self.gap, self.rng, self.row = kind, np.zeros(groups), np.random.default_rng(seed), 0

    def __call__(self, p: float, z: float, groups: Groups) -> bool:
        self.row += 1
        y = bool(getattr(self, self.kind)(p, z, groups))
        self.gap[groups] += y - p
        return y

    def unlikely(self, p: float, z: float, groups: Groups) -> bool:
        """Return the label that the prediction thinks less likely."""
        return p < 0.5

    def against(self, p: float, z: float, groups: Groups) -> bool:
        """Return the label that punishes any distance from z."""
        return p < z

    def widening(self, p: float, z: float, groups: Groups) -> bool:
        """Return the label that widens the gaps of the row's groups."""
        return float(self.gap[groups].sum()) > 0.0

    def flipping(self, p: float, z: float, groups: Groups) -> bool:
        """Rates of every other group change every 500 rows."""
        wrong = groups[1] % 2 == 0
        return bool(self.rng.random() < ((0.02, 0.5)[self.row // 500 % 2] if wrong else z))


ADVERSARIES = ("unlikely", "against", "widening", "flipping")
