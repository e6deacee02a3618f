"""A `Segmented` as a map, a table of levels and a query, run by databases."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest

from streamcal import CapabilityError, InputError
from streamcal.live import Segmented
from streamcal.live.exported import flat_rows, level_columns, level_table, levels_sql


def learned(calibrator="platt", n=1_000):
    rng = np.random.default_rng(3)
    scores = rng.beta(1.0, 6.0, n)
    keys = {"campaign": [f"c{k}" for k in rng.integers(0, 12, n)], "device": rng.integers(0, 3, n).tolist()}
    lift = np.array([hash_of(name) for name in keys["campaign"]])
    z = np.log(scores / (1.0 - scores)) * 0.8 + lift
    cal = Segmented(calibrator, by=["campaign", ("campaign", "device")])
    cal.learn_many(scores, keys, rng.random(n) < 1.0 / (1.0 + np.exp(-z)))
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
    return [cal.predict_one(score, {"campaign": campaign, "device": device}) for _, score, campaign, device in ROWS]


def assert_query_is_the_forecast(execute, cal, dialect, text, number):
    names = level_columns(cal)
    kinds = ["INTEGER", *[text] * (len(names) - 6), *[number] * 5]
    execute(f"CREATE TABLE levels ({', '.join(map(' '.join, zip(names, kinds, strict=True)))})")
    for row in flat_rows(cal):
        execute(f"INSERT INTO levels VALUES ({', '.join('?' * len(row))})", list(row))
    execute(f"CREATE TABLE served (id INTEGER, pctr {number}, campaign {text}, device INTEGER)")
    for row in ROWS:
        execute("INSERT INTO served VALUES (?, ?, ?, ?)", list(row))
    query = levels_sql(cal, "pctr", source="served", keep="id", dialect=dialect)
    found = execute(f"SELECT calibrated FROM ({query}) AS q ORDER BY id").fetchall()
    np.testing.assert_allclose([p for (p,) in found], wanted(cal), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("calibrator", ["isotonic", "ops"])
def test_the_query_is_the_forecast_in_sqlite(calibrator):
    database = sqlite3.connect(":memory:")
    database.create_function("LN", 1, math.log, deterministic=True)
    database.create_function("EXP", 1, math.exp, deterministic=True)
    assert_query_is_the_forecast(database.execute, learned(calibrator), "sqlite", "TEXT", "REAL")


@pytest.mark.full
def test_the_query_is_the_forecast_in_duckdb():
    duckdb = pytest.importorskip("duckdb", reason='pip install ".[test]" installs DuckDB')
    database = duckdb.connect(config={"threads": 1})
    assert_query_is_the_forecast(database.execute, learned(), "duckdb", "VARCHAR", "DOUBLE")


def test_the_table_has_a_row_for_each_level():
    cal = learned()
    rows = level_table(cal)
    assert [row.place for row in rows].count(0) == 12
    assert {row.level for row in rows if row.place == 0} == {(f"c{k}",) for k in range(12)}
    assert {len(row.level) for row in rows if row.place == 1} == {2}
    assert {len(row) for row in flat_rows(cal)} == {len(level_columns(cal))} == {8}


def test_what_no_table_of_levels_has_is_refused(tmp_path):
    paired = Segmented("platt", by=["a", "b"], pairs=True)
    for cal in (paired, Segmented("platt", by=["a"], store=str(tmp_path / "levels.db"))):
        with pytest.raises(CapabilityError, match="cannot be exported"):
            level_table(cal)
        with pytest.raises(CapabilityError, match="cannot be exported"):
            levels_sql(cal, "s", source="served")
    with pytest.raises(InputError, match="'oracle' is unknown"):
        levels_sql(Segmented("platt", by=["a"]), "s", source="served", dialect="oracle")
