"""Reliability diagrams: what is drawn is what the data say."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from streamcal import REGISTRY, EmpiricalCDF, Interval, Isotonic, OnlinePlatt, Platt, VennAbers, compare
from streamcal.app import plot
from streamcal.app.plot import (
    plot_corp,
    plot_evidence,
    plot_maps,
    plot_rates,
    plot_reliability,
    plot_weights,
    save_reliability_picture,
    text_reliability,
    weights_over_time,
)
from streamcal.app.prepared import HISTOGRAM_BINS, fit_line, heavy
from streamcal.errors import InputError, StreamcalError
from streamcal.metrics import EqualMassECE, ReliabilityData
from streamcal.stream.history import History

matplotlib = pytest.importorskip("matplotlib")


def data(rate: float = 0.1, factor: float = 1.0, n: int = 5_000) -> ReliabilityData:
    draw, ece = random.Random(4), EqualMassECE()
    for _ in range(n):
        p = draw.betavariate(3, 3 / rate - 3)
        ece.update(draw.random() < p, min(1.0, factor * p))
    return ece.reliability()


def with_an_empty_bin() -> ReliabilityData:
    """Return data with a lowest bin of probability 0 without a positive label, which no logarithmic axis can show."""
    ece = EqualMassECE(bins=2)
    ece.update_many([False] * 127 + [True], [0.0] * 64 + [0.03125] * 64)
    return ece.reliability()


@pytest.mark.sample(3)
@pytest.mark.parametrize("spacing", ["linear", "sqrt", "log"])
def test_points_lie_at_prediction_and_frequency(spacing: str) -> None:
    raw, calibrated = data(factor=2.0), data()
    ax = plot_reliability({"raw": raw, "calibrated": calibrated}, spacing=spacing, title="clicks")
    low, high = ax.get_xlim()
    for one, points, intervals in zip((raw, calibrated), ax.collections[1::2], ax.collections[::2], strict=True):
        np.testing.assert_array_equal(points.get_offsets(), [(b.prediction, b.frequency) for b in one.bins])
        segments = [[(b.prediction, max(b.lower, low)), (b.prediction, b.upper)] for b in one.bins]
        np.testing.assert_array_equal(intervals.get_segments(), segments)
    assert ax.get_ylim() == (low, high)
    for b in (*raw.bins, *calibrated.bins):
        assert low <= min(b.prediction, b.frequency)
        assert max(b.prediction, b.frequency) <= high
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [f"{name}   ECE {one.ece:.4f}" for name, one in (("raw", raw), ("calibrated", calibrated))]
    assert ax.get_title(loc="left") == "clicks"


@pytest.mark.sample(3)
@pytest.mark.parametrize("spacing", ["linear", "sqrt", "log"])
@pytest.mark.parametrize("one", [data(), data(rate=0.002), with_an_empty_bin()])
def test_the_histogram_holds_all_the_weight(spacing: str, one: ReliabilityData) -> None:
    ax = plot_reliability({"only": one}, spacing=spacing)
    (below,) = ax.child_axes
    shares, edges, _ = below.patches[0].get_data()
    assert len(shares) == HISTOGRAM_BINS
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)  # a sum of 50 floats
    assert (edges[0], edges[-1]) == pytest.approx(ax.get_xlim(), rel=1e-12)  # low ⋅ (high / low) rounds


def test_log_axes_show_what_has_no_place_as_open_markers_on_the_edge() -> None:
    one = with_an_empty_bin()
    ax = plot_reliability({"only": one}, spacing="log")
    points, (low, _) = ax.collections[1], ax.get_xlim()
    np.testing.assert_array_equal(points.get_offsets(), [(low, low), (0.03125, 1 / 64)])
    faces = [matplotlib.colors.to_hex(colour) for colour in points.get_facecolors()]
    assert faces[0] == "#ffffff" != faces[1]
    assert low > 0.0


def test_weight_is_shown_as_area() -> None:
    ece = EqualMassECE(bins=4)
    ece.update_many([False] * 90 + [True] * 10, [0.1] * 80 + [0.9] * 20)
    light, heavy = sorted(plot_reliability({"only": ece.reliability()}).collections[1].get_sizes())
    assert heavy > light


def test_own_axes_are_drawn_on() -> None:
    figure = matplotlib.figure.Figure()
    ax = figure.subplots()
    assert plot_reliability({"only": data()}, ax=ax) is ax


def test_no_figure_is_left_with_pyplot() -> None:
    import matplotlib.pyplot as plt

    plot_reliability({"only": data()})
    assert plt.get_fignums() == []


@pytest.mark.full
@pytest.mark.sample(3)
@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_are_saved(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"reliability.{ending}"
    save_reliability_picture(path, {"one": {"raw": data(factor=2.0)}, "two": {"raw": data()}}, spacing="sqrt")
    assert path.read_bytes().startswith(start)


def test_there_must_be_something_to_draw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        plot_reliability({})
    with pytest.raises(InputError, match="nothing to draw"):
        save_reliability_picture(tmp_path / "p.png", {})
    with pytest.raises(InputError, match="'linear', 'sqrt' or 'log'"):
        plot_reliability({"only": data()}, spacing="cube")  # type: ignore[arg-type]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(StreamcalError, match=r'pip install "\.\[plot\]"'):
        plot_reliability({"only": data()})


@pytest.mark.parametrize("spacing", ["linear", "sqrt", "log"])
def test_axes_are_labelled(spacing: str) -> None:
    ax = plot_reliability({"only": data()}, spacing=spacing)
    (below,) = ax.child_axes
    assert (ax.get_ylabel(), below.get_xlabel()) == ("frequency of positive labels", "predicted probability")
    assert below.get_ylabel() == "share of\npredictions"


# -- rates over time -----------------------------------------------------------------------------------------------


def test_rates_are_an_area_and_lines_through_the_middles_of_the_parts() -> None:
    ax = plot_rates([100, 300], {"seen": [0.1, 0.3], "raw": [0.2, 0.25], "auto": [0.1, 0.29]}, title="drift")
    shares, edges, _ = ax.patches[0].get_data()
    assert (shares.tolist(), list(edges)) == ([0.1, 0.3], [0.0, 100, 300])
    assert [line.get_label() for line in ax.lines] == ["raw", "auto"]
    for line, values in zip(ax.lines, ([0.2, 0.25], [0.1, 0.29]), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), [(50.0, values[0]), (200.0, values[1])])
    assert ax.get_xlabel() == "observations"
    assert ax.get_ylabel() == "share of positive labels, mean probability"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["seen", "raw", "auto"]
    low, high = ax.get_ylim()
    assert low == 0.0
    assert 0.3 < high < 0.4
    assert ax.get_title(loc="left") == "drift"


@pytest.mark.parametrize(("ends", "rates"), [([], {}), ([], {"a": []}), ([5], {"a": [0.1, 0.2]})])
def test_rates_that_do_not_fit_together_are_refused(ends: list[int], rates: dict[str, list[float]]) -> None:
    with pytest.raises(InputError, match="as many values as parts"):
        plot_rates(ends, rates)


# -- text ----------------------------------------------------------------------------------------------------------


def test_text_has_a_letter_at_the_place_of_every_bin() -> None:
    ece = EqualMassECE(bins=2)
    ece.update_many([False] * 50 + [True] * 50, [0.0] * 50 + [0.25] * 50)
    lines = text_reliability({"raw": ece.reliability()}, width=21, height=11).splitlines()
    inside = [line[6:] for line in lines[:11]]
    assert inside[10][0] == "r", "frequency 0 at probability 0: the lower left corner"
    assert inside[0][10] == "r", "frequency 1 at probability 1/4: the top, half-way by square roots"
    assert sum(line.count("r") for line in inside) == 2
    assert "." in inside[5]
    assert lines[0].startswith(" 1.0 |")
    assert lines[10].startswith("   0 |")
    assert lines[-2].strip() == "across: predicted probability, up: frequency of positive labels"
    assert lines[-1].strip() == "r raw"


def test_text_shows_where_several_meet() -> None:
    one = data()
    drawn = text_reliability({"raw": one, "auto": one})
    assert "*" in drawn
    assert "* several" in drawn
    assert max(map(len, drawn.splitlines())) <= 80


@pytest.mark.parametrize(
    ("names", "size"), [((), {}), (("a", "auto"), {}), (("a",), {"width": 19}), (("a",), {"height": 7})]
)
def test_text_that_cannot_be_drawn(names: tuple[str, ...], size: dict[str, int]) -> None:
    with pytest.raises(InputError):
        text_reliability(dict.fromkeys(names, data()), **size)


def test_every_plot_function_is_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parent.parent / "docs" / "measures.md").read_text(encoding="utf-8")
    for name in plot.__all__:
        if callable(getattr(plot, name)) and name[0].islower():
            assert f"`{name}(" in page


# -- weights over time ---------------------------------------------------------------------------------------------

HISTORY = [{"a": 0.1, "b": 0.6, "c": 0.3}, {"a": 0.2, "b": 0.5, "c": 0.3}, {"a": 0.1, "b": 0.1, "c": 0.8}]


def test_weights_keep_the_heaviest_and_sum_up_the_rest() -> None:
    prepared = weights_over_time([0, 5, 9], HISTORY, most=1)
    assert prepared.names == ("c", "others")
    np.testing.assert_allclose(prepared.shares, [[0.3, 0.3, 0.8], [0.7, 0.7, 0.2]], rtol=0.0, atol=1e-12)
    assert weights_over_time([0, 5, 9], HISTORY).names == ("c", "b", "a")


def test_weights_without_a_name_are_shares_of_the_rest() -> None:
    prepared = weights_over_time([0, 5, 9], HISTORY, without=["b"])
    assert prepared.names == ("c", "a")
    np.testing.assert_allclose(prepared.shares, [[0.75, 0.6, 8 / 9], [0.25, 0.4, 1 / 9]], rtol=0.0, atol=1e-12)


def test_weights_are_drawn_as_areas_that_fill_the_axes() -> None:
    ax = plot_weights(weights_over_time([0, 5, 9], HISTORY), title="trust")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]
    assert ax.get_xlim() == (0.0, 9.0)
    assert ax.get_title(loc="left") == "trust"
    top = ax.collections[-1].get_paths()[0].vertices
    assert top[:, 1].max() == pytest.approx(1.0)


@pytest.mark.parametrize(("steps", "history"), [([], []), ([1], HISTORY), ([0, 1], [{"a": 1.0}, {"b": 1.0}])])
def test_weights_that_do_not_fit_together_are_refused(steps: list[int], history: list[dict[str, float]]) -> None:
    with pytest.raises(InputError, match="as many steps"):
        weights_over_time(steps, history)


# -- pictures of a comparison --------------------------------------------------------------------------------------


def comparison(rate: float = 1.0):
    rng = np.random.default_rng(1)
    scores = rate * rng.random(4_000)
    return compare((scores, rng.random(4_000) < scores**1.5), methods=["ops", "isotonic"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("rate", [1.0, 0.04])
def test_corp_diagrams_show_fit_band_blocks_and_density(rate: float) -> None:
    found = comparison(rate)
    data = {name: found.standings[name].corp.reliability() for name in ("raw", "ops")}
    ax = plot_corp(data, title="clicks")
    assert ax.get_xscale() == ("log" if rate < 0.05 else "linear")
    low, high = ax.get_xlim()
    bands, blocks = ax.collections[::2], ax.collections[1::2]
    lines = [line for line in ax.lines[1:] if len(line.get_xdata())]
    for one, band, dots, line in zip(data.values(), bands, blocks, lines, strict=True):
        corners = band.get_paths()[0].vertices
        for place, lower, upper in zip(one.places, one.lower, one.upper, strict=True):
            at = corners[corners[:, 0] == place, 1]
            assert {max(lower, low), upper} <= set(at.tolist())
        wanted = [(max(b.prediction, low), max(b.frequency, low)) for b in heavy(one)]
        np.testing.assert_array_equal(dots.get_offsets(), wanted)
        np.testing.assert_array_equal(line.get_xydata(), np.maximum(fit_line(one), low))
    (below,) = ax.child_axes
    shares, edges, _ = below.patches[0].get_data()
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)  # a sum of 50 floats
    assert (edges[0], edges[-1]) == pytest.approx((low, high), rel=1e-12)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0].startswith(f"raw   MCB {data['raw'].decomposition.miscalibration:.2g}, DSC ")
    assert ax.get_title(loc="left") == "clicks"
    assert plot_corp(data, spacing="sqrt").get_ylabel() == "frequency of positive labels"
    with pytest.raises(InputError, match="'linear', 'sqrt' or 'log'"):
        plot_corp(data, spacing="cube")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing to draw"):
        plot_corp({})


@pytest.mark.sample(3)
@pytest.mark.parametrize("spacing", ["linear", "sqrt", "log"])
def test_maps_are_lines_through_their_points(spacing: str) -> None:
    found = comparison()
    data = {name: one.mapped for name, one in found.standings.items()}
    ax = plot_maps(data, spacing=spacing)
    low, _ = ax.get_xlim()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ops", "isotonic"]  # the score has no map
    for name, line in zip(("ops", "isotonic"), ax.lines[1:], strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.maximum(data[name], low))
    with pytest.raises(InputError, match="nothing to draw"):
        plot_maps({"raw": ()})


def test_evidence_and_alarms_over_time() -> None:
    history = comparison().history
    ax = plot_evidence(history, title="evidence")
    assert history.alarms_in_all["raw"] > 0
    for i, name in enumerate(history.names):
        over_time, alarms = ax.lines[2 * i : 2 * i + 2]
        wanted = np.clip([part.evidence for part in history.parts(name)], 1.0, 1e12)
        np.testing.assert_array_equal(over_time.get_ydata(), wanted)
        assert list(alarms.get_xdata()) == [alarm.n for alarm in history.alarms[name]]
        assert over_time.get_label() == f"{name}   alarms: {history.alarms_in_all[name]:,}"
    assert ax.get_yscale() == "log"
    with pytest.raises(InputError, match="nothing to draw"):
        plot_evidence(History(["raw"]))


# -- calibrators -----------------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", REGISTRY)
def test_every_calibrator_draws_its_predictions_and_is_not_changed(name: str) -> None:
    cal = REGISTRY[name]()
    draw = np.random.default_rng(1)
    scores = draw.random(60)
    cal.learn_many(scores, draw.random(60) < scores)
    before = cal.state_dict()
    ax = cal.plot()
    (line,) = (one for one in ax.lines if one.get_label() == "probability")
    x, y = line.get_data()
    assert (x[0], x[-1]) == (0.0, 1.0)
    assert y.tolist() == pytest.approx(cal.predict_many(x).tolist(), abs=1e-12)
    assert ax.get_title(loc="left") == type(cal).__name__
    assert len(ax.collections) == cal.has_interval
    assert cal.state_dict() == before


def test_an_interval_is_drawn_as_a_band() -> None:
    cal = VennAbers()
    cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    (band,) = cal.plot(scores=[0.7, 0.3]).collections
    points = {(round(x, 12), round(y, 12)) for x, y in band.get_paths()[0].vertices.tolist()}
    assert points == {(x, round(p, 12)) for x in (0.3, 0.7) for p in cal.predict_interval_one(x)}


@pytest.mark.parametrize(("spacing", "first"), [("linear", 0.0), ("sqrt", 0.0), ("log", 1e-4)])
def test_the_axes_of_a_calibrator_and_its_own(spacing: str, first: float) -> None:
    own = matplotlib.figure.Figure().subplots()
    ax = OnlinePlatt().plot(own, spacing=spacing, title="now")
    assert ax is own
    assert ax.get_xlim() == (first, 1.0)
    assert ax.get_title(loc="left") == "now"


def test_scores_of_other_scales() -> None:
    cal = Platt(scale=Interval(-8.0, 8.0))
    assert cal.plot().get_xlim() == (-8.0, 8.0)
    assert cal.plot(scores=[-1.0, 3.0]).get_xlim() == (-1.0, 3.0)
    assert Platt(scale=EmpiricalCDF((1.0, 5.0, 9.0), (0.0, 0.5, 1.0))).plot().get_xlim() == (1.0, 9.0)
    with pytest.raises(InputError, match="has no ends to draw; give scores="):
        Isotonic(scale=Interval()).plot()
    with pytest.raises(InputError, match="did you mean 'log'"):
        OnlinePlatt().plot(spacing="lgo")


def test_a_calibrator_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(StreamcalError, match=r'pip install "\.\[plot\]"'):
        OnlinePlatt().plot()
