"""`streamcal.river.FusedClassifier`: River's own checks, and what it promises."""

import pickle

import pytest
from river import base, checks, datasets, evaluate, linear_model, naive_bayes, preprocessing, tree

from streamcal import InputError, Window
from streamcal.fusion import BernsteinFusion, CopulaFusion, LogisticFusion
from streamcal.river import Brier, FusedClassifier
from streamcal.river.fused import DISCOUNT

ROWS = list(datasets.Phishing().take(200))


class Fixed(base.Classifier):
    """A base that always answers the same, and remembers what it was given."""

    def __init__(self, answer):
        self.answer = answer
        self.learned = []

    def learn_one(self, x, y, w=1.0, t=None):
        self.learned.append((y, w, t))

    def predict_proba_one(self, x):
        return self.answer


class Plain(Fixed):
    """A base that takes neither weights nor times."""

    def learn_one(self, x, y):
        self.learned.append(y)


def pipeline():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def bases():
    return [pipeline(), naive_bayes.GaussianNB()]


@pytest.mark.full
@pytest.mark.parametrize("params", [0, 1])
def test_rivers_checks_on_its_own_test_parameters(params):
    checks.check_estimator(FusedClassifier(**list(FusedClassifier._unit_test_params())[params]))


def test_the_scores_are_what_the_bases_say_before_they_learn():
    model, twins, fusion = FusedClassifier(bases(), BernsteinFusion(2)), bases(), BernsteinFusion(2, missing="marginal")
    for x, y in ROWS[:70]:
        answers = [twin.predict_proba_one(x) for twin in twins]
        scores = [answer.get(True, 0.0) if answer else None for answer in answers]
        expected = fusion.predict_one(scores)
        assert model.predict_proba_one(x) == {False: 1.0 - expected, True: expected}
        model.learn_one(x, y)
        fusion.learn_one(scores, y)
        for twin in twins:
            twin.learn_one(x, y)
    assert model.fusion.n == fusion.n == 70  # naive Bayes has no opinion before its first row: one score


def test_late_labels_are_those_of_what_was_issued():
    """As by a fusion and bases, taught by hand; labels in another order, some of which never come."""
    model, twins, fusion = FusedClassifier(bases()), bases(), FusedClassifier(bases()).fusion
    waiting = []
    for k, (x, y) in enumerate(ROWS[:150]):
        answers = [twin.predict_proba_one(x) for twin in twins]
        scores = [answer.get(True, 0.0) if answer else None for answer in answers]
        waiting.append((x, y, model.issue(x), fusion.issue(scores)))
        assert waiting[-1][2].p == waiting[-1][3].p == model.predict_proba_one(x)[True]
        if k > 20:
            x, y, issued, own = waiting.pop(k % 5)
            y = None if k % 7 == 0 else y
            model.settle(pickle.loads(pickle.dumps(issued)), y, w=2.0)
            fusion.settle(own, y, w=2.0)
            for twin in twins if y is not None else ():
                if isinstance(twin, naive_bayes.GaussianNB):
                    twin.learn_one(x, y)
                else:
                    twin.learn_one(x, y, w=2.0)
    assert model.fusion.state_dict() == fusion.state_dict()
    assert fusion.n > 10.0
    answers = [[one.predict_proba_one(ROWS[0][0]) for one in bases] for bases in (model.models, twins)]
    assert answers[0] == answers[1]


def test_a_prediction_without_a_score_is_settled_by_the_bases_alone():
    model = FusedClassifier([Fixed({}), Fixed({})])
    first, second = model.issue({}), model.issue({})
    model.settle(first, True)
    model.settle(second, None)
    assert (first.p, model.fusion.n, model.models[0].learned) == (0.5, 0.0, [(True, 1.0, None)])


@pytest.mark.full
def test_it_is_better_than_each_of_its_bases():
    found = [evaluate.progressive_val_score(datasets.Phishing().take(700), one, Brier()).get() for one in bases()]
    model = FusedClassifier(bases(), BernsteinFusion(degrees=3, refresh_every=10))
    assert evaluate.progressive_val_score(datasets.Phishing().take(700), model, Brier()).get() < min(found)


def test_weights_times_and_keywords_go_where_those_of_a_calibrated_classifier_go():
    given = [Fixed({True: 0.25, False: 0.75}), Plain({True: 0.5, False: 0.5})]
    model = FusedClassifier(given, BernsteinFusion(degrees=2, forgetting=Window(10.0, by="time")))
    model.learn_one({"a": 1.0}, True, w=2.5, t=3.0)
    assert [one.learned for one in model.models] == [[(True, 2.5, 3.0)], [True]]
    assert given[0].learned == [], "the given base is never changed"
    assert model.fusion.n == 2.5
    assert model.predict_proba_one({"a": 1.0}, t=100.0) == {False: 1 - 0.375, True: 0.375}  # the mean: all forgotten
    with pytest.raises(TypeError, match="stranger"):
        model.learn_one({"a": 1.0}, True, t=4.0, stranger=1)
    with pytest.raises(InputError, match="give the time t"):
        model.learn_one({"a": 1.0}, True)


