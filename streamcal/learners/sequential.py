"""`SequentialLearner`: what depends on the order of its observations, in every package."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.kernels.common.weights import WeightScale
from streamcal.learners.learner import Learner
from streamcal.parameters.types import FloatArray, Time
from streamcal.states import HEAVIEST, Reader, number, row


class SequentialLearner(Learner):
    """A learner that takes one step per observation, so that nothing is merged or taken back.

    A weight counts relative to the running mean of all weights (`WeightScale`), so that a factor common to all weights
    changes nothing. Weight 0 is no step. Forgetting is a parameter of the step, and time is not read.
    """

    merges = False
    unlearns = False

    @abstractmethod
    def _step(self, x: Any, y: Any, w: float) -> None:
        """Learn a checked observation of weight w > 0 by one step."""

    def _learn(self, x: Any, y: Any, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            self._step(x, y, w)
            self._note(noted)

    def _learn_many(self, x: Any, y: Any, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        columns = (one.tolist() if isinstance(one, np.ndarray) else one for one in (x, y, w))
        for one in zip(*columns, strict=True):
            if one[-1] > 0.0:
                self._step(*one)
        self._note(noted)

    def _time(self, t: Time | None) -> float:
        return 0.0

    def _times(self, t: npt.ArrayLike | Sequence[Time] | None, size: int) -> FloatArray:
        return np.zeros(size)


#: Reads the state of a `WeightScale`.
weight_scale_state: Reader = row(number(0.0, HEAVIEST), number(0.0, HEAVIEST))


class LearnedWeights(SequentialLearner):
    """A sequential learner without a kernel of its own, which sets `_weight_scale` in `__init__`."""

    _weight_scale: WeightScale

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "weight_scale": self._weight_scale.state()}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "weight_scale": weight_scale_state}

    def _load(self, *_: Any, **fields: Any) -> None:
        scale = fields.pop("weight_scale")
        super()._load(**fields)
        self._weight_scale.load(*scale)
