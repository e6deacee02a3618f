"""Which fusion is the default of `FusedClassifier`: prequential scores on River's streams, for two to five bases.

    python -m benchmarks.fusion_default

The bases learn on; each row is predicted before it is learned. Where a base gives no probabilities yet, the row is left
out for all. Prints the tables of docs/fusion_measured.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import datasets, linear_model, naive_bayes, neighbors, preprocessing, tree

from streamcal.fusion import BernsteinFusion, Fusion, LogisticFusion, PartialOrderVennAbers, PrequentialFusion

BASES: list[Callable[[], Any]] = [
    lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    naive_bayes.GaussianNB,
    tree.HoeffdingTreeClassifier,
    lambda: preprocessing.StandardScaler() | linear_model.ALMAClassifier(),
    lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
]
STREAMS = {"Phishing": lambda: datasets.Phishing(), "Bananas": lambda: datasets.Bananas().take(3000)}


def scores_of(stream: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bases' scores before each row is learned, shape (n, count), and labels; drop rows without a score."""
    models = [base() for base in BASES[:count]]
    rows, labels = [], []
    for x, y in stream:
        answers = [model.predict_proba_one(x) for model in models]
        if all(answers):
            rows.append([min(max(answer.get(True, 0.0), 0.0), 1.0) for answer in answers])
            labels.append(int(y))
        for model in models:
            model.learn_one(x, y)
    return np.array(rows), np.array(labels)


def fusions(count: int) -> dict[str, Fusion]:
    """Return the fusions to compare for this number of scores; those with a solver solve every 16 observations."""
    found: dict[str, Fusion] = {
        "`LogisticFusion(discount=0.998)`": LogisticFusion(count, discount=0.998),
        "`LogisticFusion()`": LogisticFusion(count),
        "`BernsteinFusion()`": BernsteinFusion(n_scores=count, refresh_every=16),
    }
    if count == 2:
        found["`PrequentialFusion()`"] = PrequentialFusion()
        found["`PartialOrderVennAbers()`"] = PartialOrderVennAbers(refresh_every=16)
    return found


def measured(fusion: Fusion, scores: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Mean Brier score, mean log loss (of probabilities of at least 1e-6), and microseconds a row."""
    said, start = [], time.process_time()
    for row, label in zip(scores.tolist(), y.tolist(), strict=True):
        said.append(fusion.predict_one(row))
        fusion.learn_one(row, label)
    spent = (time.process_time() - start) / len(y) * 1e6
    p = np.array(said)
    came = np.clip(np.where(y == 1, p, 1.0 - p), 1e-6, 1.0)
    return float(np.mean((p - y) ** 2)), float(-np.log(came).mean()), spent


def main() -> None:
    """Print a table of the fusions for each stream."""
    for name, stream in STREAMS.items():
        print(f"\n| {name} | bases | Brier | log loss | µs a row |\n|---|---:|---:|---:|---:|")
        for count in (2, 3, 4, 5):
            scores, y = scores_of(stream(), count)
            alone = ((scores - y[:, None]) ** 2).mean(axis=0).min()
            print(f"| the best base alone | {count} | {alone:.4f} | | |")
            for label, fusion in fusions(count).items():
                brier, loss, spent = measured(fusion, scores, y)
                print(f"| {label} | {count} | {brier:.4f} | {loss:.4f} | {spent:,.0f} |")


if __name__ == "__main__":
    main()
