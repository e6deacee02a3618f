"""`Auto` against a plain transcription of its formulas, in whole matrices and lists.

It shares no code with the package but `Protected`, `VennAbers` and the constants of the table.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from weights_by_hand import WeightsByHand

from streamcal import Auto, Protected, VennAbers
from streamcal.calibrators.auto import experts as table

KNOTS = np.arange(-64, 65) / 4.0
SHARE_RATE, RARE_SHARE_RATE = 1e-4, 6e-3


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def shared(z):
    """What is shared by the prior: less where labels are rare."""
    return min(SHARE_RATE, RARE_SHARE_RATE * sigmoid(z) * sigmoid(-z))


def likelihood(z, y):
    return sigmoid(z if y else -z)


def log_odds(p):
    return np.clip(np.log(p) - np.log1p(-p), -16.0, 16.0)


def slot(x):
    """Of 32 slots, which are enough for 15 scores that repeat."""
    return int(math.modf((x + 17.0) * 7919.371372)[0] * 32)


class RegressionByHand:
    """A itself and a general solver, in place of its inverse."""

    def __init__(self, keep, precision, start):
        self.keep, self.precision = np.array(keep), np.array(precision)
        self.theta, self.a, self.turn = np.array(start, dtype=float), np.diag(self.precision), 0

    def predict(self, phi):
        return float(np.clip(self.theta @ phi, -16.0, 16.0))

    def learn(self, phi, y, w):
        k = self.turn
        self.a = self.a * np.sqrt(np.outer(self.keep, self.keep))
        self.a[k, k] += (1.0 - self.keep[k] ** len(self.keep)) * self.precision[k]
        self.turn = (k + 1) % len(self.keep)
        g = np.linalg.solve(self.a, phi)
        z, v = self.theta @ phi, phi @ g
        m = brentq(lambda m: m - z - v * w * (y - sigmoid(m)), z - v * w - 1.0, z + v * w + 1.0, xtol=1e-14)
        self.theta = self.theta + g * (m - z) / v
        self.a = self.a + w * sigmoid(m) * sigmoid(-m) * np.outer(phi, phi)


class CorrectionByHand:
    def __init__(self):
        self.at_knots = np.arange(-64, 65) / table.CORRECTION_KNOTS
        self.curve, self.h = np.zeros(129), np.full(129, table.FIRMNESS)

    def at(self, z):
        return np.interp(z, self.at_knots, self.curve)

    def learn(self, z, y, w):
        u = (self.at_knots - z) / table.WIDTH
        kernel = np.where(abs(u) < 1.0, (1.0 - u * u) ** 2, 0.0)
        self.h = self.h - kernel / table.CORRECTION_MEMORY * (self.h - table.FIRMNESS)
        v = np.interp(z, self.at_knots, kernel / self.h)
        before = z + self.at(z)
        m = brentq(lambda m: m - before - v * w * (y - sigmoid(m)), before - v * w - 1.0, before + v * w + 1.0)
        self.curve = self.curve + kernel / self.h * (m - before) / v
        self.h = self.h + kernel * w * sigmoid(m) * sigmoid(-m)


class AutoByHand:
    """Forecasts at all knots; scores within log-odds ±16, which are around 0."""

    def __init__(self):
        self.rows, self.weights, self.jumper = [], WeightsByHand(), Protected()
        self.regressions, self.places = [], []
        for expert in table.EXPERTS:
            if isinstance(expert.kind, table.Regression):
                places, *given = expert.kind.plan()
                self.regressions.append(RegressionByHand(*given))
                self.places.append(places)
        size = len(table.EXPERTS)
        ends, each = table.STACK_ENDS, table.STACK_PRECISION
        self.stack = RegressionByHand(
            [table.STACK_KEEP] * (size + 2), [ends, *[each] * size, ends], [1.0] + [0.0] * (size + 1)
        )
        self.correction, self.corrected = CorrectionByHand(), table.CORRECTION_PRIOR
        self.prior = np.array(table.PRIOR)
        self.shares = np.array([self.prior, self.prior])
        self.log_wealth, self.late = np.zeros(2), False
        self.means = np.zeros(len(table.LABEL_MEANS))
        self.slots = [(math.nan, np.zeros(2), 0.0, 0.0)] * 32
        self.due, self.line, self.curve = 0, (1.0, 0.0), None

    def phi(self, x, means):
        u = x / 4.0
        return np.array([x, 1.0, 0.0, 0.0, u * u, u**3, *means])

    def experts_at(self, x, knot):
        """Return the log-odds of all experts at a knot, the last one as at a score that has not come before."""
        said = [x, float(np.clip(self.line[0] * x + self.line[1], -16.0, 16.0))]
        phi = self.phi(x, self.means)
        said += [one.predict(phi[places]) for one, places in zip(self.regressions, self.places, strict=True)]
        p = sigmoid(said[1])
        for expert in table.EXPERTS:
            if isinstance(expert.kind, table.Smoother):
                fade, counts = 1.0 - 1.0 / expert.kind.memory, np.zeros(2)
                for age, (at, y, w) in enumerate(reversed(self.rows)):
                    u = (x - at) / expert.kind.width
                    counts[int(y)] += w * fade**age * (1.0 - u * u) ** 2 if abs(u) < 1.0 else 0.0
                said.append(float(log_odds((2.0 * p + counts[1]) / (2.0 + counts.sum()))))
        whole = said[1] if self.curve is None else self.curve[knot]
        return np.array([*said, whole, float(log_odds(self.jumper.predict_one(sigmoid(x)))), whole])

    def combined(self, said):
        """Everything that is forecast from what the experts say, by name."""
        second = 0.0
        if self.late:
            second = 1.0 / (1.0 + math.exp(self.log_wealth[0] - self.log_wealth[1]))
        weights = (1.0 - second) * self.shares[0] + second * self.shares[1]
        mixed = log_odds((weights[:-1] / weights[:-1].sum()) @ sigmoid(said))
        stacked = self.stack.predict(np.array([mixed, *said, 1.0]))
        base = log_odds(weights @ sigmoid(np.array([*said, stacked])))
        corrected = float(np.clip(base + self.correction.at(base), -16.0, 16.0))
        both = log_odds((1.0 - self.corrected) * sigmoid(base) + self.corrected * sigmoid(corrected))
        rows = [log_odds(row @ sigmoid(np.array([*said, stacked]))) for row in self.shares]
        found = {"mixed": mixed, "stacked": stacked, "base": base, "corrected": corrected, "both": both}
        return {"experts": said, **found, "first": rows[0], "second": rows[1]}

    def record(self, x):
        """Return the forecast at x, from the knots beside it by nearness; a repeated score has its own."""
        knot = min(int((x + 16.0) * 4.0), 127)
        share = (x + 16.0) * 4.0 - knot
        left, right = (self.experts_at(KNOTS[k], k) for k in (knot, knot + 1))
        owner, counts, times, _ = self.slots[slot(x)]
        if owner == x and times >= 2.0:
            said = (1.0 - share) * left + share * right
            p = sigmoid(said[-1])
            said[-1] = log_odds((2.0 * p + counts[1]) / (2.0 + counts.sum()))
            found = self.combined(said)
        else:
            left, right = self.combined(left), self.combined(right)
            found = {name: (1.0 - share) * left[name] + share * right[name] for name in left}
            if self.late:  # the rows mix what the experts say between the knots
                every = np.array([*found["experts"], found["stacked"]])
                found["first"], found["second"] = (log_odds(row @ sigmoid(every)) for row in self.shares)
        return {**found, "means": self.means.copy(), "count": len(self.rows)}

    def learn(self, x, y, weight, issued):
        w, late = self.weights.relative(weight), len(self.rows) - issued["count"]
        if late and not self.late:
            self.late, self.shares[1] = True, self.shares[0]
        steps = max(1, math.ceil(w))
        self.judge(y, w, issued, late)
        self.learn_once(x, y, w / steps, issued)
        for _ in range(1, steps):
            self.learn_once(x, y, w / steps, self.record(x))
        self.jumper.learn_one(sigmoid(x), bool(y), weight)
        self.rows.append((x, y, w))
        self.count(x, y, w)
        if len(self.rows) >= self.due:
            self.refit()
            self.due = len(self.rows) + max(1, len(self.rows) // 16)

    def judge(self, y, w, issued, late):
        rate = w * (1.0 + late) ** -0.75
        part = shared(issued["both"])
        gains = np.array([likelihood(z, y) for z in (*issued["experts"], issued["stacked"])])
        for row, power in ((0, w), (1, rate)) if self.late else ((0, w),):
            updated = self.shares[row] * gains**power
            self.shares[row] = (1.0 - part) * updated / updated.sum() + part * self.prior
        if self.late:
            each = [likelihood(issued[row], y) for row in ("first", "second")]
            self.log_wealth = self.log_wealth + w / (1.0 + late) * np.log(each)
        odds = (likelihood(issued["corrected"], y) / likelihood(issued["base"], y)) ** rate
        updated = self.corrected * odds / (1.0 - self.corrected + self.corrected * odds)
        part = shared(issued["base"])
        self.corrected = (1.0 - part) * updated + part * table.CORRECTION_PRIOR

    def learn_once(self, x, y, w, issued):
        self.stack.learn(np.array([issued["mixed"], *issued["experts"], 1.0]), y, w)
        self.correction.learn(issued["base"], y, w)
        phi = self.phi(x, issued["means"])
        for one, places in zip(self.regressions, self.places, strict=True):
            one.learn(phi[places], y, w)
        rates = np.array(list(table.LABEL_MEANS.values()))
        self.means = self.means + (1.0 - (1.0 - rates) ** w) * (2.0 * y - 1.0 - self.means)

    def count(self, x, y, w):
        """Each slot has an owner, which loses it to a score that comes when its life is over."""
        owner, counts, times, life = self.slots[slot(x)]
        if owner != x:
            if life > 1.0:
                self.slots[slot(x)] = (owner, counts, times, life - 1.0)
                return
            counts, times = np.zeros(2), 0.0
        counts, times = 0.999 * counts, times + max(w, 1.0)
        counts[int(y)] += w
        self.slots[slot(x)] = (x, counts, times, min(times, 64.0))

    def refit(self):
        """Fit the line, and the log-minimax point of the Venn-Abers interval, to all rows, shared between knots."""
        sums = np.zeros((2, len(KNOTS)))
        for x, y, w in self.rows:
            knot = min(int((x + 16.0) * 4.0), 127)
            share = (x + 16.0) * 4.0 - knot
            sums[int(y), knot] += w * (1.0 - share)
            sums[int(y), knot + 1] += w * share

        def penalised(line):
            z = line[0] * KNOTS + line[1]
            held = table.PRECISION["x"] * (line[0] - 1.0) ** 2 + table.PRECISION["1"] * line[1] ** 2
            return sums[1] @ np.logaddexp(0.0, -z) + sums[0] @ np.logaddexp(0.0, z) + 0.5 * held

        self.line = tuple(minimize(penalised, self.line, method="BFGS", options={"gtol": 1e-9}).x)
        if min(sums.sum(axis=1)) >= 4.0:
            fitted = VennAbers()
            for label in (0, 1):
                used = np.flatnonzero(sums[label])
                fitted.learn_many(sigmoid(KNOTS[used]), np.full(len(used), bool(label)), sums[label][used])
            self.curve = np.array([log_odds(fitted.predict_one(score)) for score in sigmoid(KNOTS).tolist()])


def stream(n, seed):
    """Scores of which some repeat, labels of which some persist, and weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.0, 1.5, n)
    x[::3] = np.round(x[::3])
    y = rng.random(n) < sigmoid(0.6 * x + np.sin(np.arange(n) / 20.0))
    return sigmoid(x).tolist(), y.tolist(), rng.choice([0.5, 1.0, 2.0], n).tolist()


