cimport cython

from streamcal.kernels.fixed_share cimport FixedShare
from streamcal.kernels.implicit_regression cimport Correction, ForgettingRegression, RegressionBank

@cython.final
cdef class Assessment:
    cdef double y
    cdef double w
    cdef double place
    cdef double second
    cdef double[::1] features
    cdef double[::1] experts
    cdef double[::1] expert_rows
    cdef double[::1] stacked
    cdef double[::1] stacked_rows
    cdef double[::1] corrected
    cdef double[::1] corrected_rows
    cdef double[::1] switched
    cdef double[::1] _arrays  # all of them
    cdef double[::1] restarted
    cdef bint late
    cdef double rate
    cdef const double[::1] means
    cdef public bint recorded
    cdef public double[::1] steps
    cdef public double[::1] panel_steps

@cython.final
cdef class Restarts:
    cdef long long _every
    cdef double _given  # of all weight, to a line that begins
    cdef double _back
    # At the left and at the right knot, of the forecast and of the lines: log-odds z, exp(−z).
    cdef double[:, ::1] _z
    cdef double[:, ::1] _odds
    cdef double[::1] _weights
    cdef long long[::1] _began
    cdef double[:, ::1] _lines  # c, θ, A
    cdef Py_ssize_t _held
    cdef long long _learned
    cdef double _sum  # of scores since a line began

    cpdef drop(self)
    cpdef double weight(self) noexcept
    cpdef double mean(self, Py_ssize_t side, double x, double z) noexcept
    cdef double _at(self, Py_ssize_t k, double x) noexcept
    cpdef assess(self, double share, double y, double[::1] out)
    cpdef learn(self, double x, double y, double w, const double[::1] gains)
    cdef void _weigh(self, const double[::1] gains, double w) noexcept
    cdef void _move(self, Py_ssize_t k, double x, double y, double w) noexcept
    cdef void _begin(self) noexcept

@cython.final
cdef class Switch:
    cdef double _odds  # the log-odds of the weight of the first forecast
    cdef double _rate
    cdef double _most  # log-odds

    cpdef double weight(self) noexcept
    cpdef double mean_of(self, double first, double second) noexcept
    cpdef learn(self, double first, double second, double w, bint late)

@cython.final
cdef class Mixture:
    cdef FixedShare _experts
    cdef ForgettingRegression _stack
    cdef RegressionBank _bank  # of the stack alone
    cdef FixedShare _stacked
    cdef Correction _by_score
    cdef Correction _by_forecast
    cdef FixedShare _corrected
    cdef Switch _switch
    cdef Restarts _restarts
    cdef double _unit
    cdef bint _late
    # At the left and at the right knot: log-odds z of the components of each mixture, exp(−z), features of the stack.
    cdef double[:, ::1] _first
    cdef double[:, ::1] _second
    cdef double[:, ::1] _third
    cdef double[:, ::1] _first_odds
    cdef double[:, ::1] _second_odds
    cdef double[:, ::1] _third_odds
    cdef double[:, ::1] _either
    cdef double[:, ::1] _either_odds
    cdef double[::1] _forecast  # log-odds
    cdef double[:, ::1] _features
    cdef Py_ssize_t _knot
    cdef Assessment _spare  # of a label that is not known yet

    cpdef show(self, const double[::1] left, const double[::1] right, Py_ssize_t knot)
    cdef void _fill(self, Py_ssize_t side, const double[::1] z) noexcept
    cpdef double at(self, double share) noexcept
    cpdef Assessment assess(self, double share, double y, double w, Assessment spent=*)
    cdef void _judge(self, Assessment found, double share, double y, double w, bint late) noexcept
    cdef void _choose(self, Py_ssize_t side, double third) noexcept
    cdef void _set_features(self, Py_ssize_t side) noexcept
    cpdef list issue(self, double share)
    cpdef Assessment assess_issued(
        self, const double[::1] said, Py_ssize_t knot, double share, double y, double w, double rate, Assessment spent=*
    )
    cdef Py_ssize_t rows(self) noexcept
    cpdef double_rows(self)
    cpdef learn(self, Assessment found)
    cpdef record(self, Assessment found)
