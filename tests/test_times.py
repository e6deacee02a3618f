"""Times as files have them: numbers of a unit, ISO 8601 with a zone or without, formats; mixtures, and their order."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import program, save, the_line

import streamcal
from streamcal.errors import InputError
from streamcal.live import LabelJoin, Shadow
from streamcal.stream.records import RecordError
from streamcal.stream.times import TimeOptions, TimeOrder, TimeReader

BERLIN = ZoneInfo("Europe/Berlin")
NAIVE = "2026-01-31 12:00:00"
NOON = 1769857200.0  # 2026-01-31T11:00:00Z, which is noon in Berlin


@pytest.mark.parametrize(
    ("options", "values", "seconds"),
    [
        (TimeOptions(), [NAIVE, "2026-01-31"], [NOON + 3600.0, NOON - 11 * 3600.0]),
        (TimeOptions(), ["2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00Z"], [NOON, NOON]),
        (TimeOptions(zone=BERLIN), [NAIVE, "2026-07-31 12:00:00"], [NOON, 1785492000.0]),
        (TimeOptions(zone=BERLIN), [NAIVE, "2026-01-31T11:00:00Z"], [NOON, NOON]),
        # The clocks go forward at 2 on 29 March and back at 3 on 25 October: an hour that is skipped or repeated.
        (TimeOptions(zone=BERLIN), ["2026-03-29 02:30:00", "2026-10-25 02:30:00"], [1774747800.0, 1792888200.0]),
        (TimeOptions(), ["2026-01-31 11:00:00.000 UTC", "2026-01-31 11:00:00 UTC"], [NOON, NOON]),
        (TimeOptions(), ["2026-01-31 11:00:00.123456 GMT"], [NOON + 0.123456]),
        (TimeOptions(), ["2026-01-31 12:00:00.000 +0100", "2026-01-31T12:00:00 +01:00"], [NOON, NOON]),
        (TimeOptions("ms"), ["1769857200123", "0"], [NOON + 0.123, 0.0]),
        (TimeOptions("us"), ["1769857200123456"], [NOON + 0.123456]),
        (TimeOptions("ns"), ["1769857200000000000"], [NOON]),
        (TimeOptions(format="%d/%m/%Y %H:%M"), ["31/01/2026 12:00"], [NOON + 3600.0]),
        (TimeOptions(format="%d/%m/%Y %H:%M", zone=BERLIN), ["31/01/2026 12:00"], [NOON]),
        (TimeOptions(format="%Y%m%d%H%M"), ["202601311200"], [NOON + 3600.0]),
    ],
)
def test_a_column_is_read_as_its_fields_are(options: TimeOptions, values: list[str], seconds: list[float]) -> None:
    reader = TimeReader(options)
    assert [reader.one(value, "t") for value in values] == seconds
    try:
        column = TimeReader(options).many(pa.array(values), "t").tolist()
    except ValueError:  # only field by field
        assert options.zone is not None
    else:
        assert column == seconds


def test_formats_that_lose_the_zone_and_texts_that_need_one() -> None:
    with pytest.raises(InputError, match="cannot read the name of a zone with %Z; write a name"):
        TimeOptions(format="%Y-%m-%d %H:%M:%S %Z")
    assert TimeReader(TimeOptions(format="%%Z %Y")).one("%Z 1970", "t") == 0.0
    for text in ("31.01.2026 12:00", "12:00:00", "2026-01-31 12:00:00 Europe/Berlin", "2026-01-31 UTC"):
        with pytest.raises(RecordError, match="ISO 8601 time, such as 2026-01-31T12:00:00Z, or --time-format, as "):
            TimeReader().one(text, "t")
        with pytest.raises(ValueError):  # noqa: PT011  (one of Arrow's)
            TimeReader().many(pa.array([text]), "t")
    with pytest.raises(RecordError, match="missing") as error:
        TimeReader().one("", "t")
    assert "--time-format" not in str(error.value)


def test_moments_of_tables() -> None:
    moments = pa.array([datetime(2026, 1, 31, 12), datetime(2026, 7, 31, 12)])
    assert TimeReader(TimeOptions(zone=BERLIN)).many(moments, "t").tolist() == [NOON, 1785492000.0]
    assert TimeReader().many(moments, "t").tolist() == [NOON + 3600.0, 1785492000.0 + 7200.0]
    assert TimeReader(TimeOptions(zone=BERLIN)).one(date(2026, 1, 31), "t") == NOON - 12 * 3600.0


@pytest.mark.parametrize(
    "absolute", ["2026-01-31T12:00:00Z", "1769860800", 1769860800, datetime(2026, 1, 31, tzinfo=BERLIN)]
)
@pytest.mark.parametrize("naive", [NAIVE, "2026-01-31", datetime(2026, 1, 31), date(2026, 1, 31)])
def test_times_with_and_without_a_zone_are_not_mixed(absolute: Any, naive: Any) -> None:
    for first, second in ((absolute, naive), (naive, absolute)):
        for column in ("clicked", "shown"):
            reader = TimeReader()
            reader.one(first, "shown")
            with pytest.raises(RecordError, match=column) as error:
                reader.one(second, column)
            assert ("'shown' have" in str(error.value)) == (column == "clicked")
            assert "--timezone" in str(error.value)
            assert reader.one(first, column)  # nothing was noted
    reader = TimeReader(TimeOptions(zone=BERLIN))
    assert all(np.isfinite([reader.one(value, "shown") for value in (absolute, naive)]))


def impressions(path: Path, shown: str, clicked: str) -> Path:
    start, rows = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))), []
    for k in range(300):
        at = start + timedelta(minutes=k)
        click = at + timedelta(minutes=3) if k % 5 == 0 else None
        written = "" if click is None else click.strftime(clicked) if clicked != "epoch" else str(click.timestamp())
        rows.append({"id": k, "p": 0.3, "shown": at.strftime(shown), "y": int(click is not None), "clicked": written})
    return save(path, rows)


LATE = (
    "--score",
    "p",
    "--label",
    "y",
    "--id",
    "id",
    "--event-time",
    "shown",
    "--label-time",
    "clicked",
    "--horizon",
    "1h",
)
ZONED, LOCAL = "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"


@pytest.mark.parametrize(("shown", "clicked"), [(ZONED, LOCAL), (LOCAL, ZONED), (LOCAL, "epoch")])
def test_two_columns_of_a_log(tmp_path: Path, shown: str, clicked: str) -> None:
    source = impressions(tmp_path / "log.csv", shown, clicked)
    line = the_line(program("run", source, *LATE, "--method", "ops"))
    assert "row 1, column 'clicked'" in line
    assert "column 'shown'" in line
    assert "--timezone" in line
    found = program("run", source, *LATE, "--method", "ops", "--timezone", "Europe/Berlin")
    assert found.exit_code == 0, found.output
    assert "(60 positive)" in found.output
    assert "after the horizon" not in found.output


def test_a_zone_that_is_none(tmp_path: Path) -> None:
    source = impressions(tmp_path / "log.csv", ZONED, ZONED)
    found = program("run", source, "--score", "p", "--label", "y", "--time", "shown", "--timezone", "Berlin")
    assert found.exit_code == 2
    assert "no time zone" in found.output
    with pytest.raises(InputError, match="time_unit='min'"):
        TimeOptions("min")


def test_milliseconds_and_formats_on_the_command_line(tmp_path: Path) -> None:
    """A half-life in days reads them as it reads seconds, to the digit that a double holds."""
    seconds = [1.7e9 + 86_400.0 * k for k in range(100)]
    written = {
        "s": [(str(t), ()) for t in seconds],
        "ms": [(str(int(t * 1e3)), ("--time-unit", "ms")) for t in seconds],
        "format": [
            (
                datetime.fromtimestamp(t, UTC).strftime("%d.%m.%Y %H:%M:%S"),
                ("--time-format", "%d.%m.%Y %H:%M:%S"),
            )
            for t in seconds
        ],
    }
    outputs = {}
    for name, times in written.items():
        rows = [{"p": (k % 7) / 10, "y": int(k % 3 == 0), "t": t} for k, (t, _) in enumerate(times)]
        source, out = save(tmp_path / f"{name}.csv", rows), tmp_path / f"{name}.jsonl"
        fixed = ("--score", "p", "--label", "y", "--time", "t", "--method", "platt", "--half-life", "9d", "--out", out)
        found = program("run", source, *fixed, *times[0][1])
        assert found.exit_code == 0, found.output
        assert "warning" not in found.output
        outputs[name] = [line.split('"calibrated"')[1] for line in out.read_text().splitlines()]
    assert outputs["s"] == outputs["ms"] == outputs["format"]


def order_of(times: list[float], pieces: int) -> TimeOrder:
    order = TimeOrder()
    for piece in np.array_split(np.array(times), pieces):
        order.add(piece)
    return order


@pytest.mark.parametrize("pieces", [1, 7])
def test_order(pieces: int) -> None:
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 1e6, 2_000))
    one_by_one = TimeOrder()
    shuffled = rng.permutation(times)
    for t in shuffled.tolist():
        one_by_one.add_one(t)
    order = order_of(shuffled.tolist(), pieces)
    assert (order.rows, order.behind, order.earliest, order.latest) == (
        one_by_one.rows,
        one_by_one.behind,
        one_by_one.earliest,
        one_by_one.latest,
    )
    assert order.disordered
    assert order_of(times[::-1].tolist(), pieces).disordered
    assert order_of(np.concatenate([times[1_000:], times[:1_000], times[:1_000]]).tolist(), pieces).disordered
    for orderly in (times, times + rng.uniform(0.0, 1e4, 2_000), np.zeros(100), times[:10][::-1]):
        assert not order_of(orderly.tolist(), pieces).disordered


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", [("--method", "platt", "--half-life", "7d"), ("--method", "auto")])
def test_rows_in_no_order_warn(tmp_path: Path, options: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    times = 1.7e9 + np.sort(rng.uniform(0.0, 90 * 86_400.0, 400))
    for name, rows in (("sorted", times), ("shuffled", rng.permutation(times))):
        table = {"p": rng.uniform(size=400), "y": rng.random(400) < 0.3, "t": rows}
        pq.write_table(pa.table(table), source := tmp_path / f"{name}.parquet")
        shared = (source, "--score", "p", "--label", "y", "--time", "t")
        found = program("run", *shared, *options)
        assert found.exit_code == 0
        assert ("sort them by their time" in found.output) == (name == "shuffled")
        if options[1] == "auto":
            compared = program("compare", *shared, "--methods", "auto,ops")
            assert ("sort them by their time" in compared.output) == (name == "shuffled")


def test_a_table_in_python_names_no_option() -> None:
    table = {"score": [0.2, 0.3], "label": [0, 1], "t": ["2026-01-31 12:00", "2026-01-31T12:00Z"]}
    with pytest.raises(InputError, match="or without one throughout"):
        streamcal.compare(pa.table(table), time="t", methods=["ops"])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31)], r"t\[1\] .* has no time zone, and .* has a"),
        ([1.8e9, datetime(2026, 1, 31)], r"t\[1\] .* has no time zone, and 1800000000.0, .* is a number"),
        (np.array(["2026-01-31", "NaT"], dtype="datetime64[s]"), r"t\[1\] NaT is not a time"),
        ([datetime(2026, 1, 31), "2026-01-31"], r"t\[1\] '2026-01-31' is not a number; give a number or a datetime"),
        ([1.8e9], "t has length 1, the scores have length 2"),
    ],
)
@pytest.mark.parametrize(
    "cal",
    [
        streamcal.Platt(forgetting=streamcal.Decay(timedelta(hours=1))),
        streamcal.OnlinePlatt(),  # reads no times
        streamcal.multiclass.OnlineVectorScaling(),
    ],
)
def test_a_bad_time_of_a_batch_is_named(times: Any, message: str, cal: Any) -> None:
    many = isinstance(cal, streamcal.multiclass.MulticlassCalibrator)
    rows: Any = [[0.2, 0.8], [0.4, 0.6]] if many else [0.2, 0.4]
    for call in (cal.learn_many, cal.predict_learn_many):
        with pytest.raises(InputError, match=message):
            call(rows, [0, 1], t=times, **({"labels": [0, 1]} if many else {}))
    assert cal.n == 0.0


@pytest.mark.parametrize("other", [datetime(2026, 1, 31, 13, tzinfo=UTC), 1769864400.0])
@pytest.mark.parametrize("naive", [datetime(2026, 1, 31, 12), np.datetime64("2026-01-31T12")])
@pytest.mark.parametrize("backwards", [False, True])
def test_times_of_two_kinds_are_refused_from_call_to_call(naive: Any, other: Any, backwards: bool) -> None:
    """A click at 14:00 in Berlin of an impression at 13:00 UTC is no hour late; read as UTC it was."""
    first, second = (other, naive) if backwards else (naive, other)
    message = (
        r"no time zone, and .*, given before it, (has a|is a n)|( a time zone|is a number), and .* has no time zone"
    )
    join = LabelJoin("platt", "1h")
    join.issue("a", 0.2, first)
    held = join.to_bytes()
    for call in (
        lambda: join.resolve("a", True, second),
        lambda: join.issue("b", 0.2, second),
        lambda: join.advance(second),
        lambda: join.predict_one(0.2, second),
    ):
        with pytest.raises(InputError, match=message):
            call()
    assert join.to_bytes() == held
    join.resolve("a", True, first)
    cal = streamcal.Platt(forgetting=streamcal.Window("1h", by="time"))
    cal.learn_one(0.2, True, t=first)
    for call in (
        lambda: cal.predict_one(0.2, second),
        lambda: cal.learn_one(0.2, True, t=second),
        lambda: cal.learn_many([0.2], [True], t=[second]),
    ):
        with pytest.raises(InputError, match=message):
            call()
    assert cal.n == 1.0


@pytest.mark.parametrize("wrapped", [lambda cal: cal, Shadow, lambda cal: Shadow("platt", {"other": cal})])
def test_a_join_continues_with_the_dates_that_its_calibrator_has_learned(wrapped: Any) -> None:
    day, hour = datetime(2026, 1, 31, 12), timedelta(hours=1)
    cal = streamcal.Platt(forgetting=streamcal.Window("1d"))
    cal.learn_many([0.2, 0.4, 0.6], [0, 1, 1], t=[day] * 3)
    join = LabelJoin(wrapped(cal), "1h")
    join.issue("a", 0.2, day + hour)
    join.advance(day + 3 * hour)
    assert cal.n == 4.0
    with pytest.raises(InputError, match=r"is a number, and .*, given before it, has no time zone"):
        join.issue("b", 0.2, NOON)


MILLISECONDS = 1.7e12


@pytest.mark.parametrize(
    ("used", "message"),
    [
        (lambda t: streamcal.Platt(forgetting=streamcal.Decay("1h")).learn_one(0.3, True, t=t), "by 3.6 seconds"),
        (
            lambda t: streamcal.Platt(forgetting=streamcal.Window("1d")).learn_many([0.3], [1], t=[t]),
            "a span of 86400000",
        ),
        (lambda t: streamcal.Auto().learn_one(0.3, True, t=t), "in which Auto finds the cycles"),
        (lambda t: streamcal.Auto().predict_learn_many([0.3], [1], t=[t]), "in which Auto finds the cycles"),
        (lambda t: LabelJoin("platt", "6h").issue("a", 0.3, t), "the horizon is 21600 s"),
    ],
)
def test_times_in_milliseconds_are_warned_of_where_they_are_given(used: Any, message: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"look like milliseconds.* {message}") as told:
        used(MILLISECONDS)
    assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used(MILLISECONDS / 1e3)
        streamcal.Platt(forgetting=streamcal.Decay(3.6e6, by="time")).learn_one(0.3, True, t=MILLISECONDS)


def test_the_hour_that_a_zone_repeats_is_named_where_a_label_comes_before_its_event(tmp_path):
    source = tmp_path / "a.csv"
    rows = ["a,0.1,0,2026-10-25T01:30:00,", "b,0.2,1,2026-10-25T02:50:00,2026-10-25T02:10:00"]
    source.write_text("\n".join(["id,p,y,shown,clicked", *rows]) + "\n")
    found = program("run", source, *LATE, "--method", "ops", "--timezone", "Europe/Berlin")
    assert found.exit_code == 2
    assert "2400 s before its event, in the hour that Europe/Berlin has twice" in found.output
    source.write_text(source.read_text().replace("T02:50", "T05:50"))
    found = program("run", source, *LATE, "--method", "ops", "--timezone", "UTC")
    assert "before its event;" in found.output
