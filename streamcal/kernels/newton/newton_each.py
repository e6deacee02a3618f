# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""Several kernels of one score at once, each at its own: those of `OnlinePlatt` and `OnlineBeta`."""

import cython
from cython.cimports.libc.math import log, log1p
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation

nan = cython.declare(cython.double, float("nan"))


def predict_each(newtons: list, scores: list):
    """Return `predict_fast` of each of several at its own score, a list."""
    i: cython.Py_ssize_t
    if len(newtons) != len(scores):
        raise ValueError("lengths differ")
    probabilities: list = [nan] * len(scores)
    for i in range(len(scores)):
        newton = newtons[i]
        probabilities[i] = newton.predict_fast(scores[i])
    return probabilities


@cython.cfunc
def _learn_beyond(newton: object, score: object, y: object, w: object) -> cython.bint:
    """Do `step` at ±limit for a float in [0, 1] beyond it, a bool and a float weight; return whether it did."""
    limit: cython.double = newton.limit
    s: cython.double
    x: cython.double
    if not fast_observation(score, y, w, 0.0, 1.0):
        return False
    s = score
    if 0.0 < s < 1.0:
        x = log(s) - log1p(-s)
        if -limit <= x <= limit:
            return False
    newton.step(-limit if s < 0.5 else limit, 1.0 if y is True else 0.0, w)
    return True


def learn_each(newtons: list, scores: list, labels: list, w: object):
    """Do `learn_fast` of each of several on its own score and label, of one weight, or `step` at ±limit.

    Returns the places whose observations need the full checks, for which nothing was done, and those whose scores were
    beyond the limit.
    """
    i: cython.Py_ssize_t
    left: list = []
    beyond: list = []
    if not len(newtons) == len(scores) == len(labels):
        raise ValueError("lengths differ")
    for i in range(len(scores)):
        newton = newtons[i]
        if not newton.learn_fast(scores[i], labels[i], w):
            if _learn_beyond(newton, scores[i], labels[i], w):
                beyond.append(i)
            else:
                left.append(i)
    return left, beyond
