"""`VersionLearner`: the calibration of one version of a model, which starts from the map of the version before."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError, StreamcalError
from streamcal.kernels.common.fast_path import NUMBER_SIZE
from streamcal.kernels.common.logistic import logit, logits, sigmoids
from streamcal.learners.learner import Learner
from streamcal.live.issued import Issued, Keys
from streamcal.live.keyed import Entrant
from streamcal.live.multicalibrated import Multicalibrated
from streamcal.live.shadow import Shadow
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import Time
from streamcal.states import ROUNDING, Reader, ensure, maybe, number, numbers, record, unread

#: Knots in a unit of the log-odds of the score, between which the log-odds of a map are linear.
KNOTS_A_UNIT = 8
KNOTS = round(2 * LOGIT_LIMIT * KNOTS_A_UNIT) + 1
#: The prior weight of the map of the version before, which costs the calibration of the new version ln 10 = 2.3 nats if
#: that is right from the start, and the share that goes back to the prior at each label.
PRIOR, SHARE = 0.9, 1e-4
#: Sharing keeps the weight of the map above this.
LEAST_WEIGHT = SHARE * PRIOR * (1.0 - ROUNDING)
#: No prediction is taken to be more certain than this when it is judged.
CERTAIN = 1e-7
#: A prediction this near to the score, relative to it, is the score.
NEAR = 1e-9


#: Bytes of the predictions of the map of the version before and of the calibrator. What a calibrator packs is no whole
#: number of numbers.
HEAD = 2 * NUMBER_SIZE


def can_join(calibrator: Any) -> bool:
    """Return whether a join can use it: a calibrator of one score, one that reads keys, or a `Shadow`."""
    return isinstance(calibrator, Entrant | Shadow)


def take_first_time(calibrator: Any) -> Time | None:
    """Take the first time that a calibrator was given away from it, since a join gives it numbers alone; return it."""
    if isinstance(calibrator, Shadow):
        times = [take_first_time(part) for part in calibrator._calibrators.values()]
        return next((time for time in times if time is not None), None)
    learner = calibrator.overall
    first = learner._first_time
    learner._first_time = None
    return first


class VersionLearner:
    """A calibrator for the scores of one version, mixed with the map of the version before, if there is one.

    The prediction is the mean of both, weighted by fixed share: an outcome multiplies each weight by the probability
    that was issued for it, and then a share of 1e-4 goes back to the prior, 0.9 for the map. The map stays as it was,
    and the calibrator learns only scores of its own version, so that it takes over as it earns it. Of a `Segmented` the
    map is that of the calibrator of all observations. `before` is that map: log-odds of predictions at `KNOTS` scores.
    With an early window, a join gives scores times the share of clicks that are known early.

    The log loss is at most the map's + 0.1 nats, or the calibrator's + 2.3 nats, and 1e-4 of a nat for every label in
    both cases. With late labels this bound is for predictions as issued.
    """

    def __init__(self, calibrator: Any, before: list[float] | None = None) -> None:
        self.calibrator = calibrator
        self.before = before
        self.weight = PRIOR  #: of the map of the version before
        self._timed = isinstance(calibrator, Shadow) or calibrator.overall.reads_time
        self._keyed = not isinstance(calibrator, Calibrator)
        self._packs = hasattr(calibrator, "_issue_packed")
        self._missing = dict.fromkeys(calibrator.fields) if self._keyed else {}
        #: Whether a prediction that was issued before need not be made again, since it leaves no trace.
        self.traceless = before is None and isinstance(calibrator, SequentialCalibrator) and not calibrator._judged
        self.tell(None)

    @property
    def timed(self) -> bool:
        """Whether the calibrator reads the time."""
        return self._timed

    @property
    def kernel(self) -> Any:
        """What takes compiled steps on columns of scores, where nothing is beside it; None otherwise."""
        if isinstance(self.calibrator, Shadow) or self.before is not None:
            return None
        return self.calibrator._column_steps()

    @property
    def weighs(self) -> bool:
        """Whether what is remembered of a prediction depends on its weight."""
        own = self.calibrator
        entrants = own._calibrators.values() if isinstance(own, Shadow) else [own]
        return any(isinstance(entrant, Multicalibrated) for entrant in entrants)

    def tell(self, write: Callable[[str, str, dict[str, Any] | None], None] | None) -> None:
        """Write each later change of a shadow before it is made; None stops the writing."""
        if isinstance(self.calibrator, Shadow):
            self.calibrator.on_change = None if write is None else partial(_write_change, write)

    def change(self, what: str, name: str, calibrator: Any) -> None:
        """Make a change that was written; raise `StateError` if it is not possible."""
        ensure(
            isinstance(self.calibrator, Shadow), "the journal holds a change of a shadow, and the calibrator is none"
        )
        self.calibrator._change(what, name, None if calibrator is None else calibrator_of(calibrator))

    def _levels(self, keys: Keys | None) -> dict[str, str | int | None] | None:
        """Return keys with None for every field of the calibrator without a level."""
        if not self._keyed:
            return None
        missing = dict.fromkeys(self.calibrator.fields) if isinstance(self.calibrator, Shadow) else self._missing
        return {**missing, **(keys or {})}

    def predict(self, score: float, keys: Keys | None, t: float | None) -> float:
        """Return the probability at a score as of time t."""
        time = t if self._timed else None
        calibrator: Any = self.calibrator
        p = calibrator.predict_one(score, time, keys=self._levels(keys))
        served = calibrator.champion if isinstance(calibrator, Shadow) else calibrator
        p = p if served.n else or_score(served, p, score)
        return p if self.before is None else self._mixed(table_at(self.before, score), p)

    def issue(
        self, score: float, keys: Keys | None, t: float | None, w: float, *, apart: bool = True
    ) -> tuple[float, bytes | None]:
        """Return the probability at a score as of time t, and what to remember of it; its label will be learned.

        Without `apart`, what is remembered may be read beside this score and this probability alone.
        """
        time = t if self._timed else None
        content: bytes | None
        if self._packs:
            p, content = self.calibrator._issue_packed(score, time, apart or self.before is not None)
            p = p if self.calibrator.n else or_score(self.calibrator, p, score)
        else:
            p, record = self.calibrator._issue_keyed(score, self._levels(keys), time, w)
            p = self._or_score(p, record, score)
            content = array("d", record).tobytes() if record else None
        if self.before is None:
            return p, content
        first = table_at(self.before, score)
        return self._mixed(first, p), array("d", (first, p)).tobytes() + (content or b"")

    def _or_score(self, p: float, record: Any, score: float) -> float:
        """Do `or_score` for a prediction, and for each calibrator of a shadow in its record."""
        own = self.calibrator
        if not isinstance(own, Shadow):
            return p if own.n else or_score(own, p, score)
        names, place = {number: name for name, number in own._numbers.items()}, 0
        while place + 3 <= len(record):  # as `Shadow` writes it: a number, the probability, and what is remembered
            entrant = own._calibrators[names[int(record[place])]]
            record[place + 1] = or_score(entrant, record[place + 1], score)
            place += 3 + int(record[place + 2])
        return or_score(own.champion, p, score)

    def _mixed(self, first: Any, p: Any) -> Any:
        """Return the weighted mean of the prediction of the map of the version before, and of the calibrator's p."""
        return self.weight * first + (1.0 - self.weight) * p

    def give_up(self, score: float, keys: Keys | None, remembered: bytes | None) -> None:
        """Forget an issued prediction whose label will not be learned."""
        if remembered is not None:
            record = () if self._packs else numbers_in(self._of_calibrator(remembered))
            self.calibrator._give_up_keyed(score, self._levels(keys), record)

    def learn(self, score: float, prediction: Issued, remembered: bytes | None, y: bool) -> None:
        """Learn the label of an issued prediction, at this score."""
        time = prediction.t if self._timed else None
        content = None if remembered is None else self._of_calibrator(remembered)
        if self._packs and content and len(content) % NUMBER_SIZE:
            self.calibrator._learn_packed(score, y, prediction.w, time, prediction.p, content)
        else:
            record = numbers_in(content) if content else None
            self.calibrator._learn_keyed(score, self._levels(prediction.keys), y, record, prediction.w, time)
        if self.before is not None and remembered is not None:  # not before: the calibrator may refuse the label
            first, second = numbers_in(remembered[:HEAD])
            self._reweigh(first, second, y, prediction.w)

    def _of_calibrator(self, remembered: bytes) -> bytes:
        """Return the part of the calibrator in what is remembered of a prediction."""
        return remembered if self.before is None else remembered[HEAD:]

    def _reweigh(self, first: float, second: float, y: bool, w: float) -> None:
        """Update the weight by one step of fixed share; `first` is the prediction of the previous version's map."""
        gains = [math.log(max(p if y else 1.0 - p, CERTAIN)) for p in (first, second)]
        odds = math.exp(min(max(w * (gains[1] - gains[0]), -700.0), 700.0)) * (1.0 - self.weight) / self.weight
        self.weight = (1.0 - SHARE) / (1.0 + odds) + SHARE * PRIOR

    def correct(self, prediction: Issued, w: float) -> bool:
        """Turn the negative label of a prediction into a positive one of weight `w`; False where that is not exact.

        It is where the order of learning does not matter: under `Forever` and under policies by time. The weight of the
        map of the version before stays as it is.
        """
        if not (self.calibrator.unlearns and self.calibrator.merges):
            return False
        time = prediction.t if self._timed else None
        levels = self._levels(prediction.keys)
        try:
            self.calibrator.unlearn_one(prediction.score, False, prediction.w, time, keys=levels)
        except StreamcalError:  # sums that cannot give it back without rounding; nothing has changed then
            return False
        self.calibrator.learn_one(prediction.score, True, w, time, keys=levels)
        return True

    def table(self) -> list[float] | None:
        """Return the current predictions, for the version after this one; None if scores are no probabilities."""
        if self.calibrator.scale.domain != (0.0, 1.0):
            return None
        scores = sigmoids(np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, KNOTS))
        learner = self.calibrator.overall
        p = np.asarray(learner.predict_many(scores) if learner.n else learner.scale.rising(scores))
        if self.before is not None:
            p = self._mixed(sigmoids(np.array(self.before)), p)
        return list(np.clip(logits(p), -LOGIT_LIMIT, LOGIT_LIMIT).tolist())

    def successor(self) -> VersionLearner:
        """Return the calibration of a new version."""
        return VersionLearner(self.calibrator.clone(), self.table())

    def state(self) -> dict[str, Any]:
        """Return plain data for `loaded`."""
        return {"calibrator": self.calibrator._written(), "before": self.before, "weight": self.weight}

    @classmethod
    def loaded(cls, state: Any) -> VersionLearner:
        """Read what `state` wrote; raise `StateError` for anything else."""
        logs: Reader = numbers(KNOTS, least=-LOGIT_LIMIT, most=LOGIT_LIMIT)
        fields = {"calibrator": unread, "before": maybe(logs), "weight": number(LEAST_WEIGHT, 1.0)}
        read = record(fields)(state)
        before = None if read["before"] is None else read["before"].tolist()
        learner = cls(calibrator_of(read["calibrator"]), before)
        ensure(learner.before is None or learner.calibrator.scale.domain == (0.0, 1.0), "a map has no place for scores")
        learner.weight = read["weight"]
        return learner


