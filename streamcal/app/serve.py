"""The command `streamcal serve`: its options, and the join, the journal and the settings that they mean.

With `--config` the options are in a file of TOML.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import re
import time
import tomllib
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamcal.app.choosing import (
    METHOD,
    Choice,
    LevelOptions,
    MethodOptions,
    calibrator_of,
    check_store,
    choice_of,
    conversion,
)
from streamcal.app.memory import room_for
from streamcal.app.options import grouped, option, rare_option, span_of
from streamcal.app.terminal import check_place, fail
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.errors import StateError
from streamcal.names import did_you_mean
from streamcal.stream.files import same_file
from streamcal.stream.records import shown

if TYPE_CHECKING:
    from streamcal.calibrators.base import Calibrator
    from streamcal.live import Journal
    from streamcal.live.keyed import Keyed
    from streamcal.live.label_join import LabelJoin
    from streamcal.live.shadow import Shadow
    from streamcal.serving.settings import Settings
    from streamcal.stream.checkpoints import Checkpoint

logger = logging.getLogger("streamcal.serve")

#: Each option can be in a variable of the environment that begins so.
VARIABLES = "STREAMCAL_SERVE"
#: The variable of the environment with the token of clients, or several with commas.
TOKEN = "STREAMCAL_TOKEN"
NEEDED = (
    "streamcal serve needs starlette, uvicorn, prometheus-client and msgspec: "
    "pip install '.[serve]' in streamcal's folder"
)
LEVELS = ("debug", "info", "warning", "error")
DURABILITIES, CLOCKS, PENDING = ("disk", "memory"), ("server", "events"), ("each", "counts")
#: With the clock of the server no time is too far ahead: the process may have been down for any time.
ANY_JUMP = 1e14
#: Options that a file cannot have.
NOT_IN_FILES = ("config", "help", "help-all")
#: Headings of the help.
LABELS, EVENTS, REQUESTS, WATCHING = "Labels", "Events", "Requests", "Watching"


@dataclass(frozen=True, kw_only=True)
class ServedMethod:
    """The calibrator of a service."""

    method: Annotated[
        str | None, option(METHOD, "NAME", f"One of `streamcal methods`.  [default: of --state, or {DEFAULT_METHOD}]")
    ] = None
    set_: Annotated[
        list[str] | None,
        option(METHOD, "KEY=VALUE", "Set a parameter of the method. Repeatable.", "--set", envvar=f"{VARIABLES}_SET"),
    ] = None
    state: Annotated[Path | None, option(METHOD, "FILE", "Start a new journal from a state of `run` or `save`.")] = None
    challenger: Annotated[
        list[str] | None, option(METHOD, "NAME", "Let another method learn too, for POST /v1/promote. Repeatable.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServedLabels:
    """The clock of a service, and when labels are learned."""

    horizon: Annotated[str, option(LABELS, "SPAN", "After this span an impression is negative, as 90s or 6h.")]
    early: Annotated[str | None, option(LABELS, "SPAN", "Learn early clicks after this span.")] = None
    late: Annotated[
        str | None, option(LABELS, "SPAN", "Accept clicks this long after the horizon.  [default: horizon]")
    ] = None
    clock: Annotated[
        str, rare_option(LABELS, f"[{'|'.join(CLOCKS)}]", "Use the server's time, or the times that clients send.")
    ] = CLOCKS[0]
    pending: Annotated[
        str, rare_option(LABELS, f"[{'|'.join(PENDING)}]", "Remember each prediction; a service cannot count them.")
    ] = PENDING[0]
    max_held: Annotated[
        int | None, rare_option(LABELS, "N", "Most predictions in memory.  [default: a quarter of the memory]", min=2)
    ] = None

    @property
    def by_events(self) -> bool:
        """Whether events alone move the clock."""
        return self.clock == CLOCKS[1]

    @property
    def spans(self) -> dict[str, float | None]:
        """Horizon, early and late, in seconds."""
        return {name: _seconds(getattr(self, name), name) for name in ("horizon", "early", "late")}


@dataclass(frozen=True, kw_only=True)
class ServedEvents:
    """Options of the storage of a service's events."""

    journal: Annotated[Path | None, option(EVENTS, "FILE", "Keep events in this file, and resume from it.")] = None
    migrate: Annotated[bool, rare_option(EVENTS, None, "Rewrite a journal with other options.", "--migrate")] = False
    backup: Annotated[Path | None, option(EVENTS, "FILE", "Let POST /v1/backup copy the journal to this file.")] = None
    memory: Annotated[bool, option(EVENTS, None, "Run without a journal: a stop loses everything.", "--memory")] = False
    issue_durability: Annotated[
        str, rare_option(EVENTS, "PLACE", "Answer impressions once they are in: disk or memory.")
    ] = "disk"
    snapshot_every: Annotated[int, rare_option(EVENTS, "N", "Write the whole state after N events.", min=1)] = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ServedRequests:
    """Who may ask a service, and how much."""

    host: Annotated[str, option(REQUESTS, "ADDRESS", "Listen on this address.")] = "127.0.0.1"
    port: Annotated[int, option(REQUESTS, "N", "Listen on this port.", min=1, max=65535)] = 8420
    max_connections: Annotated[int, rare_option(REQUESTS, "N", "Most connections, apart from probes.", min=1)] = 1_000
    token_file: Annotated[Path | None, option(REQUESTS, "FILE", "Accept the tokens in this file, one a line.")] = None
    max_batch: Annotated[int, rare_option(REQUESTS, "N", "Most items of a batch.", min=1)] = 1_000
    max_body: Annotated[int, rare_option(REQUESTS, "BYTES", "Most bytes of a request.", min=100)] = 2**20
    max_keys: Annotated[int, rare_option(REQUESTS, "N", "Most keys of an impression.", min=1, max=64)] = 16


