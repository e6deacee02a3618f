cimport cython

cpdef double clamped(double z, double limit) noexcept nogil
cpdef void fill_line(double[::1] phi, double x) noexcept nogil
cpdef double curvature(double z) noexcept nogil
cpdef double implicit(double z, double c, double y) noexcept nogil

@cython.final
cdef class RegressionBank:
    cdef readonly Py_ssize_t size  # regressions
    cdef const Py_ssize_t[:, ::1] _table  # what is known of each
    cdef const double[::1] _paces
    cdef Py_ssize_t[::1] _places  # of each feature among those that are shown; -1 where there is none
    cdef double[::1] _theta
    cdef double[::1] _f  # φ, of the step being made
    cdef double[::1] _g  # A⁻¹φ, likewise
    cdef double[::1] _h  # what a step adds to A is h·φφᵀ
    cdef double[::1] _a
    cdef double[::1] _kept  # of each entry of A at a step
    cdef double[::1] _renewed  # S A₀ S
    cdef double[::1] _l  # what the A of one is factorised into
    cdef double[:, ::1] _work  # numbers of the steps being made
    cdef bint _moved

    cdef double predict_one(self, Py_ssize_t place, const double[::1] phi, double ahead) noexcept nogil
    cpdef void predict(
        self, const double[::1] phi, double ahead, const Py_ssize_t[::1] places, double[::1] out
    ) noexcept nogil
    cpdef void learn(self, const double[::1] phi, double y, double w) noexcept nogil
    cdef void _prepare(self, Py_ssize_t i) noexcept nogil
    cdef void _finish(self, Py_ssize_t i, double step) noexcept nogil
    cdef void _show(self, const double[::1] phi) noexcept nogil
    cpdef void record(self, double[::1] out) noexcept nogil
    cpdef void repeat(self, const double[::1] phi, const double[::1] recorded) noexcept nogil

@cython.final
cdef class ForgettingRegression:
    cdef readonly Py_ssize_t size  # coordinates of θ
    cdef readonly tuple shape  # (coordinates, features, velocities, pace)
    cdef list _places  # of φ among the features that are shown
    cdef object _root  # √λ
    cdef object _precision
    cdef tuple _numbers  # until they are in a bank
    cdef RegressionBank _bank
    cdef Py_ssize_t _place

    cpdef double predict(self, const double[::1] phi, double ahead) noexcept nogil
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
    cdef double[::1] _parts  # K at each knot, of the step being made

    cpdef double at(self, double x) noexcept nogil
    cpdef void learn(self, double x, double z, double y, double w) noexcept nogil
    cdef Py_ssize_t _knot(self, double x) noexcept nogil
    cdef double _kernel(self, Py_ssize_t knot, double x) noexcept nogil
