"""`OneVsRest`: any binary method for each label, renormalised."""

from __future__ import annotations

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import InputError
from streamcal.multiclass.binary_subproblems import BinarySubproblems
from streamcal.multiclass.strategies import OneAgainstRest


class OneVsRest(BinarySubproblems):
    """One binary calibrator a label: p_L = c_L(s_L) / Σ_M c_M(s_M), c_L having learned (s_M's own score, was it L?).

    For every label L of an observation, the one that came among them, the calibrator of L learns (s_L, y = L). So the
    order of observations, merging and retraction are matters of the binary method. Where all c are 0, the scores,
    divided by their sum, are predicted. Scores lie in [0, 1] and need not sum to one.

    Parameters
    ----------
    calibrator : str or Calibrator
        A name of the registry (`streamcal methods`) or a calibrator, whose clones learn; its forgetting included,
        which is of whole observations: a window by count holds the last of the stream, whichever labels took part.

    Notes
    -----
    An observation costs what the binary method costs, once for each of its labels. Each c is calibrated on its own;
    their sum is not 1, and what division by it makes of them is not. Zadrozny and Elkan 2002.

    >>> cal = OneVsRest("isotonic")
    >>> for scores, y in [({"a": 0.6, "b": 0.3, "c": 0.1}, "a"), ({"a": 0.5, "b": 0.25, "c": 0.25}, "c")]:
    ...     cal.learn_one(scores, y)
    >>> cal.predict_one({"a": 0.5, "b": 0.25, "c": 0.25})
    {'a': 0.0, 'b': 0.0, 'c': 1.0}
    """

    name = "one-vs-rest"
    summary = "any binary method for each label, renormalised"

    def __init__(self, calibrator: str | Calibrator = "beta") -> None:
        if isinstance(calibrator, str) and calibrator in REGISTRY:
            template: Calibrator = REGISTRY[calibrator]()
        elif isinstance(calibrator, Calibrator):
            template = calibrator = calibrator.clone()
        else:
            known = ", ".join(map(repr, REGISTRY))
            raise InputError(f"calibrator={calibrator!r} is not possible; give a binary calibrator or one of {known}")
        self.calibrator = calibrator
        super().__init__(template, OneAgainstRest())
