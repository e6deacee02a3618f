"""The hull tree against brute force: pool-adjacent-violators in exact arithmetic, SciPy, scikit-learn, itself."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from benchmarks.tree_counts import load_plain
from streamcal.kernels.tree import hull_tree

HullTree = hull_tree.HullTree


# The files of the tree uncompiled: hull_nodes, hull_search, hull_pools, hull_fits, hull_changes and hull_tree.
PLAIN = load_plain().HullTree
# Leaves of four groups: a tree of forty scores then has every case that a deep one has.
SMALL_LEAVES = load_plain(LEAF_CAPACITY=4, LEAF_FILL=3, MERGED_FILL=3).HullTree
#: Every case in small leaves, and in those of the package with `-m full`.
BOTH = [
    pytest.param(SMALL_LEAVES, id="small leaves"),
    pytest.param(HullTree, id="imported", marks=pytest.mark.full),
]
# No sums count as whole, so that every leaf is scanned with the predicate for masses of any kind.
NEVER_WHOLE = load_plain(LEAF_CAPACITY=8, LEAF_FILL=6, MERGED_FILL=6, WHOLE_LIMIT=0.0).HullTree
ALWAYS_WHOLE = load_plain(LEAF_CAPACITY=8, LEAF_FILL=6, MERGED_FILL=6).HullTree


class Oracle:
    """The same multiset as a dict, fitted from the beginning for every question, in exact arithmetic."""

    def __init__(self, number=Fraction):
        self.number = number  # int where all masses are integers: faster, and as exact
        self.held = {}

    def update(self, score, w, positive, count):
        old = self.held.get(score, (0, 0, 0))
        new = (self.number(w), self.number(positive), count)
        self.held[score] = tuple(a + b for a, b in zip(old, new, strict=True))

    def unlearn(self, score, w, positive, count):
        self.update(score, -w, -positive, -count)
        if self.held[score][2] == 0:
            del self.held[score]

    def fitted(self, groups):
        """[score, fitted value as a Fraction] for a dict of groups."""
        blocks = []
        for score in sorted(groups):
            w, p, scores = groups[score][0], groups[score][1], [score]
            while blocks and blocks[-1][1] * w >= p * blocks[-1][0]:
                left_w, left_p, left = blocks.pop()
                w, p, scores = left_w + w, left_p + p, left + scores
            blocks.append((w, p, scores))
        return {score: Fraction(p) / Fraction(w) for w, p, scores in blocks for score in scores}

    def interval(self, score, w):
        values = []
        for label in (0, 1):
            groups = dict(self.held)
            old = groups.get(score, (0, 0))
            groups[score] = (old[0] + self.number(w), old[1] + label * self.number(w))
            values.append(float(self.fitted(groups)[score]))
        return tuple(values)

    def isotonic(self, score):
        fitted = self.fitted(self.held)
        return float(np.interp(score, list(fitted), [float(v) for v in fitted.values()]))


def whole(rng):
    return float(rng.integers(1, 9))


def fractional(rng):
    return float(rng.random())


def one(rng):
    return 1.0


def random_steps(rng, steps, scores, weight, retracted=0.35):
    """Yield ("update" or "unlearn", arguments); now and then most of what is held goes away again."""
    held = []
    for i in range(steps):
        if held and rng.random() < (0.8 if i // 300 % 3 == 2 else retracted):
            yield "unlearn", held.pop(rng.integers(len(held)))
        else:
            score, w = float(rng.choice(scores)), weight(rng)
            # labels 0 and 1, and fractions of the weight where it is not whole
            p = w * (rng.random() < 0.5 + 0.4 * math.tanh(score)) * (rng.random() if weight is fractional else 1)
            held.append((score, w, float(p), 1))
            yield "update", held[-1]


# ---- exactness ---------------------------------------------------------------------------------------------


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(HullTree, id="imported"),
        pytest.param(PLAIN, id="plain", marks=pytest.mark.full),
        pytest.param(SMALL_LEAVES, id="small leaves"),
    ],
)
@pytest.mark.parametrize("weight", [one, whole, fractional])
@pytest.mark.parametrize("distinct", [3, 40, 100_000])
def test_random_operations(kernel, weight, distinct):
    """Every answer of a stream with ties and retractions, the invariants after every step."""
    rng = np.random.default_rng(distinct)
    tree, oracle = kernel(), Oracle(Fraction if weight is fractional else int)
    scores = np.linspace(-1.0, 1.0, distinct)
    steps = 500 if kernel is HullTree else 250  # small leaves split after a few, and the source takes ten times as long
    for step, (verb, arguments) in enumerate(random_steps(rng, steps, scores, weight)):
        assert getattr(tree, verb)(*arguments) in (None, 0)
        getattr(oracle, verb)(*arguments)
        tree.check()
        assert tree.size == len(oracle.held)
        if step % 4 == 0 and oracle.held:
            score = float(rng.choice(scores)) + rng.integers(-1, 2) * 1e-3
            w = weight(rng)
            # Integer masses leave nothing to rounding but the last division. Fractional ones: sums of at most 500
            # terms, each rounded, 500 · 2⁻⁵³ = 6e-14.
            close = 0.0 if weight is not fractional else 1e-13
            assert tree.interval(score, w) == pytest.approx(oracle.interval(score, w), rel=0, abs=close)
            # Interpolation itself rounds a few times; near-by scores 2e-5 apart lose five digits of distance.
            assert tree.isotonic(score) == pytest.approx(oracle.isotonic(score), rel=0, abs=1e-11)


class Cells:
    """Integer masses on a grid of scores, refitted by SciPy's isotonic regression for every question."""

    def __init__(self, n):
        self.w, self.p = np.zeros(n), np.zeros(n)

    def change(self, i, w, p):
        self.w[i] += w
        self.p[i] += p

    def interval(self, i, w):
        values = []
        for label in (0.0, 1.0):
            self.change(i, w, label * w)
            held = self.w > 0
            at = int(np.count_nonzero(held[:i]))
            values.append(isotonic_regression(self.p[held] / self.w[held], weights=self.w[held]).x[at])
            self.change(i, -w, -label * w)
        return tuple(values)


