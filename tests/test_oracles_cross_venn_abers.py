"""`CrossVennAbers` against paper 003's Algorithm 7 in plain NumPy, the PyPI package, and its theorem."""

import math
import warnings
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from invariants import check
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression, isotonic_regression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from streamcal import (
    CrossVennAbers,
    Decay,
    Forever,
    InputError,
    Interval,
    Logit,
    Prior,
    RetractionError,
    StateError,
    VennAbers,
    Window,
    load_map,
)
from streamcal.sklearn import CrossCalibratedClassifier
from streamcal.statistics.folded_trees import FoldedTrees
from streamcal.statistics.grid import Grid

with np.errstate():  # importing the package switches NumPy's warnings off
    import venn_abers

#: Two correct isotonic fits of fractional weights differ by about 1e-14, and a geometric mean magnifies that of p₀ by
#: the weight of the fold: some hundreds here.
SAME = {"rtol": 0.0, "atol": 1e-11}
POINTS = ("log-minimax", "brier-minimax", "self-consistent")


def pair(s, y, w, query, weight):
    """(p₀, p₁) of one fold: the isotonic fits of all of it with (query, 0), and with (query, 1)."""
    found = []
    for label in (0.0, 1.0):
        scores, labels, weights = np.append(s, query), np.append(y, label), np.append(w, weight)
        distinct, group = np.unique(scores, return_inverse=True)
        total = np.bincount(group, weights)
        fit = isotonic_regression(np.bincount(group, weights * labels) / total, sample_weight=total)
        found.append(fit[np.searchsorted(distinct, query)])
    return found


def algorithm_7(held, folds, queries, weight=1.0):
    """Return the three merged probabilities and the K pairs, from the single observations.

    Observations are (score, label, weight, fold). A fold without observations has the pair (0, 1), and takes part in a
    merge only if all have.
    """
    s, y, w, fold = np.array(held, dtype=float).reshape(-1, 4).T
    pairs = np.array(
        [pair(*(column[fold == k] for column in (s, y, w)), query, weight) for k, query in enumerate(queries)]
    )
    taking_part = np.isin(np.arange(folds), fold) if len(fold) else np.ones(folds, dtype=bool)
    p0, p1 = pairs[taking_part].T
    positive, negative = np.exp(np.log(p1).mean()), math.prod(1.0 - p0) ** (1.0 / len(p0))
    brier = (p1 + p0**2 / 2.0 - p1**2 / 2.0).mean()
    consistent = p0.mean() / (1.0 - p1.mean() + p0.mean()) if p0.mean() - p1.mean() > -1.0 else 0.5
    return dict(zip(POINTS, (positive / (negative + positive), brier, consistent), strict=True)), pairs


def stream(rng, n, folds, levels=None, weights=False):
    """Observations (score, label, weight, fold); `levels` distinct scores, or all distinct."""
    s = rng.random(n) if levels is None else (rng.integers(0, levels, n) + 0.5) / levels
    y = (rng.random(n) < s**1.5).astype(float)
    w = rng.uniform(0.1, 3.0, n) if weights else rng.integers(1, 4, n).astype(float)
    return list(zip(s.tolist(), y.tolist(), w.tolist(), rng.integers(0, folds, n).tolist(), strict=True))


