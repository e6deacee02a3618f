from streamcal.kernels.segments.groups cimport Groups

cdef Py_ssize_t _SIZE
cdef Py_ssize_t _FINE_SIZE
cdef Py_ssize_t _ALL
cdef Py_ssize_t _GAP
cdef Py_ssize_t _VARIANCE


cdef class Capitals(Groups):
    cdef readonly double floor
    cdef readonly double lowest  # w₀
    cdef public double injected
    cdef public double total
    cdef public double aside
    cdef public double gone
    cdef public double gain
    cdef public long long evicted
    cdef public double large
    cdef double[:, ::1] _fine  # the further capitals and V of large groups
    cdef list _fine_slot  # the slots of large groups
    cdef bint _is_closed  # whether large groups have no further accounts
    cdef double _d[12]
    cdef double _base[12]  # 2·floor/(2 + d)

    cdef int _admit(self, Py_ssize_t j) except -1
    cdef double _variance(self, Py_ssize_t k) noexcept
    cdef Py_ssize_t _fine_row(self, Py_ssize_t k) noexcept
    cdef int _open(self, Py_ssize_t k) except -1
    cdef int _make_large(self, Py_ssize_t k) except -1
    cdef void _seed(self, Py_ssize_t k) noexcept
    cdef int _drop_fine(self, Py_ssize_t k) except -1
    cdef int _add(self, Py_ssize_t j, object level, const double[::1] numbers) except -1
