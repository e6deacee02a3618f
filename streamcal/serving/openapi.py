"""The schema of the service, OpenAPI 3.1: what `reading.py` takes and `app.py` answers."""

from __future__ import annotations

import math
from typing import Any

import streamcal
from streamcal.live.shadow import LONGEST_NAME
from streamcal.maps.writing import FORMATS
from streamcal.parameters.inputs import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.serving import arrow
from streamcal.serving.arrow import ISSUED, KNOWN
from streamcal.serving.reading import LARGEST_WHOLE, LEAST_WHOLE
from streamcal.serving.service import Service
from streamcal.serving.settings import LONGEST_TEXT

#: What every answer may be instead, by status.
ERRORS = {
    "400": "the body is no JSON or no stream of Arrow, or ended early",
    "401": "the token is missing or wrong",
    "408": "the body did not come in time",
    "409": "the id was issued with another score, the time is too far from the clock, or no challenger is better",
    "413": "the body or the batch is too long",
    "415": "the body is not called JSON or Arrow, or is compressed",
    "422": "a value cannot be used",
    "431": "the headers are too long",
    "503": "the disk is full; try again after the seconds of Retry-After",
}
BINARY = {"type": "string", "format": "binary"}
TEXT = {"type": "string", "maxLength": LONGEST_TEXT}
NUMBER = {"type": ["number", "null"]}
COUNT = {"type": ["integer", "null"]}
WHOLE = {"type": "integer"}
#: A version of the calibrator in use: its number, its name, and the outcomes learned before it came into use.
VERSION = {"number": WHOLE, "name": {"type": "string"}, "since": WHOLE}


