"""`SequentialCalibrator`: the methods that depend on the order of their observations by nature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.errors import warn
from streamcal.kernels.mixture.line_ladder import LineLadder
from streamcal.kernels.newton.online_newton import OnlineNewton
from streamcal.maps.base import ScaledMap
from streamcal.parameters.inputs import check_batch, check_score, check_scores, none_is_zero
from streamcal.parameters.order import in_blocks
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray, Keys, Label, Time, Times
from streamcal.states import Field, Reader


class SequentialCalibrator(Calibrator):
    """A calibrator that takes one step per observation. It neither merges nor unlearns; only `Auto` reads the time.

    A subclass sets `scale` and `_kernel` in its constructor, and has `map` and `_kernel_state`. A kernel has `weight`,
    `predict(x)`, `step(x, y, w)`, a loop of both, `stream(scores, y, w, predictions)`, `state()` and `load(*state)`.
    `predict_fast(score)` and `learn_fast(score, y, w)` are for a float, a bool and a float in range: they return NaN
    and False for other arguments, which are then checked and converted. A method without a kernel has `n`, `_predict`,
    `_step` and a state of its own.
    """

    bounded_memory = True
    _kernel: Any = None
    #: Returns the reader of the kernel's state.
    _kernel_state: Callable[[], Reader]
    #: Returns the record of a prediction p at the coordinate x from its bytes, in a method with `_issue_packed`.
    _unpacked: Callable[[float, float, bytes], list[float]]

    @property
    def n(self) -> float:
        return float(self._kernel.weight)

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, keys: Keys | None = None
    ) -> None:
        if self._kernel is None or keys is not None or not self._kernel.learn_fast(score, y, w):
            super().learn_one(score, y, w, t, keys=keys)

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        if keys is None and self._kernel is not None:
            p: float = self._kernel.predict_fast(score)
            if p == p:
                return p
        self._refuse(keys)
        return self._predict(self.scale.coordinate(check_score(score)))

    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        return self.map().at_many(self.scale.coordinates(check_scores(scores)))

    def _learn_arrays(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> None:
        self._run(scores, y, w, t, predicts=False)

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray:
        return self._run(scores, y, w, t, predicts=True)

    def _run(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None, predicts: bool) -> FloatArray:
        """Check all rows and learn them in order; the predictions before each, or an empty array."""
        s, labels, weights = check_batch(scores, y, w)
        times = self._times(t, len(s))
        self.scale.require(s)
        if self.n == 0.0:
            warn_of_blocks(labels)
        predictions = np.empty(len(s) if predicts else 0)
        self._stream(s, labels, weights, times, predictions)
        self._note(self.scale.count_clamped(s if none_is_zero(weights) else s[weights > 0.0]))
        return predictions

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, predictions: FloatArray) -> None:
        """Learn checked observations in order; write what is predicted before each to `predictions`, unless empty."""
        if self._kernel is not None:
            self._kernel.stream(scores, y, w, predictions)
            return
        x = self.scale.coordinates(scores)
        for i, row in enumerate(zip(x.tolist(), y.tolist(), w.tolist(), strict=True)):
            if len(predictions):
                predictions[i] = self._predict(row[0])
            if row[2] > 0.0:
                self._step(*row)

    def _column_steps(self) -> Any:
        kernel = self._kernel
        plain = isinstance(kernel, OnlineNewton) and kernel.limit == LOGIT_LIMIT and not self._judged
        return kernel if plain else None

    def _learn_packed(self, score: float, y: Label, w: float, t: Time | None, p: float, content: bytes) -> None:
        """Learn the label of a prediction p that was issued at a score, from what was packed with it."""
        x, label, weight, time, noted = self._checked(score, y, w, t)
        record = self._unpacked(x, p, content)
        if weight > 0.0:
            self._learn_issued(x, label, weight, time, record)
            self._note(noted)

    def _predict(self, x: float) -> float:
        """Return the probability at a coordinate."""
        return self.map().at(x) if self._kernel is None else float(self._kernel.predict(x))

    def _step(self, x: float, y: float, w: float) -> None:
        self._kernel.step(x, y, w)

    def _fields(self) -> dict[str, Field]:
        kernel = self._kernel
        if kernel is None:
            return super()._fields()
        written = Field(self._kernel_state(), lambda: list(kernel.state()), lambda state: kernel.load(*state))
        return {**super()._fields(), "kernel": written}

    @abstractmethod
    def map(self) -> ScaledMap:
        """Return the current map, which is immutable."""


def warn_of_blocks(labels: FloatArray) -> None:
    """Warn if the labels of a first batch are in blocks: what is learned last counts most."""
    positives = int(np.count_nonzero(labels))
    blocks = in_blocks(int(np.count_nonzero(labels[1:] != labels[:-1])), (positives, len(labels) - positives))
    if blocks is not None:
        warn(
            f"{blocks}: sequential methods follow the order of the rows; if these are sorted by label, sort them by "
            "time, or shuffle them"
        )


def newtons_of(predictors: Sequence[Any]) -> list[Any] | None:
    """Return the kernels of calibrators for `predict_each` and `learn_each`; None if any has no such kernel."""
    kernels = [getattr(predictor, "_kernel", None) for predictor in predictors]
    return kernels if all(isinstance(kernel, OnlineNewton | LineLadder) for kernel in kernels) else None
