"""Calibration maps as ONNX: `onnx_model` for a map alone, `append_to_onnx` behind the model whose scores it calibrates.

Everything is computed in double precision, with operators that are the same from opset 9 on: converters write the
oldest opset that a model needs. Steps and knots are found by a binary search without branches: ⌈log₂(k + 1)⌉ times a
Gather and a comparison, for all scores at once. A float32 score becomes the same double, so that it falls on the side
of each cut on which it falls in Python.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.maps import portable
from streamcal.maps.reduced import Reduced, reduced
from streamcal.parameters.types import FloatArray

if TYPE_CHECKING:
    import onnx

#: The operators that are used exist in this form from this version of the default domain on.
FIRST_OPSET = 9
#: What a new model is written for: ONNX Runtime 1.12, of 2022, and later can read it.
OPSET, IR_VERSION = 17, 8
#: From this version of the format on, constants are no inputs.
FIRST_IR_VERSION = 4


class Nodes:
    """A graph under construction. Values are given by their names; a number or an array becomes a constant."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def __call__(self, operator: str, *inputs: str | float | NDArray[Any], **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        from onnx import helper

        names = [one if isinstance(one, str) else self.constant(np.asarray(one)) for one in inputs]
        output = f"{self.prefix}{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def constant(self, value: NDArray[Any]) -> str:
        """Return the name of a constant, which is stored once."""
        from onnx import numpy_helper

        key = (value.dtype.str, value.tobytes(), value.shape)
        if key not in self._constants:
            name = self._constants[key] = f"{self.prefix}constant_{len(self._constants)}"
            self.initializers.append(numpy_helper.from_array(value, name))
        return self._constants[key]

    def where(self, condition: str, yes: str | float, no: str | float) -> str:
        """Add a choice between two values."""
        return self("Where", condition, yes, no)

    def clip(self, x: str, lo: str | float, hi: str | float) -> str:
        """Add bounds; infinite ones add nothing."""
        x = x if lo == -math.inf else self("Max", x, lo)
        return x if hi == math.inf else self("Min", x, hi)

    def count(self, cuts: FloatArray, x: str) -> str:
        """Add the number of cuts ≤ x, int64, by a binary search; x is no NaN and below infinity."""
        steps = len(cuts).bit_length()
        padded = np.append(cuts, np.full(2**steps - 1 - len(cuts), np.inf))
        zero = place = self("Cast", self("Mul", x, 0.0), to=_types()["int64"])
        for power in reversed(range(steps)):
            cut = self("Gather", padded, self("Add", place, np.array(2**power - 1)))
            place = self.where(self("Less", x, cut), place, self("Add", place, np.array(2**power)))
        return zero if steps == 0 else place


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
    add, types = Nodes("map_"), _types()
    found = add_map(add, reduced(data), add("Cast", "score", to=types["double"]))
    return _model(add, found, "score", "probability", input, ["n", 1] if column else ["n"])


def folds_model(data: dict[str, Any], input: Literal["double", "float"] = "double") -> Any:
    """Return the plain data of a map of K folds as a model of their scores: `scores` of shape (n, K), `probability`."""
    _check(input)
    add, scale = Nodes("map_"), reduced({**data, "kind": "identity"})
    scores = add("Cast", "scores", to=_types()["double"])
    content = portable.as_arrays({name: data[name] for name in ("folds", "point")})
    holding = [portable._holds(fold) for fold in content["folds"]]
    every: list[str] = []
    lower: list[str] = []
    upper: list[str] = []
    for k, fold in enumerate(content["folds"]):
        inside, s = _rising(add, scale, add("Gather", scores, np.array(k), axis=1))
        every.append(inside)
        if holding[k] or not any(holding):
            x = _coordinate(add, scale.scale, s)
            for ends, end in ((lower, fold["lower"]), (upper, fold["upper"])):
                ends.append(add("Gather", end["values"], add.count(end["cuts"], x)))
    inside, *others = every
    for other in others:
        inside = add("And", inside, other)
    found = add.where(inside, _merged(add, content["point"], lower, upper), math.nan)
    return _model(add, found, "scores", "probability", input, ["n", len(every)], ["n"])


