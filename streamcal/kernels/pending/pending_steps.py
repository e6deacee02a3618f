# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What changes with each event of a join, and steps that take events, one or in columns, for methods that have them.

What is not plain (an id that is known, a time far from the clock, other versions, lack of room) is left to the join:
calls in columns return how many rows they took.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.fast_path import LIMIT
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.mixture.auto_steps import AutoSteps
from cython.cimports.streamcal.kernels.mixture.line_ladder import LineLadder
from cython.cimports.streamcal.kernels.newton.online_newton import OnlineNewton, log_odds
from cython.cimports.streamcal.kernels.pending.pending_table import AHEAD, VERSION, Block, PendingTable
from cython.cimports.streamcal.kernels.segments.segmented_steps import SegmentedSteps

LOW = cython.declare(cython.longlong, 8191)
POSITIVE, NEGATIVE = cython.declare(cython.int, 1), cython.declare(cython.int, 2)
JUDGED = cython.declare(cython.Py_ssize_t, 4096)
"""Labels that are passed on at once."""
LATEST = cython.declare(cython.double, 1e11)
"""No later times are taken: they may be in a shorter unit, of which a method warns."""
MOST = 2**62
"""No join holds more predictions."""
#: The memory of delays, in clicks: the latest click has weight 1, and a click this many clicks ago 1/e. The share of
#: early clicks has a standard error of about 1 %, and follows a change of delays within some thousand clicks.
CLICKS = 4_000
#: With an early window, no prediction is more certain: the rate of early clicks times 1/share may be above 1.
HIGHEST = 1.0 - 1e-6
_HIGHEST = cython.declare(cython.double, HIGHEST)
#: What is counted; `LabelJoin.tally` says of what.
COUNTS = (
    "issued",
    "learned",
    "positives",
    "timed_out",
    "repeated",
    "contradicted",
    "corrected",
    "uncorrected",
    "unknown",
    "matched",
    "overflowed",
    "unheld",
    "forgotten",
    "backwards",
    "before_issue",
    "refused",
)
nan = cython.declare(cython.double, float("nan"))
infinity = cython.declare(cython.double, float("inf"))


