"""`SoftmaxScaling`: the base of temperature, vector and Dirichlet scaling; and their maps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamcal.errors import SolverError
from streamcal.kernels.common.class_scores import softmax
from streamcal.learners.additive import Additive
from streamcal.maps.base import frozen
from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap, VectorSharesMap
from streamcal.multiclass.labels import ClassLabel, in_order
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import real_number
from streamcal.parameters.types import FloatArray
from streamcal.solvers.softmax import Part, fit_softmax
from streamcal.statistics.class_table import LOG_FLOOR, ClassPoints, ClassTable, log_scores, log_scores_many
from streamcal.statistics.vector_table import check_limit

#: A mean of (ln s)² over the n outcomes of a class above this times n² makes the prior on its slopes stronger, by the
#: cube of the ratio: of a class seen once, at ln s = −16, the slope hardly moves, and larger scores are no likelier.
#: Bases such as naive Bayes often give an outcome the score 0: slopes are free again from some six outcomes on.
USUAL_SQUARE = 8.0
#: Distinct score vectors that are kept as they are: states of eight classes have up to 60 kB, and a solve for a few
#: classes takes some milliseconds.
LIMIT = 800


def softmax_many(z: FloatArray) -> FloatArray:
    """Return the `softmax` of each row."""
    e: FloatArray = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class ScaledLogsMap(MulticlassMap):
    """p_L proportional to exp(a_L ln s_L + b_L); a label without parameters has `slope` and b = 0."""

    sums_to_one = True

    def __init__(self, parameters: Mapping[ClassLabel, tuple[float, float]], slope: float = 1.0) -> None:
        self.parameters = dict(parameters)
        self.slope = slope

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        pairs = [self.parameters.get(label, (self.slope, 0.0)) for label in labels]
        z = [a * log + b for (a, b), log in zip(pairs, log_scores(scores), strict=True)]
        return softmax(z)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        a, b = np.array([self.parameters.get(label, (self.slope, 0.0)) for label in labels]).T
        return softmax_many(a * log_scores_many(scores) + b)

    def _affine(self, labels: list[ClassLabel]) -> tuple[FloatArray, FloatArray]:
        slopes, offsets = np.array([self.parameters.get(label, (self.slope, 0.0)) for label in labels]).T
        return np.diag(slopes), offsets.copy()


class DirichletMap(MulticlassMap):
    """p_L proportional to exp(Σ_M W_LM ln s_M + b_L) over the labels of the observation; W = I and b = 0 for others.

    `labels` name the rows and columns of `weights`, shape (K, K), and the entries of `offsets`, shape (K,).
    """

    sums_to_one = True

    def __init__(self, labels: Sequence[ClassLabel], weights: FloatArray, offsets: FloatArray) -> None:
        self.labels = tuple(labels)
        self.weights = frozen(weights)
        self.offsets = frozen(offsets)
        self._places = {label: place for place, label in enumerate(self.labels)}

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        z: list[float] = self._log_odds(labels, np.array([log_scores(scores)]))[0].tolist()
        return softmax(z)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        return softmax_many(self._log_odds(labels, log_scores_many(scores)))

    def _log_odds(self, labels: list[ClassLabel], logs: FloatArray) -> FloatArray:
        weights, offsets = self._affine(labels)
        return logs @ weights.T + offsets

    def _affine(self, labels: list[ClassLabel]) -> tuple[FloatArray, FloatArray]:
        known = [place for place, label in enumerate(labels) if label in self._places]
        theirs = [self._places[labels[place]] for place in known]
        weights, offsets = np.eye(len(labels)), np.zeros(len(labels))
        weights[np.ix_(known, known)] = self.weights[np.ix_(theirs, theirs)]
        offsets[known] = self.offsets[theirs]
        return weights, offsets


class SoftmaxScaling(MulticlassCalibrator):
    """A softmax of parameters times ln s, by maximum likelihood over everything held.

    Parameters
    ----------
    prior : float
        Strength ≥ 0 of a normal prior around the identity, in observations of the present. See Notes.
    limit : int or None
        The largest number of distinct score vectors that are kept, at least 64. None keeps all of them: memory and the
        time of a solve then grow with the stream. See Notes.
    forgetting, refresh_every
        See `streamcal.learners.additive.Additive`.

    Notes
    -----
    *Limit*: up to there the fit is exact. Beyond, vectors are kept in nested cells, the finest of which no more than
    the limit are in use (`ClassTable`): the fit is that to the mean ln s of each cell with the outcomes in it. Which
    cells these are does not depend on the order, and merging is concatenation. With the default limit a state has 60 kB
    at most for eight classes or fewer. Its log loss beside that of the exact fit, on cover types (seven classes) with a
    limit of 1,000: higher by 0.00003 nats at most for temperature and vector scaling, by 0.004 for the matrices
    (docs/many_classes_measured.md). Where scores fill the simplex it loses more, and more with more classes. With many
    classes give a larger limit, or use `OnlineVectorScaling`.

    *Prior*: ½·prior·Σ r·δ² is added to the sum of the log losses, where δ is the difference of a parameter from that of
    the identity. r is 1 for a temperature and for offsets. For the slope of a class it is max(1, m/(8n²))³, where m is
    the mean of (ln s)² over the n outcomes of the class, n at least 1; for an entry of a matrix it is the larger r of
    its two classes. A class that came once, at a score of 0, so gets an offset alone; from some six outcomes on the
    prior is standard normal, as in ridge regression with C = 1. A row added to all rows of a matrix changes no
    probability. Therefore the sum over each column has a prior too, with the largest r less 1: otherwise the other rows
    would move in place of that of such a class. With few observations the map stays near the identity, and with many
    the prior is negligible. A label that an observation does not name has the score 0 in it, also in observations
    learned before the label was known. In addition a ridge of 1e-9 per unit of weight makes the solution finite and
    unique where classes are perfectly separated or parameters are redundant.
    """

    sums_to_one = True

    def __init__(
        self,
        *,
        prior: float = 1.0,
        limit: int | None = LIMIT,
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        self.prior = nonnegative(prior, "prior")
        self.limit = check_limit(limit)
        self._engine = Additive(self.new_statistic(), forgetting, refresh_every)
        self.forgetting, self.refresh_every = forgetting, self._engine.refresh_every

    def new_statistic(self) -> ClassTable:
        """Return an empty statistic for these parameters."""
        return ClassTable(self.limit)

    def map(self) -> MulticlassMap:
        return self._map_at(None)

    def empty_map(self) -> MulticlassMap:
        """Return the map of an empty statistic."""
        return VectorSharesMap()

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(self, statistic: ClassTable, start: MulticlassMap | None) -> MulticlassMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        points = self._points(statistic)
        labels = in_order(dict.fromkeys(label for part in points for label in part.labels))
        names = self._parameters(labels)
        place = {name: i for i, name in enumerate(names)}
        parts = []
        for part in points:
            features, read = self._features(list(part.labels), part.logs)
            places = np.array([[place[name] for name in own] for own in read], dtype=np.intp)
            parts.append(Part(features, places, part.logs, part.weights))
        r = strengths(points, labels)
        penalty = self._priors(labels, r) / statistic.n + self._penalty(labels)
        earlier = {} if start is None else start.solution
        initial = np.array([earlier.get(name, 0.0) for name in names])
        solution = fit_softmax(parts, penalty, initial, self._sums(labels, r) / math.sqrt(statistic.n))
        if not solution.solved:
            raise SolverError(f"the Newton iteration of {type(self).__name__} ended with status {solution.status!r}")
        return self._map_of_solution(labels, solution.x)

    def _map_of_solution(self, labels: list[ClassLabel], delta: FloatArray) -> MulticlassMap:
        """Return the map of a solution, from which the next solve may start."""
        solved = self._map_of_parameters(labels, delta)
        solved.solution = dict(zip(self._parameters(labels), delta.tolist(), strict=True))
        return solved

    def _points(self, statistic: ClassTable) -> list[ClassPoints]:
        """Return the observations held; a label that an observation does not name has the score 0 in it."""
        return [among_all(statistic.points())]

    @abstractmethod
    def _parameters(self, labels: list[ClassLabel]) -> list[Any]:
        """Return a name for each parameter δ."""

    @abstractmethod
    def _features(self, labels: list[ClassLabel], logs: FloatArray) -> tuple[FloatArray, list[list[Any]]]:
        """Return the features of each label, shape (n, K, d), and the names of their parameters, K lists of d."""

    def _priors(self, labels: list[ClassLabel], r: FloatArray) -> FloatArray | float:
        """Return the precision of the normal prior of each parameter, in observations; r of the Notes by class."""
        return self.prior

    def _sums(self, labels: list[ClassLabel], r: FloatArray) -> FloatArray:
        """Return sums of parameters that have a normal prior too, a row each, of precision 1 in observations."""
        return np.zeros((0, len(self._parameters(labels))))

    @abstractmethod
    def _penalty(self, labels: list[ClassLabel]) -> FloatArray:
        """Return penalties in addition to the prior, per unit of weight, a number for each parameter."""

    @abstractmethod
    def _map_of_parameters(self, labels: list[ClassLabel], delta: FloatArray) -> MulticlassMap:
        """Return the map of a solution."""


def strengths(points: Sequence[ClassPoints], labels: list[ClassLabel]) -> FloatArray:
    """Return r of the Notes for the slope of each class, shape (K,)."""
    place = {label: column for column, label in enumerate(labels)}
    squares, total = np.zeros(len(labels)), np.zeros(len(labels))
    for part in points:
        columns = [place[label] for label in part.labels]
        squares[columns] += (part.weights * part.logs**2).sum(axis=0)
        total[columns] += part.weights.sum(axis=0)
    mean = np.divide(squares, total, out=np.zeros(len(labels)), where=total > 0.0)
    excess = mean / (USUAL_SQUARE * np.maximum(total, 1.0) ** 2)
    return np.maximum(excess, 1.0) ** 3


def among_all(points: Sequence[ClassPoints]) -> ClassPoints:
    """Join all observations of a table over all of its labels: unnamed labels have share and weight 0.

    So the observations learned before a label was known count against it.
    """
    labels = in_order(dict.fromkeys(label for part in points for label in part.labels))
    place = {label: column for column, label in enumerate(labels)}
    size = sum(len(part.logs) for part in points)
    logs, weights = np.full((size, len(labels)), LOG_FLOOR), np.zeros((size, len(labels)))
    start = 0
    for part in points:
        rows, columns = slice(start, start + len(part.logs)), [place[label] for label in part.labels]
        logs[rows, columns], weights[rows, columns] = part.logs, part.weights
        start = rows.stop
    return ClassPoints(tuple(labels), logs, weights)


def nonnegative(value: float, name: str) -> float:
    """Check that a number is finite and at least 0."""
    return real_number(value, name, "a number of at least 0", least=0.0)
