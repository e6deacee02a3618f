"""Common types: arrays of floats, labels, times and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
#: What may be given as a label: a bool, or a number equal to 0 or 1.
Label = bool | int | float | np.bool_
#: What may be given as a time: a number in units of your choice, or a date (read as seconds). Dates without a time zone
#: are read as UTC, and are refused beside numbers and dates with one.
Time = float | datetime | np.datetime64
#: What may be given as the times of many observations.
Times = ArrayLike | Sequence[Time]
#: What may be given as keys: field → level; and for n observations, field → n levels.
Keys = Mapping[str, Any]
Columns = Mapping[str, Iterable[Any]]
