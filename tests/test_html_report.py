"""The HTML report: prepared data, and well-formed pages that load nothing; test_browser.py opens them in a browser."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from test_cli import program, the_line

from streamcal import InputError, compare
from streamcal.app.figures import HIGHEST_EVIDENCE, LEAST_POSITIVES, MOST_STOPS, figures, nats
from streamcal.app.html_report import page, save_report
from streamcal.app.html_style import SCRIPT
from streamcal.app.prepared import HISTOGRAM_BINS, Axis, corp_limits, fit_line, histogram, outside, spacing_of
from streamcal.app.report_data import MOST_SERIES, prepared
from streamcal.app.svg import HEIGHT, WIDTH, Canvas
from streamcal.metrics import CORP
from streamcal.stream.columns import Columns
from streamcal.stream.comparing import Comparison
from streamcal.stream.sources import opened

VOID = {"meta", "input", "br"}
#: A page on a telephone loads it in a second.
LARGEST = 2_000_000


def comparison(n=3_000, rate=1.0, methods=("ops", "isotonic", "online-beta", "bernstein"), seed=4, **options):
    rng = np.random.default_rng(seed)
    scores = rate * rng.beta(1, 3, n)
    return compare((scores, rng.random(n) < scores**1.5), methods=list(methods), **options)


FOUND = comparison()
DATA = prepared(FOUND, command="streamcal report 'my clicks.csv'", made="2026-11-22")


class Tree(HTMLParser):
    """The elements of a page; fails where one is closed that is not open."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text = [], [], {}

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), [name for name, _ in self.open]))
        assert len(dict(attributes)) == len(attributes), f"an attribute of {tag} is given twice"
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), [name for name, _ in self.open]))

    def handle_endtag(self, tag):
        name, _ = self.open.pop()
        assert name == tag

    def handle_data(self, text):
        inside = self.open[-1][0] if self.open else ""
        self.text[inside] = self.text.get(inside, "") + text


def parsed(text):
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert tree.open == []
    return tree


# -- prepared data -----------------------------------------------------------------------------------------------------


def test_the_series_with_pictures_are_the_score_the_base_and_the_best():
    assert [one.name for one in DATA.series] == ["raw", *(name for name in FOUND.names if name != "raw")][:MOST_SERIES]
    based = comparison(base=FOUND.names[-1] if FOUND.names[-1] != "raw" else FOUND.names[-2])
    assert [one.name for one in prepared(based).series][1] == based.base


def test_a_series_has_what_was_measured():
    for one in DATA.series:
        standing = FOUND.standings[one.name]
        assert one.reliability.decomposition == standing.corp.decomposition
        assert one.floor == standing.corp.floor
        assert sum(part.rows for part in one.parts) == 3_000
        assert one.alarms_in_all == FOUND.history.alarms_in_all[one.name]
        if one.name != "raw":
            scores, probabilities = zip(*one.mapped, strict=True)
            learned = FOUND._calibrators[one.name]
            assert probabilities == tuple(learned.predict_many(scores).tolist())
            raw = DATA.series[0].reliability.scores
            assert (scores[0], scores[-1]) == pytest.approx((raw[0], raw[-1]), rel=0.01)  # of cells, and of bins
            assert list(scores) == sorted(scores)


def test_the_table_is_that_of_the_comparison():
    assert [row[0] for row in DATA.table] == FOUND.names
    assert all(len(row) == len(DATA.headings) for row in DATA.table)
    verdicts = dict(zip(FOUND.names, (row[DATA.headings.index("against raw")] for row in DATA.table), strict=True))
    for name in FOUND.names:
        if name != "raw":
            assert verdicts[name].startswith(FOUND.difference(name, "raw").verdict)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("step", "texts"),
    [(0.02, {"00:00:00", "00:01:00"}), (1.0, {"00:00", "00:15"}), (100.0, {"Jan 2", "Jan 4"}), (3e4, {"2027", "Jul"})],
)
def test_with_times_pictures_have_dates_on_their_axes(step, texts):
    rng = np.random.default_rng(1)
    scores = rng.beta(1, 3, 3_000)
    times = 1_767_225_600.0 + step * np.arange(3_000.0)  # from 2026-01-01
    found = compare((scores, rng.random(3_000) < scores, None, times), methods=["ops"])
    data = prepared(found)
    for one in figures(data):
        if one.heading in ("Rates over time", "Log loss against raw, in sum", "Evidence against the predictions"):
            ticks = re.findall(r'class="tick"[^>]*>([^<]*)<', one.svg)
            assert len(texts & set(ticks)) >= 1 or "Jan 1" in ticks, ticks
            assert "2026-01-01" in one.stops[0][1]
            assert re.search(r">2026-01-01[^<]* to 20\d\d-\d\d-\d\d[^<]*, UTC<", one.svg)


