"""The expected calibration error over bins of equal mass."""

from __future__ import annotations

import math
from typing import Any, Self

from streamcal.errors import InputError, RetractionError
from streamcal.metrics.base import Metric
from streamcal.metrics.cells import ProbabilityCells
from streamcal.metrics.reliability import ReliabilityData, equal_mass, reliability_data


class EqualMassECE(Metric):
    """Expected calibration error over bins of equal mass: Σ_b |Σ_{i∈b} wᵢ (pᵢ − yᵢ)| / Σ wᵢ.

    The bins are cut from the distinct probabilities in order, so that each holds about the same weight;
    ties are never split: a distinct probability goes to the bin its middle falls into
    (`reliability.equal_mass`). Exactly that would need every prediction. Kept instead are the sums of
    24,577 cells at most, 1/512 wide in log odds, and the bins are cut between cells. The sums in a bin are
    exact; only its edges may lie up to one cell away, and `error_bound` says how much this can matter on
    the data held.

    A calibrated model has an ECE above 0 too: with k observations in a bin each bin contributes about
    √(2 p (1 − p) / π k) by chance. Compare values only between models on the same labels.

    Parameters
    ----------
    bins
        Number of bins, at least 1, default 15.

    Examples
    --------
    >>> ece = EqualMassECE(bins=2)
    >>> ece.update_many([0.25, 0.25, 0.75, 0.75], [False, False, True, False])
    >>> ece.value, ece.error_bound
    (0.25, 0.0)
    """

    def __init__(self, bins: int = 15) -> None:
        if bins != int(bins) or bins < 1:
            raise InputError(f"bins {bins!r} is not allowed; give a whole number of at least 1, such as 15")
        self.bins = int(bins)
        super().__init__()

    @property
    def value(self) -> float | None:
        """The error, in [0, 1]; `None` if nothing was observed. Cost: a sort of the occupied cells."""
        if self._weight <= 0.0:
            return None
        gaps = (math.fsum(c.predicted - c.positive for c in group) for group in equal_mass(self._cells, self.bins))
        return math.fsum(map(abs, gaps)) / self._weight

    @property
    def error_bound(self) -> float:
        """How far `value` can be from the ECE of the same rule on the distinct probabilities themselves.

        Only probabilities in a cell that contains a cut between two bins can be in another bin than they
        should be. Moving a set M of observations between bins changes the sum by at most 2 Σ_M w |p − y|,
        and Σ_M w |p − y| ≤ min(Σ w, Σ w p + Σ w y) over the cell. So the bound is

            2 Σ_{cells with a cut inside} min(Σ w, Σ w p + Σ w y) / Σ w ,

        where a cell with a single distinct probability counts nothing. It is small for rare labels too.
        """
        below, moved = 0.0, []
        for cell in self._cells:
            first, last = (int(self.bins * edge / self._weight) for edge in (below, below + cell.weight))
            below += cell.weight
            if first != last and cell.low < cell.high:
                moved.append(min(cell.weight, cell.predicted + cell.positive))
        return 2.0 * math.fsum(moved) / self._weight if moved else 0.0

    def reliability(self, confidence: float = 0.95) -> ReliabilityData:
        """The bins with mean probability, frequency and its interval; `InputError` if nothing was observed.

        >>> ece = EqualMassECE(bins=1)
        >>> ece.update_many([0.5, 0.7], [True, False])
        >>> ece.reliability().bins[0].frequency
        0.5
        """
        if not 0.0 < confidence < 1.0:
            raise InputError(f"confidence {confidence!r} is not allowed; give a probability, such as 0.95")
        if self._weight <= 0.0:
            raise InputError("there is no reliability diagram of nothing: update the metric with observations first")
        return reliability_data(self._cells, self.bins, confidence)

    def holds(self, p: float) -> bool:
        """Whether anything is held that `revert` could take for an observation of probability `p`."""
        return self._cells.holds(p)

    def _clear(self) -> None:
        self._cells = ProbabilityCells()

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        if sign > 0:
            self._cells.add(p, y, w)
        elif not self._cells.take(p, y, w):
            raise RetractionError(f"no observation near probability {p!r} is held that could be reverted")

    def _absorb(self, other: Self) -> None:
        self._cells.merge(other._cells)

    def _params(self) -> dict[str, Any]:
        return {"bins": self.bins}
