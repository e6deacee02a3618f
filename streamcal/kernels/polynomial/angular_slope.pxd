cpdef double grid_step(Py_ssize_t degree) noexcept nogil
cpdef double scale(double theta, Py_ssize_t degree) noexcept nogil
cpdef void set_normal(double[::1] normal, double theta) noexcept nogil
cpdef void set_turn(double[::1] turn, double theta) noexcept nogil
cpdef void set_slopes(double[:, ::1] slopes, const double[::1] x) noexcept nogil
cpdef double bend(const double[:, ::1] slopes, double theta) noexcept nogil
cpdef double refined(const double[:, ::1] slopes, double theta) noexcept nogil
cpdef Py_ssize_t find_minima(
    double[:, ::1] slopes, const double[::1] x, const double[:, ::1] grid, double[::1] values, double[::1] minima,
    double below, double above, bint narrow
) noexcept nogil
cpdef double make_monotone(double[:, ::1] slopes, double[::1] x, double limit) noexcept nogil
