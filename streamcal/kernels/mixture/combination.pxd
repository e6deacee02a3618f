cimport cython

from streamcal.kernels.mixture.guard cimport Guard
from streamcal.kernels.newton.implicit_regression cimport Correction
from streamcal.kernels.newton.regressions cimport Regressions

cdef Py_ssize_t MIXED
cdef Py_ssize_t STACKED
cdef Py_ssize_t ROWS
cdef Py_ssize_t BASE
cdef Py_ssize_t CORRECTED
cdef Py_ssize_t BOTH
cdef Py_ssize_t TIMED
cdef Py_ssize_t ISSUED
cdef Py_ssize_t COUNT
cdef Py_ssize_t MEANS
cdef double NONE

cpdef double gain_of(double z, double y) noexcept nogil
cpdef double likelihood(double z, double y) noexcept nogil
cpdef double shared_by(double z) noexcept nogil
cpdef double share_after(
    double share, double prior, double first, double second, double y, double rate
) noexcept nogil


@cython.final
cdef class Combination:
    cdef readonly Py_ssize_t size  # experts, K
    cdef readonly Guard guard
    cdef readonly Regressions stack
    cdef readonly Correction correction
    cdef readonly bint late  # whether a label ever came late
    cdef readonly double corrected  # weight of the correction
    cdef double[:, ::1] _rows
    cdef double[::1] _features  # of the stack
    cdef double _first  # log of the wealth of both rows of weights, relative to the larger
    cdef double _second
    cdef double _prior  # of the correction

    cdef void combine(self, double[::1] out, Py_ssize_t at) noexcept nogil
    cdef void write_rows(self, double[::1] out) noexcept nogil
    cdef void split(self) noexcept nogil
    cdef void judge(self, double y, double w, double rate, double late, const double[::1] issued) noexcept nogil
    cdef void learn(self, double y, double w, const double[::1] issued) noexcept nogil
    cdef void _multiply(self, Py_ssize_t row, double rate, double shared) noexcept nogil
    cdef void _weigh(self) noexcept nogil
