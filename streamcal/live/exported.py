"""A `Segmented` for systems without streamcal: the map of all observations, a table of levels, and their join."""

from __future__ import annotations

import math
from typing import NamedTuple

from streamcal.errors import CapabilityError, InputError
from streamcal.kernels.segments.segment_chain import LIMIT
from streamcal.live.segmented import Segmented
from streamcal.maps.base import ScaledMap
from streamcal.maps.sql import DIALECTS, literal, rising, writing_for

#: The type of text in each dialect.
TEXT = {
    "sqlite": "TEXT",
    "postgresql": "TEXT",
    "duckdb": "VARCHAR",
    "bigquery": "STRING",
    "spark": "STRING",
    "snowflake": "VARCHAR",
    "clickhouse": "Nullable(String)",
}
#: Databases that would otherwise compute a step again at each place where the next one names it.
MATERIALIZED = frozenset({"sqlite", "postgresql", "duckdb"})
#: The columns of what the members of the first order add, and of their weights in "own".
FIRST = ("offset_", "offset_100", "offset_10", "free", "intercept", "slope")
OWN = ("own_nothing", "own_offset", "own_offset_100", "own_offset_10", "own_free", "own_line")
#: The columns of what the members of the second order add.
SECOND = ("score_offset", "score_offset_100", "score_intercept", "score_slope")
#: The columns of the table of levels after those of the level.
MEMBERS = (*FIRST, *OWN, *SECOND)


class LevelRow(NamedTuple):
    """The terms that a field's members add to the log-odds z of a level: a number each, and intercept + slope·z."""

    place: int  #: which field of `by`, from 0; after them all traffic, which has only the second order
    level: tuple[str, ...]  #: the level, a text for each column of the field; empty for all traffic
    #: One number for each of `MEMBERS`.
    terms: tuple[float, ...]


def level_table(cal: Segmented) -> list[LevelRow]:
    """Return the rows of all levels that are held, of a `Segmented` without `pairs` and without a `store`.

    Raise `CapabilityError` if predictions depend on pairs or on levels in a store.

    Examples
    --------
    >>> cal = Segmented("identity", by=["device"])
    >>> cal.learn_many([0.5] * 40, [1, 1, 0, 0] * 10, keys={"device": ["a", "a", "b", "a"] * 10})
    >>> sorted((row.place, row.level) for row in level_table(cal))
    [(0, ('a',)), (0, ('b',)), (1, ())]
    """
    if cal.pairs or cal.store is not None:
        raise CapabilityError(
            f"{cal!r} cannot be exported: pairs and levels in a store are not part of a table of levels"
        )
    rows = []
    for place in range(len(cal.by) + 1):
        for level in cal._chain.levels(place):
            texts = tuple(map(str, level)) if isinstance(level, tuple) else (str(level),)
            terms = [term for part in cal._chain.terms(place, level) for term in part]
            rows.append(LevelRow(place, texts if place < len(cal.by) else (), tuple(terms)))
    return rows


def level_columns(cal: Segmented) -> list[str]:
    """Return the names of the columns of the table: the place of the field, the level, and the members."""
    width = max(len(_columns(field)) for field in cal.by)
    return ["place", *(f"level_{number}" for number in range(1, width + 1)), *MEMBERS]


def flat_rows(cal: Segmented) -> list[tuple[int | str | float | None, ...]]:
    """Return the rows of the table as `level_columns` names them; a level with fewer columns is None in the others."""
    width = len(level_columns(cal)) - 1 - len(MEMBERS)
    return [(row.place, *row.level, *[None] * (width - len(row.level)), *row.terms) for row in level_table(cal)]


def levels_sql(
    cal: Segmented, column: str, *, source: str, levels: str = "levels", keep: str = "id", dialect: str = "sqlite"
) -> str:
    """Return the query of the calibrated probability, which joins the table of levels once for each field and order.

    Parameters
    ----------
    cal : Segmented
        Without `pairs` and without a `store`, whose calibrator has a map of the score.
    column : str
        The column of scores in `source`. The columns of levels have the names of the fields, and contain texts or
        whole numbers.
    source, levels : str
        The tables of observations and of levels; the table of levels has the columns of `level_columns`.
    keep : str
        The columns of `source` to select in addition to `calibrated`, with commas between them.
    dialect : {"sqlite", "postgresql", "duckdb", "bigquery", "spark", "snowflake", "clickhouse"}
        The database; the last two and BigQuery are run by no test.

    Raises
    ------
    CapabilityError
        If predictions depend on pairs or on levels in a store, or the calibrator has no map of the score.
    InputError
        If the dialect is unknown.
    """
    map = cal.overall.map() if hasattr(cal.overall, "map") else None
    if cal.pairs or cal.store is not None or not isinstance(map, ScaledMap):
        raise CapabilityError(
            f"{cal!r} cannot be exported: it needs a calibrator with a map, without pairs and a store"
        )
    if dialect not in DIALECTS:
        raise InputError(f"dialect={dialect!r} is unknown; known are {', '.join(DIALECTS)}")
    calibrated = f"SELECT o.*, {map.to_sql(column, dialect)} AS calibrated_p FROM {source} AS o"
    with writing_for(dialect):
        return _query(cal, calibrated, column, levels, keep, dialect)


