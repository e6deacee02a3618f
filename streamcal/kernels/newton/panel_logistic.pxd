cimport cython

from streamcal.kernels.polynomial.monotone_qp cimport MonotoneQP


@cython.final
cdef class PanelLogistic:
    cdef readonly Py_ssize_t degree
    cdef readonly Py_ssize_t panels
    cdef readonly object coefficients  # of the last fit, log-odds
    cdef object _qp
    cdef MonotoneQP _program
    cdef Py_ssize_t _m  # n + 1
    cdef Py_ssize_t _nodes
    cdef double[::1] _u  # the points, by slot
    cdef double[::1] _w
    cdef double[::1] _weights  # of the nodes
    cdef double[::1] _positive
    cdef Py_ssize_t[::1] _inside  # points in each panel
    cdef const double[::1] _edges
    cdef const double[::1] _places  # of the nodes of a panel on [−1, 1], and their barycentric weights
    cdef const double[::1] _barycentric
    cdef const double[::1] _basis  # B_i at the nodes, a row for every i, and zeros up to a multiple of four
    cdef double[::1] _padded  # c, as long
    cdef const double[::1] _at_nodes  # the same, a row for every node
    cdef const double[::1] _products  # the basis of degree 2n, a row for every node
    cdef const double[::1] _variation  # by panel: c to the scaled powers of its Taylor series
    cdef double _growth
    cdef double[::1] _share  # l_k at a point
    cdef double[::1] _c  # the anchor, in [0, 1]
    cdef double[::1] _height  # Vc at the nodes
    cdef double[::1] _curvature  # 4 W p (1 − p) at the nodes, and that times Vc less the excess
    cdef double[::1] _pull
    cdef double[::1] _goal  # V times the next c
    cdef double[::1] _moments
    cdef double[::1] _cross
    cdef double[::1] _terms  # of the bases at a point
    cdef double[::1] _solution  # the coefficients of the program
    cdef double[::1] _fitted  # memory of `coefficients`
    cdef double[::1] _resolved  # c for which the panels are known to be narrow enough
    cdef bint _is_resolved
    cdef double _total
    cdef double _handled  # weight that came and went
    cdef long long _changes  # how many points did since the nodes were weighted, and since the sums were made
    cdef long long _since

    cdef void _weigh(self) noexcept nogil
    cdef void _spread(self, Py_ssize_t slot, double sign) noexcept nogil
    cdef inline void _hold(self, Py_ssize_t panel, double sign) noexcept nogil
    cdef void _shift(self, Py_ssize_t slot, double sign) noexcept nogil
    cdef void _sum(self) noexcept nogil
    cdef double _rise(self) noexcept nogil
    cdef bint _resolves(self, double[::1] c) noexcept nogil
    cpdef bint fit(self) noexcept nogil
    cdef inline Py_ssize_t _panel(self, double u) noexcept nogil
