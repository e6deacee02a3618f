cimport cython

@cython.final
cdef class RepeatedScores:
    cdef readonly Py_ssize_t slots  # 0 before the first label: there is no table yet
    cdef readonly double[:, ::1] table
    cdef Py_ssize_t _known  # scores in it that came twice

    cdef Py_ssize_t _slot(self, double x) noexcept nogil
    cdef Py_ssize_t known(self, double x) noexcept nogil
    cdef double forecast(self, Py_ssize_t slot, double p) noexcept nogil
    cdef learn(self, double x, double y, double w, double u)
    cpdef lengthen(self, Py_ssize_t size, object entries)
