# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The transitive reduction of the coordinate-wise order of points."""

import cython
import numpy as np


def covers(x: cython.const[cython.double][:, ::1]) -> tuple:
    """Return the transitive reduction of ≤ between the rows of `x`, which are distinct and in lexicographic order.

    Two lists of row numbers: `upper[e]` covers `lower[e]`. Rows below row j are met in descending order, so that one
    is covered by j unless it lies below a row already found to be. O(k² M), times the covers of a row at worst; for
    two columns see `covers_of_pairs`.
    """
    size: cython.Py_ssize_t = x.shape[0]
    width: cython.Py_ssize_t = x.shape[1]
    if width == 2:
        return covers_of_pairs(x)
    covered: cython.Py_ssize_t[::1] = np.empty(size, dtype=np.intp).data
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    f: cython.Py_ssize_t
    lower: list = []
    upper: list = []
    for j in range(size):
        number: cython.Py_ssize_t = 0
        for i in range(j - 1, -1, -1):
            if not below(x, i, j, width):
                continue
            for f in range(number):
                if below(x, i, covered[f], width):
                    break
            else:
                covered[number] = i
                number += 1
                lower.append(i)
                upper.append(j)
    return lower, upper


def covers_of_pairs(x: cython.const[cython.double][:, ::1]) -> tuple:
    """Return `covers` for two columns, in O((k + e) log k) for e covers.

    Rows are learned in their order, each at its rank by the second column; `last` is a tree of maxima over the ranks,
    whose leaves are row number + 1, or 0. Row j covers the row of the next lower rank, then the row of the next lower
    rank among those with a larger number than it, and so on: rank and number decide whether a row is below another.
    """
    size: cython.Py_ssize_t = x.shape[0]
    columns = np.asarray(x)
    ranks = np.empty(size, dtype=np.intp)
    ranks[np.lexsort((columns[:, 0], columns[:, 1]))] = np.arange(size)
    rank: cython.Py_ssize_t[::1] = ranks.data
    leaves: cython.Py_ssize_t = 1
    while leaves < size:
        leaves *= 2
    last: cython.Py_ssize_t[::1] = np.zeros(2 * leaves, dtype=np.intp).data
    j: cython.Py_ssize_t
    place: cython.Py_ssize_t
    lower: list = []
    upper: list = []
    for j in range(size):
        covered: list = []
        least: cython.Py_ssize_t = 0
        place = leaves + rank[j]
        while place > 1:
            if place % 2 == 0 or last[place - 1] <= least:
                place //= 2
                continue
            place -= 1
            while place < leaves:
                place = 2 * place + 1 if last[2 * place + 1] > least else 2 * place
            least = last[place]
            covered.append(least - 1)
        covered.reverse()
        lower.extend(covered)
        upper.extend([j] * len(covered))
        place = leaves + rank[j]
        while place > 0:
            last[place] = j + 1
            place //= 2
    return lower, upper


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def below(
    x: cython.const[cython.double][:, ::1], i: cython.Py_ssize_t, j: cython.Py_ssize_t, width: cython.Py_ssize_t
) -> cython.bint:
    """Return whether row i ≤ row j in every coordinate."""
    m: cython.Py_ssize_t
    for m in range(width):  # noqa: SIM110 (a generator would not be compiled)
        if x[i, m] > x[j, m]:
            return False
    return True
