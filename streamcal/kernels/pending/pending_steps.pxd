cimport cython

from streamcal.kernels.mixture.auto_steps cimport AutoSteps
from streamcal.kernels.mixture.line_ladder cimport LineLadder
from streamcal.kernels.newton.online_newton cimport OnlineNewton
from streamcal.kernels.pending.pending_table cimport Block, PendingTable
from streamcal.kernels.segments.segmented_steps cimport SegmentedSteps


@cython.final
cdef class PendingSteps:
    cdef readonly PendingTable table
    cdef readonly double horizon
    cdef readonly double soonest  # the least age at which labels are learned
    cdef readonly double keep  # the age at which predictions are forgotten
    cdef readonly bint early  # whether there is an early window
    cdef public double clock
    cdef public long long number  # of the next prediction
    cdef public double hold  # the age at which labels are learned now
    cdef public double factor  # the share of clicks that labels have when they are learned
    cdef public bint waits  # whether labels are learned at the horizon
    cdef public long long since  # predictions with a lower number were issued when labels were learned at another age
    cdef public long long unlearned  # the place of the first prediction that waits
    cdef public long long unjudged  # the place of the first one whose label was not passed on; -1: none is
    # Clicks whose impressions have yet to grow as old as the end of a cell of the curve: when, number, cell, id.
    cdef public list ages
    cdef public Py_ssize_t behind  # impressions in a row that were older than the clock by more than the age of learning
    cdef public long long known  # outcomes of this process whose id was held
    cdef public long long reports  # clicks of this process
    cdef public double report_delay  # how late they were reported, on average
    cdef public long long issued, learned, positives, timed_out, repeated, contradicted, corrected, uncorrected
    cdef public long long unknown, matched, overflowed, unheld, forgotten, backwards, before_issue, refused
    cdef public bint in_columns  # whether labels that are judged are noted there, where their rows have no levels
    cdef public list told  # other labels that were judged: prediction, weight and label
    cdef public list labels  # those that were learned
    cdef readonly Py_ssize_t judges
    cdef double[:, ::1] _judged  # probability, score, label, weight, time
    cdef object _version
    cdef object _kernel
    cdef object _aside  # outcomes of unknown ids
    cdef bint _timed
    cdef double _max_jump
    cdef double _max_behind
    cdef Py_ssize_t _max_held
    cdef bint _noted  # whether labels that are learned are passed on
    cdef OnlineNewton _newton
    cdef LineLadder _ladder
    cdef AutoSteps _auto
    cdef SegmentedSteps _segmented
    cdef double _p  # the probability of the forecast made last

    cpdef bint settle(self, object join, double clock, bint alone) except -1
    cpdef forget(self)
    cdef bint _learn_due(self, object join, double clock, bint alone) except -1
    cdef bint _learn(self, object join, Block block, Py_ssize_t row, bint alone) except -1
    cdef bint _learn_plain(self, Block block, Py_ssize_t row, double t, double w, double y) except -1
    cdef bint _learn_segmented(self, bytes content, Block block, Py_ssize_t row, double score, double y, double w, double t) except -1
    cdef bint _is_clicked(self, Block block, Py_ssize_t row, double t) noexcept
    cdef double _weight(self, Block block, Py_ssize_t row, bint y) except? -1
    cdef bint _judge(self, double past) except -1
    cpdef note_report(self, double t)
    cdef Py_ssize_t _issue_row(self, object join, Py_ssize_t k, object id, double score, double t, object keys, double w, double served) except -2
    cdef bytes _forecast(self, double score, list levels, double t)
    cdef bint _arrive(self, object join, double t) except -1
    cdef _set(self, object join, Py_ssize_t place, bint positive, double when, double t)
    cdef Py_ssize_t _resolve_row(self, object join, Py_ssize_t place, bint positive, double when) except -2
