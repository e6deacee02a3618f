"""Calibration maps as C: one translation unit with its tables, a function of one score and one of an array.

The source is C99 and C++17, and needs libm alone. Numbers are hexadecimal floats, which are read without rounding. The
formulas are those of `streamcal.maps.portable` for one score.

Steps and knots are found without branches. Cells of equal width, each with the number of cuts before it, leave a few
cuts for a binary search over as many as the fullest cell contains. The cell of a number is a difference, a product and
a truncation, each of which keeps the order of its arguments whatever its rounding; so no cut before the cell is above
the number, and none after it below. Where the cuts lie too unevenly, they are a binary tree in the order of its levels
(Eytzinger's layout): a step is one comparison and one sum, and the path to a leaf is the number of cuts before it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.maps import portable
from streamcal.maps.reduced import Reduced, reduced

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
    double s = score;
    if (!({lo} <= s && s <= {hi}))
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
SIGMOID = """\
/* 1 / (1 + exp(-z)), without overflow. */
static inline double {name}_sigmoid(double z)
{{
    double e = exp(-fabs(z));
    return (z >= 0.0 ? 1.0 : e) / (1.0 + e);
}}
"""


class Source:
    """The parts of one translation unit: static tables and functions, and the lines of the function of one score."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[str] = []
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        """Add lines to the function."""
        self.lines += lines

    def table(self, label: str, values: NDArray[Any], kind: str = "double") -> str:
        """Add a static table, with a row for each row of a matrix, and return its name."""
        name, size = f"{self.name}_{label}", "".join(f"[{n}]" for n in values.shape)
        if values.ndim == 2:
            rows = [f"    {{{', '.join(map(number, row))}}}," for row in values.tolist()]
        else:
            texts = [number(value) if kind == "double" else str(value) for value in values.tolist()]
            wide = 4 if kind == "double" else 16
            rows = ["    " + " ".join(f"{one}," for one in texts[i : i + wide]) for i in range(0, len(texts), wide)]
        self.parts.append("\n".join([f"static const {kind} {name}{size} = {{", *rows, "};", ""]))
        return name

    def helper(self, text: str) -> None:
        """Add a static function once."""
        part = text.format(name=self.name)
        if part not in self.parts:
            self.parts.append(part)

    def count(self, label: str, cuts: NDArray[np.float64], x: str) -> str:
        """Add a table of cuts, and return C for the number of cuts ≤ x."""
        if len(cuts) == 0:
            return "0"
        cells = cells_of(cuts)
        if cells is None:
            self.helper(RANK)
            return f"{self.name}_rank({self.table(label, tree_of(cuts))}, {len(cuts).bit_length()}, {x})"
        self.helper(COUNT)
        self.helper(CELL)
        table = self.table(label, np.append(cuts, np.full(cells.fullest, np.inf)))
        starts = self.table(f"{label}_before", cells.before, "unsigned")
        ends = ", ".join(map(number, (*cuts[[0, -1]].tolist(), cells.per_unit)))
        self.add(f"size_t {label} = {starts}[{self.name}_cell({x}, {ends})];")
        return f"{label} + {self.name}_count({table} + {label}, {cells.fullest}, {x})"

    def sigmoid(self, z: str) -> str:
        """Return C for the sigmoid of z."""
        self.helper(SIGMOID)
        return f"{self.name}_sigmoid({z})"

    def clip(self, x: str, lo: float, hi: float) -> None:
        """Add bounds of a variable; infinite ones add nothing."""
        if lo > -math.inf:
            self.add(f"{x} = {x} < {number(lo)} ? {number(lo)} : {x};")
        if hi < math.inf:
            self.add(f"{x} = {x} > {number(hi)} ? {number(hi)} : {x};")


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
        held = np.bincount(places)
        if int(held.max()).bit_length() < fewest:
            before = np.concatenate(([0], np.cumsum(held)[:-1]))
            best, fewest = Cells(per_unit, before, int(held.max())), int(held.max()).bit_length()
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


