cimport cython


@cython.final
cdef class Deviances:
    cdef readonly bint known  # the reference
    cdef readonly double low
    cdef readonly double high
    cdef double _doubt  # the least probability and the distance of the largest one from 1
    cdef double _centre
    cdef double[::1] _positive  # weights of labels
    cdef double[::1] _negative
    cdef double[::1] _p  # probabilities of the fit
    cdef double[::1] _q  # and of the one before
    cdef double[::1] _terms
    cdef double[::1] _rest
    cdef double[::1] _scratch
    cdef bint _started
    cdef double _last  # deviance
    cdef double[::1] _reference
    cdef double[::1] _log  # of r
    cdef double[::1] _log_rest  # of 1 − r
    cdef double[::1] _inverse
    cdef double[::1] _inverse_rest
    cdef double[::1] _first
    cdef double[::1] _second
    cdef double[::1] _third
    cdef double[::1] _fourth
    cdef double[::1] _lean
    cdef double _at_reference
    cdef double _slack

    cpdef void begin(self, double n, const double[::1] share, const double[::1] y, double centre) noexcept
    cpdef double exact(self, const double[::1] fit) noexcept
    cpdef double following(self, const double[::1] fit) noexcept
    cpdef void bound(self, const double[::1] fit) noexcept
    cpdef void refer(self, const double[::1] fit) noexcept


cdef void set_probabilities(const double[::1] fit, double centre, double doubt, double[::1] p) noexcept nogil
cdef void set_logarithms(
    const double[::1] p, const double[::1] positive, const double[::1] negative, double[::1] terms
) noexcept nogil
cdef void set_products(
    const double[::1] positive, const double[::1] negative, const double[::1] one, const double[::1] other,
    double[::1] terms
) noexcept nogil
cdef void set_ratios(
    const double[::1] p, const double[::1] q, const double[::1] positive, const double[::1] negative,
    double[::1] terms, double[::1] farther
) noexcept nogil
cdef double artanh(double square) noexcept nogil
cdef void correct(
    const double[::1] p, const double[::1] q, const double[::1] positive, const double[::1] negative,
    double[::1] terms, const double[::1] farther
) noexcept nogil
cdef double log_ratio(double p, double q) noexcept nogil
cdef void set_coefficients(
    const double[::1] positive, const double[::1] negative, const double[::1] inverse, const double[::1] inverse_rest,
    double constant, double[::1] first, double[::1] second, double[::1] third, double[::1] fourth,
    double[::1] lean
) noexcept nogil
cdef void set_bounds(
    const double[::1] fit, double centre, double doubt, const double[::1] reference, const double[::1] first,
    const double[::1] second, const double[::1] third, const double[::1] fourth, const double[::1] lean,
    double[::1] low, double[::1] gap
) noexcept nogil
cdef double total(double[::1] terms) noexcept nogil
