"""Scores that fall where labels rise: a warning with a remedy, and none on scores that say nothing."""

from __future__ import annotations

import csv
import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm
from sqlite_maps import in_sqlite
from typer.testing import CliRunner

from streamcal import EmpiricalCDF, InputError, Interval, Logit, Probability, compare, load_map
from streamcal.app.cli import app
from streamcal.calibrators.registry import REGISTRY as METHODS
from streamcal.fusion import METHODS as FUSION
from streamcal.maps.base import ScaledMap
from streamcal.parameters.scales import Scale
from streamcal.parameters.settings import decode, encode
from streamcal.stream.prequential import FALLING, LARGEST_SAMPLE, StreamSample


def sampled(scores: np.ndarray, labels: np.ndarray, *cuts: int) -> StreamSample:
    found = StreamSample()
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
    one, pieces, single = sampled(scores, labels), sampled(scores, labels, 1, 7, 9_000, 60_000), StreamSample()
    for s, y in zip(scores[:20_000].tolist(), labels[:20_000].tolist(), strict=True):
        single.add_one(s, y)
    assert len(one._scores) <= LARGEST_SAMPLE
    assert one._scores == pieces._scores == scores[:: one._every].tolist()
    assert single._scores == sampled(scores[:20_000], labels[:20_000])._scores


def test_scores_that_say_nothing_are_not_called_falling() -> None:
    rng = np.random.default_rng(3)
    streams = [sampled(rng.random(300), rng.random(300) < rate) for rate in (0.02, 0.5, 0.98) for _ in range(700)]
    assert not any(one.auc_if_falling() is not None for one in streams)  # expected: 6e-4 of 2,100
    assert StreamSample().auc_if_falling() is None
    assert sampled(np.ones(50), np.ones(50) > 0).auc_if_falling() is None
    assert sampled(np.ones(500), np.arange(500) < 250).auc_if_falling() is None


def scored(path: Path, scale: str) -> tuple[Path, np.ndarray, np.ndarray]:
    """Save a credit score, or the probability of the other class."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=3_000)
    truth = 1.0 / (1.0 + np.exp(1.0 + 1.1 * z))
    y = rng.random(3_000) < truth
    s = {"margin:300,850": np.clip(np.round(650 + 80 * z), 300, 850), "": 1.0 - truth, "percent": 100 * (1 - truth)}
    path.write_text("s,y\n" + "".join(f"{a!r},{int(b)}\n" for a, b in zip(s[scale].tolist(), y.tolist(), strict=True)))
    return path, truth, y


@pytest.mark.sample(2)
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


#: Decreasing scales, and the increasing ones with the same coordinates for the mirror images of their scores.
SCALES: dict[str, tuple[Scale, Scale]] = {
    "probability": (Probability(decreasing=True), Probability()),
    "logit": (Logit(-4.0, 6.0, decreasing=True), Logit(-4.0, 6.0)),
    "interval": (Interval(300.0, 850.0, decreasing=True), Interval(-850.0, -300.0)),
    "empirical-cdf": (
        EmpiricalCDF((300.0, 500.0, 850.0), (0.0, 0.25, 1.0), decreasing=True),
        EmpiricalCDF((-850.0, -500.0, -300.0), (0.0, 0.75, 1.0)),
    ),
}


def falling_stream(scale: Scale, columns: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of which the last ones are for predictions, their mirror images, and labels that fall with the scores."""
    rng = np.random.default_rng(6)
    p = rng.random(260) if columns is None else rng.random((260, columns))
    y = rng.random(200) > (p[:200] if columns is None else p[:200].mean(axis=1))
    s = p if scale.domain == (0.0, 1.0) else 280.0 + 600.0 * p
    return s, scale.rising(s), y


