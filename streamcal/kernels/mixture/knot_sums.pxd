cimport cython

cdef double LARGEST
cdef double UNIT
cdef Py_ssize_t LAST
cpdef double log_odds_of(double positive, double negative) noexcept nogil


@cython.final
cdef class KnotSums:
    cdef readonly Py_ssize_t smoothers
    cdef double _half[8]  # width of each smoother
    cdef double _growth[8]  # of its unit
    cdef double _units[8]
    cdef readonly double[:, ::1] sums  # two rows a smoother, of negatives and of positives, in units
    cdef readonly double[:, ::1] whole  # weights of all negatives and positives at each knot
    cdef readonly double[::1] curve  # Venn-Abers, once it is drawn
    cdef readonly double slope  # of the line
    cdef readonly double offset
    cdef readonly double low  # forecasts for scores clamped below and above
    cdef readonly double high
    cdef readonly bint drawn
    cdef tuple _prior  # of the line

    cdef double line(self, Py_ssize_t knot, double x) noexcept nogil
    cdef double venn_abers(self, Py_ssize_t knot, double z) noexcept nogil
    cdef double local(self, Py_ssize_t one, Py_ssize_t knot, double p) noexcept nogil
    cdef void learn(self, double x, double y, double w) noexcept nogil
    cdef void _rescale(self, Py_ssize_t one) noexcept nogil
    cpdef hold(self, double slope, double offset, double centre)
    cpdef refit(self)
    cdef _draw(self)
