"""The page at /docs: the schema of the service for people, with a command to try for each address."""

from __future__ import annotations

import json
from html import escape
from typing import Any

#: The page loads nothing and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

STYLE = """:root{color-scheme:light dark}body{max-width:60rem;margin:0 auto;padding:1rem;
font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}pre{overflow-x:auto;padding:.5rem;
border:1px solid #8888;border-radius:.3rem}"""

#: Values of the commands, by field.
EXAMPLES = {"id": "a1", "score": 0.25, "y": True, "version": 1}


def page(schema: dict[str, Any]) -> bytes:
    """Return the HTML of a schema that `openapi.schema` made."""
    parts = [
        operation(path, verb, call, schema) for path, verbs in schema["paths"].items() for verb, call in verbs.items()
    ]
    title = f"{schema['info']['title']} {schema['info']['version']}"
    lead = "The machine-readable schema is at <a href='/openapi.json'>/openapi.json</a>."
    if "security" in schema:
        lead += " Every address but the probes needs the header <code>Authorization: Bearer TOKEN</code>."
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>{lead}</p>{''.join(parts)}</html>"
    ).encode()


def operation(path: str, verb: str, call: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return what is said of an address: its fields, its answers, and a command."""
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    shown = [
        f"<h2><code>{verb.upper()} {escape(path)}</code></h2><p>{escape(call.get('description', call['summary']))}.</p>"
    ]
    item = None if body is None else body.get("x-item", body)
    if item is not None:
        rows = [(name, kind(described), name in item["required"]) for name, described in item["properties"].items()]
        cells = [
            f"<tr><td><code>{name}</code><td>{escape(text)}<td>{'yes' if must else ''}" for name, text, must in rows
        ]
        shown.append(f"<table><tr><th>field<th>values<th>required{''.join(cells)}</table>")
    kinds = [call.get("requestBody", {}), call["responses"]["200"]]
    descriptions = [
        answered["schema"].get("description") for kind in kinds for answered in kind.get("content", {}).values()
    ]
    shown += [f"<p>Also {escape(text)}.</p>" for text in descriptions if text is not None]
    answers = [
        f"<tr><td>{status}<td>{escape(answered['description'])}" for status, answered in call["responses"].items()
    ]
    shown.append(f"<details><summary>Answers</summary><table><tr><th>status<th>{''.join(answers)}</table></details>")
    shown.append(f"<pre>{escape(command(path, body, item, 'security' in schema and call.get('security') != []))}</pre>")
    return "".join(shown)


def command(path: str, body: dict[str, Any] | None, item: dict[str, Any] | None, token: bool) -> str:
    """Return a call of curl."""
    words = [f"curl -s localhost:8420{path.replace('{field}', 'campaign')}"]
    if token:
        words.append('-H "Authorization: Bearer $STREAMCAL_TOKEN"')
    if item is not None:
        example: Any = {
            name: value for name, value in {**EXAMPLES, "t": 1_700_000_000}.items() if name in item["required"]
        }
        content = json.dumps([example] if item is not body else example)
        words.append(f"-H 'Content-Type: application/json' -d '{content}'")
    return " \\\n  ".join(words)


def digits(bound: float) -> str:
    """Return a bound in all its digits, if it is a whole number."""
    return str(bound) if isinstance(bound, int) else f"{bound:.15g}"


def kind(described: dict[str, Any]) -> str:
    """Return what a schema allows, in words."""
    if "anyOf" in described:
        return " or ".join(kind(option) for option in described["anyOf"])
    if "enum" in described or "const" in described:
        return ", ".join(json.dumps(option) for option in described.get("enum", [described.get("const")]))
    text = " or ".join([described["type"]] if isinstance(described["type"], str) else described["type"])
    if described["type"] == "string":
        return (
            f"{text} of {described.get('minLength', 0)} to {described['maxLength']} characters"
            if "maxLength" in described
            else text
        )
    if described["type"] == "object":
        return "object of fields and their levels" if "additionalProperties" in described else text
    ends = [
        f"at {word} {digits(described[name])}"
        for word, name in (("least", "minimum"), ("most", "maximum"))
        if name in described
    ]
    return " ".join([text, *([", ".join(ends)] if ends else [])])