def made(method: Any, scale: Scale) -> Any:
    """Make a calibrator on a scale; skip if the method has no such parameter, or not this scale."""
    if "scale" not in inspect.signature(method).parameters:
        pytest.skip("the method reads probabilities alone")
    try:
        return method(2, scale=scale) if "n_scores" in inspect.signature(method).parameters else method(scale=scale)
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.sample(17)
@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("name", METHODS)
def test_a_decreasing_scale_is_the_increasing_one_on_mirror_images(name: str, kind: str) -> None:
    falling, rising = SCALES[kind]
    one, other = made(METHODS[name], falling), made(METHODS[name], rising)
    s, mirrored, y = falling_stream(falling)
    if "fold" in inspect.signature(one.learn_one).parameters:
        folds = np.arange(200) % one.folds
        for cal, x in ((one, s), (other, mirrored)):
            cal.learn_many(x[:200], y, fold=folds)
    else:
        for cal, x in ((one, s), (other, mirrored)):
            cal.learn_many(x[:180], y[:180])
        issued = [cal.predict_learn_many(x[180:190], y[180:190]) for cal, x in ((one, s), (other, mirrored))]
        np.testing.assert_array_equal(*issued)
        for cal, x in ((one, s), (other, mirrored)):
            for row in zip(x[190:200].tolist(), y[190:].tolist(), strict=True):
                cal.learn_one(*row)
    want = other.predict_many(mirrored[200:])
    np.testing.assert_array_equal(one.predict_many(s[200:]), want)
    assert one.predict_one(s[200]) == other.predict_one(mirrored[200])
    assert one.tally() == other.tally()
    again = type(one).from_bytes(one.to_bytes())
    assert again.scale == falling
    np.testing.assert_allclose(again.predict_many(s[200:]), want, rtol=0.0, atol=1e-6)  # solved from another start
    map_ = one.map()
    if isinstance(map_, ScaledMap):
        served = load_map(map_.to_json())
        np.testing.assert_allclose(served.predict_many(s[200:]), want, rtol=0.0, atol=1e-12)
        assert served(s[200]) == pytest.approx(want[0], abs=1e-12)
        np.testing.assert_allclose(in_sqlite(map_.to_sql("s"), s[200:].tolist()), want, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("name", FUSION)
def test_fusion_on_a_decreasing_scale_is_that_on_mirror_images(name: str, kind: str) -> None:
    falling, rising = SCALES[kind]
    one, other = made(FUSION[name], falling), made(FUSION[name], rising)
    s, mirrored, y = falling_stream(falling, 2)
    s, mirrored, y = s[160:], mirrored[160:], y[160:]
    one.learn_many(s[:40], y)
    other.learn_many(mirrored[:40], y)
    np.testing.assert_array_equal(one.predict_many(s[40:]), other.predict_many(mirrored[40:]))


def test_a_decreasing_scale_is_written_as_it_was_given() -> None:
    for scale, _ in SCALES.values():
        assert eval(repr(scale)) == scale
    assert repr(Interval(0.0, 5.0, decreasing=True)) == "Interval(lo=0.0, hi=5.0, decreasing=True)"
    assert repr(Interval(lo=0.0)) == "Interval(lo=0.0, hi=inf)"
    half = Interval(lo=0.0, decreasing=True)
    assert decode(encode(half)) == half != Interval(hi=0.0, decreasing=True)
    with pytest.raises(InputError, match="decreasing='no' is not possible; give True or False"):
        Probability(decreasing="no")  # type: ignore[arg-type]


def test_scores_beyond_a_decreasing_interval_are_clamped_and_probabilities_refused_as_given() -> None:
    scale = Interval(300.0, 850.0, decreasing=True)
    assert [scale.coordinate(s) for s in (900.0, 850.0, 500.0, 0.0)] == [-850.0, -850.0, -500.0, -300.0]
    assert [scale.clamps(s) for s in (900.0, 850.0, 300.0, 0.0)] == [True, False, False, True]
    for falling in (Probability(decreasing=True), Logit(decreasing=True)):
        with pytest.raises(InputError, match=r"score 1\.5 is not a probability"):
            falling.coordinate(1.5)


@pytest.mark.parametrize(("scale", "asked"), [("margin:300,850", "Interval(300, 850{})"), ("", "Logit(-16, 16{})")])
def test_the_scale_agrees_with_the_option(tmp_path: Path, scale: str, asked: str) -> None:
    path, _, _ = scored(tmp_path / "in.csv", scale)
    command = ["run", str(path), "--score", "s", "--label", "y", "--method", "platt", "--out"]
    option = [str(tmp_path / "option.csv"), "--decreasing", *(["--scale", scale] if scale else [])]
    setting = [str(tmp_path / "setting.csv"), "--set", f"scale={asked.format(', decreasing=True')}"]
    found = [CliRunner().invoke(app, [*command, *one]) for one in (option, setting)]
    assert [one.exit_code for one in found] == [0, 0], [one.output for one in found]
    assert "fewer positives" not in found[1].stdout
    read = [list(csv.DictReader((tmp_path / f"{one}.csv").open(newline=""))) for one in ("option", "setting")]
    first, second = ([float(row["calibrated"]) for row in rows] for rows in read)
    assert first == second


@pytest.mark.parametrize("cuts", [(), (1, 7, 900)])
def test_labels_in_blocks_and_scores_in_order_are_seen(cuts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    s = rng.random(2_000)
    y = rng.random(2_000) < 0.1
    plain = sampled(s, y, *cuts)
    assert plain.blocks() is None
    assert not plain.scores_in_order()
    single = StreamSample()
    by_label, by_score = np.argsort(y, kind="stable"), np.argsort(-s)
    for a, b in zip(s[by_label].tolist(), y[by_label].tolist(), strict=True):
        single.add_one(a, b)
    expected = round(2 * int(y.sum()) * (2_000 - int(y.sum())) / 2_000)
    found = f"neighbouring labels differ once, and would {expected} times in random order"
    assert sampled(s[by_label], y[by_label], *cuts).blocks() == single.blocks() == found
    assert not single.scores_in_order()
    assert sampled(s[by_score], y[by_score], *cuts).scores_in_order()
    # Two sorted files, one after the other, are seen too; a few labels, or equal scores, say nothing.
    assert sampled(np.concatenate([np.sort(s)] * 2), np.concatenate([y] * 2), 2_000).scores_in_order()
    assert sampled(s[:12], np.arange(12) > 5).blocks() is None
    assert not sampled(np.full(500, 0.3), rng.random(500) < 0.5).scores_in_order()


def test_hard_labels_as_scores_are_seen() -> None:
    rng = np.random.default_rng(9)
    y = rng.random(200) < 0.4
    classes = np.where(rng.random(200) < 0.8, y, ~y).astype(float)
    assert sampled(classes, y, 50).has_only_classes()
    assert not sampled(np.append(classes, 0.5), np.append(y, True)).has_only_classes()
    assert not sampled(np.zeros(200), y).has_only_classes()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("label", "neighbouring labels differ once, .* sort the rows by time, or shuffle them"),
        ("score", "the rows are sorted by score"),
        ("classes", "all scores are 0 or 1, as predicted classes are: give the probability of the positive class"),
        ("none", None),
    ],
)
@pytest.mark.parametrize("command", [["run"], ["compare", "--methods", "platt"]])
def test_rows_in_a_telling_order_warn(tmp_path: Path, command: list[str], order: str, message: str | None) -> None:
    rng = np.random.default_rng(10)
    s = rng.random(600)
    y = rng.random(600) < s
    if order == "classes":
        s = np.where(rng.random(600) < 0.8, y, ~y).astype(float)
    rows = {"label": np.argsort(y, kind="stable"), "score": np.argsort(s)}.get(order, np.arange(600))
    path = tmp_path / "in.csv"
    lines = zip(s[rows].tolist(), y[rows].tolist(), strict=True)
    path.write_text("s,y\n" + "".join(f"{a!r},{int(b)}\n" for a, b in lines))
    told = CliRunner().invoke(app, [*command, str(path), "--score", "s", "--label", "y"])
    assert told.exit_code in (0, 1), told.output
    warned = [line for line in (told.stdout + told.stderr).splitlines() if "warning" in line]
    if message is None:
        assert warned == []
    else:
        assert len(warned) == 1
        assert re.search(message, warned[0])


