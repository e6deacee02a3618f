"""`streamcal demo`: two River models that learn online from the bank stream, and their calibration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from river import base, compose, linear_model, naive_bayes, preprocessing

from streamcal.calibrators.auto import Auto
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.bernstein import Bernstein
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.calibrators.venn_abers import VennAbers
from streamcal.datasets import BANK_CATEGORICAL, BANK_NUMERIC, BANK_ROWS, bank
from streamcal.kernels import COMPILED
from streamcal.kernels.common.logistic import sigmoid
from streamcal.metrics import LogLossDifference
from streamcal.parameters.forgetting import Window
from streamcal.parameters.scales import Logit
from streamcal.stream.prequential import Scoreboard

#: The score if a model returns no probabilities: a River classifier may return {} before it has learned.
NO_SCORE = 0.5
#: The window of the demonstration: a round number, chosen before any result was known.
WINDOW = 5_000
PROGRESS_EVERY = 500
#: The model whose drift and correction are shown, and the method.
#: Without compiled kernels `auto` would take some minutes: it is left out.
SHOWN, BY = "naive Bayes", DEFAULT_METHOD if COMPILED else "venn-abers"
#: Parts of the stream between which drift is shown.
PARTS = 8
#: Calls whose labels are wrong at first in `late_correction`, and the score that is looked at.
MISTAKEN, CORRECTED_AT = 500, 0.5


@dataclass
class Part:
    """Sums over consecutive calls: how many, how many subscribed, and how many were predicted to."""

    calls: int = 0
    positives: int = 0
    raw: float = 0.0
    calibrated: float = 0.0


@dataclass(frozen=True)
class Correction:
    """The probability given to `CORRECTED_AT`: all labels right, the last ones wrong, and those put right."""

    right: float
    wrong: float
    corrected: float


@dataclass(frozen=True)
class Result:
    """The results of `run`, most of them by base model."""

    boards: dict[str, dict[str, Scoreboard]]  #: the measures by base model and method, or "raw"
    differences: dict[str, dict[str, LogLossDifference]]  #: the log loss of each method against the raw score
    base_rate: Scoreboard  #: the measures of the running base rate as a prediction
    parts: list[Part]  #: the stream of `SHOWN` in parts of equal length
    correction: Correction  #: of labels that were wrong, for the scores of `SHOWN`


def run(progress: Callable[[int, float | None], None]) -> Result:
    """Learn and calibrate both base models over the whole bank stream; `progress(rows, share)` shows progress."""
    boards: dict[str, dict[str, Scoreboard]] = {}
    differences: dict[str, dict[str, LogLossDifference]] = {}
    parts, last = [Part() for _ in range(PARTS)], deque[tuple[float, bool]](maxlen=WINDOW + MISTAKEN)
    rows, total = 0, len(bases()) * BANK_ROWS
    for name, model in bases().items():
        calibrators = methods()
        boards[name] = {method: Scoreboard() for method in ("raw", *calibrators)}
        differences[name] = {method: LogLossDifference(adaptive=True) for method in calibrators}
        for i, (score, y) in enumerate(score_stream(model(), bank())):
            boards[name]["raw"].update(y, score)
            for method, calibrator in calibrators.items():
                p = calibrator.predict_one(score)
                calibrator.learn_one(score, y)
                boards[name][method].update_checked(p, float(y), 1.0)
                differences[name][method].update_checked(p, score, float(y))
                if (name, method) == (SHOWN, BY):
                    _count(parts[min(i * PARTS // BANK_ROWS, PARTS - 1)], score, p, y)
            if name == SHOWN:
                last.append((score, y))
            rows += 1
            if rows % PROGRESS_EVERY == 0:
                progress(rows, rows / total)
    return Result(boards, differences, running_base_rate(y for _, y in bank()), parts, late_correction(list(last)))


def _count(part: Part, raw: float, calibrated: float, y: bool) -> None:
    part.calls += 1
    part.positives += y
    part.raw += raw
    part.calibrated += calibrated


def late_correction(scored: list[tuple[float, bool]]) -> Correction:
    """Learn the last `MISTAKEN` labels as positive, all of them, and then unlearn those that were not.

    Examples
    --------
    >>> found = late_correction([(i % 10 / 10.0, i % 10 >= 8) for i in range(1_000)])
    >>> found.wrong > 2.0 * found.right, found.corrected == found.right
    (True, True)
    """
    right, corrected = (VennAbers(forgetting=Window(WINDOW)) for _ in range(2))
    earlier, late = scored[:-MISTAKEN], scored[-MISTAKEN:]
    for cal in (right, corrected):
        cal.learn_many([score for score, _ in earlier], [y for _, y in earlier])
    for score, y in late:
        right.learn_one(score, y)
        corrected.learn_one(score, True)
    wrong = corrected.predict_one(CORRECTED_AT)
    for score, y in late:
        if not y:
            corrected.unlearn_one(score, True)
            corrected.learn_one(score, False)
    return Correction(right.predict_one(CORRECTED_AT), wrong, corrected.predict_one(CORRECTED_AT))


def running_base_rate(labels: Iterable[bool]) -> Scoreboard:
    """Return the measures of the running base rate (Laplace's rule of succession) as a prediction.

    Examples
    --------
    >>> round(running_base_rate([True, False]).brier.get(), 4)
    0.3472
    """
    board, positives = Scoreboard(), 0
    for i, y in enumerate(labels):
        board.update(y, (positives + 1) / (i + 2))
        positives += y
    return board


def methods() -> dict[str, Calibrator]:
    """Return the calibrators of the demonstration."""
    calibrators: dict[str, Calibrator] = {
        "online-platt": OnlinePlatt(),
        "bernstein": Bernstein(10, scale=Logit(), forgetting=Window(WINDOW)),
        "venn-abers": VennAbers(forgetting=Window(WINDOW)),
    }
    return calibrators | {"auto": Auto()} if COMPILED else calibrators


def bases() -> dict[str, Callable[[], base.Classifier]]:
    """Return the base models of the demonstration by name: factories of untrained River pipelines.

    The logistic regression is calibrated on average, less so conditionally on the score. Naive Bayes assumes
    independent features, which they are not, and is very overconfident.

    Examples
    --------
    >>> sorted(bases())
    ['logistic regression', 'naive Bayes']
    """
    return {"logistic regression": logistic_regression, "naive Bayes": gaussian_naive_bayes}


def logistic_regression() -> base.Classifier:
    """Return scaled numeric and one-hot categorical features, and a logistic regression with River's default SGD."""
    # Sparse one-hot features: a row then has 19 features instead of 62, with the same model.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder(drop_zeros=True)
    numbers = compose.Select(*BANK_NUMERIC) | preprocessing.StandardScaler()
    return (numbers + words) | compose.FuncTransformer(in_order) | linear_model.LogisticRegression()


def gaussian_naive_bayes() -> base.Classifier:
    """Return numeric and one-hot categorical features, and a Gaussian naive Bayes."""
    # Dense one-hot features: a Gaussian of a feature that is always 1 would have variance 0.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder()
    return (compose.Select(*BANK_NUMERIC) + words) | compose.FuncTransformer(in_order) | GaussianNB()


class GaussianNB(naive_bayes.GaussianNB):
    """River's, with the posterior of two classes as a sigmoid: SciPy's logsumexp takes longer than all else it does."""

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        joint = self.joint_log_likelihood(x)
        if len(joint) != 2:
            return dict(super().predict_proba_one(x))
        (label, of_one), (other_label, of_other) = joint.items()
        return {label: float(sigmoid(of_one - of_other)), other_label: float(sigmoid(of_other - of_one))}


def in_order(features: dict[Any, Any]) -> dict[Any, Any]:
    """Return the features in the order of their names.

    River selects and encodes features by sets of strings. Their order differs from one process to the next, and so
    does the rounding of every sum over features.
    """
    return dict(sorted(features.items()))


def score_stream(
    model: base.Classifier, rows: Iterable[tuple[dict[str, float | str], bool]]
) -> Iterator[tuple[float, bool]]:
    """Yield the score P(y = True) of every row, predicted before the model learns the row, and its label.

    Lazy: a row is learned when the next one is requested. A label that the model has not seen has probability 0; if the
    model returns {}, the score is `NO_SCORE`.

    Examples
    --------
    >>> from itertools import islice
    >>> from streamcal.datasets import bank
    >>> list(score_stream(logistic_regression(), islice(bank(), 1)))
    [(0.5, False)]
    """
    for features, y in rows:
        probabilities = model.predict_proba_one(features)
        yield probabilities.get(True, 0.0) if probabilities else NO_SCORE, y
        model.learn_one(features, y)
