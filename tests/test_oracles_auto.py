"""`Auto` against a plain transcription of its formulas, in whole matrices and lists.

It shares no code with the package but `Protected`, `VennAbers` and the constants of the table.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from weights_by_hand import WeightsByHand

from streamcal import Auto, Protected
from streamcal.calibrators.auto import experts as table
from streamcal.calibrators.guarded import new_guard
from streamcal.kernels.mixture.late_weights import LateWeights

KNOTS = np.arange(-64, 65) / 4.0
SHARED = 1e4
CORRECTED = [1.0 - table.CORRECTION_PRIOR, table.CORRECTION_PRIOR]


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def likelihood(z, y):
    return sigmoid(z if y else -z)


def log_odds(p):
    return np.clip(np.log(p) - np.log1p(-p), -16.0, 16.0)


def held_at(p, counts):
    """The log-odds of a mean of labels, negatives and positives, held at p by 1/(2p(1 − p)) of them."""
    return float(np.clip(np.log(counts[1] + 0.5 / (1.0 - p)) - np.log(counts[0] + 0.5 / p), -16.0, 16.0))


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

    def learn(self, phi, y, w, forgets=True):
        if forgets:
            k = self.turn
            self.a = self.a * np.sqrt(np.outer(self.keep, self.keep))
            self.a[k, k] += (1.0 - self.keep[k] ** len(self.keep)) * self.precision[k]
            self.turn = (k + 1) % len(self.keep)
        g = np.linalg.solve(self.a, phi)
        z, v = self.theta @ phi, phi @ g
        m = brentq(lambda m: m - z - v * w * (y - sigmoid(m)), z - v * w - 1.0, z + v * w + 1.0, xtol=1e-14)
        self.theta = self.theta + g * (m - z) / v
        self.a = self.a + w * sigmoid(m) * sigmoid(-m) * np.outer(phi, phi)


class LadderByHand:
    """Every rung by itself, in whole matrices."""

    def __init__(self):
        self.memories = [*table.LINES, *table.CURVES]
        self.sizes = [2] * len(table.LINES) + [4] * len(table.CURVES)
        self.theta = [np.zeros(size) for size in self.sizes]
        self.a = [np.zeros((size, size)) for size in self.sizes]
        self.entered = [memory == 0.0 for memory in self.memories]
        self.information, self.seen = 0.0, []

    def features(self, x):
        d = x - self.seen[0][0] if self.seen else x
        e = np.clip(d, -6.0, 6.0) / 4.0
        return np.array([1.0, d, e**2, e**3])

    def forecasts(self, x):
        """The forecast of each rung; one that has not entered is the one of its kind that forgets nothing."""
        f, found = self.features(x), []
        for k, size in enumerate(self.sizes):
            own = k if self.entered[k] else self.sizes.index(size)
            found.append(np.clip(x + self.theta[own] @ f[:size], -16.0, 16.0))
        return np.array(found)

    def learn(self, x, y, w, u):
        self.seen.append((x, u))
        weights = np.array([one for _, one in self.seen])
        fade = np.cumprod([1.0, *(1.0 - 1e-5 * weights[:0:-1])])[::-1]
        weights = weights * fade
        phi = np.array([self.features(one) for one, _ in self.seen])
        total = weights.sum()
        mean = weights @ phi / total
        spread = (phi.T * weights) @ phi / total - np.outer(mean, mean)
        held = (total * spread + np.diag([0.0, 1.0, 1.0, 1.0])) / (total + 1.0)
        prior = np.outer(mean, mean) + 4.0 * held
        for k, (size, memory) in enumerate(zip(self.sizes, self.memories, strict=True)):
            if not self.entered[k]:
                continue
            f, t = phi[-1, :size], prior[:size, :size]
            keep = memory / (memory + u) if memory else 1.0
            s = sigmoid(np.clip(x + self.theta[k] @ f, -16.0, 16.0))
            self.a[k] = keep * self.a[k] + w * s * (1.0 - s) * np.outer(f, f)
            self.theta[k] = self.theta[k] + np.linalg.solve(
                self.a[k] + t, w * (y - s) * f - (1.0 - keep) * (t @ self.theta[k])
            )
        self.information += u
        for k, (size, memory) in enumerate(zip(self.sizes, self.memories, strict=True)):
            if not self.entered[k] and self.information >= 0.1 * memory:
                self.entered[k] = True
                own = self.sizes.index(size)
                self.theta[k], self.a[k] = self.theta[own].copy(), self.a[own].copy()


class RowsByHand:
    """Weights in rows of three learning rates, and the mixture of them by what each forecast."""

    def __init__(self, prior, group=None):
        self.prior, self.group = np.array(prior) / np.sum(prior), group or len(prior)
        self.rows, self.log_wealth, self.late = np.array([self.prior] * 3), np.zeros(3), False

    def weights(self):
        if not self.late:
            return self.rows[0]
        wealth = np.exp(self.log_wealth - self.log_wealth.max())
        return wealth @ self.rows / wealth.sum()

    def mixed(self, said):
        return log_odds(self.weights() @ sigmoid(np.array(said)))

    def each(self, said):
        return [log_odds(row @ sigmoid(np.array(said))) for row in self.rows]

    def judge(self, said, each, y, w, late, share):
        if late and not self.late:
            self.late, self.rows = True, np.array([self.rows[0]] * 3)
        gains = np.array([likelihood(z, y) for z in said])
        for row, rate in enumerate((w, w * (1.0 + late) ** -0.5, w / (1.0 + late))):
            updated = self.rows[row] * gains**rate
            shared = (1.0 - share) * updated / updated.sum() + share * self.prior
            own, prior = updated[: self.group], self.prior[: self.group]
            within = (1.0 - share) * own / own.sum() + share * prior / prior.sum()
            self.rows[row] = [*(shared[: self.group].sum() * within), *shared[self.group :]]
        if self.late:
            self.log_wealth = self.log_wealth + w * (1.0 + late) ** -0.75 * np.log([likelihood(z, y) for z in each])


class CorrectionByHand:
    """A curve at knots, which an observation moves by implicit steps; its parts by the formulas in `Correction`."""

    def __init__(self):
        self.knots = np.arange(-16 * table.CORRECTION_KNOTS, 16 * table.CORRECTION_KNOTS + 1) / table.CORRECTION_KNOTS
        self.curve, self.curvature = np.zeros(len(self.knots)), np.full(len(self.knots), table.FIRMNESS)

    def corrected(self, z):
        return float(np.clip(z + np.interp(z, self.knots, self.curve), -16.0, 16.0))

    def learn(self, z, y, w, u):
        near = np.maximum(0.0, 1.0 - ((self.knots - z) / table.WIDTH) ** 2) ** 2
        self.curvature -= near * u / (table.CORRECTION_MEMORY + u) * (self.curvature - table.FIRMNESS)
        v, c = np.interp(z, self.knots, near / self.curvature), self.corrected(z)
        m = brentq(lambda m: m - c - v * w * (y - sigmoid(m)), c - v * w - 1.0, c + v * w + 1.0, xtol=1e-14)
        self.curve += near / self.curvature * (m - c) / v
        self.curvature += near * w * sigmoid(m) * sigmoid(-m)


class WorthByHand:
    """What a weighted label is worth: w·Σwr²/Σw²r², r being residuals, where an observation counts 0.9999^age."""

    def __init__(self):
        self.seen = []

    def worth(self, w, square):
        self.seen.append((w, square))
        shares = np.array([0.9999**k for k in range(len(self.seen))][::-1])
        w_seen, squares = np.array(self.seen).T
        return w * (shares @ (w_seen * squares)) / (shares @ (w_seen**2 * squares))


class AutoByHand:
    """Forecasts at all knots; scores within log-odds ±16, which are around 0."""

    def __init__(self):
        self.rows, self.weights, self.worth = [], WeightsByHand(), WorthByHand()
        self.ladder, self.jumper = LadderByHand(), Protected()
        self.regressions, self.places = [], []
        for expert in table.EXPERTS:
            if isinstance(expert.kind, table.Regression):
                places, *given = expert.kind.plan()
                self.regressions.append(RegressionByHand(*given))
                self.places.append(places)
        size = len(table.EXPERTS)
        ends, each = table.STACK_ENDS, table.STACK_PRECISION
        self.stacks = [
            RegressionByHand([keep] * (size + 2), [ends, *[each] * size, ends], [1.0] + [0.0] * (size + 1))
            for keep in table.STACK_KEEP
        ]
        self.correction, self.corrected = CorrectionByHand(), RowsByHand(CORRECTED)
        self.experts, self.rungs = RowsByHand(table.PRIOR, size), RowsByHand(table.RUNG_PRIOR)
        self.means = np.zeros(len(table.LABEL_MEANS))
        self.slots = [(math.nan, np.zeros(2), 0.0, 0.0)] * 32
        self.clock, self.information, self.owed, self.units = 0.0, 0.0, 0.0, 0

    def phi(self, x, means):
        u = x / 4.0
        return np.array([x, 1.0, 0.0, 0.0, u * u, u**3, *means])

    def experts_at(self, x):
        """Return the log-odds of all experts and rungs at a knot, the last expert as at a new score."""
        rungs = self.ladder.forecasts(x)
        said = [x, self.rungs.mixed(rungs)]
        phi = self.phi(x, self.means)
        said += [one.predict(phi[places]) for one, places in zip(self.regressions, self.places, strict=True)]
        p = sigmoid(rungs[0])
        for expert in table.EXPERTS:
            if isinstance(expert.kind, table.Smoother):
                keep, counts = 1.0 - 1.0 / expert.kind.memory, np.zeros(2)
                for at, y, w, units in self.rows:
                    u = (x - at) / expert.kind.width
                    counts[int(y)] += w * keep ** (self.units - units) * max(0.0, 1.0 - u * u) ** 2
                said.append(held_at(p, counts))
        said += [float(log_odds(self.jumper.predict_one(sigmoid(x)))), rungs[0]]
        return np.array([*said, *rungs])

    def combined(self, said):
        """Everything that is forecast from what experts and rungs say, by name."""
        said, rungs = np.split(said, [len(table.EXPERTS)])
        weights = self.experts.weights()[: len(said)]
        mixed = log_odds(weights / weights.sum() @ sigmoid(said))
        experts = np.array([*said, *(stack.predict(np.array([mixed, *said, 1.0])) for stack in self.stacks)])
        stacked = self.experts.mixed(experts)
        corrected = self.correction.corrected(stacked)
        base = self.corrected.mixed([stacked, corrected])
        found = {"mixed": mixed, "stacked": stacked, "corrected": corrected, "base": base}
        return {"experts": experts, "rungs": rungs, **found}

    def record(self, x):
        """Return the forecast at x, from the knots beside it by nearness; a repeated score has its own."""
        knot = min(int((x + 16.0) * 4.0), 127)
        share = (x + 16.0) * 4.0 - knot
        left, right = (self.experts_at(KNOTS[k]) for k in (knot, knot + 1))
        owner, counts, times, _ = self.slots[slot(x)]
        if owner == x and times >= 2.0:
            said = (1.0 - share) * left + share * right
            last = len(table.EXPERTS) - 1
            said[last] = held_at(sigmoid(said[last]), counts)
            found = self.combined(said)
        else:
            left, right = self.combined(left), self.combined(right)
            found = {name: (1.0 - share) * left[name] + share * right[name] for name in left}
        each = {"by row": self.experts.each(found["experts"]), "rungs by row": self.rungs.each(found["rungs"])}
        return {**found, **each, "means": self.means.copy(), "clock": self.clock}

    def learn(self, x, y, weight, issued, z):
        """Learn a label whose prediction was issued with the log-odds z, under the guard."""
        r, late, p = self.weights.relative(weight), self.clock - issued["clock"], sigmoid(z)
        w = self.worth.worth(r, (y - p) ** 2)
        u = 4.0 * p * (1.0 - p) * w
        share = u / (self.information + u + SHARED)
        both = [issued["stacked"], issued["corrected"]]
        self.corrected.judge(both, both, y, w * (1.0 + late) ** -0.75, 0.0, share)
        self.correction.learn(issued["stacked"], y, w * (1.0 + late) ** -0.5, u)
        self.experts.judge(issued["experts"], issued["by row"], y, w, late, share)
        self.rungs.judge(issued["rungs"], issued["rungs by row"], y, w, late, share)
        self.information += u
        self.ladder.learn(x, y, w, u)
        self.step(x, y, w, u, issued)
        self.jumper.learn_one(sigmoid(x), bool(y), weight)
        self.count(x, y, w, u)
        least = min(abs(x), abs(z))
        self.clock += 4.0 * sigmoid(least) * sigmoid(-least)

    def step(self, x, y, w, u, issued):
        """What forgets by units of information does so once in a unit."""
        self.owed = min(self.owed + u, 2.0)
        forgets = self.owed >= 1.0
        self.owed -= forgets
        self.units += forgets
        said = issued["experts"][: len(table.EXPERTS)]
        for stack in self.stacks:
            stack.learn(np.array([issued["mixed"], *said, 1.0]), y, w, forgets)
        phi = self.phi(x, issued["means"])
        for one, places in zip(self.regressions, self.places, strict=True):
            one.learn(phi[places], y, w)
        rates = np.array(list(table.LABEL_MEANS.values()))
        self.means = self.means + (1.0 - (1.0 - rates) ** w) * (2.0 * y - 1.0 - self.means)
        self.rows.append((x, y, w, self.units))

    def count(self, x, y, w, u):
        """Each slot has an owner, which loses it to a score that comes when its life is over."""
        owner, counts, times, life = self.slots[slot(x)]
        if owner != x:
            if life > 1.0:
                self.slots[slot(x)] = (owner, counts, times, life - 1.0)
                return
            counts, times = np.zeros(2), 0.0
        counts, times = (1.0 - 0.001 * u) * counts, times + max(w, 1.0)
        counts[int(y)] += w
        self.slots[slot(x)] = (x, counts, times, min(times, 64.0))


def stream(n, seed):
    """Scores of which some repeat, labels of which some persist, and weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.0, 1.5, n)
    x[::3] = np.round(x[::3])
    y = rng.random(n) < sigmoid(0.6 * x + np.sin(np.arange(n) / 20.0))
    return sigmoid(x).tolist(), y.tolist(), rng.choice([0.5, 1.0, 2.0], n).tolist()


