# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The events of a join in columns, for methods whose steps are compiled.

A row is taken as the join takes it alone. What is not plain (an id that is known, a time far from the clock, other
versions, lack of room) is left to the join: calls return how many rows they took.
"""

import struct

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

import numpy as np
from cython.cimports.streamcal.kernels.common.fast_path import LIMIT, NUMBER
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.mixture.auto_steps import AutoSteps
from cython.cimports.streamcal.kernels.mixture.line_ladder import LineLadder
from cython.cimports.streamcal.kernels.newton.online_newton import OnlineNewton, log_odds
from cython.cimports.streamcal.kernels.pending.pending_table import AHEAD, VERSION, Block, PendingTable
from cython.cimports.streamcal.kernels.segments.segmented_steps import SegmentedSteps

SHIFT, LOW = cython.declare(cython.longlong, 13), cython.declare(cython.longlong, 8191)
POSITIVE, NEGATIVE = cython.declare(cython.int, 1), cython.declare(cython.int, 2)
JUDGED = cython.declare(cython.Py_ssize_t, 4096)
"""Labels that are passed on at once."""
CLICKS = cython.declare(cython.longlong, 4000)
"""As in `streamcal.live.early`: the memory of the delay of reports, in clicks."""
LATEST = cython.declare(cython.double, 1e11)
"""No later times are taken: they may be in a shorter unit, of which a method warns."""
HIGHEST = cython.declare(cython.double, 1.0 - 1e-6)
"""As in `streamcal.live.joining`: with an early window, no forecast is more certain."""
nan = cython.declare(cython.double, float("nan"))


@cython.cfunc
def _bytes(value: cython.double) -> bytes:
    """Return the bytes of a number."""
    return cython.cast(cython.p_char, cython.address(value))[:8] if cython.compiled else struct.pack("=d", value)


@cython.cfunc
def _number(content: bytes, at: cython.Py_ssize_t) -> cython.double:
    """Return the number whose bytes begin at a place."""
    value: cython.double = 0.0
    if cython.compiled:
        memcpy(cython.address(value), cython.cast(cython.p_char, content) + at, 8)
        return value
    return struct.unpack_from("=d", content, at)[0]


class PendingSteps:
    """The clock, the counts and the places of a join while rows are taken.

    Parameters
    ----------
    table : PendingTable
    kernel : OnlineNewton, LineLadder, AutoSteps or SegmentedSteps
        That of the calibrator of the newest version, which has learned something.
    """

    def __init__(self, table: PendingTable, kernel):
        self.table = table
        self._newton = kernel if isinstance(kernel, OnlineNewton) else None
        self._ladder = kernel if isinstance(kernel, LineLadder) else None
        self._auto = kernel if isinstance(kernel, AutoSteps) else None
        self._segmented = kernel if isinstance(kernel, SegmentedSteps) else None
        if self._auto is not None:
            self._auto.mixture.keep_knots()
        self.learned = self.positives = self.timed_out = self.matched = self.before_issue = self.backwards = 0
        self.forward = False
        self.judged, self.judges = np.empty((5, JUDGED)), 0
        self.labels = self.early = None
        self.in_columns, self.told = True, []
        self.factor, self.waits, self.since = 1.0, True, 0
        if self._auto is not None:
            self._record = np.empty(self._auto.mixture.width)
            self._content = np.empty(self._auto.packed, dtype=np.uint8)

    def judged_labels(self):
        """Return the labels that have been judged since the last call, as five rows."""
        labels = np.array(np.asarray(self.judged)[:, : self.judges])
        self.judges = 0
        return labels

    def counted(self):
        """Return the counts above 0 since the last call, by the names that the join has for them."""
        counts: list = []
        if self.learned:
            counts += [("learned", self.learned), ("positives", self.positives), ("timed_out", self.timed_out)]
        if self.before_issue or self.backwards:
            counts += [("before_issue", self.before_issue), ("backwards", self.backwards)]
        self.learned = self.positives = self.timed_out = self.before_issue = self.backwards = 0
        return counts

    def settle(self, clock):
        """Learn labels whose time has come, and forget; return False, where the join has to do it."""
        if not clock < LATEST:
            return False
        table: PendingTable = self.table
        past: cython.double = clock - self.keep
        while self.early is not None and self.ages and self.ages[0][0] <= clock:
            if not self._learn_due(self.ages[0][0]):
                return False
            self.early._grow_in(self)
        if not self._learn_due(clock):
            return False
        if self.unjudged >= 0 and not self._judge(clock - self.horizon):
            return False
        while table.first < self.unlearned:
            block: Block = table.block(table.first)
            if block.at[table.first & LOW] > past:
                break
            table.drop_first()
            if self.unlearned < table.first:
                self.unlearned = table.first
            if 0 <= self.unjudged < table.first:
                self.unjudged = table.first
        return True

    def _learn_due(self, clock):
        """Learn labels whose time has come by this clock; return False at one that is not plain."""
        due: cython.double = clock - self.hold
        while self.unlearned < self.table.end:
            block: Block = self.table.block(self.unlearned)
            if block.at[self.unlearned & LOW] > due:
                break
            if not self._learn(block, self.unlearned & LOW):
                return False
            self.unlearned += 1
        return True

    def _learn(self, block, row):
        """Learn the label of a row; False for one that is not plain."""
        t: cython.double = block.at[row] if block.t is None else block.t[row]
        w: cython.double = 1.0 if block.w is None else block.w[row]
        time: cython.double = t if self.timed else nan
        score: cython.double = float(block.score[row]) * self.factor
        x: cython.double = log_odds(score, LIMIT)
        flags: cython.int = block.flags[row]
        if (block.levels or self.version is not None) and self.table.level(block, row, VERSION) != self.version:
            return False
        y: cython.bint = self._is_clicked(block, row, t)
        if self.early is not None and not self.waits:
            y = flags & POSITIVE != 0 and (block.cell is None or block.cell[row] == 0)
        if self._has_weight(block, row, y):
            w = block.outcome_w[row]
        if not (-LIMIT < x < LIMIT and 1e-60 <= w <= 1e60):
            return False
        label: cython.double = 1.0 if y else 0.0
        content: bytes = self.table.record(self.unlearned)
        if content is not None and self.table.number(self.unlearned) < self.since:
            return False
        if self._newton is not None:
            learned = self._newton.learn_fast(score, bool(y), w)
        elif self._ladder is not None:
            learned = self._learn_record(content, x, block.p[row], label, w)
        elif self._segmented is not None:
            learned = self._learn_segmented(content, block, row, label, w, time)
        else:
            learned = self._learn_parts(content, x, block.p[row], label, w, time)
        if not learned:
            return False
        self.learned += 1
        if self.labels is not None:
            self.labels.append((self.table.issued(self.unlearned), w, bool(y)))
        if y:
            self.positives += 1
        elif flags & (POSITIVE | NEGATIVE) == 0:
            self.timed_out += 1
        return True

    def _learn_record(self, content, x, p, y, w):
        """Learn a label by the record of a ladder's forecast p; False for bytes that are none."""
        record: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        apart: cython.Py_ssize_t = (0 if content is None else len(content)) - self._ladder.packed
        if apart == NUMBER:
            p = _number(content, 0)
        if (apart != 0 and apart != NUMBER) or not 0.0 <= p <= 1.0:
            return False
        content = content[apart:]
        if cython.compiled:
            self._ladder.read(cython.cast(cython.p_uchar, cython.cast(cython.p_char, content)), p, record)
        else:
            self._ladder.read(list(content), p, record)
        if not self._ladder.is_possible(record):
            return False
        self._ladder.learn_record(x, y, w, record)
        return True

    def _learn_parts(self, content, x, p, y, w, t):
        """Learn a label by what the parts of a mixture said with the forecast p; False for bytes that are not it."""
        of: cython.double = x
        at: cython.double = log_odds(p, LIMIT)
        apart: cython.Py_ssize_t = (0 if content is None else len(content)) - self._auto.packed
        if apart == 2 * NUMBER:
            of, at = _number(content, 0), _number(content, NUMBER)
        elif apart != 0:
            return False
        if cython.compiled:
            memcpy(cython.address(self._content[0]), cython.cast(cython.p_char, content) + apart, self._auto.packed)
        else:
            self._content[:] = np.frombuffer(content, dtype=np.uint8, offset=apart)
        self._auto.unpack(self._content, of, at, self._record)
        try:
            self._auto.require(self._record)
        except ValueError:
            return False
        self._auto.learn_issued(x, y, w, t, self._record)
        return True

    def _learn_segmented(self, content, block, row, y, w, t):
        """Learn a label by levels and the record of its forecast; False for what cannot be theirs."""
        keys = self.table._levels(block, row)[1] if len(block.levels) > 1 else None
        levels = self._segmented.levels(keys)
        if levels is None or not self._segmented.read(content):
            return False
        return self._segmented.learn(float(block.score[row]) * self.factor, levels, y, w, t)

    def _is_clicked(self, block, row, t):
        """Return whether a positive outcome came to a row of this time, and in time."""
        return block.flags[row] & POSITIVE != 0 and block.when[row] - t <= self.keep

    def _has_weight(self, block, row, y):
        """Return whether the outcome that is learned as `y` has a weight of its own."""
        flags: cython.int = block.flags[row]
        if block.outcome_w is None or flags & (POSITIVE | NEGATIVE) == 0 or y != (flags & POSITIVE != 0):
            return False
        return block.outcome_w[row] == block.outcome_w[row]

    def _judge(self, past):
        """Note the labels of rows whose horizon has passed; False where there are too many at once."""
        y: cython.bint
        w: cython.double
        table: PendingTable = self.table
        while self.unjudged < self.unlearned:
            block: Block = table.block(self.unjudged)
            row: cython.Py_ssize_t = self.unjudged & LOW
            if block.at[row] > past:
                break
            in_columns: cython.bint = self.in_columns and len(block.levels) < 2  # levels are passed on too
            if self.judges == JUDGED or len(self.told) == JUDGED or (self.told if in_columns else self.judges):
                return False
            t: cython.double = block.at[row] if block.t is None else block.t[row]
            y = self._is_clicked(block, row, t)
            w = 1.0 if block.w is None else block.w[row]
            if self._has_weight(block, row, y):
                w = block.outcome_w[row]
            if in_columns:
                self.judged[0, self.judges] = block.p[row]
                self.judged[1, self.judges] = block.score[row]
                self.judged[2, self.judges] = 1.0 if y else 0.0
                self.judged[3, self.judges] = w
                self.judged[4, self.judges] = t
                self.judges += 1
            else:
                self.told.append((table.issued(self.unjudged), w, bool(y)))
            self.unjudged += 1
        return True

    def _note_report(self, t):
        """Add a click to the mean delay of reports."""
        self.reports += 1
        self.report_delay += (max(self.clock - t, 0.0) - self.report_delay) / min(self.reports, CLICKS)

    def issue(
        self,
        ids: list,
        scores: cython.const[cython.double][::1],
        t: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        y: cython.const[cython.uchar][:],
        when: cython.const[cython.double][:],
        begin: cython.Py_ssize_t,
        keys,
        aside,
        p: cython.double[::1],
        served: cython.bint = False,
    ):
        """Issue the rows from `begin` on, write probabilities to `p`, and return the first that is not taken.

        With `served` they are issued again, and `p` has their probabilities. An outcome `y` that came at a finite
        `when`, up to the horizon, is set at once; `when` may be empty. `keys` has the levels of each row, or is None.
        """
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t
        x: cython.double
        table: PendingTable = self.table
        for i in range(begin, scores.shape[0]):
            k = (i - begin) % AHEAD
            if k == 0:
                table.look_ahead(ids, i)
            score: cython.double = scores[i]
            id = ids[i]
            ahead: cython.double = t[i] - self.clock
            if not (-LATEST < t[i] < LATEST and -self.behind <= ahead <= self.max_jump and 0.0 <= score <= 1.0):
                return i
            x = log_odds(score * self.factor, LIMIT)
            if not (1e-60 <= w[i] <= 1e60 and -LIMIT < x < LIMIT) or (aside and id in aside):
                return i
            keys_of_row = None if keys is None else keys[i]
            levels = None if self._segmented is None else self._segmented.levels(keys_of_row)
            if self._segmented is not None and levels is None:
                return i
            if table.find_ahead(k, id) >= 0 or not self._arrive(t[i]):
                return i
            record = self._issue(score * self.factor, levels, t[i] if self.timed else nan)
            if not served:
                p[i] = self._issued
                if self.factor != 1.0:
                    p[i] = max(p[i], min(p[i] / self.factor, max(HIGHEST, score)))
            place = table.add_ahead(
                k, id, p[i], score, t[i], self.version, keys_of_row, w[i], self.clock, self.number, record
            )
            self.number += 1
            if when.shape[0] > 0 and when[i] <= t[i] + self.horizon:
                self._set(place, bool(y[i] != 0), float(when[i]), float(t[i]))
        return scores.shape[0]

    def _issue(self, score, levels, t):
        """Set the probability at a score, and return what is remembered of it."""
        content: cython.uchar[22] = [0] * 22
        x: cython.double = log_odds(score, LIMIT)
        apart: cython.bint = self.factor != 1.0  # the score and the probability of the row are others
        if self._segmented is not None:
            self._issued = self._segmented.issue(score, levels, t)
            return self._segmented.written()
        if self._newton is not None:
            self._issued = self._newton.predict(x)
            return None
        if self._ladder is not None:
            self._issued = self._ladder.write(x, content)
            if cython.compiled:
                record: bytes = cython.cast(cython.p_char, content)[: self._ladder.packed]
            else:
                record = bytes(content[: self._ladder.packed])
            return _bytes(self._issued) + record if apart else record
        self._issued = sigmoid(self._auto.mixture.at(x, t))
        at: cython.double = self._auto.issue_packed(x, t, self._content)
        if cython.compiled:
            record = cython.cast(cython.p_char, cython.address(self._content[0]))[: self._auto.packed]
        else:
            record = bytes(self._content)
        return _bytes(x) + _bytes(at) + record if apart else record

    def _arrive(self, t):
        """Move the clock to a row; False where the row is not taken."""
        table: PendingTable = self.table
        if t >= self.clock and not self.settle(t):
            return False
        if table.end - table.first >= self.most:
            return False
        if t >= self.clock:
            self.clock = t
            self.forward = True
        else:
            self.backwards += 1
        return True

    def _set(self, place: cython.Py_ssize_t, positive: cython.bint, when: cython.double, t: cython.double):
        """Set the first outcome of a row."""
        if positive and self.early is not None:
            self.early._click_in(self, place, when)
            return
        self.table.set_outcome(place, bool(positive), not positive, when, 0, None)
        self.matched += 1
        if when < t:
            self.before_issue += 1
        if positive:
            self._note_report(when)

    def resolve(
        self,
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
            if not (-LATEST < t[i] < LATEST and abs(t[i] - self.clock) <= self.max_jump):
                return i
            place = table.find_ahead(k, ids[i])
            if place < 0 or (y[i] and place < self.unlearned):
                return i
            block: Block = table.block(place)
            row: cython.Py_ssize_t = place & LOW
            if block.flags[row] & (POSITIVE | NEGATIVE):
                return i
            issued[i] = block.at[row] if block.t is None else block.t[row]
            self._set(place, bool(y[i] != 0), float(t[i]), float(issued[i]))
        return t.shape[0]
