"""Calibration maps read from JSON, with NumPy alone: this file can be used without streamcal, as a copy.

`docs/map_format.md` describes the format. A map is a function of the score's coordinate on a scale. Each kind of map
is one formula in `KINDS`, and each scale a case of `coordinate`. Formulas are written in + − * / ** < ≤ and the
operators of `Arrays`. What they are applied to decides what comes out: arrays (`Arrays`), Python for one score
(`Numbers`), C (`streamcal.maps.c_source`) or a graph (`streamcal.maps.onnx_graph`).
"""

from __future__ import annotations

import json
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, reduce
from itertools import count
from operator import add
from types import CodeType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FORMAT = 1

#: Log-odds of scores that are interpreted as probabilities are clamped to ± this.
LOGIT_LIMIT = 16.0

Array = NDArray[np.float64]


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
        read = PortableMap(data)
        read.predict_many(np.empty(0))  # evaluates every part once, to detect damage
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"this calibration map is damaged: {error!r}") from error
    return read


class PortableMap:
    """An immutable function score → probability. A prediction of one score takes 0.2 to 2 µs."""

    def __init__(self, data: dict[str, Any]) -> None:
        _check_map(data)
        self._data = data
        self._map = Reduced(data)
        self._lo, self._hi = self._map.domain

    def __reduce__(self) -> tuple[Any, ...]:
        return PortableMap, (self._data,)

    def __repr__(self) -> str:
        return f"PortableMap(kind={self._data['kind']!r}, scale={self._data['scale']['kind']!r})"

    def __call__(self, score: float | Sequence[float]) -> float:
        return self.predict_one(score)

    def predict_one(self, score: float | Sequence[float]) -> float:
        """Return the probability at `score`; raise `ValueError` if it is not finite, or outside the scale's domain.

        A map of K folds also takes K scores, one per fold.
        """
        if not isinstance(score, (float, int)):
            return float(self.predict_many([score])[0])
        s = float(score)
        if not self._lo <= s <= self._hi:
            raise ValueError(NOT_FINITE if not math.isfinite(s) else NO_PROBABILITY)
        return self._at(s)

    @cached_property
    def _at(self) -> Callable[[float], float]:
        return Numbers().function(lambda o, s: probability_of(o, self._map, s), "s")

    def predict_many(self, scores: ArrayLike) -> Array:
        """Return the probabilities at scores of shape (n,); for a map of K folds also (n, K)."""
        s = self._checked(scores)
        with np.errstate(divide="ignore"):
            p = probability_of(Arrays, self._map, s) if s.ndim == 1 else of_folds(Arrays, self._map, list(s.T))
        return np.asarray(p)

    def predict_interval_many(self, scores: ArrayLike) -> tuple[Array, Array]:
        """Return both ends of the Venn-Abers intervals; raise `ValueError` for a map without intervals."""
        if self._data["kind"] != "interval":
            raise ValueError(f"a map of kind {self._data['kind']!r} has no intervals")
        with np.errstate(divide="ignore"):
            return interval(Arrays, coordinate(Arrays, self._map, self._checked(scores)), self._map.folds[0])

    def _checked(self, scores: ArrayLike) -> Array:
        if np.ma.is_masked(scores):
            raise ValueError("scores are masked; give those that are not")
        s = np.asarray(scores, dtype=np.float64)
        if s.ndim != 1 and (s.ndim != 2 or self._data["kind"] != "cross-interval"):
            raise ValueError(f"scores have shape {s.shape}; give shape (n,), or (n, K) to a map of K folds")
        if not np.isfinite(s).all():
            raise ValueError(NOT_FINITE)
        if ((s < self._lo) | (s > self._hi)).any():
            raise ValueError(NO_PROBABILITY)
        if s.ndim == 2 and s.shape[1] != len(self._map.folds):
            raise ValueError(f"expected one score, or {len(self._map.folds)}, one of each fold; got {s.shape[1]}")
        return s


NOT_FINITE, NO_PROBABILITY = "scores must be finite", "scores on this scale are probabilities in [0, 1]"


