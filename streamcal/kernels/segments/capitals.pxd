from streamcal.kernels.segments.groups cimport Groups

cdef Py_ssize_t _SIZE
cdef Py_ssize_t _FINE_SIZE
cdef Py_ssize_t _ALL
cdef Py_ssize_t _GAP
cdef Py_ssize_t _VARIANCE
cdef Py_ssize_t _FREE
cdef Py_ssize_t _PENDING
cdef Py_ssize_t _SINCE
cdef Py_ssize_t _FINE_FREE
cdef Py_ssize_t _FINE_PENDING
cdef Py_ssize_t _FINE_VARIANCE


cdef class Capitals(Groups):
    cdef readonly double floor
    cdef readonly double lowest  # w₀
    cdef public double injected
    cdef public double total
    cdef public double gone
    cdef public double gain
    cdef public long long evicted
    cdef public double large
    cdef double[:, ::1] _fine  # the further numbers and V of large groups
    cdef list _fine_slot  # the slots of large groups
    cdef readonly bint is_late  # whether anything was ever issued
    cdef double[:, ::1] _slots  # the numbers of the slots of each group, if anything was
    cdef double _d[12]
    cdef double _base[12]  # 2·floor/(2 + d)

    cdef int _admit(self, Py_ssize_t j) except -1
    cdef int _make_slots(self) except -1
    cdef double _size_of(self, Py_ssize_t k) noexcept
    cdef double _variance(self, Py_ssize_t k) noexcept
    cdef Py_ssize_t _fine_row(self, Py_ssize_t k) noexcept
    cdef int _open(self, Py_ssize_t k) except -1
    cdef int _make_large(self, Py_ssize_t k) except -1
    cdef void _seed(self, Py_ssize_t k) noexcept
    cdef int _drop_fine(self, Py_ssize_t k) except -1
    cdef double _evidence(self, Py_ssize_t k, Py_ssize_t a) noexcept
    cdef double _sure(self, double w, double n) noexcept
    cdef int _describe(self, Py_ssize_t k, double[::1] row) except -1
    cdef int _add(self, Py_ssize_t j, object level, const double[::1] numbers) except -1
