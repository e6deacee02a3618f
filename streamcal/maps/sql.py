"""SQL text for calibration maps: only CASE, comparisons, + − * /, and LN and EXP where a map needs them.

The formulas are those of `streamcal.maps.portable`. An expression has no variables, and a value that is written out
twice doubles the text. `Formula` therefore records a formula as a graph, splits the scores where one of its comparisons
turns, and writes each piece alone: without comparisons, and with all that is constant there as one number.

The text is the same for all databases but PostgreSQL and Snowflake. There a plain literal is a decimal, and a product
that underflows is an error, or may be one. `writing_for` makes the functions below write typed literals and keep every
factor well above underflow.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.maps.portable import Arrays, Reduced, Target, Term, probability_of
from streamcal.parameters.scales import first_floats

#: Databases for which text can be written.
DIALECTS = ("sqlite", "postgresql", "duckdb", "bigquery", "spark", "snowflake", "clickhouse")
#: Those in which an overflow is an error, and an underflow too. Snowflake, which no test runs, is taken to be strict.
OVERFLOW_FAILS, UNDERFLOW_FAILS = (
    frozenset({"postgresql", "bigquery", "snowflake"}),
    frozenset({"postgresql", "snowflake"}),
)
#: How a float is written from its text, where a plain literal is a decimal.
TYPED = {"postgresql": "float8'{}'", "snowflake": "CAST('{}' AS DOUBLE)"}
_DIALECT: ContextVar[str] = ContextVar("dialect", default="sqlite")

#: Branches of one CASE. 10⁵ pieces are then nested 5 deep, well below the limits of databases on the depth of
#: expressions (SQLite: 100 in its parser, 1,000 in expressions); a flat CASE would need 10⁵ comparisons.
BRANCHES = 16
#: EXP of larger numbers is an error in some databases; the sigmoid of minus this is below 1e-300.
LARGEST_EXPONENT = 700.0
#: The same where an underflow is an error: factors are then at least 1e-87, and may be multiplied.
LARGEST_CAREFUL_EXPONENT = 200.0
#: Scores nearer to 0 are 0 where an underflow is an error, and smaller coefficients are this.
LEAST_COORDINATE, LEAST_COEFFICIENT = 1e-100, 1e-200
#: Scores beyond ± this are read as this where an overflow is an error; no knot that was learned is further away.
LARGEST_COORDINATE = 1e100
#: Degrees of a Chebyshev series per piece. T₄₀ is then accurate to 1e-13; with 8 degrees per piece to 3e-12, because of
#: cancellation between powers; 2 are no more accurate and double the length of the text.
PIECE_DEGREE = 4
#: Truncation error of the series of a piece; the values it interpolates have rounding errors of a few times 1e-15.
PIECE_TAIL = 1e-14

Array = NDArray[np.float64]


@contextmanager
def writing_for(dialect: str) -> Iterator[None]:
    """Let the functions of this module write for a database."""
    token = _DIALECT.set(dialect)
    try:
        yield
    finally:
        _DIALECT.reset(token)


def literal(value: float) -> str:
    """Write a literal that reads back as the same float; the exponent keeps it from being read as a decimal."""
    text = repr(float(value))
    if _DIALECT.get() in TYPED:
        return TYPED[_DIALECT.get()].format(text)
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def case(column: str, cuts: Sequence[float], leaves: Sequence[str]) -> str:
    """Write leaves[i] for cuts[i−1] ≤ column < cuts[i], by nested CASEs of `BRANCHES` each."""
    if len(leaves) == 1:
        return leaves[0]
    size = BRANCHES
    while size * BRANCHES < len(leaves):
        size *= BRANCHES
    size = 1 if len(leaves) <= BRANCHES else size
    starts = range(0, len(leaves), size)
    branches = [case(column, cuts[start : start + size - 1], leaves[start : start + size]) for start in starts]
    ends = [literal(cuts[start - 1]) for start in starts[1:]]
    whens = [f"WHEN {column} < {end} THEN {branch}" for end, branch in zip(ends, branches[:-1], strict=True)]
    return f"CASE {' '.join(whens)} ELSE {branches[-1]} END"


def rising(scale: Any, column: str) -> str:
    """Write the score of a scale as one that rises with the label."""
    return f"({literal(sum(scale.domain))} - {column})" if scale.decreasing else column


def expression(data: dict[str, Any], column: str) -> str:
    """Return the plain data of a map as an expression of a column."""
    map = Reduced(data)
    lo, hi = map.domain
    formula = Formula(column if map.mirror is None else f"({literal(map.mirror)} - {column})")
    map.mirror = None  # the formula is that of the rising score
    whole = formula.text(probability_of(formula, map, formula.score), map.domain, map.scale["kind"] != "logit")
    return f"CASE WHEN {column} >= {literal(lo)} AND {column} <= {literal(hi)} THEN {whole} END"


class Node(Term):
    """An operation of a formula, and its operands."""

    def __init__(self, target: Formula, name: str, *operands: Any) -> None:
        super().__init__(target, name)
        self.place, self.operands = len(target.nodes), operands


class Text(NamedTuple):
    """A part of an expression."""

    sql: str
    binds: int = 2  #: a negative −1, a sum 0, a product 1, an operand 2


#: The operations on arrays, and on numbers.
VALUES: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name.lower()) for name in ("Add", "Sub", "Mul", "Pow", "Neg")},
    **{name: getattr(Arrays, name.lower()) for name in ("Exp", "Log", "Log1p", "Abs", "Min", "Max", "Where")},
    "Div": operator.truediv,
    "Less": operator.lt,
    "Count": lambda x, cuts: Arrays.count(cuts, x),
    "Row": lambda i, column: Arrays.row(column, i),
    "Sigmoid": Arrays.sigmoid,
    "Series": Arrays.series,
}
#: The operations that return one of their operands, or its negative, and when they return the first.
CHOICES: dict[str, Callable[..., Any]] = {
    "Min": operator.lt,
    "Max": operator.ge,
    "Abs": lambda x: x >= 0.0,
    "Where": lambda condition, *operands: condition,
}


class Formula(Target):
    """A formula of a score as a graph: a list of operations, each after its operands."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.nodes: list[Node] = []
        self.score = self("Score")

    def __call__(self, operator: str, *operands: Any) -> Node:
        node = Node(self, operator, *operands)
        self.nodes.append(node)
        return node

    def count(self, cuts: Array, x: Term) -> Node:
        return self("Count", x, cuts)

    def row(self, table: Array, i: Term) -> Any:
        columns = table.T if table.ndim == 2 else [table]
        entries = [self("Row", i, column) for column in columns]
        return entries if table.ndim == 2 else entries[0]

    def inside(self, p: Any, lo: Any, hi: Any) -> Any:
        """Return the result as it is: rounding may carry it out of the bounds."""
        return p

    def sigmoid(self, z: Any, largest: float = math.inf) -> Node:
        return self("Sigmoid", z, largest)

    def series(self, u: Any, coefficients: Sequence[float]) -> Node:
        return self("Series", u, coefficients)

    def cubic(self, t: Any, low: Any, step: Any, rise: Any, fall: Any) -> Any:
        """Add the cubic by Horner's scheme: t is written three times."""
        return (((rise + fall - 2.0 * step) * t + (3.0 * step - 2.0 * rise - fall)) * t + rise) * t + low

    # -- pieces --------------------------------------------------------------------------------------------------

    def text(self, result: Node, domain: tuple[float, float], strict: bool) -> str:
        """Write a result for all scores in a domain; if `strict`, without an error in any dialect."""
        with np.errstate(all="ignore"):
            starts, limits = np.array(domain[:1]), self._limits() if strict else Limits()
            for node in self.nodes:
                if node.name in ("Count", "Series"):
                    starts = self._with_places(starts, node, domain)
            starts = limits.with_own(starts, domain)
            for node in self.nodes:
                if node.name in CHOICES:
                    starts = self._with_turns(starts, node, domain[1])
            values = self._values(starts)
            chosen = {node.place: self._chosen(node, values) for node in self.nodes if node.name in CHOICES}
            texts = []
            for k, score in enumerate(limits.read(starts)):
                piece = Piece(Text(self.column) if score is None else score, k, values, chosen)
                texts.append(_operand(piece.of(result), 0))
        new = [k for k in range(len(texts)) if k == 0 or texts[k] != texts[k - 1]]
        return case(self.column, starts[new[1:]].tolist(), [texts[k] for k in new])

    def _values(self, scores: Array, until: int | None = None) -> list[Any]:
        """Return the value of each operation before `until`, at each score."""
        values: list[Any] = [scores]
        for node in self.nodes[1:until]:
            values.append(VALUES[node.name](*_of(node.operands, values)))
        return values

    @staticmethod
    def _chosen(node: Node, values: list[Any]) -> Any:
        """Return where a choice is the first operand."""
        return CHOICES[node.name](*_of(node.operands, values))

    def _with_places(self, starts: Array, node: Node, domain: tuple[float, float]) -> Array:
        """Add the first score at or above each cut of a list of steps, or of a series."""
        x, cuts = node.operands
        cuts = np.unique(cuts if node.name == "Count" else _ends_of(cuts)[1:-1])

        def at(scores: Array) -> Any:
            return self._values(scores, x.place + 1)[x.place]

        first, last = at(np.array(domain))
        cuts = cuts[(cuts > first) & (cuts <= last)]
        return np.unique(np.append(starts, first_floats(lambda scores: at(scores) >= cuts, domain, len(cuts))))

    def _with_turns(self, starts: Array, node: Node, end: float) -> Array:
        """Add the first score in each piece at which a choice is another one; there is at most one turn in a piece."""

        def chosen(scores: Array) -> Any:
            return self._chosen(node, self._values(scores, node.place))

        ends = np.append(np.nextafter(starts[1:], -math.inf), end)
        last = chosen(ends)
        turns = chosen(starts) != last
        within = starts[turns], ends[turns]
        firsts = first_floats(lambda scores: chosen(scores) == last[turns], within, int(turns.sum()))
        return np.unique(np.append(starts, firsts))

    def _limits(self) -> Limits:
        """Return which scores a dialect reads as others, since arithmetic with them may be an error."""
        dialect, largest = _DIALECT.get(), math.inf
        if dialect in OVERFLOW_FAILS:
            cuts = [np.abs(node.operands[1]) for node in self.nodes if node.name == "Count"]
            places = np.concatenate([np.array([LARGEST_COORDINATE]), *cuts])
            largest = float(places[places < sys.float_info.max].max())
        return Limits(LEAST_COORDINATE if dialect in UNDERFLOW_FAILS else 0.0, largest)