# -- what formulas are applied to --------------------------------------------------------------------------------


def _choice(o: Any, condition: Any, yes: Sequence[float], no: Sequence[float]) -> Iterable[Any]:
    """Return the numbers of one of two lists of equal length."""
    return (o.where(condition, *both) for both in zip(yes, no, strict=True))


def clip(o: Any, x: Any, lo: Any, hi: Any) -> Any:
    """Bound x; infinite bounds add nothing."""
    x = x if isinstance(lo, float) and lo == -math.inf else o.max(x, lo)
    return x if isinstance(hi, float) and hi == math.inf else o.min(x, hi)


def _inside(o: Any, p: Any, lo: Any, hi: Any) -> Any:
    """Bound a result that is beyond [lo, hi] by rounding alone."""
    return clip(o, p, lo, hi)


def sigmoid(o: Any, z: Any, largest: float = math.inf) -> Any:
    """Return 1 / (1 + exp(−z)), without overflow; |z| is at most `largest`."""
    e = o.exp(-o.abs(z))
    return o.where(z < 0.0, e, 1.0) / (1.0 + e)


def _series(o: Any, u: Any, coefficients: Sequence[float]) -> Any:
    """Return Σ cₘ Tₘ(2u − 1) by Clenshaw's algorithm in Reinsch's form, accurate near the ends, from the nearer end."""
    first, *rest = coefficients
    turned = [-c if m % 2 == 0 else c for m, c in enumerate(rest)]
    factor, value, step = -4.0 * o.min(u, 1.0 - u), 0.0, 0.0
    for term in o.choose(u < 0.5, turned[::-1], rest[::-1]):
        step = step + (factor * value + term)
        value = value + step
    return first + 0.5 * factor * value + step


def cubic(t: Any, low: Any, step: Any, rise: Any, fall: Any) -> Any:
    """Return the cubic in t from `low` at t = 0 to low + step at t = 1, with the slopes `rise` and `fall` there."""
    return low + step * t * t * (3.0 - 2.0 * t) + t * (1.0 - t) * (rise * (1.0 - t) - fall * t)


class Arrays:
    """The operators of formulas for arrays."""

    exp, log, log1p, abs, min, max, where = np.exp, np.log, np.log1p, np.abs, np.minimum, np.maximum, np.where

    @staticmethod
    def count(cuts: Array, x: Array) -> NDArray[np.intp]:
        """Return the number of cuts ≤ x."""
        return np.searchsorted(cuts, x, side="right")

    @staticmethod
    def row(table: Array, i: NDArray[np.intp]) -> Any:
        """Return entry i of a list, or the entries of row i of a table."""
        return table.take(i, axis=0).T

    choose, inside = classmethod(_choice), classmethod(_inside)
    sigmoid, series, cubic = classmethod(sigmoid), classmethod(_series), staticmethod(cubic)

    @staticmethod
    def sum(table: Array, term: Callable[..., Any]) -> Any:
        """Return the sum over the rows of a table of a term of their entries."""
        return reduce(add, (term(*row) for row in table.tolist()))


def _operator(name: str, swapped: bool = False) -> Any:
    """Return the method of `Term` that adds an operator to its target."""

    def operator(self: Term, *others: Any) -> Any:
        return self.target(name, *others, self) if swapped else self.target(name, self, *others)

    return operator


class Term:
    """A value of a text or a graph under construction, its `target`; an operator adds a line or a node to that."""

    def __init__(self, target: Any, name: str) -> None:
        self.target, self.name = target, name

    __add__, __sub__, __mul__, __truediv__ = map(_operator, ("Add", "Sub", "Mul", "Div"))
    __radd__, __rsub__, __rmul__ = (_operator(name, swapped=True) for name in ("Add", "Sub", "Mul"))
    __pow__, __neg__, __lt__, __le__ = map(_operator, ("Pow", "Neg", "Less", "AtMost"))


def _function(name: str) -> Any:
    """Return the method of `Target` that adds an operator to it."""
    return lambda self, *operands: self(name, *operands)


