"""Solvers for the quadratic programs of Bernstein logistic regression, and for the whole problem.

    python -m benchmarks.logistic_solvers [--observations 2000]

`BernsteinLogistic` solves its problem by Newton steps, each a monotone least-squares problem of n + 1 coefficients.
Here the same steps are made with three solvers of those problems, and the whole problem is given to Clarabel as a
program in exponential cones. Each line: the first fit of a table, the median of fits after one more observation each,
warm-started where the solver supports it, quadratic programs per fit, and the largest bound on the remaining log loss
(for the cone program: the difference from the loss of the active set).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import clarabel
import numpy as np
import numpy.typing as npt
from scipy import sparse

from streamcal import Probability
from streamcal.kernels.polynomial.bernstein import binomials
from streamcal.kernels.polynomial.monotone_qp import RIDGE
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.bernstein_logistic import (
    LIMIT,
    QuadraticProgram,
    basis_matrix,
    fit_bernstein_logistic,
)
from streamcal.solvers.osqp import WarmOSQP
from streamcal.solvers.solution import Solution
from streamcal.statistics.score_table import score_table

Array = npt.NDArray[np.float64]
Table = tuple[Array, Array, Array]

DEGREES = (10, 20)
RESOLUTION = 16384
#: Fits of the cone program, which take some hundred times as long as the others.
CONE_REPEATS = 3


class Line(NamedTuple):
    """What is printed of one solver."""

    name: str
    first: float
    later: float
    programs: float
    left: float


class ClarabelLeastSquares:
    """The problem of `MonotoneLeastSquares` by Clarabel's interior-point method, a cold start every time."""

    ridge = RIDGE

    def __init__(self, degree: int) -> None:
        n = degree + 1
        row = binomials(degree)
        self._index = np.add.outer(np.arange(n), np.arange(n))
        self._ratio = np.multiply.outer(row, row) / binomials(2 * degree)[self._index]
        rises = np.diff(np.eye(n), axis=0)
        self._penalty = self.ridge * rises.T @ rises
        self._rows = sparse.csc_matrix(np.vstack([-np.eye(1, n), -rises, np.eye(1, n, degree)]))
        self._bounds = np.concatenate([np.zeros(n), [1.0]])
        self._settings = quiet(1e-12)

    def solve(self, moments: Array, cross: Array, weight: float) -> Solution:
        matrix = sparse.csc_matrix(np.triu(self._ratio * (moments / weight)[self._index] + self._penalty))
        cones = [clarabel.NonnegativeConeT(len(self._bounds))]
        found = clarabel.DefaultSolver(matrix, -cross / weight, self._rows, self._bounds, cones, self._settings).solve()
        solved = found.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
        x = np.clip(np.maximum.accumulate(found.x), 0.0, 1.0)
        return Solution(x, str(found.status), solved, int(found.iterations), float(found.r_dual))


