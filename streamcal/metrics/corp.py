"""The CORP decomposition of a mean score, and the CORP reliability diagram with its consistency bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.kernels.tree.centred_blocks import centred_blocks
from streamcal.metrics.base import Metric
from streamcal.metrics.cells import CellColumns, calibrated_labels
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.parameters.numbers import one_of, real_number
from streamcal.parameters.types import FloatArray

Loss = Literal["brier", "log"]
#: Draws of calibrated labels: the 95 % quantile of as many has a relative error of a few percent.
DRAWS = 200
QUANTILE = 0.95
#: Places at which the bands of a diagram are given: finer than a picture shows.
PLACES = 256


class Decomposition(NamedTuple):
    """score = miscalibration − discrimination + uncertainty."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class CORPBlock:
    """One block of the isotonic fit: from `low` to `high` the share of positive labels is `frequency`.

    `prediction` is the mean probability in it, `weight` its total weight.
    """

    low: float
    high: float
    prediction: float
    frequency: float
    weight: float


@dataclass(frozen=True, slots=True)
class CORPReliability:
    """A CORP reliability diagram as numbers, made by `CORP.reliability`.

    Attributes
    ----------
    blocks : tuple of CORPBlock
        The isotonic fit of the labels, in ascending order of probability.
    places, lower, upper : tuple of float
        Probabilities, and between which values the fit lies there for a calibrated forecaster, with the probability
        `confidence` at each place.
    confidence : float
        Pointwise level of the bands.
    decomposition : Decomposition
        Of the mean score.
    scores, weights : tuple of float
        Mean probability and weight of every occupied cell, as in `ReliabilityData`: the density of the predictions.
    """

    blocks: tuple[CORPBlock, ...]
    places: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float
    decomposition: Decomposition
    scores: tuple[float, ...]
    weights: tuple[float, ...]


