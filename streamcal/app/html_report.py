"""The HTML report: one file with the table, what follows from it, and pictures; it loads nothing."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from html import escape

from streamcal.app.figures import Figure, colour, figures
from streamcal.app.html_style import SCRIPT, STYLE
from streamcal.app.report_data import LATE, LISTED, ReportData, Series, prepared
from streamcal.errors import InputError
from streamcal.stream.comparing import Comparison
from streamcal.stream.durable import atomic_write

NO_LABEL = "No label is certain yet: the first ones are when the horizon has passed."


def save_report(comparison: Comparison, path: str | os.PathLike[str], *, command: str = "") -> None:
    """Write the report on a comparison as one HTML file, which needs no network and shows the `command` that makes it.

    Raise `InputError` if the file cannot be written, or nothing was compared.

    Examples
    --------
    >>> import tempfile, streamcal
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> save_report(streamcal.compare(([0.2, 0.7] * 50, [0, 1] * 50), methods=["online-platt"]), path)
    >>> os.path.getsize(path) < 200_000
    True
    """
    if not comparison.names:
        raise InputError("there is no report on nothing: no row was compared")
    data = prepared(comparison, command=command, made=datetime.now(UTC).date().isoformat())
    try:
        atomic_write(path, page(data).encode())
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: the report cannot be written: {error.strerror or error}") from None


def live_page(comparison: Comparison) -> str:
    """Write the report on the current predictions of a running service, which may have no label yet.

    Examples
    --------
    >>> from streamcal.stream.comparing import Comparison
    >>> "No label is certain yet" in live_page(Comparison(["online-platt"]))
    True
    """
    data = prepared(comparison, made=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, since the process started.")
    first = () if comparison.names else (NO_LABEL,)
    shown = tuple(setting for setting in data.settings if setting[0] != LATE)  # labels come when they come
    return page(replace(data, sentences=(*first, *data.sentences), settings=shown))


def page(data: ReportData) -> str:
    """Write the report as HTML."""
    title = escape(f"Calibration of {data.source}")
    lead, *others = data.sentences
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{title}</title><style>{STYLE}</style></head><body>",
            f"<header><h1>{title}</h1>",
            f'<p class="soft">{data.rows:,} rows, {data.positives:,} positive. {escape(data.made)}</p></header>',
            f'<main><p class="lead">{escape(lead)}</p>',
            *(f"<p>{escape(text)}</p>" for text in others),
            *(_measures(data) if data.series else []),
            "<h2>To repeat it</h2>" if data.command else "<h2>Settings</h2>",
            f'<pre tabindex="0"><code>{escape(data.command)}</code></pre>' if data.command else "",
            "<dl>",
            *(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in data.settings),
            f"</dl></main><script>{SCRIPT}</script></body></html>",
        ]
    )


def _measures(data: ReportData) -> list[str]:
    """List every measure of at least one row."""
    return [
        "<h2>Methods</h2>",
        _table("Methods and their measures", data.headings, data.table),
        *_segments(data),
        "<h2>Pictures</h2>",
        _legend(data.series),
        '<p class="soft hint" hidden>Move the slider below a picture, or point at the picture, to read it.</p>',
        '<div class="pictures">',
        *(_figure(drawn, i) for i, drawn in enumerate(figures(data))),
        "</div>",
        *_alarms(data.series),
    ]


def _segments(data: ReportData) -> list[str]:
    """Write a table for each field of segments, and one of groups."""
    parts = ["<h2>Segments</h2>"] if data.segments else []
    for table in data.segments:
        parts.append(f"<h3>By {escape(table.field)}</h3><p>{escape(table.lead)}</p>")
        parts.append(_table(f"Levels of {table.field}", table.headings, table.rows))
        parts.append(f"<p>{escape(table.sentence)}</p>")
    for group in data.groups:
        parts.append(f"<h2>Groups</h2><p>Those with most evidence against {escape(group.of)}.</p>")
        parts.append(_table(f"Groups of {group.of}", group.headings, group.rows))
        parts.append(f"<p>Certified: {escape(group.sentence)}.</p>")
    return parts


def _table(name: str, headings: tuple[str, ...], table: tuple[tuple[str, ...], ...]) -> str:
    """Write a table with headings of columns and rows; on a narrow screen it scrolls on its own."""
    classes = {"predicted / actual": ' class="broken"'}
    classes |= {heading: ' class="words"' for heading in headings if heading.startswith("against")}

    def css(i: int) -> str:
        return classes.get(headings[i], "")

    heads = "".join(f'<th scope="col"{css(i)}>{escape(text)}</th>' for i, text in enumerate(headings))
    rows = [
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td{css(i)}>{escape(text)}</td>" for i, text in enumerate(cells, 1))
        + "</tr>"
        for first, *cells in table
    ]
    return (
        '<p class="soft scrolls" hidden>The table is wider than the screen: scroll it sideways.</p>'
        f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _legend(series: tuple[Series, ...]) -> str:
    """Write the legend of the lines; the score itself is dotted."""
    items = [
        f'<li><svg viewBox="0 0 40 12" aria-hidden="true"><path class="line {colour(i)}" d="M1 6H39"/></svg>'
        f"{escape(entry.name)}</li>"
        for i, entry in enumerate(series)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _figure(figure: Figure, number: int) -> str:
    """Write a picture with its heading, its slider, which the script shows, and its caption."""
    stops = escape(json.dumps(figure.stops))
    heading = escape(figure.heading)
    return (
        f'<figure data-stops="{stops}"><h3 id="figure-{number}">{heading}</h3>{figure.svg}'
        f'<input type="range" min="0" max="0" value="0" step="1" aria-labelledby="figure-{number}" hidden>'
        f"<output hidden></output>"
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _alarms(series: tuple[Series, ...]) -> list[str]:
    parts = ["<h2>Alarms</h2>"]
    for entry in series:
        listed = "".join(f"<li>{escape(str(alarm))}</li>" for alarm in entry.alarms[:LISTED])
        more = entry.alarms_in_all - len(entry.alarms[:LISTED])
        parts.append(f"<h3>{escape(entry.name)}</h3>")
        parts.append(f"<ul>{listed}</ul>" if listed else "<p>No alarm.</p>")
        if more:
            ends = list(itertools.accumulate(part.rows for part in entry.parts))
            last = max(end for end, part in zip(ends, entry.parts, strict=True) if part.alarms)
            parts.append(f'<p class="soft">and {more:,} more, the last one by outcome {last}</p>')
    return parts