def _merged(add: Nodes, point: str, lower: list[Any], upper: list[Any]) -> str:
    """Add the point of the pairs of several folds."""
    share = 1.0 / len(lower)
    if point == "log-minimax":
        events = _geometric_mean(add, upper, share)
        return add("Div", events, add("Add", _geometric_mean(add, [add("Sub", 1.0, p) for p in lower], share), events))
    if point == "brier-minimax":
        squares = [
            add("Sub", add("Mul", low, low), add("Mul", high, high)) for low, high in zip(lower, upper, strict=True)
        ]
        return add(
            "Mul", _sum(add, [add("Add", p, add("Mul", 0.5, q)) for p, q in zip(upper, squares, strict=True)]), share
        )
    low, high = (add("Mul", _sum(add, ends), share) for ends in (lower, upper))
    below = add("Add", add("Sub", 1.0, high), low)
    vacuous = add("Not", add("Less", 0.0, below))
    return add.where(vacuous, 0.5, add("Div", low, add.where(vacuous, 1.0, below)))


def _geometric_mean(add: Nodes, values: list[Any], share: float) -> str:
    product, *roots = (add("Pow", value, share) for value in values)
    for root in roots:
        product = add("Mul", product, root)
    return product


def _model(
    add: Nodes, found: str, given: str, output: str, input: str, shape: list[Any], made: list[Any] | None = None
) -> Any:
    """Return the nodes as a model from the input `given` to the value `found`, of the same shape or that of `made`."""
    from onnx import helper

    types = _types()
    add.nodes.append(helper.make_node("Identity", [found], [output], name=output))
    graph = helper.make_graph(
        add.nodes,
        "calibration_map",
        [helper.make_tensor_value_info(given, types[input], shape)],
        [helper.make_tensor_value_info(output, types["double"], made or shape)],
        add.initializers,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="streamcal")


def add_map(add: Nodes, map: Reduced, score: str) -> str:
    """Add the map of a double `score` of any shape; NaN for NaN and for scores outside the domain of the scale."""
    inside, s = _rising(add, map, score)
    p = _probability(add, map, _coordinate(add, map.scale, s))
    if map.spots is not None:
        i = add.count(map.spots["first"], s)
        end = add("Gather", np.append(-math.inf, np.nextafter(map.spots["last"], math.inf)), i)
        p = add.where(add("Less", s, end), add("Gather", np.append(0.0, map.spots["values"]), i), p)
    return add.where(inside, p, math.nan)


def _rising(add: Nodes, map: Reduced, score: str) -> tuple[str, str]:
    """Add whether a score is in the domain of the scale, and the score as one that rises with the label."""
    lo, hi = map.domain
    below, above = math.nextafter(lo, -math.inf), math.nextafter(hi, math.inf)  # there is no ≤ before opset 12
    inside = add("And", add("Less", below, score), add("Less", score, above))
    s = add.where(inside, score, 0.5)
    return inside, s if map.mirror is None else add("Sub", map.mirror, s)


def _coordinate(add: Nodes, scale: dict[str, Any], s: str) -> str:
    if scale["kind"] == "probability":
        return s
    if scale["kind"] == "logit":
        s = add("Sub", add("Log", s), add("Log", add("Sub", 1.0, s)))
    if scale["kind"] != "empirical-cdf":
        return add.clip(s, scale["lo"], scale["hi"])
    knots, ranks = scale["knots"], scale["ranks"]
    slopes = np.concatenate(([0.0], np.diff(ranks) / np.diff(knots), [0.0]))
    left, low = np.append(knots[0], knots), np.append(ranks[0], ranks)
    i = add.count(knots, s)
    away = add("Sub", add.clip(s, float(knots[0]), float(knots[-1])), add("Gather", left, i))
    return add("Add", add("Mul", add("Gather", slopes, i), away), add("Gather", low, i))


