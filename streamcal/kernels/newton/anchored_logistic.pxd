cimport cython
from streamcal.kernels.newton.quadratic_model cimport QuadraticModel
from streamcal.kernels.newton.recent_logistic cimport RecentLogistic
from streamcal.kernels.newton.recent_points cimport RecentPoints
from streamcal.kernels.newton.taylor_sums cimport TaylorSums

cpdef (double, double) regularised_targets(double negative, double positive) noexcept nogil


@cython.final
cdef class AnchoredLogistic:
    cdef bint two
    cdef bint constant
    cdef bint targets
    cdef RecentPoints points
    cdef readonly RecentLogistic passes
    cdef QuadraticModel model
    cdef TaylorSums sums
    cdef readonly bint anchored  # whether the sums are those of the points
    cdef Py_ssize_t first_summed  # the first entry in the sums
    cdef long long compacted  # how often entries had moved by then
    cdef double left_out  # a bound on the weight of the entries before
    cdef readonly long long served  # fits from these sums
    cdef long long visited  # points, in passes since
    cdef long long patience
    cdef double[::1] d
    cdef double[::1] fitted  # A, B, C

    cpdef void replace(self, Py_ssize_t slot, double u, double v, double w) noexcept nogil
    cdef void _anchor_at(self, double a, double b, double c, Py_ssize_t start) noexcept nogil
    cpdef void scale(self, double factor) noexcept nogil
    cdef void _consider(self) noexcept nogil
    cpdef bint fit(self, double t_plus, double t_minus) noexcept nogil
    cdef bint _newton(self, double t_plus, double t_minus) noexcept nogil
    cdef inline void _set_distance(self) noexcept nogil
    cdef double _bound(self) noexcept nogil
