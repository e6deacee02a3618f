"""`compare`: the same forecasts as one method alone, verdicts of confidence sequences, and bounded memory."""

from __future__ import annotations

import io
import itertools
import json
import logging
import re
import tracemalloc
from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from test_cli import as_csv, made, program, the_line

import streamcal
from streamcal import (
    Auto,
    Decay,
    InputError,
    Isotonic,
    OnlinePlatt,
    Platt,
    SolverError,
    StreamcalError,
    VennAbers,
    Window,
    compare,
)
from streamcal.app import compare_report
from streamcal.app.compare import NONE_BETTER, Asked
from streamcal.app.terminal import INTERRUPTED
from streamcal.calibrators.registry import COMPARED
from streamcal.live import CalibrationMonitor
from streamcal.metrics import Brier, CalibrationRatio, DebiasedECE, LogLoss, LogLossDifference
from streamcal.metrics.base import Forecasts
from streamcal.stream import entrants, history, sources
from streamcal.stream.columns import Observations
from streamcal.stream.comparing import RESOLUTION, Comparison
from streamcal.stream.history import MOST_PARTS, RUN_LENGTH, SHORTEST, History
from streamcal.stream.prequential import Prequential
from streamcal.stream.sources import PIECE_ROWS, Source

#: Sums in two orders: relative errors of 1.1e-16 for each of at most 1e5 terms.
SUMS = 1e-11


