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
from streamcal.errors import CapabilityError, StreamcalError
from streamcal.kernels.common.logistic import logit, logits, sigmoids
from streamcal.learners.learner import Learner
from streamcal.live.issued import Issued, Keys
from streamcal.live.keyed import Keyed
from streamcal.live.shadow import Shadow, ShadowForecast
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray, Time
from streamcal.states import ROUNDING, Reader, ensure, maybe, number, numbers, record, unread

#: Knots in a unit of the log-odds of the score, between which the log-odds of a map are linear.
KNOTS_A_UNIT = 8
KNOTS = round(2 * LOGIT_LIMIT * KNOTS_A_UNIT) + 1
#: The prior weight of the map of the version before, which costs the calibration of the new version ln 10 = 2.3 nats if
#: that is right from the start, and the share that goes back to the prior at each label.
PRIOR, SHARE = 0.9, 1e-4
#: A prediction this near to the score, relative to it, is the score.
NEAR = 1e-9
#: Sharing keeps the weight of the map above this.
LEAST_WEIGHT = SHARE * PRIOR * (1.0 - ROUNDING)
#: No prediction is taken to be more certain than this when it is judged.
CERTAIN = 1e-7


class ByScore:
    """Predictions and learning by a calibrator of one score."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator
        self._timed = calibrator.reads_time
        self._judged = type(calibrator)._issue is not Calibrator._issue
        #: Whether a prediction leaves no trace, neither in the calibrator nor in what is remembered.
        self.traceless = isinstance(calibrator, SequentialCalibrator) and not self._judged

    def predict(self, score: float, keys: Keys | None, t: float | None) -> float:
        """Return the probability at a score as of time t."""
        p = self.calibrator.predict_one(score, t) if self._timed else self.calibrator.predict_one(score)
        return p if self.calibrator.n else or_score(self.calibrator, p, score)

    def issue(self, score: float, keys: Keys | None, t: float | None, w: float) -> tuple[float, array[float] | None]:
        """Return the probability at a score as of time t, and what has to be remembered of it."""
        calibrator = self.calibrator
        p = calibrator.predict_one(score, t) if self._timed else calibrator.predict_one(score)
        p = p if calibrator.n else or_score(calibrator, p, score)
        if not self._judged:
            return p, None
        said = calibrator._issue(calibrator.scale.coordinate(score), math.nan if t is None else t)
        return p, None if said is None else array("d", said)

    def learn(self, score: float, y: bool, one: Issued, said: array[float] | None) -> None:
        """Learn the label of an issued prediction."""
        self.calibrator._learn_late(score, y, one.w, one.t if self._timed or said else None, said)

    def turn(self, score: float, one: Issued) -> None:
        """Unlearn a negative label, and learn a positive one."""
        self.calibrator.unlearn_one(score, False, one.w, one.t)
        self.calibrator.learn_one(score, True, one.w, one.t)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the present probabilities at an array of scores."""
        return np.asarray(self.calibrator.predict_many(scores))


