cimport cython

cpdef Py_ssize_t steps_of(double weight) noexcept nogil

@cython.final
cdef class WeightScale:
    cdef double _total
    cdef double _count

    cpdef double relative(self, double w) noexcept nogil
    cpdef double ratio(self, double w) noexcept nogil

@cython.final
cdef class InformationScale:
    cdef double _squares
    cdef double _sum

    cpdef double worth(self, double w, double square) noexcept nogil
