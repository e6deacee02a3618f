"""The compiled step of `Auto`: whole streams, late labels, and the memories that its kernel keeps by itself."""

import json

import numpy as np
import pytest

from streamcal import Auto
from streamcal.app.doctor import kernel_form
from streamcal.kernels.ensemble import FadingMoments, RecentScores
from streamcal.kernels.fast_path import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.memories.decay import RESCALE_HALF_LIVES, CountDecay
from streamcal.memories.memory import OUTWEIGHING, OUTWEIGHING_ONE
from streamcal.memories.windows import CountWindow
from streamcal.parameters.scales import Logit, Probability
from streamcal.statistics.bernstein_moments import BernsteinMoments
from streamcal.statistics.score_tree import ScoreTree

#: Enough for the curves to be fitted again, every 64 observations, and short where kernels are not compiled.
LONG = 150 if kernel_form() == "compiled" else 70


def stream(n, seed=1):
    """Scores, some of them clamped, labels, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    scores[::17] = rng.choice([0.0, 1.0, 1e-9], len(scores[::17]))
    return scores, rng.random(n) < 0.2 + 0.5 * scores, rng.choice([0.0, 1.0, 1.0, 0.25, 3.0], n)


def plain(cal):
    """The state as JSON: to the last bit."""
    return json.dumps(cal.state_dict())


@pytest.mark.parametrize("delay", [0, 3])
def test_a_stream_in_one_call_is_the_loop(delay):
    one, other, learned = Auto(delay), Auto(delay), Auto(delay)
    scores, y, w = stream(LONG)
    said = one.predict_learn_many(scores, y, w)
    for place, row in enumerate(zip(scores.tolist(), y.tolist(), w.tolist(), strict=True)):
        assert other.predict_one(row[0]) == said[place]
        other.learn_one(*row)
    learned.learn_many(scores, y, w)
    assert plain(one) == plain(other) == plain(learned)


@pytest.mark.parametrize("delay", [0, 3])
def test_issuing_and_learning_at_once_is_learning(delay):
    """Without a delay; with one, `learn_one` judges by what was said `delay` observations ago."""
    hooked, plainly = Auto(delay), Auto(0)
    scores, y, w = stream(LONG)
    for score, label, weight in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
        x = hooked.scale.coordinate(score)
        before = plain(hooked)
        said = hooked._issue(x)
        assert plain(hooked) == before
        assert all(type(number) is float for number in said)
        if delay == 0:
            assert hooked.predict_one(score) == plainly.predict_one(score)
        hooked._learn_issued(x, float(label), weight, 0.0, json.loads(json.dumps(said)))
        plainly.learn_one(score, label, weight)
    assert hooked.n == plainly.n
    if delay == 0:
        learned, expected = hooked.state_dict()["learned"], plainly.state_dict()["learned"]
        assert json.dumps({**learned, "clamped": 0}) == json.dumps({**expected, "clamped": 0})  # the hook counts none


@pytest.mark.parametrize("lateness", [1, 4])
def test_at_a_fixed_lateness_the_hooks_are_the_delay(lateness):
    """Each label comes that many predictions late, so that the forecast judged is the one that was issued."""
    hooked, told, issued = Auto(lateness), Auto(lateness), []
    scores, y, _ = stream(LONG)
    for place, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        x = hooked.scale.coordinate(score)
        issued.append((score, label, x, hooked._issue(x)))
        assert hooked.predict_one(score) == told.predict_one(score)
        if place >= lateness:
            score, label, x, said = issued[place - lateness]
            hooked._learn_issued(x, float(label), 1.0, 0.0, said)
            told.learn_one(score, label)
    assert hooked.weights() == told.weights()


def test_what_was_said_must_be_of_this_mixture():
    cal = Auto()
    with pytest.raises(ValueError, match="numbers that were said"):
        cal._learn_issued(0.5, 1.0, 1.0, 0.0, cal._issue(0.5)[:-1])
    assert cal.n == 0.0
    cal._learn_issued(0.5, 1.0, 1.0, 0.0, None)  # nothing was remembered: it is judged by what is said now
    assert cal.n == 1.0


def test_a_recorded_step_leads_to_the_same_curvatures():
    """With a delay regressions repeat what they did before: their θ and A, to the last bit, also after a restart."""
    cal, live = Auto(delay=4), []
    scores, y, w = stream(LONG, seed=2)
    for place, row in enumerate(zip(scores.tolist(), y.tolist(), (w + 0.5).tolist(), strict=True)):
        live.append(json.dumps(cal._live.state()))
        if place == 60:
            cal = Auto.from_state(cal.state_dict())  # what is late then has no record
        cal.learn_one(*row)
        if place >= 4:
            assert json.dumps(cal._then.state()) == live[place - 3]


# ---- the memories of the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [(1.0,), (0.1, 0.3), (1.0, 1e-12, 1e7), (SMALLEST_WEIGHT, 1.0, LARGEST_WEIGHT)], ids=str
)
def test_recent_scores_are_a_window(weights):
    """`CountWindow` to the last bit: sums of fractions are made anew when it makes them anew."""
    rng = np.random.default_rng(4)
    size, tree, held = 20, ScoreTree(scale=Logit()), ScoreTree(scale=Logit())
    window = CountWindow(held, None, size)
    recent = RecentScores(tree.tree, size, OUTWEIGHING, OUTWEIGHING_ONE)
    for _ in range(120):
        x, y, w = float(rng.integers(-9, 9)) / 8.0, float(rng.random() < 0.4), float(rng.choice(weights))
        window.learn(x, y, w, 0.0)
        if recent.add(x, y, w):
            tree.restore(tree.empty().state())
            tree.update_many(*recent.held().T.copy())
            recent.summed_anew()
        rows, evicted = window.held()
        assert recent.held().tolist() == rows.tolist()
        assert recent.evicted == evicted
        assert [column.tolist() for column in tree.tree.to_arrays()] == [
            column.tolist() for column in held.tree.to_arrays()
        ]


def test_fading_moments_are_a_decay():
    """`CountDecay` to the last bit, past two rescalings."""
    rng = np.random.default_rng(5)
    sums, held = BernsteinMoments(3, Probability()), BernsteinMoments(3, Probability())
    decay, fading = CountDecay(held, None, 5.0), FadingMoments(sums.sums, 5.0, RESCALE_HALF_LIVES)
    assert fading.n == decay.n == 0.0
    for _ in range(200):
        x, y, w = rng.random(), float(rng.random() < 0.4), float(rng.choice([1.0, 0.3, 1e6]))
        decay.learn(x, y, w, 0.0)
        fading.add(x, y, w)
        assert sums.state() == held.state()
        assert (fading.clock, fading.halvings, fading.n) == (decay.clock, decay.halvings, decay.n)
