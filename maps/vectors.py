"""Write `vectors.json`: maps of every kind on every scale, with scores and the probabilities that belong to them.

    python maps/vectors.py                                             writes the file
    python maps/vectors.py node maps/javascript/main.mjs    tries an evaluator

An evaluator, as a program, reads lines. A line that begins with { is a map, as in `to_json`. Any other line holds one
score, or one a fold with a space between two, and is answered with the probability. NaN is written NaN.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from streamcal import EmpiricalCDF, Interval, Logit, Probability
from streamcal.maps.base import IdentityMap, ScaledMap
from streamcal.maps.intervals import CrossIntervalMap, IntervalMap
from streamcal.maps.knots import CubicMap, KnotMap, LogOddsMap
from streamcal.maps.points import MERGES, POINTS, SCORED_POINTS
from streamcal.maps.polynomials import BernsteinLogisticMap, BernsteinMap, ChebyshevMap
from streamcal.maps.sigmoids import BetaMap, SigmoidMap, SigmoidMixtureMap
from streamcal.maps.steps import StepMap
from streamcal.parameters.scales import Scale

FILE = Path(__file__).parent / "vectors.json"
#: Steps choose one of the numbers written; other kinds compute.
EXACT, COMPUTED = 0.0, 1e-12
SCALES: list[Scale] = [
    Probability(),
    Probability(decreasing=True),
    Logit(),
    Logit(-3.0, 1.0, decreasing=True),
    Interval(),
    Interval(-1.0, 0.75),
    Interval(0.0, 4.0, decreasing=True),
    EmpiricalCDF((-1.0, 0.125, 0.5, 3.0), (0.0, 0.25, 0.75, 1.0)),
    EmpiricalCDF((0.0, 0.3, 1.0), (0.0, 0.5, 1.0), decreasing=True),
]
#: What no scale takes, or only one of margins.
ODD = [math.nan, math.inf, -math.inf, -5e-324, math.nextafter(1.0, 2.0), -1e300, 1e300]
PLAIN = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1e-200, 1e-16, 0.1, 0.3, 0.5, 0.7, 0.9, math.nextafter(1.0, 0.0)]
PLAIN += [1.0, -0.5, 0.75, 3.0, 4.0]


def maps_on(scale: Scale) -> list[ScaledMap]:
    """Return a map of every kind; the places are within the bounds of the scale."""
    lo, hi = max(scale.lo, -4.0), min(scale.hi, 4.0)
    knots = lo + (hi - lo) * np.array([0.0, 0.1, 0.25, 0.5, 0.875, 1.0])
    values = np.array([0.0, 0.1, 0.1, 0.3, 0.95, 1.0])
    beside = np.array([np.nextafter(knots[3], -np.inf), knots[3], np.nextafter(knots[3], np.inf)])
    own = np.concatenate((knots[:3], beside, knots[4:]))
    close = lo + (hi - lo) * np.array([0.123, 0.271, 0.345, 0.5, 0.617, 0.745, 0.883])
    close = np.unique(np.concatenate((close, np.nextafter(close, np.inf), np.nextafter(close, -np.inf), [lo, hi])))
    slopes = np.array([0.1, 0.0, 0.1, 0.4, 0.0])
    maps: list[ScaledMap] = [
        IdentityMap(scale),
        SigmoidMap(scale, 1.5, -0.75),
        SigmoidMap(scale, -40.0, 3.0),
        SigmoidMixtureMap(scale, np.array([0.5, 0.25, 0.25]), (1.0, 0.5, 4.0), (-1.0, 0.0, 2.0)),
        BetaMap(scale, 0.5, 2.0, -0.25),
        StepMap(scale, knots[1:], values),
        StepMap(scale, np.empty(0), [0.25]),
        StepMap(scale, knots[1:5], values[:5], None, np.array([0.05, 0.1, 0.2, 0.5])),
        KnotMap(scale, knots, values),
        LogOddsMap(scale, knots, np.array([-9.0, -3.0, -3.0, 0.0, 2.0, 800.0])),
        LogOddsMap(scale, own, np.array([-9.0, -3.0, -2.0, -1.0, 3.0, -1.0, 2.0, 4.0])),
        CubicMap(scale, knots, values, slopes, slopes[::-1].copy()),
        # knots at neighbouring floats, between which the last bit of the coordinate decides
        KnotMap(scale, close, np.linspace(0.0, 1.0, len(close))),
        CubicMap(scale, close, np.linspace(0.0, 1.0, len(close)), *np.full((2, len(close) - 1), 0.05)),
    ]
    rises = np.array([0.0, 0.1, 0.2, 0.4, 0.5, 0.9])
    maps += [IntervalMap(scale, knots, rises, rises + 0.05, point) for point in POINTS]
    if scale.domain == (0.0, 1.0):  # its prior is the score, which has to be a probability
        maps += [IntervalMap(scale, knots, rises, rises + 0.05, point) for point in SCORED_POINTS]
    folds = [IntervalMap(scale, knots[k:], rises[k:], rises[k:] + 0.05, "log-minimax") for k in (0, 2)]
    empty = IntervalMap(scale, np.empty(0), np.empty(0), np.empty(0), "log-minimax")
    maps += [CrossIntervalMap(scale, [*folds, empty], point) for point in MERGES]
    maps += [CrossIntervalMap(scale, [empty] * 10, "self-consistent")]
    if math.isfinite(scale.hi):  # a fold whose one observation is at the end of the scale has no cut, and is not empty
        last = IntervalMap(scale, np.array([scale.hi]), np.zeros(2), np.array([0.5, 1.0]), "log-minimax")
        maps += [CrossIntervalMap(scale, [last, empty], "log-minimax")]
    if math.isfinite(hi - lo) and math.isfinite(scale.hi - scale.lo):
        maps += [BernsteinMap(scale, values), BernsteinMap(scale, np.linspace(0.0, 1.0, 51))]
        maps += [BernsteinLogisticMap(scale, np.array([-4.0, 0.0, 0.5, 6.0]))]
        maps += [ChebyshevMap(scale, np.array([0.5, 0.4, 0.0, 0.1])), ChebyshevMap(scale, np.array([0.25]))]
    return maps


def scores_of(map: ScaledMap) -> list[float]:
    """Return ordinary scores, edges of the domain, and those next to each cut of the map and the scale."""
    parts = map.folds if isinstance(map, CrossIntervalMap) else [map]
    places = [getattr(part, name) for part in parts for name in ("knots", "cuts") if hasattr(part, name)]
    own = map.scale.increasing.first_scores(np.unique(np.concatenate([*places, np.empty(0)])))
    cuts = np.concatenate((own, getattr(map.scale, "knots", ())))
    near = np.concatenate((cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)))
    return [*PLAIN, *ODD, *np.unique(map.scale.rising(near[np.isfinite(near)]) + 0.0).tolist()]


def expected(map: ScaledMap, scores: list[float]) -> list[float]:
    """Return the probabilities; NaN outside the domain of the scale."""
    lo, hi = map.scale.domain
    return [map.predict_one(score) if lo <= score <= hi else math.nan for score in scores]


def vectors() -> list[dict]:
    """Return all maps with scores and probabilities."""
    rows = []
    for map in [one for scale in SCALES for one in maps_on(scale)]:
        plain = json.loads(map.to_json())
        scores = scores_of(map)
        tolerance = EXACT if map.kind == "steps" else COMPUTED
        rows.append(_vector(plain, tolerance, [[score] for score in scores], expected(map, scores)))
        if map.kind == "cross-interval":
            lo, hi = map.scale.domain
            inside = [score for score in scores if lo <= score <= hi]
            k = len(plain["folds"])
            table = [[inside[(i + j) % len(inside)] for j in range(k)] for i in range(0, len(inside), 3)]
            rows.append(_vector(plain, tolerance, table, map.predict_many(table).tolist()))
    return rows


def _vector(plain: dict, tolerance: float, scores: list[list[float]], values: list[float]) -> dict:
    rows = [" ".join(_hex(score) for score in row) for row in scores]
    return {"map": plain, "tolerance": tolerance, "scores": rows, "probabilities": [_hex(value) for value in values]}


def _hex(value: float) -> str:
    return float(value).hex()


def read(numbers: str) -> list[float]:
    """Return the floats of hexadecimal numbers with a space between two."""
    return [float.fromhex(number) for number in numbers.split()]


def wrong(vector: dict, values: list[float]) -> list[str]:
    """Return a line for each score whose probability is not that of the vector."""
    scale, kind = vector["map"]["scale"]["kind"], vector["map"]["kind"]
    rows = zip(vector["scores"], vector["probabilities"], values, strict=True)
    return [
        f"{kind} on {scale} at {read(scores)}: {value!r}, and not {float.fromhex(want)!r}"
        for scores, want, value in rows
        if not _same(float.fromhex(want), value, vector["tolerance"])
    ]


def _same(want: float, value: float, tolerance: float) -> bool:
    return math.isnan(value) if math.isnan(want) else abs(want - value) <= tolerance


def tried(command: list[str], every: list[dict]) -> list[str]:
    """Return a line for each wrong probability of an evaluator."""
    lines = []
    for vector in every:
        lines.append(json.dumps(vector["map"]))
        lines += [" ".join(map(_written, read(scores))) for scores in vector["scores"]]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        return [f"{command} ended with {done.returncode}: {done.stderr[:2_000]}"]
    answers = iter(map(float, done.stdout.split()))
    return [line for vector in every for line in wrong(vector, [next(answers) for _ in vector["scores"]])]


def _written(score: float) -> str:
    if math.isnan(score):
        return "NaN"
    return repr(score) if math.isfinite(score) else f"{'-' if score < 0 else ''}Infinity"


def main(command: list[str]) -> int:
    """Write the file, or try the evaluator that the command starts."""
    if command:
        every = json.loads(FILE.read_text(encoding="utf-8"))["vectors"]
        lines = tried(command, every)
        print(*lines[:20], f"{len(every)} maps, {len(lines)} wrong probabilities", sep="\n")
        return 1 if lines else 0
    every = vectors()
    rows = ",\n".join(json.dumps(vector) for vector in every)
    FILE.write_text(f'{{"streamcal_map_vectors": 1, "vectors": [\n{rows}\n]}}\n', encoding="utf-8")
    print(f"{FILE.name}: {len(every)} maps, {sum(len(one['scores']) for one in every)} scores")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
