cimport cython

from streamcal.kernels.tree.hull_changes cimport Changes


@cython.final
cdef class HullTree(Changes):
    cdef double _lo  # the range of scores for which there is a fast path
    cdef double _hi

    cpdef double mass(self) noexcept
    cpdef update(self, double score, double w, double positive, long long count)
    cpdef update_one(self, double score, double y, double w)
    cpdef int unlearn(self, double score, double w, double positive, long long count) except -1
    cpdef write_group(self, double score, double[::1] out)
    cpdef write_interval(self, double score, double w, double[::1] out)
    cdef object _leave(self, const double[::1] x, const double[::1] y, const double[::1] w, Py_ssize_t i)
