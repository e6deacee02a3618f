"""`LabelJoin`: predictions are issued now; their labels come later, and are learned in the order of issue."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from heapq import heappop, heappush
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError, StoreError, StreamcalError, warn
from streamcal.kernels.pending.pending_table import PendingTable
from streamcal.live import events, join_state
from streamcal.live.counted_join import CountedJoin
from streamcal.live.holding import Holding, issued_at, outcome_at
from streamcal.live.issued import (
    AT_ONCE,
    RETRIED,
    ConflictError,
    Id,
    Issued,
    Keys,
    Outcome,
    Rows,
    check_id,
    ids_of,
    is_plain,
    levels_of,
    rows_of,
)
from streamcal.live.joining import Joining, checked_spans, joinable
from streamcal.live.journal import Journal
from streamcal.live.replaying import Replaying
from streamcal.parameters.inputs import as_floats, check_label, check_weight, numbers_or_moments
from streamcal.parameters.keys import LARGEST_WHOLE
from streamcal.parameters.numbers import one_of, whole_number
from streamcal.parameters.types import Columns, FloatArray, Label, Time, Times
from streamcal.saved import own_class

logger = logging.getLogger(__name__)

#: A warning comes where this many impressions in a row are far behind the clock.
MANY_BEHIND = 100
#: A warning comes where this many clicks were known only after a negative label was learned, and those are the most.
MANY_LATE = 100

#: Parameters of one kind of pending predictions alone.
OWN = {"each": ("max_held", "max_unknown"), "counts": ("key", "bucket", "cells", "max_rows", "click_bits")}


class Spans(NamedTuple):
    """The spans of a join; a state with other spans belongs to another join."""

    horizon: float
    early: float | None
    early_share: float
    late: float


class LabelJoin(Holding, Joining):
    """Joins predictions with the labels that come minutes or hours later, and lets a calibrator learn them.

    `issue` gives the calibrated probability of an impression and remembers it under its id, `resolve` tells what came
    of it, in any order, and `advance` tells the time where no impression does. What is learned is the score as issued,
    and mixtures are judged by what each of their parts said when the prediction was issued.

    **When.** Labels are learned in the order of issue, each when the clock has passed its time of issue by `horizon`: a
    positive outcome that came by then, else negative. Any order in which the outcomes before that come leads to the
    same state, to the last bit. The clock is the latest time of an impression or of `advance`; outcomes do not move it.
    By its own time, an outcome is positive up to `horizon` + `late` after its impression, and none later.

    **With `early`** labels are learned `early` after issue, and mean "a click is known by now". The calibrator is given
    the score times the share of clicks that are known so soon, and its probability is divided by that share, which is
    estimated from the clicks known up to `horizon` (`streamcal.live.early.DelayCurve`). Predictions are of a click
    within `horizon`, as without `early`. A click is known from its own time on, or from the clock at which `resolve` is
    called, if that is later, as where clicks are uploaded each hour. Until 10 clicks of each age up to the
    horizon are known, and with a share below 0.1, labels are learned at the horizon, as without `early`.

    Parameters
    ----------
    calibrator : str, Calibrator, Segmented, Multicalibrated or Shadow
        The method, or its name such as "auto". Of a `Shadow` the champion's probability is issued, and all learn, each
        judged by what it said then. Promotions, rollbacks and challengers that come and go are events of the journal
        too. The join teaches this object itself, as `join.calibrator`; it takes a new one where the version of the
        model changes or a journal is resumed. Give each join its own calibrator: a journal has the labels of its join
        alone.
    horizon : float, timedelta or str
        After this time, in seconds, an impression without an outcome counts as a negative.
    early : float, timedelta or str, optional
        Less than `horizon`; scores must be probabilities then.
    journal : Journal, optional
        Every event is written to it, and is safe once `acknowledge` has returned. A journal that contains events
        already is resumed from: the state is the one that wrote them, to the last bit. After a snapshot that another
        process wrote, as a child of `streamcal serve`, this needs exact sums of the weights.
    late : float, timedelta or str, optional
        For so long after it was learned, default `horizon`, a prediction is remembered. Without `early`, a click in
        this time corrects the negative that was learned. Where the order does not matter (`Forever`, policies by time),
        the negative is unlearned and the positive one learned, exactly; elsewhere the click is counted as
        "uncorrected". With 0, only clicks within the horizon count, as in an attribution window.
    early_share : float
        With `early`, the share that you expect, default 0.75; some clicks are enough to correct it.
    pending : str
        "each" remembers each prediction. With "counts" this constructor returns a `CountedJoin`, which has its own
        parameters: it counts predictions in constant memory, and its `issue` returns a token in place of an id. States
        of both are read by `LabelJoin.from_bytes` and `from_state`.
    max_held : int
        The number of predictions remembered, default 1,000,000; docs/late_labels_measured.md has what each takes. At
        this number, learned predictions are forgotten first. If this many wait for labels, every second one is dropped,
        and only every second new one is kept, then every fourth and so on until there is space. The choice is spread
        evenly and independent of outcomes, so fewer labels are learned, and without bias. All are kept again when a
        quarter of the space is enough. A journal may be resumed from with other limits: what is beyond is forgotten.
    max_unknown : int
        The number of outcomes of unknown ids set aside until their impression comes, default 10,000, the latest.
    max_jump : float, timedelta or str, optional
        Events further from the clock are refused, default 100 times `horizon`.
    max_behind : float, timedelta or str, optional
        Impressions older than the clock by more than this are refused, default `horizon`: one event that is stamped far
        ahead would otherwise keep all labels waiting until then.

    Raises
    ------
    InputError
        For other parameters.
    StateError
        If the journal holds the events of a join with other parameters.

    Notes
    -----
    Times are numbers in seconds, or dates. Dates without a time zone are refused beside numbers and dates with one. An
    impression with an earlier time than the one before keeps its place in the order and its time for the delay of its
    click. It is remembered as long as if it had been issued at the clock.

    A new `version` of the model gets a clone of the calibrator, which is mixed with the map of the version before
    (`streamcal.live.versions.VersionLearner`). The calibration of the last eight versions is kept.

    Not thread-safe, but `acknowledge` may be called by any thread. Cost: O(1) for an impression and its outcome, more
    with `Auto`, of which all parts are asked; docs/late_labels_measured.md has times.

    References
    ----------
    O. Chapelle, Modeling delayed feedback in display advertising, KDD 2014, on what is lost where negatives are learned
    before their time.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> join = LabelJoin(OnlinePlatt(), horizon=3600.0)
    >>> for k in range(1000):
    ...     issued = join.issue(id=k, score=0.1, t=float(k))
    ...     if k % 50 == 0:
    ...         known = join.resolve(id=k, y=True, t=k + 30.0)
    >>> round(issued.p, 9), join.waiting  # no label is known to be negative yet
    (0.1, 1000)
    >>> join.advance(t=6000.0)
    >>> round(join.issue(id="next", score=0.1, t=6000.0).p, 2), join.waiting
    (0.03, 1)
    """

    _begun_again = "begin again without it, or turn the clock of a journal back with migrate(clock=)"
    _used_again = "give its parameters or another path, or migrate it (streamcal.live.migrate, or serve --migrate)"

    def __new__(cls, *arguments: Any, pending: str = "each", **named: Any) -> Any:
        """Return a join; where predictions are to be counted, a `CountedJoin`."""
        counts = one_of(pending, "pending", tuple(OWN)) == "counts"
        kind, other = ("counts", "each") if counts else ("each", "counts")
        for name in OWN[other]:
            if name in named:
                raise InputError(f"{name}= needs pending={other!r}; leave it out for pending={kind!r}")
        return CountedJoin(*arguments, **named) if counts else super().__new__(cls)

    @classmethod
    def _of_class(cls, name: Any) -> Any:
        """Return the class of a state: a `CountedJoin` for one that counts, as the constructor does."""
        return CountedJoin if name == CountedJoin.__name__ else own_class(cls, name)

    def __init__(
        self,
        calibrator: Any,
        horizon: float | timedelta | str,
        early: float | timedelta | str | None = None,
        journal: Journal | None = None,
        *,
        pending: str = "each",
        late: float | timedelta | str | None = None,
        early_share: float = 0.75,
        max_held: int = 1_000_000,
        max_unknown: int = 10_000,
        max_jump: float | timedelta | str | None = None,
        max_behind: float | timedelta | str | None = None,
    ) -> None:
        calibrator = joinable(calibrator)
        self.spans = Spans(*checked_spans(calibrator, horizon, early, early_share, late))
        self.max_held = whole_number(max_held, "max_held", 2)
        self.max_unknown = whole_number(max_unknown, "max_unknown", 0)
        self._limit_times(max_jump, max_behind)
        #: Called with each prediction and label that is learned; no part of the state.
        self.on_learned: Callable[[Issued, bool], None] | None = None
        self._set_out(calibrator)
        self._journal: Journal | None = None
        if journal is not None:
            self._resume(journal)

    def _set_out(self, calibrator: Any) -> None:
        """Set up the state of a join that has issued nothing."""
        self._begin_clock(calibrator, PendingTable())
        self._hold_nothing()
        self._on_label: Callable[[Issued, bool], object] | None = None
        self._on_many: Callable[..., object] | None = None
        self._warned_of_reports = False

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The clock at which the next label is learned or the next prediction forgotten; ∞ where nothing is held."""
        return float(self._now.due)

    @property
    def newest(self) -> Id | None:
        """The newest version of the model."""
        return self._newest

    @property
    def takes_columns(self) -> bool:
        """Whether `issue_many` and `resolve_many` take plain rows by compiled steps: by the calibrator, so far."""
        return self._versions[self._newest].kernel is not None

    def tally(self) -> dict[str, int]:
        """Count events, none of which is an error.

        - `issued`, `learned`: predictions, and labels learned; of these `positives`, and `timed_out` without an
          outcome;
        - `repeated`: impressions issued again, and outcomes after the first one of an id; `contradicted`: ids with a
          positive and a negative one, of which the positive one counts;
        - `corrected`, `uncorrected`: positive outcomes in time that were known only after a negative was learned. With
          `early`, that is up to `early` after their impression, where the share makes up for it, or known after the
          horizon;
        - `unknown`: outcomes of ids that were not held; of these `matched` with an impression that came later, and
          `overflowed`, given up for lack of room;
        - for lack of room, `unheld`: predictions whose label is not learned, and `forgotten`: those that were not
          remembered after it was learned;
        - `backwards`: impressions older than the clock; `before_issue`: outcomes older than their impression, which
          count as immediate;
        - `refused`: labels that the calibrator refused, or whose version's calibration was dropped.
        """
        return dict(self._now.counts)

    # -- events ----------------------------------------------------------------------------------------------------

    def issue(
        self, id: Id, score: float, t: Time, *, keys: Keys | None = None, version: Id | None = None, w: float = 1.0
    ) -> Issued:
        """Issue the calibrated probability of an impression.

        Parameters
        ----------
        id : str or int
            Its own, by which `resolve` finds it: a printable text of up to 256 characters, a whole number or a UUID,
            read by value: 7, 7.0 and "7" are one id.
        score : float
            The score of the model.
        t : float or datetime
            The time of the impression.
        keys : mapping, optional
            Field → level, a text or a whole number; one that is None, NaN or "" is left out.
        version : str, int or None
            The version of the model; the newest by default.
        w : float
            The weight of the observation.

        Returns
        -------
        Issued
            The prediction. Where the id is remembered with the same score, the one that was issued then.

        Raises
        ------
        InputError
            For a bad value, a time too far from the clock (`ClockError`), or an id that is remembered with another
            score. Nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then. With levels in a store that cannot be read,
            a `StoreError`; the clock has moved then.
        """
        if not (is_plain(id) if id.__class__ is str else id.__class__ is int and -LARGEST_WHOLE <= id <= LARGEST_WHOLE):
            id = check_id(id)
        if score.__class__ is not float or not self._first <= score <= self._last:
            score = self._check_score(score)
        weight = w if w.__class__ is float and w == 1.0 else check_weight(w)
        levels = None if keys is None else self._check_keys(keys)
        if version is not None:
            version = check_id(version, "version")
        time = self._near(t)
        known = self._now.table.place_of(id)
        if known >= 0:
            if self._now.table.at(known) > time - self._now.keep:
                return self._issued_again(issued_at(self._now.table, known), score)
            self.advance(time)  # by which it is forgotten
            if self._now.table.place_of(id) >= 0:
                raise StoreError(f"the label of {id!r}, issued before, waits for its levels; try again")
        if self._now.clock - time > self.max_behind:
            self._check_behind(time)
        if self._journal is not None:
            self._journal.require_room()
        try:
            return self._issue(id, score, time, version, levels, weight, None)
        except StoreError:
            if self._journal is not None:
                self._journal.append(events.advanced(self._now.clock))  # which has moved
            raise

    def _issue(
        self, id: Id, score: float, t: float, version: Id | None, keys: Keys | None, w: float, served: float | None
    ) -> Issued:
        """Issue a checked impression; `served` is the probability in the journal, where it is issued again."""
        version = self._newest if version is None else version
        if version == self._newest and self._stride == 1 and self._use_steps():
            now = self._now
            p = now.issue_one(self, id, score, t, keys, w, math.nan if served is None else served)
            if p == p:
                # as `Issued(...)`, whose own constructor takes longer than all the rest
                one: Issued = tuple.__new__(Issued, (id, p, score, t, version, keys, w, now.clock, now.number - 1))
                if self._journal is not None:
                    self._journal.append(events.issued(one))
                self._tell()
                return one
        return self._issue_alone(id, score, t, version, keys, w, served)

    def _issue_alone(
        self, id: Id, score: float, t: float, version: Id | None, keys: Keys | None, w: float, served: float | None
    ) -> Issued:
        """Issue an impression that is not plain."""
        if t >= self._now.clock:
            self._now.clock, self._now.behind = t, 0
            self._settle()
        elif t < self._now.clock - self._now.hold:
            self._warn_of_clock()
        learner = self._versions.get(version) or self._begin(version)
        if served is not None and learner.traceless:
            p, record = served, None
        else:
            p, record = learner.issue(score * self._now.factor, keys, t, w, apart=self._now.factor != 1.0)
            if served is not None:
                p = served
            elif self._now.factor != 1.0:
                p = self._of_horizon(p, score)
        number = self._now.number
        self._now.number = number + 1
        self._now.issued += 1
        self._now.backwards += t < self._now.clock
        one = tuple.__new__(Issued, (id, p, score, t, version, keys, w, self._now.clock, number))
        if self._journal is not None:
            self._journal.append(events.issued(one))
        if self._room(number):
            place = self._now.table.add(id, p, score, t, version, keys, w, self._now.clock, number, record)
            if self._aside and id in self._aside:
                self._match(place, one)
        else:
            self._now.unheld += 1
            learner.give_up(score * self._now.factor, keys, record)
        return one

    def issue_many(
        self,
        ids: Sequence[Id] | NDArray[Any],
        scores: ArrayLike,
        t: Times,
        *,
        keys: Columns | Sequence[Keys | None] | None = None,
        version: Id | None = None,
        w: ArrayLike | None = None,
    ) -> FloatArray:
        """Issue the calibrated probabilities of impressions, in order: those of a loop of `issue`, to the last bit.

        Parameters
        ----------
        ids : sequence of shape (n,)
            As in `issue`.
        scores : array-like of shape (n,)
            The scores of the model.
        t : array-like of shape (n,)
            The times of the impressions.
        keys : mapping, or sequence of mapping, optional
            Field → n levels, as in `predict_many`; or the levels of each impression.
        version : str, int or None
            The version of the model, of all; the newest by default.
        w : array-like of shape (n,), optional
            The weights of the observations.

        Returns
        -------
        ndarray of shape (n,)
            The probabilities as issued.

        Raises
        ------
        InputError
            As `issue`. Impressions before the one that is refused have been issued. Columns of
            other lengths, or with a value that is no number, change nothing.

        Notes
        -----
        Cost: with their labels learned, 1 µs an impression for `OnlinePlatt` and 5 for `Auto`, 4 and 8 for a
        `Segmented` of either, without `pairs` or `store` (`python -m benchmarks.pending --part columns`). With other
        methods, `Multicalibrated` among them, and with every version of the model but the first, the rows are given to
        `issue`.

        Examples
        --------
        >>> from streamcal import OnlinePlatt
        >>> join = LabelJoin(OnlinePlatt(), horizon=3600.0)
        >>> p = join.issue_many([1, 2, 3], [0.1, 0.2, 0.3], [0.0, 1.0, 2.0])
        >>> join.resolve_many([3, 1], [True, False], [7.0, 9.0]).tolist()
        [True, True]
        >>> p.round(9).tolist(), join.waiting
        ([0.1, 0.2, 0.3], 3)
        """
        ids, numbers, times, weights = _columns_of(ids, scores, "scores", t, w)
        keys = None if keys is None else rows_of(keys, len(ids))
        p = np.empty(len(ids))
        plain = version is None or check_id(version, "version") == self._newest
        rows = Rows(ids, numbers, times, weights)
        if plain and keys is not None:
            rows = rows._replace(keys=self._plain_keys(keys))
            plain = rows.keys is not None
        at = 0
        while at < len(ids):
            if plain:
                at = self._issue_rows(rows, at, p)
            for k in range(at, min(at + RETRIED, len(ids)) if plain else len(ids)):
                time = times[k] if isinstance(times, list) else float(times[k])
                some = None if keys is None else keys[k]
                p[k] = self.issue(ids[k], float(numbers[k]), time, keys=some, version=version, w=float(weights[k])).p
                at = k + 1
        return p

    def _plain_keys(self, keys: Sequence[Any]) -> list[Keys | None] | None:
        """Return the levels of rows that compiled steps take; None where they have to be checked one by one."""
        if self._versions[self._newest].kernel is None:
            return None
        try:
            return levels_of(keys, self._check_keys)
        except InputError:  # `issue` says of which row
            return None

    def _issue_rows(self, rows: Rows, begin: int, p: FloatArray, *, served: bool = False) -> int:
        """Issue plain rows from `begin` on by the compiled steps; return the first that is not plain.

        With `served` they are issued again, with the probabilities p. `when` is set to ∞ for labels that are not taken.
        """
        if not self._takes_rows(rows.t, again=served):
            return begin
        journal = self._journal
        self._make_ready()
        while begin < len(rows.ids):
            end = min(begin + AT_ONCE, len(rows.ids))
            some = rows.upto(end)
            before = begin
            columns = some.ids, some.scores, some.t, some.w, some.y, some.when
            begin = self._now.issue(self, *columns, begin, some.keys, p, served)
            if journal is not None and begin > before:
                done = slice(before, begin)
                levels = None if rows.keys is None else rows.keys[done]
                outcomes = rows.y[done], rows.when[done]
                written = rows.ids[done], rows.t[done], rows.scores[done], p[done], rows.w[done]
                journal.append_many(*events.issued_rows(*written, self._newest, levels, outcomes))
            if not self._tell() and begin < end:
                break
        return begin

    def _takes_rows(self, t: Any, *, again: bool) -> bool:
        """Return whether the compiled steps take rows at these times now, or they have to be taken one by one.

        With `again` they are events of a journal, whose times are numbers.
        """
        if self._stride > 1 or self._now.clock == -math.inf or not (isinstance(t, np.ndarray) and len(t)):
            return False
        return (again or type(self._first_time) is float) and self._use_steps()

    def _use_steps(self) -> bool:
        """Let the compiled steps be those of the newest version; return whether it has any."""
        learner = self._versions[self._newest]
        kernel = learner.kernel
        self._now.use(self, kernel, self._newest, learner.timed)
        return kernel is not None

    def _tell(self) -> bool:
        """Tell the labels that were learned and judged, in order; return whether any was judged."""
        now = self._now
        if now.labels:
            labels, now.labels = now.labels, []
            _tell_each(labels, self.on_learned)
        if now.judges:
            assert self._on_many is not None
            self._on_many(*now.judged_labels())
        elif now.told:
            labels, now.told = now.told, []
            _tell_each(labels, self._on_label)
        else:
            return False
        return True

    def resolve(self, id: Id, y: Label, t: Time, *, w: float | None = None) -> bool:
        """Tell the outcome of an impression.

        Parameters
        ----------
        id : str or int
            That of the impression, which may come later.
        y : bool, 0 or 1
            The label. A positive outcome prevails over a negative one, and the earliest positive one over others.
        t : float or datetime
            The time of the outcome, such as that of the click; it does not move the clock.
        w : float, optional
            The weight of the observation with this label, such as `importance_weight(y, rate)`, in place of that given
            to `issue`. It counts if this outcome does.

        Returns
        -------
        bool
            Whether the impression is remembered. Otherwise the outcome is set aside.

        Raises
        ------
        InputError
            For a bad value, or a time too far from the clock (`ClockError`); nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.
        """
        if not (is_plain(id) if id.__class__ is str else id.__class__ is int and -LARGEST_WHOLE <= id <= LARGEST_WHOLE):
            id = check_id(id)
        positive = y if y.__class__ is bool else check_label(y) > 0.0
        weight = None if w is None else check_weight(w)
        time = self._near(t)
        if self._journal is not None:
            self._journal.append(events.resolved(id, positive, time, weight))
        return self._resolve(id, positive, time, weight)

    def resolve_many(
        self, ids: Sequence[Id] | NDArray[Any], y: ArrayLike, t: Times, *, w: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Tell the outcomes of impressions, in order: as a loop of `resolve`, to the last bit.

        Parameters
        ----------
        ids : sequence of shape (n,)
            Those of the impressions.
        y : array-like of shape (n,)
            The labels.
        t : array-like of shape (n,)
            The times of the outcomes.
        w : array-like of shape (n,), optional
            The weights of the observations, as in `resolve`.

        Returns
        -------
        ndarray of bool of shape (n,)
            Whether each impression is remembered.

        Raises
        ------
        InputError
            As `resolve`. Outcomes before the one that is refused have been taken. Columns of
            other lengths, or with a value that is no number, change nothing.
        """
        ids, labels, times, weights = _columns_of(ids, y, "y", t, w)
        known = np.ones(len(ids), dtype=np.bool_)
        plain = w is None and self._curve is None and bool(((labels == 0.0) | (labels == 1.0)).all())
        positive = (labels > 0.0).astype(np.uint8)
        at = 0
        while at < len(ids):
            if plain:
                at = self._resolve_rows(ids, positive, times, at)
            for k in range(at, min(at + RETRIED, len(ids)) if plain else len(ids)):
                time = times[k] if isinstance(times, list) else float(times[k])
                known[k] = self.resolve(ids[k], float(labels[k]), time, w=None if w is None else float(weights[k]))
                at = k + 1
        return known

    def _resolve_rows(
        self,
        ids: list[Id],
        positive: NDArray[np.uint8],
        t: Any,
        begin: int,
        *,
        issued: FloatArray | None = None,
        again: bool = False,
    ) -> int:
        """Take plain outcomes from `begin` on by the compiled steps; return the first that is not plain.

        The impressions of those that are taken are remembered and had no outcome; their times are written to `issued`.
        """
        if self._curve is not None or not self._takes_rows(t, again=again):
            return begin  # with an early window each outcome has its place in the curve
        self._make_ready()
        times = np.empty(len(ids)) if issued is None else issued
        end = self._now.resolve(self, ids, positive, t, begin, times)
        if self._journal is not None and end > begin:
            self._journal.append_many(*events.resolved_rows(ids[begin:end], positive[begin:end], t[begin:end]))
        return int(end)

    def _resolve(self, id: Id, positive: bool, t: float, w: float | None = None) -> bool:
        """Take a checked outcome."""
        if w is None and self._curve is None and self._now.resolve_one(self, id, positive, t):
            return True
        place = self._now.table.place_of(id)
        if place < 0:
            self._set_aside(id, positive, t, w)
            return False
        self._resolve_at(place, positive, t, w)
        return True

    def _resolve_at(self, place: int, positive: bool, t: float, w: float | None = None) -> None:
        """Take an outcome of the prediction at a place."""
        one = issued_at(self._now.table, place)
        self._now.known += 1
        before = outcome_at(self._now.table, place)
        cell = self._cell(one, t) if positive and self._curve is not None else 0
        if before is None:
            now = tuple.__new__(Outcome, (positive, not positive, t, cell, w))
            if t < one.t:
                self._now.before_issue += 1
        else:
            now = before.and_then(positive, t, cell, w)
            self._now.repeated += 1
            self._now.contradicted += now.positive and now.negative and not (before.positive and before.negative)
        self._now.table.set_outcome(place, *now)
        if positive:
            if before is None or not before.positive:
                self._now.note_report(t)
            if self._curve is not None and (before is None or not before.positive or now.cell < before.cell):
                self._await_age(one, now)
            if place < self._now.unlearned:
                self._correct(one, before, now)

    def _cell(self, one: Issued, t: float) -> int:
        """Return the cell of the delay after which a click is known, 0 where that is early.

        It is known from its own time on, or from now on, if that is later.
        """
        assert self._curve is not None
        edges, at, clock, cell = self._curve.edges, one.at, self._now.clock, 0
        while cell < len(edges) and (at <= clock - edges[cell] or at + edges[cell] <= clock or t - at > edges[cell]):
            cell += 1
        return cell

    def watch(
        self,
        on_label: Callable[[Issued, bool], object],
        on_many: Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], object] | None = None,
    ) -> None:
        """Call `on_label` from now on with each prediction and its label when the horizon has passed.

        That is when the label is learned, or with `early` later: a click counts that came within the horizon, as the
        prediction says. What is called is no part of the state. `on_many` is called in its place where rows without
        levels are taken in columns, with their probabilities, scores, labels, weights and times.
        """
        table, past = self._now.table, self._now.clock - self.spans.horizon
        first = bisect_right(range(self._now.unlearned), past, lo=table.first, key=table.at)
        self._now.watch(first, on_many is not None)
        self._on_label, self._on_many = on_label, on_many

    # -- learning --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Learn the labels whose time has come, and forget what has been remembered long enough."""
        now = self._now
        if now.is_due():
            self._use_steps()
        while not now.settle(self, now.clock, True):
            self._tell()
        self._tell()

    def _give_up(self, place: int) -> None:
        one = issued_at(self._now.table, place)
        learner = self._versions.get(one.version)
        if learner is not None:
            learner.give_up(one.score * self._now.factor, one.keys, self._now.table.record(place))

    def _learn(self, place: int, y: bool, w: float) -> bool | None:
        """Learn a label whose time has come; False if it is refused, None if its levels cannot be read now."""
        table = self._now.table
        issued, record = issued_at(table, place), table.record(place)
        learner = self._versions.get(issued.version)
        if learner is None:
            return False
        score, one = issued.score * self._now.factor, issued if w == issued.w else issued._replace(w=w)
        try:
            if record is not None and (self._has_turned(one.number) or (one.w != issued.w and learner.weighs)):
                # Its parts said something else: of labels learned at another age, or of another weight.
                again = learner.issue(score, one.keys, one.t, one.w)[1]
                learner.give_up(score, one.keys, record)
                record = again
            learner.learn(score, one, record, y)
        except StoreError as error:
            logger.warning("labels wait to be learned: %s", error)
            return None
        except (StreamcalError, ValueError, TypeError, IndexError) as error:  # not ours: a state held what no part says
            logger.warning("the label of %r was not learned: %s", one.id, error)
            return False
        return True

    def _correct(self, one: Issued, before: Outcome | None, now: Outcome) -> None:
        """Turn a negative label that was learned into a positive one, where a click asks for it and that is exact.

        Labels that were learned early are left: clicks that are known later are part of the share, up to the horizon.
        """
        early = self._was_early(one.number)
        in_curve = self._curve is not None and now.cell < len(self._curve.edges)
        last = one.at + self._now.soonest if early and in_curve else one.t + self._now.keep
        counted = before is not None and before.positive and before.t <= last
        if counted or now.t > last or (early and now.cell == 0):
            return
        learner = self._versions.get(one.version)
        weight = one.w if now.w is None else now.w
        corrected = not early and learner is not None and learner.correct(_weighed(one, before, False), weight)
        counts = self._now
        counts.corrected += corrected
        counts.uncorrected += not corrected
        late, in_time = counts.corrected + counts.uncorrected, counts.positives
        if late >= MANY_LATE and late > in_time and not self._warned_of_reports:
            self._warned_of_reports = True
            warn(
                f"{late} clicks were known only after a negative label was learned, and {in_time} before: clicks are "
                f"reported {counts.report_delay:.4g} s after their own time on average; give a longer "
                f"{'early' if early else 'horizon'}, or report them sooner"
            )

    def _await_age(self, one: Issued, outcome: Outcome) -> None:
        """Note a click for the first cell of the curve that has it, until its impression has the age of the end."""
        curve, cell = self._curve, max(outcome.cell, 1)
        assert curve is not None
        if cell < len(curve.edges):
            heappush(self._now.ages, (one.at + curve.edges[cell], one.number, cell, one.id))

    def _grow_older(self) -> None:
        """Add a click to the first cell of the curve whose end its impression has reached, and follow the share."""
        ages, curve = self._now.ages, self._curve
        assert curve is not None
        first = heappop(ages)
        while ages and ages[0] == first:  # an earlier click of the impression was known later
            heappop(ages)
        _, number, cell, id = first
        place = self._now.table.place_of(id)
        outcome = None if place < 0 else outcome_at(self._now.table, place)
        if outcome is None or self._now.table.number(place) != number:
            return  # forgotten for lack of room, with no regard to its outcome
        curve.add(cell, inside=outcome.cell == cell)
        if cell + 1 < len(curve.edges):
            heappush(ages, (self._now.table.at(place) + curve.edges[cell + 1], number, cell + 1, id))
        self._turn_curve(curve)

    def _match(self, place: int, one: Issued) -> None:
        """Join an impression with its outcome, which came before it."""
        outcome = self._aside.pop(one.id)
        self._now.matched += 1
        self._now.before_issue += outcome.t < one.t
        if self._curve is not None and outcome.positive:
            outcome = outcome._replace(cell=self._cell(one, outcome.t))
            self._await_age(one, outcome)
        self._now.table.set_outcome(place, *outcome)

    def _turn_back(self, clock: float) -> None:
        super()._turn_back(clock)
        if self._curve is not None:
            edges, table = self._curve.edges, self._now.table
            places = [(table.place_of(id), number, cell, id) for _, number, cell, id in self._now.ages]
            self._now.ages = sorted(
                (table.at(place) + edges[cell], number, cell, id)
                for place, number, cell, id in places
                if place >= 0 and table.number(place) == number
            )

    # -- checks ----------------------------------------------------------------------------------------------------

    def _issued_again(self, known: Issued, score: float) -> Issued:
        """Return the prediction issued before for the same id; raise `ConflictError` for another score."""
        if known.score != score:
            raise ConflictError(
                f"id {known.id!r} was issued with the score {known.score!r} and is given again with {score!r}; give "
                "every impression an id of its own"
            )
        if self._journal is not None:
            self._journal.append(events.REPEATED)
        self._repeat()
        return known

    def _repeat(self) -> None:
        self._now.repeated += 1

    def _warn_of_clock(self) -> None:
        """Warn where all impressions are far behind the clock, so that their labels are learned late."""
        self._now.behind += 1
        if self._now.behind == MANY_BEHIND:
            warn(
                f"the last {MANY_BEHIND} impressions are over {self._now.hold:g} s older than the latest event, at "
                f"{self.clock:.15g}, and no label is learned until the clock has passed it: correct the time of that "
                "event and begin again, or turn the clock of a journal back with migrate(clock=)"
            )

    # -- state ---------------------------------------------------------------------------------------------------------

    def _replay(self, journal: Journal) -> int:
        return Replaying(self)(journal)

    def _plain_params(self) -> dict[str, Any]:
        """Return the parameters without the journal, which is no part of a state."""
        limits = ("max_held", "max_unknown", "max_jump", "max_behind")
        return {**self.spans._asdict(), **{name: getattr(self, name) for name in limits}}

    def _state(self) -> dict[str, Any]:
        self._require_learned()
        return {**join_state.head_of(self), "held": list(join_state.held_of(self._now.table))}

    def _parts(self) -> Iterator[bytes | bytearray]:
        self._require_learned()
        yield from join_state.parts_of(self, LabelJoin.__name__, self._plain_params())

    def _require_learned(self) -> None:
        """Raise `StoreError` where labels that are due could not be learned."""
        if self._now.is_due():
            raise StoreError("labels wait for levels that cannot be read; there is no state until they are learned")

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        contents = join_state.read(learned, params)
        join = cls(contents["versions"][contents["newest"]].calibrator, **params)
        for name, value in contents.items():
            setattr(join, f"_{name}", value)
        join._follow_curve()
        return join

    def __repr__(self) -> str:
        return f"LabelJoin({self._shown()})"


def _columns_of(ids: Any, values: Any, what: str, t: Any, w: Any) -> tuple[list[Id], FloatArray, Any, FloatArray]:
    """Return ids, scores or labels, times and weights, of one length; times that are no numbers as a list."""
    ids, numbers, times = ids_of(ids), as_floats(values, what), numbers_or_moments(t)
    lengths = {"ids": len(ids), what: len(numbers), "times": len(times)}
    if w is None or np.ndim(w) == 0:
        weights = np.broadcast_to(1.0 if w is None else check_weight(w), (len(ids),))
    else:
        weights = as_floats(w, "w")
        lengths["weights"] = len(weights)
    if len(set(lengths.values())) > 1:
        shown = ", ".join([f"{length} {name}" for name, length in lengths.items()])
        raise InputError(f"{shown} are not possible together; give one of each for every id")
    return ids, numbers, times, weights


def _weighed(one: Issued, outcome: Outcome | None, y: bool) -> Issued:
    """Return a prediction with the weight of its label `y`, where the outcome has one of its own."""
    if outcome is None or outcome.w is None or outcome.positive != y:
        return one
    return one._replace(w=outcome.w)


def _tell_each(labels: list[Any], on_label: Callable[[Issued, bool], object] | None) -> None:
    """Call a function with predictions, which compiled steps have noted with weights and labels."""
    assert on_label is not None
    for issued, w, y in labels:
        on_label(tuple.__new__(Issued, issued)._replace(w=w), y)
