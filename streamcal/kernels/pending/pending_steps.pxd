cimport cython

from streamcal.kernels.mixture.auto_steps cimport AutoSteps
from streamcal.kernels.mixture.line_ladder cimport LineLadder
from streamcal.kernels.newton.online_newton cimport OnlineNewton
from streamcal.kernels.pending.pending_table cimport Block, PendingTable
from streamcal.kernels.segments.segmented_steps cimport SegmentedSteps


@cython.final
cdef class PendingSteps:
    cdef public PendingTable table
    cdef public object version
    cdef public bint timed
    cdef public bint returns  # whether labels that were learned are passed on
    cdef public double clock
    cdef public double hold
    cdef public double factor  # the share of clicks that labels have when they are learned
    cdef public bint waits  # whether labels are learned at the horizon
    cdef public long long since  # predictions with a lower number were issued when labels were learned at another age
    cdef public object early  # the join, if it has an early window
    cdef public list ages  # of that join
    cdef public double keep
    cdef public double horizon
    cdef public double max_jump
    cdef public double behind  # of a row, older than the clock, at most
    cdef public Py_ssize_t most
    cdef public Py_ssize_t unlearned
    cdef public Py_ssize_t unjudged
    cdef public long long number
    cdef public long long learned
    cdef public long long positives
    cdef public long long timed_out
    cdef public long long matched
    cdef public long long before_issue
    cdef public long long backwards
    cdef public bint forward  # whether a row was no older than the clock
    cdef public long long reports
    cdef public double report_delay
    cdef readonly double[:, ::1] judged  # probability, score, label, weight, time
    cdef readonly Py_ssize_t judges
    cdef public bint in_columns  # whether labels that are judged are noted there, where their rows have no levels
    cdef public list told  # others, as in `labels`
    cdef public list labels  # predictions learned, with weight and label; None: they are not asked for
    cdef OnlineNewton _newton
    cdef LineLadder _ladder
    cdef AutoSteps _auto
    cdef SegmentedSteps _segmented
    cdef double _issued  # the probability of the forecast made last
    cdef double[::1] _record  # of a mixture
    cdef unsigned char[::1] _content  # a packed record of a mixture

    cpdef bint settle(self, double clock) except -1
    cdef bint _learn_due(self, double clock) except -1
    cdef bint _learn(self, Block block, Py_ssize_t row) except -1
    cdef bint _learn_record(self, bytes content, double x, double p, double y, double w) except -1
    cdef bint _learn_parts(self, bytes content, double x, double p, double y, double w, double t) except -1
    cdef bint _learn_segmented(self, bytes content, Block block, Py_ssize_t row, double y, double w, double t) except -1
    cdef bint _is_clicked(self, Block block, Py_ssize_t row, double t) noexcept
    cdef bint _has_weight(self, Block block, Py_ssize_t row, bint y) except -1
    cdef bint _judge(self, double past) except -1
    cdef _note_report(self, double t)
    cdef bint _arrive(self, double t) except -1
    cdef bytes _issue(self, double score, list levels, double t)
    cdef _set(self, Py_ssize_t place, bint positive, double when, double t)
