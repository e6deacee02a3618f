"""`LabelJoin` with the methods that are judged by what their parts said: `Auto` and `Segmented`."""

import json

import numpy as np
import pytest

from streamcal import REGISTRY, Auto, HistogramBinning, Interval, VennAbers
from streamcal.live import Journal, LabelJoin, Segmented, Shadow

HORIZON = 50.0


def traffic(n, seed=0):
    """Scores that are too high where the campaign is 1, and labels."""
    rng = np.random.default_rng(seed)
    z, campaign = rng.normal(-2.0, 1.0, n), rng.integers(0, 3, n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(z - 1.5 * (campaign == 1))))
    return (1.0 / (1.0 + np.exp(-z))).tolist(), campaign.tolist(), y.tolist()


def joined(cal, n, early=None, save_at=None):
    """Return the join after n impressions, one a second, and the forecasts."""
    join, forecasts = LabelJoin(cal, HORIZON, early=early), []
    for k, (score, campaign, y) in enumerate(zip(*traffic(n), strict=True)):
        if k == save_at:
            join = LabelJoin.from_bytes(join.to_bytes())
        forecasts.append(
            join.issue(k, score, float(k), keys={"campaign": campaign}, version="v1" if k < n // 2 else "v2").p
        )
        join.resolve(k, y, float(k))
    return join, forecasts


def test_auto_is_judged_by_what_its_parts_said_when_issued():
    """Against the hooks, called by hand on a queue."""
    n = 400
    join, told, queue = LabelJoin(Auto(), 1000.0 * HORIZON), Auto(), []
    for k, (score, _, y) in enumerate(zip(*traffic(n), strict=True)):
        if k >= HORIZON:
            told._learn_issued(*queue.pop(0))
        x, t = told.scale.coordinate(score), 1000.0 * k
        queue.append((x, float(y), 1.0, t, told._issue(x, t)))
        assert join.issue(k, score, t).p == told.predict_one(score, t)
        join.resolve(k, y, t)
    assert json.dumps(join.calibrator.state_dict()) == json.dumps(told.state_dict())
    hindsight = Auto()
    for k, (score, _, y) in enumerate(list(zip(*traffic(n), strict=True))[: n - int(HORIZON)]):
        hindsight.learn_one(score, y, 1.0, 1000.0 * k)
    assert hindsight.predict_one(0.3) != told.predict_one(0.3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "make", [lambda: Segmented("ops", by=["campaign"]), Auto, lambda: Segmented("auto", by=["campaign"])]
)
@pytest.mark.parametrize("early", [None, 20.0])
def test_what_was_saved_goes_on_to_the_last_bit(make, early):
    straight, again = joined(make(), 300, early), joined(make(), 300, early, save_at=170)
    assert straight[1] == again[1]
    assert json.dumps(straight[0].state_dict()) == json.dumps(again[0].state_dict())


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [Auto, lambda: Segmented("auto", by=["campaign"])])
def test_a_journal_holds_keys_versions_and_weights(make, tmp_path):
    """All that a mixture with keys needs to be resumed, to the last bit: without a snapshot, and after one."""
    events = list(zip(*traffic(200), strict=True))
    states = []
    for stops in ((200,), (70, 140, 200)):
        path, done = tmp_path / f"{len(stops)}.journal", 0
        for stop in stops:
            with Journal(path) as journal:
                join = LabelJoin(make(), HORIZON, early=20.0, journal=journal)
                for k, (score, campaign, y) in enumerate(events[done:stop], done):
                    keys = {"campaign": campaign, "placement": f"p{k % 3}"}
                    join.issue(f"i{k}", score, float(k), keys=keys, version="v1" if k < 100 else 2, w=1.0 + k % 2)
                    join.resolve(f"i{k}", y, float(k))
                if stop == 140:
                    join.snapshot()
            done = stop
        states.append(json.dumps(join.state_dict()))
    assert states[0] == states[1]


def test_a_segmented_calibrator_gets_the_keys():
    join = LabelJoin(Segmented("ops", by=["campaign"]), HORIZON)
    told, queue = Segmented("ops", by=["campaign"]), []
    for k, (score, campaign, y) in enumerate(zip(*traffic(3_000), strict=True)):
        if k >= HORIZON:
            told.settle(*queue.pop(0))
        keys = {"campaign": campaign}
        queue.append((told.issue(score, keys=keys), y))
        assert join.issue(k, score, float(k), keys=keys).p == told.predict_one(score, keys=keys)
        join.resolve(k, y, float(k))
    assert join.calibrator.effect("campaign", 1)[0] < join.calibrator.effect("campaign", 0)[0] - 0.5
    assert join.issue("none", 0.3, 3_000.0).p != join.issue("one", 0.3, 3_000.0, keys={"campaign": 1}).p


def test_a_late_click_is_relearned_by_a_segmented_calibrator_that_unlearns():
    join = LabelJoin(Segmented(HistogramBinning(4), by=["campaign"]), HORIZON)
    join.issue("a", 0.3, 0.0, keys={"campaign": 1})
    join.advance(60.0)
    before = join.calibrator.effect("campaign", 1)[0]
    join.resolve("a", True, 55.0)
    assert join.tally()["corrected"] == 1
    assert join.calibrator.n == 1.0
    assert join.calibrator.effect("campaign", 1)[0] > before


def test_a_learner_of_another_kind_is_refused_in_a_state():
    from streamcal import StateError
    from streamcal.regression import QuantileRecalibration
    from streamcal.states import plain, signed

    state = LabelJoin(HistogramBinning(4), HORIZON).state_dict()
    state["learned"]["versions"][0][1]["calibrator"] = plain(QuantileRecalibration()._written())
    with pytest.raises(StateError, match="no calibrator of one score"):
        LabelJoin.from_state(signed(state))


WRAPPED = {"alone": lambda one: one, "segmented": lambda one: Segmented(one, by=["c"]), "shadow": Shadow}


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("wrapped", WRAPPED)
def test_every_method_starts_from_the_score_in_a_join(name, wrapped):
    """Also those that say 0.5 of every score, or the middle of a bin, before their first label."""
    join = LabelJoin(WRAPPED[wrapped](REGISTRY[name]()), horizon=100.0)
    for k, score in enumerate((1e-9, 0.00015, 0.002, 0.3, 0.999)):
        assert join.issue(k, score, float(k)).p == pytest.approx(score, rel=1e-6)
        assert join.predict_one(score) == pytest.approx(score, rel=1e-6)
    assert join.issue("next", 0.002, 10.0, version="v2").p == pytest.approx(0.002, rel=0.02)


def test_a_method_of_margins_says_what_it_says_before_its_first_label():
    join = LabelJoin(VennAbers(scale=Interval()), horizon=100.0)
    assert join.issue("a", -3.0, 0.0).p == 0.5


def test_a_shadow_in_a_join_judges_what_was_issued():
    shadow = Shadow("venn-abers", challengers={"platt": "platt"})
    join = LabelJoin(shadow, horizon=100.0)
    for k in range(50):
        join.issue(k, 0.01, float(k))
    join.advance(149.0)
    (found,) = shadow.comparisons()
    assert found.difference == pytest.approx(0.0, abs=1e-9)
