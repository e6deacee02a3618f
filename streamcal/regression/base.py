"""The contract of distribution calibration: a predictive distribution → a calibrated one; and what additive ones share.

A method keeps of a distribution only the numbers it needs, such as its cdf at fixed thresholds, so that its state is
plain data whatever objects came in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from streamcal.errors import CapabilityError
from streamcal.learners.additive import AdditiveLearner
from streamcal.learners.learner import Learner
from streamcal.memories.memory import Coordinate, Held
from streamcal.parameters.inputs import check_outcome, check_outcomes, check_weight
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.reading import check_distributions


class DistributionMap(ABC):
    """A pure function distribution → calibrated distribution: an immutable snapshot, safe for any number of threads."""

    @abstractmethod
    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        """The calibrated distribution."""

    def predict_many(self, distributions: Sequence[Distribution]) -> list[CalibratedDistribution]:
        """The calibrated distributions, in order."""
        return [self.predict_one(one) for one in check_distributions(distributions)]

    def __call__(self, distribution: Distribution) -> CalibratedDistribution:
        return self.predict_one(distribution)


class DistributionCalibrator(Learner):
    """A method of regression: it learns which outcome followed a predictive distribution, and corrects later ones.

    A distribution is any object whose `cdf` takes floats and arrays: `Normal`, `Quantiles`, `Sample`, a frozen
    distribution of `scipy.stats`, or your own. `InputError`, and nothing changed, for a cdf that decreases, leaves
    [0, 1] or is NaN where it is read, for an outcome that is not finite, and for lengths that differ.
    """

    @abstractmethod
    def learn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `distribution` was followed by the outcome `y`, with weight `w` ≥ 0, at time `t`."""

    @abstractmethod
    def learn_many(
        self,
        distributions: Sequence[Distribution],
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        """Learn n distributions and arrays of shape (n,): the state a loop of `learn_one` leaves. All or, on an error,
        nothing."""

    @abstractmethod
    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        """The calibrated distribution, as of time `t`. Changes nothing; works before anything was learned."""

    @abstractmethod
    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        """The calibrated distributions, all as of time `t`. Changes nothing."""

    def unlearn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        """Take back an earlier `learn_one` of the same arguments, exactly."""
        raise CapabilityError(f"{type(self).__name__} depends on the order of its observations and cannot unlearn")

    @abstractmethod
    def map(self) -> DistributionMap:
        """The present map, immutable."""


class AdditiveDistributionCalibrator(AdditiveLearner[Held, DistributionMap], DistributionCalibrator):
    """A method that is a function of a statistic of what it reads of distributions and outcomes.

    A subclass says what that is (`_read`, `_read_many`), beside what `AdditiveLearner` asks for.

    Parameters
    ----------
    forgetting, refresh_every
        As of `streamcal.learners.additive.AdditiveLearner`.
    """

    noted = "outside"

    @abstractmethod
    def _read(self, distribution: Distribution, y: float) -> tuple[Coordinate, float, bool]:
        """The coordinate and the label that the statistic takes, and whether y lies where the method cannot follow."""

    @abstractmethod
    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        """`_read` for n distributions and outcomes: coordinates of shape (n,) or (n, m), and two arrays (n,)."""

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        outcome, weight, time = check_outcome(y), check_weight(w), self._time(t)
        x, label, outside = self._read(distribution, outcome)
        if weight > 0.0:
            self._learn(x, label, weight, time)
            self._note(outside)

    def learn_many(
        self,
        distributions: Sequence[Distribution],
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        outcomes, weights = check_outcomes(y, w)
        times = self._times(t, len(outcomes))
        x, labels, outside = self._read_many(distributions, outcomes)
        self._learn_many(x, labels, weights, times)
        self._note(int(outside[weights > 0.0].sum()))

    def unlearn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        outcome, weight, time = check_outcome(y), check_weight(w), self._time(t)
        x, label, _ = self._read(distribution, outcome)
        self._unlearn(x, label, weight, time)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        return self._map_at(t).predict_one(distribution)

    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        return self._map_at(t).predict_many(distributions)
