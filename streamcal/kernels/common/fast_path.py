# cython: language_level=3, binding=False
"""The compiled check of a single observation at the start of a fast path. It takes 35 ns.

It accepts observations that need no conversion: a finite float, a bool and a float weight in range. All others take the
full checks of `streamcal.parameters.inputs`, which convert them or raise an error.
"""

import cython

#: Weights outside this range, 0 apart, are refused: their squares, sums and decayed values stay finite and above 0.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60
#: No sum of weights is larger: the heaviest observation weighs 1e60, times 2^16 under decay.
HEAVIEST = 1e90
#: Log-odds are clamped to ±16 (a probability of 1.1e-7) by default: no stream resolves a rarer event, and a score of
#: exactly 0 or 1 must not become an infinite feature.
LOGIT_LIMIT = 16.0
#: Bytes of a number.
NUMBER_SIZE = 8
#: Longer names of levels are refused, since every state holds them.
LONGEST_LEVEL = 10_000

_SMALLEST = cython.declare(cython.double, SMALLEST_WEIGHT)
_LARGEST = cython.declare(cython.double, LARGEST_WEIGHT)
LIMIT = cython.declare(cython.double, LOGIT_LIMIT)
LARGEST = cython.declare(cython.double, HEAVIEST)
NUMBER = cython.declare(cython.Py_ssize_t, NUMBER_SIZE)
_HUGE = cython.declare(cython.double, 1.7976931348623157e308)


def fast_score(score: object, lo: cython.double, hi: cython.double) -> cython.bint:
    """Return whether a score is a float from `lo` to `hi`, both finite or infinite."""
    s: cython.double
    if type(score) is not float:
        return False
    s = score
    return lo <= s <= hi and -_HUGE <= s <= _HUGE


def fast_observation(score: object, y: object, w: object, lo: cython.double, hi: cython.double) -> cython.bint:
    """Return whether score, label and weight are a finite float from `lo` to `hi`, a bool and a float in range."""
    weight: cython.double
    if type(w) is not float or not (y is True or y is False):
        return False
    weight = w
    return _SMALLEST <= weight <= _LARGEST and fast_score(score, lo, hi)


class Door:
    """Passes an observation of one score to a statistic: check, coordinate and label in one compiled call.

    It is called with an unchecked score, label and weight. It returns True after `update(x, label, w)`, or False, with
    no change, for an observation that has to be converted, may be clamped by the scale, or is wrong.

    Parameters
    ----------
    update : callable
        Learns a coordinate, a label of 1.0 or 0.0 and a weight.
    scale : Scale
        The scale of the scores.
    """

    def __init__(self, update: object, scale: object):
        self._update, self._coordinate = update, scale.coordinate
        self._own_lo, self._own_hi = scale.identity_range
        self._first, self._last = scale.domain
        self._lo, self._hi = scale.lo, scale.hi

    def __call__(self, score: object, y: object, w: object) -> bool:
        x: cython.double
        if not fast_observation(score, y, w, self._first, self._last):
            return False
        x = score
        if not self._own_lo <= x <= self._own_hi:
            x = self._coordinate(score)
            if not self._lo < x < self._hi:
                return False
        self._update(x, 1.0 if y is True else 0.0, w)
        return True


def fast_levels(keys: object, fields: tuple, longest: cython.Py_ssize_t):
    """Return a dict's levels of the fields, None for one without, if all are texts or whole numbers; else None.

    `fields` are texts and tuples of texts. Texts are at most `longest` long and begin with neither a digit nor a minus
    sign, and numbers have fewer than 53 bits: others may not have the form of `streamcal.parameters.keys.canonical`. It
    is None, too, where a dict lacks a field.
    """
    levels: list = []
    if type(keys) is not dict:
        return None
    level_of: dict = keys
    for field in fields:
        if type(field) is tuple:
            level = tuple([level_of.get(part) for part in field])
            for part_level in level:
                if part_level is None:
                    level = None
                elif not _is_plain(part_level, longest):
                    return None
        else:
            level = level_of.get(field)
            if level is not None and not _is_plain(level, longest):
                return None
        levels.append(level)
    return levels


def plain_keys(keys: object, longest: cython.Py_ssize_t):
    """Return a copy of a dict whose fields are texts, and whose levels are texts or whole numbers; else None."""
    if type(keys) is not dict:
        return None
    levels: dict = keys
    for field, level in levels.items():
        if type(field) is not str or len(field) > longest or not _is_plain(level, longest):
            return None
    return levels.copy()


def plain_levels(keys: list, longest: cython.Py_ssize_t, most: cython.Py_ssize_t, check):
    """Return each dict that is as `plain_keys` returns one, if it has 1 to `most` levels; else `check` of it."""
    k: cython.Py_ssize_t
    checked: list = [None] * len(keys)
    for k in range(len(keys)):
        if keys[k] is None:
            continue
        plain = type(keys[k]) is dict and 0 < len(keys[k]) <= most
        if plain:
            levels: dict = keys[k]
            for field, level in levels.items():
                if type(field) is not str or len(field) > longest or not _is_plain(level, longest):
                    plain = False
                    break
        checked[k] = keys[k] if plain else check(keys[k])
    return checked


@cython.cfunc
def _is_plain(level: object, longest: cython.Py_ssize_t) -> cython.bint:
    size: cython.Py_ssize_t
    if type(level) is str:
        size = len(level)
        return 0 < size <= longest and not (level[0].isdigit() or level[0] == "-")
    return type(level) is int and -(2**53) < level < 2**53
