cimport cython

from streamcal.kernels.implicit_regression cimport RegressionBank
from streamcal.kernels.period_search cimport PeriodSearch
from streamcal.kernels.week_profile cimport WeekProfile


@cython.final
cdef class ScoreCounts:
    cdef readonly Py_ssize_t memories
    cdef readonly Py_ssize_t sets
    cdef readonly double learned  # observations
    cdef double _firm
    cdef const double[::1] _keep
    cdef double[::1] _keys  # log-odds of the scores
    cdef double[::1] _seen  # how often each was learned
    cdef double[::1] _learned_at
    cdef double[:, ::1] _counts  # negative and positive labels, for each memory

    cdef Py_ssize_t _set_of(self, double key) noexcept nogil
    cpdef Py_ssize_t find(self, double x) noexcept nogil
    cpdef bint has_repeated(self, Py_ssize_t place) noexcept nogil
    cpdef double forecast(self, Py_ssize_t place, Py_ssize_t memory, double z) noexcept nogil
    cpdef void learn(self, double x, double y, double w) noexcept nogil


@cython.final
cdef class Judgement:
    cdef readonly double z
    cdef readonly double t
    cdef readonly bint spoke
    cdef readonly bint speaks
    cdef public double late
    cdef double[::1] gains
    cdef double[::1] now
    cdef double[::1] of_rows


@cython.final
cdef class Specialists:
    cdef readonly ScoreCounts counts
    cdef readonly PeriodSearch search
    cdef readonly WeekProfile profile
    cdef readonly Py_ssize_t size  # forecasts
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t half  # of the rows, where labels are late; else 0
    cdef public double late  # how late they are, in labels
    cdef readonly long long timed  # observations learned with a time
    cdef list _regressions
    cdef RegressionBank _bank  # of these
    cdef list _periodic  # regressions on the period found
    cdef list _new  # and their states at first
    cdef RegressionBank _periodic_bank
    cdef object _hours  # the regression on the profile
    cdef RegressionBank _hours_bank  # of it
    cdef long long _timed_from
    cdef Py_ssize_t _first_cycle
    cdef Py_ssize_t _first_periodic
    cdef Py_ssize_t _place_of_hours
    cdef const Py_ssize_t[::1] _places  # of what the regressions say
    cdef const Py_ssize_t[::1] _periodic_places
    cdef const double[::1] _rates
    cdef const double[::1] _prior
    cdef double[:, ::1] _shares
    cdef double[::1] _log_wealth
    cdef double[::1] _z  # of the forecasts asked last
    cdef int[::1] _speaks  # which of them do
    cdef double[::1] _phi
    cdef Judgement _judged  # of a label that is not known yet

    cdef void _fill(self, double x, double z, double t) noexcept nogil
    cdef void _fill_waves(self, double turns, Py_ssize_t start, Py_ssize_t count) noexcept nogil
    cdef bint _ask(self, double z, double x, double t) noexcept nogil
    cpdef double at(self, double z, double x, double t) noexcept nogil
    cdef double _speaking(self, Py_ssize_t row) noexcept nogil
    cpdef Judgement assess(self, double z, double x, double y, double t, Judgement spent=*)
    cpdef look_back(self, double z, double x, double y, Judgement found)
    cdef void _judge_forecasts(self, double y, double[::1] out) noexcept nogil
    cdef void _judge_rows(self, Judgement found) noexcept nogil
    cpdef list issue(self, double z, double x, double t)
    cpdef Judgement assess_issued(self, const double[::1] said, double y, double t, double late, Judgement spent=*)
    cpdef learn(self, double x, double y, double w, Judgement found)
    cdef void _learn_profile(self, double y, double w, double t) noexcept nogil
    cdef _double_rows(self)
    cdef _weigh(self, Judgement found, double w)
    cdef void _pay(self, Py_ssize_t j, const double[::1] gains, double w) noexcept nogil
