"""Pages of the site in a real Chromium, under axe-core: five pages, narrow and wide, light and dark, by keyboard."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import zlib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from chromium import CHROMIUM, Browser
from test_browser import AXE, FINDING, PICTURES, TAB, needs_axe

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

import style  # noqa: E402 - it is no package

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


#: What `mike` writes beside the folders of the versions, one of which is served here.
VERSIONS = [
    {"version": "0.2", "title": "0.2", "aliases": ["latest"]},
    {"version": "0.1", "title": "0.1", "aliases": []},
]


class Quiet(SimpleHTTPRequestHandler):
    """A file server of one version, at /0.2/, that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/0.2"))

    def do_GET(self) -> None:
        if self.path != "/versions.json":
            super().do_GET()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(VERSIONS).encode())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the address of the site."""
    folder = BUILT or str(tmp_path_factory.mktemp("site"))
    if not BUILT:
        command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/0.2/"
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


def test_every_public_name_and_its_methods_are_on_a_page(site):
    """The inventory of the site has them, as other projects' documentation would link to them."""
    content = urllib.request.urlopen(site + "objects.inv").read().split(b"\n", 4)[4]
    shown = {line.split()[0] for line in zlib.decompress(content).decode().splitlines()}
    missing = []
    for module in style.PUBLIC:
        for value in style.public_names(module):
            name = f"{value.__module__}.{value.__qualname__}"
            methods = [one for one in dir(value) if inspect.isclass(value) and not one.startswith("_")]
            of_ours = [one for one in methods if is_ours(value, one)]
            missing += [one for one in (name, *(f"{name}.{one}" for one in of_ours)) if one not in shown]
    assert not missing


def is_ours(cls, name):
    """Return whether the class, or one of ours that it inherits from, defines a method or property of this name."""
    owner = next(base for base in cls.__mro__ if name in vars(base))
    value = vars(owner)[name]
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    return owner.__module__.startswith("streamcal") and inspect.isfunction(value)


def test_other_versions_are_offered(browser, site):
    """The list of versions is that of `mike`, and leads to the same page of another version."""
    browser.open(site + "tutorial/", 1280)
    versions = "[...document.querySelectorAll('.md-version__link')].map(one => [one.textContent.trim(), one.href])"
    until = time.monotonic() + 60.0  # only a failure takes so long
    while not browser.value(versions):
        assert time.monotonic() < until
    assert [text.split()[0] for text, _ in browser.value(versions)] == ["0.2", "0.1"]


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
