"""Columns of pandas, polars, Arrow and torch, and masked arrays: read as NumPy arrays, without importing any of these.

Whose object it is shows in the name of the module of its class. `as_array` is the one way in, `like` the one way out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.parameters.types import FloatArray

#: Types that can hold no null and are no column of a library: read at once.
PLAIN = (np.ndarray, list, tuple, float, int)


def as_array(values: Any, what: str) -> NDArray[Any]:
    """Return the values as a NumPy array of any shape and type, copied only if needed; searching for nulls is O(n).

    Raises
    ------
    InputError
        Where entries are null or masked: their number and the first place. Where a tensor requires a gradient, or lies
        on another device, and for lists of different lengths.
    """
    if type(values) not in PLAIN:
        if hasattr(values, "collect_schema") and hasattr(values, "collect") and library_of(values) == "polars":
            raise InputError(f"{what} is a LazyFrame, which has no values yet; give {what}.collect()")
        nulls = _nulls(values)
        if nulls is not None and nulls.any():
            raise InputError(_message(nulls, what))
        if getattr(values, "requires_grad", False) is True:
            raise InputError(f"{what} requires a gradient, which calibration does not give; give {what}.detach()")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as an array: {error}") from None


def as_objects(values: Any) -> NDArray[Any]:
    """Return the values as given, of any types; for values that `as_array` could read."""
    return np.asarray(values, dtype=object)


def like(scores: Any, result: FloatArray, names: Sequence[Any] | None = None) -> FloatArray:
    """Return the result of a method as the caller gave the scores: an object of pandas or polars, else as it is.

    With a `Series` or `DataFrame` given, a result of shape (n,) becomes a Series, and one of shape (n, K) a DataFrame
    with the K names, of the same library; with the index, where there is one.

    Examples
    --------
    >>> like([0.25], np.array([0.5]))
    array([0.5])
    """
    library = None if type(scores) in PLAIN else library_of(scores)
    if library == "polars" and hasattr(scores, "to_numpy"):
        polars: Any = sys.modules["polars"]
        schema = None if names is None else [str(name) for name in names]
        return polars.Series(values=result) if result.ndim == 1 else polars.DataFrame(result, schema=schema)
    if library != "pandas" or not hasattr(scores, "iloc"):
        return result
    pandas: Any = sys.modules["pandas"]
    if result.ndim == 1:
        return pandas.Series(result, index=scores.index)
    return pandas.DataFrame(result, index=scores.index, columns=names)


def like_both(scores: Any, ends: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return `like` of the lower and of the upper ends of intervals."""
    lower, upper = ends
    return like(scores, lower), like(scores, upper)


def column_names(values: Any) -> list[Any] | None:
    """Return the names of the columns of a table of pandas, polars or Arrow; None if there are none, or two are equal.

    The names that polars gives the columns of an array are none.
    """
    names = getattr(values, "column_names", getattr(values, "columns", None)) if type(values) not in PLAIN else None
    if names is None or library_of(values) is None:
        return None
    listed = list(names)
    given_by_polars = listed == [f"column_{place}" for place in range(len(listed))]
    return None if given_by_polars or len(set(listed)) < len(listed) else listed


def with_columns(values: Any, names: Sequence[Any]) -> Any:
    """Return the columns of a table with these names, in this order."""
    if library_of(values) in ("polars", "pyarrow"):
        return values.select(list(names))
    known = list(values.columns)
    return values.iloc[:, [known.index(name) for name in names]]  # by place: a list of bools would select rows


def library_of(values: Any) -> str | None:
    """Return the known library that defines the class of an object, or a class that it inherits from; else None."""
    for cls in type(values).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow"):
            return library
    return None


def _nulls(values: Any) -> NDArray[np.bool_] | None:
    """Return where a masked array is masked, or a column or table is null; None for anything else."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.getmaskarray(values)
    library = library_of(values)
    if library == "pandas" and hasattr(values, "isna"):
        return np.asarray(values.isna(), dtype=np.bool_)
    if library in ("polars", "pyarrow"):
        if hasattr(values, "is_null"):
            return np.asarray(values.is_null(), dtype=np.bool_)
        if hasattr(values, "columns"):  # a table: names of columns in polars, columns in Arrow
            columns = values.get_columns() if library == "polars" else values.columns
            flags = [np.asarray(column.is_null(), dtype=np.bool_) for column in columns]
            return np.column_stack(flags) if flags else None
    return None


def _message(nulls: NDArray[np.bool_], what: str) -> str:
    """Write the number of nulls and the first place, as in `scores[3]`, or `scores[3, 1]` of a table."""
    if nulls.ndim == 0:
        return f"{what} is masked; drop the observation"
    count = int(nulls.sum())
    first = ", ".join(str(int(place)) for place in np.argwhere(nulls)[0])
    counted = "1 null" if count == 1 else f"{count} nulls"
    return f"{what} has {counted} in {len(nulls)} rows, the first at {what}[{first}]; drop those observations"
