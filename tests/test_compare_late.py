"""`compare` and `report` on a log with late labels: each method behind a `LabelJoin`, judged by what it issued."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import program, save, the_line
from test_cli_late_labels import HORIZON, REQUIRED, expected, impressions, read, run

from streamcal import Auto, InputError, OnlinePlatt
from streamcal.live import LabelJoin, Multicalibrated, Segmented
from streamcal.stream import sources
from streamcal.stream.as_issued import Horizon
from streamcal.stream.comparing import Comparison

READ = ("--score", "score", "--label", "click", *REQUIRED, "--horizon", "60s")
ROWS = impressions(600)
#: Sums of some hundred terms in another order.
SUMS = 1e-11


def judged(rows: list[dict[str, Any]]) -> tuple[list[int], np.ndarray]:
    """Return the places of the rows whose horizon has passed at the end, and their labels."""
    clock = list(itertools.accumulate((row["t"] for row in rows), max))
    places = [k for k, at in enumerate(clock) if at + HORIZON <= clock[-1]]
    came = [rows[k]["click_time"] for k in places]
    return places, np.array([t is not None and t <= clock[k] + HORIZON for k, t in zip(places, came, strict=True)])


def loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.where(y, p, 1.0 - p)).mean())


def compared(stream: object, *options: object) -> Any:
    return program("compare", stream, *READ, *options)


def found_in(stream: object, *options: object) -> dict[str, Any]:
    done = compared(stream, "--json", *options)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def without_times(found: Any) -> Any:
    """Leave out what differs from run to run."""
    if isinstance(found, dict):
        return {key: without_times(one) for key, one in found.items() if key not in ("seconds", "microseconds")}
    return [without_times(one) for one in found] if isinstance(found, list) else found


@pytest.mark.sample(2)
@pytest.mark.parametrize("early", [None, 10.0])
def test_each_method_is_judged_by_what_its_own_join_issued(
    tmp_path: Path, early: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PIECE_ROWS", 64)
    places, y = judged(ROWS)
    assert 400 < len(places) < len(ROWS)
    options = () if early is None else ("--early", "10s")
    found = found_in(save(tmp_path / "in.csv", ROWS), "--methods", "auto,ops", *options)
    assert (found["rows"], found["positives"], found["issued"]) == (len(places), int(y.sum()), len(ROWS))
    assert (found["horizon"], found["early"], found["delay"]) == (HORIZON, early, 0)
    scores = np.array([row["score"] for row in ROWS])
    assert found["methods"]["raw"]["log_loss"] == pytest.approx(loss(scores[places], y), rel=SUMS)
    for name, make in (("auto", Auto), ("ops", OnlinePlatt)):
        p = np.array(expected(LabelJoin(make(), HORIZON, early), ROWS))
        assert found["methods"][name]["log_loss"] == pytest.approx(loss(p[places], y), rel=SUMS), name
        assert found["methods"][name]["ratio"] == pytest.approx(p[places].sum() / y.sum(), rel=SUMS)


def test_the_table_is_that_of_run(tmp_path: Path) -> None:
    """The figures of a method are those of `streamcal run` with the same options, digit by digit."""
    file = save(tmp_path / "in.csv", ROWS)
    table = run(file, *REQUIRED, "--horizon", "60s", "--early", "10s").stdout.splitlines()
    raw, calibrated = ([line for line in table if line.startswith(name)] for name in ("raw", "calibrated"))
    shown = compared(file, "--early", "10s", "--methods", "auto").stdout.splitlines()
    for name, (line,) in (("raw", raw), ("auto", calibrated)):
        log_loss, brier = line.split()[1:3]
        (row,) = (one.split() for one in shown if one.startswith(f"{name} "))
        assert row[1].startswith(log_loss[:6])
        assert row[2].startswith(brier[:6])
    (read,) = (line for line in shown if "judged as issued" in line)
    assert f"{len(judged(ROWS)[0])} rows" in read
    assert "judged as issued with a horizon of 1m, early clicks learned after 10s" in read
    assert f"{len(ROWS) - len(judged(ROWS)[0])} more wait" in read


@pytest.mark.full
@pytest.mark.in_every_share
def test_segments_groups_and_processes(tmp_path: Path) -> None:
    file = save(tmp_path / "in.parquet", ROWS)
    options = ("--methods", "ops", "--segment", "place", "--multicalibrate", "place")
    found = found_in(file, *options)
    places, y = judged(ROWS)
    by = Segmented(OnlinePlatt(), by=["place"])
    for name, method in (("ops by segment", by), ("ops by segment, multicalibrated", Multicalibrated(by, ["place"]))):
        p = np.array(expected(LabelJoin(method.clone(), HORIZON), ROWS, ("place",)))[places]
        assert found["methods"][name]["log_loss"] == pytest.approx(loss(p, y), rel=SUMS)
    rows = {level["level"]: level["n"] for level in found["segments"]["place"]["levels"]}
    assert rows == {f"p{k}": sum(ROWS[place]["place"] == f"p{k}" for place in places) for k in range(3)}
    assert without_times(found_in(file, *options, "--processes", "2")) == without_times(found)


def test_rows_that_cannot_be_used_are_those_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id with another score, a row older than the horizon, one far ahead, a label before its event: in any piece."""
    monkeypatch.setattr(sources, "PIECE_ROWS", 64)
    rows = [dict(row) for row in ROWS]
    rows[100] = {**rows[100], "id": rows[90]["id"]}
    line = the_line(compared(save(tmp_path / "in.csv", rows), "--methods", "ops"))
    assert line.startswith(f"{tmp_path / 'in.csv'}, row 101, column 'id'")
    rows[200]["t"] -= 90.0
    rows[300]["t"] += 1e9
    rows[400]["click_time"], rows[400]["click"] = rows[400]["t"] - 99.0, 1
    rows[599]["t"] += 1e9  # the last
    file = save(tmp_path / "in.csv", rows)
    skip = ("--on-error", "skip", "--rejects")
    assert run(file, *REQUIRED, "--horizon", "60s", "--method", "ops", *skip, tmp_path / "run.csv").exit_code == 0
    shown = compared(file, "--methods", "ops", "--json", *skip, tmp_path / "compare.csv")
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "compare.csv").read_text() == (tmp_path / "run.csv").read_text()
    assert [row["row"] for row in read(tmp_path / "run.csv")] == ["101", "201", "301", "401", "600"]
    assert "5 rows that cannot be used were skipped" in shown.stderr
    used = [row for k, row in enumerate(rows) if k not in (100, 200, 300, 400, 599)]
    wanted = found_in(save(tmp_path / "used.csv", used), "--methods", "ops")
    assert without_times(json.loads(shown.stdout)) == {**without_times(wanted), "source": "in.csv"}


