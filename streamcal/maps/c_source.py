"""Calibration maps as C: one translation unit with its tables, a function of one score and one of an array.

The source is C99 and C++17, and needs libm alone. Numbers are hexadecimal floats, which are read without rounding. The
formulas are those of `streamcal.maps.portable`.

Steps and knots are found without branches. Cells of equal width, each with the number of cuts before it, leave a few
cuts for a binary search over as many as the fullest cell contains. The cell of a number is a difference, a product and
a truncation, each of which keeps the order of its arguments whatever its rounding; so no cut before the cell is above
the number, and none after it below. Where the cuts lie too unevenly, they are a binary tree in the order of its levels
(Eytzinger's layout): a step is one comparison and one sum, and the path to a leaf is the number of cuts before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.maps.portable import Numbers, Reduced, Term, probability_of

#: The words of C99 and C++17 that look like names.
KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const const_cast constexpr
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto
    if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq
"""
#: More cuts than this are searched without cells, whose number has to be an int.
MOST_CUTS = 2**26

SOURCE = """\
/* A calibration map of kind {kind} for scores from {lo} to {hi}, written by streamcal.

   double {name}(double score);
   void {name}_many(const double *scores, double *probabilities, size_t n);

   The probability of a score; NaN for NaN and for a score outside this range. Both functions may be called by many
   threads at once, and both arrays of {name}_many may be one. C99 or C++17; link with -lm. */

#include <float.h>
#include <math.h>
#include <stddef.h>

#if FLT_EVAL_METHOD == 2
#error "compile with -msse2 -mfpmath=sse, so that a double is rounded as one"
#endif
#ifdef __FAST_MATH__
#error "compile without -ffast-math, under which NaN cannot be told from a number"
#endif

#ifdef __cplusplus
extern "C" {{
#endif

double {name}(double score);
void {name}_many(const double *scores, double *probabilities, size_t n);

{parts}
double {name}(double score)
{{
    if (!({lo} <= score && score <= {hi}))
        return (double)NAN;
{body}}}

void {name}_many(const double *scores, double *probabilities, size_t n)
{{
    for (size_t i = 0; i < n; i++)
        probabilities[i] = {name}(scores[i]);
}}

#ifdef __cplusplus
}}
#endif
"""
CELL = """\
/* The cell of x among n of equal width from the first cut to the last. */
static inline size_t {name}_cell(double x, double first, double last, double cells)
{{
    double y = x < first ? first : x;
    y = y > last ? last : y;
    return (size_t)(int)((y - first) * cells);
}}
"""
COUNT = """\
/* The number of cuts that are at most x, for n > 0 of them in order. */
static inline size_t {name}_count(const double *cuts, size_t n, double x)
{{
    size_t first = 0;
    while (n > 1) {{
        size_t half = n / 2;
        first += half * (size_t)(cuts[first + half - 1] <= x);
        n -= half;
    }}
    return first + (size_t)(cuts[first] <= x);
}}
"""
RANK = """\
/* The number of cuts that are at most x, for a complete binary tree of cuts, level after level, from tree[1] on. */
static inline size_t {name}_rank(const double *tree, size_t levels, double x)
{{
    size_t place = 1;
    for (size_t level = 0; level < levels; level++)
        place = 2 * place + (size_t)(tree[place] <= x);
    return place - ((size_t)1 << levels);
}}
"""


def number(value: float) -> str:
    """Write a number as a hexadecimal literal, which has no rounding; small whole numbers in decimals.

    >>> number(0.1), number(-2.0), number(math.inf)
    ('0x1.999999999999ap-4', '-2.0', 'HUGE_VAL')
    """
    if math.isinf(value):
        return "HUGE_VAL" if value > 0.0 else "-HUGE_VAL"
    return repr(float(value)) if value == round(value) and abs(value) < 1000.0 else float(value).hex()


