"""Calibration maps read from JSON, with NumPy alone: this file can be used without streamcal, as a copy.

`docs/map_format.md` describes the format. A map is a function of the score's coordinate on a scale. `SCALES` has the
functions from scores to coordinates and `KINDS` those from coordinates to probabilities, both for arrays; `SCALES_ONE`
and `KINDS_ONE` have the same for single numbers, for servers that predict one score at a time. A new kind of map is one
function in `KINDS` and one in `KINDS_ONE`.
"""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FORMAT = 1

#: Log-odds of scores that are interpreted as probabilities are clamped to ± this.
LOGIT_LIMIT = 16.0

Array = NDArray[np.float64]
Value = TypeVar("Value", float, Array)


def load_map(text: str | bytes) -> PortableMap:
    """Read a calibration map written by `to_json`.

    Parameters
    ----------
    text : str or bytes
        The JSON text; its format is described in `docs/map_format.md`.

    Returns
    -------
    PortableMap
        A callable score → probability.

    Raises
    ------
    ValueError
        If the text is not a map, or has another version.

    Notes
    -----
    Cost: O(size of the text).

    Examples
    --------
    >>> sigmoid = '{"streamcal_map": 1, "kind": "sigmoid", "scale": {"kind": "logit", "lo": -16.0, "hi": 16.0}'
    >>> serve = load_map(sigmoid + ', "slope": 1.0, "offset": 0.0}')
    >>> round(serve(0.25), 12)
    0.25
    """
    try:
        data = json.loads(text)
    except RecursionError:
        data = None
    if not isinstance(data, dict) or "streamcal_map" not in data:
        raise ValueError("this is not a calibration map: expected the text that to_json() wrote")
    if data["streamcal_map"] != FORMAT:
        raise ValueError(f"map format {_shown(data['streamcal_map'])} cannot be read, only {FORMAT}")
    try:
        found = PortableMap(data)
        found.predict_many(np.empty(0))  # evaluates every part once, to detect damage
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"this calibration map is damaged: {error!r}") from error
    return found


class PortableMap:
    """An immutable function score → probability. A prediction of one score takes 0.7 to 2 µs."""

    def __init__(self, data: dict[str, Any]) -> None:
        _check_map(data)
        self._scale = as_arrays(data["scale"])
        self._content = as_arrays({name: value for name, value in data.items() if name != "scale"})
        self._coordinate = SCALES_ONE[self._scale["kind"]](self._scale)
        self._top = _top(data["scale"])
        self._at = KINDS_ONE[self._content["kind"]](self._content, self._scale)
        self._spots = _lists(self._content["spots"], "first", "last", "values") if "spots" in data else None

    def __repr__(self) -> str:
        return f"PortableMap(kind={self._content['kind']!r}, scale={self._scale['kind']!r})"

    def __call__(self, score: float | Sequence[float]) -> float:
        return self.predict_one(score)

    def predict_one(self, score: float | Sequence[float]) -> float:
        """Return the probability at `score`; raise `ValueError` if it is not finite, or outside the scale's domain.

        A map of K folds also takes K scores, one per fold.
        """
        if not isinstance(score, (float, int)):
            return float(self.predict_many([score])[0])
        s = float(score)
        if not math.isfinite(s):
            raise ValueError("scores must be finite")
        if self._top is not None:
            s = self._top - (_probability_one(s) if self._top == 1.0 else s)
        if self._spots is None:
            return self._at(self._coordinate(s))
        first, last, values = self._spots
        i = bisect_right(first, s) - 1
        return values[i] if i >= 0 and s <= last[i] else self._at(self._coordinate(s))

    def predict_many(self, scores: ArrayLike) -> Array:
        """Return the probabilities at scores of shape (n,); for a map of K folds also (n, K)."""
        s = self._rising(scores)
        p = KINDS[self._content["kind"]](self._coordinates(s), self._content, self._scale)
        return p if self._spots is None else spots(s, p, **self._content["spots"])

    def predict_interval_many(self, scores: ArrayLike) -> tuple[Array, Array]:
        """Return both ends of the Venn-Abers intervals; raise `ValueError` for a map without intervals."""
        if self._content["kind"] != "interval":
            raise ValueError(f"a map of kind {self._content['kind']!r} has no intervals")
        return interval(self._coordinates(self._rising(scores)), self._content)

    def _coordinates(self, s: Array) -> Array:
        return SCALES[self._scale["kind"]](s, self._scale)

    def _rising(self, scores: ArrayLike) -> Array:
        """Check the scores, and return them as scores that rise with the label."""
        if np.ma.is_masked(scores):
            raise ValueError("scores are masked; give those that are not")
        s = np.asarray(scores, dtype=np.float64)
        if s.ndim != 1 and (s.ndim != 2 or self._content["kind"] != "cross-interval"):
            raise ValueError(f"scores have shape {s.shape}; give shape (n,), or (n, K) to a map of K folds")
        if not np.isfinite(s).all():
            raise ValueError("scores must be finite")
        if self._top is None:
            return s
        return self._top - (_probability(s, self._scale) if self._top == 1.0 else s)


