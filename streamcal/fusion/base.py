"""The contract of fusion, several scores → one probability, and the base of its additive methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streamcal.errors import InputError, MergeError
from streamcal.learners.additive import AdditiveLearner, require
from streamcal.learners.learner import Learner
from streamcal.memories.memory import Held
from streamcal.parameters.columns import like
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_label, check_score, check_scores_matrix, check_vector_batch, check_weight
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.showing import Shown
from streamcal.parameters.types import FloatArray, Label, Time

#: What may be given as scores: M numbers, or a dict of M names and numbers, which is read in the order of the names.
Scores: TypeAlias = Sequence[float] | npt.NDArray[Any] | Mapping[str, float]


class FusionMap(Shown, ABC):
    """A pure function of M scores: an immutable snapshot, safe for any number of threads.

    It takes scores in the order of their indices, or in the order of their names where they are named.
    """

    #: What its graph looks like, in a word or two, for the tables of methods.
    shape: ClassVar[str] = "smooth"

    def __init__(self, scales: tuple[Scale, ...]) -> None:
        self.scales = scales

    def predict_one(self, scores: Sequence[float] | npt.NDArray[Any]) -> float:
        """The probability at M scores."""
        given = [check_score(score) for score in scores]
        if len(given) != len(self.scales):
            raise InputError(f"scores {scores!r} are {len(given)}; give {len(self.scales)}")
        return self.at(tuple(scale.coordinate(s) for scale, s in zip(self.scales, given, strict=True)))

    def predict_many(self, scores: npt.ArrayLike) -> FloatArray:
        """The probabilities at scores of shape (n, M), shape (n,)."""
        x = coordinates(self.scales, check_scores_matrix(scores, len(self.scales)))
        return like(scores, self.at_many(x))

    def __call__(self, scores: Sequence[float]) -> float:
        return self.predict_one(scores)

    @abstractmethod
    def at(self, x: tuple[float, ...]) -> float:
        """The probability at the M coordinates `x`."""

    @abstractmethod
    def at_many(self, x: FloatArray) -> FloatArray:
        """The probabilities at coordinates of shape (n, M), shape (n,)."""


class MeanMap(FusionMap):
    """The mean of the scores, each read as a probability: the prediction before the first observation."""

    def at(self, x: tuple[float, ...]) -> float:
        return sum(scale.probability(one) for scale, one in zip(self.scales, x, strict=True)) / len(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        each = zip(self.scales, np.ascontiguousarray(x.T), strict=True)
        columns = [scale.probabilities(column) for scale, column in each]
        mean: FloatArray = np.sum(columns, axis=0) / len(columns)
        return mean


class Fusion(Learner):
    """A method of several scores: it learns which labels followed them, and predicts one probability."""

    #: Whether a higher score, the others being equal, never gets a lower probability.
    monotone: ClassVar[bool] = True
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False
    #: M, the number of scores.
    n_scores: int

    def learn_one(self, scores: Scores, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `scores` were followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        self._learn(*self._checked(scores, y, w, t))

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        """Learn scores of shape (n, M) and arrays of shape (n,): the same state as a loop of `learn_one`.

        On an error nothing is learned.
        """
        self._learn_many(*self._checked_many(scores, y, w, t))

    def unlearn_one(self, scores: Scores, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        self._unlearn(*self._checked(scores, y, w, t))

    @abstractmethod
    def _checked(self, scores: Scores, y: Label, w: float, t: Time | None) -> tuple[Any, float, float, float, int]:
        """Coordinates, label, weight, time, and how many scores are clamped; or an `InputError`."""

    @abstractmethod
    def _checked_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        """Coordinates (n, M), labels, weights, times, and how many scores are clamped; or an `InputError`."""

    @abstractmethod
    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        """The probability of a positive label at `scores`, as of time `t`. The state does not change."""

    @abstractmethod
    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """The probabilities at scores of shape (n, M), all as of time `t`, shape (n,). The state does not change."""

    @abstractmethod
    def map(self) -> FusionMap:
        """The current map, immutable."""


class AdditiveFusion(AdditiveLearner[Held, FusionMap], Fusion):
    """A fusion that is a function of a statistic of the tuples of coordinates.

    Parameters
    ----------
    n_scores : int
        M, at least 1.
    scale : Scale or tuple of Scale
        The scale of the scores: one for all, or M of them.
    forgetting, refresh_every
        See `streamcal.learners.additive.AdditiveLearner`.

    Notes
    -----
    Scores given as a dict are read in the order of their names. The first dict that is learned fixes the names;
    afterwards other names are refused, and a sequence is read in the same order.
    """

    def __init__(
        self,
        *,
        n_scores: int = 2,
        scale: Scale | tuple[Scale, ...] = Probability(),
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        if isinstance(n_scores, bool) or not isinstance(n_scores, int) or n_scores < 1:
            raise InputError(f"n_scores={n_scores!r} is not possible; give a whole number of at least 1")
        self.n_scores = n_scores
        self.scale = scale
        self._scales = scale if isinstance(scale, tuple) else (scale,) * n_scores
        if len(self._scales) != n_scores:
            raise InputError(f"scale has {len(self._scales)} scales for {n_scores} scores; give one, or one for each")
        for one in self._scales:
            require(one, Scale, "scale", "Probability(), Logit(lo, hi), Interval(lo, hi) or EmpiricalCDF, or a tuple")
        self._names: tuple[str, ...] | None = None
        super().__init__(forgetting=forgetting, refresh_every=refresh_every)

    noted = "clamped"

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, scores: Scores, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        observation = self._checked(scores, y, w, t)
        self._learn(*observation)
        if observation[2] > 0.0 and isinstance(scores, Mapping):
            self._names = tuple(sorted(scores))

    def _checked(self, scores: Scores, y: Label, w: float, t: Time | None) -> tuple[Any, float, float, float, int]:
        s = self._read(scores)
        label, weight, time = check_label(y), check_weight(w), self._time(t)
        clamped = sum(scale.clamps(one) for scale, one in zip(self._scales, s, strict=True))
        return self._coordinate(s), label, weight, time, clamped

    def _checked_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        s, labels, weights = check_vector_batch(scores, self.n_scores, y, w)
        times = self._times(t, len(labels))
        kept = np.ascontiguousarray(s[weights > 0.0].T)
        clamped = sum(scale.count_clamped(one) for scale, one in zip(self._scales, kept, strict=True))
        return coordinates(self._scales, s), labels, weights, times, clamped

    def merge(self, other: Self) -> None:
        if self.same_parameters(other) and None not in (self._names, other._names) and self._names != other._names:
            raise MergeError(f"cannot merge scores named {other._names} into scores named {self._names}")
        super().merge(other)
        self._names = self._names or other._names

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        return self._map_at(t).at(self._coordinate(self._read(scores)))

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        x = coordinates(self._scales, check_scores_matrix(scores, self.n_scores))
        return like(scores, self._map_at(t).at_many(x))

    def empty_map(self) -> FusionMap:
        return MeanMap(self._scales)

    # -- reading scores ------------------------------------------------------------------------------------------

    def _read(self, scores: Scores) -> list[float]:
        """M finite floats in the order of the scales."""
        if isinstance(scores, Mapping):
            if not all(isinstance(name, str) for name in scores):
                raise InputError(f"scores {scores!r} have names that are not texts; give a dict name -> score")
            names = tuple(sorted(scores))
            if self._names not in (None, names):
                raise InputError(
                    f"the scores are named {', '.join(names)}; those learned were {', '.join(self._names)}"
                )
            scores = [scores[name] for name in names]
        elif isinstance(scores, (str, bytes)) or not isinstance(scores, (Sequence, np.ndarray)):
            raise InputError(f"scores {scores!r} are not {self.n_scores} numbers; give a list, or a dict name -> score")
        if len(scores) != self.n_scores:
            raise InputError(f"scores {scores!r} are {len(scores)}; n_scores is {self.n_scores}")
        return [check_score(score) for score in scores]

    def _coordinate(self, s: list[float]) -> tuple[float, ...]:
        return tuple([scale.coordinate(one) for scale, one in zip(self._scales, s, strict=True)])

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        names = None if self._names is None else list(self._names)
        return {"names": names, **super()._state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._names = None if state["names"] is None else tuple(map(str, state["names"]))
        super()._restore(state)


def coordinates(scales: tuple[Scale, ...], scores: FloatArray) -> FloatArray:
    """The coordinates of scores, both of shape (n, M)."""
    columns = [scale.coordinates(np.ascontiguousarray(one)) for scale, one in zip(scales, scores.T, strict=True)]
    return np.column_stack(columns)
