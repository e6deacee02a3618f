# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The steps of a `Segmented` calibrator on issued forecasts and their labels, for kernels whose steps are compiled."""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

import numpy as np
from cython.cimports.streamcal.kernels.common.fast_path import LIMIT, NUMBER
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.common.weights import WeightScale
from cython.cimports.streamcal.kernels.mixture.auto_steps import AutoSteps
from cython.cimports.streamcal.kernels.mixture.line_ladder import LineLadder
from cython.cimports.streamcal.kernels.newton.online_newton import OnlineNewton, log_odds
from cython.cimports.streamcal.kernels.segments.delay_variance import DelayVariance
from cython.cimports.streamcal.kernels.segments.segment_chain import SegmentChain

from streamcal.kernels.common.fast_path import LONGEST_LEVEL, fast_levels
from streamcal.kernels.segments.level_members import HEAVIEST, MEMBERS, SECOND

_HEAVIEST = cython.declare(cython.double, HEAVIEST)
MOST_LABELS = cython.declare(cython.double, 2.0**53)
"""No label counts as later: whole numbers up to this one are doubles."""


class SegmentedSteps:
    """A chain of corrections and the kernel of the calibrator of all observations, which learn together.

    Parameters
    ----------
    chain : SegmentChain
    kernel : OnlineNewton, LineLadder or AutoSteps
    scale : WeightScale
    delay_variance : DelayVariance
    fields, names : tuple
        The fields, texts and tuples of texts, and the texts that they consist of.
    levels_of : callable
        Returns the levels of keys that are not plain; `ValueError` for what is none.

    Notes
    -----
    The first `size` numbers of `record` are those of one forecast: its probability, how many labels had been learned,
    what the chain writes, and then what the kernel does.
    """

    def __init__(
        self,
        chain: SegmentChain,
        kernel,
        scale: WeightScale,
        delay_variance: DelayVariance,
        fields: tuple,
        names: tuple,
        levels_of,
    ):
        self.kernel, self._chain, self._scale, self._delay_variance = kernel, chain, scale, delay_variance
        self._newton = kernel if isinstance(kernel, OnlineNewton) else None
        self._ladder = kernel if isinstance(kernel, LineLadder) else None
        self._auto = kernel if isinstance(kernel, AutoSteps) else None
        self._fields, self._names, self._levels_of = fields, names, levels_of
        self._missing = [None] * len(fields)
        own = 0
        if self._ladder is not None:
            own = self._ladder.size + 2
        elif self._auto is not None:
            own = self._auto.mixture.width
            self._content = np.empty(self._auto.packed, dtype=np.uint8)
        self.record = np.empty(2 + (len(fields) + 1) * (MEMBERS + SECOND) + own)
        self.size = 0

    def levels(self, keys):
        """Return the level of each field, None for a missing one; None for keys that the caller has to check."""
        if keys is None:
            return self._missing
        levels = fast_levels(keys, self._fields, LONGEST_LEVEL)
        if levels is not None:
            if None not in levels:
                return levels
            present: cython.Py_ssize_t = 0
            for name in self._names:
                present += name in keys
            if present == len(keys):
                return levels
        try:
            return self._levels_of(keys)
        except ValueError:
            return None

    def written(self):
        """Return the record as bytes."""
        if cython.compiled:
            return cython.cast(cython.p_char, cython.address(self.record[0]))[: NUMBER * self.size]
        return self.record[: self.size].tobytes()

    def read(self, content):
        """Set the record to what `written` returned; False for bytes that no record has."""
        size: cython.Py_ssize_t = 0 if content is None else len(content)
        if size % NUMBER != 0 or size > NUMBER * self.record.shape[0] or size == 0:
            return False
        self.size = size // NUMBER
        if cython.compiled:
            memcpy(cython.address(self.record[0]), cython.cast(cython.p_char, content), size)
        else:
            self.record[: self.size] = np.frombuffer(content)
        return True

    def issue(self, score, levels, t):
        """Return the probability at a score that is not clamped, and write the record of the forecast."""
        x: cython.double = log_odds(score, LIMIT)
        begin: cython.Py_ssize_t = 2 + self._chain.numbers(levels)
        p: cython.double = self._issue_overall(x, t, begin)
        p = self._chain.issue(p, score, levels, self.record, 2)
        self.record[0], self.record[1] = p, self._delay_variance.labels
        return p

    def _issue_overall(self, x, t, begin):
        """Return the forecast of the kernel, and write its record from `begin` on."""
        k: cython.Py_ssize_t
        content: cython.uchar[22] = [0] * 22
        record: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        self.size = begin
        if self._newton is not None:
            return self._newton.predict(x)
        if self._ladder is not None:
            p: cython.double = self._ladder.write(x, content)
            self._ladder.read(content, p, record)
            self.size += self._ladder.size + 2
            for k in range(self._ladder.size + 2):
                self.record[begin + k] = record[k]
            return p
        p = sigmoid(self._auto.mixture.at(x, t))
        self.size += self._auto.mixture.width
        at: cython.double = self._auto.issue_packed(x, t, self._content)
        self._auto.unpack(self._content, x, at, self.record[begin : self.size])
        return p

    def learn(self, score, levels, y, w, t):
        """Learn the label y, of weight w > 0, of the forecast whose record is in `record`; False if it is none."""
        x: cython.double = log_odds(score, LIMIT)
        begin: cython.Py_ssize_t = 2 + self._chain.numbers(levels)
        if not self._is_possible(begin):
            return False
        p: cython.double = self.record[0]
        late: cython.double = min(max(self._delay_variance.labels - self.record[1], 0.0), MOST_LABELS)
        now: cython.double = self._predict(x, t)
        self._learn_overall(x, y, w, t, begin)
        relative: cython.double = self._scale.relative(w)
        if late == 0.0:  # what was forecast then is forecast now
            self._chain.learn(now, score, levels, y, relative)
        else:
            weight: cython.double = min(relative, _HEAVIEST)
            self._delay_variance.learn(weight * (y - p), weight * weight * p * (1.0 - p))
            rate: cython.double = 1.0 / self._delay_variance.at(late)
            self._chain.learn_issued(now, score, levels, self.record, 2, y, relative, rate)
        self._delay_variance.labels += 1
        return True

    def _is_possible(self, begin):
        """Return whether the numbers of `record` can be those of a forecast; the kernel's begin at `begin`."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        for k in range(self.size):
            total += self.record[k]
        if total - total != 0.0 or self.size < begin or not 0.0 <= self.record[0] <= 1.0:
            return False
        if self._newton is not None:
            return self.size == begin
        if self._auto is not None:
            try:
                self._auto.require(self.record[begin : self.size])
            except ValueError:
                return False
            return True
        if self.size != begin + self._ladder.size + 2:
            return False
        if cython.compiled:
            return self._ladder.is_possible(cython.address(self.record[begin]))
        return self._ladder.is_possible(self.record[begin:])

    def _predict(self, x, t):
        """Return the forecast of the kernel."""
        if self._newton is not None:
            return self._newton.predict(x)
        return self._ladder.predict(x) if self._ladder is not None else sigmoid(self._auto.mixture.at(x, t))

    def _learn_overall(self, x, y, w, t, begin):
        """Learn the label by the kernel."""
        if self._newton is not None:
            self._newton.step(x, y, w)
        elif self._ladder is None:
            self._auto.learn_issued(x, y, w, t, self.record[begin : self.size])
        elif cython.compiled:
            self._ladder.learn_record(x, y, w, cython.address(self.record[begin]))
        else:
            self._ladder.learn_record(x, y, w, self.record[begin:])