# -- the definition ------------------------------------------------------------------------------------------------


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("folds", "levels", "weights"), [(1, 20, False), (2, None, True), (5, 40, False), (5, None, True), (10, 6, True)]
)
def test_it_is_algorithm_7(folds, levels, weights):
    """Learned and unlearned at random, asked with a score a fold and with one score, now and then nearly empty."""
    rng = np.random.default_rng(folds)
    cals, held = {point: CrossVennAbers(point, folds) for point in POINTS}, []
    fresh = iter(stream(rng, 600, folds, levels, weights))
    for step in range(600):
        if held and rng.random() < (0.95 if step // 120 % 5 == 4 else 0.3):
            *observation, fold = held.pop(rng.integers(len(held)))
            for cal in cals.values():
                cal.unlearn_one(*observation, fold=fold)
        else:
            held.append(next(fresh))
            for cal in cals.values():
                cal.learn_one(*held[-1][:3], fold=held[-1][3])
        if step % 50 == 49:
            table = np.concatenate((rng.random((2, folds)), np.full((1, folds), 0.37)))
            if held:
                table[0] = rng.choice([o[0] for o in held], folds)
            expected = [algorithm_7(held, folds, row) for row in table]
            np.testing.assert_allclose(cals[POINTS[0]].fold_intervals_one(table[0].tolist()), expected[0][1], **SAME)
            for point, cal in cals.items():
                want = [merged[point] for merged, _ in expected]
                np.testing.assert_allclose(cal.predict_many(table), want, **SAME)
                np.testing.assert_allclose([cal.predict_one(row) for row in table], want, **SAME)
                np.testing.assert_allclose([cal.predict_one(0.37), cal.map()(0.37)], want[2:] * 2, **SAME)
                np.testing.assert_allclose(cal.map().predict_many(table), want, **SAME)
                np.testing.assert_allclose([cal.map()(row.tolist()) for row in table], want, **SAME)


@pytest.mark.parametrize("forgetting", [Window(150), Decay(half_life=80)], ids=repr)
def test_by_count_the_whole_stream_is_counted(forgetting):
    """A window is one over all folds, and half a life passes for all of them at once."""
    rng = np.random.default_rng(2)
    cal, seen = CrossVennAbers(folds=4, forgetting=forgetting), stream(rng, 800, 4, 60)
    for i, (*observation, fold) in enumerate(seen):
        cal.learn_one(*observation, fold=fold)
        if i % 80 == 79:
            now = np.array(seen[: i + 1])
            if isinstance(forgetting, Window):
                now = now[-150:]
                assert cal.n == now[:, 2].sum()
            else:
                now[:, 2] *= 0.5 ** (np.arange(i, -1, -1) / 80)
            queries = rng.random(4)
            expected = algorithm_7(now, 4, queries, 2.0)[1]
            # Decay drops scores that weigh less than 2⁻³⁰ of the total together, which can move a fit as much.
            np.testing.assert_allclose(cal.fold_intervals_one(queries.tolist(), w=2.0), expected, atol=1e-8)


def test_one_fold_is_venn_abers():
    rng = np.random.default_rng(3)
    for point in POINTS:
        cal, one = CrossVennAbers(point, 1, resolution=64), VennAbers(point, resolution=64)
        for score, y, w, _ in stream(rng, 200, 1):
            cal.learn_one(score, y, w)
            one.learn_one(score, y, w)
        scores = rng.random(50)
        np.testing.assert_allclose(cal.predict_many(scores), one.predict_many(scores), rtol=1e-14)
        np.testing.assert_allclose(cal.predict_interval_many(scores), one.predict_interval_many(scores), rtol=1e-14)
        assert cal.predict_many(scores[:, None]).tolist() == cal.predict_many(scores).tolist()


def test_the_merges_are_minimax():
    """The regrets over the K right members are the same for both labels (paper 003, eqs. (3), (4) and below)."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        held, queries = stream(rng, 60, 3), rng.random(3).tolist()
        log, brier = (CrossVennAbers(point, 3) for point in POINTS[:2])
        for *observation, fold in held:
            log.learn_one(*observation, fold=fold)
            brier.learn_one(*observation, fold=fold)
        p0, p1 = np.transpose(log.fold_intervals_one(queries))
        p = log.predict_one(queries)
        assert np.log(p1 / p).sum() == pytest.approx(np.log((1 - p0) / (1 - p)).sum(), abs=1e-10)
        p = brier.predict_one(queries)
        assert ((1 - p) ** 2 - (1 - p1) ** 2).sum() == pytest.approx((p**2 - p0**2).sum(), abs=1e-12)


def test_the_self_consistent_merge_solves_its_equation():
    rng, cal = np.random.default_rng(5), CrossVennAbers("self-consistent", 3)
    for *observation, fold in stream(rng, 300, 3):
        cal.learn_one(*observation, fold=fold)
    for queries in rng.random((50, 3)).tolist():
        lower, upper = np.mean(cal.fold_intervals_one(queries), axis=0)
        p = cal.predict_one(queries)
        assert p == pytest.approx((1 - p) * lower + p * upper, abs=1e-14)
        assert cal.predict_interval_one(queries) == pytest.approx((lower, upper), abs=1e-15)


@pytest.mark.parametrize("point", POINTS)
def test_the_interval_contains_the_probability_where_folds_disagree(point):
    """One fold knows positives only and the other negatives only: 1 − GM(1 − p₀) is above GM(p₁) then."""
    cal = CrossVennAbers(point, 2)
    for k in range(40):
        cal.learn_one(0.5, k % 2, fold=k % 2)
    lower, upper = np.transpose(cal.fold_intervals_one(0.5))
    assert max(1.0 - np.sqrt(np.prod(1.0 - lower)), 0.0) > np.sqrt(np.prod(upper))
    low, high = cal.predict_interval_one(0.5)
    assert low <= cal.predict_one(0.5) <= high
    assert cal.predict_one(0.5) == pytest.approx(0.5, abs=1e-12)


def test_the_range_of_lemma_2():
    """Reach both ends of Lemma 2's range: p is in [1/(k+2), 1 − 1/(k+2)], k being the size of the largest fold."""
    for label, expected in ((0, Fraction(1, 10)), (1, Fraction(9, 10))):
        cal = CrossVennAbers(folds=3)
        for k in range(24):
            cal.learn_one(0.5, label, fold=k % 3)
        assert cal.predict_one(0.5) == pytest.approx(float(expected), abs=1e-15)
    rng, cal = np.random.default_rng(6), CrossVennAbers(folds=4)
    scores, folds = rng.random(300), rng.integers(0, 4, 300)
    cal.learn_many(scores, rng.random(300) < scores, fold=folds)
    p, k = cal.predict_many(rng.random((500, 4))), np.bincount(folds).max()
    assert ((p >= 1 / (k + 2)) & (p <= 1 - 1 / (k + 2))).all()


def test_rounding_is_magnified_as_documented():
    """One observation of weight 1e6 in each of five folds: right to 1e-14·1e6, judged in fractions."""
    cal = CrossVennAbers()
    for fold in range(5):
        cal.learn_one(0.5, 1, 1e6, fold=fold)
        cal.learn_one(0.25, 0, 0.3, fold=fold)
    exact = 1 / (1 + Fraction(1, 10**6 + 1))  # p₀ = 10⁶/(10⁶ + 1) and p₁ = 1 in each
    assert cal.predict_one(0.5) == pytest.approx(float(exact), abs=1e-8)
    assert abs(cal.predict_one(0.5) - float(exact)) < 1e-10


# -- folds ---------------------------------------------------------------------------------------------------------


def splitmix64(bits):
    """Return the finalizer as published (Steele, Lea and Flood 2014, with Stafford's constants)."""
    mask = 2**64 - 1
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & mask
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & mask
    return bits ^ (bits >> 31)


def test_the_hash_is_what_the_documentation_says_on_every_machine():
    rng = np.random.default_rng(7)
    x = np.concatenate((rng.random(500), -rng.random(50), [0.0, -0.0, 0.5, 1.0, 5e-324, 1e300]))
    trees = FoldedTrees(7)
    expected = []
    for value in x.tolist():
        bits = int(np.float64(value + 0.0).view(np.uint64))
        expected.append(splitmix64((bits + 2**19) // 2**20) % 7)
    assert trees.folds_of(x).tolist() == expected == [trees.fold_of(value) for value in x.tolist()]
    assert [FoldedTrees(5).fold_of(k / 10) for k in range(11)] == [0, 3, 2, 4, 4, 2, 4, 3, 4, 1, 1]
    on_grid = FoldedTrees(7, Grid(Logit(), 64))
    assert on_grid.folds_of(x[:9]).tolist() == [on_grid.fold_of(value) for value in x[:9].tolist()]
    assert on_grid.fold_of(0.3) == on_grid.fold_of(0.31)


def test_last_digits_do_not_matter():
    rng, trees = np.random.default_rng(8), FoldedTrees(5)
    x = rng.random(20_000)
    for other in (np.nextafter(x, 2.0), x * (1.0 + 4e-16), np.nextafter(x, -1.0)):
        assert trees.folds_of(x).tolist() == trees.folds_of(other).tolist()
    assert trees.fold_of(0.5) == trees.fold_of(math.nextafter(0.5, 0.0))


@pytest.mark.parametrize("folds", [2, 4, 5, 10])
@pytest.mark.parametrize("kind", ["any", "single precision", "four decimals", "near 1"])
def test_the_hash_fills_the_folds_evenly(folds, kind):
    x = np.random.default_rng(9).random(20_000)
    x = {
        "any": x,
        "single precision": x.astype(np.float32).astype(float),
        "four decimals": np.arange(10_000) / 10_000,
        "near 1": 1.0 - 1e-4 * x,
    }[kind]
    counts = np.bincount(FoldedTrees(folds).folds_of(x), minlength=folds)
    spread = math.sqrt(len(x) / folds * (1.0 - 1.0 / folds))
    assert np.abs(counts - len(x) / folds).max() < 4.5 * spread, counts


def dealt(held, folds, fold_of):
    """Return the folds of observations without one, by definition: of each score and label one unit after another."""
    sums, found = {}, []
    for score, y, w in held:
        sums[score, y] = sums.get((score, y), 0.0) + w
    for (score, y), weight in sums.items():
        for unit in range(math.ceil(weight)):
            found.append((score, y, min(weight - unit, 1.0), (fold_of(score) + unit) % folds))
    return found


def assert_dealt(cal, held):
    """Assert that the pairs are those of the folds by definition, and that the invariants hold."""
    check(cal)
    assert cal.n == pytest.approx(sum(w for _, _, w in held), rel=1e-12)
    units = dealt(held, cal.folds, cal._engine.memory.statistic.fold_of)
    queries = np.linspace(0.0, 1.0, 17)
    for query in queries.tolist():
        merged, pairs = algorithm_7(units, cal.folds, [query] * cal.folds)
        np.testing.assert_allclose(cal.fold_intervals_one(query), pairs, **SAME)
        np.testing.assert_allclose([cal.predict_one(query), cal.map()(query)], merged[cal.point], **SAME)


@pytest.mark.sample(8)
@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0], [0.25, 1.0, 7.5, 40.0], [0.1, 0.7, 1.3]])
@pytest.mark.parametrize("window", [None, 12])
def test_what_has_no_fold_is_dealt_by_score_and_label(weights, window):
    """Learned in any order, in bulk, merged, retracted and saved: the folds are a function of what is held."""
    rng = np.random.default_rng(int(10 * sum(weights)))
    policy = {} if window is None else {"forgetting": Window(window)}
    draw = lambda size: list(  # noqa: E731
        zip(
            (rng.integers(0, 4, size) / 8.0).tolist(),
            rng.integers(0, 2, size).astype(float).tolist(),
            rng.choice(weights, size).tolist(),
            strict=True,
        )
    )
    cal, held = CrossVennAbers(folds=3, **policy), draw(20)
    for observation in held[:9]:
        cal.learn_one(*observation)
    cal.learn_many(*np.transpose(held[9:]))
    held = held[-window:] if window else held
    assert_dealt(cal, held)
    for _ in range(6):
        cal.unlearn_one(*held.pop(int(rng.integers(len(held)))))
        cal = CrossVennAbers.from_state(cal.state_dict())
        assert_dealt(cal, held)
    with pytest.raises(RetractionError) if window is None else nullcontext():
        cal.unlearn_one(0.9, 1)
    if window is None:
        other, more = CrossVennAbers(folds=3), draw(15)
        other.learn_many(*np.transpose(more))
        cal.merge(other)
        assert_dealt(cal, held + more)
        for observation in held + more:
            cal.unlearn_one(*observation)
        assert cal.n == 0.0
        assert cal.predict_one(0.3) == 0.5


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "forgetting",
    [Forever(), Window(8_000), Decay(4_000), Decay(4_000.0, by="time"), Window(8_000.0, by="time")],
    ids=repr,
)
@pytest.mark.parametrize("levels", [2, 100])
def test_without_folds_it_converges_on_scores_that_repeat(forgetting, levels):
    """With a fold a score, two scores left three folds of five at (0, 1) for ever: .388 and .614 for .1 and .9."""
    rng = np.random.default_rng(levels)
    s = rng.choice([0.1, 0.9], 16_000) if levels == 2 else np.round(rng.random(16_000), 2)
    y = rng.random(16_000) < s
    cal = CrossVennAbers(forgetting=forgetting)
    cal.learn_many(s, y, None, np.arange(16_000.0))
    given = CrossVennAbers(forgetting=forgetting)
    given.learn_many(s, y, None, np.arange(16_000.0), fold=rng.integers(0, 5, 16_000))
    places = np.unique(s)
    error, of_given = (np.sqrt(np.mean((each.predict_many(places) - places) ** 2)) for each in (cal, given))
    # Two scores: a standard deviation of .004 for 6,000 labels. Others: as good as with folds drawn at random, whose
    # error is a draw itself; a fold a score was 2.4 times as bad.
    assert error < 0.01 if levels == 2 else error < 1.6 * of_given, (error, of_given)