# -- scales ------------------------------------------------------------------------------------------------------


def _probability(s: Array, scale: dict[str, Any]) -> Array:
    if ((s < 0.0) | (s > 1.0)).any():
        raise ValueError("scores on this scale are probabilities in [0, 1]")
    return s


def _logit(s: Array, scale: dict[str, Any]) -> Array:
    with np.errstate(divide="ignore"):
        return np.clip(np.log(_probability(s, scale)) - np.log1p(-s), scale["lo"], scale["hi"])


def _interval(s: Array, scale: dict[str, Any]) -> Array:
    return np.clip(s, scale["lo"], scale["hi"])


def _empirical_cdf(s: Array, scale: dict[str, Any]) -> Array:
    return np.interp(s, scale["knots"], scale["ranks"])


#: Score → coordinate.
SCALES: dict[str, Callable[[Array, dict[str, Any]], Array]] = {
    "probability": _probability,
    "logit": _logit,
    "interval": _interval,
    "empirical-cdf": _empirical_cdf,
}


def unit(x: Array, scale: dict[str, Any]) -> Array:
    """Map the coordinate linearly onto [0, 1]."""
    lo, hi = _ends(scale)
    return (x - lo) / (hi - lo)


# -- kinds of maps -----------------------------------------------------------------------------------------------


def identity(x: Array, scale: dict[str, Any]) -> Array:
    """Interpret the coordinate as a probability."""
    return sigmoid(x) if _logistic(scale) else unit(x, scale)


def _logistic(scale: dict[str, Any]) -> bool:
    """Return whether coordinates are log-odds."""
    return _unbounded(scale) or scale["kind"] == "logit"


def _unbounded(scale: dict[str, Any]) -> bool:
    """Return whether scores are margins without both bounds, which are interpreted as log-odds."""
    return scale["kind"] == "interval" and not math.isfinite(scale["hi"] - scale["lo"])


def sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(−z)), without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def bernstein(u: Array, coefficients: Array) -> Array:
    """Return Σ cᵢ Bᵢⁿ(u) by de Casteljau's algorithm."""
    row = [np.full_like(u, c) for c in coefficients]
    while len(row) > 1:
        row = [(1.0 - u) * left + u * right for left, right in itertools.pairwise(row)]
    return row[0]


def chebyshev(u: Array, coefficients: Array) -> Array:
    """Return Σ cₘ Tₘ(2u − 1) by Reinsch's recurrence from the nearer end, which keeps accuracy there."""
    e, sign = np.minimum(u, 1.0 - u), np.where(u < 0.5, -1.0, 1.0)
    total, value, step, turn = np.zeros_like(u), np.ones_like(u), -2.0 * e, np.ones_like(u)
    for c in coefficients:
        total = total + turn * (c * value)
        value = value + step
        step = step - 4.0 * e * value
        turn = turn * sign
    return total


def beta(x: Array, a: float, b: float, c: float, scale: dict[str, Any]) -> Array:
    """Return σ(a·ln s − b·ln(1 − s) + c); s is the score as a probability, its log-odds clamped to ±16."""
    z = x if scale["kind"] == "logit" else _log_odds(x, scale)
    tail = np.log1p(np.exp(-np.abs(z)))
    return sigmoid(a * (np.minimum(z, 0.0) - tail) + b * (np.maximum(z, 0.0) + tail) + c)


