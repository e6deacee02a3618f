"""Maps as C: the sources compile without a warning, run without undefined behaviour, and give the probabilities."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled_maps import WARNINGS, compiled
from laws.binary import PROBES, realistic

from streamcal import (
    REGISTRY,
    Auto,
    Beta,
    EmpiricalCDF,
    InputError,
    Interval,
    Isotonic,
    Logit,
    Platt,
    Probability,
    VennAbers,
)
from streamcal.maps.c_source import cells_of
from streamcal.maps.knots import KnotMap
from streamcal.maps.steps import StepMap

EXAMPLE = Path(__file__).parents[1] / "examples" / "bidder.c"

#: Kinds of a map whose logarithms, exponentials and sums are those of Python, in the same order.
TO_THE_LAST_BIT = {"identity", "sigmoid", "sigmoids", "beta", "steps", "lines", "log-odds-lines", "cubics", "interval"}


@pytest.mark.full
def test_the_map_of_every_method_is_the_same_in_c(tmp_path):
    scores, y = realistic(seed=4, size=400, a=1.0, b=2.0)
    scores[::2] = np.round(scores[::2] * 16) / 16
    x = np.concatenate((PROBES, scores, np.nextafter(scores, 2.0).clip(0.0, 1.0), np.nextafter(scores, -1.0).clip(0.0)))
    maps = []
    for method in REGISTRY.values():
        cal = method()
        maps.append(cal.map())
        cal.learn_many(scores, y)
        maps.append(cal.map())
    for found, evaluated in zip(maps, compiled(maps, tmp_path), strict=True):
        atol = 1e-15 if found.kind in TO_THE_LAST_BIT else 1e-12
        np.testing.assert_allclose(evaluated(x), found.predict_many(x), rtol=0.0, atol=atol)


@pytest.mark.full
def test_every_piece_is_found_however_the_cuts_lie(tmp_path):
    """With cells of equal width, and without them."""
    rng = np.random.default_rng(1)
    maps = [StepMap(Probability(), np.empty(0), [0.25])]
    for size in (1, 2, 8, 257, 1_000):
        for power in (1, 200):
            cuts = np.unique(rng.random(size) ** power)
            maps.append(StepMap(Probability(), cuts, rng.random(len(cuts) + 1)))
            maps.append(KnotMap(Probability(), cuts, rng.random(len(cuts))))
    wide = np.array([-1.7e308, -1.0, 0.0, 5e-324, 1.7e308])
    maps += [KnotMap(Interval(), wide, np.linspace(0, 1, 5)), StepMap(Interval(), wide, np.linspace(0, 1, 6))]
    assert [one and one.fullest for one in map(cells_of, (np.linspace(0, 1, 257), wide))] == [1, None]
    for found, evaluated in zip(maps, compiled(maps, tmp_path), strict=True):
        cuts = found.cuts if isinstance(found, StepMap) else found.knots
        near = np.concatenate((cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), [0.0, 1.0]))
        x = near.clip(*found.scale.domain)
        assert evaluated(x).tolist() == found.predict_many(x).tolist()


@pytest.mark.full
def test_every_scale_and_what_is_no_score(tmp_path):
    rng = np.random.default_rng(2)
    scores = rng.random(300)
    y = rng.random(300) < scores
    scales = [Logit(-3.0, 1.0), Interval(-1.0, 0.75), Interval(), EmpiricalCDF.from_scores(scores, 30)]
    scales += [Probability(decreasing=True), Interval(0.0, 2.0, decreasing=True)]
    maps = []
    for cal in [
        method(scale=scale, resolution=None) for scale in scales for method in (Isotonic, Platt, Beta, VennAbers)
    ]:
        cal.learn_many(scores, y)
        maps.append(cal.map())
    for found, evaluated in zip(maps, compiled(maps, tmp_path), strict=True):
        np.testing.assert_allclose(evaluated(scores), found.predict_many(scores), rtol=0.0, atol=1e-15)
        lo, hi = found.scale.domain
        bad = [np.nan, np.inf, -np.inf, *([-5e-324, 1.0000000000000002] if lo == 0.0 else [])]
        assert np.isnan(evaluated(np.array(bad))).all()
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(evaluated([lo, hi]), found.predict_many([lo, hi]))


@pytest.mark.full
def test_the_sources_are_c_plus_plus_too(tmp_path):
    cal = Auto()
    scores, y = realistic(seed=4, size=400, a=1.0, b=2.0)
    cal.learn_many(np.round(scores * 16) / 16, y)
    (evaluated,) = compiled([cal.map()], tmp_path, "-x", "c++", compiler="g++", standard="-std=c++17")
    # exp and log of arrays may differ from those of C in the last place, in C as in C++
    np.testing.assert_allclose(evaluated(PROBES), cal.map().predict_many(PROBES), rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("name", ["", "1st", "_p", "a-b", "double", "class", "x" * 52, "p\n", None])
def test_what_is_no_name_in_c_is_refused(name):
    with pytest.raises(InputError, match="give an identifier of C"):
        Platt().map().to_c(name)


def test_the_bidder_of_the_examples_bids_by_calibrated_probabilities(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("NOT TESTED: gcc is not installed")
    cal = Platt()
    cal.learn_many([0.01, 0.02, 0.03, 0.04], [0, 0, 1, 0])
    (tmp_path / "calibrated_pctr.c").write_text(cal.map().to_c("calibrated_pctr"))
    sources = [str(EXAMPLE), str(tmp_path / "calibrated_pctr.c")]
    command = ["gcc", "-std=c99", *WARNINGS, *sources, "-lm", "-o", str(tmp_path / "bidder")]
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "bidder"], input="0.02 2.5\n7 1\n0.02 0.001\n", capture_output=True, text=True)
    p = cal.predict_one(0.02)
    assert done.stdout.split() == [f"{p:.6f}", f"{2.5 * p:.6f}", "nan", "0", f"{p:.6f}", "0.000000"]
    assert len(EXAMPLE.read_text().splitlines()) <= 40