def _probability(add: Nodes, map: Reduced, x: str) -> str:
    content = map.content
    if map.kind in ("steps", "score-prior"):
        i = add.count(content["cuts"], x)
        return add("Gather", content["values"], i) if map.kind == "steps" else _score_prior(add, content, x, i)
    if map.kind in ("lines", "log-odds-lines", "cubics"):
        return _pieces(add, map, x)
    if map.kind == "sigmoid":
        return _sigmoid_line(add, content["slope"], content["offset"], x)
    if map.kind == "sigmoids":
        parts = zip(*(content[name].tolist() for name in ("weights", "slopes", "offsets")), strict=True)
        terms: list[str | float] = [
            add("Mul", weight, _sigmoid_line(add, slope, offset, x)) for weight, slope, offset in parts
        ]
        return add("Min", _sum(add, terms), 1.0)
    if map.kind == "beta":
        return _beta(add, map, x)
    if map.kind == "identity":
        return sigmoid(add, x) if map.logistic else add("Add", _unit(add, map, x), 0.0)
    u = _unit(add, map, x)
    if map.kind == "chebyshev":
        return add.clip(_chebyshev(add, content["coefficients"].tolist(), u), 0.0, 1.0)
    found = _bernstein(add, content["coefficients"].tolist(), u)
    return sigmoid(add, found) if map.kind == "bernstein-logistic" else add.clip(found, 0.0, 1.0)


def _sum(add: Nodes, terms: list[str | float]) -> str:
    total, *rest = terms
    assert isinstance(total, str)
    for term in rest:
        total = add("Add", total, term)
    return total


def sigmoid(add: Nodes, z: str) -> str:
    """Add 1 / (1 + exp(−z)), without overflow."""
    e = add("Exp", add("Neg", add("Abs", z)))
    return add("Div", add.where(add("Less", z, 0.0), e, 1.0), add("Add", 1.0, e))


def _sigmoid_line(add: Nodes, slope: float, offset: float, x: str) -> str:
    return sigmoid(add, add("Add", add("Mul", slope, x), offset))


def _unit(add: Nodes, map: Reduced, x: str) -> str:
    lo, hi = map.ends
    return x if (lo, hi) == (0.0, 1.0) else add("Div", add("Sub", x, lo), hi - lo)


def _beta(add: Nodes, map: Reduced, x: str) -> str:
    limit, z = portable.LOGIT_LIMIT, x
    if map.scale["kind"] != "logit" and not map.logistic:
        p = _unit(add, map, x)
        z = add("Sub", add("Log", p), add("Log", add("Sub", 1.0, p)))
    if map.scale["kind"] != "logit":
        z = add.clip(z, -limit, limit)
    tail = add("Log", add("Add", 1.0, add("Exp", add("Neg", add("Abs", z)))))
    ln_s = add("Sub", add("Min", z, 0.0), tail)
    minus_ln_not_s = add("Add", add("Max", z, 0.0), tail)
    a, b, c = (map.content[name] for name in "abc")
    return sigmoid(add, _sum(add, [add("Mul", a, ln_s), add("Mul", b, minus_ln_not_s), c]))


def _pieces(add: Nodes, map: Reduced, x: str) -> str:
    i = add.count(map.content["knots"], x)
    left, width, low, step, *slopes = (add("Gather", column, i) for column in map.content["pieces"].T.copy())
    t = add("Div", add("Sub", add("Mul", 0.5, x) if map.halved else x, left), width)
    if map.kind != "cubics":
        z = add("Add", low, add("Mul", t, step))
        return sigmoid(add, z) if map.kind == "log-odds-lines" else z
    rise, fall, high = slopes
    rest = add("Sub", 1.0, t)
    cubic = add("Mul", add("Mul", add("Mul", step, t), t), add("Sub", 3.0, add("Mul", 2.0, t)))
    bend = add("Mul", add("Mul", t, rest), add("Sub", add("Mul", rise, rest), add("Mul", fall, t)))
    return add.clip(_sum(add, [low, cubic, bend]), low, high)


def _bernstein(add: Nodes, coefficients: list[float], u: str) -> str:
    """Add Horner's scheme in the smaller of u/(1 − u) and its inverse, whose powers are at most 1."""
    n = len(coefficients) - 1
    terms = [math.comb(n, i) * c for i, c in enumerate(coefficients)]
    rest = add("Sub", 1.0, u)
    below = add("Less", u, 0.5)
    small, large = add("Min", u, rest), add("Max", u, rest)
    ratio, total = add("Div", small, large), add.where(below, terms[n], terms[0])
    for i in range(1, n + 1):
        total = add("Add", add("Mul", total, ratio), add.where(below, terms[n - i], terms[i]))
    return total if n == 0 else add("Mul", total, add("Pow", large, float(n)))


