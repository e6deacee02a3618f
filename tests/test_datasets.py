"""The data inside the package, and the models of the demonstration that learn from it."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from streamcal.app.demo import NO_SCORE, bases, score_stream
from streamcal.datasets import BANK_CATEGORICAL, BANK_NUMERIC, BANK_ROWS, bank
from streamcal.metrics import CalibrationRatio, LogLoss

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("STREAMCAL_DATA", "no-such-folder")) / "bank_additional_full.csv.gz"


def test_bank_is_complete() -> None:
    rows = list(bank())
    assert len(rows) == BANK_ROWS == 41_188
    assert sum(y for _, y in rows) == 4_640
    names = {*BANK_NUMERIC, *BANK_CATEGORICAL}
    for features, y in rows:
        assert features.keys() == names
        assert type(y) is bool
    assert all(type(features[name]) is float for features, _ in rows for name in BANK_NUMERIC)
    assert all(type(features[name]) is str and features[name] for features, _ in rows for name in BANK_CATEGORICAL)


def test_bank_is_in_date_order() -> None:
    """The months go round as a calendar does, three times: May 2008 to November 2010, with gaps."""
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    year, last = 2008, 0
    for features, _ in bank():
        month = months.index(str(features["month"])) + 1
        if month < last:
            year += 1
        last = month
    assert (year, last) == (2010, 11)


def test_bank_ships_without_what_leaks_and_with_its_licence() -> None:
    folder = files("streamcal.datasets")
    with gzip.open(str(folder / "bank.csv.gz"), "rt", newline="") as file:
        header = next(csv.reader(file))
    assert "duration" not in header
    text = (folder / "README.md").read_text("utf-8")
    for part in ("CC BY 4.0", "S. Moro, P. Cortez and P. Rita", "10.24432/C5K306", "Changes"):
        assert part in text


@pytest.mark.full
@pytest.mark.skipif(not SOURCE.exists(), reason="needs the source file: set STREAMCAL_DATA to its folder")
def test_bank_is_what_the_script_makes(tmp_path: Path) -> None:
    script, made = ROOT / "benchmarks" / "make_bank_dataset.py", tmp_path / "bank.csv.gz"
    subprocess.run([sys.executable, str(script), str(SOURCE), "--target", str(made)], check=True)
    shipped = Path(str(files("streamcal.datasets") / "bank.csv.gz")).read_bytes()
    # The text, since another zlib may pack it otherwise; and no time in the header.
    assert gzip.decompress(made.read_bytes()) == gzip.decompress(shipped)
    assert made.read_bytes()[4:8] == shipped[4:8] == b"\0\0\0\0"


class Diary:
    """A model that writes down what it is asked."""

    def __init__(self, answers: list[dict[bool, float]]) -> None:
        self.answers = answers
        self.diary: list[tuple[str, Any]] = []

    def predict_proba_one(self, x: dict[str, Any]) -> dict[bool, float]:
        self.diary.append(("score", x["k"]))
        return self.answers[x["k"]]

    def learn_one(self, x: dict[str, Any], y: bool) -> None:
        self.diary.append(("learn", x["k"]))


def test_rows_are_scored_before_they_are_learned() -> None:
    model = Diary([{}, {False: 1.0}, {False: 0.25, True: 0.75}])
    rows = [({"k": k}, k == 2) for k in range(3)]
    assert list(score_stream(model, rows)) == [(NO_SCORE, False), (0.0, False), (0.75, True)]
    assert model.diary == [(verb, k) for k in range(3) for verb in ("score", "learn")]


@pytest.mark.parametrize("name", list(bases()))
def test_factories_give_models_that_know_nothing(name: str) -> None:
    first = list(score_stream(bases()[name](), islice(bank(), 200)))
    assert first[0] == (NO_SCORE, False)
    assert list(score_stream(bases()[name](), islice(bank(), 200))) == first


def running_base_rate(labels: Iterable[bool]) -> LogLoss:
    """Return the log loss of the share of positives so far (with half an observation of each label)."""
    loss, positives = LogLoss(), 0
    for n, y in enumerate(labels):
        loss.update(y, (positives + 0.5) / (n + 1))
        positives += y
    return loss


@pytest.mark.full
def test_the_logistic_regression_is_a_decent_model() -> None:
    """The figures of the documentation, whole stream: log loss .282, ratio 1.01; the base rate has .352."""
    scored = list(score_stream(bases()["logistic regression"](), bank()))
    loss, ratio = LogLoss(), CalibrationRatio()
    for metric in (loss, ratio):
        metric.update_many(*reversed(list(zip(*scored, strict=True))))
    # Another River may step a little differently; more than 1 % would make the documentation wrong.
    assert loss.get() == pytest.approx(0.2818, rel=0.01)
    assert ratio.get() == pytest.approx(1.015, rel=0.01)
    assert running_base_rate(y for _, y in scored).get() == pytest.approx(0.3522, rel=1e-3)


@pytest.mark.full
def test_naive_bayes_is_badly_overconfident() -> None:
    """Its raw scores lose far more than the base rate, here on the first 4,000 rows."""
    scored = list(score_stream(bases()["naive Bayes"](), islice(bank(), 4_000)))
    loss = LogLoss()
    loss.update_many(*reversed(list(zip(*scored, strict=True))))
    assert loss.get() > 2 * running_base_rate(y for _, y in scored).get()
