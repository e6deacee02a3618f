cimport cython

cdef Py_ssize_t WEIGHTS

cpdef double gain_of(double z, double y) noexcept nogil
cpdef double likelihood(double z, double y) noexcept nogil


@cython.final
cdef class LateWeights:
    cdef readonly Py_ssize_t size  # experts, K
    cdef readonly bint late  # whether a label ever came late
    cdef Py_ssize_t _group
    cdef double[:, ::1] _block
    cdef double[::1] _wealth  # log of the wealth of each row, relative to the largest

    cpdef double mixed(self, const double[::1] z, Py_ssize_t at) noexcept nogil
    cdef void write(self, const double[::1] z, Py_ssize_t at, double[::1] out, Py_ssize_t to) noexcept nogil
    cpdef void split(self) noexcept nogil
    cpdef void judge(
        self, const double[::1] z, Py_ssize_t at, Py_ssize_t rows, double y, double w, double late, double share
    ) noexcept nogil
    cdef void _weigh(self) noexcept nogil
