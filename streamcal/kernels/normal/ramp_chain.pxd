cimport cython


@cython.final
cdef class RampChain:
    cdef tuple _ramps
    cdef Py_ssize_t[::1] _first
    cdef Py_ssize_t[::1] _last  # knots of the halves
    cdef double[::1] _geometric
    cdef double[::1] _centre
    cdef double[::1] _depth
    cdef double[::1] _mass
    cdef double[::1] _log
    cdef Py_ssize_t _chain
    cdef double[::1] _cuts
    cdef double[::1] _upto
    cdef double[::1] _sums
    cdef bint _integrated

    cdef void _add_halves(
        self, Py_ssize_t k, const double[:] knots, const double[:] depths, const double[:] below, const double[:] above
    ) except *
    cdef void _set(self, Py_ssize_t first, Py_ssize_t i, double depth, double mass) noexcept nogil
    cdef Py_ssize_t _knot(self, Py_ssize_t half, double d) noexcept nogil
    cdef (double, double, double) _piece(self, Py_ssize_t side, double a, double b, double value) noexcept nogil
    cdef (double, double) _around(self, Py_ssize_t side, double d) noexcept nogil
    cdef void _find_cuts(self) except *
    cdef void _insert(self, Py_ssize_t count, double place) noexcept nogil
    cdef double _place(self, Py_ssize_t k, Py_ssize_t side, double d) noexcept nogil
    cdef double _reached(self, Py_ssize_t half, double mass, double deep, bint first) noexcept nogil
    cdef double _depth_at(self, Py_ssize_t half, Py_ssize_t i, double mass, double deep) noexcept nogil
