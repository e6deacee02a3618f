"""Metrics of the probabilities of several classes: log loss, Brier score and classwise calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError, RetractionError
from streamcal.metrics.base import Summed, check_true
from streamcal.metrics.ece import EqualMassECE
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.multiclass.labels import ClassLabel, ClassScores, check_class, read_batch, read_observation
from streamcal.parameters.inputs import FORECASTS, check_weight
from streamcal.parameters.numbers import real_number


class MulticlassMetric(Summed):
    """A metric of class probabilities against the label that occurred: the contract of `Metric`, for several classes.

    An observation is a dict label → probability, each in [0, 1] and summing to 1 up to 0.01, and the label y that
    occurred; where y is not in the dict, its probability was 0. An observation of weight 0 is checked and then ignored.

    Notes
    -----
    Cost: O(K) for K labels of an observation, unless a class states otherwise.
    """

    def update(self, y_true: ClassLabel, y_pred: ClassScores, w: float = 1.0) -> None:
        """Add one observation: the label that occurred, a dict label → probability, and a weight ≥ 0.

        Errors are those of `Metric.update`.
        """
        self._take(*_read(y_true, y_pred), check_weight(w))

    def update_many(
        self,
        y_true: Sequence[ClassLabel] | NDArray[Any],
        y_pred: ArrayLike,
        w: ArrayLike | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> None:
        """Add n observations: the same state as a loop of `update`.

        `y_true` are n labels, and `y_pred` their probabilities, of shape (n, K), in columns of the K `labels`; errors
        are those of `Metric.update_many`.
        """
        try:
            batch = read_batch(y_pred, y_true, w, labels, True)
        except InputError as error:
            swapped = np.asarray(y_pred, dtype=object).ndim == 1
            raise InputError(f"{error}{FORECASTS.hint * swapped}") from None
        for row in batch.one_by_one():
            self._take(*row)

    def revert(self, y_true: ClassLabel, y_pred: ClassScores, w: float = 1.0) -> None:
        """Remove one earlier `update` with the same arguments.

        Errors are those of `Metric.revert`.
        """
        self._give_back(*_read(y_true, y_pred), check_weight(w))


def _read(y_true: Any, y_pred: Any) -> tuple[dict[ClassLabel, float], ClassLabel]:
    """Read an observation; the `InputError` names the order of the arguments, in case they are swapped."""
    check_true(y_true, check_class)
    return read_observation(y_pred, y_true, True)


def _with_label(p: dict[ClassLabel, float], y: ClassLabel) -> dict[ClassLabel, float]:
    """Return the probabilities, with 0 for a label that occurred without one."""
    return p if y in p else {**p, y: 0.0}


class MulticlassLogLoss(MulticlassMetric):
    """Mean of −log max(p_y, clip) in nats, where p_y is the probability of the label that occurred; lower is better.

    Parameters
    ----------
    clip : float
        Probability above 0 and below 1, default `LOG_LOSS_CLIP`: a loss is at most −log(clip).

    Notes
    -----
    Cost: `update` and `revert` O(K), to check the probabilities; `merge` and `get` O(1); one sum in memory.

    References
    ----------
    I. J. Good, Rational decisions, Journal of the Royal Statistical Society B 14, 1952.

    Examples
    --------
    >>> loss = MulticlassLogLoss()
    >>> loss.update("b", {"a": 0.5, "b": 0.25, "c": 0.25})
    >>> round(loss.get(), 3)
    1.386
    """

    def __init__(self, clip: float = LOG_LOSS_CLIP) -> None:
        allowed = "a probability above 0 and below 1, such as 1e-6"
        self.clip = real_number(clip, "clip", allowed, above=0.0, below=1.0)
        super().__init__()

    def get(self) -> float | None:
        """Return the mean loss in nats; `None` before the first observation."""
        return self._mean_term()

    def _add(self, p: dict[ClassLabel, float], y: ClassLabel, w: float, sign: int) -> None:
        self._sum += sign * w * -math.log(max(p.get(y, 0.0), self.clip))


class MulticlassBrier(MulticlassMetric):
    """Mean of Σ_L (p_L − [y = L])² over the labels L, in [0, 2]; lower is better.

    For two classes it is twice `Brier`.

    Notes
    -----
    Cost: `update` and `revert` O(K); `merge` and `get` O(1); one sum in memory.

    References
    ----------
    G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review 78, 1950.

    Examples
    --------
    >>> brier = MulticlassBrier()
    >>> brier.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    >>> brier.get()
    0.375
    """

    def get(self) -> float | None:
        """Return the mean score, in [0, 2]; `None` before the first observation."""
        return self._mean_term()

    def _add(self, p: dict[ClassLabel, float], y: ClassLabel, w: float, sign: int) -> None:
        self._sum += sign * w * math.fsum((q - (label == y)) ** 2 for label, q in _with_label(p, y).items())


class ClasswiseECE(MulticlassMetric):
    """Classwise calibration error: the mean over the labels L of `EqualMassECE` of (p_L, y = L), in [0, 1].

    Lower is better. The error of a label is computed over the observations that predicted it or in which it occurred.
    The source uses bins of equal width; these have equal mass.

    Parameters
    ----------
    bins : int
        Number of bins for each label, at least 1, default 15.

    Raises
    ------
    InputError
        For another number of bins.
    RetractionError
        By `revert`, where a label has no observation in the cell of its probability; nothing is changed then.

    Notes
    -----
    Cost: `update` and `revert` O(K); `get` O(c) for c occupied cells in all; `merge` O(c). Memory: one
    `EqualMassECE` for each label, at most 2.0 MB each.

    References
    ----------
    M. Kull and others, Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with Dirichlet
    calibration, NeurIPS 2019.

    Examples
    --------
    >>> ece = ClasswiseECE(bins=1)
    >>> ece.update_many(["a", "b"], [[0.5, 0.5], [0.75, 0.25]], labels=["a", "b"])
    >>> ece.get(), sorted(ece.by_label())
    (0.125, ['a', 'b'])
    """

    def __init__(self, bins: int = 15) -> None:
        self.bins = EqualMassECE(bins).bins
        super().__init__()

    def get(self) -> float | None:
        """Return the mean error, in [0, 1]; `None` before the first observation."""
        values = self.by_label().values()
        return math.fsum(values) / len(values) if values else None

    def by_label(self) -> dict[ClassLabel, float]:
        """Return the error of each label. O(c)."""
        values = {label: ece.get() for label, ece in self._by_label.items()}
        return {label: value for label, value in values.items() if value is not None}

    def _clear(self) -> None:
        self._by_label: dict[ClassLabel, EqualMassECE] = {}

    def _add(self, p: dict[ClassLabel, float], y: ClassLabel, w: float, sign: int) -> None:
        probabilities = _with_label(p, y)
        if sign < 0:  # of all labels, before anything is taken
            for label, q in probabilities.items():
                if label not in self._by_label or not self._by_label[label].holds(q):
                    raise RetractionError(f"no observation of {label!r} near probability {q!r} is held to be reverted")
                self._by_label[label]._require_removable(w)
        for label, q in probabilities.items():
            ece = self._by_label.setdefault(label, EqualMassECE(self.bins))
            if sign > 0:
                ece.update_checked(q, float(label == y), w)
            else:
                ece.revert(label == y, q, w)

    def _absorb(self, other: Self) -> None:
        for label, theirs in list(other._by_label.items()):
            self._by_label.setdefault(label, EqualMassECE(self.bins)).merge(theirs)
