cimport cython


@cython.final
cdef class WeekProfile:
    cdef readonly long long learned
    cdef double _keep
    cdef long long _least
    cdef long long _due  # observations until the next look
    cdef double _unit  # of H and E
    cdef double[::1] _curvature  # H
    cdef double[::1] _slope  # E
    cdef double[::1] _offset
    cdef double[::1] _h  # sums of H and E before each part of a day
    cdef double[::1] _e
    cdef double[::1] _terms
    cdef double[::1] _before  # log-evidence of what is before each part of a day,
    cdef double[::1] _after  # and after it, from its end on
    cdef double[:, ::1] _of_runs  # log-evidence of days in a row, by the first and their number

    cpdef Py_ssize_t cell(self, double t) noexcept nogil
    cpdef double at(self, double t) noexcept nogil
    cpdef void learn(self, double t, double h, double e) noexcept nogil
    cdef void _look(self) noexcept nogil
    cdef void _gather(self, Py_ssize_t first, Py_ssize_t days, Py_ssize_t bins) noexcept nogil
    cdef double _evidence(self, double[::1] out, Py_ssize_t bins) noexcept nogil
    cdef double _between(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef void _set(self, Py_ssize_t first, Py_ssize_t days) noexcept nogil
    cdef void _turn_round(self) noexcept nogil