def _log_odds(x: Array, scale: dict[str, Any]) -> Array:
    """Return the log-odds of the coordinate interpreted as a probability."""
    if _unbounded(scale):
        return np.clip(x, -LOGIT_LIMIT, LOGIT_LIMIT)
    p = unit(x, scale)
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -LOGIT_LIMIT, LOGIT_LIMIT)


def sigmoids(x: Array, weights: Array, slopes: Array, offsets: Array) -> Array:
    """Return the weighted mean of the sigmoids of slope·x + offset."""
    p = np.zeros_like(x)
    for weight, slope, offset in zip(weights, slopes, offsets, strict=True):
        p = p + weight * sigmoid(slope * x + offset)
    return np.minimum(p, 1.0)


def steps(x: Array, cuts: Array, values: Array) -> Array:
    """Return values[i] for cuts[i−1] ≤ x < cuts[i]."""
    return values[np.searchsorted(cuts, x, side="right")]


def lines(x: Array, knots: Array, values: Array) -> Array:
    """Interpolate linearly between the knots; constant outside."""
    result, inside, i, t = _places(x, knots, values)
    result[inside] = values[i] + t * (values[i + 1] - values[i])
    return result


def spots(s: Array, p: Array, first: Array, last: Array, values: Array) -> Array:
    """Return values[i] for scores with first[i] ≤ s ≤ last[i], and p for other scores."""
    i = np.maximum(np.searchsorted(first, s, side="right") - 1, 0)
    return np.where((first[i] <= s) & (s <= last[i]), values[i], p) if len(first) else p


def cubics(x: Array, knots: Array, values: Array, rises: Array, falls: Array) -> Array:
    """Interpolate by cubics whose slopes at the ends of interval i, times its width, are rises[i] and falls[i]."""
    result, inside, i, t = _places(x, knots, values)
    low, high = values[i], values[i + 1]
    result[inside] = np.clip(cubic(t, low, high, rises[i], falls[i]), low, high)
    return result


def cubic(t: Value, low: Value, high: Value, rise: Value, fall: Value) -> Value:
    """Return the cubic in t from `low` at t = 0 to `high` at t = 1, with the slopes `rise` and `fall` there."""
    return low + (high - low) * t * t * (3.0 - 2.0 * t) + t * (1.0 - t) * (rise * (1.0 - t) - fall * t)


def _places(x: Array, knots: Array, values: Array) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp], Array]:
    """Return values outside the knots; which x are inside; their left knots; and t = (x − left)/(right − left)."""
    after = np.searchsorted(knots, x, side="right")
    inside = (after > 0) & (after < len(knots))
    i, x_inside = after[inside] - 1, x[inside]
    left, right = knots[i], knots[i + 1]
    with np.errstate(over="ignore", invalid="ignore"):  # the distance of two knots may overflow; then halves are used
        share = (x_inside - left) / (right - left)
        halves = (0.5 * x_inside - 0.5 * left) / (0.5 * right - 0.5 * left)
        share = np.where(np.isinf(right - left), halves, share)
    return values[np.minimum(after, len(knots) - 1)], inside, i, share


def interval(x: Array, content: dict[str, Any]) -> tuple[Array, Array]:
    """Return lower and upper ends, each a step function."""
    lower, upper = content["lower"], content["upper"]
    return steps(x, lower["cuts"], lower["values"]), steps(x, upper["cuts"], upper["values"])


def interval_point(x: Array, content: dict[str, Any]) -> Array:
    """Return the probability merged from one pair."""
    lower, upper = interval(x, content)
    if content["point"] != SCORE_PRIOR:
        return _point(content["point"], [lower], [upper])
    middle = np.clip(np.clip(x, content["least"], content["greatest"]), lower, upper)
    return _score_prior(lower, upper, middle, np.maximum(np.minimum(middle, 1.0 - middle), TINY))