class Limits(NamedTuple):
    """Scores nearer to 0 than `least` are read as 0, and those further away than `largest` as ± that."""

    least: float = 0.0
    largest: float = math.inf

    def with_own(self, starts: Array, domain: tuple[float, float]) -> Array:
        """Add the first scores from which another reading applies."""
        own = [-self.largest, math.nextafter(-self.least, 1.0), self.least, math.nextafter(self.largest, math.inf)]
        own = [score for score in own if domain[0] < score <= domain[1]] if self != Limits() else []
        return np.unique(np.append(starts, own))

    def read(self, starts: Array) -> Iterator[float | None]:
        """Yield the score as which the scores of each piece are read, or None for themselves."""
        for start in starts.tolist():
            if abs(start) < self.least:
                yield 0.0
            else:
                yield math.copysign(self.largest, start) if abs(start) > self.largest else None


class Piece:
    """A piece of the scores: the place of its first one in the values of each operation, and what is chosen there."""

    def __init__(self, score: Text | float, k: int, values: list[Any], chosen: dict[int, Any]) -> None:
        self.k, self.values, self.chosen = k, values, chosen
        self._written: dict[int, Text | float] = {0: score}

    def of(self, value: Any) -> Text | float:
        """Return the text of a value, or the number that it is on the whole piece."""
        if not isinstance(value, Node):
            return float(value)
        if value.place not in self._written:
            self._written[value.place] = self._of(value)
        return self._written[value.place]

    def _of(self, node: Node) -> Text | float:
        if node.name == "Row":
            return float(self.values[node.place][self.k])
        if node.name in CHOICES:
            first, *others = node.operands[1:] if node.name == "Where" else node.operands
            is_first = self.chosen[node.place][self.k]
            value = self.of(first if is_first or not others else others[0])
            return value if is_first or others else _negative(value)
        if node.name == "Series":
            return self._series(*node.operands)
        operands = [self.of(operand) for operand in node.operands]
        numbers = [np.float64(operand) for operand in operands if isinstance(operand, float)]
        if len(numbers) == len(operands):
            return float(VALUES[node.name](*numbers))
        return WRITTEN[node.name](*operands)

    def _series(self, u: Node, coefficients: Sequence[float]) -> Text | float:
        """Return a polynomial in powers of t, which runs from −1 to 1 on the piece.

        Its coefficients in Tₘ(t) decrease so fast that its powers hardly cancel (`PIECE_DEGREE`); it is truncated where
        its remainder is below `PIECE_TAIL`.
        """
        ends = _ends_of(coefficients)
        i = int(np.searchsorted(ends[1:-1], self.values[u.place][self.k], side="right"))
        middle, half = 0.5 * float(ends[i] + ends[i + 1]), 0.5 * float(ends[i + 1] - ends[i])
        terms = len(coefficients)
        t = np.polynomial.chebyshev.chebpts1(terms)
        at = Arrays.series(middle + half * t, coefficients)
        series = 2.0 / terms * (np.polynomial.chebyshev.chebvander(t, terms - 1).T @ at)
        series[0] *= 0.5
        left_out = np.cumsum(np.abs(series[::-1]))[::-1]  # bound on the error if the series ends before term i
        series = series[: max(1, int(np.count_nonzero(left_out > PIECE_TAIL)))]
        *powers, last = np.polynomial.chebyshev.cheb2poly(series).tolist()
        x = _quotient(_difference(self.of(u), middle), half)
        return reduce(lambda total, power: _sum(_product(total, x), power), reversed(powers), last)