class Target:
    """The operators of formulas for terms: a subclass is called with the name of an operator and its operands."""

    exp, log, log1p, abs = map(_function, ("Exp", "Log", "Log1p", "Abs"))
    min, max, where = map(_function, ("Min", "Max", "Where"))
    choose, inside, sigmoid, series = _choice, _inside, sigmoid, _series
    cubic, sum = staticmethod(cubic), staticmethod(Arrays.sum)


class Numbers(Target):
    """Python for one number, line by line: each result is a variable. `function` compiles it.

    The text depends on the kinds of map and scale alone, so that it is compiled once: it names numbers and tables. A
    subclass writes another language.
    """

    operators: ClassVar[dict[str, str]] = {
        "Add": "{} + {}",
        "Sub": "{} - {}",
        "Mul": "{} * {}",
        "Div": "{} / {}",
        "Pow": "{} ** {}",
        "Neg": "-{}",
        "Less": "{} < {}",
        "Exp": "exp({})",
        "Log": "log({0}) if {0} > 0.0 else -inf",
        "Log1p": "log1p({0}) if {0} > -1.0 else -inf",
        "Abs": "{0} if {0} >= 0.0 else -{0}",
        "Min": "{0} if {0} < {1} else {1}",
        "Max": "{0} if {0} > {1} else {1}",
        "Where": "{1} if {0} else {2}",
    }
    #: What follows the head of a loop, and its last line.
    block: ClassVar[tuple[str, ...]] = (":",)

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._variables = count()
        functions = {"bisect": bisect_right, "exp": math.exp, "log": math.log, "log1p": math.log1p}
        self._values: dict[str, Any] = {**functions, "inf": math.inf}

    def __call__(self, operator: str, *operands: Any) -> Term:
        text = self.operators[operator].format(*map(self.text, operands))
        return self.variable(text, "int" if operator == "Less" else "double")

    def variable(self, text: str, kind: str = "double") -> Term:
        """Add a line that sets a new variable."""
        term = self.new()
        self.add(f"{term.name} = {text}", kind)
        return term

    def add(self, text: str, kind: str = "") -> None:
        """Add a line; if it sets a new variable, `kind` is its type."""
        self.lines.append(text)

    def new(self) -> Term:
        """Return a variable that no line has set yet."""
        return Term(self, f"v{next(self._variables)}")

    def text(self, value: Any) -> str:
        """Return the text of a term, a number or a list of numbers."""
        if isinstance(value, Term):
            return value.name
        self._values[f"c{len(self._values)}"] = value
        return f"c{len(self._values) - 1}"

    def count(self, cuts: Array, x: Term) -> Term:
        """Add the number of cuts ≤ x."""
        return self.variable(f"bisect({self.text(cuts.tolist())}, {x.name})")

    def row(self, table: Array, i: Term) -> Any:
        """Add an entry of a list, or the entries of a row of a table."""
        text = f"{self.text(table.tolist())}[{i.name}]"
        return self.variable(text) if table.ndim == 1 else self._entries(table.shape[1], text)

    def choose(self, condition: Term, yes: Sequence[float], no: Sequence[float]) -> Sequence[Term]:
        """Add the numbers of one of two lists of equal length."""
        return self._entries(len(yes), f"{self.text(yes)} if {condition.name} else {self.text(no)}")

    def _entries(self, size: int, text: str) -> list[Term]:
        entries = [self.new() for _ in range(size)]
        self.add(f"[{', '.join(entry.name for entry in entries)}] = {text}")
        return entries

    def loop(self, table: Array) -> tuple[str, list[Term]]:
        """Return the head of a loop over the rows of a table, and the entries of a row."""
        entries = [self.new() for _ in range(table.shape[1])]
        return f"for {', '.join(entry.name for entry in entries)} in {self.text(table.tolist())}", entries

    def sum(self, table: Array, term: Callable[..., Any]) -> Term:
        """Add a loop over the rows of a table, which sums a term of their entries."""
        total, (head, entries) = self.variable("0.0"), self.loop(table)
        start = len(self.lines)
        value = term(*entries)
        self.add(f"{total.name} += {self.text(value)}")
        opening, *closing = self.block
        self.lines[start:] = [head + opening, *(f"    {line}" for line in self.lines[start:]), *closing]
        return total

    def function(self, formula: Callable[..., Any], *names: str) -> Callable[..., float]:
        """Return the function of numbers that a formula describes."""
        result = formula(self, *(Term(self, name) for name in names))
        lines = [f"def at({', '.join(names)}):", *self.lines, f"return {self.text(result)}"]
        exec(_code("\n    ".join(lines)), self._values)
        function: Callable[..., float] = self._values["at"]
        return function


