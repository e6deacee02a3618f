"""`Prior`: pseudo-observations along the identity map, so that one early outcome does not rule the map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamcal.errors import InputError
from streamcal.kernels.logistic import sigmoids
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Probability, Scale
from streamcal.parameters.settings import Setting
from streamcal.parameters.types import FloatArray

#: The pseudo-observations stand at this many scores, equally spaced in log-odds.
PRIOR_POINTS = 64


class PseudoObservations(NamedTuple):
    """What a memory holds from the start: coordinates, labels in [0, 1] and weights, each of shape (m,)."""

    x: FloatArray
    y: FloatArray
    w: FloatArray


@dataclass(frozen=True)
class Prior(Setting):
    """Pseudo-weight along the identity map, on the probability scale.

    `strength` is the total weight, above 0 and at most 1e60 as that of an observation, spread evenly over 64 scores
    equally spaced in log-odds between ±16; at each the share of positives is the score itself. It counts towards the
    map and not towards `n`. It is an opinion: where the score is badly off it is a wrong one, until the observations
    outweigh it.

    >>> from streamcal import Isotonic
    >>> cold, warm = Isotonic(), Isotonic(prior=Prior(20))
    >>> for cal in (cold, warm):
    ...     cal.learn_one(0.3, False)
    >>> cold.predict_one(0.3), round(warm.predict_one(0.3), 2)
    (0.0, 0.08)
    """

    strength: float

    def __post_init__(self) -> None:
        number = isinstance(self.strength, (int, float)) and not isinstance(self.strength, bool)
        if not number or not 0.0 < self.strength <= LARGEST_WEIGHT:
            raise InputError(f"Prior({self.strength!r}) is not possible; give 0 < strength <= {LARGEST_WEIGHT:g}")

    def pseudo_observations(self, scale: Scale) -> PseudoObservations:
        """The pseudo-observations on this scale; `InputError` unless it reads scores as probabilities."""
        if not isinstance(scale, (Probability, Logit)):
            raise InputError(f"a prior along the identity map needs a scale of probabilities, not {scale!r}")
        step = 2.0 * LOGIT_LIMIT / PRIOR_POINTS
        scores = sigmoids(-LOGIT_LIMIT + step * (np.arange(PRIOR_POINTS) + 0.5))
        return PseudoObservations(
            scale.coordinates(scores), scores, np.full(PRIOR_POINTS, self.strength / PRIOR_POINTS)
        )