def unrounded(cal, x):
    """Return the record of a forecast before it is rounded for those that wait."""
    record = np.empty(cal._mixture.width)
    cal._steps.issue(x, math.nan)  # nothing is logged from now on
    cal._mixture.write(x, math.nan, record)
    return record.tolist()


def test_what_waits_is_rounded_and_loses_nothing():
    """By less than 1e-3 of what Auto gains on the score; numbers are rounded once."""
    (scores, labels, _), lag = stream(2_000, 5), 40
    losses = []
    for rounds in (True, False):
        cal, waiting, lost = Auto(), [], 0.0
        for score, y in zip(scores, labels, strict=True):
            x = cal.scale.coordinate(score)
            p, record = cal.predict_one(score), cal._issue(x, math.nan) if rounds else unrounded(cal, x)
            exact = unrounded(cal, x)
            assert np.abs(np.subtract(cal._issue(x, math.nan), exact))[:29].max() < 2e-3
            lost -= math.log(p if y else 1.0 - p) - math.log(score if y else 1.0 - score)
            waiting.append((x, y, record))
            if len(waiting) > lag:
                x, y, record = waiting.pop(0)
                cal._learn_issued(x, float(y), 1.0, math.nan, record)
        losses.append(lost)
    assert losses[1] < -30.0
    assert abs(losses[0] - losses[1]) < 1e-3 * abs(losses[1])


