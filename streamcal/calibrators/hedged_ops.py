"""`HedgedOPS`: online Platt scaling, followed by a randomised forecaster that is calibrated on every stream."""

from __future__ import annotations

from typing import Any

from streamcal.calibrators.calibeating import calibeaten, calibeaten_state, checked_bins, map_of
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.kernels.mixture.hedging import Hedger
from streamcal.maps.steps import BinnedSigmoidMap
from streamcal.parameters.inputs import SMALLEST_WEIGHT
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Logit
from streamcal.states import HEAVIEST, Reader, ensure, numbers, row, whole

SEEDS = 2**64


class HedgedOPS(SequentialCalibrator):
    """Hedged online Platt scaling (HOPS): Foster's randomised forecaster within each bin of forecasts.

    The forecast of online Platt scaling, `OnlinePlatt(discount=1)`, falls into one of `bins` bins of width ε = 1/bins,
    each with its own forecaster F99, whose possible forecasts are the midpoints of the same bins. It forecasts a
    midpoint whose bin holds the share of positives seen after that forecast (the forecast's own bin first, else the
    lowest). If there is none, it draws one of two neighbours, of which one has been too low by e and the other too high
    by d, with probabilities proportional to d and e.

    The expected calibration error Σ |share of positives − forecast|·(how often), over the forecast values, is at most
    ε/2 + √((1 + ln T)/T)/ε on every stream of T unit weights. The bound covers streams made by an adversary who knows
    everything but the draws. What it costs is sharpness: only `bins` values are ever forecast, and early forecasts
    jump.

    Parameters
    ----------
    bins : int
        Number of bins, at least 1; ε = 0.1 is the paper's.
    seed : int
        From 0 to 2⁶⁴ − 1. Draws are a function of the seed and the number of observations learned: until the next
        `learn`, the same score gets the same prediction, and a saved calibrator continues with the live one's draws.

    Notes
    -----
    O(bins) per observation: 0.35 µs to learn and predict. O(bins²) memory. Weights count relative to their running
    mean, in the bin and in the Newton step. An outcome is counted for the forecast made just before it is learned: with
    delayed labels that is not the issued forecast, and the bound does not hold. The prediction of an empty calibrator
    is the midpoint of the score's bin, not the score.

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, §3 and its appendix on F99. Foster, A proof of
    calibration via Blackwell's approachability theorem, Games and Economic Behavior 29, 1999.

    Examples
    --------
    >>> cal = HedgedOPS()
    >>> cal.predict_one(0.83)
    0.85
    >>> for k in range(400):
    ...     cal.learn_one(0.83, k % 3 == 0)
    >>> cal.predict_one(0.83)
    0.35
    """

    name = "hedged-ops"
    summary = "online Platt scaling, then randomised forecasts calibrated on every stream"

    monotone = False

    def __init__(self, bins: int = 10, *, seed: int = 0) -> None:
        self.bins = checked_bins(bins)
        self.seed = whole_number(seed, "seed", 0, SEEDS - 1, "a whole number from 0 to 2**64 - 1")
        self.scale = Logit()
        self._kernel = calibeaten(Hedger(self.bins, self.seed))
        super().__init__()

    def map(self) -> BinnedSigmoidMap:
        return map_of(self.scale, self._kernel)

    def _kernel_state(self) -> Reader:
        weights = numbers(self.bins, self.bins, least=0.0, most=HEAVIEST)
        read_bins = row(weights, weights, whole())

        def read(value: Any) -> list[Any]:
            weight, positive, _ = bins = read_bins(value)
            ensure((positive <= weight).all(), "a positive weight is above the weight")
            ensure(((weight == 0.0) | (weight >= SMALLEST_WEIGHT)).all(), "a weight is not possible")
            return list(bins)

        return calibeaten_state(read)