@pytest.mark.parametrize("delay", [0, 4])
def test_it_is_the_mixture_of_the_formulas(delay):
    """Everything that is issued, and so what is learned, but for the guard, which has tests of its own."""
    cal, by_hand, waiting = Auto(delay), AutoByHand(), []
    size = len(table.EXPERTS)
    for number, (score, y, w) in enumerate(zip(*stream(140, 1), strict=True)):
        x = cal.scale.coordinate(score)
        issued, expected = cal._issue(x, math.nan), by_hand.record(x)
        np.testing.assert_allclose(issued[:size], expected["experts"], rtol=1e-6, atol=1e-6)
        places = {"mixed": 0, "stacked": 1, "first": 2, "second": 3, "base": 4, "corrected": 5, "both": 6}
        for name, place in places.items():
            if name in ("first", "second") and not by_hand.late:
                continue
            assert issued[size + place] == pytest.approx(expected[name], rel=1e-6, abs=1e-6), (number, name)
        waiting.append((x, y, w, issued, expected))
        if len(waiting) > delay:
            x, y, w, issued, expected = waiting.pop(number % 2 if delay else 0)
            cal._learn_issued(x, float(y), w, math.nan, issued)
            by_hand.learn(x, float(y), w, expected)


class GuardByHand:
    """The stakes of all counts of labels in a list, and when each token comes back; the next stake by bisection."""

    def __init__(self, delay):
        self.delay, self.budget, self.promised = delay, math.log(4.0) + delay / 4.0, math.log(4.0) + delay / 4.0
        self.stakes, self.back = [], []  # of the counts so far; counts at which tokens are back
        self.stake()

    def largest(self, stakes):
        """Mⱼ, the largest stake of the counts n + j − d … n."""
        n = len(stakes) - 1
        return [max(stakes[max(0, n + j - self.delay) :]) for j in range(self.delay + 1)]

    def reserve(self, stake):
        """Return what the forecasts up to now can lose, if the present ones stake `stake`."""
        largest, n = self.largest([*self.stakes, stake]), len(self.stakes)
        return sum(largest) + sum(min(1.0, 4.0 * largest[max(0, at - n)]) for at in self.back)

    def stake(self):
        if self.reserve(0.0) >= self.budget - 1e-12:
            self.stakes.append(1e-12)
        else:
            self.stakes.append(brentq(lambda a: self.reserve(a) - self.budget, 0.0, self.budget, xtol=1e-14))

    def learn(self, gain):
        """Book a gain; whether it was a surprise."""
        largest, n = self.largest(self.stakes), len(self.stakes) - 1
        surprise = self.delay > 0 and -gain > largest[0]
        if surprise:
            usable = [at for at in self.back if largest[max(0, at - n)] >= largest[0] - 1e-9]
            if usable:
                self.back.remove(min(usable))
            else:
                self.promised, self.budget = self.promised + 1.0, self.budget + 1.0
            self.back.append(n + 1 + self.delay)
        self.budget += gain
        self.stake()
        return surprise


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_the_guard_is_its_sums(delay):
    """The stakes that use up the budget, with gains, losses, and surprises of which some come in a row."""
    rng, cal, by_hand = np.random.default_rng(delay), Auto(delay), GuardByHand(delay)
    guard, surprises = cal._mixture.guard, 0
    for k in range(400):
        assert guard.staked == pytest.approx(by_hand.stakes[-1], rel=1e-6, abs=1e-9), k
        assert guard.budget == pytest.approx(by_hand.budget, abs=1e-7)
        assert guard.promised == pytest.approx(by_hand.promised, abs=1e-7)
        most = by_hand.largest(by_hand.stakes)[0]
        extra = min(1.0, 4.0 * most) if delay else 0.0
        gain = [rng.uniform(0.0, 0.3), -0.9 * most * rng.random(), -most - rng.uniform(0.05, 0.95) * extra]
        gain = gain[0 if k % 100 < 40 else int(rng.integers(3))]
        surprises += by_hand.learn(gain)
        guard.learn(gain)
    assert surprises > 50 or delay == 0
    held = sum(tokens for *_, tokens in guard.state()[4])
    assert held <= delay + 1


def test_another_expert_is_a_row_of_the_table(monkeypatch):
    """A smoother more: no other file knows of it."""
    more = (*table.SMOOTHERS.tolist(), table.Smoother(2.0, 50.0).row())
    prior = np.insert(0.9 * table.PRIOR, 2 + table.REGRESSIONS.number + len(table.SMOOTHERS), 0.1)
    size = len(table.EXPERTS) + 3
    stack = (range(size), [0.999] * size, [5.0] * size, [1.0] + [0.0] * (size - 1))
    monkeypatch.setattr(table, "SMOOTHERS", np.array(more))
    monkeypatch.setattr(table, "PRIOR", prior)
    monkeypatch.setattr(table, "STACKING", table.Plan([stack]))
    mixture = table.new_mixture(0)
    for k in range(60):
        mixture.learn(1.0, float(k % 4 == 0), 1.0, math.nan, None, 0.0)
    experts, *_ = mixture.weights()
    assert len(experts) == len(table.EXPERTS) + 2
    assert sigmoid(mixture.at(1.0, math.nan)) < 0.5
