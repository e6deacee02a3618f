"""Probabilities with labels, and a summary of them in bounded memory: sums per cell of a grid on the logit scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from streamcal.kernels.common.measures import CellTable, log_losses
from streamcal.metrics.label_weights import sampled, variance_factor, weights_by_label
from streamcal.parameters.types import FloatArray

#: Cells per unit of log-odds. Two probabilities in one cell differ by at most 0.2 % of p (1 − p).
CELLS_PER_LOGIT = 512
#: Log-odds beyond ± this limit (p below 3.8e-11, p above 1 − 3.8e-11) have cells of ¼, down to the least double.
LOGIT_LIMIT = 24.0
_LAST = int(LOGIT_LIMIT * CELLS_PER_LOGIT)
_TAIL = 4 * (746 - int(LOGIT_LIMIT))
#: The draws of calibrated labels depend on the scores alone: the same floor each time that it is asked for.
SEED = 0


@dataclass(frozen=True)
class Forecasts:
    """Probabilities, labels (0.0 or 1.0) and weights above 0, arrays of one length that have been checked."""

    p: FloatArray
    y: FloatArray
    w: FloatArray

    @classmethod
    def of(cls, p: FloatArray, y: FloatArray, w: FloatArray) -> Self:
        """Make the predictions of the rows with a weight above 0."""
        counted = w > 0.0
        if counted.all():
            return cls(np.ascontiguousarray(p), np.ascontiguousarray(y), w)
        return cls(p[counted], y[counted], w[counted])

    @cached_property
    def log_losses(self) -> tuple[FloatArray, FloatArray]:
        """−log p and −log(1 − p), infinite where the probability is 0."""
        positive, negative = log_losses(self.p)
        return positive, negative


def dot(first: FloatArray, second: FloatArray) -> float:
    """Return Σ aᵢ bᵢ of two columns.

    BLAS wakes other threads for 10,000 numbers and more, which takes hundreds of times as long on a busy machine.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.einsum("i,i", first, second))


class CellColumns(NamedTuple):
    """The occupied cells as arrays of shape (c,), in ascending order of probability.

    `p` is the mean probability of a cell, from `low` to `high`; `number`, `weight`, `squared` and `predicted` are the
    sums of 1, w, w² and w p; `negative` and `positive` are the weights of the labels in it, both ≥ 0;
    `squared_positive` is the sum of w² of the positives, and `effective` the effective number of its observations,
    (Σ w)²/Σ w², from 1 to their number.
    """

    p: FloatArray
    low: FloatArray
    high: FloatArray
    number: FloatArray
    weight: FloatArray
    squared: FloatArray
    predicted: FloatArray
    negative: FloatArray
    positive: FloatArray
    squared_positive: FloatArray
    effective: FloatArray

    @property
    def by_label(self) -> tuple[float, float]:
        """What `weights_by_label` finds over all cells."""
        sums = (self.positive, self.negative, self.squared_positive, self.squared - self.squared_positive)
        return weights_by_label(*(float(column.sum()) for column in sums))

    @property
    def variance(self) -> FloatArray:
        """The variance of the weight of the positives in each cell, where the probabilities are right."""
        return self.squared * self.p * (1.0 - self.p) * variance_factor(self.p, self.by_label)


class ProbabilityCells:
    """Sums (Σw, Σw², Σwp, Σwy, Σw²y) of observations by cell of the log-odds of p.

    Notes
    -----
    2 ⋅ (24 ⋅ 512 + 722 ⋅ 4) = 30,352 cells, of which those that hold nothing take no memory: 2.0 MB at most. The sums
    are those of the observations themselves, not of cell centres. After a `take` the range of a cell may be wider than
    that of the observations held, and never narrower. Cost: `add` and `take` O(1); `add_many` O(n); `merge` and
    `columns` one pass over all cells, .1 ms.
    """

    def __init__(self) -> None:
        self._table = CellTable(_LAST, CELLS_PER_LOGIT, _TAIL)
        #: (p, y, w): add one observation, p in [0, 1], y 0 or 1, w > 0.
        self.add = self._table.add
        #: (p, y, w): remove one earlier `add`; False, and no change, if its cell is empty.
        self.take = self._table.take

    def add_many(self, forecasts: Forecasts) -> None:
        """Add observations of weights above 0."""
        self._table.add_many(forecasts.p, forecasts.y, forecasts.w, *forecasts.log_losses)

    def holds(self, p: float) -> bool:
        """Return whether the cell of p is occupied, so that `take` would succeed."""
        return bool(self._table.rows[self._table.row_of(p), 2])

    def merge(self, other: ProbabilityCells) -> None:
        """Add all that `other` holds."""
        self._table.merge(other._table.rows)

    def columns(self) -> CellColumns:
        """Return the cells in ascending order of probability, without those of no weight by rounding (see `take`)."""
        rows = self._table.rows
        low, high, number, weight, squared, predicted, positive, of_positive = rows[rows[:, 3] > 0.0].T.copy()
        # Reverted float weights may leave sums outside their range by a rounding error.
        p, positive = np.clip(predicted / weight, low, high), np.clip(positive, 0.0, weight)
        squared = np.clip(squared, weight * weight / number, weight * weight)
        of_positive = np.clip(of_positive, 0.0, squared)
        effective = weight * weight / squared
        sums = (number, weight, squared, predicted, weight - positive, positive, of_positive)
        return CellColumns(p, low, high, *sums, effective)

    def __getstate__(self) -> dict[str, Any]:
        """Return the occupied rows of the table, for pickles and copies."""
        used = np.flatnonzero(self._table.rows[:, 2])
        return {"used": used, "rows": self._table.rows[used]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self._table.rows[state["used"]] = state["rows"]


def calibrated_labels(columns: CellColumns, number: int) -> tuple[FloatArray, FloatArray]:
    """Draw labels as if the probabilities were right: the weights of the positives, and of all, in each cell.

    Both have the shape (number, c). Where weights depend on the label, as with sampled negatives, a label is drawn as
    it is among the observations of the sample, and brings its weight with it; else weights are those observed.
    """
    of_positive, of_negative = columns.by_label
    if of_positive == of_negative:
        drawn = calibrated_draws(columns, number)
        return drawn, np.broadcast_to(columns.weight, drawn.shape)
    squared_negative = columns.squared - columns.squared_positive
    each = ((columns.positive, columns.squared_positive), (columns.negative, squared_negative))
    positives, negatives = (np.divide(w * w, s, out=np.zeros_like(w), where=s > 0.0) for w, s in each)
    trials = np.maximum(np.rint(positives + negatives), 1.0).astype(np.int64)
    scale = columns.weight / (positives * of_positive + negatives * of_negative) * (positives + negatives) / trials
    share = sampled(columns.p, columns.by_label)
    came = np.random.default_rng(SEED).binomial(trials, share, (number, len(trials)))
    positive = came * (scale * of_positive)
    return positive, positive + (trials - came) * (scale * of_negative)


def calibrated_draws(columns: CellColumns, number: int) -> FloatArray:
    """Draw the weights of the positives in each cell as if the probabilities were right; shape (number, c).

    Each weight is binomial with the mean probability of the cell and its effective number of observations, which gives
    the variance Σ w² p (1 − p) of independent labels up to the rounding of that number.
    """
    trials = np.maximum(np.rint(columns.effective), 1.0).astype(np.int64)
    drawn = np.random.default_rng(SEED).binomial(trials, columns.p, (number, len(trials)))
    return np.asarray(drawn * (columns.weight / trials))
