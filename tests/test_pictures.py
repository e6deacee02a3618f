"""Pictures of docs/ show what would be drawn now: `python tools/draw.py` writes into each file what it shows."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("draw", ROOT / "tools" / "draw.py")
draw = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(draw)
#: Drawn by scripts that measure, which take hours.
MEASURED = ("performance/", "race/", "papers/")


def test_every_picture_is_drawn_by_the_script_and_says_what_it_shows():
    found = {path.relative_to(draw.DOCS).as_posix() for path in draw.DOCS.glob("**/*.png")}
    assert {name for name in found if not name.startswith(MEASURED)} == set(draw.PICTURES)
    assert all(draw.text_in(draw.DOCS / name) for name in draw.PICTURES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.sample(2)] if name.startswith("concepts/") else [pytest.mark.full])
        for name in draw.PICTURES
    ],
)
def test_a_picture_shows_what_is_drawn_now(name):
    if name == "calibration_display.png":
        pytest.importorskip("sklearn", reason="the extra sklearn is not installed")
    committed, now = draw.text_in(draw.DOCS / name), draw.text_now(name)
    assert draw.same(committed, now), f"python tools/draw.py {name}\ncommitted: {committed}\nnow: {now}"


def test_other_words_and_numbers_are_found():
    text = draw.text_in(draw.DOCS / "demo.png")
    assert draw.same(text, text)
    assert not draw.same(text, text.replace("subscribed", "bought"))
    number = re.findall(r"\d+\.\d+ %", text)[0]
    assert not draw.same(text, text.replace(number, f"{1.1 * float(number[:-2]):.1f} %"))