def test_a_base_without_an_opinion_and_a_label_that_is_none():
    model = FusedClassifier([Fixed({}), Fixed({})], BernsteinFusion())
    model.learn_one({}, True)
    assert model.predict_proba_one({}) == {False: 0.5, True: 0.5}
    assert model.fusion.n == 0.0
    for fusion in (BernsteinFusion(), None, "copula-fusion"):
        model = FusedClassifier([Fixed({}), Fixed({True: 0.75})], fusion)
        assert model.predict_proba_one({}) == {False: 0.25, True: 0.75}
        model.learn_one({}, True)
        assert model.fusion.n == 1.0
    for answers in ([{}, {True: 1.0}], [{True: 1.0}, {True: 1.0}]):
        model = FusedClassifier([Fixed(answer) for answer in answers])
        with pytest.raises(InputError, match="not binary"):
            model.learn_one({}, "click")
        with pytest.raises(InputError, match="weight"):
            model.learn_one({}, True, w=float("nan"))
        assert [one.learned for one in model.models] == [[], []]
    with pytest.raises(InputError, match="only False and True"):
        FusedClassifier([Fixed({"a": 1.0}), Fixed({True: 1.0})]).learn_one({}, True)


def test_copies_and_clones():
    model = FusedClassifier([*bases(), tree.HoeffdingTreeClassifier()], CopulaFusion(("gaussian",), n_scores=3))
    for x, y in ROWS[:60]:
        model.learn_one(x, y)
    twin, clone = pickle.loads(pickle.dumps(model)), model.clone()
    assert twin.predict_proba_one(ROWS[0][0]) == model.predict_proba_one(ROWS[0][0])
    assert clone.fusion.n == 0.0
    assert clone.fusion.params() == model.fusion.params()
    assert clone.predict_proba_one(ROWS[0][0]) == {False: 0.5, True: 0.5}
    assert FusedClassifier(bases()).fusion.params() == LogisticFusion(2, discount=DISCOUNT).params()
    assert FusedClassifier(bases(), BernsteinFusion()).fusion.params() == BernsteinFusion(missing="marginal").params()


class Down(base.Classifier):
    """A model that learns, and gives no answer in some of the rows."""

    def __init__(self, model, start, stop):
        self.model, self.start, self.stop = model, start, stop
        self.seen = 0

    def learn_one(self, x, y):
        self.model.learn_one(x, y)
        self.seen += 1

    def predict_proba_one(self, x):
        return {} if self.start <= self.seen < self.stop else self.model.predict_proba_one(x)


@pytest.mark.full
@pytest.mark.sample(4)
@pytest.mark.parametrize("fusion", [None, BernsteinFusion(3, refresh_every=10)], ids=["default", "bernstein"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("start", [200, *(pytest.param(k, marks=pytest.mark.full) for k in (500, 800))])
def test_with_a_base_down_it_is_not_worse_than_the_one_that_answers(fusion, which, start):
    """300 rows of Phishing: mean Brier scores of the rows in which one base returns {}."""
    stop = start + 300
    model = FusedClassifier([Down(one, start, stop) if k == which else one for k, one in enumerate(bases())], fusion)
    losses = []
    for k, (x, y) in enumerate(datasets.Phishing()):
        if k == stop:
            break
        if k >= start:
            said = model.predict_proba_one(x)[True], model.models[1 - which].predict_proba_one(x).get(True, 0.0)
            losses.append([(p - y) ** 2 for p in said])
        model.learn_one(x, y)
    fused, alone = (sum(column) / 300 for column in zip(*losses, strict=True))
    assert fused < alone + 0.005


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [1, 3, 4, 5, 7])
def test_any_number_of_bases(count):
    model = FusedClassifier([*bases(), *[pipeline() for _ in range(5)]][:count])
    for x, y in ROWS[:50]:
        assert 0.0 <= model.predict_proba_one(x)[True] <= 1.0
        model.learn_one(x, y)
    assert model.fusion.n_scores == count


@pytest.mark.parametrize(
    ("classifiers", "fusion", "said"),
    [
        ([], None, "give a list"),
        (linear_model.LogisticRegression(), None, "give a list"),
        ([linear_model.LinearRegression()], None, "not a River classifier"),
        ([linear_model.LogisticRegression()], BernsteinFusion(), "takes 2 scores, and there are 1"),
        ([linear_model.LogisticRegression()], 3, "not a streamcal fusion"),
    ],
)
def test_what_cannot_be_fused_is_refused(classifiers, fusion, said):
    with pytest.raises(InputError, match=said):
        FusedClassifier(classifiers, fusion)
