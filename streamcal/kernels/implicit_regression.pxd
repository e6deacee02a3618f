cimport cython

cpdef double clamped(double z) noexcept
cpdef double implicit(double z, double c, double y) noexcept

@cython.final
cdef class ForgettingRegression:
    cdef readonly Py_ssize_t size  # coordinates of θ
    cdef Py_ssize_t _features
    cdef const Py_ssize_t[::1] _places  # of φ among the features that are shown
    cdef Py_ssize_t _trends
    cdef double _pace
    cdef const double[::1] _root  # √λ
    cdef const double[::1] _precision
    cdef const double[:, ::1] _kept  # of each entry of A at a step
    cdef const double[:, ::1] _renewed  # S A₀ S
    cdef double[::1] _theta
    cdef double[:, ::1] _a
    cdef double[:, ::1] _l  # what A is factorised into
    cdef double[::1] _f  # φ, of the step being made
    cdef double[::1] _g  # A⁻¹φ, likewise

    cpdef double predict(self, const double[::1] phi, double ahead) noexcept
    cpdef learn(self, const double[::1] phi, double y, double w)

@cython.final
cdef class Correction:
    cdef double _width
    cdef double _forget
    cdef double _firm
    cdef double _unit
    cdef Py_ssize_t _last
    cdef double[::1] _curve
    cdef double[::1] _curvature

    cpdef double at(self, double x) noexcept
    cpdef learn(self, double x, double z, double y, double w)
    cdef Py_ssize_t _knot(self, double x) noexcept
    cdef double _kernel(self, Py_ssize_t knot, double x) noexcept
