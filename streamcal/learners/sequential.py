"""`LearnedWeights`: sequential learners that keep the running mean of their weights."""

from __future__ import annotations

from typing import Any

from streamcal.kernels.common.weights import WeightScale
from streamcal.learners.learner import Learner
from streamcal.states import HEAVIEST, Reader, number, row

#: Reads the state of a `WeightScale`.
weight_scale_state: Reader = row(number(0.0, HEAVIEST), number(0.0, HEAVIEST))


class LearnedWeights(Learner):
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
