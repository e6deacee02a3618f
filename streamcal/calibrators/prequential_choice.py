"""`PrequentialChoice`: candidates of one method with different parameters, mixed by their log loss so far."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.learners.mixing import Candidates, Mixture, limited
from streamcal.maps.base import CalibrationMap
from streamcal.parameters.inputs import CheckedTime, check_score, check_scores
from streamcal.parameters.scales import Interval, Probability
from streamcal.parameters.types import FloatArray, Keys, Time, Times
from streamcal.states import Field

#: Every candidate learns every observation.
MOST_CANDIDATES = 1_000


class PrequentialChoice(Candidates[Calibrator], Calibrator):
    """Choose a parameter on a stream: the mixture of one method's candidates, weighted by their log loss so far.

    Every candidate k predicts pₖ before each label y and then learns the label. The prediction is

        p = Σₖ vₖ pₖ,   vₖ ∝ exp(−Lₖ),   Lₖ = Σ −ln(pₖ if y else 1 − pₖ)   over all observations so far,

    with pₖ limited to [1e-9, 1 − 1e-9]. The summed log loss of p never exceeds that of the best of K candidates, known
    in hindsight, by more than ln K: no other choice has a smaller guarantee.

    Parameters
    ----------
    method : Calibrator, type or str
        A method of one score: an object, whose other parameters all candidates have, a class, or a name of `REGISTRY`.
    values : mapping or None
        Name of a parameter → its values. Several parameters are combined: two of 4 and 3 values are 12 candidates.
    **named
        The same as `values`: `degree=[5, 10, 20, 40]`. A parameter of a parameter is `forgetting__half_life`.

    Raises
    ------
    InputError
        For an unknown or impossible parameter, no candidate or more than 1,000, and for methods that are mixtures
        judged by their issued predictions themselves, such as `Auto`.

    Notes
    -----
    The weights concentrate on the best candidate: `weights()` has all of them and `leader` the best one. `map()` is
    the mixture's own map, which predicts what the calibrator predicts. For an export take `leader.map()`, the map of
    one candidate.

    With unequal weights of observations Lₖ is their weighted sum, divided by the largest weight m so far in vₖ. The
    bound is then m ln K, if no observation is heavier than all before it.

    Labels that come late judge the predictions that were issued, in a `LabelJoin`; elsewhere they judge the predictions
    at the time of the label. A mixture remembers losses of the distant past: on a stream that changes let candidates
    forget (`forgetting=[Decay(1_000), Decay(10_000)]`). The state depends on the order of observations: there is no
    merge and no unlearning.

    Cost: that of all candidates; each predicts before it learns. Give slow methods `refresh_every`.

    References
    ----------
    Dawid 1984 (prequential); Vovk 1990 (the aggregating algorithm); paper 002, §5.3, which cross-validates degree and λ
    of each method on a batch.

    Examples
    --------
    >>> from streamcal import Bernstein
    >>> cal = PrequentialChoice(Bernstein, degree=[1, 20])
    >>> for k in range(500):
    ...     cal.learn_one(k % 100 / 100, k % 100 >= 50)  # a step, which a straight line misses
    >>> cal.leader.degree, {name: round(weight, 6) for name, weight in cal.weights().items()}
    (20, {'degree=1': 0.0, 'degree=20': 1.0})
    >>> cal.predict_one(0.75) > 0.95
    True
    """

    name = "prequential-choice"
    summary = "candidates of one method with different parameters, mixed by their log loss so far"
    #: Not guaranteed for the class, since candidates may be of any kind.
    monotone = False
    noted = None

    def __init__(
        self,
        method: Calibrator | type[Calibrator] | str,
        values: Mapping[str, Iterable[Any]] | Iterable[tuple[str, Iterable[Any]]] | None = None,
        **named: Iterable[Any],
    ) -> None:
        if inspect.isclass(method) and issubclass(method, Calibrator):
            method = method()
        self.method: Calibrator = chosen(method, Calibrator, REGISTRY, "a method of one score", "method").clone()
        ranges = {**dict(() if values is None else values), **named}
        self.values = tuple((name, _listed(name, choices)) for name, choices in ranges.items())
        self._changes = _changes(self.method, self.values)
        self._candidates = [self.method.clone().set_params(**change) for change in self._changes]
        domains = {candidate.scale.domain for candidate in self._candidates}
        if len(domains) > 1:
            raise InputError(f"{self!r} has scales of different domains; give candidates the same scores")
        #: Coordinates are scores: candidates may have different scales.
        self.scale = Probability() if domains == {Probability.domain} else Interval()
        for own in self._candidates:
            if own._issue(own.scale.coordinate(0.5), 0.0) is not None:
                raise InputError(f"{own!r} cannot be a candidate: it mixes by issued predictions itself; use it alone")
        self._mixture = Mixture(len(self._candidates))

    def __repr__(self) -> str:
        choices = "".join(f", {name}={list(values)!r}" for name, values in self.values)
        return f"{type(self).__name__}({self.method!r}{choices})"

    # -- candidates ----------------------------------------------------------------------------------------------

    @property
    def candidates(self) -> tuple[Calibrator, ...]:
        """The candidates; for reading only, not for learning."""
        return tuple(self._candidates)

    @property
    def leader(self) -> Calibrator:
        """The candidate with the smallest log loss so far; for reading only, not for learning."""
        return self._candidates[self._mixture.leader()]

    @property
    def losses(self) -> tuple[float, ...]:
        """The summed log loss of every candidate so far, in nats."""
        return tuple(self._mixture.losses)

    def weights(self) -> dict[str, float]:
        """Return the weight of every candidate by its parameters; they sum to 1."""
        names = [", ".join(f"{name}={value!r}" for name, value in change.items()) for change in self._changes]
        return dict(zip(names, self._mixture.shares, strict=True))

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        self._refuse(keys)
        self.scale.coordinate(check_score(score))
        return self._mixture.of(self._forecasts(score, self._asked_time(t)))

    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        s = check_scores(scores)
        self.scale.require(s)
        at = self._asked_time(t)
        return _mixed(self._mixture.shares, [candidate.predict_many(s, at) for candidate in self._candidates])

    def map(self) -> MixtureMap:
        """Return the current map, which is immutable: the mixture of the candidates' maps."""
        return MixtureMap(self._mixture.shares, [candidate.map() for candidate in self._candidates])

    def _forecasts(self, score: float, t: Time | None) -> list[float]:
        """Return the candidates' limited predictions."""
        return [limited(candidate.predict_one(score, t)) for candidate in self._candidates]

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, x: float, y: float, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            at = None if math.isnan(t) else t
            self._require_time(t)
            self._take(x, y, w, at, self._forecasts(x, at))

    def _take(self, x: float, y: float, w: float, t: Time | None, forecasts: Sequence[float]) -> None:
        """Judge the predictions, then let all candidates learn."""
        self._mixture.learn(forecasts, y, w)
        for candidate in self._candidates:
            candidate.learn_one(x, y > 0.0, w, t)

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        self._run(x, y, w, t)

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray:
        return self._run(*self._checked_many(scores, y, w, t)[:4])

    def _run(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> FloatArray:
        """Let each candidate run over all rows, mix its predictions row by row, and return the mixtures."""
        self._require_times(t[w > 0.0])
        at = None if np.isnan(t).any() else t
        columns = [candidate.predict_learn_many(x, y > 0.0, w, at) for candidate in self._candidates]
        predictions = np.empty(len(x))
        for i, forecasts in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            probabilities = [limited(p) for p in forecasts]
            predictions[i] = self._mixture.of(probabilities)
            if w[i] > 0.0:
                self._mixture.learn(probabilities, float(y[i]), float(w[i]))
        return predictions

    def _issue(self, x: float, t: float) -> list[float]:
        return self._forecasts(x, None if math.isnan(t) else t)

    def _learn_issued(self, x: float, y: float, w: float, t: float, record: Sequence[float] | None) -> None:
        if record is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._require_issued(record)
            self._require_time(t)
            self._take(x, y, w, None if math.isnan(t) else t, record)

    def _require_issued(self, record: Sequence[float] | None) -> None:
        if record is not None and not (
            len(record) == len(self._candidates) and all(isinstance(p, float) and limited(p) == p for p in record)
        ):
            raise InputError(f"these are not the numbers that were issued with the prediction: {record!r}")

    # -- times ---------------------------------------------------------------------------------------------------

    def _time(self, t: Time | None) -> float:
        at = None if t is None else CheckedTime(self._checked_time(t))
        for candidate in self._candidates:
            candidate._time(at)
        return math.nan if at is None else at

    def _times(self, t: Times | None, size: int) -> FloatArray:
        at = None if t is None else self._checked_times(t, size)
        for candidate in self._candidates:
            candidate._times(at, size)
        return np.full(size, math.nan) if at is None else at

    # -- state ---------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Field]:
        return {**self._mixture.fields(), **super()._fields()}


# The names of the constructor's arguments are those of the saved parameters.
PrequentialChoice.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        parameter
        for parameter in inspect.signature(PrequentialChoice).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
)


