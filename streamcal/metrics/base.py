"""The contracts of a metric: `Summed`, common to all of them, and `Metric`, of probabilities and binary labels."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError, MergeError, RetractionError, StreamcalError
from streamcal.kernels.common.fast_path import fast_observation
from streamcal.metrics.cells import CellColumns, Forecasts, ProbabilityCells
from streamcal.names import Suggesting, parameter_names
from streamcal.parameters.inputs import FORECASTS, as_number, check_batch, check_label, check_weight
from streamcal.parameters.showing import html_table, shown_value
from streamcal.parameters.types import FloatArray, Label

#: The least part of a weight that may be left when it is taken from sums: rounding is then below 1e-6 of what is left.
LEAST_LEFT = 1e-9
#: Predictions from which on sums are made by column: below, a loop is as fast.
MANY = 256


class Summed(metaclass=Suggesting):
    """A metric that is a function of sums over observations, so that it can be merged and reverted.

    The order of the observations does not matter, and `merge` gives the state of one long stream.

    Notes
    -----
    The sums are plain, not compensated: n terms of one sign have a relative error of at most n ⋅ 1.1e-16, which is 1e-7
    after 1e9 observations. Beside its float weight a metric counts its observations, and its sums are exactly zero
    again once all of them were reverted. Reverting an observation with 10¹⁶ times the weight of the others destroys the
    digits of the others; where no weight is left, `get` is None.

    Cost: `update`, `revert` and `n` O(1), `merge` O(1), unless a class states otherwise.
    """

    #: Add (the sign, the last argument, is 1) or remove (−1) a checked observation, whose weight w > 0 comes before it.
    _add: Callable[..., None]
    #: The attributes that are sums, of which the class has the empty values; `_clear` and `_absorb` see to any others.
    _sums: ClassVar[tuple[str, ...]] = ("_sum",)
    _sum = 0.0

    def __init__(self) -> None:
        self._count = 0
        self._weight = 0.0
        self._clear()

    @abstractmethod
    def get(self) -> float | None:
        """Return the metric over all observations held; `None` if it is undefined, as before the first observation."""

    @property
    def n(self) -> float:
        """Total weight held. O(1)."""
        return self._weight

    def merge(self, other: Self) -> None:
        """Add all that `other` holds, as if both had been one stream; `other` is not changed.

        Parameters
        ----------
        other : same class
            A metric of the same class and parameters.

        Raises
        ------
        MergeError
            For any other class or parameters.
        """
        if type(other) is not type(self) or other._params() != self._params():
            raise MergeError(f"{self!r} cannot take {other!r}: give a metric of the same class and parameters")
        self._absorb(other)
        self._count += other._count
        self._weight += other._weight

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # sums are changed in place

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._params().items())
        return f"{type(self).__name__}({parameters})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the parameters, the weight held and the value."""
        try:
            value = self.get()
        except StreamcalError as error:  # of a solver
            shown = str(error)
        else:
            shown = "–" if value is None else f"{value:.6g}"
        parameters = {name: shown_value(number) for name, number in self._params().items()}
        return html_table(type(self).__name__, parameters | {"n": f"{self.n:,.6g}", "value": shown})

    def _params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def _take(self, *observation: Any) -> None:
        """Add a checked observation, whose weight w ≥ 0 comes last."""
        if observation[-1]:
            self._count += 1
            self._weight += observation[-1]
            self._add(*observation, 1)

    def _give_back(self, *observation: Any) -> None:
        """Remove an observation that `_take` has added."""
        if observation[-1]:
            self._require_removable(observation[-1])
            self._add(*observation, -1)
            self._released(observation[-1])

    def _require_removable(self, weight: float) -> None:
        """Raise a `RetractionError` where no observation of this weight can be taken from the sums.

        Where what is left is less than `LEAST_LEFT` of it, it has been rounded away in the sums.
        """
        if not self._count:
            raise RetractionError(f"{type(self).__name__} holds no observation that could be reverted")
        left = self._weight - weight
        if self._count > 1 and left < LEAST_LEFT * weight:
            raise RetractionError(
                f"without the weight {weight:g}, {type(self).__name__} has {max(left, 0.0):g} left, which rounding has "
                "reached; start a new one and give it the other observations"
            )

    def _released(self, weight: float) -> None:
        """Count one observation of this weight as taken from the sums."""
        self._count -= 1
        self._weight -= weight
        if not self._count:
            self._weight = 0.0
            self._clear()

    def _mean_term(self) -> float | None:
        """Return the sum of the terms of all observations over the weight; None before the first observation."""
        return self._sum / self._weight if self._weight > 0.0 else None

    def _clear(self) -> None:
        """Set the sums of an empty metric."""
        for name in self._sums:
            setattr(self, name, getattr(type(self), name))

    def _absorb(self, other: Self) -> None:
        """Add the sums of `other`, which may be this very object."""
        for name in self._sums:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Metric(Summed):
    """A metric of predicted probabilities `y_pred` against binary labels `y_true`, which come first as in River.

    An observation of weight 0 is checked and then ignored.

    Notes
    -----
    Cost: `update` and `revert` O(1), about a microsecond for the metrics that keep a few sums; `update_many` O(n), 2 to
    50 ns an observation.
    """

    #: Without sums a metric keeps cells of the probabilities; with sums it has an `_add` and an `_add_many` of its own.
    _sums: ClassVar[tuple[str, ...]] = ()

    def update(self, y_true: Label, y_pred: float, w: float = 1.0) -> None:
        """Add one observation.

        Parameters
        ----------
        y_true : bool, 0 or 1
            The label.
        y_pred : float
            The predicted probability, in [0, 1].
        w : float
            Weight ≥ 0.

        Raises
        ------
        InputError
            Where an argument is invalid; the metric is then unchanged.
        """
        if fast_observation(y_pred, y_true, w, 0.0, 1.0):
            self.update_checked(y_pred, 1.0 if y_true else 0.0, w)
        else:
            label = check_true(y_true)
            self.update_checked(check_probability(y_pred), label, check_weight(w))

    def update_checked(self, p: float, y: float, w: float) -> None:
        """Add an observation as `update` does, from checked floats: p in [0, 1], y 0.0 or 1.0, w ≥ 0."""
        if w:
            self._count += 1
            self._weight += w
            self._add(p, y, w, 1)

    def update_many(self, y_true: ArrayLike, y_pred: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add n observations: the same state as a loop of `update`, but for the rounding of sums.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_pred : array-like of shape (n,)
            Predicted probabilities, in [0, 1].
        w : array-like of shape (n,), optional
            Weights ≥ 0; 1 without it.

        Raises
        ------
        InputError
            Where an entry is invalid; nothing is added then.
        """
        self.update_forecasts(Forecasts.of(*check_forecasts(y_true, y_pred, w)))

    def update_forecasts(self, forecasts: Forecasts) -> None:
        """Add predictions as `update_many` does, from checked arrays that several metrics may share."""
        count = len(forecasts.p)
        if count >= MANY:
            self._add_many(forecasts)
            self._count += count
            self._weight += float(forecasts.w.sum())
        else:
            for row in zip(forecasts.p.tolist(), forecasts.y.tolist(), forecasts.w.tolist(), strict=True):
                self.update_checked(*row)

    def revert(self, y_true: Label, y_pred: float, w: float = 1.0) -> None:
        """Remove one earlier `update` with the same arguments.

        Raises
        ------
        InputError
            Where an argument is invalid.
        RetractionError
            Where no observation is held. Whether this very observation is among those held is not checked: sums cannot
            tell.
        """
        label, probability, weight = check_true(y_true), check_probability(y_pred), check_weight(w)
        self._give_back(probability, label, weight)

    def _clear(self) -> None:
        super()._clear()
        if not self._sums:
            self._cells = ProbabilityCells()

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        if not self._sums:
            self._cells.merge(other._cells)

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        if sign > 0:
            self._cells.add(p, y, w)
        elif not self._cells.take(p, y, w):
            raise RetractionError(f"no observation near probability {p!r} is held that could be reverted")

    def _add_many(self, forecasts: Forecasts) -> None:
        """Add checked observations of weights above 0."""
        self._cells.add_many(forecasts)

    def _columns(self) -> CellColumns | None:
        """Return the cells as arrays; None if the metric holds no weight."""
        if self._weight <= 0.0:
            return None
        columns = self._cells.columns()
        return columns if len(columns.p) else None


def check_true(y_true: Any, check: Callable[[Any], Any] = check_label) -> Any:
    """Check a label or an outcome; the `InputError` names the order of the arguments, in case they are swapped."""
    try:
        return check(y_true)
    except InputError as error:
        raise InputError(f"{error}{FORECASTS.hint}") from None


def check_forecasts(
    y_true: ArrayLike, y_pred: ArrayLike, w: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Check probabilities, labels and weights: float arrays of one length; `InputError` naming the first bad place."""
    probabilities, labels, weights = check_batch(y_pred, y_true, w, FORECASTS)
    return check_probabilities(probabilities), labels, weights


def check_probabilities(values: FloatArray) -> FloatArray:
    """Return the array if all entries are in [0, 1]; raise `InputError` otherwise."""
    outside = (values < 0.0) | (values > 1.0)
    if outside.any():
        check_probability(float(values[np.argmax(outside)]))
    return values


def check_probability(p: Any) -> float:
    """Check a probability and return it as a float in [0, 1]; `InputError` otherwise."""
    if p.__class__ is float and 0.0 <= p <= 1.0:  # fast path, without a call
        return p
    value = as_number(p, "probability", "give a float in [0, 1]")
    if not 0.0 <= value <= 1.0:
        raise InputError(f"probability {p!r} is not allowed; give a float in [0, 1]")
    return value
