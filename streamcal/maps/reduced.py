"""A written map in the form that code is generated from: intervals become steps, and knots become pieces.

`onnx_graph.py` and `c_source.py` generate code from a `Reduced` map. It is made from the plain data of `to_json`, so
that every export computes what the format states.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamcal.maps import portable
from streamcal.parameters.types import FloatArray

#: Kinds that are a function of the piece which contains the coordinate.
PIECEWISE = {"lines", "log-odds-lines", "cubics"}


@dataclass(frozen=True)
class Reduced:
    """A map of one score."""

    #: A kind of the format, without `interval` and `cross-interval`: those are `steps`, or `score-prior` with two
    #: values a step.
    kind: str
    scale: dict[str, Any]  #: the scale of the format; a missing bound is infinite
    #: The parameters of the kind, lists being arrays. Kinds of `PIECEWISE` have `knots` of shape (m,), and `pieces` of
    #: shape (m + 1, 4) or (m + 1, 7): left end, width, value at the left end, difference of the values, and for cubics
    #: rise, fall and value at the right end. Both outer pieces are constant and have an infinite width.
    content: dict[str, Any]
    #: Whether coordinates are halved before the division by the width, since a width overflows; `pieces` contains half
    #: of the left ends and widths.
    halved: bool = False

    @property
    def spots(self) -> dict[str, FloatArray] | None:
        """Return the scores with a value of their own, None for a map without any."""
        return self.content.get("spots")

    @property
    def domain(self) -> tuple[float, float]:
        """Return the least and the greatest score that have a probability."""
        if self.scale["kind"] in ("probability", "logit"):
            return 0.0, 1.0
        return -sys.float_info.max, sys.float_info.max

    @property
    def mirror(self) -> float | None:
        """Return the t for which a score s of a decreasing scale is read as t − s; None for another scale."""
        if not self.scale.get("decreasing", False):
            return None
        return sum(self.domain)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the bounds of the coordinate."""
        return self.scale.get("lo", 0.0), self.scale.get("hi", 1.0)

    @property
    def logistic(self) -> bool:
        """Return whether coordinates are log-odds."""
        return self.scale["kind"] == "logit" or (self.scale["kind"] == "interval" and not self.bounded)

    @property
    def bounded(self) -> bool:
        """Return whether the coordinate has two finite bounds."""
        return math.isfinite(self.ends[1] - self.ends[0])


def reduced(data: dict[str, Any]) -> Reduced:
    """Reduce the plain data of a map.

    >>> reduced({"kind": "identity", "scale": {"kind": "probability"}}).domain
    (0.0, 1.0)
    """
    plain = {name: value for name, value in data.items() if name not in ("scale", "kind", "streamcal_map")}
    scale, content, kind = portable.as_arrays(data["scale"]), portable.as_arrays(plain), data["kind"]
    if kind in ("interval", "cross-interval"):
        return _of_intervals(kind, scale, content)
    if kind not in PIECEWISE:
        return Reduced(kind, scale, content)
    knots, values = content["knots"], content["log_odds" if kind == "log-odds-lines" else "values"]
    with np.errstate(over="ignore"):
        halved = bool(np.isinf(np.diff(knots)).any())
    half = 0.5 if halved else 1.0
    columns = [_with_ends(0.0, half * knots[:-1], 0.0), _with_ends(math.inf, np.diff(half * knots), math.inf)]
    columns += [_with_ends(values[0], values[:-1], values[-1]), _with_ends(0.0, np.diff(values), 0.0)]
    if kind == "cubics":
        columns += [_with_ends(0.0, content[name], 0.0) for name in ("rises", "falls")]
        columns += [_with_ends(values[0], values[1:], values[-1])]
    spots = {"spots": content["spots"]} if "spots" in content else {}
    return Reduced(kind, scale, {"knots": knots, "pieces": np.column_stack(columns), **spots}, halved)


def _with_ends(first: float, inner: FloatArray, last: float) -> FloatArray:
    return np.concatenate(([first], inner, [last]))


def _of_intervals(kind: str, scale: dict[str, Any], content: dict[str, Any]) -> Reduced:
    """Reduce intervals to steps of the merged probability, or of both ends if the rule needs the score."""
    folds = content.get("folds", [content])
    cuts = np.unique(np.concatenate([fold[end]["cuts"] for fold in folds for end in ("lower", "upper")]))
    starts = np.append(-math.inf, cuts)
    if content["point"] != portable.SCORE_PRIOR:
        return Reduced("steps", scale, {"cuts": cuts, "values": portable.KINDS[kind](starts, content, scale)})
    lower, upper = portable.interval(starts, content)
    ends = {name: content[name] for name in ("least", "greatest")}
    return Reduced("score-prior", scale, {"cuts": cuts, "lower": lower, "upper": upper, **ends})
