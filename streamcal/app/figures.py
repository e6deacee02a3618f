"""The pictures of the HTML report, drawn as SVG from `ReportData`, each with texts for a slider that reads it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
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
from streamcal.stream.history import MOST_MARKS, RUN_LENGTH, Part

#: Stops that a slider has at most.
MOST_STOPS = 64
#: How methods are shown whose predictions depend on segments.
KEYED = ("Segmented(", "Multicalibrated(")
#: The height of the histogram below a reliability diagram, and of the space above it.
BELOW, BETWEEN = 44, 8
#: Where the share of positives is always below this, it is spaced by square roots.
SELDOM_POSITIVE = 0.2
#: Where it is below this share of the largest value, a value is near 0.
NEAR_0 = 8.0
#: Positives that a part has at least whose share of them is drawn.
LEAST_POSITIVES = 20
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
    drawn = [reliability(data, i) for i in range(len(data.series))]
    if any(series.mapped for series in data.series):
        drawn.append(maps(data))
    forests = [forest_plot(table) for table in data.segments if table.effects]
    compared = differences(data)
    return [*drawn, rates(data), *([] if compared is None else [compared]), evidence(data), *forests]


def colour(i: int) -> str:
    """Return the CSS class of the i-th series."""
    return f"c{i}"


def reliability(data: ReportData, i: int) -> Figure:
    """Draw the isotonic fit of the labels with its consistency band, and the density of the predictions below."""
    series = data.series[i]
    corp = series.reliability
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
    description = f"Reliability diagram of {series.name}. {miscalibration_text(series)}"
    svg = drawing([canvas, below], description)
    return Figure(f"Reliability of {series.name}", svg, _reliability_stops(canvas, series), miscalibration_text(series))


def miscalibration_text(series: Series) -> str:
    """Describe the miscalibration against its floor, and how much of the fit is outside the band."""
    miscalibration = series.reliability.decomposition.miscalibration
    verdict = "above the floor" if miscalibration > series.floor else "not above the floor"
    missed, confidence = outside(series.reliability), series.reliability.confidence
    return (
        f"Miscalibration {plain(miscalibration)}, {verdict} of {plain(series.floor)} that 95 % of calibrated "
        f"forecasters stay below. For {missed:.0%} of the predictions the share of positives is outside of the band, "
        f"which contains {confidence:.0%} of calibrated ones at each place."
    )


def maps(data: ReportData) -> Figure:
    """Draw the map from score to probability of each method at the end of the stream."""
    raw = data.series[0].reliability
    drawn = [(i, series) for i, series in enumerate(data.series) if series.mapped]
    spacing = spacing_of(raw.scores, raw.weights)
    points = [value for _, series in drawn for _, value in series.mapped]
    axis = Axis(*limits(points, [(raw.scores, raw.weights)], spacing), spacing)
    canvas = Canvas(axis, axis)
    canvas.axes("score", "calibrated probability")
    canvas.line([(axis.low, axis.low), (axis.high, axis.high)], "diagonal")
    for i, series in drawn:
        canvas.line(series.mapped, f"line {colour(i)}")
    texts = []
    for row in zip(*(series.mapped for _, series in drawn), strict=True):
        values = [(series.name, short(p)) for (_, series), (_, p) in zip(drawn, row, strict=True)]
        texts.append((canvas.across(row[0][0]), _stop_text(f"score {short(row[0][0])}", values)))
    names = _listed([series.name for _, series in drawn])
    keyed = any(series.shown.startswith(KEYED) for _, series in drawn)
    return Figure(
        "Calibration maps",
        drawing([canvas], f"What {names} made of the score at the end of the stream, over the score."),
        _thinned(texts),
        "At the end of the stream; the dashed line is the score itself."
        + (" Of methods with segments, for a row that has none." if keyed else ""),
    )


def rates(data: ReportData) -> Figure:
    """Draw the share of positives and the mean predictions over time, in parts with enough positives."""
    groups = _with_positives(data.series[0].parts)
    edges = [_edges(data)[k] for k in (0, *(group.stop for group in groups))]
    observed = [_mean(data.series[0].parts[group], "positives") for group in groups]
    predicted = [[_mean(series.parts[group], "predicted") for group in groups] for series in data.series]
    values = [*observed, *itertools.chain(*predicted)]
    # Ticks of an axis spaced by square roots are near 0: it is for values that are.
    spacing: Spacing = "sqrt" if max(observed) < SELDOM_POSITIVE and NEAR_0 * min(values) < max(values) else "linear"
    canvas = Canvas(_over(data), Axis(0.0, limits(values, [], "linear")[1], spacing))
    canvas.axes(_below(canvas.x, data), "share of positives")
    canvas.steps(edges, observed, "observed")
    for i, means in enumerate(predicted):
        canvas.line(_over_time(edges, means), f"line {colour(i)}")
    labels = [[("positives", f"{share:.2%}")] for share in observed]
    for series, means in zip(data.series, predicted, strict=True):
        for texts, mean in zip(labels, means, strict=True):
            texts.append((series.name, f"{mean:.2%}"))
    names = _listed([series.name for series in data.series])
    what = f"Share of positives, and the mean prediction of {names}, over time."
    caption = (
        f"Grey area: the share of positives, in parts with {LEAST_POSITIVES} positives or more. "
        "A line above it predicts too many."
    )
    stops = _time_stops(data, canvas, labels, groups)
    return Figure("Rates over time", drawing([canvas], what), stops, caption)


def _with_positives(parts: tuple[Part, ...]) -> list[slice]:
    """Return groups of neighbours, each with `LEAST_POSITIVES` or more; those left at the end join the last group."""
    groups, begin, positives = [], 0, 0.0
    for i, part in enumerate(parts, 1):
        positives += part.rows * part.positives
        if positives >= LEAST_POSITIVES:
            groups.append(slice(begin, i))
            begin, positives = i, 0.0
    if not groups:
        return [slice(0, len(parts))]
    return [*groups[:-1], slice(groups[-1].start, len(parts))]


def _mean(parts: tuple[Part, ...], what: str) -> float:
    """Return the mean over the weight of parts."""
    weight = math.fsum(part.weight for part in parts) or 1.0
    return math.fsum(part.weight * getattr(part, what) for part in parts) / weight


def differences(data: ReportData) -> Figure | None:
    """Draw the summed difference of log losses to the base over time, with its confidence sequence."""
    base = next((series for series in data.series if series.name == data.base), None)
    others = [(i, series) for i, series in enumerate(data.series) if series is not base]
    if base is None or not others:
        return None
    sums = [_summed(series, base) for _, series in others]
    last = [end for _, series in others for end in (series.parts[-1].low, series.parts[-1].high) if math.isfinite(end)]
    values = [0.0, *itertools.chain(*sums), *last]
    margin = 0.04 * (max(values) - min(values)) or 1.0
    edges = _edges(data)
    canvas = Canvas(_over(data), Axis(min(values) - margin, max(values) + margin))
    canvas.axes(_below(canvas.x, data), "nats, in sum")
    canvas.line([(edges[0], 0.0), (edges[-1], 0.0)], "diagonal")
    labels: list[list[tuple[str, str]]] = [[] for _ in base.parts]
    for (i, series), values in zip(others, sums, strict=True):
        if math.isfinite(series.parts[-1].low):
            upper, lower = ([part.high for part in series.parts], [part.low for part in series.parts])
            canvas.area(_pairs(edges[1:], upper), _pairs(edges[1:], lower), f"band {colour(i)}")
        canvas.line([(edges[0], 0.0), *zip(edges[1:], values, strict=True)], f"line {colour(i)}")
        for texts, part, value in zip(labels, series.parts, values, strict=True):
            interval = f" ({nats(part.low)} to {nats(part.high)})" if math.isfinite(part.low) else ""
            texts.append((series.name, f"{nats(value)}{interval}"))
    names = _listed([series.name for _, series in others])
    return Figure(
        f"Log loss against {base.name}, in sum",
        drawing([canvas], f"Sum of the log loss of {names} minus that of {base.name}, over time."),
        _time_stops(data, canvas, labels),
        f"Log loss minus that of {base.name}: a line that falls is better at that time. Bands are the confidence "
        "sequences on which the verdicts rest: better is a band that ends below 0.",
    )


def _summed(series: Series, base: Series) -> list[float]:
    """Return the sums of the differences by weight, up to the end of each part."""
    steps = (p.weight * (p.log_loss - q.log_loss) for p, q in zip(series.parts, base.parts, strict=True))
    return list(itertools.accumulate(steps))


def evidence(data: ReportData) -> Figure:
    """Draw the evidence against each series over time, and alarms."""
    edges, rows = _edges(data), _rows(data)
    canvas = Canvas(_over(data), Axis(0.0, HIGHEST_EVIDENCE))
    canvas.axes(_below(canvas.x, data), "evidence, powers of ten")
    threshold = math.log10(RUN_LENGTH)
    canvas.line([(edges[0], threshold), (edges[-1], threshold)], "threshold")
    labels: list[list[tuple[str, str]]] = [[] for _ in edges[1:]]
    for i, series in enumerate(data.series):
        powers = [math.log10(max(part.evidence, 1.0)) for part in series.parts]
        canvas.line(_over_time(edges, powers), f"line {colour(i)}")
        canvas.marks(np.interp(series.marks, rows, edges).tolist(), i, f"mark {colour(i)}")
        for texts, power, part in zip(labels, powers, series.parts, strict=True):
            texts.append((series.name, f"10^{power:.1f}" + (f" and {part.alarms} alarms" if part.alarms else "")))
    alarms = _listed([f"{series.alarms_in_all:,} of {series.name}" for series in data.series])
    thinned = any(series.alarms_in_all > MOST_MARKS for series in data.series)
    return Figure(
        "Evidence against the predictions",
        drawing([canvas], f"Evidence over time that predictions are wrong, and alarms: {alarms}."),
        _time_stops(data, canvas, labels),
        f"A CalibrationMonitor raises an alarm where the evidence reaches {RUN_LENGTH:,.0f} (dashed), and restarts: "
        f"of right predictions at most one in as many rows on average. Alarms, the marks at the top: {alarms}."
        + (f" Of a series with more than {MOST_MARKS} a mark is a part of the stream with alarms." if thinned else ""),
    )


def forest_plot(table: SegmentTable) -> Figure:
    """Draw a method's effect for each level of a field, as a dot on an interval of ± one standard deviation."""
    effects = table.effects
    most = max(effect.n for effect in effects) or 1.0
    axis = Axis(*effect_limits(effects))
    rows = [-row for row in range(1, len(effects) + 1)]
    canvas = Canvas(axis, Axis(rows[-1] - 0.5, -0.5), names=[level_text(effect.level) for effect in effects])
    canvas.rows("effect on the log-odds")
    canvas.line([(0.0, rows[-1] - 0.5), (0.0, -0.5)], "diagonal")
    for row, effect in zip(rows, effects, strict=True):
        canvas.line([(effect.mean - effect.sd, row), (effect.mean + effect.sd, row)], "line c1")
    radii = [SMALLEST + (LARGEST - SMALLEST) * math.sqrt(effect.n / most) for effect in effects]
    canvas.dots(((effect.mean, row, r) for row, effect, r in zip(rows, effects, radii, strict=True)), "dot c1")
    stops = sorted((canvas.across(effect.mean), effect_text(effect)) for effect in effects)
    lowest, highest = (end(effects, key=lambda effect: effect.mean) for end in (min, max))
    what = f"Effects of {len(effects)} levels of {table.field}, from {effect_text(lowest)}"
    return Figure(
        f"Segments by {table.field}",
        drawing([canvas], f"{what} to {effect_text(highest)}."),
        tuple((round(place, 1), text) for place, text in stops),
        f"What {table.of} adds for the levels of the table, in its order, ± one standard deviation of the posterior: "
        "0 leaves the prediction as it is, and 0.7 doubles the odds. A larger dot has more rows.",
    )


