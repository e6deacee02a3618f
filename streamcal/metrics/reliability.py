"""The data of a reliability diagram: bins of equal mass with an interval for each frequency; no drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from streamcal.metrics.cells import Cell, ProbabilityCells, effective_number


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """One bin of a reliability diagram.

    Attributes
    ----------
    low, high : float
        Smallest and largest probability in the bin.
    prediction : float
        Weighted mean of the probabilities.
    frequency : float
        Weighted share of positive labels, Σ w y / Σ w.
    lower, upper : float
        Wilson's interval for the frequency, with the effective number of observations (Σ w)² / Σ w².
    weight : float
        Total weight.
    count : int
        Number of observations.

    Notes
    -----
    The interval is pointwise: of 20 bins of a calibrated model one is expected to lie outside its 95 % interval. Unlike
    `frequency ± 2 σ` it is adequate with few positives or none. O(1) memory.

    References
    ----------
    E. B. Wilson, Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22, 1927.

    Examples
    --------
    >>> from streamcal.metrics import EqualMassECE
    >>> ece = EqualMassECE(bins=1)
    >>> ece.update_many([0.25, 0.75], [False, True])
    >>> found = ece.reliability().bins[0]
    >>> found.prediction, found.frequency, round(found.lower, 3), round(found.upper, 3)
    (0.5, 0.5, 0.095, 0.905)
    """

    low: float
    high: float
    prediction: float
    frequency: float
    lower: float
    upper: float
    weight: float
    count: int


@dataclass(frozen=True, slots=True)
class ReliabilityData:
    """A reliability diagram as numbers, made by `EqualMassECE.reliability`; `streamcal.plot` draws it.

    Attributes
    ----------
    bins : tuple of ReliabilityBin
        The bins, in ascending order of probability.
    confidence : float
        Level of their intervals.
    scores, weights : tuple of float
        Mean probability and weight of every occupied cell of the summary, in ascending order: the distribution of the
        probabilities, fine enough for any histogram.

    Notes
    -----
    Cost: O(c) memory for c occupied cells; `n` O(c), `ece` O(bins).

    Examples
    --------
    >>> from streamcal.metrics import EqualMassECE
    >>> ece = EqualMassECE(bins=2)
    >>> ece.update_many([0.25, 0.25, 0.75, 0.75], [False, False, True, False])
    >>> data = ece.reliability()
    >>> len(data.bins), data.n, data.ece
    (2, 4.0, 0.25)
    """

    bins: tuple[ReliabilityBin, ...]
    confidence: float
    scores: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def n(self) -> float:
        """Total weight."""
        return math.fsum(self.weights)

    @property
    def ece(self) -> float:
        """The expected calibration error over these bins: Σ weight ⋅ |prediction − frequency| / n."""
        return math.fsum(b.weight * abs(b.prediction - b.frequency) for b in self.bins) / self.n


def equal_mass(cells: ProbabilityCells, bins: int) -> list[list[Cell]]:
    """The cells in at most `bins` groups of about equal weight, in order; a cell is never split.

    A cell whose weight occupies [a, b] of the total W, counted from below, belongs to group ⌊bins ⋅ (a + b) / 2W⌋, the
    one that contains its middle. The rule does not depend on the groups of other cells, so that ties stay together and
    the order of the observations does not matter. Empty groups are left out.
    """
    ordered = list(cells)
    total = math.fsum(cell.weight for cell in ordered)
    groups: dict[int, list[Cell]] = {}
    below = 0.0
    for cell in ordered:
        middle = bins * (below + cell.weight / 2.0) / total
        groups.setdefault(min(int(middle), bins - 1), []).append(cell)
        below += cell.weight
    return list(groups.values())


def reliability_data(cells: ProbabilityCells, bins: int, confidence: float) -> ReliabilityData:
    """The bins of `cells`, with intervals of this confidence for their frequencies."""
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    ordered = list(cells)
    return ReliabilityData(
        bins=tuple(_bin(group, z) for group in equal_mass(cells, bins)),
        confidence=confidence,
        scores=tuple(cell.predicted / cell.weight for cell in ordered),
        weights=tuple(cell.weight for cell in ordered),
    )


def wilson_interval(frequency: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval for a probability whose observed frequency in `n` > 0 trials is `frequency`.

    It contains the p with (frequency − p)² ≤ z² p (1 − p) / n:

        (f + z²/2n ± z √(f (1 − f) / n + z²/4n²)) / (1 + z²/n)

    Examples
    --------
    >>> lower, upper = wilson_interval(0.0, 100, 1.96)
    >>> lower, round(upper, 3)
    (0.0, 0.037)
    """
    shrink = z * z / n
    centre = (frequency + shrink / 2.0) / (1.0 + shrink)
    spread = z * math.sqrt(frequency * (1.0 - frequency) / n + shrink / (4.0 * n)) / (1.0 + shrink)
    # The interval touches 0 and 1 exactly where only one label was seen; rounding would leave 1e-17 there.
    lower = 0.0 if frequency <= 0.0 else max(0.0, centre - spread)
    upper = 1.0 if frequency >= 1.0 else min(1.0, centre + spread)
    return lower, upper


def _bin(group: list[Cell], z: float) -> ReliabilityBin:
    weight = math.fsum(cell.weight for cell in group)
    # Reverted float weights may leave a share outside [0, 1] by a rounding error.
    frequency = min(1.0, max(0.0, math.fsum(cell.positive for cell in group) / weight))
    lower, upper = wilson_interval(frequency, effective_number(group), z)
    return ReliabilityBin(
        low=group[0].low,
        high=group[-1].high,
        prediction=math.fsum(cell.predicted for cell in group) / weight,
        frequency=frequency,
        lower=lower,
        upper=upper,
        weight=weight,
        count=sum(cell.count for cell in group),
    )
