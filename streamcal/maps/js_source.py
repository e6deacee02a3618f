"""Calibration maps as JavaScript: an ES module with its tables and a function of one score, or of one of each fold.

The formulas are those of `streamcal.maps.portable`.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from numpy.typing import NDArray

from streamcal.maps.c_source import Source
from streamcal.maps.portable import Reduced, Term, of_folds, probability_of

MODULE = """\
// A calibration map of kind {kind} for scores from {lo} to {hi}, written by streamcal.

{parts}
const inside = (score) => Number.isFinite(score) && {lo} <= score && score <= {hi};

/** The probability of a score; NaN for NaN and for what is no score in this range. */
export function calibrate(score) {{
    if (!inside(score)) return NaN;
{body}}}
"""
FOLDS = """\
// A calibration map of {size} folds for scores from {lo} to {hi}, written by streamcal.

{parts}
const inside = (score) => Number.isFinite(score) && {lo} <= score && score <= {hi};

/** The probability of one score, or of one of each fold; NaN for what is no score in this range. */
export function calibrate(score, ...more) {{
    if (more.length > 0) return merged(score, ...more);
    if (!inside(score)) return NaN;
{body}}}

function merged({names}) {{
    if (![{names}].every(inside)) return NaN;
{merged}}}
"""
COUNT = """\
/** The number of cuts that are at most x. */
function count(cuts, x) {{
    let first = 0;
    let end = cuts.length;
    while (first < end) {{
        const middle = (first + end) >>> 1;
        if (cuts[middle] <= x) first = middle + 1;
        else end = middle;
    }}
    return first;
}}
"""


def literal(value: float) -> str:
    """Write a number, which reads back as the same float.

    >>> literal(0.1), literal(float("-inf"))
    ('0.1', '-Infinity')
    """
    return json.dumps(float(value))


class Module(Source):
    """JavaScript for one score, with its tables and functions."""

    operators: ClassVar[dict[str, str]] = {
        **Source.operators,
        "Pow": "{} ** {}",
        "Exp": "Math.exp({})",
        "Log": "Math.log({})",
        "Log1p": "Math.log1p({})",
        "Abs": "Math.abs({})",
        "Less": "Number({} < {})",
    }
    counter = "let i"
    number = staticmethod(literal)

    def source(self, map: Reduced) -> str:
        lo, hi = map.domain
        body = self.body(probability_of(self, map, Term(self, "score")))
        texts = {"lo": lo, "hi": hi, "body": body, "kind": map.kind}
        if map.written["kind"] != "cross-interval":
            return MODULE.format(**texts, parts="\n".join(self.parts))
        scores = [Term(self, f"score{k}") for k in range(len(map.folds))]
        merged, names = self.body(of_folds(self, map, scores)), ", ".join(score.name for score in scores)
        return FOLDS.format(**texts, parts="\n".join(self.parts), size=len(scores), names=names, merged=merged)

    def add(self, text: str, kind: str = "") -> None:
        self.lines.append(f"let {text};" if kind else f"{text};")

    def table(self, values: NDArray[Any], kind: str = "double") -> str:
        self.parts.append(f"const table{len(self.parts)} = {json.dumps(values.tolist())};")
        return f"table{len(self.parts) - 1}"

    def count(self, cuts: NDArray[Any], x: Term) -> Term:
        self.helper(COUNT)
        return self.variable(f"count({self.table(cuts)}, {x.name})")


def js_source(data: dict[str, Any]) -> str:
    """Return the plain data of a map as an ES module that exports `calibrate`."""
    return Module("").source(Reduced(data))
