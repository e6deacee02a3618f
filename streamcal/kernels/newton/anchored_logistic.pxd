cimport cython
from streamcal.kernels.newton.recent_logistic cimport RecentLogistic
from streamcal.kernels.newton.recent_points cimport RecentPoints

cpdef (double, double) regularised_targets(double negative, double positive) noexcept nogil


@cython.final
cdef class AnchoredLogistic:
    cdef bint two
    cdef bint constant
    cdef bint targets
    cdef double ridge
    cdef RecentPoints points
    cdef RecentLogistic passes
    cdef bint anchored  # whether the sums are those of the points
    cdef Py_ssize_t first_held  # the first entry in the sums
    cdef long long compacted  # how often entries had moved by then
    cdef double left_out  # a bound on the weight of the entries before
    cdef long long served  # fits from these sums
    cdef long long visited  # points, in passes since
    cdef long long patience
    cdef double[::1] anchor  # A₀, B₀, C₀
    cdef double[::1] centre  # of u and of v
    cdef double[::1] unit  # 1 / deviation
    cdef double[::1] sums
    cdef double[::1] total  # Σ w f for the negatives, then for the positives
    cdef double[::1] first  # S_0 of f₁, f₂ and 1
    cdef double[::1] rest  # what rounding has dropped from it
    cdef double[::1] handled  # weight and curvature that came and went
    cdef long long number  # how many points did
    cdef double noise  # a bound on the rounding of its terms
    cdef double[::1] d
    cdef double[::1] g
    cdef double[::1] h  # 3 × 3, and its Cholesky factor
    cdef double[::1] factor
    cdef double[::1] powers  # of f₁, then of f₂
    cdef double[::1] monomials  # by their degree, then by that of f₂
    cdef double[::1] terms  # w σ⁽ᵏ⁾
    cdef double[::1] fitted  # A, B, C

    cdef void _replace(self, Py_ssize_t slot, double u, double v, double w) noexcept nogil
    cdef void _anchor_at(self, double a, double b, double c, Py_ssize_t start) noexcept nogil
    cdef void _measure(self, Py_ssize_t start) noexcept nogil
    cdef void _scale(self, double factor) noexcept nogil
    cdef void _consider(self) noexcept nogil
    cdef void _add(self, Py_ssize_t entry, double sign) noexcept nogil
    cdef int _degree(self, int i) noexcept nogil
    cdef void _derive(self, Py_ssize_t entry, double w, bint positive) noexcept nogil
    cdef bint _fit(self, double t_plus, double t_minus) noexcept nogil
    cdef bint _worn(self) noexcept nogil
    cdef bint _flat(self, double t_plus, double t_minus) noexcept nogil
    cdef bint _newton(self, double t_plus, double t_minus) noexcept nogil
    cdef void _expand(self) noexcept nogil
    cdef void _complete(self, double t_plus, double t_minus) noexcept nogil
    cdef bint _factorise(self) noexcept nogil
    cdef void _forward(self, double[::1] x) noexcept nogil
    cdef void _backward(self, double[::1] x) noexcept nogil
    cdef void _corner(self, int i) noexcept nogil
    cdef double _reach(self) noexcept nogil
    cdef double _leverage(self) noexcept nogil
    cdef double _bound(self) noexcept nogil
