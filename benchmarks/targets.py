"""The targets set beforehand, each with the measured value. Nothing is rounded in its favour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Results = dict[str, Any]
US = 1e6
MILLION, TEN_MILLION = 1_000_000, 10_000_000
#: The subject that the others are compared with.
OURS = "VennAbers"


class Target(NamedTuple):
    """A row of the table: the measured value, and whether it is within the target; None where it was not run."""

    what: str
    target: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "**missed**", None: "not run"}[self.met]


def targets(results: Results) -> list[Target]:
    """Return all targets with their measurements."""
    return [
        target if found is None else target._replace(measured=found[0], met=found[1])
        for target, find in TARGETS
        for found in [find(results)]
    ]


Found = tuple[str, bool] | None


def _row(results: Results, subject: str, size: int | None = None) -> dict[str, Any] | None:
    """Return the ladder's row of a subject, at a size or at its largest."""
    rows = [row for row in results.get("ladder", []) if row["subject"] == subject and size in (None, row["size"])]
    return rows[-1] if rows else None


def _us(seconds: float) -> str:
    return f"{seconds * US:.2f} µs" if seconds < 1e-4 else f"{seconds * US:.0f} µs"


def _step(subject: str, limit: float, size: int | None = None) -> Callable[[Results], Found]:
    """Compare the median step of a subject with a guide in microseconds."""

    def find(results: Results) -> Found:
        row = _row(results, subject, size)
        if row is None:
            return None
        return f"{_us(row['median'])} (minimum {_us(row['minimum'])})", row["median"] * US <= limit

    return find


def _over(subject: str, key: str, limit: float, size: int | None = None) -> Callable[[Results], Found]:
    """Compare the ratio of a subject's step to the floor or to the limit with its target."""

    def find(results: Results) -> Found:
        row = _row(results, subject, size)
        return None if row is None else (f"{row[key]:.2f} × ({_us(row['median'])})", row[key] <= limit)

    return find


def _tail(key: str, limit: float) -> Callable[[Results], Found]:
    def find(results: Results) -> Found:
        tail = results.get("tail")
        if not tail or tail["size"] < TEN_MILLION:
            return None
        return _us(tail["wall"][key]), tail["wall"][key] * US <= limit

    return find


def _longest(results: Results) -> Found:
    tail = results.get("tail")
    if not tail or tail["size"] < TEN_MILLION:
        return None
    wall, processor, control = (tail[clock]["maximum"] * 1e3 for clock in ("wall", "processor", "control"))
    text = (
        f"{wall:.2f} ms by the wall, {processor:.2f} ms of processor time (control that does nothing: {control:.2f} ms)"
    )
    return text, processor <= 10.0


def _faster(subject: str, limit: float) -> Callable[[Results], Found]:
    def find(results: Results) -> Found:
        for row in results.get("refits", []):
            if row["subject"] == subject and row["size"] == 100_000:
                cold = f"caches cold {row['faster_cold']:,.0f} ×"
                return f"{row['faster']:,.0f} × ({row['median'] * 1e3:,.2f} ms); {cold}", row["faster"] >= limit
        return None

    return find


def _fill(results: Results) -> Found:
    bulk = results.get("bulk")
    if not bulk or bulk["size"] < MILLION:
        return None
    return f"{bulk['fill']['median']:.2f} s", bulk["fill"]["median"] <= 0.5


def _throughput(key: str, limit: float) -> Callable[[Results], Found]:
    """Compare the throughput of the fastest calibrator on a grid with its target."""

    def find(results: Results) -> Found:
        rows = [row for row in results.get("bulk", {}).get("throughput", []) if "Platt()" not in row["calibrator"]]
        if not rows:
            return None
        best = max(rows, key=lambda row: row[key])
        return f"{best[key]:.0f} M/s ({best['calibrator']}, arrays of {best['chunk']:,})", best[key] >= limit

    return find


def _bytes(results: Results) -> Found:
    memory = results.get("memory")
    if not memory:
        return None
    tree = {case: value for case, value in memory["bytes_per_score"].items() if case.startswith("tree")}
    text = ", ".join(f"{value:.1f} after {case.split(', ')[1]}" for case, value in tree.items())
    return f"{text}; a grid of 4,096 cells {memory['grid_4096_bytes'] / 1024:.0f} KiB", max(tree.values()) <= 72.0


