"""The command line: every sentence of its description, through the real program.

Most tests call the program in this process, which is fast; what signals, pipes, terminals and memory do is tried on
a process of its own.
"""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import json
import math
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.main import get_command
from typer.testing import CliRunner

import streamcal
from streamcal import fusion, multiclass, regression
from streamcal.app.choosing import new_calibrator as calibrator_of
from streamcal.app.cli import app
from streamcal.app.doctor import method_times
from streamcal.app.options import ALL
from streamcal.app.report import log_loss_verdict
from streamcal.app.terminal import CLOSED_PIPE, INTERRUPTED, USAGE_ERROR
from streamcal.calibrators.auto import Auto
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.calibrators.venn_abers import VennAbers
from streamcal.errors import InputError, SolverError
from streamcal.fusion import CopulaFusion
from streamcal.metrics import Brier, CalibrationRatio, EqualMassECE, LogLoss, LogLossDifference
from streamcal.parameters.settings import parse
from streamcal.stream import durable, reading, tables
from streamcal.stream.columns import Columns
from streamcal.stream.reading import RecordReader
from streamcal.stream.run import Run

PROGRAM = [sys.executable, "-P", "-c", "from streamcal.app.cli import main; main()"]
ROWS = 300
COMMANDS = ("run", "predict", "map", "compare", "report", "serve", "methods", "doctor", "sample", "demo")
#: Longest wait for another process; only a failure waits that long.
PATIENCE = 60.0


def made(rows: int = ROWS, seed: int = 1) -> list[dict[str, Any]]:
    """Make rows: scores with ties that are too high by half, labels, weights, and times about a unit apart."""
    draw = np.random.default_rng(seed)
    scores = np.round(draw.beta(1, 3, rows), 3).tolist()
    labels = (draw.random(rows) < np.array(scores) / 1.5).astype(int).tolist()
    weights = draw.integers(1, 4, rows).tolist()
    times = np.cumsum(draw.exponential(1.0, rows)).round(3).tolist()
    fields = enumerate(zip(scores, labels, weights, times, strict=True))
    return [{"id": f"a{i}", "score": s, "click": y, "w": w, "t": t} for i, (s, y, w, t) in fields]


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format of the name, by other means than the program's own."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
        return path
    if path.suffix in (".arrow", ".arrows"):
        table = pa.Table.from_pylist(rows)
        with (pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table)
        return path
    content = as_jsonl(rows) if ".jsonl" in path.name else as_csv(rows)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    with RecordReader(path) as reader:
        return [row for chunk in reader for row in chunk.rows]


