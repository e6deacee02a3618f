"""Data of the table and the forest plot of segments, for the terminal and for pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamcal.live.levels import Field
from streamcal.live.segmented import Effect
from streamcal.stream.by_segment import LevelRow, field_text, level_text
from streamcal.stream.comparing import BY_SEGMENT, MOST_WORST, MULTICALIBRATED, RAW, Comparison


@dataclass(frozen=True)
class SegmentTable:
    """One field of segments."""

    field: str  #: in words
    lead: str  #: which levels are in the table
    sentence: str  #: χ² of each series, and what right predictions have
    headings: tuple[str, ...]  #: of the columns of `rows`
    rows: tuple[tuple[str, ...], ...]  #: a row for each level, the worst first
    effects: tuple[Effect, ...]  #: of the best method with segments, for the levels of `rows` in their order
    of: str  #: the name of that method; empty where none is left


def segment_tables(comparison: Comparison) -> tuple[SegmentTable, ...]:
    """Return a table for each field of a comparison; none without segments, or before the first row."""
    if not comparison.names:
        return ()
    return tuple(_table(comparison, field) for field in comparison.fields)


def _table(comparison: Comparison, field: Field) -> SegmentTable:
    shown = _shown(comparison)
    plain = next((name for name in reversed(shown) if not name.endswith((BY_SEGMENT, MULTICALIBRATED))), shown[0])
    corrected = next((name for name in shown if name.endswith(BY_SEGMENT)), "")
    effects = comparison.standings[corrected].effects.get(field, []) if corrected else []
    of_level = {effect.level: effect for effect in effects}
    levels = comparison.segments.worst(field, plain, MOST_WORST)
    text, known = field_text(field), len(comparison.segments.errors[plain][field].levels())
    which = f"{len(levels)} of {known:,} levels" if known > len(levels) else f"All {known:,} levels"
    headings = ("level", "rows", "positive", *(f"{name} / actual" for name in shown), "deviation", "effect ± sd")
    return SegmentTable(
        field=text,
        lead=f"{which}, those first whose totals are farthest from what {plain} predicted.",
        sentence=_sentence(comparison, field, shown),
        headings=headings,
        rows=tuple(_row(row, shown, plain, of_level) for row in comparison.segments.rows(field, levels)),
        effects=tuple(of_level[level] for level in levels if level in of_level),
        of=corrected,
    )


def _shown(comparison: Comparison) -> list[str]:
    """Return the series in the table: the score, the best method, the best with segments, and the best in groups."""
    names = comparison.names
    plain = [name for name in names if name != RAW and not name.endswith((BY_SEGMENT, MULTICALIBRATED))]
    corrected = [name for name in names if name.endswith(BY_SEGMENT)]
    multicalibrated = [name for name in names if name.endswith(MULTICALIBRATED)]
    return [name for name in (RAW, *plain[:1], *corrected[:1], *multicalibrated[:1]) if name in names]


def _row(row: LevelRow, shown: list[str], plain: str, effects: Mapping[Any, Effect]) -> tuple[str, ...]:
    ratios = [_ratio(row.predicted.get(name), row.positive) for name in shown]
    effect = effects.get(row.level)
    correction = "" if effect is None else f"{effect.mean:+.2f} ± {effect.sd:.2f}"
    share = f"{row.positive / row.n:.2%}" if row.n else "–"
    return level_text(row.level), f"{row.n:,.6g}", share, *ratios, f"{row.z.get(plain, math.nan):+.1f} sd", correction


def _ratio(predicted: float | None, positive: float) -> str:
    return "–" if predicted is None or not positive else f"{predicted / positive:.2f}"


def _sentence(comparison: Comparison, field: Field, shown: list[str]) -> str:
    """Describe χ² over its degrees of freedom, by series."""
    errors = {name: comparison.segments.errors[name][field] for name in shown}
    deviations = {name: error.chi_square for name, error in errors.items() if error.chi_square is not None}
    if not deviations:
        return "No level has five expected positives and negatives."
    degrees = max(errors[name].degrees for name in deviations)
    listed = ", ".join(f"{name} {value:.3g}" for name, value in deviations.items())
    return (
        f"Squared deviations of the totals, on average over {degrees:,} levels: {listed}; "
        f"right predictions have 1 ± {math.sqrt(2.0 / degrees):.2g}."
    )
