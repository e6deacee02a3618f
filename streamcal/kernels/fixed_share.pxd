cimport cython

from streamcal.kernels.weights cimport WeightScale

cpdef double late_rate(double late) noexcept nogil
cpdef double hindsight_weight(double late) noexcept nogil

cpdef require_said(const double[::1] said, Py_ssize_t first, Py_ssize_t last, double most, object whose)

cdef class FixedShare:
    cdef readonly Py_ssize_t size  # forecasts, K
    cdef readonly Py_ssize_t rows
    cdef const double[::1] _rates
    cdef readonly Py_ssize_t third  # of the rows, where labels are late; else 0
    cdef public double late  # how late they usually are, in labels
    cdef double _passive
    cdef const double[::1] _prior
    cdef double[:, ::1] _shares  # weights within each row; a row sums to 1
    cdef double[::1] _log_wealth  # of each row
    cdef double[::1] _weights  # of the forecasts, over all rows: what a prediction needs
    cdef double[::1] _gains  # of the step being made
    cdef double[:, ::1] _odds  # of `mean`

    cpdef double mean(self, const double[::1] z) noexcept
    cpdef double mean_of(self, const double[:, ::1] e, Py_ssize_t row) noexcept
    cpdef assess(self, const double[::1] gains, double[::1] of_rows)
    cpdef learn(self, const double[::1] gains, const double[::1] of_rows, double w)
    cpdef learn_late(
        self,
        const double[::1] gains,
        const double[::1] of_rows,
        const double[::1] now,
        double w,
        double late,
    )
    cdef void _set_factors(self, const double[::1] gains, double w) noexcept nogil
    cdef void _learn_third(
        self, Py_ssize_t first, const double[::1] of_rows, bint issued, double rate, double whole
    ) noexcept nogil
    cdef double _wealth_of(self, Py_ssize_t first) noexcept nogil
    cdef void _weigh_rows(self) noexcept nogil
    cpdef triple_rows(self)
    cpdef set_late(self, double late)
    cpdef double weight_of(self, Py_ssize_t k) noexcept
    cdef _require_sizes(self, Py_ssize_t forecasts, Py_ssize_t rows)
    cdef double _pay(self, Py_ssize_t row) noexcept nogil
    cdef void _weigh(self) noexcept nogil

@cython.final
cdef class Jumper(FixedShare):
    cdef readonly double weight  # learned
    cdef WeightScale _scale
    cdef const double[::1] _slopes  # without repetition
    cdef const Py_ssize_t[::1] _of_slope  # of each calibrator
    cdef const double[::1] _factors  # exp(−offset)
    cdef double[::1] _against  # exp(−slope·x) where it has looked last
    cdef double[::1] _odds_of  # the odds against 1 of the calibrators there, and the probabilities of 1 and of 0
    cdef double[::1] _p
    cdef double[::1] _q
    cdef double[:, ::1] _table  # their probabilities where it was told to be quick

    cpdef double predict_at(self, Py_ssize_t i) noexcept nogil
    cpdef double predict(self, double x) noexcept nogil
    cpdef void step(self, double x, double y, double w) noexcept nogil
    cdef void _look(self, double x) noexcept nogil
    cdef double _mean(self) noexcept nogil
    cdef double _log_of(self, Py_ssize_t k, double y) noexcept nogil
    cdef void _learn(self, double y, double w) noexcept nogil
    cdef double _set_gains(self, double y) noexcept nogil
    cdef double _set_weighted_gains(self, double y, double w) noexcept nogil
