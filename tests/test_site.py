"""The site: every page is in it, and what it says of methods is about methods that there are."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path

import pytest

from streamcal import REGISTRY, fusion, multiclass, regression
from streamcal.lazy import PACKAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture
def notes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    return importlib.import_module("notes")


def test_notes_are_about_methods_in_the_order_of_their_list(notes):
    rooms = {
        "ONE_SCORE": REGISTRY,
        "FUSION": fusion.METHODS,
        "MULTICLASS": multiclass.METHODS,
        "REGRESSION": regression.METHODS,
    }
    for room, methods in rooms.items():
        found = getattr(notes, room)
        assert list(found) == [name for name in methods if name in found], room
        for note in found.values():
            assert all(text.endswith(".") for text in note)
            assert not any(re.search(r"\d µs|\d calibrators", text) for text in note), "the page has its measured cost"


@pytest.mark.full
def test_every_method_has_a_picture_of_what_it_learned(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    pictures = importlib.import_module("pictures")
    for module, name in (
        ("streamcal", "venn-abers"),
        ("streamcal.fusion", "logistic-fusion"),
        ("streamcal.multiclass", "online-vector-scaling"),
        ("streamcal.regression", "scale-recalibration"),
    ):
        cal = pictures.learned(module, name)
        assert cal.n == pictures.rows_of(module, name)
        assert pictures.drawn(module, name, cal).startswith(b"\x89PNG")
        assert f"({name}.png)" in pictures.captioned(module, name)


#: Public data of the package, which pages have no use for.
UNNAMED = {"BANK_ROWS", "SAVED", "__version__"}
#: Packages whose names are not in `streamcal.lazy`.
OTHERS = ("streamcal.datasets", "streamcal.river", "streamcal.river.metrics", "streamcal.sklearn")


@pytest.mark.parametrize("package", [*PACKAGES, *OTHERS])
def test_every_public_name_is_on_a_page_by_hand(package):
    """What `tools/generate.py` writes from the lists of methods does not count."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *DOCS.rglob("*.md"))]
    by_hand = [re.sub(r"<!-- methods: .*?<!-- end of methods -->", "", text, flags=re.DOTALL) for text in texts]
    words = {word for text in by_hand for word in re.findall(r"\w+", text)}
    assert set(importlib.import_module(package).__all__) - words - UNNAMED == set()


def test_the_tables_of_performance_are_about_methods_that_there_are():
    """The site reads the cost of a method from there; `python -m benchmarks.methods` measures all of the lists."""
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    costs = [
        re.findall(r"^\| `(.+?)` \|", text.split(f"<!-- benchmarks: {kind} -->")[1].split("<!-- end")[0], re.M)
        for kind in ("methods", "rooms")
    ]
    assert set(costs[0]) <= set(REGISTRY)
    others = (fusion.METHODS, multiclass.METHODS, regression.METHODS)
    classes = {method.__name__ for methods in others for method in methods.values()}
    assert {row.partition("(")[0] for row in costs[1]} <= classes
    assert costs[0]
    assert costs[1]


def test_the_gallery_has_every_example_with_its_picture():
    """`tests/test_examples.py` runs them; `python -m benchmarks.gallery` draws the pictures from what they print."""
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(examples/(\w+)\.png\)", page)
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    for name in shown:
        assert f"(../examples/{name}.py)" in page
        assert (DOCS / "examples" / f"{name}.png").stat().st_size < 120_000


def linked(name):
    """Return the pages to which a page links."""
    return set(re.findall(r"\]\(([\w/]+\.md)", (DOCS / name).read_text(encoding="utf-8")))


def test_the_first_page_links_to_all_others_but_results():
    """These are in a list of their own, which is one click further."""
    results = {path.name for path in DOCS.glob("*_measured.md")} | {"performance.md", "race.md", "rare_events.md"}
    assert {path.name for path in DOCS.glob("*.md")} - {"index.md"} - results <= linked("index.md")
    assert results <= linked("results.md")
    papers = {f"papers/{path.name}" for path in DOCS.glob("papers/*.md")}
    further = {f"papers/{name}" for page in papers for name in linked(page)}
    assert papers <= linked("results.md") | further, "of two papers further tables have a page of their own"


#: A number, with commas between thousands.
NUMBER = r"[-+]?(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?"


def numbers(text):
    return [float(found.replace(",", "")) for found in re.findall(NUMBER, text)]


