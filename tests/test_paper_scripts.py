"""The scripts behind the figures of the documentation, shortened: they run, and agree with what they stand for.

Their full runs, minutes long in all, are made by hand and written to `docs/`.
"""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamcal

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("STREAMCAL_DATA", ROOT.parent / "shared" / "data"))


#: Port 1 of this machine has no proxy: whoever asks the network learns at once that there is none.
NO_NETWORK = {"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "no_proxy": ""}


def run(module, *arguments, data=DATA, cache=None):
    environment = {name: value for name, value in os.environ.items() if name != "STREAMCAL_DATA"}
    environment |= NO_NETWORK
    for variable, folder in (("STREAMCAL_DATA", data), ("XDG_CACHE_HOME", cache)):
        if folder is not None:
            environment[variable] = str(folder)
    # The streamcal of these tests, compiled or not, and not the source tree that the scripts are in.
    here = Path(streamcal.__file__).parents[1]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (here, ROOT)))
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def cells(text, name):
    """Return the numbers of the first table row that starts with `name`."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {name}"))
    return [
        float(cell.split("±")[0].replace(",", "")) for cell in row.split("|")[2:-1] if re.fullmatch(r"[\d.,± ]+", cell)
    ]


def pages():
    return {path: path.read_bytes() for path in (ROOT / "docs").rglob("*.md")}


needs_cdc = pytest.mark.skipif(
    not (DATA / "cdc_diabetes_brfss2015.csv.gz").exists(),
    reason="needs cdc_diabetes_brfss2015.csv.gz: set STREAMCAL_DATA to its folder",
)


@needs_cdc
def test_blog_001_shortened():
    """The script itself stops if learn_one and learn_many disagree."""
    before = pages()
    done = run("benchmarks.papers.blog_001", "--rows", "12000")
    assert done.returncode == 0, done.stderr
    for name in ("Platt", "Isotonic", "Bernstein (deg = 20)", "Bernstein (deg = 10)", "Bernstein logistic (deg = 10)"):
        ece, brier, log_loss = (cells(done.stdout, name)[i : i + 3] for i in (0, 3, 6))
        # 1,800 test rows: a standard error of .005 for the Brier score around its published .097, three of them
        assert brier[1] == pytest.approx(brier[0], abs=0.015)
        # streamcal against scikit-learn on the same margins; the polynomials differ in their scale only
        assert brier[1] == pytest.approx(brier[2], abs=0.001)
        assert ece[1] < 0.05, "the plain sigmoid has .31"
        assert log_loss[1] < 0.6
    ours, theirs = cells(done.stdout, "Isotonic")[1::3], cells(done.stdout, "Isotonic")[2::3]
    assert ours == theirs, "the isotonic fit knows no scale"
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.parametrize(
    ("script", "file"),
    [
        ("blog_001", "cdc_diabetes_brfss2015.csv.gz"),
        ("rpr_002", "adult_train.csv.gz"),
        ("venn_abers_003", "adult_train.csv.gz"),
    ],
)
def test_papers_say_what_they_need(script, file, tmp_path):
    done = run(f"benchmarks.papers.{script}", data=None, cache=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"{file} is not in {tmp_path / 'streamcal'}, and making it from https://archive.ics.uci"
    )
    assert f"Put it into {tmp_path / 'streamcal'} by hand" in done.stderr
    assert "or set STREAMCAL_DATA to the folder that has it" in done.stderr
    assert len(done.stderr.splitlines()) == 1, "no traceback"


def test_logistic_solvers_shortened():
    done = run("benchmarks.logistic_solvers", "--observations", "200", "--later", "2", data=None)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith(("| 10", "| 20"))]
    assert [row[2].strip(" *") for row in rows[:5]] == [row[2].strip(" *") for row in rows[5:]]
    for row in rows:
        if "active set" in row[2] or "cones" in row[2]:
            assert "*" not in row[2]
            assert float(row[-2]) < 1e-9


def test_fusion_solvers_shortened():
    done = run("benchmarks.fusion_solvers", "--observations", "40", data=None)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith(("| 1e-05", "| 0."))]
    assert len(rows) == 12
    for row in rows:
        assert float(row[-2]) < (1e-11 if "blocks" in row[2] else 1e-4)


def test_rare_events_shortened():
    before = pages()
    done = run("benchmarks.rare_events", "--rows", "4000", "--seeds", "3", data=None)
    assert done.returncode == 0, done.stderr
    events, log_minimax, brier_minimax, self_consistent, score_prior, *_ = cells(done.stdout, "synthetic, 0.5 %")
    assert events == 20.0
    # The finding itself, on the same three streams every time: seen 2.73, 2.78 and 1.33, each ± .15.
    assert log_minimax > 2.0
    assert brier_minimax > 2.0
    assert self_consistent < 2.0
    assert score_prior < 2.0
    assert cells(done.stdout, "synthetic, 50 %")[1] == pytest.approx(1.0, abs=0.1)  # 2,000 events: .02 of luck
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.parametrize("kind", [(), ("--pits",)])
def test_monitors_shortened(kind):
    pytest.importorskip("river")
    before = pages()
    done = run("benchmarks.monitors", "--streams", "3", *kind, data=None)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| `run_length=1e5` |")]
    # The large change: seen after 670 to 900 labels, and after 60 to 90 distributions.
    assert all(int(row[2].split("(")[0].replace(",", "")) < 2000 for row in rows)
    assert len(rows) > 0
    assert pages() == before, "a shortened run writes no page"


AD_STREAMS = ("ipinyou_2997_test", "ipinyou_1458_stream", "open_bandit_sample")


@pytest.mark.skipif(
    not all((DATA / f"{name}.csv.gz").exists() for name in AD_STREAMS),
    reason="needs the ad streams: set STREAMCAL_DATA to their folder",
)
def test_ad_streams_shortened():
    """On the first 2,000 rows of each stream: differences are those of the losses, and the score is no method."""
    done = run("benchmarks.ad_streams", "--rows", "2000")
    assert done.returncode == 0, done.stderr
    losses, differences, ratios = (part.splitlines()[2:] for part in done.stdout.split("\n\n"))
    assert len(losses) == len(differences) == len(ratios) == 5
    for row, difference in zip(losses, differences, strict=True):
        raw, *methods = (float(cell.strip(" *")) for cell in row.split("|")[2:-1])
        found = [float(re.match(r" *([+-][\d.]+)", cell)[1]) for cell in difference.split("|")[2:-1]]
        assert found == pytest.approx([loss - raw for loss in methods], abs=2e-6)  # two rounded figures


needs_adult_and_bank = pytest.mark.skipif(
    not all((DATA / f"{name}.csv.gz").exists() for name in ("adult_train", "adult_test", "bank_full")),
    reason="needs adult_train, adult_test and bank_full (.csv.gz): set STREAMCAL_DATA to their folder",
)


@needs_adult_and_bank
def test_rpr_002_shortened():
    before = pages()
    done = run("benchmarks.papers.rpr_002", "--rounds", "1", "--sizes", "200", "--quick", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    tables = done.stdout.split("\n\n")
    for eces, mces in (tables[:2], tables[2:4]):
        for name in ("Platt", "HistBin", "IsoReg", "RPR"):
            (printed_ece, ece), (printed_mce, mce) = cells(eces, name)[:2], cells(mces, name)[:2]
            assert printed_mce < printed_ece, "the finding: what is printed as a maximum is below the mean"
            assert ece <= mce
            assert ece < 20.0
        assert cells(eces, "calibrated, but for luck")[0] < 2.0
    # Experiment 1 is the same data in every run: a smooth monotone map beats steps and the sigmoid, as in Figure 2.
    ece = {name: cells(tables[4], name)[0] for name in ("Platt", "HistBin", "IsoReg", "RPR")}
    assert ece["RPR"] == min(ece.values())
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.skipif(
    not (DATA / "adult_train.csv.gz").exists(), reason="needs adult_*.csv.gz: set STREAMCAL_DATA to their folder"
)
def test_venn_abers_003_shortened():
    before = pages()
    done = run("benchmarks.papers.venn_abers_003", "--rows", "300")
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    log, brier = rows[1:7], rows[8:]
    assert [row[0] for row in log] == [row[0] for row in brier]
    assert len(brier) == 6
    for row in brier:
        ours = [float(cell) for cell in row[2::2]]
        assert all(0.3 < value < 0.9 for value in ours), "½ for everyone has 1, and 300 rows teach little"
    for row in log:
        platt, isotonic, ivap, cvap = row[2::2]
        assert all(0.3 < float(value) < 1.0 for value in (platt, ivap, cvap)), "these are never infinite"
        assert float(isotonic.split("; ")[-1]) > 0.3
    assert sum("∞" in row[4] for row in log) >= 3, "a fit on 60 rows is certain of what it cannot know"
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.skipif(
    not (DATA / "adult_train.csv.gz").exists(), reason="needs adult_*.csv.gz: set STREAMCAL_DATA to their folder"
)
def test_fusion_000_shortened(tmp_path):
    before = pages()
    short = ("--rounds", "1", "--sets", "Adult", "--quick", "--cache", str(tmp_path))
    done = run("benchmarks.papers.fusion_000", *short)
    assert done.returncode == 0, done.stderr
    for measure, text in zip(("MCE", "ECE", "Brier"), done.stdout.split("\n\n"), strict=True):
        for name in ("MR-MIC", "CopulaFusion", "BernPolyFusion"):
            row = next(line for line in text.splitlines() if line.startswith(f"| {name}")).split(" | ")
            assert 0.0 < float(row[2]) < 60.0
            assert row[-1].removesuffix(" |") == row[4] == "not run"
            if measure == "Brier":
                assert float(row[2]) < 14.0, "the rate alone has 18.3: .24 times .76"
    again = run("benchmarks.papers.fusion_000", *short, data=tmp_path)  # without the data: the scores were kept
    assert again.stdout == done.stdout
    without = run("benchmarks.papers.fusion_000", "--rounds", "1", "--sets", "SUSY", "--quick", data=tmp_path)
    assert without.returncode == 1
    assert "SUSY is not in" in without.stderr
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.skipif(
    not all(
        (DATA / f"{name}.csv.gz").exists()
        for name in ("boston_housing", "airfoil_self_noise", "forest_fires", "concrete_strength")
    ),
    reason="needs the four regression files (.csv.gz): set STREAMCAL_DATA to their folder",
)
def test_regression_004_shortened():
    before = pages()
    done = run("benchmarks.papers.regression_004", "--quick")
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    compared = {row[0]: row[1:] for row in rows[1:10]}
    for name in ("e-beta", "GPC, paper", "GPC"):
        gain, ratio = float(compared[name][0]), float(compared[name][2])
        assert gain > 0.0, "the finding, on one fold"
        assert ratio < 1.0
    found = {row[0]: float(row[1].strip("*")) for row in rows[11:]}
    assert found["GPC, K = 32"] - found["base"] == pytest.approx(float(compared["GPC"][0]), abs=2e-3)
    assert pages() == before, "a shortened run writes no page"


def test_regression_004_says_what_it_needs(tmp_path):
    done = run("benchmarks.papers.regression_004", data=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "boston_housing.csv.gz is needed: put it into a folder, and set STREAMCAL_DATA to that\n"


@needs_adult_and_bank
def test_rpr_002_choices_shortened():
    before = pages()
    short = ("--rounds", "1", "--sizes", "200", "--classifiers", "LR", "--quick")
    done = run("benchmarks.papers.rpr_002_choices", *short)
    assert done.returncode == 0, done.stderr
    panels, ece, mce, _ = done.stdout.split("\n\n")
    solved = [line for line in panels.splitlines() if line.endswith("| 1 of 1 |")]
    assert len(solved) >= 6, "degrees of 40 and bounds of 1,000 are the hard ones"
    names = ("NearIso, BIC", "NearIso, BDeu", "LiTE, AICc", "LiTE, BDeu", "SmoIsoReg, interpolation", "Platt with s²")
    for name in names:
        for mean, largest in zip(cells(ece, name)[1::2], cells(mce, name)[1::2], strict=True):
            assert 0.0 < mean < largest
    # Prior weight 2 shared by many bins makes pure bins cheap: BDeu follows the labels of overfitted scores.
    assert cells(ece, "LiTE, BDeu |")[1] > cells(ece, "LiTE, AICc")[1]
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.skipif(
    not (DATA / "german_credit.csv.gz").exists(), reason="needs german_credit.csv.gz: set STREAMCAL_DATA to its folder"
)
def test_venn_abers_003_figures_shortened():
    before = pages()
    short = ("--sets", "German", "--learners", "logistic", "naive Bayes", "--rows", "300", "--grid", "2")
    done = run("benchmarks.papers.venn_abers_003_figures", *short, "--print-only")
    assert done.returncode == 0, done.stderr
    log, brier = done.stdout.split("\n\n")
    for name in ("logistic", "naive Bayes"):
        platt, _, ivap, cvap = (float(cell) for cell in row_of(brier, f"| German | {name}")[3:7])
        assert all(0.5 < value < 1.0 for value in (platt, ivap, cvap)), "70 % are positive: their rate alone has .84"
        assert cvap < ivap, "the finding, on 300 rows"
        assert math.isfinite(float(row_of(log, f"| German | {name}")[6])), "CVAP is never infinite"
    assert pages() == before, "a shortened run writes no page"


@pytest.mark.skipif(
    not (DATA / "adult_train.csv.gz").exists(), reason="needs adult_*.csv.gz: set STREAMCAL_DATA to their folder"
)
def test_fusion_000_limits_shortened():
    done = run("benchmarks.papers.fusion_000_limits", "--sets", "Adult", "--rows", "1000")
    assert done.returncode == 0, done.stderr
    _, rate, _, natural, balanced = row_of(done.stdout, "| Adult")[1:]
    assert float(natural) < float(rate), "a thousand rows are enough to beat the rate alone"
    assert float(natural) < float(balanced)
    assert "3.5 points apart" in done.stdout
    assert "allows 2.4 points" in done.stdout


def row_of(text, start):
    """Return the cells of the first table row with this start."""
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]
