"""Scores that fall where labels rise: a warning with a remedy, and none on scores that say nothing."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm
from typer.testing import CliRunner

from streamcal.app.cli import app
from streamcal.stream.direction import FALLING, MOST, Direction


def sampled(scores: np.ndarray, labels: np.ndarray, *cuts: int) -> Direction:
    found = Direction()
    for s, y in zip(np.split(scores, cuts), np.split(labels.astype(float), cuts), strict=True):
        found.add(s, y)
    return found


def test_it_is_the_rank_sum_test() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        scores = rng.integers(0, 12, 400) / 12
        labels = rng.random(400) < 0.7 - 0.3 * scores
        found = sampled(scores, labels).auc_if_falling()
        u, p = mannwhitneyu(
            scores[labels], scores[~labels], alternative="less", use_continuity=False, method="asymptotic"
        )
        if norm.ppf(p) < FALLING:
            assert found == pytest.approx(u / (labels.sum() * (~labels).sum()))
        else:
            assert found is None


def test_the_sample_is_bounded_and_does_not_depend_on_the_pieces() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.random(100_000), rng.random(100_000) < 0.5
    one, pieces, single = sampled(scores, labels), sampled(scores, labels, 1, 7, 9_000, 60_000), Direction()
    for s, y in zip(scores[:20_000].tolist(), labels[:20_000].tolist(), strict=True):
        single.add_one(s, y)
    assert len(one._scores) <= MOST
    assert one._scores == pieces._scores == scores[:: one._every].tolist()
    assert single._scores == sampled(scores[:20_000], labels[:20_000])._scores


def test_scores_that_say_nothing_are_not_called_falling() -> None:
    rng = np.random.default_rng(3)
    streams = [sampled(rng.random(300), rng.random(300) < rate) for rate in (0.02, 0.5, 0.98) for _ in range(700)]
    assert not any(one.auc_if_falling() is not None for one in streams)  # expected: 6e-4 of 2,100
    assert Direction().auc_if_falling() is None
    assert sampled(np.ones(50), np.ones(50) > 0).auc_if_falling() is None
    assert sampled(np.ones(500), np.arange(500) < 250).auc_if_falling() is None


def scored(path: Path, scale: str) -> tuple[Path, np.ndarray, np.ndarray]:
    """A credit score, or the probability of the other class."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=3_000)
    truth = 1.0 / (1.0 + np.exp(1.0 + 1.1 * z))
    y = rng.random(3_000) < truth
    s = {"margin:300,850": np.clip(np.round(650 + 80 * z), 300, 850), "": 1.0 - truth, "percent": 100 * (1 - truth)}
    path.write_text("s,y\n" + "".join(f"{a!r},{int(b)}\n" for a, b in zip(s[scale].tolist(), y.tolist(), strict=True)))
    return path, truth, y


@pytest.mark.parametrize("scale", ["margin:300,850", "", "percent"])
def test_a_run_warns_and_reads_falling_scores_where_told(tmp_path: Path, scale: str) -> None:
    path, truth, y = scored(tmp_path / "in.csv", scale)
    out = tmp_path / "out.csv"
    command = ["run", str(path), "--score", "s", "--label", "y", "--method", "platt", "--out", str(out)]
    command += ["--scale", scale] if scale else []
    plain = CliRunner().invoke(app, command)
    assert re.search(r"warning: higher scores have fewer positives \(AUC 0\.2\d\d\).* give --decreasing", plain.stdout)
    told = CliRunner().invoke(app, [*command, "--decreasing"])
    assert told.exit_code == 0, told.output
    assert "fewer positives" not in told.stdout
    with out.open(newline="") as file:
        p = np.array([float(row["calibrated"]) for row in csv.DictReader(file)])

    def loss(q: np.ndarray) -> float:
        return float(-np.mean(np.where(y, np.log(q), np.log1p(-q))))

    assert loss(p) < loss(truth) + 0.01


def test_a_comparison_warns_too(tmp_path: Path) -> None:
    path, _, _ = scored(tmp_path / "in.csv", "")
    command = ["compare", str(path), "--score", "s", "--label", "y", "--methods", "platt,ops"]
    assert "higher scores have fewer positives" in CliRunner().invoke(app, command).stderr
    assert "fewer positives" not in CliRunner().invoke(app, [*command, "--decreasing"]).stderr
