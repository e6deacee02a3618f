cimport cython

cpdef void write_basis(Py_ssize_t n, double u, double[::1] out) noexcept nogil


@cython.final
cdef class Curve:
    cdef const double[::1] _coefficients
    cdef double _lo
    cdef double _width

    cpdef double at(self, double x) noexcept nogil


@cython.final
cdef class BernsteinSums:
    cdef readonly Py_ssize_t degree
    cdef readonly double lo
    cdef readonly double hi
    cdef readonly object moments
    cdef readonly object cross
    cdef readonly double weight
    cdef readonly double positive
    cdef readonly long long count
    cdef readonly double peak
    cdef double[::1] _moments
    cdef double[::1] _cross
    cdef double[::1] _totals  # weight and positive
    cdef double[::1] _moments_low
    cdef double[::1] _cross_low
    cdef double[::1] _totals_low
    cdef double[::1] _terms
    cdef double[::1] _rising
    cdef double[::1] _falling

    cdef void _add(self, double u, double w, double positive, long long count) noexcept nogil
    cdef void _settle(self) noexcept nogil
    cpdef void update_one(self, double x, double y, double w) noexcept nogil
    cpdef void update(self, double u, double w, double positive) noexcept nogil
    cpdef void unlearn(self, double u, double w, double positive) noexcept nogil
