"""Maps as SQL, run by Spark."""

from __future__ import annotations

import math

import numpy as np
import pytest
import spark_session
from test_exported_segments import assert_query_is_the_forecast, query, tables
from test_exported_segments import learned as segments_learned
from test_sql_dialects import assert_same, extremes, learned

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def spark():
    spark_session.needed()
    found = spark_session.session()
    yield found
    found.stop()


def test_maps_are_the_same_in_spark(spark):
    for maps, scores in [learned(), *extremes()]:
        rows = [(place, float(score)) for place, score in enumerate(scores)]
        served = spark.createDataFrame(rows, "i int, s double")
        short = [one for one in maps if len(one.to_sql("s", "spark")) < 100_000]
        found = served.selectExpr("i", *(f"{one.to_sql('s', 'spark')} AS p{k}" for k, one in enumerate(short)))
        columns = np.array(
            [[math.nan if p is None else p for p in row[1:]] for row in sorted(found.collect(), key=lambda row: row[0])]
        ).T
        assert_same(columns, short, [score for _, score in rows])


def test_the_join_of_segments_is_the_forecast_in_spark(spark):
    cal = segments_learned()
    for name, columns, rows in tables(cal, "STRING", "DOUBLE"):
        spark.createDataFrame([tuple(row) for row in rows], columns).createOrReplaceTempView(name)
    assert_query_is_the_forecast(cal, [tuple(row) for row in spark.sql(query(cal, "spark")).collect()])
