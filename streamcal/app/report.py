"""The closing table of measures of raw and calibrated probabilities, and what can be concluded from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from rich.console import Group
from rich.table import Table

from streamcal.metrics import CalibrationRatio, LogLossDifference
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.stream.prequential import Measures, Scoreboard
from streamcal.stream.times import TimeOrder

#: Ratios below it are written with all digits.
LARGEST_RATIO = 1e6
#: What is said where all weights are 0.
NOTHING = "No row has a weight above 0: nothing was learned or measured."
#: Significant digits of the smallest figure in a column; losses of rare events differ only in later digits.
SIGNIFICANT_DIGITS = 4
#: Significant digits of the smallest difference between two figures in a column, and of the figures in sentences.
DIGITS_OF_DIFFERENCES = 2
#: Decimals that a table has at most: smaller differences are those of rounding.
MOST_DECIMALS = 10
#: Nats: a smaller difference of losses is none.
LEAST_DIFFERENCE = 1e-8
#: Times below this, in 1973, are hardly seconds since 1970: they are those of a simulation, or in a longer unit.
EARLY = 1e8
#: Units in which spans are written, the largest first.
SPANS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))


def scores_table(boards: dict[str, Scoreboard]) -> Group:
    """Return a table with a row per scoreboard and a column per measure, and one of infinite losses, if any."""
    measures = {
        "log loss": [board.log_loss.get() for board in boards.values()],
        "Brier": [board.brier.get() for board in boards.values()],
        "ECE": [board.ece.get() for board in boards.values()],
    }
    columns = {name: aligned(values) for name, values in measures.items()}
    columns["calibration ratio"] = [_ratio(board.ratio) for board in boards.values()]
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


def conclusions(evaluation: Measures) -> list[str]:
    r"""Return sentences: whether calibration is better than raw in log loss, and whose positives are off in number.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> from streamcal.stream.prequential import Prequential
    >>> evaluation = Prequential(OnlinePlatt())
    >>> for i in range(2_000):
    ...     _ = evaluation.step(0.9, i % 2 == 0)
    >>> print("\n".join(conclusions(evaluation)))
    Calibration is better: its log loss is 0.51 lower (95 % confidence sequence: 0.42 to 0.60 lower).
    Calibration ratio: raw predicts too many positives; calibrated agrees with the labels.
    """
    if not evaluation.rows:
        return []
    if not evaluation.measured:
        return [NOTHING]
    verdicts_in_order = [ratio_verdict(evaluation.boards())]
    if evaluation.difference.n:
        verdicts_in_order.insert(0, log_loss_verdict(evaluation.difference))
    return verdicts_in_order


def log_loss_verdict(difference: LogLossDifference) -> str:
    """Describe calibration as better, worse or undecided, by whether 0 is outside the confidence sequence."""
    low, high = difference.interval
    level = f"{100.0 * difference.confidence:g} % confidence sequence"
    value = difference.get() or 0.0
    if low <= 0.0 <= high:
        return (
            f"Undecided whether calibration is better: its log loss is {_sided(value)} so far "
            f"({level}: {_sided(low)} to {_sided(high)})."
        )
    verdict, (near, far) = ("better", (high, low)) if high < 0.0 else ("worse", (low, high))
    return f"Calibration is {verdict}: its log loss is {_sided(value)} ({level}: {plain(near)} to {_sided(far)})."


def verdicts(differences: Mapping[str, LogLossDifference]) -> str:
    """List the methods that are better than the raw score in log loss, undecided, and worse.

    Examples
    --------
    >>> better, same = LogLossDifference(adaptive=True), LogLossDifference(adaptive=True)
    >>> better.update_many([True] * 500, [0.9] * 500, [0.1] * 500)
    >>> same.update_many([True] * 500, [0.9] * 500, [0.9] * 500)
    >>> print(verdicts({"one": better, "other": same}))
    Log loss against raw, by 95 % confidence sequences: better one; undecided other.
    """
    names_by_verdict: dict[str, list[str]] = {"better": [], "undecided": [], "worse": []}
    for name, difference in differences.items():
        low, high = difference.interval
        names_by_verdict["better" if high < 0.0 else "worse" if low > 0.0 else "undecided"].append(name)
    listed = "; ".join(f"{verdict} {', '.join(names)}" for verdict, names in names_by_verdict.items() if names)
    level = max(difference.confidence for difference in differences.values())
    return f"Log loss against raw, by {100.0 * level:g} % confidence sequences: {listed}."


def ratio_verdict(boards: Mapping[str, Scoreboard]) -> str:
    """Describe which series predict too many or too few positives: their interval of the ratio excludes 1."""
    verdicts = [f"{name} {agreement(board.ratio)}" for name, board in boards.items()]
    return f"Calibration ratio: {'; '.join(verdicts)}."


def agreement(ratio: CalibrationRatio) -> str:
    """Describe whether predicted positives agree with the labels, by whether the interval contains 1."""
    low, high = ratio.interval()
    if low > 1.0:
        return "predicts too many positives"
    return "predicts too few positives" if high < 1.0 else "agrees with the labels"


def _sided(difference: float) -> str:
    """Describe a difference of losses in words.

    Examples
    --------
    >>> _sided(-0.000214), _sided(12.5), _sided(0.0)
    ('0.00021 lower', '12 higher', 'the same')
    """
    if abs(difference) < LEAST_DIFFERENCE:
        return "the same"
    return f"{plain(difference)} {'lower' if difference < 0.0 else 'higher'}"


def plain(value: float) -> str:
    """Write the size of a number to two significant digits, without an exponent."""
    value = abs(value)
    return f"{value:.{max(_decimals(value, DIGITS_OF_DIFFERENCES), 0)}f}" if value else "0"


def aligned(values: list[float | None]) -> list[str]:
    """Write figures with equal decimals, as many as the smallest figure and the smallest difference need.

    Examples
    --------
    >>> aligned([0.00337712, 0.25, None])
    ['0.003377', '0.250000', '–']
    >>> aligned([0.022471, 0.0224712])
    ['0.02247100', '0.02247120']
    """
    known = [value for value in values if value is not None]
    gaps = [abs(first - second) for first, second in itertools.combinations(known, 2)]
    digits = [SIGNIFICANT_DIGITS]
    digits += [_decimals(value, SIGNIFICANT_DIGITS) for value in known if value]
    digits += [_decimals(gap, DIGITS_OF_DIFFERENCES) for gap in gaps if gap]
    return [_figure(value, min(max(digits), MOST_DECIMALS)) for value in values]


def _decimals(value: float, significant: int) -> int:
    """Return the decimals that show `significant` digits of a number above 0; below 0 left of the point."""
    return significant - 1 - math.floor(math.log10(value))


def _ratio(ratio: CalibrationRatio) -> str:
    """Write the ratio and its 95 % interval."""
    if ratio.get() is None:
        return _figure(None, 0)
    low, high = map(ratio_text, ratio.interval())
    return f"{ratio_text(ratio.get())} [{low}, {high}]"


def ratio_text(value: float | None) -> str:
    """Write a ratio with three decimals, a large one in few characters.

    >>> ratio_text(1.25), ratio_text(1.25e57), ratio_text(None)
    ('1.250', '1.25e+57', '–')
    """
    return _figure(value, 3) if value is None or value < LARGEST_RATIO else f"{value:.3g}"


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def times_read(order: TimeOrder) -> str | None:
    """Return a line on the range of the times that were read, as dates unless they are small numbers.

    >>> order = TimeOrder()
    >>> order.add_one(0.0)
    >>> order.add_one(18.0)
    >>> times_read(order)
    'times read: 0 to 18, in seconds; 18 seconds in all'
    >>> order.add_one(1_767_225_600.0)
    >>> times_read(order)
    'times read: 1970-01-01 00:00:00 to 2026-01-01 00:00:00 UTC; 20,454 days in all'
    """
    first, last = order.earliest, order.latest
    if first is None or last is None:
        return None
    ends = f"{first:.10g} to {last:.10g}, in seconds"
    if max(abs(first), abs(last)) >= EARLY:
        with suppress(ValueError, OverflowError, OSError):  # beyond the years 1 to 9999
            ends = f"{_moment(first)} to {_moment(last)} UTC"
    return f"times read: {ends}; {duration(last - first)} in all"


def _moment(t: float) -> str:
    return f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """Write a span of time in its largest unit.

    >>> duration(18.0), duration(9_000.0), duration(1_800_000.0)
    ('18 seconds', '2.5 hours', '20.8 days')
    """
    size, unit = next((span for span in SPANS if seconds >= 2.0 * span[0]), (1.0, "seconds"))
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 100.0 else f"{number:.3g} {unit}"
