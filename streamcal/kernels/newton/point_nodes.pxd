cimport cython
from streamcal.kernels.newton.recent_points cimport RecentPoints


@cython.final
cdef class PointNodes:
    cdef readonly bint holds  # whether the nodes are those of all points
    cdef bint two
    cdef double shift  # added to u, taken off v
    cdef Py_ssize_t panels
    cdef Py_ssize_t size  # the number of nodes
    cdef double start  # the lower end of the first panel
    cdef double half  # δ
    cdef double error
    cdef double extent
    cdef double[::1] places  # of the nodes of a panel in [−1, 1]
    cdef double[::1] barycentric
    cdef double[::1] share  # of a point, of each node of its panel, but for a factor
    cdef double[::1] u
    cdef double[::1] v
    cdef double[::1] negative
    cdef double[::1] positive
    # by panel and label
    cdef double[::1] weight
    cdef double[::1] handled  # weight that came and went
    cdef Py_ssize_t[::1] number  # of points

    cdef void _load(self, RecentPoints points, double slope, Py_ssize_t most) noexcept nogil
    cdef inline double _place(self, double u, double v) noexcept nogil
    cdef void _add(self, double u, double v, double w, bint positive, bint comes) noexcept nogil
    cdef void _scale(self, double factor) noexcept nogil
    cdef inline bint _narrow(self, double slope) noexcept nogil
    cdef void _bound(self, double slope) noexcept nogil
