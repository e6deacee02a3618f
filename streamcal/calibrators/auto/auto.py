"""`Auto`: a mixture of experts of many kinds, for those who do not want to choose a method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.auto.experts import BY_TIME, CORRECTED, LADDER, NAMES, RUNGS, STACKS, new_mixture
from streamcal.calibrators.auto.saved import mixture_state
from streamcal.calibrators.guarded import LOGGED, LONGEST_DELAY
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.kernels.mixture.auto_steps import AutoSteps
from streamcal.maps.knots import LogOddsMap
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray, Keys, Label, Time, Times
from streamcal.states import Field

#: Rows of a stream that are learned in one call, which holds the GIL: a few milliseconds.
PIECE = 512


class Auto(SequentialCalibrator):
    """A mixture of experts with memories of every length, weighted by how right each has been: nothing to choose.

    The first experts are the score itself and a *ladder*: sigmoid and cubic maps with memories from 30 units of
    information to all, each of which enters when the stream is long enough for it. The others are two maps with fading
    means of the last labels, a cubic map that forgets fast, three smoothers, local in the score; `Protected`; and the
    rates of scores that repeat. `streamcal.calibrators.auto.experts.EXPERTS` has all of them. On top of them are

    - two *stacks*: online logistic regressions on the log-odds of all experts, with a long and a short memory, weighted
      like further experts;
    - a *correction by the prediction*: a curve that learns what the mixture misses at each prediction;
    - a *correction by day and week* (UTC), from the first observation with a time `t` on;
    - a *guard*, which keeps enough weight on the score that the promise in the notes is kept.

    Predictions are computed at knots ¼ apart in log-odds, and are linear in log-odds between them. A score that has
    repeated has a prediction of its own.

    **Information.** Time is counted in units of information: 4p(1 − p) for a label whose prediction was p, 1 at even
    odds. Memories, lateness and the promise count units: a thousand labels of clicks at 0.1 % are four units.

    **Late labels.** What is judged is the prediction that was issued. With `issue` and `settle`, in a `LabelJoin`, a
    `Shadow` and a `Segmented`, each label comes with the record of its prediction. In a loop of `predict_one` and
    `learn_one`, predictions without a label are logged, up to 4,096 of them. A label belongs to the logged prediction
    at its score whose delay is nearest to that of the last unambiguous pair. Without such a pair it belongs to the
    latest. Labels may be lost, and further predictions may be asked for. Late labels are judged with the learning
    rates 1, (1 + d)^−½ and 1/(1 + d), d being their lateness in units, since labels in a row often have one cause. A
    late label concerns the score of that time: beside a model that learns fast, `Auto` may correct an error that the
    model has already learned to avoid (docs/race/packaged.md, "online", 1,000 late).

    Parameters
    ----------
    delay : int or None
        The number of labels learned between a prediction and its own label, 0 to 100,000. None, the default, estimates
        it. Give it where delays are longer than 4,096 labels or where scores repeat, in a loop of `predict_one` and
        `learn_one`.

    Raises
    ------
    InputError
        If `delay` is neither None nor a whole number from 0 to 100,000.

    Notes
    -----
    **Promise.** With D units of information, at most, learned between a prediction and its label, and relative weights
    of at most 1, on every stream, with labels in any order and labels that never come,

        loss of Auto ≤ loss of the score + ln 4 + D + κ.

    Losses are summed log losses in nats, of scores clamped at log-odds ±16. D is at most the number of labels learned
    in between. A label is a *surprise* if the score gave it less than ¼ and the prediction still less, and costs more
    than its stake. κ is what surprises may cost, 1 to 8 nats each, for the largest number of them among labels of D + 1
    units. With labels in time, D and κ are 0. `promised` is ln 4 + D + κ. It grows with surprises, by 1 with each unit
    of a delay that is observed, and by what a later or heavier label costs beyond it. So it bounds the excess at any
    time. `kernels.mixture.guard.Guard` has the proof.

    **Memory.** With labels in time, the loss is within a few nats of that of the best rung in hindsight. A sequence of
    k changes between experts costs about k·(ln U + ln N) nats more, for N experts and U units learned.
    `kernels.mixture.late_weights.LateWeights` has the bound.

    **Weights.** A weight counts relative to the running mean of all weights, so their unit does not matter. A label
    of weight w and residual r is worth w·Σwr²/Σw²r² observations, so that clicks beside sampled negatives of weight 100
    are not a hundredth of an observation.

    **Cost.** O(1) per observation, 3 to 5 µs, with late labels and without. An object takes 32 kB, and 4 kB more where
    hundreds of scores repeat. A prediction that waits for its label takes 89 bytes: log-odds of experts are rounded to
    16 bits. `benchmarks/auto_parts.py` measures them.

    References
    ----------
    Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998: fixed share. Vovk, Competitive on-line
    statistics, International Statistical Review 69, 2001: mixtures under log loss. Kulis and Bartlett, Implicit online
    learning, ICML 2010: the steps of the regressions. Raftery, Kárný and Ettler, Online prediction under model
    uncertainty via dynamic model averaging, Technometrics 52, 2010: the ladder.

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
        self._mixture = new_mixture()
        self._steps = AutoSteps(self._mixture, max(LOGGED, 2 * (delay or 0)), delay or 0)

    @property
    def n(self) -> float:
        """Return the total weight learned; under decay, in units of a new observation."""
        return float(self._mixture.weight)

    @property
    def label_delay(self) -> float:
        """The largest information that was learned between a prediction and its label, in units; see the notes."""
        return float(self._mixture.guard.delay)

    @property
    def promised(self) -> float:
        """The number of nats by which the summed log loss may exceed that of the score; see the notes."""
        return float(self._mixture.guard.promised)

    def weights(self) -> dict[str, float]:
        """Return the weight of each expert and of each part in the present prediction, by name; they sum to 1.

        The weights leave out the guard's, which depends on the score.
        """
        experts, rungs, corrected, by_time = self._mixture.weights()
        rest = (1.0 - corrected) * (1.0 - by_time)
        named = {name: rest * weight for name, weight in zip((*NAMES, *STACKS), experts, strict=True)}
        ladder = named.pop(LADDER)
        named.update({name: ladder * weight for name, weight in zip(RUNGS, rungs, strict=True)})
        return {**named, CORRECTED: corrected * (1.0 - by_time), BY_TIME: by_time}

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        if keys is not None:
            self._refuse(keys)
        p: float = self._steps.predict_fast(score, t)
        if p == p:
            return p
        x, time = self.scale.coordinate(check_score(score)), self._time(t)
        self._steps.ask(x, time)
        return sigmoid(self._mixture.at(x, time))

    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        """Predict without logging: the label that follows belongs to a prediction that was asked for before."""
        return sigmoid(self._mixture.at(self.scale.coordinate(check_score(score)), self._time(t)))

    def _predict_many(self, scores: npt.ArrayLike, t: Time | None) -> FloatArray:
        x = self.scale.coordinates(check_scores(scores))
        probabilities = np.empty(len(x))
        self._steps.predict_many(x, self._time(t), probabilities)
        return probabilities

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, keys: Keys | None = None
    ) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        if keys is not None or not self._steps.learn_fast(score, y, w, t):
            super().learn_one(score, y, w, t, keys)

    def map(self) -> LogOddsMap:
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

    def _learn_issued(self, x: float, y: float, w: float, t: float, record: Sequence[float] | None) -> None:
        if record is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._steps.learn_issued(x, y, w, t, self._record(record))

    def _require_issued(self, record: Sequence[float] | None) -> None:
        if record is not None:
            self._record(record)

    def _record(self, record: Sequence[float]) -> FloatArray:
        """Return the issued numbers as an array; raise `InputError` if no `_issue` can have returned them."""
        try:
            numbers = np.array(record, dtype=np.float64)
            self._steps.require(numbers)
        except (ValueError, TypeError) as error:
            raise InputError(f"these are not the numbers that were issued with the prediction: {error}") from None
        return numbers

    # A join keeps the record as bytes, which are read beside the score and the probability issued, or hold both.

    def _issue_packed(self, score: float, t: Time | None, apart: bool) -> tuple[float, bytes]:
        """Predict at a score; return the bytes of what the label will judge, which need nothing else if `apart`."""
        x, time = self.scale.coordinate(check_score(score)), self._time(t)
        return sigmoid(self._mixture.at(x, time)), self._steps.issue_bytes(x, time, apart)

    def _column_steps(self) -> AutoSteps:
        return self._steps

    def _unpacked(self, x: float, p: float, content: bytes) -> list[float]:
        """Return the record that `_issue_packed` returned for the prediction p at the log-odds x."""
        if not self._steps.unpack_bytes(content, x, p):
            raise InputError(f"{len(content)} bytes are not what was issued with a prediction")
        record: list[float] = np.asarray(self._steps.record).tolist()
        return record

    def _fields(self) -> dict[str, Field]:
        return {**super()._fields(), "mixture": Field(mixture_state, self._mixture.state, self._load_mixture)}

    def _load_mixture(self, mixture: dict[str, Any]) -> None:
        self._mixture.load(mixture)
