"""Calibration maps read from JSON, with NumPy alone: this file can be copied to where streamcal is not installed.

`docs/maps.md` describes the format. A map is a function of the score's coordinate on a scale: `SCALES` has how to get
the coordinate, `KINDS` the functions. A new kind of map is one function in `KINDS`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FORMAT = 1

#: Where a score is read as a probability for its logarithms, its log-odds stay within ± this.
LOGIT_LIMIT = 16.0

Array = npt.NDArray[np.float64]
Value = TypeVar("Value", float, Array)


def load_map(text: str | bytes) -> PortableMap:
    """The map that `to_json` wrote; `ValueError` if it cannot be read.

    >>> sigmoid = '{"streamcal_map": 1, "kind": "sigmoid", "scale": {"kind": "logit", "lo": -16.0, "hi": 16.0}'
    >>> serve = load_map(sigmoid + ', "slope": 1.0, "offset": 0.0}')
    >>> round(serve(0.25), 12)
    0.25
    """
    data = json.loads(text)
    if not isinstance(data, dict) or "streamcal_map" not in data:
        raise ValueError("this is not a calibration map: expected the text that to_json() wrote")
    if data["streamcal_map"] != FORMAT:
        raise ValueError(f"map format {data['streamcal_map']!r} cannot be read, only {FORMAT}")
    try:
        found = PortableMap(data)
        found.predict_many(np.empty(0))  # reads every part of it once
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"this calibration map is damaged: {error!r}") from error
    return found


class PortableMap:
    """A function score → probability, immutable."""

    def __init__(self, data: dict[str, Any]) -> None:
        for what, kind, known in (("map", data["kind"], set(KINDS)), ("scale", data["scale"]["kind"], set(SCALES))):
            if kind not in known:
                raise ValueError(f"the {what} is of kind {kind!r}; known are {', '.join(sorted(known))}")
        self._scale = _as_arrays(data["scale"])
        self._content = _as_arrays({name: value for name, value in data.items() if name != "scale"})

    def __call__(self, score: float | Sequence[float]) -> float:
        return self.predict_one(score)

    def predict_one(self, score: float | Sequence[float]) -> float:
        """The probability at `score`; `ValueError` if it is not finite, or no probability where the scale wants one.

        A map of K folds takes K scores too, one of each fold.
        """
        return float(self.predict_many([score])[0])

    def predict_many(self, scores: npt.ArrayLike) -> Array:
        """The probabilities at an array of scores, shape (n,); for a map of K folds also (n, K)."""
        return KINDS[self._content["kind"]](self._coordinates(scores), self._content, self._scale)

    def predict_interval_many(self, scores: npt.ArrayLike) -> tuple[Array, Array]:
        """Both ends of the Venn-Abers intervals, for a map that has them."""
        if self._content["kind"] != "interval":
            raise ValueError(f"a map of kind {self._content['kind']!r} has no intervals")
        return interval(self._coordinates(scores), self._content)

    def _coordinates(self, scores: npt.ArrayLike) -> Array:
        s = np.asarray(scores, dtype=np.float64)
        if s.ndim != 1 and (s.ndim != 2 or self._content["kind"] != "cross-interval"):
            raise ValueError(f"scores have shape {s.shape}; give shape (n,), or (n, K) to a map of K folds")
        if not np.isfinite(s).all():
            raise ValueError("scores are to be finite")
        return SCALES[self._scale["kind"]](s, self._scale)


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
    """The coordinate moved linearly onto [0, 1]."""
    lo, hi = scale.get("lo", 0.0), scale.get("hi", 1.0)
    return (x - lo) / (hi - lo)


# -- kinds of maps -----------------------------------------------------------------------------------------------


def identity(x: Array, scale: dict[str, Any]) -> Array:
    """The coordinate read as a probability."""
    return sigmoid(x) if _unbounded(scale) or scale["kind"] == "logit" else unit(x, scale)


def _unbounded(scale: dict[str, Any]) -> bool:
    """Whether scores are margins without both bounds, which read as log-odds."""
    return scale["kind"] == "interval" and not math.isfinite(scale["hi"] - scale["lo"])


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(−z)), without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def bernstein(u: Array, coefficients: Array) -> Array:
    """Σ cᵢ Bᵢⁿ(u) by de Casteljau's scheme: neighbours are averaged until one number is left."""
    row = [np.full_like(u, c) for c in coefficients]
    while len(row) > 1:
        row = [(1.0 - u) * left + u * right for left, right in itertools.pairwise(row)]
    return row[0]


