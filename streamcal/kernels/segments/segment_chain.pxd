cimport cython

from streamcal.kernels.segments.level_members cimport LevelMembers


@cython.final
cdef class SegmentChain(LevelMembers):
    cdef readonly Py_ssize_t most
    cdef double[::1] _z  # what reaches each mixture
    cdef double[:, ::1] _log_odds  # log-odds of each member
    cdef double[:, ::1] _positive  # their probabilities, neither of them as a difference
    cdef double[:, ::1] _negative
    cdef double[:, ::1] _chances  # what issued forecasts gave to the label

    cpdef Py_ssize_t numbers(self, list levels) except -1
    cpdef double issue(self, double p, double score, list levels, double[::1] record, Py_ssize_t begin) except? -1
    cpdef learn(self, double p, double score, list levels, double y, double w)
    cpdef learn_issued(
        self, double p, double score, list levels, const double[:] record, Py_ssize_t begin, double y, double w, double rate
    )
    cdef Py_ssize_t _write(self, Py_ssize_t r, Py_ssize_t size, double[::1] record, Py_ssize_t begin) noexcept
    cdef Py_ssize_t _set_issued(
        self, Py_ssize_t r, Py_ssize_t size, const double[:] record, Py_ssize_t begin, double y
    ) noexcept
    cdef double _look(self, double p, double score) noexcept
    cdef void _set_first(self, Py_ssize_t j, Py_ssize_t k, double z) noexcept
    cdef void _set_second(self, Py_ssize_t r, Py_ssize_t j, Py_ssize_t k, double z) noexcept
    cdef inline void _set_member(self, Py_ssize_t r, Py_ssize_t a, double z) noexcept
    cdef void _set_unknown(self, Py_ssize_t j) noexcept
    cdef double _mix(self, Py_ssize_t r, Py_ssize_t size) noexcept
    cdef object _learn_all(self, double y, double w)
    cdef object _learn(self, Py_ssize_t j, const double[:, ::1] chances, double y, double w, double rate)
    cdef void _step(self, Py_ssize_t j, Py_ssize_t k, double z, double y, double w) noexcept
    cdef void _step_twice(self, Py_ssize_t r, Py_ssize_t j, Py_ssize_t k, double z, double y, double w) noexcept
    cdef object _retract(self, Py_ssize_t j, Py_ssize_t k, double y, double w)
    cdef object _put_away(self, Py_ssize_t j)
    cdef object _pool(self, Py_ssize_t r, object of)
