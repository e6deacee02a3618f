"""`DistributionMetric`: the contract of a metric of predictive distributions against real outcomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.metrics.base import Summed, check_true
from streamcal.parameters.inputs import FORECASTS, check_outcome, check_outcomes, check_weight
from streamcal.regression.distributions import Distribution
from streamcal.regression.reading import check_distributions


class DistributionMetric(Summed):
    """A metric of predictive distributions against the outcomes that followed.

    A distribution is any object that a calibrator of `streamcal.regression` takes or returns. For distributions from
    other packages, quantiles and scores are computed as in `streamcal.regression.recalibrated.Recalibrated`. An
    observation of weight 0 is checked and then ignored.

    Notes
    -----
    Cost: O(1) beside what the distribution takes for its `cdf`, `ppf` or score; see each class.
    """

    def update(self, y_true: float, y_pred: Distribution, w: float = 1.0) -> None:
        """Add a finite outcome, its predictive distribution and a weight ≥ 0; errors are those of `Metric.update`."""
        outcome, weight = check_true(y_true, check_outcome), check_weight(w)
        self._take(self._term(y_pred, outcome), weight)

    def update_many(self, y_true: ArrayLike, y_pred: Sequence[Distribution], w: ArrayLike | None = None) -> None:
        """Add n observations: the same state as a loop of `update`.

        `y_true` and `w` have shape (n,), and `y_pred` is a sequence of n distributions; errors are those of
        `Metric.update_many`.
        """
        outcomes, weights = check_outcomes(y_true, w, FORECASTS)
        forecasts = check_distributions(y_pred)
        if len(forecasts) != len(outcomes):
            raise InputError(f"y_pred and y_true differ in length: {len(forecasts)} and {len(outcomes)}")
        terms = [self._term(forecast, outcome) for forecast, outcome in zip(forecasts, outcomes.tolist(), strict=True)]
        for term, weight in zip(terms, weights.tolist(), strict=True):
            self._take(term, weight)

    def revert(self, y_true: float, y_pred: Distribution, w: float = 1.0) -> None:
        """Remove one earlier `update` with the same arguments.

        Errors are those of `Metric.revert`.
        """
        outcome, weight = check_true(y_true, check_outcome), check_weight(w)
        self._give_back(self._term(y_pred, outcome), weight)

    def get(self) -> float | None:
        """Return the mean; `None` before the first observation."""
        return self._mean_term()

    @abstractmethod
    def _term(self, distribution: Distribution, y: float) -> Any:
        """Return the number, or the numbers, that the metric keeps of an observation."""

    def _add(self, term: Any, w: float, sign: int) -> None:
        self._sum += sign * w * term
