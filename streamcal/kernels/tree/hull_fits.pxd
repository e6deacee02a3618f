from streamcal.kernels.tree.hull_nodes cimport Borrowed, Inner, Leaf
from streamcal.kernels.tree.hull_search cimport Search


cdef class Fits(Search):
    cdef object _centre
    # The block found last: its first, last and mean score, its value, and the scores before and after it.
    cdef double _first
    cdef double _last
    cdef double _mean
    cdef double _value
    cdef double _before
    cdef double _after
    cdef double _w  # its weight, positive weight and Σ weight × score
    cdef double _p
    cdef double _moment

    cdef double _placed(self, double score) except? -1
    cdef double _isotonic(self, double score) noexcept
    cdef double _value_of(self, double score) noexcept
    cdef void _set_ends(self, double bound) noexcept
    cdef bint _find_block(self, double score, double tie) noexcept
    cdef bint _find_pooled_block(self, double score, double tie) noexcept
    cdef bint _find_block_in_leaf(
        self, Leaf leaf, double score, double tie, Borrowed left, Borrowed right,
        double floor, double ceiling, double reach,
    ) noexcept
    cdef bint _sum_left(self, Inner inner, Borrowed above) noexcept
    cdef bint _sum_right(self, Inner inner, Borrowed above) noexcept
    cdef void _sum_between(self, double first, double after) noexcept
