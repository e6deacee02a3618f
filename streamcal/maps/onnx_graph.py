"""Calibration maps as ONNX: `onnx_model` for a map alone, `append_to_onnx` behind the model whose scores it calibrates.

The formulas are those of `streamcal.maps.portable`. Everything is computed in double precision, with operators that are
the same from opset 9 on: converters write the oldest opset that a model needs. Steps and knots are found by a binary
search without branches: ⌈log₂(k + 1)⌉ times a Gather and a comparison, for all scores at once. A float32 score becomes
the same double, so that it falls on the side of each cut on which it falls in Python.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamcal.errors import InputError
from streamcal.maps.portable import Reduced, Target, Term, of_folds, probability_of
from streamcal.parameters.types import FloatArray

if TYPE_CHECKING:
    import onnx

#: The operators that are used exist in this form from this version of the default domain on.
FIRST_OPSET = 9
#: What a new model is written for: ONNX Runtime 1.12, of 2022, and later can read it.
OPSET, IR_VERSION = 17, 8
#: From this version of the format on, constants are no inputs.
FIRST_IR_VERSION = 4


class Nodes(Target):
    """A graph under construction; a number or an array becomes a constant."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> Term:
        """Add a node, and return its output."""
        from onnx import helper

        if operator == "AtMost":  # opset 9 has no ≤; 1 if so, else 0
            return self("Cast", self("Not", self("Less", *inputs[::-1])), to=_types()["double"])
        names = [value if isinstance(value, str) else self.named(value) for value in inputs]
        output = f"{self.prefix}{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return Term(self, output)

    def named(self, value: Any) -> str:
        """Return the name of a term, or of a constant, which is stored once."""
        from onnx import numpy_helper

        if isinstance(value, Term):
            return value.name
        value = np.asarray(value)
        key = (value.dtype.str, value.tobytes(), value.shape)
        if key not in self._constants:
            name = self._constants[key] = f"{self.prefix}constant_{len(self._constants)}"
            self.initializers.append(numpy_helper.from_array(value, name))
        return self._constants[key]

    def log1p(self, x: Term) -> Term:
        return self.log(1.0 + x)

    def count(self, cuts: FloatArray, x: Term) -> Term:
        """Add the number of cuts ≤ x, int64, by a binary search; x is no NaN and below infinity."""
        steps = len(cuts).bit_length()
        padded = np.append(cuts, np.full(2**steps - 1 - len(cuts), np.inf))
        zero = place = self("Cast", x * 0.0, to=_types()["int64"])
        for power in reversed(range(steps)):
            cut = self("Gather", padded, place + np.array(2**power - 1))
            place = self.where(x < cut, place, place + np.array(2**power))
        return zero if steps == 0 else place

    def row(self, table: FloatArray, i: Term) -> Any:
        """Add an entry of a list, or the entries of a row of a table."""
        columns = table.T if table.ndim == 2 else [table]
        entries = [self("Gather", np.ascontiguousarray(column), i) for column in columns]
        return entries if table.ndim == 2 else entries[0]


def _types() -> dict[str, int]:
    from onnx import TensorProto

    return {"double": TensorProto.DOUBLE, "float": TensorProto.FLOAT, "int64": TensorProto.INT64}