@lru_cache(256)
def _code(text: str) -> CodeType:
    return compile(text, "<formula of a calibration map>", "exec")


# -- scales ------------------------------------------------------------------------------------------------------

SCALES = ("probability", "logit", "interval", "empirical-cdf")


def rising(map: Reduced, score: Any) -> Any:
    """Return a score as one that rises with the label."""
    return score if map.mirror is None else map.mirror - score


def coordinate(o: Any, map: Reduced, score: Any) -> Any:
    """Return the coordinate of a score."""
    s, scale = rising(map, score), map.scale
    if scale["kind"] == "probability":
        return s
    if scale["kind"] == "empirical-cdf":
        left, slope, low = o.row(map.ranks, o.count(scale["knots"], s))
        return slope * (clip(o, s, float(scale["knots"][0]), float(scale["knots"][-1])) - left) + low
    return clip(o, o.log(s) - o.log1p(-s) if scale["kind"] == "logit" else s, scale["lo"], scale["hi"])


def unit(map: Reduced, x: Any) -> Any:
    """Map the coordinate linearly onto [0, 1]."""
    lo, hi = map.ends
    return x if (lo, hi) == (0.0, 1.0) else (x - lo) / (hi - lo)


def log_odds(o: Any, map: Reduced, x: Any) -> Any:
    """Return the log-odds of the coordinate interpreted as a probability."""
    if map.scale["kind"] == "logit":
        return x
    if not map.logistic:
        p = unit(map, x)
        x = o.log(p) - o.log1p(-p)
    return clip(o, x, -LOGIT_LIMIT, LOGIT_LIMIT)


# -- kinds of maps -----------------------------------------------------------------------------------------------


def probability_of(o: Any, map: Reduced, score: Any) -> Any:
    """Return the probability at a score in the domain of the scale."""
    p = KINDS[map.kind](o, coordinate(o, map, score), map)
    if map.spots is None:
        return p
    s = rising(map, score)
    end, value = o.row(map.spots["ends"], o.count(map.spots["first"], s))
    return o.where(s < end, value, p)


def sigmoids(o: Any, x: Any, map: Reduced) -> Any:
    """Return the weighted mean of the sigmoids of slope·x + offset."""
    parts = np.column_stack([map.content[name] for name in ("weights", "slopes", "offsets")])
    p = o.sum(parts, lambda weight, slope, offset: weight * o.sigmoid(slope * x + offset))
    return o.inside(p, -math.inf, 1.0)


def beta(o: Any, x: Any, map: Reduced) -> Any:
    """Return σ(a·ln s − b·ln(1 − s) + c); s is the score as a probability, its log-odds clamped to ±16."""
    z, (a, b, c) = log_odds(o, map, x), (map.content[name] for name in "abc")
    tail = o.log1p(o.exp(-o.abs(z)))
    return o.sigmoid(a * (o.min(z, 0.0) - tail) + b * (o.max(z, 0.0) + tail) + c)


def bernstein(o: Any, x: Any, map: Reduced) -> Any:
    """Return Σ cᵢ Bᵢⁿ(u), by Horner's scheme in the smaller of u/(1 − u) and its inverse: all powers are at most 1."""
    u, coefficients = unit(map, x), map.content["coefficients"].tolist()
    n = len(coefficients) - 1
    terms = [math.comb(n, i) * c for i, c in enumerate(coefficients)]
    small, large = o.min(u, 1.0 - u), o.max(u, 1.0 - u)
    ratio, (total, *rest) = small / large, o.choose(u < 0.5, terms[::-1], terms)
    for term in rest:
        total = total * ratio + term
    return total * large ** float(n)