def test_states_are_read_after_retractions_of_weights_far_apart():
    """What is left of a weight of 3e11 is its rounding, and is no share that a fold lacks."""
    rows = [(0.2, False, 325855496181.1087), (0.2, True, 1.0), (0.2, False, 1.0), (0.2, False, 977566488543.326)]
    cal = CrossVennAbers()
    for row in rows:
        cal.learn_one(*row)
    for place in (3, 0, 1, 2):
        cal.unlearn_one(*rows[place])
        cal = CrossVennAbers.from_state(cal.state_dict())
    assert cal.state_dict() == CrossVennAbers().state_dict()


def test_a_state_whose_fold_lacks_a_share_is_refused():
    cal = CrossVennAbers(folds=2)
    for weight in (4.0, 1e6):
        cal.learn_one(0.5, True, weight)
    statistic = cal._engine.memory.statistic.state()
    column = statistic["folds"][0]
    column["weight"] = column["positive"] = [column["weight"][0] - 10.0]
    with pytest.raises(StateError, match="a fold lacks its share"):
        cal._engine.memory.statistic.empty().restore(statistic)


def test_an_empty_fold_takes_no_part():
    cal = CrossVennAbers(folds=4)
    cal.learn_many([0.2, 0.6, 0.6], [0, 1, 1], fold=2)
    one = VennAbers()
    one.learn_many([0.2, 0.6, 0.6], [0, 1, 1])
    for score in (0.1, 0.2, 0.4, 0.6, 0.9):
        assert cal.predict_one(score) == pytest.approx(one.predict_one(score), abs=1e-15)
        assert cal.predict_interval_one(score) == pytest.approx(one.predict_interval_one(score), abs=1e-15)
        assert load_map(cal.map().to_json())(score) == pytest.approx(one.predict_one(score), abs=1e-15)
    assert cal.fold_intervals_one(0.2)[0] == (0.0, 1.0)


