cimport cython

from streamcal.kernels.mixture.late_weights cimport LateWeights

cdef double PLACE_FADES
cdef double ENTERS

cdef void step_line(
    double* a, double* prior, double offset, double slope, double keep, double d, double error, double curvature,
    double* step) noexcept nogil


@cython.final
cdef class MemoryLadder:
    cdef readonly Py_ssize_t size  # rungs, N
    cdef readonly LateWeights weights
    cdef readonly double information  # U
    cdef Py_ssize_t _lines
    cdef double _centre
    cdef double _placed  # information in the sums of the features
    cdef double _due  # information at which the next rung enters
    cdef double[::1] _theta
    cdef double[::1] _a  # three numbers a line, sixteen a curve
    cdef double[::1] _places  # sums of products of the features
    cdef double[::1] _memory
    cdef double[::1] _entered
    cdef double[:, ::1] _ends  # of each rung: negatives and positives at scores clamped below, and above

    cdef void show(self, double x, double[::1] out, Py_ssize_t at) noexcept nogil
    cdef void show_end(self, bint above, double[::1] out, Py_ssize_t at) noexcept nogil
    cdef void judge(
        self,
        const double[::1] z,
        Py_ssize_t at,
        Py_ssize_t rows,
        double y,
        double w,
        double u,
        double late,
        double shares,
    ) noexcept nogil
    cdef void learn(self, double x, double y, double w, double u) noexcept nogil
    cdef void _count(self, Py_ssize_t end, double y, double w, double u) noexcept nogil
    cdef void _move(self, double x, double y, double w, double u) noexcept nogil
    cdef void _next_rung(self) noexcept nogil
