cimport cython

cpdef double of_two(double first, double second, double share) noexcept nogil


@cython.final
cdef class Guard:
    cdef readonly double constant
    cdef readonly double a_label
    cdef readonly double a_surprise
    cdef readonly double likely
    cdef readonly double promised  # nats
    cdef readonly double budget  # nats: what is promised, and what the forecasts have gained on the score
    cdef readonly double staked  # nats that a forecast issued now may lose, at most
    cdef readonly long long delay
    cdef readonly double heaviest  # relative weight of a label of late, at least 1
    cdef double _share  # nats that a label of weight 1 may cost
    cdef double _set_aside  # nats: the sum over all slots
    cdef double[:, ::1] _slots  # in the order in which their labels come
    cdef Py_ssize_t _first  # the oldest
    cdef Py_ssize_t _count
    cdef double _extra_staked  # nats that it may lose more by a surprise
    cdef double _prior  # the weight that the score has at least

    cpdef double share(self, double x, double z) noexcept nogil
    cpdef double guarded(self, double x, double z) noexcept nogil
    cpdef learn(self, double gain, double weight=*)
    cpdef grow(self, long long delay)
    cdef _stake(self, double tokens)
    cdef _append(self, double each, double number, double tokens)
    cdef double _extra(self, double stake) noexcept nogil
    cdef double _of(self, Py_ssize_t entry) noexcept nogil
    cdef double _shared(self, double slots, double tokens) noexcept nogil
    cdef void _set(self, double stake) noexcept nogil
