"""Accuracy of the quadratic-program solvers, and the effect of OSQP's tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.arrivals import Array, Stream
from benchmarks.plan import Plan
from streamcal import Probability
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.osqp import TOLERANCE, WarmOSQP
from streamcal.statistics.bernstein_moments import BernsteinMoments

#: OSQP's own default, ours, and two between them and beyond.
TOLERANCES = (1e-3, 1e-5, TOLERANCE, 1e-7)
#: Observations learned before the first solve that counts: a warm start needs a past.
BEFORE = 1_000


def accuracy(plan: Plan) -> dict[str, Any]:
    """KKT residuals of the active set; seconds and errors of OSQP, re-solved after every observation."""
    return {
        "steps": plan.accuracy_steps,
        "active_set": [_active_set(degree, kind, plan) for degree in (20, 50) for kind in ("uniform", "clicks")],
        "osqp": [_osqp(tolerance, plan) for tolerance in TOLERANCES],
    }


def _active_set(degree: int, kind: str, plan: Plan) -> dict[str, Any]:
    """Return the largest KKT residual, and how often the active set differed from that of the solve before."""
    solver, worst, changed = MonotoneLeastSquares(degree), 0.0, 0
    for moments in _growing(degree, plan.accuracy_steps, plan.seed, kind):
        solution = solver.solve(moments.sums.moments, moments.sums.cross, moments.sums.weight)
        worst, changed = max(worst, solution.residual), changed + (solution.iterations > 0)
    return {"degree": degree, "stream": kind, "kkt": worst, "changed": changed / plan.accuracy_steps}


def _osqp(tolerance: float, plan: Plan) -> dict[str, Any]:
    """Seconds of one warm re-solve, and the largest error of a fitted value against the active set."""
    exact, solver = MonotoneLeastSquares(20), WarmOSQP(20, tolerance)
    seconds, worst = [], 0.0
    basis = _bernstein(20, np.linspace(0.0, 1.0, 201))
    for moments in _growing(20, min(plan.accuracy_steps, 2_000), plan.seed, "uniform"):
        sums = moments.sums
        start = perf_counter()
        found = solver.solve(sums.moments, sums.cross, sums.weight)
        seconds.append(perf_counter() - start)
        right = exact.solve(sums.moments, sums.cross, sums.weight)
        worst = max(worst, float(np.abs(basis @ (found.x - right.x)).max()))
    return {"tolerance": tolerance, "minimum": min(seconds), "median": median(seconds), "error": worst}


def _growing(degree: int, steps: int, seed: int, kind: str) -> Iterator[BernsteinMoments]:
    """Yield the moments of a stream after each observation."""
    stream = Stream(BEFORE, steps, seed, kind)
    moments = BernsteinMoments(degree, Probability())
    scores, labels = stream.start()
    moments.update_many(scores, labels.astype(np.float64), np.ones(len(scores)))
    for _query, score, y in stream.part(0, steps).steps:
        moments.update(score, float(y), 1.0)
        yield moments


def _bernstein(degree: int, u: Array) -> Array:
    """Return the basis at `u`, shape (len(u), degree + 1)."""
    return np.column_stack([binom.pmf(i, degree, u) for i in range(degree + 1)])
