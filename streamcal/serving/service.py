"""`Service`: what the process does with impressions and outcomes, beside answering: the clock, snapshots, measures."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError, StateError, StoreError
from streamcal.live.issued import RETRIED, Id, Issued, Rows, check_id
from streamcal.live.journal import Journal
from streamcal.live.keyed import Keyed
from streamcal.live.label_join import LabelJoin
from streamcal.live.levels import Field, Level
from streamcal.live.multicalibrated import Multicalibrated
from streamcal.live.segmented import Segmented
from streamcal.live.shadow import Shadow
from streamcal.maps.base import ScaledMap
from streamcal.maps.writing import FORMATS, written
from streamcal.parameters.types import FloatArray
from streamcal.serving.acknowledging import Acknowledging
from streamcal.serving.challenging import Challenging
from streamcal.serving.forking import made
from streamcal.serving.items import Columns, Items
from streamcal.serving.quality import Quality, Sums
from streamcal.serving.reading import RefusedError, checked, issue_checks, outcome_checks, refused
from streamcal.serving.settings import Settings
from streamcal.serving.tokens import Tokens
from streamcal.stream.comparing import Comparison
from streamcal.stream.entrants import Entrant

logger = logging.getLogger(__name__)

#: Seconds between two looks at the clock.
TICK = 1.0
#: Seconds between two full collections of garbage, which hold up requests: 0.1 s for 200,000 predictions held.
COLLECTED = 600.0
#: Seconds by which no event is behind the server's clock: a year. Its time is in another unit, or of another year.
LONGEST_BEHIND = 31_536_000.0
#: Levels of a field that are shown.
MOST_LEVELS = 1_000
#: Impressions of which it is odd that none has keys.
MANY_WITHOUT_KEYS = 100
#: Seconds after which a client may try again while the disk is full.
RETRY_AFTER = 1


class Drawn(NamedTuple):
    """A map or a report as it is shown, of what it is made, such as a number of labels, and the time."""

    content: bytes
    made_of: object
    at: float


class Page(NamedTuple):
    """Writes a report as HTML; and its Content-Security-Policy."""

    write: Callable[[Comparison], str]
    policy: str


class Prediction(msgspec.Struct, gc=False):
    """What is answered to an impression."""

    id: Id
    p: float
    version: Id | None


class Taken(msgspec.Struct, gc=False):
    """What is answered to an outcome: its id, whether that is known, and whether an earlier one had the other label."""

    id: Id
    known: bool
    contradicts: bool


Answer: TypeAlias = Prediction | Taken | RefusedError


class Service:
    """A join that this service alone changes, its journal, and the measures of its predictions, for one event loop.

    `page` is the report at /, on what `Quality.comparison` holds.
    """

    def __init__(self, join: LabelJoin, journal: Journal | None, settings: Settings, page: Page | None = None) -> None:
        self.join, self.settings, self.page = join, settings, page
        self.quality = Quality(settings.run_length, settings.metric_segments, self.calibrator)
        self.acknowledging = Acknowledging(join, journal, settings.snapshot_every)
        self.tokens = Tokens(settings.token, settings.token_file)
        self._levels_held = _first_levels(join.predictions.values())
        self.ready = False
        self.stopped = False  #: whether everything was written at the end
        self._journal = journal
        self._advanced_at = 0 if journal is None else journal.n  # the events when the clock was moved last
        self._issue_checks, self._outcome_checks = issue_checks(settings.max_keys), outcome_checks()
        self._report = Drawn(b"", None, -math.inf)
        self._maps: dict[str, Drawn] = {}
        self._drawing, self._reporting, self._copying = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._begun = self._collected = time.monotonic()
        self._ticking: asyncio.Task[None] | None = None
        self._wrong = False  # whether the clock is
        #: Impressions without keys so far, None once there was one with them, and where the calibrator reads none.
        self._without_keys = 0 if self.calibrator.fields else None

    # -- events ----------------------------------------------------------------------------------------------------

    def issue(self, item: Any) -> Prediction:
        """Issue the prediction of an impression; `RefusedError` for one that cannot be used."""
        fields = checked(item, self._issue_checks, ("id", "score"))
        if self._without_keys is not None:
            self._warn_without_keys(fields.get("keys"))
        try:
            issued = self.join.issue(
                fields["id"],
                fields["score"],
                self._time(fields),
                keys=fields.get("keys"),
                version=fields.get("version"),
                w=fields.get("w", 1.0),
            )
        except InputError as error:
            raise refused(error) from None
        return Prediction(item["id"], issued.p, issued.version)

    @property
    def in_columns(self) -> bool:
        """Whether the join takes lists in columns."""
        return self.join.takes_columns

    @property
    def require_names(self) -> Callable[[Any], None]:
        """Raises an `InputError` for keys that have a field of the calibrator under another name."""
        check: Callable[[Any], None] = self.join.calibrator.require_names
        return check

    def take_many(self, items: Items, begin: int, end: int, *, issue: bool) -> list[Answer]:
        """Take items in order: in columns as far as that is possible, and the others one by one.

        Return what is answered to each, or why it is refused.
        """
        answers: list[Answer] = []
        columns, take = items.columns, self.issue if issue else self.resolve
        at = begin
        while at < end:
            if columns is not None:
                answers += self._issue_rows(columns, at, end) if issue else self._resolve_rows(columns, at, end)
                at = begin + len(answers)
            for place in range(at, end if columns is None else min(at + RETRIED, end)):
                try:
                    answers.append(take(items[place]))
                except RefusedError as error:
                    answers.append(error)
            at = begin + len(answers)
        return answers

    def _issue_rows(self, columns: Columns, begin: int, end: int) -> list[Prediction]:
        """Issue impressions in columns, up to the first that has to be taken alone."""
        newest = self.join.newest
        t = self._times(columns, begin, end)
        if t is None or (columns.version is not None and columns.version != newest):
            return []
        some = slice(begin, end)
        w = np.ones(len(t)) if columns.w is None else np.where(np.isnan(columns.w[some]), 1.0, columns.w[some])
        p = np.empty(len(t))
        keys = None if columns.keys is None else columns.keys[some]
        rows = Rows(columns.ids[some], columns.values[some], t, w, keys=keys)
        done = self.join._issue_rows(rows, 0, p)
        return list(map(Prediction, columns.sent[begin : begin + done], p[:done].tolist(), repeat(newest)))

    def _resolve_rows(self, columns: Columns, begin: int, end: int) -> list[Taken]:
        """Take outcomes in columns, up to the first that has to be taken alone."""
        t = self._times(columns, begin, end)
        if t is None or not (columns.w is None or np.isnan(columns.w[begin:end]).all()):
            return []
        positive, issued = columns.values[begin:end].astype(np.uint8), np.empty(len(t))
        done = self.join._resolve_rows(columns.ids[begin:end], positive, t, 0, issued=issued)
        self.quality.outcomes((t - issued)[:done][positive[:done] > 0])
        return list(map(Taken, columns.sent[begin : begin + done], repeat(True), repeat(False)))

    def _times(self, columns: Columns, begin: int, end: int) -> FloatArray | None:
        """Return the times of items as `_time` does; None where they have to be looked at one by one."""
        if self.settings.event_time:
            return None if columns.t is None or np.isnan(columns.t[begin:end]).any() else columns.t[begin:end]
        now = time.time()
        if columns.t is None:
            return np.full(end - begin, now)
        t = np.where(np.isnan(columns.t[begin:end]), now, columns.t[begin:end])
        if not now - LONGEST_BEHIND <= t.min() <= t.max() <= now + self.settings.max_ahead:
            return None
        if t.min() < now - TICK and self.join.clock < now - TICK:
            self._move_clock(now)
        return t

    def resolve(self, item: Any) -> Taken:
        """Take an outcome; `RefusedError` for one that cannot be used."""
        fields = checked(item, self._outcome_checks, ("id", "y"))
        t = self._time(fields)
        try:
            id = check_id(fields["id"])
            before = self.join.outcome(id)
            known = self.join.resolve(id, fields["y"], t, w=fields.get("w"))
            if known and fields["y"] and not (before and before.positive):  # not one that is sent again
                self.quality.outcome(t - self.join.predictions[id].t)
            outcome = self.join.outcome(id)
            return Taken(fields["id"], known, outcome is not None and outcome.positive and outcome.negative)
        except InputError as error:
            raise refused(error) from None

    def _warn_without_keys(self, keys: Any) -> None:
        """Warn once where the calibrator reads keys, and none of the first impressions has any."""
        assert self._without_keys is not None
        self._without_keys += 1
        if keys:
            self._without_keys = None
        elif self._without_keys == MANY_WITHOUT_KEYS:
            text = "none of %d impressions has keys, which the segments need: send them as keys, such as {%r: ...}"
            more = {"event": "without keys", "impressions": MANY_WITHOUT_KEYS}
            logger.warning(text, MANY_WITHOUT_KEYS, self.fields()[0], extra=more)
            self._without_keys = None

    def _time(self, fields: dict[str, Any]) -> float:
        """Return the time of an event: the time given, else that of the server."""
        t = fields.get("t")
        if self.settings.event_time:
            if t is None:
                raise RefusedError(
                    422, "t is missing; give the time in seconds, since the clock is that of the events", "t"
                )
            return float(t)
        now = time.time()
        if t is None:
            return now
        if not now - LONGEST_BEHIND <= t <= now + self.settings.max_ahead:
            place = f"{t - now:.4g} s ahead of the server" if t > now else f"{now - t:.4g} s behind the server"
            allowed = f"give seconds since 1970, at most a year behind and {self.settings.max_ahead:g} s ahead"
            raise RefusedError(409, f"time {t!r} is {place}; leave it out, or {allowed}", "t")
        if t < now - TICK and self.join.clock < now - TICK:  # nothing has told the join the time for long
            self._move_clock(now)
        return float(t)

    def require_disk(self, issue: bool) -> None:
        """Raise `StateError` while the disk cannot be written, unless these requests do not need it."""
        failure = self.acknowledging.failure
        if failure is not None and (self.settings.durable_issues or not issue):
            self.acknowledging.soon()
            raise StateError(failure)

    async def acknowledged(self, issue: bool) -> None:
        """Return when all events so far are safe, or, for impressions that need not be, at once."""
        if self._journal is None:
            return
        if issue and not self.settings.durable_issues:
            self.acknowledging.soon()
        else:
            await self.acknowledging.wait()

    # -- what it says ----------------------------------------------------------------------------------------------

    @property
    def calibrator(self) -> Calibrator | Keyed:
        """The calibrator in use, of the newest version."""
        calibrator: Any = self.join.calibrator
        return calibrator.champion if isinstance(calibrator, Shadow) else calibrator

    @property
    def challenging(self) -> Challenging:
        """The challengers of the newest version."""
        return Challenging(self.join.calibrator)

    @property
    def overall(self) -> Calibrator:
        """The calibrator of all levels, of the newest version."""
        return self.calibrator.overall

    @property
    def _mixes(self) -> bool:
        """Whether predictions of the newest version are made of several, for an early window or the version before."""
        return self.join.spans.early is not None or self.join.versions[-1][2] < 1.0

    @property
    def served_by_map(self) -> bool:
        """Whether predictions of the newest version are the map of `overall`: of the score alone."""
        return not (self._mixes or bool(self.calibrator.fields) or self.overall.reads_time)

    def segments(self, field: str) -> list[dict[str, Any]] | None:
        """Return what is known of each level of a field, of a tuple as "a,b"; None where nothing is.

        With groups, those levels come first that have most evidence against their predictions.
        """
        self.quality.settle()
        values = {level: e for (name, level), e in self.quality.monitor.e_values.items() if name == field}
        sums = {level: total for (name, level), total in self.quality.segments.items() if name == field}
        worst, learned = self._levels_learned(field)
        levels = dict.fromkeys([*worst, *values, *sums, *self._levels_held.get(field, ()), *learned])
        shown = list(levels)[:MOST_LEVELS]
        return [self._level(field, level, values.get(level), sums.get(level)) for level in shown] or None

    def fields(self) -> list[str]:
        """Return the names of the fields that may have levels, of a tuple as "a,b"."""
        calibrator: Any = self.calibrator
        by: list[Any] = [*getattr(calibrator, "by", ()), *getattr(getattr(calibrator, "inner", None), "by", ())]
        names = [",".join(field) if isinstance(field, tuple) else field for field in by]
        labelled = [name for name, _ in (*self.quality.monitor.e_values, *self.quality.segments)]
        return list(dict.fromkeys([*names, *labelled, *self._levels_held]))

    def _levels_learned(self, field: str) -> tuple[list[Any], list[Any]]:
        """Return the levels of a field that are groups, and those whose effects the calibrator has."""
        groups: list[Any] = []
        calibrator: Any = self.calibrator
        if isinstance(calibrator, Multicalibrated):
            with suppress(InputError):  # of a field that is not one of its own
                groups = [group.level for group in calibrator.worst(MOST_LEVELS, _field_of(field, calibrator.by))]
            calibrator = calibrator.inner
        if isinstance(calibrator, Segmented):
            with suppress(InputError, StoreError):  # the same, or levels in a file that is gone
                return groups, calibrator.levels(_field_of(field, calibrator.by))
        return groups, []

    def _level(self, field: str, level: Level, e_value: float | None, sums: Sums | None) -> dict[str, Any]:
        shown: dict[str, Any] = {"level": level, "e_value": finite(e_value)}
        shown |= {"labels": None, "forecast": None, "positives": None} if sums is None else sums._asdict()
        calibrator: Any = self.calibrator
        if isinstance(calibrator, Multicalibrated):
            with suppress(InputError):  # of a field that is not one of its own
                group = calibrator.gap(_field_of(field, calibrator.by), level)
                numbers = {"gap": group.gap, "variance": group.variance, "bound": group.bound, "pending": group.pending}
                shown["group"] = {"evidence": group.evidence, **numbers}
            calibrator = calibrator.inner
        if isinstance(calibrator, Segmented):
            with suppress(InputError):
                mean, deviation, n = calibrator.effect(_field_of(field, calibrator.by), level)
                shown["effect"] = {"mean": mean, "sd": deviation, "n": n}
        return shown

    async def map(self, format: str | None = None) -> bytes:
        """Return the calibration map, empty where it cannot be written; made by a thread, for all that ask meanwhile.

        Without a format it is JSON with the number of labels and `exact` beside the map: whether predictions are this
        function of the score. They are not with an early window, whose share divides them, nor with segments, nor while
        a version of the model still leans on the map of the one before, nor where predictions depend on the time, as
        those of `Auto` do. With a name of `streamcal.maps.writing.FORMATS` it is the map alone.

        Raises
        ------
        RefusedError
            If the format is unknown, or needs a package that is not installed.
        """
        if format is not None and format not in FORMATS:
            raise RefusedError(422, f"the format is unknown; give one of {', '.join(FORMATS)}", "format")
        async with self._drawing:
            tally, now = self.join.tally(), time.monotonic()
            head = {"learned": tally["learned"], "version": self.join.versions[-1][0], "exact": self.served_by_map}
            made_of = head, tally["corrected"], repr(self.calibrator)
            drawn = self._maps.get(format or "", Drawn(b"", None, -math.inf))
            if made_of != drawn.made_of and now - drawn.at > self.settings.map_every:
                try:
                    content = await asyncio.to_thread(_written, self.overall.map(), format or "json")
                except ModuleNotFoundError as error:
                    raise RefusedError(422, str(error), "format") from None
                if content and format is None:
                    content = f'{json.dumps(head)[:-1]}, "map": {content.decode().strip()}}}'.encode()
                drawn = self._maps[format or ""] = Drawn(content, made_of, now)
            return drawn.content

    async def report(self) -> bytes:
        """Return the report as HTML, made by a child process; concurrent requests share it.

        Raises
        ------
        RefusedError
            If it cannot be made.
        """
        async with self._reporting:
            self.quality.settle()
            labels, now = self.quality.labels, time.monotonic()
            if labels != self._report.made_of and now - self._report.at > self.settings.report_every:
                try:
                    content = await made(self._written_report)
                except StateError as error:
                    text = f"the report could not be made: {error}; try again, and see the log"
                    raise RefusedError(503, text, "report", {"Retry-After": str(RETRY_AFTER)}) from None
                self._report = Drawn(content, labels, now)
            return self._report.content

    async def backup(self) -> dict[str, Any]:
        """Write a copy of the journal, with all events that were acknowledged; a thread does it while requests go on.

        Raises
        ------
        RefusedError
            Where no file is given for it, there is no journal, or it cannot be written.
        """
        path, journal = self.settings.backup, self._journal
        if path is None or journal is None or self.join.uses_store:
            text = "this service makes no backups; start it with --backup FILE and --journal, without --levels-store"
            raise RefusedError(404, text, "backup")
        async with self._copying:
            begun = time.monotonic()
            try:
                events = await asyncio.to_thread(journal.backup, path)
            except StateError as error:
                logger.error("no backup was made: %s", error)
                raise RefusedError(503, str(error), "backup", {"Retry-After": str(RETRY_AFTER)}) from None
            fields = {"path": path, "events": events, "bytes": os.path.getsize(path)}
            fields["seconds"] = round(time.monotonic() - begun, 3)
            logger.info("backup of %d events written to %s", events, path, extra={"event": "backup", **fields})
            return fields

    def _written_report(self) -> bytes:
        """Write the report in the child process, which may change its own copy of the state."""
        comparison, overall = self.quality.comparison, self.overall
        comparison.source, comparison.seconds = "the service", time.monotonic() - self._begun
        self.quality.standing.shown = repr(self.calibrator)  # of a challenger that was promoted
        if not self._mixes and overall.scale.domain == (0.0, 1.0):
            comparison.finish(lambda last: {self.quality.name: Entrant(overall, 0).end(last)})
        assert self.page is not None
        return self.page.write(comparison).encode()

    # -- beside the requests ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take requests from now on."""
        self._advance()
        self.join.watch(self.quality.take, self.quality.take_many)
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        self.ready = True

    async def stop(self) -> None:
        """Write everything to the disk, after the last request; `StateError` if that cannot be done."""
        self.ready = False
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
        await self.acknowledging.stop()
        gc.unfreeze()
        self.stopped = True
        logger.info("stopped", extra={"event": "stopped", **self.join.tally()})

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            try:
                self._advance()
                self.quality.settle()
                if self.acknowledging.pending or self.acknowledging.failure:
                    self.acknowledging.soon()
                self._spare_collector()
                self.tokens.refresh()
            except Exception:
                logger.exception("the work between requests failed")

    def _spare_collector(self) -> None:
        """Keep the garbage collector from looking at all that is held again and again, whenever a quarter is new.

        What is no cycle is freed without it; cycles that were alive at a tick, such as those of a connection, wait for
        the next full collection.
        """
        if time.monotonic() - self._collected > COLLECTED:
            gc.unfreeze()
            gc.collect()
            self._collected = time.monotonic()
        gc.freeze()

    def _advance(self) -> None:
        """Tell the join the time, where the clock is that of the server, a label is due or an event has come.

        Otherwise nothing would follow from it, and an idle service would write an event a second.
        """
        now = time.time()
        self._warn_of_clock()
        if self.settings.event_time or now <= self.join.clock:
            return
        if self._journal is None or self._journal.n != self._advanced_at or now >= self.join.due:
            self._move_clock(now)

    @property
    def behind(self) -> float:
        """Seconds by which the server's clock is behind that of the events, where it is the one that counts."""
        return 0.0 if self.settings.event_time else max(self.join.clock - time.time(), 0.0)

    def _warn_of_clock(self) -> None:
        """Warn once where no label is learned, since the server's clock is behind that of the events."""
        wrong = self.behind > self.settings.max_ahead
        if wrong and not self._wrong:
            text = "the server's clock is %.4g s behind that of the events; no label is learned until then: repair it, "
            text += "or, if the events had a wrong one, restart with --migrate"
            logger.warning(text, self.behind, extra={"event": "clock behind", "seconds": self.behind})
        self._wrong = wrong

    def _move_clock(self, now: float) -> None:
        with suppress(StateError):  # the journal is full, which `acknowledging` has told
            self.join.advance(now)
        if self._journal is not None:
            self._advanced_at = self._journal.n


def _first_levels(predictions: Iterable[Issued]) -> dict[str, dict[Level, None]]:
    """Return the first levels of each field, at most `MOST_LEVELS` of each."""
    first: dict[str, dict[Level, None]] = {}
    for prediction in predictions:
        for field, level in prediction.keys.items() if prediction.keys else ():
            levels = first.setdefault(field, {})
            if len(levels) < MOST_LEVELS:
                levels[level] = None
    return first


def _written(map: object, format: str) -> bytes:
    """Write an immutable map in a format; empty if its kind has no such format."""
    return written(map, format) if isinstance(map, ScaledMap) else b""


def finite(value: float | None) -> float | str | None:
    """Return a number for JSON, with infinity as a text."""
    return value if value is None or abs(value) < float("inf") else "infinite"


def _field_of(text: str, by: Sequence[Field]) -> Field:
    """Return the field that a path names: one with a comma is a tuple, unless a field has this name."""
    return text if text in by or "," not in text else tuple(text.split(","))