def _chebyshev(add: Nodes, coefficients: list[float], u: str) -> str:
    """Add Clenshaw's algorithm in Reinsch's form, which is accurate near the ends, from the nearer end."""
    below = add("Less", u, 0.5)
    factor = add("Mul", -4.0, add("Min", u, add("Sub", 1.0, u)))
    value = step = add("Mul", u, 0.0)
    for m in reversed(range(1, len(coefficients))):
        c = coefficients[m]
        signed = c if m % 2 == 0 else add.where(below, -c, c)
        step = _sum(add, [step, add("Add", add("Mul", factor, value), signed)])
        value = add("Add", value, step)
    return _sum(add, [add("Add", coefficients[0], add("Mul", add("Mul", 0.5, factor), value)), step])


def _score_prior(add: Nodes, content: dict[str, Any], x: str, i: str) -> str:
    lower, upper = (add("Gather", content[end], i) for end in ("lower", "upper"))
    m = add.clip(add.clip(x, content["least"], content["greatest"]), lower, upper)
    r = add("Max", add("Min", m, add("Sub", 1.0, m)), portable.TINY)
    width = add("Mul", portable.PRIOR_EVENTS, add("Sub", upper, lower))
    above = add("Add", add("Mul", lower, r), add("Mul", width, m))
    return add("Div", above, add("Add", add("Mul", add("Add", add("Sub", 1.0, upper), lower), r), width))


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
    least, most = (add(one, s, axes=[1], keepdims=1) for one in ("ReduceMin", "ReduceMax"))
    in_range = add("And", add("GreaterOrEqual", least, 0.0), add("LessOrEqual", most, 1.0))
    inside = add("And", in_range, add("LessOrEqual", add("Abs", add("Sub", total, 1.0)), tolerance))
    shares = add("Div", add.where(inside, s, 1.0), add.where(inside, total, 1.0))
    logs = add("Max", add("Log", add("Max", shares, math.exp(floor))), floor)
    z = add("Add", add("MatMul", logs, np.ascontiguousarray(weights.T)), offsets)
    e = add("Exp", add("Sub", z, add("ReduceMax", z, axes=[1], keepdims=1)))
    found = add.where(inside, add("Div", e, add("ReduceSum", e, axis, keepdims=1)), math.nan)
    return _model(add, found, "scores", "probabilities", input, ["n", len(offsets)])


# -- behind a model ----------------------------------------------------------------------------------------------


def append_to_onnx(
    model: onnx.ModelProto, output_name: str, map: Any, *, positive: Any = None, name: str = "calibrated"
) -> onnx.ModelProto:
    """Join a calibration map behind an ONNX model; return a new model with one output more.

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
    found = add_map(add, reduced(map._plain()), score)
    graph.node.extend([*add.nodes, helper.make_node("Identity", [found], [name], name=f"{add.prefix}{name}")])
    graph.initializer.extend(add.initializers)
    graph.output.append(helper.make_tensor_value_info(name, types["double"], [None]))
    return joined


def _check_join(model: onnx.ModelProto, output_name: str, name: str) -> None:
    graph = model.graph
    outputs = [output.name for output in graph.output]
    if output_name not in outputs:
        raise InputError(f"output_name={output_name!r} is no output of the model; it has {', '.join(outputs)}")
    used = {one for node in graph.node for one in (*node.input, *node.output)} | {one.name for one in graph.input}
    if name in used:
        raise InputError(f"name={name!r} is a name of the model already; give another one")
    opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
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
    names = {one for node in graph.node for one in (node.name, *node.output)} | {one.name for one in graph.initializer}
    tries = (f"calibration{number}_" for number in range(len(names) + 1))
    return next(prefix for prefix in tries if not any(one.startswith(prefix) for one in names))


def _scores_of(graph: onnx.GraphProto, output_name: str, positive: Any) -> tuple[str, int | None]:
    """Return the tensor of scores and the column of the positive class, or None with one score a row."""
    maker = next((node for node in graph.node if output_name in node.output), None)
    if maker is not None and maker.op_type == "ZipMap":
        known = [value for one in maker.attribute for value in (*one.ints, *(text.decode() for text in one.strings))]
        return maker.input[0], _column(positive, known, len(known))
    output = next(one for one in graph.output if one.name == output_name)
    if not output.type.HasField("tensor_type"):
        raise InputError(f"output_name={output_name!r} is no tensor; export the classifier with zipmap=False")
    sizes = [one.dim_value for one in output.type.tensor_type.shape.dim]
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