def test_days_and_hours_by_number_make_an_even_axis_and_times_in_no_order_none():
    rng = np.random.default_rng(1)
    scores = rng.beta(1, 3, 1_200)
    y, day = rng.random(1_200) < scores, np.arange(1_200) // 400
    edges = prepared(compare((scores, y, None, day), methods=["ops"])).times
    assert edges[0] == 0.0
    assert 2.9 < edges[-1] < 3.1
    assert (np.diff(edges) > 0.0).all()
    assert prepared(compare((scores, y, None, rng.permutation(1_200)), methods=["ops"])).times == ()
    assert prepared(compare((scores, y, None, np.ones(1_200)), methods=["ops"])).times == ()


def test_the_slider_is_explained_once_and_names_beside_an_axis_are_whole():
    assert page(DATA).count("ove the slider") == 1
    canvas = Canvas(Axis(0.0, 1.0), Axis(-2.5, -0.5), names=["a campaign of the summer", "b" * 50])
    canvas.rows("effect")
    assert any("a campaign of the summer<" in part for part in canvas.parts)
    assert any(f"{'b' * 16}…{'b' * 17}<" in part for part in canvas.parts)
    assert all(float(x) > 24 * 5.0 for x in re.findall(r'x="([^"]*)"', "".join(canvas.parts)))


def test_axes_place_values_and_have_ticks_inside():
    for axis in (Axis(0.0, 1.0), Axis(0.0, 0.06), Axis(0.0, 41_188.0), Axis(0.0, 0.3, "sqrt"), Axis(2e-4, 0.02, "log")):
        ticks = axis.ticks()
        assert 2 <= len(ticks) <= 9
        assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
        places = [axis.place(tick) for tick in ticks]
        assert places == sorted(places)
        assert (axis.place(axis.low), axis.place(axis.high)) == pytest.approx((0.0, 1.0))
        assert axis.place(axis.high * 2.0) == pytest.approx(1.0)
    assert Axis(1e-4, 1.0, "log").place(0.01) == pytest.approx(0.5)
    assert Axis(0.0, 0.04, "sqrt").place(0.01) == pytest.approx(0.5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rate", [1.0, 0.2, 0.004])
def test_the_density_holds_all_the_weight_and_the_axes_hold_the_points(rate):
    corp = prepared(comparison(rate=rate, methods=["ops"])).series[0].reliability
    spacing = spacing_of(corp.scores, corp.weights)
    assert spacing == {1.0: "linear", 0.2: "sqrt", 0.004: "log"}[rate] or rate == 1.0
    axis = Axis(*corp_limits([corp], spacing), spacing)
    shares, edges = histogram(corp.scores, corp.weights, axis)
    assert len(shares) == HISTOGRAM_BINS
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)  # a sum of 50 floats
    assert (edges[0], edges[-1]) == pytest.approx((axis.low, axis.high), rel=1e-12)


def test_the_share_outside_of_the_band_is_small_for_calibrated_forecasts_alone():
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, 5_000)
    right, wrong = CORP(), CORP()
    right.update_many(rng.random(5_000) < p, p)
    wrong.update_many(rng.random(5_000) < np.sqrt(p), p)
    assert outside(right.reliability()) < 0.4  # 10 % are expected, of places that go together
    assert outside(wrong.reliability()) > 0.9


def test_a_line_runs_through_the_ends_of_the_blocks():
    corp = DATA.series[0].reliability
    x, y = zip(*fit_line(corp), strict=True)
    assert list(x) == sorted(x)
    assert list(y) == sorted(y)
    assert {(b.low, b.frequency) for b in corp.blocks} <= set(zip(x, y, strict=True))