def steps(o: Any, x: Any, cuts: Array, values: Array) -> Any:
    """Return values[i] for cuts[i−1] ≤ x < cuts[i]."""
    return o.row(values, o.count(cuts, x))


def lines(o: Any, x: Any, map: Knots) -> Any:
    """Interpolate linearly between the knots; constant outside."""
    left, width, low, step = o.row(map.table, o.count(map.knots, x))
    return low + (map.halved(x) - left) / width * step


def cubics(o: Any, x: Any, map: Knots) -> Any:
    """Interpolate by cubics whose slopes at the ends of interval i, times its width, are rises[i] and falls[i]."""
    left, width, low, step, rise, fall, high = o.row(map.table, o.count(map.knots, x))
    return o.inside(o.cubic((map.halved(x) - left) / width, low, step, rise, fall), low, high)


def interval(o: Any, x: Any, fold: dict[str, Any]) -> tuple[Any, Any]:
    """Return lower and upper end of an interval, each a step function."""
    lower, upper = fold["lower"], fold["upper"]
    return steps(o, x, lower["cuts"], lower["values"]), steps(o, x, upper["cuts"], upper["values"])


def scored(o: Any, x: Any, map: Reduced) -> Any:
    """Return the point of the rule that needs the score."""
    lower, upper = o.row(map.content["pairs"], o.count(map.content["cuts"], x))
    return score_prior(o, lower, upper, x, map.content["least"], map.content["greatest"])


def of_folds(o: Any, map: Reduced, scores: Sequence[Any]) -> Any:
    """Return the probability merged from the intervals of K folds, at the score of each."""
    pairs = [interval(o, coordinate(o, map, scores[k]), map.folds[k]) for k in map.observed]
    return merged(map.written["point"], *zip(*pairs, strict=True))


#: The formulas: operators, coordinate, map → probability.
KINDS: dict[str, Callable[[Any, Any, Reduced], Any]] = {
    "identity": lambda o, x, map: o.sigmoid(x) if map.logistic else unit(map, x) + 0.0,
    "sigmoid": lambda o, x, map: o.sigmoid(map.content["slope"] * x + map.content["offset"]),
    "sigmoids": sigmoids,
    "beta": beta,
    "bernstein": lambda o, x, map: o.inside(bernstein(o, x, map), 0.0, 1.0),
    "bernstein-logistic": lambda o, x, map: o.sigmoid(bernstein(o, x, map), map.largest("coefficients")),
    "chebyshev": lambda o, x, map: o.inside(o.series(unit(map, x), map.content["coefficients"].tolist()), 0.0, 1.0),
    "steps": lambda o, x, map: steps(o, x, map.content["cuts"], map.content["values"]),
    "lines": lambda o, x, map: lines(o, x, map.between),
    "log-odds-lines": lambda o, x, map: o.sigmoid(lines(o, x, map.between), map.largest("log_odds")),
    "cubics": lambda o, x, map: cubics(o, x, map.between),
    "interval": scored,  # by the other rules intervals are steps
    "cross-interval": scored,
}


# -- maps in the form that formulas read -------------------------------------------------------------------------


class Knots:
    """The pieces between knots, a row of `table` each: left end, width, value there, and difference of the values.

    Cubics have three numbers more: rise, fall, and the value at the right end. Both outer pieces are constant, and have
    an infinite width. Ends and widths are halved, as coordinates are, if a width overflows.
    """

    def __init__(self, knots: Array, values: Array, *slopes: Array) -> None:
        self.knots, ends = knots, values[[0, -1]]
        with np.errstate(over="ignore"):
            widths = knots[1:] - knots[:-1]
        self.half = 0.5 if widths.max(initial=0.0) == math.inf else 1.0
        if self.half == 0.5:
            widths = 0.5 * knots[1:] - 0.5 * knots[:-1]
        inner = [self.half * knots[:-1], widths, values[:-1], values[1:] - values[:-1]]
        inner += [*slopes, values[1:]] if slopes else []
        self.table = np.zeros((len(knots) + 1, len(inner)))
        self.table[1:-1] = np.transpose(inner)
        self.table[[0, -1], 1], self.table[[0, -1], 2] = math.inf, ends
        if slopes:
            self.table[[0, -1], -1] = ends

    def halved(self, x: Any) -> Any:
        """Return the coordinate in the unit of the table."""
        return x if self.half == 1.0 else self.half * x


