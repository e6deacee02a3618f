"""`GridECE`: calibration errors over the cells of a grid of several scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.metrics.base import Summed
from streamcal.metrics.fieldwise import FieldwiseECE, LevelData
from streamcal.parameters.inputs import check_scores_matrix
from streamcal.parameters.numbers import real_number, whole_number
from streamcal.parameters.types import FloatArray, Label

#: The most cells along an axis.
MOST_BINS = 1_000
#: The most scores.
MOST_SCORES = 16


class GridECE(Summed):
    """ECE and MCE of predictions made from several scores, over the cells of a uniform grid on [0, 1]^M.

    In each cell k of at least `fewest` observations the mean prediction p̄ₖ is compared with the share ȳₖ of positives:

        ECE = Σₖ |p̄ₖ − ȳₖ| / K,   MCE = maxₖ |p̄ₖ − ȳₖ|   over the K cells that are large enough.

    `get` returns the ECE and `largest` the MCE. Lower is better. Every cell counts alike, however many observations it
    has: rare combinations of scores matter as much as frequent ones. A calibrated prediction is not at 0; in a cell of
    k observations chance alone leaves about √(2 p (1 − p) / π k).

    Parameters
    ----------
    bins : int
        Cells along each axis, from 1 to 1,000.
    fewest : float
        Cells of less weight are left out, since their share of positives is uncertain.
    n_scores : int
        M, from 1 to 16.

    Notes
    -----
    Paper 000 compares the prediction at the centre of a cell with the share of positives in the cell. The mean
    prediction of the observations in the cell needs no model beside the stream, and does not count how the truth varies
    within a cell as an error.

    Cost: `update` and `revert` O(M); `get` and `merge` O(c) for c occupied cells. Memory O(c).

    References
    ----------
    Wang and Liu 2020 (paper 000), §5.2.

    Examples
    --------
    >>> ece = GridECE(bins=2, fewest=2)
    >>> scores = [[0.1, 0.2], [0.3, 0.4], [0.9, 0.8], [0.7, 0.6]]
    >>> ece.update_many([0, 0, 1, 0], [0.25, 0.25, 0.75, 0.75], scores)
    >>> ece.get(), ece.largest, sorted(ece.cells())
    (0.25, 0.25, [(0, 0), (1, 1)])
    """

    def __init__(self, bins: int = 10, fewest: float = 1_000.0, n_scores: int = 2) -> None:
        self.bins = whole_number(bins, "bins", 1, MOST_BINS)
        self.fewest = real_number(fewest, "fewest", "a weight of at least 0, such as 1000", least=0.0)
        self.n_scores = whole_number(n_scores, "n_scores", 1, MOST_SCORES)
        super().__init__()

    def update(self, y_true: Label, y_pred: float, scores: Sequence[float], w: float = 1.0) -> None:
        """Add one observation, as `FieldwiseECE.update`, with the M scores in [0, 1] from which it was predicted."""
        self._field.update(y_true, y_pred, self._cells_of([scores])[0], w)
        self._counted()

    def update_many(self, y_true: ArrayLike, y_pred: ArrayLike, scores: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add n observations, as `FieldwiseECE.update_many`, with scores in [0, 1] of shape (n, M)."""
        self._field.update_many(y_true, y_pred, self._cells_of(scores), w)
        self._counted()

    def revert(self, y_true: Label, y_pred: float, scores: Sequence[float], w: float = 1.0) -> None:
        """Remove one earlier `update` with the same arguments; errors are those of `FieldwiseECE.revert`."""
        self._field.revert(y_true, y_pred, self._cells_of([scores])[0], w)
        self._counted()

    def get(self) -> float | None:
        """Return the ECE, in [0, 1]; `None` where no cell is large enough."""
        gaps = self._gaps()
        return float(gaps.mean()) if len(gaps) else None

    @property
    def largest(self) -> float | None:
        """The MCE, in [0, 1]; `None` where no cell is large enough."""
        gaps = self._gaps()
        return float(gaps.max()) if len(gaps) else None

    def cells(self) -> dict[tuple[int, ...], LevelData]:
        """Return the data of each cell that is large enough, by its place along each axis."""
        return {cell: data for cell, data in self._field.levels().items() if data.n >= self.fewest}  # type: ignore[misc]

    def _gaps(self) -> FloatArray:
        return np.array([abs(row.predicted - row.positive) / row.n for row in self.cells().values()], dtype=np.float64)

    def _cells_of(self, scores: ArrayLike) -> list[tuple[int, ...]]:
        s = check_scores_matrix(scores, self.n_scores)
        outside = np.argwhere((s < 0.0) | (s > 1.0))
        if len(outside):
            row, column = outside[0].tolist()
            raise InputError(f"scores[{row}, {column}]={s[row, column]} is outside [0, 1]; give ranks or probabilities")
        places = np.minimum((s * self.bins).astype(np.intp), self.bins - 1)
        return list(map(tuple, places.tolist()))

    # -- sums ------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._field = FieldwiseECE()

    def _counted(self) -> None:
        self._count, self._weight = self._field._count, self._field.n

    def _absorb(self, other: Self) -> None:
        self._field.merge(other._field)
