"""The final table of measures of raw and calibrated probabilities."""

from __future__ import annotations

import math

from rich.console import Group
from rich.table import Table

from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.stream.prequential import Scoreboard

#: Significant digits of the smallest figure in a column; losses of rare events differ only in later digits.
SIGNIFICANT_DIGITS = 4


def scores_table(boards: dict[str, Scoreboard]) -> Group:
    """A row per scoreboard and a column per measure, and the number of infinite losses if there are any."""
    measures = {
        "log loss": [board.log_loss.value for board in boards.values()],
        "Brier": [board.brier.value for board in boards.values()],
        "ECE": [board.ece.value for board in boards.values()],
    }
    columns = {name: _aligned(values) for name, values in measures.items()}
    columns["calibration ratio"] = [_figure(board.ratio.value, 3) for board in boards.values()]
    if infinite := any(board.log_loss.infinite for board in boards.values()):
        columns["infinite"] = [f"{board.log_loss.infinite:,}" for board in boards.values()]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(boards, *columns.values(), strict=True):
        table.add_row(*row)
    if not infinite:
        return Group(table)
    return Group(table, f"infinite: labels that had been given probability 0, counted as if given {LOG_LOSS_CLIP:g}")


def _aligned(values: list[float | None]) -> list[str]:
    """The figures with the same number of decimals, determined by the smallest.

    Examples
    --------
    >>> _aligned([0.00337712, 0.25, None])
    ['0.003377', '0.250000', '–']
    """
    smallest = min((value for value in values if value), default=1.0)
    digits = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(smallest))
    return [_figure(value, min(max(digits, SIGNIFICANT_DIGITS), 8)) for value in values]


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