@dataclass(frozen=True, kw_only=True)
class ServedWatch:
    """Options of a service's metrics, monitor and logs."""

    metric_segments: Annotated[int, rare_option(WATCHING, "N", "Most segments listed in /metrics.", min=0)] = 100
    run_length: Annotated[float, rare_option(WATCHING, "N", "Mean number of labels until a false alarm.", min=2.0)] = (
        1e6
    )
    log_level: Annotated[str, rare_option(WATCHING, "LEVEL", f"Log lines from this level: {', '.join(LEVELS)}.")] = (
        "info"
    )


def configure(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options that a file has as defaults; those of the environment and of the command line prevail."""
    if path is None:
        return None
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: the file cannot be read as TOML: {error}") from None
    options = {named(option): option for option in context.command.params if named(option) not in NOT_IN_FILES}
    for name, value in settings.items():
        if name not in options:
            known = ", ".join(sorted(options))
            raise typer.BadParameter(f"{path}: {name!r} is unknown{did_you_mean(name, options)}; known are {known}")
        if isinstance(value, dict):
            raise typer.BadParameter(
                f"{path}: {name} is a table; give a text, a number, true or false, or a list of texts"
            )
    several = {name for name, option in options.items() if getattr(option, "multiple", False)}
    context.default_map = {
        str(options[name].name): as_text([value] if name in several and not isinstance(value, list) else value)
        for name, value in settings.items()
    }
    return path


def unknown_variables(context: Any, environment: Mapping[str, str]) -> list[str]:
    """Describe each variable of the environment that begins as those of options do, and is none of them."""
    prefix = f"{context.auto_envvar_prefix}_"
    known = [option.envvar or f"{prefix}{option.name.upper()}" for option in context.command.params]
    of_service = re.compile(f"{prefix}(SERVICE|PORT)_")  # Kubernetes sets them for a service of this name
    odd = [name for name in environment if name.startswith(prefix) and name not in known and not of_service.match(name)]
    return [f"{name} is no option{did_you_mean(name, known)}" for name in sorted(odd)]


def named(option: Any) -> str:
    """Return the name of an option in a file: that of the command line, without the hyphens before it."""
    return max(option.opts, key=len).lstrip("-")


def as_text(value: Any) -> Any:
    """Return a value as the command line has it."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return value if isinstance(value, bool) else str(value)


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=configure,
        show_envvar=False,
        help='Read options from a TOML file, as horizon = "6h".',
    ),
]


