"""The command `streamcal serve`: its options, and the join, the journal and the settings that they mean."""

from __future__ import annotations

import gc
import logging
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamcal.app.choosing import (
    LevelsStoreOption,
    MaxLevelsOption,
    MulticalibrateOption,
    PairsOption,
    calibrator_of,
    check_store,
    choice_of,
    segments_of,
)
from streamcal.app.configuring import ConfigOption
from streamcal.app.options import span_of
from streamcal.app.terminal import check_place, fail, failing
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.names import did_you_mean
from streamcal.stream.records import shown

if TYPE_CHECKING:
    from streamcal.calibrators.base import Calibrator
    from streamcal.live import Journal
    from streamcal.live.keyed import Keyed
    from streamcal.serving.joining import ServedJoin

logger = logging.getLogger("streamcal.serve")

#: Each option can be in a variable of the environment that begins so.
VARIABLES = "STREAMCAL_SERVE"
#: The variable of the environment with the token of clients, or several with commas.
TOKEN = "STREAMCAL_TOKEN"
NEEDED = "streamcal serve needs starlette, uvicorn and prometheus-client: pip install '.[serve]' in streamcal's folder"
LEVELS = ("debug", "info", "warning", "error")
#: With the clock of the server no time is too far ahead: the process may have been down for any time.
ANY_JUMP = 1e14


def serve(
    horizon: Annotated[
        str, typer.Option(metavar="SPAN", help="After this time an impression without a click is a negative: 90s, 6h.")
    ],
    config: ConfigOption = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"A method of one score; see `streamcal methods`.  [default: that of --state, or {DEFAULT_METHOD}]",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Parameter of the method. Repeatable.", envvar=f"{VARIABLES}_SET"
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where a new journal starts: a state that `run` or `save` wrote."),
    ] = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Field of keys, such as campaigns, whose levels are corrected besides; two with a comma: their pairs. "
            "Repeatable.",
        ),
    ] = None,
    levels_store: LevelsStoreOption = None,
    max_levels: MaxLevelsOption = None,
    pairs: PairsOption = False,
    multicalibrate: MulticalibrateOption = None,
    early: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Learn labels so long after issue, as clicks that come early.")
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="For so long after the horizon a click corrects.  [default: the horizon]"),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where events are kept; resumed from, if it is there."),
    ] = None,
    migrate: Annotated[
        bool,
        typer.Option("--migrate", help="Take over a journal of another horizon, method or segments."),
    ] = False,
    backup: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What POST /v1/backup writes: a copy of the journal.")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="No journal: what was learned ends with the process.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=1, max=65535, help="Where to listen.")] = 8420,
    max_connections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Connections at most; probes are answered beyond.")
    ] = 1_000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Tokens of clients, one in each line; read again when it changes."),
    ] = None,
    event_time: Annotated[
        bool, typer.Option("--event-time", help="The clock is that of the events: clients have to give t.")
    ] = False,
    issue_durability: Annotated[
        str,
        typer.Option(metavar="[disk|memory]", help="Answer impressions when they are on the disk, or before."),
    ] = "disk",
    max_held: Annotated[int, typer.Option(metavar="N", min=2, help="Forecasts remembered at most.")] = 1_000_000,
    max_batch: Annotated[int, typer.Option(metavar="N", min=1, help="Items of a batch at most.")] = 1_000,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=100, help="Bytes of a body at most.")] = 2**20,
    max_keys: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Keys of an impression at most.")] = 16,
    metric_segments: Annotated[
        int, typer.Option(metavar="N", min=0, help="Segments with lines of their own in /metrics.")
    ] = 100,
    snapshot_every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Events after which the whole state is written.")
    ] = 1_000_000,
    run_length: Annotated[
        float, typer.Option(metavar="N", min=2.0, help="Mean number of labels until a false alarm of the monitor.")
    ] = 1e6,
    log_level: Annotated[
        str, typer.Option(metavar=f"[{'|'.join(LEVELS)}]", help="Requests are logged at debug.")
    ] = "info",
) -> None:
    """Serve calibrated probabilities over HTTP.

    Outcomes come later, and are learned.

    POST /v1/issue answers the probability of an impression, POST /v1/outcome takes what came of it, each also /batch.
    Events are in the journal before they are acknowledged, and the command resumes from it. GET /metrics is for
    Prometheus, /healthz and /readyz for probes, /openapi.json has the schema. Where STREAMCAL_TOKEN is set, clients
    have to give it. SIGTERM ends it with exit code 0 when all is written. docs/serving.md has the rest.
    Every option can be in the environment, as STREAMCAL_SERVE_MAX_HELD, or in the file of --config.

    \b
    Example:
      streamcal serve --horizon 6h --journal clicks.journal
    """
    try:
        from streamcal.app.html_report import live_page
        from streamcal.app.html_style import POLICY
        from streamcal.serving.running import log_as_json
        from streamcal.serving.running import serve as serve_until_signal
        from streamcal.serving.service import Page, Service
        from streamcal.serving.settings import Settings
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("streamcal"):
            raise
        fail(NEEDED)
    for value, words, option in (
        (issue_durability, ("disk", "memory"), "--issue-durability"),
        (log_level, LEVELS, "--log-level"),
    ):
        if value not in words:
            fail(f"{option} {value!r} is not one of {', '.join(words)}{did_you_mean(value, words)}")
    if memory == (journal is not None):
        fail("give --journal FILE, or --memory for none; what is acknowledged then ends with the process")
    if journal is not None:
        check_place(journal, "journal")
    log_as_json(log_level)
    with failing():
        settings = Settings(
            event_time=event_time,
            durable_issues=issue_durability == "disk",
            token=os.environ.get(TOKEN) or None,
            token_file=None if token_file is None else str(token_file),
            backup=None if backup is None else str(backup),
            max_body=max_body,
            max_batch=max_batch,
            max_keys=max_keys,
            metric_segments=metric_segments,
            snapshot_every=snapshot_every,
            run_length=run_length,
        )
        levels = levels_store, max_levels, pairs
        choice = choice_of(method, set_ or [], None, None, segment or [], *levels, timed=True)
        choice = replace(choice, groups=segments_of(multicalibrate or [], "--multicalibrate"))
        if state is not None and not state.exists():
            fail(f"{state}: there is no such file; give a state that `streamcal run --state` or `save` wrote")
        calibrator = calibrator_of(choice, state)[0]
        check_store(calibrator, journal)
        spans = {name: _seconds(text, name) for name, text in (("horizon", horizon), ("early", early), ("late", late))}
        with nullcontext() if journal is None else _opened(journal) as events:
            if state is not None and events is not None and events.has_snapshot:
                logger.info(
                    "%s has a state of its own; %s is not used", journal, state, extra={"event": "state unused"}
                )
            if migrate and events is not None:
                _migrate(calibrator, spans, events, max_held)
            join = _joined(calibrator, spans, events, max_held, event_time)
            service = Service(join, events, settings, Page(live_page, POLICY))
            _warn_of(host, service.tokens.asked)
            try:
                whole = serve_until_signal(service, host, port, max_connections)
            except SystemExit:
                advice = "the log says why. Where the port is in use, give another --port"
                fail(f"{host}:{port}: the service could not start; {advice}")
    gc.freeze()  # the process ends: looking for cycles among all forecasts would take seconds
    raise typer.Exit(0 if whole else 1)


