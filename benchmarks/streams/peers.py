"""Methods of other packages: each predicts a whole stream, prequentially."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from river import linear_model
from scipy.special import logit
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from benchmarks.streams.tables import Array, Flags

#: A refit uses the last pairs that are there, a twentieth of the stream, at least this many.
SMALLEST_WINDOW = 2_000
#: Refits per stream; in a short one, one in 100 steps.
REFITS, SHORTEST = 200, 100
#: The log-odds of 0 and 1 are those of these.
LOWEST = 1e-7
#: Labels the score-blind rival looks at.
LABELS = 4

Predict = Callable[[Array], Array]


def every(rows: int) -> int:
    """Return the steps between two refits."""
    return max(SHORTEST, rows // REFITS)


def refitted(fit: Callable[[Array, Flags], Predict]) -> Callable[[Array, Flags, int], Array]:
    """Return a method that is refitted at intervals, on a sliding window of the labels available by then."""

    def run(scores: Array, y: Flags, delay: int) -> Array:
        window, step = max(SMALLEST_WINDOW, len(y) // 20), every(len(y))
        predicted = np.empty(len(y))
        for start in range(0, len(y), step):
            known = slice(max(0, start - delay - window), max(0, start - delay))
            asked = slice(start, start + step)
            both = y[known].any() and not y[known].all()
            predicted[asked] = fit(scores[known], y[known])(scores[asked]) if both else scores[asked]
        return predicted

    return run


def isotonic(scores: Array, y: Flags) -> Predict:
    """scikit-learn's isotonic regression."""
    model = IsotonicRegression(out_of_bounds="clip").fit(scores, y)
    return lambda asked: np.asarray(model.predict(asked))


def sigmoid(scores: Array, y: Flags) -> Predict:
    """scikit-learn's Platt scaling of the log-odds: what `CalibratedClassifierCV` fits."""
    model = _SigmoidCalibration().fit(log_odds(scores), y)
    return lambda asked: np.asarray(model.predict(log_odds(asked)))


def venn_abers(scores: Array, y: Flags) -> Predict:
    """Fit the package `venn-abers`, whose merged probability is log-minimax."""
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(np.column_stack((1.0 - scores, scores)), y.astype(np.float64))
    return lambda asked: np.asarray(model.predict_proba(np.column_stack((1.0 - asked, asked)))[0][:, 1])


def river(scores: Array, y: Flags, delay: int) -> Array:
    """River's online logistic regression of the log-odds, with its defaults."""
    model = linear_model.LogisticRegression()
    features = [{"log-odds": x} for x in log_odds(scores).tolist()]
    return _online(model, features, y, delay)


def score_blind(scores: Array, y: Flags, delay: int) -> Array:
    """River's logistic regression on the last four available labels, ±1, without the score."""
    signs = np.where(y, 1.0, -1.0)
    past = np.concatenate((np.zeros(LABELS + delay), signs)).tolist()
    features = [dict(enumerate(past[i : i + LABELS])) for i in range(len(y))]
    return _online(linear_model.LogisticRegression(), features, y, delay)


def _online(model: Any, features: list[dict[Any, float]], y: Flags, delay: int) -> Array:
    """Predict each step, then learn the observation whose label has arrived."""
    labels, predicted = y.tolist(), np.empty(len(y))
    for i, x in enumerate(features):
        predicted[i] = model.predict_proba_one(x)[True]
        if i >= delay:
            model.learn_one(features[i - delay], labels[i - delay])
    return predicted


def log_odds(scores: Array) -> Array:
    """Return log s/(1 − s), limited."""
    return np.asarray(logit(np.clip(scores, LOWEST, 1.0 - LOWEST)))


def installed(module: str) -> bool:
    """Return whether a peer can be imported."""
    return find_spec(module) is not None
