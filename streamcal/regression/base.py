"""The contract of distribution calibration, predictive distribution → calibrated one, and the base of additive methods.

A method keeps only the numbers it needs of a distribution, such as its cdf at fixed thresholds, so that its state is
plain data for every kind of object.
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
from streamcal.parameters.showing import Shown
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.reading import check_distributions


class DistributionMap(Shown, ABC):
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
    """A calibrator of regression: it learns which outcomes followed predictive distributions, and corrects later ones.

    A distribution is any object whose `cdf` accepts floats and arrays: `Normal`, `Quantiles`, `Sample`, a frozen
    distribution of `scipy.stats`, or your own.

    Raises
    ------
    InputError
        For a cdf that decreases, leaves [0, 1] or is NaN where it is evaluated, for an outcome that is not finite, and
        for arrays of different lengths; the calibrator is then unchanged.
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
        """Learn n distributions and arrays of shape (n,): the same state as a loop of `learn_one`.

        On an error nothing is learned.
        """

    @abstractmethod
    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        """The calibrated distribution, as of time `t`; also before the first observation. The state does not change."""

    @abstractmethod
    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        """The calibrated distributions, all as of time `t`. The state does not change."""

    def unlearn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        raise CapabilityError(f"{type(self).__name__} depends on the order of its observations and cannot unlearn")

    @abstractmethod
    def map(self) -> DistributionMap:
        """The current map, immutable."""


class AdditiveDistributionCalibrator(AdditiveLearner[Held, DistributionMap], DistributionCalibrator):
    """A method that is a function of a statistic of what it keeps of distributions and outcomes.

    A subclass defines what it keeps (`_read`, `_read_many`), in addition to the methods that `AdditiveLearner`
    requires.

    Parameters
    ----------
    forgetting, refresh_every
        See `streamcal.learners.additive.AdditiveLearner`.
    """

    noted = "outside"

    @abstractmethod
    def _read(self, distribution: Distribution, y: float) -> tuple[Coordinate, float, bool]:
        """The coordinate and the label for the statistic, and whether y lies outside the range of the method."""

    @abstractmethod
    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        """`_read` for n distributions and outcomes: coordinates of shape (n,) or (n, m), and two arrays (n,)."""

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        outcome, weight, time = check_outcome(y), check_weight(w), self._time(t)
        x, label, outside = self._read(distribution, outcome)
        self._learn(x, label, weight, time, outside)

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
