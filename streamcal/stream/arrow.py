"""Apache Arrow, which reads and writes tables, and numbers in texts; imported here, and its parts when they are needed.

It runs on one thread: a calibrator learns one observation after another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pyarrow
from numpy.typing import NDArray

# The functions behind `pyarrow.compute`, whose import takes as long as all of pyarrow, for its documentation.
from pyarrow._compute import (
    AssumeTimezoneOptions,
    CastOptions,
    DictionaryEncodeOptions,
    MatchSubstringOptions,
    NullOptions,
    ReplaceSubstringOptions,
    SliceOptions,
    TrimOptions,
    call_function,
)

from streamcal.parameters.types import FloatArray

#: Errors of Arrow about what it was given.
ERRORS = (pyarrow.ArrowException, ValueError, TypeError, OverflowError)


def parquet() -> Any:
    """Import the module `pyarrow.parquet`."""
    import pyarrow.parquet

    return pyarrow.parquet


def opened(address: str) -> Any:
    """Open an object in a store that Arrow knows as a file, such as s3://bucket/clicks.csv.gz or gs://bucket/a.csv."""
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(address)
    return system.open_input_file(path)


def read_csv(text: bytes, names: Sequence[str], delimiter: str) -> Any:
    """Read records of CSV without a header as a `RecordBatch` of binary columns; an error if one has other fields."""
    import pyarrow.csv as csv

    types = dict.fromkeys(names, pyarrow.binary())
    if not text.strip(b"\r\n"):
        return pyarrow.RecordBatch.from_arrays([texts([])] * len(names), names=list(names))
    table = csv.read_csv(
        pyarrow.BufferReader(text),
        csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in text),
        csv.ConvertOptions(column_types=types, check_utf8=False),
    )
    return table.to_batches()[0]


def csv_text(columns: Sequence[Any], delimiter: bytes) -> Any:
    r"""Join binary columns as records of CSV, with quotes where they are needed.

    >>> columns = [pyarrow.array([b"0.1", b"0.2"]), pyarrow.array([b"a", b"b, c"])]
    >>> bytes(csv_text(columns, b","))
    b'0.1,a\n0.2,"b, c"\n'
    """
    parts = [_with_quotes(column, delimiter) for column in columns]
    parts[-1] = joined([parts[-1], b"\n"], b"")
    return content(joined(parts, delimiter))


def joined(parts: Sequence[Any], between: bytes) -> Any:
    """Join binary columns, or texts that are the same in every row, as one column."""
    values = [texts([part])[0] if isinstance(part, bytes) else part for part in (*parts, between)]
    return call_function("binary_join_element_wise", values)