class ByKeys:
    """Predictions and learning by a calibrator that reads keys, such as `Segmented`."""

    def __init__(self, calibrator: Keyed) -> None:
        self.calibrator = calibrator
        self._timed = calibrator.overall.reads_time
        self._missing = dict.fromkeys(calibrator.fields)

    def _keys(self, keys: Keys | None) -> dict[str, str | int | None]:
        """Return keys with None for every field without a level."""
        return {**self._missing, **(keys or {})}

    def predict(self, score: float, keys: Keys | None, t: float | None) -> float:
        """Return the probability at a score as of time t."""
        p = self.calibrator.predict_one(score, self._keys(keys), t if self._timed else None)
        return or_score(self.calibrator, p, score)

    def issue(self, score: float, keys: Keys | None, t: float | None, w: float) -> tuple[float, array[float] | None]:
        """Return the probability at a score as of time t, and what has to be remembered of it."""
        p, said = self.calibrator._issue_keyed(score, self._keys(keys), t if self._timed else None, w)
        return or_score(self.calibrator, p, score), array("d", said)

    def learn(self, score: float, y: bool, one: Issued, said: array[float] | None) -> None:
        """Learn the label of an issued prediction."""
        time = one.t if self._timed else None
        self.calibrator._learn_keyed(score, self._keys(one.keys), y, said or (), one.w, time)

    def give_up(self, score: float, one: Issued, said: array[float] | None) -> None:
        """Forget an issued prediction whose label will not be learned."""
        self.calibrator._give_up_keyed(score, self._keys(one.keys), said or ())

    def turn(self, score: float, one: Issued) -> None:
        """Unlearn a negative label, and learn a positive one."""
        given = one.w, one.t if self._timed else None
        self.calibrator.unlearn_one(score, self._keys(one.keys), False, *given)
        self.calibrator.learn_one(score, self._keys(one.keys), True, *given)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of the calibrator of all observations, whatever their keys."""
        return np.asarray(self.calibrator.overall.predict_many(scores))


class ByShadow:
    """Predictions and learning by a `Shadow`."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow

    def _keys(self, keys: Keys | None) -> dict[str, str | int | None]:
        """Return keys with None for every field without a level."""
        return {**dict.fromkeys(self.shadow.fields), **(keys or {})}

    def predict(self, score: float, keys: Keys | None, t: float | None) -> float:
        """Return the probability at a score as of time t."""
        return or_score(self.shadow.champion, self.shadow.predict_one(score, t, keys=self._keys(keys)), score)

    def issue(self, score: float, keys: Keys | None, t: float | None, w: float) -> tuple[float, array[float] | None]:
        """Return the probability at a score as of time t, and what has to be remembered of it."""
        shadow = self.shadow
        forecast = shadow.issue_one(score, t, keys=self._keys(keys), w=w)
        by_name = {name: or_score(shadow._calibrators[name], p, score) for name, p in forecast.by_name.items()}
        forecast = forecast._replace(p=by_name[shadow.version.name], by_name=by_name)
        return forecast.p, shadow.plain(forecast)

    def learn(self, score: float, y: bool, one: Issued, said: array[float] | None) -> None:
        """Learn the label of an issued prediction."""
        self.shadow.learn_issued(self._forecast(score, one, said), y, one.w, one.t)

    def give_up(self, score: float, one: Issued, said: array[float] | None) -> None:
        """Forget an issued prediction whose label will not be learned."""
        self.shadow.learn_issued(self._forecast(score, one, said), None, one.w, one.t)

    def _forecast(self, score: float, one: Issued, said: array[float] | None) -> ShadowForecast:
        """Return what the calibrators predicted when the prediction was issued."""
        return self.shadow.forecast_of(score, said or (), self._keys(one.keys))

    def turn(self, score: float, one: Issued) -> None:
        """Refuse to turn a label, since a comparison cannot unlearn an outcome."""
        raise CapabilityError("a shadow cannot unlearn")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the champion's present probabilities at an array of scores."""
        return joined(self.shadow.champion).probabilities(scores)


def or_score(calibrator: Any, p: float, score: float) -> float:
    """Return a prediction, and before the first label the score itself, if it is a probability.

    Some methods say 0.5 of every score until then, and labels may be hours late. A prediction that is the score but for
    rounding is left as it is.
    """
    if calibrator.n or calibrator.scale.domain != (0.0, 1.0):
        return p
    found = float(calibrator.scale.rising(score))
    return p if abs(p - found) <= NEAR * found else found


def joined(calibrator: Any) -> ByScore | ByKeys | ByShadow:
    """Return the adapter by which a join predicts with a calibrator and lets it learn."""
    if isinstance(calibrator, Shadow):
        return ByShadow(calibrator)
    return ByKeys(calibrator) if isinstance(calibrator, Keyed) else ByScore(calibrator)


