# cython: language_level=3, wraparound=False, cdivision=True
"""The scores of one observation of several classes: checked and ordered dicts, logarithms, and shares of a sum.

Some ten numbers are too few for arrays.
"""

import math

import cython
from cython.cimports.libc.math import exp, log

fsum = math.fsum


def plain_scores(scores: object):
    """Return a copy of a dict of texts and scores that are floats in [0, 1], in the order of the labels.

    None for anything else, which needs the full checks.
    """
    label: object
    score: object
    before: object = None
    value: cython.double
    zeros: cython.bint = False
    sorted_already: cython.bint = True
    if type(scores) is not dict or not scores:
        return None
    checked: dict = scores
    for label, score in checked.items():
        if type(label) is not str or type(score) is not float:
            return None
        value = score
        if not 0.0 <= value <= 1.0:
            return None
        zeros = zeros or value == 0.0
        sorted_already = sorted_already and (before is None or before < label)
        before = label
    if sorted_already and not zeros:
        return checked.copy()
    return {label: checked[label] + 0.0 for label in (checked if sorted_already else sorted(checked))}  # −0.0 → 0.0


def by_label(scores: object, labels: list, p: list):
    """Return a dict of the labels of `scores`, as they were given, and the values `p` of the same labels in order."""
    i: cython.Py_ssize_t
    label: object
    values: dict = {}
    for i, label in enumerate(scores):
        if label is not labels[i] and label != labels[i]:
            break
        values[label] = p[i]
    else:
        return values
    values = {labels[i]: p[i] for i in range(len(labels))}
    return {label: values[label] for label in scores}


def log_scores(scores: list, floor: cython.double):
    """Return ln of the scores divided by their sum, at least `floor`, a list."""
    i: cython.Py_ssize_t
    value: cython.double
    total: cython.double = fsum(scores)
    logs: list = [floor] * len(scores)
    for i in range(len(scores)):
        value = scores[i]
        if value > 0.0:
            value = value / total
            if value > 0.0:
                logs[i] = max(log(value), floor)
    return logs


def shares(values: list):
    """Divide nonnegative numbers by their sum; return a list, of equal shares if all are 0."""
    i: cython.Py_ssize_t
    value: cython.double
    total: cython.double = fsum(values)
    if total <= 0.0:
        return [1.0 / len(values)] * len(values)
    quotients: list = [0.0] * len(values)
    for i in range(len(values)):
        value = values[i]
        quotients[i] = value / total
    return quotients


def softmax(z: list):
    """Return exp z over its sum, a list."""
    i: cython.Py_ssize_t
    value: cython.double
    top: cython.double = max(z)
    e: list = [0.0] * len(z)
    for i in range(len(z)):
        value = z[i]
        e[i] = exp(value - top)
    return shares(e)
