"""Solvers for the quadratic program of MR-MIC (paper 000, eq. 6): one variable for each of n observations.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.fusion_solvers [--observations 500]

Every solver gets the same program: labels drawn with the mean of two uniform scores as their probability (seed 0), unit
weights, and the covers of the coordinate-wise order as constraints. Each line: the median of three solves, iterations,
and the largest difference of a value from that of quadprog. Then the parts of `PartialOrderVennAbers` on the same data:
finding the covers, one isotonic fit, and one pair (p₀, p₁).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import clarabel
import numpy as np
import numpy.typing as npt
import osqp
import quadprog
from scipy import sparse
from scipy.spatial.distance import cdist

from streamcal.solvers.manifold_isotonic import ManifoldIsotonic
from streamcal.solvers.partial_order import PartialOrder

Array = npt.NDArray[np.float64]

PENALTIES = (1e-5, 1e-3, 1e-1)
REPEATS = 3
#: Tolerances of the general solvers: the house's setting of OSQP, and one near what doubles allow of Clarabel.
OSQP_TOLERANCE, CLARABEL_TOLERANCE = 1e-6, 1e-10


class Problem:
    """min pᵀ(I + λ/2 Ω)p − 2yᵀp over p that rises along the covers."""

    def __init__(self, observations: int, penalty: float) -> None:
        rng = np.random.default_rng(0)
        x = rng.random((observations, 2))
        self.x = x[np.lexsort(x.T[::-1])]
        self.y = (rng.random(observations) < self.x.mean(axis=1)).astype(float)
        self.penalty = penalty
        self.order = PartialOrder(self.x)
        distance = cdist(self.x, self.x)
        np.fill_diagonal(distance, np.inf)
        self.hessian = 2.0 * np.eye(observations) + penalty * (np.diag((1.0 / distance).sum(axis=1)) - 1.0 / distance)
        edges, ones = np.arange(len(self.order.lower)), np.ones(len(self.order.lower))
        shape = (len(edges), observations)
        rises = sparse.coo_matrix((ones, (edges, self.order.upper)), shape=shape)
        self.rises = sparse.csc_matrix(rises - sparse.coo_matrix((ones, (edges, self.order.lower)), shape=shape))

    def by_blocks(self) -> tuple[Array, int]:
        found = ManifoldIsotonic(self.x, np.ones(len(self.y)), self.penalty).solve(self.y)
        return found.x, found.iterations

    def by_quadprog(self) -> tuple[Array, int]:
        found = quadprog.solve_qp(self.hessian, 2.0 * self.y, self.rises.T.toarray(), np.zeros(self.rises.shape[0]))
        return found[0], int(found[3][0])

    def by_osqp(self) -> tuple[Array, int]:
        solver = osqp.OSQP(algebra="builtin")
        upper = sparse.csc_matrix(np.triu(self.hessian))
        none, all_ = np.zeros(self.rises.shape[0]), np.full(self.rises.shape[0], np.inf)
        settings = {"eps_abs": OSQP_TOLERANCE, "eps_rel": 0.0, "max_iter": 100_000, "verbose": False}
        solver.setup(upper, -2.0 * self.y, self.rises, none, all_, **settings)
        found = solver.solve(raise_error=False)
        return np.asarray(found.x), int(found.info.iter)

    def by_clarabel(self) -> tuple[Array, int]:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = CLARABEL_TOLERANCE
        upper, size = sparse.csc_matrix(np.triu(self.hessian)), self.rises.shape[0]
        cones = [clarabel.NonnegativeConeT(size)]
        solver = clarabel.DefaultSolver(upper, -2.0 * self.y, -self.rises, np.zeros(size), cones, settings)
        found = solver.solve()
        return np.array(found.x), int(found.iterations)


def median_time(run: Callable[[], object]) -> float:
    """Return the median time of REPEATS runs, in milliseconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def main(arguments: list[str] | None = None) -> None:
    """Print the times and errors of the solvers at each penalty."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=500, help="n (default: %(default)s)")
    observations = parser.parse_args(arguments).observations
    print("| λ | solver | ms | iterations | off by |\n|---:|---|---:|---:|---:|")
    for penalty in PENALTIES:
        problem = Problem(observations, penalty)
        expected = problem.by_quadprog()[0]
        solvers = {
            "blocks": problem.by_blocks,
            "quadprog": problem.by_quadprog,
            "OSQP": problem.by_osqp,
            "Clarabel": problem.by_clarabel,
        }
        for name, solve in solvers.items():
            p, iterations = solve()
            off = float(np.abs(p - expected).max())
            print(f"| {penalty:g} | {name} | {median_time(solve):.1f} | {iterations} | {off:.0e} |")
    y, middle = problem.y, np.full(2, 0.5)
    covers = median_time(lambda: PartialOrder(problem.x))
    fit = median_time(lambda: problem.order.solve(y, 1.0 - y))
    pair = median_time(lambda: problem.order.pair_at(y, 1.0 - y, middle, 1.0))
    print(f"\n{len(problem.order.lower):,} covers {covers:.1f} ms; an isotonic fit {fit:.1f} ms; a pair {pair:.1f} ms")


if __name__ == "__main__":
    main()
