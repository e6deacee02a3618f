"""Tables of methods, advice and samples in README.md and docs/ say what is so, and links lead somewhere.

Their code is run by test_pages.py.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from streamcal import REGISTRY, fusion, multiclass, regression
from streamcal.app.cli import app
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.lazy import ALIASES

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"
METHODS = DOCS / "methods" / "index.md"
#: A test where it is defined, and where a page names it.
TEST, NAMED = re.compile(r"def (test_\w+)"), re.compile(r"`(test_\w+)`")
ON_THE_SAMPLE = ("ads.md", "command_line.md", "compare.md", "late_labels.md")


def test_the_readme_is_two_screens_and_says_how_to_begin():
    text = README.read_text(encoding="utf8")
    assert len(text.splitlines()) <= 120
    for needed in (
        'pip install ".[plot]" && streamcal demo',
        'pip install ".[test]" && pytest',
        "docs/demo.png",
        "silent",
        "Python 3.11 or later",
    ):
        assert needed in " ".join(text.split())
    pictures = sum((README.parent / name).stat().st_size for name in re.findall(r"!\[.*?\]\((.*?)\)", text))
    assert pictures < 300_000, "light enough for a page that everybody loads"


def commands(page):
    """Return the commands of a page that are typed one after another."""
    fences = "".join(re.findall(r"^```bash\n((?:.*\n)*?)```$", page.read_text(encoding="utf8"), re.MULTILINE))
    return [line for line in fences.replace("\\\n", " ").splitlines() if line.startswith("streamcal ")]


@pytest.mark.parametrize(
    "page",
    [README, *(pytest.param(DOCS / name, marks=pytest.mark.full) for name in ON_THE_SAMPLE)],
    ids=lambda page: page.stem,
)
def test_the_first_answer_on_the_sample_is_a_verdict(page, tmp_path, monkeypatch):
    """Someone who tries the commands of a page sees what calibration is worth."""
    monkeypatch.chdir(tmp_path)
    answers = []
    for line in commands(page):
        command, *words = shlex.split(line, comments=True)[1:]
        if command in ("sample", "run", "compare", "report"):
            result = CliRunner().invoke(app, [command, *words])
            assert result.exit_code == 0, result.output
            answers += re.findall(r"^(Calibration is|Take|Keep|Undecided)", result.stdout, re.MULTILINE)[:1]
    assert answers
    assert set(answers) <= {"Calibration is", "Take"}


@pytest.mark.full
def test_the_sample_of_a_run_is_what_it_prints():
    text = (DOCS / "command_line.md").read_text(encoding="utf8")
    if "STREAMCAL_DATA" not in os.environ:
        pytest.skip("needs the folder of data STREAMCAL_DATA")
    stream = Path(os.environ["STREAMCAL_DATA"], "ipinyou_2997_test.csv.gz")
    (sample,) = (block for block in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL) if "calibrated  " in block)
    result = CliRunner().invoke(app, ["run", str(stream), "--score", "pctr", "--label", "click"])
    assert sample in result.stdout


@pytest.fixture
def tables(monkeypatch):
    pytest.importorskip("clarabel", reason="the method rpr is an extra")
    monkeypatch.syspath_prepend(README.parent / "tools")
    spec = importlib.util.spec_from_file_location("generate", README.parent / "tools" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_registries(tables, capsys):
    assert tables.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "begins"),
    [("methods/index.md", "| `platt` |"), pytest.param("which.md", "├─ yes ─ online-platt", marks=pytest.mark.full)],
)
def test_a_table_that_says_something_else_is_found_and_put_right(tables, tmp_path, monkeypatch, name, begins):
    text = (DOCS / name).read_text(encoding="utf8")
    copy = tmp_path / name
    copy.parent.mkdir(exist_ok=True)
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    monkeypatch.setattr(tables, "PAGES", {name: tables.PAGES[name]})
    row = next(line for line in text.splitlines() if line.startswith(begins))
    for wrong in (
        text.replace(row + "\n", ""),
        text.replace(row, row.replace("yes", "no")),
        text.replace(row, row * 2),
    ):
        copy.write_text(wrong, encoding="utf8")
        assert tables.main(["--check"]) == 1
        assert copy.read_text(encoding="utf8") == wrong, "to check changes nothing"
        assert tables.main([]) == 0
        assert copy.read_text(encoding="utf8") == text
    copy.write_text(text.replace("<!-- end of methods -->", ""), encoding="utf8")
    assert tables.main(["--check"]) == 1


def test_the_chart_follows_from_the_standings(tables, monkeypatch):
    """Its ends are computed anew, in another way, from the losses and from what the methods say of themselves."""
    import race_advice

    ends = re.findall(r"(yes|no) ─+ (\S+)$", race_advice.chart(), flags=re.MULTILINE)
    assert [name for _, name in ends] == ["online-platt", "venn-abers", "bernstein", "bernstein", "auto"]
    found, standings = race_advice.held_out(), race_advice.race()

    def best(*needs):
        """Return the method with the lowest mean rank."""
        able = [name for name in found.methods if name != "identity" and all(need(name) for need in needs)]
        losses = np.array([[row[found.methods.index(name)] for name in able] for row in found.values])
        ranks = (losses[:, :, None] > losses[:, None, :]).sum(axis=2) + 0.5 * (
            losses[:, :, None] == losses[:, None, :]
        ).sum(axis=2)
        return able[int(ranks.mean(axis=0).argmin())]

    def monotone(name):
        return REGISTRY[name].monotone

    def additive(name):
        return REGISTRY[name]().merges and REGISTRY[name]().unlearns

    assert best(lambda name: standings[name].microseconds <= race_advice.FAST) == "online-platt"
    assert best(lambda name: REGISTRY[name].has_interval) == "venn-abers"
    assert best(additive) == best(additive, monotone) == best(monotone) == "bernstein"
    assert best() == "auto"
    slow = {name: standing._replace(microseconds=9.0) for name, standing in standings.items()}
    for name in ("tracking-ops", "isotonic"):
        slow[name] = slow[name]._replace(microseconds=1.0)
    monkeypatch.setattr(race_advice, "race", lambda: slow)
    assert "yes ─ tracking-ops" in race_advice.chart(), "with other times another method is the fast one"


def test_the_advice_is_that_of_the_committed_results(tables, tmp_path, monkeypatch):
    """What is recommended for rare events loses to the raw score nowhere, and other results give other advice."""
    import race_advice

    advised = {row[0]: row[1] for row in race_advice.rows()[1:]}
    assert advised["nothing else: the default"] == f"`{DEFAULT_METHOD}`"
    rare, method = advised[race_advice.RARE], advised[race_advice.RARE].strip("`")
    assert race_advice.against_raw(method).endswith(" / 0"), f"{rare} is nowhere decidedly worse than the score"
    assert race_advice.against_raw("venn-abers") == "2 / 2 / 1"
    for name in ("race.md", "rare_events.md", "race/held_out.md"):
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text((race_advice.DOCS / name).read_text(encoding="utf-8"), encoding="utf-8")
    page.write_text(
        page.read_text(encoding="utf-8").replace("| auto |", "| swap |").replace("| tracking-ops |", "| auto |")
    )
    monkeypatch.setattr(race_advice, "DOCS", tmp_path)
    assert race_advice.rows()[1][1] == "`online-platt`", "the losses of another method stand where those of auto stood"


SAID_OF_RARE_EVENTS = re.compile(
    r"(choose|use|recommend|best|good)[^.]{0,80}self-consistent|click rates?[^.]{0,40}self-consistent"
)


@pytest.mark.parametrize("folder", ["docs", "streamcal", "examples", "benchmarks"])
def test_nothing_recommends_what_loses_to_the_score_on_rare_events(folder):
    """The self-consistent point of Venn-Abers has a higher log loss than the score on three of five ad streams."""
    for path in [README, *(README.parent / folder).rglob("*.*")]:
        if path.suffix in (".md", ".py"):
            text = " ".join(path.read_text(encoding="utf-8").split())
            assert not SAID_OF_RARE_EVENTS.search(text), path


@pytest.mark.parametrize("streams", [4, 12])
def test_the_confidence_of_advice_is_that_of_resampled_streams(tables, streams):
    """Of two methods one is better on three quarters of the streams: a binomial number of the others is drawn."""
    import race_advice

    names = [f"stream {k // 2}" for k in range(2 * streams)]  # two courses each
    losses = np.array([[0.2, 0.1] if k % 4 == 0 else [0.1, 0.2] for k in range(streams)]).repeat(2, axis=0)
    found = race_advice.first(race_advice.Losses(names, ["good", "fair"], losses))
    assert (found.method, found.second, found.rank) == ("good", "fair", 1.25)
    expected = binom.cdf(streams / 2, streams, 0.25)  # with a tie it is first as well
    # four standard errors of the share of 10,000 resamples
    assert found.confidence == pytest.approx(expected, abs=4.0 * math.sqrt(expected * (1.0 - expected) / 10_000))


def test_every_method_is_in_a_table():
    text = METHODS.read_text(encoding="utf8")
    for methods in (REGISTRY, fusion.METHODS, multiclass.METHODS, regression.METHODS):
        for name, method in methods.items():
            assert f"| `{name}` | `{method.__name__}` | {method.summary} |" in text


def test_pages_call_methods_by_their_names():
    """Abbreviations of papers are in the table of aliases of docs/methods/index.md, and nowhere else."""
    names = {*REGISTRY, *fusion.METHODS, *multiclass.METHODS, *regression.METHODS}
    table = METHODS.read_text(encoding="utf8").partition("## Short names")[2]
    assert dict(re.findall(r"^\| `([\w-]+)` \| `([\w-]+)` \|$", table, re.MULTILINE)) == ALIASES
    alias = "|".join(sorted(set(ALIASES) - names))
    for page in {README, *DOCS.glob("**/*.md")} - {METHODS, *DOCS.glob("papers/*.md")}:
        found = re.search(rf"[`\"]({alias})[`\"]|^\| ({alias}) \|", page.read_text(encoding="utf8"), re.MULTILINE)
        assert found is None, f"{page.name}: {found}"


@pytest.mark.parametrize("page", [README, *sorted(README.parent.glob("docs/**/*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_tests_that_pages_name_exist():
    defined = {name for path in Path(__file__).parent.rglob("*.py") for name in TEST.findall(path.read_text("utf-8"))}
    named = {name for page in [README, *DOCS.rglob("*.md")] for name in NAMED.findall(page.read_text("utf-8"))}
    assert named
    assert not named - defined
