"""`AdditiveCalibrator`: the base of methods of one score that are functions of a mergeable statistic."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.following import Following
from streamcal.learners.additive import Additive, require
from streamcal.maps.base import CalibrationMap, IdentityMap, ScaledMap
from streamcal.memories.memory import StatisticT
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.prior import Prior, PseudoObservations
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Keys, Label, Time, Times
from streamcal.statistics.base import Piece
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.score_table import GridTable, ScoreTable, score_table

#: The statistic of most methods: weights by distinct score, or by cell of a grid.
Table = ScoreTable | GridTable


class Common(TypedDict, total=False):
    """The parameters that all of these methods have; see `AdditiveCalibrator`."""

    scale: Scale
    forgetting: Forgetting
    prior: Prior | None
    resolution: int | None
    refresh_every: int


class AdditiveCalibrator(Calibrator, Generic[StatisticT]):
    """A calibrator that is a function of a statistic: by default, of a table of scores.

    A subclass has `solve`, `new_statistic` if its statistic is no table, and a constructor only if it has parameters of
    its own: `def __init__(self, own=1, **common: Unpack[Common])`. Its signature then shows all of them.

    Parameters
    ----------
    scale : Scale
        The map from a score to the coordinate the method works in.
    forgetting : Forgetting
        See `streamcal.learners.additive.Additive`.
    prior : Prior or None
        Pseudo-observations along the identity map, for a stable start.
    resolution : int or None
        Cells of the grid on which the statistic is kept; None keeps every distinct score.
    refresh_every : int
        See `streamcal.learners.additive.Additive`. Where a method follows every observation at less than the cost of a
        refresh, its predictions do not lag: `Platt`, `Temperature`, `Beta`, `HistogramBinning` and
        `AdaptiveCalibration` on a grid, `CenteredIsotonic`, `SmoothIsotonic` without a penalty, and `BBQ` with less
        than 64 and without `Decay`.
    """

    #: The defaults of the class; a method that keeps no table on a grid has None.
    default_scale: ClassVar[Scale] = Probability()
    default_resolution: ClassVar[int | None] = 4096
    #: Whether `reader` predicts from the statistic itself, without solving for a map.
    reads_statistic: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]

    def __init__(self, **common: Unpack[Common]) -> None:
        unknown = common.keys() - Common.__annotations__
        if unknown:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {min(unknown)!r}")
        scale, prior = common.get("scale", self.default_scale), common.get("prior")
        forgetting, refresh_every = common.get("forgetting", Forever()), common.get("refresh_every", 1)
        require(scale, Scale, "scale", "Probability(), Logit(lo, hi), Interval(lo, hi) or EmpiricalCDF.from_scores(s)")
        if prior is not None:
            require(prior, Prior, "prior", "None or Prior(strength)")
        self.scale = scale
        self.prior = prior
        self.resolution = check_resolution(common.get("resolution", self.default_resolution))
        self.forgetting = forgetting
        self.refresh_every = whole_number(refresh_every, "refresh_every", 1)
        every = 1 if self._keeps_up() else self.refresh_every
        self._engine = Additive(self.new_statistic(), forgetting, every, self.pseudo_observations())
        self._memory = self._engine.memory
        self._timed = self._engine.forgets_by_time
        self._lo, self._hi = scale.identity_range
        self._first, self._last = scale.domain
        #: Checks and learns in one compiled call; None if times are needed, or if learning does more than update sums.
        self._door = None if self._timed or every > 1 else self._memory.door(scale)
        self._steady = self._memory.steady
        #: The prediction at a coordinate from the statistic that is held, NaN where it takes a map: set by methods that
        #: need no map for one prediction.
        self._at: Callable[[float], float] | None = None
        #: Finds the map from the cells of the table that have changed: set by methods that have such a kernel.
        self._following: Following | None = None

    def _keeps_up(self) -> bool:
        """Return whether predictions after every observation cost less than a refresh: then none is ever late."""
        return False

    def _read_by(self, cells: Any) -> None:
        """Let a kernel that needs no map, with `at` and `run`, read the cells of the table."""
        self._cells, self._at, self.streams = cells, cells.at, True

    def new_statistic(self) -> StatisticT:
        """Return an empty statistic for these parameters."""
        return cast(StatisticT, score_table(self.scale, self.resolution))

    def _grid_table(self) -> GridTable | None:
        """Return the table that is held if it is on a grid and is refreshed at every observation; else None."""
        statistic = self._memory.statistic
        return statistic if isinstance(statistic, GridTable) and self._engine.refresh_every == 1 else None

    def pseudo_observations(self) -> PseudoObservations | None:
        """Return the pseudo-observations of the prior; None if there is no prior."""
        return None if self.prior is None else self.prior.pseudo_observations(self.scale)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, keys: Keys | None = None
    ) -> None:
        if keys is not None:
            self._refuse(keys)
        if t is None and self._door is not None and self._door(score, y, w):
            self._memory.version += 1
            return
        self._learn(*self._checked(score, y, w, t))

    #: Whether `_stream` has a compiled loop.
    streams: bool = False

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray | None:
        columns = self._streamed_columns(1, scores, y, w, t)
        return None if columns is None else columns[0]

    def _streamed_columns(
        self, number: int, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> FloatArray | None:
        """Return what the compiled loop predicts before it learns each observation, shape (number, n).

        Return None and learn nothing without a compiled loop. Before the first observation, the prediction is the
        score.
        """
        if not self.streams or self._engine.refresh_every > 1:
            return None
        x, labels, weights, times, clamped = self._checked_many(scores, y, w, t)
        pieces = self._memory.pieces(x, labels, weights, times)
        if pieces is None:
            return None
        self._require_times(times[weights > 0.0])
        columns = np.empty((number, len(x)))
        for piece in pieces:
            self._stream(x[piece.rows], labels[piece.rows], piece, columns[:, piece.rows])
        self._note(clamped)
        nothing = np.isnan(columns[0])
        if nothing.any():
            columns[0, nothing] = self.scale.probabilities(x[nothing])
        return columns

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray) -> None:
        """Learn a piece of a batch, and write predictions before each row to `predictions`; NaN where none is held."""
        if self._following is not None:
            self._following.stream(self, x, y, piece, predictions)
        else:
            self._cells.run(cast(GridTable, self._memory.statistic).rows(x, y, piece), predictions[0])

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        if keys is not None:
            self._refuse(keys)
        if score.__class__ is float and self._lo <= score <= self._hi:
            x = score
        else:
            checked = score.__class__ is float and self._first <= score <= self._last
            x = self.scale.coordinate(score if checked else check_score(score))
        if self._at is not None:
            if t is not None or not self._steady:
                self._present(t)
            value = self._at(x)
            if value == value:
                return value
        return self._reader_at(t).at(x)

    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        x = self.scale.coordinates(check_scores(scores))
        # On a grid the map has the value of every cell.
        return (self._reader_at(t) if self.resolution is None else self._map_at(t)).at_many(x)

    def reader(self, statistic: StatisticT, start: ScaledMap | None) -> CalibrationMap:
        """Return the map that `solve` finds, or another reader of the statistic, valid until the statistic changes."""
        return self.solve(statistic, start)

    def _reader_at(self, t: Time | None) -> CalibrationMap:
        if self.reads_statistic:
            statistic = self._present(t)
            if statistic.n > 0.0:
                return self.reader(statistic, None)
        return self._engine.map_at(self, None if t is None else self._read_time(t))

    def _map_of(self, statistic: Any) -> ScaledMap:
        followed = None if self._following is None else self._following.map_of(statistic)
        return self._map_anew(statistic) if followed is None else followed

    def _map_anew(self, statistic: Any) -> ScaledMap:
        """Solve for the map; what follows the statistic starts from it."""
        solved: ScaledMap = self._engine.map_of(self, statistic)
        if self._following is not None:
            self._following.start(statistic, solved)
        return solved

    def _forget_solved(self) -> None:
        super()._forget_solved()
        if self._following is not None:
            self._following.forget()

    @abstractmethod
    def solve(self, statistic: StatisticT, start: ScaledMap | None) -> ScaledMap:
        """Fit the map to a non-empty statistic whose weights are in units of a new observation.

        The result depends only on the statistic and the parameters. `start`, the previous map or None, is a warm start
        for iterative solvers and changes the result by no more than the solver's tolerance. Raise `SolverError` if the
        solver does not succeed.
        """

    def empty_map(self) -> ScaledMap:
        """Return the map of an empty statistic."""
        return IdentityMap(self.scale)

    def map(self) -> ScaledMap:
        """Return the current map, which is immutable."""
        return self._map_at(None)


def _signature(cls: type[AdditiveCalibrator[Any]]) -> inspect.Signature:
    """Return the constructor's own parameters, then the common ones with the defaults of the class."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
        return inspect.Signature(own)
    defaults = {
        "scale": cls.default_scale,
        "forgetting": Forever(),
        "prior": None,
        "resolution": cls.default_resolution,
        "refresh_every": 1,
    }
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, keyword, default=default, annotation=Common.__annotations__[name].__forward_arg__)
        for name, default in defaults.items()
    ]
    return inspect.Signature([each for each in own if each.kind is not each.VAR_KEYWORD] + shared)
