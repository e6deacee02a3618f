"""A `Segmented` for systems without streamcal: the map of all observations, a table of levels, and their join."""

from __future__ import annotations

import math
from typing import NamedTuple

from streamcal.errors import CapabilityError, InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.kernels.segments.segment_chain import LIMIT
from streamcal.live.segmented import Segmented
from streamcal.maps.base import ScaledMap
from streamcal.maps.sql import DIALECTS, literal, writing_for

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
#: The columns of the table of levels after those of the level.
MEMBERS = ("offset_", "recent", "free", "intercept", "slope")


class LevelRow(NamedTuple):
    """The terms that a field's members add to the log-odds z of a level: a number each, and intercept + slope·z."""

    place: int  #: which field of `by`, from 0
    level: tuple[str, ...]  #: the level, a text for each column of the field
    #: The members of `Segmented` but "nothing".
    offset_: float
    recent: float
    free: float
    intercept: float
    slope: float


def level_table(cal: Segmented) -> list[LevelRow]:
    """Return the rows of all levels that are held, of a `Segmented` without `pairs` and without a `store`.

    Raise `CapabilityError` if predictions depend on pairs or on levels in a store.

    Examples
    --------
    >>> cal = Segmented("identity", by=["device"])
    >>> cal.learn_many([0.5] * 40, {"device": ["a", "a", "b", "a"] * 10}, [1, 1, 0, 0] * 10)
    >>> sorted((row.place, row.level) for row in level_table(cal))
    [(0, ('a',)), (0, ('b',))]
    """
    if cal.pairs or cal.store is not None:
        raise CapabilityError(
            f"{cal!r} cannot be exported: pairs and levels in a store are not part of a table of levels"
        )
    rows = []
    for place, field in enumerate(cal.by):
        for level in cal.levels(field):
            levels = [level if other == place else None for other in range(len(cal.by))]
            at_zero, at_one = (cal._chain.parts(sigmoid(z), levels)[1][place] for z in (0.0, 1.0))
            texts = tuple(map(str, level)) if isinstance(level, tuple) else (str(level),)
            offset, recent, free, intercept = at_zero[1:]
            rows.append(LevelRow(place, texts, offset, recent, free, intercept, at_one[4] - intercept - 1.0))
    return rows


def level_columns(cal: Segmented) -> list[str]:
    """Return the names of the columns of the table: the place of the field, the level, and the members."""
    width = max(len(_columns(field)) for field in cal.by)
    return ["place", *(f"level_{number}" for number in range(1, width + 1)), *MEMBERS]


def flat_rows(cal: Segmented) -> list[tuple[int | str | float | None, ...]]:
    """Return the rows of the table as `level_columns` names them; a level with fewer columns is None in the others."""
    width = len(level_columns(cal)) - 1 - len(MEMBERS)
    return [(row.place, *row.level, *[None] * (width - len(row.level)), *row[2:]) for row in level_table(cal)]


def levels_sql(
    cal: Segmented, column: str, *, source: str, levels: str = "levels", keep: str = "id", dialect: str = "sqlite"
) -> str:
    """Return the query of the calibrated probability, which joins the table of levels once for each field.

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
        return _query(cal, calibrated, levels, keep, dialect)


def _query(cal: Segmented, calibrated: str, levels: str, keep: str, dialect: str) -> str:
    """Write the query after that of the map; its columns have names that those of the source will hardly have."""
    p, low, high = "calibrated_p", literal(math.exp(-LIMIT)), literal(1.0 - math.exp(-LIMIT))
    ends = f"WHEN {p} < {low} THEN {literal(-LIMIT)} WHEN {p} > {high} THEN {literal(LIMIT)}"
    z0 = f"CASE {ends} ELSE LN({p}) - LN(1e0 - {p}) END"
    once = "AS MATERIALIZED" if dialect in MATERIALIZED else "AS"
    steps = [
        f"calibrated_ {once} ({calibrated})",
        f"calibrated_0 {once} (SELECT s.*, {z0} AS calibrated_z0 FROM calibrated_ AS s)",
    ]
    for place, field in enumerate(cal.by):
        weights = [float(weight) for weight in cal.weights(field).values()]
        on = " AND ".join(
            f"l.level_{number} = CAST(s.{_quoted(name, dialect)} AS {TEXT[dialect]})"
            for number, name in enumerate(_columns(field), 1)
        )
        z = f"s.calibrated_z{place}"
        corrected = f"CASE WHEN l.place IS NULL THEN {z} ELSE {_mixed(z, weights)} END AS calibrated_z{place + 1}"
        joined = f"calibrated_{place} AS s LEFT JOIN {levels} AS l ON l.place = {place} AND {on}"
        steps.append(f"calibrated_{place + 1} {once} (SELECT s.*, {corrected} FROM {joined})")
    last = len(cal.by)
    chosen = f"SELECT {keep}, 1e0 / (1e0 + EXP(-calibrated_z{last})) AS calibrated FROM calibrated_{last}"
    # Without it, a row of the source without a level would get zeros in place of NULL.
    settings = "\nSETTINGS join_use_nulls = 1" if dialect == "clickhouse" else ""
    return "WITH " + ",\n".join(steps) + f"\n{chosen}{settings}"


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


def _mixed(z: str, weights: list[float]) -> str:
    """Write SQL for the log-odds of the mixture of the members: ln of Σ W σ(z + m) over Σ W σ(−z − m)."""
    said = [z, *(f"({z} + l.{name})" for name in MEMBERS[:3])]
    clamped = f"CASE WHEN {z} < -16e0 THEN -16e0 WHEN {z} > 16e0 THEN 16e0 ELSE {z} END"
    said.append(f"({z} + l.intercept + l.slope * ({clamped}))")
    positive = " + ".join(f"{literal(weight)} / (1e0 + EXP(-{one}))" for weight, one in zip(weights, said, strict=True))
    negative = " + ".join(f"{literal(weight)} / (1e0 + EXP({one}))" for weight, one in zip(weights, said, strict=True))
    return f"LN(({positive}) / ({negative}))"
