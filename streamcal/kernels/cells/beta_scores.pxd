cpdef double log_beta(double a, double b) noexcept nogil
cpdef double bin_score(double n, double m, double alpha, double beta) noexcept nogil
cpdef double share_of_both(double size) noexcept nogil
cpdef double bin_bound(double n, double m, double share) noexcept nogil