def column_of(values: list[Any]) -> Any:
    """Make a column of values of JSON; one of `ERRORS` if they have no common type."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return texts([*map(str.encode, values)]).view(pyarrow.string())
    if kinds == {int} or kinds == {bool}:
        numbers = pyarrow.py_buffer(np.array(values, dtype=np.int64))
        column = pyarrow.Array.from_buffers(pyarrow.int64(), len(values), [None, numbers])
        return column if kinds == {int} else cast(column, pyarrow.bool_())
    return floats(np.array(values, dtype=np.float64)) if kinds <= {int, float} else pyarrow.array(values)


def texts(values: Sequence[bytes]) -> Any:
    """Make a binary column; `pyarrow.array` and `pyarrow.scalar` would import pandas, if it is installed."""
    places = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pyarrow.py_buffer(places), pyarrow.py_buffer(b"".join(values))]
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(values), buffers)


def _with_quotes(column: Any, delimiter: bytes) -> Any:
    """Return a binary column with quotes around what needs them in CSV."""
    text = bytes(content(column))
    marks = [mark for mark in ('"', delimiter.decode(), "\n", "\r") if mark.encode() in text]
    if not marks:
        return column
    # several times as fast as a regular expression of all marks
    matches = [call_function("match_substring", [column], MatchSubstringOptions(mark)) for mark in marks]
    needed = reduce(lambda first, second: call_function("or", [first, second]), matches)
    doubled = column
    if marks[0] == '"':
        doubled = call_function("replace_substring", [column], ReplaceSubstringOptions('"', '""'))
    return call_function("if_else", [needed, joined([b'"', doubled, b'"'], b""), column])


def content(column: Any) -> memoryview:
    """Return the values of a column of texts, one after another."""
    _, offsets, values = column.buffers()
    if not len(column) or values is None:
        return memoryview(b"")
    places = np.frombuffer(offsets, dtype=np.int32)
    return memoryview(values)[places[column.offset] : places[column.offset + len(column)]]


def stripped(column: Any) -> Any:
    """Return a binary column without spaces and tabs around its values."""
    text = column.view(pyarrow.string())  # no kernel looks at the encoding of spaces
    return call_function("ascii_trim", [text], TrimOptions(" \t")).view(pyarrow.binary())


def cast(column: Any, kind: Any) -> Any:
    """Return `column.cast(kind)`."""
    return call_function("cast", [column], CastOptions.safe(kind))


def in_zone(column: Any, zone: str) -> Any:
    """Read the moments in a column without a time zone as moments in `zone`; an error if one is ambiguous."""
    return call_function("assume_timezone", [column], AssumeTimezoneOptions(zone))


def plain_type(kind: Any) -> Any:
    """Return the type with texts and bytes in place of views of them, also in dictionaries, lists and structs."""
    views = {pyarrow.string_view(): pyarrow.large_string(), pyarrow.binary_view(): pyarrow.large_binary()}
    return _with_parts(kind, lambda part: views.get(part, part))


def text_type(kind: Any) -> Any:
    """Return the type with texts in place of bytes, also in dictionaries, lists and structs."""
    types = pyarrow.types
    bytes_of = types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view
    return _with_parts(kind, lambda part: pyarrow.large_string() if any(of(part) for of in bytes_of) else part)


def _with_parts(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return the type, or a dictionary, list or struct of types, each changed."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return pyarrow.dictionary(kind.index_type, _with_parts(kind.value_type, change), kind.ordered)
    if types.is_list(kind) or types.is_large_list(kind):
        make = pyarrow.list_ if types.is_list(kind) else pyarrow.large_list
        return make(kind.value_field.with_type(_with_parts(kind.value_type, change)))
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_with_parts(field.type, change)) for field in kind])
    return change(kind)


def without_views(table: Any) -> Any:
    """Return a `RecordBatch` or `Table` with columns of `plain_type`, since Arrow supports views only in part.

    Arrow neither selects rows of views nor writes all of them.
    """
    return _with_types(table, plain_type)


def without_dictionaries(table: Any) -> Any:
    """Return a `RecordBatch` with the values of dictionaries in their place."""
    return _with_types(table, lambda kind: kind.value_type if pyarrow.types.is_dictionary(kind) else kind)


def _with_types(table: Any, change: Callable[[Any], Any]) -> Any:
    """Return a `RecordBatch` or `Table` with the type of each column changed."""
    schema, columns = table.schema, table.columns
    plain = [change(kind) for kind in schema.types]
    changed = [i for i, kind in enumerate(plain) if kind != schema.field(i).type]
    for i in changed:
        columns[i] = cast(columns[i], plain[i])
        schema = schema.set(i, schema.field(i).with_type(plain[i]))
    return type(table).from_arrays(columns, schema=schema) if changed else table


def with_values(objects: Any, names: Sequence[str], values: FloatArray) -> memoryview:
    """Return objects of JSON, a line each, with values of these names, one in each row of `values`, at their ends."""
    parts = [call_function("binary_slice", [objects], SliceOptions(0, -1))]
    for j, name in enumerate(names):
        parts += [f", {json.dumps(name)}: ".encode(), as_text(values[:, j])]
    return content(joined([*parts, b"}\n"], b""))


def rows_of(table: Any, places: slice | NDArray[np.int64]) -> Any:
    """Select rows of a column or a `RecordBatch`, by a slice of step 1 without a copy."""
    if not isinstance(places, slice):
        return table.take(places)
    start, stop, _ = places.indices(len(table))
    return table.slice(start, max(stop - start, 0))


def floats(values: FloatArray) -> Any:
    """Make a column of these numbers; `pyarrow.array` of an array would import pandas, if it is installed."""
    content = pyarrow.py_buffer(np.ascontiguousarray(values))
    return pyarrow.Array.from_buffers(pyarrow.float64(), len(values), [None, content])


def as_array(column: Any, dtype: Any) -> NDArray[Any]:
    """Return the values of a column of this type without missing ones, not copied; `to_numpy` would import pandas."""
    values = np.frombuffer(column.buffers()[1] or b"", dtype=dtype)
    return values[column.offset : column.offset + len(column)]


def bits_of(column: Any) -> NDArray[np.uint64]:
    """Return the bits of each value of a column of float64; of a missing one those of a NaN that nobody computes."""
    bits = as_array(column, np.uint64)
    if not column.null_count:
        return bits
    missing = as_array(cast(call_function("is_null", [column]), pyarrow.uint8()), np.uint8)
    return np.where(missing, np.uint64(2**64 - 1), bits)


def values_of(column: Any) -> list[Any]:
    """Return a column as Python objects; times that these cannot represent, such as of the year 10000, as texts.

    One of `ERRORS` if a value has no text either: a moment in an unknown zone.
    """
    try:
        return _micros(column).to_pylist()
    except ERRORS:
        return [_value_of(value) for value in column]


def _value_of(value: Any) -> Any:
    try:
        return _micros(value).as_py()
    except ERRORS:
        return cast(value, pyarrow.string()).as_py()


def _micros(values: Any) -> Any:
    """Return times of the day in microseconds, as Python has them; one of `ERRORS` if nanoseconds would be lost."""
    return cast(values, pyarrow.time64("us")) if pyarrow.types.is_time64(values.type) else values


def codes(column: Any) -> tuple[list[Any], NDArray[np.int32]]:
    """Return a column's distinct values in order of appearance, missing ones as None, and the code of each row."""
    if pyarrow.types.is_dictionary(column.type):  # whose missing entries have no place in the dictionary
        column = column.cast(column.type.value_type)
    encoded = call_function("dictionary_encode", [column], DictionaryEncodeOptions("encode"))
    return encoded.dictionary.to_pylist(), as_array(encoded.indices, np.int32)


