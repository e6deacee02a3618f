cimport cython

cdef double LARGEST
cdef double UNIT
cdef Py_ssize_t LAST
cpdef double log_odds_of(double positive, double negative) noexcept nogil
cpdef double shrunk_log_odds(double p, double positive, double negative) noexcept nogil


@cython.final
cdef class KnotSums:
    cdef readonly Py_ssize_t smoothers
    cdef double _half[8]  # width of each smoother
    cdef double _growth[8]  # of its unit
    cdef double _units[8]
    cdef readonly double[:, ::1] sums  # two rows a smoother, of negatives and of positives, in units

    cdef double local(self, Py_ssize_t index, Py_ssize_t knot, double p) noexcept nogil
    cdef void learn(self, double x, double y, double w, bint forgets) noexcept nogil
    cdef void _rescale(self, Py_ssize_t index) noexcept nogil