def cross_interval(x: Array, content: dict[str, Any]) -> Array:
    """Return the probability merged from the folds' pairs; x has shape (n,), or (n, K) with one column per fold."""
    folds = content["folds"]
    if x.ndim == 2 and x.shape[1] != len(folds):
        raise ValueError(f"expected one score, or {len(folds)}, one of each fold; got {x.shape[1]}")
    columns = x.T if x.ndim == 2 else [x] * len(folds)
    each = [(interval(column, fold), _holds(fold)) for column, fold in zip(columns, folds, strict=True)]
    pairs = [pair for pair, holds in each if holds] or [pair for pair, _ in each]
    return _point(content["point"], *zip(*pairs, strict=True))


def _holds(fold: dict[str, Any]) -> bool:
    """Return whether a fold has observations; the pair of an empty fold is (0, 1) and is not merged."""
    lower, upper = fold["lower"], fold["upper"]
    return len(lower["cuts"]) + len(upper["cuts"]) > 0 or lower["values"][0] > 0.0 or upper["values"][0] < 1.0


#: The functions: coordinates, content of the map, scale → probabilities.
KINDS: dict[str, Callable[[Array, dict[str, Any], dict[str, Any]], Array]] = {
    "identity": lambda x, map, scale: identity(x, scale),
    "sigmoid": lambda x, map, scale: sigmoid(map["slope"] * x + map["offset"]),
    "sigmoids": lambda x, map, scale: sigmoids(x, map["weights"], map["slopes"], map["offsets"]),
    "beta": lambda x, map, scale: beta(x, map["a"], map["b"], map["c"], scale),
    "bernstein": lambda x, map, scale: np.clip(bernstein(unit(x, scale), map["coefficients"]), 0.0, 1.0),
    "bernstein-logistic": lambda x, map, scale: sigmoid(bernstein(unit(x, scale), map["coefficients"])),
    "chebyshev": lambda x, map, scale: np.clip(chebyshev(unit(x, scale), map["coefficients"]), 0.0, 1.0),
    "steps": lambda x, map, scale: steps(x, map["cuts"], map["values"]),
    "lines": lambda x, map, scale: lines(x, map["knots"], map["values"]),
    "log-odds-lines": lambda x, map, scale: sigmoid(lines(x, map["knots"], map["log_odds"])),
    "cubics": lambda x, map, scale: cubics(x, map["knots"], map["values"], map["rises"], map["falls"]),
    "interval": lambda x, map, scale: interval_point(x, map),
    "cross-interval": lambda x, map, scale: cross_interval(x, map),
}


# -- merging K intervals -----------------------------------------------------------------------------------------


