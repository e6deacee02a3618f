cimport cython

cdef unsigned long long MULTIPLIER
cdef unsigned long long BITS


@cython.final
@cython.no_gc
cdef class LevelPair:
    cdef public object first
    cdef public object second


@cython.final
cdef class LevelNames:
    cdef unsigned int[::1] codes  # of each slot, 32 bits of the hash of its level
    cdef unsigned int[::1] _starts  # of each slot, where its level is written; 0: it has none
    cdef unsigned char[::1] _bytes
    cdef list _arrays  # _starts, codes and _bytes, which grow in place
    cdef Py_ssize_t _end  # of what is written
    cdef Py_ssize_t _released  # bytes of levels that were dropped
    cdef Py_ssize_t _at  # the place of what is read or written next

    cdef object resize(self, Py_ssize_t size)
    cdef int write(self, Py_ssize_t k, object level, unsigned int code) except? -1
    cdef bint is_level(self, Py_ssize_t k, object level) except? -1
    cdef object read(self, Py_ssize_t k)
    cdef int release(self, Py_ssize_t k) except? -1
    cdef object _make_room(self, Py_ssize_t size)
    cdef Py_ssize_t _size_of(self, object level) except? -1
    cdef Py_ssize_t _length(self, Py_ssize_t i) noexcept
    cdef inline Py_ssize_t _characters(self, Py_ssize_t i) noexcept
    cdef inline Py_ssize_t _byte(self, Py_ssize_t i) noexcept
    cdef int _write(self, object level) except? -1
    cdef bint _is_next(self, object level) except? -1
    cdef long long _whole(self, Py_ssize_t i) noexcept
    cdef object _read(self)
