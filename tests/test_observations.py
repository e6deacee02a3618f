"""The fields of a batch by column: what the functions of `records.py` make of each, or nothing where one refuses."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invariants import check
from test_cli import save

from streamcal import Isotonic, OnlinePlatt, VennAbers, Window
from streamcal.metrics import Brier, CalibrationRatio, EqualMassECE, LogLoss, LogLossDifference
from streamcal.parameters.keys import canonical
from streamcal.stream.columns import SCORES, Columns, FieldReader, Observation, Observations
from streamcal.stream.prequential import Prequential
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError
from streamcal.stream.times import TimeOptions

COLUMNS = Columns("score", "click", "t", "w")
#: More rows than `FEW`, so that Arrow reads JSON.
FILLING = 100


def by_column(path: Path, kind: str) -> Observations | None:
    with RecordReader(path) as reader:
        reader.require(*COLUMNS.used())
        (batch,) = [batch for batch in reader if len(batch)]
    return FieldReader(COLUMNS, kind).many(batch)


def by_row(path: Path, kind: str) -> list[Observation] | None:
    """None where a row is refused."""
    fields = FieldReader(COLUMNS, kind)
    with RecordReader(path) as reader:
        rows = [row for batch in reader for row in batch.rows]
    try:
        return [fields.one(row) for row in rows]
    except RecordError:
        return None


def assert_agree(path: Path, kind: str, *, surely: bool = False) -> None:
    """Assert that columns and rows read the same. `surely`: columns must be readable at all."""
    found, expected = by_column(path, kind), by_row(path, kind)
    if found is None:
        assert not surely or expected is None
        return
    assert expected is not None
    scores, labels, weights, times, _ = (list(column) for column in zip(*expected, strict=True))
    assert found.weights is not None
    assert found.times is not None
    assert found.scores.tolist() == scores
    assert found.labels.tolist() == labels
    assert found.weights.tolist() == weights
    assert found.times.tolist() == times


GOOD = {"score": "0.5", "click": "1", "w": "1", "t": "3"}
TEXTS = {
    "score": [
        "0.1",
        "1e-3",
        ".5",
        "5.",
        "+0.5",
        "-0.0",
        "0x1",
        "1_0",
        "nan",
        "inf",
        "1e400",
        "1e-400",
        "",
        " 0.5 ",
        "٣",
    ],
    "click": ["0", "true", "No", " yes ", "-1", "2", "", "0.0", "é"],
    "w": ["0", "2.5", "1e-70", "1e70", "-1", "nan", ""],
    "t": ["1e3", "-5", "20260131", "nan", "", "yesterday"],
}
NUMBERS = st.floats(0.0, 1.0).map(repr) | st.decimals(0, 1, places=25).map(str) | st.floats().map(repr)


@pytest.mark.sample(5)
@given(rows=st.lists(st.fixed_dictionaries({n: st.sampled_from([*t, GOOD[n]]) for n, t in TEXTS.items()}), max_size=3))
@pytest.mark.parametrize("kind", SCORES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_fields_of_csv(tmp_path: Path, kind: str, rows: list[dict[str, str]]) -> None:
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(GOOD))
        writer.writeheader()
        writer.writerows([GOOD, *rows])
    assert_agree(tmp_path / "in.csv", kind)


@given(scores=st.lists(NUMBERS, min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_are_read_to_the_last_bit(tmp_path: Path, scores: list[str]) -> None:
    text = io.StringIO("score,click,w,t\n" + "".join(f"{score},1,1,{score}\n" for score in scores))
    (tmp_path / "in.csv").write_text(text.getvalue())
    assert_agree(tmp_path / "in.csv", "finite", surely=True)


MOMENTS = ["2026-01-31", "2026-01-31T12:00:00", "2026-01-31 12:00:00.25", "1969-12-31T23:59"]


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_times_of_iso_8601(tmp_path: Path, zone: str) -> None:
    moments = [moment + zone for moment in MOMENTS[bool(zone) :]]
    (tmp_path / "in.csv").write_text("score,click,w,t\n" + "".join(f"0.5,1,1,{moment}\n" for moment in moments))
    assert_agree(tmp_path / "in.csv", "probability", surely=True)


VALUES = [
    0.25,
    1,
    0,
    True,
    False,
    None,
    "0.5",
    "no",
    "x",
    -1,
    2.5,
    1e300,
    10**30,
    2**60 + 1,
    "2026-01-31T00:00:00Z",
    [1],
    {},
]


@given(rows=st.lists(st.fixed_dictionaries({name: st.sampled_from(VALUES) for name in GOOD}), max_size=2))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_values_of_json_lines(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for filling in ({"score": 0.5, "click": 1, "w": 1, "t": 3}, *rows[:1]):
        text = "".join(json.dumps(row) + "\n" for row in [filling] * FILLING + rows)
        (tmp_path / "in.jsonl").write_text(text)
        assert_agree(tmp_path / "in.jsonl", "finite")


MOMENT = datetime(2026, 1, 31, 12, 0, 0, 250_000)
TABLES = [
    ({"score": pa.array([0.1, 0.7], pa.float32())}, True),
    ({"score": pa.array([0, 1], pa.int8()), "click": pa.array([True, False])}, True),
    ({"score": pa.array(["0.1", "1e-3"]), "click": pa.array([0.0, 1.0], pa.float32())}, True),
    ({"score": pa.array([0.1, 0.2]).dictionary_encode(), "click": pa.array(["no", "yes"]).dictionary_encode()}, True),
    ({"score": pa.array([0.1, None])}, False),
    ({"score": pa.array([True, False])}, False),
    ({"score": pa.array([Decimal("0.1"), Decimal("0.7")])}, False),
    ({"score": pa.array([0.1, math.nan])}, False),
    ({"click": pa.array([1, None])}, False),
    ({"click": pa.array([1, 2])}, False),
    ({"click": pa.array([-1, 1])}, True),
    ({"w": pa.array([0, 3], pa.uint64())}, True),
    ({"w": pa.array([-1, 3])}, False),
    ({"t": pa.array([MOMENT, MOMENT - timedelta(days=30_000)])}, True),
    ({"t": pa.array([MOMENT.replace(tzinfo=timezone(timedelta(hours=2)))] * 2)}, True),
    ({"t": pa.array([MOMENT.replace(tzinfo=UTC), None])}, False),
    ({"t": pa.array([date(2026, 1, 31)] * 2)}, True),
    ({"t": pa.array([1, 2**60])}, False),
]


@pytest.mark.parametrize(("columns", "surely"), TABLES)
def test_columns_of_tables(tmp_path: Path, columns: dict[str, Any], surely: bool) -> None:
    good = {"score": [0.1, 0.2], "click": [0, 1], "w": [1.0, 2.0], "t": [1.0, 2.0]}
    table = pa.table({**good, **columns})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    assert_agree(tmp_path / "in.arrow", "finite", surely=surely)
    assert (by_column(tmp_path / "in.arrow", "finite") is not None) == surely


NAMES = Columns("score", "click", segments=("campaign",), decimal=",", times=TimeOptions(format="%Y%m%d"), time="t")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("campaign", ["a ", " 7", " ", "\t", "7.0", 2**53 + 1, -(2**53) - 1])
def test_levels_and_dates_are_those_of_their_rows(tmp_path: Path, campaign: str | int, ending: str) -> None:
    """Whether a batch is read by column or, because of one bad row, by row: a level keeps its spaces and digits."""
    date = "20260131" if ending == ".csv" else 20260131
    row = {"score": "0,5", "click": 1, "t": date, "campaign": campaign}
    batch = batch_of(save(tmp_path / f"in{ending}", [row] * FILLING))
    by_row = FieldReader(NAMES, "probability").one(batch.row(0))
    assert by_row == (0.5, True, 1.0, 1769817600.0, {"campaign": canonical(campaign)})
    found = FieldReader(NAMES, "probability").all(batch)
    assert (found.scores[0], found.labels[0]) == by_row[:2]
    assert found.times is not None
    assert (set(found.times), found.keys) == ({by_row.t}, {"campaign": [by_row.keys["campaign"]] * FILLING})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
@pytest.mark.parametrize("score", ["0.5", "1.234"])
def test_points_are_refused_beside_decimal_commas_in_every_column_of_texts(
    tmp_path: Path, kind: Any, score: str
) -> None:
    table = pa.table({"score": pa.array([score], kind), "click": [1], "t": ["20260131"], "campaign": ["a"]})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(RecordError, match="a number with a decimal comma"):
        FieldReader(NAMES, "finite").all(batch_of(tmp_path / "in.arrow"))


def batch_of(path: Path) -> Any:
    """Return the batch of a short file."""
    with RecordReader(path) as reader:
        reader.require(*NAMES.used())
        (batch,) = [batch for batch in reader if len(batch)]
    return batch


def test_a_label_reader_that_was_refused_has_seen_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("score,click,w,t\n0.5,-1,1,1\n0.5,0,1,1\n")
    fields = FieldReader(COLUMNS, "finite")
    with RecordReader(tmp_path / "in.csv") as reader:
        reader.require(*COLUMNS.used())
        assert [fields.many(batch) for batch in reader] == [None]
    assert fields._label_of.negative is None


# -- predicting, learning and measuring by column ------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [OnlinePlatt, Isotonic, VennAbers, lambda: Isotonic(forgetting=Window(50, by="time"))])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_steps_are_a_loop_of_one(make: Callable[[], Any], weighted: bool) -> None:
    draw = np.random.default_rng(4)
    scores, t = draw.random(700), np.cumsum(draw.exponential(1.0, 700))
    y, w = draw.random(700) < scores, draw.integers(0, 3, 700).astype(float) if weighted else None
    one, many = Prequential(make()), Prequential(make())
    weights = [1.0] * 700 if w is None else w.tolist()
    expected = [one.step(*row) for row in zip(scores.tolist(), y.tolist(), weights, t.tolist(), strict=True)]
    found = np.vstack(
        [
            many.step_many(*(None if x is None else x[part] for x in (scores, y, w, t)))
            for part in (slice(0, 3), slice(3, 500), slice(500, 700))
        ]
    )
    assert found.tolist() == [[step.calibrated, *(step.interval or ())] for step in expected]
    assert (many.rows, many.positives, many.measured) == (one.rows, one.positives, one.measured)
    for name, board in one.boards().items():
        other = many.boards()[name]
        # Sums of 700 terms of one sign: each of the two is off by at most 700 ⋅ 1.1e-16 of itself.
        for measure in ("log_loss", "brier", "ece", "ratio"):
            assert getattr(other, measure).get() == pytest.approx(getattr(board, measure).get(), rel=1e-12)
        assert other.ratio.interval() == pytest.approx(board.ratio.interval(), rel=1e-12)
        assert other.log_loss.n == board.log_loss.n
    assert many.difference.interval == pytest.approx(one.difference.interval, rel=1e-9, abs=1e-12)
    assert many.difference.n == one.difference.n


def test_many_steps_end_before_the_first_that_fails() -> None:
    run = Prequential(Isotonic(forgetting=Window(5, by="time", max_jump=10)))
    t = np.array([1.0, 2.0, 1e9, 3.0])
    found = run.step_many(np.full(4, 0.5), np.ones(4, dtype=bool), None, t)
    rest = slice(len(found), None)
    assert len(found) <= 2
    for time in t[rest][: 2 - len(found)]:
        run.step(0.5, True, 1.0, time)
    assert run.rows == run.calibrator.n == 2


@pytest.mark.parametrize("make", [LogLoss, Brier, EqualMassECE, CalibrationRatio])
def test_metrics_of_many_forecasts_are_those_of_a_loop(make: Callable[[], Any]) -> None:
    draw = np.random.default_rng(5)
    p = np.concatenate((draw.beta(0.3, 5.0, 2_000), [0.0, 1.0, 0.0, 1.0, 5e-324, 1e-9]))
    y, w = draw.random(len(p)) < p, draw.random(len(p)) * (np.arange(len(p)) % 5 > 0)
    y[-6:-2] = [True, False, False, True]
    one, many = make(), make()
    for row in zip(y.tolist(), p.tolist(), w.tolist(), strict=True):
        one.update(*row)
    many.update_many(y[:900], p[:900], w[:900])
    many.update(bool(y[900]), float(p[900]), float(w[900]))
    many.update_many(y[901:], p[901:], w[901:])
    # Sums of 2,000 terms of one sign, or of cells of some of them: 2,000 ⋅ 1.1e-16.
    assert many.get() == pytest.approx(one.get(), rel=1e-12)
    assert many.n == pytest.approx(one.n, rel=1e-12)
    if make is LogLoss:
        assert many.infinite == one.infinite > 0
    if make is EqualMassECE:
        check(many._cells)
        for name in ("low", "high", "number"):
            assert getattr(many._columns(), name).tolist() == getattr(one._columns(), name).tolist()
        assert many.error_bound == pytest.approx(one.error_bound, rel=1e-12)
    for row in zip(y.tolist(), p.tolist(), w.tolist(), strict=True):
        many.revert(*row)
    assert many.get() is None


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_difference_of_many_forecasts_is_that_of_a_loop(adaptive: bool) -> None:
    draw = np.random.default_rng(6)
    p, q = draw.beta(0.3, 5.0, (2, 2_000))
    y = draw.random(2_000) < p
    one, many = LogLossDifference(adaptive=adaptive), LogLossDifference(adaptive=adaptive)
    for row in zip(y.tolist(), p.tolist(), q.tolist(), strict=True):
        one.update(*row)
    many.update_many(y[:700], p[:700], q[:700])
    many.update_many(y[700:], p[700:], q[700:])
    assert (many.n, many._sum, many._squares, many._largest) == (one.n, one._sum, one._squares, one._largest)
