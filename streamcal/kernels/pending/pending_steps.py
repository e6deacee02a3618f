# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The events of a join in columns, for methods whose steps are compiled.

A row is taken as the join takes it alone. What is not plain (an id that is known, a time far from the clock, other
versions, lack of room) is left to the join: calls return how many rows they took.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.mixture.auto_steps import AutoSteps
from cython.cimports.streamcal.kernels.mixture.line_ladder import LineLadder
from cython.cimports.streamcal.kernels.newton.online_newton import OnlineNewton, log_odds
from cython.cimports.streamcal.kernels.pending.pending_table import AHEAD, Block, Names, PendingTable
from cython.cimports.streamcal.kernels.segments.segmented_steps import SegmentedSteps

SHIFT, LOW = cython.declare(cython.longlong, 13), cython.declare(cython.longlong, 8191)
POSITIVE, NEGATIVE = cython.declare(cython.int, 1), cython.declare(cython.int, 2)
LIMIT = cython.declare(cython.double, 16.0)
"""Scores beyond these log-odds are clamped, which the join counts."""
JUDGED = cython.declare(cython.Py_ssize_t, 4096)
"""Labels that are passed on at once."""
CLICKS = cython.declare(cython.longlong, 4000)
"""As in `streamcal.live.early`: the memory of the delay of reports, in clicks."""
HEAVIEST = cython.declare(cython.double, 1e90)
"""As in `streamcal.states`: sums of a state are at most this."""
infinity = cython.declare(cython.double, float("inf"))
nan = cython.declare(cython.double, float("nan"))


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
        self.learned = self.positives = self.timed_out = self.matched = self.before_issue = self.backwards = 0
        self.forward = False
        self.judged, self.judges = np.empty((5, JUDGED)), 0
        self.labels = None

    def judged_labels(self):
        """Return the labels that have been judged since the last call, as five rows."""
        found = np.array(np.asarray(self.judged)[:, : self.judges])
        self.judges = 0
        return found

    def _settle(self, clock):
        """Learn labels whose time has come, and forget; return False, where the join has to do it."""
        table: PendingTable = self.table
        due: cython.double = clock - self.hold
        past: cython.double = clock - self.keep
        while self.unlearned < table.end:
            block: Block = table.block(self.unlearned)
            if block.at[self.unlearned & LOW] > due:
                break
            if not self._learn(block, self.unlearned & LOW):
                return False
            self.unlearned += 1
        if self.unjudged >= 0 and not self._judge(clock - self.horizon):
            return False
        while table.first < self.unlearned:
            block = table.block(table.first)
            if block.at[table.first & LOW] > past:
                break
            table.drop_first()
            if self.unlearned < table.first:
                self.unlearned = table.first
            if 0 <= self.unjudged < table.first:
                self.unjudged = table.first
        return True

    def _learn(self, block, row):
        """Learn the label of a row; False for one that is not plain."""
        x: cython.double
        t: cython.double = block.at[row] if block.t is None else block.t[row]
        w: cython.double = 1.0 if block.w is None else block.w[row]
        flags: cython.int = block.flags[row]
        y: cython.bint = flags & POSITIVE != 0 and block.when[row] - t <= self.keep
        if block.levels or self.version is not None:
            numbers = block.levels[0] if block.levels else None
            names: Names = self.table.names[0]
            if names.values[0 if numbers is None else numbers[row]] != self.version:
                return False
        if self._has_weight(block, row, y):
            w = block.outcome_w[row]
        x = log_odds(block.score[row], LIMIT)
        if not (-LIMIT < x < LIMIT and 1e-60 <= w <= 1e60):
            return False
        if self._newton is not None:
            if not self._newton.learn_fast(float(block.score[row]), bool(y), w):
                return False
        elif self._ladder is not None:
            if not self._learn_record(block, row, x, 1.0 if y else 0.0, w):
                return False
        elif self._segmented is not None:
            if not self._learn_segmented(self.unlearned, block, y, w, t):
                return False
        elif block.said is None or block.size != self._auto.packed:
            return False
        else:
            self._auto.learn_packed(
                x,
                log_odds(block.p[row], LIMIT),
                1.0 if y else 0.0,
                w,
                t if self.timed else nan,
                block.said[row],
            )
        self.learned += 1
        if self.labels is not None:
            self.labels.append((self.table.issued(self.unlearned), w, bool(y)))
        if y:
            self.positives += 1
        elif flags & (POSITIVE | NEGATIVE) == 0:
            self.timed_out += 1
        return True

    def _learn_record(self, block, row, x, y, w):
        """Learn a label by the record of a ladder's forecast; False for bytes that are none."""
        record: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        if block.said is None or block.size != self._ladder.packed or not 0.0 <= block.p[row] <= 1.0:
            return False
        if cython.compiled:
            self._ladder.read(cython.address(block.said[row, 0]), block.p[row], record)
        else:
            self._ladder.read(np.asarray(block.said)[row].tolist(), block.p[row], record)
        if not 0.0 <= record[0] <= HEAVIEST:
            return False
        self._ladder.learn_record(x, y, w, record)
        return True

    def _learn_segmented(self, place, block, y, w, t):
        """Learn a label by levels and the record of its forecast; False for what cannot be theirs."""
        keys = self.table._levels(block, place & LOW)[1] if len(block.levels) > 1 else None
        levels = self._segmented.levels(keys)
        if levels is None or not self._segmented.read(self.table.said(place)):
            return False
        score: cython.double = block.score[place & LOW]
        return self._segmented.learn(score, levels, 1.0 if y else 0.0, w, t if self.timed else nan)

    def _has_weight(self, block, row, y):
        """Return whether the outcome that is learned as `y` has a weight of its own."""
        flags: cython.int = block.flags[row]
        if block.outcome_w is None or flags & (POSITIVE | NEGATIVE) == 0 or y != (flags & POSITIVE != 0):
            return False
        return block.outcome_w[row] == block.outcome_w[row]

    def _judge(self, past):
        """Note the labels of rows whose horizon has passed; False where there are too many at once."""
        y: cython.bint
        table: PendingTable = self.table
        while self.unjudged < self.unlearned:
            block: Block = table.block(self.unjudged)
            row: cython.Py_ssize_t = self.unjudged & LOW
            if block.at[row] > past:
                break
            if self.judges == JUDGED or len(block.levels) > 1:  # levels are passed on too
                return False
            flags: cython.int = block.flags[row]
            t: cython.double = block.at[row] if block.t is None else block.t[row]
            y = flags & POSITIVE != 0 and block.when[row] - t <= self.keep
            self.judged[0, self.judges] = block.p[row]
            self.judged[1, self.judges] = block.score[row]
            self.judged[2, self.judges] = 1.0 if y else 0.0
            self.judged[3, self.judges] = 1.0 if block.w is None else block.w[row]
            if self._has_weight(block, row, y):
                self.judged[3, self.judges] = block.outcome_w[row]
            self.judged[4, self.judges] = t
            self.judges += 1
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
        content: cython.uchar[22] = [0] * 22
        issued: cython.double = 0.0
        said: bytes = None if self._auto is None else bytes(self._auto.packed)
        for i in range(begin, scores.shape[0]):
            k = (i - begin) % AHEAD
            if k == 0:
                table.look_ahead(ids, i)
            score: cython.double = scores[i]
            id = ids[i]
            ahead: cython.double = t[i] - self.clock
            if not (-self.behind <= ahead <= self.max_jump and 0.0 <= score <= 1.0):
                return i
            x = log_odds(score, LIMIT)
            if not (1e-60 <= w[i] <= 1e60 and -LIMIT < x < LIMIT) or (aside and id in aside):
                return i
            keys_of_row = None if keys is None else keys[i]
            levels = None if self._segmented is None else self._segmented.levels(keys_of_row)
            if self._segmented is not None and levels is None:
                return i
            if table.find_ahead(k, id) >= 0 or not self._arrive(t[i]):
                return i
            if self._ladder is not None:
                issued = self._ladder.write(x, content)
                if cython.compiled:
                    said = cython.cast(cython.p_char, content)[: self._ladder.packed]
                else:
                    said = bytes(content[: self._ladder.packed])
            elif self._segmented is not None:
                issued = self._segmented.issue(score, levels, t[i] if self.timed else nan)
                said = self._segmented.written()
            if served:
                pass
            elif self._ladder is not None or self._segmented is not None:
                p[i] = issued
            elif self._newton is not None:
                p[i] = self._newton.predict(x)
            else:
                p[i] = sigmoid(self._auto.mixture.at(x, t[i] if self.timed else nan))
            place = table.add_ahead(
                k, id, p[i], score, t[i], self.version, keys_of_row, w[i], self.clock, self.number, said
            )
            if self._auto is not None:
                self._write_parts(place, x, t[i])
            self.number += 1
            if when.shape[0] > 0 and when[i] <= t[i] + self.horizon:
                self._set(place, bool(y[i] != 0), float(when[i]), float(t[i]))
        return scores.shape[0]

    def _arrive(self, t):
        """Move the clock to a row; False where the row is not taken."""
        table: PendingTable = self.table
        if t >= self.clock and not self._settle(t):
            return False
        if table.end - table.first >= self.most:
            return False
        if t >= self.clock:
            self.clock = t
            self.forward = True
        else:
            self.backwards += 1
        return True

    def _write_parts(self, place, x, t):
        """Write what the parts of a mixture say of a row."""
        block: Block = self.table.block(place)
        if block.said is None:
            content = bytearray(self._auto.packed)
            self._auto.issue_packed(x, t if self.timed else nan, content)
            self.table.set_said(place, bytes(content))
        else:
            self._auto.issue_packed(x, t if self.timed else nan, block.said[place & LOW])

    def _set(self, place: cython.Py_ssize_t, positive: cython.bint, when: cython.double, t: cython.double):
        """Set the first outcome of a row."""
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
            if not abs(t[i] - self.clock) <= self.max_jump:
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
