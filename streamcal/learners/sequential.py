"""`SequentialLearner`: what depends on the order of its observations, in every package."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.learners.learner import Learner
from streamcal.parameters.types import FloatArray, Time


class SequentialLearner(Learner):
    """A learner that takes one step per observation, so that nothing is merged or taken back.

    An observation of weight 2 is one step of double size; weight 0 is no step. Forgetting is a parameter of the step,
    and time is not read.
    """

    merges = False
    unlearns = False

    @abstractmethod
    def _step(self, x: Any, y: Any, w: float) -> None:
        """One step on a checked observation of weight w > 0."""

    def _learn(self, x: Any, y: Any, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            self._step(x, y, w)
            self._note(noted)

    def _learn_many(self, x: Any, y: Any, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        columns = (one.tolist() if isinstance(one, np.ndarray) else one for one in (x, y, w))
        for row in zip(*columns, strict=True):
            if row[-1] > 0.0:
                self._step(*row)
        self._note(noted)

    def _time(self, t: Time | None) -> float:
        return 0.0

    def _times(self, t: npt.ArrayLike | Sequence[Time] | None, size: int) -> FloatArray:
        return np.zeros(size)
