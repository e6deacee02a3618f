cimport cython
from streamcal.kernels.newton.quadratic_model cimport QuadraticModel


@cython.final
cdef class TaylorSums:
    cdef QuadraticModel model
    cdef bint two
    cdef bint constant
    cdef double[::1] anchor  # A₀, B₀, C₀
    cdef double[::1] origin  # θ there
    cdef double[::1] sums
    cdef double[::1] total  # Σ w f for the negatives, then for the positives
    cdef double[::1] first  # S_0 of f₁, f₂ and 1
    cdef double[::1] rest  # what rounding has dropped from it
    cdef double[::1] handled  # weight and curvature that came and went
    cdef long long number  # how many points did
    cdef double noise  # a bound on the rounding of its terms
    cdef double[::1] f
    cdef double[::1] powers  # of f₁, then of f₂
    cdef double[::1] monomials  # by their degree, then by that of f₂
    cdef double[::1] terms  # w σ⁽ᵏ⁾

    cdef void _clear(self, double a, double b, double c) noexcept nogil
    cdef void _scale(self, double factor) noexcept nogil
    cdef void _add(self, double u, double v, double w, bint positive) noexcept nogil
    cdef inline int _degree(self, int i) noexcept nogil
    cdef void _derive(self, double eta, double w, bint positive) noexcept nogil
    cdef bint _worn(self) noexcept nogil
    cdef void _expand(self, double[::1] d) noexcept nogil
    cdef void _complete(self, double t_plus, double t_minus) noexcept nogil
