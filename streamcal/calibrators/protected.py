"""`Protected`: the score, protected against drift by a mixture of calibrators that share their weight."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.guarded import LONGEST_DELAY, GuardedJumper, guarded_state, new_guard
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.kernels.mixture.jumper import Jumper
from streamcal.maps.knots import LogOddsMap
from streamcal.maps.sigmoids import SigmoidMixtureMap
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.numbers import real_number, whole_number
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray, Keys, Label, Time
from streamcal.states import (
    HEAVIEST,
    ROUNDING,
    Field,
    Reader,
    ensure,
    number,
    numbers,
    part,
    row,
    unread,
    weight_scale_state,
)

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
    on the score itself. An outcome multiplies the weight of each calibrator by the probability it gave, and between two
    outcomes the part J of all weight is spread evenly over the nine: this is fixed share. The prediction is the mean of
    the calibrators by weight, over all jump rates and over the part `passive` that always stays on the score.

    If each label is learned before the next prediction, the summed log loss is at most that of the score (clamped at
    log-odds ±16) plus log(1/passive), log 2 by default. The bound applies to every stream with relative weights of at
    most 1 (see the notes); each loss is multiplied by its weight. If labels may be late, give `delay`: without it
    nothing is promised.

    Parameters
    ----------
    jump_rates : tuple of float
        Each from 1e-100 to 1. Their inverses are the lengths of the stationary periods that the mixture adapts to, in
        observations.
    passive : float
        Between 0 and 1: the part of the weight at the start that stays on the score.
    delay : int
        The largest number of labels learned between a prediction and its own label, 0 to 100,000. Above 0 the promise
        is that of `Auto`, with log(1/passive) for ln 4: at most `delay` nats more, and what surprises cost. See Notes.

    Notes
    -----
    O(9·rates) per observation: 0.6 µs to learn and predict with three rates. An observation counts as r equal outcomes
    at once, with one jump after them, r being its weight relative to the running mean of all weights: multiplying all
    by one number changes nothing. The authors' code jumps before the first outcome too, which changes the first
    predictions by less than the largest rate; here the prediction of an empty calibrator is the score. It also weights
    by Brier loss; log loss makes the weighted mean itself the prediction. Nothing is forgotten but by jumping.

    *Late labels*: a guard, `kernels.mixture.guard.Guard`, takes the place of `passive`. The guard keeps enough
    weight on the score for the promise to apply with labels in any order, and with labels that never come. A label
    judges the prediction at its score that was issued nearest to `delay` labels ago; a `LabelJoin`, `Shadow` or
    `Segmented` keeps what was predicted. Predictions are computed at knots ¼ apart in log-odds, and are
    linear in log-odds between them.

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

    def __init__(self, *, jump_rates: tuple[float, ...] = JUMP_RATES, passive: float = PASSIVE, delay: int = 0) -> None:
        allowed = "a tuple of numbers from 1e-100 to 1"
        if not isinstance(jump_rates, tuple) or not jump_rates:
            raise InputError(f"jump_rates={jump_rates!r} is not possible; give {allowed}")
        self.jump_rates = tuple(
            real_number(jump_rate, "jump_rates", allowed, least=SMALLEST_RATE, most=1.0) for jump_rate in jump_rates
        )
        within = "a number between 0 and 1, both excluded"
        self.passive = real_number(passive, "passive", within, above=0.0, below=1.0)
        possible = f"a whole number from 0 to {LONGEST_DELAY}"
        self.delay = whole_number(delay, "delay", 0, LONGEST_DELAY, possible)
        super().__init__()
        self.scale = Logit()
        self._kernel = new_jumper(self.jump_rates, 0.0 if self.delay else self.passive)
        self._late: GuardedJumper | None = None
        if self.delay:
            self._late = GuardedJumper(self._kernel, new_guard(math.log(1.0 / self.passive)), self.delay)

    @property
    def promised(self) -> float:
        """The number of nats by which the summed log loss may exceed that of the score."""
        return math.log(1.0 / self.passive) if self._late is None else float(self._late.guard.promised)

    def map(self) -> SigmoidMixtureMap | LogOddsMap:
        if self._late is not None:
            return self._late.map(self.scale)
        offsets, slopes = zip(*CALIBRATORS, strict=True)
        return SigmoidMixtureMap(self.scale, self._kernel.weights(), slopes, offsets)

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        if keys is not None or self._late is None:
            return super().predict_one(score, t, keys)
        return self._predict(self.scale.coordinate(check_score(score)))

    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        if self._late is None:
            return super()._predict_to_learn(score, keys, t)
        return sigmoid(self._late.at(self.scale.coordinate(check_score(score))))

    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        if self._late is None:
            return super()._predict_many(scores, t)
        x = self.scale.coordinates(check_scores(scores))
        return np.array([self._late.ask(one) for one in x.tolist()])

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, keys: Keys | None = None
    ) -> None:
        if keys is not None or self._late is None:
            super().learn_one(score, y, w, t, keys)
        else:
            self._learn(*self._checked(score, y, w, t))

    def _predict(self, x: float) -> float:
        return super()._predict(x) if self._late is None else self._late.ask(x)

    def _learn(self, x: float, y: float, w: float, t: float, noted: int = 0) -> None:
        if self._late is not None and w == 0.0:
            self._late.pop(x)
        super()._learn(x, y, w, t, noted)

    def _step(self, x: float, y: float, w: float) -> None:
        if self._late is None:
            super()._step(x, y, w)
        else:
            self._late.learn(x, y, w, self._late.pop(x))

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, predictions: FloatArray) -> None:
        if self._late is None:
            self._kernel.stream(self.scale.coordinates(scores), y, w, predictions)
            return
        for i, x in enumerate(self.scale.coordinates(scores).tolist()):
            if len(predictions):
                predictions[i] = self._predict(x)
            self._learn(x, float(y[i]), float(w[i]), math.nan)

    def _issue(self, x: float, t: float) -> list[float] | None:
        return None if self._late is None else self._late.issue(x)

    def _learn_issued(self, x: float, y: float, w: float, t: float, record: Sequence[float] | None) -> None:
        if self._late is None or record is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._late.require(record)
            self._late.learn(x, y, w, list(record))

    def _require_issued(self, record: Sequence[float] | None) -> None:
        if self._late is not None and record is not None:
            self._late.require(record)

    def _fields(self) -> dict[str, Field]:
        late = {} if self._late is None else {"late": part(self._late, guarded_state(math.log(1.0 / self.passive)))}
        return {**super()._fields(), **late}

    def _kernel_state(self) -> Reader:
        return jumper_state(len(self.jump_rates))


def new_jumper(jump_rates: tuple[float, ...] = JUMP_RATES, passive: float = PASSIVE) -> Jumper:
    """Return a new mixture of the nine calibrators, which has learned nothing."""
    offsets, slopes = zip(*CALIBRATORS, strict=True)
    return Jumper(slopes, offsets, jump_rates, passive)


def jumper_state(rates: int = len(JUMP_RATES)) -> Reader:
    """Return a reader of the state of a `Jumper` with this number of jump rates."""

    def read(value: Any) -> list[Any]:
        shares, wealth, weight, scale = row(unread, unread, number(0.0, HEAVIEST), weight_scale_state)(value)
        return [*shares_state(rates, len(CALIBRATORS))([shares, wealth]), weight, scale]

    return read


def shares_state(rows: int, size: int) -> Reader:
    """Return a reader of the weights and the log-wealth of a `Jumper` with these numbers of rows and calibrators."""

    def read(value: Any) -> list[FloatArray]:
        reader = row(numbers(rows, size, least=0.0, most=1.0 + ROUNDING), numbers(rows, least=-HEAVIEST, most=HEAVIEST))
        shares, wealth = reader(value)
        ensure((np.abs(shares.sum(axis=1) - 1.0) <= ROUNDING).all(), "the weights of a row do not sum to 1")
        return [shares, wealth]

    return read
