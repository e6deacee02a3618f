cimport cython

from streamcal.kernels.mixture.correction cimport Correction
from streamcal.kernels.mixture.guard cimport Guard
from streamcal.kernels.mixture.late_weights cimport LateWeights
from streamcal.kernels.newton.regressions cimport Regressions

cdef Py_ssize_t MIXED
cdef Py_ssize_t STACKED
cdef Py_ssize_t CORRECTED
cdef Py_ssize_t BASE
cdef Py_ssize_t TIMED
cdef Py_ssize_t ISSUED
cdef Py_ssize_t ROWS
cdef Py_ssize_t RUNGS
cdef Py_ssize_t CLOCK
cdef Py_ssize_t COUNT
cdef Py_ssize_t MEANS
cdef double NONE
cdef double SHARED
cdef double LATE_POWER

cpdef double share_after(
    double share, double prior, double first, double second, double y, double rate, double shared
) noexcept nogil


@cython.final
cdef class Combination:
    cdef readonly Py_ssize_t size  # experts, K
    cdef readonly Py_ssize_t stacks  # S
    cdef readonly Py_ssize_t end  # numbers of a record before `MIXED`
    cdef readonly LateWeights weights
    cdef readonly Guard guard
    cdef readonly Regressions stack
    cdef readonly Correction correction
    cdef readonly double corrected  # weight of the correction
    cdef double _prior  # of the correction
    cdef readonly double information  # U
    cdef double[::1] _features  # of the stacks

    cdef void combine(self, double[::1] out, Py_ssize_t at) noexcept nogil
    cdef void judge(self, double y, double w, double u, double late, const double[::1] issued) noexcept nogil
    cdef void learn(self, double y, double w, bint forgets, const double[::1] issued) noexcept nogil
