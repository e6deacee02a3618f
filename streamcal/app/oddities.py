"""Notes that `run` and `compare` print at their end about usable input that is probably not as intended.

| odd | rule |
|---|---|
| scores of another unit | from 1,000 rows on, the raw scores predict over 20 times, or under 1/20, of the positives |
| no positive label | the raw scores predict 20 positives or more, by log loss, and there is none |
| no negative label | from 20 rows on, all labels are positive |
| falling scores | the method is monotone, and the rank sum of positives is 5 standard deviations too low |
| labels in blocks | the label changes less than a twentieth as often as in random order |
| scores in order | less than 1 % of the changes of the score are in the other direction |
| a row without an end | with a state or a journal: it may be half a row, and is left for the next run |
| rows skipped | at least 20 rows, and more than were used, could not be used |
| rows of one class skipped | without the rows skipped, one class is at least 2 % rarer or more frequent, by 5 sd |
| classes as scores | from 20 rows on, all scores are 0 or 1 |
| times of another unit | the latest time is after the year 9999, and the forgetting span has a unit or is below 1e6 |
| times of another unit, too | the latest time is after the year 9999, and the method learns cycles of the day |
| dates as numbers | the latest time is a date when read as its digits, such as 20260131, and the method reads times |
| times of a longer unit | from 20 rows on, all times are below 1e8, which is in 1973, and seconds matter |
| times in no order | more than half of the rows came too late to be learned; the exit code is 1 |
| times in no order, too | times are read, and over half of the rows are far older than one before |
| times that are not read | `--time` with a method that does not forget by time |
| times that are left out | no `--time`, and a state that learned cycles of the day from times |
| times of events in another unit | with late labels: the same of either |
| ids of something else | of at least 20 rows more than half have an id that was issued before |
| labels before their events | at least 20, and over half of the positive labels, are stamped before their event |
| few early clicks | with `--early`, less than 0.1 of the clicks come within it |
| labels of another unit of time | of at least 20 positive labels more than half came after the horizon |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from streamcal.app.report import EARLY, duration
from streamcal.calibrators.base import Calibrator
from streamcal.parameters.spans import LARGEST_SECONDS, LARGEST_SPAN, shorter_unit
from streamcal.stream.checkpoints import Checkpoint
from streamcal.stream.files import title_of
from streamcal.stream.prequential import StreamSample
from streamcal.stream.records import Reasons
from streamcal.stream.run import Run
from streamcal.stream.times import ROWS_FOR_ORDER, TIME_UNITS, TimeOrder

if TYPE_CHECKING:
    from streamcal.stream.comparing import Standing
    from streamcal.stream.prequential import Scoreboard
    from streamcal.stream.replay import Replay

#: Rows from which on the ratio of predicted to observed positives says something.
ROWS_FOR_RATIO = 1_000
#: Rows from which on it is odd that none is negative.
ROWS_FOR_NEGATIVE = 20
#: Beyond this factor a model is less likely bad than its scores are of another unit.
LARGEST_RATIO = 20.0
#: Factors up to it are written with all digits.
LARGEST_WRITTEN = 1e9
#: Dates that are read as numbers, such as 20260131: their digits, and the years in which most of them are.
DATES = {
    8: ("%Y%m%d", "%y%m%d%H"),
    10: ("%Y%m%d%H",),
    12: ("%Y%m%d%H%M",),
    14: ("%Y%m%d%H%M%S",),
}
EARLIEST_YEAR, LATEST_YEAR = 1970, 2100
#: Rows from which on it is odd that most were skipped.
ROWS_SKIPPED = 20
#: Without the rows skipped the rate of a class is another by this part, and by this many standard deviations.
SKIPPED_CHANGE, SKIPPED_DEVIATIONS = 0.02, 5.0
#: Rows with an id of a row before from which on it is odd that they are the most.
ROWS_FOR_IDS = 20
#: Positive labels from which on it is odd that most of them come after the horizon.
CLICKS_FOR_HORIZON = 20


def oddities(job: Run, *, seconds: bool) -> list[str]:
    """Return what is odd about a finished run, and what to try: a line each, by the rules above.

    Parameters
    ----------
    job : Run
    seconds : bool
        Whether the span of the forgetting, or the horizon, was given with a unit, and is in seconds whatever its size.
    """
    board = job.evaluation.raw
    lines = (
        none_negative(job.evaluation.measured, job.evaluation.positives) if job.replay is None else None,
        falling(job.evaluation.sample) if job.calibrator.overall.monotone else None,
        job.evaluation.sample.odd_rows(),
        _open_ended(job),
        mostly_skipped(job.taken, job.reasons),
        skipped_by_class(*_taken(job), job.reasons),
        None if board is None else odd_ratio(board, job.evaluation.rows, job.unit),
        odd_unit_of_time(job, seconds=seconds),
        _odd_order(job),
        _disordered(job),
        _unread_times(job),
        times_left_out(job, job.checkpoint),
        odd_labels(job.replay),
        early_labels(job.replay),
        _few_early(job),
        odd_ids(job.replay, job.taken),
    )
    return [line for line in lines if line is not None]


def mostly_skipped(taken: int, reasons: Reasons) -> str | None:
    """Report that more rows were skipped than used, if they were."""
    if reasons.rows < ROWS_SKIPPED or reasons.rows <= taken:
        return None
    return f"{reasons.rows:,} of {taken + reasons.rows:,} rows were skipped, {reasons.most}"


def skipped_by_class(rows: int, positives: int, reasons: Reasons) -> str | None:
    """Report that rows were skipped mostly of one class, if their labels show it.

    `rows` and `positives` are those of the rows that were used.
    """
    skipped, clicks = reasons.labelled, reasons.positives
    if skipped < ROWS_SKIPPED or not rows:
        return None
    rate, used = (positives + clicks) / (rows + skipped), positives / rows
    deviation = math.sqrt(skipped * rate * (1.0 - rate) * rows / (rows + skipped))
    if abs(clicks - skipped * rate) <= SKIPPED_DEVIATIONS * deviation:
        return None
    if max(abs(used - rate) / rate, abs(used - rate) / (1.0 - rate)) < SKIPPED_CHANGE:
        return None
    return (
        f"{clicks:,} of {skipped:,} rows skipped are positive, and {positives:,} of the {rows:,} others, so that these "
        f"have {used / rate:.3g} times the rate of positives of all: repair the rows skipped, {reasons.most}"
    )


def _taken(job: Run) -> tuple[int, int]:
    """Return how many rows were used, and how many of them are positive."""
    replay = job.replay
    return (job.evaluation.measured, job.evaluation.positives) if replay is None else (job.taken, replay.clicks)


def none_negative(rows: int, positives: int) -> str | None:
    """Report that all labels were positive, if that is odd for this number of rows."""
    if rows < ROWS_FOR_NEGATIVE or positives < rows:
        return None
    return (
        f"none of {rows:,} labels is negative: positives alone were learned; if a row without a label is a negative "
        "one, give --missing-label negative; else look at --label, --positive and --weight"
    )


def _open_ended(job: Run) -> str | None:
    """Report that last rows were left for the next run, if they were."""
    if not job.open_ended:
        return None
    return (
        f"the last row of {title_of(job.open_ended)} has no line end, or a quote that is open, and is left for the "
        "next run, since it may be half a row: if it is whole, end it"
    )


def falling(sample: StreamSample) -> str | None:
    """Report that scores fall where labels rise, if they do."""
    auc = sample.auc_if_falling()
    if auc is None:
        return None
    return (
        f"higher scores have fewer positives (AUC {auc:.3f}), and a monotone method can only answer the base rate: "
        "give --decreasing, or the score of the other class"
    )


def times_in_no_order(job: Run) -> bool:
    """Return whether more than half of the rows came too late, or were refused for the time of their event."""
    refused = 0 if job.replay is None else job.replay.out_of_order
    return 2 * (job.late + refused) > job.taken + refused


def odd_ratio(board: Scoreboard | Standing, rows: int, unit: str | None) -> str | None:
    """Describe what is odd about the number of positives that raw scores predict: another unit, or no positive."""
    ratio = board.ratio.get()
    if ratio is not None and math.isinf(ratio):
        if rows * (board.log_loss.get() or 0.0) < LARGEST_RATIO:  # nearly the predicted number of positives
            return None
        return f"none of {rows:,} labels is positive: look at --label and --positive"
    if ratio is None or rows < ROWS_FOR_RATIO:
        return None
    if ratio > LARGEST_RATIO:
        return (
            f"the raw scores predict {plain_factor(ratio)} times the positives there were; if they are percentages, "
            "give --scale percent; if negatives were left out where the model was trained, that is what calibration "
            "corrects"
        )
    if ratio < 1.0 / LARGEST_RATIO and unit == "percent" and ratio >= 0.1 / 100.0:
        return (
            f"there were {plain_factor(1.0 / ratio)} times the positives that the raw scores predict as percentages; "
            "if they are probabilities, leave out --scale percent"
        )
    if ratio < 1.0 / LARGEST_RATIO:
        many = (
            f"{plain_factor(1.0 / ratio)} times the positives that" if ratio > 0.0 else "positive labels, and none that"
        )
        return (
            f"there were {many} the raw scores predict; look whether the labels are the other way round (--positive) "
            "and the scores probabilities of that label"
        )
    return None


def plain_factor(factor: float) -> str:
    """Write a factor above 1 in few characters.

    >>> plain_factor(1234.5), plain_factor(1.25e57)
    ('1,234', '1.2e+57')
    """
    return f"{factor:,.0f}" if factor < LARGEST_WRITTEN else f"{factor:.1e}"


def odd_times(order: TimeOrder, methods: Sequence[Calibrator | type[Calibrator]]) -> str | None:
    """Describe what is odd about times, if one of these methods learns cycles of the day."""
    names, latest = [method.name for method in methods if method.learns_time], order.latest
    if not names or latest is None:
        return None
    if latest <= LARGEST_SECONDS or _odd_dates(latest):
        return _odd_dates(latest) or _odd_longer_unit(order)
    return (
        f"times up to {latest:.4g} look like {shorter_unit(latest)[1]}, which {names[0]} takes for seconds, so that it "
        f"finds no cycle of the day: give {_unit_option(latest)}, or times in seconds or in ISO 8601"
    )


def _odd_dates(latest: float) -> str | None:
    """Describe what is odd about times up to `latest` in seconds: the number is a date, such as 20260131."""
    digits = f"{latest:.0f}" if latest.is_integer() else ""
    for format in DATES.get(len(digits), ()):
        with suppress(ValueError):
            moment = datetime.strptime(digits, format)
            if EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
                return (
                    f"times up to {digits} look like dates, and are taken for seconds: give --time-format {format}, "
                    f"or times such as {moment.isoformat()}"
                )
    return None


def _odd_longer_unit(order: TimeOrder) -> str | None:
    """Describe what is odd about times in seconds that are all soon after 1970."""
    first, last = order.earliest or 0.0, order.latest or 0.0
    if order.rows < ROWS_FOR_ORDER or max(abs(first), abs(last)) >= EARLY:
        return None
    return (
        f"times from {first:.10g} to {last:.10g} are taken for seconds, {duration(last - first)} in all: if they are "
        "minutes, hours or days, such as those of a spreadsheet, or of another --time-unit, give them in seconds or in "
        "ISO 8601"
    )


def odd_unit_of_time(job: Run, *, seconds: bool) -> str | None:
    """Report that times look like those of another unit, or dates, if that matters to the method."""
    if job.join is not None:
        return odd_unit_of_events(job.order, job.join.spans.horizon, seconds=seconds)
    if odd := odd_times(job.order, [job.calibrator.overall]):
        return odd
    if not job.calibrator.forgets_by_time or job.latest is None:
        return None
    if job.latest <= LARGEST_SECONDS or _odd_dates(job.latest):
        return _odd_dates(job.latest) or (_odd_longer_unit(job.order) if seconds else None)
    forgetting = job.calibrator.overall.forgetting  # type: ignore[attr-defined]
    span = float(forgetting.size if hasattr(forgetting, "size") else forgetting.half_life)
    if not seconds and span >= LARGEST_SPAN:
        return None
    factor, unit = shorter_unit(job.latest)
    return (
        f"times up to {job.latest:.4g} look like {unit}, of which the forgetting by {span:.15g} makes "
        f"{span / factor:g} seconds; if you meant {span:.15g} seconds, give {_unit_option(job.latest)}, or times in "
        "seconds"
    )


def _unit_option(latest: float) -> str:
    """Return the option for times up to `latest` that are in a unit shorter than a second."""
    factor, _ = shorter_unit(latest)
    return f"--time-unit {next(short for short, many in TIME_UNITS.items() if many == factor)}"


def _odd_order(job: Run) -> str | None:
    if not times_in_no_order(job):
        return None
    if job.replay is not None and job.replay.out_of_order:
        return (
            f"{job.replay.out_of_order:,} rows were skipped for the time of their event, and {job.taken:,} were not: "
            "the rows are not in the order of their events, or one of these is far in the future (exit code 1)"
        )
    return (
        f"{job.late:,} of {job.evaluation.rows:,} rows came too late to be learned: the rows are not in the order of "
        "their time; sort them by it, or give a longer --window (exit code 1)"
    )


def disordered(order: TimeOrder) -> str | None:
    """Report that rows are not in the order of their times, if they are not."""
    if not order.disordered:
        return None
    return (
        f"{order.behind:,} of {order.rows:,} rows are far older than rows before them: methods learn in the order of "
        "the rows; sort them by their time, or correct a time that is far ahead"
    )


def _disordered(job: Run) -> str | None:
    reads = job.calibrator.overall.reads_time
    return disordered(job.order) if reads and job.join is None and not times_in_no_order(job) else None


def _unread_times(job: Run) -> str | None:
    method = job.calibrator.overall
    if job.columns.time is None or job.join is not None or method.reads_time:
        return None
    name = method.name
    if not hasattr(method, "forgetting"):
        return f"--time has no effect: method {name} does not forget by time; platt, isotonic and others do"
    return f"--time has no effect without a span of time: give method {name} --window 24h or --half-life 7d"


def times_left_out(job: Run, before: Checkpoint) -> str | None:
    """Report that a state learned cycles of the day from times, and is given none, if that is so."""
    if before.reading is None or not before.reading.time or job.columns.time is not None or job.join is not None:
        return None
    if not job.calibrator.overall.learns_time:
        return None
    return "the state learned cycles of the day, which predictions without a time leave out: give --time"


def odd_unit_of_events(order: TimeOrder, horizon: float, *, seconds: bool) -> str | None:
    """Report that times of events look like those of another unit than the horizon; `seconds` as for `oddities`."""
    latest = order.latest
    if latest is None:
        return None
    if latest <= LARGEST_SECONDS or _odd_dates(latest):
        return _odd_dates(latest) or (_odd_longer_unit(order) if seconds else None)
    return (
        f"times up to {latest:.4g} look like {shorter_unit(latest)[1]}, of which the horizon of "
        f"{horizon:.15g} is that number: give {_unit_option(latest)}, or times in seconds or in ISO 8601"
    )


def odd_labels(replay: Replay | None) -> str | None:
    """Report that most positive labels of a log came after the horizon, if they did."""
    if replay is None or replay.clicks < CLICKS_FOR_HORIZON or 2 * replay.after_horizon <= replay.clicks:
        return None
    return (
        f"{replay.after_horizon:,} of {replay.clicks:,} positive labels came after the horizon, and count as negative: "
        "give a longer --horizon, and --label-time in the unit of --event-time"
    )


def early_labels(replay: Replay | None) -> str | None:
    """Report that most labels of a log are stamped before their event, if they are."""
    if replay is None:
        return None
    early = replay.join.tally()["before_issue"] - replay.before["before_issue"]
    if early < CLICKS_FOR_HORIZON or 2 * early <= replay.clicks:
        return None
    return (
        f"{early:,} labels are stamped before their event, and there are {replay.clicks:,} positive ones: look whether "
        "--event-time and --label-time are each other's"
    )


def _few_early(job: Run) -> str | None:
    join = job.join
    if join is None or join.spans.early is None or not join.learns_at_horizon:
        return None
    return (
        f"{100.0 * join.early_share()[0]:.2g} % of the clicks come within --early, so few that labels are learned at "
        "the horizon: give a longer --early, or leave it out"
    )


def odd_ids(replay: Replay | None, rows: int) -> str | None:
    """Report that most rows of a log have the id of a row before, if they have."""
    if replay is None or replay.repeated < ROWS_FOR_IDS or 2 * replay.repeated <= rows:
        return None
    return (
        f"{replay.repeated:,} of {rows:,} rows have the id of a row before, and are learned with it, once: give "
        "--id a column in which each impression has an id of its own, and not that of a user or a campaign"
    )
