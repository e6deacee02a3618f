"""`Prior` and `DummyObservations`: pseudo-observations that stabilise the first predictions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoids
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.parameters.numbers import real_number
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Probability, Scale
from streamcal.parameters.settings import Setting
from streamcal.parameters.types import FloatArray

#: The pseudo-observations are at this many scores, equally spaced in log-odds.
PRIOR_POINTS = 64


class PseudoObservations(NamedTuple):
    """What a memory is initialised with: coordinates, labels in [0, 1] and weights, each of shape (m,)."""

    x: FloatArray
    y: FloatArray
    w: FloatArray


@dataclass(frozen=True)
class Prior(Setting):
    """Pseudo-observations along the identity map, on the probability scale.

    They have a total weight of `strength`, spread evenly over 64 scores that are equally spaced in log-odds between
    ±16; at each score the share of positives is the score itself. They influence the map and are not counted in `n`.
    Where the score is badly miscalibrated the prior is wrong, until the observations outweigh it.

    Parameters
    ----------
    strength : float
        Total weight of the pseudo-observations, above 0 and at most 1e60, the largest weight of an observation.

    Notes
    -----
    Cost: 64 observations, learned at construction.

    Examples
    --------
    >>> from streamcal import Isotonic
    >>> cold, warm = Isotonic(), Isotonic(prior=Prior(20))
    >>> for cal in (cold, warm):
    ...     cal.learn_one(0.3, False)
    >>> cold.predict_one(0.3), round(warm.predict_one(0.3), 2)
    (0.0, 0.08)
    """

    strength: float

    def __post_init__(self) -> None:
        allowed = f"Prior(strength) with 0 < strength <= {LARGEST_WEIGHT:g}"
        strength = real_number(self.strength, "strength", allowed, above=0.0, most=LARGEST_WEIGHT)
        object.__setattr__(self, "strength", strength)

    def pseudo_observations(self, scale: Scale) -> PseudoObservations:
        """Return the pseudo-observations on this scale; `InputError` unless it reads scores as probabilities."""
        if not isinstance(scale, (Probability, Logit)):
            raise InputError(f"a prior along the identity map needs a scale of probabilities, not {scale!r}")
        step = 2.0 * LOGIT_LIMIT / PRIOR_POINTS
        scores = sigmoids(-LOGIT_LIMIT + step * (np.arange(PRIOR_POINTS) + 0.5))
        return PseudoObservations(
            scale.increasing.coordinates(scores), scores, np.full(PRIOR_POINTS, self.strength / PRIOR_POINTS)
        )


@dataclass(frozen=True)
class DummyObservations(Prior):
    """Two pseudo-observations that contradict the order: a positive label below all scores, a negative one above all.

    They are the footnote of paper 003, a regularisation of isotonic regression: no probability is 0 or 1, and no log
    loss is infinite. The lowest of k negatives and the highest of k positives are predicted 1/(k + 1) and k/(k + 1).

    Parameters
    ----------
    strength : float
        Total weight of the two, above 0 and at most 1e60. The paper has two of weight 1.

    Notes
    -----
    Made for isotonic methods, on any scale. A parametric method such as `Platt` would give two contrary labels at the
    ends of the scale much leverage: use `Prior` there. As every prior they are not counted in `n`, and a window keeps
    them.

    References
    ----------
    Vovk, Petej and Fedorova 2015 (paper 003), footnote 1.

    Examples
    --------
    >>> from streamcal import Isotonic
    >>> bare, regular = Isotonic(), Isotonic(prior=DummyObservations())
    >>> for cal in (bare, regular):
    ...     cal.learn_many([0.1, 0.2, 0.7, 0.8, 0.9], [0, 0, 1, 1, 1])
    >>> bare.predict_many([0.1, 0.9]).tolist(), regular.predict_many([0.1, 0.9]).round(3).tolist()
    ([0.0, 1.0], [0.333, 0.75])
    """

    strength: float = 2.0

    def pseudo_observations(self, scale: Scale) -> PseudoObservations:
        """Return the pseudo-observations on this scale: at its ends, or at the largest floats where it has none."""
        furthest = sys.float_info.max
        ends = np.array([max(scale.lo, -furthest), min(scale.hi, furthest)])
        return PseudoObservations(ends, np.array([1.0, 0.0]), np.full(2, 0.5 * self.strength))
