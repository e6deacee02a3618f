cdef double LIMIT  # LOGIT_LIMIT
cdef double LARGEST  # HEAVIEST
cdef Py_ssize_t NUMBER  # NUMBER_SIZE

cpdef bint fast_score(object score, double lo, double hi) noexcept
cpdef bint fast_observation(object score, object y, object w, double lo, double hi) noexcept


cdef class Door:
    cdef object _update, _coordinate
    cdef double _own_lo, _own_hi, _first, _last, _lo, _hi
