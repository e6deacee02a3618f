from streamcal.kernels.cells.cell_sums cimport CellSums


cdef class CellTree:
    cdef CellSums sums
    cdef double[::1] _centres
    cdef object _round
    cdef Py_ssize_t _size  # a power of two, at least the number of cells
    cdef double[::1] _w  # node i has the children 2i and 2i + 1; the leaves begin at `_size`
    cdef double[::1] _p

    cdef double _at(self, Py_ssize_t cell) noexcept nogil
    cdef void _follow(self) noexcept nogil
    cdef inline void _add_up(self, Py_ssize_t i) noexcept nogil
    cdef double _below(self, Py_ssize_t cell) noexcept nogil
    cdef double _share(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef (double, double) _sums(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
    cdef Py_ssize_t _used_before(self, Py_ssize_t cell) noexcept nogil
    cdef Py_ssize_t _used_from(self, Py_ssize_t cell) noexcept nogil
    cdef Py_ssize_t _nearest(self, Py_ssize_t cell) noexcept nogil
