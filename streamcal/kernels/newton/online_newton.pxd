cimport cython

from streamcal.kernels.common.weights cimport WeightScale

cpdef double log_odds(double s, double limit) noexcept nogil
cdef double fast_log_odds(object score, object y, object w, double limit) noexcept

@cython.final
cdef class OnlineNewton:
    cdef readonly double weight
    cdef readonly double relative  # the last weight learned, relative to the running mean
    cdef WeightScale _scale
    cdef Py_ssize_t _size
    cdef double _gamma
    cdef double _initial
    cdef double _radius
    cdef double _discount
    cdef readonly double limit
    cdef double[3] _theta
    cdef double[3] _d
    cdef double[3] _l

    cpdef double predict(self, double x) noexcept nogil
    cpdef void step(self, double x, double y, double w) noexcept nogil
    cdef double _forecast(self, double x, double* z) noexcept nogil
    cdef void _learn(self, double* z, double p, double y, double w) noexcept nogil
    cdef inline void _step(self, Py_ssize_t size, double* z, double error, double w) noexcept nogil
    cdef void _project(self, double* z) noexcept nogil
    cdef double _pull(self, double* z, double multiplier) noexcept nogil
    cdef double _trace(self) noexcept nogil