@grouped
def serve(
    context: typer.Context,
    labels: ServedLabels,
    method: ServedMethod,
    levels: LevelOptions,
    events: ServedEvents,
    requests: ServedRequests,
    watching: ServedWatch,
    config: ConfigOption = None,
) -> None:
    """Serve calibrated probabilities over HTTP.

    POST /v1/issue answers with the probability of an impression, POST /v1/outcome takes its label; both have /batch.
    Events are in the journal before they are acknowledged, and the command resumes from it. /metrics is for Prometheus,
    /healthz and /readyz for probes, /docs has the schema. If STREAMCAL_TOKEN is set, clients must send it.
    docs/serving.md has the rules.

    Every option can be in the environment, such as STREAMCAL_SERVE_MAX_HELD, or in the file of --config.

    \b
    Examples:
      streamcal serve --horizon 6h --journal clicks.journal
      streamcal serve --horizon 6h --journal clicks.journal --segment campaign
    """
    try:
        from streamcal.app.html_report import live_page
        from streamcal.app.html_style import POLICY
        from streamcal.serving.running import log_as_json
        from streamcal.serving.running import serve as serve_until_signal
        from streamcal.serving.service import Page, Service
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("streamcal"):
            raise
        fail(NEEDED)
    _check(labels, events, watching)
    log_as_json(watching.log_level)
    for advice in unknown_variables(context, os.environ):
        logger.warning("the environment: %s", advice, extra={"event": "unknown variable"})
    settings = _settings(labels, events, requests, watching)
    choice = choice_of(MethodOptions(method=method.method, settings=method.set_), levels, timed=True)
    calibrator, before = _calibrator(choice, method.state)
    check_store(calibrator, events.journal)
    served = _with_challengers(calibrator, method.challenger or [], levels)
    with nullcontext() if events.journal is None else _opened(events.journal) as journal:
        if method.state is not None and journal is not None and journal.has_snapshot:
            text = "%s has a state of its own; %s is not used"
            logger.info(text, events.journal, method.state, extra={"event": "state unused"})
        most = _room(served, labels.max_held)
        if events.migrate and journal is not None:
            _migrate(served, labels.spans, journal, most, labels.by_events)
        join = _joined(served, labels.spans, journal, most, labels.by_events)
        _take_challengers(join, served)
        _warn_of_scores(join, before if journal is None or not journal.n else None)
        service = Service(join, journal, settings, Page(live_page, POLICY))
        _warn_of(requests.host, service.tokens.asked)
        try:
            whole = serve_until_signal(service, requests.host, requests.port, requests.max_connections)
        except SystemExit:
            advice = "the log says why. Where the port is in use, give another --port"
            fail(f"{requests.host}:{requests.port}: the service could not start; {advice}")
    gc.freeze()  # the process ends: looking for cycles among all predictions would take seconds
    raise typer.Exit(0 if whole else 1)


def _check(labels: ServedLabels, events: ServedEvents, watching: ServedWatch) -> None:
    """End with a message where a word is unknown, or there is no place, or no possible one, for the events."""
    for value, words, name in (
        (events.issue_durability, DURABILITIES, "--issue-durability"),
        (labels.clock, CLOCKS, "--clock"),
        (labels.pending, PENDING, "--pending"),
        (watching.log_level, LEVELS, "--log-level"),
    ):
        if value not in words:
            fail(f"{name} {value!r} is not one of {', '.join(words)}{did_you_mean(value, words)}")
    if labels.pending == PENDING[1]:
        fail(
            "--pending counts is not possible in a service, which finds predictions by their ids; leave it out, and "
            "divide the ids between several services, or count impressions in a process of your own with "
            "streamcal.live.CountedJoin (docs/counted_labels.md)"
        )
    if events.memory == (events.journal is not None):
        fail("give --journal FILE, or --memory for none; what is acknowledged then ends with the process")
    if events.journal is not None:
        check_place(events.journal, "journal")
    if events.backup is not None:
        check_place(events.backup, "backup")
        if events.journal is None or same_file(events.backup, events.journal):
            fail(f"{events.backup}: --backup copies the journal to another file; give --journal, and another name")


def _settings(labels: ServedLabels, events: ServedEvents, requests: ServedRequests, watching: ServedWatch) -> Settings:
    """Return the settings of a service with these options."""
    from streamcal.serving.settings import Settings

    return Settings(
        event_time=labels.by_events,
        durable_issues=events.issue_durability == DURABILITIES[0],
        token=os.environ.get(TOKEN) or None,
        token_file=None if requests.token_file is None else str(requests.token_file),
        backup=None if events.backup is None else str(events.backup),
        max_body=requests.max_body,
        max_batch=requests.max_batch,
        max_keys=requests.max_keys,
        metric_segments=watching.metric_segments,
        snapshot_every=events.snapshot_every,
        run_length=watching.run_length,
    )


def _with_challengers(
    calibrator: Calibrator | Keyed, names: list[str], levels: LevelOptions
) -> Calibrator | Keyed | Shadow:
    """Return the calibrator as the champion of a shadow with these challengers, corrected for the same segments."""
    if not names:
        return calibrator
    from streamcal.live.shadow import Shadow

    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        fail(f"--challenger {twice} is given twice")
    choices = {name: choice_of(MethodOptions(method=name), levels, timed=True) for name in names}
    return Shadow(calibrator, {name: calibrator_of(choice, None)[0] for name, choice in choices.items()})