def _point(rule: str, lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """Merge K pairs (p₀, p₁), K ≥ 1, each a float or an array, into one probability.

    The formulas and references are those of `points.py`. They are repeated because this file imports nothing of the
    package; `tests/test_portable_maps.py` tests that both agree to the last bit.
    """
    if rule == "log-minimax":
        share = 1.0 / len(lower)
        positive: Any = math.prod([p**share for p in upper])
        negative: Any = math.prod([(1.0 - p) ** share for p in lower])
        return positive / (negative + positive)
    if rule == "brier-minimax":
        each = [high + 0.5 * (low * low - high * high) for low, high in zip(lower, upper, strict=True)]
        return sum(each[1:], start=each[0]) / len(each)
    if rule != "self-consistent":
        raise ValueError(
            f"the point is {_shown(rule)}; known are log-minimax, brier-minimax, self-consistent, "
            f"and {SCORE_PRIOR} for one"
        )
    low, high = (sum(ends[1:], start=ends[0]) / len(ends) for ends in (lower, upper))
    vacuous = 1.0 - high + low == 0.0
    return (low + 0.5 * vacuous) / (1.0 - high + low + vacuous)


#: The rule that needs the score, the worth of its prior in events, and its least divisor.
SCORE_PRIOR, PRIOR_EVENTS, TINY = "score-prior", 0.25, 1e-300


def _score_prior(lower: Value, upper: Value, middle: Value, rarer: Value) -> Value:
    """Merge one pair by `score-prior`, at the score clipped to the pair; `rarer` is min(middle, 1 − middle)."""
    width = PRIOR_EVENTS * (upper - lower)
    return (lower * rarer + width * middle) / ((1.0 - upper + lower) * rarer + width)


# -- at one coordinate -------------------------------------------------------------------------------------------
#
# For one score lists and `math` take a small part of the time of NumPy. The functions below take lists and floats,
# the score or coordinate last. Steps, lines, cubics and intervals agree with the functions above to the last bit; those
# with logarithms, exponentials or polynomials to 1e-12.


def _probability_one(s: float) -> float:
    if not 0.0 <= s <= 1.0:
        raise ValueError("scores on this scale are probabilities in [0, 1]")
    return s


def _logit_one(lo: float, hi: float, s: float) -> float:
    if _probability_one(s) == 0.0:
        return lo
    return hi if s == 1.0 else min(max(math.log(s) - math.log1p(-s), lo), hi)


def _interval_one(lo: float, hi: float, s: float) -> float:
    return min(max(s, lo), hi)


def _empirical_cdf_one(knots: list[float], ranks: list[float], s: float) -> float:
    i = bisect_right(knots, s)
    if i in (0, len(knots)) or knots[i - 1] == s:
        return ranks[max(i - 1, 0)]
    slope = (ranks[i] - ranks[i - 1]) / (knots[i] - knots[i - 1])
    return slope * (s - knots[i - 1]) + ranks[i - 1]


#: Score → coordinate, as `SCALES`; each entry returns the function for a given scale.
SCALES_ONE: dict[str, Callable[[dict[str, Any]], Callable[[float], float]]] = {
    "probability": lambda scale: _probability_one,
    "logit": lambda scale: partial(_logit_one, scale["lo"], scale["hi"]),
    "interval": lambda scale: partial(_interval_one, scale["lo"], scale["hi"]),
    "empirical-cdf": lambda scale: partial(_empirical_cdf_one, scale["knots"].tolist(), scale["ranks"].tolist()),
}


def _unit_one(lo: float, hi: float, x: float) -> float:
    return (x - lo) / (hi - lo)


def _sigmoid_one(z: float) -> float:
    e = math.exp(-abs(z))
    return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)


def _sigmoid_line_one(slope: float, offset: float, x: float) -> float:
    return _sigmoid_one(slope * x + offset)


def _sigmoids_one(parts: list[tuple[float, float, float]], x: float) -> float:
    p = 0.0
    for weight, slope, offset in parts:  # `_sigmoid_one` written out, since calls take time
        z = slope * x + offset
        e = math.exp(-abs(z))
        p += weight * ((1.0 if z >= 0.0 else e) / (1.0 + e))
    return min(p, 1.0)


def _beta_one(a: float, b: float, c: float, log_odds: Callable[[float], float], x: float) -> float:
    z = log_odds(x)
    tail = math.log1p(math.exp(-abs(z)))
    return _sigmoid_one(a * (min(z, 0.0) - tail) + b * (max(z, 0.0) + tail) + c)


def _log_odds_one(scale: dict[str, Any]) -> Callable[[float], float]:
    """Return the function from coordinates to log-odds for `beta`."""
    if scale["kind"] == "logit":
        return float
    if _unbounded(scale):
        return partial(_interval_one, -LOGIT_LIMIT, LOGIT_LIMIT)
    return partial(_log_odds_of_unit_one, *_ends(scale))


def _log_odds_of_unit_one(lo: float, hi: float, x: float) -> float:
    return _logit_one(-LOGIT_LIMIT, LOGIT_LIMIT, (x - lo) / (hi - lo))


def _bernstein_one(n: int, below: list[float], above: list[float], lo: float, hi: float, x: float) -> float:
    """Evaluate by Horner's scheme in the smaller of u/(1 − u) and its inverse, whose powers are at most 1. O(n)."""
    u = (x - lo) / (hi - lo)
    terms, small, large = (below, u, 1.0 - u) if u < 0.5 else (above, 1.0 - u, u)
    ratio, total = small / large, 0.0
    for term in terms:
        total = total * ratio + term
    return float(total * large**n)