def _write_change(
    write: Callable[[str, str, dict[str, Any] | None], None], what: str, name: str, calibrator: Calibrator | None
) -> None:
    write(what, name, None if calibrator is None else calibrator._written())


def calibrator_of(state: Any) -> Any:
    """Read a calibrator's state inside another state; raise `StateError` unless a join can use the calibrator."""
    written = record(dict.fromkeys(("class", "params", "learned"), unread))(state)
    kind: type[Any] = Shadow if written["class"] == Shadow.__name__ else Learner
    calibrator = kind._from_written(written)
    ensure(can_join(calibrator), f"{type(calibrator).__name__} is no calibrator of one score")
    return calibrator


def or_score(calibrator: Any, p: float, score: float) -> float:
    """Return a prediction, and before the first label the score itself, if it is a probability.

    Some methods say 0.5 of every score until then, and labels may be hours late. A prediction that is the score but for
    rounding is left as it is.
    """
    if calibrator.n or calibrator.scale.domain != (0.0, 1.0):
        return p
    raw = float(calibrator.scale.rising(score))
    return p if abs(p - raw) <= NEAR * raw else raw


def table_at(before: list[float], score: float) -> float:
    """Return the probability at a score, from log-odds at the knots."""
    x = (min(max(logit(score), -LOGIT_LIMIT), LOGIT_LIMIT) + LOGIT_LIMIT) * KNOTS_A_UNIT
    left = min(int(x), KNOTS - 2)
    z = before[left] + (x - left) * (before[left + 1] - before[left])
    return 1.0 / (1.0 + math.exp(-z))