# -- drawing -----------------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("rate", [1.0, 0.01])
def test_nothing_is_drawn_outside_of_the_picture(rate):
    data = prepared(comparison(rate=rate, methods=["ops", "isotonic"]))
    for one in figures(data):
        numbers = re.findall(r'd="M([^"]*)"', one.svg)
        for path in numbers:
            for pair in re.findall(r"([\d.-]+) ([\d.-]+)", path):
                x, y = map(float, pair)
                assert -0.05 <= x <= WIDTH + 0.05
                assert -0.05 <= y <= HEIGHT + 0.05
        assert "nan" not in one.svg
        assert "inf" not in one.svg
        assert (1 if one.heading == "Rates over time" else 2) <= len(one.stops) <= MOST_STOPS
        places = [place for place, _ in one.stops]
        assert places == sorted(places)
        assert all(0.0 <= place <= WIDTH for place in places)


@pytest.mark.parametrize(
    "x",
    [Axis(0.0, 0.15, "sqrt"), Axis(0.0, 0.4, "sqrt"), Axis(3e-5, 0.1, "log"), Axis(0.002, 0.03, "log"),
     Axis(0.0, 1_000.0), Axis(0.0, 4e7), Axis(-0.13, 0.125)],
)  # fmt: skip
def test_ticks_do_not_touch_and_stay_inside(x):
    canvas = Canvas(x, Axis(0.0, 1.0))
    canvas.rows("below")
    found = re.findall(
        r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle">([^<]*)<', "".join(canvas.parts)
    )
    # Digits of a sans-serif font of 11 pixels are at most 7 wide, and points and signs narrower.
    spans = sorted((float(place) - 3.5 * len(text), float(place) + 3.5 * len(text)) for place, text in found)
    assert len(spans) >= 3
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
    assert spans[-1][1] <= WIDTH + 5.0


def test_pictures_show_the_figures():
    drawn = {one.heading: one for one in figures(DATA)}
    assert len(drawn) == len(DATA.series) + 4
    raw = DATA.series[0]
    _, text = drawn["Reliability of raw"].stops[-1]
    assert text.startswith(f"prediction {raw.reliability.places[-1]:.3g}: share of positives ")
    sums = drawn["Log loss against raw, in sum"].stops[-1][1]
    for one in DATA.series[1:]:
        value, low, high = (3_000 * value for value in FOUND.difference(one.name, "raw"))
        assert f"{one.name} {nats(value)} ({nats(low)} to {nats(high)})" in sums, "the verdict rests on what is drawn"
    part = raw.parts[-1]
    power = math.log10(max(part.evidence, 1.0))
    assert f"raw 10^{power:.1f}" in drawn["Evidence against the predictions"].stops[-1][1]
    assert f"{raw.alarms_in_all:,} of raw" in drawn["Evidence against the predictions"].caption


def test_rates_are_drawn_in_parts_with_enough_positives():
    rng = np.random.default_rng(4)  # that of `comparison`
    scores = rng.beta(1, 3, 3_000)
    y = rng.random(3_000) < scores**1.5
    (drawn,) = (one for one in figures(DATA) if one.heading == "Rates over time")
    end = 0
    for _, text in drawn.stops:
        first, last = (int(row.replace(",", "")) for row in re.match(r"rows ([\d,]+) to ([\d,]+): ", text).groups())
        assert first == end + 1
        end = last
        assert y[first - 1 : last].sum() >= LEAST_POSITIVES
        assert f"positives {y[first - 1 : last].mean():.2%}, raw {scores[first - 1 : last].mean():.2%}" in text
    assert end == 3_000


def test_the_confidence_sequence_counts_rows_by_their_weights():
    rng = np.random.default_rng(1)
    scores, w = rng.random(2_000), rng.random(2_000)
    found = compare((scores, rng.random(2_000) < scores**2, w), methods=["ops"])
    (drawn,) = (one for one in figures(prepared(found)) if one.heading == "Log loss against raw, in sum")
    assert 'class="band' in drawn.svg
    value, low, high = (nats(w.sum() * one) for one in found.difference("ops", "raw"))
    assert drawn.stops[-1][1].endswith(f": ops {value} ({low} to {high})")


