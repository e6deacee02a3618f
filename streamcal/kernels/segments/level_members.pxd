from streamcal.kernels.segments.observed_levels cimport ObservedLevels


cdef class LevelMembers(ObservedLevels):
    cdef double _offset(self, Py_ssize_t j, Py_ssize_t k, Py_ssize_t a) noexcept
    cdef double _determinant(self, Py_ssize_t k) noexcept
    cdef double _line(self, Py_ssize_t k, double x) noexcept
    cdef double _line_variance(self, Py_ssize_t k, double x) noexcept
    cdef void _learn_level(self, Py_ssize_t j, Py_ssize_t k, double z, double y, double w) noexcept
    cdef void _move(self, Py_ssize_t j, Py_ssize_t k, double z, double y, double w) noexcept
    cdef void _forget(self, Py_ssize_t k) noexcept
    cdef void _move_line(self, Py_ssize_t k, double z, double y, double w) noexcept
    cdef void _weigh_level(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef object _take(self, Py_ssize_t j, Py_ssize_t k, double z, double y, double w)
    cdef void _take_line(self, Py_ssize_t k, double z, double y, double w) noexcept
    cdef tuple _additions(self, Py_ssize_t j, Py_ssize_t k)
