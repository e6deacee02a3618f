cpdef void start_free(double[::1] jt, const double[::1] a, double[::1] d, double[::1] x) noexcept nogil
cpdef void project(const double[::1] jt, const double[::1] normal, double[::1] d) noexcept nogil
cpdef double find_directions(
    const double[::1] jt, const double[:, ::1] columns, const double[::1] d, double[::1] r, double[::1] z,
    Py_ssize_t q, double dependent
) noexcept nogil
cpdef Py_ssize_t advance(
    double[::1] x, double[::1] u, const double[::1] r, const double[::1] z, Py_ssize_t q, double slack, double square
) noexcept nogil
cpdef void append(
    double[::1] jt, double[:, ::1] columns, double[::1] d, double[::1] z, Py_ssize_t q, double square
) noexcept nogil
cpdef void drop(
    double[::1] jt, double[:, ::1] columns, double[::1] u, Py_ssize_t q, Py_ssize_t leaving
) noexcept nogil
