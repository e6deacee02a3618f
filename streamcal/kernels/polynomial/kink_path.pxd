cimport cython
from streamcal.kernels.polynomial.deviances cimport Deviances
from streamcal.kernels.polynomial.kinks cimport Kinks


@cython.final
cdef class KinkPath:
    cdef readonly object values  # shape (k,)
    cdef readonly Py_ssize_t fits  # of the last path
    cdef readonly Py_ssize_t computed  # deviances whose bounds did not decide
    cdef Kinks _kinks
    cdef Py_ssize_t _penalties
    cdef double _ratio
    cdef double _negligible
    cdef double _smallest
    cdef Py_ssize_t _most_rounds
    cdef double[::1] _values
    cdef Deviances _deviances
    cdef double _n
    cdef double _centre
    cdef double _first  # penalty, 0 where labels lie on a line
    cdef Py_ssize_t _parameters
    cdef double _total  # weight of the fits in the average
    cdef bint _decided
    cdef double _least  # AICc, or a lower bound of it
    cdef double _least_high  # an upper bound
    cdef double[::1] _lows  # by penalty
    cdef double[::1] _highs
    cdef double[::1] _complexities
    # Of each penalty of the last path and of this one, one after another: knots, signs and kinks; where they begin.
    cdef double[:, ::1] _last
    cdef Py_ssize_t[::1] _last_starts
    cdef Py_ssize_t _last_steps
    cdef double[:, ::1] _path
    cdef Py_ssize_t[::1] _starts
    cdef Py_ssize_t _steps
    cdef bint _runs

    cpdef int run(self, double n, double centre, double most, Py_ssize_t parameters, bint average) except -1
    cdef int _run(self, bint average) except -1
    cdef int _walk(self, int mode) except -1
    cdef double _penalty(self, Py_ssize_t k) noexcept
    cdef bint _take(self, double complexity) noexcept
    cdef bint _compare(self, double complexity, int mode) noexcept
    cdef bint _is_decided(self, double low, double high) noexcept
    cdef void _choose(self) noexcept
    cdef int _follow(self, double limit) except -1
    cdef void _recall(self, const double[:, ::1] path, Py_ssize_t start, Py_ssize_t stop) noexcept
    cdef void _keep(self, Py_ssize_t start) noexcept


cdef void mix(double[::1] values, const double[::1] fit, double centre, double share) noexcept nogil
