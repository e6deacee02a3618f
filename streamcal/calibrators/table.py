"""`TableCalibrator` and `TreeCalibrator`: the methods that are functions of a score table, and of a score tree."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypedDict, Unpack

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_score
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import Time
from streamcal.statistics.grid import grid_of
from streamcal.statistics.score_table import GridTable, ScoreTable, score_table
from streamcal.statistics.score_tree import ScoreTree

Table = ScoreTable | GridTable


class TableParameters(TypedDict, total=False):
    """The parameters of all methods of a score table; see `TableCalibrator`."""

    scale: Scale
    forgetting: Forgetting
    prior: Prior | None
    resolution: int | None
    refresh_every: int


class TableCalibrator(AdditiveCalibrator[Table]):
    """A method that is a function of the table of distinct scores, or of cells of a grid.

    A subclass has `solve`, the defaults of scale and resolution where they are others, and a constructor only where it
    has parameters of its own: `def __init__(self, own=1, **common: Unpack[TableParameters])`. Its signature then shows
    all of them.

    Parameters
    ----------
    scale, forgetting, prior, refresh_every
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the table is kept; None keeps every distinct score.
    """

    default_scale: ClassVar[Scale] = Probability()
    default_resolution: ClassVar[int | None] = 4096

    def __init__(self, **common: Unpack[TableParameters]) -> None:
        parameters: TableParameters = {"scale": self.default_scale, "resolution": self.default_resolution}
        parameters.update(common)
        super().__init__(**parameters)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]

    def new_statistic(self) -> Table:
        """Return an empty statistic for these parameters."""
        return score_table(self.scale, self.resolution)


class TreeCalibrator(AdditiveCalibrator[ScoreTree]):
    """A method that is a function of the score tree, which maintains the isotonic fit of all scores."""

    by_ratios = True
    #: Whether predictions are the isotonic fit itself, and not that with a test object.
    is_fit: ClassVar[bool] = True
    #: Whether predictions read the centres of its blocks.
    is_centred: ClassVar[bool] = False

    def new_statistic(self) -> ScoreTree:
        """Return an empty statistic for these parameters."""
        grid = None if self.resolution is None else grid_of(self.scale, self.resolution)
        return ScoreTree(grid, self.scale, self.is_fit, self.is_centred)


class BlockCalibrator(TreeCalibrator):
    """A method whose prediction needs the blocks of the isotonic fit beside the score alone.

    `predict_one` finds them in the tree; `map()` and arrays of scores are served by `solve`.
    """

    is_centred = True

    def __init__(
        self,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
        refresh_every: int = 1,
    ) -> None:
        super().__init__(
            scale=scale, forgetting=forgetting, prior=prior, resolution=resolution, refresh_every=refresh_every
        )
        # Values at a coordinate do not depend on the unit of weight, and are read from the tree as it is held.
        self._at = self._value_at(self._memory.statistic) if self.refresh_every == 1 else None
        self._steady = self._memory.steady

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        if self._at is not None:
            own = score.__class__ is float and self._lo <= score <= self._hi
            x = score if own else self.scale.coordinate(check_score(score))
            if t is not None or not self._steady:
                self._present(t)
            value = self._at(x)
            if value == value:
                return value
        return super().predict_one(score, t)

    @abstractmethod
    def _value_at(self, tree: ScoreTree) -> Callable[[float], float]:
        """Return the function that predicts at a coordinate, and returns NaN if the map has to predict."""


def _signature(cls: type[TableCalibrator]) -> inspect.Signature:
    """Return the constructor's own parameters, then those of all table methods with the defaults of the class."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
        return inspect.Signature(own)
    common = inspect.signature(AdditiveCalibrator).parameters
    defaults = {"scale": cls.default_scale, "resolution": cls.default_resolution}
    shared = [one.replace(default=defaults.get(name, one.default)) for name, one in common.items()]
    return inspect.Signature([one for one in own if one.kind is not one.VAR_KEYWORD] + shared)
