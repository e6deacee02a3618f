"""`PrequentialFusion`: several fusions learn side by side, and the one with the smallest loss so far predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.fusion.base import AdditiveFusion, Fusion, FusionMap
from streamcal.fusion.bernstein_fusion import BernsteinFusion
from streamcal.fusion.missing import Missing, check_present_batch, coordinates_present
from streamcal.fusion.named_scores import Scores
from streamcal.learners.additive import require
from streamcal.learners.mixing import Candidates
from streamcal.parameters.inputs import CheckedTime, check_label, check_vector_batch, check_weight
from streamcal.parameters.numbers import one_of, real_number
from streamcal.parameters.types import FloatArray, Label, Time, Times
from streamcal.states import HEAVIEST, Field, numbers

#: The degrees tried by default: 5 is the paper's choice in §5.1; the number of coefficients doubles from each to the
#: next.
DEGREES = (1, 2, 3, 5)
#: The number of observations between solves of the default candidates. All predict before every observation.
REFRESH = 32


class PrequentialFusion(Candidates[AdditiveFusion[Any]], Fusion):
    """Predictions by the candidate with the smallest loss so far.

    The loss is L_k ← discount·L_k + w·(p_k − y)², with p_k predicted before y is learned. A degree, a family or a
    penalty is thus selected on data that no candidate had learned, and reselected when the stream changes. All
    candidates learn every observation.

    Parameters
    ----------
    candidates : tuple of AdditiveFusion or None
        At least one, all with the same number of scores; clones of them learn. Of equal losses the first one is
        selected. None is `BernsteinFusion` of the degrees 1, 2, 3 and 5, refreshed every 32 observations.
    missing : {"raise", "marginal"}
        See `AdditiveFusion`: with `"marginal"` the clones of the candidates have this policy; with `"raise"` (default)
        each has its own.
    discount : float
        In (0, 1]; 1 (default) weights all losses equally, less lets old ones fade: 0.999 has a memory of about 1,000.

    Raises
    ------
    InputError
        For candidates of another kind; for invalid input, before any candidate has learned it.

    Notes
    -----
    Cost: an observation takes the sum of the costs of all candidates, and a prediction of each, which may be a solve:
    give candidates `refresh_every`. The state depends on the order, so that there is no merge and no unlearning;
    forgetting is a policy of the candidates. Monotone if all candidates are.

    Examples
    --------
    >>> fusion = PrequentialFusion((BernsteinFusion(1), BernsteinFusion(4)))
    >>> for k in range(60):
    ...     fusion.learn_one([k % 10 / 9, k % 7 / 6], k % 10 > 4)
    >>> fusion.leader.degrees
    4
    """

    name = "prequential-fusion"
    summary = "of several fusions, the one with the smallest loss so far"
    #: Not guaranteed for the class, since candidates may be of any kind.
    monotone = False

    def __init__(
        self, candidates: tuple[AdditiveFusion, ...] | None = None, discount: float = 1.0, *, missing: Missing = "raise"
    ) -> None:
        fusions = candidates
        if fusions is None:
            fusions = tuple(BernsteinFusion(k, refresh_every=REFRESH) for k in DEGREES)
        if not isinstance(fusions, tuple) or not fusions:
            raise InputError(f"candidates={candidates!r} is not possible; give a tuple of fusions")
        for candidate in fusions:
            require(candidate, AdditiveFusion, "candidates", "fusions such as BernsteinFusion(3)")
        if len({candidate.n_scores for candidate in fusions}) > 1:
            raise InputError(f"candidates={candidates!r} take different numbers of scores; give all the same n_scores")
        self.discount = real_number(discount, "discount", "a number above 0 and at most 1", above=0.0, most=1.0)
        self.missing = one_of(missing, "missing", ("raise", "marginal"))
        self.candidates = candidates
        self.n_scores = fusions[0].n_scores
        self._candidates = [candidate.clone() for candidate in fusions]
        if missing == "marginal":
            self._candidates = [candidate.clone().set_params(missing=missing) for candidate in fusions]
        self._losses = [0.0] * len(fusions)

    @property
    def leader(self) -> AdditiveFusion:
        """The selected candidate; for reading only, not for learning."""
        return self._candidates[int(np.argmin(self._losses))]

    @property
    def losses(self) -> tuple[float, ...]:
        """The discounted loss of every candidate so far."""
        return tuple(self._losses)

    def _checked(self, scores: Scores, y: Label, w: float, t: Time | None) -> tuple[Any, float, float, float, int]:
        return scores, check_label(y), check_weight(w), self._time(t), 0

    def _checked_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        takes_missing = all(candidate._named.takes_missing for candidate in self._candidates)
        check = check_present_batch if takes_missing else check_vector_batch
        s, labels, weights = check(scores, self.n_scores, y, w)
        for candidate in self._candidates:
            coordinates_present(candidate._scales, s)
        return s, labels, weights, self._times(t, len(labels)), 0

    def _in_order(self, scores: Any) -> tuple[Any, tuple[str, ...] | None]:
        return self.leader._in_order(scores)

    def _keep_names(self, names: tuple[str, ...] | None) -> None:
        for candidate in self._candidates:
            candidate._keep_names(names)

    def _time(self, t: Time | None) -> float:
        at = None if t is None else CheckedTime(self._checked_time(t))
        return max(candidate._time(at) for candidate in self._candidates)

    def _times(self, t: Times | None, size: int) -> FloatArray:
        at = None if t is None else self._checked_times(t, size)
        return np.max([candidate._times(at, size) for candidate in self._candidates], axis=0)

    def _learn(self, x: Any, y: float, w: float, t: float, noted: int = 0) -> None:
        self._judge([candidate.predict_one(x, t) for candidate in self._candidates], x, y, w, t)

    def _judge(self, predicted: Sequence[float], x: Any, y: float, w: float, t: float) -> None:
        """Add the losses of the candidates' predictions, then let all candidates learn."""
        if w > 0.0:
            self._require_time(t)
            for k, (candidate, p) in enumerate(zip(self._candidates, predicted, strict=True)):
                self._losses[k] = self.discount * self._losses[k] + w * (p - y) ** 2
                candidate.learn_one(x, y, w, t)

    def _issue_keyed(self, x: Scores, keys: Any, t: Time | None, w: float) -> tuple[float, list[float]]:
        at = self._asked_time(t)
        predicted = [candidate.predict_one(x, at) for candidate in self._candidates]
        return predicted[int(np.argmin(self._losses))], predicted

    def _learn_keyed(
        self, x: Scores, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        _, label, weight, time, _ = self._checked(x, y, w, t)
        if record is None or len(record) != len(self._candidates) or not all(0.0 <= p <= 1.0 for p in record):
            raise InputError(f"{record!r} are not the predictions of {len(self._candidates)} candidates")
        for candidate in self._candidates:  # all of them before one has learned
            candidate._checked(x, label, weight, time)
        self._judge(record, x, label, weight, time)

    def _learn_many(self, x: Any, y: Any, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        self._require_times(t[w > 0.0])
        for row in zip(x.tolist(), y.tolist(), w.tolist(), t.tolist(), strict=True):
            self._learn(*row)

    def predict_one(self, scores: Scores, t: Time | None = None) -> float:
        return self.leader.predict_one(scores, self._asked_time(t))

    def predict_many(self, scores: ArrayLike, t: Time | None = None) -> FloatArray:
        return self.leader.predict_many(scores, self._asked_time(t))

    def map(self) -> FusionMap:
        return self.leader.map()

    def _fields(self) -> dict[str, Field]:
        losses = numbers(len(self._candidates), least=0.0, most=HEAVIEST)
        return {"losses": Field(losses, lambda: list(self._losses), self._load_losses), **super()._fields()}

    def _load_losses(self, losses: FloatArray) -> None:
        self._losses = losses.tolist()
