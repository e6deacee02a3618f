cimport cython


@cython.final
cdef class PeriodSearch:
    cdef readonly Py_ssize_t held
    cdef readonly double frequency
    cdef readonly long long learned
    cdef Py_ssize_t _size
    cdef Py_ssize_t _next  # the place of the next observation
    cdef object _rate
    cdef list _covered
    cdef object _harmonics
    cdef double[::1] _times
    cdef double[::1] _errors
    cdef list _phases  # mean times of what was held at looks, and the phase of the errors
    cdef long long _due  # observations until the next look
    cdef double _reference  # a time,
    cdef double _turns  # and the place in the cycle at it

    cpdef double turns_at(self, double t) noexcept nogil
    cpdef bint add(self, double t, double error) except *
    cdef bint _look(self) except *