def _bernstein_content(content: dict[str, Any], scale: dict[str, Any]) -> tuple[Any, ...]:
    """Return the degree and C(n, i)·cᵢ, ordered for u/(1 − u) and, reversed, for its inverse, highest power first."""
    coefficients = content["coefficients"].tolist()
    n = len(coefficients) - 1
    terms = [math.comb(n, i) * c for i, c in enumerate(coefficients)]
    return n, terms[::-1], terms, *_ends(scale)


def _chebyshev_one(plain: list[float], turned: list[float], first: float, lo: float, hi: float, x: float) -> float:
    """Evaluate by Clenshaw's algorithm in Reinsch's form, which is accurate near the ends, from the nearer end."""
    u = (x - lo) / (hi - lo)
    coefficients, distance = (turned, u) if u < 0.5 else (plain, 1.0 - u)
    factor, value, step = -4.0 * distance, 0.0, 0.0
    for c in coefficients:
        step += factor * value + c
        value += step
    return min(max(first + 0.5 * factor * value + step, 0.0), 1.0)


def _chebyshev_content(content: dict[str, Any], scale: dict[str, Any]) -> tuple[Any, ...]:
    """Return cₙ … c₁, (−1)ⁿcₙ … −c₁, and c₀."""
    first, *rest = content["coefficients"].tolist()
    turned = [-c if m % 2 == 0 else c for m, c in enumerate(rest)]
    return rest[::-1], turned[::-1], first, *_ends(scale)


def _step_one(cuts: list[float], values: list[float], x: float) -> float:
    return values[bisect_right(cuts, x)]


def _line_one(knots: list[float], values: list[float], x: float) -> float:
    i = bisect_right(knots, x)
    if i in (0, len(knots)):
        return values[max(i - 1, 0)]
    return values[i - 1] + _share_one(knots[i - 1], knots[i], x) * (values[i] - values[i - 1])


def _cubic_one(knots: list[float], values: list[float], rises: list[float], falls: list[float], x: float) -> float:
    i = bisect_right(knots, x)
    if i in (0, len(knots)):
        return values[max(i - 1, 0)]
    low, high = values[i - 1], values[i]
    return min(max(cubic(_share_one(knots[i - 1], knots[i], x), low, high, rises[i - 1], falls[i - 1]), low), high)


def _share_one(left: float, right: float, x: float) -> float:
    """Return (x − left)/(right − left), computed with halves if right − left overflows."""
    if right - left < math.inf:
        return (x - left) / (right - left)
    return (0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left)


def _interval_steps(content: dict[str, Any], scale: dict[str, Any]) -> Callable[[float], float]:
    """Return one step function of the probability merged from intervals, for one score used in all folds."""
    if content["point"] == SCORE_PRIOR:
        lower, upper = (partial(_step_one, *_lists(content[end], "cuts", "values")) for end in ("lower", "upper"))
        return partial(_score_prior_one, lower, upper, content["least"], content["greatest"])
    folds = content.get("folds", [content])
    cuts = np.unique(np.concatenate([fold[end]["cuts"] for fold in folds for end in ("lower", "upper")]))
    values = KINDS[content["kind"]](np.append(-math.inf, cuts), content, scale)
    _ensure(bool(((values >= -ROUNDING) & (values <= 1.0 + ROUNDING)).all()), "an interval has no probability")
    return partial(_step_one, cuts.tolist(), values.tolist())


def _score_prior_one(
    lower: Callable[[float], float], upper: Callable[[float], float], least: float, greatest: float, x: float
) -> float:
    low, high = lower(x), upper(x)
    middle = min(max(min(max(x, least), greatest), low), high)
    return _score_prior(low, high, middle, max(min(middle, 1.0 - middle), TINY))


