"""`streamcal run --html`: the page of `streamcal report`, on the rows of the run."""

from __future__ import annotations

import html
import re

import pytest
from test_cli import as_csv, as_jsonl, made, program, save, the_line
from test_cli_late_labels import HORIZON, OPTIONS, impressions

from streamcal.app.run_report import AT_ONCE
from streamcal.app.terminal import INTERRUPTED
from streamcal.stream.run import Run

ROWS = made(700)
READ = ("--score", "score", "--label", "click")
#: What differs from run to run: the command, times, speed, and the parameters that `compare` gives a method.
VARIES = r"<pre.*?</pre>|<td>[^<]*</td><td>[^<]*B</td>|<dd>.*?</dd>"


def text_of(path):
    return re.sub(VARIES, "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_bytes(as_csv(ROWS))
    return path


def test_it_is_the_page_of_report(file, tmp_path):
    options = (*READ, "--weight", "w")
    result = program("run", file, *options, "--method", "online-platt", "--html", tmp_path / "run.html")
    assert result.exit_code == 0
    assert f"report: {tmp_path / 'run.html'}" in result.stdout
    assert (
        program("report", file, *options, "--methods", "online-platt", "--html", tmp_path / "report.html").exit_code
        == 0
    )
    assert text_of(tmp_path / "run.html") == text_of(tmp_path / "report.html")
    command = re.search(r"<code>(.*?)</code>", (tmp_path / "run.html").read_text(encoding="utf-8"))[1]
    given = f"{file} --score score --label click --weight w --method online-platt --html {tmp_path / 'run.html'}"
    assert html.unescape(command) == f"streamcal run {given}"


def test_rows_that_come_one_by_one_are_in_it(file, tmp_path):
    bad = as_jsonl(ROWS).splitlines(keepends=True)
    bad[AT_ONCE : AT_ONCE + 2] = [*bad[AT_ONCE : AT_ONCE + 2], b'{"score": 2, "click": 1}\n']
    (tmp_path / "clicks.jsonl").write_bytes(b"".join(bad))
    options = (*READ, "--method", "ops", "--html")
    assert program("run", file, *options, tmp_path / "all.html").exit_code == 0
    skipping = program("run", tmp_path / "clicks.jsonl", *options, tmp_path / "some.html", "--on-error", "skip")
    assert skipping.exit_code == 0
    # Pictures may round sums of another order in another way.
    table = r"<h2>Methods</h2>.*?</table>"
    some, whole = (re.search(table, text_of(tmp_path / name), re.DOTALL)[0] for name in ("some.html", "all.html"))
    assert some == whole


def test_segments_and_a_state_that_goes_on(file, tmp_path):
    rows = [row | {"device": f"d{k % 3}"} for k, row in enumerate(ROWS)]
    file.write_bytes(as_csv(rows))
    options = (*READ, "--method", "ops", "--segment", "device", "--state", tmp_path / "state")
    result = program("run", file, *options, "--html", tmp_path / "run.html")
    assert result.exit_code == 0
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<h3>By device</h3>" in page
    assert "Segments by device" in page
    assert "online-platt by segment" in page
    again = program("run", file, *options, "--html", tmp_path / "nothing.html")
    assert "no report, since no row was read" in again.stdout
    assert not (tmp_path / "nothing.html").exists()


def test_a_span_is_shown_with_all_its_digits(file, tmp_path):
    options = (*READ, "--method", "platt", "--window", "1234567")
    assert program("run", file, *options, "--html", tmp_path / "run.html").exit_code == 0
    assert "--window 1234567 " in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_an_interrupted_run_has_a_report_of_its_rows(file, tmp_path, monkeypatch):
    take = Run._take

    def stop(self, part):
        take(self, part)
        self.interrupt(2)

    monkeypatch.setattr(Run, "_take", stop)
    result = program("run", file, *READ, "--method", "ops", "--html", tmp_path / "run.html")
    assert result.exit_code == INTERRUPTED
    rows = re.search(r'class="soft">(\d+) rows', (tmp_path / "run.html").read_text(encoding="utf-8"))[1]
    assert 0 < int(rows) < len(ROWS)


def test_late_labels_are_reported_when_their_horizon_has_passed(tmp_path):
    rows = impressions(300)
    options = (*READ, *OPTIONS, "--segment", "place", "--journal", tmp_path / "journal")
    result = program("run", save(tmp_path / "in.csv", rows), *options, "--html", tmp_path / "run.html")
    assert result.exit_code == 0, result.output
    settled = sum(row["t"] <= max(row["t"] for row in rows) - HORIZON for row in rows)
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert f'class="soft">{settled} rows' in page
    assert "<h3>By place</h3>" in page
    assert "--journal" in page


def test_what_is_refused_before_a_row_is_read(file, tmp_path):
    refused = {
        ("--method", "identity"): "which is what Identity",
        ("--method", "platt", "--scale", "margin:-8,8"): "as a probability",
    }
    for options, why in refused.items():
        assert why in the_line(program("run", file, *READ, *options, "--html", tmp_path / "run.html"))
    out = tmp_path / "out.csv"
    assert "another file of this run" in the_line(program("run", file, *READ, "--out", out, "--html", out))
    assert "overwrite the stream" in the_line(program("run", file, *READ, "--html", file))
    assert "cannot be written" in the_line(program("run", file, *READ, "--html", tmp_path / "no" / "r.html"))
    assert not out.exists()


@pytest.mark.parametrize("place", ["folder", "-"])
def test_a_report_is_a_regular_file(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "in.csv").write_text("s,y\n0.5,1\n0.5,0\n", encoding="utf-8")
    result = program("run", "in.csv", "--score", "s", "--label", "y", "--html", place)
    assert result.exit_code == 2
    assert "report" in result.output
    assert not (tmp_path / "-").exists()
