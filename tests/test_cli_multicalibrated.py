"""`streamcal run --multicalibrate`: what `Multicalibrated` computes, with resumption, late labels and a report."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import read, run, save, the_line
from test_cli_segments import rows_with_segments

import streamcal
from streamcal import OnlinePlatt
from streamcal.live import Multicalibrated, Segmented

OPTIONS = ("--method", "ops", "--multicalibrate", "campaign", "--multicalibrate", "campaign, placement")
FIELDS = ("campaign", ("campaign", "placement"))


@pytest.mark.parametrize("segments", [False, True])
def test_it_is_the_loop_and_goes_on(tmp_path: Path, segments: bool) -> None:
    rows, state, out = rows_with_segments(), tmp_path / "state.json", tmp_path / "out.csv"
    cal = Multicalibrated(Segmented(OnlinePlatt(), ["placement"]) if segments else OnlinePlatt(), FIELDS)
    found = []
    for row in rows:
        keys = {"campaign": row["campaign"] or None, "placement": row["placement"]}
        found.append(cal.predict_one(row["score"], keys))
        cal.learn_one(row["score"], keys, row["click"])
    more = ("--segment", "placement") if segments else ()
    for stop in (450, 900):
        source = save(tmp_path / "in.csv", rows[:stop])
        result = run(source, *OPTIONS, *more, "--state", state, "--out", out)
        assert result.exit_code == 0, result.output
    assert [float(row["calibrated"]) for row in read(out)] == found
    assert streamcal.load(state).state_dict() == cal.state_dict()
    assert "multicalibrated: log loss less that without: at most" in result.output
    assert f"gap {cal.worst(1)[0].gap:+.1f} (z {cal.worst(1)[0].z:+.1f}, bound" in result.output
    assert ("segments by placement" in result.output) is segments
    again = run(source, "--state", state)
    assert again.exit_code == 0, again.output
    for others in (("--multicalibrate", "placement"), ("--segment", "campaign"), ("--method", "platt")):
        assert "contradicts the options" in the_line(run(source, "--state", state, *others))


def test_a_report(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", rows_with_segments())
    result = run(source, *OPTIONS, "--html", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    assert "campaign" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_field_that_cannot_be(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", rows_with_segments(30))
    assert "--multicalibrate 'a,a'" in the_line(run(source, "--multicalibrate", "a,a"))
    assert "campagne" in the_line(run(source, "--multicalibrate", "campagne"))
