cimport cython

from streamcal.kernels.common.weights cimport InformationScale, WeightScale
from streamcal.kernels.mixture.combination cimport Combination
from streamcal.kernels.mixture.day_and_week cimport DayAndWeek
from streamcal.kernels.mixture.guard cimport Guard
from streamcal.kernels.mixture.jumper cimport Jumper
from streamcal.kernels.mixture.knot_sums cimport KnotSums
from streamcal.kernels.mixture.memory_ladder cimport MemoryLadder
from streamcal.kernels.mixture.repeated_scores cimport RepeatedScores
from streamcal.kernels.mixture.score_regressions cimport ScoreRegressions


@cython.final
cdef class AutoMixture:
    cdef readonly Py_ssize_t size  # experts, K
    cdef readonly Py_ssize_t end  # numbers of a record of experts, stack and rungs
    cdef readonly Py_ssize_t width  # numbers of a record
    cdef readonly long long learned
    cdef readonly double weight
    cdef readonly Guard guard
    cdef readonly WeightScale scale
    cdef readonly InformationScale worth
    cdef readonly MemoryLadder ladder
    cdef readonly ScoreRegressions regressions
    cdef readonly KnotSums sums
    cdef readonly Jumper jumper
    cdef readonly RepeatedScores repeated
    cdef readonly Combination combination
    cdef readonly DayAndWeek times
    cdef double _owed  # information since it was forgotten last
    cdef double[::1] _sides  # slots of records at knots, and a record between two
    cdef Py_ssize_t _slots  # a power of 2
    cdef Py_ssize_t _between  # where the record between two knots begins
    cdef double[::1] _record
    cdef double _spot  # where; NaN: nowhere

    cdef Py_ssize_t _side(self, Py_ssize_t knot) noexcept nogil
    cdef void _forecast(self, Py_ssize_t knot, Py_ssize_t at) noexcept nogil
    cdef void _look(self, double x) noexcept nogil
    cpdef double at(self, double x, double t)
    cpdef write(self, double x, double t, double[::1] out)
    cpdef learn(self, double x, double y, double w, double t, const double[::1] issued, double late)
