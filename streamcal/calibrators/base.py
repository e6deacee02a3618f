"""`Calibrator`: the contract of the methods of one score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy.typing as npt

from streamcal.errors import CapabilityError
from streamcal.learners.learner import Learner
from streamcal.maps.base import CalibrationMap
from streamcal.parameters.types import FloatArray, Label, Time


class Calibrator(Learner):
    """A method of one score: it learns which labels followed scores, and predicts a probability.

    The laws of these methods are listed in `docs/architecture.md`.
    """

    #: Whether a higher score never gets a lower probability.
    monotone: ClassVar[bool] = True
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False

    @abstractmethod
    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""

    @abstractmethod
    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        """Learn arrays of shape (n,): the same state as a loop of `learn_one`. On an error nothing is learned."""

    @abstractmethod
    def predict_one(self, score: float, t: Time | None = None) -> float:
        """The probability of a positive label at `score`, as of time `t`. The state does not change."""

    @abstractmethod
    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """The probabilities at an array of scores, all as of time `t`, shape (n,). The state does not change."""

    def unlearn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        raise CapabilityError(f"{type(self).__name__} depends on the order of its observations and cannot unlearn")

    @abstractmethod
    def map(self) -> CalibrationMap:
        """The current calibration map, immutable."""
