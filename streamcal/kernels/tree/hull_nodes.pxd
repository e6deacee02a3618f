cimport cython

ctypedef void* Borrowed


@cython.no_gc
cdef class Node:
    cdef long long leaves
    cdef double weight
    cdef double positive
    cdef double moment  # weight times score


@cython.no_gc
@cython.final
cdef class Leaf(Node):
    cdef int n
    cdef double[64] scores
    cdef double[64] w
    cdef double[64] p
    cdef long long[64] count


@cython.no_gc
@cython.final
cdef class Inner(Node):
    cdef Node left
    cdef Node right
    cdef double cut
    cdef double lo
    cdef double hi
    cdef double P
    cdef double W
    cdef double[2] near_w
    cdef double[2] near_p
    cdef double[2] far_w
    cdef double[2] far_p
    cdef double[2] low
    cdef double[2] high


cdef int position(Leaf leaf, double score) noexcept
cdef void place(Leaf leaf, int i, double score, double w, double p, long long count) noexcept
cdef Leaf filled(
    const double[::1] s, const double[::1] ws, const double[::1] ps, const long long[::1] cs, Py_ssize_t start, Py_ssize_t stop
)
cdef bint rises(const double[::1] s) noexcept
cdef void drop(Leaf leaf, int i) noexcept
cdef void append(Leaf leaf, Leaf other, int start) noexcept
cdef void sum_up(Leaf leaf) noexcept
cdef void add_up(Inner inner) noexcept
cdef Leaf merged(Leaf left, Leaf right)
cdef double outermost(Node node, int side) noexcept
cdef int blocks_of(Leaf leaf, double* ws, double* ps, int* starts) noexcept
cdef double last_below(Node root, double score, bint itself) noexcept
cdef double first_of_at_least(Node root, double value) noexcept
cdef bint whole(double x) noexcept