class MixtureMap(CalibrationMap):
    """The weighted mean of several maps, whose probabilities are limited to [1e-9, 1 − 1e-9].

    It has no export; the map of the candidate with the largest weight has.
    """

    def __init__(self, weights: Sequence[float], maps: Sequence[CalibrationMap]) -> None:
        super().__init__(Interval())  # coordinates are scores: the maps may have different scales
        self.weights = tuple(weights)
        self.maps = tuple(maps)

    def at(self, x: float) -> float:
        pairs = zip(self.weights, self.maps, strict=True)
        return math.fsum(w * limited(own.at(own.scale.coordinate(x))) for w, own in pairs)

    def at_many(self, x: FloatArray) -> FloatArray:
        return _mixed(self.weights, [one.at_many(one.scale.coordinates(x)) for one in self.maps])


def _mixed(weights: Sequence[float], columns: Sequence[FloatArray]) -> FloatArray:
    """Return the weighted mean of limited predictions, as `Mixture.of` rounds it."""
    rows = np.multiply([[weight] for weight in weights], [[limited(p) for p in column.tolist()] for column in columns])
    return np.array([math.fsum(row) for row in rows.T.tolist()], dtype=np.float64)


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of a parameter, at least one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{name}={values!r} is not possible; give a list of values to choose from")
    choices = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if not choices:
        raise InputError(f"{name}={values!r} has nothing to choose from; give a list of values")
    return choices


def _changes(method: Calibrator, values: tuple[tuple[str, tuple[Any, ...]], ...]) -> list[dict[str, Any]]:
    """Return the parameters of each candidate."""
    if not values:
        raise InputError(f"no parameter of {method!r} is given values; give for example degree=[5, 10, 20]")
    number = math.prod(len(one) for _, one in values)
    if number > MOST_CANDIDATES:
        raise InputError(f"{number:,} candidates are too many; give at most {MOST_CANDIDATES:,}")
    names = [name for name, _ in values]
    return [dict(zip(names, one, strict=True)) for one in itertools.product(*(choices for _, choices in values))]
