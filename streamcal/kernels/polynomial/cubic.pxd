cpdef double value_beside(
    double x, double before, double left, double right, double after,
    double lowest, double low, double high, double highest,
) noexcept
cpdef double line_between(double x, double left, double right, double low, double high) noexcept
