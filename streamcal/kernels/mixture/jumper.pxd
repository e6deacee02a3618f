cimport cython

from streamcal.kernels.common.weights cimport WeightScale

@cython.final
cdef class Jumper:
    cdef readonly Py_ssize_t size  # calibrators, K
    cdef readonly Py_ssize_t rows
    cdef double[::1] _rates
    cdef double _passive
    cdef double[::1] _prior
    cdef double[::1] _shares  # weights within each row, one row after another; a row sums to 1
    cdef double[::1] _log_wealth  # of each row
    cdef double[::1] _weights  # of the calibrators, over all rows: what a prediction needs
    cdef double[::1] _gains  # of the step being made
    cdef readonly double weight  # learned
    cdef WeightScale _scale
    cdef double[::1] _slopes  # without repetition
    cdef double[::1] _of_slope  # of each calibrator
    cdef double[::1] _factors  # exp(−offset)
    cdef double[::1] _against  # exp(−slope·x) where it has looked last
    cdef double[::1] _odds_of  # the odds against 1 of the calibrators there, and the probabilities of 1 and of 0
    cdef double[::1] _p
    cdef double[::1] _q

    cpdef double predict(self, double x) noexcept nogil
    cpdef void step(self, double x, double y, double w) noexcept nogil
    cdef void _look(self, double x) noexcept nogil
    cdef double _mean(self) noexcept nogil
    cdef double _log_of(self, Py_ssize_t k, double y) noexcept nogil
    cdef void _learn(self, double y, double w) noexcept nogil
    cdef double _set_gains(self, double y) noexcept nogil
    cdef double _set_weighted_gains(self, double y, double w) noexcept nogil
    cdef double _pay(self, Py_ssize_t row) noexcept nogil
    cdef void _weigh(self) noexcept nogil
