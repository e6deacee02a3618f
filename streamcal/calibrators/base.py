"""`Calibrator`: the contract of the methods of one score."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.lazy import imported
from streamcal.learners.learner import Learner, in_turn
from streamcal.learners.pending import Pending, pending_of
from streamcal.maps.base import CalibrationMap
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import (
    check_batch,
    check_label,
    check_score,
    check_scores,
    check_weight,
    none_is_zero,
    row_times,
)
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time, Times

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Calibrator(Learner):
    """A method of one score: it learns which labels followed scores, and predicts a probability.

    The laws of these methods are listed in `docs/architecture.md`.
    """

    #: Whether a higher score never gets a lower probability.
    monotone: ClassVar[bool] = True
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False
    #: Whether times, where they are given, change what is learned beyond what forgetting does.
    learns_time: ClassVar[bool] = False
    noted: ClassVar[str | None] = "clamped"
    #: The names that are read from `keys`: none. A `Segmented` and a `Multicalibrated` have some.
    fields: ClassVar[tuple[str, ...]] = ()
    scale: Scale

    @property
    def overall(self) -> Calibrator:
        """The calibrator itself, which learns all observations; that of a `Segmented` is a part of it."""
        return self

    @property
    def reads_time(self) -> bool:
        """Whether predictions depend on times: of the day, or of observations that are forgotten by time."""
        return self.learns_time or self.forgets_by_time

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`.

        `keys` are refused here and in the other methods: a calibrator of a score alone reads none.
        """
        self._refuse(keys)
        self._learn(*self._checked(score, y, w, t))

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
    ) -> None:
        """Learn arrays of shape (n,): the same state as a loop of `learn_one`. On an error nothing is learned.

        A scalar weight applies to every row.
        """
        self._refuse(keys)
        self._learn_arrays(scores, y, w, t)

    def _learn_arrays(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> None:
        """Check arrays and learn them."""
        self._learn_many(*self._checked_many(scores, y, w, t))

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the present map of scores to probabilities, with the interval of a method that has one.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None
            Axes to draw on; by default those of a new figure, which pyplot does not know.
        options
            `scores`, `spacing` and `title` of `streamcal.plot.plot_calibrator`.

        Returns
        -------
        Axes
            In a notebook show `cal.plot().figure`.

        Raises
        ------
        StreamcalError
            Without matplotlib, which the extra `plot` installs.

        Examples
        --------
        >>> from streamcal import VennAbers
        >>> cal = VennAbers()
        >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
        >>> cal.plot(spacing="sqrt").get_xlabel()
        'score'
        """
        draw: Any = imported("streamcal.app.plot.plot_calibrator")  # by its name: pictures are made above this package
        axes: Axes = draw(self, ax, **options)
        return axes

    def unlearn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Remove an earlier `learn_one` with the same arguments, exactly."""
        self._refuse(keys)
        self._unlearn(*self._checked(score, y, w, t))

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

        Parameters
        ----------
        scores, y : array-like of shape (n,)
            Scores and labels.
        w : array-like of shape (n,) or None
            Weights; an observation of weight 0 is predicted and not learned.
        t : array-like of shape (n,) or None
            Times; each prediction is as of the time of its own observation.
        keys
            None, as in `learn_one`.

        Returns
        -------
        ndarray of shape (n,)
            The result of `predict_one(scores[i], t[i])` before `learn_one(scores[i], y[i], w[i], t[i])`, to the last
            bit; the state afterwards is that of this loop. With a pandas `Series` of scores, a Series.

        Raises
        ------
        InputError
            For a bad value in any row; then nothing is learned.

        Examples
        --------
        >>> from streamcal import HistogramBinning
        >>> HistogramBinning(1).predict_learn_many([0.5, 0.25, 0.75], [1, 0, 1]).tolist()
        [0.5, 1.0, 0.5]
        """
        self._refuse(keys)
        probabilities = self._streamed(scores, y, w, t)
        if probabilities is None:
            rows = self._rows(scores, y, w, t)
            probabilities = np.array(in_turn(self.predict_one, self.learn_one, rows), dtype=np.float64)
        return like(scores, probabilities)

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray | None:
        """Return the result of `predict_learn_many` by a compiled loop; without one, return None and learn nothing."""
        return None

    def _rows(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> Iterable[tuple[Any, ...]]:
        """Check all observations, then return an iterator over the arguments of `learn_one` for each of them."""
        _, labels, weights, times, _ = self._checked_many(scores, y, w, t)
        self._require_times(times[weights > 0.0])
        at = row_times(t, times)
        return zip(check_scores(scores).tolist(), (labels > 0.0).tolist(), weights.tolist(), at, strict=True)

    # `keys` may also be given by place in methods that are called for every event, and these methods test for them in
    # place: CPython 3.11 does not specialise calls of functions with keyword-only arguments, and a call costs 20 ns.
    @abstractmethod
    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""

    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        """Return the probabilities at scores of shape (n,), all as of time `t`; the state does not change."""
        self._refuse(keys)
        return like(scores, self._predict_many(scores, t))

    @abstractmethod
    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        """Return the probabilities at scores that have not been checked."""

    @abstractmethod
    def map(self) -> CalibrationMap:
        """Return the current calibration map, which is immutable."""

    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        """Do `predict_one` right before the label is learned: the prediction that was asked for, not a further one."""
        return self.predict_one(score, t)

    # -- late labels ---------------------------------------------------------------------------------------------

    def issue(self, score: float, t: Time | None = None, *, keys: Keys | None = None, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label.

        Parameters
        ----------
        score, t
            As for `predict_one`.
        keys
            None: a calibrator of a score alone reads no levels. `Segmented` does.
        w : float
            The weight of the observation, unless `settle` is given another one.

        Returns
        -------
        Pending
            Its `p` is the result of `predict_one(score, t)`.

        Raises
        ------
        InputError
            For an argument that is not allowed.

        Examples
        --------
        >>> from streamcal import Auto
        >>> cal = Auto()
        >>> first, second = cal.issue(0.2), cal.issue(0.7)
        >>> first.p == cal.predict_one(0.2)
        True
        >>> cal.settle(second, True)  # labels come in any order
        >>> cal.settle(first, None)  # this one never comes
        >>> cal.n
        1.0
        """
        self._refuse(keys)
        return pending_of(self, check_score(score), None, t, w)

    def _issue_keyed(self, x: float, keys: Any, t: Time | None, w: float) -> tuple[float, Sequence[float] | None]:
        p = self.predict_one(x, t)
        if not self._judged:
            return p, None
        return p, self._issue(self.scale.coordinate(x), math.nan if t is None else self._read_time(t))

    def _learn_keyed(
        self, x: float, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        if not record:
            self.learn_one(x, y, w, t)
            return
        coordinate, label, weight, time, noted = self._checked(x, y, w, t)
        if weight > 0.0:
            self._learn_issued(coordinate, label, weight, time, record)
            self._note(noted)

    def _require_keyed(
        self, x: float, keys: Any, y: Label | None, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        """Raise what `_learn_keyed` would raise; nothing changes. A label that is None is given up."""
        if y is not None:
            self._require_time(self._checked(x, y, w, t)[3])
            if record:
                self._require_issued(record)

    def _learn_at_once(self, x: float, keys: Any, y: Label, w: float, t: Time | None) -> None:
        if not self._judged:
            self.learn_one(x, y, w, t)
            return
        coordinate, label, weight, time, noted = self._checked(x, y, w, t)
        if weight > 0.0:
            self._learn_issued(coordinate, label, weight, time, self._issue(coordinate, time))
            self._note(noted)

    def _column_steps(self) -> Any:
        """Return the kernel whose steps a join takes in columns, such as `AutoSteps`; None without one."""
        return None

    def _learn_many_at_once(
        self, scores: ArrayLike, keys: Any, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> None:
        """Do `_learn_at_once` for arrays of shape (n,)."""
        (self.predict_learn_many if self._judged else self.learn_many)(scores, y, w, t)

    @property
    def _judged(self) -> bool:
        return type(self)._issue is not Calibrator._issue

    def _issue(self, x: float, t: float) -> Sequence[float] | None:
        """Return the numbers that `_learn_issued` needs about this prediction when its label arrives.

        The prediction is made at coordinate `x` and time `t`. A method that is not judged by its predictions returns
        None; a mixture returns the current predictions of its parts. The state does not change.
        """
        return None

    def _learn_issued(self, x: float, y: float, w: float, t: float, record: Sequence[float] | None) -> None:
        """Learn a checked observation whose prediction was issued earlier; `record` is what `_issue` returned then.

        Raise `InputError` if `_issue` cannot have returned it; nothing changes then.
        """
        self._learn(x, y, w, t)

    def _require_issued(self, record: Sequence[float] | None) -> None:
        """Raise `InputError` if `_learn_issued` does not accept the issued numbers; nothing changes."""

    # -- keys ----------------------------------------------------------------------------------------------------

    def _refuse(self, keys: Any) -> None:
        """Raise an `InputError` if there are keys: they would not be read."""
        if keys is not None:
            raise InputError(
                f"keys={str(keys)[:60]!r}: {self!r} reads the score alone; leave them out, or give keys to a Segmented"
            )

    def _own_keys(self, keys: Any) -> None:
        """Return what is read of the keys that several calibrators are given together."""

    def require_names(self, keys: Any) -> None:
        """Accept any keys: several calibrators may be given the same ones."""

    def require_columns(self, keys: Any, length: int) -> None:
        """Accept any columns: several calibrators may be given the same ones."""

    # -- checks --------------------------------------------------------------------------------------------------

    def _checked(self, score: float, y: Label, w: float, t: Time | None) -> tuple[float, float, float, float, int]:
        """Return coordinate, label, weight, time, and whether the score is clamped; or raise `InputError`."""
        s, label, weight, time = check_score(score), check_label(y), check_weight(w), self._time(t)
        x = self.scale.coordinate(s)
        at_bound = x == self.scale.lo or x == self.scale.hi
        return x, label, weight, time, at_bound and self.scale.clamps(s)

    def _checked_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        """Return coordinates, labels, weights, times, and how many scores are clamped; or raise `InputError`."""
        s, labels, weights = check_batch(scores, y, w)
        times = self._times(t, len(s))
        x = self.scale.coordinates(s)
        clamped = self.scale.count_clamped(s if none_is_zero(weights) else s[weights > 0.0])
        return x, labels, weights, times, clamped
