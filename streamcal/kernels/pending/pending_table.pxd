cimport cython

cdef Py_ssize_t AHEAD
cdef Py_ssize_t VERSION


@cython.final
cdef class Block:
    cdef public double[::1] at
    cdef public double[::1] score
    cdef public double[::1] p
    cdef public long long[::1] key
    cdef public unsigned int[::1] link
    cdef public unsigned char[::1] flags
    # None until a row needs them
    cdef public double[::1] t
    cdef public double[::1] w
    cdef public double[::1] when
    cdef public double[::1] outcome_w
    cdef public long long[::1] number
    cdef public unsigned char[::1] cell
    cdef public unsigned int[::1] ends
    cdef public bytearray texts
    cdef public list levels  # `Levels`, or None for a column that no row needs
    cdef public unsigned char[:, ::1] records  # those of one size
    cdef public list loose  # records of several sizes
    cdef public Py_ssize_t size  # of one of `records`; -1 without rows
    cdef public long long first_number


@cython.final
cdef class Heads:
    cdef unsigned int[::1] codes


@cython.final
cdef class Levels:
    cdef public int[::1] numbers


@cython.final
cdef class Names:
    cdef public list values
    cdef dict _numbers
    cdef list _uses
    cdef list _free

    cdef int take(self, object value) except -1
    cdef int take_many(self, object value, long long rows) except -1
    cdef give_back(self, int number)


@cython.final
cdef class PendingTable:
    cdef readonly long long first  # the place of the oldest row
    cdef readonly long long end  # the place of the next one
    cdef list _blocks
    cdef long long _gone  # blocks dropped
    cdef Block _spare
    cdef list _heads
    cdef unsigned long long _low  # 2^level - 1
    cdef unsigned long long _split
    cdef unsigned long long _hash_mask
    cdef public list names  # of version, other keys, and fields
    cdef public list fields
    cdef dict _columns
    cdef int _kind  # of the id looked at last
    cdef long long _key
    cdef long long[::1] _keys  # of the ids looked at ahead
    cdef int[::1] _kinds
    cdef long long[::1] _places  # of the rows of their chains that are read next
    cdef long long _seen  # of the index, so that it is read

    cdef Block block(self, long long place)
    cdef unsigned long long _bucket(self, long long key) noexcept
    cdef long long _place(self, unsigned int code, long long below) noexcept
    cdef _look_at(self, object id)
    cdef bint _same(self, Block block, Py_ssize_t row, object id) except -1
    cdef look_ahead(self, list ids, Py_ssize_t begin)
    cdef Py_ssize_t find_ahead(self, Py_ssize_t k, object id) except -2
    cdef Py_ssize_t add_ahead(self, Py_ssize_t k, object id, double p, double score, double t, object version, object keys, double w, double at, long long number, bytes record) except -1
    cpdef Py_ssize_t place_of(self, object id) except -2
    cdef Py_ssize_t _find(self, object id) except -2
    cdef _enter(self, long long place, Block block, Py_ssize_t row)
    cdef _grow(self)
    cdef Block _next_block(self)
    cpdef Py_ssize_t add(self, object id, double p, double score, double t, object version, object keys, double w, double at, long long number, bytes record) except -1
    cdef Py_ssize_t _add(self, object id, double p, double score, double t, object version, object keys, double w, double at, long long number, bytes record) except -1
    cdef _add_text(self, Block block, Py_ssize_t row, object id)
    cdef _add_record(self, Block block, Py_ssize_t row, bytes record)
    cdef _add_levels(self, Block block, Py_ssize_t row, object version, object keys)
    cdef Py_ssize_t _column_of(self, object field) except -2
    cdef object level(self, Block block, Py_ssize_t row, Py_ssize_t column)
    cdef _set_level(self, Block block, Py_ssize_t row, Py_ssize_t column, object value)
    cpdef drop_first(self)
    cdef _release(self, Block block, Py_ssize_t row)
    cpdef object id_at(self, long long place)
    cpdef set_outcome(self, long long place, bint positive, bint negative, double t, int cell, object w)
    cpdef object issued(self, long long place)
    cpdef double at(self, long long place) except? -1
    cdef tuple _levels(self, Block block, Py_ssize_t row)
    cpdef object record(self, long long place)
    cpdef Py_ssize_t number(self, long long place) except -1
    cdef object _id(self, Block block, Py_ssize_t row)
