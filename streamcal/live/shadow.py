"""`Shadow`: calibrators that learn beside the one in use, and take its place where they are shown to be better."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.identity import Identity
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import CapabilityError, InputError, StateError
from streamcal.learners.choosing import chosen
from streamcal.learners.learner import Learner
from streamcal.learners.pending import Pending, pending_of, settle
from streamcal.live.keyed import Entrant, rereadable
from streamcal.metrics.base import check_probability
from streamcal.metrics.log_loss_difference import LogLossDifference
from streamcal.names import did_you_mean
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import (
    check_batch,
    check_label,
    check_score,
    check_times_of_one_kind,
    check_weight,
    of_one_kind,
)
from streamcal.parameters.numbers import real_number
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time, Times
from streamcal.saved import WithState
from streamcal.states import (
    Field,
    attribute,
    ensure,
    listed,
    load_fields,
    number,
    row,
    text,
    unread,
    whole,
    write_fields,
)

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


class Predictions(NamedTuple):
    """The predictions of the calibrators for an observation, and the records by which its label judges them."""

    by_name: Mapping[str, float]
    records: Mapping[str, Sequence[float] | None] = MappingProxyType({})


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
        """The verdict: "better" or "worse" if 0 is outside the confidence sequence, otherwise "undecided"."""
        return "better" if self.high < 0.0 else "worse" if self.low > 0.0 else "undecided"

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.name}: undecided, no outcomes yet"
        interval = f"{self.difference:+.4g} nats [{self.low:+.4g}, {self.high:+.4g}]"
        return f"{self.name}: {self.verdict}, log loss {interval} over {self.n:,} outcomes"


class Shadow(WithState):
    """One calibrator in use, the champion, and challengers that learn the same outcomes and are compared with it.

    Only the champion's probabilities are served. A challenger can be promoted where the confidence sequence of its log
    loss less the champion's lies below 0 (`LogLossDifference(adaptive=True)`), never because of a point estimate. The
    intervals are valid at every time, so they may be read after each outcome. They are valid for all comparisons of a
    shadow together, also those after promotions and with new challengers: the j-th has the confidence 1 − α/(j
    (j + 1)), α = 1 − `confidence`. So the probability that a challenger is ever promoted that was not better, on
    average over the outcomes of the comparison, is at most α on every stream.

    The former champion continues to learn as a challenger, so that `rollback` returns to an up-to-date calibrator.

    Parameters
    ----------
    champion : str, Calibrator, Segmented or Multicalibrated
        The calibrator in use, or a method such as "auto"; its name here is "champion".
    challengers : mapping of str to str, Calibrator, Segmented or Multicalibrated, or names of methods
        The others, by name.
    confidence : float
        Above 0 and below 1, default 0.95; for all comparisons together.

    Raises
    ------
    InputError
        For other parameters, or a calibrator that is given twice.

    Notes
    -----
    Predictions are compared as they were issued. `learn_one` compares the present predictions, which are those issued
    if each label is known before the next prediction. With late labels, pass what `issue` returns to `settle`, or put
    the shadow into a `LabelJoin`.

    `keys`, field → level, are passed to each `Segmented` and `Multicalibrated`; calibrators of a score alone do not
    read them. A `Segmented` with a `store` is refused: a state of the shadow would not contain the levels of the store.

    A comparison counts each outcome by its weight. If a stream is sampled by label, the weights of `importance_weight`
    make it a comparison on the whole stream. `LogLossDifference` states what it assumes of weights. Nothing is decided
    before both labels have occurred in a comparison, since the weight of a label is unknown until then.

    Cost: that of each calibrator, and O(1) for each challenger and outcome.

    References
    ----------
    Y. J. Choe and A. Ramdas, Comparing sequential forecasters, Operations Research 2024.

    Examples
    --------
    >>> from streamcal import Identity, TrackingOPS
    >>> shadow = Shadow(Identity(), {"tracking-ops": TrackingOPS()})
    >>> for k in range(2000):  # the scores say 0.5, and one outcome in ten is positive
    ...     p = shadow.predict_one(0.5)
    ...     shadow.learn_one(0.5, k % 10 == 0)
    >>> [comparison.verdict for comparison in shadow.comparisons()]
    ['better']
    >>> shadow.promote("tracking-ops").number
    2
    >>> 0.05 < shadow.predict_one(0.5) < 0.25
    True
    >>> shadow.rollback(1).name, shadow.predict_one(0.5)
    ('champion', 0.5)
    """

    #: Called before each change of the calibrators, for the journal of a `LabelJoin`: a calibrator is added, removed or
    #: put in use.
    on_change: Callable[[str, str, Entrant | None], None] | None = None

    def __init__(
        self,
        champion: str | Entrant,
        challengers: Mapping[str, str | Entrant] | Sequence[str] | None = None,
        *,
        confidence: float = 0.95,
    ) -> None:
        self.confidence = real_number(confidence, "confidence", "a probability, such as 0.95", above=0.0, below=1.0)
        self._calibrators: dict[str, Entrant] = {}
        #: Of calibrators, each its own, by which predictions as plain numbers name them.
        self._numbers: dict[str, int] = {}
        self._differences: dict[str, LogLossDifference] = {}  # by challenger, against the champion
        self._compared = 0  # comparisons begun so far
        self._n = 0
        if isinstance(challengers, str):
            challengers = [challengers]
        if isinstance(challengers, (list, tuple)) and all(isinstance(challenger, str) for challenger in challengers):
            challengers = {challenger: challenger for challenger in challengers}
        if challengers is not None and not isinstance(challengers, Mapping):
            raise InputError(f"challengers={challengers!r} have no names; give {{name: calibrator}}")
        self._enter(FIRST, _method(champion))
        self._versions = [Version(1, FIRST, 0)]
        for name, calibrator in (challengers or {}).items():
            self.add(name, calibrator)

    # -- results ---------------------------------------------------------------------------------------------------

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
    def champion(self) -> Any:
        """The calibrator in use, such as for its `predict_interval_one` or `map`."""
        return self._calibrators[self.version.name]

    @property
    def challengers(self) -> dict[str, Any]:
        """The others, by name."""
        return {name: calibrator for name, calibrator in self._calibrators.items() if name != self.version.name}

    @property
    def forgets_by_time(self) -> bool:
        """Whether a calibrator forgets observations by their times."""
        return any(calibrator.forgets_by_time for calibrator in self._calibrators.values())

    @property
    def fields(self) -> tuple[str, ...]:
        """The names that the calibrators read from `keys`; none where all read the score alone."""
        return tuple(dict.fromkeys(name for calibrator in self._calibrators.values() for name in calibrator.fields))

    @property
    def overall(self) -> Calibrator:
        """The calibrator of all observations of the champion."""
        calibrator: Calibrator = self.champion.overall
        return calibrator

    def require_names(self, keys: Any) -> None:
        """Raise an `InputError` for keys that seem to have a field under another name."""
        for calibrator in self._calibrators.values():
            calibrator.require_names(keys)

    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        """Return the champion's probability for the score, with the levels of `keys` if it reads them."""
        champion: Entrant = self.champion
        return champion.predict_one(score, t, keys=champion._own_keys(keys))

    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        """Return the champion's probabilities for n scores, with n levels of each field if it reads them."""
        champion: Entrant = self.champion
        return champion.predict_many(scores, t, keys=champion._own_keys(keys))

    def comparisons(self) -> list[Comparison]:
        """Compare each challenger with the champion, least difference first."""
        comparisons = [_comparison(name, difference) for name, difference in self._differences.items()]
        return sorted(comparisons, key=lambda item: math.inf if item.difference is None else item.difference)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Compare the predictions of the calibrators for the score, and have all of them learn its label.

        Parameters
        ----------
        score, y, w, t
            As for the calibrators.
        keys : mapping, optional
            Field → level, for calibrators that read them.

        Raises
        ------
        InputError
            Where one of the calibrators does not accept the observation; then none has learned it.
        """
        label, weight = check_label(y), check_weight(w)
        calibrators = self._calibrators.items()
        predictions = {name: calibrator._predict_to_learn(score, keys, t) for name, calibrator in calibrators}
        self._learn(score, keys, Predictions(predictions), label, weight, t)
        if weight == 0.0:  # the predictions that were asked for wait for no label
            for calibrator in self._calibrators.values():
                _learned(calibrator, score, keys, label, None, 0.0, t)

    def _learn(
        self, score: float, keys: Any, predictions: Predictions, label: float | None, w: float, t: Time | None
    ) -> None:
        """Check everything, then learn a label; of weight 0 or None, it is given up."""
        label = None if w == 0.0 else label
        entrants = [(calibrator, predictions.records.get(name)) for name, calibrator in self._calibrators.items()]
        try:
            for calibrator, record in entrants:
                calibrator._require_keyed(score, keys, label, record, w, t)
        except InputError:
            for calibrator in self._calibrators.values():
                if calibrator.overall._first_time is t:  # later times need not be of the kind of one that was refused
                    calibrator.overall._first_time = None
            raise
        for calibrator, record in entrants:
            _learned(calibrator, score, keys, label, record, w, t)
        if label is not None:
            self._compare(predictions.by_name, label, w)
            self._n += 1

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
    ) -> FloatArray:
        """Predict and then learn n observations, one after another, by the fast loops of the calibrators.

        Parameters
        ----------
        scores, y, w, t : array-like of shape (n,)
            As for `Calibrator.predict_learn_many`.
        keys : mapping, optional
            Field → n levels, for calibrators that read them.

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
        learned, columns = weights > 0.0, rereadable(keys)
        self._require_rows(s, columns, learned, t)
        outcomes = labels, None if w is None else weights, t
        predictions = {}
        for name, calibrator in self._calibrators.items():
            predictions[name] = calibrator.predict_learn_many(s, *outcomes, keys=calibrator._own_keys(columns))
        served = predictions[self.version.name]
        for name, difference in self._differences.items():
            difference.update_many(labels, predictions[name], served, weights)
        self._n += int(learned.sum())
        return like(scores, served)

    def _require_rows(
        self, scores: FloatArray, keys: Columns | None, learned: NDArray[np.bool_], t: Times | None
    ) -> None:
        """Raise `InputError` if a calibrator does not accept a row; each raises it again when it learns.

        Scores, labels and weights have been checked; calibrators differ in scale, levels and time.
        """
        low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.5, 0.5)
        times, first_time = (None, None) if t is None else check_times_of_one_kind(t, len(scores), None)
        for calibrator in self._calibrators.values():
            first, last = calibrator.scale.domain
            if not first <= low <= high <= last:
                calibrator.scale.coordinates(scores)  # raises for the score that is outside
            calibrator.require_columns(keys, len(scores))
            overall = calibrator.overall
            if first_time is not None:
                of_one_kind(first_time, overall._first_time, "t[0]")
            if calibrator.forgets_by_time:
                overall._require_times((overall._times(None, len(scores)) if times is None else times)[learned])

    def _compare(self, probabilities: Mapping[str, float], label: float, w: float) -> None:
        """Add an outcome to the comparisons of challengers whose prediction, and the champion's, were issued."""
        served = probabilities.get(self.version.name)
        if served is None:
            return
        for name, difference in self._differences.items():
            p = probabilities.get(name)
            if p is not None:
                difference.update_checked(float(p), float(served), label, w)

    # -- challengers -------------------------------------------------------------------------------------------------

    def add(self, name: str, calibrator: str | Entrant) -> None:
        """Add a challenger, which learns from now on; it may have learned before.

        Raises
        ------
        InputError
            If the name is taken, belonged to an earlier version or is no text of 1 to 200 characters, or if the
            calibrator is none or is already in the shadow.
        """
        entrant = _method(calibrator)
        self._require_new(name, entrant)
        past = next((version.number for version in self._versions if version.name == name), None)
        if past is not None:  # `rollback(past)` would put an unproven calibrator into use
            raise InputError(f"{name!r} is the name of version {past}, whose calibrator was removed; give another name")
        self._notify(ADD, name, entrant)
        self._enter(name, entrant)
        self._begin(name)

    def remove(self, name: str) -> Any:
        """Take a challenger out, and return it.

        Raises
        ------
        InputError
            If there is no such challenger.
        """
        self._require_challenger(name)
        self._notify(REMOVE, name)
        del self._differences[name], self._numbers[name]
        return self._calibrators.pop(name)

    def promote(self, name: str | None = None) -> Version:
        """Put a challenger that is shown to be better than the champion into use, and restart all comparisons.

        Parameters
        ----------
        name : str or None
            The challenger; None selects the one with the least log loss among those that are better.

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
            name = next((comparison.name for comparison in self.comparisons() if comparison.verdict == "better"), None)
            if name is None:
                raise CapabilityError("no challenger is shown to be better than the champion; wait for more outcomes")
        self._require_challenger(name)
        difference = self._differences[name]
        comparison = _comparison(name, difference)
        if comparison.verdict != "better":
            raise CapabilityError(f"only a challenger that is shown to be better can be promoted; {comparison}")
        return self._use(name)

    def rollback(self, version: int) -> Version:
        """Put the calibrator of a previous version into use again, with what it has learned since.

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
        names = {version.number: version.name for version in self._versions}
        if version not in names:
            raise InputError(f"there is no version {version!r}; there are 1 to {len(names)}")
        self._require_challenger(names[version])
        return self._use(names[version])

    def _notify(self, what: str, name: str, calibrator: Entrant | None = None) -> None:
        if self.on_change is not None:
            self.on_change(what, name, calibrator)

    def _change(self, what: str, name: str, calibrator: Entrant | None) -> None:
        """Make a change that the journal holds; `StateError` where it is not possible."""
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

    def _require_new(self, name: str, calibrator: Entrant) -> None:
        """Raise `InputError` unless a calibrator can enter under this name."""
        if not isinstance(calibrator, Entrant):
            raise InputError(f"{calibrator!r} is no calibrator of one score; give one such as TrackingOPS()")
        if getattr(calibrator, "store", None) is not None:
            raise InputError(f"{calibrator!r} has a store, which a shadow does not save; leave out store=")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InputError(f"the name {name!r} is not allowed; give a text of 1 to {LONGEST_NAME} characters")
        if name in self._calibrators:
            raise InputError(f"there is a calibrator {name!r} already; give another name")
        if any(own is calibrator for own in self._calibrators.values()):
            raise InputError(f"{calibrator!r} is here already, and would learn twice; give a copy")

    def _enter(self, name: str, calibrator: Entrant) -> None:
        self._require_new(name, calibrator)
        self._numbers[name] = self._compared + 1 if self._calibrators else 0  # each challenger begins a comparison
        self._calibrators[name] = calibrator

    def _require_challenger(self, name: str) -> None:
        if name not in self._differences:
            names = ", ".join(map(repr, self._differences)) or "none"
            nearest = did_you_mean(name, self._differences)
            raise InputError(f"there is no challenger {name!r}{nearest}; there are: {names}")

    def _use(self, name: str) -> Version:
        self._notify(USE, name)
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

    # -- late labels -----------------------------------------------------------------------------------------------

    def issue(self, score: float, t: Time | None = None, *, keys: Keys | None = None, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label.

        Parameters
        ----------
        score, t
            As for the calibrators.
        keys : mapping, optional
            Field → level, for calibrators that read them.
        w : float
            The weight of the observation. A `Multicalibrated` fixes its stakes by it.

        Returns
        -------
        Pending
            Its `p` is the champion's probability, to be served.

        Raises
        ------
        InputError
            Where one of the calibrators does not accept the observation; nothing changes then.

        Examples
        --------
        >>> shadow = Shadow("identity", {"ops": "online-platt"})
        >>> issued = shadow.issue(0.3)
        >>> shadow.settle(issued, True)
        >>> issued.p, shadow.n
        (0.3, 1)
        """
        issued = pending_of(self, check_score(score), keys, t, w)
        issued.keys = dict(keys) if isinstance(keys, Mapping) else None  # all: a challenger to come may read others
        return issued

    def settle(self, issued: Pending, y: Label | None, w: float | None = None, t: Time | None = None) -> None:
        """Compare what was issued with its label, and have all calibrators learn it: see `Calibrator.settle`.

        Calibrators that were added after the prediction was issued learn the label, but are not compared by it.
        """
        settle(self, issued, y, w, t)

    def _issue_keyed(self, score: float, keys: Any, t: Time | None, w: float) -> tuple[float, array[float]]:
        """Return the champion's probability, and the number, probability and record of each calibrator."""
        calibrators = self._calibrators.items()
        for _, calibrator in calibrators:
            if calibrator.fields:  # any may refuse the observation, and a `Multicalibrated` sets its stakes aside
                calibrator.predict_one(score, t, keys=keys)
        issued = {name: own._issue_keyed(score, keys, t, w) for name, own in calibrators if not own.fields}
        issued |= {name: own._issue_keyed(score, keys, t, w) for name, own in calibrators if own.fields}
        written = array("d")
        for name in self._calibrators:
            p, record = issued[name]
            written.extend((self._numbers[name], p, len(record or ()), *(record or ())))
        return issued[self.version.name][0], written

    def _learn_keyed(
        self, score: float, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        """Learn the label of a prediction of which `_issue_keyed` returned the record."""
        self._learn(score, keys, self._read(record or ()), check_label(y), check_weight(w), t)

    def _give_up_keyed(self, score: float, keys: Any, record: Sequence[float] | None) -> None:
        """Give up a prediction: stakes that were set aside go back."""
        self._learn(score, keys, self._read(record or ()), None, 0.0, None)

    def _read(self, record: Sequence[float]) -> Predictions:
        """Read the record of a prediction, for the calibrators that are still in the shadow."""
        names = {number: name for name, number in self._numbers.items()}
        by_name: dict[str, float] = {}
        records: dict[str, Sequence[float]] = {}
        place = 0
        while place + 3 <= len(record):
            name, p, size = names.get(int(record[place])), record[place + 1], int(record[place + 2])
            place += 3
            if name is not None:
                by_name[name] = check_probability(min(max(p, 0.0), 1.0))
                if size > 0:
                    records[name] = record[place : place + size]
            place += max(size, 0)
        return Predictions(by_name, records)

    # -- of a `LabelJoin` ------------------------------------------------------------------------------------------

    merges = unlearns = False

    @property
    def scale(self) -> Scale:
        """The scale of the calibrator that takes the fewest scores."""
        scales = [calibrator.scale for calibrator in self._calibrators.values()]
        return min(scales, key=lambda scale: scale.domain[1] - scale.domain[0])

    def clone(self) -> Self:
        """Return a shadow with the same calibrators and names, nothing learned; the champion is its first version."""
        new, name = type(self)(self.champion.clone(), confidence=self.confidence), self.version.name
        new._calibrators, new._numbers = {name: new.champion}, {name: 0}
        new._versions = [Version(1, name, 0)]
        for other, calibrator in self.challengers.items():
            new.add(other, calibrator.clone())
        return new

    def same_parameters(self, other: Any) -> bool:
        """Return whether `other` is a shadow with equal confidence and equal calibrators under common names."""
        if not isinstance(other, Shadow) or self.confidence != other.confidence:
            return False
        common = self._calibrators.keys() & other._calibrators.keys()
        return all(self._calibrators[name].same_parameters(other._calibrators[name]) for name in common)

    # -- saving ------------------------------------------------------------------------------------------------------

    def _plain_params(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

    def _fields(self) -> dict[str, Field]:
        versions = listed(row(whole(1), text(LONGEST_NAME), whole()))
        calibrators, differences = self._calibrators.items(), self._differences.items()
        return {
            "n": attribute(self, "_n", whole()),
            "compared": attribute(self, "_compared", whole()),
            "versions": Field(versions, lambda: [list(version) for version in self._versions]),
            "calibrators": Field(unread, lambda: {name: calibrator._written() for name, calibrator in calibrators}),
            "differences": Field(unread, lambda: {name: [own.confidence, *own.state()] for name, own in differences}),
            "numbers": Field(_numbers, lambda: dict(self._numbers)),
        }

    def _state(self) -> dict[str, Any]:
        return write_fields(self._fields())

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        shadow = cls(Identity(), **params)
        shadow._load(**load_fields(shadow._fields(), learned))
        return shadow

    def _load(
        self, versions: list[Any], calibrators: dict[str, Any], differences: dict[str, Any], numbers: dict[str, int]
    ) -> None:
        """Load what `_state` has written into a new shadow."""
        ensure(numbers.keys() == calibrators.keys(), "calibrators have no numbers of their own")
        ensure(len(set(numbers.values())) == len(numbers), "two calibrators have one number")
        ensure(max(numbers.values(), default=0) <= self._compared, "a calibrator has a number of later ones")
        self._calibrators.clear()
        for name in sorted(numbers, key=lambda name: numbers[name]):  # as they came, in whatever order they are written
            calibrator: Any = Learner._from_written(calibrators[name])
            self._enter(name, calibrator)
        self._numbers = {name: numbers[name] for name in self._calibrators}
        self._versions = [Version(*version) for version in versions]
        ensure([version.number for version in self._versions] == [*range(1, len(versions) + 1)], "versions are missing")
        ensure(all(version.since <= self._n for version in self._versions), "a version is of a later time")
        ensure(self.version.name in self._calibrators, "the calibrator in use is missing")
        ensure(differences.keys() == self.challengers.keys(), "comparisons and challengers differ")
        ensure(self._compared >= len(differences), "there are more comparisons than were begun")
        for name in self.challengers:
            confidence, *sums = differences[name]
            ensure(self.confidence <= number(0.0, 1.0)(confidence) < 1.0, "a confidence is not possible")
            self._differences[name] = LogLossDifference(confidence, adaptive=True)
            self._differences[name].load(sums)
            ensure(self._differences[name].n <= self._n, "more outcomes were compared than learned")

    def __repr__(self) -> str:
        names = ", ".join(f"{name!r}: {calibrator!r}" for name, calibrator in self.challengers.items())
        return f"{type(self).__name__}({self.champion!r}, {{{names}}}, confidence={self.confidence!r})"


def _comparison(name: str, difference: LogLossDifference) -> Comparison:
    """Return a comparison, with the widest interval until both labels have occurred, whose weights may differ."""
    most = -math.log(difference.clip)
    return Comparison(
        name, difference.n, difference.get(), *(difference.interval if difference.both_labels else (-most, most))
    )


def _numbers(value: Any) -> Any:
    """Read the number of each calibrator by its name."""
    ensure(isinstance(value, dict), "calibrators have no numbers of their own")
    return {text(LONGEST_NAME)(name): whole()(position) for name, position in value.items()}


def _learned(
    own: Entrant, score: float, keys: Any, y: float | None, record: Sequence[float] | None, w: float, t: Time | None
) -> None:
    """Let a calibrator learn a label, or give it up where it is None."""
    if y is None and record is not None:
        own._give_up_keyed(score, keys, record)
    elif y is not None and record is None:
        own.learn_one(score, y > 0.0, w, t, keys=own._own_keys(keys))
    elif y is not None:
        own._learn_keyed(score, keys, y > 0.0, record, w, t)


def _method(calibrator: Any) -> Any:
    """Return a new calibrator of the given name, or the given calibrator."""
    return chosen(calibrator, Calibrator, REGISTRY) if isinstance(calibrator, str) else calibrator
