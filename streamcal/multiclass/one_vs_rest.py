"""`OneVsRest`: any binary method for each label, renormalised."""

from __future__ import annotations

from typing import Any

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.learners.choosing import chosen
from streamcal.multiclass.binary_subproblems import BinarySubproblems
from streamcal.multiclass.strategies import OneAgainstRest


class OneVsRest(BinarySubproblems):
    """One binary calibrator for each label: p_L = c_L(s_L) / Σ_M c_M(s_M), where c_L has learned (s_L, y = L).

    Every label L of an observation, including the one that occurred, is a binary subproblem with the score s_L and the
    label y = L. So order, merging and retraction are those of the binary method. Where all c are 0, the prediction is
    the scores divided by their sum. Scores lie in [0, 1] and need not sum to one.

    Parameters
    ----------
    calibrator : str or Calibrator
        A name of the registry (`streamcal methods`) or a calibrator, whose clones learn. Its forgetting policy is
        applied to whole observations: a window by count holds the last observations of the stream, whatever their
        labels.

    Notes
    -----
    Each c_L is calibrated separately; their sum is not 1, and after the division by it they are not exactly calibrated.
    Cost: that of the binary method for each label of an observation, in time and in memory.

    References
    ----------
    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002.

    Examples
    --------
    >>> cal = OneVsRest("isotonic")
    >>> for scores, y in [({"a": 0.6, "b": 0.3, "c": 0.1}, "a"), ({"a": 0.5, "b": 0.25, "c": 0.25}, "c")]:
    ...     cal.learn_one(scores, y)
    >>> cal.predict_one({"a": 0.5, "b": 0.25, "c": 0.25})
    {'a': 0.0, 'b': 0.0, 'c': 1.0}
    """

    name = "one-vs-rest"
    summary = "any binary method for each label, renormalised"

    def __init__(self, calibrator: str | Calibrator = "beta") -> None:
        template = chosen(calibrator, Calibrator, REGISTRY, "a binary calibrator").clone()
        self.calibrator = calibrator if isinstance(calibrator, str) else template
        super().__init__(template, OneAgainstRest())

    def _compared(self) -> dict[str, Any]:
        method = chosen(self.calibrator, Calibrator, REGISTRY)
        return {**super()._compared(), "calibrator": [type(method).__name__, method._compared()]}
