cimport cython

@cython.final
cdef class LevelTable:
    cdef readonly Py_ssize_t most
    cdef object rows  # the store; None: there is none
    cdef double[:, ::1] values
    cdef Py_ssize_t[::1] absent  # levels of each field that are in the store alone
    cdef Py_ssize_t[::1] oldest
    cdef Py_ssize_t[::1] _newest
    cdef Py_ssize_t[::1] _newer  # the slots of a field in the order of their last outcomes, a list linked both ways
    cdef Py_ssize_t[::1] _older
    cdef list _slots  # a dict for each field, level → slot
    cdef list _names  # level of each slot
    cdef list _free  # slots without a level
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
    cdef object _grow(self)
    cdef void _link(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef void _unlink(self, Py_ssize_t j, Py_ssize_t k) noexcept
    cdef list levels(self, Py_ssize_t j)
