cimport cython


cdef class BinForecaster:
    cdef Py_ssize_t _size

    cdef double _forecast(self, Py_ssize_t row) noexcept nogil
    cdef void _learn(self, Py_ssize_t row, double y, double w) noexcept nogil


@cython.final
cdef class Shares(BinForecaster):
    cdef double[::1] _weight
    cdef double[::1] _positive


@cython.final
cdef class Hedger(BinForecaster):
    cdef readonly unsigned long long number
    cdef unsigned long long _seed
    cdef double[:, ::1] _weight
    cdef double[:, ::1] _positive

    cdef Py_ssize_t _choose(self, Py_ssize_t row) noexcept nogil
    cdef double _deficit(self, Py_ssize_t row, Py_ssize_t i) noexcept nogil
    cdef double _excess(self, Py_ssize_t row, Py_ssize_t i) noexcept nogil
