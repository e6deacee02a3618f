"""A `Segmented` as a map, a table of levels and a query, run by databases."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest
from postgresql import server

from streamcal import CapabilityError, InputError, Interval, Platt
from streamcal.live import Segmented
from streamcal.live.exported import MEMBERS, flat_rows, level_columns, level_table, levels_sql


def learned(calibrator="platt", n=1_000):
    rng = np.random.default_rng(3)
    scores = rng.beta(1.0, 6.0, n)
    keys = {"campaign": [f"c{k}" for k in rng.integers(0, 12, n)], "device": rng.integers(0, 3, n).tolist()}
    lift = np.array([hash_of(name) for name in keys["campaign"]])
    z = np.log(scores / (1.0 - scores)) * 0.8 + lift
    cal = Segmented(calibrator, by=["campaign", ("campaign", "device")])
    cal.learn_many(scores, rng.random(n) < 1.0 / (1.0 + np.exp(-z)), keys=keys)
    return cal


def hash_of(name):
    return 1.5 * math.sin(7.0 * int(name[1:]))


ROWS = [
    (1, 0.05, "c1", 0),
    (2, 0.0, "c2", 1),
    (3, 1.0, "c3", 2),
    (4, 0.3, "unseen", 0),
    (5, 0.3, None, 1),
    (6, 0.3, "c4", None),
    (7, 1e-300, "c5", 2),
    (8, 0.999999, "c5", 2),
    *((k, 0.001 * k, f"c{k % 12}", k % 3) for k in range(9, 200)),
]


def wanted(cal):
    return [
        cal.predict_one(score, keys={"campaign": campaign, "device": device}) for _, score, campaign, device in ROWS
    ]


def assert_query_is_the_forecast(cal, found):
    """`found` has the rows (id, probability) of the query."""
    assert [id for id, _ in sorted(found)] == [row[0] for row in sorted(ROWS)]
    np.testing.assert_allclose([p for _, p in sorted(found)], wanted(cal), rtol=0.0, atol=1e-12)


def tables(cal, text, number):
    """Yield the tables that the query joins: name, columns with their types, and rows."""
    names = level_columns(cal)
    kinds = ["INTEGER", *[text] * (len(names) - 1 - len(MEMBERS)), *[number] * len(MEMBERS)]
    yield "levels", ", ".join(map(" ".join, zip(names, kinds, strict=True))), flat_rows(cal)
    yield "served", f"id INTEGER, pctr {number}, campaign {text}, device INTEGER", ROWS


def query(cal, dialect):
    return levels_sql(cal, "pctr", source="served", keep="id", dialect=dialect)


def executed(database, cal, dialect, text, number):
    """Return what a database of the DB-API finds."""
    for name, columns, rows in tables(cal, text, number):
        database.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows:
            database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
    return database.execute(query(cal, dialect)).fetchall()


@pytest.mark.parametrize("calibrator", ["isotonic", "ops"])
def test_the_query_is_the_forecast_in_sqlite(calibrator):
    database = sqlite3.connect(":memory:")
    database.create_function("LN", 1, math.log, deterministic=True)
    database.create_function("EXP", 1, math.exp, deterministic=True)
    cal = learned(calibrator)
    assert_query_is_the_forecast(cal, executed(database, cal, "sqlite", "TEXT", "REAL"))


@pytest.mark.full
def test_the_query_is_the_forecast_in_duckdb():
    duckdb = pytest.importorskip("duckdb", reason='pip install ".[test]" installs DuckDB')
    database, cal = duckdb.connect(config={"threads": 1}), learned()
    assert_query_is_the_forecast(cal, executed(database, cal, "duckdb", "VARCHAR", "DOUBLE"))


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_names_of_columns_are_in_quotes_and_none_is_taken(dialect):
    """`ad-order` is no difference of two columns; `p` and `z0` are columns of the source."""
    cal = Segmented("platt", by=["ad-order"])
    for k in range(400):
        cal.learn_one(0.25, k % (2 + k % 4) == 0, keys={"ad-order": k % 4})
    if dialect == "sqlite":
        database = sqlite3.connect(":memory:")
        database.create_function("LN", 1, math.log, deterministic=True)
        database.create_function("EXP", 1, math.exp, deterministic=True)
    else:
        database = pytest.importorskip("duckdb").connect(config={"threads": 1})
    (name, columns, rows), _ = tables(cal, "TEXT", "REAL" if dialect == "sqlite" else "DOUBLE")
    database.execute(f"CREATE TABLE {name} ({columns})")
    database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", list(map(list, rows)))
    served = '"id" INTEGER, pctr FLOAT, "ad-order" INTEGER, ad INTEGER, "order" INTEGER, p FLOAT, z0 FLOAT, z1 FLOAT'
    database.execute(f"CREATE TABLE served ({served})")
    for k in range(4):
        database.execute(f"INSERT INTO served VALUES ({k}, 0.25, {k}, {k + 2}, 1, 0.9, 5.0, 5.0)")
    found = dict(database.execute(query(cal, dialect)).fetchall())
    assert found == pytest.approx({k: cal.predict_one(0.25, keys={"ad-order": k}) for k in range(4)}, abs=1e-12)


@pytest.mark.full
def test_the_query_is_the_forecast_in_postgresql():
    def written(value):
        return "NULL" if value is None else repr(value)

    cal = learned()
    with server() as run:
        for name, columns, rows in tables(cal, "TEXT", "float8"):
            values = ", ".join(f"({', '.join(map(written, row))})" for row in rows)
            run(f"CREATE TABLE {name} ({columns}); INSERT INTO {name} VALUES {values}")
        found = [line.split("|") for line in run(query(cal, "postgresql"))]
    assert_query_is_the_forecast(cal, [(int(id), float(p)) for id, p in found])


@pytest.mark.full
@pytest.mark.sample(3)
@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "clickhouse"])
def test_a_parser_reads_the_query_for_databases_that_are_not_run(dialect):
    sqlglot = pytest.importorskip("sqlglot", reason='pip install ".[test]" installs sqlglot')
    (found,) = sqlglot.parse(query(learned("platt"), dialect), dialect=dialect)
    assert len(list(found.find_all(sqlglot.exp.Join))) == 3, "two fields, and all traffic"
    assert ("SETTINGS join_use_nulls = 1" in found.sql(dialect)) == (dialect == "clickhouse"), "NULL without a level"


def test_the_table_has_a_row_for_each_level():
    cal = learned()
    rows = level_table(cal)
    assert [row.place for row in rows].count(0) == 12
    assert {row.level for row in rows if row.place == 0} == {(f"c{k}",) for k in range(12)}
    assert {len(row.level) for row in rows if row.place == 1} == {2}
    assert {len(row) for row in flat_rows(cal)} == {len(level_columns(cal))} == {3 + len(MEMBERS)}
    assert [row.level for row in rows if row.place == 2] == [()]


def test_what_no_table_of_levels_has_is_refused(tmp_path):
    paired = Segmented("platt", by=["a", "b"], pairs=True)
    for cal in (paired, Segmented("platt", by=["a"], store=str(tmp_path / "levels.db"))):
        with pytest.raises(CapabilityError, match="cannot be exported"):
            level_table(cal)
        with pytest.raises(CapabilityError, match="cannot be exported"):
            levels_sql(cal, "s", source="served")
    with pytest.raises(CapabilityError, match="no probabilities"):
        levels_sql(Segmented(Platt(scale=Interval(0.0, 9.0)), by=["a"]), "s", source="served")
    with pytest.raises(InputError, match="'oracle' is unknown"):
        levels_sql(Segmented("platt", by=["a"]), "s", source="served", dialect="oracle")
