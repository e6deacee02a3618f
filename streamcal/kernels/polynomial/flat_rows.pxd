cpdef void accumulate_gram(double[::1] sums, double[::1] scaled, double[::1] binomial, Py_ssize_t m) noexcept nogil
cpdef void add_row(double[::1] y, double a, double[::1] matrix, Py_ssize_t j, Py_ssize_t m) noexcept nogil
cpdef void eliminate(double[::1] factor, Py_ssize_t i, Py_ssize_t size, Py_ssize_t m) noexcept nogil
cpdef void substitute(double[::1] x, double[::1] factor, Py_ssize_t size, Py_ssize_t m) noexcept nogil
cpdef void sum_rows(
    double[::1] hessian, double[::1] sums, Py_ssize_t[::1] rows, Py_ssize_t number, Py_ssize_t m
) noexcept nogil
