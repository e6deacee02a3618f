cimport cython

from streamcal.kernels.newton.regressions cimport Regressions


@cython.final
cdef class ScoreRegressions:
    cdef readonly Py_ssize_t number
    cdef readonly Py_ssize_t means
    cdef readonly Regressions regressions
    cdef double[::1] _phi
    cdef double[::1] _means  # of labels, and the rate of each after them
    cdef Py_ssize_t _seen  # first scores, and their sum
    cdef double _total
    cdef bint _off_centre

    cdef void show(self, double x, const double[::1] means, Py_ssize_t at) noexcept nogil
    cdef double predict(self, Py_ssize_t index) noexcept nogil
    cdef void write_means(self, double[::1] out, Py_ssize_t at) noexcept nogil
    cdef void learn(self, double x, double y, double w, const double[::1] issued, Py_ssize_t at) noexcept nogil
    cdef bint see(self, double x) noexcept nogil
    cpdef hold(self)
