cimport cython

from streamcal.kernels.newton.regressions cimport Plan, Regressions


@cython.final
cdef class DayAndWeek:
    cdef readonly Regressions regression
    cdef readonly bint begun
    cdef readonly double share  # its weight in the forecast
    cdef Plan _plan
    cdef double _prior
    cdef double[::1] _features

    cdef double at(self, double x, double both, double t) noexcept nogil
    cdef void _show(self, double x, double both, double t) noexcept nogil
    cdef void learn(self, double x, double y, double w, bint forgets, double t, double both) noexcept nogil
    cdef void judge(self, double both, double timed, double y, double rate, double shared) noexcept nogil
