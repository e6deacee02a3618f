"""Maps as SQL, run by the databases themselves."""

from __future__ import annotations

import math
import re
import sqlite3
import sys

import numpy as np
import pytest
from laws.binary import PROBES, realistic
from postgresql import server

from streamcal import REGISTRY, EmpiricalCDF, InputError, Interval, Isotonic, Logit, Platt, Probability
from streamcal.maps import sql
from streamcal.maps.knots import KnotMap, LogOddsMap
from streamcal.maps.polynomials import BernsteinMap
from streamcal.maps.sigmoids import BetaMap, SigmoidMap, SigmoidMixtureMap
from streamcal.maps.steps import StepMap


@pytest.fixture(scope="module")
def postgresql():
    with server() as query:
        yield query


def in_postgresql(query, expressions, scores):
    """One column for each expression; NaN where it is NULL."""
    rows = ", ".join(f"({place}, float8'{score!r}')" for place, score in enumerate(scores))
    query(f"CREATE TABLE IF NOT EXISTS served (i int, s float8); TRUNCATE served; INSERT INTO served VALUES {rows}")
    columns = []
    for expression in expressions:
        found = query(f"SELECT pg_typeof({expression}), {expression} FROM served ORDER BY i")
        assert {row.split("|")[0] for row in found} == {"double precision"}
        columns.append([float(row.split("|")[1] or "nan") for row in found])
    return np.array(columns)


def in_duckdb(expressions, scores):
    duckdb = pytest.importorskip("duckdb", reason='pip install ".[test]" installs DuckDB')
    database = duckdb.connect(config={"threads": 1})
    database.execute("CREATE TABLE served (i INTEGER, s DOUBLE)")
    database.executemany("INSERT INTO served VALUES (?, ?)", list(enumerate(scores)))
    return np.array(
        [
            [
                math.nan if p is None else p
                for (p,) in database.execute(f"SELECT {one} FROM served ORDER BY i").fetchall()
            ]
            for one in expressions
        ]
    )


#: One method for each kind of map.
ONE_OF_EACH_KIND = (
    "identity",
    "platt",
    "protected",
    "beta",
    "bernstein",
    "bernstein-logistic",
    "monotone-polynomial",
    "histogram-binning",
)
ONE_OF_EACH_KIND += ("isotonic", "auto", "smooth-isotonic", "venn-abers")


def learned(methods=ONE_OF_EACH_KIND):
    scores, y = realistic(seed=4, size=100, a=1.0, b=2.0)
    scores[::2] = np.round(scores[::2] * 16) / 16
    maps = []
    for name in methods:
        cal = REGISTRY[name]()
        cal.learn_many(scores, y)
        maps.append(cal.map())
    return maps, np.concatenate((PROBES, scores[:40]))


def assert_same(found, maps, scores):
    for values, one in zip(found, maps, strict=True):
        lo, hi = one.scale.domain
        want = [one.predict_one(score) if lo <= score <= hi else math.nan for score in scores]
        np.testing.assert_allclose(values, want, rtol=0.0, atol=1e-12, err_msg=repr(one))


def extremes():
    """Return maps whose terms would underflow or overflow, on scales with the smallest and the largest floats."""
    tiny = np.array([0.0, 1e-200, 1e-3, 0.5, 1.0])
    maps = [
        KnotMap(Probability(), np.array([0.0, 0.25, 1.0]), np.array([0.0, 1e-3, 1.0])),
        KnotMap(Probability(), tiny, np.linspace(0, 1, 5)),
        BernsteinMap(Probability(), np.append(np.zeros(50), 1.0)),
        BernsteinMap(Logit(), np.linspace(0.0, 1.0, 51)),
        BetaMap(Logit(-700.0, 700.0), 300.0, 200.0, 5.0),
        SigmoidMixtureMap(Probability(), np.array([1.0 - 1e-250, 1e-250]), (1e3, -1e3), (-900.0, 300.0)),
        LogOddsMap(Logit(), np.array([-16.0, 0.0, 16.0]), np.array([-900.0, 0.0, 900.0])),
        StepMap(Probability(decreasing=True), np.array([5e-324, 0.5]), [0.0, 0.25, 1.0]),
    ]
    margins = [
        SigmoidMap(Interval(), 1e4, -3.0),
        KnotMap(Interval(), np.array([-1.7e308, 1.7e308]), np.array([0.0, 1.0])),
        Isotonic(scale=Interval(-1.0, 1.0)).map(),
        SigmoidMap(EmpiricalCDF((-1.0, 0.0, 2.0), (0.0, 0.25, 1.0)), 2.0, 0.0),
    ]
    odd = [
        0.0,
        5e-324,
        1e-310,
        1e-200,
        1e-101,
        1e-99,
        1e-6,
        0.1,
        0.5,
        1.0 - 2.0**-53,
        1.0,
        math.nan,
        math.inf,
        -math.inf,
    ]
    return [(maps, [*odd, -5e-324, 1.0000000000000002]), (margins, [*odd, -0.1, 3.0, 1e300, -1e300, 1.7e308])]


