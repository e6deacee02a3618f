"""`Mixture`, the weights of several candidates by log loss, and `Candidates`, the base of learners made of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from streamcal.learners.learner import Learner, loaded_as
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, Field, ensure, listed, number, numbers, unread

Candidate = TypeVar("Candidate", bound=Learner)

#: Predictions are at least this far from 0 and 1, so that every loss is finite: at most 20.7 nats.
NEAREST = 1e-9


def limited(p: float) -> float:
    """Return a probability that is at least `NEAREST` from 0 and 1."""
    return min(max(p, NEAREST), 1.0 - NEAREST)


class Mixture:
    """A weighted mean of K predictions, whose weights are exp(−L/m): L the weighted sum of log losses so far.

    m is the largest weight of an observation so far, so that multiplying all weights by one number changes nothing.
    With equal weights the rate is 1, and the summed log loss of the mixture is exactly −ln of the mean of the K
    likelihoods: at most that of the best candidate plus ln K.
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
        parts = [math.exp((least - loss) / self._heaviest) for loss in self.losses]
        total = math.fsum(parts)
        self._shares = [part / total for part in parts]

    def fields(self) -> dict[str, Field]:
        """Return the fields of the state by name."""
        losses = numbers(len(self.losses), least=0.0, most=HEAVIEST)
        return {
            "losses": Field(losses, lambda: list(self.losses), self._load_losses),
            "heaviest": Field(number(0.0, HEAVIEST), lambda: self._heaviest, self._load_heaviest),
        }

    def _load_losses(self, losses: FloatArray) -> None:
        self.losses = losses.tolist()

    def _load_heaviest(self, heaviest: float) -> None:
        ensure(heaviest > 0.0 or not any(self.losses), "there are losses without an observation")
        self._heaviest = heaviest
        if heaviest > 0.0:
            self._share()


class Candidates(Learner, Generic[Candidate]):
    """A learner made of candidates, which all learn every observation; one of them leads."""

    _candidates: list[Candidate]

    @property
    @abstractmethod
    def leader(self) -> Candidate:
        """The candidate with the smallest loss so far; for reading only, not for learning."""

    @property
    def bounded_memory(self) -> bool:
        return all(candidate.bounded_memory for candidate in self._candidates)

    @property
    def forgets_by_time(self) -> bool:
        return any(candidate.forgets_by_time for candidate in self._candidates)

    @property
    def n(self) -> float:
        """Total weight learned by the leader; under decay, in units of a new observation."""
        return self.leader.n

    def tally(self) -> dict[str, int]:
        """Return the counts of the leader, such as clamped scores."""
        return self.leader.tally()

    def _require_times(self, t: FloatArray) -> None:
        for candidate in self._candidates:
            candidate._require_times(t)

    def _require_time(self, t: float) -> None:
        for candidate in self._candidates:
            candidate._require_time(t)

    def _fields(self) -> dict[str, Field]:
        candidates = listed(unread, length=len(self._candidates))
        written = Field(
            candidates, lambda: [candidate._written() for candidate in self._candidates], self._load_candidates
        )
        return {**super()._fields(), "candidates": written}

    def _load_candidates(self, states: list[Any]) -> None:
        self._candidates = [loaded_as(own, saved) for own, saved in zip(self._candidates, states, strict=True)]
