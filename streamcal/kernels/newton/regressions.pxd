cimport cython


@cython.final
cdef class Plan:
    cdef readonly Py_ssize_t number  # of regressions
    cdef const Py_ssize_t[:, ::1] _table  # of each regression: size, first coordinate, first entry of its inverse
    cdef const Py_ssize_t[::1] _places  # of each coordinate's feature
    cdef const double[::1] _growth  # 1/√λ of each coordinate
    cdef const double[::1] _renewal  # (1 − λⁿ)·A₀ of each coordinate
    cdef readonly object precisions  # A₀ of each coordinate
    cdef readonly object start  # θ at first
    cdef readonly object inverse  # A⁻¹ at first


@cython.final
cdef class Regressions:
    cdef readonly Plan plan
    cdef double[::1] _theta
    cdef double[::1] _inverse
    cdef double[::1] _turns  # of each regression: the coordinate that is renewed next
    cdef double[::1] _centre  # features at which the prior holds the offset; empty where that is log-odds 0
    cdef Py_ssize_t _offset  # the index of the constant among them

    cpdef double predict(self, Py_ssize_t index, const double[::1] phi) noexcept nogil
    cpdef void learn(self, Py_ssize_t index, const double[::1] phi, double y, double w, bint forgets) noexcept nogil
