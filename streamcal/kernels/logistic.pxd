cpdef double logit(double p) noexcept
cpdef double sigmoid(double z) noexcept
cpdef double log_sigmoid(double z) noexcept
