"""Corrections of probabilities for how the training data of a model differ from its traffic: pure functions."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_label, check_scores
from streamcal.parameters.numbers import real_number
from streamcal.parameters.types import FloatArray, Label


@overload
def undo_downsampling(p: float, rate: float) -> float: ...
@overload
def undo_downsampling(p: ArrayLike, rate: float) -> FloatArray: ...
def undo_downsampling(p: Any, rate: float) -> Any:
    """Return the probability q = p/(p + (1 − p)/w) for traffic in which negatives are not sampled.

    Parameters
    ----------
    p : float or array-like of shape (n,)
        Probabilities of a model that was trained on all positives and on a share of the negatives.
    rate : float
        That share w, above 0 and at most 1.

    Returns
    -------
    float or ndarray of shape (n,)

    Raises
    ------
    InputError
        For a probability outside [0, 1] or another rate.

    References
    ----------
    X. He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, §6.3.

    Examples
    --------
    >>> round(undo_downsampling(0.5, 0.01), 6)  # one positive to one of a hundred negatives
    0.009901
    """
    w = _share(rate, "rate")
    if w == 0.0:
        raise InputError("rate=0.0 is not possible: without negatives there is no probability; give a number above 0")
    odds = _probabilities(p)
    corrected = odds / (odds + (1.0 - odds) / w)
    return _shaped_like(p, corrected)


def importance_weight(y: Label, rate: float) -> float:
    """Return the weight of a label if only a share `rate` of the negatives is sampled: 1, or 1/`rate` of a negative.

    With these weights, a sample teaches the probabilities of all traffic:
    `learn_one(score, y, w=importance_weight(y, rate))`, and with late labels
    `join.resolve(id, y, t, w=importance_weight(y, rate))`.

    Raises
    ------
    InputError
        For a label that is not 0 or 1, or a rate that is not above 0 and at most 1.

    Examples
    --------
    >>> importance_weight(True, 0.01), importance_weight(False, 0.01)
    (1.0, 100.0)
    """
    w = _share(rate, "rate")
    if w == 0.0:
        raise InputError("rate=0.0 is not possible: negatives that are not there have no weight; give a number above 0")
    return 1.0 if check_label(y) else 1.0 / w


@overload
def shift_prior(p: float, trained: float, served: float) -> float: ...
@overload
def shift_prior(p: ArrayLike, trained: float, served: float) -> FloatArray: ...
def shift_prior(p: Any, trained: float, served: float) -> Any:
    """Return the probability where the share of positives is `served` instead of `trained`, all else being equal.

    Parameters
    ----------
    p : float or array-like of shape (n,)
        Probabilities, right where the share of positives is `trained`.
    trained, served : float
        The shares of positives, between 0 and 1.

    Returns
    -------
    float or ndarray of shape (n,)
        Its odds are those of p times the ratio of the odds of `served` and `trained`.

    Raises
    ------
    InputError
        For a probability outside [0, 1] or another share.

    References
    ----------
    M. Saerens, P. Latinne and C. Decaestecker, Adjusting the outputs of a classifier to new a priori probabilities,
    Neural Computation 14, 2002, equation 2.4.

    Examples
    --------
    >>> round(shift_prior(0.5, trained=0.5, served=0.02), 12)
    0.02
    """
    old, new = _share(trained, "trained"), _share(served, "served")
    if not (0.0 < old < 1.0 and 0.0 < new < 1.0):
        raise InputError(f"trained={trained!r}, served={served!r} are not possible; give numbers between 0 and 1")
    probabilities = _probabilities(p)
    positive, negative = probabilities * (new / old), (1.0 - probabilities) * ((1.0 - new) / (1.0 - old))
    return _shaped_like(p, positive / (positive + negative))


def _share(value: Any, name: str) -> float:
    return float(real_number(value, name, "a number from 0 to 1", least=0.0, most=1.0))


def _probabilities(p: ArrayLike) -> FloatArray:
    """Check one or more probabilities, and return them as an array of shape (n,)."""
    values: Any = p if np.ndim(p) else [p]
    array = check_scores(values)
    outside = (array < 0.0) | (array > 1.0)
    if outside.any():
        raise InputError(f"{array[np.argmax(outside)].item()!r} is no probability; give numbers from 0 to 1")
    return array


def _shaped_like(p: ArrayLike, result: FloatArray) -> Any:
    """Return a float for one probability, or an array like the given one."""
    return like(p, result) if np.ndim(p) else float(result[0])
