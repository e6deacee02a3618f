"""The closing table: what raw and calibrated probabilities achieved."""

from __future__ import annotations

from rich.table import Table

from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.stream.prequential import Scoreboard


def scores_table(boards: dict[str, Scoreboard]) -> Table:
    """A row per scoreboard, a column per measure; how often a certain prediction was wrong, where that happened."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    table.add_column("")
    infinite = any(board.log_loss.infinite for board in boards.values())
    headings = ["log loss", "Brier", "ECE", "calibration ratio", *(["infinite"] if infinite else [])]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, board in boards.items():
        figures = [
            _figure(board.log_loss.value, 4),
            _figure(board.brier.value, 5),
            _figure(board.ece.value, 5),
            _figure(board.ratio.value, 3),
        ]
        table.add_row(name, *figures, *([str(board.log_loss.infinite)] if infinite else []))
    if infinite:
        table.caption = (
            f"infinite: log losses of a wrong certainty, counted as if it had been {LOG_LOSS_CLIP:g} short of it"
        )
    return table


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
