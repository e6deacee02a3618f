cimport cython

from streamcal.kernels.mixture.auto_mixture cimport AutoMixture

cdef double fast_time(object t) except? -1


@cython.final
cdef class AutoSteps:
    cdef readonly AutoMixture mixture
    cdef long long _most
    cdef long long _delay  # as stated, in labels
    cdef readonly long long lag  # labels between a forecast and its label, by the last unambiguous pairs
    cdef long long _evidence  # unambiguous pairs that were late, less those in time
    cdef long long _due  # labels until the log is looked through again
    cdef Py_ssize_t _guess  # where in the log the last label's forecast was
    cdef bint _logs
    cdef Py_ssize_t _size  # of the log; 0: it has no arrays
    cdef double[::1] _scores  # log-odds of the logged forecasts, a ring; NaN where the label came before older ones
    cdef double[::1] _issued  # the log-odds of what was forecast
    cdef long long[::1] _counts  # the number of labels learned by then
    cdef unsigned char[:, ::1] _records  # as `pack` writes them
    cdef readonly Py_ssize_t packed  # bytes
    cdef unsigned char[::1] _content  # of that size
    cdef readonly double[::1] record  # which `unpack_bytes` has written
    cdef Py_ssize_t _first
    cdef Py_ssize_t _logged
    cdef long long _unlabelled  # forecasts since the last label
    cdef bint _asked  # whether a forecast at `_x` and `_t` is to be logged
    cdef double _x
    cdef double _t

    cdef _forget(self)
    cpdef ask(self, double x, double t)
    cdef _keep(self)
    cdef _write(self, Py_ssize_t place)
    cdef _read(self, Py_ssize_t place, double x)
    cdef _lengthen(self, Py_ssize_t size)
    cdef _drop(self)
    cdef long long _late(self, Py_ssize_t i)
    cdef Py_ssize_t _place_of(self, double x)
    cdef void _note(self, long long late)
    cpdef Py_ssize_t take(self, double x)
    cpdef pack(self, const double[::1] record, double issued, unsigned char[::1] out)
    cpdef unpack(self, const unsigned char[::1] content, double x, double issued, double[::1] record)
    cpdef double issue_packed(self, double x, double t, unsigned char[::1] out) except? -1
    cpdef bytes issue_bytes(self, double x, double t, bint apart)
    cpdef bint unpack_bytes(self, bytes content, double x, double p) except -1
    cpdef bint learn_bytes(self, double x, double y, double w, double t, double p, bytes content) except -1
    cpdef require(self, const double[::1] record)
    cpdef step(self, double x, double y, double w, double t)
    cpdef learn_issued(self, double x, double y, double w, double t, const double[::1] record)
    cpdef double predict_fast(self, object score, object t) except? -1
    cpdef bint learn_fast(self, object score, object y, object w, object t) except -1
