"""Output of `streamcal demo`, and its picture."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from streamcal.app.demo import BY, CORRECTED_AT, MISTAKEN, SHOWN, WINDOW, Correction, Part, Result
from streamcal.app.doctor import slower
from streamcal.app.plot import plot_rates, text_reliability
from streamcal.app.plot_frame import INK
from streamcal.app.report import scores_table, verdicts
from streamcal.datasets import BANK_ROWS
from streamcal.errors import InputError
from streamcal.kernels import COMPILED
from streamcal.metrics import ReliabilityData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Bins of the diagrams: so few that their points lie apart.
BINS = 6


def report(result: Result, console: Console) -> None:
    """Print a table and a verdict for each base model, and for `SHOWN` a diagram, the drift and the correction."""
    console.print(
        f"UCI Bank Marketing, {BANK_ROWS:,} calls in date order: will the client subscribe?\n"
        "Each call is scored, then calibrated, and only then learned, by the model and by\n"
        "the calibrators. Always saying the base rate so far has "
        f"log loss {result.base_rate.log_loss.get():.4f}."
    )
    for name, boards in result.boards.items():
        console.print(f"\n[bold]{name}[/bold], learning online")
        console.print(scores_table(boards))
        console.print(verdicts(result.differences[name]))
    console.print(f"\n[bold]Verdict[/bold]: {verdict(result)}")
    chosen = "; auto has nothing to\nchoose" if COMPILED else ""
    console.print(
        f"\nbernstein and venn-abers look back on the last {WINDOW:,} calls{chosen}. "
        "The calibration ratio is predicted over observed positives: 1 is right."
    )
    if not COMPILED:
        console.print(f"\nThe kernels are not compiled: {slower()}.")
    console.print(f"\n[bold]{SHOWN}[/bold], raw and by {BY}: on the dots is right\n")
    console.print(text_reliability(diagrams(result)), markup=False)
    console.print(f"\n[bold]Drift[/bold]: subscriptions, and what {SHOWN} says, by eighth of the calls")
    console.print(drift_table(result.parts))
    console.print(drift_sentence(result.parts))
    console.print(f"\n[bold]A late correction[/bold]\n{correction_text(result.correction)}")


def verdict(result: Result) -> str:
    """Compare calibrated `SHOWN` with the best of the raw models, in words."""
    raw = {name: boards["raw"].log_loss.get() or 0.0 for name, boards in result.boards.items()}
    best, calibrated = min(raw, key=lambda name: raw[name]), result.boards[SHOWN][BY].log_loss.get() or 0.0
    side = "below" if calibrated < raw[best] else "above"
    return (
        f"{BY} takes {SHOWN} from log loss {raw[SHOWN]:.4f} to {calibrated:.4f},\n"
        f"{side} that of the raw {best}, {raw[best]:.4f}."
    )


def diagrams(result: Result) -> Mapping[str, ReliabilityData]:
    """Return reliability diagrams of `SHOWN`, raw and by `BY`."""
    boards = result.boards[SHOWN]
    return {name: boards[name].ece.reliability(bins=BINS) for name in ("raw", BY)}


def drift_table(parts: list[Part]) -> Table:
    """Return the table of observed and predicted shares by part of the stream."""
    table = Table(box=None, pad_edge=False)
    table.add_column("calls", justify="right")
    for name in ("subscribed", "raw says", f"{BY} says"):
        table.add_column(name, justify="right")
    seen = 0
    for part in parts:
        seen += part.calls
        shares = (count / max(part.calls, 1) for count in (part.positives, part.raw, part.calibrated))
        table.add_row(f"to {seen:,}", *(f"{share:.1%}" for share in shares))
    return table


def correction_text(correction: Correction) -> str:
    """Describe the effect of wrong labels, and whether unlearning them undid it."""
    same = correction.corrected == correction.right
    return (
        f"venn-abers gives the score {CORRECTED_AT:g} the probability {correction.right:.4f}. "
        f"Had the last {MISTAKEN} calls\n"
        f"been entered as subscriptions by mistake, it would say {correction.wrong:.4f}. With these labels\n"
        f"unlearned, and the right ones learned, it says {correction.corrected:.4f}: "
        f"{'exactly' if same else 'not'} the same again."
    )


def drift_sentence(parts: list[Part]) -> str:
    """Describe the part of the stream before the last: how many subscribed, and what was predicted."""
    *earlier, part, _ = parts
    first = sum(piece.calls for piece in earlier) + 1
    shares = (100.0 * count / max(part.calls, 1) for count in (part.positives, part.raw, part.calibrated))
    observed, raw, calibrated = (f"{share:.1f} %" for share in shares)
    calls = f"calls {first:,} to {first + part.calls - 1:,}"
    return f"Of {calls}, {observed} subscribed: {SHOWN} says {raw}, {BY} says {calibrated}."


def save_picture(result: Result, path: Path, console: Console) -> None:
    """Save the drift of `SHOWN` as a picture; without matplotlib, print how to install it."""
    if find_spec("matplotlib") is None:
        console.print('\nThe same as a picture: pip install ".[plot]"', markup=False, soft_wrap=True)
        return
    path = path if path.suffix else path.with_suffix(".png")  # matplotlib would add it silently
    try:
        drift_picture(result.parts).savefig(path, dpi=120, facecolor="white", bbox_inches="tight", pad_inches=0.15)
    except (OSError, ValueError) as error:  # matplotlib checks the file format
        raise InputError(f"{path}: the picture cannot be written: {error}") from None
    console.print(f"\nDrift as a picture: {path}", soft_wrap=True)


def drift_picture(parts: list[Part]) -> Figure:
    """Draw the shares of `drift_table`, with a sentence on one part as the title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    ends = list(itertools.accumulate(part.calls for part in parts))
    rates = {
        "subscribed": [part.positives / max(part.calls, 1) for part in parts],
        f"{SHOWN} says": [part.raw / max(part.calls, 1) for part in parts],
        f"{BY} says": [part.calibrated / max(part.calls, 1) for part in parts],
    }
    ax = plot_rates(ends, rates, figure.subplots())
    ax.set_box_aspect(None)
    ax.set(xlabel="calls", ylabel="share that subscribes")
    ax.set_title(drift_sentence(parts), loc="left", fontsize=11, color=INK)
    ax.yaxis.set_major_formatter(lambda share, _: f"{100.0 * share:g} %")
    return figure
