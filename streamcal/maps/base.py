"""`CalibrationMap` and `ScaledMap`, the abstract bases of calibration maps and their export; `IdentityMap`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError
from streamcal.maps import sql
from streamcal.maps.c_source import c_source
from streamcal.maps.js_source import js_source
from streamcal.maps.onnx_graph import folds_model, onnx_model
from streamcal.maps.portable import FORMAT
from streamcal.names import parameter_names
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.scales import Interval, Probability, Scale
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray

if TYPE_CHECKING:
    import onnx

#: Scores at which the graph of a map is drawn in a notebook.
GRAPH_POINTS = 101


class CalibrationMap(ABC):
    """A pure function score → probability: an immutable, thread-safe snapshot of a calibrator.

    Notes
    -----
    A prediction costs O(1) for sigmoids, O(degree) for polynomials and O(log m) for m steps or knots.
    """

    __repr__ = shown

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    def predict_one(self, score: float) -> float:
        """Return the probability at `score`; raise `InputError` outside the scale's range."""
        return self.at(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: ArrayLike) -> FloatArray:
        """Return the probabilities at scores of shape (n,)."""
        return like(scores, self.at_many(self.scale.coordinates(check_scores(scores))))

    def __call__(self, score: float) -> float:
        return self.predict_one(score)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the arguments, and the graph if scores are probabilities."""
        return shown_table(self, _graph(self) if self.scale.domain == Probability.domain else "")

    @abstractmethod
    def at(self, x: float) -> float:
        """Return the probability at a coordinate of `scale`."""

    @abstractmethod
    def at_many(self, x: FloatArray) -> FloatArray:
        """Return the probabilities at an array of coordinates of `scale`."""


class ScaledMap(CalibrationMap):
    """The base class of the maps that can be exported.

    A new kind of map defines `kind`, and has a formula under its kind in `streamcal.maps.portable.KINDS`.
    """

    #: The name of the kind in JSON.
    kind: ClassVar[str]
    #: The shape of its graph in a few words, for the tables of methods.
    shape: ClassVar[str] = "smooth"
    #: Whether the coordinates in `_content` are the scores themselves.
    of_scores: ClassVar[bool] = False

    # -- export --------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Write the map as JSON, in the format described in `docs/map_format.md`; `streamcal.load_map` reads it.

        Examples
        --------
        >>> from streamcal import Platt, load_map
        >>> cal = Platt()
        >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
        >>> serving = load_map(cal.map().to_json())
        >>> abs(serving(0.7) - cal.predict_one(0.7)) < 1e-12
        True
        """
        return json.dumps(self._plain(), allow_nan=False)

    def _plain(self) -> dict[str, Any]:
        """Return the map in the format of `docs/map_format.md`, as plain data."""
        exact = self._written()
        scale = scale_of_scores(exact.scale) if exact.of_scores else exact.scale
        return {"streamcal_map": FORMAT, "kind": exact.kind, "scale": scale.portable(), **exact._content()}

    def to_onnx(
        self, input: Literal["double", "float"] = "double", *, column: bool = False, folds: bool = False
    ) -> onnx.ModelProto:
        """Return the map as a model in ONNX, with the input `score` and the output `probability`.

        Parameters
        ----------
        input : {"double", "float"}
            Type of the scores. A float32 score is converted to double first, so that it falls on the side of each cut
            on which it falls in Python.
        column : bool
            Whether scores and probabilities have shape (n, 1); the default is shape (n,).
        folds : bool
            For a map of K folds: whether there is a score of each fold. The input is then `scores`, of shape (n, K).

        Returns
        -------
        onnx.ModelProto
            A model of opset 17. Its probabilities are of type double. NaN and scores outside the domain of the scale
            become NaN.

        Raises
        ------
        InputError
            If the type is unknown, or `folds` is given to a map without folds or with `column`.
        ModuleNotFoundError
            If the package onnx is not installed.

        Notes
        -----
        A prediction takes O(log m) operators for m steps or knots, and O(degree) for polynomials. By default a map of K
        folds uses one score in each fold.

        Examples
        --------
        >>> from streamcal import Platt
        >>> model = Platt().map().to_onnx()  # doctest: +SKIP
        >>> open("map.onnx", "wb").write(model.SerializeToString())  # doctest: +SKIP
        """
        if folds:
            if self.kind != "cross-interval" or column:
                raise InputError(f"folds=True is for maps of K folds, without column; {self!r} with column={column}")
            return folds_model(self._plain(), input)
        return onnx_model(self._plain(), input, column)

    def to_js(self) -> str:
        """Return the map as an ES module that exports `calibrate`, from a score to a probability; NaN for no score.

        A map of K folds also takes K scores, one per fold.

        Examples
        --------
        >>> from streamcal import Platt
        >>> "export function calibrate(score) {" in Platt().map().to_js()
        True
        """
        return js_source(self._plain())

    def to_c(self, name: str = "calibrate") -> str:
        """Return the map as C source: one translation unit that needs nothing but libm.

        Parameters
        ----------
        name : str
            The name of the function of one score; that of the function of arrays ends in ``_many``.

        Returns
        -------
        str
            C99, which is C++17 too. NaN and scores outside the domain of the scale become NaN.

        Raises
        ------
        InputError
            If the name is no identifier of C.

        Examples
        --------
        >>> from streamcal import Platt
        >>> "double calibrate(double score);" in Platt().map().to_c()
        True
        """
        return c_source(self._plain(), name)

    def to_sql(self, column: str, dialect: str = "sqlite") -> str:
        """Return the map as an SQL expression of `column`, which is inserted verbatim.

        Parameters
        ----------
        column : str
            A name, a quoted name, or an expression in parentheses.
        dialect : {"sqlite", "postgresql", "duckdb", "bigquery", "spark", "snowflake", "clickhouse"}
            The database. PostgreSQL and Snowflake get typed literals, and arithmetic that cannot underflow; BigQuery
            gets arithmetic that cannot overflow. BigQuery, Snowflake and ClickHouse are run by no test.

        Returns
        -------
        str
            CASE, comparisons and arithmetic. LN and EXP occur where the scale is `Logit` or the map is made of
            sigmoids. The result is NULL for NULL, NaN and scores outside the domain of the scale; scores beyond its
            bounds are clamped.

        Raises
        ------
        InputError
            If the dialect is unknown, or the column is no text.

        Examples
        --------
        >>> from streamcal import HistogramBinning
        >>> cal = HistogramBinning(bins=2, resolution=None)
        >>> cal.learn_many([0.125, 0.25, 0.75, 0.75], [0, 0, 0, 1])
        >>> cal.map().to_sql("pctr")
        'CASE WHEN pctr >= 0.0e0 AND pctr <= 1.0e0 THEN CASE WHEN pctr < 0.5e0 THEN 0.0e0 ELSE 0.5e0 END END'
        """
        if not isinstance(column, str):
            raise InputError(
                f"column={column!r} is no text; give one column. For a score of each fold use to_onnx(folds=True), or "
                "to_json() with load_map or an evaluator in maps/"
            )
        if dialect not in sql.DIALECTS:
            raise InputError(f"dialect={dialect!r} is unknown; known are {', '.join(sql.DIALECTS)}")
        with sql.writing_for(dialect):
            return sql.expression(self._plain(), column)

    def _written(self) -> ScaledMap:
        """Return the same function as a map that can be written."""
        return self

    def _content(self) -> dict[str, Any]:
        """Return the parameters of the map for `streamcal.maps.portable.KINDS`, as plain data: its own arguments."""
        names = [name for name in parameter_names(type(self)) if name not in ("scale", "grid")]
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}


class IdentityMap(ScaledMap):
    """The score itself, interpreted as a probability."""

    kind = "identity"

    def at(self, x: float) -> float:
        return self.scale.probability(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        return self.scale.probabilities(x) + 0.0


def _graph(map: CalibrationMap) -> str:
    """Draw the graph of a map of probabilities as a small SVG, with the diagonal."""
    scores = np.linspace(0.0, 1.0, GRAPH_POINTS)
    pairs = zip(100.0 * scores, 100.0 - 100.0 * map.predict_many(scores), strict=True)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)
    return (
        '<svg viewBox="0 0 100 100" width="120" height="120" role="img" style="border:1px solid #999" '
        'aria-label="probability over score, both from 0 to 1">'
        '<path d="M0 100L100 0" stroke="#999" stroke-dasharray="4 3"/>'
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="2"/></svg>'
    )


def scale_of_scores(scale: Scale) -> Scale:
    """Return the scale with the same domain whose coordinate is the rising score."""
    kind = Probability if scale.domain == Probability.domain else Interval
    return kind(decreasing=scale.decreasing)


def frozen(values: ArrayLike) -> FloatArray:
    """Return a read-only copy."""
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy
