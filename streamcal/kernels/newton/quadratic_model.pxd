cimport cython
from streamcal.kernels.newton.recent_points cimport RecentPoints


@cython.final
cdef class QuadraticModel:
    cdef RecentPoints points
    cdef bint two
    cdef bint constant
    cdef bint targets
    cdef double ridge
    cdef double[::1] centre  # of u and of v
    cdef double[::1] unit  # 1 / deviation
    cdef double[::1] theta
    cdef double[::1] g
    cdef double[::1] h  # 3 × 3, of which the lower triangle is read
    cdef double[::1] factor
    cdef double[::1] step
    cdef double[::1] trial
    cdef double[::1] curve  # T
    cdef bint bounded  # whether the step is on a bound
    cdef double size  # ‖s‖, or ‖s′‖
    cdef double left  # the most that the step leaves of the gradient, a dual norm
    cdef double leverage  # ρ

    cdef double _measure(
        self, double[::1] u, double[::1] v, double[::1] negative, double[::1] positive, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil
    cdef void _start(self, double a, double b, double c) noexcept nogil
    cdef void _write(self, double[::1] fitted) noexcept nogil
    cdef void _penalise(self, double weight, double mean_1, double mean_2) noexcept nogil
    cdef void _take_out(self) noexcept nogil
    cdef bint _find_step(self) noexcept nogil
    cdef inline bint _bends(self, double last) noexcept nogil
    cdef void _find_curve(
        self, double[::1] u, double[::1] v, double[::1] third, Py_ssize_t start, Py_ssize_t stop
    ) noexcept nogil
    cdef void _bend(self) noexcept nogil
    cdef bint _on_face(self, bint first, bint second) noexcept nogil
    cdef double _change(self, double[::1] x) noexcept nogil
    cdef bint _factorise(self) noexcept nogil
    cdef inline double _forward(self, double[::1] x) noexcept nogil
    cdef inline void _backward(self, double[::1] x) noexcept nogil
    cdef inline double _length(self, double[::1] x) noexcept nogil
    cdef double _spread(self, double x, double y, double z) noexcept nogil
    cdef void _set_corner(self, int i) noexcept nogil
    cdef double _find_leverage(self) noexcept nogil
    cdef double _reach(self, double[::1] x) noexcept nogil
