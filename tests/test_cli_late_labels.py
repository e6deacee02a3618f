"""`streamcal run --id`: what a `LabelJoin` computes, row by row, from every format, with a journal and resumption."""

from __future__ import annotations

import heapq
import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import PATIENCE, PROGRAM, program, read, save, the_line

from streamcal import Auto, HistogramBinning, OnlinePlatt
from streamcal.datasets import ad_clicks
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented
from streamcal.stream import impressions as impressions_of
from streamcal.stream import replay as replaying
from streamcal.stream.records import RecordError
from streamcal.stream.run import Run

HORIZON = 60.0
REQUIRED = ("--id", "id", "--event-time", "t", "--label-time", "click_time")
OPTIONS = (*REQUIRED, "--horizon", "60s", "--method", "ops")


def impressions(n: int = 400, seed: int = 3) -> list[dict[str, Any]]:
    """Make impressions about a second apart: a third is clicked, 20 to 200 s later; a few are out of order."""
    draw, rows, now = random.Random(seed), [], 0.0
    for k in range(n):
        now += draw.expovariate(1.0)
        t = now - 5.0 * (draw.random() < 0.02)
        clicked = draw.random() < 0.3
        delay = draw.uniform(0.0, 200.0) if draw.random() < 0.3 else draw.expovariate(1 / 20.0)
        row = {"id": f"i{k}", "t": round(t, 3), "score": round(draw.betavariate(2, 3), 3), "click": int(clicked)}
        rows.append({**row, "click_time": round(t + delay, 3) if clicked else None, "place": f"p{draw.randrange(3)}"})
    return rows


def run(stream: object, *options: object, stdin: bytes | None = None) -> Any:
    return program("run", stream, "--score", "score", "--label", "click", *options, stdin=stdin)


def expected(join: LabelJoin, rows: list[dict[str, Any]], keys: tuple[str, ...] = ()) -> list[float]:
    """Run the definition of the job: every click is resolved at its own time, as in a service."""
    found, clicks = [], []  # type: ignore[var-annotated]
    for row in rows:
        while clicks and clicks[0][0] <= row["t"]:
            at, id = heapq.heappop(clicks)
            join.advance(at)
            join.resolve(id, True, at)
        levels = {name: row[name] for name in keys}
        found.append(join.issue(row["id"], row["score"], row["t"], keys=levels, version=row.get("model")).p)
        if row["click_time"] is not None:
            heapq.heappush(clicks, (row["click_time"], row["id"]))
    return found


def versioned(rows: list[dict[str, Any]], each: int = 100) -> list[dict[str, Any]]:
    """Add a column `model`: another version after every `each` rows, and one row in nine without one."""
    versions = [f"v{k // each}" if k % 9 else None for k in range(len(rows))]
    return [{**row, "model": version} for row, version in zip(rows, versions, strict=True)]


def served(path: Path) -> list[float]:
    return [float(row["calibrated"]) for row in read(path)]


@pytest.mark.parametrize("name", ["in.csv", "in.parquet", pytest.param("in.jsonl", marks=pytest.mark.full)])
def test_it_is_the_loop(tmp_path: Path, name: str) -> None:
    rows, out = impressions(300), tmp_path / "out.jsonl"
    result = run(save(tmp_path / name, rows), *OPTIONS, "--segment", "place", "--out", out)
    assert result.exit_code == 0, result.output
    assert served(out) == expected(LabelJoin(Segmented(OnlinePlatt(), by=["place"]), HORIZON), rows, ("place",))