def test_a_window_drops_and_a_retraction_finds_the_fold():
    cal = CrossVennAbers(folds=3, forgetting=Window(4))
    for k in range(6):
        cal.learn_one(0.5, 1, fold=k % 3)
    assert [round(p0, 3) for p0, _ in cal.fold_intervals_one(0.5)] == [0.5, 0.5, 0.667]
    cal.unlearn_one(0.5, 1, fold=2)
    assert [round(p0, 3) for p0, _ in cal.fold_intervals_one(0.5)] == [0.5, 0.5, 0.5]
    assert cal.tally()["missed"] == 0
    cal = CrossVennAbers(folds=3)
    cal.learn_one(0.5, 1, fold=0)
    with pytest.raises(RetractionError, match=r"label 1, weight 1\.0.*held in fold 1.*same fold"):
        cal.unlearn_one(0.5, 1, fold=1)
    cal.unlearn_one(0.5, 1, fold=0)
    assert cal.n == 0.0


def test_a_prior_is_shared_out_over_the_folds():
    scores = [0.05, 0.3, 0.5, 0.9]
    one = VennAbers(prior=Prior(20.0 / 5)).predict_interval_many(scores)
    np.testing.assert_allclose(CrossVennAbers(prior=Prior(20.0)).predict_interval_many(scores), one, atol=1e-12)