def number(value: float) -> str:
    """Write a number as a hexadecimal literal, which has no rounding; small whole numbers in decimals.

    >>> number(0.1), number(-2.0), number(math.inf)
    ('0x1.999999999999ap-4', '-2.0', 'HUGE_VAL')
    """
    if math.isinf(value):
        return "HUGE_VAL" if value > 0.0 else "-HUGE_VAL"
    return repr(float(value)) if value == round(value) and abs(value) < 1000.0 else float(value).hex()


def c_source(data: dict[str, Any], name: str) -> str:
    """Return the plain data of a map as a C source whose functions are `name` and `name`_many."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,50}", name) or name in KEYWORDS.split():
        raise InputError(f"name={name!r} is not possible; give an identifier of C of at most 51 characters")
    map, source = reduced(data), Source(name)
    if map.mirror is not None:
        source.add(f"s = {number(map.mirror)} - s;")
    if map.spots is not None and len(map.spots["first"]) > 0:
        _add_spots(source, map.spots)
    _add_coordinate(source, map.scale)
    _add_probability(source, map)
    lo, hi = (number(end) for end in map.domain)
    body = "".join(f"    {line}\n" for line in source.lines)
    return SOURCE.format(kind=map.kind, name=name, lo=lo, hi=hi, parts="\n".join(source.parts), body=body)


def _add_spots(source: Source, spots: dict[str, Any]) -> None:
    """Add the scores with values of their own."""
    place = source.count("first", spots["first"], "s")
    last, values = source.table("last", spots["last"]), source.table("own", spots["values"])
    source.add(f"size_t spot = {place};", f"if (spot > 0 && s <= {last}[spot - 1])", f"    return {values}[spot - 1];")


def _add_coordinate(source: Source, scale: dict[str, Any]) -> None:
    if scale["kind"] == "empirical-cdf":
        knots, ranks = scale["knots"], scale["ranks"]
        slopes = np.concatenate(([0.0], np.diff(ranks) / np.diff(knots), [0.0]))
        columns = np.append(knots[0], knots), slopes, np.append(ranks[0], ranks)
        place, table = source.count("places", knots, "s"), source.table("ranks", np.column_stack(columns))
        source.add(f"const double *rank = {table}[{place}];")
        source.clip("s", float(knots[0]), float(knots[-1]))
        source.add("double x = rank[1] * (s - rank[0]) + rank[2];")
        return
    source.add("double x = log(s) - log1p(-s);" if scale["kind"] == "logit" else "double x = s;")
    if scale["kind"] != "probability":
        source.clip("x", scale["lo"], scale["hi"])


def _add_probability(source: Source, map: Reduced) -> None:
    """Add the return statement."""
    content = map.content
    if map.kind == "steps":
        place = source.count("cuts", content["cuts"], "x")
        source.add("(void)x;" if place == "0" else "", f"return {source.table('values', content['values'])}[{place}];")
    elif map.kind == "score-prior":
        _add_score_prior(source, content)
    elif map.kind in ("lines", "log-odds-lines", "cubics"):
        _add_pieces(source, map)
    elif map.kind == "sigmoid":
        line = f"{number(content['slope'])} * x + {number(content['offset'])}"
        source.add(f"return {source.sigmoid(line)};")
    elif map.kind == "sigmoids":
        _add_sigmoids(source, content)
    elif map.kind == "beta":
        _add_beta(source, map)
    elif map.kind == "identity":
        source.add(f"return {source.sigmoid('x') if map.logistic else f'{_unit(map)} + 0.0'};")
    else:
        source.add(f"double u = {_unit(map)};")
        (_add_chebyshev if map.kind == "chebyshev" else _add_bernstein)(source, content["coefficients"].tolist())
        if map.kind == "bernstein-logistic":
            source.add(f"return {source.sigmoid('p')};")
        else:
            source.clip("p", 0.0, 1.0)
            source.add("return p;")
    source.lines = [line for line in source.lines if line]


def _unit(map: Reduced) -> str:
    lo, hi = map.ends
    return "x" if (lo, hi) == (0.0, 1.0) else f"(x - {number(lo)}) / {number(hi - lo)}"


def _add_pieces(source: Source, map: Reduced) -> None:
    place, table = source.count("knots", map.content["knots"], "x"), source.table("pieces", map.content["pieces"])
    x = "0.5 * x" if map.halved else "x"
    source.add(f"const double *piece = {table}[{place}];", f"double t = ({x} - piece[0]) / piece[1];")
    if map.kind != "cubics":
        z = "piece[2] + t * piece[3]"
        source.add(f"return {source.sigmoid(z) if map.kind == 'log-odds-lines' else z};")
        return
    source.add(
        "double p = piece[2] + piece[3] * t * t * (3.0 - 2.0 * t)",
        "           + t * (1.0 - t) * (piece[4] * (1.0 - t) - piece[5] * t);",
        "p = p < piece[2] ? piece[2] : p;",
        "return p > piece[6] ? piece[6] : p;",
    )


def _add_sigmoids(source: Source, content: dict[str, Any]) -> None:
    rows = np.column_stack([content[name] for name in ("weights", "slopes", "offsets")])
    table = source.table("parts", rows)
    part = source.sigmoid(f"{table}[i][1] * x + {table}[i][2]")
    source.add("double p = 0.0;", f"for (size_t i = 0; i < {len(rows)}; i++)", f"    p += {table}[i][0] * {part};")
    source.add("return p < 1.0 ? p : 1.0;")


def _add_beta(source: Source, map: Reduced) -> None:
    limit, kind = portable.LOGIT_LIMIT, map.scale["kind"]
    if kind == "logit" or map.logistic:
        source.add("double z = x;")
    else:
        source.add(f"double u = {_unit(map)};", "double z = log(u) - log1p(-u);")
    if kind != "logit":
        source.clip("z", -limit, limit)
    a, b, c = (number(map.content[name]) for name in "abc")
    source.add("double tail = log1p(exp(-fabs(z)));")
    line = f"{a} * ((z < 0.0 ? z : 0.0) - tail) + {b} * ((z > 0.0 ? z : 0.0) + tail) + {c}"
    source.add(f"return {source.sigmoid(line)};")


def _add_bernstein(source: Source, coefficients: list[float]) -> None:
    """Add `p`, by Horner's scheme in the smaller of u/(1 − u) and its inverse, whose powers are at most 1."""
    n = len(coefficients) - 1
    terms = [math.comb(n, i) * c for i, c in enumerate(coefficients)]
    table = source.table("terms", np.array([terms[::-1], terms]))
    source.add(
        "double small = u < 0.5 ? u : 1.0 - u, large = 1.0 - small, p = 0.0;",
        f"const double *terms = {table}[u < 0.5 ? 0 : 1];",
        f"for (size_t i = 0; i <= {n}; i++)",
        "    p = p * (small / large) + terms[i];",
        f"p *= pow(large, {n}.0);",
    )


