cimport cython

from streamcal.kernels.segments.level_names cimport LevelNames

cdef Py_ssize_t UNKNOWN


@cython.final
cdef class LevelIndex:
    cdef Py_ssize_t count  # levels
    cdef Py_ssize_t _size  # cells
    cdef int[::1] _cells
    cdef unsigned char[::1] _marks
    cdef int[::1] _aging
    cdef int[::1] _when
    cdef Py_ssize_t _left

    cdef object _allocate(self, Py_ssize_t cells)
    cdef inline Py_ssize_t _home(self, unsigned long long code) noexcept
    cdef Py_ssize_t find(self, object level, LevelNames names) except? -1
    cdef object add(self, Py_ssize_t slot, LevelNames names)
    cdef void _put(self, unsigned int code, Py_ssize_t slot) noexcept
    cdef object _grow(self, LevelNames names)
    cdef void remove(self, Py_ssize_t slot, LevelNames names) noexcept
    cdef object slots(self)
    cdef Py_ssize_t oldest(self, int[::1] used) except? -1
    cdef object _sort(self, object used)
    cdef void forget_order(self) noexcept
    cdef inline Py_ssize_t _distance(self, Py_ssize_t i, Py_ssize_t j) noexcept


@cython.final
cdef class LevelTable:
    cdef readonly Py_ssize_t most
    cdef object rows  # the store; None: there is none
    cdef double[:, ::1] values
    cdef float[:, ::1] singles
    cdef Py_ssize_t[::1] absent  # levels of each field that are in the store alone
    cdef int[::1] _used  # the number of the last use of each slot, 0 where it is free
    cdef Py_ssize_t _clock  # uses so far
    cdef list _arrays  # values, _used and singles, which grow in place
    cdef list _indexes  # a LevelIndex for each field
    cdef LevelNames _names  # level of each slot
    cdef Py_ssize_t _count  # slots that have been taken so far
    cdef list _free  # slots released, that released last at the end
    cdef list _sought  # the level of each field looked up last in the store
    cdef list _present  # whether it was in the store

    cdef Py_ssize_t find(self, Py_ssize_t j, object level) except? -1
    cdef Py_ssize_t _look_up(self, Py_ssize_t j, object level) except? -1
    cdef bint is_full(self, Py_ssize_t j) except? -1
    cdef Py_ssize_t known(self, Py_ssize_t j) except? -1
    cdef int use(self, Py_ssize_t k) except? -1
    cdef Py_ssize_t oldest(self, Py_ssize_t j) except? -1
    cdef object _renumber(self)
    cdef Py_ssize_t admit(self, Py_ssize_t j, object level, Py_ssize_t source) except? -1
    cdef object row(self, Py_ssize_t k)
    cdef object fill(self, Py_ssize_t k, object row)
    cdef object put_away(self, Py_ssize_t j, Py_ssize_t k)
    cdef object drop(self, Py_ssize_t j, Py_ssize_t k)
    cdef object _release(self, Py_ssize_t j, Py_ssize_t k)
    cdef Py_ssize_t _take(self) except? -1
    cdef object _grow(self)
    cdef list levels(self, Py_ssize_t j)
