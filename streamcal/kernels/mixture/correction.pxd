cimport cython


@cython.final
cdef class Correction:
    cdef double _width
    cdef double _memory
    cdef double _firm
    cdef double _unit
    cdef Py_ssize_t _last
    cdef double[::1] _curve
    cdef double[::1] _curvature
    cdef double[::1] _parts  # K at each knot that a step moves

    cpdef double corrected(self, double z) noexcept nogil
    cpdef void learn(self, double z, double y, double w, double u) noexcept nogil
    cdef Py_ssize_t _knot(self, double z) noexcept nogil
    cdef double _kernel(self, Py_ssize_t knot, double z) noexcept nogil
