"""`--levels-store` and `--max-levels` of `streamcal run` and `streamcal serve`: as without, resumed, refused."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_cli import made, read, run, save, the_line
from typer.testing import CliRunner

import streamcal
from streamcal import StateError
from streamcal.app.cli import app
from streamcal.live import Journal, LabelJoin, Segmented, level_store
from streamcal.live.level_store import StoreError

OPTIONS = ("--method", "ops", "--segment", "campaign", "--segment", "campaign,placement")


def rows_with_levels(n: int = 900) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [
        {
            **row,
            "campaign": f"c{draw.randrange(60)}",
            "placement": draw.randrange(4),
            "id": k,
            "at": float(k),
            "clicked": k + 9.0 if row["click"] else "",
        }
        for k, row in enumerate(made(n))
    ]


def forecasts(out: Path) -> list[str]:
    return [row["calibrated"] for row in read(out)]


def stored(folder: Path) -> tuple[object, ...]:
    return "--levels-store", folder / "levels.db", "--max-levels", 5


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_forecasts_are_those_without_a_store(tmp_path: Path, name: str) -> None:
    source = save(tmp_path / name, rows_with_levels())
    assert run(source, *OPTIONS, "--out", tmp_path / "all.csv").exit_code == 0
    result = run(source, *OPTIONS, *stored(tmp_path), "--out", tmp_path / "some.csv")
    assert result.exit_code == 0, result.output
    cal = Segmented("ops", by=["campaign", ("campaign", "placement")], max_levels=5)
    for row in rows_with_levels():
        cal.learn_one(0.5, True, keys=row)
    there, times = len({row["campaign"] for row in rows_with_levels()}), f"{cal.tally()['evicted']:,}"
    assert cal.tally()["evicted"] > 10 * there, "levels come back"
    assert f"segments by campaign: {there} ({there - 5} of them in the store), which differ by" in result.output
    assert f"times a level of a segment made room in memory, and went to the store: {times}\n" in result.output
    assert forecasts(tmp_path / "some.csv") == forecasts(tmp_path / "all.csv")
    few = run(source, *OPTIONS, "--max-levels", 5, "--out", tmp_path / "few.csv")
    assert "segments by campaign: 5, which differ by" in few.output
    assert f"times a level of a segment was dropped to make room for another: {times}\n" in few.output
    assert forecasts(tmp_path / "few.csv") != forecasts(tmp_path / "all.csv"), "levels were dropped"


@pytest.mark.sample(2)
@pytest.mark.parametrize("given", [True, False])
def test_the_same_command_goes_on(tmp_path: Path, given: bool) -> None:
    rows, source, state, out = rows_with_levels(), tmp_path / "in.csv", tmp_path / "state.json", tmp_path / "out.csv"
    save(source, rows)
    assert run(source, *OPTIONS, "--out", tmp_path / "all.csv").exit_code == 0
    for n in (300, 301, 900):
        save(source, rows[:n])
        options = (*OPTIONS, *stored(tmp_path)) if given or n == 300 else ()
        result = run(source, *options, "--state", state, "--out", out)
        assert result.exit_code == 0, result.output
    assert forecasts(out) == forecasts(tmp_path / "all.csv")
    assert len(streamcal.load(state).levels("campaign")) == 5


def test_late_labels_with_a_journal_go_on(tmp_path: Path) -> None:
    rows, source = rows_with_levels(600), tmp_path / "in.csv"
    late = ("--id", "id", "--event-time", "at", "--label-time", "clicked", "--horizon", "20s")
    save(source, rows)
    assert run(source, *OPTIONS, *late, "--out", tmp_path / "all.csv").exit_code == 0
    for n in (250, 600):
        save(source, rows[:n])
        options = (*OPTIONS, *late, *stored(tmp_path), "--journal", tmp_path / "journal", "--out", tmp_path / "out.csv")
        result = run(source, *options)
        assert result.exit_code == 0, result.output
    assert forecasts(tmp_path / "out.csv") == forecasts(tmp_path / "all.csv")


CHILD = """
import sys
from streamcal.app.cli import app
from streamcal.live import level_store
level_store.MOST_PENDING, level_store.FEWEST_ROWS = 50, 500
app(sys.argv[1:])
"""


@pytest.mark.full
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    """Whatever was written last, the store or the state, the state that is there can be loaded."""
    source = save(tmp_path / "in.csv", rows_with_levels(8_000))
    assert run(source, *OPTIONS, "--out", tmp_path / "all.csv").exit_code == 0
    out, state, draw, struck = tmp_path / "out.csv", tmp_path / "state.json", random.Random(1), 0
    files = ("--state", state, "--checkpoint", "0.02", "--out", out)
    command = ["run", source, "--score", "score", "--label", "click", *OPTIONS, *stored(tmp_path), *files]
    for kill in (True, True, False):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *map(str, command)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        if kill:
            before = state.stat().st_mtime_ns if state.exists() else 0
            while child.poll() is None and (not state.exists() or state.stat().st_mtime_ns == before):
                time.sleep(0.002)
            time.sleep(draw.uniform(0.0, 0.2))
            struck += child.poll() is None
            child.kill()
        said = child.communicate()[1]
        assert child.returncode in (0, -signal.SIGKILL), said
    assert child.returncode == 0
    assert struck > 0
    assert forecasts(out) == forecasts(tmp_path / "all.csv")


def test_a_state_file_that_cannot_be_written_stays_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are kept for the state that lies there, however many later ones were taken and not written."""
    from streamcal.stream import checkpoints

    monkeypatch.setattr(level_store, "MOST_PENDING", 5)
    monkeypatch.setattr(level_store, "FEWEST_ROWS", 50)
    state, rows = tmp_path / "state.json", rows_with_levels(400)
    cal = Segmented("ops", ["campaign"], max_levels=5, store=tmp_path / "levels.db")

    def learn(some: list[dict[str, Any]], into: Segmented) -> None:
        for row in some:
            into.learn_one(row["score"], row["click"], keys={"campaign": row["campaign"]})

    learn(rows[:200], cal)
    checkpoints.save(cal, state, checkpoints.Checkpoint())
    known = cal.effects("campaign", [f"c{k}" for k in range(60)])

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "atomic_write", full)
        for k in range(200, 400, 10):
            learn(rows[k : k + 10], cal)
            with pytest.raises(StateError, match="cannot be written: No space left"):
                checkpoints.save(cal, state, checkpoints.Checkpoint())
    del cal
    again, _ = checkpoints.load(state)
    assert again.effects("campaign", [f"c{k}" for k in range(60)]) == known


