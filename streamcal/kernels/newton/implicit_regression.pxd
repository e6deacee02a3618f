cimport cython

cpdef double clamped(double z, double limit) noexcept nogil
cpdef void fill_line(double[::1] phi, double x) noexcept nogil
cpdef double curvature(double z) noexcept nogil
cpdef double implicit(double z, double c, double y) noexcept nogil
cpdef double residual(double y, double z) noexcept nogil

@cython.final
cdef class ForgettingRegression:
    cdef readonly Py_ssize_t size  # coordinates of θ
    cdef double _keep
    cdef double[::1] _renewed  # (1 − λ)A₀
    cdef double[::1] _theta
    cdef double[:, ::1] _a
    cdef double[:, ::1] _l  # what A is factorised into
    cdef double[::1] _g  # A⁻¹φ

    cpdef double predict(self, const double[::1] phi) noexcept nogil
    cpdef void learn(self, const double[::1] phi, double y, double w) noexcept nogil
