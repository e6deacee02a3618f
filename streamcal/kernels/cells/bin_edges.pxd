from streamcal.kernels.cells.cell_bins cimport CellTree


cdef class BinEdges(CellTree):
    cdef double _slack
    cdef Py_ssize_t _low
    cdef Py_ssize_t _high
    cdef char[::1] _used
    cdef int[::1] _list  # the cells with a weight, ascending
    cdef Py_ssize_t _count  # of them
    cdef double[::1] _rank  # of a used cell, times 1 + slack
    cdef double[::1] _below_w  # weight and positive weight below a used cell; the last entry: of all
    cdef double[::1] _below_p
    cdef int[:, ::1] _near  # of a used cell: l, m, r, s
    cdef double[::1] _inside  # of a used cell: a number between l/m and r/s
    cdef int[::1] _edge
    cdef char[::1] _is_changed
    cdef int[:, ::1] _changes  # binnings and bins that have changed
    cdef int _listed  # of them
    cdef Py_ssize_t _left  # passed fractions that are still followed

    cdef void _list_used(self) noexcept nogil
    cdef void _set_ranks(self) noexcept nogil
    cdef void _reserve(self) except *
    cdef bint _move(self, int[::1] changed, Py_ssize_t low, Py_ssize_t high) noexcept nogil
    cdef inline bint _give_up(self) noexcept nogil
    cdef bint _passed(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high, bint shrinks) noexcept nogil
    cdef inline void _set_near(self, Py_ssize_t i, int left, int under, int right, int over) noexcept nogil
    cdef bint _move_edges(
        self, int above, int below, Py_ssize_t cell, bint up, Py_ssize_t low, Py_ssize_t high
    ) noexcept nogil
    cdef inline void _change(self, Py_ssize_t binning, Py_ssize_t b) noexcept nogil
    cdef void _change_bins_of(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high) noexcept nogil
    cdef inline Py_ssize_t _bin(self, Py_ssize_t binning, Py_ssize_t i) noexcept nogil
    cdef void _set_edges_at(self, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high) noexcept nogil
    cdef inline Py_ssize_t _next_used(self, Py_ssize_t i) noexcept nogil
    cdef void _refine(self, Py_ssize_t i, Py_ssize_t high) noexcept nogil
    cdef void _find_neighbours(self) noexcept nogil
    cdef void _set_edges(self, Py_ssize_t binning) noexcept nogil
    cdef inline Py_ssize_t _stop(self, Py_ssize_t binning, Py_ssize_t b) noexcept nogil