def test_the_head_says_what_is_shown_and_what_is_not():
    """Of rare events with a total that is 18 % too high, the sample of few rows decides on no loss."""
    rng = np.random.default_rng(5)
    scores = np.clip(rng.beta(1, 60, 20_000), 1e-4, 1.0)
    found = compare((1.18 * scores, rng.random(20_000) < scores), methods=["online-platt", "isotonic"])
    head, *others = prepared(found).sentences
    assert re.match(
        r"Miscalibrated: the raw score predicts 1\.\d+ times the positives \(1\.\d+ to 1\.\d+\), "
        r"and online-platt repairs the total \([\d.]+\)\. Undecided by 20,000 rows: which log loss is lower\.$",
        head,
    )
    assert not any("Calibration ratio" in one for one in others)
    assert page(prepared(found)).count("20,000 rows") == 2, "of the head and of the heading"


def test_a_stream_of_few_rows_has_lines_over_time():
    drawn = {one.heading: one for one in figures(prepared(compare(([0.1, 0.8, 0.3], [0, 1, 0]), methods=["ops"])))}
    for heading in ("Rates over time", "Log loss against raw, in sum", "Evidence against the predictions"):
        lines = re.findall(r'<path class="line c\d" d="M[\d.]+ [\d.]+L', drawn[heading].svg)
        assert len(lines) == (1 if "against raw" in heading else 2), heading


def test_certainties_that_fail_have_infinite_evidence_and_are_drawn():
    rng = np.random.default_rng(0)
    scores = np.where(rng.random(500) < 0.5, 0.0, 0.8)
    data = prepared(compare((scores, rng.random(500) < 0.4), methods=["ops"]))
    assert any(part.evidence == math.inf for part in data.series[0].parts)
    assert parsed(page(data))
    assert Canvas(Axis(0.0, 1.0), Axis(0.0, HIGHEST_EVIDENCE)).up(math.inf) == 10.0


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_is_well_formed_and_loads_nothing():
    text = page(DATA)
    tree = parsed(text)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<img|<iframe|<base", text)
    tags = [tag for tag, _, _ in tree.elements]
    assert [tag for tag in tags if tag in ("h1", "main", "title")] == ["title", "h1", "main"]
    assert not any("src" in attributes or "href" in attributes for _, attributes, _ in tree.elements)
    identifiers = [attributes["id"] for _, attributes, _ in tree.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert ("html", {"lang": "en"}, []) in tree.elements
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), "no level is left out"


def test_pictures_have_names_and_sliders_have_labels():
    tree = parsed(page(DATA))
    pictures = [attributes for tag, attributes, _ in tree.elements if tag == "svg"]
    assert all(
        one.get("aria-hidden") == "true" or (one["role"], bool(one["aria-label"])) == ("img", True) for one in pictures
    )
    named = {attributes["id"] for tag, attributes, _ in tree.elements if tag == "h3" and "id" in attributes}
    sliders = [attributes for tag, attributes, _ in tree.elements if tag == "input"]
    assert len(sliders) == len(figures(DATA))
    assert {one["aria-labelledby"] for one in sliders} <= named
    scopes = [attributes.get("scope") for tag, attributes, _ in tree.elements if tag == "th"]
    assert set(scopes) == {"col", "row"}
    stops = [json.loads(attributes["data-stops"]) for tag, attributes, _ in tree.elements if tag == "figure"]
    assert [[tuple(stop) for stop in one] for one in stops] == [list(one.stops) for one in figures(DATA)]


def test_the_page_says_how_to_repeat_it_and_what_follows():
    tree = parsed(page(DATA))
    assert tree.text["code"] == "streamcal report 'my clicks.csv'"
    for sentence in DATA.sentences:
        assert sentence in html.unescape(page(DATA))
    for name, one in FOUND.standings.items():
        assert name in tree.text["dt"]
        assert one.shown in tree.text["dd"]
    assert "<pre" not in page(prepared(FOUND))


def test_colours_follow_the_system_and_lines_differ_without_them():
    text = page(DATA)
    assert "prefers-color-scheme:dark" in text
    assert "color-scheme:light dark" in text
    patterns = re.findall(r"\.line\.c\d\{stroke-dasharray:([^}]*)\}", text)
    assert len(patterns) == len(set(patterns)) == MOST_SERIES - 1  # and one line without


