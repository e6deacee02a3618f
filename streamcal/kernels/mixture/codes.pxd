cdef double WIDEST

cpdef long long coded(double value, double most) noexcept nogil
cpdef double decoded(long long code, double most) noexcept nogil
cpdef long long coarse(double value) noexcept nogil
cpdef double fine(long long code) noexcept nogil
cpdef bytes bytes_of(double value)
cpdef double number_in(bytes content, Py_ssize_t at) noexcept
cpdef long long with_sign(long long code, long long size) noexcept nogil