class Source(Numbers):
    """C for one score, with its static tables and functions."""

    operators: ClassVar[dict[str, str]] = {
        **Numbers.operators,
        "Pow": "pow({}, {})",
        "Log": "log({})",
        "Log1p": "log1p({})",
        "Abs": "fabs({})",
        "Min": "{0} < {1} ? {0} : {1}",
        "Max": "{0} > {1} ? {0} : {1}",
        "Where": "{} ? {} : {}",
    }
    block = (" {", "}")
    counter = "size_t i"
    number = staticmethod(number)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.parts: list[str] = []
        self._unread: dict[str, None] = {}

    def source(self, map: Reduced) -> str:
        """Return the translation unit."""
        body = self.body(probability_of(self, map, Term(self, "score")))
        lo, hi = (number(end) for end in map.domain)
        return SOURCE.format(kind=map.kind, name=self.name, lo=lo, hi=hi, parts="\n".join(self.parts), body=body)

    def body(self, result: Any) -> str:
        """Return the lines of a function, and begin the next one."""
        returned = f"return {self.text(result)};"
        lines = [*self.lines, *(f"(void){name};" for name in self._unread), returned]
        self.lines, self._unread = [], {}
        return "".join(f"    {line}\n" for line in lines)

    def add(self, text: str, kind: str = "") -> None:
        if kind:
            self._unread[text.split()[0]] = None
        self.lines.append(f"{kind} {text};".lstrip())

    def text(self, value: Any) -> str:
        if not isinstance(value, Term):
            return self.number(value)
        self._unread.pop(value.name.partition("[")[0], None)
        return value.name

    def table(self, values: NDArray[Any], kind: str = "double") -> str:
        """Add a static table, with a row for each row of a matrix, and return its name."""
        name, size = f"{self.name}_table{len(self.parts)}", "".join(f"[{n}]" for n in values.shape)
        if values.ndim == 2:
            rows = [f"    {{{', '.join(map(number, row))}}}," for row in values.tolist()]
        else:
            texts = [number(value) if kind == "double" else str(value) for value in values.tolist()]
            wide = 4 if kind == "double" else 16
            rows = ["    " + " ".join(f"{text}," for text in texts[i : i + wide]) for i in range(0, len(texts), wide)]
        self.parts.append("\n".join([f"static const {kind} {name}{size} = {{", *rows, "};", ""]))
        return name

    def helper(self, text: str) -> None:
        """Add a static function once."""
        part = text.format(name=self.name)
        if part not in self.parts:
            self.parts.append(part)

    def count(self, cuts: NDArray[np.float64], x: Term) -> Term:
        if len(cuts) == 0:
            return Term(self, "0")
        cells = cells_of(cuts)
        if cells is None:
            self.helper(RANK)
            return self.variable(
                f"{self.name}_rank({self.table(tree_of(cuts))}, {len(cuts).bit_length()}, {self.text(x)})", "size_t"
            )
        self.helper(COUNT)
        self.helper(CELL)
        table = self.table(np.append(cuts, np.full(cells.fullest, np.inf)))
        starts = self.table(cells.before, "unsigned")
        ends = ", ".join(map(number, (*cuts[[0, -1]].tolist(), cells.per_unit)))
        first = self.text(self.variable(f"{starts}[{self.name}_cell({self.text(x)}, {ends})]", "size_t"))
        return self.variable(
            f"{first} + {self.name}_count({table} + {first}, {cells.fullest}, {self.text(x)})", "size_t"
        )

    def row(self, table: NDArray[np.float64], i: Term) -> Any:
        text = f"{self.table(table)}[{self.text(i)}]"
        return self.variable(text) if table.ndim == 1 else self._pointed(table.shape[1], text)

    def choose(self, condition: Term, yes: Sequence[float], no: Sequence[float]) -> Sequence[Term]:
        if not yes:
            return []
        return self._pointed(len(yes), f"{self.table(np.array([no, yes]))}[{self.text(condition)}]")

    def _pointed(self, size: int, text: str) -> list[Term]:
        """Return the entries of a row of a table."""
        row = self.variable(text, "const double *").name
        return [Term(self, f"{row}[{k}]") for k in range(size)]

    def loop(self, table: NDArray[np.float64]) -> tuple[str, list[Term]]:
        name = self.table(table)
        entries = [Term(self, f"{name}[i][{k}]") for k in range(table.shape[1])]
        return f"for ({self.counter} = 0; i < {len(table)}; i++)", entries


@dataclass(frozen=True)
class Cells:
    """Cells of equal width from the first cut to the last."""

    per_unit: float  #: how many cells there are in a unit
    before: NDArray[np.intp]  #: the number of cuts before each cell
    fullest: int  #: the number of cuts in the fullest cell


def cells_of(cuts: NDArray[np.float64]) -> Cells | None:
    """Return the fewest cells that shorten the search most; None where they leave a third of it."""
    first, last = cuts[[0, -1]].tolist()
    best, fewest = None, (len(cuts).bit_length() + 2) // 3
    for cells in (1, 2, 4) if len(cuts) < MOST_CUTS else ():
        many = cells * 2 ** len(cuts).bit_length()
        per_unit = many / (last - first) if math.isfinite(last - first) and last > first else math.inf
        if not 0.0 < per_unit < math.inf:
            return None
        places = ((cuts - first) * per_unit).astype(np.intp)
        counts = np.bincount(places)
        if int(counts.max()).bit_length() < fewest:
            before = np.concatenate(([0], np.cumsum(counts)[:-1]))
            best, fewest = Cells(per_unit, before, int(counts.max())), int(counts.max()).bit_length()
    return best


def tree_of(cuts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cuts as a complete binary tree, level after level, with the root at place 1; infinite cuts fill it up.

    >>> tree_of(np.array([0.1, 0.2, 0.3, 0.4])).tolist()
    [0.0, 0.4, 0.2, inf, 0.1, 0.3, inf, inf]
    """
    levels = len(cuts).bit_length()
    size = 2**levels
    padded = np.append(cuts, np.full(size - 1 - len(cuts), np.inf))
    return np.concatenate(
        ([0.0], *(padded[size // 2 ** (level + 1) - 1 :: size // 2**level] for level in range(levels)))
    )


def c_source(data: dict[str, Any], name: str) -> str:
    """Return the plain data of a map as a C source whose functions are `name` and `name`_many."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,50}", name) or name in KEYWORDS.split():
        raise InputError(f"name={name!r} is not possible; give an identifier of C of at most 51 characters")
    return Source(name).source(Reduced(data))
