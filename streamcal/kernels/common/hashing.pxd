cpdef unsigned long long mixed(unsigned long long bits) noexcept nogil
