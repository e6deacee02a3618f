cimport cython

@cython.final
cdef class LevelIndex:
    cdef Py_ssize_t count  # levels
    cdef Py_ssize_t _size  # cells
    cdef int[::1] _cells
    cdef unsigned char[::1] _marks

    cdef object _allocate(self, Py_ssize_t cells)
    cdef Py_ssize_t _home(self, unsigned long long product) noexcept
    cdef Py_ssize_t find(self, object level, list names) except? -1
    cdef object add(self, object level, Py_ssize_t slot, list names)
    cdef void _put(self, unsigned long long product, Py_ssize_t slot) noexcept
    cdef object _grow(self, list names)
    cdef object remove(self, object level, Py_ssize_t slot, list names)
    cdef Py_ssize_t _distance(self, Py_ssize_t i, Py_ssize_t j) noexcept


@cython.final
cdef class LevelTable:
    cdef readonly Py_ssize_t most
    cdef object rows  # the store; None: there is none
    cdef double[:, ::1] values
    cdef Py_ssize_t[::1] absent  # levels of each field that are in the store alone
    cdef Py_ssize_t[::1] oldest
    cdef Py_ssize_t[::1] _newest
    cdef int[::1] _newer  # the slots of a field in the order of their last outcomes, a list linked both ways
    cdef int[::1] _older
    cdef list _arrays  # values, _newer and _older, which grow in place
    cdef list _slots  # a LevelIndex for each field
    cdef list _names  # level of each slot
    cdef Py_ssize_t _free  # the slot released last, −1 where there is none; `_older` has the one before
    cdef list _looked  # the level looked up last in the store, of each field
    cdef list _found  # whether it was there

    cdef Py_ssize_t find(self, Py_ssize_t j, object level) except? -1
    cdef Py_ssize_t _look_up(self, Py_ssize_t j, object level) except? -1
    cdef bint is_full(self, Py_ssize_t j) except? -1
    cdef Py_ssize_t known(self, Py_ssize_t j) except? -1
    cdef void use(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef Py_ssize_t admit(self, Py_ssize_t j, object level, Py_ssize_t source) except? -1
    cdef object put_away(self, Py_ssize_t j, Py_ssize_t k)
    cdef object drop(self, Py_ssize_t j, Py_ssize_t k)
    cdef object _release(self, Py_ssize_t j, Py_ssize_t k)
    cdef Py_ssize_t _take(self) except? -1
    cdef object _grow(self)
    cdef void _link(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef void _unlink(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef list levels(self, Py_ssize_t j)