def stream_over_cells(seed, operations, n, scores):
    """Learn, unlearn and ask at random; returns how many questions were compared.

    A fit is a fraction with a denominator of at most the total weight, here below 2e4. Two different ones are 2.5e-9
    apart, so that agreement with SciPy to 1e-10 (it rounds in every pooling) proves that the fractions are equal.
    """
    rng = np.random.default_rng(seed)
    tree, cells, held, asked = HullTree(), Cells(n), [], 0
    for start in range(0, operations, 1000):
        growing = 0.5 if tree.weight < 6_000 and start // 20_000 % 2 == 0 else 0.2
        for kind, u, v in rng.random((min(1000, operations - start), 3)).tolist():
            i = int(u * n) if v < 0.7 else int(u * u * n / 50)  # a crowded end as well
            if kind < growing:
                w = float(1 + int(v * 64) % 3)
                p = w * (rng.random() < scores[i])
                tree.update(scores[i], w, p, 1)
                cells.change(i, w, p)
                held.append((i, w, p))
            elif kind < 0.7:
                if held:
                    at = int(u * len(held))
                    held[at], held[-1] = held[-1], held[at]
                    i, w, p = held.pop()
                    assert tree.unlearn(scores[i], w, p, 1) == 0
                    cells.change(i, -w, -p)
            else:
                assert np.allclose(tree.interval(scores[i], 1.0), cells.interval(i, 1.0), rtol=0, atol=1e-10)
                asked += 1
        assert tree.weight == cells.w.sum() < 2e4
        assert tree.count == len(held)
    tree.check()
    return asked


def test_thousands_of_operations():
    uniform = np.linspace(0.0, 1.0, 700).tolist()
    rare = np.sort(np.random.default_rng(0).beta(1, 200, 700)).tolist()  # clicks: 0.5 % positives
    assert stream_over_cells(1, 5_000, 700, uniform) > 1_000
    assert stream_over_cells(2, 5_000, 700, rare) > 1_000


@pytest.mark.long
def test_ten_million_operations():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = (300, 1000, 3000)[seed % 3]
        scores = np.sort(rng.beta(1, 200, n) if seed % 2 else rng.random(n)).tolist()
        stream_over_cells(seed, 500_000, n, scores)