def test_clicks_of_rows_behind_the_clock_count_until_their_labels_are_learned(tmp_path: Path) -> None:
    """That is when the clock has passed its own time at the row, and not that of the row, by the horizon."""
    draw, rows, out = random.Random(4), impressions(), tmp_path / "out.csv"
    for row in rows[50::3]:
        row["t"] -= draw.uniform(0.0, 40.0)
        row |= {"click": 1, "click_time": row["t"] + draw.uniform(50.0, 110.0)}
    join = LabelJoin(OnlinePlatt(), HORIZON)
    wanted, clocks = expected(join, rows), np.maximum.accumulate([row["t"] for row in rows])
    result = run(save(tmp_path / "in.csv", rows), *OPTIONS, "--out", out)
    assert served(out) == wanted, result.output
    late = [row["click"] and row["click_time"] > at + HORIZON for row, at in zip(rows, clocks, strict=True)]
    assert f"clicks after the horizon: {sum(late)} of {sum(row['click'] for row in rows)}" in result.output
    assert f"({join.tally()['positives']} positive" in result.output


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("method", "make", "further", "given"),
    [
        ("auto", Auto, {"early": 10.0}, ("--early", "10s")),
        ("histogram-binning", HistogramBinning, {}, ()),
        ("histogram-binning", HistogramBinning, {"late": 0.0}, ("--late", "0")),
        ("ops", OnlinePlatt, {"early": 10.0, "max_held": 40}, ("--early", "10", "--max-held", "40")),
    ],
)
def test_early_labels_late_clicks_and_little_room(
    tmp_path: Path, method: str, make: Any, further: dict[str, Any], given: tuple[str, ...]
) -> None:
    """The table tells what happened: a click after the horizon is learned where the method can unlearn the negative."""
    rows, out = impressions(), tmp_path / "out.csv"
    join = LabelJoin(make(), HORIZON, **further)
    wanted = expected(join, rows)
    result = run(
        save(tmp_path / "in.csv", rows), *REQUIRED, "--horizon", "60", "--method", method, *given, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert served(out) == wanted
    tally, late = join.tally(), [row for row in rows if (row["click_time"] or 0.0) > row["t"] + HORIZON]
    assert f"labels learned: {tally['learned']:,} ({tally['positives']:,} positive" in result.output
    assert f"{join.waiting:,} predictions wait for theirs" in result.output
    clicks = sum(row["click"] for row in rows)
    assert late
    assert f"clicks after the horizon: {len(late)} of {clicks}" in result.output
    told = "clicks after the horizon, learned in place of the negative label: "
    assert (f"{told}{tally['corrected']}" in result.output) == (method == "histogram-binning" and not further)
    assert ("for lack of room" in result.output) == ("max_held" in further)


def test_forecasts_are_measured_when_their_horizon_has_passed(tmp_path: Path) -> None:
    """A label after the horizon is negative, and rows at the end, whose label is not known, are left out."""
    rows = impressions()
    source = save(tmp_path / "in.csv", rows)
    result = run(source, *OPTIONS, "--out", tmp_path / "out.csv")
    settled = [row for row in rows if row["t"] <= max(row["t"] for row in rows) - HORIZON]
    positive = sum(row["click_time"] is not None and row["click_time"] <= row["t"] + HORIZON for row in settled)
    ratio = sum(row["score"] for row in settled) / positive
    assert f"horizon has passed: {len(settled)}" in result.output
    assert f"{ratio:.3f}" in next(line for line in result.output.splitlines() if line.startswith("raw"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["in.csv", "in.parquet", pytest.param("in.jsonl", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("further", "given"), [({}, ()), ({"early": 10.0}, ("--early", "10s"))], ids=["both at the horizon", "early"]
)
def test_versions_of_the_model_are_those_of_the_loop(
    tmp_path: Path, name: str, further: dict[str, Any], given: tuple[str, ...]
) -> None:
    """More versions than are remembered, rows without one, one that comes back, and one that is forgotten and does."""
    rows, out = versioned(impressions(), each=35), tmp_path / "out.jsonl"
    for k, row in enumerate(rows[360:]):
        row["model"] = "v9" if k % 2 else "v0"
    join = LabelJoin(Segmented(OnlinePlatt(), by=["place"]), HORIZON, **further)
    wanted = expected(join, rows, ("place",))
    result = run(
        save(tmp_path / name, rows), *OPTIONS, *given, "--segment", "place", "--version", "model", "--out", out
    )
    assert result.exit_code == 0, result.output
    assert served(out) == wanted
    unversioned = [{**row, "model": None} for row in rows]
    assert wanted != expected(
        LabelJoin(Segmented(OnlinePlatt(), by=["place"]), HORIZON, **further), unversioned, ("place",)
    )
    newest = join._versions["v0"]
    assert list(join._versions) == [*(f"v{k}" for k in range(4, 11)), "v0"]
    own, before = f"{1.0 - newest.weight:.0%}", f"{newest.weight:.0%}"
    share = f"'v0', its own calibration weighs {own}, the map of the version before {before}"
    assert f"versions of the model remembered: 8; in predictions of the newest, {share}" in result.output
    held = f"segments by place: {len(newest.calibrator.levels('place'))}, "
    assert held in result.output, "of the newest version"


@pytest.mark.sample(2)
@pytest.mark.parametrize("versions", [["7", "8"], [7, 8], [7.0, 8.0, float("nan")], ["x" * 256, "y"]])
def test_what_a_version_may_be(tmp_path: Path, versions: list[Any]) -> None:
    """Whole numbers are integers however they are written, but in CSV texts; NaN and nothing are missing."""
    rows = [{**row, "model": versions[k % len(versions)]} for k, row in enumerate(impressions(120))]
    read_as = [
        {
            **row,
            "model": int(row["model"])
            if isinstance(row["model"], float) and row["model"] == row["model"]
            else None
            if row["model"] != row["model"]
            else row["model"],
        }
        for row in rows
    ]
    wanted = expected(LabelJoin(OnlinePlatt(), HORIZON), read_as)
    for name in ("in.parquet", "in.jsonl"):
        result = run(save(tmp_path / name, rows), *OPTIONS, "--version", "model", "--out", tmp_path / "out.jsonl")
        assert result.exit_code == 0, result.output
        assert served(tmp_path / "out.jsonl") == wanted


def test_a_truth_value_is_no_version_beside_a_number_either() -> None:
    assert impressions_of._versions([1, 1.0, None, "1", "a"]) == [1, 1, None, 1, "a"]
    for values in ([1, True], [True, 1], [0, False]):
        with pytest.raises(RecordError, match="version"):
            impressions_of._versions(values)


def test_a_new_version_starts_from_the_map_of_the_one_before_and_its_own_takes_over(tmp_path: Path) -> None:
    """Scores are twice too high; those of the second model are right, which its own calibration finds out."""
    draw, rows = random.Random(8), []
    for k in range(6000):
        truth, right = draw.uniform(0.05, 0.45), k >= 3000
        clicked = draw.random() < truth
        row = {"id": k, "t": float(k), "score": truth if right else 2.0 * truth, "click": int(clicked)}
        rows.append({**row, "click_time": k + 5.0 if clicked else None, "model": "new" if right else "old"})
    out = tmp_path / "out.parquet"
    result = run(save(tmp_path / "in.parquet", rows), *OPTIONS, "--version", "model", "--out", out)
    assert result.exit_code == 0, result.output
    p = np.array(served(out))
    scores = np.array([row["score"] for row in rows])
    old = LabelJoin(OnlinePlatt(), HORIZON)
    expected(old, rows[:3000])
    old.advance(3000.0)
    for k in range(3000, 3050):  # before the first label of the new version; a table of the map is right to 1e-4
        assert p[k] == pytest.approx(0.9 * old.calibrator.predict_one(scores[k]) + 0.1 * scores[k], abs=1e-4)
    assert (p[5000:] / scores[5000:]).mean() == pytest.approx(1.0, abs=0.15)  # of 3,000 labels, and a discount
    assert "in predictions of the newest, 'new', its own calibration weighs 100%" in result.output


@pytest.mark.sample(2)
@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_the_same_command_goes_on(tmp_path: Path, out: str) -> None:
    """Whether the file has grown, or a next one comes, or nothing is new; late clicks included (of histograms)."""
    rows, journal = versioned(impressions()), tmp_path / "journal"
    wanted = expected(LabelJoin(HistogramBinning(), HORIZON), rows)
    columns = (*REQUIRED, "--version", "model")
    options = (
        *columns,
        "--horizon",
        "60s",
        "--method",
        "histogram-binning",
        "--journal",
        journal,
        "--out",
        tmp_path / out,
    )
    for stop in (150, 300, 300):
        result = run(save(tmp_path / f"in{Path(out).suffix}", rows[:stop]), *options)
        assert result.exit_code == 0, result.output
        assert served(tmp_path / out) == wanted[:stop]
    assert "the 300 rows before had been learned" in result.output
    assert "0 rows (0 positive)" in result.output
    result = run(save(tmp_path / "next.csv", rows[300:]), *options[:-1], tmp_path / "next.out.csv")
    assert result.exit_code == 0, result.output
    assert "predictions that wait for their labels" in result.output
    assert served(tmp_path / "next.out.csv") == wanted[300:]


def test_a_run_that_fails_goes_on_as_if_it_had_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any row, by a row that cannot be used or an output that cannot be written; snapshots are taken in between."""
    rows, journal, out = impressions(), tmp_path / "journal", tmp_path / "out.csv"
    wanted = expected(LabelJoin(OnlinePlatt(), HORIZON), rows)
    monkeypatch.setattr(replaying, "SNAPSHOT_EVERY", 100)
    options = (*OPTIONS, "--journal", journal, "--out", out, "--checkpoint", "0s")
    for bad in (0, 1, 170):
        result = run(save(tmp_path / "in.csv", [*rows[:bad], {**rows[bad], "score": 7.0}, *rows[bad + 1 :]]), *options)
        assert f"row {bad + 1}, column 'score'" in the_line(result)
        assert served(out) == wanted[:bad]
    taken, write = [], Run._write_out

    def failing(self: Run, *given: Any) -> None:
        taken.append(1)
        if len(taken) == 3:
            self._unwritten = True  # as `_writing` does
            raise OSError("no space left on the device")
        write(self, *given)

    monkeypatch.setattr(Run, "_write_out", failing)
    assert isinstance(run(save(tmp_path / "in.csv", rows), *options).exception, OSError)
    monkeypatch.setattr(Run, "_write_out", write)
    assert len(served(out)) < len(rows)
    assert run(tmp_path / "in.csv", *options).exit_code == 0
    assert served(out) == wanted
    with Journal(journal) as events:
        tally = LabelJoin(OnlinePlatt(), HORIZON, journal=events).tally()
    assert tally["issued"] == len(rows)
    assert tally["repeated"] == 0


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, number: int) -> None:
    kills_and_goes_on(tmp_path, number, kills=2, rows=30_000)


@pytest.mark.full
def test_thirty_kills_at_any_moment(tmp_path: Path) -> None:
    kills_and_goes_on(tmp_path, signal.SIGKILL, kills=30, rows=150_000)


def kills_and_goes_on(tmp_path: Path, number: int, kills: int, rows: int) -> None:
    """Check that the output after kills is that of an undisturbed run, to the last bit, and no row is issued twice."""
    given, journal, out = versioned(impressions(rows), each=2_000), tmp_path / "journal", tmp_path / "out.csv"
    source, options = save(tmp_path / "in.csv", given), (*OPTIONS, "--version", "model")
    assert run(source, *options, "--out", tmp_path / "whole.csv").exit_code == 0
    columns = ("--score", "score", "--label", "click", *options)
    command = [*PROGRAM, "run", source, *columns, "--journal", journal, "--out", out, "--checkpoint", "0s"]
    draw, killed, code = random.Random(5), 0, -1
    while code != 0:
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            size, patience = out.stat().st_size if out.exists() else 0, draw.uniform(0.0, 0.05)
            while process.poll() is None and (not out.exists() or out.stat().st_size <= size):
                time.sleep(0.001)
            time.sleep(patience)
            if killed < kills and process.poll() is None:
                process.send_signal(number)
                killed += 1
            process.communicate(timeout=PATIENCE)
        code = process.returncode
        assert code in (0, -number, 128 + number)
    assert killed > 0
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    with Journal(journal) as events:
        assert LabelJoin(OnlinePlatt(), HORIZON, journal=events).tally()["issued"] == rows


def test_the_journal_serves_on(tmp_path: Path) -> None:
    """A journal that a log has filled is that of a `LabelJoin`: a service can take it over."""
    rows = impressions()
    assert run(save(tmp_path / "in.csv", rows), *OPTIONS, "--journal", tmp_path / "journal").exit_code == 0
    told = LabelJoin(OnlinePlatt(), HORIZON)
    expected(told, rows)
    with Journal(tmp_path / "journal") as events:
        join = LabelJoin(OnlinePlatt(), HORIZON, journal=events)
        assert join.noted["run"]["files"][0][1] == len(rows)
        now = max(row["t"] for row in rows) + 1.0
        assert join.issue("next", 0.4, now).p == told.issue("next", 0.4, now).p


def test_rows_that_come_again_are_counted_and_change_nothing(tmp_path: Path) -> None:
    rows = impressions(100)
    again = [*rows[:50], rows[40], rows[49], *rows[50:]]
    out = tmp_path / "out.csv"
    result = run(save(tmp_path / "in.csv", again), *OPTIONS, "--out", out)
    assert result.exit_code == 0, result.output
    assert "rows whose id was issued before: 2; their prediction is that one" in result.output
    wanted = expected(LabelJoin(OnlinePlatt(), HORIZON), rows)
    assert served(out) == [*wanted[:50], wanted[40], wanted[49], *wanted[50:]]


def test_a_click_that_comes_as_a_row_of_its_own_is_learned(tmp_path: Path) -> None:
    """The row of its impression once more, now with its label: within the horizon it makes no difference when."""
    rows = impressions(200)
    rows[50] |= {"click": 1, "click_time": rows[50]["t"] + 20.0}
    first = {**rows[50], "click": None, "click_time": None}
    out, wanted = tmp_path / "out.jsonl", expected(LabelJoin(OnlinePlatt(), HORIZON), rows)
    result = run(
        save(tmp_path / "in.jsonl", [*rows[:50], first, *rows[51:60], rows[50], *rows[60:]]), *OPTIONS, "--out", out
    )
    assert result.exit_code == 0, result.output
    found = served(out)
    assert [*found[:60], *found[61:]] == wanted


#: What is changed in the fourth row, the column that the message names, and a part of the message.
BAD = [
    ({"id": None}, "id", "missing"),
    ({"id": 0.5}, "id", "id 0.5 is not possible"),
    ({"id": "i1", "score": 0.123}, "id", "'i1' was issued with the score"),
    ({"t": None}, "t", "missing"),
    ({"t": "noon"}, "t", "cannot be used"),
    ({"t": 1e9, "click": 0, "click_time": None}, "t", "more than max_jump"),
    ({"t": -500.0, "click": 0, "click_time": None}, "t", "older than the latest one, more than the horizon of 60 s"),
    ({"click": 1, "click_time": None}, "click_time", "a positive label has no time"),
    ({"click": None, "click_time": 500.0}, "click", "missing"),
    ({"click": 1, "click_time": "soon"}, "click_time", "cannot be used"),
    ({"t": 20.0, "click": 1, "click_time": -41.0}, "click_time", "the label came 61 s before its event"),
    ({"score": 1.5}, "score", "cannot be used"),
    ({"place": 0.5}, "place", "is not possible"),
    ({"model": 0.5}, "model", "version 0.5 is not possible; give a printable text"),
    ({"model": ["v"]}, "model", "version ['v'] is not possible"),
    ({"model": "x" * 257}, "model", "is not possible"),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("change", "column", "message"), BAD)
def test_a_row_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], column: str, message: str) -> None:
    """It is named; where it is skipped, the others are as if it were not there."""
    rows, options = versioned(impressions(40), each=20), (*OPTIONS, "--segment", "place", "--version", "model")
    source = save(tmp_path / "in.jsonl", [*rows[:3], {**rows[3], **change}, *rows[4:]])
    line = the_line(run(source, *options))
    assert f"row 4, column '{column}'" in line
    assert message in line
    out = tmp_path / "out.jsonl"
    result = run(source, *options, "--on-error", "skip", "--rejects", tmp_path / "bad.jsonl", "--out", out)
    assert result.exit_code == 0, result.output
    others = [*rows[:3], *rows[4:]]
    assert served(out) == expected(LabelJoin(Segmented(OnlinePlatt(), by=["place"]), HORIZON), others, ("place",))
    assert [(row["row"], row["column"]) for row in read(tmp_path / "bad.jsonl")] == [(4, column)]


def test_fields_that_may_be_missing(tmp_path: Path) -> None:
    """A label without a time and without a value, as null, NaN, spaces or nothing at all, is none yet."""
    rows = [{**row, "click": 0, "click_time": None} for row in impressions(60)]
    wanted = expected(LabelJoin(OnlinePlatt(), HORIZON), rows)
    for click, click_time in ((None, None), (0, float("nan")), ("", ""), ("", "  "), ("nan", "NaN")):
        given = [{**row, "click": click, "click_time": click_time} for row in rows]
        result = run(save(tmp_path / "in.jsonl", given), *OPTIONS, "--out", tmp_path / "out.jsonl")
        assert result.exit_code == 0, result.output
        assert served(tmp_path / "out.jsonl") == wanted
    for click, click_time in (("", ""), ("nan", "nan"), (0, "nan")):
        given = [{**row, "click": click, "click_time": click_time} for row in rows]
        result = run(save(tmp_path / "in.csv", given), *OPTIONS, "--out", tmp_path / "out.csv")
        assert served(tmp_path / "out.csv") == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--id", "id"), "--id needs --event-time and --label-time and --horizon too"),
        ((*REQUIRED,), "--id needs --horizon too"),
        (("--journal", "j"), "--journal needs --id and --event-time"),
        (("--early", "5m"), "--early needs --id"),
        (("--version", "model"), "--version needs --id"),
        ((*OPTIONS, "--version", "model"), "column 'model': there is no such column"),
        ((*OPTIONS, "--time", "t"), "--time and --id exclude each other; --event-time is the time"),
        ((*OPTIONS, "--state", "s.json"), "--state and --id exclude each other; --journal FILE keeps"),
        ((*OPTIONS, "--again"), "--again and --id exclude each other"),
        ((*OPTIONS, "--early", "60s"), "early=60.0 is not possible; give less than the horizon"),
        ((*REQUIRED, "--horizon", "0"), "horizon=0.0 is not possible"),
        ((*OPTIONS, "--journal", "in.csv"), "--journal would overwrite another file"),
        ((*OPTIONS, "--journal", "nowhere/j"), "the journal cannot be written"),
        (("--id", "nothing", *OPTIONS[2:]), "nothing"),
    ],
)
def test_options_that_are_missing_or_contradict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "in.csv", impressions(5))
    assert message in the_line(run("in.csv", *options))


def test_a_journal_of_another_join_is_refused(tmp_path: Path) -> None:
    source, journal = save(tmp_path / "in.csv", impressions(50)), tmp_path / "journal"
    assert run(source, *OPTIONS, "--journal", journal).exit_code == 0
    for other in (("--horizon", "61s", "--method", "ops"), ("--horizon", "60s", "--method", "beta")):
        assert "is the journal of another join" in the_line(run(source, *REQUIRED, *other, "--journal", journal))
    with Journal(tmp_path / "other") as events:
        LabelJoin(OnlinePlatt(), HORIZON, journal=events).note({"offset": 5})
    assert "a note that is not of" in the_line(run(source, *OPTIONS, "--journal", tmp_path / "other"))
    with Journal(journal):
        assert "in use by another journal" in the_line(run(source, *OPTIONS, "--journal", journal))


def test_what_is_odd_is_said(tmp_path: Path) -> None:
    ordered = sorted(impressions(50), key=lambda row: float(row["t"]))
    rows = [{**row, "t": 1e3 * row["t"] + 1.7e12, "click_time": None, "click": 0} for row in ordered]
    result = run(save(tmp_path / "in.csv", rows), *OPTIONS)
    assert "look like milliseconds, of which the horizon of 60 is that number" in result.output
    late = [{**row, "click": 1, "click_time": row["t"] + 90.0} for row in impressions(50)]
    result = run(save(tmp_path / "in.csv", late), *OPTIONS)
    assert "warning: 50 of 50 positive labels came after the horizon" in result.output


def test_no_rows_and_times_as_dates(tmp_path: Path) -> None:
    empty = tmp_path / "in.csv"
    empty.write_text("id,t,score,click,click_time\n")
    result = run(empty, *OPTIONS, "--journal", tmp_path / "journal", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert "0 rows (0 positive)" in result.output
    rows = "a,2026-01-01T00:00:00Z,0.5,1,2026-01-01T00:00:30Z\nb,2026-01-01T00:02:00Z,0.5,0,\n"
    result = run("-", *OPTIONS, "--out", "-", stdin=empty.read_bytes() + rows.encode())
    assert result.exit_code == 0, result.output
    assert float(result.stdout.splitlines()[2].split(",")[-1]) > 0.5, "the click was learned before the second row"


def test_simulated_clicks(tmp_path: Path) -> None:
    """Predicted over actual clicks within the horizon, where the model is 2 times too high: 1 after half a day."""
    stream = ad_clicks(8_000, seed=2, rate=0.05, days=1.0, versions=1)
    times = np.where(stream.click, stream.t + stream.delay, np.nan)
    columns = {"id": np.arange(8_000), "t": stream.t, "score": np.minimum(2.0 * stream.score, 1.0), "click_time": times}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
    rows = [{**row, "click": int(row["click_time"] == row["click_time"])} for row in rows]
    source, out = save(tmp_path / "in.parquet", rows), tmp_path / "out.parquet"
    result = run(source, *REQUIRED, "--horizon", "3h", "--early", "15m", "--method", "ops", "--out", out)
    assert result.exit_code == 0, result.output
    day = stream.t > 43_200.0
    actual = np.count_nonzero(stream.delay[day] <= 10_800.0)
    # 4,000 impressions have some 200 clicks, whose number has a standard deviation of 7 %: three of them.
    assert np.array(served(out))[day].sum() / actual == pytest.approx(1.0, abs=0.21)
    assert "share of clicks that come early: 0." in result.output
    assert "learned at the horizon" not in result.output
    few = run(source, *REQUIRED, "--horizon", "3h", "--early", "5s", "--method", "ops")
    assert "% of the clicks come within --early, so few that labels are learned at the horizon: give a" in few.output


def test_the_note_of_a_join_is_in_its_state() -> None:
    join = LabelJoin(OnlinePlatt(), HORIZON)
    state = join.state_dict()
    assert join.noted is None
    assert "note" not in state["learned"]
    join.note({"offset": 7, "name": "\ud800é"})
    for again in (
        LabelJoin.from_state(json.loads(json.dumps(join.state_dict()))),
        LabelJoin.from_bytes(join.to_bytes()),
    ):
        assert again.noted == {"offset": 7, "name": "\ud800é"}


def test_a_bad_row_costs_no_row_whose_level_is_missing(tmp_path: Path) -> None:
    rows = impressions(60)
    for row in rows[::4]:
        row["place"] = None
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    assert run(save(tmp_path / "in.csv", rows), *OPTIONS, "--segment", "place", "--out", whole).exit_code == 0
    bad = [*rows[:30], {**rows[30], "id": "bad", "score": 7.0}, *rows[30:]]
    result = run(save(tmp_path / "bad.csv", bad), *OPTIONS, "--segment", "place", "--out", out, "--on-error", "skip")
    assert "1 skipped" in result.output, result.output
    assert served(out) == served(whole)


def test_a_row_without_one_of_two_levels_is_used(tmp_path: Path) -> None:
    """Also where one is that of the calibrator inside: the columns are there, whichever of them have a value."""
    rows, out = impressions(120), tmp_path / "out.csv"
    for k, row in enumerate(rows):
        row |= {"place": row["place"] if k % 2 else None, "site": f"s{k % 5}" if k % 3 else None}
    given = ("--segment", "place", "--multicalibrate", "site", "--out", out)
    result = run(save(tmp_path / "in.csv", rows), *OPTIONS, *given)
    assert result.exit_code == 0, result.output
    method = Multicalibrated(Segmented(OnlinePlatt(), by=["place"]), by=["site"])
    assert served(out) == expected(LabelJoin(method, HORIZON), rows, ("place", "site"))


@pytest.mark.parametrize("ids", [["a", 1], [["x"], ["y"]]], ids=["texts and numbers", "lists"])
def test_ids_of_any_kind_end_in_no_traceback(tmp_path: Path, ids: list[Any]) -> None:
    rows = [
        {"id": id, "t": float(k), "score": 0.5, "click": 1, "click_time": 90.0, "place": "p"}
        for k, id in enumerate(ids)
    ]
    later = {"id": "z", "t": 100.0, "score": 0.5, "click": 0, "click_time": None, "place": "p"}
    stream = tmp_path / "in.jsonl"
    stream.write_text("".join(json.dumps(row) + "\n" for row in [*rows, later]), encoding="utf-8")
    result = run(stream, *REQUIRED, "--horizon", "60s", "--method", "platt", "--late", "60s")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert ("is not possible" in result.output) == isinstance(ids[0], list)


def test_an_event_far_in_the_future_is_told_of(tmp_path: Path) -> None:
    rows = impressions(80)
    rows[10]["t"] += 86_400.0 * 10
    rows[10]["click"], rows[10]["click_time"] = 0, None
    result = run(save(tmp_path / "in.csv", rows), *OPTIONS, "--on-error", "skip")
    assert result.exit_code == 1, result.output
    assert "far in the future" in result.output


def test_ids_of_users_in_place_of_impressions_are_told(tmp_path: Path) -> None:
    rows = [{**row, "score": 0.3, "id": f"u{k % 4}"} for k, row in enumerate(impressions(100))]
    told = "rows have the id of a row before"
    assert told in run(save(tmp_path / "users.csv", rows), *OPTIONS).output
    twice = [row for one in impressions(100) for row in (one, one)]  # as clicks are appended to impressions
    assert told not in run(save(tmp_path / "twice.csv", twice), *OPTIONS).output


@pytest.mark.sample(3)
@pytest.mark.parametrize("nothing", ["NULL", "NaT", "\\N"])
def test_a_text_for_nothing_is_no_label_and_no_time(tmp_path: Path, nothing: str) -> None:
    rows, out = impressions(), tmp_path / "out.csv"
    run(save(tmp_path / "in.csv", rows), *OPTIONS, "--out", out)
    wanted = [row["calibrated"] for row in read(out)]
    empty = {"click": nothing, "click_time": nothing}
    written = [row if row["click"] else {**row, **empty} for row in rows]
    found = run(save(tmp_path / "null.csv", written), *OPTIONS, "--out", out)
    assert found.exit_code == 0, found.output
    assert [row["calibrated"] for row in read(out)] == wanted
    assert "missing" in the_line(
        run(save(tmp_path / "bad.csv", [{**rows[0], "click": nothing, "click_time": 1e3}]), *OPTIONS)
    )


def skewed(rows: list[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """Stamp every third click before its impression."""
    clicked = [row["id"] for row in rows if row["click"]][::3]
    return [{**row, "click_time": round(row["t"] - seconds, 3)} if row["id"] in clicked else row for row in rows]


@pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
def test_clicks_stamped_shortly_before_their_impression_are_learned_as_by_a_live_join(
    tmp_path: Path, name: str
) -> None:
    rows, out = skewed(impressions(), 0.5), tmp_path / "out.jsonl"
    result = run(save(tmp_path / name, rows), *OPTIONS, "--on-error", "skip", "--out", out)
    assert served(out) == expected(LabelJoin(OnlinePlatt(), HORIZON), rows)
    early = sum(row["click"] and row["click_time"] < row["t"] for row in rows)
    assert f"labels stamped before their event, by other clocks; they count as immediate: {early}" in result.output
    assert "warning: times" in result.output, "small numbers, and a horizon with a unit"
    assert result.output.count("warning:") == 1


def test_clock_skew_is_bounded_and_rows_of_one_class_that_are_skipped_are_told(tmp_path: Path) -> None:
    rows = skewed(impressions(), 90.0)
    path, clicks = save(tmp_path / "in.csv", rows), sum(row["click"] for row in rows)
    early = sum(row["click"] and row["click_time"] < row["t"] for row in rows)
    message = the_line(run(path, *OPTIONS))
    assert "the label came 90 s before its event; allowed: no time more than 60 s (--clock-skew) before" in message
    skipped = run(path, *OPTIONS, "--on-error", "skip").output
    assert (
        f"warning: {early} of {early} rows skipped are positive, and {clicks - early} of the {400 - early} others"
        in skipped
    )
    assert f"{(clicks - early) / (400 - early) * 400 / clicks:.3g} times the rate of positives of all" in skipped
    whole = run(path, *OPTIONS, "--clock-skew", "2m", "--on-error", "skip").output
    assert "skipped are positive" not in whole
    assert f"they count as immediate: {early}" in whole
    for bad in ("-1s", "nan", "inf"):
        assert "is not possible; give a span of time, 0 or more" in the_line(run(path, *OPTIONS, "--clock-skew", bad))
    assert "--clock-skew needs --id" in the_line(run(path, "--clock-skew", "1s"))


def test_columns_of_times_that_are_each_others_are_told(tmp_path: Path) -> None:
    rows = [{**row, "click_time": row["t"] - 5.0 if row["click"] else None} for row in impressions()]
    clicks = sum(row["click"] for row in rows)
    assert f"{clicks} labels are stamped before their event" in run(save(tmp_path / "in.csv", rows), *OPTIONS).output
