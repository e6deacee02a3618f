cdef void find_points(const double[:, ::1] cells, Py_ssize_t i, double low, double high, double[::1] points) noexcept nogil
