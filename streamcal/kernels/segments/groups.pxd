from streamcal.kernels.segments.level_table cimport LevelTable

cdef Py_ssize_t MISSING


cdef class Groups:
    cdef readonly Py_ssize_t size  # families
    cdef Py_ssize_t _fields
    cdef Py_ssize_t _pairs
    cdef Py_ssize_t[::1] _first  # the fields of each pair
    cdef Py_ssize_t[::1] _second
    cdef double _bin_width
    cdef Py_ssize_t _reach  # no bin is further than this from 0
    cdef LevelTable _table
    cdef double[:, ::1] _values  # those of the table
    cdef list _level  # of the observation, by family; a LevelPair, always the same, where a group has two levels
    cdef list _bins  # the numbers of bins, which groups share
    cdef Py_ssize_t[::1] _slot  # of the group of each family

    cdef int _look(self, double z, list levels) except -1
    cdef int _look_at(self, double z, list columns, Py_ssize_t i) except -1
    cdef int _look_further(self, double z) except -1
    cdef bint _is_double(self, Py_ssize_t j) noexcept
    cdef int _find(self, Py_ssize_t j, object level) except -1
    cdef int _find_two(self, Py_ssize_t j, object first, object second) except -1
    cdef Py_ssize_t _named(self, Py_ssize_t j, object level) except? -3
    cdef int _require_levels(self, list levels) except -1
    cdef int _require_length(self, list columns, Py_ssize_t length) except -1