@pytest.mark.parametrize("fold", [-1, 5, 1.0, True, "0", None, [0], [[0], [1, 2]]])
def test_a_bad_fold_is_named(fold):
    cal = CrossVennAbers()
    before = cal.state_dict()
    if fold is not None:
        for call in (cal.learn_one, cal.unlearn_one):
            with pytest.raises(InputError, match="fold"):
                call(0.5, 1, fold=fold)
    if fold is not True:  # an array of whole numbers and bools is one of whole numbers
        with pytest.raises(InputError, match="fold"):
            cal.learn_many([0.5, 0.6], [1, 0], fold=[0, fold])
    assert cal.state_dict() == before


def test_bad_arrays_and_parameters():
    cal = CrossVennAbers()
    for call in (
        lambda: cal.learn_many([0.5, 0.6], [1, 0], fold=[0]),
        lambda: cal.learn_many([0.5, 0.6], [1, 0], fold=[0.0, 1.0]),
        lambda: cal.learn_many([0.5, 0.6], [1, 0], fold=[[0, 1]]),
        lambda: cal.predict_one([0.5] * 4),
        lambda: cal.predict_one([0.5, 0.5, 0.5, 0.5, 1.5]),
        lambda: cal.predict_one([]),
        lambda: cal.predict_one(np.full((1, 5), 0.5)),
        lambda: cal.predict_many(np.full((2, 4), 0.5)),
        lambda: cal.predict_many(np.full((2, 5, 1), 0.5)),
        lambda: cal.predict_many([[0.5, 0.5, math.nan, 0.5, 0.5]]),
        lambda: cal.map()([0.5, 0.6]),
        lambda: CrossVennAbers("log"),
    ):
        with pytest.raises(InputError):
            call()
    for folds in (0, 1001, 2.0, True):
        with pytest.raises(InputError, match=r"folds=.*whole number from 1 to 1,000"):
            CrossVennAbers(folds=folds)
    assert cal.predict_one(np.array(0.5)) == cal.predict_one(0.5) == cal.predict_one((0.5,) * 5)
    cal.learn_many([0.5, 0.6], [1, 0], fold=3)
    cal.learn_many([], [], fold=[])
    assert cal.n == 2.0