def _add_chebyshev(source: Source, coefficients: list[float]) -> None:
    """Add `p`, by Clenshaw's algorithm in Reinsch's form, from the nearer end."""
    first, *rest = coefficients
    turned = [-c if m % 2 == 0 else c for m, c in enumerate(rest)]
    source.add("double factor = -4.0 * (u < 0.5 ? u : 1.0 - u), value = 0.0, step = 0.0;")
    if rest:
        table = source.table("terms", np.array([turned[::-1], rest[::-1]]))
        source.add(
            f"const double *terms = {table}[u < 0.5 ? 0 : 1];",
            f"for (size_t i = 0; i < {len(rest)}; i++) {{",
            "    step += factor * value + terms[i];",
            "    value += step;",
            "}",
        )
    source.add(f"double p = {number(first)} + 0.5 * factor * value + step;")


def _add_score_prior(source: Source, content: dict[str, Any]) -> None:
    place = source.count("cuts", content["cuts"], "x")
    table = source.table("ends", np.column_stack((content["lower"], content["upper"])))
    source.add(f"const double *ends = {table}[{place}];", "double m = x;")
    source.clip("m", content["least"], content["greatest"])
    source.add(
        "m = m < ends[0] ? ends[0] : m;",
        "m = m > ends[1] ? ends[1] : m;",
        "double r = m < 1.0 - m ? m : 1.0 - m;",
        f"r = r > {number(portable.TINY)} ? r : {number(portable.TINY)};",
        f"double width = {number(portable.PRIOR_EVENTS)} * (ends[1] - ends[0]);",
        "return (ends[0] * r + width * m) / ((1.0 - ends[1] + ends[0]) * r + width);",
    )