def can_join(calibrator: Any) -> bool:
    """Return whether a join can use it: a calibrator of one score, one that reads keys, or a `Shadow`."""
    return isinstance(calibrator, (Calibrator, Keyed, Shadow))


def take_first_time(calibrator: Any) -> Time | None:
    """Take the first time that a calibrator was given away from it, since a join gives it numbers alone; return it."""
    if isinstance(calibrator, Shadow):
        found = [take_first_time(one) for one in calibrator._calibrators.values()]
        return next((one for one in found if one is not None), None)
    learner = calibrator.overall if isinstance(calibrator, Keyed) else calibrator
    first: Time | None = learner._first_time
    learner._first_time = None
    return first


class VersionLearner:
    """A calibrator for the scores of one version, mixed with the map of the version before, if there is one.

    The prediction is the mean of both, weighted by fixed share: an outcome multiplies each weight by the probability
    that was issued for it, and then a share of 1e-4 goes back to the prior, 0.9 for the map. The map stays as it was,
    and the calibrator learns only scores of its own version, so that it takes over as it earns it. Of a `Segmented` the
    map is that of the calibrator of all observations. `before` is that map: log-odds of predictions at `KNOTS` scores.
    Scores are first multiplied by `factor`, the expected share of early clicks if only early clicks are learned.

    The log loss is at most the map's + 0.1 nats, or the calibrator's + 2.3 nats, and 1e-4 of a nat for every label in
    both cases. With late labels this bound is for predictions as issued.
    """

    def __init__(self, calibrator: Any, before: list[float] | None = None, factor: float = 1.0) -> None:
        self.calibrator = calibrator
        self.before = before
        self.factor = factor
        self.weight = PRIOR  #: of the map of the version before
        self._own = joined(calibrator)
        #: Whether a prediction that was issued before need not be made again, since it leaves no trace.
        self.traceless = before is None and isinstance(self._own, ByScore) and self._own.traceless
        self.tell(None)

    def tell(self, write: Callable[[str, str, dict[str, Any] | None], None] | None) -> None:
        """Write each later change of a shadow before it is made; None stops the writing."""
        if isinstance(self.calibrator, Shadow):
            self.calibrator.on_change = None if write is None else partial(_told, write)

    def change(self, what: str, name: str, calibrator: Any) -> None:
        """Make a change that was written; raise `StateError` if it is not possible."""
        ensure(
            isinstance(self.calibrator, Shadow), "the journal holds a change of a shadow, and the calibrator is none"
        )
        self.calibrator._change(what, name, None if calibrator is None else calibrator_of(calibrator))

    def predict(self, score: float, keys: Keys | None, t: float | None) -> float:
        """Return the probability at a score as of time t."""
        p = self._own.predict(score * self.factor, keys, t)
        if self.before is None:
            return p
        return self.weight * table_at(self.before, score * self.factor) + (1.0 - self.weight) * p

    def issue(self, score: float, keys: Keys | None, t: float | None, w: float) -> tuple[float, array[float] | None]:
        """Return the probability at a score as of time t, and what to remember of it; its label will be learned."""
        score *= self.factor
        if self.before is None:
            return self._own.issue(score, keys, t, w)
        p, said = self._own.issue(score, keys, t, w)
        first = table_at(self.before, score)
        return self.weight * first + (1.0 - self.weight) * p, array("d", (first, p, *(said or ())))

    def give_up(self, one: Issued) -> None:
        """Forget an issued prediction whose label will not be learned."""
        if not isinstance(self._own, ByScore) and one.said is not None:
            self._own.give_up(one.score * self.factor, one, one.said if self.before is None else one.said[2:])

    def learn(self, one: Issued, y: bool) -> None:
        """Learn the label of an issued prediction."""
        said = one.said
        if self.before is None or said is None:
            self._own.learn(one.score * self.factor, y, one, said)
        else:
            self._own.learn(one.score * self.factor, y, one, said[2:] or None)  # before the weight moves: it may refuse
            self._reweigh(said[0], said[1], y, one.w)

    def _reweigh(self, first: float, second: float, y: bool, w: float) -> None:
        """Update the weight by one step of fixed share; `first` is the prediction of the previous version's map."""
        gains = [math.log(max(p if y else 1.0 - p, CERTAIN)) for p in (first, second)]
        odds = math.exp(min(max(w * (gains[1] - gains[0]), -700.0), 700.0)) * (1.0 - self.weight) / self.weight
        self.weight = (1.0 - SHARE) / (1.0 + odds) + SHARE * PRIOR

    def correct(self, one: Issued) -> bool:
        """Turn the negative label of a prediction into a positive one, exactly; False where that is not possible.

        It is where the order of learning does not matter: under `Forever` and under policies by time. The weight of the
        map of the version before stays as it is.
        """
        if not (self.calibrator.unlearns and self.calibrator.merges):
            return False
        try:
            self._own.turn(one.score * self.factor, one)
        except StreamcalError:  # sums that cannot give it back without rounding; nothing has changed then
            return False
        return True

    def table(self) -> list[float] | None:
        """Return the current predictions, for the version after this one; None if scores are no probabilities."""
        if self.calibrator.scale.domain != (0.0, 1.0):
            return None
        scores = sigmoids(np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, KNOTS))
        learner = self.calibrator.champion if isinstance(self.calibrator, Shadow) else self.calibrator
        p = self._own.probabilities(scores) if learner.n else np.asarray(learner.scale.rising(scores))
        if self.before is not None:
            p = self.weight * sigmoids(np.array(self.before)) + (1.0 - self.weight) * p
        return list(np.clip(logits(p), -LOGIT_LIMIT, LOGIT_LIMIT).tolist())

    def successor(self) -> VersionLearner:
        """Return the calibration of a new version."""
        return VersionLearner(self.calibrator.clone(), self.table(), self.factor)

    def state(self) -> dict[str, Any]:
        """Return plain data for `loaded`."""
        return {"calibrator": self.calibrator._written(), "before": self.before, "weight": self.weight}

    @classmethod
    def loaded(cls, state: Any, factor: float = 1.0) -> VersionLearner:
        """Read what `state` wrote; raise `StateError` for anything else."""
        logs: Reader = numbers(KNOTS, least=-LOGIT_LIMIT, most=LOGIT_LIMIT)
        fields = {"calibrator": unread, "before": maybe(logs), "weight": number(LEAST_WEIGHT, 1.0)}
        read = record(fields)(state)
        before = None if read["before"] is None else read["before"].tolist()
        learner = cls(calibrator_of(read["calibrator"]), before, factor)
        ensure(learner.before is None or learner.calibrator.scale.domain == (0.0, 1.0), "a map has no place for scores")
        learner.weight = read["weight"]
        return learner


def _told(
    write: Callable[[str, str, dict[str, Any] | None], None], what: str, name: str, calibrator: Calibrator | None
) -> None:
    write(what, name, None if calibrator is None else calibrator._written())


def calibrator_of(state: Any) -> Any:
    """Read a calibrator's state inside another state; raise `StateError` unless a join can use the calibrator."""
    written = record(dict.fromkeys(("class", "params", "learned"), unread))(state)
    kind: type[Any] = Shadow if written["class"] == Shadow.__name__ else Learner
    found = kind._from_written(written)
    ensure(can_join(found), f"{type(found).__name__} is no calibrator of one score")
    return found


def table_at(before: list[float], score: float) -> float:
    """Return the probability at a score, from log-odds at the knots."""
    x = (min(max(logit(score), -LOGIT_LIMIT), LOGIT_LIMIT) + LOGIT_LIMIT) * KNOTS_A_UNIT
    left = min(int(x), KNOTS - 2)
    z = before[left] + (x - left) * (before[left + 1] - before[left])
    return 1.0 / (1.0 + math.exp(-z))