def program(*arguments: object, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def run(stream: object, *options: object, stdin: bytes | None = None) -> Any:
    """`streamcal run` on the columns of `made`."""
    return program("run", stream, "--score", "score", "--label", "click", *options, stdin=stdin)


def the_line(result: Any) -> str:
    """Return the one line on standard error of a run that ended with exit code 2."""
    assert result.exit_code == USAGE_ERROR, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("streamcal: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.output
    return lines[0].removeprefix("streamcal: ")


def loop(calibrator: Calibrator, rows: list[dict[str, Any]]) -> list[float]:
    """Run the definition of the job: predict, then learn, row by row."""
    predictions = []
    for row in rows:
        predictions.append(calibrator.predict_one(float(row["score"])))
        calibrator.learn_one(float(row["score"]), int(row["click"]))
    return predictions


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    return save(tmp_path / "clicks.csv", made())


# -- what it reads and writes --------------------------------------------------------------------------------------


SOURCES = ["in.csv", "in.csv.gz", "in.jsonl", "in.jsonl.gz", "in.parquet", "in.arrow", "in.arrows", "-"]
TARGETS = ["out.csv", "out.csv.gz", "out.jsonl", "out.jsonl.lz4", "out.parquet", "out.arrow", "-"]
#: A plain `pytest` reads every format and writes every format at least twice, `-m full` tries all pairs.
READ_AND_WRITTEN = [
    pytest.param(source, target, marks=[pytest.mark.full] * ((j - i) % len(TARGETS) not in (0, 3)))
    for i, source in enumerate(SOURCES)
    for j, target in enumerate(TARGETS)
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("source", "target"), READ_AND_WRITTEN)
def test_every_format_is_predicted_then_learned_row_by_row(tmp_path: Path, source: str, target: str) -> None:
    rows = made()
    stdin = as_csv(rows) if source == "-" else None
    name = source if source == "-" else save(tmp_path / source, rows)
    shown = next((format for format in ("jsonl", "arrows") if format[:5] in source), "csv")
    out = tmp_path / target if target != "-" else tmp_path / f"shown.{shown}"
    result = run(name, "--out", out if target != "-" else "-", stdin=stdin)
    assert result.exit_code == 0, result.output
    if target == "-":
        out.write_bytes(result.stdout_bytes)
    written = read(out)
    assert [float(row["calibrated"]) for row in written] == loop(Auto(), rows)
    for row, given in zip(written, rows, strict=True):
        assert list(row) == ["id", "score", "click", "w", "t", "calibrated"]
        assert all(str(row[name]) == str(given[name]) for name in given)


def test_json_lines_on_standard_input() -> None:
    result = run("-", "--format", "jsonl", "--out", "-", stdin=as_jsonl(made()))
    assert [json.loads(line)["calibrated"] for line in result.stdout.splitlines()] == loop(Auto(), made())


@pytest.mark.parametrize(
    ("source", "between", "target", "written"),
    [
        ("in.csv", ";", "out.csv", ";"),
        ("in.csv", "|", "out.tsv", "\t"),
        ("in.tsv", "\t", "out.csv", ","),
        ("in.csv", ":", "out.csv.bz2", ":"),
        ("in.tsv", "\t", "-", "\t"),
    ],
)
def test_delimiters(tmp_path: Path, stream: Path, source: str, between: str, target: str, written: str) -> None:
    """Those of the source go out again, unless one of the two names says another."""
    (tmp_path / source).write_text(stream.read_text().replace(",", between))
    out = target if target == "-" else tmp_path / target
    result = run(tmp_path / source, "--out", out, *(["--delimiter", between] if between == ":" else []))
    assert result.exit_code == 0, result.output
    if target == "-":
        out = tmp_path / "shown.tsv"
        out.write_bytes(result.stdout_bytes)
    with RecordReader(out, delimiter=written) as reader:
        rows = [row for chunk in reader for row in chunk.rows]
    assert [float(row["calibrated"]) for row in rows] == loop(Auto(), made())


def test_gzip_on_standard_input() -> None:
    result = run("-", "--out", "-", stdin=gzip.compress(as_csv(made())))
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == ROWS + 1


def test_json_lines_may_differ_in_their_columns_if_json_lines_go_out(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"score": 0.5, "click": 1}\n{"more": [1], "click": false, "score": 0.5}\n')
    assert run(source, "--out", tmp_path / "out.jsonl").exit_code == 0
    assert list(read(tmp_path / "out.jsonl")[1]) == ["more", "click", "score", "calibrated"]
    line = the_line(run(source, "--out", tmp_path / "out.csv"))
    assert line.startswith(f"{source}, row 2, column 'more': the first row has no such column")
    assert len(read(tmp_path / "out.csv")) == 1


def test_lower_and_upper_where_the_method_has_them(stream: Path, tmp_path: Path) -> None:
    for name in ("venn-abers", "cross-venn-abers", "isotonic", "ops", "auto"):
        method, out = REGISTRY[name], tmp_path / f"{name}.csv"
        assert run(stream, "--method", name, "--out", out).exit_code == 0
        added = list(read(out)[0])[5:]
        assert added == (["calibrated", "lower", "upper"] if method.has_interval else ["calibrated"])
    cal = VennAbers()
    for row in read(tmp_path / "venn-abers.csv"):
        score, y = float(row["score"]), int(row["click"])
        interval = cal.predict_interval_one(score)
        assert (float(row["calibrated"]), float(row["lower"]), float(row["upper"])) == (
            cal.predict_one(score),
            *interval,
        )
        cal.learn_one(score, y)


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", ["in.csv.gz", "in.jsonl", "in.parquet"])
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """By the sizes of a block, of a batch and of a row group, which are smaller here."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(reading, "BATCH_ROWS", 1 << 10)
    monkeypatch.setattr(tables, "GROUP_ROWS", 1 << 11)
    peaks = []
    for rows in (2_000, 2_000, 8_000):  # the first warms caches up
        job = Run(OnlinePlatt(), [str(save(tmp_path / source, made(rows)))], Columns("score", "click"))
        job.out = str(tmp_path / source.replace("in", "out"))
        tracemalloc.start()
        job.execute()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 500_000  # the rows alone, as dicts, would take 3 MB more


def test_a_live_pipe_gets_each_row_promptly(tmp_path: Path) -> None:
    with live("--out", "-", "--state", str(tmp_path / "state.json")) as process:
        give(process, b"id,score,click\n")
        for i, score in enumerate((0.1, 0.7, 0.3)):
            give(process, f"a{i},{score},1\n".encode())
            lines = [line_of(process.stdout)] if i else [line_of(process.stdout), line_of(process.stdout)]
            assert lines[-1].startswith(f"a{i},{score},1,".encode())
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert durable.load(tmp_path / "state.json").n == 3


# -- the closing table ---------------------------------------------------------------------------------------------


def test_the_closing_table_compares_raw_and_calibrated(stream: Path) -> None:
    rows = made()
    result = run(stream, "--method", "ops", "--weight", "w")
    heading, *lines = result.stdout.splitlines()[2:7]
    assert re.split(r"  +", heading.strip()) == ["log loss", "Brier", "ECE", "calibration ratio"]
    labels, weights = [row["click"] for row in rows], [float(row["w"]) for row in rows]
    cal, calibrated = OnlinePlatt(), []
    for row in rows:
        calibrated.append(cal.predict_one(row["score"]))
        cal.learn_one(row["score"], row["click"], row["w"])
    for line, name, p in zip(lines, ("raw", "calibrated"), ([row["score"] for row in rows], calibrated), strict=False):
        measures = (LogLoss(), Brier(), EqualMassECE(), CalibrationRatio())
        for measure in measures:
            measure.update_many(labels, p, weights)
        expected = [*(measure.get() for measure in measures), *measures[-1].interval()]
        shown = line.replace("[", "").replace(",", "").replace("]", "").split()
        assert shown[0] == name
        for text, value in zip(shown[1:], expected, strict=True):
            assert float(text) == pytest.approx(value, abs=0.51 * 10 ** -len(text.partition(".")[2]))
    difference = LogLossDifference(adaptive=True)
    difference.update_many(labels, calibrated, [row["score"] for row in rows], weights)
    assert lines[2] == log_loss_verdict(difference)
    assert lines[3].startswith("Calibration ratio: raw predicts ")
    last = result.stdout.splitlines()[-1]
    assert re.match(rf"{ROWS} rows \({sum(labels)} positive\); [\d,]+ rows per second$", last)


def biased(tmp_path: Path, score: float, rows: int = 4_000) -> Path:
    """Save a stream of one score, half of whose labels are positive."""
    labels = np.random.default_rng(0).permutation(np.arange(rows) % 2).tolist()
    return save(tmp_path / f"{score}.csv", [{"score": score, "click": y} for y in labels])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("score", "method", "verdict", "ratios"),
    [
        (0.8, "platt", "Calibration is better: ", "raw predicts too many positives; calibrated agrees with the labels"),
        (0.2, "platt", "Calibration is better: ", "raw predicts too few positives; calibrated agrees with the labels"),
        (0.5, "ops", "Undecided whether calibration is better: ", "raw agrees with the labels; calibrated agrees with"),
        (0.5, "always 0.9", "Calibration is worse: ", "raw agrees with the labels; calibrated predicts too many"),
    ],
)
def test_it_says_whether_calibration_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: float, method: str, verdict: str, ratios: str
) -> None:
    if method == "always 0.9":
        method = "identity"
        monkeypatch.setattr(REGISTRY["identity"], "predict_one", lambda self, score, t=None: 0.9)
        monkeypatch.setattr(REGISTRY["identity"], "_streamed", Calibrator._streamed)
    lines = run(biased(tmp_path, score), "--method", method).stdout.splitlines()
    said = next(line for line in lines if line.startswith(verdict))
    assert "95 % confidence sequence: " in said
    assert f"Calibration ratio: {ratios}" in lines[lines.index(said) + 1]


def test_the_verdict_is_that_of_the_confidence_sequence(stream: Path) -> None:
    rows = made()
    difference = LogLossDifference(adaptive=True)
    scores, labels = [row["score"] for row in rows], [row["click"] for row in rows]
    difference.update_many(labels, loop(OnlinePlatt(), rows), scores)
    (line,) = (x for x in run(stream, "--method", "ops").stdout.splitlines() if "confidence sequence" in x)
    figures = [(-1 if side == "lower" else 1) * float(x) for x, side in re.findall(r"([\d.]+) (lower|higher)", line)]
    # two significant digits
    assert figures == pytest.approx([difference.get(), *difference.interval], rel=0.06)


def test_a_loss_is_not_rounded_away(tmp_path: Path) -> None:
    """Raw and calibrated log loss of a stream on which `ops` loses a little differ in what is shown."""
    draw = np.random.default_rng(0)
    scores = draw.beta(1, 20, 3_000).tolist()
    rows = [{"score": p, "click": int(draw.random() < p)} for p in scores]
    lines = run(save(tmp_path / "in.csv", rows), "--method", "ops").stdout.splitlines()
    raw, calibrated = (next(line for line in lines if line.startswith(name)).split()[1] for name in ("raw", "calib"))
    cal, losses = OnlinePlatt(), (LogLoss(), LogLoss())
    for row in rows:
        losses[0].update(row["click"], row["score"])
        losses[1].update(row["click"], cal.predict_one(row["score"]))
        cal.learn_one(row["score"], row["click"])
    gap = losses[1].get() - losses[0].get()
    assert float(calibrated) - float(raw) == pytest.approx(gap, rel=0.06)  # two significant digits


def test_scores_that_are_no_probabilities_have_no_raw_row(tmp_path: Path) -> None:
    source = save(tmp_path / "margins.csv", [{**row, "score": 4 * row["score"] - 2} for row in made()])
    result = run(source, "--method", "platt", "--set", "scale=Interval(-1, 1)")
    assert result.exit_code == 0
    assert "raw" not in result.stdout
    assert re.search(r"scores beyond the scale, moved to its end: \d+", result.stdout)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["ops", "isotonic", "auto"])
@pytest.mark.parametrize(("scale", "of"), [("percent", lambda p: 100 * p), ("logit", lambda p: math.log(p / (1 - p)))])
def test_percentages_and_log_odds_are_read_as_probabilities(
    tmp_path: Path, method: str, scale: str, of: Callable[[float], float]
) -> None:
    rows = [{**row, "score": min(max(row["score"], 0.01), 0.99)} for row in made(100)]
    other = [{**row, "score": of(row["score"])} for row in rows]
    expected = run(save(tmp_path / "p.csv", rows), "--method", method, "--out", tmp_path / "p.out.csv")
    result = run(save(tmp_path / "in.csv", other), "--method", method, "--scale", scale, "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:5] == expected.stdout.splitlines()[1:5]
    written, calibrated = read(tmp_path / "out.csv"), read(tmp_path / "p.out.csv")
    assert [float(row["score"]) for row in written] == [row["score"] for row in other], "what came goes out"
    for one, two in zip(written, calibrated, strict=True):
        # The probabilities differ by rounding (1e-16); online methods of second order may enlarge it. Seen: 1e-15.
        assert float(one["calibrated"]) == pytest.approx(float(two["calibrated"]), abs=1e-9)


def test_margins_need_a_method_with_a_scale(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", [{**row, "score": 20 * row["score"] - 10} for row in made()])
    result = run(source, "--method", "isotonic", "--scale", "margin")
    assert "scale=Interval(lo=-inf, hi=inf)" in result.stdout
    assert "raw" not in result.stdout
    result = run(source, "--method", "bernstein", "--scale", "margin:-8,8")
    assert "scale=Interval(lo=-8.0, hi=8.0)" in result.stdout
    assert re.search(r"scores beyond the scale, moved to its end: \d+", result.stdout)
    line = the_line(run(source))
    assert line.endswith(
        "allowed: a number from 0 to 1; for other scores give --scale percent, --scale logit or --scale margin"
    )
    assert "allowed: a percentage from 0 to 100" in the_line(run(source, "--scale", "percent"))


@pytest.mark.parametrize(
    ("score", "advice"),
    [
        ("0,5", "give --decimal , for decimal commas"),
        ("20%", "write numbers without a percent sign; for scores give --scale percent"),
        ("", "leave such rows out (streamcal run: --on-error skip)"),
        ("NaN", "leave such rows out (streamcal run: --on-error skip)"),
        ("abc", "allowed: a number from 0 to 1"),
        ("20", "for other scores give --scale percent, --scale logit or --scale margin"),
    ],
)
def test_a_score_that_cannot_be_used_has_its_own_remedy(tmp_path: Path, score: str, advice: str) -> None:
    (tmp_path / "in.csv").write_text(f"score;click\n{score};1\n")
    assert the_line(run(tmp_path / "in.csv")).endswith(advice)


def test_in_python_the_remedy_names_no_option() -> None:
    table = pa.table({"score": [0.5, None], "click": [0, 1]})
    with pytest.raises(InputError, match=r"the value is missing; allowed: a number from 0 to 1; leave such rows out$"):
        streamcal.calibrate(table, score="score", label="click")


def test_a_file_without_rows_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("score,click\n")
    result = run(tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--state", tmp_path / "state.json")
    assert result.exit_code == 0
    assert "in.csv has no rows: nothing was learned\n0 rows (0 positive)\n" in result.stdout
    assert "–" not in result.stdout, "a table without figures"
    assert (tmp_path / "out.csv").read_text() == "score,click,calibrated\n"
    assert durable.load(tmp_path / "state.json").n == 0


def test_the_header_says_kernel_form_versions_and_method(stream: Path) -> None:
    first, second = run(stream, "--method", "bernstein", "--set", "degree=7").stdout.splitlines()[:2]
    form = "(compiled|uncompiled|partly compiled) kernels"
    assert re.fullmatch(rf"streamcal [\d.]+, {form}, Python [\d.]+, numpy [\d.]+, osqp [\d.]+", first)
    assert second.startswith("Bernstein(degree=7,")


def test_tables_go_to_standard_error_where_rows_go_to_standard_output(stream: Path) -> None:
    result = run(stream, "--out", "-")
    assert len(result.stdout.splitlines()) == ROWS + 1
    assert "log loss" in result.stderr


# -- input that is likely not what was meant -----------------------------------------------------------------------


def warnings_of(result: Any) -> list[str]:
    return [line.removeprefix("warning: ") for line in result.stdout.splitlines() if line.startswith("warning: ")]


def rated(path: Path, rows: int, score: float, positives: int) -> Path:
    """So many rows with one score, of which so many positive, the others negative."""
    return save(path, [{"score": score, "click": int(i * positives % rows < positives)} for i in range(rows)])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("rows", "score", "positives", "warns"),
    [
        (1000, 0.9, 40, True),  # predicted 22.5 times what was observed
        (1000, 0.9, 46, False),  # 19.6 times
        (999, 0.9, 40, False),
        (1000, 0.01, 210, True),  # 1/21
        (1000, 0.01, 190, False),
        (1000, 0.5, 0, True),
        (1000, 0.001, 0, False),
    ],
)
def test_scores_of_another_unit(tmp_path: Path, rows: int, score: float, positives: int, warns: bool) -> None:
    result = run(rated(tmp_path / "in.csv", rows, score, positives))
    assert result.exit_code == 0
    assert len(warnings_of(result)) == warns


def test_percentages_are_named_as_the_likely_cause(tmp_path: Path) -> None:
    (line,) = warnings_of(run(rated(tmp_path / "in.csv", 2000, 0.5, 10)))
    assert line.startswith("the raw scores predict 100 times the positives there were; if they are percentages, give")
    _, line = warnings_of(run(rated(tmp_path / "in.csv", 2000, 0.01, 2000)))
    assert line.startswith("there were 100 times the positives that the raw scores predict; look whether the labels")


def timed(path: Path, times: list[float]) -> Path:
    return save(path, [{**row, "t": t} for row, t in zip(made(len(times)), times, strict=True)])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("factor", "options", "warns"),
    [
        (1e3, ["--window", "86400"], True),
        (1e3, ["--half-life", "1d"], True),
        (1e3, ["--window", "52w"], True),
        (1e3, ["--set", "forgetting=Window(86400, by='time')"], True),
        (1e3, ["--half-life", "604800"], True),
        (1e3, ["--window", "3600000"], False),
        (1.0, ["--window", "86400"], False),
        (1.0, ["--window", "52w"], False),
    ],
)
def test_milliseconds_with_a_span_in_seconds(tmp_path: Path, factor: float, options: list[str], warns: bool) -> None:
    source = timed(tmp_path / "in.csv", [(1.7e9 + 60 * i) * factor for i in range(50)])
    result = run(source, "--method", "platt", "--time", "t", *options)
    assert result.exit_code == 0
    lines = warnings_of(result)
    assert [line[:47] for line in lines] == ["times up to 1.7e+12 look like milliseconds, of "] * warns
    if options == ["--window", "86400"] and warns:
        assert lines[0].endswith(
            "makes 86.4 seconds; if you meant 86400 seconds, give --time-unit ms, or times in seconds"
        )


@pytest.mark.sample(3)
@pytest.mark.parametrize(("factor", "unit"), [(1.0, None), (1e3, "milliseconds"), (1e9, "nanoseconds")])
def test_times_of_another_unit_for_cycles_of_the_day(tmp_path: Path, factor: float, unit: str | None) -> None:
    """`auto` takes times for seconds, in a run and in a comparison."""
    source = timed(tmp_path / "in.csv", [(1.7e9 + 60 * i) * factor for i in range(50)])
    lines = warnings_of(run(source, "--method", "auto", "--time", "t"))
    assert [f"look like {unit}, which auto takes for seconds" in line for line in lines] == [True] * (unit is not None)
    for command in ("compare", "report"):
        options = ["--methods", "auto,ops", "--time", "t"] + ["--html", tmp_path / "r.html"] * (command == "report")
        said = program(command, source, "--score", "score", "--label", "click", *options).stderr
        assert (f"warning: times up to {1.7e9 * factor:.4g} look like {unit}, which auto" in said) == (unit is not None)


def test_a_time_far_ahead_ends_the_run_at_its_row_and_the_state_holds_those_before(tmp_path: Path) -> None:
    """It was learned, made every later row late, and was saved so; exit code 0."""
    source = timed(tmp_path / "in.csv", [1.7e9, 1.7e9 + 60.0, 4102444800.0, 1.7e9 + 120.0])
    state = tmp_path / "state.json"
    result = run(source, "--method", "isotonic", "--time", "t", "--window", "1h", "--state", state)
    assert result.exit_code == 2
    assert "row 3, column 't': time 4102444800.0 is 2.402e+09 ahead of the latest one, 1700000060.0" in result.stderr
    assert streamcal.load(state).n == 2.0


def test_rows_in_no_order_of_time_end_with_an_exit_code(tmp_path: Path) -> None:
    times = np.random.default_rng(3).permutation(1000).astype(float).tolist()
    options = ["--method", "isotonic", "--time", "t", "--window", "10", "--state", tmp_path / "state.json"]
    result = run(timed(tmp_path / "shuffled.csv", times), *options)
    assert result.exit_code == 1
    (line,) = warnings_of(result)
    assert re.match(r"9\d\d of 1,000 rows came too late to be learned: the rows are not in the order of", line)
    late = timed(tmp_path / "later.csv", [1e4 + i for i in range(100)])
    assert run(late, *options).exit_code == 0  # rows that were late in an earlier run do not count
    nearly = sorted(times[:600]) + [-1.0] * 400
    assert run(timed(tmp_path / "nearly.csv", nearly), *options[:-2]).exit_code == 0


def test_time_that_nothing_reads(stream: Path) -> None:
    (line,) = warnings_of(run(stream, "--time", "t"))  # `auto` learns cycles of time, and these are small numbers
    assert line.startswith("times from 0.73 to 296.37 are taken for seconds, 4.93 minutes in all")
    (line,) = warnings_of(run(stream, "--method", "ops", "--time", "t"))
    assert line.startswith("--time has no effect: method online-platt does not forget by time")
    (line,) = warnings_of(run(stream, "--method", "platt", "--time", "t", "--set", "forgetting=Window(9)"))
    assert line == "--time has no effect without a span of time: give method platt --window 24h or --half-life 7d"
    compared = [stream, "--score", "score", "--label", "click", "--time", "t", "--methods"]
    assert (
        "--time has no effect: of these methods none reads times" in program("compare", *compared, "ops,platt").stderr
    )
    for others in ([*compared, "ops,auto"], [*compared, "ops", "--html", stream.with_suffix(".html")]):
        assert "--time has no effect" not in program("compare", *others).stderr
    assert warnings_of(run(stream, "--method", "platt", "--time", "t", "--window", "9")) == []


# -- state ---------------------------------------------------------------------------------------------------------

POLICIES: dict[str, list[str]] = {
    "forever": [],
    "weights": ["--weight", "w"],
    "window": ["--window", "60"],
    "half-life": ["--half-life", "60"],
    "window in time": ["--window", "60", "--time", "t"],
    "half-life in time": ["--half-life", "60", "--time", "t", "--weight", "w"],
}
#: A state holds the sums themselves; a tree built anew adds them up in another order, and an iterative solve starts
#: from another map. Seen: 1e-15.
RESTARTED = 1e-9
OSQP_SOLVED = 1e-4
RUNS = [*([name] for name in REGISTRY), ["bernstein", "--set", "solver=osqp"]]
#: Left to `-m full`: methods that take seconds for each run, and all but three methods under all but one policy.
SLOW = ("monotone-polynomial", "linear-trend", "elite")
EVERY_POLICY = ("isotonic", "platt", "ops")


def is_full(method: list[str], policy: str) -> bool:
    everywhere = "forever" if "forgetting" not in REGISTRY[method[0]]().params() else "half-life in time"
    return method[0] in SLOW or (policy != everywhere and method[0] not in EVERY_POLICY)


RUNS_UNDER_POLICIES = [
    pytest.param(method, policy, id=f"{' '.join(method)}-{policy}", marks=[pytest.mark.full] * is_full(method, policy))
    for method in RUNS
    for policy in POLICIES
]


@pytest.mark.sample(30)
@pytest.mark.parametrize(("method", "policy"), RUNS_UNDER_POLICIES)
def test_two_halves_with_a_state_are_the_whole(tmp_path: Path, method: list[str], policy: str) -> None:
    name = method[0]
    if policy not in ("forever", "weights") and "forgetting" not in REGISTRY[name]().params():
        pytest.skip(f"{name} has a discount of its own")
    rows = made()
    whole = save(tmp_path / "whole.csv", rows)
    halves = [save(tmp_path / "first.csv", rows[:130]), save(tmp_path / "second.csv", rows[130:])]
    options = ["--method", *method, *POLICIES[policy]]
    assert run(whole, *options, "--out", tmp_path / "out.csv").exit_code == 0
    together = []
    for i, half in enumerate(halves):
        result = run(half, *options, "--state", tmp_path / "state.json", "--out", tmp_path / f"{i}.csv")
        assert result.exit_code == 0, result.output
        assert (", resumed from " in result.stdout) == bool(i)
        together += read(tmp_path / f"{i}.csv")
    within = OSQP_SOLVED if "solver=osqp" in method else RESTARTED
    for one, other in zip(read(tmp_path / "out.csv"), together, strict=True):
        for column in one:
            if column in ("calibrated", "lower", "upper"):
                assert float(one[column]) == pytest.approx(float(other[column]), rel=0.0, abs=within)
            else:
                assert one[column] == other[column]


def test_a_state_knows_its_method_and_refuses_what_contradicts_it(stream: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert run(stream, "--method", "isotonic", "--window", "50", "--state", state).exit_code == 0
    before = state.read_bytes()
    for options in (["--method", "platt"], ["--window", "40"], ["--set", "resolution=9"], ["--half-life", "50"]):
        assert "contradicts the options given" in the_line(run(stream, "--state", state, *options))
        assert state.read_bytes() == before
    result = run(stream, "--state", state)
    assert result.exit_code == 0
    assert "Isotonic(" in result.stdout
    assert "resumed from" in result.stdout


@pytest.mark.parametrize(
    "content", [b"", b"oops", b"[]", b"[" * 100_000, b'{"streamcal": 1}', b'{"streamcal": 1, "class": "Platt"}']
)
def test_a_damaged_state_is_refused_and_left_alone(stream: Path, tmp_path: Path, content: bytes) -> None:
    state = tmp_path / "state.json"
    state.write_bytes(content)
    assert "state" in the_line(run(stream, "--state", state))
    assert state.read_bytes() == content


def test_a_state_of_a_method_of_several_scores_is_refused_and_left_alone(stream: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    durable.save(CopulaFusion(), state)
    before = state.read_bytes()
    assert "holds CopulaFusion, which `streamcal run` does not offer" in the_line(run(stream, "--state", state))
    assert state.read_bytes() == before


def test_a_state_that_could_not_be_saved_is_refused_at_once(stream: Path, tmp_path: Path) -> None:
    assert "cannot be written" in the_line(run(stream, "--state", tmp_path / "nowhere" / "state.json"))
    assert "no regular file" in the_line(run(stream, "--state", tmp_path))


def test_no_state_is_saved_where_no_row_was_read(tmp_path: Path) -> None:
    assert "No such file" in the_line(run(tmp_path / "none.csv", "--state", tmp_path / "state.json"))
    assert not (tmp_path / "state.json").exists()


@pytest.mark.full
def test_a_killed_run_leaves_the_old_state(stream: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert run(stream, "--state", state).exit_code == 0
    before = state.read_bytes()
    with live("--out", "-", "--state", str(state)) as process:
        give(process, b"score,click\n0.5,1\n")
        assert line_of(process.stdout) == b"score,click,calibrated\n"
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
    assert state.read_bytes() == before


def test_a_kill_while_saving_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    script = (
        "import sys, streamcal\nfrom streamcal.stream import durable\n"
        "one, two = streamcal.Isotonic(), streamcal.Isotonic()\n"
        "two.learn_many([i / 20_000 for i in range(20_000)], [0, 1] * 10_000)\n"
        "durable.save(one, sys.argv[1])\nprint(flush=True)\n"
        "while True:\n    durable.save(two, sys.argv[1])\n    durable.save(one, sys.argv[1])\n"
    )
    for wait in (0.07,):
        with subprocess.Popen([sys.executable, "-P", "-c", script, str(state)], stdout=subprocess.PIPE) as process:
            line_of(process.stdout)
            time.sleep(wait)
            process.kill()
        assert durable.load(state).n in (0, 20_000)


# -- interrupts ----------------------------------------------------------------------------------------------------

INTERRUPTS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # or the tests run under nohup
    INTERRUPTS.append(signal.SIGHUP)


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupt_while_waiting_for_input(tmp_path: Path, number: int) -> None:
    state = tmp_path / "state.json"
    with live("--out", "-", "--state", str(state), "--on-error", "skip", "--rejects", tmp_path / "bad.csv") as process:
        give(process, b"score,click\n0.5,1\n0.25,0\n")
        assert [line_of(process.stdout) for _ in range(3)][2].startswith(b"0.25,0,")
        give(process, b"oops\n")
        until(lambda: process.poll() is not None or waits(process))
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
        errors = process.stderr.read().decode()
        assert process.stdout.read() == b""
    assert durable.load(state).n == 2
    assert "2 rows (1 positive), 1 skipped" in errors
    assert errors.endswith("streamcal: interrupted\n")
    assert [row["row"] for row in read(tmp_path / "bad.csv")] == ["3"]


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="a terminal that closes sends no signal here")
def test_what_nohup_started_outlives_its_terminal() -> None:
    with live("--out", "-", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        give(process, b"score,click\n0.5,1\n")
        assert [line_of(process.stdout) for _ in range(2)][1].startswith(b"0.5,1,")
        process.send_signal(signal.SIGHUP)
        give(process, b"0.25,0\n")
        assert line_of(process.stdout).startswith(b"0.25,0,")
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.full
@pytest.mark.in_every_share
def test_an_interrupt_before_anything_came(tmp_path: Path) -> None:
    with live("--out", tmp_path / "out.csv", "--state", tmp_path / "state.json") as process:
        assert [line_of(process.stdout) for _ in range(2)][1].startswith(b"Auto")
        until(lambda: process.poll() is not None or waits(process))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == INTERRUPTED
        assert process.stderr.read() == b"streamcal: interrupted\n"
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "state.json").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "number"),
    [
        pytest.param(method, number, marks=[pytest.mark.in_every_share] * ((method, number) == ("ops", signal.SIGINT)))
        for method in ("ops", "platt")
        for number in INTERRUPTS
    ],
)
def test_an_interrupt_at_work_ends_between_two_rows(tmp_path: Path, method: str, number: int) -> None:
    source, out, state = save(tmp_path / "in.csv", made(60_000)), tmp_path / "out.csv", tmp_path / "state.json"
    command = [*PROGRAM, "run", source, "--score", "score", "--label", "click", "--method", method]
    with subprocess.Popen(
        [*command, "--out", out, "--state", state], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until(lambda: process.poll() is not None or (out.exists() and out.stat().st_size > 10_000))
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
    written = read(out)
    assert 0 < len(written) < 60_000
    assert durable.load(state).n == len(written)
    assert [float(row["calibrated"]) for row in written] == loop(REGISTRY[method](), made(60_000)[: len(written)])


@pytest.mark.full
@pytest.mark.in_every_share
def test_a_reader_that_goes_away_ends_the_run_quietly(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", made(20_000))
    command = [*PROGRAM, "run", str(source), "--score", "score", "--label", "click", "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line_of(process.stdout)
        process.stdout.close()
        assert process.wait(PATIENCE) == CLOSED_PIPE
        said = process.stderr.read()
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_solver_that_gives_up_names_the_row(
    stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_error: str
) -> None:
    predict = Platt.predict_one

    def giving_up(self: Platt, score: float, t: float | None = None) -> float:
        if self.n == 7.0:
            raise SolverError("it ended with status 'cycling'")
        return predict(self, score, t)

    monkeypatch.setattr(Platt, "predict_one", giving_up)
    monkeypatch.setattr(Platt, "_streamed", Calibrator._streamed)
    out, state = tmp_path / "out.csv", tmp_path / "state.json"
    line = the_line(run(stream, "--method", "platt", "--on-error", on_error, "--out", out, "--state", state))
    assert line == f"{stream}, row 8: it ended with status 'cycling'"
    assert len(read(out)) == durable.load(state).n == 7


PROBABILITY = "a number from 0 to 1"
BAD_FIELDS = [
    ("score", "nan", "'nan' cannot be used", PROBABILITY),
    ("score", "inf", "'inf' cannot be used", PROBABILITY),
    ("score", "-Infinity", "'-Infinity' cannot be used", PROBABILITY),
    ("score", "1.5", "'1.5' cannot be used", PROBABILITY),
    ("score", "-0.1", "'-0.1' cannot be used", PROBABILITY),
    ("score", "1.0000000000000002", "'1.0000000000000002' cannot be used", PROBABILITY),
    ("score", "0,5", "'0,5' cannot be used", PROBABILITY),
    ("score", "", "the value is missing", PROBABILITY),
    ("click", "2", "'2' cannot be used", "0 or 1 (or false, true;"),
    ("click", "maybe", "'maybe' cannot be used", "0 or 1 (or false, true;"),
    ("click", "0.5", "'0.5' cannot be used", "0 or 1 (or false, true;"),
    ("click", "", "the value is missing", "a label, or --missing-label negative"),
    ("w", "-1", "'-1' cannot be used", "0, or a number from 1e-60 to 1e+60"),
    ("w", "1e99", "'1e99' cannot be used", "0, or a number from 1e-60 to 1e+60"),
    ("t", "yesterday", "'yesterday' cannot be used", "a finite number or an ISO 8601 time"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("column", "value", "reason", "allowed"), BAD_FIELDS)
def test_a_field_that_cannot_be_used_ends_the_run_after_the_rows_before_it(
    tmp_path: Path, column: str, value: str, reason: str, allowed: str
) -> None:
    rows = made(20)
    rows[7][column] = value
    source, out, state = save(tmp_path / "in.csv", rows), tmp_path / "out.csv", tmp_path / "state.json"
    options = ["--weight", "w", "--time", "t", "--method", "isotonic", "--out", out, "--state", state]
    line = the_line(run(source, *options))
    assert line.startswith(f"{source}, row 8, column {column!r}: {reason}; allowed: {allowed}")
    assert [row["id"] for row in read(out)] == [row["id"] for row in rows[:7]]
    assert durable.load(state).n == sum(row["w"] for row in rows[:7])


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1.0000000000000002", "null", "true", '"x"', "[0.5]"])
def test_values_of_json_lines_that_are_no_scores(tmp_path: Path, value: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"score": 0.5, "click": true}\n{"click": 0, "score": ' + value + "}\n")
    assert the_line(run(source, "--out", tmp_path / "o.csv")).startswith(f"{source}, row 2, column 'score': ")
    assert len(read(tmp_path / "o.csv")) == 1


def test_scores_off_the_probability_scale_need_only_be_finite(tmp_path: Path) -> None:
    rows = [{"score": 7.5, "click": 1}, {"score": "inf", "click": 1}]
    line = the_line(run(save(tmp_path / "in.csv", rows), "--method", "isotonic", "--set", "scale=Interval(-9, 9)"))
    assert "row 2, column 'score': 'inf' cannot be used; allowed: a finite number" in line


def test_the_ends_of_the_probability_scale_and_every_word_for_a_label(tmp_path: Path) -> None:
    words = ["0", "1", "0.0", "1.0", "true", "false", "True", "FALSE"]
    source = save(tmp_path / "in.csv", [{"score": i % 2, "click": word} for i, word in enumerate(words)])
    for name in REGISTRY:
        result = run(source, "--method", name)
        assert result.exit_code == 0, result.output
        assert "8 rows (4 positive)" in result.stdout


def labelled(path: Path, negative: str, positive: str) -> Path:
    """Save the stream of `made` with these two words for its labels."""
    return save(path, [{**row, "click": positive if row["click"] else negative} for row in made()])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("negative", "positive"), [("no", "yes"), ("N", "Y"), ("f", "t"), ("-1", "1")])
def test_pairs_of_labels_that_are_known(tmp_path: Path, stream: Path, negative: str, positive: str) -> None:
    result = run(labelled(tmp_path / "in.csv", negative, positive))
    assert result.stdout.splitlines()[1:5] == run(stream).stdout.splitlines()[1:5]


def test_labels_in_other_words_need_to_be_told_which_is_positive(tmp_path: Path, stream: Path) -> None:
    source = labelled(tmp_path / "in.csv", "noclick", "click")
    line = the_line(run(source))
    assert (
        "the labels are 'noclick' and 'click': give the positive one, as --positive noclick or --positive click" in line
    )
    shown = run(source, "--positive", "click").stdout
    assert shown.splitlines()[1:5] == run(stream).stdout.splitlines()[1:5]
    line = the_line(run(source, "--positive", "clik"))
    assert "'click' is a third label; allowed: 'clik' (--positive) or 'noclick'" in line


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("negative", "positive", "other"),
    [("lost", "won", ["--positive", "lost"]), ("1", "2", []), ("1", "2", ["--positive", "1"])],
)
def test_a_state_refuses_that_its_negative_label_is_positive(
    tmp_path: Path, negative: str, positive: str, other: list[str]
) -> None:
    state, again = ["--state", tmp_path / "state.json"], tmp_path / "again.csv"
    assert run(labelled(tmp_path / "in.csv", negative, positive), "--positive", positive, *state).exit_code == 0
    save(again, [{**row, "click": negative} for row in made()])
    before = state[1].read_bytes()
    line = the_line(run(again, *other, *state))
    assert f"learned '{negative}' as negative; give --positive {positive} again, or use another" in line
    assert state[1].read_bytes() == before
    assert run(labelled(again, "draw", positive), "--positive", positive, *state).exit_code == 0
    assert "learned 'draw' as negative" in the_line(run(again, "--positive", "draw", *state))


def test_a_missing_column_says_which_there_are(stream: Path, tmp_path: Path) -> None:
    for option in ("--score", "--label", "--weight", "--time"):
        names = {"--score": "score", "--label": "click", option: "pctr"}
        options = [part for pair in names.items() for part in pair]
        line = the_line(program("run", stream, *options, "--out", tmp_path / "out.csv"))
        assert line == f"{stream}, column 'pctr': there is no such column; allowed: 'id', 'score', 'click', 'w', 't'"
    assert not (tmp_path / "out.csv").exists()
    line = the_line(program("run", stream, "--score", "Scores", "--label", "click"))
    assert "column 'Scores': there is no such column (did you mean 'score'?); allowed: 'id', 'score'," in line


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "cannot be read: No such file"),
        ("in.csv", b"", "the file is empty"),
        ("in.jsonl", b"\n", "the file is empty"),
        ("in.csv.gz", b"score,click\n0.5,1\n", "the file is not compressed by gzip"),
        ("in.parquet", b"score,click\n0.5,1\n", "cannot be read as Parquet"),
        ("in.xlsx", b"PK", "the ending of the name says no format that is known"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    line = the_line(run(tmp_path / name))
    assert line.startswith(f"{tmp_path / name}: {message}")


def test_a_folder_without_files_is_no_stream(tmp_path: Path) -> None:
    (tmp_path / "in.csv").mkdir()
    assert "no file in this folder has an ending that is known" in the_line(run(tmp_path / "in.csv"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("skip", [False, True])
def test_a_truncated_gzip_keeps_the_rows_before_the_cut(tmp_path: Path, skip: bool) -> None:
    source, out, state = save(tmp_path / "in.csv.gz", made(5_000)), tmp_path / "out.csv", tmp_path / "state.json"
    packed = source.read_bytes()
    source.write_bytes(packed[: len(packed) // 2])
    line = the_line(run(source, "--out", out, "--state", state, *(["--on-error", "skip"] if skip else [])))
    rows = len(read(out))
    assert 1_000 < rows < 4_000
    assert line.startswith(f"{source}, row {rows + 1}: the gzip file is truncated or damaged here")
    assert durable.load(state).n == rows


def test_skip_goes_on_and_the_rejects_have_row_column_reason_and_record(tmp_path: Path) -> None:
    source, out, bad = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "bad.csv"
    source.write_text("score,click\n0.5,1\nnan,1\n0.5\n0.4,maybe\n0.3,0\n1.5,0\n")
    result = run(source, "--out", out, "--on-error", "skip", "--rejects", bad, "--state", tmp_path / "state.json")
    assert result.exit_code == 0
    assert "2 rows (1 positive), 4 skipped;" in result.stdout
    assert [(row["score"], row["click"]) for row in read(out)] == [("0.5", "1"), ("0.3", "0")]
    assert durable.load(tmp_path / "state.json").n == 2
    rejects = read(bad)
    assert [(row["row"], row["column"]) for row in rejects] == [
        ("2", "score"),
        ("3", ""),
        ("4", "click"),
        ("6", "score"),
    ]
    assert rejects[0]["reason"].startswith("'nan' cannot be used; allowed: a number from 0 to 1")
    assert rejects[1]["reason"] == "the row has 1 fields; allowed: 2, as in the header"
    assert rejects[1]["record"] == "0.5"
    assert json.loads(rejects[2]["record"]) == {"score": "0.4", "click": "maybe"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["bad.csv", "bad.csv.gz", "bad.jsonl", "bad.parquet"])
def test_rejects_of_a_long_bad_stretch_in_any_format(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in.csv"
    bad = 3 * 512 + 5
    source.write_text("score,click\n0.5,1\n" + "oops\n" * bad)
    result = run(source, "--on-error", "skip", "--rejects", tmp_path / name)
    assert f"1 rows (1 positive), {bad:,} skipped;" in result.stdout
    assert [int(row["row"]) for row in read(tmp_path / name)] == list(range(2, bad + 2))


def test_rejects_before_a_truncation_are_written(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl.gz"
    noise = np.random.default_rng(1).random(400).tolist()
    text = '{"score": 0.5, "click": 1}\n' + "".join(f"[{x}]\n" for x in noise)
    source.write_bytes(gzip.compress(text.encode())[:-12])
    line = the_line(run(source, "--on-error", "skip", "--rejects", tmp_path / "bad.csv"))
    assert "truncated" in line
    rejects = read(tmp_path / "bad.csv")
    assert rejects[0]["record"] == f"[{noise[0]}]"
    assert line.startswith(f"{source}, row {len(rejects) + 2}: ")


def test_a_stream_of_bad_rows_only(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("oops\n3\n")
    assert "no row of the file can be read" in the_line(run(source, "--on-error", "skip"))


# -- options that do not fit ---------------------------------------------------------------------------------------


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--method", "bernstein", "--set", "degree=10"], "degree=10,"),
        (
            ["--method", "bernstein", "--set", "solver=osqp", "--set", "tolerance=1e-4"],
            "solver='osqp', tolerance=0.0001",
        ),
        (["--method", "ops", "--set", "discount=0.99"], "discount=0.99"),
        (["--method", "venn-abers", "--set", "point=self-consistent"], "point='self-consistent'"),
        (["--method", "venn-abers", "--set", "point='brier-minimax'"], "point='brier-minimax'"),
        (["--method", "isotonic", "--set", "prior=Prior(20)"], "prior=Prior(strength=20)"),
        (["--method", "platt", "--set", "resolution=None"], "resolution=None"),
        (["--method", "platt", "--set", " scale = Logit(-8, 0) "], "scale=Logit(lo=-8.0, hi=0.0)"),
        (["--method", "isotonic", "--set", "scale=Interval(lo=-5, hi=5)"], "scale=Interval(lo=-5.0, hi=5.0)"),
        (["--method", "isotonic", "--set", "scale=EmpiricalCDF((0.1, 0.9), (0.0, 1.0))"], "scale=EmpiricalCDF("),
        (["--method", "isotonic", "--set", "forgetting=Window(50)"], "forgetting=Window(size=50, by='count')"),
        (["--method", "isotonic", "--window", "50"], "forgetting=Window(size=50, by='count')"),
        (["--method", "isotonic", "--half-life", "50"], "forgetting=Decay(half_life=50.0, by='count'"),
        (["--method", "isotonic", "--window", "50", "--time", "t"], "forgetting=Window(size=50, by='time')"),
        (["--method", "isotonic", "--window", "24h", "--time", "t"], "forgetting=Window(size=86400, by='time')"),
        (["--method", "isotonic", "--window", "0.5S", "--time", "t"], "forgetting=Window(size=0.5, by='time')"),
        (["--method", "platt", "--half-life", "7d", "--time", "t"], "Decay(half_life=604800.0, by='time')"),
    ],
)
def test_parameters_of_every_type(stream: Path, options: list[str], printed: str) -> None:
    result = run(stream, *options)
    assert result.exit_code == 0, result.output
    assert printed in result.stdout.splitlines()[1]


def test_auto_is_the_method_where_none_is_named(stream: Path) -> None:
    assert "Auto(delay=None)" in run(stream).stdout
    help_text = " ".join(program("run", "--help").stdout.split())
    assert "One of `streamcal methods`. [default: auto]" in help_text


def test_a_state_of_the_former_default_goes_on_without_naming_it(stream: Path, tmp_path: Path) -> None:
    run(stream, "--method", "ops", "--state", tmp_path / "s.json")
    result = run(stream, "--state", tmp_path / "s.json")
    assert result.exit_code == 0
    assert "OnlinePlatt(discount=None), resumed from" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "isotnic"], "--method 'isotnic' is unknown (did you mean 'isotonic'?); known are identity,"),
        (["--method", "Platt"], "--method 'Platt' is unknown (did you mean 'platt'?)"),
        (
            ["--method", "ops", "--set", "discont=1"],
            "method online-platt has no parameter 'discont'; its parameters are: discount (did you mean",
        ),
        (["--set", "degree=3"], "methods that have it: bernstein, bernstein-logistic, monotone-polynomial"),
        (["--half-life", "5"], "methods that have it: identity, platt, temperature,"),
        (["--method", "auto", "--set", "scale=Logit()"], "methods that have it: identity, platt,"),
        (["--method", "online-beta", "--set", "oops=1"], "has no parameter 'oops'; its parameters are: none"),
        (["--method", "oops"], "--method 'oops' is unknown (did you mean 'ops'?); known are identity, platt,"),
        (["--set", "degree=3"], "method auto has no parameter 'degree'; its parameters are: delay"),
        (["--window", "5"], "method auto has no --window and no --half-life"),
        (["--method", "bernstein", "--set", "degree=0"], "method bernstein: degree=0 is not possible"),
        (["--method", "bernstein", "--set", "degree=x"], "method bernstein: degree='x' is not possible"),
        (["--method", "isotonic", "--set", "scale=3"], "method isotonic: scale=3 is not possible"),
        (["--method", "isotonic", "--set", "scale=Foo(1)"], "--set 'scale=Foo(1)': unknown setting 'Foo'"),
        (
            ["--set", "scale=Logit(lo=1, up=3)"],
            "'Logit(lo=1, up=3)' does not match Logit(lo=-16.0, hi=16.0, *, decreasing=False)",
        ),
        (["--set", "forgetting=Window()"], "'Window()' does not match Window(size, by='count', max_jump=None)"),
        (["--method", "isotonic", "--set", "scale=Logit(3, 1)"], "--set 'scale=Logit(3, 1)': "),
        (["--method", "isotonic", "--set", "scale=Logit(1, 2, 3)"], "--set 'scale=Logit(1, 2, 3)': "),
        (["--set", "discount"], "--set 'discount' is not of the form KEY=VALUE"),
        (["--set", "discount="], "--set 'discount=' is not of the form KEY=VALUE"),
        (["--set", "discount=1", "--set", "discount=1"], "--set discount is given twice"),
        (
            ["--method", "isotonic", "--window", "24h"],
            "--window 24h is a span of time: name the column with --time",
        ),
        (["--method", "isotonic", "--half-life", "1.5w"], "--half-life 1.5w is a span of time"),
        (["--method", "isotonic", "--window", "0h", "--time", "t"], "--window: size=0 is not possible"),
        (
            ["--scale", "margin"],
            "method auto has no parameter 'scale'; its parameters are: delay; methods that have it",
        ),
        (["--scale", "margin", "--method", "bernstein"], "give finite lo and hi, as in --scale margin:-8,8"),
        (
            ["--scale", "margin", "--method", "platt", "--set", "scale=Logit()"],
            "--scale margin and --set scale exclude",
        ),
        (
            ["--scale", "percent", "--method", "platt", "--set", "scale=Interval(0, 9)"],
            "scores read as percent become probabilities, which Platt(",
        ),
        (["--window", "5", "--half-life", "5"], "--window and --half-life exclude each other"),
        (["--method", "isotonic", "--window", "5", "--set", "forgetting=Forever()"], "--window and --set forgetting"),
        (["--method", "isotonic", "--window", "0"], "--window: size=0 is not possible"),
        (["--method", "isotonic", "--half-life", "nan"], "--half-life: half_life=nan is not possible"),
        (["--method", "isotonic", "--set", "forgetting=Window(5, by='time')"], "name the column with --time"),
        (["--rejects", "bad.csv"], "--rejects needs --on-error skip"),
        (["--out", "-", "--on-error", "skip", "--rejects", "-"], "--rejects would overwrite --out"),
        (["--checkpoint", "5s"], "--checkpoint says how often learned rows are saved: give --state too"),
        (["--state", "s.json", "--checkpoint", "-1"], "--checkpoint -1 is not possible"),
        (["--state", "s.json", "--checkpoint", "nan"], "--checkpoint nan is not possible"),
        (["--time-unit", "ms"], "--time-unit says how times are read: name their column with --time"),
        (["--time-format", "%Y"], "--time-format says how times are read"),
        (["--timezone", "UTC"], "--timezone says how times are read"),
        (["--positive", ""], "the positive label is empty"),
        (["--segment", ""], "column '': there is no such column; allowed: 'id', 'score', 'click', 'w', 't'"),
        (["--out", "out.txt"], "out.txt: the ending of the name says no format that is known"),
        (["--out", "nowhere/out.csv"], "nowhere/out.csv: cannot be written: there is no folder "),
    ],
)
def test_options_that_cannot_be_used(stream: Path, options: list[str], message: str) -> None:
    assert message in the_line(run(stream, *options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "many"], "'--window': 'many' is not a number, nor a time such as 90s,"),
        (["--window", "h"], "'--window': 'h' is not a number"),
        (["--half-life", "7y"], "'--half-life': '7y' is not a number"),
        (["--half-life", ""], "'--half-life': '' is not a number"),
        (["--scale", "odds"], "'--scale': 'odds' is not one of logit, percent, margin, or margin with bounds as in"),
        (["--scale", "margin:8,-8"], "'--scale': 'margin:8,-8' is not one of"),
        (["--scale", "margin:1"], "'--scale': 'margin:1' is not one of"),
        (["--delimiter", "::"], "'--delimiter': '::' is not one character, nor the word tab"),
        (["--delimiter", "§"], "'--delimiter': '§' is no character of ASCII"),
        (["--delimiter", "-"], "'--delimiter': '-' may be in a number, such as 1e-7"),
        (["--on-error", "ignore"], "'--on-error': 'ignore' is not one of stop, skip"),
        (["--format", "xml"], "'--format': 'xml' is not one of csv, jsonl, parquet"),
    ],
)
def test_values_that_cannot_be_read(stream: Path, options: list[str], message: str) -> None:
    result = run(stream, *options)
    assert result.exit_code == USAGE_ERROR
    assert message in result.stderr
    assert not re.search("(?i)pydantic|value error|input should|float", result.stderr)


JUNK = ["x", "-1", "0", "2.5", "None", "True", "nan", "[1]", "{}", "(1, 2)", "''"]


def test_messages_are_in_words_of_our_own() -> None:
    """Whatever value a parameter of whatever method is given: not in those of a library, nor of Python's types."""
    messages = []
    for cls in REGISTRY.values():
        for name in inspect.signature(cls).parameters:
            for value in JUNK:
                try:
                    calibrator_of(cls, {name: parse(value)})
                except InputError as error:
                    messages.append(str(error))
    assert len(messages) > len(REGISTRY)
    for message in messages:
        assert re.match(r"method [\w-]+: \w+=.* is not possible; give ", message)
        assert not re.search("(?i)pydantic|input should|validation|expected|typer|argument", message)


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("method", "setting", "shown"),
    [
        ("adaptive-calibration", "interval=NearestScores(0.5)", "NearestScores(fraction=0.5)"),
        ("platt", "prior=Prior(5)", "Prior(strength=5)"),
    ],
)
def test_every_setting_can_be_named_in_a_new_process(stream: Path, method: str, setting: str, shown: str) -> None:
    """Also those whose module nothing has imported yet."""
    options = ["--score", "score", "--label", "click", "--method", method, "--set", setting]
    done = subprocess.run([*PROGRAM, "run", str(stream), *options], capture_output=True, text=True, check=True)
    assert shown in done.stdout


def test_options_that_do_not_exist(stream: Path) -> None:
    for options in (["--oops"], ["--on-error", "ignore"], ["--format", "xml"]):
        assert run(stream, *options).exit_code == USAGE_ERROR


@pytest.mark.parametrize("name", ["calibrated", "lower", "upper"])
def test_a_column_of_the_input_is_never_overwritten(tmp_path: Path, name: str) -> None:
    rows = [{**row, name: "mine"} for row in made(3)]
    source, out = save(tmp_path / "in.csv", rows), tmp_path / "out.csv"
    line = the_line(run(source, "--method", "venn-abers", "--out", out))
    assert line.startswith(f"{source}, column {name!r}: the input has a column of this name already")
    assert not out.exists()
    assert run(source, "--method", "venn-abers").exit_code == 0  # nothing is written
    lines = [*(json.dumps(row) for row in made(2)), json.dumps(rows[2])]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    line = the_line(run(tmp_path / "in.jsonl", "--method", "venn-abers", "--out", tmp_path / "out.jsonl"))
    assert f"row 3, column {name!r}: the output adds a column of this name" in line
    assert len(read(tmp_path / "out.jsonl")) == 2


def test_no_file_of_a_run_overwrites_another(stream: Path, tmp_path: Path) -> None:
    content = stream.read_bytes()
    (tmp_path / "soft.csv").symlink_to(stream)
    (tmp_path / "hard.csv").hardlink_to(stream)
    out, bad = tmp_path / "out.csv", ["--on-error", "skip", "--rejects"]
    for name in (stream, tmp_path / "soft.csv", tmp_path / "hard.csv", tmp_path / "." / "clicks.csv"):
        assert "--out would overwrite the input" in the_line(run(stream, "--out", name))
        assert "--rejects would overwrite the input" in the_line(run(stream, *bad, name))
    assert "--rejects would overwrite --out" in the_line(run(stream, "--out", out, *bad, out))
    assert "--state would overwrite another file" in the_line(run(stream, "--out", out, "--state", out))
    assert "--state would overwrite another file" in the_line(run(stream, "--state", stream))
    assert stream.read_bytes() == content
    assert not out.exists()


# -- closed and full streams, and long values -----------------------------------------------------------------------


def shell(command: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which "$@" is the program with these arguments."""
    words = ["sh", "-c", command, "sh", *PROGRAM, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, timeout=PATIENCE)


COLUMNS = ["--score", "score", "--label", "click", "--method", "ops"]


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ('"$@" <&-', ["-"], b"-: standard input is closed"),
        ('"$@" >&-', ["{source}", "--out", "-"], b"-: standard output is closed"),
        ('"$@" > /dev/full', ["{source}", "--out", "-"], b"-: cannot be written: No space left on device"),
        ('"$@" > /dev/full', ["{source}"], b"standard output cannot be written: No space left on device"),
        ('"$@" > /dev/full 2> /dev/full', ["{source}"], b""),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_streams_that_are_closed_or_full(
    stream: Path, command: str, options: list[str], message: bytes, buffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    done = shell(command, "run", *(option.format(source=stream) for option in options), *COLUMNS)
    assert done.returncode == USAGE_ERROR
    lines = [line for line in done.stderr.splitlines() if line.startswith(b"streamcal: ")]
    assert [line.startswith(b"streamcal: " + message) for line in lines] == ([True] if message else [])
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("buffered", ["", pytest.param("1", marks=pytest.mark.in_every_share)])
def test_standard_output_that_takes_a_part_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffered: str
) -> None:
    cal = VennAbers()
    cal.learn_many(np.linspace(0.0, 1.0, 500), np.arange(500) % 2)
    streamcal.save(cal, tmp_path / "state.json")
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)  # with which Python leaves the rest of a write to its caller
    line = f'ulimit -f 2; "$@" > {tmp_path / "map.json"}'
    done = shell(line, "map", tmp_path / "state.json")
    assert done.returncode == USAGE_ERROR
    assert done.stderr.startswith(b"streamcal: standard output cannot be written: File too large")
    done = shell('"$@" | head -c 5', "map", tmp_path / "state.json")
    assert (done.stdout, done.stderr) == (b'{"str', b"")


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "options"),
    [
        pytest.param("compare", ("--methods", "ops", "--check"), marks=pytest.mark.in_every_share),
        ("compare", ("--methods", "ops", "--json")),
        ("run", ()),
    ],
)
def test_a_reader_of_the_table_that_goes_away_is_no_verdict(
    stream: Path, command: str, options: tuple[str, ...]
) -> None:
    """Exit code 1 says that no method is better, or that most rows came too late."""
    given = (command, stream, "--score", "score", "--label", "click", *options)
    done = shell('("$@"; echo $? >&2) | true', *given)
    assert done.stderr.strip() == str(CLOSED_PIPE).encode()


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize("command", [("compare", "--methods", "ops"), ("methods",)])
def test_letters_that_the_encoding_of_the_terminal_has_not(
    stream: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    name, *options = command
    columns = (stream, "--score", "score", "--label", "click") if options else ()
    done = shell('"$@"', name, *columns, *options)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout


@pytest.mark.full
def test_a_run_without_standard_output_is_a_run(stream: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert shell('"$@" >&- 2>&-', "run", stream, *COLUMNS, "--out", out).returncode == 0
    assert len(read(out)) == ROWS


LONG = 200_000


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("score", ["--set", "x=" + "-" * LONG]),
        ("score", ["--set", "x=" + "(" * LONG]),
        ("score", ["--set", "x=" + "[" * LONG + "]" * LONG]),
        ("score", ["--method", "x" * LONG]),
        ("score", ["--window", "x" * LONG]),
        ("score", ["--score", "x" * LONG]),
        ("score", ["--scale", "\x1b[31m\a"]),
        ("score", ["--label", "\x1b[31m\a"]),
        ("9" * 100_000 + "x", []),
        ("\x1b[31m\a", []),
        ("\udcff", []),
    ],
)
def test_messages_are_short_and_show_control_characters(tmp_path: Path, value: str, options: list[str]) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(f"score,{'n' * 100_000}\x1b,click\n{value},1,1\n".encode("utf-8", "surrogateescape"))
    done = program("run", source, "--score", "score", "--label", "click", *options)
    assert done.exit_code == USAGE_ERROR, done.output
    assert len(done.stderr) < 3_000
    assert all(c.isprintable() or c == "\n" for c in done.stderr)
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "options",
    [
        ["--method", "platt", "--set", "resolution=1000000000"],
        ["--method", "venn-abers", "--set", "resolution=1000000000"],
        ["--method", "histogram-binning", "--set", "bins=1000000000"],
        ["--method", "tracking-ops", "--set", "bins=1000000000"],
        ["--method", "bernstein", "--set", "degree=1000000000"],
        ["--method", "auto", "--set", "delay=1000000000"],
    ],
)
def test_sizes_that_no_memory_has_are_refused(stream: Path, options: list[str]) -> None:
    assert "=1000000000 is not possible; give " in the_line(run(stream, *options))


# -- the other commands --------------------------------------------------------------------------------------------


def test_methods_lists_the_registry_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = program("methods").stdout
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["method", "µs", "merges", "unlearns", "monotone", "interval", "memory"]
    words = {True: "yes", False: "no"}
    names = [DEFAULT_METHOD, *(name for name in REGISTRY if name != DEFAULT_METHOD)]
    assert lines[1].startswith(f"{DEFAULT_METHOD} * ")
    steps = method_times()["microseconds"]
    for name, line in zip(names, lines[1:], strict=False):
        method = REGISTRY[name]
        cal = method()
        can = (cal.merges, cal.unlearns, cal.monotone, cal.has_interval)
        shown_name, took, *rest = line.replace(" * ", " ").split()
        assert [shown_name, *rest] == [name, *map(words.get, can), "fixed" if cal.bounded_memory else "grows"]
        assert took == "–" if name not in steps else float(took) == pytest.approx(steps[name], rel=0.1)
        assert method.summary.split() == shown.split(f"\n{name} ")[-1].split()[: len(method.summary.split())]


def test_methods_lists_what_needs_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    shown = " ".join(program("methods").stdout.split())
    assert 'need clarabel; pip install ".[conic]" brings it' in shown
    assert "protected" in shown


def test_methods_names_those_of_the_other_rooms() -> None:
    shown = " ".join(program("methods").stdout.split())
    for room in (multiclass, fusion, regression):
        for method in room.METHODS.values():
            assert f"{method.__name__} {method.summary}" in shown


def test_methods_shows_a_command_that_works(stream: Path) -> None:
    shown = program("methods").stdout
    options = next(line.strip() for line in shown.splitlines() if line.startswith("  --method"))
    assert options == '--method bernstein --set degree=10 --set "scale=Logit(-8, 0)"'
    assert run(stream, "--method", "bernstein", "--set", "degree=10", "--set", "scale=Logit(-8, 0)").exit_code == 0


def test_doctor_says_kernel_form_and_versions() -> None:
    found = dict(line.split(maxsplit=1) for line in program("doctor").stdout.splitlines())
    assert found["kernels"].split()[0] in ("compiled", "uncompiled", "partly")
    assert found["numpy"] == np.__version__
    assert {"streamcal", "python", "platform", "scipy", "river", "osqp", "Cython", "matplotlib", "pyarrow"} <= set(
        found
    )


def test_version() -> None:
    shown = program("--version")
    assert shown.exit_code == 0
    assert shown.stdout == f"streamcal {streamcal.__version__}\n"


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "streamcal", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"streamcal {streamcal.__version__}\n"


def test_help_names_every_option_and_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], *([one] for one in COMMANDS)):
        shown = program(*command, "--help")
        assert shown.exit_code == 0
        assert max(map(len, shown.stdout.splitlines())) <= 80
        assert "..." not in shown.stdout.replace("[ARGS]...", "").replace("{STREAM}...", ""), "no line is cut off"


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_on_a_screen_and_help_all_has_every_option_in_one_line(name: str) -> None:
    """A screen has 45 lines of 100 columns. `docs/command_line_rules.md` describes options beyond a line."""

    def shown(every: bool) -> str:
        context = command.context_class(command, info_name=name, terminal_width=100)
        context.meta[ALL] = every
        return command.get_help(context)

    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    short, whole = shown(False), shown(True)
    assert len(short.splitlines()) <= 45
    assert short.count("\n    streamcal ") == (0 if name == "doctor" else 2), "examples"
    assert not [line for line in whole.partition("Options:")[2].splitlines() if line.startswith(" " * 8)]
    assert {one for option in command.params for one in option.opts if one.startswith("--")} <= set(whole.split())


def test_help_all_prints_the_options_that_help_leaves_out() -> None:
    for name in ("run", "serve"):
        assert "--max-held" not in program(name, "--help").stdout
        done = program(name, "--help-all")
        assert done.exit_code == 0
        assert "--max-held" in done.stdout


# -- the progress bar ----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("stream", "out", "bar"),
    [
        pytest.param("in.csv", "out.csv", True, marks=pytest.mark.in_every_share),
        ("-", "out.csv", True),
        ("in.csv", "-", False),
    ],
    ids=["file to file", "pipe to file", "file to the terminal"],
)
def test_a_progress_bar_on_a_terminal_unless_it_shows_the_rows(
    tmp_path: Path, stream: str, out: str, bar: bool
) -> None:
    source = save(tmp_path / "in.csv", made(2_000))
    options = ["--score", "score", "--label", "click", "--out", out]
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with (
        source.open("rb") as rows,
        subprocess.Popen(
            [*PROGRAM, "run", stream, *options], stdin=rows, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment
        ) as process,
    ):
        os.close(theirs)
        shown = b"".join(chunks_of(ours))
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert (b"left" in shown) == bar
    assert (b"2,000 rows" in shown.partition(b"log loss")[0]) == bar


@pytest.mark.full
def test_no_progress_bar_where_there_is_no_terminal(stream: Path) -> None:
    command = [*PROGRAM, "run", stream, "--score", "score", "--label", "click"]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


# -- other processes -----------------------------------------------------------------------------------------------


def live(*options: object, before: Callable[[], object] | None = None) -> subprocess.Popen[bytes]:
    """Start the program on an open pipe; `before` is called in its process first."""
    command = [*PROGRAM, "run", "-", "--score", "score", "--label", "click", *map(str, options)]
    # Unbuffered here, so that a line can be waited for; the program buffers as it always does.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, bufsize=0, preexec_fn=before, **pipes)


def give(process: subprocess.Popen[bytes], content: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(content)
    process.stdin.flush()


def line_of(pipe: IO[bytes] | None) -> bytes:
    """Read the next line; fail if none comes."""
    assert pipe is not None
    ready, _, _ = select.select([pipe], [], [], PATIENCE)
    assert ready, "no line came"
    return pipe.readline()


def waits(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has taken all it was given and sleeps (Linux); elsewhere, half a second later."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        time.sleep(0.5)
        return True
    time.sleep(0.1)
    return stat.read_text().rpartition(")")[2].split()[0] == "S"


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)


def chunks_of(terminal: int) -> Iterator[bytes]:
    """Yield what a pseudo terminal shows until the process closes it, which Linux reports as an error."""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            return
        if not chunk:
            return
        yield chunk


def calibrated_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def half_labelled(path: Path) -> Path:
    """Save a click log with the label 1 or none, as a LEFT JOIN on clicks makes it."""
    draw, rows = random.Random(5), []
    for _ in range(400):
        score = draw.uniform(0.05, 0.4)
        rows.append({"score": score, "click": 1 if draw.random() < score else None})
    return save(path, rows)


@pytest.mark.sample(3)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_row_without_a_label_is_what_it_is_said_to_be(tmp_path: Path, suffix: str) -> None:
    source, out = half_labelled(tmp_path / f"in.{suffix}"), tmp_path / "out.csv"
    line = the_line(run(source))
    assert "the value is missing" in line
    assert "--missing-label negative" in line
    assert "skip)" not in line, "advice that would learn positives alone"

    result = run(source, "--missing-label", "negative", "--out", out)
    assert not warnings_of(result)
    rows = calibrated_in(out)
    assert len(rows) == 400
    assert sum(float(row["calibrated"]) for row in rows) / 400 < 0.35

    result = run(source, "--missing-label", "unknown", "--out", out)
    assert len(calibrated_in(out)) == 400, "predicted all the same"
    (warning,) = warnings_of(result)
    assert warning.startswith("none of ")
    assert "is negative: positives alone were learned" in warning

    result = run(source, "--missing-label", "skip", "--out", out)
    (warning,) = warnings_of(result)
    assert warning.startswith("none of ")
    assert len(calibrated_in(out)) < 150
    assert f"{400 - len(calibrated_in(out))} skipped" in result.stdout


def test_an_unknown_label_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    draw = random.Random(6)
    rows = [{"score": draw.uniform(0.1, 0.9), "click": int(draw.random() < 0.4)} for _ in range(300)]
    mixed = [one for row in rows for one in (row, {"score": 0.5, "click": None})]
    plain, other = tmp_path / "plain.csv", tmp_path / "mixed.csv"
    run(save(tmp_path / "a.parquet", rows), "--out", plain)
    run(save(tmp_path / "b.parquet", mixed), "--missing-label", "unknown", "--out", other)
    found = [row["calibrated"] for row in calibrated_in(other)]
    assert found[::2] == [row["calibrated"] for row in calibrated_in(plain)]


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "SEP=;", "sep=;\r"])
@pytest.mark.parametrize("options", [(), ("--delimiter", ";")])
def test_the_line_of_excel_before_the_header_says_the_delimiter(tmp_path: Path, line: str, options: tuple[str]) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text(line + "\nscore;click\n" + "0.3;1\n0.2;0\n" * 50, newline="")
    assert run(path, *options, "--method", "ops", "--out", out).exit_code == 0
    rows = out.read_text().splitlines()
    assert rows[0].replace(",", ";") == "score;click;calibrated"
    assert len(rows) == 101
