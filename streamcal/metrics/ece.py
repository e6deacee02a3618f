"""The expected calibration error over bins of equal mass."""

from __future__ import annotations

import numpy as np

from streamcal.errors import InputError
from streamcal.metrics.base import Metric
from streamcal.metrics.cells import CellColumns
from streamcal.metrics.reliability import ReliabilityData, first_cells, reliability_data
from streamcal.parameters.numbers import real_number, whole_number


class EqualMassECE(Metric):
    """Expected calibration error over bins of equal mass: Σ_b |Σ_{i∈b} wᵢ (pᵢ − yᵢ)| / Σ wᵢ, in [0, 1].

    Lower is better. The bins are cut from the distinct probabilities in order, so that each holds about the same
    weight. Ties are never split: a distinct probability belongs to the bin that contains its middle
    (`reliability.equal_mass`). To do this exactly would need every prediction. Instead the sums of at most 30,352 cells
    are kept, 1/512 wide in log-odds (beyond ±24 ¼), and the bins are cut between cells. The sums of a bin are exact;
    only its edges may be off by one cell, and `error_bound` bounds the effect on the value for the data held.

    A calibrated model has an ECE above 0 as well: with k observations in a bin, each bin contributes about
    √(2 p (1 − p) / π k) by chance. Compare values only between models on the same labels.

    Parameters
    ----------
    bins : int
        Number of bins, at least 1, default 15.

    Raises
    ------
    InputError
        For another number of bins.
    RetractionError
        By `revert`, where no observation is held in the cell of that probability.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `get`, `error_bound` and `reliability` O(c) for c occupied cells,
    0.1 to 0.5 ms; `merge` O(c). Memory: at most 30,352 cells, 2.0 MB; those that hold nothing take none (by pages of
    4 kB, each of 64 cells side by side).

    References
    ----------
    M. P. Naeini, G. F. Cooper and M. Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning, AAAI
    2015 (the error); K. Nguyen and B. O'Connor, Posterior calibration and exploratory analysis for natural language
    processing models, EMNLP 2015 (bins of equal mass).

    Examples
    --------
    >>> ece = EqualMassECE(bins=2)
    >>> ece.update_many([False, False, True, False], [0.25, 0.25, 0.75, 0.75])
    >>> ece.get(), ece.error_bound
    (0.25, 0.0)
    """

    def __init__(self, bins: int = 15) -> None:
        self.bins = whole_number(bins, "bins", 1, allowed="a whole number of at least 1, such as 15")
        super().__init__()

    def holds(self, p: float) -> bool:
        """Return whether `revert` of an observation of probability `p` finds one in its cell. O(1)."""
        return self._cells.holds(p)

    def get(self) -> float | None:
        """Return the error, in [0, 1]; `None` before the first observation. O(c) for c occupied cells."""
        columns = self._columns()
        return None if columns is None else self._mean_gap(columns)

    @property
    def error_bound(self) -> float:
        """Bound on the difference between `get` and the ECE with bins cut from the distinct probabilities themselves.

        Only probabilities in a cell that contains a cut between two bins can be in the wrong bin. Moving a set M of
        observations between bins changes the sum by at most 2 Σ_M w |p − y|, and Σ_M w |p − y| ≤ min(Σ w, Σ w p + Σ w
        y) over the cell. So the bound is

            2 Σ_{cells with a cut inside} min(Σ w, Σ w p + Σ w y) / Σ w ,

        where a cell with a single distinct probability does not count. It is small for rare labels too. O(c).
        """
        columns = self._columns()
        if columns is None:
            return 0.0
        edges = np.append(0.0, np.cumsum(columns.weight))
        cut = np.diff((self.bins * edges / self._weight).astype(np.intp)) > 0
        cut &= columns.low < columns.high
        moved = np.minimum(columns.weight, columns.predicted + columns.positive)[cut]
        return 2.0 * float(moved.sum()) / self._weight

    def reliability(self, confidence: float = 0.95, bins: int | None = None) -> ReliabilityData:
        """Return the data of a reliability diagram over the metric's bins, or over another number of bins. O(c).

        Parameters
        ----------
        confidence : float
            Level of the pointwise intervals of the frequencies, above 0 and below 1, default 0.95.
        bins : int or None
            Another number of bins, at least 1; fewer are easier to tell apart in a picture. `ReliabilityData.ece` is
            that of the metric's own bins.

        Returns
        -------
        ReliabilityData

        Raises
        ------
        InputError
            For another confidence or number, and before the first observation.

        Examples
        --------
        >>> ece = EqualMassECE(bins=1)
        >>> ece.update_many([True, False], [0.5, 0.7])
        >>> ece.reliability().bins[0].frequency
        0.5
        """
        confidence = real_number(confidence, "confidence", "a probability, such as 0.95", above=0.0, below=1.0)
        bins = self.bins if bins is None else whole_number(bins, "bins", 1)
        columns = self._columns()
        if columns is None:
            raise InputError("there is no reliability diagram of nothing: update the metric with observations first")
        return reliability_data(columns, bins, confidence, self._mean_gap(columns))

    def _mean_gap(self, columns: CellColumns) -> float:
        """Return the error over these cells. O(c)."""
        first = first_cells(columns.weight, self.bins)
        return float(np.abs(np.add.reduceat(columns.predicted - columns.positive, first)).sum()) / self._weight