def _take_challengers(join: LabelJoin, served: Calibrator | Keyed | Shadow) -> None:
    """Let the challengers of the command enter that a journal has not, and those go that only the journal has."""
    from streamcal.live.shadow import Shadow

    shadow: Any = join.calibrator
    if shadow is served or not isinstance(served, Shadow):
        return
    wanted, were_in_use = served.challengers, {version.name for version in shadow.versions}
    for name in shadow.challengers.keys() - wanted.keys() - were_in_use:
        shadow.remove(name)
    for name in wanted.keys() - shadow.challengers.keys() - {shadow.version.name}:
        shadow.add(name, wanted[name])


def _calibrator(choice: Choice, state: Path | None) -> tuple[Calibrator | Keyed, Checkpoint]:
    if state is not None and not state.exists():
        fail(f"{state}: there is no such file; give a state that `streamcal run --state` or `save` wrote")
    return calibrator_of(choice, state)


def _seconds(text: str | None, name: str) -> float | None:
    """Return a span as seconds; a number has to have a unit."""
    if text is None:
        return None
    try:
        span = span_of(text)
    except typer.BadParameter as error:
        error.param_hint = f"--{name}"
        raise
    if not span.unit and 0.0 < abs(span.size) < math.inf:
        number = text.strip()
        raise typer.BadParameter(
            f"{shown(number)} has no unit; give {number}s, {number}m, {number}h or {number}d", param_hint=f"--{name}"
        )
    return span.size


def _opened(path: Path) -> Journal:
    from streamcal.live import Journal

    return Journal(path)


def _room(calibrator: Calibrator | Keyed | Shadow, asked: int | None) -> int:
    """Return the number of predictions that may be remembered, and log it."""
    most = room_for(calibrator) if asked is None else asked
    fields = {"event": "room", "predictions": most, "given": asked is not None}
    logger.info("room for %d predictions", most, extra=fields)
    return most


def _joined(
    calibrator: Calibrator | Keyed | Shadow,
    spans: dict[str, float | None],
    journal: Journal | None,
    max_held: int,
    event_time: bool,
) -> LabelJoin:
    """Return a new join, or the join resumed from the journal."""
    from streamcal.live.label_join import LabelJoin

    jump = None if event_time else ANY_JUMP  # of a client's time behind the server, `Service` says how far
    if journal is not None and journal.n > journal.upto:
        number = journal.n - journal.upto
        fields = {"event": "replaying", "events": number}
        logger.info("%s: replaying %d events after the last snapshot", journal.path, number, extra=fields)
    settings: dict[str, Any] = {"early": spans["early"], "late": spans["late"], "max_held": max_held}
    settings |= {"max_jump": jump, "max_behind": jump}
    join = LabelJoin(calibrator, spans["horizon"], journal=journal, **settings)  # type: ignore[arg-type]
    if journal is not None:
        fields = {
            "event": "resumed",
            "events": journal.n,
            "replayed": join.replayed,
            "held": join.held,
            "waiting": join.waiting,
        }
        text = "%s: resumed, %d events replayed after the last snapshot" if journal.n else "%s: new journal, %d events"
        logger.info(text, journal.path, join.replayed, extra={**fields, "new": not journal.n})
    return join


def _warn_of_scores(join: LabelJoin, before: Checkpoint | None) -> None:
    """Warn where `streamcal run` converted the scores that a new journal's state, or a journal taken over, learned."""
    from streamcal.stream.replay import noted_in

    with suppress(StateError):  # a note of another program
        before = before or noted_in(join.noted)[0]
        calibrator = getattr(join.calibrator, "champion", join.calibrator)
        if (advice := conversion(before, calibrator)) is not None:
            logger.warning("the calibrator %s", advice, extra={"event": "converted scores"})


def _migrate(
    calibrator: Calibrator | Keyed | Shadow,
    spans: dict[str, float | None],
    journal: Journal,
    max_held: int,
    event_time: bool,
) -> None:
    """Rewrite the journal of a join with other parameters, or a later clock, for the one that is wanted."""
    from streamcal.live import LabelJoin, migrate

    settings: dict[str, Any] = {"early": spans["early"], "late": spans["late"], "max_held": max_held}
    join = LabelJoin(calibrator.clone(), spans["horizon"], **settings)  # type: ignore[arg-type]
    done = migrate(journal, join, None if event_time else time.time())
    if done is not None:
        text = "%s: migrated, %d predictions held, %d labels learned by a new calibrator, %d predictions forgotten"
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