def test_names_from_outside_are_only_text(tmp_path):
    evil = tmp_path / "<script>alert(1)<!--&quot;'.csv"
    evil.write_text("score,y\n" + "0.2,0\n0.8,1\n" * 30)
    found = compare(str(evil), label="y", methods={"<b onclick='x'>\"&": FOUND._calibrators["ops"]})
    text = page(prepared(found, command="</script><script>x"))
    tree = parsed(text)
    assert [tag for tag, _, _ in tree.elements].count("script") == 1
    assert tree.text["script"] == SCRIPT
    assert not any(tag == "b" for tag, _, _ in tree.elements)
    assert "<script>alert(1)<!--&quot;'.csv" in tree.text["h1"]


@pytest.mark.full
def test_the_page_stays_small_however_long_the_stream_and_many_the_alarms():
    rng = np.random.default_rng(2)
    scores = np.round(rng.random(60_000), 6)
    wrong = compare(
        (np.where(rng.random(60_000) < 0.5, 0.0, scores), rng.random(60_000) < 0.5), methods=["ops", "tracking-ops"]
    )
    assert wrong.history.alarms_in_all["raw"] > 1_000
    assert len(page(prepared(wrong))) < LARGEST / 4


def test_short_streams_and_one_label(tmp_path):
    for scores, y in (([0.5], [1]), ([0.2, 0.3], [0, 0]), ([0.0, 1.0], [0, 1])):
        parsed(page(prepared(compare((scores, y), methods=["ops"]))))
    with pytest.raises(InputError, match="no row was compared"):
        save_report(compare(([], []), methods=["ops"]), tmp_path / "empty.html")


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my clicks.csv"
    rng = np.random.default_rng(1)
    path.write_text(
        "score,click\n" + "".join(f"{p},{int(rng.random() < p * p)}\n" for p in np.round(rng.random(900), 3))
    )
    return path


def test_report_and_compare_write_the_same_page(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--score", "score", "--label", "click", "--methods", "ops,isotonic", "--delay", "2")
    result = program("report", file, *options)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "my clicks.csv.html"
    text = (tmp_path / "my clicks.csv.html").read_text(encoding="utf-8")
    command = f"streamcal report '{file}' --score score --label click --methods ops,isotonic --delay 2"
    assert parsed(text).text["code"] == command
    assert program("compare", file, *options, "--html", tmp_path / "other.html").exit_code == 0
    other = (tmp_path / "other.html").read_text(encoding="utf-8")
    timed = r"<td>[^<]*</td><td>[^<]*B</td>|No difference[^<]*"
    assert re.sub(timed, "", text) == re.sub(timed, "", other)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("stream", "name"), [(".", "day"), ("../day/", "day"), ("*.csv", "stream")])
def test_a_report_has_the_name_of_the_folder(file, tmp_path, monkeypatch, stream, name):
    (tmp_path / "day").mkdir()
    file.rename(tmp_path / "day" / "clicks.csv")
    monkeypatch.chdir(tmp_path / "day")
    result = program("report", stream, "--score", "score", "--label", "click", "--methods", "ops")
    assert result.stdout.splitlines()[-1] == f"{name}.html"
    assert sorted(one.name for one in (tmp_path / "day").iterdir()) == ["clicks.csv", f"{name}.html"]


def test_a_report_that_cannot_be_written_is_said_before_the_stream_is_read(file, tmp_path):
    for command in ("report", "compare"):
        result = program(command, file, "--score", "score", "--label", "click", "--html", tmp_path / "no" / "r.html")
        assert "the report cannot be written" in the_line(result)
        result = program(command, file, "--score", "score", "--label", "click", "--html", file)
        assert "the report would overwrite the stream" in the_line(result)
        given = ("--on-error", "skip", "--rejects", tmp_path / "r", "--html", tmp_path / "r")
        result = program(command, file, "--score", "score", "--label", "click", *given)
        assert "the report would overwrite another file" in the_line(result)
    assert file.read_text().startswith("score,click\n")


def test_an_interrupted_comparison_has_a_report(tmp_path):
    interrupted = Comparison(["ops"])

    def stop(found, share):
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        opened(([0.2, 0.7] * 150, [0, 1] * 150), Columns("score", "y")) as source,
    ):
        interrupted.run(source, progress=stop)
    save_report(interrupted, tmp_path / "report.html")
    assert parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
