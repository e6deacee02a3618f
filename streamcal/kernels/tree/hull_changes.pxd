from streamcal.kernels.tree.hull_fits cimport Fits
from streamcal.kernels.tree.hull_nodes cimport Inner, Leaf, Node


cdef class Changes(Fits):
    cdef long long _size
    cdef long long _count
    cdef double _heaviest  # the largest weight a group ever had, in current units

    cdef object _add(self, double score, double w, double p, long long count)
    cdef bint _take_back(self, double score, double w, double p, long long count) except -1
    cdef bint _holds(self, double score, double w, double p, long long count) noexcept
    cdef Node _apply(self, Node node)
    cdef Node _apply_to_leaf(self, Leaf leaf)
    cdef void _take(self, Leaf leaf, int i) noexcept
    cdef Node _split(self, Leaf leaf, int i)
    cdef Inner _joined(self, Node left, Node right, double cut)
    cdef Node _built(self, list leaves, Py_ssize_t start, Py_ssize_t stop)
    cdef Node _rebalanced(self, Inner inner)
    cdef Inner _rotated_left(self, Inner inner)
    cdef Inner _rotated_right(self, Inner inner)