def table(page, after=""):
    """Return the rows of the first table after a text, each a dict of column → cell; the first column is "row"."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), text[text.index(after) :].splitlines())
    cells = [
        re.split(r" *(?<!\\)\| *", line)[1:-1] for line in itertools.takewhile(lambda line: line.startswith("|"), lines)
    ]
    return [dict(zip(("row", *cells[0][1:]), row, strict=True)) for row in cells[2:]]


def column(page, name, after=""):
    """Return the first number in each cell of a column."""
    return [numbers(row[name])[0] for row in table(page, after)]


def cell(page, name, *said, after=""):
    """Return the numbers in a cell of the first row whose cells contain these texts."""
    return numbers(next(row for row in table(page, after) if all(text in row.values() for text in said))[name])


def drift():
    reached = {row["row"]: numbers(row["reached"]) for row in table("race", "## The goals")}
    rank = "best mean rank in log loss, {} streams"
    return {"1.5": reached[rank.format("development")][0], "2.4": reached[rank.format("held-out")][0]}


def where_it_loses():
    worse = "nowhere more than 0.002 nats worse than {}, held-out streams"
    return {
        figure: cell("race", "reached", worse.format(other), after="## The goals")[0]
        for figure, other in (("0.0165", "the raw score"), ("0.064", "`online-platt`"))
    }


def abrupt():
    goal = "generators: at least 40 % of the gap closed, median of the settings, held-out streams"
    at_0, _, at_48, early, at_1000, late, *_ = cell("race", "reached", goal, after="## The goals")  # of all draws
    return {"23": at_0, "18": at_48, "48": early, "3": at_1000, "1,000": late}


def rare():
    ratios = column("rare_events", "`auto`", "Predicted over observed clicks")
    losses = column("rare_events", "`auto`", "Log loss minus that of the raw score")
    assert not any("worse" in row["`auto`"] for row in table("rare_events", "Log loss minus that of the raw score"))
    assert sorted(losses)[-1] == 0.0, "the fifth is level"
    return {"4": sum(loss < 0.0 for loss in losses), "5": len(losses), "0.98": min(ratios), "1.14": max(ratios)}


def in_segments():
    sums, late = column("segments_measured", "`Segmented`"), column("segments_measured", "nats", "<!-- late -->")
    gains = [-nats for nats in sums if nats < 0.0]
    counts = {"10": len(gains), "11": len(sums)}
    return {"18": min(gains), "366": max(gains), "7": -max(late), "1,442": -min(late), **counts}


def in_every_group():
    streams = table("multicalibration_measured", "<!-- streams -->")
    ends = [numbers(row[r"\|z\| at the end, mean (most)"])[-1] for row in streams]
    return {"5.8": max(ends), "0.88": max(numbers(row["log loss, mean (most)"])[-1] for row in streams)}


def late_clicks():
    join = "`Auto()`, `LabelJoin(…, horizon)`: both at the horizon"
    early = "`Auto()`, `LabelJoin(…, horizon, early)`"
    before, after = "12 to 36 h", "6 h after the jump"
    places = {"1.11": (before, join), "1.02": (before, early), "0.58": (after, join), "0.77": (after, early)}
    return {figure: cell("late_labels_measured", name, row, "steady")[0] for figure, (name, row) in places.items()}


def speed():
    methods = {"0.22": "online-platt", "4.7": "auto", "3.9": "venn-abers"}
    return {
        figure: cell("performance", "1,000,000", f"`{name}`", after="<!-- benchmarks: methods -->")[0]
        for figure, name in methods.items()
    }


def many_classes():
    more, share = [], []
    for stream in ("## Cover types", "## Image segments"):
        online, best = (
            [cell("many_classes_measured", name, f"`{method}`", after=stream)[0] for name in ("log loss", "µs a row")]
            for method in ("OnlineVectorScaling", "StructuredMatrixScaling")
        )
        assert best[0] == min(column("many_classes_measured", "log loss", stream))
        more.append(online[0] - best[0])
        share.append(100.0 * online[1] / best[1])
    return {"0.02": min(more), "0.05": max(more), "2": min(share), "6": max(share)}


#: The figures of each line of docs/results.md, computed from the tables to which the line links.
RESULTS = (
    drift, where_it_loses, abrupt, rare, in_segments, in_every_group, late_clicks, speed, many_classes, dict,
)  # fmt: skip


@pytest.mark.parametrize("place", range(len(RESULTS)))
def test_results_in_ten_lines_are_those_of_their_pages(place):
    """Figures that are no results, such as delays and numbers of streams, are on the page as they are on the line."""
    text = (DOCS / "results.md").read_text(encoding="utf-8").partition("## All pages")[0]
    _, *lines = re.split(r"^\d+\. ", text, flags=re.MULTILINE)
    assert len(lines) == len(RESULTS)
    pages = "".join((DOCS / page).read_text("utf-8") for page in re.findall(r"\]\(([\w/]+\.md)", lines[place]))
    line = re.sub(r"\]\([^)]*\)|·10⁻⁴", "", lines[place]).replace("10⁶", "1,000,000")
    found, shown = RESULTS[place](), re.findall(NUMBER, line)
    assert set(found) <= set(shown)
    for figure in shown:
        if figure in found:
            digits = len(figure.partition(".")[2])
            assert f"{found[figure]:,.{digits}f}" == figure, f"the page has {found[figure]}"
        else:
            assert float(figure.replace(",", "")) in numbers(pages), figure


def test_the_results_of_the_first_page_are_among_the_ten_lines():
    ten = {
        name: text
        for name, text in re.findall(
            r"^\d+\. \*\*(.+?)\*\*(.*?)(?=^\d+\. |^## )", (DOCS / "results.md").read_text("utf-8"), re.M | re.S
        )
    }
    first = (DOCS / "index.md").read_text(encoding="utf-8").partition("## Results")[2].partition("\n## ")[0]
    shown = re.findall(r"^- \*\*(.+?)\*\*(.*?)(?=^- |^$)", first, re.M | re.S)
    assert len(shown) == 5
    for name, text in shown:
        assert set(numbers(text)) <= set(numbers(ten[name])), name


def test_about_twenty_pages_are_written_for_users():
    """A new page replaces another one, or becomes a section: more cannot be surveyed."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    pages = re.findall(r"([\w/]+\.md)", text.partition("- Methods:")[0])
    assert 20 <= len(pages) <= 24


