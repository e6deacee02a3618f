"""`in_blocks`: whether rows seem to be sorted by their labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Changes of the label from row to row, expected in random order, from which on their number is informative.
LEAST_CHANGES = 20
#: Labels are in blocks if they change less often than this part of what is expected in random order: real
#: tables and generators have several times as many, and labels that come in tens twice as many.
FEW_CHANGES = 0.05
#: What the description of labels in blocks begins with.
BLOCKS = "neighbouring labels differ"


def in_blocks(changes: int, counts: Sequence[float] | NDArray[np.integer]) -> str | None:
    """Describe how often the label changes from row to row, if labels are in blocks; else return None.

    `counts` are the numbers of rows of each label.

    >>> in_blocks(1, [50, 50])
    'neighbouring labels differ once, and would 50 times in random order'
    >>> in_blocks(40, [50, 50])
    """
    rows = sum(counts)
    expected = sum(count * (1.0 - count / rows) for count in counts) if rows else 0.0
    if expected < LEAST_CHANGES or changes >= FEW_CHANGES * expected:
        return None
    often = "once" if changes == 1 else f"{changes:,} times"
    return f"{BLOCKS} {often}, and would {round(expected):,} times in random order"
