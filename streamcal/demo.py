"""What `streamcal demo` calibrates: two River models that learn online from the bank stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from river import base, compose, linear_model, naive_bayes, preprocessing

from streamcal.datasets import BANK_CATEGORICAL, BANK_NUMERIC

#: The score of a model that says nothing yet: a River classifier may answer {} before it has learned.
NO_OPINION = 0.5


def bases() -> dict[str, Callable[[], base.Classifier]]:
    """The base models of the demonstration by name: factories of untrained River pipelines.

    The logistic regression is a decent model, calibrated on the whole, less so score by score. Naive Bayes takes
    its features for independent, which they are not, and is badly overconfident: that is the one to repair.

    >>> sorted(bases())
    ['logistic regression', 'naive Bayes']
    """
    return {"logistic regression": logistic_regression, "naive Bayes": gaussian_naive_bayes}


def logistic_regression() -> base.Classifier:
    """Scaled numbers and one-hot words into a logistic regression with River's default SGD."""
    # Words without their zeros: a row then has 19 features instead of 62, at the same model.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder(drop_zeros=True)
    numbers = compose.Select(*BANK_NUMERIC) | preprocessing.StandardScaler()
    return (numbers + words) | linear_model.LogisticRegression()


def gaussian_naive_bayes() -> base.Classifier:
    """Numbers as they are and one-hot words into a Gaussian naive Bayes."""
    # Here the zeros are needed: a Gaussian of a feature that is always 1 has no width.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder()
    return (compose.Select(*BANK_NUMERIC) + words) | naive_bayes.GaussianNB()


def score_stream(
    model: base.Classifier, rows: Iterable[tuple[dict[str, float | str], bool]]
) -> Iterator[tuple[float, bool]]:
    """The score of every row, P(y = True), given before the model learns the row, and the label of the row.

    Lazy: a row is learned when the next one is asked for. A label the model has not met yet has probability
    0; a model that answers {} gives `NO_OPINION`.

    >>> from itertools import islice
    >>> from streamcal.datasets import bank
    >>> list(score_stream(logistic_regression(), islice(bank(), 1)))
    [(0.5, False)]
    """
    for features, y in rows:
        probabilities = model.predict_proba_one(features)
        yield probabilities.get(True, 0.0) if probabilities else NO_OPINION, y
        model.learn_one(features, y)