def chebyshev(u: Array, coefficients: Array) -> Array:
    """Σ cₘ Tₘ(2u − 1), the polynomials by their steps from the nearer end, where the usual recurrence loses digits."""
    e, sign = np.minimum(u, 1.0 - u), np.where(u < 0.5, -1.0, 1.0)
    total, value, step, turn = np.zeros_like(u), np.ones_like(u), -2.0 * e, np.ones_like(u)
    for c in coefficients:
        total = total + turn * (c * value)
        value = value + step
        step = step - 4.0 * e * value
        turn = turn * sign
    return total


def beta(x: Array, a: float, b: float, c: float, scale: dict[str, Any]) -> Array:
    """The sigmoid of a·ln s − b·ln(1 − s) + c, at the score's probability s with its log-odds within ±16."""
    z = x if scale["kind"] == "logit" else _log_odds(x, scale)
    tail = np.log1p(np.exp(-np.abs(z)))
    return sigmoid(a * (np.minimum(z, 0.0) - tail) + b * (np.maximum(z, 0.0) + tail) + c)


def _log_odds(x: Array, scale: dict[str, Any]) -> Array:
    """The log-odds of the coordinate read as a probability."""
    if _unbounded(scale):
        return np.clip(x, -LOGIT_LIMIT, LOGIT_LIMIT)
    p = unit(x, scale)
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -LOGIT_LIMIT, LOGIT_LIMIT)


def sigmoids(x: Array, weights: Array, slopes: Array, offsets: Array) -> Array:
    """The weighted mean of the sigmoids of slope·x + offset."""
    p = np.zeros_like(x)
    for weight, slope, offset in zip(weights, slopes, offsets, strict=True):
        p = p + weight * sigmoid(slope * x + offset)
    return np.minimum(p, 1.0)


def steps(x: Array, cuts: Array, values: Array) -> Array:
    """values[i] for cuts[i−1] ≤ x < cuts[i]."""
    return values[np.searchsorted(cuts, x, side="right")]


def lines(x: Array, knots: Array, values: Array) -> Array:
    """Linear between the knots, constant outside."""
    result, inside, i, t = _places(x, knots, values)
    result[inside] = values[i] + t * (values[i + 1] - values[i])
    return result


def cubics(x: Array, knots: Array, values: Array, rises: Array, falls: Array) -> Array:
    """Cubic between the knots, with the slopes rises[i] and falls[i] at the ends of interval i, times its width."""
    result, inside, i, t = _places(x, knots, values)
    low, high = values[i], values[i + 1]
    result[inside] = np.clip(cubic(t, low, high, rises[i], falls[i]), low, high)
    return result


def cubic(t: Value, low: Value, high: Value, rise: Value, fall: Value) -> Value:
    """From `low` to `high` at the share t of the way, starting with the slope `rise` and ending with `fall`."""
    return low + (high - low) * t * t * (3.0 - 2.0 * t) + t * (1.0 - t) * (rise * (1.0 - t) - fall * t)


def _places(x: Array, knots: Array, values: Array) -> tuple[Array, npt.NDArray[np.bool_], npt.NDArray[np.intp], Array]:
    """The values outside the knots; which x are inside, after which knot, and at which share of the way to the next."""
    after = np.searchsorted(knots, x, side="right")
    inside = (after > 0) & (after < len(knots))
    i, x_inside = after[inside] - 1, x[inside]
    left, right = knots[i], knots[i + 1]
    with np.errstate(over="ignore", invalid="ignore"):  # the distance of two knots may overflow: then by halves
        share = (x_inside - left) / (right - left)
        halves = (0.5 * x_inside - 0.5 * left) / (0.5 * right - 0.5 * left)
        share = np.where(np.isinf(right - left), halves, share)
    return values[np.minimum(after, len(knots) - 1)], inside, i, share


