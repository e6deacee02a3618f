"""`Auto` where labels come late to forecasts that were issued: their learning rates, and means of labels as said."""

import json
import math

import numpy as np
import pytest
from shares_by_hand import SharesByHand
from weights_by_hand import WeightsByHand

from streamcal import Auto, InputError, StateError
from streamcal.calibrators.auto.experts import NAMES, PRIOR
from streamcal.calibrators.auto.mixture import RATES
from streamcal.kernels.specialists import Specialists
from streamcal.states import signed

KNOTS_A_UNIT, LARGEST = 8, 16.0
MEANS = 5


def plain(cal):
    """The state as JSON: to the last bit."""
    return json.dumps(cal.state_dict())


def late_labels(cal, n, seed=0, most=12):
    """Issue n forecasts; each label comes up to `most` forecasts later, out of order.

    Yields x, the label, its weight, its lateness in labels and what was said, before it is learned.
    """
    rng = np.random.default_rng(seed)
    waiting = []
    for score in rng.random(n).tolist():
        x = cal.scale.coordinate(score)
        said = json.loads(json.dumps(cal._issue(x, math.nan)))
        waiting.append((x, float(rng.random() < score**2), rng.choice([0.5, 1.0, 2.0]), said))
        while len(waiting) > rng.integers(0, most):
            x, y, w, said = waiting.pop(rng.integers(0, len(waiting)))
            yield x, y, w, cal._live.learned - said[-2], said
            cal._learn_issued(x, y, w, math.nan, said)


def usually(ahead, late):
    """How late labels are taken to be after one that was so late: an eighth of it and 1 more or less, at most."""
    step = ahead // 8 + 1
    return min(max(late, ahead - step), ahead + step)


def said_now(cal, x, ahead):
    """What the experts say now at the knot nearest to x, so many labels ahead."""
    state = json.loads(plain(cal))
    state["learned"]["live"]["panel"]["panel"]["ahead"] = ahead
    twin = Auto.from_state(signed(state))
    return np.array(twin._issue(round(x * KNOTS_A_UNIT) / KNOTS_A_UNIT, math.nan))[: len(NAMES)]


def test_weights_are_those_of_the_formula():
    """Of what was said when the forecast was issued, and of what is said now; the first late label triples the rows."""
    cal, size = Auto(), len(NAMES)
    by_hand, tripled, ahead = SharesByHand(RATES, np.array(PRIOR) / sum(PRIOR)), False, 0
    weights = WeightsByHand()
    for x, y, weight, late, said in late_labels(cal, 150):
        w = weights.relative(weight)
        shares, log_wealth = cal._live._mixture.state()[0]
        np.testing.assert_allclose(shares, by_hand.shares, rtol=1e-9)
        np.testing.assert_allclose(log_wealth, np.log(by_hand.row / by_hand.row.max()), atol=1e-9)
        if late > 0 and not tripled:
            by_hand.triple_rows()
            tripled = True
        ahead = usually(ahead, late)
        at = (x + LARGEST) * KNOTS_A_UNIT
        share = at - min(int(at), 2 * LARGEST * KNOTS_A_UNIT - 1)
        sign, z = (1.0 if y else -1.0), np.array(said)
        left, right = (-np.logaddexp(0, -sign * z[start:][:size]) for start in (0, size + 5))
        gains = (1.0 - share) * left + share * right
        issued = int(said[-1])
        of_rows = np.exp(np.resize(z[2 * (size + 5) + 3 * issued * int(y) :][:issued], len(by_hand.row)))
        if tripled:
            now = -np.logaddexp(0, -sign * said_now(cal, x, ahead)) if late else gains
            by_hand.learn_late(gains, of_rows, now, w, late)
        else:
            by_hand.learn(gains, of_rows, w)
    assert tripled


def test_regressions_learn_with_the_means_that_were_said():
    """A label that comes late is learned by the expert that it was issued by, not with labels known since."""
    early, late = Auto(), Auto()
    for cal in (early, late):
        for k in range(40):
            cal._learn_issued(0.3, float(k % 3 == 0), 1.0, math.nan, cal._issue(0.3, math.nan))
    said = early._issue(0.3, math.nan)
    assert said[-2 - MEANS : -2] == early._live.state()["panel"]["panel"]["means"]
    for cal in (early, late):
        cal.learn_one(0.6, True)
    changed = [*said[: -2 - MEANS], *[0.0] * MEANS, *said[-2:]]
    early._learn_issued(0.3, 1.0, 1.0, math.nan, said)
    late._learn_issued(0.3, 1.0, 1.0, math.nan, changed)
    one, other = (cal._live.state()["panel"]["panel"] for cal in (early, late))
    differ = [a != b for a, b in zip(one["trackers"], other["trackers"], strict=True)]
    assert sum(differ) == 2  # `labels .999` and `labels .997`
    assert one["means"] == other["means"]


