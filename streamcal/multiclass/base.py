"""Define the contract of multiclass calibrators: scores by label in, probabilities that sum to one out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import CapabilityError
from streamcal.kernels.common import class_scores
from streamcal.learners.learner import Learner, in_turn
from streamcal.learners.pending import Pending, pending_of
from streamcal.maps.onnx_graph import softmax_model
from streamcal.multiclass.labels import (
    SUM_TOLERANCE,
    ClassLabel,
    ClassScores,
    in_columns_of,
    read_batch,
    read_labels,
    read_observation,
    read_scores,
    read_table,
    shares,
    shares_many,
)
from streamcal.multiclass.observations import coordinate, coordinates
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_scores_matrix, check_weight, row_times
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.statistics.class_table import LOG_FLOOR


class MulticlassMap(ABC):
    """A pure function of the scores of an observation: an immutable snapshot, safe for any number of threads."""

    __repr__ = shown
    _repr_html_ = shown_table

    #: Whether scores must sum to one.
    sums_to_one: ClassVar[bool] = False
    #: The parameters that an iterative solver found, by name: the next solve may begin there.
    solution: Mapping[Any, float] = MappingProxyType({})

    def predict_one(self, scores: ClassScores) -> dict[ClassLabel, float]:
        """Return the probabilities of the labels of `scores`, summing to one."""
        read = read_scores(scores, self.sums_to_one)
        return by_label(scores, list(read), self.at(list(read), list(read.values())))

    def predict_many(self, P: ArrayLike, *, labels: Sequence[ClassLabel]) -> FloatArray:
        """Return the probabilities of the labels, for scores of shape (n, K) with a column per label; shape (n, K)."""
        table = read_table(P, labels, self.sums_to_one)
        names = [table.labels[column] for column in table.columns]
        return like(P, self.at_many(table.labels, table.scores)[:, table.columns], names)

    def __call__(self, scores: ClassScores) -> dict[ClassLabel, float]:
        return self.predict_one(scores)

    def to_onnx(self, labels: Sequence[ClassLabel], input: Literal["double", "float"] = "double") -> Any:
        """Return the map as a model in ONNX, with the input `scores` and the output `probabilities`.

        Parameters
        ----------
        labels : sequence
            The labels of the columns, in the order of the model whose scores they are.
        input : {"double", "float"}
            Type of the scores.

        Returns
        -------
        onnx.ModelProto
            A model of opset 17 for shape (n, K). Its probabilities are of type double. A row with NaN, a score outside
            [0, 1] or a sum that is not one, up to 0.01, becomes NaN.

        Raises
        ------
        CapabilityError
            For a map that is no softmax of a matrix on logarithms: maps of temperature, vector and Dirichlet scaling
            are.
        ModuleNotFoundError
            If the package onnx is not installed.
        """
        affine = self._affine(read_labels(labels))
        if affine is None:
            raise CapabilityError(
                f"{type(self).__name__} cannot be written as ONNX; maps of TemperatureScaling, VectorScaling, "
                "OnlineVectorScaling and Dirichlet can"
            )
        return softmax_model(*affine, LOG_FLOOR, SUM_TOLERANCE, input)

    def _affine(self, labels: list[ClassLabel]) -> tuple[FloatArray, FloatArray] | None:
        """Return the matrix W and the offsets b of softmax(W·ln s + b) for these labels; None for another map."""
        return None

    @abstractmethod
    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        """Return the probabilities at checked scores, labels in order."""

    @abstractmethod
    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        """Return the probabilities at checked scores of shape (n, K), labels in order; shape (n, K)."""


def by_label(scores: ClassScores, labels: list[ClassLabel], p: list[float]) -> dict[ClassLabel, float]:
    """Return the probabilities of labels in order as a dict whose keys are the labels as given in `scores`."""
    return class_scores.by_label(scores, labels, p)


class SharesMap(MulticlassMap):
    """The scores, divided by their sum: the prediction before the first observation."""

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        return shares(scores)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        return shares_many(scores)


class VectorSharesMap(SharesMap):
    """Scores that must sum to one, divided by their sum."""

    sums_to_one = True


class MulticlassCalibrator(Learner):
    """A method for several classes: it learns which label followed scores by label, and predicts probabilities.

    An observation is a dict label → score in [0, 1] and the label that occurred. Labels are strings, bools, whole
    numbers or finite floats, and may appear at any time. Predictions are for the labels that have scores, and sum to
    one; a label without observations keeps its score, up to the normalisation.

    **A label that an observation does not name has the score 0 in it.** That applies to a label that occurs without a
    score, and to all labels that are known when a prediction is made. 2,000 observations without a label that came once
    are 2,000 observations of the score 0, and the share of that label there is 1 in 2,001. So what was learned before a
    label was known counts against it, whatever the order. `TemperatureScaling`, which has no parameter for a label, and
    sequential methods, to which a label is new when they first see it, leave such labels out.
    """

    #: Whether the scores of an observation must sum to one.
    sums_to_one: ClassVar[bool] = False
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False

    def learn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `scores` were followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        self._learn(*self._checked(scores, y, w, t))

    def learn_many(
        self,
        P: ArrayLike,
        y: Sequence[ClassLabel] | NDArray[Any],
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> None:
        """Learn n observations: the same state as a loop of `learn_one`; on an error nothing is learned.

        Scores have shape (n, K), with a column for each of `labels`; the labels that occurred have shape (n,).
        """
        batch = read_batch(P, y, w, labels, self.sums_to_one)
        self._learn_many(*coordinates(batch), batch.weights, self._times(t, len(batch.outcome)))

    def unlearn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        self._unlearn(*self._checked(scores, y, w, t))

    def issue(self, scores: ClassScores, t: Time | None = None, *, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label: see `Calibrator.issue`.

        The result's `p` is that of `predict_one`, a dict.

        Examples
        --------
        >>> from streamcal.multiclass import OnlineVectorScaling
        >>> cal = OnlineVectorScaling()
        >>> issued = cal.issue({"a": 0.25, "b": 0.75})
        >>> cal.settle(issued, "a")
        >>> issued.p, cal.n
        ({'a': 0.25, 'b': 0.75}, 1.0)
        """
        issued = pending_of(self, scores, None, t, w)
        issued.x = dict(scores)  # copied, since the caller may change them
        return issued

    def predict_learn_many(
        self,
        P: ArrayLike,
        y: Sequence[ClassLabel] | NDArray[Any],
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> FloatArray:
        """Predict and then learn each of n observations in order: a whole stream in one call.

        As `Calibrator.predict_learn_many`, of scores of shape (n, K), with a column for each of the K `labels`, and the
        n labels that occurred. The result has shape (n, K), in the columns of the labels; with a pandas `DataFrame`, it
        is one.

        Examples
        --------
        >>> from streamcal.multiclass import OnlineVectorScaling
        >>> P = [[0.25, 0.75], [0.5, 0.5]]
        >>> OnlineVectorScaling().predict_learn_many(P, ["a", "b"], labels=["a", "b"]).shape
        (2, 2)
        """
        rows = in_turn(self.predict_one, self._learn_checked, self._rows(P, y, w, t, labels))
        return rows_like(P, rows, labels)

    def _rows(
        self,
        P: ArrayLike,
        y: Sequence[ClassLabel] | NDArray[Any],
        w: ArrayLike | None,
        t: Times | None,
        labels: Sequence[ClassLabel],
    ) -> Iterable[tuple[Any, ...]]:
        """Return the arguments of `learn_one` and of `_learn` for each observation, after checking all of them."""
        batch = read_batch(P, y, w, labels, self.sums_to_one)  # whose messages name the row
        times = self._times(t, len(batch.outcome))
        self._require_times(times[batch.weights > 0.0])
        names = read_labels(labels)
        rows = check_scores_matrix(in_columns_of(P, names), len(names)).tolist()
        named = [dict(zip(names, row, strict=True)) for row in rows]
        at = row_times(t, times)
        came = [batch.labels[column] for column in batch.outcome]
        columns = named, came, batch.weights.tolist(), at
        return [(*row, self._checked(*row)) for row in zip(*columns, strict=True)]

    def _learn_checked(self, scores: ClassScores, y: ClassLabel, w: float, t: Time | None, checked: Any) -> None:
        self._learn(*checked)

    def _checked(self, scores: ClassScores, y: ClassLabel, w: float, t: Time | None) -> tuple[Any, float, float, float]:
        """Return the coordinate, the place of the label in it, the weight and the time; or raise an `InputError`."""
        read, label = read_observation(scores, y, self.sums_to_one)
        return (*coordinate(read, label), check_weight(w), self._time(t))

    def predict_one(self, scores: ClassScores, t: Time | None = None) -> dict[ClassLabel, float]:
        """Return the probabilities of the labels of `scores`, summing to one, as of time `t`.

        The state does not change.
        """
        return self._map_for_predictions(t).predict_one(scores)

    def predict_many(self, P: ArrayLike, t: Time | None = None, *, labels: Sequence[ClassLabel]) -> FloatArray:
        """Return the probabilities of the columns' labels for scores of shape (n, K), as of time `t`; shape (n, K).

        `labels` names the columns. All rows are predicted as of time `t`. The state does not change.
        """
        return self._map_for_predictions(t).predict_many(P, labels=labels)

    def _map_for_predictions(self, t: Time | None) -> MulticlassMap:
        """Return the map as of `t`, or an existing object with the same predictions."""
        return self._map_at(t)

    @abstractmethod
    def map(self) -> MulticlassMap:
        """Return the current map, immutable."""


def rows_like(P: Any, rows: Sequence[Mapping[ClassLabel, float]], labels: Sequence[ClassLabel]) -> FloatArray:
    """Return predictions by label as rows of shape (n, K), in the container type of the scores."""
    table = np.array([[row[label] for label in labels] for row in rows], dtype=np.float64)
    return like(P, table.reshape(-1, len(labels)), list(labels))
