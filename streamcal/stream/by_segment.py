"""Predictions by level of a stream's segments, in bounded memory: sums for each series, and which levels to show."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.live.levels import Field, columns_of, parts_of
from streamcal.metrics import FieldwiseECE, LevelData
from streamcal.metrics.cells import Forecasts
from streamcal.metrics.fieldwise import FEWEST_EXPECTED

#: Levels of a field with sums of their own; those that come later are one level together.
MOST_LEVELS = 100_000
#: The level of those, and of rows without a level. Neither is a text or a whole number.
OTHERS, MISSING = ("other levels",), None


class LevelRow(NamedTuple):
    """One level of a field: its weight, its positives, and what each series has predicted.

    `predicted` is name → Σ w p, `z` name → (positives − Σ w p) in standard deviations.
    """

    level: Hashable
    n: float
    positive: float
    predicted: dict[str, float]
    z: dict[str, float]


class BySegment:
    """A `FieldwiseECE` for each series of predictions of the same labels and each field.

    Cost: O(1) for an observation, series and field; memory O(levels · names), at most `MOST_LEVELS` of each field.

    Examples
    --------
    >>> sums = BySegment(["device"], ["raw"])
    >>> y, w = np.array([1.0, 0.0, 0.0]), np.ones(3)
    >>> sums.add({"device": ["a", "a", "b"]}, w, {"raw": Forecasts(np.full(3, 0.25), y, w)})
    >>> sums.rows("device", ["b"])
    [LevelRow(level='b', n=1.0, positive=0.0, predicted={'raw': 0.25}, z={'raw': -0.5773502691896258})]
    """

    def __init__(self, fields: Sequence[Field], names: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self.errors = {name: {field: FieldwiseECE() for field in fields} for name in names}
        self._known: dict[Field, set[Hashable]] = {field: set() for field in fields}

    def add(self, keys: Mapping[str, Any], w: NDArray[np.float64], forecasts: Mapping[str, Forecasts]) -> None:
        """Add the next predictions, of rows with these levels and weights; rows of weight 0 have no prediction."""
        for field, column in zip(self.fields, columns_of(self.fields, keys, len(w)), strict=True):
            levels, codes = self._coded(field, column)
            codes = codes[w > 0.0]
            for name, forecast in forecasts.items():
                self.errors[name][field].update_coded(levels, codes, forecast.p, forecast.y, forecast.w)

    def heaviest(self, field: Field, most: int) -> list[Any]:
        """Return the levels with the largest weight, apart from those that are missing or joined."""
        (first, *_) = self.errors.values()
        weights = {level: data.n for level, data in first[field].levels().items() if level not in (OTHERS, MISSING)}
        return sorted(weights, key=lambda level: -weights[level])[:most]

    def worst(self, field: Field, name: str, most: int) -> list[Hashable]:
        """Return the levels whose totals are farthest from what a series predicted, in standard deviations.

        Levels with fewer than five expected positives or negatives come last: their deviations are far from normal.
        """

        def order(item: tuple[Hashable, LevelData]) -> tuple[bool, float, float]:
            data = item[1]
            return min(data.predicted, data.n - data.predicted) < FEWEST_EXPECTED, -abs(data.z), -data.n

        return [level for level, _ in sorted(self.errors[name][field].levels().items(), key=order)[:most]]

    def rows(self, field: Field, levels: Sequence[Hashable]) -> list[LevelRow]:
        """Return the data of some levels."""
        levels_of = {name: errors[field].levels() for name, errors in self.errors.items()}
        (first, *_) = levels_of.values()
        return [
            LevelRow(
                level=level,
                n=first[level].n,
                positive=first[level].positive,
                # A series that ended early has not predicted all rows, and is left out.
                predicted={
                    name: data[level].predicted for name, data in levels_of.items() if _whole(data, first, level)
                },
                z={name: data[level].z for name, data in levels_of.items() if _whole(data, first, level)},
            )
            for level in levels
        ]

    def _coded(self, field: Field, column: Sequence[Hashable]) -> tuple[list[Hashable], NDArray[np.intp]]:
        """Return the distinct levels of a column, and the place of each row's level among them."""
        known, places = self._known[field], dict.fromkeys(column)
        for level in places:
            if level not in known and level is not MISSING and len(known) < MOST_LEVELS:
                known.add(level)
        levels = [level if level in known or level is MISSING else OTHERS for level in places]
        numbers = dict(zip(places, range(len(places)), strict=True))
        return levels, np.array([numbers[level] for level in column], dtype=np.intp)


def _whole(data: Mapping[Hashable, LevelData], first: Mapping[Hashable, LevelData], level: Hashable) -> bool:
    return level in data and math.isclose(data[level].n, first[level].n)


def field_text(field: Field) -> str:
    """Write a field in words.

    >>> field_text("campaign"), field_text(("campaign", "placement"))
    ('campaign', 'campaign × placement')
    """
    return " × ".join(parts_of(field))


def level_text(level: Hashable) -> str:
    """Write a level in words.

    >>> level_text("c1"), level_text(("c1", 7)), level_text(None), level_text(OTHERS)
    ('c1', 'c1 × 7', '(missing)', 'other levels')
    """
    if level is MISSING:
        return "(missing)"
    return " × ".join(map(str, level)) if isinstance(level, tuple) else str(level)