def counted(late: int) -> Specialists:
    """Specialists of a score that has repeated, whose 41st label comes so many labels late, or on time."""
    cal = Auto()
    for k in range(40):
        cal._learn_issued(0.5, float(k % 3 == 0), 1.0, math.nan, cal._issue(0.5, math.nan))
    said = cal._issue(0.5, math.nan)
    cal._learn_issued(0.5, 1.0, 1.0, math.nan, [*said[:-2], said[-2] - late, said[-1]])
    return cal._last


def odds(one: Specialists, row: int) -> float:
    """Of the count that forgets nothing, in a row: what is shared anew by the prior changes them by 1e-3 at most."""
    weights = np.array(one.state()["shares"][0])[row]
    return math.log(weights[1] / weights[0])


def test_specialists_learn_at_a_power_of_the_lateness():
    """What a label weighs for them is as if a forecast of now had been judged at (1 + d)^−¾; the rows judged by now
    learn at the rate 1, whatever d is."""
    on_time = counted(0)
    assert on_time.rows == 2
    moved = [counted(late) for late in (3, 8, 24)]
    assert {one.rows for one in moved} == {4}
    gain = (odds(on_time, 0) - odds(moved[0], 0)) / (1.0 - 4.0**-0.75)  # of rate 1
    for late, one in zip((3, 8, 24), moved, strict=True):
        assert odds(on_time, 0) - odds(one, 0) == pytest.approx(gain * (1.0 - (1.0 + late) ** -0.75), rel=0.01)
        assert odds(one, 2) == pytest.approx(odds(on_time, 0), abs=0.01 * abs(gain))
        counts, expected = (np.array(each.state()["counts"], dtype=float) for each in (one, on_time))
        np.testing.assert_array_equal(counts, expected)  # what they learn themselves has its whole weight
    assert abs(gain) > 0.01


def test_a_part_that_is_fooled_by_what_it_sees_now_loses_its_weight():
    """Runs of 40 equal labels, 30 late: experts that follow labels are right once they are known, and wrong before."""
    rng = np.random.default_rng(9)
    labels = np.repeat(rng.random(75) < 0.5, 40).tolist()
    cal, scores, issued = Auto(), rng.uniform(0.4, 0.6, 3_000).tolist(), []
    for k, score in enumerate(scores):
        x = cal.scale.coordinate(score)
        issued.append((x, cal._issue(x, math.nan)))
        if k >= 30:
            x, said = issued[k - 30]
            cal._learn_issued(x, float(labels[k - 30]), 1.0, math.nan, said)
    wealth = np.array(cal._live._mixture.state()[0][1])
    assert wealth[4:].max() < min(wealth[:2].max(), 0.0) - 1.0
    _, _, _, _, _, _, _, _, lined = cal._live._mixture.state()
    assert lined[0][0][1] < 0.1  # of the forecast with lines


def test_states_with_late_labels_go_on_as_they_were():
    """As plain data and as bytes; the rows of all mixtures triple at once, and a label that is not late is one too."""
    cal = Auto()
    sizes = set()
    for k, (x, y, w, _, said) in enumerate(late_labels(cal, 80, seed=1)):
        if k % 8 == 0:
            twins = [Auto.from_state(json.loads(plain(cal))), Auto.from_bytes(cal.to_bytes())]
            for twin in twins:
                assert plain(twin) == plain(cal)
                twin._learn_issued(x, y, w, math.nan, said)
            assert plain(twins[0]) == plain(twins[1])
        sizes.add(tuple(len(part[1]) for part in cal._live._mixture.state()[:3]))
    assert sizes == {(2, 2, 2), (6, 6, 6)}
    cal.learn_one(0.3, True)  # judged by what is said now
    state = cal.state_dict()
    mixture = state["learned"]["live"]["mixture"]
    for part in range(3):
        weights, wealth = mixture[part]
        for wrong in (
            [weights[4:], [0.0, 0.0]],
            [weights * 2, wealth * 2],
            [weights[:3], wealth[:3]],
            [weights, wealth[2:]],
            [0.0, wealth],
            [[], []],
        ):
            live = {**state["learned"]["live"], "mixture": [*mixture[:part], wrong, *mixture[part + 1 :]]}
            with pytest.raises(StateError, match="damaged"):
                Auto.from_state(signed({**state, "learned": {**state["learned"], "live": live}}))


