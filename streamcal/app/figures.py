"""The pictures of the HTML report, drawn as SVG from `ReportData`, each with texts for a slider that reads it."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from streamcal.app.prepared import (
    DATES,
    Axis,
    Spacing,
    TimeAxis,
    corp_limits,
    effect_limits,
    fit_line,
    fitted,
    heavy,
    histogram,
    limits,
    outside,
    spacing_of,
)
from streamcal.app.report import plain
from streamcal.app.report_data import ReportData, Series
from streamcal.app.segment_data import SegmentTable
from streamcal.app.svg import BOTTOM, HEIGHT, Canvas, Point, drawing
from streamcal.live.segmented import Effect
from streamcal.stream.by_segment import level_text
from streamcal.stream.history import MOST_MARKS, RUN_LENGTH

#: Stops that a slider has at most.
MOST_STOPS = 64
#: How methods are shown whose predictions depend on segments.
KEYED = ("Segmented(", "Multicalibrated(")
#: The height of the histogram below a reliability diagram, and of the space above it.
BELOW, BETWEEN = 44, 8
#: Where the share of positives is always below this, it is spaced by square roots.
SELDOM_POSITIVE = 0.2
#: Powers of ten of the evidence that are shown; an infinite value is drawn at the top.
HIGHEST_EVIDENCE = 12.0
#: The radius of the lightest and of the heaviest block.
SMALLEST, LARGEST = 2.0, 6.0


class Figure(NamedTuple):
    """A picture: its heading, the SVG, what the slider says at which place, and a caption."""

    heading: str
    svg: str
    stops: tuple[tuple[float, str], ...]
    caption: str


def figures(data: ReportData) -> list[Figure]:
    """Draw all pictures of a report."""
    if not data.series:
        return []
    found = [reliability(data, i) for i in range(len(data.series))]
    if any(one.mapped for one in data.series):
        found.append(maps(data))
    forests = [forest_plot(one) for one in data.segments if one.effects]
    return [*found, rates(data), losses(data), evidence(data), *forests]


def colour(i: int) -> str:
    """Return the CSS class of the i-th series."""
    return f"c{i}"


def reliability(data: ReportData, i: int) -> Figure:
    """Draw the isotonic fit of the labels with its consistency band, and the density of the predictions below."""
    one = data.series[i]
    corp = one.reliability
    spacing = spacing_of(corp.scores, corp.weights)
    axis = Axis(*corp_limits([corp], spacing), spacing)
    canvas = Canvas(axis, axis, bottom=HEIGHT - BOTTOM - BELOW - BETWEEN)
    canvas.axes("", "share of positives")
    canvas.area(_pairs(corp.places, corp.upper), _pairs(corp.places, corp.lower), f"band {colour(i)}")
    canvas.line([(axis.low, axis.low), (axis.high, axis.high)], "diagonal")
    canvas.line(fit_line(corp), f"line {colour(i)}")
    blocks = heavy(corp)
    most = max(block.weight for block in blocks)
    radii = [SMALLEST + (LARGEST - SMALLEST) * math.sqrt(block.weight / most) for block in blocks]
    rows = ((b.prediction, b.frequency, radius) for b, radius in zip(blocks, radii, strict=True))
    canvas.dots(rows, f"dot {colour(i)}")
    shares, edges = histogram(corp.scores, corp.weights, axis)
    below = Canvas(axis, Axis(0.0, float(shares.max())), top=HEIGHT - BOTTOM - BELOW)
    below.axes("prediction", "", lines=False)
    below.steps(edges.tolist(), shares.tolist(), f"bars {colour(i)}")
    description = f"Reliability diagram of {one.name}. {miscalibration_text(one)}"
    svg = drawing([canvas, below], description)
    return Figure(f"Reliability of {one.name}", svg, _reliability_stops(canvas, one), miscalibration_text(one))


def miscalibration_text(one: Series) -> str:
    """Describe the miscalibration against its floor, and how much of the fit is outside the band."""
    found = one.reliability.decomposition.miscalibration
    verdict = "above the floor" if found > one.floor else "not above the floor"
    return (
        f"Miscalibration {plain(found)}, {verdict} of {plain(one.floor)} that 95 % of calibrated forecasters stay "
        f"below. For {outside(one.reliability):.0%} of the predictions the share of positives is outside of the band, "
        f"which contains {one.reliability.confidence:.0%} of calibrated ones at each place."
    )


def maps(data: ReportData) -> Figure:
    """Draw the map from score to probability of each method at the end of the stream."""
    raw = data.series[0].reliability
    drawn = [(i, one) for i, one in enumerate(data.series) if one.mapped]
    spacing = spacing_of(raw.scores, raw.weights)
    points = [value for _, one in drawn for _, value in one.mapped]
    axis = Axis(*limits(points, [(raw.scores, raw.weights)], spacing), spacing)
    canvas = Canvas(axis, axis)
    canvas.axes("score", "calibrated probability")
    canvas.line([(axis.low, axis.low), (axis.high, axis.high)], "diagonal")
    for i, one in drawn:
        canvas.line(one.mapped, f"line {colour(i)}")
    texts = []
    for row in zip(*(one.mapped for _, one in drawn), strict=True):
        said = [(one.name, short(p)) for (_, one), (_, p) in zip(drawn, row, strict=True)]
        texts.append((canvas.across(row[0][0]), _said(f"score {short(row[0][0])}", said)))
    names = _listed([one.name for _, one in drawn])
    keyed = any(one.shown.startswith(KEYED) for _, one in drawn)
    return Figure(
        "Calibration maps",
        drawing([canvas], f"What {names} made of the score at the end of the stream, over the score."),
        _thinned(texts),
        "At the end of the stream; the dashed line is the score itself."
        + (" Of methods with segments, for a row that has none." if keyed else ""),
    )


def rates(data: ReportData) -> Figure:
    """Draw the share of positives and the mean predictions over time."""
    observed, edges = [part.positives for part in data.series[0].parts], _edges(data)
    spacing: Spacing = "sqrt" if max(observed) < SELDOM_POSITIVE else "linear"
    high = limits([*observed, *(part.predicted for one in data.series for part in one.parts)], [], "linear")[1]
    canvas = Canvas(_over(data), Axis(0.0, high, spacing))
    canvas.axes(_below(canvas.x, data), "share of positives")
    canvas.steps(edges, observed, "observed")
    for i, one in enumerate(data.series):
        canvas.line(_over_time(edges, [part.predicted for part in one.parts]), f"line {colour(i)}")
    said = [[("positives", f"{share:.2%}")] for share in observed]
    for one in data.series:
        for texts, part in zip(said, one.parts, strict=True):
            texts.append((one.name, f"{part.predicted:.2%}"))
    what = f"Share of positives, and the mean prediction of {_listed([one.name for one in data.series])}, over time."
    caption = "Grey area: the share of positives. A line above it predicts too many."
    return Figure("Rates over time", drawing([canvas], what), _time_stops(data, canvas, said), caption)


def losses(data: ReportData) -> Figure:
    """Draw the mean log loss of the parts of the stream."""
    edges = _edges(data)
    # The best stays readable where another series has a loss many times as high.
    lowest = min(max(part.log_loss for part in one.parts) for one in data.series)
    high = min(max(part.log_loss for one in data.series for part in one.parts), 3.0 * lowest) or 1.0
    canvas = Canvas(_over(data), Axis(0.0, 1.06 * high))
    canvas.axes(_below(canvas.x, data), "log loss")
    for i, one in enumerate(data.series):
        canvas.line(_over_time(edges, [part.log_loss for part in one.parts]), f"line {colour(i)}")
    rows = zip(*(one.parts for one in data.series), strict=True)
    said = [[(one.name, short(part.log_loss)) for one, part in zip(data.series, row, strict=True)] for row in rows]
    what = f"Mean log loss of {_listed([one.name for one in data.series])} over time."
    return Figure(
        "Loss over time",
        drawing([canvas], what),
        _time_stops(data, canvas, said),
        "Mean log loss of each part of the stream; lower is better. Higher losses are drawn at the top.",
    )


def evidence(data: ReportData) -> Figure:
    """Draw the evidence against each series over time, and alarms."""
    edges, rows = _edges(data), _rows(data)
    canvas = Canvas(_over(data), Axis(0.0, HIGHEST_EVIDENCE))
    canvas.axes(_below(canvas.x, data), "evidence, powers of ten")
    threshold = math.log10(RUN_LENGTH)
    canvas.line([(edges[0], threshold), (edges[-1], threshold)], "threshold")
    said: list[list[tuple[str, str]]] = [[] for _ in edges[1:]]
    for i, one in enumerate(data.series):
        powers = [math.log10(max(part.evidence, 1.0)) for part in one.parts]
        canvas.line(_over_time(edges, powers), f"line {colour(i)}")
        canvas.marks(np.interp(one.marks, rows, edges).tolist(), i, f"mark {colour(i)}")
        for texts, power, part in zip(said, powers, one.parts, strict=True):
            texts.append((one.name, f"10^{power:.1f}" + (f" and {part.alarms} alarms" if part.alarms else "")))
    alarms = _listed([f"{one.alarms_in_all:,} of {one.name}" for one in data.series])
    thinned = any(one.alarms_in_all > MOST_MARKS for one in data.series)
    return Figure(
        "Evidence against the predictions",
        drawing([canvas], f"Evidence over time that predictions are wrong, and alarms: {alarms}."),
        _time_stops(data, canvas, said),
        f"A CalibrationMonitor raises an alarm where the evidence reaches {RUN_LENGTH:,.0f} (dashed), and restarts: "
        f"of right predictions at most one in as many rows on average. Alarms, the marks at the top: {alarms}."
        + (f" Of a series with more than {MOST_MARKS} a mark is a part of the stream with alarms." if thinned else ""),
    )


def forest_plot(table: SegmentTable) -> Figure:
    """Draw a method's effect for each level of a field, as a dot on an interval of ± one standard deviation."""
    effects = table.effects
    most = max(one.n for one in effects) or 1.0
    axis = Axis(*effect_limits(effects))
    rows = [-row for row in range(1, len(effects) + 1)]
    canvas = Canvas(axis, Axis(rows[-1] - 0.5, -0.5), names=[level_text(one.level) for one in effects])
    canvas.rows("effect on the log-odds")
    canvas.line([(0.0, rows[-1] - 0.5), (0.0, -0.5)], "diagonal")
    for row, one in zip(rows, effects, strict=True):
        canvas.line([(one.mean - one.sd, row), (one.mean + one.sd, row)], "line c1")
    radii = [SMALLEST + (LARGEST - SMALLEST) * math.sqrt(one.n / most) for one in effects]
    canvas.dots(((one.mean, row, r) for row, one, r in zip(rows, effects, radii, strict=True)), "dot c1")
    stops = sorted((canvas.across(one.mean), effect_text(one)) for one in effects)
    lowest, highest = (end(effects, key=lambda one: one.mean) for end in (min, max))
    what = f"Effects of {len(effects)} levels of {table.field}, from {effect_text(lowest)}"
    return Figure(
        f"Segments by {table.field}",
        drawing([canvas], f"{what} to {effect_text(highest)}."),
        tuple((round(place, 1), text) for place, text in stops),
        f"What {table.of} adds for the levels of the table, in its order, ± one standard deviation of the posterior: "
        "0 leaves the prediction as it is, and 0.7 doubles the odds. A larger dot has more rows.",
    )