def _of(operands: tuple[Any, ...], values: list[Any]) -> list[Any]:
    return [values[operand.place] if isinstance(operand, Node) else operand for operand in operands]


def _ends_of(coefficients: Sequence[float]) -> Array:
    """Return the ends of the pieces of a series: extrema of a Chebyshev polynomial, as it changes fastest there."""
    pieces = max(1, -(-(len(coefficients) - 1) // PIECE_DEGREE))
    return 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, pieces + 1))


# -- operations as text, of numbers or texts of which one is a text ---------------------------------------------------


def _operand(value: Text | float, binds: int = 2) -> str:
    """Write an operand of an operator that binds tighter than those which bind less than this."""
    if isinstance(value, float):
        return literal(value)
    return value.sql if value.binds >= binds else f"({value.sql})"


def _factor(value: Text | float) -> Text | float:
    """Return a number large enough that its product does not underflow where that is an error."""
    tiny = isinstance(value, float) and abs(value) < LEAST_COEFFICIENT and _DIALECT.get() in UNDERFLOW_FAILS
    return LEAST_COEFFICIENT if tiny else value


def _sum(a: Text | float, b: Text | float) -> Text | float:
    for number, other in ((a, b), (b, a)):
        if number == 0.0 and (_factor(number) == 0.0 or (isinstance(other, Text) and other.binds != 1)):
            return other
    return Text(f"{_operand(_factor(a), 0)} + {_operand(_factor(b), 1)}", 0)