@pytest.mark.parametrize(
    ("order", "message"), [("label", "sorted by label"), ("falling", r"fewer positives \(AUC 0\.")]
)
def test_comparing_arrays_warns(order: str, message: str) -> None:
    rng = np.random.default_rng(11)
    s = rng.random(400)
    y = rng.random(400) < s
    rows = np.argsort(y, kind="stable") if order == "label" else np.arange(400)
    given = s[rows] if order == "label" else 1.0 - s
    with pytest.warns(RuntimeWarning, match=message) as told:
        compare((given, y[rows]), methods=["online-platt", "auto"])
    assert len(told) == 1


@pytest.mark.parametrize("verb", ["learn_many", "predict_learn_many"])
@pytest.mark.parametrize("name", ["auto", "online-platt", "tracking-ops", "platt", "venn-abers"])
def test_a_first_batch_sorted_by_label_is_warned_of_where_the_order_counts(name: str, verb: str) -> None:
    rng = np.random.default_rng(12)
    s = rng.random(500)
    y = rng.random(500) < s
    rows, cal = np.argsort(y, kind="stable"), METHODS[name]()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        getattr(cal, verb)(s, y)
        getattr(cal, verb)(s[rows], y[rows])  # a later one may be a change
        assert told == []
        getattr(METHODS[name](), verb)(s[rows], y[rows])
    sequential = not METHODS[name]().merges
    assert ["neighbouring labels differ once" in str(one.message) for one in told] == [True] * sequential
    assert all(one.filename == __file__ for one in told)
