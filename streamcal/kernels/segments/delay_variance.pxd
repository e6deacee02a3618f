cimport cython


@cython.final
cdef class DelayVariance:
    cdef public long long labels  # learned so far, those in time among them
    cdef double[:, ::1] _sums

    cpdef learn(self, double residual, double variance)
    cdef object _append(self, Py_ssize_t i, Py_ssize_t first, double value)
    cdef object _compare(self, Py_ssize_t i)
    cpdef double at(self, double delay) except? -1
