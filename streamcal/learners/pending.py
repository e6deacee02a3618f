"""`Pending`: a prediction that waits for its label."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamcal.errors import InputError
from streamcal.parameters.inputs import check_weight, of_one_kind
from streamcal.parameters.types import Time


@dataclass(slots=True, eq=False)
class Pending:
    """A prediction that `issue` returned, for `settle` when its label is known.

    It is small and can be pickled, so that it can wait in a queue, a database or another process. The calibrator that
    issued it may have been saved and loaded since.

    Attributes
    ----------
    p : float
        The probability that was issued; a dict of probabilities where there are several classes, a distribution in
        regression.
    x : float
        The score; the scores where there are several of them, the predictive distribution in regression.
    keys : mapping or None
        The levels of the calibrator's fields.
    w : float
        The weight of the observation.
    t : float, datetime or None
        The time of the observation, as given.
    record : array, Pending or None
        Numbers by which the label will judge this prediction, as those of the parts of a mixture; None where a label
        is learned from `x` alone. For a wrapper of River, the prediction of its calibrator.
    issuer : str
        The name of the class that issued it.
    settled : bool
        Whether its label has been learned or given up.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> OnlinePlatt().issue(0.25)
    Pending(p=0.25, x=0.25)
    """

    p: Any
    x: Any
    keys: Mapping[str, Any] | None
    w: float
    t: Time | None
    record: array[float] | Pending | None
    issuer: str
    settled: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values without their names."""
        return Pending, (self.p, self.x, self.keys, self.w, self.t, self.record, self.issuer, self.settled)

    def __repr__(self) -> str:
        keys = "" if self.keys is None else f", keys={dict(self.keys)!r}"
        return f"Pending(p={self.p!r}, x={self.x!r}{keys}{', settled=True' if self.settled else ''})"


def pending_of(issuer: Any, x: Any, keys: Any, t: Time | None, w: float) -> Pending:
    """Predict x by the `_issue_keyed` of an issuer, and return the prediction."""
    weight = w if w.__class__ is float and w == 1.0 else check_weight(w)
    p, record = issuer._issue_keyed(x, keys, t, weight)
    return Pending(p, x, keys, weight, t, None if not record else array("d", record), type(issuer).__name__)


def settle(settler: Any, issued: Pending, y: Any, w: float | None, t: Time | None) -> None:
    """Learn the label of an issued prediction by the `_learn_keyed` of a settler, or give it up where y is None."""
    _require(issued, settler)
    if y is None:
        settler._give_up_keyed(issued.x, issued.keys, issued.record)
    else:
        if t is not None:
            of_one_kind(t, issued.t)
        weight, time = issued.w if w is None else w, issued.t if t is None else t
        settler._learn_keyed(issued.x, issued.keys, y, issued.record, weight, time)
    issued.settled = True


def _require(issued: Any, settler: Any) -> None:
    """Raise `InputError` unless this is a prediction of a calibrator of this class that waits for its label."""
    if not isinstance(issued, Pending):
        raise InputError(f"issued={str(issued)[:60]!r} is not possible; give what `issue` returned")
    # The class alone: an identity of the calibrator would be a part of its state, and equal states would differ.
    kind = type(settler).__name__
    if issued.issuer != kind:
        raise InputError(
            f"{issued!r} was issued by {issued.issuer}, and this is {kind}; settle it with the calibrator it is of"
        )
    if issued.settled:
        raise InputError(f"{issued!r} has been settled; settle each prediction once")
