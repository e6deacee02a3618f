cpdef double depth_of(double x) noexcept nogil
cpdef double quick_depth(double x) noexcept nogil
cpdef double place_of(double d) noexcept nogil
cpdef double quick_place(double d) noexcept nogil