class Reduced:
    """A map of one score in the form that the formulas read: intervals are steps, and knots are pieces."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.written: dict[str, Any] = as_arrays(data)
        self.kind: str = data["kind"]
        self.content: dict[str, Any] = self.written
        self.scale: dict[str, Any] = self.written["scale"]
        kind = self.scale["kind"]
        #: The least and the greatest score that have a probability.
        self.domain = (0.0, 1.0) if kind in ("probability", "logit") else (-sys.float_info.max, sys.float_info.max)
        #: The t for which a score s of a decreasing scale is read as t − s.
        self.mirror = sum(self.domain) if self.scale.get("decreasing", False) else None
        #: The bounds of the coordinate.
        self.ends = self.scale.get("lo", 0.0), self.scale.get("hi", 1.0)
        #: Whether coordinates are log-odds.
        self.logistic: bool = kind == "logit" or (kind == "interval" and not math.isfinite(self.ends[1] - self.ends[0]))
        if kind == "empirical-cdf":
            knots, ranks = self.scale["knots"], self.scale["ranks"]
            slopes = np.concatenate(([0.0], np.diff(ranks) / np.diff(knots), [0.0]))
            self.ranks = np.column_stack((np.append(knots[0], knots), slopes, np.append(ranks[0], ranks)))
        if "interval" in self.kind:
            self._read_intervals()
        elif "knots" in LISTS.get(self.kind, ()):
            self.between: Knots = Knots(*(self.written[name] for name in LISTS[self.kind]))
        #: Scores with a value of their own: the first of each, and a table of the float after its last and the value.
        self.spots: dict[str, Array] | None = None
        if "spots" in data and len(data["spots"]["first"]):
            first, last, values = (self.written["spots"][name] for name in LISTS["spots"])
            after = np.append(-math.inf, np.nextafter(last, math.inf))
            self.spots = {"first": first, "ends": np.column_stack((after, np.append(0.0, values)))}

    def largest(self, name: str) -> float:
        """Return the absolute value that no number of a list exceeds."""
        return float(np.abs(self.written[name]).max())

    def _read_intervals(self) -> None:
        """Set steps of the merged probability, or of both ends if the rule needs the score."""
        self.folds: list[dict[str, Any]] = [self.written] if self.kind == "interval" else self.written["folds"]
        #: The folds that take part in the merge: those with observations, or all if there are none.
        self.observed = [k for k, fold in enumerate(self.folds) if _has_observations(fold)] or list(
            range(len(self.folds))
        )
        cuts = np.unique(np.concatenate([fold[end]["cuts"] for fold in self.folds for end in ("lower", "upper")]))
        ends = [interval(Arrays, np.append(-math.inf, cuts), self.folds[k]) for k in self.observed]
        if self.written["point"] == SCORE_PRIOR:
            self.content = {**self.written, "cuts": cuts, "pairs": np.column_stack(ends[0])}
            return
        values = merged(self.written["point"], *zip(*ends, strict=True))
        _ensure(bool(((values >= -ROUNDING) & (values <= 1.0 + ROUNDING)).all()), "an interval has no probability")
        self.kind, self.content = "steps", {"cuts": cuts, "values": values}


def _has_observations(fold: dict[str, Any]) -> bool:
    """Return whether a fold has any; the pair of an empty fold is (0, 1) and is not merged."""
    lower, upper = fold["lower"], fold["upper"]
    return len(lower["cuts"]) + len(upper["cuts"]) > 0 or lower["values"][0] > 0.0 or upper["values"][0] < 1.0


def as_arrays(value: Any, name: str = "") -> Any:
    """Convert lists of numbers to arrays, recursively; bounds given as null become infinite."""
    if isinstance(value, dict):
        return {name: as_arrays(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_arrays(fold) for fold in value] if name == "folds" else np.array(value, dtype=np.float64)
    return {"lo": -math.inf, "hi": math.inf}[name] if value is None else value


# -- points of Venn-Abers intervals ------------------------------------------------------------------------------


def brier_minimax(lower: Any, upper: Any) -> Any:
    """Return p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4).

    >>> brier_minimax(0.25, 0.75)
    0.5
    """
    return upper + 0.5 * (lower * lower - upper * upper)


def self_consistent(lower: Any, upper: Any) -> Any:
    """Return p₀ / (1 − p₁ + p₀), which solves p = (1 − p)·p₀ + p·p₁; ½ on the vacuous interval [0, 1].

    >>> self_consistent(0.25, 0.75), self_consistent(0.0, 1.0)
    (0.5, 0.5)
    """
    vacuous = 1.0 - upper + lower <= 0.0
    return (lower + 0.5 * vacuous) / (1.0 - upper + lower + vacuous)


#: The rule that needs the score, the worth of its prior in events (`streamcal.maps.points`), and its least divisor, for
#: intervals that rounding has made a point at 0 or 1.
SCORE_PRIOR, PRIOR_EVENTS, TINY = "score-prior", 0.25, 1e-300


def score_prior(o: Any, lower: Any, upper: Any, score: Any, least: float, greatest: float) -> Any:
    """Merge one pair by `score-prior`; `streamcal.maps.points` has the formula and its reason."""
    middle = clip(o, clip(o, score, least, greatest), lower, upper)
    rarer = o.max(o.min(middle, 1.0 - middle), TINY)
    width = PRIOR_EVENTS * (upper - lower)
    return (lower * rarer + width * middle) / ((1.0 - upper + lower) * rarer + width)


def mean(values: Sequence[Any]) -> Any:
    """Return the arithmetic mean over the folds."""
    return sum(values[1:], start=values[0]) / float(len(values))


def geometric_mean(values: Sequence[Any]) -> Any:
    """Return the geometric mean over the folds; roots first, since a product of small numbers underflows."""
    roots = [value ** (1.0 / len(values)) for value in values]
    return math.prod(roots[1:], start=roots[0])


def log_merge(lower: Sequence[Any], upper: Sequence[Any]) -> Any:
    """Return GM(p₁) / (GM(1 − p₀) + GM(p₁)): minimal worst-case regret in log loss (paper 003, Algorithm 7)."""
    positive = geometric_mean(upper)
    return positive / (geometric_mean([1.0 - p for p in lower]) + positive)


def brier_merge(lower: Sequence[Any], upper: Sequence[Any]) -> Any:
    """Average p₁ + p₀²/2 − p₁²/2 over the folds: minimal worst-case regret in Brier score (paper 003, §4)."""
    return mean([brier_minimax(low, high) for low, high in zip(lower, upper, strict=True)])


def self_consistent_merge(lower: Sequence[Any], upper: Sequence[Any]) -> Any:
    """Solve p = (1 − p)·mean(p₀) + p·mean(p₁)."""
    return self_consistent(mean(lower), mean(upper))


#: Name of the rule → the probability of K pairs, one per fold.
MERGES: dict[str, Callable[..., Any]] = {
    "log-minimax": log_merge,
    "brier-minimax": brier_merge,
    "self-consistent": self_consistent_merge,
}


def merged(rule: Any, lower: Sequence[Any], upper: Sequence[Any]) -> Any:
    """Merge K pairs (p₀, p₁) into one probability."""
    if not isinstance(rule, str) or rule not in MERGES:
        raise ValueError(f"the point is {_shown(rule)}; known are {', '.join(MERGES)}, and {SCORE_PRIOR} for one")
    return MERGES[rule](lower, upper)


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
    for what, kind, known in (("map", data["kind"], KINDS), ("scale", scale["kind"], SCALES)):
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
