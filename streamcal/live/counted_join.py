"""`CountedJoin`: a join of any number of predictions with late labels, in memory that does not grow with them."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import ClockError, InputError, StateError, StreamcalError
from streamcal.kernels.counts.counted_rows import NO_ROW, ClickFilter
from streamcal.kernels.counts.tokens import LENGTH
from streamcal.kernels.pending.pending_steps import HIGHEST
from streamcal.live import counted_events, counted_state
from streamcal.live.counted_bucket import FURTHEST, Bucket, Group, Groups, Levels, Whole, groups_of, spread
from streamcal.live.counted_tokens import Tokens
from streamcal.live.early import CELLS
from streamcal.live.issued import Id, Issued, Keys, check_id, seconds
from streamcal.live.joining import Joining, Takers, checked_spans, joinable
from streamcal.live.journal import Journal
from streamcal.live.level_store import LevelRows
from streamcal.live.shadow import Shadow
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import check_label, check_scores, check_times_of_one_kind, check_weight
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import Columns, FloatArray, Label, Time, Times
from streamcal.statistics.grid import MOST_CELLS, grid_of

logger = logging.getLogger(__name__)

#: Buckets of a horizon, and of `early`, by default.
BUCKETS, EARLY_BUCKETS = 120, 4
#: Buckets of a horizon at most.
MOST_BUCKETS = 2**20
#: Cells by default: those of a method on a grid of at most the second number, else the first.
FEW_CELLS, MANY_CELLS = 1_024, 4_096
#: Bits by which the clicks of a bucket are remembered.
CLICK_BITS = 2**20
#: A token has the time of its prediction in these parts of a bucket, with an offset, so that it may be before it.
PARTS, OFFSET = 2**20, 2**31
#: After a restart, numbers of buckets go on at a multiple of this: a token that was lost with its process is unknown.
RESTARTS = 2**16


class CountedSpans(NamedTuple):
    """The spans and grids of a join that counts; a state with others belongs to another join."""

    horizon: float
    early: float | None
    early_share: float
    late: float
    bucket: float
    cells: int
    click_bits: int


class Answer(NamedTuple):
    """A prediction of a `CountedJoin`.

    Parameters
    ----------
    p : float
        The probability that was issued.
    token : str
        32 characters that are safe in a URL; the click brings them back.
    """

    p: float
    token: str


class Answers(NamedTuple):
    """Predictions of a `CountedJoin` in columns.

    Parameters
    ----------
    p : ndarray of shape (n,)
        The probabilities that were issued.
    tokens : ndarray of shape (n,)
        Their tokens, texts of 32 bytes (dtype S32).
    """

    p: FloatArray
    tokens: NDArray[np.bytes_]


class CountedJoin(Joining):
    """Joins any number of predictions with late labels, and counts them instead of remembering each.

    Predictions are counted by time (a ring of buckets), by cell of the score, and by version, weight and levels.
    `issue` returns a token beside the probability; the click brings the token back to `resolve`. When the horizon of a
    bucket has passed, its cells are learned: those clicked as positives, the others as negatives. Memory depends on the
    numbers of buckets and cells, and not on the number of predictions. A `LabelJoin` remembers each prediction, and
    needs an id for it.

    **What is learned** is the label of the mean score of its cell. A method whose order of learning does not matter
    (`Forever`, policies by time) learns two weighted observations a cell; one on a grid then has the weights of a
    `LabelJoin`, with times rounded down to buckets. Other methods learn every observation; those of each cell are
    evenly spread over the bucket. Mixtures are judged by the predictions of their parts for the first score of the cell
    in the bucket.

    **When.** A label is learned when the clock has passed the end of its bucket by `horizon`, or by `early`. A click
    counts up to `horizon` + `late` after its prediction, whose time its token has.

    Parameters
    ----------
    calibrator, horizon, early, journal, late, early_share, max_jump, max_behind
        As of `LabelJoin`. A `Multicalibrated` and a `Shadow` are refused, since they keep the bets of each prediction,
        and levels in a store.
    key : bytes or str, optional
        At least 16 bytes, by which tokens are signed. It is no part of a state or a journal. By default it is random,
        and part of both. A token of another join or key is refused.
    bucket : float, timedelta or str, optional
        The longest bucket, default `horizon`/120, or `early`/4 if that is less. Its width divides the horizon.
    cells : int, optional
        Cells of the score, in log-odds where it is a probability; by default those of a method on a grid of at most
        4,096, else 1,024.
    max_rows : int
        The number of rows of all buckets, default 1,000,000, some 30 MB. At this number the oldest buckets that were
        learned are forgotten first. Then predictions that need a new row, as those of rare levels, are not learned.
    click_bits : int
        Bits by which the clicks of a bucket are remembered, default 2²⁰ (128 kB). They are exact for as many
        predictions in a bucket. Beyond these they are a filter, which takes a new click for a repeated one with
        probability (1 − exp(−6n/m))⁶ for n clicks and m bits: `filter_error` returns it.

    Raises
    ------
    InputError
        For other parameters, or scores without bounds.
    StateError
        If the journal holds the events of a join with other parameters or another key.

    Notes
    -----
    Hand out tokens when `acknowledge` has returned: what was issued since then is lost when the process is killed, and
    a token of it is unknown.

    An impression that is issued twice counts twice, with two tokens; a click counts once for each token. Negative
    outcomes need no call, and change nothing. Weights are those of `issue`, of which each is a row of its own.

    Not thread-safe, but `acknowledge` may be called by any thread.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> join = CountedJoin(OnlinePlatt(), horizon=3600.0)
    >>> for k in range(1000):
    ...     p, token = join.issue(score=0.1, t=float(k))
    ...     if k % 50 == 0:
    ...         known = join.resolve(token, y=True, t=k + 30.0)
    >>> round(p, 9), join.waiting  # no label is known to be negative yet
    (0.1, 1000)
    >>> join.advance(t=6000.0)
    >>> round(join.issue(score=0.1, t=6000.0).p, 2), join.waiting
    (0.03, 1)
    """

    max_unknown = 0  #: no outcome waits for its prediction: it has a token

    def __init__(
        self,
        calibrator: Any,
        horizon: float | timedelta | str,
        early: float | timedelta | str | None = None,
        journal: Journal | None = None,
        *,
        key: bytes | str | None = None,
        late: float | timedelta | str | None = None,
        early_share: float = 0.75,
        bucket: float | timedelta | str | None = None,
        cells: int | None = None,
        max_rows: int = 1_000_000,
        click_bits: int = CLICK_BITS,
        max_jump: float | timedelta | str | None = None,
        max_behind: float | timedelta | str | None = None,
    ) -> None:
        calibrator = countable(joinable(calibrator))
        spans = checked_spans(calibrator, horizon, early, early_share, late)
        width = spans[0] / BUCKETS if spans[1] is None else min(spans[0] / BUCKETS, spans[1] / EARLY_BUCKETS)
        longest = width if bucket is None else seconds(bucket, "bucket")
        allowed = f"a multiple of 8 from 64 to {2**32}"
        if not (longest > 0.0 and spans[0] / longest <= MOST_BUCKETS):
            raise InputError(
                f"buckets of {longest:g} s are not possible for a horizon of {spans[0]:g} s, which has at most "
                f"{MOST_BUCKETS:,} of them; give a longer {'early' if bucket is None else 'bucket'}"
            )
        bits = whole_number(click_bits, "click_bits", 64, 2**32, allowed)
        if bits % 8:
            raise InputError(f"click_bits={click_bits!r} is not possible; give {allowed}")
        cells = _cells_of(calibrator) if cells is None else whole_number(cells, "cells", 2, MOST_CELLS)
        self.spans = CountedSpans(*spans, spans[0] / math.ceil(spans[0] / longest), cells, bits)
        self.max_held = whole_number(max_rows, "max_rows", 2)
        self._limit_times(max_jump, max_behind)
        self._grid = grid_of(calibrator.scale, cells)
        self._begin_clock(calibrator)
        self._buckets: dict[int, Bucket] = {}  # by number, the oldest first
        self._waiting: deque[Bucket] = deque()
        self._learned: deque[Bucket] = deque()
        self._open: Bucket | None = None
        self._serial = 0  # of the next bucket
        self._place = -(2**62)  # the bucket of the clock
        self._rows = 0  # of all buckets
        self._groups = Groups()
        self._resumed = False  # and nothing has happened since
        self._journal: Journal | None = None
        self._tokens = Tokens(key)
        if journal is not None:
            self._resume(journal)

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of predictions whose labels are to be learned."""
        return sum(one.counted for one in self._waiting)

    @property
    def held(self) -> int:
        """Number of predictions that are counted: those waiting, and those whose labels were learned."""
        return sum(one.counted for one in self._buckets.values())

    @property
    def rows(self) -> int:
        """Number of rows of all buckets, each a cell of the score and a group of levels."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of the counts and of the clicks remembered, without the calibrator and the levels."""
        return sum(one.nbytes for one in self._buckets.values())

    @property
    def due(self) -> float:
        """The clock at which the next label is learned or the next bucket forgotten; ∞ where nothing is held."""
        next_due = self._next_due()
        return math.inf if next_due is None else next_due[0] * self.spans.bucket

    def oldest(self, now: float) -> float:
        """Return the seconds since the oldest bucket that waits for its labels began; 0 if there is none."""
        begin = self._waiting[0].place * self.spans.bucket if self._waiting else math.inf
        return max(max(now, self._now.clock) - begin, 0.0)

    @property
    def filter_error(self) -> float:
        """The largest probability, of all buckets, that a new click is taken for a repeated one; 0 while exact."""
        return max((float(one.clicks.error()) for one in self._buckets.values()), default=0.0)

    def tally(self) -> dict[str, int]:
        """Count events, none of which is an error; the names are those of `LabelJoin.tally`.

        - `issued`, `learned`: predictions, and labels learned; of these `positives`, and `timed_out` without a click;
        - `repeated`: clicks after the first one of a token;
        - `corrected`, `uncorrected`: clicks in time that were known only after a negative was learned;
        - `unknown`: outcomes of tokens whose bucket is forgotten, or that was never counted;
        - for lack of room, `unheld`: predictions whose label is not learned, and `forgotten`: those that were not
          remembered after it was learned;
        - `backwards`: impressions older than the clock, counted at the clock; `before_issue`: clicks older than their
          impression, which count as immediate;
        - `refused`: labels that the calibrator refused, or whose version's calibration was dropped.
        """
        return dict(self._now.counts)

    # -- events ----------------------------------------------------------------------------------------------------

    def issue(
        self,
        score: float,
        t: Time,
        *,
        keys: Keys | None = None,
        version: Id | None = None,
        w: float = 1.0,
        id: Id | None = None,
    ) -> Answer:
        """Issue the calibrated probability of an impression, and a token for its click.

        Parameters
        ----------
        score, t, keys, version, w
            As of `LabelJoin.issue`. Levels of fields that the calibrator does not read are left out.
        id : None
            An id is refused: to know which ids were issued takes memory for each of them. Keep the answer of an
            impression that may come again, and give it once more.

        Returns
        -------
        Answer
            The probability and the token.

        Raises
        ------
        InputError
            For a bad value, or a time too far from the clock (`ClockError`). Nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.
        """
        if id is not None:
            raise InputError(
                f"id {id!r} is not possible: counts do not know which ids were issued, for that takes memory for each; "
                "keep the answer of an impression that may come again and give it once more, or use pending='each'"
            )
        if score.__class__ is not float or not self._first <= score <= self._last:
            score = self._check_score(score)
        weight = w if w.__class__ is float and w == 1.0 else check_weight(w)
        levels = None if keys is None else self._read_keys(self._check_keys(keys))
        named = self._newest if version is None else check_id(version, "version")
        time = self._near(t)
        if self._now.clock - time > self.max_behind:
            self._check_behind(time)
        if self._journal is not None:
            self._make_ready()
        bucket, learner = self._arrive(time, named)
        group = None if levels is None and weight == 1.0 else Group(named, levels, weight)
        number = bucket.issued
        row = self._count(bucket, learner, score, named if group is None else group)
        if self._journal is not None:
            written = (
                b"" if named is None and group is None else counted_events.written(group or Group(named, None, 1.0))
            )
            self._journal.append(counted_events.issued(time, score, written))
        p = learner.predict(score * self._now.factor, None if levels is None else dict(levels), time)
        if self._now.factor != 1.0:
            p = self._of_horizon(p, score)
        parts = self._parts_of(bucket, time)
        return tuple.__new__(Answer, (p, self._tokens.signer.write(bucket.serial, number, row, parts)))

    def _issue(self, score: float, t: float, group: Group) -> None:
        """Count a prediction again that was issued before."""
        bucket, learner = self._arrive(t, group.version)
        self._count(bucket, learner, score, group)

    def _arrive(self, t: float, version: Id | None) -> tuple[Bucket, VersionLearner]:
        """Move the clock to an impression, and return its bucket and the calibration of its version."""
        if t < self._now.clock:
            self._now.backwards += 1
        else:
            self._now.clock = t
            if math.floor(t / self.spans.bucket) != self._place:
                self._settle()
        learner = self._versions.get(version) or self._begin(version)
        bucket = self._open
        if bucket is None:
            clicks = ClickFilter(self.spans.click_bits)
            bucket = self._open = Bucket(self._serial, self._place, self._now.number, clicks, CELLS + 2)
            self._buckets[self._serial] = bucket
            self._waiting.append(bucket)
            self._serial += 1
        return bucket, learner

    def _count(self, bucket: Bucket, learner: VersionLearner, score: float, group: Group | Id | None) -> int:
        """Count a prediction in the open bucket, and return its row; `NO_ROW` where there is no room.

        Its group is that of a version, without levels and of weight 1, if only the version is given.
        """
        bucket.issued += 1
        self._now.number += 1
        self._now.issued += 1
        rows = bucket.rows
        room = self._rows < self.max_held or self._make_room()
        of = bucket.used.get(group, -1)
        if of < 0 and room:
            of = self._group_in(bucket, group)
        cell = self._grid.cell(self._grid.scale.coordinate(score))
        before = rows.size
        row: int = NO_ROW if of < 0 else rows.add(of * MOST_CELLS + cell, score, room)
        if row == NO_ROW:
            self._now.unheld += 1
            return row
        bucket.counted += 1
        if row == before:
            self._rows += 1
            self._note_row(bucket, learner, score, self._groups[of])
        return row

    def _group_in(self, bucket: Bucket, group: Group | Id | None) -> int:
        """Return the number of a group, of which a bucket has a row."""
        of = bucket.used.get(group, -1)
        if of < 0:
            of = bucket.used[group] = self._groups.add(group if isinstance(group, Group) else Group(group, None, 1.0))
            if of not in bucket.of:
                bucket.of.add(of)
                self._groups.use(of)
        return of

    def _note_row(self, bucket: Bucket, learner: VersionLearner, score: float, group: Group) -> None:
        """Remember what the parts of a mixture say of the first score of a row: the same throughout the bucket."""
        record = None
        if _is_judged(learner):
            record = learner.issue(score * self._now.factor, group.keys, bucket.place * self.spans.bucket, group.w)[1]
        bucket.records.append(record)

    def _make_room(self) -> bool:
        """Forget buckets that were learned, the oldest first, until there is room; return whether there is."""
        while self._rows >= self.max_held and self._learned:
            self._now.forgotten += self._learned[0].counted
            self._forget(self._learned.popleft())
        return self._rows < self.max_held

    def _parts_of(self, bucket: Bucket, t: float) -> int:
        """Return the time of a prediction as its token has it."""
        parts = int((t / self.spans.bucket - bucket.place) * PARTS + (OFFSET + 0.5))
        return parts if 0 <= parts < 2**32 else 0 if parts < 0 else 2**32 - 1

    def issue_many(
        self,
        scores: ArrayLike,
        t: Time | Times,
        *,
        keys: Columns | Sequence[Keys | None] | None = None,
        version: Id | None = None,
        w: ArrayLike | None = None,
    ) -> Answers:
        """Issue the probabilities of impressions in columns: a loop of `issue`.

        Parameters
        ----------
        scores : array-like of shape (n,)
            The scores of the model.
        t : float, datetime, or array-like of shape (n,)
            The times of the impressions; one for all of them, or one for each.
        keys : mapping, or sequence of mapping, optional
            Field → n levels, or the levels of each impression.
        version : str, int or None
            The version of the model.
        w : float or array-like of shape (n,), optional
            Weights.

        Returns
        -------
        Answers
            Probabilities, those of `issue` up to rounding, and tokens.

        Raises
        ------
        InputError
            For a bad value in any row. Nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.
        """
        checked = check_scores(scores)
        scale = self.calibrator.scale
        scale.require(checked)
        times = self._times(t, len(checked))
        if not len(checked):
            return Answers(np.zeros(0), np.zeros(0, dtype=f"S{LENGTH}"))
        named = self._newest if version is None else check_id(version, "version")
        of, groups = groups_of(self.calibrator, len(checked), keys, named, w)
        self._check_clock(times)
        self._make_ready()
        if self._journal is not None:
            self._journal.append(counted_events.all_issued(times, checked, of, groups))
        p, tokens = np.empty(len(checked)), np.empty(len(checked), dtype=f"S{LENGTH}")
        self._issue_many(checked, times, of, groups, (p, tokens))
        return Answers(p, tokens)

    def _issue_many(
        self,
        scores: FloatArray,
        t: FloatArray,
        of: Whole | None,
        groups: list[Group],
        out: tuple[FloatArray, NDArray[np.bytes_]] | None = None,
    ) -> None:
        """Count checked predictions, those of each bucket at once, and write probabilities and tokens to `out`."""
        at = np.maximum(np.maximum.accumulate(t), self._now.clock)
        places = np.floor(at / self.spans.bucket)
        ends = [*(np.flatnonzero(np.diff(places)) + 1).tolist(), len(t)]
        begin = 0
        for end in ends:
            part = slice(begin, end)
            self._issue_run(scores[part], t[part], at[part], None if of is None else of[part], groups, (out, part))
            begin = end

    def _issue_run(
        self,
        scores: FloatArray,
        t: FloatArray,
        at: FloatArray,
        of: Whole | None,
        groups: list[Group],
        out: tuple[tuple[FloatArray, NDArray[np.bytes_]] | None, slice],
    ) -> None:
        """Count predictions of one bucket; of one version."""
        bucket, learner = self._arrive(float(at[0]), groups[0].version)  # no time is behind this clock
        self._now.clock = float(at[-1])
        first = bucket.issued
        if self._rows + len(scores) > self.max_held:  # room is made row by row
            rows = np.empty(len(scores), dtype=np.int64)
            each = [0] * len(scores) if of is None else of.tolist()
            for k, (score, group) in enumerate(zip(scores.tolist(), each, strict=True)):
                rows[k] = self._count(bucket, learner, score, groups[group])
        else:
            rows = self._count_many(bucket, learner, scores, of, groups)
        self._now.backwards += int((t < at).sum())
        if out[0] is None:
            return
        p, tokens = out[0]
        p[out[1]] = self._predict_many(learner, scores, t, of, groups)
        parts = (t / self.spans.bucket - bucket.place) * PARTS + (OFFSET + 0.5)
        parts = np.clip(parts, 0, 2**32 - 1).astype(np.int64)
        written = np.empty(LENGTH * len(scores), dtype=np.uint8)
        self._tokens.signer.write_many(bucket.serial, first, rows, parts, written)
        tokens[out[1]] = written.view(f"S{LENGTH}")

    def _count_many(
        self, bucket: Bucket, learner: VersionLearner, scores: FloatArray, of: Whole | None, groups: list[Group]
    ) -> Whole:
        """Count predictions for which there is room, and return their rows."""
        n, before = len(scores), bucket.rows.size
        used = [0] if of is None else list(dict.fromkeys(of.tolist()))
        numbers = np.zeros(len(groups), dtype=np.int64)
        for group in used:  # in the order in which they come
            numbers[group] = self._group_in(bucket, groups[group])
        scale = self._grid.scale
        keys = self._grid.cells_of(np.ascontiguousarray(scale.coordinates(scores))).astype(np.int64)
        keys += (numbers[0] if of is None else numbers[of]) * MOST_CELLS
        rows = np.empty(n, dtype=np.int64)
        bucket.rows.add_many(keys, scores, n, rows)
        bucket.issued += n
        bucket.counted += n
        self._now.number += n
        self._now.issued += n
        self._rows += bucket.rows.size - before
        for row in range(before, bucket.rows.size):
            self._note_row(bucket, learner, bucket.rows.first(row), self._groups[bucket.rows.key(row) // MOST_CELLS])
        return rows

    def _predict_many(
        self, learner: VersionLearner, scores: FloatArray, t: FloatArray, of: Whole | None, groups: list[Group]
    ) -> FloatArray:
        """Return probabilities of one version, those of `issue` up to rounding."""
        scaled = scores * self._now.factor
        calibrator = learner.calibrator
        if learner.before is not None or learner._timed or not calibrator.n:
            each = [0] * len(scores) if of is None else of.tolist()
            rows = zip(scaled.tolist(), each, t.tolist(), strict=True)
            p = np.array([learner.predict(score, groups[group].keys, time) for score, group, time in rows])
        else:
            levels = [one.keys or {} for one in groups]
            each = [0] * len(scores) if of is None else of.tolist()
            columns = {name: [levels[one].get(name) for one in each] for name in calibrator.fields}
            p = np.asarray(calibrator.predict_many(scaled, keys=calibrator._own_keys(columns)))
        if self._now.factor == 1.0:
            return p
        return np.maximum(p, np.minimum(p / self._now.factor, np.maximum(HIGHEST, scores)))

    def resolve(self, token: str | bytes, y: Label, t: Time) -> bool:
        """Tell the outcome of an impression.

        Parameters
        ----------
        token : str or bytes
            That of the prediction.
        y : bool, 0 or 1
            The label. A negative one changes nothing.
        t : float or datetime
            The time of the outcome, such as that of the click; it does not move the clock.

        Returns
        -------
        bool
            Whether the prediction is remembered.

        Raises
        ------
        InputError
            For a bad value, a time too far from the clock (`ClockError`), or a token that this join has not issued:
            one of another join, of another key, or changed on its way. Nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.
        """
        read = self._tokens.read(token)
        positive = y if y.__class__ is bool else check_label(y) > 0.0
        time = self._near(t)
        self._make_ready()
        if self._journal is not None:
            self._journal.append(counted_events.resolved(positive, time, read))
        return self._resolve(read, positive, time)

    def resolve_many(self, tokens: ArrayLike, y: ArrayLike, t: Time | Times) -> NDArray[np.bool_]:
        """Tell the outcomes of impressions in columns: a loop of `resolve`.

        Parameters
        ----------
        tokens : array-like of shape (n,)
            Texts or bytes, as `issue_many` returns them.
        y : bool, or array-like of shape (n,)
            The labels; one for all of them, or one for each.
        t : float, datetime, or array-like of shape (n,)
            The times of the outcomes; one for all of them, or one for each.

        Returns
        -------
        ndarray of shape (n,)
            Whether each prediction is remembered.

        Raises
        ------
        InputError
            For a bad value in any row. Nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.
        """
        read = self._tokens.read_many(tokens)
        labels = np.asarray(y)
        labels = np.full(len(read), check_label(labels.item()) > 0.0) if labels.ndim == 0 else _checked_labels(labels)
        times = self._times(t, len(read))
        if len(labels) != len(read):
            raise InputError(f"tokens and y differ in length: {len(read)} and {len(labels)}; give a label for each")
        far = np.flatnonzero(np.abs(times - self._now.clock) > self.max_jump)
        if len(far):
            self._check_far(float(times[far[0]]))
        self._make_ready()
        if self._journal is not None and len(read):
            self._journal.append(counted_events.all_resolved(labels, times, read))
        return self._resolve_many(read, labels, times)

    def _resolve_many(self, read: Whole, y: NDArray[np.bool_], t: FloatArray) -> NDArray[np.bool_]:
        each = zip(read.tolist(), y.tolist(), t.tolist(), strict=True)
        return np.array([self._resolve(*one) for one in each], dtype=np.bool_)

    def _resolve(self, token: tuple[int, ...] | list[int], positive: bool, t: float) -> bool:
        """Take a checked outcome."""
        serial, number, row, parts = token
        bucket = self._buckets.get(serial)
        if bucket is None or row >= bucket.size:
            self._now.unknown += 1
            return False
        width = self.spans.bucket
        issued = (bucket.place + (parts - OFFSET) / PARTS) * width
        part = width / PARTS
        if not positive:
            return True
        if t > issued + self._now.keep + part:
            return True
        if not bucket.clicks.add(number):
            self._now.repeated += 1
            return True
        self._now.before_issue += t < issued - part
        self._now.note_report(t)
        cell = 0 if self._curve is None else self._cell(max(issued, bucket.place * width), t, part)
        bucket.click(row, early=cell == 0)
        bucket.delays[cell] += 1
        if bucket.learned:
            self._correct(bucket, row, issued, t, cell)
        return True

    def _cell(self, at: float, t: float, part: float) -> int:
        """Return the cell of the delay after which a click is known, 0 where that is early, as of `LabelJoin`."""
        assert self._curve is not None
        delay, edges, cell = max(t, self._now.clock) - at - part, self._curve.edges, 0
        while cell < len(edges) and delay > edges[cell]:
            cell += 1
        return cell

    # -- learning --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Learn the buckets whose time has come, and forget those remembered long enough."""
        place = math.floor(self._now.clock / self.spans.bucket)
        if place == self._place:
            return
        self._place = place
        self._close()
        while (next_due := self._next_due()) is not None and next_due[0] <= place:
            _, what, bucket = next_due
            if what == 0:
                self._grow_older(bucket)
            elif what == 1:
                self._learn(self._waiting.popleft())
                self._learned.append(bucket)
            else:
                self._forget(self._learned.popleft())

    def _close(self) -> None:
        """Close the open bucket: no prediction is added to it any more."""
        if self._open is not None:
            self._open.close(self._grid)
            self._open = None

    def _next_due(self) -> tuple[int, int, Bucket] | None:
        """Return the next thing to do: its place, what it is, and of which bucket."""
        due = []
        if self._curve is not None:
            after = [self._places(edge) for edge in self._curve.edges]
            each = ((one.place + after[one.grown], 0, one) for one in self._buckets.values() if one.grown < len(after))
            first = min(each, key=lambda one: one[0], default=None)
            due += [] if first is None else [first]
        if self._waiting:
            due.append((self._waiting[0].place + self._places(self._now.hold), 1, self._waiting[0]))
        if self._learned:
            due.append((self._learned[0].place + self._places(self._now.keep), 2, self._learned[0]))
        return min(due, key=lambda one: one[:2], default=None)

    def _places(self, span: float) -> int:
        """Return after how many buckets all predictions of one are older than a span."""
        return 1 + math.ceil(span / self.spans.bucket - 1e-9)

    def _learn(self, bucket: Bucket) -> None:
        """Learn the labels of a bucket."""
        curve = self._curve
        clicked = bucket.clicked if curve is None or curve.waits else bucket.early
        bucket.learned, total = True, bucket.n
        bucket.n = (total - clicked).astype(np.int32)
        by_version: dict[Id | None, list[int]] = {}
        for number in dict.fromkeys(bucket.groups.tolist()):
            by_version.setdefault(self._groups[number].version, []).append(number)
        for version, numbers in by_version.items():
            rows = np.flatnonzero(np.isin(bucket.groups, numbers))
            learner = self._versions.get(version)
            try:
                if learner is None:
                    raise StateError(f"the calibration of version {version!r} was dropped")
                self._learn_rows(bucket, learner, rows, clicked)
            except (StreamcalError, ValueError, TypeError, IndexError) as error:  # not ours: what no part says
                self._now.refused += int(total[rows].sum())
                logger.warning("the labels of a bucket were not learned: %s", error)
                continue
            positives = int(clicked[rows].sum())
            self._now.learned += int(total[rows].sum())
            self._now.positives += positives
            self._now.timed_out += int(total[rows].sum()) - positives
        bucket.records = []

    def _learn_rows(self, bucket: Bucket, learner: VersionLearner, rows: NDArray[np.intp], clicked: Whole) -> None:
        """Learn the labels of rows of one version."""
        t = bucket.place * self.spans.bucket
        scores = bucket.scores[rows] * self._now.factor
        counts = np.stack((bucket.n[rows], clicked[rows]), axis=1).astype(np.int64)
        weights = self._weights(bucket, rows)
        if _is_judged(learner):
            ones = list(self._issued_again(bucket, learner, rows, scores, t))
            for part in spread(counts.ravel()):
                for stream in part.tolist():
                    row, y = divmod(stream, 2)
                    one, record = ones[row]
                    learner.learn(one.score, one, record, bool(y))
            return
        calibrator, time = learner.calibrator, t if learner._timed else None
        if in_bulk(learner):
            for y in (0, 1):
                some = counts[:, y] > 0
                times = None if time is None else np.full(int(some.sum()), time)
                calibrator.learn_many(scores[some], np.full(int(some.sum()), y), (weights * counts[:, y])[some], times)
            return
        for part in spread(counts.ravel()):
            times = None if time is None else np.full(len(part), time)
            calibrator.learn_many(scores[part // 2], part % 2, weights[part // 2], times)

    def _weights(self, bucket: Bucket, rows: NDArray[np.intp]) -> FloatArray:
        groups = bucket.groups[rows]
        weights = np.ones(len(rows))
        for number in dict.fromkeys(groups.tolist()):
            weights[groups == number] = self._groups[number].w
        return weights

    def _issued_again(
        self, bucket: Bucket, learner: VersionLearner, rows: NDArray[np.intp], scores: FloatArray, t: float
    ) -> Iterator[tuple[Issued, bytes | None]]:
        """Yield for each row a prediction as a version learns it, and what is remembered of it."""
        turned = self._has_turned(bucket.first)
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            group = self._groups[int(bucket.groups[row])]
            record = bucket.records[row]
            if turned:  # its parts said something else: of labels learned at another age
                record = learner.issue(score, group.keys, t, group.w)[1]
            yield Issued(0, 0.5, score, t, group.version, group.keys, group.w, t, 0), record

    def _correct(self, bucket: Bucket, row: int, issued: float, t: float, cell: int) -> None:
        """Turn a negative label that was learned into a positive one, where a click asks for it and that is exact."""
        curve = self._curve
        early = self._was_early(bucket.first)
        in_curve = curve is not None and cell < len(curve.edges)
        last = issued + self._now.soonest if early and in_curve else issued + self._now.keep
        if t > last + self.spans.bucket / PARTS or (early and cell == 0):
            return
        group = self._groups[int(bucket.groups[row])]
        learner = self._versions.get(group.version)
        corrected = not early and learner is not None and self._turn(bucket, row, learner, group)
        self._now.corrected += corrected
        self._now.uncorrected += not corrected

    def _turn(self, bucket: Bucket, row: int, learner: VersionLearner, group: Group) -> bool:
        """Turn a negative label of a row into a positive one; False where that is not exact."""
        n, t, score = int(bucket.n[row]), bucket.place * self.spans.bucket, float(bucket.scores[row])
        if n < 1:
            return False
        if _is_judged(learner) or not in_bulk(learner):
            corrected = learner.correct(Issued(0, 0.5, score, t, group.version, group.keys, group.w), group.w)
        else:
            calibrator, time = learner.calibrator, t if learner._timed else None
            if not calibrator.unlearns:
                return False
            try:
                calibrator.unlearn_one(score, False, n * group.w, time)
            except StreamcalError:  # sums that cannot give it back without rounding; nothing has changed then
                return False
            if n > 1:
                calibrator.learn_one(score, False, (n - 1) * group.w, time)
            calibrator.learn_one(score, True, group.w, time)
            corrected = True
        bucket.n[row] -= corrected
        return corrected

    def _grow_older(self, bucket: Bucket) -> None:
        """Add the clicks of a bucket to the first cell of the curve whose end its predictions have reached."""
        curve, cell = self._curve, bucket.grown
        assert curve is not None
        bucket.grown += 1
        inside, known = bucket.delays[cell], sum(bucket.delays[: cell + 1])
        done = 0
        for k in range(known):  # those of the cell are evenly spread among the others
            due = (k + 1) * inside // known
            curve.add(cell, inside=due > done)
            done = due
        self._turn_curve(curve)

    def _forget(self, bucket: Bucket) -> None:
        del self._buckets[bucket.serial]
        self._rows -= bucket.size
        for number in dict.fromkeys(bucket.groups.tolist()):
            self._groups.leave(number)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _read_keys(self, keys: dict[str, str | int] | None) -> Levels | None:
        """Return the levels of the fields that the calibrator reads, in their order; None if there are none."""
        if keys is None or not (fields := getattr(self.calibrator, "fields", ())):
            return None
        return tuple((name, keys[name]) for name in fields if name in keys) or None

    def _times(self, t: Any, n: int) -> FloatArray:
        """Check the times of n events, or one for all."""
        if np.ndim(t) == 0:
            return np.full(n, self._time(t))
        times, self._first_time = check_times_of_one_kind(t, n, self._first_time)
        return times

    def _check_far(self, t: float) -> None:
        if not abs(t) < FURTHEST * self.spans.bucket:
            raise ClockError(
                f"time {t!r} is not possible with buckets of {self.spans.bucket:g} s; give times in seconds, or a "
                "longer bucket or horizon"
            )
        super()._check_far(t)

    def _check_clock(self, t: FloatArray) -> None:
        """Raise `ClockError` where a time of impressions in order would be refused."""
        clock = np.maximum.accumulate(np.concatenate(([self._now.clock], t[:-1])))
        with np.errstate(invalid="ignore"):
            far = np.flatnonzero((np.abs(t - clock) > self.max_jump) & np.isfinite(clock))
        behind = np.flatnonzero(clock - t > self.max_behind)
        if not math.isfinite(self._now.clock):
            self._check_far(float(t[0]))
        if len(far) or len(behind):
            k = min([*far[:1].tolist(), *behind[:1].tolist()])
            raise ClockError(
                f"time {t[k].item()!r} in row {k} is {abs(t[k] - clock[k]):.4g} s from the clock, {clock[k].item()!r}, "
                f"and more than max_jump={self.max_jump:.4g}, or behind it by more than max_behind="
                f"{self.max_behind:.4g}; drop the row or repair its time"
            )

    # -- state -----------------------------------------------------------------------------------------------------

    def use_key(self, key: bytes | str) -> None:
        """Sign and read tokens with the key of a join that was loaded without its key.

        Raises
        ------
        InputError
            For another key than that of the join.
        """
        self._tokens.use(key)

    def _make_ready(self) -> None:
        super()._make_ready()
        if self._journal is not None and self._resumed:  # go on in a bucket of this process
            self._resumed = False
            self._journal.append(counted_events.RESUMED)
            self._restart()

    def _restart(self) -> None:
        """Begin a new bucket with a number that no bucket of a process that was killed can have."""
        self._close()
        self._serial = (self._serial // RESTARTS + 1) * RESTARTS

    def _limit(self, most: int, unknown: int) -> bool:
        changed = most != self.max_held
        self.max_held = most
        if self._rows > most:
            self._make_room()
        return changed

    def _replay(self, journal: Journal) -> int:
        return self._take_again(journal.events())

    def _take_again(self, written: Iterator[bytes]) -> int:
        """Take events again, and return how many they are."""
        take: Takers = {
            counted_events.ISSUE: self._issue,
            counted_events.ISSUES: self._issue_many,
            counted_events.RESOLVE: self._resolve,
            counted_events.RESOLVES: self._resolve_many,
            counted_events.RESUME: self._restart,
            **self._takers(),
        }
        number = 0
        for number, event in enumerate(written, 1):  # noqa: B007
            kind, *arguments = counted_events.read(event)
            take[kind](*arguments)
        return number

    def _resume(self, journal: Journal) -> None:
        super()._resume(journal)
        self._resumed = journal.n > 0

    def _take_over(self, journal: Journal) -> None:
        own = self._tokens
        super()._take_over(journal)
        loaded = self._tokens
        if not journal.has_snapshot or (own.stored is not None and loaded.stored is not None):
            return
        if own.stored is not None or own.fingerprint != loaded.fingerprint:
            raise StateError(f"{journal.path} is the journal of a join with another key; give key= it was made with")
        loaded.signer = own.signer

    def _plain_params(self) -> dict[str, Any]:
        """Return the parameters without the journal and the key, which are no part of a state."""
        return {
            **self.spans._asdict(),
            "max_rows": self.max_held,
            "max_jump": self.max_jump,
            "max_behind": self.max_behind,
        }

    def _state(self) -> dict[str, Any]:
        return {**counted_state.head_of(self), "held": [counted_state.bucket_of(one) for one in self._buckets.values()]}

    def _parts(self) -> Iterator[bytes | bytearray]:
        yield from counted_state.parts_of(self, type(self).__name__, self._plain_params())

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        read, buckets = counted_state.read(learned, params)
        join = cls(read["versions"][read["newest"]].calibrator, **params)
        counted_state.take_over(join, read, buckets)
        return join

    def __repr__(self) -> str:
        return f"CountedJoin({self._shown()}, bucket={self.spans.bucket!r}, cells={self.spans.cells})"


def countable(calibrator: Any) -> Any:
    """Return a calibrator whose predictions can be counted; raise `InputError` for another one."""
    if isinstance(calibrator, Shadow) or VersionLearner(calibrator).weighs:
        raise InputError(
            f"{type(calibrator).__name__} keeps a bet for each prediction, which counts cannot; give it to a "
            "LabelJoin, or give its calibrator to a CountedJoin"
        )
    if isinstance(getattr(calibrator, "_level_rows", None), LevelRows):
        raise InputError(f"{type(calibrator).__name__} has levels in a store; give it to a LabelJoin")
    calibrator.overall.scale.require_bounds("counting by cells of the score")
    return calibrator


def _cells_of(calibrator: Any) -> int:
    """Return the cells of a method on a grid, if they are few; else the default."""
    own = getattr(calibrator.overall, "resolution", None)
    return own if isinstance(own, int) and own <= MANY_CELLS else FEW_CELLS


def _is_judged(learner: VersionLearner) -> bool:
    """Return whether a version needs what was said of a prediction to learn its label."""
    calibrator = learner.calibrator
    return learner.before is not None or learner._keyed or bool(calibrator._judged)


def in_bulk(learner: VersionLearner) -> bool:
    """Return whether a weighted observation is the same as many, for a version without levels."""
    return bool(learner.calibrator.merges)


def _checked_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype == np.bool_:
        return labels
    return np.array([check_label(one) > 0.0 for one in labels.tolist()], dtype=np.bool_)
