"""A `Segmented` or `Multicalibrated` over Arrow batches: what runs in the Python workers; nothing here knows Spark.

A batch of observations has the columns `score`, `label` and `time`, where it was given `weight`, and the columns of
levels, `level 0`, `level 1` ..., in the order of `calibrator.fields`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamcal.errors import InputError
from streamcal.live.keyed import Keyed
from streamcal.spark import folding
from streamcal.stream import arrow

pyarrow = arrow.pyarrow


def level_name(place: int) -> str:
    """Return the name of a column of levels in a batch."""
    return f"level {place}"


def learn(batches: Iterable[folding.Batch], content: bytes, names: folding.Names) -> Iterator[folding.Batch]:
    """Learn observations in order by the calibrator in the bytes; yield one row: null as `key`, `state` and `n`.

    It is there without observations, too. `names` are the user's names of the columns; an `InputError` for a value that
    is not taken has its column.
    """
    calibrator = Keyed.from_bytes(content)
    for table in folding.together(batches):
        columns = [folding.one_array(table.column(level_name(i))) for i in range(len(calibrator.fields))]
        rows = folding.rows_of(table, names)
        try:
            folding.require_times(rows)
            calibrator.learn_many(rows.scores, rows.y, rows.w, rows.t, keys=_keys(calibrator, columns))
        except InputError as error:
            raise folding.named(error, names, None) from None
    yield from folding.written([(None, calibrator.to_bytes(), calibrator.n)], pyarrow.string())


class Forecasts:
    """The probabilities of a calibrator with levels, in bytes, for columns of scores and levels.

    `score` is the user's name of the column, for messages.
    """

    def __init__(self, content: bytes, score: str) -> None:
        self._calibrator = Keyed.from_bytes(content)
        self._names = {"score": score}

    def __call__(self, scores: folding.Array, levels: Sequence[folding.Array]) -> folding.Array:
        """Return the probabilities, null where the score is null.

        Raises
        ------
        InputError
            For a score that the calibrator does not take.
        """
        present = ~folding.nulls(scores)
        probabilities = np.zeros(len(present))
        some = pyarrow.array(np.flatnonzero(present))
        keys = _keys(self._calibrator, [column.take(some) for column in levels])
        try:
            probabilities[present] = self._calibrator.predict_many(folding.numbers(scores)[present], keys=keys)
        except InputError as error:
            raise folding.named(error, self._names, None) from None
        return pyarrow.array(probabilities, mask=~present)


def _keys(calibrator: Keyed, columns: Sequence[folding.Array]) -> dict[str, list[Any]]:
    """Return the levels of each field, from columns in the order of the fields."""
    keys = {}
    for name, column in zip(calibrator.fields, columns, strict=True):
        levels, codes = arrow.codes(column)  # an object for each distinct level, not for each row
        distinct = np.empty(len(levels), dtype=object)
        distinct[:] = levels
        keys[name] = distinct[codes].tolist()
    return keys