def _difference(a: Text | float, b: Text | float) -> Text | float:
    return a if b == 0.0 else Text(f"{_operand(a, 0)} - {_operand(b, 1)}", 0)


def _product(a: Text | float, b: Text | float) -> Text | float:
    if 0.0 in (a, b) or 1.0 in (a, b):
        return 0.0 if 0.0 in (a, b) else b if a == 1.0 else a
    return Text(f"{_operand(_factor(a), 1)} * {_operand(_factor(b), 2)}", 1)


def _quotient(a: Text | float, b: Text | float) -> Text | float:
    if a == 0.0 or b == math.inf:
        return 0.0
    return a if b == 1.0 else Text(f"{_operand(a, 1)} / {_operand(b, 2)}", 1)


def _negative(a: Text | float) -> Text | float:
    return -a if isinstance(a, float) else Text(f"-{_operand(a)}", -1)


def _power(a: Text | float, n: float) -> Text | float:
    """Multiply out, since not every database has powers."""
    return Text(" * ".join([_operand(a)] * int(n)), 1) if n > 0.0 else 1.0


def _sigmoid(z: Text, largest: float) -> Text:
    """Write 1 / (1 + exp(−z)), without overflow."""
    bound = LARGEST_CAREFUL_EXPONENT if _DIALECT.get() in UNDERFLOW_FAILS else LARGEST_EXPONENT
    x, end = _operand(z), literal(bound)
    inside = f"(1e0 / (1e0 + EXP(-{x})))"
    if largest <= bound:
        return Text(inside)
    return Text(f"CASE WHEN {x} < -{end} THEN 0e0 WHEN {x} < {end} THEN {inside} ELSE 1e0 END")


WRITTEN: dict[str, Callable[..., Text | float]] = {
    "Add": _sum,
    "Sub": _difference,
    "Mul": _product,
    "Div": _quotient,
    "Pow": _power,
    "Neg": _negative,
    "Exp": lambda a: Text(f"EXP({a.sql})"),
    "Log": lambda a: Text(f"LN({a.sql})"),
    "Log1p": lambda a: Text(f"LN(1e0 - {a.sql[1:]})" if a.binds < 0 else f"LN(1e0 + {_operand(a, 1)})"),
    "Sigmoid": _sigmoid,
}