def _seconds(text: str | None, name: str) -> float | None:
    """Return a span as seconds; a number has to have a unit."""
    if text is None:
        return None
    span = span_of(text)
    if not span.unit and span.size:
        given = text.strip()
        raise typer.BadParameter(
            f"{shown(given)} has no unit; give {given}s, {given}m, {given}h or {given}d", param_hint=f"--{name}"
        )
    return span.size


def _opened(path: Path) -> Journal:
    from streamcal.live import Journal

    return Journal(path)


def _joined(
    calibrator: Calibrator | Keyed,
    spans: dict[str, float | None],
    journal: Journal | None,
    max_held: int,
    event_time: bool,
) -> ServedJoin:
    """A new join, or the one that the journal holds."""
    from streamcal.serving.joining import ServedJoin

    jump = None if event_time else ANY_JUMP
    if journal is not None and journal.n > journal.upto:
        number = journal.n - journal.upto
        told = {"event": "replaying", "events": number}
        logger.info("%s: replaying %d events after the last snapshot", journal.path, number, extra=told)
    given: dict[str, Any] = {"early": spans["early"], "late": spans["late"], "max_held": max_held, "max_jump": jump}
    join = ServedJoin(calibrator, spans["horizon"], journal=journal, **given)  # type: ignore[arg-type]
    if journal is not None:
        told = {
            "event": "resumed",
            "events": journal.n,
            "replayed": join.replayed,
            "held": join.held,
            "waiting": join.waiting,
        }
        text = "%s: resumed, %d events replayed after the last snapshot" if journal.n else "%s: new journal, %d events"
        logger.info(text, journal.path, join.replayed, extra={**told, "new": not journal.n})
    return join


def _migrate(calibrator: Calibrator | Keyed, spans: dict[str, float | None], journal: Journal, max_held: int) -> None:
    """Rewrite the journal of a join with other parameters for the one that is wanted."""
    from streamcal.live import LabelJoin, migrate

    given: dict[str, Any] = {"early": spans["early"], "late": spans["late"], "max_held": max_held}
    join = LabelJoin(calibrator.clone(), spans["horizon"], **given)  # type: ignore[arg-type]
    done = migrate(journal, join)
    if done is not None:
        text = "%s: migrated, %d forecasts held, %d labels learned by a new calibrator, %d forecasts forgotten"
        logger.info(
            text, journal.path, join.held, done.learned, done.forgotten, extra={"event": "migrated", **done._asdict()}
        )


def _warn_of(host: str, asked: bool) -> None:
    """Warn where others than this machine can reach a service without a token."""
    try:
        import ipaddress

        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local and not asked:
        logger.warning("%s can be reached from elsewhere, and no token is asked for; set %s", host, TOKEN)
