"""Pages of the site in a real Chromium, under axe-core: five pages, narrow and wide, light and dark, by keyboard."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from chromium import CHROMIUM, Browser
from test_browser import AXE, FINDING, PICTURES, TAB, needs_axe

ROOT = Path(__file__).parents[1]
#: A folder in which the site has been built already.
BUILT = os.environ.get("STREAMCAL_SITE")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium)"),
    pytest.mark.skipif(
        not BUILT and importlib.util.find_spec("mkdocs") is None, reason='the site is an extra: pip install ".[docs]"'
    ),
]
PAGES = ("", "tutorial/", "examples/", "methods/", "command_line_rules/")
WIDTHS = (400, 1280)
#: What has the focus: its name, and whether that it has it is to be seen.
FOCUS = """(() => {
const one = document.activeElement, style = getComputedStyle(one);
return [one.tagName, one.textContent.trim().slice(0, 40), style.outlineStyle !== "none" || style.boxShadow !== "none"];
})()"""
#: Levels of the headings of the page itself, in order.
HEADINGS = "[...document.querySelectorAll('article :is(h1, h2, h3, h4)')].map(one => +one.tagName[1])"


class Quiet(SimpleHTTPRequestHandler):
    """A file server that logs nothing and answers 404 with the page of the site, as web hosts do."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the address of the site."""
    folder = BUILT or str(tmp_path_factory.mktemp("site"))
    if not BUILT:
        command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened_browser:
        # The theme keeps the scheme of the page before. Clearing is not enough: that page may write after it.
        forget = "Storage.prototype.getItem = () => null"
        opened_browser.call("Page.addScriptToEvaluateOnNewDocument", source=forget)
        yield opened_browser


def opened(browser, address, width, dark):
    """Open a page, and wait until its script has chosen the scheme that the system prefers."""
    browser.open(address, width, dark=dark)
    until = time.monotonic() + 60.0  # only a failure takes so long
    while browser.value("document.body.dataset.mdColorScheme") != ("slate" if dark else "default"):
        assert time.monotonic() < until, f"{address} has not followed the system"


@pytest.mark.parametrize("page", [*PAGES, "404.html"], ids=lambda page: page.strip("/") or "index")
def test_a_page_fits_and_logs_no_error(browser, site, page):
    for width in WIDTHS:
        for dark in (False, True):
            opened(browser, site + page, width, dark)
            assert browser.errors == []
            assert browser.value("document.documentElement.scrollWidth") <= width
            levels = browser.value(HEADINGS)
            assert levels[0] == 1
            assert levels.count(1) == 1
            assert all(after - before <= 1 for before, after in pairwise(levels)), levels
            assert browser.value("[...document.images].every(one => one.alt && one.naturalWidth > 0)"), page
            if PICTURES:
                name = (
                    f"site-{page.strip('/').replace('.html', '') or 'index'}-{width}-{'dark' if dark else 'light'}.png"
                )
                browser.picture(Path(PICTURES) / name)


def test_the_keyboard_reaches_the_text_first(browser, site):
    """Tab shows a link past the navigation, and every link of the text shows its focus."""
    browser.open(site + "tutorial/", 1280)
    browser.press(*TAB)
    tag, text, seen = browser.value(FOCUS)
    assert (tag, text, seen) == ("A", "Skip to content", True)
    browser.value("document.activeElement.click()")
    browser.press(*TAB)
    assert browser.value("document.querySelector('article').contains(document.activeElement)")
    assert browser.value(FOCUS)[2]


def test_the_card_is_named_on_every_page_and_is_there(browser, site):
    for page in PAGES:
        browser.open(site + page, 1280)
        address = browser.value("new URL(document.querySelector('meta[property=\"og:image\"]').content, location).href")
        assert browser.value(f"fetch({address!r}).then(answer => answer.status)") == 200


def test_a_page_that_is_not_there_leads_on(browser, site):
    browser.open(site + "404.html", 400)
    for address in browser.value("[...document.querySelectorAll('article a')].map(one => one.href)"):
        assert browser.value(f"fetch({address!r}).then(answer => answer.status)") == 200, address


@needs_axe
@pytest.mark.parametrize("page", [*PAGES, "404.html"], ids=lambda page: page.strip("/") or "index")
def test_axe_finds_nothing(browser, site, page):
    for width in WIDTHS:
        for dark in (False, True):
            opened(browser, site + page, width, dark)
            browser.value(f"{AXE.read_text(encoding='utf-8')};0")
            found = browser.value(f"axe.run(document).then(all => all.violations.map({FINDING}))")
            assert found == [], (width, dark)