def quiet(tolerance: float) -> clarabel.DefaultSettings:
    """Return Clarabel's settings with this tolerance, without its output."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    return settings


def cone_program(degree: int, u: Array, neg: Array, pos: Array) -> Array:
    """Solve the whole problem: log(1 + exp η) ≤ t by exp(−t) + exp(η − t) ≤ 1, two exponential cones per score."""
    n, k = degree + 1, len(u)
    basis, total = basis_matrix(degree, u), float(neg.sum() + pos.sum())
    size = n + 3 * k
    t, a, b = (sparse.eye_array(k, size, k=n + i * k, format="csc") for i in range(3))
    log_odds = sparse.hstack([sparse.csc_array(basis), sparse.csc_array((k, 3 * k))])
    falls = sparse.eye_array(n - 1, size) - sparse.eye_array(n - 1, size, k=1)
    ends = sparse.csc_array(np.vstack([-np.eye(1, size), np.eye(1, size, degree)]))
    nothing = sparse.csc_array((k, size))
    order = np.arange(3 * k).reshape(3, k).T.ravel()
    cones = [sparse.vstack([side, nothing, -e], format="csr")[order] for side, e in ((t, a), (t - log_odds, b))]
    rows = sparse.csc_matrix(sparse.vstack([falls, ends, a + b, *cones]))
    ones = np.tile([0.0, 1.0, 0.0], 2 * k)
    bounds = np.concatenate([np.zeros(n - 1), [LIMIT, LIMIT], np.ones(k), ones])
    cost = np.concatenate([-(pos / total) @ basis, (neg + pos) / total, np.zeros(2 * k)])
    kinds = [clarabel.NonnegativeConeT(n + 1 + k)] + [clarabel.ExponentialConeT() for _ in range(2 * k)]
    solver = clarabel.DefaultSolver(sparse.csc_matrix((size, size)), cost, rows, bounds, kinds, quiet(1e-10))
    return np.array(solver.solve().x[:n])


def tables(observations: int, later: int) -> Iterator[Table]:
    """Yield the table of a stream whose log-odds are 1.5 times too large, and then after each of `later` rows."""
    rng = np.random.default_rng(0)
    truth = rng.beta(1.0, 3.0, observations + later)
    scores = 1.0 / (1.0 + np.exp(-1.5 * np.log(truth / (1.0 - truth))))
    y = (rng.random(len(truth)) < truth).astype(float)
    held = score_table(Probability(), RESOLUTION)
    held.update_many(scores[:observations], y[:observations], np.ones(observations))
    yield held.points()
    for score, label in zip(scores[observations:].tolist(), y[observations:].tolist(), strict=True):
        held.update(score, label, 1.0)
        yield held.points()


def log_loss(coefficients: Array, table: Table) -> float:
    """Return the mean log loss of the coefficients on a table."""
    u, neg, pos = table
    log_odds = basis_matrix(len(coefficients) - 1, u) @ coefficients
    return float(((neg + pos) @ np.logaddexp(0.0, log_odds) - pos @ log_odds) / (neg + pos).sum())


def newton(name: str, quadratic: QuadraticProgram, degree: int, observations: int, later: int) -> Line:
    """Newton steps with one solver of their quadratic programs, on every table in turn."""
    coefficients, seconds, programs, left = np.zeros(degree + 1), [], [], 0.0
    for table in tables(observations, later):
        start = time.perf_counter()
        solution = fit_bernstein_logistic(*table, quadratic, coefficients, degree)
        seconds.append(time.perf_counter() - start)
        programs.append(solution.iterations)
        coefficients, left = solution.x, max(left, solution.residual)
        name = name if solution.solved or "*" in name else f"{name} *"
    return Line(name, seconds[0], float(np.median(seconds[1:])), float(np.mean(programs[1:])), left)


def cones(degree: int, observations: int, later: int) -> Line:
    """Time the cone program on the first tables, and compare its loss with that of the active set."""
    seconds, left = [], 0.0
    for table, _ in zip(tables(observations, later), range(1 + CONE_REPEATS), strict=False):
        start = time.perf_counter()
        found = cone_program(degree, *table)
        seconds.append(time.perf_counter() - start)
        best = fit_bernstein_logistic(*table, MonotoneLeastSquares(degree), np.zeros(degree + 1), degree)
        left = max(left, abs(log_loss(found, table) - log_loss(best.x, table)))
    return Line("Clarabel, exponential cones", seconds[0], float(np.median(seconds[1:])), 0.0, left)


def compare(degree: int, observations: int, later: int) -> list[Line]:
    """Measure every solver at one degree."""
    made: dict[str, Callable[[int], QuadraticProgram]] = {
        "active set": MonotoneLeastSquares,
        "OSQP 1e-6": lambda n: WarmOSQP(n, 1e-6),
        "OSQP 1e-9": lambda n: WarmOSQP(n, 1e-9),
        "Clarabel": ClarabelLeastSquares,
    }
    lines = [newton(name, make(degree), degree, observations, later) for name, make in made.items()]
    return [*lines, cones(degree, observations, later)]


def main(arguments: list[str] | None = None) -> None:
    """Print the table of all solvers and degrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=20_000, help="of the first table (default: %(default)s)")
    parser.add_argument("--later", type=int, default=50, help="observations after it (default: %(default)s)")
    given = parser.parse_args(arguments)
    cells = len(next(tables(given.observations, 0))[0])
    print(f"{given.observations:,} observations, {cells:,} points of the table; * did not reach the accepted gap\n")
    print("| degree | solver | first fit, ms | later fits, ms | programs a fit | log loss left |")
    print("|---:|---|---:|---:|---:|---:|")
    for degree in DEGREES:
        for line in compare(degree, given.observations, given.later):
            figures = f"{1e3 * line.first:.2f} | {1e3 * line.later:.2f} | {line.programs:.1f} | {line.left:.1e}"
            print(f"| {degree} | {line.name} | {figures} |")


if __name__ == "__main__":
    main()
