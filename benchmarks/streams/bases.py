"""The base models, which compute scores from the features of a table."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import compose, linear_model, preprocessing, tree
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.streams.tables import Array, Table

#: Rows that train the frozen base, and those of the short tables.
TRAIN, SHORT_TRAIN = 5_000, 1_000
SHORT_TABLES = {"spambase", "coil2000"}
#: As the issue of this race asks: a score of 0 or 1 would decide the log loss of the raw score by itself.
LOWEST = 1e-3
SEED = 0

Features = dict[str, float | str]


def train_size(name: str) -> int:
    """Return how many of the first rows train the frozen base; both bases are scored on the rows after them."""
    return SHORT_TRAIN if name in SHORT_TABLES else TRAIN


def clipped(scores: Array) -> Array:
    """Scores in [.001, .999]."""
    return np.clip(scores, LOWEST, 1.0 - LOWEST)


def frozen(table: Table, train: int) -> Array:
    """Gradient boosting, trained once; the probabilities of the later rows."""
    return _trained(HistGradientBoostingClassifier(random_state=SEED), table, train)


def naive_bayes(table: Table, train: int) -> Array:
    """Gaussian naive Bayes, trained once: most of its scores are near 0 and 1."""
    return _trained(GaussianNB(), table, train)


def network(table: Table, train: int) -> Array:
    """Score by a network of one hidden layer, trained once on standardised features."""
    return _trained(make_pipeline(StandardScaler(), MLPClassifier(random_state=SEED)), table, train)


def _trained(model: Any, table: Table, train: int) -> Array:
    """Return the probabilities of the later rows; words are ordinal codes."""
    x = np.column_stack(list(table.numbers.values()))
    if table.words:
        words = np.array(list(table.words.values()), dtype=object).T
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(words[:train])
        x = np.hstack([x, codes.transform(words)])
    with threadpool_limits(1):  # on a busy machine its threads wait for each other longer than they work
        return np.asarray(model.fit(x[:train], table.y[:train]).predict_proba(x[train:])[:, 1])


def frozen_tree(table: Table, train: int) -> Array:
    """River's Hoeffding tree, trained once, row by row; the probabilities of the later rows."""
    model = tree.HoeffdingTreeClassifier()
    rows = features(table)
    for x, y in itertools.islice(zip(rows, table.y.tolist(), strict=True), train):
        model.learn_one(x, y)
    return np.array([model.predict_proba_one(x).get(True, 0.0) for x in itertools.islice(features(table), train, None)])


def online(table: Table, train: int, delay: int) -> Array:
    """River's logistic regression, which predicts each row and learns it `delay` rows later; the later rows."""
    model = compose.TransformerUnion(compose.Select(*table.numbers) | preprocessing.StandardScaler())
    if table.words:
        model += compose.Select(*table.words) | preprocessing.OneHotEncoder()
    model |= linear_model.LogisticRegression()
    waiting: deque[tuple[Features, bool]] = deque()
    predicted = np.empty(len(table.y))
    for i, (x, y) in enumerate(zip(features(table), table.y.tolist(), strict=True)):
        predicted[i] = model.predict_proba_one(x)[True]
        waiting.append((x, y))
        if len(waiting) > delay:
            model.learn_one(*waiting.popleft())
    return predicted[train:]


def features(table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows in the form that River expects."""
    columns = {name: values.tolist() for name, values in table.numbers.items()} | table.words
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))
