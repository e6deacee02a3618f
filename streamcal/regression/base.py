"""The contract of distribution calibration, predictive distribution → calibrated one, and of sequential methods.

A method keeps only the numbers it needs of a distribution, such as its cdf at fixed thresholds, so that its state is
plain data for every kind of object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.kernels.common.weights import WeightScale
from streamcal.learners.learner import Learner, in_turn
from streamcal.learners.pending import Pending, pending_of
from streamcal.memories.memory import Coordinate
from streamcal.parameters.inputs import check_outcome, check_outcomes, check_weight, row_times
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.reading import check_distributions
from streamcal.states import Field, part, unread, weight_scale_state
from streamcal.statistics.totals import Totals


class DistributionMap(ABC):
    """A pure function distribution → calibrated distribution: an immutable snapshot, safe for any number of threads."""

    __repr__ = shown
    _repr_html_ = shown_table

    @abstractmethod
    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        """Return the calibrated distribution."""

    def predict_many(self, distributions: Sequence[Distribution]) -> list[CalibratedDistribution]:
        """Return the calibrated distributions, in order."""
        return [self.predict_one(one) for one in check_distributions(distributions)]

    def __call__(self, distribution: Distribution) -> CalibratedDistribution:
        return self.predict_one(distribution)


class DistributionCalibrator(Learner):
    """A calibrator of regression: it learns which outcomes followed predictive distributions, and corrects later ones.

    A distribution is any object whose `cdf` accepts floats, and is faster if it accepts arrays: `Normal`, `Quantiles`,
    `Sample`, a frozen distribution of `scipy.stats`, or your own.

    A subclass defines what it keeps of a distribution and its outcome (`_read`, `_read_many`).

    Raises
    ------
    InputError
        For a cdf that decreases, leaves [0, 1] or is NaN where it is evaluated, for an outcome that is not finite, and
        for arrays of different lengths; the calibrator is then unchanged.
    """

    noted = "outside"

    def learn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `distribution` was followed by the outcome `y`, with weight `w` ≥ 0, at time `t`."""
        self._learn(*self._checked(distribution, y, w, t))

    def learn_many(
        self, distributions: Sequence[Distribution], y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None
    ) -> None:
        """Learn n distributions and arrays of shape (n,): the same state as a loop of `learn_one`.

        On an error nothing is learned.
        """
        self._learn_many(*self._checked_many(distributions, y, w, t))

    def issue(self, distribution: Distribution, t: Time | None = None, *, w: float = 1.0) -> Pending:
        """Predict an observation whose outcome comes later; `settle` learns the outcome: see `Calibrator.issue`.

        The result's `p` is the calibrated distribution, which may take kilobytes in a pickle: set it to None before
        where it is not needed later. `settle` does not need it.

        Examples
        --------
        >>> from streamcal.regression import Normal, QuantileRecalibration
        >>> cal = QuantileRecalibration()
        >>> issued = cal.issue(Normal(0.0, 1.0))
        >>> cal.settle(issued, 0.5)
        >>> round(issued.p.cdf(0.0), 12), cal.n
        (0.5, 1.0)
        """
        return pending_of(self, distribution, None, t, w)

    def predict_learn_many(
        self, distributions: Sequence[Distribution], y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None
    ) -> list[CalibratedDistribution]:
        """Predict and then learn each of n observations in order: a whole stream in one call.

        As `Calibrator.predict_learn_many`, of n predictive distributions and their outcomes; the result is a list. A
        distribution that cannot be calibrated raises `InputError` too, and nothing is learned then.

        Examples
        --------
        >>> from streamcal.regression import Normal, QuantileRecalibration
        >>> cal = QuantileRecalibration()
        >>> found = cal.predict_learn_many([Normal(0.0, 1.0), Normal(1.0, 1.0)], [0.5, 2.0])
        >>> len(found), cal.n
        (2, 2.0)
        """
        checked = check_distributions(distributions)
        _, _, weights, times, _ = self._checked_many(checked, y, w, t)
        self._require_times(times[weights > 0.0])
        outcomes, _ = check_outcomes(y, w)
        at = row_times(t, times)
        rows = zip(checked, outcomes.tolist(), weights.tolist(), at, strict=True)
        with self._all_or_nothing():  # a cdf may be wrong where only a prediction looks at it
            return in_turn(self.predict_one, self.learn_one, rows)

    def unlearn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        self._unlearn(*self._checked(distribution, y, w, t))

    def _checked(
        self, distribution: Distribution, y: float, w: float, t: Time | None
    ) -> tuple[Any, float, float, float, int]:
        """Return coordinate, label, weight, time and whether y is outside the range; or raise an `InputError`."""
        outcome, weight, time = check_outcome(y), check_weight(w), self._time(t)
        x, label, outside = self._read(distribution, outcome)
        return x, label, weight, time, outside

    def _checked_many(
        self, distributions: Sequence[Distribution], y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        """Return coordinates, labels, weights, times and the number of outcomes outside; or raise an `InputError`."""
        checked = check_distributions(distributions)
        outcomes, weights = check_outcomes(y, w)
        if len(checked) != len(outcomes):
            raise InputError(f"distributions and y differ in length: {len(checked)} and {len(outcomes)}")
        times = self._times(t, len(outcomes))
        x, labels, outside = self._read_many(checked, outcomes)
        return x, labels, weights, times, int(outside[weights > 0.0].sum())

    @abstractmethod
    def _read(self, distribution: Distribution, y: float) -> tuple[Coordinate, float, bool]:
        """Return coordinate and label for the statistic, and whether y lies outside the range of the method."""

    @abstractmethod
    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        """Do `_read` for n checked distributions and their outcomes.

        Coordinates have shape (n,) or (n, m); labels, and whether an outcome is outside, shape (n,).
        """

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        """Return the calibrated distribution, as of time `t`; also before the first observation.

        The state does not change.
        """
        return self._map_at(t).predict_one(distribution)

    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        """Return the calibrated distributions, all as of time `t`; the state does not change."""
        return self._map_at(t).predict_many(distributions)

    def map(self) -> DistributionMap:
        """Return the current map, immutable."""
        return self._map_at(None)


class SequentialDistributionCalibrator(DistributionCalibrator):
    """A method that takes one step per observation, of a weight relative to the running mean of all weights.

    A subclass has `_step`, which calls `_stepped` at its end, and `map`, which may keep what it returns in `_map`.
    """

    def __init__(self) -> None:
        self._weight_scale = WeightScale()
        self._totals = Totals()
        #: The map of what has been learned; None until it is asked for.
        self._map: DistributionMap | None = None

    @property
    def n(self) -> float:
        """The total weight learned, whatever has been forgotten of it."""
        return self._totals.n

    def _stepped(self, w: float) -> None:
        """Count an observation that was learned."""
        self._totals.update(None, 1.0, w)
        self._map = None

    def _map_at(self, t: Time | None) -> DistributionMap:
        return self.map()

    def _fields(self) -> dict[str, Field]:
        weight_scale = part(self._weight_scale, weight_scale_state)
        totals = Field(unread, self._totals.state, self._totals.restore)
        return {**super()._fields(), "weight_scale": weight_scale, "totals": totals}
