"""The data of a reliability diagram: bins of equal mass with an interval for each frequency; no drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.metrics.cells import CellColumns
from streamcal.metrics.label_weights import variance_factor
from streamcal.parameters.types import FloatArray


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
        Wilson's interval for the frequency, with the effective number of observations (Σ w)² / Σ w²; where weights
        depend on the label, as with sampled negatives, with the number that `CalibrationRatio.interval` has.
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
    >>> ece.update_many([False, True], [0.25, 0.75])
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
    ece : float
        The value of the `EqualMassECE`, over its own bins, which may be others than those of the diagram.

    Notes
    -----
    Cost: O(c) memory for c occupied cells; `n` O(c).

    Examples
    --------
    >>> from streamcal.metrics import EqualMassECE
    >>> ece = EqualMassECE(bins=2)
    >>> ece.update_many([False, False, True, False], [0.25, 0.25, 0.75, 0.75])
    >>> data = ece.reliability()
    >>> len(data.bins), data.n, data.ece
    (2, 4.0, 0.25)
    """

    bins: tuple[ReliabilityBin, ...]
    confidence: float
    scores: tuple[float, ...]
    weights: tuple[float, ...]
    ece: float

    @property
    def n(self) -> float:
        """Total weight."""
        return math.fsum(self.weights)


class BinColumns(NamedTuple):
    """Bins of equal mass as arrays of shape (bins,), in ascending order of probability.

    `first` is the first cell of each bin, `low` and `high` the range of its probabilities, `number`, `weight` and
    `predicted` the sums of 1, w and w p, `frequency` the share of the positives in the weight, and `effective` the
    effective number of its observations, at least 1.
    """

    first: NDArray[np.intp]
    low: FloatArray
    high: FloatArray
    number: FloatArray
    weight: FloatArray
    predicted: FloatArray
    frequency: FloatArray
    effective: FloatArray


def first_cells(weight: FloatArray, bins: int) -> NDArray[np.intp]:
    """Return the first cell of each of at most `bins` groups of about equal weight; a cell is never split. O(c).

    A cell whose weight occupies [a, b] of the total W, counted from below, belongs to group ⌊bins ⋅ (a + b) / 2W⌋, the
    one that contains its middle. The rule does not depend on the groups of other cells, so that ties stay together and
    the order of the observations does not matter. Empty groups are left out.
    """
    up_to = np.cumsum(weight)
    middle = np.append(0.0, up_to[:-1]) + weight / 2.0
    group = np.minimum((bins * middle / up_to[-1]).astype(np.intp), bins - 1)
    return np.flatnonzero(np.diff(group, prepend=-1))


def equal_mass(cells: CellColumns, bins: int) -> BinColumns:
    """Group the cells, at least one, into at most `bins` bins (`first_cells`). O(c)."""
    first = first_cells(cells.weight, bins)
    last = np.append(first[1:], len(cells.weight)) - 1
    sums = (cells.number, cells.weight, cells.predicted, cells.positive, cells.squared)
    number, weight, predicted, positive, squared = (np.add.reduceat(column, first) for column in sums)
    frequency = np.clip(positive / weight, 0.0, 1.0)
    return BinColumns(
        first=first,
        low=cells.low[first],
        high=cells.high[last],
        number=number,
        weight=weight,
        predicted=predicted,
        frequency=frequency,
        effective=_effective(cells, first, np.clip(weight * weight / squared, 1.0, number), frequency),
    )


def _effective(cells: CellColumns, first: NDArray[np.intp], unrelated: FloatArray, frequency: FloatArray) -> FloatArray:
    """Return the effective numbers of observations of bins: `unrelated`, unless weights depend on the labels.

    Then it is the number with the variance Σ w² (y − p/R)² of Σ w y, R being the ratio of predicted to observed
    positives in the bin. In a bin with one label alone it is the number with the variance that is expected.
    """
    by_label = cells.by_label
    if by_label[0] == by_label[1]:
        return unrelated
    weight, predicted, positive = (
        np.add.reduceat(column, first) for column in (cells.weight, cells.predicted, cells.positive)
    )
    scale = np.divide(positive, predicted, out=np.zeros_like(weight), where=predicted > 0.0)
    expected = cells.p * np.repeat(scale, np.diff(first, append=len(cells.p)))
    of_negative = cells.squared - cells.squared_positive
    variance = np.add.reduceat(cells.squared_positive * (1.0 - expected) ** 2 + of_negative * expected**2, first)
    mixed = (variance > 0.0) & (frequency > 0.0) & (frequency < 1.0)
    usual = unrelated / variance_factor(frequency, by_label)
    effective = np.divide(weight**2 * frequency * (1.0 - frequency), variance, out=usual, where=mixed)
    return np.maximum(effective, 1.0)


def reliability_data(cells: CellColumns, bins: int, confidence: float, ece: float) -> ReliabilityData:
    """Return the bins of `cells`, with intervals of this confidence for their frequencies, and the ECE to show."""
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    columns_of_bins = equal_mass(cells, bins)
    drawn, columns = [], (column.tolist() for column in columns_of_bins[1:])
    for low, high, number, weight, predicted, frequency, effective in zip(*columns, strict=True):
        ends = wilson_interval(frequency, effective, z)
        drawn.append(ReliabilityBin(low, high, predicted / weight, frequency, *ends, weight, int(number)))
    return ReliabilityData(
        bins=tuple(drawn),
        confidence=confidence,
        scores=tuple(cells.p.tolist()),
        weights=tuple(cells.weight.tolist()),
        ece=ece,
    )


def wilson_interval(frequency: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval for a probability whose observed frequency in `n` > 0 trials is `frequency`.

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