def test_what_was_issued_before_the_first_late_label_is_taken_after_it():
    cal = Auto()
    first, second = cal._issue(0.2, math.nan), cal._issue(-0.4, math.nan)
    cal._learn_issued(-0.4, 0.0, 1.0, math.nan, second)
    third = cal._issue(0.1, math.nan)
    cal._learn_issued(0.2, 1.0, 1.0, math.nan, first)
    assert len(cal._issue(0.1, math.nan)) == len(third) + 24  # three mixtures, two labels, four rows
    cal._learn_issued(0.1, 1.0, 1.0, math.nan, third)
    assert cal.n == 3.0


def test_an_inferred_delay_goes_on_from_tripled_rows():
    """Labels that came late to issued forecasts, and then, in `learn_one`, late to what was asked for."""
    cal = Auto("inferred")
    for _ in late_labels(cal, 60, seed=2):
        pass
    assert cal.label_delay == 0
    asked = np.random.default_rng(3).random(120).tolist()
    for k, score in enumerate(asked):
        cal.predict_one(score)
        if k >= 9:
            cal.learn_one(asked[k - 9], k % 3 == 0)
    assert cal.label_delay == 9
    assert plain(Auto.from_state(json.loads(plain(cal)))) == plain(cal)


def test_what_was_issued_with_an_inferred_delay_is_taken_when_that_is_none_again():
    """Labels come 9 late, a forecast is issued, and labels come at once until that is seen: rows are fewer then."""
    cal, asked = Auto("inferred"), np.random.default_rng(4).random(400).tolist()
    for k, score in enumerate(asked[:120]):
        cal.predict_one(score)
        if k >= 9:
            cal.learn_one(asked[k - 9], k % 3 == 0)
    assert cal.label_delay == 9
    said = cal._issue(0.3, math.nan)
    for k, score in enumerate(asked[120:]):
        cal.predict_one(score)
        cal.learn_one(score, k % 3 == 0)
    assert cal.label_delay == 0
    assert len(cal._issue(0.3, math.nan)) < len(said)
    n = cal.n
    cal._require_issued(said)
    cal._learn_issued(0.3, 1.0, 1.0, math.nan, said)
    assert cal.n == n + 1.0


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (-2, -1.0, "learned by then"),
        (-2, 31.0, "learned by then"),
        (-2, math.nan, "learned by then"),
        (-3, 1.1, "mean of labels"),
        (-7, math.nan, "mean of labels"),
        (-1, 3.0, "numbers that were said"),
        (-1, math.inf, "numbers that were said|specialists said is inf"),
    ],
)
def test_numbers_beside_forecasts_are_checked(delay, place, value, match):
    cal = Auto(delay)
    for k in range(30):
        cal.learn_one(0.4, k % 3 == 0)
    before, said = plain(cal), cal._issue(0.1, math.nan)
    said[place] = value
    with pytest.raises(InputError, match=match):
        cal._learn_issued(0.1, 1.0, 1.0, math.nan, said)
    assert plain(cal) == before


@pytest.mark.parametrize("delay", [1, 30])
def test_experts_are_those_of_a_delay_that_is_told(delay):
    """Where all labels are equally late: the same means of labels, and coefficients moved on by as many steps."""
    rng = np.random.default_rng(4)
    scores = rng.random(400).tolist()
    labels = (rng.random(400) < np.linspace(0.2, 0.8, 400)).tolist()
    told, joined = Auto(delay), Auto()
    issued = []
    for k, score in enumerate(scores):
        x = told.scale.coordinate(score)
        if k > 2 * delay:  # between the first forecasts and their labels fewer labels were learned
            experts = slice(len(NAMES))
            assert told._issue(x, math.nan)[experts] == joined._issue(x, math.nan)[experts]
        issued.append((x, joined._issue(x, math.nan)))
        if k >= delay:
            earlier, said = issued[k - delay]
            told.learn_one(scores[k - delay], labels[k - delay])
            joined._learn_issued(earlier, float(labels[k - delay]), 1.0, math.nan, said)


