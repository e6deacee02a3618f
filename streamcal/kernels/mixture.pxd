cimport cython

from streamcal.kernels.fixed_share cimport FixedShare
from streamcal.kernels.implicit_regression cimport Correction, ForgettingRegression, RegressionBank
from streamcal.kernels.restarts cimport Restarts, Switch

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
    cdef double[::1] with_lines
    cdef double[::1] experts_now
    cdef double[::1] stacked_now
    cdef double[::1] corrected_now
    cdef double[::1] restarted
    cdef double[::1] _arrays  # all of them
    cdef public double late
    cdef const double[::1] means
    cdef public bint recorded
    cdef public double[::1] steps
    cdef public double[::1] panel_steps

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
    cdef FixedShare _lined  # without and with lines
    cdef double _unit
    cdef double _late
    # At the left and at the right knot: log-odds z of the components of each mixture, exp(−z), features of the stack.
    cdef double[:, ::1] _first
    cdef double[:, ::1] _second
    cdef double[:, ::1] _third
    cdef double[:, ::1] _first_odds
    cdef double[:, ::1] _second_odds
    cdef double[:, ::1] _third_odds
    cdef double[:, ::1] _either
    cdef double[:, ::1] _either_odds
    cdef double[:, ::1] _last
    cdef double[:, ::1] _last_odds
    cdef double[::1] _forecast  # log-odds
    cdef double[:, ::1] _features
    cdef Py_ssize_t _knot
    cdef Assessment _spare  # of a label that is not known yet
    cdef double[::1] _of_row  # of `lined`, which has one, so that nothing is weighed against it

    cpdef show(self, const double[::1] left, const double[::1] right, Py_ssize_t knot)
    cdef void _fill(self, Py_ssize_t side, const double[::1] z) noexcept
    cpdef double at(self, double share) noexcept
    cpdef Assessment assess(self, double share, double y, double w, Assessment spent=*)
    cdef void _judge(self, Assessment found, double share, double y, double w, double late) noexcept
    cpdef double look_back(self, const double[::1] z, Py_ssize_t knot, double y, Assessment found)
    cdef void _choose(self, Py_ssize_t side, double third) noexcept
    cdef void _set_features(self, Py_ssize_t side) noexcept
    cpdef list issue(self, double share)
    cpdef Assessment assess_issued(
        self, const double[::1] said, Py_ssize_t knot, double share, double y, double w, double late, Assessment spent=*
    )
    cdef Py_ssize_t rows(self) noexcept
    cdef _triple_rows(self)
    cpdef set_late(self, double late)
    cdef double _weight_of_lines(self) noexcept
    cpdef learn(self, Assessment found, double late)
    cdef _learn_late(self, Assessment found)
    cpdef record(self, Assessment found)
