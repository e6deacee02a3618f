"""The pages of `report`, `run --html` and `serve` in a real Chromium, where there is one, and under axe-core."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chromium import CHROMIUM, Browser
from serving_kills import free_port
from test_cli import program

from streamcal import compare
from streamcal.app.figures import figures
from streamcal.app.html_report import live_page, page
from streamcal.app.report_data import prepared
from streamcal.stream.comparing import Comparison

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        CHROMIUM is None, reason="NO BROWSER: no page was opened; install chromium (apt-get install chromium)"
    ),
]
#: Where the file of axe-core is; a path that somebody gives has to exist.
GIVEN = os.environ.get("STREAMCAL_AXE")
AXE = Path(GIVEN or Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js")
needs_axe = pytest.mark.skipif(
    not GIVEN and not AXE.exists(),
    reason="NO AXE: accessibility was not checked; npm install --no-save axe-core@4.14.1",
)
#: The width of a telephone, and that of a screen.
WIDTHS = (360, 1280)
#: A folder in which to keep pictures of the pages, for somebody to look at.
PICTURES = os.environ.get("STREAMCAL_PICTURES")
#: Focus each slider, move it, and point at a picture; what is then to be seen and heard.
PROBE = """(() => {
const found = {sliders: []};
for (const figure of document.querySelectorAll("figure")) {
  const slider = figure.querySelector("input");
  slider.focus();
  slider.value = 1;
  slider.dispatchEvent(new Event("input"));
  const cursor = figure.querySelector(".cursor");
  found.sliders.push({
    focused: document.activeElement === slider, said: figure.querySelector("output").textContent,
    spoken: slider.getAttribute("aria-valuetext"), shown: getComputedStyle(cursor).display !== "none",
    drawn: figure.querySelector("svg").getBoundingClientRect().height,
  });
}
const svg = document.querySelector("figure svg"), box = svg.getBoundingClientRect();
svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right, clientY: box.top + 5}));
found.pointed = document.querySelector("figure output").textContent;
found.paper = getComputedStyle(document.body).backgroundColor;
found.ink = getComputedStyle(document.body).color;
found.wide = document.documentElement.scrollWidth;
found.hints = [...document.querySelectorAll(".scrolls")].map(one => !one.hidden);
found.tables = Math.max(0, ...[...document.querySelectorAll(".scroll")].map(one => one.scrollWidth - one.clientWidth));
return found;
})()"""
#: What has the focus, and whether that is to be seen.
FOCUS = """(() => {
const one = document.activeElement, name = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby");
return [one.tagName, name, getComputedStyle(one).outlineStyle !== "none"];
})()"""
#: What is told of a violation.
FINDING = "one => [one.id, one.impact, one.help, one.nodes.map(node => node.html.slice(0, 200))]"
TAB, LEFT = ("Tab", 9), ("ArrowLeft", 37)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened_browser:
        yield opened_browser


@pytest.fixture(scope="module")
def segmented():
    """Return a page with tables and pictures of segments."""
    rng = np.random.default_rng(6)
    scores = np.round(rng.beta(1, 3, 900), 2)
    table = pd.DataFrame({"score": scores, "y": rng.random(900) < scores, "campaign": rng.integers(9, size=900)})
    return prepared(compare(table, label="y", methods=["ops"], segments=["campaign"]), command="streamcal report x.csv")


@pytest.fixture(scope="module")
def shown(tmp_path_factory, segmented):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(segmented), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, shown):
    """Name → address of a page of every kind."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(1)
    scores = np.round(0.02 * rng.random(2_700), 4)  # click rates, on logarithmic axes
    rows = "".join(f"{p},{int(rng.random() < 3 * p)},{'ab'[i % 2]}\n" for i, p in enumerate(scores))
    (folder / "clicks.csv").write_text(f"score,y,device\n{rows}")
    read = ("clicks.csv", "--score", "score", "--label", "y")
    for command in (
        ("compare", *read, "--methods", "ops,isotonic,online-beta", "--html", "compare.html"),
        ("run", *read, "--method", "ops", "--segment", "device", "--html", "run.html"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            made = program(*command)
            assert made.exit_code in (0, 1), made.output  # 1: no method is better than the score
    empty = Comparison(["ops"])
    empty.source = "the service"
    (folder / "empty.html").write_text(live_page(empty), encoding="utf-8")
    return {"report": shown, **{name: (folder / f"{name}.html").as_uri() for name in ("compare", "run", "empty")}}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Return the address of a `streamcal serve` that has learned a thousand labels."""
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    address = f"http://127.0.0.1:{(port := free_port())}/"
    options = ("--method", "ops", "--horizon", "1s", "--memory", "--log-level", "error", "--port", str(port))
    environment = {name: value for name, value in os.environ.items() if name != "STREAMCAL_TOKEN"}
    command = [sys.executable, "-P", "-m", "streamcal", "serve", *options]
    process = subprocess.Popen(command, cwd=tmp_path_factory.mktemp("live"), env=environment)
    try:
        when_it_is_there(f"{address}readyz", "ready")
        for path, rows in (
            ("v1/issue/batch", [{"id": k, "score": 0.001 * k} for k in range(1000)]),
            ("v1/outcome/batch", [{"id": k, "y": 1} for k in range(0, 1000, 3)]),
        ):
            content = json.dumps(rows).encode()
            posted = urllib.request.Request(address + path, content, {"Content-Type": "application/json"})
            with urllib.request.urlopen(posted, timeout=60.0) as answer:
                assert answer.status == 200
        when_it_is_there(f"{address}metrics", "streamcal_waiting 0.0")
        when_it_is_there(address, "1,000 rows")  # the first to ask, for the page stays for 10 s
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=60.0)


@pytest.fixture(params=["report", "compare", "run", "empty", "live"])
def address(request, addresses):
    """Return the address of one page after another."""
    return request.getfixturevalue("live") if request.param == "live" else addresses[request.param]


def when_it_is_there(address, text):
    """Wait until a page has a text."""
    until = time.monotonic() + 60.0  # only a failure takes so long
    found = ""
    while text not in found:
        assert time.monotonic() < until, f"{address} has {found[:200]!r}"
        try:
            with urllib.request.urlopen(address, timeout=20.0) as answer:
                found = answer.read().decode()
        except OSError:
            time.sleep(0.1)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_it(browser, shown, segmented, width):
    found = {}
    for dark in (False, True):
        browser.open(shown, width, dark=dark)
        found[dark] = browser.value(PROBE)
        assert browser.errors == []
        assert found[dark]["wide"] <= width, "nothing but the tables scrolls sideways"
        assert found[dark]["tables"] == 0 or width == WIDTHS[0], "a table is wider than a screen"
        assert found[dark]["hints"] == [width == WIDTHS[0]] * 2, "of a table that scrolls there is a hint"
        for slider, one in zip(found[dark]["sliders"], figures(segmented), strict=True):
            assert slider["focused"]
            assert slider["shown"]
            assert slider["said"] == slider["spoken"] == one.stops[1][1]
            assert slider["drawn"] > 200
        assert found[dark]["pointed"] == figures(segmented)[0].stops[-1][1]
        assert contrast(found[dark]["paper"], found[dark]["ink"]) >= 7.0  # AAA of WCAG 2
    assert found[True]["paper"] != found[False]["paper"]


def test_everything_is_reached_by_keyboard(browser, shown, segmented):
    browser.open(shown, 360)
    reached = []
    while not reached or reached[-1][0] != "BODY":
        browser.press(*TAB)
        reached.append(browser.value(FOCUS))
        assert len(reached) < 100, "the focus comes round"
    assert all(seen for _, _, seen in reached[:-1])
    tables = [["DIV", "Methods and their measures"], ["DIV", "Levels of campaign"]]
    sliders = [["INPUT", f"figure-{i}"] for i in range(len(figures(segmented)))]
    assert [one[:2] for one in reached] == [*tables, *sliders, ["PRE", None], ["BODY", None]]
    for _ in range(3):
        browser.press(*TAB)
    for stop in figures(segmented)[0].stops[-2:-4:-1]:  # it begins at the right end
        browser.press(*LEFT)
        assert browser.value("document.querySelector('figure output').textContent") == stop[1]


def test_every_page_fits_and_says_no_error(browser, address, request):
    name = request.node.callspec.params["address"]
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(address, width, dark=dark)
            assert browser.errors == []  # nothing either that the policy of the live page refuses
            assert browser.value("document.documentElement.scrollWidth") <= width
            expected = (
                0 if name == "empty" else len(browser.value("[...document.querySelectorAll('figure')].map(f => 0)"))
            )
            sliders = browser.value("[...document.querySelectorAll('figure input')].map(one => +one.max)")
            assert len(sliders) == expected
            assert all(most > 0 for most in sliders), "the script has set up each slider"
            if PICTURES:
                browser.picture(Path(PICTURES) / f"{name}-{width}-{'dark' if dark else 'light'}.png")


@needs_axe
def test_axe_finds_nothing(browser, address):
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(address, width, dark=dark)
            browser.value(f"{AXE.read_text(encoding='utf-8')};0")
            found = browser.value(f"axe.run(document).then(all => all.violations.map({FINDING}))")
            assert found == [], (width, dark)
    browser.value("document.querySelector('h1').outerHTML = '<img src=\"data:,\">'")  # it does look
    assert "image-alt" in browser.value("axe.run(document).then(all => all.violations.map(one => one.id))")


def contrast(one, other):
    """Return the contrast ratio of WCAG 2 of two colours rgb(r, g, b)."""

    def luminance(text):
        channels = [int(value) / 255 for value in re.findall(r"\d+", text)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