def test_forecasts_are_for_labels_as_late_as_the_last_ones():
    """One that is far later changes little; a copy knows it too, and a lateness that cannot be is refused."""

    def ahead(one):
        return one.state_dict()["learned"]["live"]["panel"]["panel"].get("ahead", 0)

    cal, x = Auto(), 0.3
    first, waiting = cal._issue(x, math.nan), []
    for k in range(40):  # each label comes when the 12 after it were asked for: the first ones are less late
        waiting.append(cal._issue(x, math.nan))
        if k >= 12:
            cal._learn_issued(x, 1.0, 1.0, math.nan, waiting.pop(0))
            assert ahead(cal) == min(k - 12, 12)
    cal._learn_issued(x, 1.0, 1.0, math.nan, first)  # 28 labels late
    assert ahead(cal) == 14
    twin = Auto.from_state(json.loads(plain(cal)))
    assert twin._issue(x, math.nan) == cal._issue(x, math.nan)
    state = json.loads(plain(cal))
    state["learned"]["live"]["panel"]["panel"]["ahead"] = 40
    with pytest.raises(StateError, match="later than there are labels"):
        Auto.from_state(signed(state))
    lateness = []
    while ahead(cal):
        cal.learn_one(0.6, True)
        lateness.append(ahead(cal))
    assert lateness == [12, 10, 8, 6, 5, 4, 3, 2, 1, 0]


def test_one_label_from_long_ago_moves_no_forecast_far():
    """Where a drift is followed, forecasts were extrapolated by as many labels as the last one was late."""
    rng = np.random.default_rng(0)
    scores = 1.0 / (1.0 + np.exp(-rng.normal(size=10_000)))
    z = np.log(scores / (1.0 - scores)) + np.linspace(-2.0, 2.0, 10_000)
    cal, x = Auto(), 0.0
    cal.learn_many(scores[:100], rng.random(100) < 1.0 / (1.0 + np.exp(-z[:100])))
    said = cal._issue(x, math.nan)
    cal.learn_many(scores[100:], rng.random(9_900) < 1.0 / (1.0 + np.exp(-z[100:])))
    at_once = Auto.from_state(cal.state_dict())
    at_once.learn_one(0.5, False)
    cal._learn_issued(x, 0.0, 1.0, math.nan, said)
    for score in (0.05, 0.5, 0.95):  # 9,900 labels ahead the line is 4 higher
        assert cal.predict_one(score) == pytest.approx(at_once.predict_one(score), abs=0.01)


@pytest.mark.parametrize("delay", [0, 3])
def test_no_forecast_is_taken_to_have_said_what_none_says(delay):
    """Log-odds beyond ±16 left a curve of NaN, and a log-probability above 0 a state that could not be read."""
    cal = Auto(delay)
    for k in range(120):
        cal.learn_one(0.4, k % 3 == 0, t=3600.0 * k)
    x = cal.scale.coordinate(0.4)
    before, said = plain(cal), cal._issue(x, 1e6)
    own = len(said) - cal._last.issued - MEANS - 2  # all specialists are among them
    assert own == 2 * (len(NAMES) + 8) + 6 * int(said[-1])
    for place in range(len(said) - MEANS - 2):
        for wrong in (16.1, -16.1, 60.0, math.nan):
            with pytest.raises(InputError, match=f"is {wrong}, not from -16 to (0|16)"):
                cal._learn_issued(x, 1.0, 1.0, 1e6, [*said[:place], wrong, *said[place + 1 :]])
    of_rows = [*range(2 * (len(NAMES) + 5), own - 6), *range(own + cal._last.size, own + cal._last.issued)]
    for place in of_rows:
        with pytest.raises(InputError, match="not from -16 to 0"):
            cal._learn_issued(x, 1.0, 1.0, 1e6, [*said[:place], 0.01, *said[place + 1 :]])
    assert plain(cal) == before
    cal._learn_issued(x, 1.0, 1.0, 1e6, said)
    assert plain(Auto.from_state(json.loads(plain(cal)))) == plain(cal)


@pytest.mark.parametrize("repeats", [False, True])
def test_labels_on_time_are_learned_as_by_learn_one(repeats):
    """Where nothing was learned since a forecast was issued, lines begin anew, and the score may have all weight."""
    rng = np.random.default_rng(5)
    issued, plainly = Auto(), Auto()
    for k, score in enumerate(rng.uniform(0.1, 0.9, 300).round(1 if repeats else 9).tolist()):
        x, y, w, t = issued.scale.coordinate(score), bool(rng.random() < score**2), rng.choice([0.5, 1.0]), 3600.0 * k
        issued._learn_issued(x, float(y), w, t, issued._issue(x, t))
        plainly.learn_one(score, y, w, t)
    assert plain(issued) == plain(plainly)
    assert issued.weights()["lines begun anew"] > 0.0
