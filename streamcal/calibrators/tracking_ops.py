"""`TrackingOPS`: online Platt scaling, followed by the share of positives in each bin of its forecasts."""

from __future__ import annotations

from typing import Any

from streamcal.calibrators.calibeating import calibeaten, calibeaten_state, checked_bins, map_of
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.kernels.mixture.hedging import Shares
from streamcal.maps.steps import BinnedSigmoidMap
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, Reader, ensure, numbers, row


class TrackingOPS(SequentialCalibrator):
    """Tracking past outcomes (TOPS): the share of positives among the earlier forecasts in the bin.

    The forecast of online Platt scaling, `OnlinePlatt(discount=1)`, falls into one of `bins` bins of width ε = 1/bins.
    The prediction is the mean outcome of the earlier observations whose forecast fell into it. In each bin they are
    joined by one pseudo-observation of weight 1 at its midpoint, as in the authors' code. So an empty bin predicts its
    midpoint, and a single outcome does not make the prediction of a bin 0 or 1.

    On every stream of unit weights the sum of (p − y)² is at most Σ n·v + ln(n + 1) + 1 over the bins, where n outcomes
    of variance v have fallen into a bin. That is little more than the loss Σ n·v of predicting the mean of each bin,
    known beforehand.

    Parameters
    ----------
    bins : int
        Number of bins of the forecasts, at least 1; ε = 0.1 is the paper's. They have equal width: all click rates
        fall into one of ten.

    Notes
    -----
    O(1) per observation: 0.35 µs to learn and predict. O(bins) memory. Weights count relative to their running mean, in
    the bin and in the Newton step. The prediction of an empty calibrator is the midpoint of the score's bin, not the
    score.

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, §3. Foster and Hart, "Calibeating": beating
    forecasters at their own game, Theoretical Economics 18, 2023.

    Examples
    --------
    >>> cal = TrackingOPS()
    >>> cal.predict_one(0.83)
    0.85
    >>> for k in range(400):
    ...     cal.learn_one(0.83, k % 3 == 0)
    >>> round(cal.predict_one(0.83), 2)
    0.34
    """

    name = "tracking-ops"
    summary = "online Platt scaling, then the share of positives in each bin of its forecasts"

    monotone = False

    def __init__(self, bins: int = 10) -> None:
        self.bins = checked_bins(bins)
        self.scale = Logit()
        self._kernel = calibeaten(Shares(self.bins))
        super().__init__()

    def map(self) -> BinnedSigmoidMap:
        return map_of(self.scale, self._kernel)

    def _kernel_state(self) -> Reader:
        read_bins = row(numbers(self.bins, least=1.0, most=HEAVIEST), numbers(self.bins, least=0.0))

        def read(value: Any) -> list[FloatArray]:
            weight, positive = bins = read_bins(value)
            ensure((positive <= weight).all(), "a positive weight is above the weight")
            return list(bins)

        return calibeaten_state(read)