class PendingSteps:
    """The clock, the counts and the places of a join.

    Parameters
    ----------
    table : PendingTable or None
        None for a join that remembers no predictions.
    horizon : float
    early : float or None
    late : float

    Notes
    -----
    Steps are given the join, for what is not compiled: `_learn`, `_grow_older` and `_resolve_at`.
    """

    def __init__(self, table, horizon, early, late):
        self.table, self.horizon, self.keep = table, horizon, horizon + late
        self.early, self.soonest = early is not None, horizon if early is None else early
        self.clock, self.number, self.unlearned, self.unjudged = -float("inf"), 0, 0, -1
        self.hold, self.factor, self.waits, self.since = self.soonest, 1.0, True, 0
        self.ages, self.behind, self.known, self.reports, self.report_delay = [], 0, 0, 0, 0.0
        self.in_columns, self.told, self.labels, self.judges = False, [], [], 0
        self.counts = dict.fromkeys(COUNTS, 0)
        self._kernel = None

    @property
    def counts(self):
        """The numbers of events, by name."""
        return {name: getattr(self, name) for name in COUNTS}

    @counts.setter
    def counts(self, counts):
        for name, count in counts.items():
            setattr(self, name, count)

    @property
    def due(self):
        """The clock at which the next label is learned or the next prediction forgotten; ∞ where nothing is held."""
        table: PendingTable = self.table
        due: cython.double = self.ages[0][0] if self.ages else float("inf")
        if self.unlearned < table.end:
            due = min(due, table.at(self.unlearned) + self.hold)
        return min(due, table.at(table.first) + self.keep) if table.first < self.unlearned else due

    def use(self, join, kernel, version, timed):
        """Take steps of the newest version by its kernel, if there is one, under the limits of the join."""
        self._version, self._timed, self._noted = version, timed, join.on_learned is not None
        self._aside = join._aside
        self._max_jump, self._max_behind, self._max_held = join.max_jump, join.max_behind, min(join.max_held, MOST)
        if kernel is self._kernel:
            return
        self._kernel = kernel
        self._newton = kernel if isinstance(kernel, OnlineNewton) else None
        self._ladder = kernel if isinstance(kernel, LineLadder) else None
        self._auto = kernel if isinstance(kernel, AutoSteps) else None
        self._segmented = kernel if isinstance(kernel, SegmentedSteps) else None
        if self._auto is not None:
            self._auto.mixture.keep_knots()

    # -- labels ----------------------------------------------------------------------------------------------------

    def watch(self, first, in_columns):
        """Note labels that are judged from now on, from a place on."""
        self.unjudged, self.in_columns = first, in_columns
        if in_columns:
            self._judged = np.empty((5, JUDGED))

    def judged_labels(self):
        """Return the labels that have been judged since the last call, as five rows."""
        labels = np.array(np.asarray(self._judged)[:, : self.judges])
        self.judges = 0
        return labels

    def is_due(self):
        """Return whether the label of a prediction is due, or a click of the curve."""
        if self.ages and self.ages[0][0] <= self.clock:
            return True
        return self.unlearned < self.table.end and self.table.at(self.unlearned) <= self.clock - self.hold

    def settle(self, join, clock, alone):
        """Learn labels whose time has come, and forget; return False before labels that have to be passed on first.

        Unless it is done `alone`, return False also before a label that is not plain.
        """
        if not alone and not clock < LATEST:
            return False
        table: PendingTable = self.table
        past: cython.double = clock - self.keep
        while self.ages and self.ages[0][0] <= clock:  # before its impressions are forgotten
            if not self._learn_due(join, self.ages[0][0], alone):
                return False
            join._grow_older()
        if not self._learn_due(join, clock, alone):
            return False
        if self.unjudged >= 0 and not self._judge(clock - self.horizon):
            return False
        while table.first < self.unlearned:
            block: Block = table.block(table.first)
            if block.at[table.first & LOW] > past:
                break
            self.forget()
        return True

    def forget(self):
        """Forget the first prediction."""
        table: PendingTable = self.table
        table.drop_first()
        self.unlearned = max(self.unlearned, table.first)
        if self.unjudged >= 0:
            self.unjudged = max(self.unjudged, table.first)

    def _learn_due(self, join, clock, alone):
        """Learn the labels whose time has come by this clock, in the order of issue; False at one that is not plain."""
        due: cython.double = clock - self.hold
        while self.unlearned < self.table.end:
            block: Block = self.table.block(self.unlearned)
            if block.at[self.unlearned & LOW] > due:
                break
            if not self._learn(join, block, self.unlearned & LOW, alone):
                return alone  # it waits for levels that cannot be read now
            self.unlearned += 1
        return True

    def _learn(self, join, block, row, alone):
        """Learn the label of a row; return whether that was done, or it was refused."""
        t: cython.double = block.at[row] if block.t is None else block.t[row]
        flags: cython.int = block.flags[row]
        y: cython.bint = self._is_clicked(block, row, t)
        if not self.waits:
            y = flags & POSITIVE != 0 and (block.cell is None or block.cell[row] == 0)
        w: cython.double = self._weight(block, row, y)
        if self._kernel is None or not self._learn_plain(block, row, t, w, 1.0 if y else 0.0):
            learned = join._learn(self.unlearned, bool(y), w) if alone else None
            if not learned:
                self.refused += learned is not None
                return learned is not None
        self.learned += 1
        if self._noted:
            self.labels.append((self.table.issued(self.unlearned), w, bool(y)))
        if y:
            self.positives += 1
        elif flags & (POSITIVE | NEGATIVE) == 0:
            self.timed_out += 1
        return True

    def _learn_plain(self, block, row, t, w, y):
        """Learn the label of a row by the kernel; False for one that is not plain."""
        time: cython.double = t if self._timed else nan
        score: cython.double = float(block.score[row]) * self.factor
        x: cython.double = log_odds(score, LIMIT)
        if (block.levels or self._version is not None) and self.table.level(block, row, VERSION) != self._version:
            return False
        if not (-LIMIT < x < LIMIT and 1e-60 <= w <= 1e60 and t < LATEST):
            return False
        content: bytes = self.table.record(self.unlearned)
        if content is not None and self.table.number(self.unlearned) < self.since:
            return False
        if self._newton is not None:
            return self._newton.learn_fast(score, y > 0.0, w)
        if self._ladder is not None:
            return self._ladder.learn_bytes(x, y, w, block.p[row], content)
        if self._segmented is not None:
            return self._learn_segmented(content, block, row, score, y, w, time)
        return self._auto.learn_bytes(x, y, w, time, block.p[row], content)

    def _learn_segmented(self, content, block, row, score, y, w, t):
        """Learn a label by levels and the record of its forecast; False for what cannot be theirs."""
        keys = self.table._levels(block, row)[1] if len(block.levels) > 1 else None
        levels = self._segmented.levels(keys)
        if levels is None or not self._segmented.read(content):
            return False
        return self._segmented.learn(score, levels, y, w, t)

    def _is_clicked(self, block, row, t):
        """Return whether a positive outcome came to a row of this time, and in time."""
        return block.flags[row] & POSITIVE != 0 and block.when[row] - t <= self.keep

    def _weight(self, block, row, y):
        """Return the weight of a row whose label is `y`: that of the outcome, where it has one of its own."""
        flags: cython.int = block.flags[row]
        w: cython.double = 1.0 if block.w is None else block.w[row]
        if block.outcome_w is None or flags & (POSITIVE | NEGATIVE) == 0 or y != (flags & POSITIVE != 0):
            return w
        return block.outcome_w[row] if block.outcome_w[row] == block.outcome_w[row] else w

    def _judge(self, past):
        """Note the labels of rows whose horizon has passed; False where there are too many at once."""
        y: cython.bint
        w: cython.double
        while self.unjudged < self.unlearned:
            block: Block = self.table.block(self.unjudged)
            row: cython.Py_ssize_t = self.unjudged & LOW
            if block.at[row] > past:
                break
            in_columns: cython.bint = self.in_columns and len(block.levels) < 2  # levels are passed on too
            if self.judges == JUDGED or len(self.told) == JUDGED or (self.told if in_columns else self.judges):
                return False
            t: cython.double = block.at[row] if block.t is None else block.t[row]
            y = self._is_clicked(block, row, t)
            w = self._weight(block, row, y)
            if in_columns:
                self._judged[0, self.judges] = block.p[row]
                self._judged[1, self.judges] = block.score[row]
                self._judged[2, self.judges] = 1.0 if y else 0.0
                self._judged[3, self.judges] = w
                self._judged[4, self.judges] = t
                self.judges += 1
            else:
                self.told.append((self.table.issued(self.unjudged), w, bool(y)))
            self.unjudged += 1
        return True

    # -- events ----------------------------------------------------------------------------------------------------

    def note_report(self, t):
        """Add a click to the mean delay of reports."""
        self.reports += 1
        self.report_delay += (max(self.clock - t, 0.0) - self.report_delay) / min(self.reports, CLICKS)

    def issue_one(
        self, join, id, score: cython.double, t: cython.double, keys, w: cython.double, served: cython.double
    ):
        """Issue a row and return its probability, `served` unless that is NaN; return NaN if it is not plain."""
        self.table.look_ahead([id], 0)
        place: cython.Py_ssize_t = self._issue_row(join, 0, id, score, t, keys, w, served)
        return nan if place < 0 else self._p

    def issue(
        self,
        join,
        ids: list,
        scores: cython.const[cython.double][::1],
        t: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        y: cython.const[cython.uchar][:],
        when: cython.double[:],
        begin: cython.Py_ssize_t,
        keys,
        p: cython.double[::1],
        served: cython.bint = False,
    ):
        """Issue the rows from `begin` on, write probabilities to `p`, and return the first that is not taken.

        With `served` they are issued again, and `p` has their probabilities. An outcome `y` that came at a finite
        `when`, before the clock is a horizon later, is set at once; `when` is set to ∞ for others, and may be empty.
        `keys` has the levels of each row, or is None.
        """
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t
        again: cython.double = nan
        for i in range(begin, scores.shape[0]):
            k = (i - begin) % AHEAD
            if k == 0:
                self.table.look_ahead(ids, i)
            levels = None if keys is None else keys[i]
            if served:
                again = float(p[i])
            place = self._issue_row(join, k, ids[i], float(scores[i]), float(t[i]), levels, float(w[i]), again)
            if place < 0:
                return i
            p[i] = self._p
            if when.shape[0] == 0:
                continue
            if when[i] <= self.clock + self.horizon:
                self._set(join, place, bool(y[i] != 0), float(when[i]), float(t[i]))
            else:
                when[i] = infinity
        return scores.shape[0]

    def _issue_row(self, join, k, id, score, t, keys, w, served):
        """Issue a row whose id is `k` after the first one looked at, and return its place; −1 if it is not taken.

        Its probability is `served`, unless that is NaN.
        """
        place: cython.Py_ssize_t
        ahead: cython.double = t - self.clock
        behind: cython.double = min(self._max_behind, self.hold, self._max_jump)
        if not (-LATEST < t < LATEST and -behind <= ahead <= self._max_jump and 0.0 <= score <= 1.0):
            return -1
        x: cython.double = log_odds(score * self.factor, LIMIT)
        if not (1e-60 <= w <= 1e60 and -LIMIT < x < LIMIT) or (self._aside and id in self._aside):
            return -1
        levels = None if self._segmented is None else self._segmented.levels(keys)
        if self._segmented is not None and levels is None:
            return -1
        if self.table.find_ahead(k, id) >= 0 or not self._arrive(join, t):
            return -1
        record = self._forecast(score * self.factor, levels, t if self._timed else nan)
        if served == served:
            self._p = served
        elif self.factor != 1.0:
            self._p = max(self._p, min(self._p / self.factor, max(_HIGHEST, score)))
        place = self.table.add_ahead(k, id, self._p, score, t, self._version, keys, w, self.clock, self.number, record)
        self.number += 1
        self.issued += 1
        return place

    def _forecast(self, score, levels, t):
        """Set the probability at a score, and return what is remembered of it."""
        x: cython.double = log_odds(score, LIMIT)
        apart: cython.bint = self.factor != 1.0  # the score and the probability of the row are others
        if self._segmented is not None:
            self._p = self._segmented.issue(score, levels, t)
            return self._segmented.written()
        if self._newton is not None:
            self._p = self._newton.predict(x)
            return None
        if self._ladder is not None:
            record: bytes = self._ladder.issue_bytes(x, apart)
            self._p = self._ladder.issued
            return record
        self._p = sigmoid(self._auto.mixture.at(x, t))
        return self._auto.issue_bytes(x, t, apart)

    def _arrive(self, join, t):
        """Move the clock to a row; False where the row is not taken."""
        table: PendingTable = self.table
        if t >= self.clock and not self.settle(join, t, False):
            return False
        if table.end - table.first >= self._max_held:
            return False
        if t >= self.clock:
            self.clock, self.behind = t, 0
        else:
            self.backwards += 1
        return True

    def _set(self, join, place, positive, when, t):
        """Set the first outcome of a row."""
        if positive and self.early:
            join._resolve_at(place, True, when)
            return
        self.table.set_outcome(place, bool(positive), not positive, when, 0, None)
        self.known += 1
        if when < t:
            self.before_issue += 1
        if positive:
            self.note_report(when)

    def resolve_one(self, join, id, positive: cython.bint, t: cython.double):
        """Take an outcome; return False, with no change, for one that is not plain."""
        return self._resolve_row(join, self.table.place_of(id), positive, t) >= 0

    def resolve(
        self,
        join,
        ids: list,
        y: cython.const[cython.uchar][::1],
        t: cython.const[cython.double][::1],
        begin: cython.Py_ssize_t,
        issued: cython.double[::1],
    ):
        """Take the outcomes from `begin` on, and return the first that is not taken.

        The times of issue are written to `issued`.
        """
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t
        table: PendingTable = self.table
        for i in range(begin, t.shape[0]):
            k = (i - begin) % AHEAD
            if k == 0:
                table.look_ahead(ids, i)
            if not (-LATEST < t[i] < LATEST and abs(t[i] - self.clock) <= self._max_jump):
                return i
            place = self._resolve_row(join, table.find_ahead(k, ids[i]), y[i] != 0, t[i])
            if place < 0:
                return i
            block: Block = table.block(place)
            issued[i] = block.at[place & LOW] if block.t is None else block.t[place & LOW]
        return t.shape[0]

    def _resolve_row(self, join, place, positive, when):
        """Take the first outcome of the row at a place, whose label is not learned, and return it; else −1."""
        if place < 0 or (positive and place < self.unlearned):
            return -1
        block: Block = self.table.block(place)
        row: cython.Py_ssize_t = place & LOW
        if block.flags[row] & (POSITIVE | NEGATIVE):
            return -1
        self._set(join, place, positive, when, block.at[row] if block.t is None else block.t[row])
        return place
