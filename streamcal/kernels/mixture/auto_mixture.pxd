cimport cython

from streamcal.kernels.mixture.jumper cimport Jumper
from streamcal.kernels.newton.implicit_regression cimport Correction
from streamcal.kernels.newton.regressions cimport Plan, Regressions
from streamcal.kernels.common.weights cimport WeightScale


@cython.final
cdef class Guard:
    cdef readonly double constant
    cdef readonly double a_label
    cdef readonly double a_surprise
    cdef readonly double likely
    cdef readonly double promised  # nats
    cdef readonly double budget  # nats: what is promised, and what the forecasts have gained on the score
    cdef readonly double staked  # nats that a forecast issued now may lose, at most
    cdef readonly long long delay
    cdef double _set_aside  # nats: the sum over all slots
    cdef double[::1] _each  # nats of a slot, falling
    cdef double[::1] _number  # of slots
    cdef double[::1] _tokens  # that come back at them
    cdef Py_ssize_t _first  # the oldest
    cdef Py_ssize_t _count
    cdef double _extra_staked  # nats that it may lose more by a surprise
    cdef double _prior  # the weight that the score has at least

    cpdef double share(self, double x, double z) noexcept nogil
    cpdef double guarded(self, double x, double z) noexcept nogil
    cpdef learn(self, double gain)
    cpdef grow(self, long long delay)
    cdef _stake(self, double tokens)
    cdef _append(self, double each, double number, double tokens)
    cdef double _extra(self, double stake) noexcept nogil
    cdef double _of(self, Py_ssize_t entry) noexcept nogil
    cdef double _shared(self, double slots, double tokens) noexcept nogil
    cdef void _set(self, double stake) noexcept nogil


@cython.final
cdef class AutoMixture:
    cdef readonly Py_ssize_t size  # experts, K
    cdef readonly Py_ssize_t width  # numbers of a record
    cdef readonly long long learned
    cdef readonly double weight
    cdef readonly Guard guard
    cdef readonly WeightScale scale
    cdef readonly Regressions regressions
    cdef readonly Jumper jumper
    cdef readonly Regressions stack
    cdef readonly Correction correction
    cdef readonly Regressions timed
    cdef Plan _timed_plan
    cdef Py_ssize_t _regressions
    cdef Py_ssize_t _smoothers
    cdef Py_ssize_t _means
    cdef Py_ssize_t _knots
    cdef const double[:, ::1] _kinds  # of smoothers: half width, growth of the unit
    cdef const double[::1] _rates  # of the label means
    cdef double[::1] _phi
    cdef double[::1] _features  # of the stack
    cdef double[::1] _timely  # of the correction by day and week
    cdef readonly double[::1] means
    cdef readonly double[::1] units
    cdef readonly double[:, :, ::1] sums  # (smoother, negative or positive, knot), in units
    cdef readonly double[:, ::1] whole  # weights of all negatives and positives at each knot
    cdef readonly double[::1] curve  # Venn-Abers
    cdef readonly double[::1] line  # slope, offset, and the forecasts for scores clamped below and above
    cdef tuple _line_precisions
    cdef tuple _line_prior
    cdef bint _off_centre
    cdef readonly tuple first  # number and sum of the first scores
    cdef readonly long long due  # observations at the next refit
    cdef readonly bint drawn
    cdef const double[::1] _prior
    cdef readonly double[:, ::1] shares  # in two rows, the second of which is used where labels are late
    cdef readonly double[::1] wealth  # log of that of both rows, relative to the larger
    cdef readonly bint late  # whether a label ever came late
    cdef double[::1] _weights
    cdef double[::1] _gains
    cdef double[:, ::1] _sides  # records at two neighbouring knots, and at a score that has come before
    cdef double _spot  # that score; NaN: none
    cdef readonly double[:, ::1] repeated  # table of scores that have come before
    cdef Py_ssize_t _known  # scores in it that came twice
    cdef Py_ssize_t _knot  # the left one; -1: none
    cdef double[::1] _record
    cdef double _corrected_prior
    cdef double _by_time_prior
    cdef readonly double corrected  # weight of the correction by the forecast
    cdef readonly double by_time  # and of that by day and week

    cdef void _forecast(self, Py_ssize_t knot, Py_ssize_t side) noexcept nogil
    cdef void _combine(self, Py_ssize_t side) noexcept nogil
    cdef Py_ssize_t _look(self, double x) noexcept nogil
    cdef bint _look_at(self, double x) noexcept nogil
    cdef Py_ssize_t _slot(self, double x) noexcept nogil
    cdef _count(self, double x, double y, double w)
    cdef _lengthen(self, Py_ssize_t size, object entries)
    cdef double _between(self, Py_ssize_t index, double share) noexcept nogil
    cpdef double at(self, double x, double t)
    cpdef write(self, double x, double t, double[::1] out)
    cdef void _write_rows(self, double[::1] out) noexcept nogil
    cdef void _show_time(self, double x, double both, double t) noexcept nogil
    cdef double _timed_at(self, double x, double both, double t)
    cpdef learn(self, double x, double y, double w, double t, const double[::1] issued, double late)
    cdef void _learn_once(
        self, double x, double y, double w, double t, const double[::1] issued, double late
    ) noexcept nogil
    cdef _split(self)
    cdef void _learn_shares(self, double y, double w, const double[::1] issued, double late) noexcept nogil
    cdef void _multiply(self, Py_ssize_t row, double rate) noexcept nogil
    cdef void _learn_others(self, double x, double y, double w) noexcept nogil
    cdef _see(self, double x)
    cdef _refit(self)
    cdef void _weigh(self) noexcept nogil


@cython.final
cdef class AutoSteps:
    cdef readonly AutoMixture mixture
    cdef long long _most
    cdef bint _finds
    cdef bint _logs
    cdef double[::1] _scores  # log-odds of the logged forecasts, a ring; NaN where the label came before older ones
    cdef double[:, ::1] _records
    cdef Py_ssize_t _first
    cdef Py_ssize_t _logged
    cdef long long _unlabelled  # forecasts since the last label
    cdef bint _asked  # whether a forecast at `_x` and `_t` is to be logged
    cdef double _x
    cdef double _t

    cdef _forget(self)
    cpdef ask(self, double x, double t)
    cdef _keep(self)
    cdef _lengthen(self, Py_ssize_t size)
    cdef _drop(self)
    cdef Py_ssize_t _taken(self, double x)
    cpdef step(self, double x, double y, double w, double t)
    cpdef skip(self, double x)
    cpdef learn_issued(self, double x, double y, double w, double t, const double[::1] record)
    cpdef double predict_fast(self, object score, double t) except? -1
    cpdef bint learn_fast(self, object score, object y, object w, double t) except -1
