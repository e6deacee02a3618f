cimport cython

cpdef double of_two(double first, double second, double share) noexcept nogil
cpdef double information(double x, double z) noexcept nogil


@cython.final
cdef class Guard:
    cdef readonly double constant
    cdef readonly double a_unit
    cdef readonly double a_surprise
    cdef readonly double likely
    cdef readonly double promised  # nats
    cdef readonly double budget  # nats: what is promised, and what the forecasts have gained on the score
    cdef readonly double staked  # nats that a forecast issued now may lose, at most; a unit, where labels are late
    cdef readonly double delay  # units of information
    cdef readonly double clock  # information learned
    cdef readonly double heaviest  # relative weight of a label of late, at least 1
    cdef double _more  # units that spans are set aside for beyond the delay
    cdef double _share  # of the stake, for a label of weight 1
    cdef double _set_aside  # nats: the sum over all spans
    cdef double _tokens  # surprises that were promised for
    cdef double[:, ::1] _spans  # in the order in which their labels come
    cdef Py_ssize_t _first  # the oldest
    cdef Py_ssize_t _count
    cdef double _extra_staked  # nats that it may lose more by a surprise
    cdef double _prior  # the weight that the score has at least

    cpdef double share(self, double x, double z) noexcept nogil
    cpdef double guarded(self, double x, double z) noexcept nogil
    cpdef learn(self, double gain, double u, double weight=*)
    cpdef grow(self, double delay)
    cdef double _surprised(self)
    cdef _stake(self, double length, double tokens)
    cdef _append(self, double each, double length, double extra, double tokens)
    cdef double _of(self, Py_ssize_t entry) noexcept nogil
    cdef double _shared(self, double length, double tokens, double least, double most) noexcept nogil
    cdef void _set(self, double stake, double extra) noexcept nogil
