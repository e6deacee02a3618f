"""A reliability diagram in plain characters, for terminals: nothing has to be installed to see it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.metrics import EqualMassECE, ReliabilityData

#: Both axes are spaced by square roots, which expands small probabilities; of these ticks those that fit are written.
TICKS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
#: Characters of the diagonal, and of places with points of several names.
DIAGONAL, SEVERAL = ".", "*"
#: Width of the labels on the y axis.
MARGIN = 5


def of_forecasts(data: Any, p: Any, metric: type[Any]) -> Any:
    """Return the data of diagrams by name: `data` itself, or those of the labels `data` and of predictions `p`."""
    if p is None:
        return data
    series = {}
    for name, forecasts in (p if isinstance(p, Mapping) else {"predictions": p}).items():
        measured = metric()
        measured.update_many(data, forecasts)
        series[name] = measured.reliability()
    return series


def check_reliability(data: Any) -> None:
    """Raise `InputError` unless these are the data of diagrams by name."""
    if not isinstance(data, Mapping) or not all(isinstance(entry, ReliabilityData) for entry in data.values()):
        what = f"{data!r} is no mapping of names to ReliabilityData"
        raise InputError(f"{what}; give {{name: metric.reliability()}}, or labels and predictions")


def text_reliability(
    data: Mapping[str, ReliabilityData] | ArrayLike,
    p: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    width: int = 61,
    height: int = 21,
) -> str:
    """Draw a reliability diagram as text: the frequency of positive labels over the mean probability, by bin.

    A bin is the first letter of its name; the dotted diagonal is where probability and frequency are equal. Points
    below it are probabilities that are too high.

    Parameters
    ----------
    data, p
        Name → data from `EqualMassECE.reliability`, or labels and predictions, as for `plot_reliability`; names begin
        with different letters.
    width, height
        Characters and lines within the axes, at least 20 and 8.

    Returns
    -------
    str
        Lines without trailing spaces, `width` + 6 characters wide.

    Raises
    ------
    InputError
        If there is nothing to draw, two names begin with the same letter, or the size is too small.

    Examples
    --------
    >>> from streamcal.metrics import EqualMassECE
    >>> ece = EqualMassECE(bins=2)
    >>> ece.update_many([False] * 8 + [True] * 2 + [False] * 5 + [True] * 5, [0.1] * 10 + [0.9] * 10)
    >>> print(text_reliability({"raw": ece.reliability()}, width=30, height=8))
     1.0 |                           ...
     0.8 |                       ....
     0.6 |                   ....     r
     0.3 |               ....
     0.2 |         r ....
    0.05 |       ....
    0.01 |   ....
       0 |...
         +------------------------------
          0   0.05    0.2  0.4     0.8
          across: predicted probability, up: frequency of positive labels
          r raw
    """
    series: Mapping[str, ReliabilityData] = of_forecasts(data, p, EqualMassECE)
    check_reliability(series)
    letters = [name[:1] for name in series]
    if not series or len(set(letters)) < len(letters):
        raise InputError("give at least one name with its ReliabilityData, and names that begin with different letters")
    if width < 20 or height < 8:
        raise InputError(f"width={width} and height={height} are too small; give at least 20 and 8")
    cells = [[" "] * width for _ in range(height)]
    for column in range(width):
        cells[round(column / (width - 1) * (height - 1))][column] = DIAGONAL
    for letter, bins in zip(letters, series.values(), strict=True):
        for b in bins.bins:
            row, column = _place(b.frequency, height), _place(b.prediction, width)
            taken = cells[row][column] not in (" ", DIAGONAL, letter)
            cells[row][column] = SEVERAL if taken else letter
    names = [f"{letter} {name}" for letter, name in zip(letters, series, strict=True)]
    names += [f"{SEVERAL} several"] * any(SEVERAL in row for row in cells)
    labels = {_place(tick, height): _label(tick) for tick in reversed(TICKS)}
    lines = [f"{labels.get(row, ''):>{MARGIN - 1}} |{''.join(cells[row])}" for row in reversed(range(height))]
    indent = " " * MARGIN
    lines += [f"{indent}+{'-' * width}", f"{indent} {_ticks(width)}"]
    lines += [f"{indent} across: predicted probability, up: frequency of positive labels"]
    lines += [f"{indent} {'   '.join(names)}"]
    return "\n".join(line.rstrip() for line in lines)


def _place(p: float, places: int) -> int:
    """Return the row or column of a probability."""
    return round(math.sqrt(p) * (places - 1))


def _label(tick: float) -> str:
    return f"{tick:.12g}" if 0.0 < tick < 1.0 else {0.0: "0", 1.0: "1.0"}[tick]


def _ticks(width: int) -> str:
    """Write the labels below the x axis, each centred below its tick, without those that would touch another."""
    line = ""
    for tick in TICKS:
        label = _label(tick)
        start = max(_place(tick, width) - len(label) // 2, 0)
        if not line or start >= len(line) + 2:
            line = line.ljust(start) + label
    return line
