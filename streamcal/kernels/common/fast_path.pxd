cpdef bint fast_score(object score, double lo, double hi) noexcept
cpdef bint fast_observation(object score, object y, object w, double lo, double hi) noexcept
