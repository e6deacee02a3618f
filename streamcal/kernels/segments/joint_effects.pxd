cimport cython

from streamcal.kernels.segments.observed_levels cimport ObservedLevels


@cython.final
cdef class JointEffects(ObservedLevels):
    cdef Py_ssize_t[:, ::1] _ends  # the fields of each pair
    cdef double[:, ::1] _shares  # s
    cdef double[:, ::1] _added  # m·f
    cdef double[::1] _features  # f of each term
    cdef double[::1] _log_odds  # that are mixed
    cdef double[:, ::1] _chances  # what each gave to the label

    cdef object _find_pairs(self)
    cdef object _find_all(self, list levels)
    cdef object _look(self, double p, double chain)
    cdef inline void _set_log_odds(self, double chain, double u) noexcept
    cdef inline Py_ssize_t _terms(self, Py_ssize_t j) noexcept
    cdef inline double _mean(self, Py_ssize_t j, Py_ssize_t k, Py_ssize_t g) noexcept
    cdef double _mixed(self) noexcept
    cdef object _learn(self, double y, double w, double rate)
    cdef void _judge_mixed(self, double y, double w) noexcept
    cdef object _step(self, double y, double w, double rate)
    cdef void _move(self, Py_ssize_t j, Py_ssize_t k, Py_ssize_t g, double r, double h) noexcept
    cdef void _judge_term(self, Py_ssize_t j, Py_ssize_t g, double u, double y, double w) noexcept
    cdef void _take(self, Py_ssize_t j, Py_ssize_t k, Py_ssize_t g, double r, double h) noexcept