def test_a_store_that_fails_in_the_middle_ends_the_run_with_the_last_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, source = rows_with_levels(), tmp_path / "in.csv"
    state, out = tmp_path / "state.json", tmp_path / "out.csv"
    save(source, rows)
    assert run(source, *OPTIONS, "--out", tmp_path / "all.csv").exit_code == 0
    options = (*OPTIONS, *stored(tmp_path), "--state", state, "--out", out, "--on-error", "skip")
    save(source, rows[:300])
    assert run(source, *options).exit_code == 0
    kept = state.read_bytes()
    save(source, rows)
    read_one, calls = level_store.LevelRows.read, []

    def failing(self: Any, field: int, level: Any) -> Any:
        calls.append(level)
        if len(calls) > 100:
            raise StoreError("levels.db: the store of levels cannot be read: disk I/O error")
        return read_one(self, field, level)

    with monkeypatch.context() as patched:
        patched.setattr(level_store.LevelRows, "read", failing)
        assert "disk I/O error" in the_line(run(source, *options))
    assert state.read_bytes() == kept
    assert run(source, *options).exit_code == 0
    assert forecasts(out) == forecasts(tmp_path / "all.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--levels-store", "levels.db"), "--levels-store needs --segment"),
        (("--max-levels", "5"), "--max-levels needs --segment"),
        (("--segment", "campaign", "--levels-store", "in.csv"), "would overwrite another file"),
        (("--segment", "campaign", "--levels-store", "out.csv"), "would overwrite another file"),
        (("--segment", "campaign", "--levels-store", "state.json", "--state", "state.json"), "would overwrite another"),
        (("--segment", "campaign", "--levels-store", "no/levels.db"), "there is no folder"),
        (("--segment", "campaign", "--levels-store", "."), "it is no regular file"),
        (("--segment", "campaign", "--levels-store", ":memory:"), "give the path of a file"),
        (("--segment", "campaign", "--max-levels", "3", "--levels-store", "other.txt"), "is no store of levels"),
    ],
)
def test_what_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "in.csv", rows_with_levels(50))
    (tmp_path / "other.txt").write_text("a text that is long enough to be looked at\n" * 30)
    assert message in the_line(run("in.csv", *options, "--out", "out.csv"))


