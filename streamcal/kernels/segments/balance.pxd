cdef double balanced(Py_ssize_t size, double z, double* d, double* stakes) noexcept