def schema(service: Service) -> dict[str, Any]:
    """Return the schema as plain data."""
    issue, outcome = issue_schema(service), outcome_schema(service)
    id = {"type": ["string", "integer"]}
    issued = closed({"id": id, "p": {"type": "number", "minimum": 0, "maximum": 1}, "version": maybe(id)})
    known = closed({"id": id, "known": {"type": "boolean"}, "contradicts": {"type": "boolean"}})
    paths = {
        "/v1/issue": {"post": taking("Issue the calibrated probability of an impression", issue, issued)},
        "/v1/outcome": {"post": taking("Tell the outcome of an impression", outcome, known)},
        "/v1/issue/batch": {"post": batch("Issue the probabilities of many", issue, issued, ISSUED, service)},
        "/v1/outcome/batch": {"post": batch("Tell the outcomes of many", outcome, known, KNOWN, service)},
        "/v1/map": {"get": map_operation()},
        "/v1/backup": {"post": backup()},
        "/v1/challengers": {"get": challengers()},
        "/v1/promote": {"post": changing("Put a challenger into use that is shown to be better", promotion())},
        "/v1/rollback": {"post": changing("Put an earlier version into use again", closed({"version": WHOLE}))},
        "/v1/segments/{field}": {"get": segments()},
        "/metrics": {"get": showing("Metrics for Prometheus", {"type": "string"}, content="text/plain")},
        "/healthz": {"get": {**showing("Whether the process answers", {"type": "object"}), "security": []}},
        "/readyz": {"get": {**showing("Whether events can be taken", {"type": "object"}, "503"), "security": []}},
        "/docs": {"get": showing("This schema as a page, for a browser", {"type": "string"}, content="text/html")},
        "/openapi.json": {"get": showing("This schema", {"type": "object"})},
    }
    if service.page is not None:
        paths["/"] = {"get": showing("The report, for a browser", {"type": "string"}, "503", content="text/html")}
    info = {"title": "streamcal serve", "version": streamcal.__version__}
    described: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": paths}
    if service.tokens.asked:
        described["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        described["security"] = [{"token": []}]
    return described


WEIGHT = {"anyOf": [{"const": 0}, {"type": "number", "minimum": SMALLEST_WEIGHT, "maximum": LARGEST_WEIGHT}]}


def issue_schema(service: Service) -> dict[str, Any]:
    """Describe an impression."""
    low, high = service.join.calibrator.scale.domain
    score = {"type": "number", "minimum": low, "maximum": high}
    level = {"anyOf": [TEXT, {"type": "integer", "minimum": LEAST_WHOLE, "maximum": LARGEST_WHOLE}]}
    keys = {
        "type": "object",
        "maxProperties": service.settings.max_keys,
        "propertyNames": TEXT,
        "additionalProperties": maybe(level),
    }
    fields = {
        "id": id_schema(),
        "score": {name: value for name, value in score.items() if not (isinstance(value, float) and math.isinf(value))},
        "t": {"type": "number"},
        "keys": maybe(keys),
        "version": maybe(id_schema()),
        "w": maybe(WEIGHT),
    }
    return item(fields, ["id", "score"], service)


def outcome_schema(service: Service) -> dict[str, Any]:
    """Describe an outcome."""
    label = {"enum": [True, False, 0, 1]}
    fields = {"id": id_schema(), "y": label, "t": {"type": "number"}, "w": maybe(WEIGHT)}
    return item(fields, ["id", "y"], service)


def item(fields: dict[str, Any], needed: list[str], service: Service) -> dict[str, Any]:
    """Describe an object with these fields; `t` is required too if clients give the times."""
    needed = [*needed, "t"] if service.settings.event_time else needed
    if not service.settings.event_time:
        fields["t"] = maybe(fields["t"])
    return {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}


def id_schema() -> dict[str, Any]:
    """Describe an id or a version."""
    text = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT, "pattern": "^[ -~]+$"}
    return {"anyOf": [text, {"type": "integer", "minimum": LEAST_WHOLE, "maximum": LARGEST_WHOLE}]}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a value of the given schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def closed(fields: dict[str, Any]) -> dict[str, Any]:
    """Describe an object that has these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def taking(summary: str, body: dict[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    """Describe an operation with a body."""
    asked = {"required": True, "content": {"application/json": {"schema": body}}}
    return {"summary": summary, "requestBody": asked, "responses": responses(answered, *ERRORS)}


def batch(
    summary: str, one: dict[str, Any], answered: dict[str, Any], columns: tuple[str, ...], service: Service
) -> dict[str, Any]:
    """Describe an operation on a list of items; a refused item has null in its place, and an error of its own.

    The body accepts any list, and the service checks each item. A generator of requests that keeps to the schema of
    the item would never test that check, so the schema of the item is beside that of the body. A stream of Arrow has a
    column for each field of an item, and its answer these `columns`.
    """
    refused = closed({"index": {"type": "integer"}, "status": {"type": "integer"}, **error()["properties"]})
    both = {"results": {"type": "array", "items": maybe(answered)}, "errors": {"type": "array", "items": refused}}
    items = {"type": "array", "items": {}, "maxItems": service.settings.max_batch, "x-item": one}
    described = f"{summary}; an item that cannot be used is named in the list errors, and the others are used"
    operation = {**taking(summary, items, closed(both)), "description": described}
    asked = f"a stream of Arrow with the columns {', '.join(one['required'])}; of items: {', '.join(one['properties'])}"
    operation["requestBody"]["content"][arrow.MEDIA_TYPE] = {"schema": {**BINARY, "description": asked}}
    answered_in_arrow = f"if the header Accept asks for it: a stream of Arrow with the columns {', '.join(columns)}"
    operation["responses"]["200"]["content"][arrow.MEDIA_TYPE] = {
        "schema": {**BINARY, "description": answered_in_arrow}
    }
    return operation


def backup() -> dict[str, Any]:
    """Describe the operation that writes a copy of the journal."""
    count = {"type": "integer"}
    written = closed({"path": {"type": "string"}, "events": count, "bytes": count, "seconds": {"type": "number"}})
    return showing("Write a copy of the journal to the file of --backup, while requests go on", written, "404", "503")


def map_operation() -> dict[str, Any]:
    """Describe the operation that shows the map, in a format on demand."""
    shown = showing("The calibration map", {"type": "object"}, "404", "422")
    content = shown["responses"]["200"]["content"]
    content |= {kind: {"schema": {"type": "string"}} for kind in FORMATS.values() if kind not in content}
    asked = {"name": "format", "in": "query", "required": False, "schema": {"enum": list(FORMATS)}}
    return {**shown, "parameters": [asked]}


def challengers() -> dict[str, Any]:
    """Describe the operation that shows the calibrator in use and its challengers."""
    text = {"type": "string"}
    numbers = {"labels": WHOLE, "difference": NUMBER, "low": NUMBER, "high": NUMBER, "method": text}
    one = closed({"name": text, "verdict": {"enum": ["better", "worse", "undecided"]}, **numbers})
    shown = closed({**VERSION, "method": text, "challengers": {"type": "array", "items": one}})
    return showing("The calibrator in use, and how challengers compare with it", shown, "404")


def promotion() -> dict[str, Any]:
    """Describe the request that promotes a challenger, without a name the best one."""
    name = maybe({"type": "string", "minLength": 1, "maxLength": LONGEST_NAME})
    return {"type": "object", "properties": {"name": name}, "required": [], "additionalProperties": False}


def changing(summary: str, body: dict[str, Any]) -> dict[str, Any]:
    """Describe an operation that puts another calibrator into use."""
    operation = taking(summary, body, closed(VERSION))
    operation["responses"] |= responses(closed(VERSION), "404")
    return operation


def segments() -> dict[str, Any]:
    """Describe the operation that shows the segments of a field."""
    effect = closed({name: {"type": "number"} for name in ("mean", "sd", "n")})
    level = closed(
        {
            "level": {"type": ["string", "integer", "array"]},  # an array for a tuple of fields
            "e_value": {"anyOf": [NUMBER, {"const": "infinite"}]},
            "labels": COUNT,
            "forecast": NUMBER,
            "positives": NUMBER,
        }
    )
    level["properties"]["effect"] = effect
    unbounded = {"anyOf": [NUMBER, {"const": "infinite"}]}
    numbers = dict.fromkeys(("evidence", "gap", "variance"), NUMBER)
    level["properties"]["group"] = closed({**numbers, "bound": unbounded})
    shown = closed({"field": {"type": "string"}, "levels": {"type": "array", "items": level}})
    field = {"name": "field", "in": "path", "required": True, "schema": {"type": "string"}}
    return {**showing("What is known of the levels of a field of keys", shown, "404"), "parameters": [field]}


def showing(summary: str, shown: dict[str, Any], *others: str, content: str = "application/json") -> dict[str, Any]:
    """Describe an operation without a body."""
    return {"summary": summary, "responses": responses(shown, "401", "431", *others, content=content)}


def responses(answered: dict[str, Any], *others: str, content: str = "application/json") -> dict[str, Any]:
    """Describe the answers of an operation."""
    texts = {**ERRORS, "404": "there is none"}
    failed = {"application/json": {"schema": error()}}
    wrong = {status: {"description": texts[status], "content": failed} for status in others}
    return {"200": {"description": "done", "content": {content: {"schema": answered}}}, **wrong}


def error() -> dict[str, Any]:
    """Describe the answer to a refused request: what is wrong, where, and what is allowed."""
    return closed({name: {"type": "string"} for name in ("error", "where", "allowed")})