@pytest.mark.full
def test_maps_are_the_same_in_postgresql(postgresql):
    for maps, scores in [learned(), *extremes()]:
        expressions = [one.to_sql("s", "postgresql") for one in maps]
        assert_same(in_postgresql(postgresql, expressions, list(map(float, scores))), maps, scores)


@pytest.mark.full
def test_maps_are_the_same_in_duckdb():
    for maps, scores in [learned(), *extremes()]:
        expressions = [one.to_sql("s", "duckdb") for one in maps]
        assert_same(in_duckdb(expressions, list(map(float, scores))), maps, scores)


def in_clickhouse(expressions, scores):
    """One column for each expression, in ClickHouse inside this process; NaN where it is NULL."""
    session = pytest.importorskip(
        "chdb.session", reason="chdb is not installed, ClickHouse is not run: pip install chdb"
    )
    database = session.Session()
    rows = ", ".join(f"({place}, {score!r})" for place, score in enumerate(scores))
    database.query("CREATE DATABASE one; CREATE TABLE one.served (i Int32, s Float64) ENGINE = Memory")
    database.query(f"INSERT INTO one.served VALUES {rows}")
    columns = []
    for one in expressions:
        text = str(
            database.query(f"SELECT {one} FROM one.served ORDER BY i SETTINGS max_query_size = 100000000", "CSV")
        )
        columns.append([math.nan if p == r"\N" else float(p) for p in text.splitlines()])
    database.close()
    return np.array(columns)


@pytest.mark.full
def test_maps_are_the_same_in_clickhouse():
    for maps, scores in [learned(), *extremes()]:
        expressions = [one.to_sql("s", "clickhouse") for one in maps]
        assert_same(in_clickhouse(expressions, list(map(float, scores))), maps, scores)


@pytest.mark.full
def test_the_map_of_every_method_is_the_same_in_duckdb():
    maps, scores = learned(REGISTRY)
    assert_same(in_duckdb([one.to_sql("s", "duckdb") for one in maps], scores.tolist()), maps, scores.tolist())


@pytest.mark.full
@pytest.mark.parametrize("dialect", ["postgresql", "duckdb"])
def test_ten_thousand_steps_are_the_same(dialect, postgresql):
    cuts = np.unique(np.random.default_rng(1).random(10_000))
    found = StepMap(Probability(), cuts, np.linspace(0.0, 1.0, len(cuts) + 1))
    scores = [*cuts[::100].tolist(), *np.nextafter(cuts[::100], 0.0).tolist()]
    expressions = [found.to_sql("s", dialect)]
    values = in_duckdb(expressions, scores) if dialect == "duckdb" else in_postgresql(postgresql, expressions, scores)
    assert values[0].tolist() == found.predict_many(scores).tolist()


@pytest.mark.full
@pytest.mark.sample(3)
@pytest.mark.parametrize("dialect", sql.DIALECTS)
def test_the_text_has_no_other_words(dialect):
    """Not all databases are run here: every word of the text is one that they share."""
    for one in [*learned()[0], *(one for maps, _ in extremes() for one in maps)]:
        text = one.to_sql("s", dialect)
        words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\b\d[\d.]*(e[+-]?\d+)?", "", text)))
        typed = {"postgresql": {"float8"}, "snowflake": {"CAST", "AS", "DOUBLE"}}.get(dialect, set())
        assert words - typed <= {"CASE", "WHEN", "THEN", "ELSE", "END", "AND", "LN", "EXP", "s"}, words
        assert "--" not in text, "a comment"


@pytest.mark.full
@pytest.mark.sample(3)
@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "clickhouse"])
def test_a_parser_reads_the_text_for_databases_that_are_not_run(dialect):
    """The one text of 100,000 characters is like others and takes most of the time."""
    sqlglot = pytest.importorskip("sqlglot", reason='pip install ".[test]" installs sqlglot')
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        for text in [one.to_sql("s", dialect) for maps, _ in [learned(), *extremes()] for one in maps]:
            if len(text) > 100_000:
                continue
            (found,) = sqlglot.parse(f"SELECT {text} FROM served", dialect=dialect)
            words = {"CASE", "IF", "LN", "EXP", "AND"} | ({"CAST"} if dialect == "snowflake" else set())
            assert {one.sql_name() for one in found.find_all(sqlglot.exp.Func)} <= words
            types = {one.to.sql() for one in found.find_all(sqlglot.exp.Cast)}
            assert types <= {"DOUBLE"}, types
    finally:
        sys.setrecursionlimit(usual)


def test_text_for_one_database_does_not_leak_into_that_of_another():
    found = Platt().map()
    plain = found.to_sql("s")
    assert "float8" in found.to_sql("s", "postgresql")
    assert "CAST('0.0' AS DOUBLE)" in found.to_sql("s", "snowflake")
    assert all(found.to_sql("s", one) == plain for one in ("sqlite", "duckdb", "spark", "clickhouse"))
    assert found.to_sql("s") == plain
    with pytest.raises(InputError, match="'oracle' is unknown; known are sqlite, postgresql"):
        found.to_sql("s", "oracle")
    assert sqlite3.connect(":memory:").execute(f"SELECT {plain} FROM (SELECT 0.5e0 AS s)").fetchone() == (0.5,)