@pytest.mark.parametrize("options", [("--max-levels", 6), ("--levels-store", "other.db")])
def test_options_that_contradict_the_state(tmp_path: Path, options: tuple[object, ...]) -> None:
    source, state = save(tmp_path / "in.csv", rows_with_levels(100)), tmp_path / "state.json"
    assert run(source, *OPTIONS, *stored(tmp_path), "--state", state).exit_code == 0
    assert "which contradicts the options given" in the_line(run(source, *options, "--state", state))
    alone = tmp_path / "alone.json"
    assert run(source, "--method", "ops", "--state", alone).exit_code == 0
    assert "which contradicts the options given" in the_line(run(source, *options, "--state", alone))


def test_a_state_without_its_store(tmp_path: Path) -> None:
    source, state = save(tmp_path / "in.csv", rows_with_levels(300)), tmp_path / "state.json"
    assert run(source, *OPTIONS, *stored(tmp_path), "--state", state).exit_code == 0
    (tmp_path / "levels.db").unlink()
    assert "is missing; it belongs to the state" in the_line(run(source, "--state", state))


def test_a_service_keeps_levels_in_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its join is that of the options; what it learns is in journal and store, and goes on."""
    pytest.importorskip("starlette")
    running = pytest.importorskip("streamcal.serving.running")
    found: list[Any] = []

    def served(service: Any, host: str, port: int, *_: Any) -> bool:
        join = service.join
        for k in range(len(found) * 300, len(found) * 300 + 300):
            join.issue(k, 0.2, float(k), keys={"campaign": k * 7 % 40})
            join.resolve(k, k % 3 == 0, float(k))
        join.acknowledge()
        join.snapshot()
        found.append(([join.calibrator.effect("campaign", k) for k in range(40)], join.calibrator.tally()["evicted"]))
        return True

    monkeypatch.setattr(running, "serve", served)
    monkeypatch.setattr(running, "log_as_json", lambda level: None)  # to a standard error that is closed afterwards
    options = ["serve", "--horizon", "10s", "--clock", "events", "--method", "ops", "--segment", "campaign"]
    stores = ["--levels-store", str(tmp_path / "levels.db"), "--max-levels", "5"]
    for _ in range(2):
        result = CliRunner().invoke(app, [*options, *stores, "--journal", str(tmp_path / "journal")])
        assert result.exit_code == 0, result.output
    assert found[1][1] > found[0][1] > 0
    with Journal(tmp_path / "other") as journal:
        join = LabelJoin(Segmented("ops", ["campaign"]), 10.0, journal=journal)
        for k in range(600):
            join.issue(k, 0.2, float(k), keys={"campaign": k * 7 % 40})
            join.resolve(k, k % 3 == 0, float(k))
        assert [join.calibrator.effect("campaign", k) for k in range(40)] == found[1][0]
    store = level_store.opened(str(tmp_path / "levels.db"))
    assert store.rows("SELECT count(DISTINCT level) FROM levels") == [(40,)]
    refused = CliRunner().invoke(app, [*options, "--segment", "placement", "--pairs", *stores, "--memory"])
    assert "a file holds no levels of pairs" in refused.output
    refused = CliRunner().invoke(app, [*options[:-2], *stores, "--memory"])
    assert "--levels-store needs --segment" in refused.output
    refused = CliRunner().invoke(
        app, [*options, "--levels-store", str(tmp_path / "journal"), "--journal", str(tmp_path / "journal")]
    )
    assert "would overwrite another file" in refused.output
