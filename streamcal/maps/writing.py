"""A map as bytes in each format of `streamcal map` and of `/v1/map?format=`."""

from __future__ import annotations

from streamcal.maps.base import ScaledMap

#: Name of the format → its media type.
FORMATS = {
    "onnx": "application/octet-stream",
    "c": "text/x-c",
    "json": "application/json",
    "sql": "text/plain",
    "js": "text/javascript",
}


def written(
    map: ScaledMap,
    format: str,
    *,
    column: str = "score",
    dialect: str = "sqlite",
    name: str = "calibrate",
    single: bool = False,
) -> bytes:
    """Return a map in one of `FORMATS`; `column` and `dialect` are of "sql", `name` is of "c", `single` of "onnx"."""
    if format == "onnx":
        return map.to_onnx("float" if single else "double").SerializeToString()
    texts = {
        "c": lambda: map.to_c(name),
        "json": lambda: f"{map.to_json()}\n",
        "sql": lambda: f"{map.to_sql(column, dialect)}\n",
        "js": map.to_js,
    }
    return texts[format]().encode()