def _check(input: str = "double") -> None:
    """Raise `ModuleNotFoundError` if the package onnx is missing, and `InputError` for another type of scores."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError('models in ONNX need the package onnx; pip install ".[onnx]" installs it') from None
    assert onnx
    if input not in ("double", "float"):
        raise InputError(f"input={input!r} is not possible; give 'double' or 'float', the type of the scores")


# -- a map -------------------------------------------------------------------------------------------------------


def onnx_model(data: dict[str, Any], input: Literal["double", "float"] = "double", column: bool = False) -> Any:
    """Return the plain data of a map as a model with the input `score` and the output `probability`."""
    _check(input)
    add = Nodes("map_")
    p = add_map(add, Reduced(data), add("Cast", "score", to=_types()["double"]))
    return _model(add, p, "score", "probability", input, ["n", 1] if column else ["n"])


def folds_model(data: dict[str, Any], input: Literal["double", "float"] = "double") -> Any:
    """Return the plain data of a map of K folds as a model of their scores: `scores` of shape (n, K), `probability`."""
    _check(input)
    add, map = Nodes("map_"), Reduced(data)
    scores = add("Cast", "scores", to=_types()["double"])
    columns = [add("Gather", scores, np.array(k), axis=1) for k in range(len(map.folds))]
    inside, each = zip(*(_inside(add, map, column) for column in columns), strict=True)
    every = reduce(lambda left, right: add("And", left, right), inside)
    p = add.where(every, of_folds(add, map, each), math.nan)
    return _model(add, p, "scores", "probability", input, ["n", len(columns)], ["n"])


def _model(
    add: Nodes, result: Term, source: str, output: str, input: str, shape: list[Any], out: list[Any] | None = None
) -> Any:
    """Return the nodes as a model from the input `given` to the value `result`, of the same shape or that of `made`."""
    from onnx import helper

    types = _types()
    add.nodes.append(helper.make_node("Identity", [result.name], [output], name=output))
    graph = helper.make_graph(
        add.nodes,
        "calibration_map",
        [helper.make_tensor_value_info(source, types[input], shape)],
        [helper.make_tensor_value_info(output, types["double"], out or shape)],
        add.initializers,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="streamcal")


def add_map(add: Nodes, map: Reduced, score: Term) -> Term:
    """Add the map of a double `score` of any shape; NaN for NaN and for scores outside the domain of the scale."""
    inside, s = _inside(add, map, score)
    return add.where(inside, probability_of(add, map, s), math.nan)


def _inside(add: Nodes, map: Reduced, score: Term) -> tuple[Term, Term]:
    """Add whether a score is in the domain of the scale, and the score, or one that is inside in its place."""
    lo, hi = map.domain  # opset 9 has no ≤
    inside = add("And", add("Less", math.nextafter(lo, -math.inf), score), score < math.nextafter(hi, math.inf))
    return inside, add.where(inside, score, 0.5)


# -- several classes ---------------------------------------------------------------------------------------------


def softmax_model(
    weights: FloatArray, offsets: FloatArray, floor: float, tolerance: float, input: Literal["double", "float"]
) -> Any:
    """Return softmax(W·ln s + b) as a model, with the input `scores` and the output `probabilities`, shape (n, K).

    Logarithms of the shares are at least `floor`. A row of scores that are not in [0, 1], or whose sum is further than
    `tolerance` from 1, becomes NaN.
    """
    _check(input)
    add, types, axis = Nodes("map_"), _types(), np.array([1])
    s = add("Cast", "scores", to=types["double"])
    total = add("ReduceSum", s, axis, keepdims=1)
    least, most = (add(operator, s, axes=[1], keepdims=1) for operator in ("ReduceMin", "ReduceMax"))
    in_range = add("And", add("GreaterOrEqual", least, 0.0), add("LessOrEqual", most, 1.0))
    inside = add("And", in_range, add("LessOrEqual", add.abs(total - 1.0), tolerance))
    shares = add.where(inside, s, 1.0) / add.where(inside, total, 1.0)
    logs = add.max(add.log(add.max(shares, math.exp(floor))), floor)
    z = add("MatMul", logs, np.ascontiguousarray(weights.T)) + offsets
    e = add.exp(z - add("ReduceMax", z, axes=[1], keepdims=1))
    p = add.where(inside, e / add("ReduceSum", e, axis, keepdims=1), math.nan)
    return _model(add, p, "scores", "probabilities", input, ["n", len(offsets)])


# -- behind a model ----------------------------------------------------------------------------------------------


def append_to_onnx(
    model: onnx.ModelProto, output_name: str, map: Any, *, positive: Any = None, name: str = "calibrated"
) -> onnx.ModelProto:
    """Append a calibration map to an ONNX model; return a new model with one more output.

    Parameters
    ----------
    model : onnx.ModelProto
        A classifier, as written by skl2onnx or onnxmltools, whose opset is at least 9.
    output_name : str
        The output with the scores: of shape (n,), (n, 1) or (n, K), or the list of dictionaries that a ZipMap makes
        of it.
    map : CalibrationMap
        A map of one score, `cal.map()`.
    positive : int or str, optional
        The positive class: its label if the output comes from a ZipMap, else its column. The default is the last
        column, which is that of the positive class for two classes; more classes need it.
    name : str
        The name of the new output, of type double and shape (n,).

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    InputError
        If the model has no such output, its opset is too old, the name is taken, or the class is missing or unknown.
    ModuleNotFoundError
        If the package onnx is not installed.

    Examples
    --------
    >>> from streamcal import append_to_onnx  # doctest: +SKIP
    >>> calibrated = append_to_onnx(model, "probabilities", cal.map())  # doctest: +SKIP
    """
    _check()
    from onnx import ModelProto, helper

    if not hasattr(map, "to_onnx"):
        raise InputError(f"map={map!r} is not possible; give a map of one score, such as cal.map()")
    joined = ModelProto()
    joined.CopyFrom(model)
    graph, types = joined.graph, _types()
    _check_join(joined, output_name, name)
    add = Nodes(_free_prefix(graph))
    scores, column = _scores_of(graph, output_name, positive)
    score = add("Cast", scores, to=types["double"])
    if column is not None:
        score = add("Gather", score, np.array(column), axis=1)
    score = add("Reshape", score, np.array([-1]))
    p = add_map(add, Reduced(map._plain()), score)
    graph.node.extend([*add.nodes, helper.make_node("Identity", [p.name], [name], name=f"{add.prefix}{name}")])
    graph.initializer.extend(add.initializers)
    graph.output.append(helper.make_tensor_value_info(name, types["double"], [None]))
    return joined


def _check_join(model: onnx.ModelProto, output_name: str, name: str) -> None:
    graph = model.graph
    outputs = [output.name for output in graph.output]
    if output_name not in outputs:
        raise InputError(f"output_name={output_name!r} is no output of the model; it has {', '.join(outputs)}")
    used = {item for node in graph.node for item in (*node.input, *node.output)} | {item.name for item in graph.input}
    if name in used:
        raise InputError(f"name={name!r} is a name of the model already; give another one")
    opset = max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), default=0)
    if 0 < opset < FIRST_OPSET:
        raise InputError(
            f"the model is of opset {opset}; export it with target_opset={OPSET}, or convert it by "
            f"onnx.version_converter to opset {FIRST_OPSET} or later"
        )
    model.ir_version = max(model.ir_version, FIRST_IR_VERSION)
    if opset == 0:
        model.opset_import.add(domain="", version=OPSET)


def _free_prefix(graph: onnx.GraphProto) -> str:
    """Find a prefix that no name of the graph has, so that a second map can be joined too."""
    names = {tag for node in graph.node for tag in (node.name, *node.output)} | {tag.name for tag in graph.initializer}
    tries = (f"calibration{number}_" for number in range(len(names) + 1))
    return next(prefix for prefix in tries if not any(tag.startswith(prefix) for tag in names))


def _scores_of(graph: onnx.GraphProto, output_name: str, positive: Any) -> tuple[str, int | None]:
    """Return the tensor of scores and the column of the positive class, or None with one score a row."""
    maker = next((node for node in graph.node if output_name in node.output), None)
    if maker is not None and maker.op_type == "ZipMap":
        known = [value for item in maker.attribute for value in (*item.ints, *(text.decode() for text in item.strings))]
        return maker.input[0], _column(positive, known, len(known))
    output = next(item for item in graph.output if item.name == output_name)
    if not output.type.HasField("tensor_type"):
        raise InputError(f"output_name={output_name!r} is no tensor; export the classifier with zipmap=False")
    sizes = [item.dim_value for item in output.type.tensor_type.shape.dim]
    if len(sizes) == 1 or sizes[1:] == [1]:
        return output_name, None
    columns = sizes[1] if len(sizes) == 2 else 0
    return output_name, _column(positive, list(range(columns)) if columns else None, columns)


def _column(positive: Any, known: list[Any] | None, columns: int) -> int:
    """Return the column of the positive class; `known` is None if the model does not state its number of columns."""
    if positive is None:
        if columns > 2:
            raise InputError(f"the output has {columns} classes; give positive, one of {known}")
        return 1
    if known is None and isinstance(positive, int) and positive >= 0:
        return positive
    if known is None or positive not in known:
        raise InputError(f"positive={positive!r} is no class of the output; give one of {known or 'its columns'}")
    return known.index(positive)
