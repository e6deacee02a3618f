cimport cython

from streamcal.kernels.implicit_regression cimport RegressionBank

@cython.final
cdef class Panel:
    cdef list regressions
    cdef RegressionBank _bank  # of these
    cdef const Py_ssize_t[::1] _regression_places
    cdef const Py_ssize_t[::1] _smoother_places
    cdef const Py_ssize_t[::1] _curve_places
    cdef Py_ssize_t _whole
    cdef Py_ssize_t _until_drawn
    cdef public bint drawn
    cdef Py_ssize_t _interval
    cdef Py_ssize_t _protected
    cdef Py_ssize_t _score
    cdef Py_ssize_t _anchor
    cdef Py_ssize_t _places  # number of experts
    cdef double _anchored
    cdef double[::1] _phi
    cdef double[:, ::1] _at_knots  # the features of the score at each knot
    cdef const double[::1] _rates
    cdef const double[::1] _log_kept  # log(1 − rate)
    cdef double[::1] _moved  # by which share each mean moves in a step
    cdef double[::1] _scores  # at the knots
    cdef double[::1] _means  # of all labels learned
    cdef double[::1] _then  # of those that were known `delay` observations ago
    cdef double[:, ::1] _waiting  # (label, weight) of the last `delay` observations, in a ring
    cdef Py_ssize_t _learned
    cdef Py_ssize_t _first  # number of scores in the mean for `_hold`, and their sum
    cdef double _sum
    cdef bint _off_centre  # whether the prior of the regressions is centred elsewhere than on 0
    cdef Py_ssize_t _delay
    cdef public long long ahead  # labels that are learned between a forecast and its own
    cdef const double[::1] _widths
    cdef const double[::1] _fades
    cdef double[::1] _units
    cdef double[:, :, ::1] _sums  # (smoother, negative or positive, knot), in units
    cdef double[:, ::1] _curves
    cdef double _step

    cpdef forecast(self, Py_ssize_t knot, double lower, double upper, double protected, double[::1] out)
    cpdef list means(self)
    cpdef learn(self, double x, double y, double w, const double[::1] means=*)
    cpdef record(self, double[::1] out)
    cpdef repeat(self, double x, double y, double w, const double[::1] recorded)
    cdef _learn_others(self, double x, double y, double w)
    cdef _see(self, double x)
    cdef void _fill(self, double x, const double[::1] means) noexcept nogil
    cdef void _forecast(self, Py_ssize_t knot, double lower, double upper, double protected, double[::1] out) noexcept nogil
    cdef void _follow(self, double[::1] means, double y, double w) noexcept nogil
    cdef void _smooth(self, double x, double y, double w) noexcept nogil
