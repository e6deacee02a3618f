from streamcal.kernels.tree.hull_nodes cimport Borrowed, Inner, Leaf, Node


cdef struct Change:  # of one group; less than nothing is added where an update is taken back
    double score
    double dw
    double dp
    long long dc
    bint taking


cdef struct Line:  # P/W, which Newton's method tries now
    double P
    double W
    double slope
    bint whole  # P and W are whole numbers
    double floor  # the bracket of the slope sought
    double ceiling


cdef struct End:  # the end found last
    Borrowed leaf
    int groups  # of the leaf, inside
    double key  # these three as far as the nodes above the leaf tell them
    double low
    double high
    double near_w  # the mass inside
    double near_p
    double far_w  # and outside
    double far_p


cdef struct Path:  # from the root to a score
    double score
    Borrowed home  # its leaf, the position in it, and whether there is a group with this score
    int position
    int tied
    Borrowed beside[2][64]  # for each side the nodes from which a child hangs on that side, from above
    int number[2]
    double reach_w[2][64]  # the mass between the score and their cuts
    double reach_p[2][64]
    Borrowed over  # the topmost node whose pool holds the score, if there is one,
    bint pooled
    int above[2]  # and how many of the nodes of each side are above it


cdef bint belongs(int side, double p, double w, double P, double W, double tie) noexcept


cdef class Search:
    cdef Node _root
    cdef bint _exact
    cdef double _tie  # slopes that differ by less than this factor tie
    cdef Change _change
    cdef Line _line
    cdef End _end
    cdef Path _path

    cdef void _set_change(self, double score, double dw, double dp, long long dc, bint taking) noexcept
    cdef void _set_exact(self, bint exact) noexcept
    cdef void _try_line(self, double P, double W) noexcept
    cdef inline void _set_line(self, double P, double W) noexcept
    cdef bint _step(self, double p, double w) noexcept
    cdef void _find_end(self, Inner inner, int side) noexcept
    cdef void _scan(self, Leaf leaf, int side, int i, int number) noexcept
    cdef void _scan_whole(self, Leaf leaf, int side, int i, int number) noexcept
    cdef Borrowed _leaf_of(self, double score) noexcept
    cdef void _locate(self, double score) noexcept
    cdef double _lower_at(self, double score, double w) noexcept
    cdef double _upper(self, double w) noexcept
    cdef double _fit_with(self, double p, double w) noexcept
    cdef double _newton(self, double p, double w) noexcept
    cdef void _find_end_from_score(self, int side) noexcept
    cdef void _find_end_again(self, Inner inner, int side) noexcept
    cdef double _fitted(self) noexcept
