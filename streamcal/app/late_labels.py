"""The options of commands for labels that come late, and the join and the journal that they mean."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from streamcal.app.memory import room_for
from streamcal.app.options import Span, option, rare_option, span_of
from streamcal.app.terminal import check_place, fail
from streamcal.stream.files import same_file
from streamcal.stream.run import Run

if TYPE_CHECKING:
    from streamcal.live.journal import Journal
    from streamcal.live.label_join import LabelJoin

#: Seconds after which rows and events are on the disk: what a crash costs.
KEEP_EVERY = 2.0
#: Seconds by which a label may be stamped before its event: as far as clocks of several machines differ.
SKEW = 60.0
#: Those that belong together.
NEEDED = ("--id", "--event-time", "--label-time", "--horizon")

#: Options that are only of use with those; a comparison has the first two alone.
FURTHER = ("early", "clock_skew", "late", "journal", "max_held", "version")
#: The heading of the help.
LATE = "Labels that come late"
#: What to give in place of an option that `--id` excludes.
INSTEAD = {
    "--time": "--event-time is the time",
    "--missing-label": "a label that has not come is negative",
    "--delay": "--label-time says when each label comes",
}
#: Descriptions of the counts of `LabelJoin.tally` that say something about the rows of a file.
TALLIES = {
    "contradicted": "ids with a positive and a negative label; the positive one counts",
    "corrected": "clicks after the horizon, learned in place of the negative label",
    "uncorrected": "positive labels that came after a negative one was learned",
    "backwards": "rows older than the row before, in time",
    "unheld": "labels not learned for lack of room (--max-held)",
    "forgotten": "predictions forgotten early for lack of room (--max-held)",
    "before_issue": "labels stamped before their event, by other clocks; they count as immediate",
    "refused": "labels that the method refused",
}


@dataclass(frozen=True, kw_only=True)
class LateLog:
    """The columns of a log with late labels, and when they are learned."""

    id: Annotated[
        str | None, option(LATE, "COLUMN", "Column of the impression's id; needs the next three.", "--id")
    ] = None
    event_time: Annotated[
        str | None, option(LATE, "COLUMN", "Column of the impression's time. Rows are sorted by it.")
    ] = None
    label_time: Annotated[
        str | None, option(LATE, "COLUMN", "Column of the label's time; empty if there was none.")
    ] = None
    horizon: Annotated[
        Span | None, option(LATE, "SPAN", "After this span an impression is negative, as 90s or 6h.", parser=span_of)
    ] = None
    early: Annotated[Span | None, rare_option(LATE, "SPAN", "Learn early clicks after this span.", parser=span_of)] = (
        None
    )
    clock_skew: Annotated[
        Span | None,
        rare_option(
            LATE, "SPAN", "Accept labels stamped this long before their event.  [default: 60s]", parser=span_of
        ),
    ] = None

    def checked(self, excluded: Mapping[str, object]) -> LateLabels | None:
        """Return what the options ask for; None where labels do not come late.

        Exits with a line where some are missing, or one of `excluded`, by name, was given too.
        """
        options = dict(zip(NEEDED, (self.id, self.event_time, self.label_time, self.horizon), strict=True))
        missing = [name for name, value in options.items() if value is None]
        further = {f"--{name.replace('_', '-')}": getattr(self, name, None) for name in FURTHER}
        used = [name for name, value in {**options, **further}.items() if value is not None]
        if not used:
            return None
        if self.id is None or self.event_time is None or self.label_time is None or self.horizon is None:
            fail(f"{used[0]} needs {' and '.join(missing)} too: where labels come late, give {', '.join(NEEDED)}")
        for name, value in excluded.items():
            if value:
                advice = INSTEAD.get(name, "--journal FILE keeps what was learned")
                fail(f"{name} and --id exclude each other; {advice}")
        if self.clock_skew is not None and not 0.0 <= self.clock_skew.size < math.inf:
            fail(f"--clock-skew {self.clock_skew} is not possible; give a span of time, 0 or more")
        skew = SKEW if self.clock_skew is None else self.clock_skew.size
        early = None if self.early is None else self.early.size
        spans = (self.horizon.size, early)
        return LateLabels(self.id, self.event_time, self.label_time, *spans, clock_skew=skew)


@dataclass(frozen=True, kw_only=True)
class LateOptions(LateLog):
    """Labels that come late."""

    late: Annotated[
        Span | None,
        rare_option(LATE, "SPAN", "Accept clicks this long after the horizon.  [default: horizon]", parser=span_of),
    ] = None
    journal: Annotated[
        Path | None, rare_option(LATE, "FILE", "Resume from this journal of events, and continue it.")
    ] = None
    max_held: Annotated[
        int | None, rare_option(LATE, "N", "Most predictions in memory.  [default: a quarter of the memory]", min=2)
    ] = None
    version: Annotated[str | None, rare_option(LATE, "COLUMN", "Column of the model's version.")] = None

    def checked(self, excluded: Mapping[str, object]) -> LateLabels | None:
        """Return what the options ask for, as those of a log do."""
        labels, late = super().checked(excluded), None if self.late is None else self.late.size
        return labels and replace(labels, late=late, journal=self.journal, max_held=self.max_held)


@dataclass(frozen=True)
class LateLabels:
    """Checked options of late labels; the three columns are given."""

    id: str
    event_time: str
    label_time: str
    horizon: float
    early: float | None
    late: float | None = None
    clock_skew: float = SKEW
    journal: Path | None = None
    max_held: int | None = None

    @contextmanager
    def join(self, calibrator: Any, *others: str | None) -> Iterator[LabelJoin]:
        """Yield a join of the calibrator, or the journal's join; `others` are the files of the run.

        If a run failed, events that were not noted with their rows are dropped from the journal.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "few clicks are known", RuntimeWarning)  # `oddities` has it
            yield from self._joins(calibrator, *others)

    def _joins(self, calibrator: Any, *others: str | None) -> Iterator[LabelJoin]:
        from streamcal.live.journal import Journal

        if self.journal is None:
            yield self._joined(calibrator, None)
            return
        check_place(self.journal, "journal")
        if any(other is not None and same_file(self.journal, other) for other in others):
            fail(f"{self.journal}: --journal would overwrite another file of this run; give another name")
        with Journal(self.journal) as journal:
            try:
                yield self._joined(calibrator, journal)
            except BaseException:
                journal.discard()
                raise

    def go_on(self, job: Run, every: float) -> None:
        """Let a job resume where the journal ended, and save it at least every `every` seconds."""
        if self.journal is not None and job.replay is not None:
            job.checkpoint, job.keep = job.replay.checkpoint, job.replay.keep
            job.keep_every = min(every, KEEP_EVERY)

    def _joined(self, calibrator: Any, journal: Journal | None) -> LabelJoin:
        from streamcal.stream.replay import join_of

        spans: dict[str, Any] = {"early": self.early, "late": self.late}
        most = room_for(calibrator) if self.max_held is None else self.max_held
        return join_of(calibrator, self.horizon, journal=journal, max_held=most, **spans)


