"""The contract of fusion, several scores → one probability, and the base of its additive methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError, MergeError
from streamcal.fusion.missing import (
    Missing,
    check_present,
    check_present_batch,
    coordinates_present,
)
from streamcal.fusion.named_scores import NamedScores, Scores, coordinate, coordinates_of, names_of
from streamcal.learners.additive import Additive
from streamcal.learners.learner import Learner, in_turn
from streamcal.learners.pending import Pending, pending_of
from streamcal.memories.memory import StatisticT
from streamcal.parameters.columns import as_objects, like
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import (
    check_label,
    check_score,
    check_vector_batch,
    check_weight,
    row_times,
)
from streamcal.parameters.numbers import one_of
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray, Label, Time, Times
from streamcal.states import Field
from streamcal.statistics.present_scores import Places, PresentScores, by_places, places_of


class FusionMap(ABC):
    """A pure function of M scores: an immutable snapshot, safe for any number of threads.

    It takes scores in the order of their indices, or in the order of their names where they are named.
    """

    __repr__ = shown
    _repr_html_ = shown_table

    #: What its graph looks like, in a word or two, for the tables of methods.
    shape: ClassVar[str] = "smooth"
    #: Whether scores may be missing: None or NaN.
    takes_missing: bool = False

    def __init__(self, scales: tuple[Scale, ...]) -> None:
        self.scales = scales

    def predict_one(self, scores: Sequence[float] | NDArray[Any]) -> float:
        """Return the probability at M scores."""
        checked = check_present(scores) if self.takes_missing else [check_score(score) for score in scores]
        if len(checked) != len(self.scales):
            raise InputError(f"scores {scores!r} are {len(checked)}; give {len(self.scales)}")
        return self.at(coordinate(self.scales, checked))

    def predict_many(self, scores: ArrayLike) -> FloatArray:
        """Return the probabilities at scores of shape (n, M), shape (n,): columns as they come, a map has no names."""
        x = coordinates_of(self.scales, scores, self.takes_missing)
        return like(scores, self.at_many(x))

    def __call__(self, scores: Sequence[float]) -> float:
        return self.predict_one(scores)

    @abstractmethod
    def at(self, x: tuple[float, ...]) -> float:
        """Return the probability at the M coordinates `x`."""

    @abstractmethod
    def at_many(self, x: FloatArray) -> FloatArray:
        """Return the probabilities at coordinates of shape (n, M), shape (n,)."""


class MeanMap(FusionMap):
    """The mean of the scores, each read as a probability: the prediction before the first observation."""

    def at(self, x: tuple[float, ...]) -> float:
        return sum(scale.probability(coordinate) for scale, coordinate in zip(self.scales, x, strict=True)) / len(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        each = zip(self.scales, np.ascontiguousarray(x.T), strict=True)
        columns = [scale.probabilities(column) for scale, column in each]
        return np.sum(columns, axis=0) / len(columns)


class MarginalMap(FusionMap):
    """For each set of scores that an observation may have, the map fitted to all observations that have them.

    A map is solved when it is first needed, from a statistic that does not change.
    """

    takes_missing = True

    def __init__(self, scales: tuple[Scale, ...], fusion: AdditiveFusion[Any], statistic: PresentScores[Any]) -> None:
        super().__init__(scales)
        self._fusion = fusion
        self._statistic = statistic
        self._maps: dict[Places, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _marginal_map, (self.scales, self._fusion, self._statistic.state(), self._statistic.unit)

    def map_at(self, places: Places) -> Any:
        """Return the map of the scores at these places, solved at the first request."""
        own_map = self._maps.get(places)
        if own_map is None:
            own_map = self._fusion.at_places(places)._map_of(self._statistic.marginal(places))
            self._maps[places] = own_map
        return own_map

    def at(self, x: tuple[float, ...]) -> float:
        places = places_of(x)
        return self.map_at(places).at(tuple([x[place] for place in places]))

    def at_many(self, x: FloatArray) -> FloatArray:
        p = np.empty(len(x))
        for places, rows in by_places(x):
            p[rows] = self.map_at(places).at_many(np.ascontiguousarray(x[rows][:, places]))
        return p

    def interval_at(self, x: tuple[float, ...], w: float = 1.0) -> tuple[float, float]:
        """Return the pair (p₀, p₁) of a method that has intervals."""
        places = places_of(x)
        return self.map_at(places).interval_at(tuple([x[place] for place in places]), w)

    def intervals_at(self, x: FloatArray, w: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the pairs at coordinates of shape (n, M)."""
        lower, upper = np.empty(len(x)), np.empty(len(x))
        for places, rows in by_places(x):
            lower[rows], upper[rows] = self.map_at(places).intervals_at(np.ascontiguousarray(x[rows][:, places]), w)
        return lower, upper


