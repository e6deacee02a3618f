cimport cython

cpdef (double, double) reduced(double weight, double positive, double w, double w_positive) noexcept nogil


cdef class CellSums:
    cdef readonly object cells  # array of shape (cells, 5)
    cdef public long long count
    cdef public double peak
    cdef object _find
    cdef double[:, ::1] _cells
    cdef double _lo
    cdef double _hi
    cdef int[::1] _changed
    cdef int _number  # of changes; −1: any cell may have changed
    cdef double _factor  # by which all sums were multiplied since

    cdef void _add(self, Py_ssize_t cell, double x, double y, double w) noexcept nogil
    cdef void _remove(self, Py_ssize_t cell, double x, double y, double w) noexcept nogil
    cdef inline void _note(self, Py_ssize_t cell) noexcept nogil


@cython.final
cdef class CellRows:
    cdef CellSums _sums
    cdef const Py_ssize_t[::1] _cells
    cdef const double[::1] _x
    cdef const double[::1] _y
    cdef const double[:] _w
    cdef const Py_ssize_t[::1] _leaving_cells
    cdef const double[::1] _leaving_x
    cdef const double[::1] _leaving_y
    cdef const double[::1] _leaving_w
    cdef Py_ssize_t _next  # of those leaving; below 0 while there is room
    cdef Py_ssize_t _size

    cdef bint _learn(self, Py_ssize_t i) noexcept nogil
