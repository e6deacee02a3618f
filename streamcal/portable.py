"""Calibration maps read from JSON, with NumPy alone: this file can be copied to where streamcal is not installed.

`docs/maps.md` describes the format. A map is a function of the score's coordinate on a scale: `SCALES` has how to get
the coordinate, `KINDS` the functions. A new kind of map is one function in `KINDS`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FORMAT = 1

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
    return PortableMap(data)


class PortableMap:
    """A function score → probability, immutable."""

    def __init__(self, data: dict[str, Any]) -> None:
        for what, kind, known in (("map", data["kind"], set(KINDS)), ("scale", data["scale"]["kind"], set(SCALES))):
            if kind not in known:
                raise ValueError(f"the {what} is of kind {kind!r}; known are {', '.join(sorted(known))}")
        self._scale = _as_arrays(data["scale"])
        self._content = _as_arrays({name: value for name, value in data.items() if name != "scale"})

    def __call__(self, score: float) -> float:
        return self.predict_one(score)

    def predict_one(self, score: float) -> float:
        """The probability at `score`; `ValueError` if it is not finite, or no probability where the scale wants one."""
        return float(self.predict_many([score])[0])

    def predict_many(self, scores: npt.ArrayLike) -> Array:
        """The probabilities at an array of scores, shape (n,)."""
        return KINDS[self._content["kind"]](self._coordinates(scores), self._content, self._scale)

    def predict_interval_many(self, scores: npt.ArrayLike) -> tuple[Array, Array]:
        """Both ends of the Venn-Abers intervals, for a map that has them."""
        if self._content["kind"] != "interval":
            raise ValueError(f"a map of kind {self._content['kind']!r} has no intervals")
        return interval(self._coordinates(scores), self._content)

    def _coordinates(self, scores: npt.ArrayLike) -> Array:
        s = np.asarray(scores, dtype=np.float64)
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
    unbounded = scale["kind"] == "interval" and not math.isfinite(scale["hi"] - scale["lo"])
    return sigmoid(x) if unbounded or scale["kind"] == "logit" else unit(x, scale)


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(−z)), without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


def bernstein(u: Array, coefficients: Array) -> Array:
    """Σ cᵢ Bᵢⁿ(u) by de Casteljau's scheme: neighbours are averaged until one number is left."""
    row = [np.full_like(u, c) for c in coefficients]
    while len(row) > 1:
        row = [(1.0 - u) * left + u * right for left, right in itertools.pairwise(row)]
    return np.clip(row[0], 0.0, 1.0)


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


#: The functions: coordinates, content of the map, scale → probabilities.
KINDS: dict[str, Callable[[Array, dict[str, Any], dict[str, Any]], Array]] = {
    "identity": lambda x, map, scale: identity(x, scale),
    "sigmoid": lambda x, map, scale: sigmoid(map["slope"] * x + map["offset"]),
    "bernstein": lambda x, map, scale: bernstein(unit(x, scale), map["coefficients"]),
    "steps": lambda x, map, scale: steps(x, map["cuts"], map["values"]),
    "lines": lambda x, map, scale: lines(x, map["knots"], map["values"]),
    "cubics": lambda x, map, scale: cubics(x, map["knots"], map["values"], map["rises"], map["falls"]),
    "interval": lambda x, map, scale: POINTS[map["point"]](*interval(x, map)),
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


def _as_arrays(data: dict[str, Any]) -> dict[str, Any]:
    """Lists as arrays, also inside; missing bounds as infinite ones."""
    missing = {"lo": -math.inf, "hi": math.inf}
    return {
        name: np.array(value, dtype=np.float64)
        if isinstance(value, list)
        else _as_arrays(value)
        if isinstance(value, dict)
        else missing[name]
        if value is None
        else value
        for name, value in data.items()
    }