def test_the_report_has_its_command_and_when_labels_are_known(tmp_path: Path) -> None:
    file, page = save(tmp_path / "in.csv", ROWS), tmp_path / "page.html"
    done = program("report", file, *READ, "--early", "10s", "--methods", "ops", "--html", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "--id id --event-time t --label-time click_time --horizon 60s --early 10s" in text
    assert "1m, early clicks learned after 10s" in text
    assert f"{len(judged(ROWS)[0])} rows" in text


def test_warnings_are_those_of_run(tmp_path: Path) -> None:
    late = [{**row, "click": 1, "click_time": row["t"] + 90.0} for row in impressions(200)]
    shown = compared(save(tmp_path / "in.csv", late), "--methods", "ops")
    assert "warning: 200 of 200 positive labels came after the horizon" in shown.stderr
    same = [{**row, "id": f"user{k % 5}", "score": 0.5} for k, row in enumerate(impressions(200))]
    shown = compared(save(tmp_path / "in.csv", same), "--methods", "ops")
    assert "rows have the id of a row before" in shown.stderr
    millis = [{**row, "t": 1.7e12 + k, "click_time": None, "click": 0} for k, row in enumerate(impressions(200))]
    shown = compared(save(tmp_path / "in.csv", millis), "--methods", "ops")
    assert "look like milliseconds, of which the horizon of 60 is that number" in shown.stderr


@pytest.mark.parametrize("command", ["compare", "report"])
def test_options_that_do_not_go_together(command: str, tmp_path: Path) -> None:
    file = save(tmp_path / "in.csv", ROWS[:20])
    for option, value in (("--delay", "3"), ("--time", "t"), ("--missing-label", "negative")):
        assert f"{option} and --id exclude each other" in the_line(program(command, file, *READ, option, value))
    line = the_line(program(command, file, *READ[:4], "--early", "3s"))
    assert "--early needs --id and --event-time and --label-time and --horizon too" in line
    with pytest.raises(InputError, match="exclude each other"):
        Comparison(["ops"], delay=3, horizon=Horizon(60.0))


def test_nothing_is_said_in_a_line(tmp_path: Path) -> None:
    file = save(tmp_path / "in.csv", ROWS[:20])
    assert compared(file).stdout == "no horizon has passed yet: 20 predictions wait for their labels\n"
    head = tmp_path / "head.csv"
    head.write_text(file.read_text().splitlines()[0] + "\n")
    assert compared(head).stdout == "head.csv has no rows: nothing was compared\n"
    assert program("compare", head, *READ[:4]).stdout == "head.csv has no rows: nothing was compared\n"
    assert "there is no report: head.csv has no rows" in the_line(program("report", head, *READ))
    head.write_text(file.read_text().splitlines()[0] + "\nx\n")
    shown = program("compare", head, *READ[:4], "--on-error", "skip")
    assert shown.stdout == "head.csv has no row that can be used: nothing was compared\n"