def in_shadow(learner: VersionLearner, shadow: Shadow | None) -> VersionLearner:
    """Return a learner whose calibrator is the champion of a new shadow, or with None that of the learner's shadow."""
    own = learner.calibrator
    calibrator = own.champion if shadow is None else Shadow(own, confidence=shadow.confidence)
    moved = VersionLearner(calibrator, learner.before)
    moved.weight = learner.weight
    return moved


def numbers_in(remembered: bytes) -> array[float]:
    """Return the numbers that `VersionLearner.issue` returned as bytes; `InputError` for other bytes."""
    numbers = array("d")
    if len(remembered) % numbers.itemsize == 0:
        numbers.frombytes(remembered)
        if math.isfinite(sum(numbers)):
            return numbers
    raise InputError("these bytes are not the numbers that were issued with the prediction")


def record_in_shadow(learner: VersionLearner, prediction: Issued, remembered: bytes, *, inside: bool) -> bytes | None:
    """Return what is remembered of a learner's prediction as the learner that `in_shadow` has made reads it.

    `inside` says whether it is the champion of a shadow now.
    """
    split = 0 if learner.before is None else HEAD
    head, content, calibrator = numbers_in(remembered[:split]), remembered[split:], learner.calibrator
    if len(content) % NUMBER_SIZE:
        own = array("d", calibrator._unpacked(calibrator.scale.coordinate(prediction.score), prediction.p, content))
    else:
        own = numbers_in(content)
    numbers = _in_shadow(learner, prediction.p, head, own, inside=inside)
    return numbers.tobytes() if numbers else None


def _in_shadow(
    learner: VersionLearner, p: float, head: array[float], own: array[float], *, inside: bool
) -> array[float] | None:
    if inside:
        p = min(max(p, 0.0), 1.0)  # compared with nothing: no challenger was there
        return head + (array("d", (0.0, p, len(own), *own)) if own else own)
    shadow, place = learner.calibrator, 0
    while place + 3 <= len(own):  # as `Shadow` writes it: a number, the probability, and what is remembered
        number_, size = own[place], max(int(own[place + 2]), 0)
        if number_ == shadow._numbers[shadow.version.name]:
            return head + own[place + 3 : place + 3 + size] or None
        place += 3 + size
    return head or None
