"""Can the figures that paper 000 published be reached at all? What the data and its own table say.

    python -m benchmarks.papers.fusion_000_limits                 # prints the table for docs/papers/fusion_000.md
    python -m benchmarks.papers.fusion_000_limits --rows 2000     # on fewer training rows

The paper fuses two networks of 500 training rows each. A logistic regression on forty to a hundred and sixty times as
many rows, and the share of positives alone, are compared with the Brier scores it published.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.papers.fusion_000 import PUBLISHED
from benchmarks.papers.fusion_data import SETS, Rows

#: Rows to train on: most of what there is; the rest is the test.
TRAINED = {"Adult": 24_000, "Census": 80_000, "Dota2": 80_000}
SEED, STEPS = 0, 2_000
#: The paper leaves out cells of fewer than 1,000 test rows of 100 cells: SUSY has 5,000,000 − 1,500 test rows.
SUSY_ROWS, CELLS, LEAST = 5_000_000 - 1_500, 100, 1_000


class Limit(NamedTuple):
    """Brier scores in percent on the test rows, natural and with both classes weighted equally."""

    trained: int
    rate: float
    natural: float
    balanced: float


def features(rows: Rows, train: np.ndarray) -> sparse.csr_array:
    """Numbers standardised by the training rows, and a column for each category."""
    spread = rows.numbers[train].std(axis=0)
    numbers = (rows.numbers - rows.numbers[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return sparse.csr_array(sparse.hstack([sparse.csr_array(numbers), rows.categories]))


def brier(p: np.ndarray, y: np.ndarray, balanced: bool) -> float:
    """Percent; balanced: both classes have half of the weight."""
    share = y.mean()
    weight = np.where(y == 1.0, 0.5 / share, 0.5 / (1.0 - share)) if balanced else np.ones(len(y))
    return 100.0 * float(np.average((p - y) ** 2, weights=weight))


def limit(name: str, most: int | None) -> Limit:
    """Test a logistic regression on many rows of one data set, with C = 1, on all other rows."""
    rows = SETS[name]()
    trained = min(TRAINED[name], most or TRAINED[name])
    order = np.random.default_rng(SEED).permutation(len(rows.y))
    train, test = order[:trained], order[TRAINED[name] :]
    x = features(rows, train)
    found = []
    for weight in (None, "balanced"):
        model = LogisticRegression(max_iter=STEPS, class_weight=weight).fit(x[train], rows.y[train])
        p = model.predict_proba(x[test])[:, 1]
        found.append(brier(p, rows.y[test], weight is not None))
    rate = rows.y.mean()
    return Limit(trained, 100.0 * rate * (1.0 - rate), *found)


def table(limits: dict[str, Limit]) -> str:
    """Write the limits beside the published figures."""
    lines = [
        "| Brier, percent | published: least to most of the three | positives' share | rows | natural | balanced |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, one in limits.items():
        low, high = sorted(published("Brier", name))[:: len(PUBLISHED["Brier"]) - 1]
        cells = [f"{low:.1f} to {high:.1f}", f"{one.rate:.1f}", f"{one.trained:,}"]
        lines.append("| " + " | ".join([name, *cells, f"{one.natural:.1f}", f"{one.balanced:.1f}"]) + " |")
    return "\n".join(lines)


def published(measure: str, name: str) -> list[float]:
    """Return the published figures of a measure on a data set."""
    place = list(SETS).index(name)
    return [float(row[place].split("±")[0]) for row in PUBLISHED[measure].values()]


def susy() -> str:
    """Two published figures of SUSY that contradict each other, as far as cells are homogeneous.

    In a cell with rate r of positives, in which a method predicts p everywhere, its Brier score is r(1 − r) + (p − r)².
    The second term is at least 0 and at most the squared MCE; a row in a cell that does not count adds at most 1.
    """
    scores, largest = published("Brier", "SUSY"), max(published("MCE", "SUSY"))
    uncounted = CELLS * LEAST / SUSY_ROWS
    allowed = 100.0 * (uncounted + (1.0 - uncounted) * (largest / 100.0) ** 2)
    return (
        f"SUSY: the published Brier scores are up to {max(scores) - min(scores):.1f} points apart. At most "
        f"{100.0 * uncounted:.1f} % of the test rows are in cells that do not count, and the published MCE of at most "
        f"{largest:.1f} % allows {allowed:.1f} points."
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the table of limits, and the check of SUSY."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="most training rows (default: 24,000 of Adult, else 80,000)")
    parser.add_argument("--sets", nargs="+", choices=list(TRAINED), default=list(TRAINED), help="data sets")
    given = parser.parse_args(arguments)
    print(table({name: limit(name, given.rows) for name in given.sets}))
    print("\n" + susy())


if __name__ == "__main__":
    main()
