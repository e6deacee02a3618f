"""Write `calibration_map.schema.json`, the JSON Schema of the format of maps, version 1.

    python maps/schema.py

It states what a validator can check: fields, types and bounds. That lists rise, and that their lengths fit together, is
in the descriptions; `streamcal.load_map` checks both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamcal.maps import portable
from streamcal.maps.points import MERGES, POINTS, SCORED_POINTS

FILE = Path(__file__).parent / "calibration_map.schema.json"
NUMBER = {"type": "number"}
BOUNDED = {"type": "number", "minimum": -portable.LARGEST, "maximum": portable.LARGEST}
PROBABILITY = {"type": "number", "minimum": -portable.ROUNDING, "maximum": 1 + portable.ROUNDING}
RANKS = "nondecreasing from 0 to 1"
MISSING_BOUND = {"type": ["number", "null"], "description": "null is no bound"}


def numbers(name: str, least: int = 1, **more: Any) -> dict[str, Any]:
    """Return the schema of a list of numbers."""
    item = PROBABILITY if name in portable.PROBABILITIES else NUMBER if name in portable.RISING else BOUNDED
    rising = {"description": "strictly increasing"} if name in portable.RISING else {}
    return {"type": "array", "items": item, "minItems": least, **rising, **more}


def fields(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these fields alone."""
    every = required | (optional or {})
    return {"type": "object", "properties": every, "required": list(required), "additionalProperties": False}


def scales() -> list[dict[str, Any]]:
    """Return the schema of each kind of scale."""
    ends = {"lo": BOUNDED, "hi": BOUNDED}
    kinds: dict[str, dict[str, Any]] = {
        "probability": {},
        "logit": ends,
        "interval": dict.fromkeys(ends, MISSING_BOUND),
        "empirical-cdf": {"knots": numbers("knots"), "ranks": numbers("ranks", description=RANKS)},
    }
    decreasing = {"decreasing": {"type": "boolean", "description": "higher scores mean fewer positives"}}
    return [fields({"kind": {"const": kind}, **own}, decreasing) for kind, own in kinds.items()]


def lists(kind: str) -> dict[str, Any]:
    """Return the schemas of the lists of a kind, which `portable.LISTS` names."""
    schemas = {}
    for name, more in portable.LISTS.get(kind, {}).items():
        longer = {-1: "one number fewer than knots", 1: "one number more than cuts"}.get(more)
        described = {"description": longer} if longer else {}
        most = {"maxItems": portable.MOST_COEFFICIENTS} if name == "coefficients" else {}
        schemas[name] = numbers(name, 0 if name in ("cuts", "rises", "falls") else 1, **most, **described)
    return schemas


def contents() -> dict[str, dict[str, Any]]:
    """Return the further fields of each kind of map."""
    fold = {"lower": {"$ref": "#/$defs/steps"}, "upper": {"$ref": "#/$defs/steps"}}
    schemas = {kind: lists(kind) | dict.fromkeys(portable.NUMBERS.get(kind, ()), BOUNDED) for kind in portable.KINDS}
    schemas["interval"] = {"point": {"enum": list(POINTS)}, **fold}
    schemas["cross-interval"] = {
        "point": {"enum": list(MERGES)},
        "folds": {"type": "array", "items": fields(fold), "minItems": 1},
    }
    return schemas


def schema() -> dict[str, Any]:
    """Return the schema."""
    spots = fields({name: numbers(name, 0) for name in portable.LISTS["spots"]})
    spots["description"] = "scores s with first[i] <= s <= last[i] have the probability values[i]"
    own = [(kind, {"scale": {"$ref": "#/$defs/scale"}} | further) for kind, further in contents().items()]
    score = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    scored = {"scale": scales()[0], "point": {"enum": list(SCORED_POINTS)}, "least": score, "greatest": score}
    own.append(("interval", contents()["interval"] | scored))
    optional = {"spots": {"$ref": "#/$defs/spots"}}
    heads = [({"streamcal_map": {"const": portable.FORMAT}, "kind": {"const": kind}}, further) for kind, further in own]
    kinds = [fields(head | further, optional) for head, further in heads]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A calibration map of streamcal",
        "description": "From a score to a probability; docs/map_format.md has the formulas.",
        "oneOf": kinds,
        "$defs": {"scale": {"oneOf": scales()}, "steps": fields(lists("steps")), "spots": spots},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {len(contents())} kinds")