def effect_text(one: Effect) -> str:
    """Describe an effect in words."""
    return f"{level_text(one.level)}: {one.mean:+.2f} ± {one.sd:.2f}, {one.n:,.6g} rows"


def short(value: float) -> str:
    """Write a number with three significant digits.

    >>> short(0.12345), short(0.0), short(1.0)
    ('0.123', '0', '1')
    """
    return f"{value:.3g}"


def _reliability_stops(canvas: Canvas, one: Series) -> tuple[tuple[float, str], ...]:
    corp = one.reliability
    fit = fitted(corp, corp.places).tolist()
    stops = []
    for place, value, low, high in zip(corp.places, fit, corp.lower, corp.upper, strict=True):
        text = f"prediction {short(place)}: share of positives {short(value)}"
        stops.append((canvas.across(place), f"{text}; calibrated: {short(low)} to {short(high)}"))
    return _thinned(stops)


def _rows(data: ReportData) -> list[float]:
    """Return the rows at the ends of the parts of the stream, from 0."""
    return [0.0, *itertools.accumulate(float(part.rows) for part in data.series[0].parts)]


def _edges(data: ReportData) -> list[float]:
    """Return the ends of the parts of the stream on the axis: times if they are known, or else rows."""
    return list(data.times) or _rows(data)


