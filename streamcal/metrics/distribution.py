"""`DistributionMetric`: the contract of a measure of predictive distributions against real outcomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy.typing as npt

from streamcal.errors import InputError
from streamcal.metrics.base import Summed
from streamcal.parameters.inputs import check_outcome, check_outcomes, check_weight
from streamcal.regression.distributions import Distribution
from streamcal.regression.reading import check_distributions


class DistributionMetric(Summed):
    """A measure of distributions against the outcomes that followed: takes observations one by one or back, adds up.

    A distribution is whatever a calibrator takes or gives; of one that is not ours, quantiles and scores are
    found as `streamcal.regression.recalibrated.Recalibrated` finds them. An observation of weight 0 is checked and
    then changes nothing.
    """

    def update(self, distribution: Distribution, y: float, w: float = 1.0) -> None:
        """Add the distribution that was given to the outcome `y`, with weight `w` ≥ 0.

        `InputError`, and no change, where one of them is not allowed.
        """
        outcome, weight = check_outcome(y), check_weight(w)
        self._take(self._term(distribution, outcome), weight)

    def update_many(
        self, distributions: Sequence[Distribution], y: npt.ArrayLike, w: npt.ArrayLike | None = None
    ) -> None:
        """Add n of them: the same state as a loop of `update`. On an error nothing is added."""
        given = check_distributions(distributions)
        outcomes, weights = check_outcomes(y, w)
        if len(given) != len(outcomes):
            raise InputError(f"distributions and y differ in length: {len(given)} and {len(outcomes)}")
        terms = [self._term(one, outcome) for one, outcome in zip(given, outcomes.tolist(), strict=True)]
        for term, weight in zip(terms, weights.tolist(), strict=True):
            self._take(term, weight)

    def revert(self, distribution: Distribution, y: float, w: float = 1.0) -> None:
        """Take back one earlier `update` of the same arguments; `RetractionError` where nothing is held.

        Whether this very observation was among those held is known only to the caller.
        """
        outcome, weight = check_outcome(y), check_weight(w)
        term = self._term(distribution, outcome)
        if weight:
            self._require_held()
            self._add(term, weight, -1)
            self._released(weight)

    def _take(self, term: float, w: float) -> None:
        if w:
            self._count += 1
            self._weight += w
            self._add(term, w, 1)

    @abstractmethod
    def _term(self, distribution: Distribution, y: float) -> float:
        """What the measure reads of an observation."""

    @abstractmethod
    def _add(self, term: float, w: float, sign: int) -> None:
        """Add (`sign` 1) or take back (−1) what was read of one observation of weight w > 0."""