def effect_text(effect: Effect) -> str:
    """Describe an effect in words."""
    return f"{level_text(effect.level)}: {effect.mean:+.2f} ± {effect.sd:.2f}, {effect.n:,.6g} rows"


def short(value: float) -> str:
    """Write a number with three significant digits.

    >>> short(0.12345), short(0.0), short(1.0)
    ('0.123', '0', '1')
    """
    return f"{value:.3g}"


def nats(value: float) -> str:
    """Write a sum of differences with its sign.

    >>> nats(-0.01234), nats(12.3), nats(-43412.3)
    ('-0.0123', '+12.3', '-43,412')
    """
    return f"{value:+,.0f}" if abs(value) >= 100.0 else f"{value:+.3g}"


def _reliability_stops(canvas: Canvas, series: Series) -> tuple[tuple[float, str], ...]:
    corp = series.reliability
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


def _time_stops(
    data: ReportData, canvas: Canvas, labels: list[list[tuple[str, str]]], groups: Sequence[slice] = ()
) -> tuple[tuple[float, str], ...]:
    """Return what a slider says of each part of the stream, or of groups of parts."""
    stops = []
    ends = [0, *(group.stop for group in groups)] if groups else range(len(labels) + 1)
    edges, rows = ([all_[k] for k in ends] for all_ in (_edges(data), _rows(data)))
    for (begin, end), (a, b), texts in zip(itertools.pairwise(edges), itertools.pairwise(rows), labels, strict=True):
        dates = f"{canvas.x.moment_text(begin)}, " if isinstance(canvas.x, TimeAxis) else ""
        stops.append((canvas.across((begin + end) / 2.0), _stop_text(f"{dates}rows {a + 1:,.0f} to {b:,.0f}", texts)))
    return _thinned(stops)


def _stop_text(where: str, texts: list[tuple[str, str]]) -> str:
    return f"{where}: {', '.join(f'{name} {value}' for name, value in texts)}"


def _thinned(stops: list[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """Return at most `MOST_STOPS` of the stops, including both ends."""
    places = np.unique(np.linspace(0, len(stops) - 1, min(len(stops), MOST_STOPS)).round().astype(int))
    return tuple((round(stops[k][0], 1), stops[k][1]) for k in places.tolist())


def _pairs(x: Sequence[float], y: Sequence[float]) -> list[Point]:
    return list(zip(x, y, strict=True))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
