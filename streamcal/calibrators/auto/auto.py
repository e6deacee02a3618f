"""`Auto`: a mixture of experts of many kinds, for those who do not want to choose a method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.auto.experts import BY_TIME, CORRECTION, NAMES, STACK, new_mixture
from streamcal.calibrators.auto.saved import mixture_state
from streamcal.calibrators.guarded import LOGGED, LONGEST_DELAY
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.kernels.mixture.auto_steps import AutoSteps
from streamcal.maps.knots import LogOddsMap
from streamcal.parameters.columns import like
from streamcal.parameters.given import whole_number
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray, Label, Time, Times
from streamcal.states import Field, ensure

#: Rows of a stream that are learned in one call, which holds the GIL: a few milliseconds.
PIECE = 512


class Auto(SequentialCalibrator):
    """A mixture of eleven experts, weighted by how right each has been: nothing to choose, nothing to tune.

    The first experts are the score itself, a sigmoid map of all observations, and three curves that forget: a cubic
    curve and two with fading means of the last labels. The others are three smoothers, local in the score; a Venn-Abers
    map of all observations; `Protected`; and the rates of scores that repeat. They are rows of the table
    `streamcal.calibrators.auto.experts.EXPERTS`. Upon them are

    - a *stack*: an online logistic regression on the log-odds of all experts, weighted like another expert;
    - a *correction by the prediction*: a curve that learns what the mixture misses at each prediction;
    - a *correction by day and week* (UTC), from the first observation with a time `t` on;
    - a *guard*, which keeps enough weight on the score that the promise in the notes is kept.

    Predictions are computed at knots ¼ apart in log-odds, and are linear in log-odds between them. A score that has
    repeated has a prediction of its own.

    Predicting changes what later labels are judged by, unless the predictions that were asked for get their labels in
    order: ask `map()`, or a copy, for predictions that wait for no label.

    **Late labels.** What is judged is the prediction that was issued. `Auto` finds it by itself: predictions without a
    label are logged, up to 4,096 of them, and a label belongs to the oldest logged prediction at the same score. With
    late labels, the experts have weights in two rows: with learning rate 1, and with (1 + d)^−¾ for a label d labels
    late, since labels that come in a row often have one cause. In a `LabelJoin`, a `Shadow` and a `Segmented`, the
    record of each prediction is kept there. A late label tells of the score of that time: beside a model that learns
    fast, `Auto` may correct what the model has meanwhile learned itself (docs/race/packaged.md, "online", 1,000 late).

    Parameters
    ----------
    delay : int or None
        The largest label delay: the number of labels learned between a prediction and its own label, 0 to 100,000.
        None, the default, finds it. Give it where the promise must be known from the start, where delays are longer
        than 4,096, or where scores are learned without a prediction: these count as `delay` late.

    Raises
    ------
    InputError
        If `delay` is neither None nor a whole number from 0 to 100,000.

    Notes
    -----
    **Promise.** If no label is more than `delay` late, and relative weights are at most 1, then on every stream, with
    labels in any order and labels that never come,

        loss of Auto ≤ loss of the score + ln 4 + delay/4 + κ.

    Losses are summed log losses in nats, of scores clamped at log-odds ±16. A label is a *surprise* if the score gave
    it less than ¼ and the prediction still less; κ is the largest number of them among `delay` + 1 labels in a row, and
    0 with `delay=0`. `promised` is the right-hand side's constant. It grows with the surprises, by ¼ with each label of
    a delay that is found, and by what a later or heavier label costs beyond it, so that it bounds the excess at any
    time. `kernels.mixture.guard.Guard` has the proof.

    **Weights.** A weight counts relative to the running mean of all weights: a common factor changes nothing.

    **Cost.** O(1) per observation, 3 to 5 µs, with late labels and without. An object takes 26 kB at first, 30 kB
    later, and 4 kB more where hundreds of scores repeat. A prediction that waits for its label takes 134 bytes, in
    single precision. `benchmarks/auto_parts.py` measures all of them.

    References
    ----------
    Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998: fixed share. Vovk, Competitive on-line
    statistics, International Statistical Review 69, 2001: mixtures under log loss. Kulis and Bartlett, Implicit online
    learning, ICML 2010: the steps of the regressions.

    Examples
    --------
    >>> import random
    >>> labels = random.Random(1)
    >>> cal = Auto()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(500):  # the score is 0.8, but half of the outcomes are positive
    ...     cal.learn_one(0.8, labels.random() < 0.5)
    >>> 0.4 < cal.predict_one(0.8) < 0.6
    True
    >>> weights = cal.weights()
    >>> weights["score"] < 0.01, round(sum(weights.values()), 9)
    (True, 1.0)
    """

    name = "auto"
    summary = "mixture of many kinds of calibrators, weighted by their log loss so far; no parameters to choose"
    monotone = False
    learns_time = True

    def __init__(self, delay: int | None = None) -> None:
        allowed = f"a whole number from 0 to {LONGEST_DELAY}, or None to have it found"
        if delay is not None:
            delay = whole_number(delay, "delay", 0, LONGEST_DELAY, allowed)
        super().__init__()
        self.delay = delay
        self.scale = Logit()
        self._mixture = new_mixture(delay or 0)
        self._steps = AutoSteps(self._mixture, max(LOGGED, 2 * (delay or 0)), delay is None)

    @property
    def n(self) -> float:
        """Return the total weight learned; under decay, in units of a new observation."""
        return float(self._mixture.weight)

    @property
    def label_delay(self) -> int:
        """The label delay in use: `delay`, or the largest lateness found so far."""
        return int(self._mixture.guard.delay)

    @property
    def promised(self) -> float:
        """The number of nats by which the summed log loss may exceed that of the score; see the notes."""
        return float(self._mixture.guard.promised)

    def weights(self) -> dict[str, float]:
        """Return the weight of each expert and of each part in the present prediction, by name; they sum to 1.

        The weights leave out the guard's, which depends on the score.
        """
        experts, corrected, by_time = self._mixture.weights()
        rest = (1.0 - corrected) * (1.0 - by_time)
        named = {name: rest * weight for name, weight in zip((*NAMES, STACK), experts, strict=True)}
        return {**named, CORRECTION: corrected * (1.0 - by_time), BY_TIME: by_time}

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        p: float = self._steps.predict_fast(score, t)
        if p == p:
            return p
        x, time = self.scale.coordinate(check_score(score)), self._time(t)
        self._steps.ask(x, time)
        return sigmoid(self._mixture.at(x, time))

    def _predict_to_learn(self, score: float, t: Time | None) -> float:
        x = self.scale.coordinate(check_score(score))
        return sigmoid(self._mixture.at(x, self._time(t))) if self._steps.awaits(x) else self.predict_one(score, t)

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """Return the probabilities at scores of shape (n,), all as of time `t`; the state does not change."""
        x = self.scale.coordinates(check_scores(scores))
        found = np.empty(len(x))
        self._steps.predict_many(x, self._time(t), found)
        return like(scores, found)

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        if not self._steps.learn_fast(score, y, w, t):
            super().learn_one(score, y, w, t)

    def map(self) -> LogOddsMap:
        """Return the current map, which is immutable."""
        return LogOddsMap(self.scale, *self._mixture.curve_at())

    def _predict(self, x: float) -> float:
        return sigmoid(self._mixture.at(x, math.nan))

    def _learn(self, x: float, y: float, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            self._steps.step(x, y, w, t)
            self._note(noted)
        else:
            self._steps.take(x)

    def _step(self, x: float, y: float, w: float) -> None:
        self._steps.step(x, y, w, math.nan)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, predictions: FloatArray) -> None:
        x = self.scale.coordinates(scores)
        for start in range(0, len(x), PIECE):  # between two of them other threads may run
            rows = slice(start, start + PIECE)
            self._steps.stream(x[rows], y[rows], w[rows], t[rows], predictions[rows])

    def _time(self, t: Time | None) -> float:
        return math.nan if t is None else self._checked_time(t)

    def _times(self, t: Times | None, size: int) -> FloatArray:
        return np.full(size, math.nan) if t is None else self._checked_times(t, size)

    def _needs_seconds(self, factor: float) -> str:
        return ": give times in seconds, in which Auto finds the cycles of the day and the week"

    # Where a caller keeps the record of each prediction until its label comes, there is nothing to log.

    def _issue(self, x: float, t: float) -> list[float]:
        return self._steps.issue(x, t).tolist()

    def _learn_issued(self, x: float, y: float, w: float, t: float, said: Sequence[float] | None) -> None:
        if said is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._steps.learn_issued(x, y, w, t, self._record(said))

    def _require_issued(self, said: Sequence[float] | None) -> None:
        if said is not None:
            self._record(said)

    def _record(self, said: Sequence[float]) -> FloatArray:
        """Return the issued numbers as an array; raise `InputError` if no `_issue` can have returned them."""
        try:
            found = np.array(said, dtype=np.float64)
            self._steps.require(found)
        except (ValueError, TypeError) as error:
            raise InputError(f"these are not the numbers that were issued with the prediction: {error}") from None
        return found

    def _fields(self) -> dict[str, Field]:
        return {**super()._fields(), "mixture": Field(mixture_state, self._mixture.state, self._load_mixture)}

    def _load_mixture(self, mixture: dict[str, Any]) -> None:
        ensure(self.delay is None or mixture["guard"][0] == self.delay, "the guard is of another delay")
        self._mixture.load(mixture)
