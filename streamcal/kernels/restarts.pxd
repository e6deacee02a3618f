cimport cython

cpdef double mean_of_two(double v, double first, double second) noexcept

cpdef void set_gains(
    const double[:, ::1] z, const double[:, ::1] odds, double share, double y, double[::1] out
) noexcept

@cython.final
cdef class Restarts:
    cdef long long _every
    cdef double _given  # of all weight, to a line that begins
    cdef double _back
    # At the left and at the right knot, of the forecast and of the lines: log-odds z, exp(−z).
    cdef double[:, ::1] _z
    cdef double[:, ::1] _odds
    cdef double[::1] _weights
    cdef long long[::1] _began
    cdef double[:, ::1] _lines  # c, θ, A
    cdef Py_ssize_t _held
    cdef long long _learned
    cdef double _sum  # of scores since a line began

    cdef void _drop(self)
    cpdef double weight(self) noexcept
    cpdef double mean(self, Py_ssize_t side, double x, double z) noexcept
    cdef double _at(self, Py_ssize_t k, double x) noexcept
    cpdef assess(self, double share, double y, double[::1] out)
    cpdef learn(self, double x, double y, double w, const double[::1] gains)
    cdef void _weigh(self, const double[::1] gains, double w) noexcept
    cdef void _move(self, Py_ssize_t k, double x, double y, double w) noexcept
    cdef void _begin(self) noexcept

@cython.final
cdef class Switch:
    cdef double _odds  # the log-odds of the weight of the first forecast
    cdef double _rate
    cdef double _most  # log-odds

    cpdef double weight(self) noexcept
    cpdef double mean_of(self, double first, double second) noexcept
    cpdef learn(self, double first, double second, double w, bint late)
