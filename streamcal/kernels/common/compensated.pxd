cpdef void add_terms(double[::1] sums, double[::1] low, double[::1] terms, Py_ssize_t number) noexcept nogil
cpdef void settle(double[::1] sums, double[::1] low) noexcept nogil
