cimport cython

from streamcal.kernels.common.weights cimport WeightScale


@cython.final
cdef class LineLadder:
    cdef readonly Py_ssize_t size  # lines, N
    cdef readonly Py_ssize_t entered  # those that have entered; the others are the first one
    cdef readonly Py_ssize_t packed  # bytes of a record
    cdef readonly double issued  # what `issue_bytes` forecast last
    cdef readonly double weight
    cdef readonly double information  # U
    cdef readonly double limit
    cdef double _least  # σ(−limit)
    cdef WeightScale _scale
    cdef double _due  # information at which the next line enters
    cdef double _rest  # prior weight of the first line and of those that have not entered
    cdef double[7] _memory
    cdef double[7] _prior
    cdef double[7] _weights
    cdef double[7] _slopes
    cdef double[7] _offsets
    cdef double[21] _a  # three numbers a line
    cdef double[3] _places  # information, and its sums of x and of x²

    cpdef double predict(self, double x) noexcept nogil
    cpdef void step(self, double x, double y, double w) noexcept nogil
    cdef double write(self, double x, unsigned char* content) noexcept
    cdef void read(self, unsigned char* content, double p, double* record) noexcept
    cpdef bytes issue_bytes(self, double x, bint apart)
    cdef bint unpack(self, bytes content, double p, double* record)
    cpdef bint learn_bytes(self, double x, double y, double w, double p, bytes content)
    cdef bint is_possible(self, double* record) noexcept
    cdef void learn_record(self, double x, double y, double w, double* record) noexcept nogil
    cdef double _forecast(self, double x, double* each) noexcept nogil
    cdef void _learn(self, double x, double y, double w, double p, double* each, double* issued, double late) noexcept nogil
    cdef void _judge(self, double y, double rate, double share, double* issued) noexcept nogil
    cdef void _move(self, double x, double y, double w, double u, double slope, double* each) noexcept nogil
    cdef void _enter(self) noexcept nogil
    cdef void _find_next(self) noexcept nogil