@pytest.mark.sample(3)
@pytest.mark.parametrize("order", ["sorted", "reversed", "inwards"])
@pytest.mark.parametrize("kernel", BOTH)
def test_orders_of_arrival(order, kernel):
    """Sorted, reverse-sorted and from both ends inwards, and away again in the same order."""
    rng = np.random.default_rng(3)
    n = 600 if kernel is HullTree else 120
    scores = np.sort(rng.random(n))
    if order == "reversed":
        scores = scores[::-1]
    elif order == "inwards":
        scores = np.stack([scores[: n // 2], scores[::-1][: n // 2]], axis=1).ravel()
    labels = (rng.random(n) < scores).astype(float)
    tree = kernel()
    for i in range(n):
        tree.update(scores[i], 1.0, labels[i], 1)
        if i % 20 == 0:
            tree.check()
    assert_same_fit(tree, scores, np.ones(n), labels)
    for i in range(n - 10):
        assert tree.unlearn(scores[i], 1.0, labels[i], 1) == 0
        if i % 20 == 0:
            tree.check()
    assert tree.size == 10
    assert_same_fit(tree, scores[-10:], np.ones(10), labels[-10:])


def assert_same_fit(tree, scores, w, labels):
    """Isotonic fit and both sides of the interval against scikit-learn on the data plus the test object.

    1e-9: scikit-learn keeps means and multiplies them by weights again in every pooling.
    """
    model = IsotonicRegression(out_of_bounds="clip").fit(scores, labels / w, sample_weight=w)
    asked = np.concatenate([scores[::37], scores[::41] + 1e-4, [scores.min() - 1, scores.max() + 1]])
    assert tree.isotonics(asked) == pytest.approx(model.predict(asked), abs=1e-9)
    for score in asked[::3].tolist():
        for label, value in enumerate(tree.interval(score, 1.0)):
            plus = IsotonicRegression().fit(
                np.append(scores, score), np.append(labels / w, label), sample_weight=np.append(w, 1.0)
            )
            assert value == pytest.approx(plus.predict([score])[0], abs=1e-9)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_only(label):
    tree = HullTree()
    for score in np.random.default_rng(0).random(150).tolist():
        tree.update(score, 1.0, label, 1)
        tree.check()
    p0, p1 = tree.intervals([0.0, 0.5, 1.0], 1.0)
    assert tree.isotonic(0.5) == label
    assert (p0 <= label).all()
    assert (label <= p1).all()


def test_extreme_scores():
    """Subnormals, both zeros, and scores whose distance overflows."""
    tiny, huge = 5e-324, 1.7e308
    tree, oracle = HullTree(), Oracle(int)
    for i, score in enumerate([0.0, tiny, -tiny, 3 * tiny, 5 * tiny, huge, -huge, -0.0, 1.0, tiny, 0.0]):
        tree.update(score, 1.0, float(i % 2), 1)
        oracle.update(score, 1.0, float(i % 2), 1)
        tree.check()
    assert tree.size == 8
    assert tree.find(-0.0) == tree.find(0.0) == (3.0, 1.0, 3)
    for score in [0.0, -0.0, tiny, 2 * tiny, -huge, huge, 0.5, -3.0]:
        assert tree.interval(score, 1.0) == oracle.interval(score, 1.0)
    assert 0.0 <= tree.isotonic(2 * tiny) <= tree.isotonic(4 * tiny) <= tree.isotonic(1e308) <= 1.0
    assert tree.unlearn(-0.0, 1.0, 1.0, 1) == 0


# ---- nearly collinear, and weights of many magnitudes ------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("kernel", BOTH)
@pytest.mark.parametrize("bend", [0, 1, -1])
def test_nearly_collinear_minorants(kernel, bend):
    """Weight 10⁶ + i, so that slopes differ from one another by 10⁻⁶ or, in exact ties, not at all.

    bend = 0: all slopes are exactly 1/2; 1 and −1: the smallest increase or decrease that integers allow.
    """
    rng = np.random.default_rng(1)
    tree, oracle = kernel(), Oracle(int)
    order = rng.permutation(90)
    for step, i in enumerate(order.tolist()):
        w = 2.0 * (10**6 + i)
        group = (float(i), w, w / 2 + bend * (i // 3), 1)  # every third pair of slopes in a row nearly ties
        tree.update(*group)
        oracle.update(*group)
        tree.check()
        if step % 3 == 0:
            score = float(rng.integers(-1, 181)) / 2
            assert tree.interval(score, 1.0) == oracle.interval(score, 1.0)
            # interpolation rounds; the fit at held scores is exact
            close = 0.0 if score in oracle.held else 1e-15
            assert tree.isotonic(score) == pytest.approx(oracle.isotonic(score), rel=0, abs=close)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", BOTH)
@pytest.mark.parametrize("growth", [*(pytest.param(one, marks=pytest.mark.full) for one in (1.05, 1.5)), 7.0])
def test_forward_decay(kernel, growth):
    """New observations weigh ever more, old ones are scaled down and pruned: as exponential forgetting does it."""
    rng = np.random.default_rng(4)
    tree, oracle, w = kernel(), Oracle(), 1.0
    steps = {1.05: 400, 1.5: 150, 7.0: 60}[growth]  # weights over 1e8, 1e26, 1e50
    for step in range(steps):
        score = float(rng.integers(0, 120)) / 120
        label = float(rng.random() < score)
        tree.update(score, w, w * label, 1)
        oracle.update(score, w, w * label, 1)
        tree.check()
        if step % 5 == 0:
            score = float(rng.integers(0, 240)) / 240
            # Masses are sums of positive terms, at most 400 of them, so their relative error stays below 400 · 2⁻⁵³
            # whatever their magnitudes, and so do the fits.
            assert tree.interval(score, w) == pytest.approx(oracle.interval(score, w), rel=1e-13, abs=1e-13)
            assert tree.isotonic(score) == pytest.approx(oracle.isotonic(score), rel=1e-13, abs=1e-13)
        w *= growth
    scores, weights, _, count = tree.to_arrays()
    tree.multiply(1 / w)
    tree.check()
    assert tree.weight == pytest.approx(weights.sum() / w, rel=1e-13)  # sums in another order
    few = weights / w < 1e-4
    assert tree.prune(1e-4) == count[few].sum()
    tree.check()
    assert tree.to_arrays()[0].tolist() == scores[~few].tolist()


@pytest.mark.sample(6)
@pytest.mark.parametrize("kernel", BOTH)
@pytest.mark.parametrize("halvings", [300, 495, 500, 520, 700, 999])
def test_weights_scaled_to_where_their_products_underflow(kernel, halvings):
    """What a pause of hundreds of half-lives leaves: what is too light to be compared goes, the rest is fitted."""
    rng = np.random.default_rng(halvings)
    tree, oracle = kernel(), Oracle()
    for score in rng.random(50).tolist():
        w = 2.0 ** int(rng.integers(0, 40))
        tree.update(score, w, w * (rng.random() < 0.5), 1)
    scores, weight, *_ = tree.to_arrays()
    tree.multiply(2.0**-halvings)
    tree.check()
    assert tree.to_arrays()[0].tolist() == scores[weight * 2.0**-halvings >= hull_tree.LIGHTEST].tolist()
    for group in zip(*(column.tolist() for column in tree.to_arrays()), strict=True):
        oracle.update(*group)
    for score in tree.to_arrays()[0].tolist():
        assert tree.isotonic(score) == pytest.approx(oracle.isotonic(score), rel=1e-13, abs=0)
        w = 2.0 ** (20 - halvings)
        assert tree.interval(score, w) == pytest.approx(oracle.interval(score, w), rel=1e-13, abs=0)
    tree.update(0.5, 1.0, 1.0, 1)
    tree.check()
    assert tree.isotonic(1.0) == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("w", [1e140, 1e150, 1e300, math.inf])
def test_a_test_object_may_outweigh_everything(w):
    tree = HullTree()
    for i in range(200):
        tree.update(i / 200, 1e60, 1e60 * (i % 2), 1)
    for p0, p1 in (tree.interval(0.3, w), next(zip(*tree.intervals([0.3], w), strict=True))):
        assert 0.0 <= p0 < 1e-70
        assert p1 == 1.0


# ---- taking back -------------------------------------------------------------------------------------------


def test_what_was_never_held_is_refused():
    tree = HullTree()
    assert tree.unlearn(0.5, 1.0, 1.0, 1) == 1
    tree.update(0.5, 2.0, 1.0, 2)
    before = pickle.dumps(tree)
    for wrong in [
        (0.4, 1.0, 1.0, 1),  # no such score
        (0.5, 3.0, 1.0, 1),  # too much weight
        (0.5, 2.0, 2.0, 2),  # too much of label 1
        (0.5, 1.5, 0.0, 1),  # too much of label 0
        (0.5, 1.0, 0.0, 3),  # too many observations
        (0.5, 1.0, 0.0, 2),  # weight would stay without an observation
    ]:
        assert tree.unlearn(*wrong) == 1
        assert pickle.dumps(tree) == before
    assert tree.unlearn(0.5, 2.0, 1.0, 2) == 0
    assert (tree.size, tree.count, tree.weight, tree.positive) == (0, 0, 0.0, 0.0)
    assert tree.interval(0.5, 1.0) == (0.0, 1.0)
    tree.check()


def test_beside_a_heavy_group_whole_masses_are_still_known_exactly():
    """Rounding could excuse what misses 10⁻¹⁰ of the heaviest weight; among whole numbers there is none."""
    tree = HullTree()
    tree.update(0.1, 1e11, 0.0, 1)
    tree.update(0.5, 3.0, 1.0, 2)
    for wrong in [(0.5, 4.0, 1.0, 1), (0.5, 2.0, 2.0, 1), (0.5, 2.0, 1.0, 2)]:
        assert tree.unlearn(*wrong) == 1
        assert tree.find(0.5) == (3.0, 1.0, 2)
    assert tree.unlearn(0.5, 3.0, 1.0, 2) == 0


@pytest.mark.parametrize("kernel", BOTH)
def test_sums_are_not_exact_any_more_once_rounding_shows(kernel):
    """A group saved as 4 that was 4 + 10⁻²⁰ looks whole until the 4 is taken back."""
    tree = kernel()
    n = 80
    tree.rebuild(np.arange(n) / n, np.full(n, 4.0), np.arange(n) % 5.0, np.full(n, 2))
    assert tree.exact
    for i in range(n):
        assert tree.unlearn(i / n, 4.0, i % 5.0, 1) == 0
        assert not tree.exact
        tree.check()
    assert 0.0 < tree.weight < 1e-12


def test_no_ghosts():
    """.1 + .2 − .1 − .2 is not 0; the group goes all the same, and the totals forget it."""
    tree = HullTree()
    tree.update(0.7, 3.0, 1.0, 1)
    for w in (0.1, 0.2, 0.3):
        tree.update(0.5, w, w, 1)
    for w in (0.1, 0.2, 0.3):
        assert tree.unlearn(0.5, w, w, 1) == 0
        tree.check()
    assert (tree.size, tree.count, tree.weight, tree.positive) == (1, 1, 3.0, 1.0)
    assert tree.find(0.5) == (0.0, 0.0, 0)


def test_rounding_never_empties_a_group_that_has_observations():
    tree = HullTree()
    tree.update(0.5, 1.0, 1.0, 1)
    tree.update(0.5, 1e-17, 0.0, 1)  # lost in 1.0
    assert tree.unlearn(0.5, 1.0, 1.0, 1) == 0
    tree.check()
    w, _, count = tree.find(0.5)
    assert count == 1
    assert 0.0 < w < 1e-15


def test_huge_weights_leave_no_rounding_in_the_sums():
    """10¹⁶ goes through the tree and away again: sums that had it subtracted would be wrong by up to 1."""
    rng = np.random.default_rng(0)
    tree, oracle = HullTree(), Oracle()
    for _ in range(300):
        group = (float(rng.random()), 0.5 + float(rng.random()), 0.25, 1)
        tree.update(*group)
        oracle.update(*group)
    for score in rng.random(50).tolist():
        tree.update(score, 1e16, 1e16, 1)
        assert tree.unlearn(score, 1e16, 1e16, 1) == 0
        tree.check()
    for score in rng.random(30).tolist():
        # 300 terms of relative error 2⁻⁵³
        assert tree.interval(score, 1.0) == pytest.approx(oracle.interval(score, 1.0), rel=0, abs=1e-13)
    assert tree.weight == pytest.approx(float(sum(w for w, _, _ in oracle.held.values())), rel=1e-13)


# ---- all at once -------------------------------------------------------------------------------------------


def random_groups(rng, n):
    scores = np.unique(rng.random(n))
    w = rng.integers(1, 5, len(scores)).astype(float)
    return scores, w, np.floor(w * rng.random(len(scores))), np.full(len(scores), 2)


@pytest.mark.sample(8)
@pytest.mark.parametrize("held", [0, 1, 60, 3000])
@pytest.mark.parametrize("new", [0, 1, 50, 2000])
def test_update_sorted_is_the_loop(held, new):
    rng = np.random.default_rng(held + new)
    loop, bulk = HullTree(), HullTree()
    old, groups = random_groups(rng, held), random_groups(rng, new)
    if held and new:
        groups[0][: min(held, new) // 2] = old[0][: min(held, new) // 2]  # ties
        order = np.argsort(groups[0])
        groups = tuple(column[order] for column in groups)
    for tree in (loop, bulk):
        tree.rebuild(*old)
        tree.check()
    for group in zip(*groups, strict=True):
        loop.update(*group)
    bulk.update_sorted(*groups)
    bulk.check()
    loop.check()
    for a, b in zip(loop.to_arrays(), bulk.to_arrays(), strict=True):
        assert a.tolist() == b.tolist()
    assert (loop.size, loop.weight, loop.positive, loop.count) == (bulk.size, bulk.weight, bulk.positive, bulk.count)
    asked = rng.random(50)
    for a, b in zip(loop.intervals(asked, 1.0), bulk.intervals(asked, 1.0), strict=True):
        assert a.tolist() == b.tolist()


def test_arrays_answer_as_single_scores_do():
    rng = np.random.default_rng(0)
    tree = HullTree()
    assert np.isnan(tree.isotonics([0.1])).all()
    assert [x.tolist() for x in tree.intervals([0.1, 0.2], 1.0)] == [[0.0, 0.0], [1.0, 1.0]]
    tree.rebuild(*random_groups(rng, 1000))
    asked = np.append(rng.random(100), tree.to_arrays()[0][:50])
    p0, p1 = tree.intervals(asked, 2.0)
    assert list(zip(p0.tolist(), p1.tolist(), strict=True)) == [tree.interval(x, 2.0) for x in asked.tolist()]
    assert tree.isotonics(asked).tolist() == [tree.isotonic(x) for x in asked.tolist()]
    assert (p0 <= p1).all()
    assert (p0 >= 0).all()
    assert (p1 <= 1).all()


@pytest.mark.sample(4)
@pytest.mark.parametrize("distinct", [5, 60, 2000])
def test_both_scans_of_a_leaf_find_the_same_end(distinct):
    """Whole masses below WHOLE_LIMIT are scanned by sums from the start: the same tree, to the last bit."""
    rng = np.random.default_rng(distinct)
    scores = rng.random(distinct)
    quick, careful = ALWAYS_WHOLE(), NEVER_WHOLE()
    for step, (verb, arguments) in enumerate(random_steps(rng, 600, scores, whole)):
        assert getattr(quick, verb)(*arguments) == getattr(careful, verb)(*arguments)
        if step % 3 == 0:
            score = float(rng.choice(scores)) + rng.integers(-1, 2) * 1e-9
            assert quick.interval(score, 1.0) == careful.interval(score, 1.0)
            assert quick.interval(score, 0.3) == careful.interval(score, 0.3)  # no whole mass
        if step % 50 == 0:
            assert ends(quick._root) == ends(careful._root)


def ends(node):
    """Return what every pool below a node holds."""
    if node is None or node.leaves == 1:
        return []
    own = (node.lo, node.hi, node.P, node.W, node.near_w, node.near_p, node.far_w, node.far_p, node.low, node.high)
    return [own, *ends(node.left), *ends(node.right)]


UNUSUAL_OBSERVATIONS = [
    *((score, True, 1.0) for score in (1, True, "0.5", None, np.float64(0.5), math.nan, math.inf, -0.1, 1.1)),
    *((0.5, y, 1.0) for y in (0, 1.0, None, np.True_)),
    *((0.5, True, w) for w in (1, None, 0.0, -1.0, math.nan, math.inf, 1e-61, 1e61, np.float64(1.0))),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", [HullTree, PLAIN], ids=["imported", "plain"])
def test_the_fast_path_takes_what_needs_no_conversion(kernel):
    rng = np.random.default_rng(6)
    tree, other = kernel(), kernel()
    assert not tree.update_fast(0.5, True, 1.0)  # nothing is in range before `set_fast_range`
    tree.set_fast_range(0.0, 1.0)
    assert tree.interval_fast(0.5) is None  # empty
    for score in [0.0, -0.0, 1.0, 5e-324, *rng.random(300).tolist()]:
        y, w = bool(rng.random() < 0.5), float(rng.choice([1.0, 2.0, 1e-60, 1e60, 0.1]))
        assert tree.update_fast(score, y, w)
        other.update_one(score, float(y), w)
        assert tree.interval_fast(score) == other.interval(score, 1.0)
    before = pickle.dumps(tree.to_arrays())
    for observation in UNUSUAL_OBSERVATIONS:
        assert not tree.update_fast(*observation)
    assert pickle.dumps(tree.to_arrays()) == before == pickle.dumps(other.to_arrays())
    for score in [observation[0] for observation in UNUSUAL_OBSERVATIONS[:9]]:
        assert tree.interval_fast(score) is None


@pytest.mark.parametrize("kernel", [HullTree, PLAIN], ids=["imported", "plain"])
def test_single_scores_stand_at_their_centres(kernel):
    rng = np.random.default_rng(8)
    rounded, tree = kernel(lambda score: round(score, 1)), kernel()
    rounded.set_fast_range(0.0, 1.0)
    for score in rng.random(200).tolist():
        y = bool(rng.random() < score)
        assert rounded.update_fast(score, y, 1.0)
        tree.update_one(round(score, 1), float(y), 1.0)
        rounded.update(score, 2.0, 1.0, 1)
        tree.update(round(score, 1), 2.0, 1.0, 1)
        assert rounded.unlearn(score, 2.0, 1.0, 1) == tree.unlearn(round(score, 1), 2.0, 1.0, 1) == 0
        query = float(rng.random())
        assert rounded.interval_fast(query) == rounded.interval(query, 1.0) == tree.interval(round(query, 1), 1.0)
        assert rounded.isotonic(query) == tree.isotonic(round(query, 1))
        assert rounded.find(query) == tree.find(round(query, 1))
    assert pickle.dumps(rounded.to_arrays()) == pickle.dumps(tree.to_arrays())


def test_blocks_are_those_of_the_fit():
    rng = np.random.default_rng(0)
    tree, oracle = HullTree(), Oracle(int)
    assert [len(column) for column in tree.blocks()] == [0, 0, 0]
    for verb, arguments in random_steps(rng, 900, rng.random(300), one):
        getattr(tree, verb)(*arguments)
        getattr(oracle, verb)(*arguments)
    first, last, value = tree.blocks()
    assert (np.diff(value) > 0).all()
    for score, fitted in oracle.fitted(oracle.held).items():
        block = np.searchsorted(last, score)
        assert first[block] <= score <= last[block]
        assert value[block] == float(fitted) == tree.isotonic(score)


def test_copies():
    rng = np.random.default_rng(0)
    tree = HullTree()
    tree.rebuild(*random_groups(rng, 500))
    for other in (copy.copy(tree), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        other.update(0.5, 1.0, 1.0, 1)
        assert other.size == tree.size + 1
        other.check()


# ---- compiled and uncompiled -------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.skipif(hull_tree.__file__.endswith(".py"), reason="nothing was compiled")
@pytest.mark.parametrize("weight", [whole, fractional])
def test_compiled_and_uncompiled_agree_bit_by_bit(weight):
    rng = np.random.default_rng(7)
    compiled, plain = HullTree(), PLAIN()
    for step, (verb, arguments) in enumerate(random_steps(rng, 1000, rng.random(300), weight, retracted=0.2)):
        assert getattr(compiled, verb)(*arguments) == getattr(plain, verb)(*arguments)
        if step % 3 == 0:
            score = float(rng.random())
            assert compiled.interval(score, 1.0) == plain.interval(score, 1.0)
            assert compiled.isotonic(score) == plain.isotonic(score) or compiled.size == 0
    assert pickle.dumps(compiled.to_arrays()) == pickle.dumps(plain.to_arrays())
    assert (compiled.weight, compiled.positive) == (plain.weight, plain.positive)
    for a, b in zip(compiled.blocks(), plain.blocks(), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.sample(2)
@pytest.mark.parametrize("intervals", [True, False])
@pytest.mark.parametrize("room", [0, 30, 400])
def test_a_stream_is_the_same_in_both_forms_and_that_of_single_steps(intervals, room):
    rng, n = np.random.default_rng(5), 300
    x, y, w = rng.integers(0, 90, n) / 90, rng.integers(0, 2, n) * 1.0, rng.random(n) * (rng.random(n) > 0.2)
    unit = 1.0 + rng.random(n)
    held = [(x[k], 1.0, 1.0 - y[k]) for k in range(20)] if room == 0 else []
    learned = [(x[k], w[k], y[k]) for k in range(n) if w[k] > 0.0]
    leaving = np.array([*held, *learned])
    found = []
    for kernel in (HullTree, PLAIN, None):
        tree, out = (kernel or HullTree)(), np.zeros((2 if intervals else 1, n))
        for score, weight, label in held:
            tree.update_one(score, label, weight)
        if kernel:
            columns = (np.ascontiguousarray(leaving[:, k]) for k in (0, 2, 1))
            tree.stream(x, y, w, unit, *columns, room, out[0], out[1] if intervals else out[0, :0])
        else:
            number = 0
            for i in range(n):
                out[:, i] = tree.interval(x[i], unit[i]) if intervals else tree.isotonic(x[i])
                if w[i] > 0.0:
                    tree.update_one(x[i], y[i], w[i])
                    number += 1
                    if number > room:
                        score, weight, label = leaving[number - room - 1]
                        assert tree.unlearn(score, weight, weight * label, 1) == 0
        found.append((out.tobytes(), pickle.dumps(tree.to_arrays())))
    assert found[0] == found[1] == found[2]


def test_a_stream_refuses_what_does_not_fit():
    tree, three, two, none = HullTree(), np.full(3, 0.5), np.full(2, 0.5), np.empty(0)
    for arguments in (
        (two, three, three, three, none, none, none, 9, three.copy(), none),
        (three, three, three, three, none, none, none, 9, three.copy(), two),
        (three, three, three, three, none, none, none, 9, two, none),
    ):
        with pytest.raises(ValueError, match="lengths"):
            tree.stream(*arguments)
    for gone in (none, np.full(3, 0.25)):
        with pytest.raises(ValueError, match="not held"):
            HullTree().stream(three, three, three, three, gone, gone, gone, 0, three.copy(), none)


def test_blocks_at_scores_are_the_blocks_in_both_forms():
    """And, where neighbouring values differ, those that a pass over all groups finds, with their mean scores.

    Scores leave too, so that cuts between leaves are at scores that are not held any more.
    """
    rng = np.random.default_rng(5)
    forms = HullTree(), load_plain().HullTree()
    assert all(tree.block_at(0.5, 2.0**-42) is None for tree in forms)
    held = []
    for number in range(800):
        score = float(rng.random())
        held.append((score, 1.0, float(rng.random() < score)))
        gone = held.pop(int(rng.integers(len(held)))) if number > 300 and number % 3 else None
        for tree in forms:
            tree.update(*(held[-1] if gone is None or gone[0] != score else gone), 1)
            assert gone is None or tree.unlearn(*gone, 1) == 0
        if number % 20 or not held:
            continue
        scores, weight, _, _ = forms[0].to_arrays()
        first, last, value = forms[0].blocks()
        for query in [-1.0, 2.0, score, *rng.random(5).tolist()]:
            found = forms[0].block_at(query, 2.0**-42)
            assert found == forms[1].block_at(query, 2.0**-42)
            own = first[max(np.searchsorted(first, query, side="right") - 1, 0)]
            at = np.flatnonzero(np.abs(value - value[first == own]) < 1e-12)  # blocks of one value
            inside = (scores >= first[at[0]]) & (scores <= last[at[-1]])
            assert found[:2] == (first[at[0]], last[at[-1]])
            assert found[2] == pytest.approx(value[at[0]], abs=1e-15)
            assert found[3] == pytest.approx(np.average(scores[inside], weights=weight[inside]), rel=1e-14)
            assert found[4] == (last[at[0] - 1] if at[0] else -np.inf)
            assert found[5] == (first[at[-1] + 1] if at[-1] + 1 < len(first) else np.inf)