def waiting(join: LabelJoin) -> str:
    """Return a note on the space for predictions, and on those of a resumed journal that wait for labels."""
    resumed = f", resumed with {join.waiting:,} predictions that wait for their labels" if join.waiting else ""
    return f"{resumed}, room for {join.max_held:,} predictions"


def closing_lines(job: Run) -> Iterator[str]:
    """Yield what a run with late labels reports on them at its end."""
    join, replay = job.join, job.replay
    if join is None or replay is None:
        return
    counts = {name: count - replay.before[name] for name, count in join.tally().items()}
    of_them = f"{counts['positives']:,} positive, {counts['timed_out']:,} by time-out"
    yield f"labels learned: {counts['learned']:,} ({of_them}); {join.waiting:,} predictions wait for theirs"
    yield f"predictions in the table, those whose horizon has passed: {replay.rows:,}"
    if join.spans.early is not None:
        share, error = join.early_share()
        yield f"share of clicks that come early: {share:.3f} (standard error {error:.3f})"
    if job.columns.version is not None and len(join.versions) > 1:
        name, _, weight = join.versions[-1]
        shares = f"its own calibration weighs {weight:.0%}, the map of the version before {1.0 - weight:.0%}"
        of_newest = f"in predictions of the newest, {name!r}, {shares}"
        yield f"versions of the model remembered: {len(join.versions)}; {of_newest}"
    if replay.after_horizon:
        yield f"clicks after the horizon: {replay.after_horizon:,} of {replay.clicks:,}"
    if replay.repeated:
        yield f"rows whose id was issued before: {replay.repeated:,}; their prediction is that one"
    for name, what in TALLIES.items():
        if counts[name]:
            yield f"{what}: {counts[name]:,}"
