from streamcal.kernels.segments.observed_levels cimport ObservedLevels

cdef Py_ssize_t FIRST_LINE
cdef Py_ssize_t ALL_TWICE
cdef Py_ssize_t LONG_TWICE
cdef Py_ssize_t SECOND_LINE
cdef Py_ssize_t FIRST_OWN


cdef class LevelMembers(ObservedLevels):
    cdef double _residual  # y − σ at the end of the last step
    cdef double _curvature  # and σ(1 − σ)
    cdef double[::1] _own  # Q of a level while it is judged

    cdef double _offset(self, Py_ssize_t k, Py_ssize_t at, double precision) noexcept
    cdef double _certainty(self, Py_ssize_t k, Py_ssize_t at, double memory, double precision) noexcept
    cdef double _line(self, Py_ssize_t k, Py_ssize_t at, double x) noexcept
    cdef double _determinant(self, Py_ssize_t k, Py_ssize_t at) noexcept
    cdef double _line_variance(self, Py_ssize_t k, Py_ssize_t at, double x) noexcept
    cdef double _advance(self, double u, double p, double q, double v, double y) noexcept
    cdef void _move(
        self, Py_ssize_t k, Py_ssize_t at, double memory, double precision, double z, double p, double q, double y, double w
    ) noexcept
    cdef void _move_line(self, Py_ssize_t k, Py_ssize_t at, double z, double p, double q, double y, double w) noexcept
    cdef void _begin(self, Py_ssize_t k) noexcept
    cdef void _judge_own(self, Py_ssize_t k, Py_ssize_t r, const double[:, ::1] chances, double w) noexcept
    cdef void _weigh_level(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef void _take(
        self, Py_ssize_t k, Py_ssize_t at, double memory, double precision, double z, double y, double w
    ) noexcept
    cdef void _take_line(self, Py_ssize_t k, Py_ssize_t at, double z, double y, double w) noexcept
    cdef object _absorb(self, Py_ssize_t j, const double[::1] row)
    cdef void _add_offset(self, Py_ssize_t k, Py_ssize_t at, double memory, const double[::1] row) noexcept
    cdef tuple _additions(self, Py_ssize_t j, Py_ssize_t k)
    cdef list _own_weights(self, Py_ssize_t k)
