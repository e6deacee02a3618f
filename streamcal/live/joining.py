"""`Joining`: what joins of predictions and labels share: the clock, the versions of the model, checks, the journal."""

from __future__ import annotations

import gc
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import ClockError, InputError, StateError, warn
from streamcal.kernels.pending.pending_steps import HIGHEST, PendingSteps
from streamcal.kernels.pending.pending_table import PendingTable
from streamcal.learners.choosing import chosen
from streamcal.live import events, join_state
from streamcal.live.early import DelayCurve
from streamcal.live.issued import Id, Keys, check_id, check_keys, seconds
from streamcal.live.journal import Journal
from streamcal.live.level_store import LevelRows
from streamcal.live.versions import VersionLearner, can_join, take_first_time
from streamcal.parameters.inputs import check_score, check_time, of_one_kind
from streamcal.parameters.numbers import real_number
from streamcal.parameters.spans import LARGEST_SPAN, in_shorter_unit, shorter_unit
from streamcal.parameters.types import Time
from streamcal.saved import WithState

#: An event this many horizons from the clock is refused: a wrong unit, or a wrong clock.
JUMP_HORIZONS = 100.0
#: Versions whose calibration is kept, the newest.
MOST_VERSIONS = 8

Span = float | timedelta | str
#: Methods that take events of a journal again, by the kind of the event.
Takers = dict[int, Callable[..., object]]


def joinable(calibrator: Any) -> Any:
    """Return a calibrator of one score, made by its name if that is given; raise `InputError` for anything else."""
    made = chosen(calibrator, Calibrator, REGISTRY) if isinstance(calibrator, str) else calibrator
    if not can_join(made):
        raise InputError(f"calibrator {calibrator!r} is none of one score; give such as Auto() or OnlinePlatt()")
    return made


def checked_spans(
    calibrator: Any, horizon: Span, early: Span | None, early_share: float, late: Span | None
) -> tuple[float, float | None, float, float]:
    """Return horizon, early, early_share and late in seconds, as a calibrator can use them, or raise `InputError`."""
    span = seconds(horizon, "horizon")
    window = None if early is None else seconds(early, "early")
    between = "a number between 0 and 1, both excluded"
    share = real_number(early_share, "early_share", between, above=0.0, below=1.0)
    remembered = span if late is None else seconds(late, "late", or_zero=True)
    if window is not None and not window < span:
        raise InputError(f"early={early!r} is not possible; give less than the horizon, {horizon!r}, or None")
    if window is not None and calibrator.scale.domain != (0.0, 1.0):
        raise InputError(f"early needs scores that are probabilities, {calibrator!r} takes others; leave it out")
    return span, window, float(share), remembered


