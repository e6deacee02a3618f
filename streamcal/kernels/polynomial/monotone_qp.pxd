cimport cython


@cython.final
cdef class MonotoneQP:
    cdef readonly Py_ssize_t degree
    cdef readonly double ridge
    cdef readonly object coefficients
    cdef readonly double kkt
    cdef readonly int iterations
    cdef const double[::1] _moments
    cdef const double[::1] _cross
    cdef Py_ssize_t _m  # n + 1
    cdef Py_ssize_t _size  # of F
    cdef bint _full
    cdef double _multiplier  # λ
    cdef double _smallest  # pivot of the factor, as a fraction of its diagonal
    cdef double[::1] _c
    cdef double[::1] _d
    cdef double[::1] _g
    cdef double[::1] _slope
    cdef double[::1] _target  # minimum over F, its entries in the order of F
    cdef double[::1] _residual
    cdef double[::1] _unit  # H_FF⁻¹ 1
    cdef double[::1] _scaled
    cdef double[::1] _binomial
    cdef double[::1] _inverse
    cdef double[::1] _sums  # the matrices lie flat, row after row
    cdef double[::1] _hessian
    cdef double[::1] _factor
    cdef Py_ssize_t[::1] _free  # F
    cdef signed char[::1] _is_free
    cdef signed char[::1] _known  # rows of H formed in this solve
    cdef signed char[::1] _barred  # dropped without progress since then: may not re-enter at once

    cpdef int solve_watched(self, double weight) noexcept nogil
    cdef int _give_up(self, int status) noexcept nogil
    cdef int _solve_from_active_set(self) noexcept nogil
    cdef int _iterate(self) noexcept nogil
    cdef void _shrink_to_feasible(self) noexcept nogil
    cdef Py_ssize_t _price(self) noexcept nogil
    cdef void _exchange(self, Py_ssize_t entering) noexcept nogil
    cdef void _solve_on_free(self) noexcept nogil
    cdef void _know_rows(self) noexcept nogil
    cdef bint _factorise(self) noexcept nogil
    cdef void _correct(self, double missing) noexcept nogil
    cdef double _measure_residual(self) noexcept nogil