def _lists(content: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(content[name].tolist() for name in names)


def _top(scale: dict[str, Any]) -> float | None:
    """Return t if a decreasing scale reads a score s as t − s; None for another scale."""
    if not scale.get("decreasing", False):
        return None
    return 1.0 if scale["kind"] in ("probability", "logit") else 0.0


def _ends(scale: dict[str, Any]) -> tuple[float, float]:
    return scale.get("lo", 0.0), scale.get("hi", 1.0)


def _of_sigmoid(inner: Callable[[float], float], x: float) -> float:
    return _sigmoid_one(inner(x))


def _clipped(inner: Callable[[float], float], x: float) -> float:
    return min(max(inner(x), 0.0), 1.0)


def _identity_one(scale: dict[str, Any]) -> Callable[[float], float]:
    return _sigmoid_one if _logistic(scale) else partial(_unit_one, *_ends(scale))


#: Coordinate → probability, as `KINDS`; each entry returns the function for the content and scale of a map.
KINDS_ONE: dict[str, Callable[[dict[str, Any], dict[str, Any]], Callable[[float], float]]] = {
    "identity": lambda map, scale: _identity_one(scale),
    "sigmoid": lambda map, scale: partial(_sigmoid_line_one, map["slope"], map["offset"]),
    "sigmoids": lambda map, scale: partial(
        _sigmoids_one, list(zip(*_lists(map, "weights", "slopes", "offsets"), strict=True))
    ),
    "beta": lambda map, scale: partial(_beta_one, map["a"], map["b"], map["c"], _log_odds_one(scale)),
    "bernstein": lambda map, scale: partial(_clipped, partial(_bernstein_one, *_bernstein_content(map, scale))),
    "bernstein-logistic": lambda map, scale: partial(
        _of_sigmoid, partial(_bernstein_one, *_bernstein_content(map, scale))
    ),
    "chebyshev": lambda map, scale: partial(_chebyshev_one, *_chebyshev_content(map, scale)),
    "steps": lambda map, scale: partial(_step_one, *_lists(map, "cuts", "values")),
    "lines": lambda map, scale: partial(_line_one, *_lists(map, "knots", "values")),
    "log-odds-lines": lambda map, scale: partial(_of_sigmoid, partial(_line_one, *_lists(map, "knots", "log_odds"))),
    "cubics": lambda map, scale: partial(_cubic_one, *_lists(map, "knots", "values", "rises", "falls")),
    "interval": _interval_steps,
    "cross-interval": _interval_steps,
}


# -- what a map may hold -----------------------------------------------------------------------------------------
#
# `load_map` reads what others may have written or damaged. Everything is checked once, here, so that the functions
# above need not: lists have the lengths they need, numbers are finite, knots rise, probabilities lie in [0, 1].

#: Names of lists of a kind of map, and by how much longer than the first one each is.
LISTS: dict[str, dict[str, int]] = {
    "sigmoids": {"weights": 0, "slopes": 0, "offsets": 0},
    "bernstein": {"coefficients": 0},
    "bernstein-logistic": {"coefficients": 0},
    "chebyshev": {"coefficients": 0},
    "steps": {"cuts": 0, "values": 1},
    "lines": {"knots": 0, "values": 0},
    "log-odds-lines": {"knots": 0, "log_odds": 0},
    "cubics": {"knots": 0, "values": 0, "rises": -1, "falls": -1},
    "spots": {"first": 0, "last": 0, "values": 0},
    "empirical-cdf": {"knots": 0, "ranks": 0},
}
#: Names of single numbers.
NUMBERS: dict[str, tuple[str, ...]] = {"sigmoid": ("slope", "offset"), "beta": ("a", "b", "c"), "logit": ("lo", "hi")}
#: Lists that rise strictly, and lists of probabilities.
RISING, PROBABILITIES = ("cuts", "knots", "first", "last"), ("values", "weights", "ranks")
#: Kinds that need a scale with finite ends, and more coefficients than any of them has.
POLYNOMIALS, MOST_COEFFICIENTS = ("bernstein", "bernstein-logistic", "chebyshev"), 101
#: No coefficient, slope or offset is larger.
LARGEST = 1e100
#: Rounding of probabilities that were computed.
ROUNDING = 1e-9


def _shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    shown = repr(value[:60] if isinstance(value, (str, list)) else value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _check_map(data: dict[str, Any]) -> None:
    """Raise `ValueError` unless this is a map."""
    scale = data["scale"]
    for what, kind, known in (("map", data["kind"], set(KINDS)), ("scale", scale["kind"], set(SCALES))):
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"the {what} is of kind {_shown(kind)}; known are {', '.join(sorted(known))}")
    _check_content(scale["kind"], scale)
    _ensure(isinstance(scale.get("decreasing", False), bool), "decreasing is neither true nor false")
    if scale["kind"] == "interval":
        for end in (end for end in ("lo", "hi") if scale.get(end) is not None):
            _numbers([scale[end]], end, math.inf)
    if scale["kind"] in ("logit", "interval"):
        lo, hi = (none if scale.get(end) is None else scale[end] for end, none in (("lo", -math.inf), ("hi", math.inf)))
        _ensure(lo < hi, "the ends of the scale are in no order")
        _ensure(data["kind"] not in POLYNOMIALS or math.isfinite(hi - lo), "a polynomial needs the ends of the scale")
    _check_content(data["kind"], data)
    if "spots" in data:
        _check_content("spots", data["spots"])
        _ensure(
            all(first <= last for first, last in zip(data["spots"]["first"], data["spots"]["last"], strict=True)),
            "a spot ends before it begins",
        )
    if data["kind"] in ("interval", "cross-interval"):
        folds = [data] if data["kind"] == "interval" else data["folds"]
        _ensure(isinstance(folds, list) and len(folds) > 0, "there are no folds")
        for end in (fold[name] for fold in folds for name in ("lower", "upper")):
            _check_content("steps", end)
    if data.get("point") == SCORE_PRIOR:
        _ensure(data["kind"] == "interval" and scale["kind"] == "probability", f"{SCORE_PRIOR} needs a probability")
        least, greatest = _numbers([data["least"], data["greatest"]], "least", 1.0)
        _ensure(bool(0.0 < least <= greatest < 1.0), "the least and greatest score are in no order")


def _check_content(kind: str, content: dict[str, Any]) -> None:
    """Raise `ValueError` unless the lists and numbers of a map, a part of it or a scale are possible."""
    _ensure(isinstance(content, dict), f"{kind} has no fields")
    _numbers([content[name] for name in NUMBERS.get(kind, ())], kind, LARGEST)
    first = 0
    for place, (name, more) in enumerate(LISTS.get(kind, {}).items()):
        values = content[name]
        _ensure(isinstance(values, list), f"{name} is no list")
        first = len(values) if place == 0 else first
        _ensure(len(values) == first + more, f"{name} has {len(values)} numbers")
        _ensure(len(values) > 0 or name in ("cuts", "rises", "falls") or kind == "spots", f"{name} is empty")
        _ensure(name != "coefficients" or len(values) <= MOST_COEFFICIENTS, f"{name} has {len(values)} numbers")
        numbers = _numbers(values, name, math.inf if name in RISING else LARGEST)
        _ensure(name not in RISING or bool((numbers[1:] > numbers[:-1]).all()), f"{name} do not rise")
        inside = bool(((numbers >= -ROUNDING) & (numbers <= 1.0 + ROUNDING)).all())
        _ensure(name not in PROBABILITIES or inside, f"{name} are no probabilities")
        _ensure(name != "weights" or abs(float(numbers.sum()) - 1.0) <= ROUNDING, f"{name} do not sum to 1")
        _ensure(name != "ranks" or bool((numbers[1:] >= numbers[:-1]).all()), f"{name} fall")


def _numbers(values: list[Any], name: str, largest: float) -> Array:
    """Return finite numbers up to ± `largest` as an array; raise `ValueError` for anything else."""
    _ensure(all(type(value) in (int, float) for value in values), f"{name} holds something other than numbers")
    numbers = np.array(values, dtype=np.float64)  # OverflowError for an integer that is no float
    _ensure(
        bool((np.isfinite(numbers) & (np.abs(numbers) <= largest)).all()), f"{name} holds numbers that are not finite"
    )
    return numbers


def _ensure(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(f"this calibration map is damaged: {message}")


def as_arrays(data: dict[str, Any]) -> dict[str, Any]:
    """Convert lists of numbers to arrays, recursively; bounds given as null become infinite."""
    missing = {"lo": -math.inf, "hi": math.inf}

    def read(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return as_arrays(value)
        if isinstance(value, list) and name == "folds":
            return [as_arrays(fold) for fold in value]
        if isinstance(value, list):
            return np.array(value, dtype=np.float64)
        return missing[name] if value is None else value

    return {name: read(name, value) for name, value in data.items()}