def _marginal_map(scales: tuple[Scale, ...], fusion: AdditiveFusion[Any], state: Any, unit: float) -> MarginalMap:
    statistic = fusion._engine.memory.statistic.empty()
    statistic.restore(state)
    return MarginalMap(scales, fusion, statistic.present(unit))


class Fusion(Learner):
    """A method of several scores: it learns which labels followed them, and predicts one probability."""

    #: Whether a higher score, the others being equal, never gets a lower probability.
    monotone: ClassVar[bool] = True
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False
    #: M, the number of scores.
    n_scores: int
    #: Reads the scores by place or by name; None of a fusion whose candidates read them.
    _named: Any = None

    def _read_by(self, named: NamedScores) -> None:
        """Read scores by place or by name."""
        self._named, self.n_scores, self._scales = named, named.n_scores, named.scales

    def learn_one(self, scores: Scores, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `scores` were followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        observation = self._checked(scores, y, w, t)
        self._learn(*observation)
        if self._named is not None and observation[2] > 0.0 and isinstance(scores, Mapping):
            self._named.keep(names_of(scores))

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None) -> None:
        """Learn scores of shape (n, M) and arrays of shape (n,): the same state as a loop of `learn_one`.

        On an error nothing is learned.
        """
        ordered, names = self._in_order(scores)
        self._learn_many(*self._checked_many(ordered, y, w, t))
        self._keep_names(names)

    def unlearn_one(self, scores: Scores, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        self._unlearn(*self._checked(scores, y, w, t))

    def issue(self, scores: Scores, t: Time | None = None, *, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label: see `Calibrator.issue`.

        Examples
        --------
        >>> from streamcal.fusion import LogisticFusion
        >>> fused = LogisticFusion(2)
        >>> issued = fused.issue([0.2, 0.4])
        >>> fused.settle(issued, True)
        >>> issued.p == LogisticFusion(2).predict_one([0.2, 0.4]), fused.n
        (True, 1.0)
        """
        issued = pending_of(self, scores, None, t, w)
        # copied, since the caller may change them
        issued.x = dict(scores) if isinstance(scores, Mapping) else np.asarray(scores, dtype=object).tolist()
        return issued

    def predict_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None
    ) -> FloatArray:
        """Predict and then learn each of n observations in order: a whole stream in one call.

        As `Calibrator.predict_learn_many`, of scores of shape (n, M), a column a score; with a pandas `DataFrame` of
        them, the result is a Series.

        Examples
        --------
        >>> from streamcal.fusion import BernsteinFusion
        >>> fused = BernsteinFusion(1)
        >>> fused.predict_learn_many([[0.2, 0.4], [0.3, 0.3]], [0, 0]).round(6).tolist()
        [0.3, 0.0]
        """
        ordered, names = self._in_order(scores)
        probabilities = in_turn(self.predict_one, self.learn_one, self._rows(ordered, y, w, t))
        self._keep_names(names)
        return like(scores, np.array(probabilities, dtype=np.float64))

    def _in_order(self, scores: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Return scores of shape (n, M) with their columns in the order that is learned, and their names, if any."""
        return self._named.in_order(scores)

    def _keep_names(self, names: tuple[str, ...] | None) -> None:
        """Note the names of columns that have been learned."""
        if self.n > 0.0:
            self._named.keep(names)

    def _rows(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> Iterable[tuple[Any, ...]]:
        """Check all observations, then return an iterator over the arguments of `learn_one` for each of them."""
        _, labels, weights, times, _ = self._checked_many(scores, y, w, t)
        self._require_times(times[weights > 0.0])
        at = row_times(t, times)
        return zip(as_objects(scores).tolist(), labels.tolist(), weights.tolist(), at, strict=True)

    def _checked(self, scores: Scores, y: Label, w: float, t: Time | None) -> tuple[Any, float, float, float, int]:
        """Return coordinates, label, weight, time, and how many scores are clamped; or raise `InputError`."""
        s: list[float | None] = self._named.read(scores)
        label, weight, time = check_label(y), check_weight(w), self._time(t)
        return coordinate(self._scales, s), label, weight, time, self._named.clamped(s)

    def _checked_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        """Return coordinates (n, M), labels, weights, times and the number of clamped scores; or raise `InputError`."""
        check = check_present_batch if self._named.takes_missing else check_vector_batch
        s, labels, weights = check(scores, self.n_scores, y, w)
        times = self._times(t, len(labels))
        return coordinates_present(self._scales, s), labels, weights, times, self._named.count_clamped(s[weights > 0.0])

    @abstractmethod
    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        """Return the probability of a positive label at `scores`, as of time `t`; the state does not change."""

    @abstractmethod
    def predict_many(self, scores: ArrayLike, t: Time | None = None) -> FloatArray:
        """Return the probabilities at scores of shape (n, M), all as of `t`, shape (n,); the state does not change."""

    @abstractmethod
    def map(self) -> FusionMap:
        """Return the current map, which is immutable."""

    # -- state ---------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Field]:
        return {**({} if self._named is None else self._named.fields()), **super()._fields()}


class AdditiveFusion(Fusion, Generic[StatisticT]):
    """A fusion that is a function of a statistic of the tuples of coordinates.

    Parameters
    ----------
    n_scores : int
        M, at least 1.
    scale : Scale or tuple of Scale
        The scale of the scores: one for all, or M of them.
    missing : {"raise", "marginal"}
        What is done with an observation of which a score is missing: None, NaN, or a name that a dict does not have.
        `"raise"` (default) refuses it, since NaN is more often an error than a model that is down. `"marginal"` learns
        the scores that are there, and predicts by the fit to all observations that have those scores, as if there were
        no others. A statistic is kept for each set of scores that observations had.
    forgetting, refresh_every
        See `streamcal.learners.additive.Additive`.

    Notes
    -----
    Scores given as a dict are read in the order of their names, and the columns of a table of pandas, polars or Arrow
    as they come. The first dict or table that is learned fixes names and order, and has to have all of them, if with
    the score None; afterwards dicts and tables are read by name, other names are refused, and a sequence is read in
    the same order.
    """

    noted = "clamped"

    def __init__(
        self,
        *,
        n_scores: int = 2,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "raise",
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        self.missing = one_of(missing, "missing", ("raise", "marginal"))
        self._fusions: dict[Places, AdditiveFusion[StatisticT]] = {}
        self.scale = scale
        self._read_by(NamedScores(n_scores, scale, takes_missing=missing == "marginal"))
        self.forgetting, self.refresh_every = forgetting, refresh_every
        self._engine = Additive(self._empty_statistic(), forgetting, refresh_every)
        self.refresh_every = self._engine.refresh_every

    # -- the fits to the scores that are there -------------------------------------------------------------------

    def at_places(self, places: Places) -> AdditiveFusion[StatisticT]:
        """Return a fusion of only the scores at these places, with the same parameters, that has learned nothing."""
        fusion = self._fusions.get(places)
        if fusion is None:
            own = {"n_scores": len(places), "scale": tuple([self._scales[place] for place in places])}
            own |= {"missing": "raise", "forgetting": Forever(), "refresh_every": 1, **self._params_at(places)}
            fusion = self._fusions[places] = type(self)(**{**self.params(), **own})
        return fusion

    def _params_at(self, places: Places) -> dict[str, Any]:
        """Return the parameters that differ for the scores at these places, besides their number and scales."""
        return {}

    @abstractmethod
    def new_statistic(self) -> StatisticT:
        """Return an empty statistic for these parameters."""

    @abstractmethod
    def solve(self, statistic: StatisticT, start: FusionMap | None) -> FusionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""

    def _empty_statistic(self) -> Any:
        complete = self.new_statistic()  # which refuses parameters that are not possible
        return PresentScores(self._statistic_at, self.n_scores) if self._named.takes_missing else complete

    def _statistic_at(self, places: Places) -> StatisticT:
        return self.at_places(places).new_statistic()

    def _map_of(self, statistic: Any) -> FusionMap:
        if not self._named.takes_missing:
            return super()._map_of(statistic)
        copy = statistic.empty()
        copy.merge(statistic)
        return MarginalMap(self._scales, self.clone(), copy.present(statistic.unit))

    # -- learning ------------------------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        if self.same_parameters(other):
            names, theirs = self._named.names, other._named.names
            if None not in (names, theirs) and names != theirs:
                raise MergeError(f"cannot merge scores named {theirs} into scores named {names}")
        super().merge(other)
        self._named.keep(other._named.names)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        return float(self._map_at(t).at(coordinate(self._scales, self._named.read(scores))))

    def predict_many(self, scores: ArrayLike, t: Time | None = None) -> FloatArray:
        x = coordinates_of(self._scales, self._in_order(scores)[0], self._named.takes_missing)
        return like(scores, self._map_at(t).at_many(x))

    def map(self) -> FusionMap:
        return self._map_at(None)

    def empty_map(self) -> FusionMap:
        """Return the map of an empty statistic."""
        return MeanMap(self._scales)
