"""What a fusion loses where a base is down, and where tuples of scores are rounded to keep the limit.

    python -m benchmarks.fusion_limits      # writes two tables of docs/fusion_measured.md, in about a minute

The base is down in the scores: they are None for some rows. The limit is compared with `limit=None`, which keeps every
tuple, on scores that are normal in each class, with a correlation.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.environment import require_compiled
from benchmarks.fusion_default import STREAMS, scores_of
from benchmarks.report import fill, table
from streamcal import Forever
from streamcal.fusion import MRMIC, CopulaFusion, Fusion, LogisticFusion, PartialOrderVennAbers

PAGE = Path(__file__).parents[1] / "docs" / "fusion_measured.md"
#: The base is down for this many rows, from each of these rows on.
DOWN, STARTS = 300, range(100, 901, 100)
NAMES = ("logistic regression", "naive Bayes")
TESTED = 2_000
#: Call → what makes it with a limit, scores, observations, correlation within a class.
LIMITED: dict[str, tuple[Callable[..., Fusion], int, int, float]] = {
    "`CopulaFusion()`": (CopulaFusion, 2, 20_000, -0.6),
    "`CopulaFusion(n_scores=3)`": (lambda **limit: CopulaFusion(n_scores=3, **limit), 3, 20_000, 0.3),
    "`MRMIC(forgetting=Forever())`": (lambda **limit: MRMIC(forgetting=Forever(), **limit), 2, 1_500, 0.3),
    "`PartialOrderVennAbers()`": (PartialOrderVennAbers, 2, 2_500, 0.3),
}


def down() -> str:
    """Return the table of the Brier scores of the rows in which a base gives no score."""
    scores, y = scores_of(STREAMS["Phishing"](), 2)
    rows = []
    for base, name in enumerate(NAMES):
        differences = []
        for start in STARTS:
            fusion = LogisticFusion(2, discount=0.998)
            errors = []
            for k, (row, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
                off = start <= k < start + DOWN
                given: list[float | None] = [None if off and j == base else score for j, score in enumerate(row)]
                if off:
                    errors.append((fusion.predict_one(given) - label) ** 2 - (row[1 - base] - label) ** 2)
                fusion.learn_one(given, label)
            differences.append(float(np.mean(errors)))
        rows.append((name, f"{np.mean(differences):+.4f}", f"{min(differences):+.4f}", f"{max(differences):+.4f}"))
    return table(("down", "mean difference", "least", "greatest"), rows)


def limits(seed: int = 1) -> str:
    """Return the table of fits with and without a limit of the distinct tuples."""
    rows = []
    for call, (make, width, observations, correlation) in LIMITED.items():
        rng = np.random.default_rng(seed)
        covariance = np.full((width, width), correlation) + (1.0 - correlation) * np.eye(width)
        y = rng.random(observations + TESTED) < 0.5
        z = rng.multivariate_normal(np.zeros(width), covariance, size=len(y)) + np.where(y, 1.0, -1.0)[:, None]
        scores = expit(z)
        predicted, found, spent = [], make(), []
        for fusion in (make(limit=None), found):
            fusion.learn_many(scores[:observations], y[:observations])
            before = time.process_time()
            predicted.append(fusion.predict_many(scores[observations:]))
            spent.append(time.process_time() - before)
        brier = [float(np.mean((p - y[observations:]) ** 2)) for p in predicted]
        moved = np.abs(predicted[1] - predicted[0])
        cells, kept = cells_of(found)
        rows.append(
            (
                call, f"{observations:,}", f"{kept:,}, {cells}", f"{brier[0]:.4f}", f"{brier[1]:.4f}",
                f"{np.sqrt(np.mean(moved**2)):.3f}, {moved.max():.2f}", f"{spent[0]:.2g} s", f"{spent[1]:.2g} s",
            )
        )  # fmt: skip
    head = ("method", "observations", "tuples, cells a score", "Brier, every tuple", "Brier, limit")
    return table((*head, "moved: root mean square, most", "time, every tuple", "time, limit"), rows)


def cells_of(fusion: Any) -> tuple[int, int]:
    """Return the cells for each score to which tuples have been rounded, and the number of tuples."""
    statistic = fusion._engine.memory.present(None)
    return statistic.cells, len(statistic.columns()[1])


def main() -> None:
    """Write both tables."""
    require_compiled()
    command = f"`python -m benchmarks.fusion_limits`, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}."
    fill(PAGE, {name: f"{make()}\n\n{command}" for name, make in (("down", down), ("limits", limits))})


if __name__ == "__main__":
    main()
