"""Prequential evaluation: predict, then learn, and keep score of the raw and of the calibrated probabilities."""

from __future__ import annotations

from typing import NamedTuple

from streamcal.base import Calibrator, Label, Time
from streamcal.metrics import Brier, CalibrationRatio, EqualMassECE, LogLoss
from streamcal.scales import Logit, Probability


class Prediction(NamedTuple):
    """What was predicted before the label was learned; the interval where the method has one."""

    calibrated: float
    interval: tuple[float, float] | None


class Scoreboard:
    """The measures of one stream of probabilities: log loss, Brier score, equal-mass ECE and calibration ratio.

    >>> board = Scoreboard()
    >>> board.update(0.5, True)
    >>> round(board.log_loss.value, 3), board.brier.value
    (0.693, 0.25)
    """

    def __init__(self) -> None:
        self.log_loss = LogLoss()
        self.brier = Brier()
        self.ece = EqualMassECE()
        self.ratio = CalibrationRatio()

    def update(self, p: float, y: Label, w: float = 1.0) -> None:
        """Score the probability `p` that was given to the label `y`."""
        self.log_loss.update(p, y, w)
        self.brier.update(p, y, w)
        self.ece.update(p, y, w)
        self.ratio.update(p, y, w)


class Prequential:
    """A calibrator at work on a stream: each outcome is predicted first and learned afterwards.

    Attributes
    ----------
    raw, calibrated : Scoreboard
        The measures before and after; `raw` is None where the score is no probability.
    rows : int
        Observations seen.

    >>> from streamcal import OnlinePlatt
    >>> run = Prequential(OnlinePlatt())
    >>> round(run.step(0.8, True).calibrated, 12)
    0.8
    """

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator
        reads_probabilities = isinstance(getattr(calibrator, "scale", None), (Probability, Logit))
        self.raw = Scoreboard() if reads_probabilities else None
        self.calibrated = Scoreboard()
        self.rows = 0

    def step(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> Prediction:
        """Predict, learn and keep score of one observation; on an error nothing was learned or scored."""
        interval = None
        p = self.calibrator.predict_one(score, t)
        if self.calibrator.has_interval:
            interval = self.calibrator.predict_interval_one(score, t=t)  # type: ignore[attr-defined]
        self.calibrator.learn_one(score, y, w, t)
        self.rows += 1
        self.calibrated.update(p, y, w)
        if self.raw is not None:
            self.raw.update(score, y, w)
        return Prediction(p, interval)
