"""The picture of the race: the difference of every entrant from `auto`, course by course."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.streams.entrants import ENTRANTS
from benchmarks.streams.race import ORACLE
from benchmarks.streams.standings import ONLINE_PLATT, RAW, REFERENCE, Standings

#: The axis is linear up to so many nats, and logarithmic beyond.
LINEAR = 0.003
LIMIT = 1.0
OURS, PEER = "#ea9a62", "#6b7280"
MARKED = {
    RAW: ("#000000", "x", "raw score"),
    ONLINE_PLATT: ("#0f766e", "D", "online-platt"),
    ORACLE: ("#1d4ed8", "|", "oracle"),
}


def draw(standings: Standings, path: Path) -> None:
    """Draw a dot for every entrant at its log loss minus the reference's; dots to the right are worse."""
    figure = Figure(figsize=(9.0, 0.24 * len(standings.courses) + 1.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places: dict[str, tuple[list[float], list[int]]] = {}
    for row, course in enumerate(standings.courses):
        reference = standings.get(course, REFERENCE, "log_loss")
        for entrant in (*standings.entrants, ORACLE):
            loss = standings.get(course, entrant, "log_loss")
            if loss is not None and reference is not None and entrant != REFERENCE:
                group = entrant if entrant in MARKED else "ours" if ENTRANTS[entrant].ours else "peers"
                x, y = places.setdefault(group, ([], []))
                x.append(max(-LIMIT, min(LIMIT, loss - reference)))
                y.append(row)
    for group, colour in (("ours", OURS), ("peers", PEER)):
        axes.plot(*places.get(group, ([], [])), ".", color=colour, label=f"{group}, others", markersize=5)
    for name, (colour, marker, label) in MARKED.items():
        axes.plot(*places.get(name, ([], [])), marker, color=colour, label=label, markersize=5, linestyle="none")
    axes.axvline(0.0, color="#c2410c", linewidth=1.6, label=REFERENCE)
    axes.set_xscale("symlog", linthresh=LINEAR)
    axes.set_xlim(-LIMIT, LIMIT)
    axes.set_yticks(
        range(len(standings.courses)), [f"{name}, {delay}" for name, delay in standings.courses], fontsize=7
    )
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="x", color="#e5e7eb", linewidth=0.8)
    axes.set_xlabel(
        f"log loss minus that of {REFERENCE}, nats (linear within ±{LINEAR}); left: better than {REFERENCE}"
    )
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(path)
