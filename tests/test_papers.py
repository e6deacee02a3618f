"""What the pages of the papers share: the table of differences, and the regret of `PrequentialChoice`."""

import math

import numpy as np
import pytest

differences = pytest.importorskip("benchmarks.papers.differences", exc_type=ImportError)  # needs the extra `bench`
prequential_choice = pytest.importorskip("benchmarks.papers.prequential_choice", exc_type=ImportError)


@pytest.mark.parametrize("page", differences.ROWS)
def test_each_page_says_what_differs_from_the_paper(page):
    text = (differences.FOLDER / f"{page}.md").read_text(encoding="utf-8")
    assert differences.with_differences(page, text) == text
    assert text.count(differences.TITLE) == 1


@pytest.mark.full
def test_the_regret_of_a_choice_is_that_of_the_class():
    """The script computes the mixture from the candidates' forecasts."""
    rng = np.random.default_rng(0)
    scores = rng.random(150)
    y = rng.random(150) < scores
    for _, make in prequential_choice.GRIDS.values():
        found, cal = prequential_choice.regret(make(), scores, y), make()
        p = cal.predict_learn_many(scores, y)
        loss = float(-np.log(np.where(y, p, 1.0 - p)).sum())
        assert found.best == pytest.approx(min(cal.losses), rel=1e-9)
        assert found.mixture == pytest.approx(loss - min(cal.losses), abs=1e-6)
        assert found.mixture <= math.log(len(cal.candidates)) + 1e-9