class Joining(WithState):
    """The part of a join that has the clock, the versions of the model, the share of early clicks, and the journal.

    Its owner writes events to the journal, and takes them again.
    """

    spans: Any
    max_held: int
    max_unknown: int
    max_jump: float
    max_behind: float
    replayed = 0  #: events of the journal that were taken again, after its snapshot
    _journal: Journal | None
    _note: str | None
    _versions: dict[Id | None, VersionLearner]
    _newest: Id | None
    _now: PendingSteps  # the clock, the counts, and what else changes with each event
    _curve: DelayCurve | None
    _begun_again = "begin again without it"  # what repairs a clock that is far ahead
    _used_again = "give its parameters or another path"  # what uses the journal of another join

    def _limit_times(self, jump: Span | None, behind: Span | None) -> None:
        """Set how far the time of an event may be from the clock, and that of an impression behind it."""
        horizon = self.spans.horizon
        self.max_jump = JUMP_HORIZONS * horizon if jump is None else seconds(jump, "max_jump")
        self.max_behind = horizon if behind is None else seconds(behind, "max_behind", or_zero=True)

    def _begin_clock(self, calibrator: Any, table: PendingTable | None = None) -> None:
        """Set the clock and the versions of a join that has issued nothing."""
        horizon, early, expected, late = self.spans[:4]
        self._now = PendingSteps(table, horizon, early, late)
        self._versions = {None: VersionLearner(calibrator)}
        self._newest = None
        self._first, self._last = calibrator.scale.domain
        self._curve = None if early is None else DelayCurve(early, horizon, expected)
        self._follow_curve()
        self._note = None  # as JSON
        # of this process: a date with or without a time zone, or a number
        self._first_time: Time | None = take_first_time(calibrator)
        self._warned_of_share = False

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def calibrator(self) -> Any:
        """The calibrator of the newest version."""
        return self._versions[self._newest].calibrator

    @property
    def clock(self) -> float:
        """The latest time of an impression or of `advance`; −∞ before the first."""
        return float(self._now.clock)

    @property
    def versions(self) -> list[tuple[Id | None, Any, float]]:
        """The versions of the model whose calibration is kept, the newest last.

        Each version has its name, its calibrator, and the calibrator's weight in predictions. The map of the version
        before has the rest of the weight.
        """
        versions = self._versions.items()
        return [(name, one.calibrator, 1.0 if one.before is None else 1.0 - one.weight) for name, one in versions]

    def early_share(self) -> tuple[float, float]:
        """Return the share of clicks known within `early`, and its standard error; needs `early`.

        Raises
        ------
        InputError
            Without `early`.
        """
        if self._curve is None:
            raise InputError("this join has no early window; give early= to the constructor")
        return self._curve.share()

    @property
    def learns_at_horizon(self) -> bool:
        """Whether labels are learned at the horizon now: without `early`, at first, or while its share is below 0.1."""
        return bool(self._now.waits)

    def report_delay(self) -> float | None:
        """Return how many seconds after their own time clicks are reported, on average; None before the first.

        The mean is over the last 4,000 clicks or so that this process was given for predictions it remembers. A click
        is reported at the clock at which `resolve` is called.
        """
        return float(self._now.report_delay) if self._now.reports else None

    def predict_one(
        self, score: float, t: Time | None = None, *, keys: Keys | None = None, version: Id | None = None
    ) -> float:
        """Return the probability that `issue` would give now, without learning a label; the state does not change.

        Parameters
        ----------
        score, keys
            As in `issue`.
        t : float or datetime, optional
            As in `issue`; the clock by default, and no time before the first event. Labels whose time comes only then
            are not learned.
        version : str, int or None
            As in `issue`; one that has issued nothing yet is taken to be the newest.
        """
        checked, levels = self._check_score(score), self._check_keys(keys)
        if t is not None:
            of_one_kind(t, self._first_time)
        time = (self._now.clock if self._now.clock > -math.inf else None) if t is None else check_time(t)
        named = self._newest if version is None else check_id(version, "version")
        learner = self._versions.get(named) or self._versions[self._newest]
        p = learner.predict(checked * self._now.factor, levels, time)
        return p if self._now.factor == 1.0 else self._of_horizon(p, checked)

    def _of_horizon(self, p: float, score: float) -> float:
        """Convert the probability of a click that is known early to that of a click within the horizon."""
        return max(p, min(p / self._now.factor, max(HIGHEST, score)))

    def _shown(self) -> str:
        """Return the calibrator and the spans as arguments of the constructor."""
        horizon, early, _, late = self.spans[:4]
        window = "" if early is None else f", early={early!r}"
        remembered = "" if late == horizon else f", late={late!r}"
        return f"{self.calibrator!r}, horizon={horizon!r}{window}{remembered}"

    # -- events ----------------------------------------------------------------------------------------------------

    def advance(self, t: Time) -> None:
        """Tell the time where no impression does: labels whose time has come are learned.

        A time before the clock changes nothing; errors are those of `resolve`.
        """
        time = self._near(t)
        self._make_ready()
        if self._journal is not None:
            self._journal.append(events.advanced(time))
        self._advance(time)

    def _make_ready(self) -> None:
        """Check that there is room for an event, before anything is changed."""
        if self._journal is not None:
            self._journal.require_room()

    def _advance(self, t: float) -> None:
        self._now.clock = max(self._now.clock, t)
        self._settle()

    @abstractmethod
    def _settle(self) -> None:
        """Learn the labels whose time has come, and forget what has been remembered long enough."""

    def _has_turned(self, number: int) -> bool:
        """Return whether labels were learned at another age when a prediction was issued."""
        return bool(number < self._now.since)

    def _was_early(self, number: int) -> bool:
        """Return whether the label of a prediction was learned early."""
        return not self._now.waits or self._has_turned(number)

    def _turn_curve(self, curve: DelayCurve) -> None:
        """Follow the share after clicks were added to the curve, and warn where it is too small."""
        curve.turn(self._now.number)
        if curve.has_few and not self._warned_of_share:
            self._warned_of_share = True
            late = self.report_delay()
            reported = "" if late is None else f", and they are reported {late:.4g} s after their own time on average"
            warn(
                f"few clicks are known within early={self.spans[1]:g} s, {100.0 * curve.share()[0]:.2g} %{reported}: "
                "labels are learned at the horizon while the share is so small; give a longer early, or None"
            )
        self._follow_curve()

    def _follow_curve(self) -> None:
        """Take over the share of clicks known early, and the age at which labels are learned."""
        now, curve = self._now, self._curve
        if curve is not None:
            now.factor, now.hold, now.waits, now.since = curve.factor, curve.hold, curve.waits, curve.since

    def _begin(self, version: Id | None) -> VersionLearner:
        """Start the calibration of a version seen for the first time, and return it."""
        first = not self._now.number  # the calibrator that was given is that of the first version
        newest = self._versions.pop(self._newest) if first else self._versions[self._newest]
        self._versions[version] = begun = newest if first else newest.successor()
        self._newest = version
        if len(self._versions) > MOST_VERSIONS:
            self._versions.pop(next(iter(self._versions))).tell(None)
        self._write_changes(version)
        return begun

    def _change(self, version: Id | None, what: str, name: str, calibrator: Any) -> None:
        """Change the shadow of a version as it was changed before."""
        learner = self._versions.get(version)
        if learner is None:
            raise StateError(f"the journal holds a change of version {version!r}, which is not there")
        learner.change(what, name, calibrator)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_score(self, score: Any) -> float:
        """Check that the calibrator accepts the score, and return it; raise `InputError` otherwise."""
        checked = check_score(score)
        self._versions[self._newest].calibrator.scale.coordinate(checked)
        return checked

    def _check_keys(self, keys: Any) -> dict[str, str | int] | None:
        """Return the levels present; raise `InputError` also if a field that the calibrator reads has another name."""
        if keys is not None:
            self.calibrator.require_names(keys)
        return check_keys(keys)

    def _time(self, t: Time) -> float:
        """Check a time and return it in seconds; `InputError` also for one without a time zone beside others."""
        time = check_time(t)
        self._first_time = of_one_kind(t, self._first_time)
        return time

    def _near(self, t: Time) -> float:
        """Check a time as `_time`, and that it is near enough to the clock."""
        time = t if t.__class__ is self._first_time.__class__ is float and -math.inf < t < math.inf else self._time(t)
        if abs(time - self._now.clock) > self.max_jump:  # or nothing has happened so far
            self._check_far(time)
        return time

    def _check_far(self, t: float) -> None:
        """Raise `ClockError` for a time that is too far from the clock; warn of a first one in another unit."""
        if self._now.clock == -math.inf:
            if in_shorter_unit(t) and self.spans.horizon < LARGEST_SPAN:
                unit, horizon = shorter_unit(t)[1], self.spans.horizon
                warn(
                    f"times such as {t:.15g} look like {unit}, and the horizon is {horizon:g} s: give times in seconds"
                )
            return
        raise ClockError(
            f"time {t!r} is {abs(t - self.clock):.4g} s from the clock, {self.clock!r}, and more than max_jump="
            f"{self.max_jump:.4g}; drop the event, repair its unit (seconds) or its clock, or give a larger max_jump"
        )

    def _check_behind(self, t: float) -> None:
        """Raise `ClockError` for an impression that is too far behind the clock."""
        if self._now.clock - t > self.max_behind:
            raise ClockError(
                f"the impression is {self._now.clock - t:.6g} s older than the latest event, and more than max_behind="
                f"{self.max_behind:.6g}: drop it or correct its time; or an event before was far ahead, at "
                f"{self._now.clock:.15g}: {self._begun_again}"
            )

    # -- journal -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _limit(self, held: int, unknown: int) -> bool:
        """Set the limits and forget what is beyond them; return whether they are others than before."""

    def _takers(self) -> Takers:
        """Return the methods that take events of all joins again."""
        return {events.ADVANCE: self._advance, events.NOTE: self._keep_note, events.CHANGE: self._change}

    @abstractmethod
    def _replay(self, journal: Journal) -> int:
        """Take events of a journal again, and return how many they are."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._journal is not None:
            raise StateError(
                f"{self._journal.path}: a join with a journal belongs to one process, which alone writes to it; give "
                "another one its to_bytes(), to predict there"
            )
        return super().__reduce__()

    def acknowledge(self) -> int:
        """Return when all events so far are on the disk; how many there are. Any thread may call it.

        Raises
        ------
        InputError
            Without a journal.
        StateError
            If they cannot be written; they are kept, to be written with the next call.
        """
        return self._with_journal().acknowledge()

    def snapshot(self) -> None:
        """Write the whole state to the journal, and drop the events that led to it, so that it stays small.

        Call it now and then, such as once an hour or after a million events: resuming takes the events after it again.
        O(size of the state).
        """
        self._with_journal().snapshot(self._parts())
        self._levels_stored()()

    @abstractmethod
    def _parts(self) -> Iterator[bytes | bytearray]:
        """Yield the state as bytes, in parts; nothing must change meanwhile."""

    def _levels_stored(self) -> Callable[[], None]:
        """Return what to call when the state written last is safe: states before it need no levels in a store."""
        numbered = [(rows, rows.number) for rows in map(_rows_of, self._versions.values()) if rows is not None]

        def stored() -> None:
            for rows, number in numbered:
                rows.stored(number)

        return stored

    @property
    def uses_store(self) -> bool:
        """Whether levels are in a store, which no forked process can write to."""
        return any(_rows_of(learner) is not None for learner in self._versions.values())

    @property
    def noted(self) -> Any:
        """The data of the last `note`; None if there was none."""
        return None if self._note is None else json.loads(self._note)

    def note(self, data: Any) -> None:
        """Keep plain data with the state and in the journal, between the events before and after it.

        An example is the place in the source of the events: a consumer that notes the place before each `acknowledge`
        resumes from `noted` after it was killed, and reads no event twice.

        Parameters
        ----------
        data
            What `json` can write. It takes the place of the note before.

        Raises
        ------
        InputError
            For other data; nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.

        Examples
        --------
        >>> from streamcal import OnlinePlatt
        >>> from streamcal.live import LabelJoin
        >>> join = LabelJoin(OnlinePlatt(), horizon=3600.0)
        >>> join.note({"offset": 17})
        >>> LabelJoin.from_bytes(join.to_bytes()).noted
        {'offset': 17}
        """
        try:
            note = json.dumps(data, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"a note has to be plain data, which JSON can hold: {error}") from None
        if self._journal is not None:
            self._journal.append(events.noted(note))
        self._keep_note(note)

    def _keep_note(self, note: str) -> None:
        self._note = note

    def _write_changes(self, version: Id | None) -> None:
        """Write all later changes of the version's shadow, if the version has one, to the journal."""
        if (journal := self._journal) is not None:
            if (rows := _rows_of(self._versions[version])) is not None:
                rows.joined = True
            self._versions[version].tell(
                lambda what, name, calibrator: journal.append(events.changed(version, what, name, calibrator))
            )

    def _with_journal(self) -> Journal:
        if self._journal is None:
            raise InputError("this join has no journal; give journal=Journal(path) to the constructor")
        return self._journal

    def _resume(self, journal: Journal) -> None:
        """Take over the state that a journal holds, and write to it from now on."""
        limits = self.max_held, self.max_unknown
        with paused_collector():
            self._take_over(journal)
            self._levels_stored()()  # a process that was killed right after a snapshot did not come to it
            self.replayed = self._replay(journal)  # with the limits under which they came
        self._journal = journal
        for version in self._versions:
            self._write_changes(version)
        if self._limit(*limits) or not journal.has_snapshot:
            self.snapshot()

    def _take_over(self, journal: Journal) -> None:
        """Load the snapshot of a journal, if there is one."""
        if journal.has_snapshot:
            saved = type(self)._from_written(join_state.written_in(journal.parts()))
            if saved.spans != self.spans or not saved.calibrator.same_parameters(self.calibrator):
                raise StateError(f"{journal.path} is the journal of another join, {saved!r}; {self._used_again}")
            bounds = {"max_jump": self.max_jump, "max_behind": self.max_behind}
            self.__dict__ = {**saved.__dict__, **bounds}


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at all that is held again and again while it is made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _rows_of(learner: VersionLearner) -> LevelRows | None:
    """Return the rows of a version's levels in a store; None without a store."""
    return getattr(learner.calibrator, "_level_rows", None)
