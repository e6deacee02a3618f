cpdef bint fast_score(object score, double lo, double hi) noexcept
cpdef int fast_case(object score, object y, object w, double lo, double hi) noexcept
