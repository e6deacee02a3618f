"""`Protected`: the score, protected against drift by a mixture of calibrators that share their weight."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.jumper import Jumper
from streamcal.learners.sequential import weight_scale_state
from streamcal.maps.sigmoids import SigmoidMixtureMap
from streamcal.parameters.given import real_number
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, number, numbers, row, unread

#: Cox's calibrators σ(α + β·logit s): every α with every β, the score itself first. The paper's choice.
OFFSETS, SLOPES = (0.0, 1.0, -1.0), (1.0, 0.5, 2.0)
CALIBRATORS = tuple(itertools.product(OFFSETS, SLOPES))
#: Defaults: the authors' rates, and half of the weight permanently on the score.
JUMP_RATES, PASSIVE = (1e-2, 1e-3, 1e-4), 0.5
#: A lower jump rate would leave calibrators weights that lose their digits.
SMALLEST_RATE = 1e-100


class Protected(SequentialCalibrator):
    """Protected probabilistic classification: a mixture of nine calibrators, weighted by their likelihood so far.

    The calibrators are fₖ(s) = σ(α + β·logit s), α ∈ {0, 1, −1}, β ∈ {1, ½, 2}. For each jump rate J all weight starts
    on the score itself; an outcome multiplies the weight of each calibrator by the probability it gave, and between two
    outcomes the part J of all weight is spread evenly over the nine: this is fixed share. The prediction is the mean
    of the calibrators by weight, over all jump rates and over the part `passive` that always stays on the score.

    If each label is learned before the next prediction, the summed log loss is at most that of the score (clamped at
    log-odds ±16) plus log(1/passive), log 2 by default, on every stream with relative weights of at most 1 (see the
    notes); each loss is multiplied by its weight. With late labels nothing is promised: use `Auto`.

    Parameters
    ----------
    jump_rates : tuple of float
        Each from 1e-100 to 1. Their inverses are the lengths of the stationary periods that the mixture adapts to, in
        observations.
    passive : float
        Between 0 and 1: the part of the weight at the start that stays on the score.

    Raises
    ------
    InputError
        If a parameter is outside its range.

    Notes
    -----
    O(9·rates) per observation: 0.2 µs to learn, 0.1 µs to predict with three rates. An observation counts as r equal
    outcomes at once, with one jump after them, r being its weight relative to the running mean of all weights: a factor
    common to all changes nothing. The authors' code jumps before the first outcome too, which changes the first
    predictions by less than the largest rate; here the prediction of an empty calibrator is the score. It also weights
    by Brier loss; log loss makes the weighted mean itself the prediction. Nothing is forgotten but by jumping.

    References
    ----------
    Vovk, Petej and Gammerman, Protected probabilistic classification, COPA 2021, §2, the Composite Jumper.

    Examples
    --------
    >>> cal = Protected()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for k in range(300):  # the score says 0.8, but half of the outcomes are positive
    ...     cal.learn_one(0.8, k % 2 == 0)
    >>> round(cal.predict_one(0.8), 2)
    0.45
    """

    name = "protected"
    summary = "mixture of nine sigmoids; with labels in time, total log loss at most log 2 above that of the score"

    def __init__(self, *, jump_rates: tuple[float, ...] = JUMP_RATES, passive: float = PASSIVE) -> None:
        allowed = "a tuple of numbers from 1e-100 to 1"
        if not isinstance(jump_rates, tuple) or not jump_rates:
            raise InputError(f"jump_rates={jump_rates!r} is not possible; give {allowed}")
        self.jump_rates = tuple(
            real_number(one, "jump_rates", allowed, least=SMALLEST_RATE, most=1.0) for one in jump_rates
        )
        within = "a number between 0 and 1, both excluded"
        self.passive = real_number(passive, "passive", within, above=0.0, below=1.0)
        super().__init__()
        self.scale = Logit()
        self._jumper = new_jumper(self.jump_rates, self.passive)

    @property
    def n(self) -> float:
        """Return the total weight learned; under decay, in units of a new observation."""
        return self._jumper.weight

    def map(self) -> SigmoidMixtureMap:
        """Return the current map, which is immutable."""
        offsets, slopes = zip(*CALIBRATORS, strict=True)
        return SigmoidMixtureMap(self.scale, self._jumper.weights(), slopes, offsets)

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        p = self._jumper.predict_fast(score)
        return p if p == p else super().predict_one(score, t)

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        if not self._jumper.learn_fast(score, y, w):
            super().learn_one(score, y, w, t)

    def _predict(self, x: float) -> float:
        return self._jumper.predict(x)

    def _step(self, x: float, y: float, w: float) -> None:
        self._jumper.step(x, y, w)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        self._jumper.stream(self.scale.coordinates(scores), y, w, predictions)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "jumper": list(self._jumper.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "jumper": jumper_state(len(self.jump_rates))}

    def _load(self, *, jumper: list[Any], **fields: Any) -> None:
        super()._load(**fields)
        self._jumper.load(*jumper)


def new_jumper(jump_rates: tuple[float, ...] = JUMP_RATES, passive: float = PASSIVE) -> Jumper:
    """The mixture of the nine calibrators, before it has learned anything."""
    offsets, slopes = zip(*CALIBRATORS, strict=True)
    return Jumper(slopes, offsets, jump_rates, passive)


def jumper_state(rates: int = len(JUMP_RATES)) -> Reader:
    """What reads the state of a `Jumper` with so many jump rates."""

    def read(value: Any) -> list[Any]:
        shares, wealth, weight, scale = row(unread, unread, number(0.0, HEAVIEST), weight_scale_state)(value)
        return [*shares_state(rates, len(CALIBRATORS))([shares, wealth]), weight, scale]

    return read


def shares_state(rows: int, size: int) -> Reader:
    """What reads the weights and the log-wealth of a `Jumper` with so many rows and calibrators."""

    def read(value: Any) -> list[FloatArray]:
        reader = row(numbers(rows, size, least=0.0, most=1.0 + ROUNDING), numbers(rows, least=-HEAVIEST, most=HEAVIEST))
        shares, wealth = reader(value)
        ensure((np.abs(shares.sum(axis=1) - 1.0) <= ROUNDING).all(), "the weights of a row do not sum to 1")
        return [shares, wealth]

    return read