def _query(cal: Segmented, calibrated: str, column: str, levels: str, keep: str, dialect: str) -> str:
    """Write the query after that of the map; its columns have names that those of the source will hardly have."""
    once = "AS MATERIALIZED" if dialect in MATERIALIZED else "AS"
    fields = len(cal.by)
    starts = f"{_log_odds('calibrated_p')} AS calibrated_z0, {_log_odds(_score(cal, column))} AS calibrated_s0"
    steps = [
        f"calibrated_ {once} ({calibrated})",
        f"calibrated_0 {once} (SELECT s.*, {starts} FROM calibrated_ AS s)",
    ]
    for place in range(fields + 1):
        z, s = f"s.calibrated_z{place}", f"s.calibrated_s{place}"
        on, first = [f"l.place = {place}"], ""
        if place < fields:
            for number, name in enumerate(_columns(cal.by[place]), 1):
                on.append(f"l.level_{number} = CAST(s.{_quoted(name, dialect)} AS {TEXT[dialect]})")
            first = f"{_either(z, _first(z, cal._chain.weights(place)))} AS calibrated_z{place + 1}, "
        second = f"{_either(s, _second(s, cal._chain.weights_twice(place)))} AS calibrated_s{place + 1}"
        joined = f"calibrated_{place} AS s LEFT JOIN {levels} AS l ON {' AND '.join(on)}"
        steps.append(f"calibrated_{place + 1} {once} (SELECT s.*, {first}{second} FROM {joined})")
    last = fields + 1
    orders = zip(cal._chain.orders(), (f"z{fields}", f"s{last}"), strict=True)
    p = " + ".join(f"{literal(weight)} / (1e0 + EXP(-calibrated_{name}))" for weight, name in orders)
    chosen = f"SELECT {keep}, {p} AS calibrated FROM calibrated_{last}"
    # Without it, a row of the source without a level would get zeros in place of NULL.
    settings = "\nSETTINGS join_use_nulls = 1" if dialect == "clickhouse" else ""
    return "WITH " + ",\n".join(steps) + f"\n{chosen}{settings}"


def _score(cal: Segmented, column: str) -> str:
    """Write SQL for the score read as a probability of the label."""
    scale = cal.overall.scale
    if scale.domain != (0.0, 1.0):
        raise CapabilityError(f"{cal!r} cannot be exported: its scores are no probabilities")
    return rising(scale, f"s.{column}")


def _log_odds(p: str) -> str:
    """Write SQL for the log-odds of a probability, within ±36."""
    low, high = literal(math.exp(-LIMIT)), literal(1.0 - math.exp(-LIMIT))
    ends = f"WHEN {p} < {low} THEN {literal(-LIMIT)} WHEN {p} > {high} THEN {literal(LIMIT)}"
    return f"CASE {ends} ELSE LN({p}) - LN(1e0 - {p}) END"


def _either(z: str, corrected: str) -> str:
    """Write SQL for the corrected log-odds where a level is known."""
    return f"CASE WHEN l.place IS NULL THEN {z} ELSE {corrected} END"


def _quoted(name: str, dialect: str) -> str:
    """Return the name of a column in quotes; without where PostgreSQL or Snowflake may have folded its letters.

    >>> _quoted("ad-group", "sqlite"), _quoted("order", "spark"), _quoted("Campaign", "postgresql")
    ('"ad-group"', '`order`', 'Campaign')
    """
    folded = {"postgresql": str.islower, "snowflake": str.isupper}.get(dialect)
    if folded is not None and name.isidentifier() and name.isascii() and not folded(name):
        return name
    mark = "`" if dialect in ("bigquery", "spark") else '"'
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def _columns(field: str | tuple[str, ...]) -> tuple[str, ...]:
    return field if isinstance(field, tuple) else (field,)


def _first(z: str, weights: list[float]) -> str:
    """Write SQL for the log-odds of the mixture of the first order's members."""
    *members, own = weights
    shares = [f"({literal(share)} + {literal(own)} * l.{name})" for share, name in zip(members, OWN, strict=True)]
    offsets = [f"({z} + l.{name})" for name in FIRST[:4]]
    return _mixed(shares, [z, *offsets, _line(z, "intercept", "slope")])


def _second(z: str, weights: list[float]) -> str:
    """Write SQL for the log-odds of the mixture of the second order's members."""
    offsets = [f"({z} + l.{name})" for name in SECOND[:2]]
    return _mixed([literal(weight) for weight in weights], [z, *offsets, _line(z, *SECOND[2:])])


def _line(z: str, intercept: str, slope: str) -> str:
    """Write SQL for the forecast of a line."""
    clamped = f"CASE WHEN {z} < -16e0 THEN -16e0 WHEN {z} > 16e0 THEN 16e0 ELSE {z} END"
    return f"({z} + l.{intercept} + l.{slope} * ({clamped}))"


def _mixed(weights: list[str], log_odds: list[str]) -> str:
    """Write SQL for the log-odds of the mixture of log-odds: ln of Σ W σ(u) over Σ W σ(−u)."""
    positive, negative = (
        " + ".join(f"{weight} / (1e0 + EXP({sign}{z}))" for weight, z in zip(weights, log_odds, strict=True))
        for sign in ("-", "")
    )
    return f"LN(({positive}) / ({negative}))"
