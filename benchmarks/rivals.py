"""What a user would pick instead. Where a rival has no step, one observation costs it a fit of everything.

The data of a refit stand ready as the rival wants them (arrays; sorted where it may be); getting the new observation
into them is left out in its favour. All Venn-Abers rivals must agree with ours (`disagreement`), or their times would
say nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import venn_abers  # type: ignore[import-untyped]
from betacal import BetaCalibration  # type: ignore[import-untyped]
from online_cp.venn import VennAbersPredictor
from river import linear_model, optim
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression, isotonic_regression

from benchmarks.arrivals import Array, Part, Stream
from benchmarks.timing import Subject
from streamcal import VennAbers

#: The queries at which the Venn-Abers rivals are compared with ours.
COMPARED = 3


def logits(scores: Array) -> Array:
    """Log-odds."""
    return np.log(scores / (1.0 - scores))


class River(Subject):
    """River's online logistic regression on the log-odds of the score, default optimiser and rate."""

    warm_up = 2_000

    def __init__(self) -> None:
        self.model = linear_model.LogisticRegression(optim.SGD(0.01))

    def run(self, part: Part) -> None:
        predict, learn = self.model.predict_proba_one, self.model.learn_one
        for query, score, y in part.steps:
            predict({"logit": log(query / (1.0 - query))})
            learn({"logit": log(score / (1.0 - score))}, y)


class Refit(Subject):
    """A rival that fits everything for one prediction."""

    batch = 1
    warm_up = 0

    def __init__(self, stream: Stream) -> None:
        self.scores, labels = stream.start()
        self.y = labels.astype(np.float64)

    @abstractmethod
    def predict(self, query: float) -> Any:
        """Fit, and predict one score."""

    def run(self, part: Part) -> None:
        for query, _score, _y in part.steps:
            self.predict(query)


class PyPIVennAbers(Refit):
    """`venn-abers`: fit, and predict one."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.pairs = np.column_stack((1.0 - self.scores, self.scores))

    def predict(self, query: float) -> tuple[float, float]:
        model = venn_abers.VennAbers()
        model.fit(self.pairs, self.y)
        return tuple(model.predict_proba(np.array([[1.0 - query, query]]))[1][0].tolist())


class TwoIsotonicRegressions(Refit):
    """What a Venn-Abers interval takes at least from scikit-learn: its bare solver twice, on presorted arrays.

    The two arrays, in which the test object stands with label 0 and with label 1, are made before the clock runs.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        order = np.argsort(self.scores)
        self.sorted_scores, self.sorted_y = self.scores[order], self.y[order]
        self.set_query(float(stream.queries[0]))

    def set_query(self, query: float) -> None:
        """Put a test object into the arrays."""
        self.place = int(np.searchsorted(self.sorted_scores, query))
        self.with_0, self.with_1 = (np.insert(self.sorted_y, self.place, label) for label in (0.0, 1.0))

    def predict(self, query: float) -> tuple[float, float]:
        p0, p1 = isotonic_regression(self.with_0), isotonic_regression(self.with_1)
        return float(p0[self.place]), float(p1[self.place])


class RefitIsotonic(Refit):
    """`sklearn.isotonic.IsotonicRegression`: fit, and predict one."""

    def predict(self, query: float) -> Any:
        return IsotonicRegression(out_of_bounds="clip").fit(self.scores, self.y).predict([query])


class RefitSigmoid(Refit):
    """Platt scaling in scikit-learn: the class that `CalibratedClassifierCV` fits, without its cross-validation."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.logits = logits(self.scores)

    def predict(self, query: float) -> Any:
        return _SigmoidCalibration().fit(self.logits, self.y).predict(np.array([log(query / (1.0 - query))]))


class RefitBeta(Refit):
    """`betacal`: fit of all three parameters, and predict one."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.column = self.scores[:, None]

    def predict(self, query: float) -> Any:
        return BetaCalibration("abm").fit(self.column, self.y).predict(np.array([[query]]))


class OnlineCP(Refit):
    """`online-cp`: its transductive Venn-Abers predictor, predict one and learn one.

    It trains a scorer of its own. With the ridge scorer and the score as the only feature the fitted values have the
    order of the scores under both labels, so its interval is the one of the score. It sorts everything for each query.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.model = VennAbersPredictor(scorer="ridge", a=1.0)
        self.model.learn_initial_training_set(self.scores[:, None], self.y.astype(np.int64))
        self.predict(0.5)  # compiles, where numba is installed

    def predict(self, query: float) -> tuple[float, float]:
        found: Any = self.model.predict(np.array([query]))
        return float(found.p0), float(found.p1)

    def run(self, part: Part) -> None:
        for query, score, y in part.steps:
            self.model.predict(np.array([query]))
            self.model.learn_one(np.array([score]), int(y))


#: Name → rival for a stream, in the order of the table.
REFITS: dict[str, Callable[[Stream], Refit]] = {
    "venn-abers, fit + predict one": PyPIVennAbers,
    "online-cp, Venn-Abers": OnlineCP,
    "scikit-learn, two isotonic_regression": TwoIsotonicRegressions,
    "scikit-learn, refit isotonic": RefitIsotonic,
    "scikit-learn, refit sigmoid": RefitSigmoid,
    "betacal, refit": RefitBeta,
}
#: Those that compute the interval ours computes.
INTERVALS = tuple(REFITS)[:3]


def disagreement(stream: Stream, name: str) -> float:
    """Return the largest difference between a rival's intervals and ours, over a few queries."""
    ours, rival = VennAbers(), REFITS[name](stream)
    ours.learn_many(*stream.start())
    worst = 0.0
    for query in stream.queries[:COMPARED].tolist():
        if isinstance(rival, TwoIsotonicRegressions):
            rival.set_query(query)
        pairs = zip(rival.predict(query), ours.predict_interval_one(query), strict=True)
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    return worst
