cpdef bint factorise(double[:, ::1] matrix, Py_ssize_t n) noexcept nogil
cpdef void invert(const double[:, ::1] factor, double[::1] inverse, Py_ssize_t n) noexcept nogil
cpdef bint minimise(
    double[:, ::1] h, double[::1] d, double[:, ::1] normals, double[::1] bound, double[:, ::1] scratch,
    Py_ssize_t number
) noexcept nogil