class CORP(Metric):
    """CORP decomposition: mean score = miscalibration − discrimination + uncertainty; `get` is the miscalibration.

    The labels are fitted by isotonic regression on the probabilities (pool adjacent violators). With S the mean score
    of the probabilities, S_C that of the fit, and S_R that of the share of positives, always,

        miscalibration S − S_C ≥ 0,   discrimination S_R − S_C ≥ 0,   uncertainty S_R.

    Miscalibration is what a monotone recalibration in hindsight would have gained: lower is better. Discrimination is
    what is then left of the predictions: higher is better. There are no bins to choose. A calibrated model has a
    miscalibration above 0 as well: `floor` is what it shows on these scores.

    The regression is on the grid: probabilities are replaced by the mean of their cell, which changes them by less than
    0.2 % of p (1 − p). Where every cell has one distinct probability, all is exact.

    Parameters
    ----------
    loss : {"brier", "log"}
        The score: `Brier`, or `LogLoss` with its default clip.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `get` and `decomposition` O(c) for c occupied cells; `floor` and
    `reliability` also 200 isotonic fits; `merge` O(c). docs/measures.md has times. Memory as in `EqualMassECE`.

    References
    ----------
    T. Dimitriadis, T. Gneiting and A. I. Jordan, Stable reliability diagrams for probabilistic classifiers, PNAS 118,
    2021.

    Examples
    --------
    >>> corp = CORP()
    >>> corp.update_many([False, False, True, False], [0.25, 0.25, 0.75, 0.75])
    >>> corp.decomposition
    Decomposition(score=0.1875, miscalibration=0.0625, discrimination=0.0625, uncertainty=0.1875)
    """

    def __init__(self, loss: Loss = "brier") -> None:
        self.loss: Loss = one_of(loss, "loss", get_args(Loss))
        super().__init__()

    def get(self) -> float | None:
        """Return the miscalibration; `None` before the first observation."""
        parts = self.decomposition
        return None if parts is None else parts.miscalibration

    @property
    def decomposition(self) -> Decomposition | None:
        """All three parts and the mean score; `None` before the first observation."""
        columns = self._columns()
        return None if columns is None else self._decomposed(columns)

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `get` for a calibrated model, from 200 draws of labels; `None` while nothing is held.

        With few expected positives in all it is only indicative: the labels drawn are those of the predictions.
        """
        columns = self._columns()
        if columns is None:
            return None
        draws = [self._miscalibration(columns.p, *row) for row in zip(*calibrated_labels(columns, DRAWS), strict=True)]
        return float(np.quantile(draws, QUANTILE))

    def reliability(self, confidence: float = 0.9) -> CORPReliability:
        """Return the data of a CORP reliability diagram.

        Parameters
        ----------
        confidence : float
            Pointwise level of the consistency bands, above 0 and below 1, default 0.9.

        Returns
        -------
        CORPReliability

        Raises
        ------
        InputError
            For another confidence, and before the first observation.

        Examples
        --------
        >>> corp = CORP()
        >>> corp.update_many([True] * 10 + [False] * 40 + [True] * 45 + [False] * 5, [0.2] * 50 + [0.6] * 50)
        >>> data = corp.reliability()
        >>> [(block.prediction, block.frequency) for block in data.blocks]
        [(0.2, 0.2), (0.6, 0.9)]
        >>> data.lower[0] < 0.2 < data.upper[0], data.upper[-1] < 0.9
        (True, True)
        """
        confidence = real_number(confidence, "confidence", "a probability, such as 0.9", above=0.0, below=1.0)
        columns = self._columns()
        if columns is None:
            raise InputError("there is no reliability diagram of nothing: update the metric with observations first")
        places = _places(columns.weight)
        drawn = zip(*calibrated_labels(columns, DRAWS), strict=True)
        fits = [_fit(weight, positive)[places] for positive, weight in drawn]
        lower, upper = np.quantile(fits, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0], axis=0)
        return CORPReliability(
            blocks=_blocks(columns),
            places=tuple(columns.p[places].tolist()),
            lower=tuple(lower.tolist()),
            upper=tuple(upper.tolist()),
            confidence=confidence,
            decomposition=self._decomposed(columns),
            scores=tuple(columns.p.tolist()),
            weights=tuple(columns.weight.tolist()),
        )

    def _decomposed(self, columns: CellColumns) -> Decomposition:
        share = columns.positive.sum() / columns.weight.sum()
        score = self._mean(columns.p, columns.weight, columns.positive)
        fitted = self._mean(_fit(columns.weight, columns.positive), columns.weight, columns.positive)
        uncertainty = self._mean(np.full(len(columns.p), share), columns.weight, columns.positive)
        # The fit is the best of all monotone predictions, those of the model and the share among them, up to rounding.
        return Decomposition(score, max(score - fitted, 0.0), max(uncertainty - fitted, 0.0), uncertainty)

    def _miscalibration(self, p: FloatArray, positive: FloatArray, weight: FloatArray) -> float:
        fitted = self._mean(_fit(weight, positive), weight, positive)
        return max(self._mean(p, weight, positive) - fitted, 0.0)

    def _mean(self, p: FloatArray, weight: FloatArray, positive: FloatArray) -> float:
        """Return the mean score of a probability for each cell."""
        of_positive, of_negative = LOSSES[self.loss](p)
        return float(positive @ of_positive + (weight - positive) @ of_negative) / float(weight.sum())


def _squared(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (1.0 - p) ** 2, p**2


def _logarithmic(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    cap = -math.log(LOG_LOSS_CLIP)
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log(p), cap), np.minimum(-np.log1p(-p), cap)


#: The losses of probabilities for a positive and for a negative label.
LOSSES: dict[Loss, Callable[[FloatArray], tuple[FloatArray, FloatArray]]] = {"brier": _squared, "log": _logarithmic}


def _pooled(weight: FloatArray, positive: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the first cells and the values of the blocks of the isotonic fit."""
    first, _, _, value = centred_blocks(np.arange(len(weight)), weight, positive, 0.0)
    return first.astype(np.int64), np.minimum(value, 1.0)


def _fit(weight: FloatArray, positive: FloatArray) -> FloatArray:
    """Return the isotonic fit of the labels at each cell."""
    first, value = _pooled(weight, positive)
    return np.repeat(value, np.diff(first, append=len(weight)))


def _blocks(columns: CellColumns) -> tuple[CORPBlock, ...]:
    first, value = _pooled(columns.weight, columns.positive)
    last = np.append(first[1:], len(columns.p)) - 1
    weight = np.add.reduceat(columns.weight, first)
    predicted = np.add.reduceat(columns.weight * columns.p, first) / weight
    rows = (columns.low[first], columns.high[last], predicted, value, weight)
    return tuple(CORPBlock(*row) for row in zip(*(column.tolist() for column in rows), strict=True))


def _places(weight: FloatArray) -> NDArray[np.int64]:
    """Choose at most `PLACES` cells, both ends included: half evenly spaced by weight, half by number."""
    by_weight = np.searchsorted(np.cumsum(weight), weight.sum() * (np.arange(PLACES // 2) + 0.5) / (PLACES // 2))
    by_number = np.linspace(0, len(weight) - 1, PLACES // 2).round()
    return np.unique(np.clip(np.append(by_weight, by_number), 0, len(weight) - 1).astype(np.int64))
