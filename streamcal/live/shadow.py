"""`Shadow`: calibrators that learn beside the one in use, and take its place where they are shown to be better."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.identity import Identity
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import CapabilityError, InputError, StateError
from streamcal.learners.choosing import chosen
from streamcal.metrics.base import check_probability
from streamcal.metrics.log_loss_difference import LogLossDifference
from streamcal.parameters.columns import like
from streamcal.parameters.given import real_number
from streamcal.parameters.inputs import check_batch, check_score
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.saved import Saved
from streamcal.states import ensure, listed, number, record, row, text, unread, whole

#: The name of the calibrator that is in use at the start.
FIRST = "champion"
#: What may change: which calibrator is in use, and which there are.
USE, ADD, REMOVE = "use", "add", "remove"
LONGEST_NAME = 200


class Version(NamedTuple):
    """A calibrator that came into use: the number of the version, its name, and outcomes learned until then."""

    number: int
    name: str
    since: int


class ShadowForecast(NamedTuple):
    """What each calibrator said of a score when it was issued; `p` is what was served."""

    score: float
    p: float
    by_name: Mapping[str, float]
    #: What the parts of mixtures said, by which they are judged; without it, by what they would say now.
    parts: Mapping[str, Sequence[float]] = MappingProxyType({})


@dataclass(frozen=True)
class Comparison:
    """A challenger against the calibrator in use, on the outcomes since both were first compared.

    `difference` is the mean log loss of the challenger less that of the calibrator in use, in nats, None without
    outcomes; the confidence sequence is [`low`, `high`].
    """

    name: str
    n: int
    difference: float | None
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """ "better" or "worse" where 0 lies outside the confidence sequence, otherwise "undecided"."""
        return "better" if self.high < 0.0 else "worse" if self.low > 0.0 else "undecided"

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.name}: undecided, no outcomes yet"
        interval = f"{self.difference:+.4g} nats [{self.low:+.4g}, {self.high:+.4g}]"
        return f"{self.name}: {self.verdict}, log loss {interval} over {self.n:,} outcomes"


class Shadow(Saved):
    """One calibrator in use, the champion, and challengers that learn the same outcomes and are compared with it.

    Only the champion's probabilities are served. A challenger can be promoted where the confidence sequence of its log
    loss less the champion's lies below 0 (`LogLossDifference(adaptive=True)`), never because of a point estimate. The
    intervals hold at every time, so that they may be read after each outcome; and for all comparisons that a shadow
    ever makes together, promotions and new challengers included: the j-th has the confidence 1 − α/(j (j + 1)),
    α = 1 − `confidence`. The probability that a challenger is ever promoted that was not better, on average over the
    outcomes of the comparison, is therefore at most α, whatever the stream does.

    What was champion goes on learning as a challenger, so that `rollback` returns to a calibrator that is up to date.

    Parameters
    ----------
    champion : str or Calibrator
        The calibrator in use, or a method such as "auto"; its name here is "champion".
    challengers : mapping of str to str or Calibrator
        The others, by name.
    confidence : float
        Above 0 and below 1, default 0.95; for all comparisons together.

    Raises
    ------
    InputError
        For other parameters, or a calibrator that is given twice.

    Notes
    -----
    Forecasts are compared as they were issued: `learn_one` takes those of the present state, right where the label is
    known before the next prediction; with late labels keep what `issue_one` returns, and give it to `learn_issued`, or
    give the shadow to a `LabelJoin`.
    An outcome counts once in a comparison whatever its weight, since weighted losses have no bound, and not at all
    where its weight is 0.

    Cost: that of each calibrator, and 2 µs for each challenger and outcome.

    References
    ----------
    Y. J. Choe and A. Ramdas, Comparing sequential forecasters, Operations Research 2024.

    Examples
    --------
    >>> from streamcal import Identity, TrackingOPS
    >>> shadow = Shadow(Identity(), {"ops": TrackingOPS()})
    >>> for k in range(2000):  # the scores say 0.5, and one outcome in ten is positive
    ...     p = shadow.predict_one(0.5)
    ...     shadow.learn_one(0.5, k % 10 == 0)
    >>> [comparison.verdict for comparison in shadow.comparisons()]
    ['better']
    >>> shadow.promote("ops").number
    2
    >>> 0.05 < shadow.predict_one(0.5) < 0.25
    True
    >>> shadow.rollback(1).name, shadow.predict_one(0.5)
    ('champion', 0.5)
    """

    #: Told of each change of what is used, what came and what went, before it is made: of a `LabelJoin` with a journal.
    _told: Callable[[str, str, Calibrator | None], None] | None = None

    def __init__(
        self,
        champion: str | Calibrator,
        challengers: Mapping[str, str | Calibrator] | None = None,
        *,
        confidence: float = 0.95,
    ) -> None:
        self.confidence = real_number(confidence, "confidence", "a probability, such as 0.95", above=0.0, below=1.0)
        self._calibrators: dict[str, Calibrator] = {}
        self._numbers: dict[
            str, int
        ] = {}  # of calibrators, each its own, by which forecasts as plain numbers name them
        self._differences: dict[str, LogLossDifference] = {}  # by challenger, against the champion
        self._compared = 0  # comparisons begun so far
        self._n = 0
        if challengers is not None and not isinstance(challengers, Mapping):
            raise InputError(f"challengers={challengers!r} have no names; give {{name: calibrator}}")
        self._enter(FIRST, _method(champion))
        self._versions = [Version(1, FIRST, 0)]
        for name, calibrator in (challengers or {}).items():
            self.add(name, calibrator)

    # -- what it says ----------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of outcomes learned."""
        return self._n

    @property
    def version(self) -> Version:
        """The version in use."""
        return self._versions[-1]

    @property
    def versions(self) -> list[Version]:
        """All versions, in order; a rollback is a new version with an earlier name."""
        return list(self._versions)

    @property
    def champion(self) -> Calibrator:
        """The calibrator in use, such as for its `predict_interval_one` or `map`."""
        return self._calibrators[self.version.name]

    @property
    def challengers(self) -> dict[str, Calibrator]:
        """The others, by name."""
        return {name: one for name, one in self._calibrators.items() if name != self.version.name}

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """The champion's probability for the score."""
        return self.champion.predict_one(score, t)

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """The champion's probabilities for scores of shape (n,)."""
        return self.champion.predict_many(scores, t)

    def issue_one(self, score: float, t: Time | None = None) -> ShadowForecast:
        """What all calibrators say of a score now, for `learn_issued`; `.p` is the champion's, to be served."""
        forecast = self._forecast(score, t)
        judged = {name: one for name, one in self._calibrators.items() if type(one)._issue is not Calibrator._issue}
        x = check_score(score)
        said = {name: one._issue(one.scale.coordinate(x), one._time(t)) for name, one in judged.items()}
        return forecast._replace(parts={name: parts for name, parts in said.items() if parts is not None})

    def _forecast(self, score: float, t: Time | None) -> ShadowForecast:
        """A forecast whose label comes before the next one, so that parts of mixtures need not be remembered."""
        said = {name: one.predict_one(score, t) for name, one in self._calibrators.items()}
        return ShadowForecast(score, said[self.version.name], said)

    def comparisons(self) -> list[Comparison]:
        """Each challenger against the champion, that of the least difference first."""
        found = [Comparison(name, one.n, one.value, *one.interval) for name, one in self._differences.items()]
        return sorted(found, key=lambda one: math.inf if one.difference is None else one.difference)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Compare what the calibrators say of the score now, and let all of them learn its label.

        Parameters
        ----------
        score, y, w, t
            As for the calibrators.

        Raises
        ------
        InputError
            Where one of the calibrators does not take the observation; then none has learned it.
        """
        self.learn_issued(self._forecast(score, t), y, w, t)

    def learn_issued(self, issued: ShadowForecast, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Compare what was issued with its label, and let all calibrators learn it.

        Parameters
        ----------
        issued : ShadowForecast
            From `issue_one`, at any time before. Calibrators that have come since are not compared by it.
        y, w, t
            The label, its weight and its time, as for the calibrators.

        Raises
        ------
        InputError
            Where one of the calibrators does not take the observation, or `issued` is no such forecast; then none has
            learned it.
        """
        _require_forecast(issued)
        checked = {name: one._checked(issued.score, y, w, t) for name, one in self._calibrators.items()}
        _, label, weight, *_ = checked[FIRST] if FIRST in checked else next(iter(checked.values()))
        if weight == 0.0:
            return
        for name, (_, _, _, time, _) in checked.items():
            self._calibrators[name]._require_time(time)
            if len(checked) > 1:  # a single one refuses before it learns
                self._calibrators[name]._require_issued(issued.parts.get(name))
        for name, (x, _, _, time, noted) in checked.items():
            one, parts = self._calibrators[name], issued.parts.get(name)
            if parts is None:
                one._learn(x, label, weight, time, noted)
            else:
                one._learn_issued(x, label, weight, time, parts)
                one._note(noted)
        self._compare(issued.by_name, label)
        self._n += 1

    def predict_learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> FloatArray:
        """What a loop of `predict_one` and `learn_one` says and leaves, by the fast loops of the calibrators.

        Parameters
        ----------
        scores, y, w, t : array-like of shape (n,)
            As for `Calibrator.predict_learn_many`.

        Returns
        -------
        ndarray of shape (n,)
            The champion's probabilities, each before its label.

        Raises
        ------
        InputError
            For a bad value in any row; then nothing is learned.
        """
        s, labels, weights = check_batch(scores, y, w)
        learned = weights > 0.0
        self._require_rows(s, learned, t)
        given = s, labels, None if w is None else weights, t
        said = {name: one.predict_learn_many(*given) for name, one in self._calibrators.items()}
        served = said[self.version.name]
        for name, difference in self._differences.items():
            difference.update_many(said[name][learned], served[learned], labels[learned])
        self._n += int(learned.sum())
        return like(scores, served)

    def _require_rows(
        self, scores: FloatArray, learned: npt.NDArray[np.bool_], t: npt.ArrayLike | Sequence[Time] | None
    ) -> None:
        """`InputError` where one of the calibrators does not take a row, of which each says it again when it learns.

        Scores, labels and weights have been checked; what differs between calibrators are the scale and the time.
        """
        low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.5, 0.5)
        for one in self._calibrators.values():
            first, last = one.scale.domain
            if not first <= low <= high <= last:
                one.scale.coordinates(scores)  # says which
            if getattr(one, "_timed", False):
                one._require_times(one._times(t, len(scores))[learned])

    def _compare(self, said: Mapping[str, float], label: float) -> None:
        """Add an outcome to the comparisons of challengers whose forecast, and the champion's, were issued."""
        served = said.get(self.version.name)
        if served is None:
            return
        for name, difference in self._differences.items():
            p = said.get(name)
            if p is not None:
                difference.update_checked(float(p), float(served), label)

    # -- challengers -------------------------------------------------------------------------------------------------

    def add(self, name: str, calibrator: str | Calibrator) -> None:
        """Let another challenger learn from now on; it may have learned before.

        Raises
        ------
        InputError
            If the name is taken or no text of 1 to 200 characters, or the calibrator is none or one of those here.
        """
        entrant = _method(calibrator)
        self._require_new(name, entrant)
        self._tell(ADD, name, entrant)
        self._enter(name, entrant)
        self._begin(name)

    def remove(self, name: str) -> Calibrator:
        """Take a challenger out, and return it.

        Raises
        ------
        InputError
            If there is no such challenger.
        """
        self._require_challenger(name)
        self._tell(REMOVE, name)
        del self._differences[name], self._numbers[name]
        return self._calibrators.pop(name)

    def promote(self, name: str | None = None) -> Version:
        """Put a challenger into use that is shown to be better than the champion; all comparisons begin anew.

        Parameters
        ----------
        name : str or None
            The challenger; None is the one of the least log loss among those that are better.

        Returns
        -------
        Version
            The new version.

        Raises
        ------
        CapabilityError
            Unless the confidence sequence of the challenger lies below 0.
        InputError
            If there is no such challenger.
        """
        if name is None:
            name = next((one.name for one in self.comparisons() if one.verdict == "better"), None)
            if name is None:
                raise CapabilityError("no challenger is shown to be better than the champion; wait for more outcomes")
        self._require_challenger(name)
        difference = self._differences[name]
        found = Comparison(name, difference.n, difference.value, *difference.interval)
        if found.verdict != "better":
            raise CapabilityError(f"only a challenger that is shown to be better can be promoted; {found}")
        return self._use(name)

    def rollback(self, version: int) -> Version:
        """Put the calibrator of an earlier version into use again, with what it has learned since.

        Parameters
        ----------
        version : int
            The number of a version.

        Returns
        -------
        Version
            A new version.

        Raises
        ------
        InputError
            If there is no such version, it is the one in use, or its calibrator was removed.
        """
        names = {one.number: one.name for one in self._versions}
        if version not in names:
            raise InputError(f"there is no version {version!r}; there are 1 to {len(names)}")
        self._require_challenger(names[version])
        return self._use(names[version])

    def _tell(self, what: str, name: str, calibrator: Calibrator | None = None) -> None:
        if self._told is not None:
            self._told(what, name, calibrator)

    def _change(self, what: str, name: str, calibrator: Calibrator | None) -> None:
        """Make a change that was told of before; `StateError` where it is not possible."""
        ensure(what in (USE, ADD, REMOVE) and (calibrator is None) == (what != ADD), f"{what!r} is no change")
        try:
            if calibrator is not None:
                self.add(name, calibrator)
            elif what == REMOVE:
                self.remove(name)
            else:
                self._require_challenger(name)
                self._use(name)
        except InputError as error:
            raise StateError(str(error)) from None

    def _require_new(self, name: str, calibrator: Calibrator) -> None:
        """`InputError` unless a calibrator can enter under this name."""
        if not isinstance(calibrator, Calibrator):
            raise InputError(f"{calibrator!r} is no calibrator of one score; give one such as TrackingOPS()")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InputError(f"the name {name!r} is not allowed; give a text of 1 to {LONGEST_NAME} characters")
        if name in self._calibrators:
            raise InputError(f"there is a calibrator {name!r} already; give another name")
        if any(one is calibrator for one in self._calibrators.values()):
            raise InputError(f"{calibrator!r} is here already, and would learn twice; give a copy")

    def _enter(self, name: str, calibrator: Calibrator) -> None:
        self._require_new(name, calibrator)
        self._numbers[name] = self._compared + 1 if self._calibrators else 0  # each challenger begins a comparison
        self._calibrators[name] = calibrator

    def _require_challenger(self, name: str) -> None:
        if name not in self._differences:
            names = ", ".join(map(repr, self._differences)) or "none"
            raise InputError(f"there is no challenger {name!r}; there are: {names}")

    def _use(self, name: str) -> Version:
        self._tell(USE, name)
        self._versions.append(Version(len(self._versions) + 1, name, self._n))
        self._differences.clear()
        for other in self.challengers:
            self._begin(other)
        return self.version

    def _begin(self, name: str) -> None:
        """Begin a comparison, of the j-th share of what may go wrong in all."""
        self._compared += 1
        share = (1.0 - self.confidence) / (self._compared * (self._compared + 1.0))
        self._differences[name] = LogLossDifference(1.0 - share, adaptive=True)

    # -- late labels, of a `LabelJoin` -------------------------------------------------------------------------------

    merges = unlearns = False

    @property
    def scale(self) -> Scale:
        """The scale of the calibrator that takes the fewest scores."""
        scales = [one.scale for one in self._calibrators.values()]
        return min(scales, key=lambda scale: scale.domain[1] - scale.domain[0])

    def clone(self) -> Self:
        """The same calibrators under the same names, nothing learned, the one now in use being the first version."""
        new, name = type(self)(self.champion.clone(), confidence=self.confidence), self.version.name
        new._calibrators, new._numbers = {name: new.champion}, {name: 0}
        new._versions = [Version(1, name, 0)]
        for other, one in self.challengers.items():
            new.add(other, one.clone())
        return new

    def same_parameters(self, other: Any) -> bool:
        """Whether it is a shadow with the same confidence, and calibrators of the same name are the same."""
        if not isinstance(other, Shadow) or self.confidence != other.confidence:
            return False
        common = self._calibrators.keys() & other._calibrators.keys()
        return all(self._calibrators[name].same_parameters(other._calibrators[name]) for name in common)

    def plain(self, forecast: ShadowForecast) -> array[float]:
        """A forecast as numbers: of each calibrator its own number, the probability, the number of parts, and these."""
        written = array("d")
        for name, p in forecast.by_name.items():
            parts = forecast.parts.get(name, ())
            written.extend((self._numbers[name], p, len(parts), *parts))
        return written

    def forecast_of(self, score: float, written: Sequence[float]) -> ShadowForecast:
        """The forecast that `plain` wrote, of those calibrators that are still here."""
        names = {number: name for name, number in self._numbers.items()}
        said: dict[str, float] = {}
        parts: dict[str, Sequence[float]] = {}
        place = 0
        while place + 3 <= len(written):
            name, p, number = names.get(int(written[place])), written[place + 1], int(written[place + 2])
            place += 3
            if name is not None:
                said[name] = min(max(p, 0.0), 1.0)
                if number > 0:
                    parts[name] = written[place : place + number]
            place += max(number, 0)
        return ShadowForecast(score, said.get(self.version.name, math.nan), said, parts)

    # -- saving ------------------------------------------------------------------------------------------------------

    def _plain_params(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

    def _state(self) -> dict[str, Any]:
        return {
            "n": self._n,
            "compared": self._compared,
            "versions": [list(one) for one in self._versions],
            "calibrators": {name: one._written() for name, one in self._calibrators.items()},
            "differences": {name: [one.confidence, *one.state()] for name, one in self._differences.items()},
            "numbers": dict(self._numbers),
        }

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        fields = {"n": whole(), "compared": whole(), "versions": listed(row(whole(1), text(LONGEST_NAME), whole()))}
        shadow = cls(Identity(), **params)
        fields |= {"calibrators": unread, "differences": unread}
        shadow._load(**record(fields, {"numbers": _numbers})(learned))
        return shadow

    def _load(
        self,
        n: int,
        compared: int,
        versions: list[Any],
        calibrators: dict[str, Any],
        differences: dict[str, Any],
        numbers: dict[str, int] | list[int] | None,
    ) -> None:
        """Load what `_state` has written into a new shadow; earlier ones gave numbers in the order of calibrators."""
        if not isinstance(numbers, dict):
            numbers = [*range(len(calibrators))] if numbers is None else numbers
            ensure(len(calibrators) == len(numbers), "calibrators have no numbers of their own")
            numbers = dict(zip(calibrators, numbers, strict=True))
        ensure(numbers.keys() == calibrators.keys(), "calibrators have no numbers of their own")
        ensure(len(set(numbers.values())) == len(numbers), "two calibrators have one number")
        ensure(max(numbers.values(), default=0) <= compared, "a calibrator has a number of later ones")
        self._calibrators.clear()
        for name in sorted(numbers, key=lambda name: numbers[name]):  # as they came, in whatever order they are written
            self._enter(name, Calibrator._from_written(calibrators[name]))
        self._numbers = {name: numbers[name] for name in self._calibrators}
        self._n, self._compared = n, compared
        self._versions = [Version(*one) for one in versions]
        ensure([one.number for one in self._versions] == [*range(1, len(versions) + 1)], "versions are missing")
        ensure(all(one.since <= n for one in self._versions), "a version is of a later time")
        ensure(self.version.name in self._calibrators, "the calibrator in use is missing")
        ensure(differences.keys() == self.challengers.keys(), "comparisons and challengers differ")
        ensure(compared >= len(differences), "there are more comparisons than were begun")
        for name in self.challengers:
            confidence, *sums = differences[name]
            ensure(self.confidence <= number(0.0, 1.0)(confidence) < 1.0, "a confidence is not possible")
            self._differences[name] = LogLossDifference(confidence, adaptive=True)
            self._differences[name].load(sums)
            ensure(self._differences[name].n <= n, "more outcomes were compared than learned")

    def __repr__(self) -> str:
        names = ", ".join(f"{name!r}: {one!r}" for name, one in self.challengers.items())
        return f"{type(self).__name__}({self.champion!r}, {{{names}}}, confidence={self.confidence!r})"


def _require_forecast(issued: Any) -> None:
    """`InputError` unless it is a `ShadowForecast` of probabilities and of lists of numbers, by name."""
    if isinstance(issued, ShadowForecast) and isinstance(issued.by_name, Mapping) and isinstance(issued.parts, Mapping):
        for p in issued.by_name.values():
            check_probability(p)
        if all(isinstance(parts, (array, list, tuple)) for parts in issued.parts.values()):
            return
    raise InputError(f"issued={issued!r} is no ShadowForecast; give what `issue_one` returned")


def _numbers(value: Any) -> Any:
    """The number of each calibrator by its name; of earlier versions, in the order of the calibrators."""
    if not isinstance(value, dict):
        return listed(whole())(value)
    return {text(LONGEST_NAME)(name): whole()(one) for name, one in value.items()}


def _method(given: Any) -> Any:
    """A new calibrator, where a name is given; otherwise what is given."""
    return chosen(given, Calibrator, REGISTRY) if isinstance(given, str) else given
