cimport cython

from streamcal.kernels.hull_changes cimport Changes


@cython.final
cdef class HullTree(Changes):
    cdef double _lo  # the range of scores for which there is a fast path
    cdef double _hi

    cdef object _leave(self, const double[::1] x, const double[::1] y, const double[::1] w, Py_ssize_t i)