def stream(n=3_000, seed=1, bend=2.0):
    """Scores with ties, and labels that are positive with chance score ** bend."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random(n), 3)
    return scores, rng.random(n) < scores**bend, rng.integers(1, 4, n).astype(float)


def late(calibrator, scores, y, delay):
    """Run the definition: the label of a row is learned before the prediction of the row delay + 1 later."""
    found, waiting = [], deque()
    for score, label in zip(scores.tolist(), y.tolist(), strict=True):
        found.append(calibrator.predict_one(score))
        waiting.append((score, label))
        if len(waiting) > delay:
            calibrator.learn_one(*waiting.popleft())
    return np.array(found)


SCORES, LABELS, WEIGHTS = stream()


# -- one pass ----------------------------------------------------------------------------------------------------------


def test_every_method_has_the_measures_of_a_run_of_its_own():
    found = compare((SCORES, LABELS, WEIGHTS), methods=["ops", "isotonic", "venn-abers"])
    for name in ("ops", "isotonic", "venn-abers"):
        alone = Prequential(found._calibrators[name].clone())
        alone.step_many(SCORES, LABELS, WEIGHTS)
        standing = found.standings[name]
        assert standing.log_loss.get() == pytest.approx(alone.calibrated.log_loss.get(), rel=SUMS)
        assert standing.brier.get() == pytest.approx(alone.calibrated.brier.get(), rel=SUMS)
        assert standing.ratio.get() == pytest.approx(alone.calibrated.ratio.get(), rel=SUMS)
        assert standing.bytes == len(json.dumps(alone.calibrator.state_dict()))
        assert standing.seconds > 0.0
    for metric, kind in (
        ("log_loss", LogLoss),
        ("brier", Brier),
        ("debiased_ece", DebiasedECE),
        ("ratio", CalibrationRatio),
    ):
        raw = kind()
        raw.update_many(LABELS, SCORES, WEIGHTS)
        assert getattr(found.standings["raw"], metric).get() == pytest.approx(raw.get(), rel=SUMS)
    assert (found.rows, found.positives, found.measured) == (3_000, int(LABELS.sum()), 3_000)


@pytest.mark.sample(3)
@pytest.mark.parametrize("delay", [1, 100, 5_000])
def test_late_labels_are_learned_late_across_pieces(delay, monkeypatch):
    monkeypatch.setattr(sources, "PIECE_ROWS", 700)
    found = compare((SCORES, LABELS), methods={"platt": Platt(), "auto": Auto(delay=delay)}, delay=delay)
    for name, calibrator in (("platt", Platt()), ("auto", Auto(delay=delay))):
        loss = LogLoss()
        loss.update_many(LABELS, late(calibrator, SCORES, LABELS, delay))
        assert found.standings[name].log_loss.get() == pytest.approx(loss.get(), rel=SUMS)


def test_methods_given_by_name_are_bounded_and_told_of_the_delay():
    found = Comparison(["auto", "isotonic", "platt", "near-isotonic"], delay=7)._calibrators
    assert found["auto"].delay == 7
    assert found["isotonic"].resolution == RESOLUTION
    assert found["near-isotonic"].refresh_every == 100
    assert found["platt"].params() == Platt().params()
    assert all(one.bounded_memory for one in Comparison()._calibrators.values())


@pytest.mark.full
@pytest.mark.in_every_share
def test_processes_change_nothing():
    methods = {"ops": OnlinePlatt(), "isotonic": Isotonic(forgetting=Decay(500)), "venn-abers": VennAbers()}
    here, there = (compare((SCORES, LABELS), methods=methods, processes=n) for n in (1, 2))
    untimed = {"seconds", "microseconds"}

    def fixed(value):
        return {k: fixed(v) for k, v in value.items() if k not in untimed} if isinstance(value, dict) else value

    assert fixed(here.to_dict()) == fixed(there.to_dict())


def test_a_process_that_has_ended_is_said(monkeypatch):
    group = entrants.Processes({"ops": OnlinePlatt(), "platt": Platt()}, 0, 2)
    group._running[0].terminate()
    group._running[0].join(30)

    def ask():
        group.send(Observations(SCORES, LABELS, None, None))
        group.receive()

    with pytest.raises(StreamcalError, match="processes=1"):
        ask()
    group.close()
    assert not any(process.is_alive() for process in group._running)


class Failing(OnlinePlatt):
    """A method whose solver fails in the second piece."""

    def predict_learn_many(self, scores, y, w=None, t=None, *, keys=None):
        if self.n:
            raise SolverError("the solver failed")
        return super().predict_learn_many(scores, y, w, t)


def test_a_method_that_fails_is_left_out_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_ROWS", 1_000)
    found = compare((SCORES, LABELS), methods={"bad": Failing(), "ops": OnlinePlatt()})
    alone = compare((SCORES, LABELS), methods=["ops"])
    assert found.standings["bad"].failure == "the solver failed"
    assert found.names == ["ops", "raw"]
    assert found.to_dict()["methods"]["bad"]["failure"] == "the solver failed"
    assert "bad failed: the solver failed" in compare_report.sentences(found)
    assert found.standings["ops"].log_loss.get() == alone.standings["ops"].log_loss.get()


class FailingAtTheEnd(OnlinePlatt):
    """A method whose last solve fails."""

    def predict_many(self, scores, t=None, *, keys=None):
        raise SolverError("the solver failed")


def test_a_method_whose_last_solve_fails_has_its_measures_and_no_map():
    found = compare((SCORES, LABELS), methods={"bad": FailingAtTheEnd(), "ops": OnlinePlatt()})
    bad, ops = found.standings["bad"], found.standings["ops"]
    assert (bad.failure, bad.bytes, bad.mapped) == (None, None, ())
    assert bad.log_loss.get() == ops.log_loss.get()
    assert ops.bytes > 0


@pytest.mark.full
@pytest.mark.in_every_share
def test_memory_does_not_grow_with_the_stream():
    rng, peaks = np.random.default_rng(0), []

    def generated():
        for piece in range(8):
            scores = rng.random(PIECE_ROWS)
            yield Observations(scores, rng.random(PIECE_ROWS) < scores**2, None, None)
            if piece == 1:
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()

    comparison = Comparison(["ops", "isotonic"])
    tracemalloc.start()
    comparison.run(Source("generated", generated()))
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]  # cells of the measures go on being filled; the stream is four times as long


def test_zero_weights_and_nothing_at_all():
    empty = compare(([], []), methods=["ops"])
    assert (empty.best, empty.recommendation, empty.improves, empty.names) == (None, None, False, [])
    assert json.loads(json.dumps(empty.to_dict(), allow_nan=False))["methods"] == {}
    assert compare_report.reading(empty).startswith("0 rows")
    found = compare((SCORES, LABELS, np.zeros(len(SCORES))), methods=["ops"])
    assert (found.best, found.rows) == (None, 3_000)
    compare_report.methods_table(found)


# -- what follows ------------------------------------------------------------------------------------------------------


def test_differences_are_those_of_the_forecasts_at_a_level_for_all_pairs():
    found = compare((SCORES, LABELS), methods=["ops", "isotonic"])
    predicted = {"raw": SCORES}
    predicted |= {name: one.clone().predict_learn_many(SCORES, LABELS) for name, one in found._calibrators.items()}
    for first, second in itertools.permutations(predicted, 2):
        reference = LogLossDifference(1.0 - 0.05 / 3, adaptive=True)
        reference.update_many(LABELS, predicted[first], predicted[second])
        difference = found.difference(first, second)
        assert difference == pytest.approx((reference.get(), *reference.interval), rel=1e-9)  # sums and a root
    assert found.difference("ops", "ops").verdict == "no difference shown"
    with pytest.raises(InputError, match="compared are raw, ops, isotonic"):
        found.difference("ops", "auto")


def test_no_difference_is_shown_where_there_is_none():
    rng = np.random.default_rng(3)
    scores = rng.beta(1, 5, 20_000)
    found = compare((scores, rng.random(20_000) < scores), methods=["ops", "online-beta"])
    assert not found.improves
    assert found.recommendation.method == "raw"
    verdicts = {found.difference(a, b).verdict for a, b in itertools.combinations(found.names, 2)}
    assert "better" not in {found.difference(name, "raw").verdict for name in found.names}
    assert "no difference shown" in verdicts


def test_a_method_that_is_better_is_recommended_with_its_reason_and_cheaper_ones_are_named():
    found = compare((SCORES, LABELS), methods=["ops", "auto", "isotonic"])
    best = found.best
    assert found.improves
    assert found.recommendation.method == best
    assert found.recommendation.reason.startswith(f"{best} has the lowest log loss, ")
    for name, times in found.cheaper().items():
        assert found.difference(name, best).verdict == "no difference shown"
        assert found.difference(name, "raw").verdict == "better"
        assert times >= 2.0
    losses = [found.standings[name].log_loss.get() for name in found.names]
    assert losses == sorted(losses)


def test_the_base_may_be_a_method():
    found = compare((SCORES, LABELS), methods=["ops", "isotonic"], base="ops")
    assert found.to_dict()["base"] == "ops"
    assert found.recommendation.method == "ops"
    assert Comparison(["ops"], base="identity").base == "raw"
    with pytest.raises(InputError, match=r"base='op' is not compared \(did you mean 'ops'\?\)"):
        Comparison(["ops"], base="op")


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["isotnic"], "did you mean 'isotonic'"),
        (["ops", "ops"], "given twice"),
        ("ops", "give a list"),
        (["identity"], "at least one method"),
        (["raw"], "at least one method"),
        ([], "at least one method"),
        ({"raw": Platt()}, "the name of the score itself"),
        ([3], "methods=3 is not a streamcal calibrator"),
    ],
)
def test_methods_that_are_not_possible(methods, message):
    with pytest.raises(InputError, match=message):
        Comparison(methods)


def test_what_is_given_is_not_changed():
    mine = Platt()
    compare((SCORES, LABELS), methods={"mine": mine})
    assert mine.n == 0.0
    with pytest.raises(InputError, match="delay=-1"):
        Comparison(delay=-1)
    done = compare((SCORES, LABELS), methods=["ops"])
    with pytest.raises(InputError, match="make another"):
        done.run(Source("again", []))


# -- sources -----------------------------------------------------------------------------------------------------------


def test_files_tables_and_arrays_say_the_same(tmp_path):
    rows = made(500)
    (tmp_path / "clicks.csv").write_bytes(as_csv(rows))
    table = pd.DataFrame(rows)
    given = {
        "label": "click",
        "weight": "w",
        "time": "t",
        "methods": {"platt": Platt(forgetting=Window(60, by="time"))},
    }
    columns = (table["score"], table["click"], table["w"], table["t"])
    losses = {
        compare(data, **given).standings["platt"].log_loss.get()
        for data in (tmp_path / "clicks.csv", str(tmp_path / "clicks.csv"), table, columns)
    }
    assert len(losses) == 1


def test_scores_that_are_percentages_and_words_for_labels():
    table = pd.DataFrame({"s": SCORES * 100.0, "y": np.where(LABELS, "won", "lost")})
    found = compare(table, score="s", label="y", scale="percent", positive="won", methods=["ops"])
    assert found.standings["raw"].log_loss.get() == pytest.approx(
        compare((SCORES, LABELS), methods=["ops"]).standings["raw"].log_loss.get(), rel=1e-9
    )  # 100 s / 100 rounds
    with pytest.raises(InputError, match="there is no column 'z'; there are 's', 'y'"):
        compare(table, score="z", label="y")
    with pytest.raises(InputError, match=r"row 1, column 's': .*give a calibrator|row 2, column 's'"):
        compare(table, score="s", label="y")
    with pytest.raises(InputError, match=r"probability 1.5"):
        compare(([1.5], [1]))


def test_progress_is_told_after_every_piece(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_ROWS", 1_000)
    told = []
    compare((SCORES, LABELS), methods=["ops"], progress=lambda found, share: told.append((found.rows, share)))
    assert [rows for rows, _ in told] == [1_000, 2_000, 3_000]
    assert told[-1][1] == 1.0


# -- over time ---------------------------------------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize("n", [5, 16, 2_048, 2_049, 30_000])
def test_parts_hold_everything_and_are_few(n, caplog):
    scores, y, w = stream(n)
    over_time = History(["raw", "square"])
    y = y.astype(float)
    for begin in range(0, n, 777):
        rows = slice(begin, begin + 777)
        forecasts = {name: Forecasts(p[rows], y[rows], w[rows]) for name, p in (("raw", scores), ("square", scores**2))}
        over_time.add(forecasts)
    for name, p in (("raw", scores), ("square", scores**2)):
        parts = over_time.parts(name)
        assert len(parts) <= MOST_PARTS
        assert sum(part.rows for part in parts) == n
        assert len(parts) > MOST_PARTS // 2 or len(parts) == -(-n // SHORTEST)
        begin = 0
        for part in parts:
            rows = slice(begin, begin + part.rows)
            begin += part.rows
            loss = LogLoss()
            loss.update_many(y[rows], p[rows], w[rows])
            assert part.log_loss == pytest.approx(loss.get(), rel=1e-9)  # log(1 − p) and log1p(−p)
            assert part.predicted == pytest.approx(np.average(p[rows], weights=w[rows]), rel=SUMS)
            assert part.positives == pytest.approx(np.average(y[rows], weights=w[rows]), rel=SUMS)
            assert part.weight == pytest.approx(w[rows].sum(), rel=SUMS)
            if name == "square":  # its confidence sequence against the first is that of all rows so far
                difference = LogLossDifference(adaptive=True)
                difference.update_many(y[:begin], scores[:begin] ** 2, scores[:begin], w[:begin])
                ends = [w[:begin].sum() * end for end in difference.interval]
                assert [part.low, part.high] == pytest.approx(ends, rel=1e-9, abs=1e-9)
    monitor = CalibrationMonitor(run_length=RUN_LENGTH)
    logging.disable(logging.WARNING)
    wanted = monitor.update_many(y, scores)
    logging.disable(logging.NOTSET)
    assert over_time.alarms["raw"] == wanted
    assert over_time.alarms_in_all["raw"] == len(wanted)
    if wanted:
        assert max(part.evidence for part in over_time.parts("raw")) == max(alarm.e_value for alarm in wanted)
    assert not caplog.records


def test_alarms_are_counted_and_not_all_kept(monkeypatch):
    monkeypatch.setattr(history, "MOST_ALARMS", 3)
    over_time = History(["raw"])
    over_time.add({"raw": Forecasts(np.zeros(10), np.ones(10), np.ones(10))})
    assert len(over_time.alarms["raw"]) == 3
    assert over_time.alarms_in_all["raw"] == 10


def test_alarms_are_drawn_to_the_end_of_a_stream_that_raises_thousands():
    over_time, n = History(["raw", "right"]), 5_000
    y, w = np.ones(n), np.ones(n)
    over_time.add({"raw": Forecasts(np.zeros(n), y, w), "right": Forecasts(y, y, w)})
    assert sum(part.alarms for part in over_time.parts("raw")) == over_time.alarms_in_all["raw"] == n
    assert len(over_time.marks("raw")) == len(over_time.parts("raw"))
    assert over_time.marks("raw")[-1] > 0.98 * n
    assert over_time.marks("right") == []


@pytest.mark.parametrize("n", [3, 2_000, 5_001])
def test_parts_have_the_times_of_their_rows(n):
    over_time, y, w = History(["raw"]), np.ones(n), np.ones(n)
    assert over_time.times == []
    times = 1e9 + np.arange(n)
    for begin in range(0, n, 777):
        rows = slice(begin, begin + 777)
        over_time.add({"raw": Forecasts(np.full(len(y[rows]), 0.9), y[rows], w[rows])}, times[rows])
    ends = np.cumsum([part.rows for part in over_time.parts("raw")])
    assert over_time.times == [1e9, *times[ends - 1]]
    over_time.add({"raw": Forecasts(np.array([0.9]), np.ones(1), np.ones(1))})
    assert over_time.times == []  # of some rows there is no time


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "clicks.csv"
    lines = [f"{score},{int(y)}" for score, y in zip(SCORES, LABELS, strict=True)]
    path.write_text("score,click\n" + "\n".join(lines) + "\n")
    return path


def run(path, *options, stdin=None):
    return program("compare", path, "--score", "score", "--label", "click", *options, stdin=stdin)


def test_the_table_and_the_recommendation(file):
    result = run(file, "--methods", "ops,isotonic")
    assert result.exit_code == 0
    found = compare(file, label="click", methods=["ops", "isotonic"])
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == found.names
    for name in found.names:
        (line,) = (line for line in lines[1:4] if line.startswith(name))
        assert f"{found.standings[name].log_loss.get():.4f}" in line
    assert f"Take {found.best}: {found.recommendation.reason}." in lines
    assert any(line.startswith(f"3,000 rows ({LABELS.sum():,} positive); ") for line in lines)
    default = run(file)
    assert all(any(line.startswith(name) for line in default.stdout.splitlines()) for name in COMPARED)


def test_methods_are_given_times(tmp_path):
    """Labels with a cycle of a day, which `auto` learns where it is told the time, as numbers or dates."""
    rng = np.random.default_rng(3)
    hours = np.arange(3_000.0)
    x = rng.normal(size=hours.size)
    y = rng.random(hours.size) < 1.0 / (1.0 + np.exp(-x - 1.5 * np.sin(hours * np.pi / 12.0)))
    table = pd.DataFrame({"score": 1.0 / (1.0 + np.exp(-x)), "click": y.astype(int), "at": hours * 3600.0})
    table["date"] = pd.to_datetime(table["at"], unit="s").map(lambda one: one.isoformat())
    path = tmp_path / "cycle.csv"
    table.to_csv(path, index=False)
    losses = []
    for options in ([], ["--time", "at"], ["--time", "date"]):
        found = json.loads(run(path, "--methods", "auto,ops", "--json", *options).stdout)
        losses.append({name: found["methods"][name]["log_loss"] for name in ("auto", "ops")})
    without, by_number, by_date = losses
    told = compare(path, label="click", methods=["auto"], time="at")
    assert by_number == by_date
    assert by_number["auto"] == told.standings["auto"].log_loss.get()
    assert by_number["ops"] == without["ops"]
    assert by_number["auto"] < without["auto"] - 0.02  # the cycle is worth some .05 nats
    failed = run(path, "--time", "when")
    assert failed.exit_code == 2
    assert "when" in failed.stderr
    assert "--time at" in Asked(stream=[str(path)], score="score", label="click", time="at").command
    assert " --decreasing " in Asked(stream=[str(path)], score="score", label="click", decreasing=True).command


def test_json_is_what_python_has(file):
    weighted = json.loads(run(file, "--methods", "ops", "--json", "--weight", "score").stdout)
    against = weighted["methods"]["ops"]["against_base"]
    in_python = compare(file, label="click", weight="score", methods=["ops"]).difference("ops", "raw")
    assert (against["low"], against["high"], against["verdict"]) == (in_python.low, in_python.high, "better")
    result = run(file, "--methods", "ops, isotonic", "--json", "--delay", "3", "--base", "ops")
    found, wanted = (
        json.loads(result.stdout),
        compare(file, label="click", methods=["ops", "isotonic"], delay=3).to_dict(),
    )
    assert found["rows"] == wanted["rows"] == 3_000
    assert (found["delay"], found["base"]) == (3, "ops")
    for name in ("raw", "ops", "isotonic"):
        assert found["methods"][name]["log_loss"] == wanted["methods"][name]["log_loss"]
    assert found["methods"]["isotonic"]["against_base"]["verdict"] in ("better", "worse", "no difference shown")


@pytest.mark.sample(2)
@pytest.mark.parametrize(("seed", "a", "b", "size", "divide"), [(1, 1, 9, 800, np.inf), (2, 1, 20, 2_000, 50)])
def test_no_one_is_told_to_keep_a_score_that_predicts_many_times_the_positives(tmp_path, seed, a, b, size, divide):
    rng = np.random.default_rng(seed)
    p = rng.beta(a, b, size)
    path = tmp_path / "high.csv"
    path.write_text("score,click\n" + "".join(f"{s!r},{int(rng.random() < s / divide)}\n" for s in p.tolist()))
    told = run(path, "--methods", "ops,auto").stdout
    assert "Keep the raw score" not in told
    assert "Take " in told or re.search(
        r"^Miscalibrated: the raw score predicts .* positives.*\. Undecided by [\d,]+ rows: ", told, re.MULTILINE
    )


def test_exit_codes(tmp_path, file, monkeypatch):
    rng = np.random.default_rng(2)
    calibrated = tmp_path / "calibrated.csv"
    rows = [f"{p},{int(rng.random() < p)}" for p in np.round(rng.random(500), 3)]
    calibrated.write_text("score,click\n" + "\n".join(rows) + "\n")
    result = run(calibrated, "--methods", "ops")
    assert result.exit_code == 0
    assert "Keep the raw score" in result.stdout
    assert run(calibrated, "--methods", "ops", "--check").exit_code == NONE_BETTER
    assert run(file, "--methods", "ops", "--check").exit_code == 0
    assert "is unknown" in the_line(run(file, "--methods", "opps"))
    assert "no such column" in the_line(program("compare", file, "--score", "pctr", "--label", "click"))
    bad = tmp_path / "bad.csv"
    bad.write_text("score,click\n0.5,1\n0.5,1\nx,1\n")
    assert f"{bad}, row 3, column 'score': " in the_line(run(bad, "--methods", "ops"))
    bad.write_text("score,click\n0.5,1\n0.5,perhaps\n")
    assert "row 2, column 'click': " in the_line(run(bad, "--methods", "ops"))

    monkeypatch.setattr(sources, "PIECE_ROWS", 1_000)
    monkeypatch.setattr(Comparison, "rows", property(lambda self: self.__dict__["rows"], interrupting), raising=False)
    result = run(file, "--methods", "ops")
    assert result.exit_code == INTERRUPTED
    assert "1,000 rows" in result.stdout


def interrupting(self, value):
    """Ctrl-C in the second piece."""
    if value > 1_000:
        raise KeyboardInterrupt
    self.__dict__["rows"] = value


def test_standard_input(file):
    assert run("-", "--methods", "ops", stdin=file.read_bytes()).exit_code == 0


def test_the_live_table_grows_on_a_terminal_and_is_silent_elsewhere(monkeypatch):
    drawn = io.StringIO()
    monkeypatch.setattr(sources, "PIECE_ROWS", 1_000)
    monkeypatch.setattr(compare_report, "REDRAWN", 0.0)
    monkeypatch.setattr(
        compare_report, "Console", lambda **_: Console(file=drawn, force_terminal=True, width=120, color_system=None)
    )
    with compare_report.live_table("clicks", quiet=False) as tell:
        compare((SCORES, LABELS), methods=["ops"], progress=tell)
    for rows, share in ((1_000, "33%"), (2_000, "67%"), (3_000, "100%")):
        assert f"clicks: {rows:,} rows, {share}" in drawn.getvalue()
    with compare_report.live_table("clicks", quiet=True) as tell:
        tell(Comparison(["ops"]), None)


def test_the_name_is_public():
    assert streamcal.compare is compare
    assert repr(compare((SCORES, LABELS), methods=["ops"])) == "Comparison(['raw', 'ops'], rows=3000, best='ops')"


def test_the_page_says_what_its_code_prints(capsys):
    page = (Path(__file__).parents[1] / "docs" / "compare.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    exec(compile(code, "compare.md", "exec"), {})
    assert capsys.readouterr().out.strip() == code.splitlines()[-1].removeprefix("# ")


@pytest.mark.full
def test_the_page_shows_what_a_run_prints(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "compare.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "compare.md", "exec"), {})
    printed = program(*shown.splitlines()[0].split()[2:]).stdout

    def figures(text):  # what is measured again each time is left out, as is the width of its columns
        lines = [" ".join(line.split()) for line in text.splitlines()]
        return [
            re.sub(r" \S+( \d+ B| [\d.]+ [kM]B)|[\d,]+ rows per second|\(.*times as fast\)", "", one) for one in lines
        ]

    assert figures(printed) == figures("\n".join(shown.splitlines()[1:]))


def test_scores_beyond_the_scale_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=2_000)
    path = tmp_path / "tiny.csv"
    y = rng.random(2_000) < 0.3
    rows = zip((10.0 ** (-8.0 + z / 4.0)).tolist(), y.tolist(), strict=True)
    path.write_text("score,click\n" + "".join(f"{s!r},{int(b)}\n" for s, b in rows))
    found = compare(path, score="score", label="click", methods=["venn-abers"])
    assert found.extreme == np.count_nonzero(10.0 ** (-8.0 + z / 4.0) < 1.0 / (1.0 + np.exp(16.0)))
    assert any(
        "scores beyond the scale, log-odds ±16, were moved to its end" in line
        for line in compare_report.sentences(found)
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(("of_positives", "of_negatives"), [(1.0, 20.0), (6.0, 1.0)])
def test_alarms_of_a_stream_that_is_sampled_by_label_are_of_the_whole(of_positives, of_negatives):
    """Each row counts once; without a regard to the sampling, right forecasts raise dozens of alarms."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 30, 40_000)
    y = rng.random(40_000) < p
    w = np.where(y, of_positives, of_negatives)
    kept = rng.random(40_000) < 1.0 / w
    y, w, history = y[kept].astype(np.float64), w[kept], History(["right", "twice"])
    for part in np.array_split(np.arange(len(y)), 50):
        forecasts = {
            name: Forecasts(np.minimum(factor * p[kept][part], 1.0), y[part], w[part])
            for name, factor in (("right", 1.0), ("twice", 2.0))
        }
        history.add(forecasts)
    assert history.alarms_in_all["right"] <= 1  # before the first positive, nobody can know of their weights
    assert history.alarms_in_all["twice"] > 5
