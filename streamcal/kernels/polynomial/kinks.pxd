cimport cython


@cython.final
cdef class Kinks:
    cdef readonly object fit  # p at every score
    cdef readonly Py_ssize_t rounds  # of the last solve
    cdef readonly double excess  # by how much |u| exceeds the penalty
    cdef double[::1] _z
    cdef double[::1] _gap  # 2 (z_{i+1} − z_i)
    cdef double[::1] _share
    cdef double[::1] _y
    cdef double[::1] _product  # ωy
    cdef double[::1] _fit
    cdef double[::1] _u
    cdef double _ridge
    cdef double _tolerance
    cdef double _flat
    cdef Py_ssize_t _number  # of knots: A and the two ends
    cdef Py_ssize_t[::1] _knots
    cdef double[::1] _signs  # 0 at the ends
    cdef double[::1] _kinks
    cdef Py_ssize_t[::1] _before  # scratch: the knots before a round
    cdef Py_ssize_t[::1] _added
    cdef double[::1] _values
    cdef double[::1] _solved  # kinks of the solution on A
    cdef double[::1] _diagonal
    cdef double[::1] _beside
    cdef Py_ssize_t[::1] _end  # by the first cell of a piece: its last knot when its sums were made, or −1
    cdef double[:, ::1] _sums  # Σω left², Σω left·right, Σω right², Σωy left, Σωy right
    cdef bint _finite
    cdef double _largest  # |u| of the scores that are no knots
    cdef Py_ssize_t _top  # the first score with it
    cdef Py_ssize_t _violators  # scores in `_added`

    cpdef double most(self) noexcept
    cpdef Py_ssize_t number(self, double smallest) noexcept
    cpdef int solve(self, double limit, Py_ssize_t most_rounds) noexcept
    cdef void _set_products(self) noexcept
    cdef void _begin(self) noexcept
    cdef bint _same(self, Py_ssize_t before) noexcept
    cdef void _scan(self, double limit) noexcept
    cdef void _enter(self, Py_ssize_t number) noexcept
    cdef void _settle(self, double limit) noexcept
    cdef void _set_fit(self) noexcept
    cdef void _set_sums(self, Py_ssize_t first, Py_ssize_t end) noexcept
    cdef void _solve_on_knots(self, double limit) noexcept
    cdef void _solve_tridiagonal(self) noexcept


cdef double trace(
    const double[::1] z, const double[::1] gap, const double[::1] share, const double[::1] product,
    const Py_ssize_t[::1] knots, Py_ssize_t number, const double[::1] values, double[::1] fit, double[::1] u
) noexcept nogil
