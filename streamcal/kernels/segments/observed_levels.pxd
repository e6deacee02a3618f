cimport cython

from streamcal.kernels.segments.level_table cimport LevelTable

cdef double LARGEST
cdef Py_ssize_t MISSING


cdef class ObservedLevels:
    cdef readonly Py_ssize_t size  # places
    cdef public long long evicted
    cdef Py_ssize_t _fields
    cdef Py_ssize_t _width  # numbers of a level in double precision
    cdef Py_ssize_t _apart  # numbers between H of a term and H of the next
    cdef LevelTable _table
    cdef double[:, ::1] _values  # those of the table
    cdef float[:, ::1] _singles  # C of the first two terms come first
    cdef double[:, ::1] _precision  # 1/τ²
    cdef double[:, ::1] _sums  # Σ C
    cdef double[:, ::1] _weights  # W
    cdef double[:, ::1] _prior  # of W
    cdef Py_ssize_t[::1] _parts  # how many forecasts each mixture has
    cdef list _level  # of the observation, by place
    cdef Py_ssize_t[::1] _slot

    cdef object _find(self, Py_ssize_t j, object level)
    cdef object _find_fields(self, list levels)
    cdef object _find_row(self, list columns, Py_ssize_t i)
    cdef object _require_length(self, list columns, Py_ssize_t length)
    cdef Py_ssize_t _use(self, Py_ssize_t j) except? -1
    cdef Py_ssize_t _admit(self, Py_ssize_t j) except? -1
    cdef object _drop(self, Py_ssize_t j, Py_ssize_t k)
    cdef void _judge(self, Py_ssize_t r, const double[:, ::1] chances, double w) noexcept
    cdef void _weigh(self, Py_ssize_t j, Py_ssize_t k, Py_ssize_t a) noexcept
    cdef object _weigh_levels(self, Py_ssize_t j)
    cdef void _add(self, Py_ssize_t k, const double[::1] values) noexcept
    cdef list _weights_of(self, Py_ssize_t r)
    cdef object _load_weights(self, Py_ssize_t r, object weights)
    cdef object _rows(self, list levels, Py_ssize_t j)
    cdef object _load(self, Py_ssize_t j, object levels, object rows, object sums)
