"""`PrequentialFusion` against a plain transcription of its rule, and what it refuses."""

import numpy as np
import pytest

from streamcal import InputError, Interval, Window
from streamcal.fusion import BernsteinFusion, CopulaFusion, PrequentialFusion


def stream(n, seed=0):
    """One score is right on the first half and the other on the second."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, 2))
    right = np.where(np.arange(n) < n // 2, scores[:, 0], scores[:, 1])
    return scores, (rng.random(n) < right).astype(int), rng.integers(1, 4, n).astype(float)


@pytest.mark.sample(2)
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_it_follows_the_least_loss_before_learning(discount):
    candidates = (BernsteinFusion(1), BernsteinFusion((2, 1)), CopulaFusion(("gaussian",), refresh_every=8))
    fusion, plain, losses = PrequentialFusion(candidates, discount), [one.clone() for one in candidates], np.zeros(3)
    for scores, y, w in zip(*stream(80), strict=True):
        best = plain[int(np.argmin(losses))]
        assert fusion.predict_one(scores) == best.predict_one(scores)
        assert fusion.leader.params() == best.params()
        p = np.array([one.predict_one(scores) for one in plain])
        losses = discount * losses + w * (p - y) ** 2
        fusion.learn_one(scores, y, w)
        for one in plain:
            one.learn_one(scores, y, w)
        np.testing.assert_allclose(fusion.losses, losses, rtol=1e-12)
    assert fusion.map().predict_one([0.2, 0.3]) == fusion.predict_one([0.2, 0.3])
    assert [one.n for one in candidates] == [0.0, 0.0, 0.0], "clones learn"


def test_discounting_changes_the_leader_when_the_stream_does():
    """A polynomial that may bend in score 1 alone, and one that may in score 2 alone; steps along one axis each."""
    rng = np.random.default_rng(1)
    candidates = tuple(BernsteinFusion(d, forgetting=Window(200), refresh_every=10) for d in ((9, 1), (1, 9)))
    forgets, remembers = PrequentialFusion(candidates, 0.98), PrequentialFusion(candidates)
    for k in range(1_200):
        scores = rng.random(2)
        y = scores[0 if k < 700 else 1] > 0.5
        for fusion in (forgets, remembers):
            fusion.learn_one(scores, y)
        if k == 699:
            assert forgets.leader.degrees == remembers.leader.degrees == (9, 1)
    assert forgets.leader.degrees == (1, 9)
    assert remembers.leader.degrees == (9, 1)


def test_bad_input_is_refused_before_any_candidate_has_learned():
    """Also where the first candidate would take what the second refuses."""
    fusion = PrequentialFusion((BernsteinFusion(2, scale=Interval(-9.0, 9.0)), BernsteinFusion(2)))
    timed = PrequentialFusion((BernsteinFusion(1), BernsteinFusion(1, forgetting=Window(5.0, by="time"))))
    for one, arguments in ((fusion, ((0.5, 1.5), 1)), (timed, ((0.5, 0.5), 1))):
        before = one.state_dict()
        with pytest.raises(InputError):
            one.learn_one(*arguments)
        with pytest.raises(InputError):
            one.learn_many([[0.5, 0.25], arguments[0]], [0, 1])
        assert one.state_dict() == before
    timed.learn_one((0.5, 0.5), 1, 1.0, 3.0)
    assert timed.n == 1.0


@pytest.mark.parametrize(
    "params",
    [
        {"candidates": ()},
        {"candidates": BernsteinFusion()},
        {"candidates": [BernsteinFusion()]},
        {"candidates": (BernsteinFusion(), 3)},
        {"candidates": (PrequentialFusion(),)},
        {"candidates": (BernsteinFusion(), BernsteinFusion(2, n_scores=3))},
        {"discount": 0.0},
        {"discount": 1.5},
        {"discount": True},
    ],
)
def test_parameters_that_make_no_sense_are_refused(params):
    with pytest.raises(InputError):
        PrequentialFusion(**params)


def test_it_forgets_by_time_where_a_candidate_does():
    policies = Window(5), Window(5.0, by="time")
    counted, timed = (PrequentialFusion((BernsteinFusion(1), BernsteinFusion(1, forgetting=one))) for one in policies)
    assert (counted.forgets_by_time, timed.forgets_by_time) == (False, True)
    counted.learn_one((0.5, 0.5), 1)
    with pytest.raises(InputError, match="forgets by time: give the time"):
        timed.learn_one((0.5, 0.5), 1)
    timed.learn_one((0.5, 0.5), 1, t=3.0)
    assert timed.n == 1.0
