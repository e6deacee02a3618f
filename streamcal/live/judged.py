"""`JudgedJoin`: a `LabelJoin` that tells the label of each prediction, in order of issue, when it is certain."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Self

from streamcal.errors import InputError
from streamcal.live.issued import Id, Issued
from streamcal.live.label_join import LabelJoin


class ConflictError(InputError):
    """An id that is remembered with another score."""


class JudgedJoin(LabelJoin):
    """A join with `on_label`, which is called with each prediction and its label when the horizon has passed.

    That is when the label is learned, or with `early` later: a click counts that came within the horizon, as the
    prediction says. Parameters, states and journals are those of `LabelJoin`.
    """

    on_label: Callable[[Issued, bool], object] | None = None

    def watch(self, on_label: Callable[[Issued, bool], object]) -> None:
        """Call `on_label` from now on."""
        self._unjudged = deque(one for one in self._learned if one.at > self._clock - self.spans.horizon)
        self.on_label = on_label

    @property
    def versions(self) -> list[tuple[Id | None, Any, float]]:
        """The versions of the model whose calibration is kept, the newest last.

        Each version has its name, its calibrator, and the calibrator's weight in predictions. The map of the version
        before has the rest of the weight.
        """
        kept = self._versions.items()
        return [(name, one.calibrator, 1.0 if one.before is None else 1.0 - one.weight) for name, one in kept]

    def known(self, id: Id) -> Issued | None:
        """Return the prediction of an id, if it is kept."""
        return self._index.get(id)

    def _settle(self) -> None:
        if self.on_label is not None:
            past = self._clock - self.spans.horizon
            while self._unjudged and self._unjudged[0].at <= past:
                self._judge(self._unjudged.popleft())
        super()._settle()

    def _learn(self, one: Issued) -> bool:
        if not super()._learn(one):
            return False
        if self.on_label is None:
            return True
        if one.at <= self._clock - self.spans.horizon:
            self._judge(one)
        else:
            self._unjudged.append(one)
        return True

    def _judge(self, one: Issued) -> None:
        if self._index.get(one.id) is not one:
            return  # forgotten for lack of room, with no regard to its label
        outcome = self._outcomes.get(one.id)
        assert self.on_label is not None
        self.on_label(one, outcome is not None and outcome.positive)

    def _issued_again(self, known: Issued, score: float) -> Issued:
        try:
            return super()._issued_again(known, score)
        except InputError as error:
            raise ConflictError(str(error)) from None

    def _written(self) -> dict[str, Any]:
        return {**super()._written(), "class": LabelJoin.__name__}

    @classmethod
    def _of_class(cls, name: Any) -> type[Self]:
        LabelJoin._of_class(name)
        return cls