def filled(column: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Return the values that are neither null, NaN nor an empty text, and which rows have one."""
    here = call_function("invert", [call_function("is_null", [column], NullOptions(nan_is_null=True))])
    kind = column.type
    if pyarrow.types.is_binary(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        some = call_function("greater", [call_function("binary_length", [column]), pyarrow.scalar(0)])
        here = call_function("and_kleene", [here, some])
    values = call_function("array_filter", [column, here])
    return values, as_array(cast(here, pyarrow.uint8()), np.uint8).astype(np.bool_)


def as_text(values: FloatArray) -> Any:
    """Return the shortest texts that are read as these numbers, as a binary column.

    >>> as_text(np.array([0.1, 1.0, 2.5e-7])).to_pylist()
    [b'0.1', b'1', b'2.5e-7']
    """
    return cast(cast(floats(values), pyarrow.string()), pyarrow.binary())


def contains(column: Any, text: str) -> bool:
    """Return whether a value of a column of texts contains this text."""
    matches = call_function("match_substring", [column], MatchSubstringOptions(text))
    return bool(call_function("any", [matches]).as_py())


def with_points(column: Any, mark: str = ",", by: str = ".") -> Any:
    """Return a column with a point for each comma of its texts; columns of other values are returned as they are."""
    types = pyarrow.types
    if not any(of(column.type) for of in (types.is_binary, types.is_string, types.is_large_string)):
        return column
    return call_function("replace_substring", [column], ReplaceSubstringOptions(mark, by))


def replaced(texts: Any, pattern: str, by: str) -> Any:
    """Return a column of texts with what matches a pattern replaced."""
    options = ReplaceSubstringOptions(pattern, by)
    return call_function("replace_substring_regex", [texts], options)


def numbers_in(column: Any) -> FloatArray:
    """Return the numbers in a column of texts or numbers; one of `ERRORS` for anything else, or a missing value."""
    if column.null_count or pyarrow.types.is_boolean(column.type):
        raise ValueError("a value is missing or no number")
    if pyarrow.types.is_binary(column.type):
        column = cast(column, pyarrow.string())
    if pyarrow.types.is_decimal(column.type):
        raise ValueError("Arrow may round a decimal in another way than Python")
    return as_array(cast(column, pyarrow.float64()), np.float64)
