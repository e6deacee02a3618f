cimport cython


@cython.final
cdef class RecentPoints:
    cdef readonly Py_ssize_t end  # of the entries
    cdef readonly Py_ssize_t live  # those with weight
    cdef long long compacted  # how often entries have moved
    cdef Py_ssize_t[::1] place  # of a slot among the entries; −1 for none
    cdef Py_ssize_t[::1] slot
    cdef double[::1] u
    cdef double[::1] v
    cdef double[::1] negative  # weight of the entry, in the column of its label
    cdef double[::1] positive
    cdef double[::1] upto  # a bound on the weight of this entry and all before it
    cdef double[::1] weight  # of the negatives, and of the positives
    cdef double[::1] low  # least and largest features seen
    cdef double[::1] high
    cdef inline bint _changes(self, Py_ssize_t slot, double u, double v, double w) noexcept nogil
    cdef inline double _weight(self, Py_ssize_t i) noexcept nogil
    cpdef void replace(self, Py_ssize_t slot, double u, double v, double w) noexcept nogil
    cdef void _compact(self) noexcept nogil
    cdef void _scale(self, double factor) noexcept nogil
    cdef Py_ssize_t _above(self, double limit) noexcept nogil
