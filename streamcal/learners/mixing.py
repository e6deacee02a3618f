"""What learners made of several candidates share: their weights by log loss, and their states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from streamcal.learners.learner import Learner
from streamcal.states import HEAVIEST, Reader, ensure, listed, number, numbers, unread

Candidate = TypeVar("Candidate", bound=Learner)

#: Predictions are at least this far from 0 and 1, so that every loss is finite: at most 20.7 nats.
NEAREST = 1e-9


def limited(p: float) -> float:
    """Return a probability that is at least `NEAREST` from 0 and 1."""
    return min(max(p, NEAREST), 1.0 - NEAREST)


class Mixture:
    """A weighted mean of K predictions, whose weights are exp(−L/m): L the weighted sum of log losses so far.

    m is the largest weight of an observation so far, so that a factor common to all weights changes nothing. With equal
    weights the rate is 1, and the summed log loss of the mixture is exactly −ln of the mean of the K likelihoods: at
    most that of the best candidate plus ln K.
    """

    def __init__(self, size: int) -> None:
        self.losses = [0.0] * size
        self._heaviest = 0.0
        self._shares = [1.0 / size] * size

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights of the candidates; they sum to 1."""
        return tuple(self._shares)

    def leader(self) -> int:
        """Return the place of the candidate with the smallest loss; of equal losses, that of the first."""
        return int(np.argmin(self.losses))

    def of(self, forecasts: Sequence[float]) -> float:
        """Return the weighted mean of limited predictions."""
        return math.fsum(map(float.__mul__, self._shares, forecasts))

    def learn(self, forecasts: Sequence[float], y: float, w: float) -> None:
        """Learn the label that followed the candidates' limited predictions; w > 0."""
        self._heaviest = max(self._heaviest, w)
        for k, p in enumerate(forecasts):
            self.losses[k] -= w * math.log(p if y else 1.0 - p)
        self._share()

    def _share(self) -> None:
        least = min(self.losses)
        parts = [math.exp((least - one) / self._heaviest) for one in self.losses]
        total = math.fsum(parts)
        self._shares = [one / total for one in parts]

    def state(self) -> dict[str, Any]:
        """Return the losses and the largest weight, for `load`."""
        return {"losses": list(self.losses), "heaviest": self._heaviest}

    def fields(self) -> dict[str, Reader]:
        """Return the readers of `state`."""
        losses = numbers(len(self.losses), least=0.0, most=HEAVIEST)
        return {"losses": losses, "heaviest": number(0.0, HEAVIEST)}

    def load(self, losses: Any, heaviest: float) -> None:
        """Load an earlier `state`."""
        ensure(heaviest > 0.0 or not losses.any(), "there are losses without an observation")
        self.losses, self._heaviest = losses.tolist(), heaviest
        if heaviest > 0.0:
            self._share()


def written(candidates: Sequence[Candidate]) -> list[Any]:
    """Return the states of candidates, for `reread`."""
    return [one._written() for one in candidates]


def states_of(candidates: Sequence[Candidate]) -> Reader:
    """Return a reader of the states of candidates, as `written` returned them, which checks their number alone."""
    return listed(unread, length=len(candidates))


def reread(candidates: Sequence[Candidate], states: list[Any]) -> list[Candidate]:
    """Return new candidates with these states; raise `StateError` if one has other parameters."""
    found = []
    for candidate, saved in zip(candidates, states, strict=True):
        ensure(isinstance(saved, dict), "a candidate is no state")
        one = type(candidate)._from_written(saved)
        ensure(one.same_parameters(candidate), "a candidate has other parameters")
        found.append(one)
    return found