def _over(data: ReportData) -> Axis:
    """Return the axis of pictures over time: dates, times that are no dates, or rows."""
    edges = _edges(data)
    dates = bool(data.times) and DATES[0] < edges[0] and edges[-1] < DATES[1]
    return (TimeAxis if dates else Axis)(edges[0], edges[-1])


def _below(axis: Axis, data: ReportData) -> str:
    """Return the text below an axis of pictures over time."""
    return axis.range_text() if isinstance(axis, TimeAxis) else "time" if data.times else "rows"


def _over_time(edges: list[float], values: list[float]) -> list[Point]:
    """Return values at the middles of the parts, until a method failed; one part alone from end to end."""
    if len(values) == 1:
        return [(edges[0], values[0]), (edges[1], values[0])]
    return [((edges[i] + edges[i + 1]) / 2.0, value) for i, value in enumerate(values)]


def _time_stops(data: ReportData, canvas: Canvas, said: list[list[tuple[str, str]]]) -> tuple[tuple[float, str], ...]:
    stops = []
    parts = zip(itertools.pairwise(_edges(data)), itertools.pairwise(_rows(data)), said, strict=True)
    for (begin, end), (a, b), texts in parts:
        dates = f"{canvas.x.moment_text(begin)}, " if isinstance(canvas.x, TimeAxis) else ""
        stops.append((canvas.across((begin + end) / 2.0), _said(f"{dates}rows {a + 1:,.0f} to {b:,.0f}", texts)))
    return _thinned(stops)


def _said(where: str, texts: list[tuple[str, str]]) -> str:
    return f"{where}: {', '.join(f'{name} {value}' for name, value in texts)}"


def _thinned(stops: list[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """Return at most `MOST_STOPS` of the stops, including both ends."""
    kept = np.unique(np.linspace(0, len(stops) - 1, min(len(stops), MOST_STOPS)).round().astype(int))
    return tuple((round(stops[k][0], 1), stops[k][1]) for k in kept.tolist())


def _pairs(x: tuple[float, ...], y: tuple[float, ...]) -> list[Point]:
    return list(zip(x, y, strict=True))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
