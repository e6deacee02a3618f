"""`compare` with segments: corrected methods are `Segmented`, levels add up, and pictures show what they are."""

from __future__ import annotations

import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from test_cli import program, the_line

from streamcal import InputError, OnlinePlatt, compare
from streamcal.app import compare_report
from streamcal.app.figures import effect_text, figures
from streamcal.app.html_report import page
from streamcal.app.report_data import prepared
from streamcal.app.segment_data import segment_tables
from streamcal.live import Segmented
from streamcal.stream import by_segment
from streamcal.stream.by_segment import MISSING, OTHERS, level_text
from streamcal.stream.comparing import Comparison

#: Sums of 3,000 terms in another order.
SUMS = 1e-11


def table(n=3_000, levels=12, seed=1):
    rng = np.random.default_rng(seed)
    campaign, placement = rng.integers(levels, size=n), rng.integers(3, size=n)
    scores = np.clip(np.round(rng.beta(1, 4, n), 2), 0.01, 0.99)  # few cells: pictures are soon made
    odds = scores / (1 - scores) * np.exp(0.8 * rng.standard_normal(levels)[campaign])
    names = np.where(rng.random(n) < 0.1, None, np.char.add("c", campaign.astype(str)))
    y = rng.random(n) < odds / (1 + odds)
    return pd.DataFrame({"score": scores, "click": y, "campaign": names, "placement": placement})


DATA = table()
BY = ["campaign", ("campaign", "placement")]
FOUND = compare(DATA, label="click", methods=["ops", "platt"], segments=BY)


def test_corrected_methods_are_those_of_segmented():
    assert set(FOUND.standings) == {"raw", "ops", "platt", "ops by segment", "platt by segment"}
    alone = Segmented("ops", BY)
    p = alone.predict_learn_many(DATA["score"].to_numpy(), DATA["click"], keys=DATA)
    loss = -np.log(np.where(DATA["click"], p, 1 - p)).mean()
    assert FOUND.standings["ops by segment"].log_loss.get() == pytest.approx(loss, rel=SUMS)
    for one in FOUND.standings["ops by segment"].effects["campaign"]:
        assert tuple(one)[1:] == alone.effect("campaign", one.level)
    assert compare(DATA, label="click", methods=["ops"]).to_dict()["segments"] == {}


def test_late_labels_are_learned_as_issued():
    found = compare(DATA, label="click", methods=["ops"], segments=["campaign"], delay=30)
    cal, waiting, said = Segmented("ops", ["campaign"]), [], []
    for score, y, level in zip(DATA["score"], DATA["click"], DATA["campaign"], strict=True):
        keys = {"campaign": level}
        said.append(cal.predict_one(score, keys=keys))
        waiting.append((cal.issue(score, keys=keys), y))
        if len(waiting) > 30:
            cal.settle(*waiting.pop(0))
    loss = -np.log(np.where(DATA["click"], said, 1 - np.array(said))).mean()
    assert found.standings["ops by segment"].log_loss.get() == pytest.approx(loss, rel=SUMS)


def test_levels_have_their_sums():
    known = DATA[DATA["campaign"].notna()]
    for row in FOUND.segments.rows("campaign", FOUND.segments.heaviest("campaign", 100)):
        held = known[known["campaign"] == row.level]
        assert (row.n, row.positive) == (len(held), held["click"].sum())
        assert row.predicted["raw"] == pytest.approx(held["score"].sum(), rel=SUMS)
        gap = held["click"].sum() - held["score"].sum()
        deviation = math.sqrt((held["score"] * (1 - held["score"])).sum())
        assert row.z["raw"] == pytest.approx(gap / deviation, rel=SUMS)
    (missing,) = FOUND.segments.rows("campaign", [MISSING])
    assert missing.n == len(DATA) - len(known)
    worst = FOUND.segments.rows("campaign", FOUND.segments.worst("campaign", "raw", 5))
    assert [abs(one.z["raw"]) for one in worst] == sorted((abs(one.z["raw"]) for one in worst), reverse=True)
    assert FOUND.segments.errors["platt"]["campaign"].chi_square > 3.0
    assert FOUND.segments.errors["platt by segment"]["campaign"].chi_square < 3.0


def test_more_levels_than_there_is_room_for_are_one(monkeypatch):
    monkeypatch.setattr(by_segment, "MOST_LEVELS", 4)
    found = compare(DATA, label="click", methods=["ops"], segments=["campaign"])
    levels = found.segments.errors["raw"]["campaign"].levels()
    assert len(levels) == 4 + 2
    assert sum(one.n for one in levels.values()) == len(DATA)
    assert OTHERS not in {one.level for one in found.standings["ops by segment"].effects["campaign"]}
    assert parsed_levels(found)


def parsed_levels(found):
    return [row[0] for one in segment_tables(found) for row in one.rows]


