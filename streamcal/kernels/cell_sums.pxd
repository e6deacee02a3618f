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

    cdef void _add(self, Py_ssize_t cell, double x, double y, double w) noexcept
    cpdef void note(self, Py_ssize_t cell) noexcept
