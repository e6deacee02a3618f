"""Mini-batches: frames of features, of pandas, polars or Arrow, for bases that have `learn_many`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base, compose

from streamcal.errors import InputError
from streamcal.parameters.columns import with_columns
from streamcal.parameters.types import FloatArray
from streamcal.river.bases import ROUNDING

#: Names of the columns that hold P(True) and P(False): frames other than those of pandas have texts.
POSITIVE, NEGATIVE = (True, 1, "True", "1", "1.0"), (False, 0, "False", "0", "0.0")
#: Names of the classes of a column, in pandas and polars, and in Arrow.
COLUMNS = ("Series", "ChunkedArray")


def require_batches(estimator: base.Estimator) -> None:
    """Raise `InputError` for a base that works on single observations only, or a pipeline with a step that does."""
    steps = list(estimator.steps.values()) if isinstance(estimator, compose.Pipeline) else [estimator]
    needed = [(step, "transform_many") for step in steps[:-1]]
    needed += [(steps[-1], "predict_proba_many"), (steps[-1], "learn_many")]
    for step, name in needed:
        if not hasattr(step, name):
            raise InputError(f"{step!r} has no {name}, so that there are no mini-batches; use learn_one")


def takes_in_batches(estimator: base.Estimator, name: str) -> bool:
    """Return whether `learn_many` has a parameter of this name; a pipeline passes it to its last step."""
    return name in _parameters(estimator)


def require_keywords(estimator: base.Estimator, names: Iterable[str]) -> None:
    """Raise `InputError` for keywords that `learn_many` of a base lacks: earlier steps would learn before it fails."""
    parameters = _parameters(estimator)
    unknown = [name for name in names if name not in parameters]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise InputError(f"learn_many of {estimator!r} has no {', '.join(unknown)}; leave them out")


def _parameters(estimator: base.Estimator) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of `learn_many`; for a pipeline, those of its last step."""
    last = list(estimator.steps.values())[-1] if isinstance(estimator, compose.Pipeline) else estimator
    return inspect.signature(last.learn_many).parameters


def names_of(frame: Any) -> list[Any]:
    """Return the names of the columns of a frame."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def column_of(frame: Any, name: Any) -> Any:
    """Return a column as an array."""
    return frame[name].to_numpy()


def column_like(X: Any, values: Any, checked: NDArray[Any]) -> Any:
    """Return labels or weights as bases read them: `values` if a column of the library of X, else `checked` as one.

    River refuses lists and arrays. In pandas the column has the index of X.
    """
    kind = type(values)
    if kind.__name__ in COLUMNS and kind.__module__.partition(".")[0] == type(X).__module__.partition(".")[0]:
        return values
    if hasattr(X, "index"):
        return type(X)({"column": checked}, index=X.index)["column"]
    named = {"column": checked}
    return (type(X).from_pydict(named) if hasattr(X, "column_names") else type(X)(named))["column"]


def without(frame: Any, names: Any) -> Any:
    """Return the frame without some of its columns."""
    names_left = [name for name in names_of(frame) if name not in names]
    return with_columns(frame, names_left)


def scores_of(classifier: base.Classifier, X: Any, **kwargs: Any) -> FloatArray | None:
    """Return P(True) of a base for each row, shape (n,); None if it returns no probabilities, or there are no rows."""
    if len(X) == 0:
        return None
    frame = classifier.predict_proba_many(X, **kwargs)
    names = names_of(frame)
    if len(frame) == 0 or not names:
        return None
    positive = [name for name in names if name in POSITIVE]
    if not positive and not any(name in NEGATIVE for name in names):
        raise InputError(f"the base predicts the classes {names!r}; only False and True, or 0 and 1, work")
    p = np.asarray(column_of(frame, positive[0]), dtype=np.float64) if positive else np.zeros(len(frame))
    inside = np.clip(p, 0.0, 1.0)
    return np.where(np.abs(p - inside) <= ROUNDING, inside, p)


def frame_like(X: Any, p: FloatArray) -> Any:
    """Return 1 − p and p as columns of a frame of the kind of X.

    The columns are named False and True in pandas, with the index of X; in other libraries their names are texts.
    """
    columns = {False: 1.0 - p, True: p}
    if hasattr(X, "index"):
        return type(X)(columns, index=X.index)
    named = {str(label): values for label, values in columns.items()}
    return type(X).from_pydict(named) if hasattr(X, "column_names") else type(X)(named)


def labels_like(X: Any, probabilities: Any) -> Any:
    """Return the labels of `frame_like` as a column of the kind of X: True if p > 1 − p, as in `predict_one`."""
    no, yes = names_of(probabilities)
    column = column_like(X, None, column_of(probabilities, yes) > column_of(probabilities, no))
    return column.rename(None) if hasattr(X, "index") else column
