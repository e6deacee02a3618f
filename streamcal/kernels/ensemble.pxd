cimport cython

from streamcal.kernels.bernstein cimport BernsteinSums
from streamcal.kernels.expert_panel cimport Panel
from streamcal.kernels.fixed_share cimport Jumper
from streamcal.kernels.hull_tree cimport HullTree
from streamcal.kernels.mixture cimport Assessment, Mixture
from streamcal.kernels.specialists cimport Judgement, Specialists
from streamcal.kernels.weights cimport WeightScale


@cython.final
cdef class RecentScores:
    cdef readonly HullTree tree
    cdef Py_ssize_t _size
    cdef double _outweighing
    cdef double _outweighing_one
    cdef double[:, ::1] _held  # a ring of (x, y, w), with room for one more than is held
    cdef Py_ssize_t _first
    cdef Py_ssize_t _number
    cdef readonly long long evicted  # since the tree was last made anew
    cdef double _lightest  # a lower bound of the weights held

    cpdef bint add(self, double x, double y, double w) except -1


@cython.final
cdef class FadingMoments:
    cdef readonly BernsteinSums sums
    cdef double _half_life
    cdef double _rescaled_after
    cdef readonly double clock  # number of observations learned
    cdef readonly long long halvings

    cpdef add(self, double x, double y, double w)


@cython.final
cdef class Experts:
    cdef readonly Panel panel
    cdef Jumper _jumper
    cdef RecentScores _scores
    cdef FadingMoments _moments
    cdef double _unit
    cdef long long _every
    cdef object _draw
    cdef double[::1] _interval
    cdef object _draw_whole
    cdef object _sum_anew
    cdef readonly double[:, ::1] whole
    cdef public long long learned
    cdef public long long negatives
    cdef public long long positives
    cdef public long long due

    cpdef forecast(self, Py_ssize_t knot, double[::1] out)
    cpdef fit_whole(self)
    cdef learn(self, double x, double y, double w, Assessment found)


@cython.final
cdef class Ensemble:
    cdef Experts _experts
    cdef Mixture _mixture
    cdef double _unit
    cdef Py_ssize_t _last  # knot
    cdef double[::1] _left
    cdef double[::1] _right
    cdef Py_ssize_t _knot

    cdef long long learned(self) noexcept
    cdef list means(self)
    cdef void look_ahead(self, long long late) noexcept
    cdef long long ahead(self) noexcept
    cdef Py_ssize_t rows(self) noexcept
    cdef Py_ssize_t said_of_rows(self, Py_ssize_t rows) noexcept
    cdef double _show_beside(self, double x) except? -1
    cpdef double at(self, double x) except? -1
    cpdef Assessment assess(self, double x, double y, double w, Assessment spent=*)
    cpdef list issue(self, double x)
    cdef double look_back(self, double x, double y, Assessment found) except? -1
    cdef Assessment assess_issued(
        self, double x, double y, double w, const double[::1] said, double late, Assessment spent=*
    )
    cdef learn(self, double x, double y, double w, Assessment found)
    cdef record(self, Assessment found)


@cython.final
cdef class AutoSteps:
    cdef Ensemble _live
    cdef Ensemble _then
    cdef Specialists _last
    cdef Specialists _last_then
    cdef Py_ssize_t _delay
    cdef Py_ssize_t _means  # of labels
    cdef public object late
    cdef Assessment _spent  # one that was learned, to be written over
    cdef Judgement _spent_last  # likewise
    cdef public double n
    cdef readonly WeightScale scale

    cpdef double at(self, double x, double t) except? -1
    cpdef double predict(self, double x) except? -1
    cpdef double predict_fast(self, object score) except? -1
    cpdef bint learn_fast(self, object score, object y, object w) except -1
    cpdef step(self, double x, double y, double w, double t)
    cpdef list issue(self, double x, double t)
    cpdef step_issued(self, double x, double y, double w, double t, said)
    cpdef require_issued(self, said)
    cdef tuple _assess_issued(self, double x, double y, double w, double t, said)
    cdef _learn(self, double x, double y, double w, Assessment found, Judgement judged)