@pytest.mark.parametrize("delay", [0, 4])
def test_it_is_the_mixture_of_the_formulas(delay):
    """Everything that is issued, and so what is learned, but for the guard, which has tests of its own."""
    cal, by_hand, waiting = Auto(delay), AutoByHand(), []
    size, end = len(table.PRIOR), cal._mixture.end
    for number, (score, y, w) in enumerate(zip(*stream(140, 1), strict=True)):
        x = cal.scale.coordinate(score)
        issued, expected = unrounded(cal, x), by_hand.record(x)
        np.testing.assert_allclose(issued[:size], expected["experts"], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(issued[size:end], expected["rungs"], rtol=1e-6, atol=1e-6)
        parts = [expected[name] for name in ("mixed", "stacked", "corrected", "base")]
        assert issued[end : end + 4] == pytest.approx(parts, rel=1e-6, abs=1e-6), number
        if by_hand.experts.late:
            each = [*expected["by row"], *expected["rungs by row"]]
            assert issued[end + 6 : end + 12] == pytest.approx(each, rel=1e-6, abs=1e-6), number
        waiting.append((x, y, w, issued, expected))
        if len(waiting) > delay:
            x, y, w, issued, expected = waiting.pop(number % 2 if delay else 0)
            cal._learn_issued(x, float(y), w, math.nan, issued)
            by_hand.learn(x, float(y), w, expected, issued[end + 5])


@pytest.mark.parametrize("delay", [0.0, 1.0, 7.0])
def test_the_guard_sets_aside_what_can_be_lost(delay):
    """After each label: the reserve is all of the budget and no more, stakes fall, labels free what they cost, and a
    token that was made is there for good."""
    rng, guard, surprises, made = np.random.default_rng(3), new_guard(math.log(4.0)), 0, 0
    guard.grow(delay)
    promised = math.log(4.0) + delay
    for k in range(600):
        u, before = rng.uniform(0.05, 0.6), guard.budget
        spans = guard.state()[6] if delay else [[guard.budget, math.inf, 0.0, 0]]
        ends = np.cumsum([length for _, length, _, _ in spans])
        last = int(np.searchsorted(ends, u))  # a forecast that is labelled now was issued with this stake, or less
        each, _, extra, tokens = spans[last]
        tokens += sum(span[3] for span in spans[:last])
        parts = np.diff([0.0, *np.minimum(ends, u)])
        freed = float(parts @ [span[0] for span in spans]) if delay else each
        cost = each * u if delay else each
        gain = [rng.uniform(0.0, 0.2), -0.9 * cost * rng.random(), -cost - rng.uniform(0.05, 0.95) * extra]
        gain = gain[0 if k % 100 < 60 else int(rng.integers(3 if delay else 2))]
        surprised = delay > 0.0 and -gain > freed
        guard.learn(gain, u)
        surprises += surprised
        more = max(1.0, extra) if surprised and tokens == 0 else 0.0
        promised += more
        made += more > 0.0
        assert guard.promised == pytest.approx(promised, abs=1e-9)
        assert guard.budget == pytest.approx(before + gain + more, abs=1e-9)
        spans = np.array(guard.state()[6]).reshape(-1, 4)
        assert spans[:, 3].sum() == made
        reserve = float(spans[:, 0] @ spans[:, 1] + spans[:, 2] @ spans[:, 3])
        assert reserve <= guard.budget + 1e-9
        assert not delay or reserve >= 0.8 * guard.budget
        assert (np.diff(spans[:, 0]) <= 1e-12).all()
        assert (np.diff(spans[:, 2]) <= 1e-12).all()
        assert not delay or spans[:, 1].sum() == pytest.approx(delay + math.log(4.0))
    assert surprises > 20 or not delay


def test_another_expert_is_a_row_of_the_table(monkeypatch):
    """A smoother more: no other file knows of it."""
    more = (*table.SMOOTHERS.tolist(), table.Smoother(2.0, 50.0).row())
    prior = np.insert(0.9 * table.PRIOR, 2 + table.REGRESSIONS.number + len(table.SMOOTHERS), 0.1)
    size = len(table.EXPERTS) + 3
    stack = (range(size), [0.999] * size, [5.0] * size, [1.0] + [0.0] * (size - 1))
    monkeypatch.setattr(table, "SMOOTHERS", np.array(more))
    monkeypatch.setattr(table, "PRIOR", prior)
    monkeypatch.setattr(table, "STACKING", table.Plan([stack, stack]))
    mixture = table.new_mixture()
    for k in range(60):
        mixture.learn(1.0, float(k % 4 == 0), 1.0, math.nan, None, 0.0)
    experts, *_ = mixture.weights()
    assert len(experts) == len(table.EXPERTS) + 3
    assert sigmoid(mixture.at(1.0, math.nan)) < 0.5


@pytest.mark.parametrize(("units", "group"), [(1.0, 4), (1e-3, 4), (1.0, 3)])
def test_weights_follow_every_sequence_of_experts(units, group):
    """The bound in the notes of `LateWeights`, for changes at random places, against experts that take turns."""
    rng, prior, shares = np.random.default_rng(4), np.array([0.5, 0.2, 0.2, 0.1]), 100.0
    levels = 1 if group == 4 else 2
    weights, z, rows = LateWeights(prior, group), rng.normal(0.0, 2.0, (3_000, 4)), np.zeros(3)
    best, loss, total, bound, length = 0, 0.0, 0.0, 0.0, len(z) * units
    for i, forecasts in enumerate(z):
        u = units * rng.uniform(0.5, 1.0)
        if i and rng.random() < 0.003:  # the sequence changes to another expert
            best = int(rng.integers(4))
            bound += math.log(1.0 / prior[best])
            bound += levels * (math.log(1.0 + length / shares) + math.log((total + u + shares) / u))
        y = float(rng.random() < sigmoid(2.0 * forecasts[best]))
        loss += math.log(likelihood(forecasts[best], y)) - math.log(likelihood(weights.mixed(forecasts, 0), y))
        total += u
        weights.judge(np.concatenate([forecasts, rows]), 0, 4, y, 1.0, 0.0, u / (total + shares))
        assert loss <= bound + math.log(1.0 / prior[0]) + levels * math.log(1.0 + length / shares)
    assert bound > 5.0