def interval(x: Array, content: dict[str, Any]) -> tuple[Array, Array]:
    """Lower and upper ends, each given as steps."""
    lower, upper = content["lower"], content["upper"]
    return steps(x, lower["cuts"], lower["values"]), steps(x, upper["cuts"], upper["values"])


def cross_interval(x: Array, content: dict[str, Any]) -> Array:
    """What is made of the folds' pairs; x of shape (n,), or (n, K) with a column a fold."""
    folds = content["folds"]
    if x.ndim == 2 and x.shape[1] != len(folds):
        raise ValueError(f"expected one score, or {len(folds)}, one of each fold; got {x.shape[1]}")
    columns = x.T if x.ndim == 2 else [x] * len(folds)
    pairs = [interval(column, fold) for column, fold in zip(columns, folds, strict=True)]
    return MERGES[content["point"]](*zip(*pairs, strict=True))


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
    "interval": lambda x, map, scale: POINTS[map["point"]](*interval(x, map)),
    "cross-interval": lambda x, map, scale: cross_interval(x, map),
}


# -- one probability of an interval ------------------------------------------------------------------------------


def log_minimax(lower: Value, upper: Value) -> Value:
    """p₁ / (1 − p₀ + p₁): minimal worst-case regret in log loss (paper 003, §4)."""
    return upper / (1.0 - lower + upper)


def brier_minimax(lower: Value, upper: Value) -> Value:
    """p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4)."""
    return upper + 0.5 * (lower * lower - upper * upper)


def self_consistent(lower: Value, upper: Value) -> Value:
    """p₀ / (1 − p₁ + p₀): the solution of p = (1 − p)·p₀ + p·p₁; ½ on the vacuous interval [0, 1]."""
    vacuous = 1.0 - upper + lower == 0.0
    return (lower + 0.5 * vacuous) / (1.0 - upper + lower + vacuous)


POINTS: dict[str, Callable] = {
    "log-minimax": log_minimax,
    "brier-minimax": brier_minimax,
    "self-consistent": self_consistent,
}


# -- and of K intervals, one of each fold ------------------------------------------------------------------------


def mean(values: Sequence[Value]) -> Value:
    """The arithmetic mean over the folds."""
    return sum(values[1:], start=values[0]) / len(values)


def geometric_mean(values: Sequence[Value]) -> Value:
    """The geometric mean over the folds; roots first, since a product of small numbers underflows."""
    share = 1.0 / len(values)
    product = values[0] ** share
    for value in values[1:]:
        product = product * value**share
    return product


def log_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """GM(p₁) / (GM(1 − p₀) + GM(p₁)): minimal worst-case regret in log loss (paper 003, Algorithm 7)."""
    positive = geometric_mean(upper)
    return positive / (geometric_mean([1.0 - p for p in lower]) + positive)


def brier_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """The mean over the folds of p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4)."""
    return mean([brier_minimax(low, high) for low, high in zip(lower, upper, strict=True)])


def self_consistent_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """The solution of p = (1 − p)·mean(p₀) + p·mean(p₁)."""
    return self_consistent(mean(lower), mean(upper))


#: The rules of K pairs, under the names of those of one.
MERGES: dict[str, Callable] = {
    "log-minimax": log_merge,
    "brier-minimax": brier_merge,
    "self-consistent": self_consistent_merge,
}


def _as_arrays(data: dict[str, Any]) -> dict[str, Any]:
    """Lists of numbers as arrays, also inside; missing bounds as infinite ones."""
    missing = {"lo": -math.inf, "hi": math.inf}

    def read(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _as_arrays(value)
        if isinstance(value, list) and name == "folds":
            return [_as_arrays(fold) for fold in value]
        if isinstance(value, list):
            return np.array(value, dtype=np.float64)
        return missing[name] if value is None else value

    return {name: read(name, value) for name, value in data.items()}