# -- the package -----------------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "base", [GaussianNB(), LogisticRegression(), DecisionTreeClassifier(max_depth=4, random_state=0)], ids=repr
)
@pytest.mark.parametrize("folds", [2, 5])
def test_it_is_the_package_venn_abers_cross_fitted(base, folds):
    """`VennAbersCalibrator(inductive=False)`: the same splits, the same bases, its log and Brier merges."""
    rng = np.random.default_rng(10)
    x = rng.normal(size=(400, 3))
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 0] + x[:, 1] ** 2))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it divides 0 by 0 on its way
        theirs = venn_abers.VennAbersCalibrator(base, inductive=False, n_splits=folds, random_state=0, shuffle=True)
        theirs.fit(x[:300], y[:300])
        by_loss = {loss: theirs.predict_proba(x[300:], loss=loss)[:, 1] for loss in ("log", "brier")}
    splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    parts = list(splits.split(x[:300], y[:300]))
    for point, loss in (("log-minimax", "log"), ("brier-minimax", "brier")):
        cal, asked = CrossVennAbers(point, folds), []
        for fold, (train, test) in enumerate(parts):
            fitted = type(base)(**base.get_params()).fit(x[train], y[train])
            cal.learn_many(fitted.predict_proba(x[test])[:, 1], y[test], fold=fold)
            asked.append(fitted.predict_proba(x[300:])[:, 1])
        np.testing.assert_allclose(cal.predict_many(np.transpose(asked)), by_loss[loss], rtol=0.0, atol=1e-12)


# -- validity --------------------------------------------------------------------------------------------------------


def miscalibration(p, y, bins):
    """How many standard errors the sum of y − p is away from 0 in each bin of p of 100 or more.

    The variance is that of outcomes whose probability is p, Σ p(1 − p): an estimate from the sample is far too small
    where p is nearly 1 and failures are few.
    """
    found = []
    for b in range(len(bins) - 1):
        inside = (p >= bins[b]) & (p < bins[b + 1])
        if inside.sum() >= 100:
            found.append((y - p)[inside].sum() / math.sqrt((p * (1.0 - p))[inside].sum() + 1e-12))
    return np.array(found)


