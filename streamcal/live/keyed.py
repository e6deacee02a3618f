"""`Keyed`: the abstract base of methods that read keys beside the score, such as `Segmented`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.kernels.common.fast_path import fast_levels
from streamcal.learners.learner import Learner
from streamcal.learners.pending import Pending, pending_of
from streamcal.live.levels import LONGEST_LEVEL, Field, columns_of, levels_in, require_names
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_batch, check_label, check_score, check_weight
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time, Times


class Keyed(Learner):
    """A calibrator of all observations, `overall`, and what the levels of the fields `by` add to it.

    A mapping right after the score is read as `keys`, and what follows it as the arguments after the score.
    """

    #: The fields, single or tuples.
    by: tuple[Field, ...]
    #: The names that the fields are made of.
    _names: tuple[str, ...]

    @property
    @abstractmethod
    def overall(self) -> Calibrator:
        """The calibrator of all observations, without levels."""

    @property
    def bounded_memory(self) -> bool:
        return self.overall.bounded_memory

    @property
    def forgets_by_time(self) -> bool:
        return self.overall.forgets_by_time

    @property
    def has_interval(self) -> bool:
        """False: an interval of the calibrator is not one of the probability predicted."""
        return False

    @property
    def scale(self) -> Scale:
        """The scale of the scores, that of the calibrator."""
        return self.overall.scale

    @property
    def fields(self) -> tuple[str, ...]:
        """The names that are read from `keys`."""
        return self._names

    @property
    def n(self) -> float:
        return self.overall.n

    def _own_keys(self, keys: Any) -> Any:
        """Return what is read of the keys that several calibrators are given together."""
        return keys

    def require_names(self, keys: Any) -> None:
        """Raise an `InputError` for keys that seem to have a field under another name."""
        if isinstance(keys, Mapping):
            require_names(self._names, keys)

    def _levels(self, keys: Any) -> list[Any]:
        """Return the level of each field, None for a missing one; raise `InputError` for what is no level."""
        levels: list[Any] | None = fast_levels(keys, self.by, LONGEST_LEVEL)
        return levels_in(self.by, self._names, keys) if levels is None or None in levels else levels

    # -- predicting and learning -----------------------------------------------------------------------------------

    @abstractmethod
    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        """Return the probability of a positive label at `score` for these levels, as of time `t`."""

    @abstractmethod
    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        """Do `predict_one` right before the label is learned, as `Calibrator._predict_to_learn` does."""

    @abstractmethod
    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        """Return the probabilities at n scores, with n levels for each field, all as of time `t`."""

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Learn that `score`, with these levels, was followed by the label `y`, with weight `w` ≥ 0, at time `t`.

        Raises
        ------
        InputError
            For an argument that is not allowed; nothing is learned then.
        """
        levels = fast_levels(keys, self.by, LONGEST_LEVEL)
        if levels is None or None in levels:
            if keys is None and isinstance(y, Mapping):
                return self.learn_one(score, w, 1.0 if t is None else t, keys=y)  # type: ignore[arg-type]
            levels = self._levels(keys)
        label = 1.0 if y is True else 0.0 if y is False else check_label(y)
        weight = w if w.__class__ is float and w == 1.0 else check_weight(w)
        self._learn((score, keys, levels), label, weight, t)

    @abstractmethod
    def unlearn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Unlearn an earlier `learn_one` with the same arguments."""

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
    ) -> None:
        """Learn arrays of shape (n,): the same state as a loop of `learn_one`. On an error nothing is learned."""
        if keys is None and isinstance(y, Mapping):
            keys, y, w, t = y, w, t, None
        x, labels, weights = self._checked_many(scores, keys, y, w)
        self._learn_many(x, labels, weights, t)

    @abstractmethod
    def _learn(self, x: Any, y: float, w: float, t: Any, noted: int = 0) -> None:
        """Learn a checked observation, where x is its score, its keys and their levels."""

    def _learn_many(self, x: Any, y: FloatArray, w: FloatArray, t: Any, noted: int = 0) -> None:
        self._run(x, y, w, t, np.empty(0))

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
    ) -> FloatArray:
        """Predict and then learn each of n observations in order: a whole stream in one call.

        As `Calibrator.predict_learn_many`. `keys` are field → n levels, a list, an array or a column; missing levels
        are None, NaN or null.

        Examples
        --------
        >>> from streamcal.live import Segmented
        >>> cal = Segmented("identity", by=["device"])
        >>> cal.predict_learn_many([0.5, 0.5, 0.5], [1, 1, 0], keys={"device": ["a", "a", None]}).round(4).tolist()
        [0.5, 0.5267, 0.5164]
        """
        if keys is None and isinstance(y, Mapping):
            keys, y, w, t = y, w, t, None
        x, labels, weights = self._checked_many(scores, keys, y, w)
        predictions = np.empty(len(labels))
        self._run(x, labels, weights, t, predictions)
        return like(scores, predictions)

    def require_columns(self, keys: Any, length: int) -> None:
        """Raise an `InputError` for columns that are no levels of the fields, each of this length."""
        columns_of(self.by, keys, length)

    def _checked_many(
        self, scores: ArrayLike, keys: Columns | None, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[Any, FloatArray, FloatArray]:
        """Return scores with keys and levels by field, labels and weights; or raise `InputError`."""
        s, labels, weights = check_batch(scores, y, w)
        return (s, keys, columns_of(self.by, keys, len(s))), labels, weights

    @abstractmethod
    def _run(self, x: Any, y: FloatArray, w: FloatArray, t: Any, predictions: FloatArray) -> None:
        """Learn checked observations in order, and write predictions to `predictions`, unless empty."""

    # -- late labels -----------------------------------------------------------------------------------------------

    def issue(self, score: float, t: Time | None = None, *, keys: Keys | None = None, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label.

        Parameters
        ----------
        score, t
            As for `predict_one`.
        keys : mapping
            Field → level; only those of the calibrator's fields are kept.
        w : float
            The weight of the observation. A `Multicalibrated` fixes its stakes by it; elsewhere `settle` may be given
            another one.

        Returns
        -------
        Pending
            Its `p` is the result of `predict_one(score, t, keys=keys)`.

        Raises
        ------
        InputError
            For an argument that is not allowed; nothing changes then.

        Examples
        --------
        >>> from streamcal.live import Segmented
        >>> cal = Segmented("identity", by=["device"])
        >>> first, second = (cal.issue(0.5, keys={"device": name}) for name in ("a", "b"))
        >>> cal.settle(second, True)
        >>> cal.settle(first, None)  # its label never comes
        >>> cal.levels("device")
        ['b']
        """
        issued = pending_of(self, check_score(score), keys, t, w)
        levels: Any = keys  # a mapping: it has been read
        issued.keys = {name: levels[name] for name in self.fields if name in levels}
        return issued

    @abstractmethod
    def _issue_keyed(self, x: float, keys: Any, t: Time | None, w: float) -> tuple[float, Sequence[float]]:
        """Return the probability, and the numbers that `_learn_keyed` needs of it."""

    @abstractmethod
    def _learn_keyed(
        self, x: float, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        """Learn the label of a prediction that was issued with these arguments."""

    @abstractmethod
    def _require_keyed(
        self, x: float, keys: Any, y: Label | None, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        """Raise what `_learn_keyed` would raise, or `_give_up_keyed` where y is None; nothing changes.

        `record` is None for a label of an observation that was not issued.
        """

    @abstractmethod
    def _learn_at_once(self, x: float, keys: Any, y: Label, w: float, t: Time | None) -> None:
        """Do `learn_one` for a label of the prediction of now, as `Learner._learn_at_once` does."""

    def _column_steps(self) -> Any:
        """Return the steps that a join takes in columns, `SegmentedSteps`; None without them."""
        return None

    def _learn_many_at_once(
        self, scores: ArrayLike, keys: Any, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> None:
        self.learn_many(scores, y, w, t, keys=keys)

    def _time(self, t: Time | None) -> float:
        return self.overall._time(t)

    def _times(self, t: Times | None, size: int) -> FloatArray:
        return self.overall._times(t, size)


#: A calibrator of a score, with or without keys beside it.
Entrant: TypeAlias = Calibrator | Keyed


def rereadable(keys: Any) -> Any:
    """Return columns that can be read twice: iterators as lists."""
    if not isinstance(keys, Mapping):
        return keys
    return {name: list(column) if isinstance(column, Iterator) else column for name, column in keys.items()}
