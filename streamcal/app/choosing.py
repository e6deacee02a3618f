"""The method that a command is asked for, and a calibrator of it, new or from a state."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from streamcal.app.options import Span, check_scale, margin_of, option, rare_option, span_of
from streamcal.app.terminal import check_place, fail
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import InputError, StateError, StreamcalError
from streamcal.learners.learner import Learner
from streamcal.names import did_you_mean
from streamcal.parameters.forgetting import Decay, Window
from streamcal.parameters.scales import Interval
from streamcal.parameters.settings import parse
from streamcal.stream import checkpoints
from streamcal.stream.checkpoints import Checkpoint
from streamcal.stream.files import same_file
from streamcal.stream.records import PARSED_AS_PROBABILITY, shown

#: Headings of the help.
METHOD, SEGMENTS = "Method", "Segments"
#: Options on the levels of segments, by the parameter of `Segmented`.
LEVEL_OPTIONS = {"store": "--levels-store", "max_levels": "--max-levels", "pairs": "--pairs"}

if TYPE_CHECKING:  # what segments need is imported where they are given
    from streamcal.live.keyed import Keyed
    from streamcal.live.levels import Field


def methods_that_begin(incomplete: str) -> list[str]:
    """Return the names of methods that begin with these letters, for the completion of a shell.

    >>> methods_that_begin("online")
    ['online-platt', 'online-beta']
    """
    return [name for name in REGISTRY if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The method of a run."""

    method: Annotated[
        str | None,
        option(
            METHOD,
            "NAME",
            f"One of `streamcal methods`.  [default: {DEFAULT_METHOD}]",
            autocompletion=methods_that_begin,
        ),
    ] = None
    settings: Annotated[
        list[str] | None, option(METHOD, "KEY=VALUE", 'Set a parameter, as "scale=Logit(-8, 0)". Repeatable.', "--set")
    ] = None
    scale: Annotated[
        str | None, option(METHOD, "NAME", "Read scores as percent, logit, margin or margin:-8,8.", parser=check_scale)
    ] = None
    window: Annotated[
        Span | None, option(METHOD, "N", "Learn from the last N rows; with --time, a span as 24h.", parser=span_of)
    ] = None
    half_life: Annotated[
        Span | None, option(METHOD, "N", "Halve weights every N rows; with --time, a span as 7d.", parser=span_of)
    ] = None

    @property
    def unit(self) -> str | None:
        """The unit of scores that represent probabilities; None for other scales."""
        return self.scale if self.scale in PARSED_AS_PROBABILITY else None

    @property
    def in_seconds(self) -> bool:
        """Whether a span of forgetting has a unit of time."""
        return any(span is not None and bool(span.unit) for span in (self.window, self.half_life))

    def margin(self, decreasing: bool) -> Interval | None:
        """Return the scale of scores that are no probabilities, or None."""
        margin = None if self.scale is None or self.unit is not None else margin_of(self.scale)
        return Interval(-margin.hi, -margin.lo) if decreasing and margin else margin


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """The segments of a command and the groups in which predictions are kept calibrated."""

    segment: Annotated[
        list[str] | None, option(SEGMENTS, "COLUMNS", "Correct each level of a column, as a or a,b. Repeatable.")
    ] = None
    levels_store: Annotated[
        Path | None, rare_option(SEGMENTS, "FILE", "Keep levels beyond --max-levels in this file.")
    ] = None
    max_levels: Annotated[
        int | None,
        rare_option(SEGMENTS, "N", "Most levels of a --segment in memory.  [default: 100000]", min=1, max=2**31),
    ] = None
    pairs: Annotated[bool, rare_option(SEGMENTS, None, "Correct for all pairs of these columns too.", "--pairs")] = (
        False
    )
    multicalibrate: Annotated[
        list[str] | None,
        option(SEGMENTS, "COLUMNS", "Keep each level of a column calibrated, as a or a,b. Repeatable."),
    ] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `Segmented` that were given."""
        store = None if self.levels_store is None else os.fspath(self.levels_store)
        levels = {"store": store, "max_levels": self.max_levels, "pairs": self.pairs or None}
        return {name: value for name, value in levels.items() if value is not None}


@dataclass(frozen=True)
class Choice:
    """The method and its parameters, as given on the command line."""

    method: str | None
    parameters: dict[str, Any]
    segments: tuple[Field, ...] = ()
    #: Parameters of `Segmented` that were given: where levels are stored, how many are held, and whether of pairs too.
    levels: dict[str, Any] = field(default_factory=dict)
    #: The fields given by `--multicalibrate`.
    groups: tuple[Field, ...] = ()


def choice_of(options: MethodOptions, levels: LevelOptions, *, timed: bool, decreasing: bool = False) -> Choice:
    """Return the chosen method and its parameters."""
    method, window, half_life = options.method, options.window, options.half_life
    if method is not None and method not in REGISTRY:
        nearest = did_you_mean(method, REGISTRY.spellings())
        fail(f"--method {shown(method)} is unknown{nearest}; known are {', '.join(REGISTRY)}")
    parameters = _parameters(options.settings or [])
    by = "time" if timed else "count"
    for name, span in (("--window", window), ("--half-life", half_life)):
        if span is not None and span.unit and not timed:
            fail(f"{name} {span} is a span of time: name the column with --time, or give a number of rows")
    policies: list[tuple[str, Callable[[], Any]]] = []
    if window is not None:
        size = int(window.size) if window.size.is_integer() else window.size
        policies.append(("--window", lambda: Window(size, by=by)))  # type: ignore[arg-type]
    if half_life is not None:
        policies.append(("--half-life", lambda: Decay(half_life.size, by=by)))  # type: ignore[arg-type]
    names = [name for name, _ in policies] + ["--set forgetting"] * ("forgetting" in parameters)
    if len(names) > 1:
        fail(f"{' and '.join(names)} exclude each other")
    for name, policy in policies:
        try:
            parameters["forgetting"] = policy()
        except InputError as error:
            fail(f"{name}: {error}")
    if options.scale is not None and options.unit is None:
        if "scale" in parameters:
            fail("--scale margin and --set scale exclude each other")
        parameters["scale"] = options.margin(decreasing)
    groups = segments_of(levels.multicalibrate or [], "--multicalibrate")
    return Choice(method, parameters, segments_of(levels.segment or []), levels.parameters, groups)


def segments_of(texts: list[str], option: str = "--segment") -> tuple[Field, ...]:
    """Return the fields given by `--segment`, or another option.

    Examples
    --------
    >>> segments_of(["campaign", "campaign, placement"])
    ('campaign', ('campaign', 'placement'))
    """
    if not texts:
        return ()
    from streamcal.live.levels import check_fields

    fields = [tuple(part.strip() for part in text.split(",")) for text in texts]
    try:
        return check_fields([field if len(field) > 1 else field[0] for field in fields])
    except InputError:
        named = ", ".join(f"{option} {shown(text)}" for text in texts)
        fail(f"{named}: give each field once: a column, or two different columns with a comma between them")


def _parameters(settings: list[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not (key and equals and value):
            fail(f"--set {shown(setting)} is not of the form KEY=VALUE")
        if key in parameters:
            fail(f"--set {key} is given twice")
        try:
            parameters[key] = parse(value)
        except (ValueError, TypeError) as error:
            fail(f"--set {shown(setting)}: {error}")
    return parameters


def calibrator_of(choice: Choice, state: Path | None) -> tuple[Calibrator | Keyed, Checkpoint]:
    """Return the calibrator and the checkpoint saved in `state`, which must agree with the options, or new ones."""
    saved, before = (None, Checkpoint()) if state is None else saved_in(state)
    known = None if saved is None else saved.overall
    name = choice.method or (known.name if known is not None else DEFAULT_METHOD)
    wanted = new_calibrator(REGISTRY[name], choice.parameters)
    if saved is None:
        if choice.levels and not choice.segments:
            fail(f"{LEVEL_OPTIONS[next(iter(choice.levels))]} needs --segment: it is for the levels of these")
        return _corrected(wanted, choice), before
    differing = [key for key in choice.parameters if getattr(wanted, key) != getattr(known, key, None)]
    corrected, groups = _parts(saved)
    others = choice.segments and choice.segments != (() if isinstance(corrected, Calibrator) else corrected.by)
    others = others or (choice.groups and choice.groups != groups)
    if type(known) is not type(wanted) or differing or others or not _has_levels(corrected, choice.levels):
        raise StateError(f"{state} holds {saved!r}, which contradicts the options given; use another state file")
    return saved, before


def _corrected(calibrator: Calibrator, choice: Choice) -> Calibrator | Keyed:
    """Wrap the calibrator to correct it for the levels of segments and keep it calibrated in groups, if chosen."""
    corrected: Any = calibrator
    if choice.segments:
        from streamcal.live.segmented import Segmented

        corrected = Segmented(calibrator, choice.segments, **choice.levels)
    if choice.groups:
        from streamcal.live.multicalibrated import Multicalibrated

        corrected = Multicalibrated(corrected, choice.groups)
    return corrected


def _parts(saved: Calibrator | Keyed) -> tuple[Calibrator | Keyed, tuple[Field, ...]]:
    """Return the saved calibrator without the groups in which it is kept calibrated, and their fields."""
    if isinstance(saved, Calibrator):
        return saved, ()
    from streamcal.live.multicalibrated import Multicalibrated

    return (saved.inner, saved.by) if isinstance(saved, Multicalibrated) else (saved, ())


def _has_levels(saved: Calibrator | Keyed, levels: dict[str, Any]) -> bool:
    """Return whether these given parameters of levels equal those of the saved calibrator."""
    for name, value in levels.items():
        saved_value = getattr(saved, name, None)
        if saved_value is None or (not same_file(saved_value, value) if name == "store" else saved_value != value):
            return False
    return True


def check_store(calibrator: Calibrator | Keyed, *others: str | os.PathLike[str] | None) -> None:
    """Fail now if the file of levels, if there is one, could not be written or is another file of the command."""
    store = getattr(calibrator, "store", None)
    if store is None:
        return
    if str(store) == "-":
        fail("--levels-store -: a store of levels is a file; give its name")
    check_place(Path(store), "store of levels")
    if any(other is not None and same_file(store, other) for other in others):
        fail(f"{store}: --levels-store would overwrite another file of this command; give another name")


def saved_in(state: Path) -> tuple[Calibrator | Keyed | None, Checkpoint]:
    """Return the calibrator and the checkpoint in the file; None and an empty one if the file does not exist."""
    try:
        saved, before = checkpoints.load(state)
    except FileNotFoundError:
        return None, Checkpoint()
    except OSError as error:
        raise StateError(f"{state}: the state cannot be read: {error.strerror or error}") from None
    # The file may hold any method, or a `Shadow`.
    method: Any = getattr(saved, "overall", saved) if isinstance(saved, Learner) else saved
    if not isinstance(method, Calibrator) or type(method).__name__ not in REGISTRY.by_class:
        what = f"{type(method).__name__}, which `streamcal run` does not offer"
        raise StateError(f"{state} holds {what}: it runs the methods of one score listed by `streamcal methods`")
    return saved, before


#: The domain of scales of probabilities.
PROBABILITIES = (0.0, 1.0)


def conversion(before: Checkpoint, calibrator: Calibrator | Keyed) -> str | None:
    """Return, for a message, how the scores of a saved state were converted; None if they were not."""
    reading = before.reading
    if reading is None or not reading.conversion:
        return None
    formula = reading.formula(probabilities=calibrator.overall.scale.domain == PROBABILITIES)
    return f"learned with {reading.conversion}: in place of score, give {formula}"


def new_calibrator(cls: type[Calibrator], parameters: dict[str, Any]) -> Calibrator:
    """Return a calibrator with these parameters; for an unknown one, raise `InputError` that names the known ones."""
    allowed = inspect.signature(cls).parameters
    for key in parameters:
        if key not in allowed:
            missing = "--window and no --half-life" if key == "forgetting" else f"parameter {key!r}"
            if key == "forgetting" and cls.name == DEFAULT_METHOD:
                missing += ", since it follows changes by itself: leave the option out, or choose another method"
            own = f"its parameters are: {', '.join(allowed) or 'none'}{did_you_mean(key, allowed)}"
            raise InputError(f"method {cls.name} has no {missing}; {own}{_having(key)}")
    try:
        return cls(**parameters)
    except StreamcalError as error:
        bounds = ", as in --scale margin:-8,8" if parameters.get("scale") == Interval() else ""
        raise InputError(f"method {cls.name}: {error}{bounds}") from None
    except (TypeError, ValueError, OverflowError):  # a value so far off that the method's own check cannot look at it
        written = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        defaults = ", ".join(f"{key}={allowed[key].default!r}" for key in parameters)
        raise InputError(f"method {cls.name}: {written} is not possible; give values like {defaults}") from None


def _having(parameter: str) -> str:
    """Return, for a message, which methods have this parameter; an empty text if none has it."""
    names = [name for name, cls in REGISTRY.items() if parameter in inspect.signature(cls).parameters]
    return f"; methods that have it: {', '.join(names)}" if names else ""


def resumed_note(calibrator: Calibrator | Keyed, state: Path | None) -> str:
    """Return a note on the weight that the resumed state contains."""
    return f", resumed from {state} with weight {calibrator.n:,.6g}" if calibrator.n else ""