def test_weights_of_zero_and_nothing_at_all():
    empty = compare(DATA.iloc[:0], label="click", methods=["ops"], segments=["campaign"])
    assert segment_tables(empty) == ()
    assert json.dumps(empty.to_dict(), allow_nan=False)
    weighted = DATA.assign(w=np.where(DATA["placement"] == 0, 0.0, 2.0))
    found = compare(weighted, label="click", methods=["ops"], segments=["campaign"], weight="w")
    counted = DATA[DATA["placement"] != 0]
    for row in found.segments.rows("campaign", found.segments.heaviest("campaign", 100)):
        assert row.n == 2.0 * (counted["campaign"] == row.level).sum()


def test_a_method_that_fails_is_left_out_of_its_levels():
    class Failing(OnlinePlatt):
        def predict_learn_many(self, scores, y, w=None, t=None, *, keys=None):
            raise InputError("no")

    found = compare(DATA, label="click", methods={"bad": Failing(), "ops": OnlinePlatt()}, segments=["campaign"])
    assert found.failed() == ["bad", "bad by segment"]
    assert "bad" not in found.segments.rows("campaign", ["c1"])[0].predicted
    assert "bad" not in "".join(segment_tables(found)[0].headings)


def test_what_is_not_possible():
    with pytest.raises(InputError, match="arrays have no columns of segments"):
        compare(([0.5], [1]), segments=["campaign"])
    with pytest.raises(InputError, match="no column 'campain'"):
        compare(DATA, label="click", segments=["campain"])
    with pytest.raises(InputError, match="by='campaign' is not possible"):
        compare(DATA, label="click", segments="campaign")
    with pytest.raises(InputError, match="'a by segment' is the name of another method"):
        Comparison({"a": OnlinePlatt(), "a by segment": OnlinePlatt()}, segments=["campaign"])
    assert Comparison(["ops"], base="ops by segment", segments=["campaign"]).base == "ops by segment"


def test_the_table_and_the_forest_plot_show_the_levels():
    first, second = segment_tables(FOUND)
    assert (first.field, second.field) == ("campaign", "campaign × placement")
    assert all(len(row) == len(one.headings) for one in (first, second) for row in one.rows)
    assert {"(missing)", "c1"} & {row[0] for row in first.rows}
    for one in (first, second):  # the order of the table, from the top
        with_effects = [row[0] for row in one.rows if row[-1]]
        assert [level_text(effect.level) for effect in one.effects] == with_effects
        assert len(with_effects) >= len(one.rows) - 2  # all but rows without a level, and others
    assert set(first.effects) <= set(FOUND.standings[first.of].effects["campaign"])
    data = prepared(FOUND)
    drawn = {one.heading: one for one in figures(data)}
    by_mean = sorted(first.effects, key=lambda one: one.mean)  # a slider goes from left to right
    assert [text for _, text in drawn["Segments by campaign"].stops] == [effect_text(one) for one in by_mean]
    svg = drawn["Segments by campaign"].svg
    places = [float(y) for y, _ in re.findall(r'class="tick" x="[^"]*" y="([^"]*)" text-anchor="end">([^<]*)', svg)]
    assert len(places) == len(first.effects)
    assert places == sorted(places)  # downwards
    places = [place for place, _ in drawn["Segments by campaign × placement"].stops]
    assert places == sorted(places)
    html = page(data)
    assert first.sentence in html
    assert "<h3>By campaign × placement</h3>" in html


@pytest.mark.sample(2)
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_is_in_parts_as_wide_as_the_terminal(width):
    found = compare(DATA, label="click", methods=["ops", "online-beta"], segments=["campaign"])
    tables = [compare_report.methods_table(found), *(compare_report._table(one) for one in segment_tables(found))]
    for whole in tables:
        console = Console(width=width, file=io.StringIO())
        parts = compare_report.parts_of(whole, width)
        assert len(parts) > 1 or whole is not tables[0]
        console.print(*parts, sep="\n")
        lines = console.file.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        for column in whole.columns[1:]:
            shown = [
                cell for part in parts for one in part.columns if one.header == column.header for cell in one.cells
            ]
            assert shown == list(column.cells)
            assert all(any(cell in line for line in lines) for cell in shown), "no cell is cut"


def test_the_command_line_says_the_same(tmp_path):
    path = tmp_path / "clicks.csv"
    DATA.astype({"click": int}).to_csv(path, index=False)
    options = ("--score", "score", "--label", "click", "--methods", "ops")
    segments = ("--segment", "campaign", "--segment", "campaign,placement")
    result = program("compare", path, *options, *segments)
    assert result.exit_code == 0
    assert "By campaign: 12 of 13 levels" in result.stdout
    assert "By campaign × placement: 12 of " in result.stdout
    assert "…" not in result.stdout, "no cell is cut, though this is no terminal, which has 80 columns"
    found = json.loads(program("compare", path, *options, *segments, "--json").stdout)
    # A missing placement is empty in CSV, and so is a missing campaign: the same levels.
    wanted = compare(DATA, label="click", methods=["ops"], segments=BY).to_dict()["segments"]
    assert found["segments"] == wanted
    assert "no such column" in the_line(program("compare", path, *options, "--segment", "campain"))
    assert program("report", path, *options, *segments, "--html", tmp_path / "r.html").exit_code == 0
    command = "--methods ops --segment campaign --segment campaign,placement</code>"
    assert command in (tmp_path / "r.html").read_text(encoding="utf-8")
