cimport cython

from streamcal.kernels.common.weights cimport WeightScale
from streamcal.kernels.mixture.auto_steps cimport AutoSteps
from streamcal.kernels.mixture.line_ladder cimport LineLadder
from streamcal.kernels.newton.online_newton cimport OnlineNewton
from streamcal.kernels.segments.delay_variance cimport DelayVariance
from streamcal.kernels.segments.segment_chain cimport SegmentChain


@cython.final
cdef class SegmentedSteps:
    cdef readonly object kernel
    cdef readonly Py_ssize_t size  # numbers of the record written last
    cdef readonly double[::1] record
    cdef SegmentChain _chain
    cdef DelayVariance _delay_variance
    cdef WeightScale _scale
    cdef OnlineNewton _newton
    cdef LineLadder _ladder
    cdef AutoSteps _auto
    cdef tuple _fields
    cdef tuple _names
    cdef list _missing
    cdef object _levels_of
    cdef unsigned char[::1] _content  # a record of `_auto`

    cpdef list levels(self, object keys)
    cpdef bytes written(self)
    cpdef bint read(self, bytes content) except -1
    cpdef double issue(self, double score, list levels, double t) except? -1
    cpdef bint learn(self, double score, list levels, double y, double w, double t) except -1
    cdef double _predict(self, double x, double t) except? -1
    cdef double _issue_overall(self, double x, double t, Py_ssize_t begin) except? -1
    cdef bint _is_possible(self, Py_ssize_t begin) except -1
    cdef _learn_overall(self, double x, double y, double w, double t, Py_ssize_t begin)
