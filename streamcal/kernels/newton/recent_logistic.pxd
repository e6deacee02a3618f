cimport cython
from streamcal.kernels.newton.recent_points cimport RecentPoints


@cython.final
cdef class RecentLogistic:
    cdef RecentPoints points
    cdef bint two
    cdef bint constant
    cdef bint targets
    cdef double ridge
    cdef readonly long long visited  # points, in all passes of the last fit
    cdef double[::1] centre  # of u and of v
    cdef double[::1] unit  # 1 / deviation
    cdef double[::1] theta  # A and B in units of 1 / deviation, and the log-odds at the centre
    cdef double[::1] before
    cdef double[::1] step
    cdef double[::1] trial
    cdef double[::1] g
    cdef double[::1] h  # 3 × 3
    cdef double[::1] factor
    cdef double[::1] noise  # a bound on the rounding of g
    cdef double[::1] fitted  # A, B, C
    cdef double total  # of the weights read by the last pass
    cdef double leverage  # ρ
    cdef double size  # ‖s‖ of the last step

    cdef Py_ssize_t _matters_from(self) noexcept nogil
    cdef void _measure(self, Py_ssize_t start) noexcept nogil
    cdef bint _fit(self, double t_plus, double t_minus, double a, double b, double c) noexcept nogil
    cdef bint _descend(self, Py_ssize_t start, double t_plus, double t_minus, double last) noexcept nogil
    cdef void _pass(self, Py_ssize_t start, double t_plus, double t_minus) noexcept nogil
    cdef void _complete(self, double t_plus) noexcept nogil
    cdef bint _direction(self) noexcept nogil
    cdef bint _on_face(self, bint first, bint second) noexcept nogil
    cdef double _model(self, double[::1] x) noexcept nogil
    cdef bint _factorise(self) noexcept nogil
    cdef bint _factors(self) noexcept nogil
    cdef void _forward(self, double[::1] x) noexcept nogil
    cdef double _reach(self, double[::1] x) noexcept nogil
    cdef bint _certified(self, double left_out) noexcept nogil
