cimport cython
from streamcal.kernels.newton.point_nodes cimport PointNodes
from streamcal.kernels.newton.quadratic_model cimport QuadraticModel
from streamcal.kernels.newton.recent_points cimport RecentPoints


@cython.final
cdef class RecentLogistic:
    cdef RecentPoints points
    cdef readonly PointNodes nodes
    cdef QuadraticModel model
    cdef bint two
    cdef bint constant
    cdef bint targets
    cdef readonly long long visited  # points, in all passes of the last fit
    cdef long long spent  # the same since nodes were last considered
    cdef int patience
    # what passes read: the columns of the nodes or of the points, and their number
    cdef readonly bint by_nodes
    cdef Py_ssize_t end
    cdef double[::1] u
    cdef double[::1] v
    cdef double[::1] negative
    cdef double[::1] positive
    cdef double[::1] third  # w σ″ by point or node, at the last pass
    cdef double[::1] before
    cdef double[::1] noise  # a bound on the rounding of the gradient
    cdef double[::1] fitted  # A, B, C
    cdef double total  # of the weights measured
    cdef double mass  # Σ w |p − y| of the last pass

    cpdef void replace(self, Py_ssize_t slot, double u, double v, double w) noexcept nogil
    cdef void _scale(self, double factor) noexcept nogil
    cdef Py_ssize_t _matters_from(self) noexcept nogil
    cpdef bint fit(self, double t_plus, double t_minus, double a, double b, double c) noexcept nogil
    cdef void _read(self, bint nodes) noexcept nogil
    cdef void _consider(self) noexcept nogil
    cdef bint _fit_nodes(self, double t_plus, double t_minus, double a, double b, double c) noexcept nogil
    cdef bint _fit_points(self, double t_plus, double t_minus, double a, double b, double c) noexcept nogil
    cdef bint _descend(self, Py_ssize_t start, double t_plus, double t_minus, double last) noexcept nogil
    cdef inline double _slope(self) noexcept nogil
    cdef void _pass(self, Py_ssize_t start, double t_plus, double t_minus) noexcept nogil
    cdef void _add_block(self, Py_ssize_t start, Py_ssize_t stop, double t_plus, double t_minus) noexcept nogil
    cdef bint _certified(self, double left_out) noexcept nogil