def goals():
    """Return the table of docs/testing.md: goal → promise on the first page, clicks, pages, words of the answer."""
    table = (DOCS / "testing.md").read_text(encoding="utf-8").partition("## The way in\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {
        goal: (promise, int(clicks), re.findall(r"`(\w+\.md)`", pages), answer.strip("`"))
        for goal, promise, clicks, pages, answer in rows[1:]
    }


def test_an_answer_is_at_most_two_clicks_away():
    found = goals()
    assert len(found) >= 15
    for goal, (promise, clicks, path, answer) in found.items():
        page = DOCS / "index.md"
        assert promise in page.read_text(encoding="utf-8"), goal
        assert len(path) == clicks <= 2, goal
        for name in path:
            assert f"]({name}" in page.read_text(encoding="utf-8"), f"{page.name} has no link to {name}"
            page = DOCS / name
        assert answer in page.read_text(encoding="utf-8"), goal


@pytest.mark.full
def test_every_public_name_is_in_the_reference(monkeypatch):
    """Its methods are found in the built site, by `test_site_browser.py`."""
    pytest.importorskip("mkdocs", reason="the site is an extra")
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    monkeypatch.syspath_prepend(ROOT / "tools")
    hooks, style = importlib.import_module("hooks"), importlib.import_module("style")
    text = "".join(hooks._reference_pages().values())
    for module in style.PUBLIC:
        for value in style.public_names(module):
            linked = f"## {value.__name__}\n\nSee [" in text
            assert linked or f"::: {value.__module__}.{value.__qualname__}\n" in text, value


def test_every_page_is_in_the_navigation():
    """Those of docs/papers and docs/race are found by the site itself, or linked from their page."""
    named = set(re.findall(r"([\w/]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {name for name in named if "/" not in name} == {path.name for path in DOCS.glob("*.md")}


@pytest.mark.full
def test_parameters_named_together_have_their_own_types(monkeypatch):
    griffe = pytest.importorskip("griffe", reason="the site is an extra")
    monkeypatch.syspath_prepend(ROOT / "tools" / "site")
    extensions = griffe.load_extensions(importlib.import_module("own_types").OwnTypes)
    quiet = {"warnings": False}
    package = griffe.GriffeLoader(
        search_paths=[ROOT], docstring_parser="numpy", docstring_options=quiet, extensions=extensions
    ).load("streamcal")
    assert "start" in package["calibrators.platt.Platt.solve"].docstring.value, "that of the method it overrides"
    found = package["fusion.copula.CopulaFusion"]
    (section,) = (one for one in found.docstring.parsed if one.kind is griffe.DocstringSectionKind.parameters)
    shown = {one.name: (str(one.annotation), str(one.value)) for one in section.value}
    assert shown["n_scores"] == ("int", "2")
    assert shown["forgetting"] == ("Forgetting", "Forever()")
    assert shown["limit"] == ("int or None", "1024"), "what the docstring says itself stays"
