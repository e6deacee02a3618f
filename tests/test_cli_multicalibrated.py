"""`streamcal run --multicalibrate`: what `Multicalibrated` computes, with resumption, late labels and a report."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from test_cli import program, read, run, save, the_line
from test_cli_late_labels import HORIZON, impressions, served
from test_cli_late_labels import OPTIONS as LATE
from test_cli_late_labels import expected as joined
from test_cli_late_labels import run as late
from test_cli_segments import rows_with_segments

import streamcal
from streamcal import OnlinePlatt
from streamcal.live import LabelJoin, Multicalibrated, Segmented
from streamcal.metrics import LogLoss

OPTIONS = ("--method", "ops", "--multicalibrate", "campaign", "--multicalibrate", "campaign, placement")
FIELDS = ("campaign", ("campaign", "placement"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("segments", [False, True])
def test_it_is_the_loop_and_goes_on(tmp_path: Path, segments: bool) -> None:
    rows, state, out = rows_with_segments(), tmp_path / "state.json", tmp_path / "out.csv"
    cal = Multicalibrated(Segmented(OnlinePlatt(), ["placement"]) if segments else OnlinePlatt(), FIELDS)
    found = []
    for row in rows:
        keys = {"campaign": row["campaign"] or None, "placement": row["placement"]}
        found.append(cal.predict_one(row["score"], keys=keys))
        cal.learn_one(row["score"], row["click"], keys=keys)
    more = ("--segment", "placement") if segments else ()
    for stop in (450, 900):
        source = save(tmp_path / "in.csv", rows[:stop])
        result = run(source, *OPTIONS, *more, "--state", state, "--out", out)
        assert result.exit_code == 0, result.output
    assert [float(row["calibrated"]) for row in read(out)] == found
    assert streamcal.load(state).state_dict() == cal.state_dict()
    assert "multicalibrated: log loss exceeds the uncorrected one by at most" in result.output
    assert f"gap {cal.worst(1)[0].gap:+.1f} (z {cal.worst(1)[0].z:+.1f}, bound" in result.output
    assert ("segments by placement" in result.output) is segments
    again = run(source, "--state", state)
    assert again.exit_code == 0, again.output
    for others in (("--multicalibrate", "placement"), ("--segment", "campaign"), ("--method", "platt")):
        assert "contradicts the options" in the_line(run(source, "--state", state, *others))


def test_late_labels(tmp_path: Path) -> None:
    """What a `LabelJoin` issues, from one run and from two on a journal."""
    rows, options = impressions(300), (*LATE, "--multicalibrate", "place", "--journal", tmp_path / "events.journal")
    join = LabelJoin(Multicalibrated(OnlinePlatt(), by=["place"]), HORIZON)
    for stop in (140, 300):
        result = late(save(tmp_path / "in.csv", rows[:stop]), *options, "--out", tmp_path / "out.jsonl")
        assert result.exit_code == 0, result.output
    assert served(tmp_path / "out.jsonl") == joined(join, rows, ("place",))
    group = join.calibrator.worst(1)[0]
    assert f"bound {group.bound:.1f} with {group.pending} pending)" in result.output
    assert group.pending > 10


def test_a_report(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", rows_with_segments())
    result = run(source, *OPTIONS, "--html", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Groups</h2>" in page
    assert "Certified: log loss exceeds the uncorrected one by at most" in page
    assert "campaign × placement c" in page


def test_a_field_that_cannot_be(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", rows_with_segments(30))
    assert "--multicalibrate 'a,a'" in the_line(run(source, "--multicalibrate", "a,a"))
    assert "campagne" in the_line(run(source, "--multicalibrate", "campagne"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("segments", [False, True])
def test_methods_are_compared_with_and_without(tmp_path: Path, segments: bool) -> None:
    rows = rows_with_segments()
    more = ("--segment", "placement") if segments else ()
    options = ("--methods", "ops", "--multicalibrate", "campaign", *more, "--html", tmp_path / "report.html")
    columns = ("--score", "score", "--label", "click")
    result = program("compare", save(tmp_path / "in.csv", rows), *columns, *options)
    assert result.exit_code == 0, result.output
    name = "ops by segment, multicalibrated" if segments else "ops, multicalibrated"
    cal = Multicalibrated(Segmented(OnlinePlatt(), ["placement"]) if segments else OnlinePlatt(), ["campaign"])
    columns = {field: [row[field] or None for row in rows] for field in ("campaign", "placement")}
    columns["placement"] = [row["placement"] for row in rows]
    p = cal.predict_learn_many([row["score"] for row in rows], [row["click"] for row in rows], keys=columns)
    data = {"score": [row["score"] for row in rows], "label": [row["click"] for row in rows], **columns}
    by = ["placement"] if segments else []
    found = streamcal.compare(pd.DataFrame(data), methods=["ops"], segments=by, multicalibrate=["campaign"])
    expected = LogLoss()
    expected.update_many(data["label"], p)
    assert found.standings[name].log_loss.get() == pytest.approx(expected.get(), rel=1e-12)
    assert ("ops by segment" in found.standings) is segments
    assert f"Groups with most evidence against {name}:" in result.output
    assert "<h2>Groups</h2>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    held = json.loads(json.dumps(found.to_dict(), allow_nan=False))["multicalibrated"]
    assert list(held) == [name]
    assert held[name]["regret"] == cal.certificate().regret
    assert held[name]["groups"][0]["evidence"] == cal.worst(1)[0].evidence
