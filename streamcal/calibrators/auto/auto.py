"""`Auto`: a mixture of experts of many kinds, for those who do not want to choose a method."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.auto import earlier
from streamcal.calibrators.auto.experts import LABEL_MEANS
from streamcal.calibrators.auto.lateness import IssuedScores, with_delay
from streamcal.calibrators.auto.mixture import Ensemble
from streamcal.calibrators.auto.panel import KNOTS
from streamcal.calibrators.auto.specialists import (
    SPECIALISTS,
    judgement_of,
    new_specialists,
    restored,
    spikes,
)
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.ensemble import AutoSteps
from streamcal.kernels.logistic import sigmoid
from streamcal.kernels.specialists import Judgement
from streamcal.learners.sequential import weight_scale_state
from streamcal.maps.knots import LogOddsMap
from streamcal.parameters.columns import like
from streamcal.parameters.given import whole_number
from streamcal.parameters.inputs import (
    LARGEST_WEIGHT,
    SMALLEST_WEIGHT,
    check_score,
    check_scores,
    check_time,
    check_times,
)
from streamcal.parameters.scales import Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import HEAVIEST, Reader, ensure, listed, number, record, row, unread, whole

LONGEST_DELAY = 100_000
#: In place of a delay: it is found from the scores that are asked for.
INFERRED = "inferred"
#: Rows of a stream that are learned in one call, which holds the GIL: a few milliseconds.
PIECE = 512
#: Fields of earlier states, and what they are in the record `specialists`.
APART = {"last": "now", "last_then": "then", "judged": "judged"}


class Auto(SequentialCalibrator):
    """A mixture of experts of many kinds, weighted by how right each has been: nothing to choose, nothing to tune.

    The experts are the score itself; online logistic regressions with forgetting on the log-odds of the score: lines,
    cubic curves, beta maps, lines that move at a steady pace, and curves with fading means of the last labels;
    smoothers, local in the score, that need no monotone map; Venn-Abers and smoothed isotonic regression on the last
    1,000 observations, and Venn-Abers on all of them; a Bernstein polynomial; and `Protected`. They are rows of the
    table `streamcal.calibrators.auto.experts.EXPERTS`.

    They are mixed. This mixture is mixed with a *stack*, an online logistic regression on the log-odds of all experts;
    and the result with two *corrections* of it, curves over log-odds that learn what it misses: one by the score, one
    by the forecast itself. Last comes a switch: the score itself has a prior weight of ¼, and after each outcome, which
    weighs it against all that, 1e-5 of its weight goes there for good. With a delay, and in a `LabelJoin`, its weight
    is at most .85. What comes of it is mixed with *lines begun anew*, for abrupt changes: after every 25 labels a
    logistic regression begins at the score, with 7.5e-4 of all weight, in the place of one of four: of the two that
    are older than 50 labels, the one with less weight. At every step 1e-4 of all weight goes back.

    A mixture of forecasts pₖ with prior weights πₖ has the weights Vᵣₖ = πₖ in each row r, which is a share rate αᵣ,
    1e-5 or 1e-3. The row says qᵣ = Σₖ Vᵣₖ pₖ. An outcome y multiplies every Vᵣₖ by the probability that pₖ gave to y,
    and then the part αᵣ is shared anew by the prior: Vᵣₖ ← (1 − αᵣ) Vᵣₖ / Σᵢ Vᵣᵢ + αᵣ πₖ. The mixture is the mean
    of the rows, each weighted by the product of the probabilities that it gave so far. All this happens at knots ⅛
    apart in log-odds; between two knots the log-odds of the forecast are linear.

    This forecast is mixed with *specialists* (Freund et al. 1997), which speak only where they know something; where
    none speaks, it stays as it is to the last bit. *Score counts* speak of scores that were learned at least twice: the
    share of positives at that very score, with 10 labels as likely as the forecast; 1,024 scores are held. *Cycles*
    speak where a time `t` is given, once 100 observations had one: regressions on harmonics of the day (UTC), of the
    week, and of a period that is found, beside a line in the score or in the forecast. A period is searched in the
    errors y − s of the scores s, of the last 4,096 observations with a time: from 4 mean gaps between two of them to a
    third of the time they span, by the power of all such frequencies; errors that are independent have one look in
    1,000 find one. The experts on it speak after 100 more. *Hours* are a line in the score and a profile of the week by
    the half-hour, which moves in steps, and may be another on one to three days in a row. The time of an observation is
    that of its prediction.

    Where a label comes d labels after its forecast, what was said then is judged, and every row is there thrice: with
    factors to the power (1 + d)^−¾, since labels that come in a row often have one cause; with factors as they are; and
    with the probabilities that forecasts give to y *now*, which tell sooner what is good if labels do not persist. The
    rows of each kind are weighted against each other in the same way. The three kinds are weighted by what they said
    then, to the power 1/(1 + d), so that one which only looks right in hindsight loses its weight. Specialists have the
    first and the last kind. Lines begun anew are judged by now, and the forecast with them is mixed, as issued, with
    that without. What is judged by now has 1/(1 + d/300) of its weight.

    Parameters
    ----------
    delay : int or "inferred"
        Label delay: number of labels that are learned between a prediction and its own label, 0 to 100,000; 0 if a
        label is known before the next prediction. Where every prediction gets a label, it is the number of predictions
        in between. It is a fact of your deployment, not a tuning parameter; if delays vary, give a typical one. The
        forecast issued then is scored, and means of recent labels leave out those that were not known then. A delay
        that is not given makes forecasts overconfident where labels persist. In a `LabelJoin` it need not be given,
        since it is known of each label. With "inferred" it is found: the last 4,096 scores that were asked for are
        remembered, and where the score of a label is one of them, the labels learned since are counted. After 64 such
        labels their median is the delay, up to 4,096, and again where it has grown by a fifth or halved. See
        `label_delay`.

    Raises
    ------
    InputError
        If `delay` is neither "inferred" nor a whole number from 0 to 100,000.

    Notes
    -----
    **Bound.** With `delay=0` and relative weights up to 1, for every stream of n observations, cut into m spells in any
    way, with any expert kᵢ in spell i,

        loss of Auto ≤ loss of these experts + Σᵢ ln 1/π(kᵢ) + ln 2 + minᵣ [(m − 1) ln 1/αᵣ + (n − m) ln 1/(1 − αᵣ)]
                       + 2.5 + 2n ln 1/(1 − 1e-5) + 3.1e-5 n + .92 + n′ ln 1/(1 − 1e-5).

    The last line is what the stack, the corrections and the switch (ln 4/3) may cost; the lines begun anew, ln
    1/(1 − 7.5e-4) for every 25 observations; and, on n′ observations of which a specialist spoke, the specialists: ln 2
    for the two rows of the last mixture, and ln 1/.8 for the prior weight of the forecast in it. Against the score
    alone it is less:

        loss of Auto ≤ loss of the score + ln 4 + n ln 1/(1 − 1e-5) + 3.1e-5 n + .92 + n′ ln 1/(1 − 1e-5).

    Losses are summed log losses, in nats; that of an expert at a score between two knots is the mean of its losses at
    both, by nearness. For one expert over 10,000 observations and a prior weight of .1 the bound is 7.1 nats, about
    .0007 each. Experts never say less than 1e-7 or more than 1 − 1e-7. Weights count relative to the running mean of
    all weights: a factor common to all changes nothing, and each loss of the bounds is multiplied by its own.

    **Cost.** O(1) per observation: 9 to 12 µs to predict and to learn, 16 to 22 µs with a delay
    (`examples/auto_weights.py`), half as much again with times; memory for 1,000 observations, 1,024 scores, 4,096
    times and, 9 KB each, late labels. `map()` is exact, for 257 forecasts and four for each score that has repeated; it
    is of forecasts without a time. `weights()` are those of the experts, before specialists.

    **An inferred delay.** Asking changes no forecast, and the scores that were asked for are no part of the state: a
    copy, and what is loaded, have the delay found so far, and begin to remember anew. Scores that come again tell
    nothing, nor do labels before which 4,096 others were learned since, or that are learned without a prediction; the
    delay then stays as it is, 0 at first. Where it changes, what was learned is kept, and late labels are judged by
    what is said at the change.

    References
    ----------
    Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998: fixed share. Vovk, Competitive on-line
    statistics, International Statistical Review 69, 2001: mixtures under log loss. Kulis and Bartlett, Implicit online
    learning, ICML 2010: the steps of the regressions. Freund, Schapire, Singer and Warmuth, Using and combining
    predictors that specialize, STOC 1997: specialists. Adamskiy, Koolen, Chernov and Vovk, A closer look at adaptive
    regret, JMLR 17, 2016: experts begun anew.

    Examples
    --------
    >>> import random
    >>> labels = random.Random(1)
    >>> cal = Auto()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(500):  # the score says 0.8, but half of the outcomes are positive
    ...     cal.learn_one(0.8, labels.random() < 0.5)
    >>> 0.4 < cal.predict_one(0.8) < 0.6
    True
    >>> weights = cal.weights()
    >>> weights["identity"] < 0.01, round(sum(weights.values()), 9)
    (True, 1.0)
    """

    name = "auto"
    summary = "mixture of many kinds of calibrators, weighted by their log loss so far; no parameters to choose"
    monotone = False
    learns_time = True

    def __init__(self, delay: int | Literal["inferred"] = 0) -> None:
        inferred = isinstance(delay, str) and delay == INFERRED
        allowed = f"a whole number from 0 to {LONGEST_DELAY}, or {INFERRED!r}"
        known = 0 if inferred else whole_number(delay, "delay", 0, LONGEST_DELAY, allowed)
        super().__init__()
        self.delay: int | str = INFERRED if inferred else known
        self.scale = Logit()
        self._asked = IssuedScores() if inferred else None
        self._begin(known)

    def _begin(self, delay: int) -> None:
        """Set up everything for a label delay, with nothing learned."""
        self._delay = delay
        self._live = Ensemble(delay)
        # The ensemble as it was when the forecast for today's label was issued.
        self._then = self._live if delay == 0 else Ensemble(delay)
        self._last = new_specialists(delay)
        self._last_then = self._last if delay == 0 else new_specialists(delay)
        self._steps = AutoSteps(self._live.kernel, self._then.kernel, self._last, self._last_then, delay, deque())

    @property
    def n(self) -> float:
        return float(self._steps.n)

    @property
    def label_delay(self) -> int:
        """The label delay that is reckoned with: `delay`, or what has been inferred so far."""
        return self._delay

    def _infer(self, x: float) -> None:
        """Go on with another delay if the label about to be learned at x shows that there is one."""
        if self._asked is None:
            return
        delay = self._asked.delay_after(x, self._live.learned, self._delay)
        if delay != self._delay:
            n, scale = self.n, self._steps.scale.state()
            live, last = with_delay(self._live.state(), self._delay, delay), self._last.state()
            self._begin(delay)
            self._steps.scale.load(*scale)
            self._live.restore(live)
            restored(self._last, last)
            if delay:
                self._then.restore(live)
                restored(self._last_then, last)
            self._steps.n = n

    def weights(self) -> dict[str, float]:
        """The weight of each expert in the present forecast, by name; they sum to 1.

        These are the weights before specialists, which `specialist_weights` has.
        """
        return self._live.weights()

    def specialist_weights(self) -> dict[str, float]:
        """The weight of each specialist in forecasts where all of them speak, by name; the rest is on the experts."""
        return dict(zip(SPECIALISTS, self._last.weights().tolist()[1:], strict=True))

    def predict_one(self, score: float, t: Time | None = None) -> float:
        if t is not None or self._asked is not None:
            x, time = self.scale.coordinate(check_score(score)), self._time(t)
            self._remember([x])
            return self._at(x, time)
        p = self._steps.predict_fast(score)
        return p if p == p else super().predict_one(score)

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        if t is None and self._asked is None:
            return super().predict_many(scores)
        x, time = self.scale.coordinates(check_scores(scores)), self._time(t)
        self._remember(x.tolist())
        if t is None:
            return super().predict_many(scores)
        return like(scores, np.array([self._at(one, time) for one in x.tolist()], dtype=np.float64))

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        if t is not None or self._asked is not None or not self._steps.learn_fast(score, y, w):
            super().learn_one(score, y, w, t)

    def _remember(self, asked: list[float]) -> None:
        """Remember the log-odds of scores that were asked for, where the delay is inferred."""
        if self._asked is not None:
            for x in asked:
                self._asked.add(x, self._live.learned)

    def map(self) -> LogOddsMap:
        knots = spikes(self._last, KNOTS)
        return LogOddsMap(self.scale, knots, np.array([self._steps.at(x, math.nan) for x in knots.tolist()]))

    def _at(self, x: float, t: float) -> float:
        return sigmoid(self._steps.at(x, t))

    def _predict(self, x: float) -> float:
        return float(self._steps.predict(x))

    def _learn(self, x: float, y: float, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            self._infer(x)
            self._steps.step(x, y, w, t)
            self._note(noted)

    def _step(self, x: float, y: float, w: float) -> None:
        self._infer(x)
        self._steps.step(x, y, w, math.nan)

    def _time(self, t: Time | None) -> float:
        return math.nan if t is None else check_time(t)

    def _times(self, t: npt.ArrayLike | Sequence[Time] | None, size: int) -> FloatArray:
        return np.full(size, math.nan) if t is None else check_times(t, size)

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        self._run_at(scores, y, w, t, predicts=False)

    def _streamed(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> FloatArray:
        return self._run_at(scores, y, w, t, predicts=True)

    def _run_at(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
        predicts: bool,
    ) -> FloatArray:
        """Check all rows and learn them in order; the predictions before each, or an empty array."""
        x, labels, weights, times, clamped = self._checked_many(scores, y, w, t)
        predictions = np.empty(len(x) if predicts else 0)
        if self._asked is not None:
            self._run_inferring(x, labels, weights, times, predictions)
        else:
            for start in range(0, len(x), PIECE):  # between two of them other threads may run
                rows = slice(start, start + PIECE)
                self._steps.stream(x[rows], labels[rows], weights[rows], times[rows], predictions[rows])
        self._note(clamped)
        return predictions

    def _run_inferring(
        self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, predictions: FloatArray
    ) -> None:
        """The same row by row, since a label may change the delay."""
        rows = zip(x.tolist(), y.tolist(), w.tolist(), t.tolist(), strict=True)
        for i, (at, label, weight, time) in enumerate(rows):
            if len(predictions):
                self._remember([at])
                predictions[i] = self._at(at, time)
            if weight > 0.0:
                self._infer(at)
                self._steps.step(at, label, weight, time)

    # Where a caller keeps what was said until the label comes, `delay` may be 0, however late that is: what is judged
    # are the forecasts that were issued, and regressions learn from the means of labels that were known then, without a
    # second ensemble. The mixtures triple their rows with the first label that comes late, as with a delay that is
    # told, and the weight of the score is at most .85. Coefficients that move at a steady pace are forecast for as many
    # labels on as the last ones were late. A label before which nothing else was learned is learned as by `learn_one`.

    def _issue(self, x: float, t: float) -> list[float]:
        said: list[float] = self._steps.issue(x, t)
        return said

    def _learn_issued(self, x: float, y: float, w: float, t: float, said: Sequence[float] | None) -> None:
        if said is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._of_issued(said, lambda said: self._steps.step_issued(x, y, w, t, said))

    def _require_issued(self, said: Sequence[float] | None) -> None:
        if said is not None:
            self._of_issued(said, self._steps.require_issued)

    def _of_issued(self, said: Sequence[float], do: Callable[[Sequence[float]], None]) -> None:
        """Do something with what was issued, by an earlier version too; `InputError` if none has said that."""
        try:
            do(said)
        except ValueError as error:
            now = earlier.said(said, self._last.size, len(LABEL_MEANS))
            if now is said:
                raise _never_issued(error) from None
            self._of_issued(now, do)

    def _state(self) -> dict[str, Any]:
        late = [[x, y, w, assessed.state()] for x, y, w, assessed, _ in self._steps.late]
        judged = [one.state() for *_, one in self._steps.late]
        then, last_then = (None, None) if self._delay == 0 else (self._then.state(), self._last_then.state())
        specialists = {"now": self._last.state(), "then": last_then, "judged": judged}
        own = {"n": self.n, "live": self._live.state(), "then": then, "late": late, "specialists": specialists}
        own["scale"] = self._steps.scale.state()
        found = {} if self._asked is None else {"delay": self._delay}
        return {**super()._state(), **own, **found}

    def _state_fields(self) -> dict[str, Reader]:
        late = row(number(self.scale.lo, self.scale.hi), whole(0, 1), number(SMALLEST_WEIGHT, LARGEST_WEIGHT), unread)
        own = {"n": number(0.0, HEAVIEST), "live": unread, "then": unread, "late": listed(late, most=self._most())}
        return {**super()._state_fields(), **own, "scale": weight_scale_state}

    def _most(self) -> int:
        """The longest delay that a state can have."""
        return LONGEST_DELAY if isinstance(self.delay, str) else self.delay

    def _optional_fields(self) -> dict[str, Reader]:
        """Of the first version there were no specialists; of the next, `APART` had what is one record now."""
        return {
            **super()._optional_fields(),
            "specialists": unread,
            "delay": whole(0, LONGEST_DELAY),
            **dict.fromkeys(APART, unread),
        }

    def _load(self, *, n: float, live: Any, then: Any, late: list[Any], specialists: Any, **fields: Any) -> None:
        scale = fields.pop("scale")
        apart = {now: fields.pop(before) for before, now in APART.items()}
        delay = fields.pop("delay")
        super()._load(**fields)
        ensure((delay is None) == (self._asked is None), "a delay was inferred and is given, or neither")
        if delay is not None:
            self._begin(delay)
            ensure(len(late) <= delay, "more labels are late than the delay")
        self._live.restore(live)
        ensure(self._delay or then is None, "there is a delayed ensemble and no delay")
        if self._delay:
            self._then.restore(then)
            ensure(self._live.learned == self._then.learned + len(late), "the numbers of observations differ")
        if specialists is None and any(part is not None for part in apart.values()):
            specialists = apart
        if specialists is not None:
            judged = self._load_specialists(specialists, len(late))
        else:  # these had been learned without specialists
            judged = [Judgement(self._last.size, self._last.rows) for _ in late]
            for (x, y, w, _), one in zip(late, judged, strict=True):
                self._last.learn(x, float(y), w, one)
        self._steps.n, self._last.late = n, self._live.late
        self._steps.scale.load(*scale)
        for (x, y, w, of), one in zip(late, judged, strict=True):
            one.late = self._delay
            self._steps.late.append((x, float(y), w, self._then.assessment(of), one))

    def _load_specialists(self, state: Any, late: int) -> list[Judgement]:
        """Load the specialists; what they said of the labels that are late."""
        parts = record({"now": unread, "then": unread, "judged": listed(unread, length=late)})(state)
        ensure(self._delay or parts["then"] is None, "there is a delayed mixture and no delay")
        restored(self._last, parts["now"])
        if self._delay:
            restored(self._last_then, parts["then"])
            ensure(self._last.counts.learned == self._last_then.counts.learned + late, "numbers of counts differ")
        return [judgement_of(self._last, one) for one in parts["judged"]]


def _never_issued(error: ValueError) -> InputError:
    return InputError(f"these are not the numbers that were issued with the forecast: {error}")
