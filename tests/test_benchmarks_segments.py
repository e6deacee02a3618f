"""The benchmark of `Segmented` at its smallest, and the figures of docs/segments_measured.md."""

import re

import numpy as np
import pytest
from scipy.special import expit

from benchmarks import random_effects, segments, segments_moving
from benchmarks.segments import PAGE, Stream

STREAM = segments.simulated(0.05, 1500, seed=0)


def test_the_simulator_has_the_rate_and_campaigns_that_come_and_go():
    stream = segments.simulated(0.05, 30_000, seed=1)
    assert stream.y.mean() == pytest.approx(0.05, abs=0.005)  # four standard errors
    first, last = (set(stream.fields["campaign"][part]) for part in (slice(5000), slice(-5000, None)))
    assert first - last
    assert last - first


@pytest.mark.full
def test_a_line_of_the_tables():
    line, forecasts = segments.row("simulator", [STREAM])
    assert re.fullmatch(r"\| simulator \|( [+-][\d,]+ ± [\d,]+ \|){5} [\d.]+ → [\d.]+ \|", line)
    assert len(forecasts) == 2
    assert re.fullmatch(r"\| simulator \|( [+-][\d,]+ ± [\d,]+ \|){2}", segments.effects_row("simulator", [STREAM]))
    assert re.search(r"\| [+-]\d\.\d\d \|$", segments.multicalibration_row("simulator", STREAM, *forecasts))
    assert re.fullmatch(r"\| simulator \| [+-]\d+ ± \d+ \| [+-]0\.\d+ \|", segments.late_row("simulator", STREAM, 500))
    assert re.fullmatch(r"\| simulator \|( [+-]\d+ ± \d+ \|){7}", segments.pairs_row("simulator", [STREAM]))
    assert "µs" in segments.cost(
        Stream(*(part[:200] for part in STREAM[:2]), {k: v[:200] for k, v in STREAM.fields.items()})
    )


@pytest.mark.full
def test_levels_that_walk_are_followed():
    """Of 200,000 impressions a calibrator for each campaign loses more, since it learns each from nothing."""
    streams = segments_moving.moving(3, 200_000)
    found = {}
    for kind, stream in streams.items():
        cells = segments_moving.line(kind, stream).split(" | ")
        found[kind] = dict(zip(("alone", "each", "segmented", "score"), map(float, cells[1:4]), strict=False))
    for kind, allowed in (("static", 0.7), ("walk", 0.7)):
        assert found[kind]["segmented"] < allowed * found[kind]["each"] < found[kind]["alone"]


@pytest.mark.full
def test_random_effects_are_the_posterior_of_one_level_and_know_their_errors():
    """Of one field with one level by quadrature; of a simulation of the model by the size of the errors."""
    rng, tau = np.random.default_rng(4), random_effects.FIRST_VARIANCE
    u = np.linspace(-1.5, 1.5, 20_001)
    effects, posterior = random_effects.CrossedEffects(1), -0.5 * u * u / tau
    for _ in range(5):
        y = bool(rng.random() < 0.6)
        effects.step(-0.3, ["x"], y)
        posterior -= np.logaddexp(0.0, (0.3 - u) if y else (u - 0.3))
        weight = np.exp(posterior - posterior.max())
        mean = float(u @ weight / weight.sum())
        # The mode for the mean, and a variance that is estimated anew, from this level among four of .02 as well.
        assert effects.effect(0, "x")[0] == pytest.approx(mean, abs=0.01)
    levels, n = 200, 40_000
    fields = [rng.integers(levels, size=n), rng.integers(20, size=n)]
    truth = [0.6 * rng.standard_normal(levels), 0.3 * rng.standard_normal(20)]
    z = -1.0 + rng.standard_normal(n)
    y = rng.random(n) < expit(z + truth[0][fields[0]] + truth[1][fields[1]])
    effects, found = random_effects.CrossedEffects(2), []
    for row in zip(z.tolist(), zip(*(field.tolist() for field in fields), strict=True), y.tolist(), strict=True):
        found.append(effects.step(*row))
    base = expit(z)
    assert random_effects.stream(base, [field.tolist() for field in fields], y) == pytest.approx(found, abs=1e-9)
    assert segments.losses(np.array(found), y).sum() < segments.losses(base, y).sum() - 500.0
    errors = [(truth[0][k] - m) / np.sqrt(v) for k in range(levels) for m, v in [effects.effect(0, k)]]
    # Of 200 standard normal variables the root mean square is 1 ± .05; the other field's effects are learned as well.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=0.15)
    assert effects.variance(0) == pytest.approx(0.36, rel=0.3)  # three standard errors of a variance of 200
    assert effects.effect(0, "new") == (0.0, effects.variance(0))


def test_the_step_of_random_effects_ends_at_the_mode():
    for mean, variance in ((0.0, 1e-6), (-30.0, 4.0), (35.0, 50.0), (2.0, 1e4)):
        for y in (True, False):
            residual, h = random_effects._mode(mean, variance, y)
            assert residual == pytest.approx(
                y - expit(mean + variance * residual), abs=1e-9
            )  # Newton's steps end there
            assert 0.0 <= h <= 0.25


def test_the_multicalibration_error_is_that_of_its_definition():
    stream = Stream(np.array([]), np.array([True, False, True, True]), {"a": ["x", "x", "y", "y"]})
    p = np.array([0.5, 0.9, 0.5, 0.5])
    # Level x: |1 − .5| + |0 − .9| in two bins; level y: |2 − 1|.
    assert segments.multicalibration(p, stream, 4)[0] == pytest.approx(1.4 / 4)


def test_the_page_has_the_tables():
    page = PAGE.read_text(encoding="utf-8")
    for mark in (*segments.HEADS, "cost", "made"):
        found = re.search(segments.MARKS.format(mark, mark), page, flags=re.DOTALL)
        assert found, mark
        assert len(found[0]) > 40, f"{mark} was not written"
