cpdef double logit(double p) noexcept nogil
cpdef double sigmoid(double z) noexcept nogil
cpdef double log_sigmoid(double z) noexcept nogil
