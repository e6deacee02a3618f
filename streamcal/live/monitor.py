"""`CalibrationMonitor`: tells when issued probabilities or distributions depart from their outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from numpy.typing import ArrayLike

from streamcal.errors import CapabilityError, InputError, MergeError
from streamcal.kernels.common.fast_path import plain_keys
from streamcal.live.alarms import Alarm, Segment, alarm_of, new_bets, stepped
from streamcal.live.levels import LONGEST_LEVEL, check_field, column_of, level_of
from streamcal.live.segments import SegmentFamily, bets_fields, loaded
from streamcal.metrics.base import check_forecasts, check_probabilities, check_probability, check_true
from streamcal.parameters.inputs import check_scores
from streamcal.parameters.numbers import real_number, whole_number
from streamcal.parameters.types import FloatArray, Label
from streamcal.saved import WithState
from streamcal.states import Field, attribute, ensure, flag, load_fields, maybe, unread, whole, write_fields

logger = logging.getLogger(__name__)
#: Where logging is not configured, Python would write alarms to standard error, beside what a program does with them.
logger.addHandler(logging.NullHandler())

#: From this many PITs on it is seen that they repeat.
FIRST_PITS = 64
#: The α of a monitor that is given neither parameter.
DEFAULT_ALPHA = 0.05


class CalibrationMonitor(WithState):
    """An alarm that is raised as soon as outcomes contradict the probabilities that were issued for them.

    Twelve bets are made on every outcome, each against the issued probability p with log-odds x: that events are more
    or less frequent, σ(x + a), or depend more or less on the prediction, σ(x + b·(x − x̄)), x̄ being the mean log-odds
    so far. If P(y = 1 | all that was known before) = p, the likelihood ratio of each bet has mean 1.

    - `alpha`: an e-process, the mixture of all bets over all times at which a change may come. If the probabilities
      are right, the chance that it ever reaches 1/α is at most α (Ville's inequality), so that it may be read after
      every outcome. It raises one alarm and then stops.
    - `run_length`: a Shiryaev–Roberts e-detector, the sum over all starts of the bets from there. If the probabilities
      are right, the mean number of outcomes until a false alarm is at least `run_length`, and at most n/`run_length`
      false alarms are expected among n outcomes. It restarts after each alarm, and detects late changes sooner.

    Predictions may be distributions instead: `update_pit` takes u = F(y), uniform if they are right, and bets that the
    normal scores Φ⁻¹(u) are shifted or scaled. A monitor watches either labels or PITs.

    Segments are watched too: every pair of field and level in `keys`. They are a family of their own. With `alpha`, the
    false discovery rate among the segments with an alarm is at most α (e-BH); if all probabilities are right, the
    chance that any segment ever raises one is at most α. With `run_length`, the bounds above apply to the alarms of all
    segments together. The alarm of all outcomes and those of segments each have the bound, so that with keys the chance
    of any false alarm is at most 2α.

    Parameters
    ----------
    alpha : float, optional
        Above 0 and below 1; 0.05 if neither is given.
    run_length : float, optional
        More than 1, in outcomes, such as 1e6.
    max_segments : int
        The number of segments in memory, default 1,000. At the limit, a new segment replaces the one that has been
        longest without an outcome and has no alarm; a replaced segment starts with nothing if it comes back. When all
        have an alarm, new ones are not watched. Both are counted in `tally`.
    on_alarm : callable, optional
        Called with each `Alarm`, after the state has changed; without it alarms are logged. It is not part of the
        state: set the attribute of what `from_state` and `from_bytes` return.

    Notes
    -----
    The bounds are valid for any model, drift and traffic, provided that each p was fixed before its outcome, and that
    the order of outcomes does not depend on them. Give them in the order of issue, once the horizon of late labels has
    passed. An order in which clicks come on arrival and negatives at a time-out does.

    Outcomes have no weights: the mean of a likelihood ratio raised to a weight is not 1. Add n equal outcomes by n
    updates. A probability of exactly 0 or 1 is a certainty: its outcome is only counted, and its opposite raises an
    alarm at once, with an infinite e-value.

    Cost: O(1) for an outcome and for each of its segments. `update_many` without keys is faster.

    References
    ----------
    A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, Game-theoretic statistics and safe anytime-valid inference,
    Statistical Science 38, 2023; J. Shin, A. Ramdas and A. Rinaldo, E-detectors: a nonparametric framework for
    sequential change detection, New England Journal of Statistics in Data Science 2, 2024; R. Wang and A. Ramdas, False
    discovery rate control with e-values, Journal of the Royal Statistical Society B 84, 2022.

    Examples
    --------
    >>> monitor = CalibrationMonitor(alpha=0.05)
    >>> right = [k % 10 == 0 for k in range(1000)]
    >>> monitor.update_many(right, [0.1] * 1000)
    []
    >>> doubled = [k % 5 == 0 for k in range(500)]
    >>> print(*monitor.update_many(doubled, [0.1] * 500))
    events are more frequent than predicted, since outcome 1001 (e-value 21.4 at outcome 1226)
    """

    def __init__(
        self,
        alpha: float | None = None,
        run_length: float | None = None,
        *,
        max_segments: int = 1000,
        on_alarm: Callable[[Alarm], object] | None = None,
    ) -> None:
        if alpha is not None and run_length is not None:
            raise InputError(f"alpha={alpha!r} and run_length={run_length!r} are two monitors; give one of them")
        if run_length is None:
            alpha = DEFAULT_ALPHA if alpha is None else alpha
            alpha = real_number(alpha, "alpha", "a probability, such as 0.05", above=0.0, below=1.0)
        else:
            outcomes = "a number of outcomes, such as 1e6"
            run_length = real_number(run_length, "run_length", outcomes, above=1.0, most=1e15)
        if on_alarm is not None and not callable(on_alarm):
            raise InputError(f"on_alarm {on_alarm!r} cannot be called; give a function of one alarm")
        self.alpha = alpha
        self.run_length = run_length
        self.max_segments = whole_number(max_segments, "max_segments", 0, allowed="a whole number, such as 1000")
        self.on_alarm = on_alarm
        self._restarting = run_length is not None
        self._threshold = float(run_length) if run_length is not None else 1.0 / float(alpha or 1.0)
        self._bets = new_bets(self._restarting)
        self._stopped = False
        self._of_pits: bool | None = None  #: what it watches; None before the first outcome
        self._count = 0
        self._first_pits: list[float] = []  # of this process
        self._family = SegmentFamily(self._threshold, self._restarting, self.max_segments)

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of outcomes added."""
        return self._count

    @property
    def e_value(self) -> float:
        """The e-value of all outcomes: 1 at the start, and the alarm's value after an alarm.

        With `run_length` it is the value of the e-detector: 0 at the start and after an alarm.
        """
        return self._bets.value()

    @property
    def e_values(self) -> dict[Segment, float]:
        """The e-value of each segment in memory."""
        return self._family.e_values()

    @property
    def alarmed(self) -> list[Segment | None]:
        """With `alpha`, the segments with an alarm, in the order of alarms; None stands for all outcomes."""
        return [*([None] if self._stopped else []), *self._family.rejected]

    def discoveries(self) -> list[Segment]:
        """Return the segments that the e-BH procedure rejects: those with an alarm, and maybe more.

        Segments without an alarm are among them if their evidence suffices together. The false discovery rate is at
        most α, whenever this is called. O(s log s) for s segments.

        Raises
        ------
        CapabilityError
            With `run_length`, whose values are no e-values.
        """
        if self._restarting:
            raise CapabilityError("a monitor with a run length has no e-values of segments; give alpha instead")
        return self._family.discoveries()

    def tally(self) -> dict[str, int]:
        """Count segments that were "evicted", and outcomes of segments that were "unwatched" for lack of space."""
        return {"evicted": self._family.evicted, "unwatched": self._family.unwatched}

    # -- outcomes --------------------------------------------------------------------------------------------------

    def update(self, y_true: Label, y_pred: float, keys: Mapping[str, str | int] | None = None) -> Alarm | None:
        """Add one outcome.

        Parameters
        ----------
        y_true : bool, 0 or 1
            The label.
        y_pred : float
            The probability that was issued, in [0, 1].
        keys : mapping, optional
            Field → level, a text or a whole number; every pair is a segment. A level that is None, NaN or ""
            is in none.

        Returns
        -------
        Alarm or None
            The alarm that this outcome raised. If there are several, the first: that of all outcomes, then those of
            the segments in the order of `keys`. All are passed to `on_alarm`, or logged without it.

        Raises
        ------
        InputError
            Where an argument is invalid; nothing is changed then.
        """
        keyed = keys is not None and _there(keys)
        if not keyed and self._of_pits is False and not self._stopped:  # fast path, of a float and a bool
            value = self._bets.step_fast(y_pred, y_true, self._count + 1)
            if value < self._threshold:
                self._count += 1
                return None
            if value >= self._threshold:
                self._count += 1
                return self._report([self._alarm(y_pred)])
        label = check_true(y_true)
        return self.update_checked(check_probability(y_pred), label, segments_of(keys) if keyed else ())

    def update_checked(self, p: float, y: float, segments: Iterable[Segment]) -> Alarm | None:
        """Update by checked values: p in [0, 1], y 0.0 or 1.0, and pairs of a field and a level."""
        self._watch(of_pits=False)
        alarms = self._take(p, y, segments)
        return self._report(alarms) if alarms else None

    def update_pit(self, u: float, keys: Mapping[str, str | int] | None = None) -> Alarm | None:
        """Add one outcome of a predictive distribution, otherwise as `update`.

        Alarms are of a "location" or a "spread". `u` is F(y), the probability that the distribution gave to outcomes up
        to y, in [0, 1]. It has to be continuous. Where F jumps, as that of counts, F(y) is not uniform, and there are
        false alarms: give F(y−) + V·(F(y) − F(y−)) with a uniform V drawn for each outcome.

        Raises
        ------
        InputError
            If labels were given to this monitor, or if the first 64 values since it was made are half or more
            repetitions, as those of counts.

        Examples
        --------
        >>> monitor = CalibrationMonitor(alpha=0.05)
        >>> print([str(alarm) for k in range(100) if (alarm := monitor.update_pit(0.4 + 0.002 * k))][0])
        outcomes scatter less than predicted (distributions are too wide), since outcome 1 (e-value 41.2 at outcome 10)
        """
        probability = check_probability(u)
        z, segments = float(normal_scores(probability)), segments_of(keys) if _there(keys) else ()
        self._note_pits([probability])
        self._watch(of_pits=True)
        return self._report(self._take(z, None, segments))

    def update_many(
        self, y_true: ArrayLike, y_pred: ArrayLike, keys: Mapping[str, Iterable[str | int]] | None = None
    ) -> list[Alarm]:
        """Add n outcomes in their order: the same state as a loop of `update`.

        `y_true`, `y_pred` and the levels of each field in `keys` have shape (n,). Return all alarms in their order;
        with keys, those of one outcome in the order of `update`. On an error nothing is added.
        """
        probabilities, labels, _ = check_forecasts(y_true, y_pred)
        return self._take_all(probabilities, labels, keys)

    def update_pits(self, u: ArrayLike, keys: Mapping[str, Iterable[str | int]] | None = None) -> list[Alarm]:
        """Add n outcomes of predictive distributions in their order: the same state as a loop of `update_pit`.

        `u` has shape (n,); otherwise as `update_many`.
        """
        probabilities = check_probabilities(check_scores(u))
        self._note_pits(probabilities[:FIRST_PITS].tolist())
        return self._take_all(normal_scores(probabilities), None, keys)

    def _note_pits(self, u: list[float]) -> None:
        """Note the first values; raise `InputError` where they repeat as those of a distribution with jumps do."""
        if len(self._first_pits) == FIRST_PITS:
            return
        first = (self._first_pits + u)[:FIRST_PITS]
        if len(first) == FIRST_PITS and 2 * len(set(first)) <= FIRST_PITS:
            raise InputError(
                f"{FIRST_PITS} PITs have {len(set(first))} values: those of counts, and of other distributions with "
                "jumps, are not uniform; give F(y−) + V·(F(y) − F(y−)) with V drawn uniformly for each outcome, or use "
                "PITHistogram"
            )
        self._first_pits = first

    def _watch(self, of_pits: bool) -> None:
        """Raise `InputError` if the other kind of outcome was given before."""
        if self._of_pits is not None and self._of_pits is not of_pits:
            seen, offered = ("PITs", "labels") if self._of_pits else ("labels", "PITs")
            raise InputError(f"this monitor watches {seen} and cannot take {offered}; give them to another monitor")
        self._of_pits = of_pits

    def _take_all(
        self, p: FloatArray, y: FloatArray | None, keys: Mapping[str, Iterable[str | int]] | None
    ) -> list[Alarm]:
        """Return the alarms raised by checked outcomes: probabilities and labels, or normal scores and None."""
        rows = rows_of_segments(keys, len(p)) if _there(keys) else None
        if len(p):
            self._watch(of_pits=y is None)
        if rows is None:
            alarms = list(self._take_many(p, y))
        else:
            labels = [None] * len(p) if y is None else y.tolist()
            alarms = [alarm for row in zip(p.tolist(), labels, rows, strict=True) for alarm in self._take(*row)]
        self._report(alarms)
        return alarms

    def _take(self, p: float, y: float | None, segments: Iterable[Segment]) -> list[Alarm]:
        """Return the alarms raised by one checked outcome: a probability and a label, or a normal score and None."""
        self._count = now = self._count + 1
        alarms = []
        if not self._stopped and stepped(self._bets, p, y, now) >= self._threshold:
            alarms.append(self._alarm(p))
        for segment in segments:
            alarm = self._family.step(segment, p, y, now)
            if alarm is not None:
                alarms.append(alarm)
        return alarms

    def _take_many(self, p: FloatArray, y: FloatArray | None) -> Iterator[Alarm]:
        """Yield the alarms raised by checked outcomes without segments."""
        place = 0
        while place < len(p) and not self._stopped:
            if y is None:
                used = self._bets.step_scores(p[place:], self._count + 1, self._threshold)
            else:
                used = self._bets.step_many(p[place:], y[place:], self._count + 1, self._threshold)
            place += used
            self._count += used
            if self._bets.value() >= self._threshold:
                yield self._alarm(float(p[place - 1]))
        self._count += len(p) - place

    def _alarm(self, p: float) -> Alarm:
        """Return the alarm of all outcomes, after which they stop or restart."""
        alarm = alarm_of(self._bets, None, p, self._of_pits is True, self._count)
        if self._restarting:
            self._bets = new_bets(restarting=True)
        else:
            self._stopped = True
        return alarm

    def _report(self, alarms: list[Alarm]) -> Alarm | None:
        """Pass each alarm on, or log it where nobody listens, and return the first."""
        for alarm in alarms:
            if self.on_alarm is None:
                logger.warning("%s", alarm)
            else:
                self.on_alarm(alarm)
        return alarms[0] if alarms else None

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        """Take over the evidence of a monitor that has seen other outcomes; `other` is not changed.

        With `alpha`, e-values are multiplied, bet by bet, so that the result is an e-process of both streams; a segment
        or monitor that has an alarm in one of them has it in the result. With `run_length` the values are added, and
        the bound holds for the outcomes of both. If the merged evidence suffices for an alarm, the next outcome raises
        it. Segments are those of this monitor, and then those of `other` in the order of their last outcomes, as far as
        `max_segments` allows. `since` counts the outcomes of the monitor that has seen most of the change.

        Valid only where no outcome was given to both monitors.

        Raises
        ------
        MergeError
            Unless `other` is another monitor of the same parameters, and of labels or PITs like this one.
        """
        if type(other) is not type(self) or other is self or other._plain_params() != self._plain_params():
            raise MergeError(f"{self!r} cannot take {other!r}: give another monitor of the same parameters")
        if {self._of_pits, other._of_pits} == {False, True}:
            raise MergeError("one monitor watches labels and the other PITs; give one of the same parameters and kind")
        self._of_pits = other._of_pits if self._of_pits is None else self._of_pits
        if other._stopped and not self._stopped:
            self._bets, self._stopped = loaded(tuple(other._bets.state()), self._restarting), True
        elif not self._stopped:
            self._bets.pool(other._bets)
        self._family.merge(other._family)
        self._count += other._count

    def _fields(self) -> dict[str, Field]:
        return {
            "n": attribute(self, "_count", whole()),
            "of_pits": attribute(self, "_of_pits", maybe(flag)),
            "stopped": attribute(self, "_stopped", flag),
            "bets": Field(unread, self._bets.state),
            "segments": Field(unread, self._family.state),
        }

    def _state(self) -> dict[str, Any]:
        return write_fields(self._fields())

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        monitor = cls(**params)
        monitor._load(**load_fields(monitor._fields(), learned))
        return monitor

    def _load(self, bets: Any, segments: Any) -> None:
        """Load the evidence, after the other fields."""
        ensure((self._of_pits is None) == (self._count == 0), "what is watched is unknown")
        ensure(not (self._stopped and self._restarting), "a monitor with a run length does not stop")
        self._bets = loaded(bets_fields(self._count)(bets), self._restarting)
        self._family.restore(segments, self._count)

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_listener, (type(self), self.to_bytes(), self.on_alarm)

    def __repr__(self) -> str:
        arguments = {name: value for name, value in self._plain_params().items() if value is not None}
        if self.max_segments == 1000:
            del arguments["max_segments"]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def _plain_params(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "run_length": self.run_length, "max_segments": self.max_segments}


def _with_listener(kind: type[CalibrationMonitor], content: bytes, on_alarm: Callable[[Alarm], object] | None) -> Any:
    """Return a copy of a monitor with the same listener."""
    monitor = kind.from_bytes(content)
    monitor.on_alarm = on_alarm
    return monitor


def normal_scores(u: Any) -> Any:
    """Return Φ⁻¹(u) of a float or an array; infinite at 0 and 1."""
    from scipy.special import ndtri  # not at the top: labels do not need it, and importing it takes long

    return ndtri(u)


def _there(keys: Any) -> bool:
    """Return whether there are keys: not None, and no empty mapping."""
    return keys is not None and not (isinstance(keys, Mapping) and len(keys) == 0)


def segments_of(keys: Any) -> list[Segment]:
    """Return the segments of the keys, without missing levels; raise `InputError` for what is no level."""
    plain: dict[str, str | int] | None = plain_keys(keys, LONGEST_LEVEL)
    if plain is not None:
        return list(plain.items())
    if not isinstance(keys, Mapping):
        raise InputError(f"keys {keys!r} are no mapping; give fields and levels, such as {{'campaign': 'c17'}}")
    levels = [(check_field(field), level_of(field, level)) for field, level in keys.items()]
    return [(field, level) for field, level in levels if level is not None]


def rows_of_segments(keys: Any, length: int) -> Iterator[list[Segment]]:
    """Check columns of keys, then return an iterator over the segments of each of `length` outcomes.

    Missing levels are left out.
    """
    if not isinstance(keys, Mapping):
        raise InputError(f"keys {keys!r} are no mapping; give fields and columns of levels")
    columns = []
    for field, levels in keys.items():
        read = column_of(check_field(field), levels, length)
        columns.append([None if level is None else (field, level) for level in read])
    rows = zip(*columns, strict=True)
    if any(None in column for column in columns):
        return ([segment for segment in row if segment is not None] for row in rows)
    return map(list, rows)