def simulated(seed, make, trials=2_500, folds=3, size=30):
    """(p_Y of every fold, y, isotonic fit of every fold) for new objects, each with new bases and new observations.

    `make(rng, x, y)` trains a base: a function of x. Each fold is calibrated by the base that was trained without it.
    """
    rng = np.random.default_rng(seed)
    right, isotonic, labels = [], [], []
    for _ in range(trials):
        x = rng.normal(size=size + 1)
        y = (rng.random(size + 1) < 1.0 / (1.0 + np.exp(-1.5 * x))).astype(float)
        cal, asked, fold = CrossVennAbers(folds=folds), [], np.arange(size) % folds
        for k in range(folds):
            score = make(rng, x[:-1][fold != k], y[:-1][fold != k])
            cal.learn_many(score(x[:-1][fold == k]), y[:-1][fold == k], fold=k)
            asked.append(float(score(x[-1:])[0]))
            fit = IsotonicRegression(out_of_bounds="clip").fit(score(x[:-1][fold == k]), y[:-1][fold == k])
            isotonic.append(fit.predict(asked[-1:])[0])
        pairs = cal.fold_intervals_one(asked)
        right += [pair[int(y[-1])] for pair in pairs]
        labels += [y[-1]] * folds
    return np.array(right), np.array(labels), np.array(isotonic)


def noisy_mean(rng, x, y):
    """Return a base that has learned something: a logistic curve around the middle of the two classes' means."""
    middle = 0.5 * (x[y == 1.0].mean() + x[y == 0.0].mean()) if 0.0 < y.mean() < 1.0 else 0.0
    slope = rng.uniform(0.5, 4.0)
    return lambda at: 1.0 / (1.0 + np.exp(-slope * (at - middle)))


BINS = [*np.linspace(0.0, 1.0, 9)[:-1], 1.01]


@pytest.mark.full
def test_each_folds_pair_is_perfectly_calibrated_and_an_isotonic_fit_is_not():
    """Proposition 1: E(Y | p_Y) = p_Y. The same statistic refutes isotonic regression on the same folds.

    The three folds of a trial share its test object, so each is judged alone.
    """
    right, y, isotonic = simulated(11, noisy_mean)
    for fold in range(3):
        z = miscalibration(right[fold::3], y[fold::3], BINS)
        assert len(z) >= 6
        assert np.abs(z).max() < 4.0, z  # 24 bins: the chance of a false alarm is 1.5e-3, and the seed is fixed
        assert np.abs(miscalibration(isotonic[fold::3], y[fold::3], BINS)).max() > 8.0


@pytest.mark.full
def test_the_simplified_predictor_fails_where_the_base_remembers():
    """SVAP on a forest grown to the end: worse than cross-fitting by far, as in the column "all" of the paper."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(2_400, 4))
    y = (rng.random(2_400) < 1.0 / (1.0 + np.exp(-x[:, 0] - 0.5 * x[:, 1]))).astype(int)
    train, test = slice(0, 1_200), slice(1_200, None)
    forest = RandomForestClassifier(30, random_state=0)
    fitted = forest.fit(x[train], y[train])
    simplified = VennAbers()
    simplified.learn_many(fitted.predict_proba(x[train])[:, 1], y[train])
    cross = CrossCalibratedClassifier(forest, CrossVennAbers()).fit(x[train], y[train])
    losses = [
        -np.log(np.where(y[test] == 1, p, 1.0 - p)).mean()
        for p in (simplified.predict_many(fitted.predict_proba(x[test])[:, 1]), cross.predict_proba(x[test])[:, 1])
    ]
    assert losses[1] < math.log(2.0) < losses[0], losses


def test_margins_need_a_scale_and_then_work():
    cal = CrossVennAbers(folds=2, scale=Interval(-3.0, 3.0))
    cal.learn_many([-1.0, 1.0, -0.5, 0.5, 4.0], [0, 1, 0, 1, 1], fold=[0, 0, 1, 1, 1])
    assert cal.predict_one([-1.5, -0.6]) < 0.5 < cal.predict_one([1.5, 0.6])
    assert cal.tally()["clamped"] == 1