def _kkt(degree: int) -> Callable[[Results], Found]:
    def find(results: Results) -> Found:
        rows = [row for row in results.get("accuracy", {}).get("active_set", []) if row["degree"] == degree]
        worst = max((row["kkt"] for row in rows), default=None)
        return None if worst is None else (f"{worst:.1e}", worst <= 1e-12)

    return find


def _over_osqp(results: Results) -> Found:
    osqp, ours = (_row(results, f"Bernstein, degree 20{end}") for end in (", OSQP", ""))
    if not osqp or not ours:
        return None
    factor = osqp["median"] / ours["median"]
    return f"{factor:.0f} × (a step with OSQP {_us(osqp['median'])})", factor >= 30.0


def _osqp(tolerance: float | None, limit: float) -> Callable[[Results], Found]:
    """Compare OSQP at one tolerance, or at the loosest whose error is at most 1e-6, with its target."""

    def find(results: Results) -> Found:
        rows = results.get("accuracy", {}).get("osqp", [])
        fitting = [
            row for row in rows if (row["error"] <= 1e-6 if tolerance is None else row["tolerance"] == tolerance)
        ]
        if not fitting:
            return None
        row = max(fitting, key=lambda row: row["tolerance"])
        text = f"{_us(row['median'])} at eps_abs {row['tolerance']:g}, largest error {row['error']:.0e}"
        return text, row["median"] * US <= limit

    return find


def _growth(results: Results) -> Found:
    fit = results.get("growth")
    if not fit:
        return None
    text = f"{fit['a'] * US:.2f} + {fit['b'] * US:.4f}·log₂² n µs, within {100 * fit['worst']:.0f} % everywhere"
    return f"{text}; n^{fit['exponent']:.2f} as a power", fit["worst"] <= GROWTH_TOLERANCE


#: The step "fits" log² k if no point is further than this from the line: caches are seen at about as much.
GROWTH_TOLERANCE = 0.25

TARGETS: list[tuple[Target, Callable[[Results], Found]]] = [
    (Target(what, target, "", None), find)
    for what, target, find in [
        ("`VennAbers`: learn_one + predict_interval_one, 10⁶ distinct scores", "≤ 1.6 × SortedList",
         _over("VennAbers", "floors", 1.6, MILLION)),
        ("the same, 10⁷, `Window`: median", "≤ 20 µs", _tail("p50", 20.0)),
        ("… p99", "≤ 40 µs", _tail("p99", 40.0)),
        ("… longest step, processor time", "≤ 10 ms", _longest),
        ("the same, grid of 2¹⁶ cells", "≤ 2 µs", _step("VennAbers, 2^16 cells", 2.0)),
        ("the same, grid of 2¹² cells", "≤ 1.5 µs", _step("VennAbers, 2^12 cells", 1.5)),
        ("against `venn-abers`, fit + predict one, 10⁵", "≥ 200,000 ×", _faster("venn-abers, fit + predict one", 2e5)),
        ("against two bare `isotonic_regression`, 10⁵", "≥ 700 ×",
         _faster("scikit-learn, two isotonic_regression", 700.0)),
        ("`VennAbers.learn_many` into an empty tree, 10⁶", "≤ 0.5 s", _fill),
        ("bytes per distinct score, exact tree; a grid", "≤ 72; fixed", _bytes),
        ("`Bernstein` degree 20, learn_one + predict_one", "≤ 2.5 µs", _step("Bernstein, degree 20", 2.5)),
        ("… against warm OSQP", "≥ 30 ×", _over_osqp),
        ("… KKT residual", "≤ 1e-12", _kkt(20)),
        ("`Bernstein` degree 50, learn_one + predict_one", "≤ 5 µs", _step("Bernstein, degree 50", 5.0)),
        ("… KKT residual", "≤ 1e-12", _kkt(50)),
        ("warm OSQP re-solve, degree 20, OSQP's default tolerance", "≤ 80 µs", _osqp(1e-3, 80.0)),
        ("… at most 1e-6 off", "≤ 250 µs", _osqp(None, 250.0)),
        ("`OnlinePlatt` learn_one + predict_one, in no-op method calls", "≤ 8 ×",
         _over("OnlinePlatt", "limits", 8.0)),
        ("… in time", "≤ 0.5 µs", _step("OnlinePlatt", 0.5)),
        ("`learn_many` on a logit grid of 4,096 cells", "≥ 150 M/s", _throughput("learn_many", 150.0)),
        ("`predict_many` on it", "≥ 250 M/s", _throughput("predict_many", 250.0)),
        ("growth of a step from 10⁴ to 10⁷", "fits log² n", _growth),
    ]
]  # fmt: skip
