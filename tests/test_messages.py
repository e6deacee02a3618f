"""What is said to those who give something else: the value, the place, and what to give."""

import copy
import statistics

import numpy as np
import pytest
from river import base
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from streamcal import Beta, HistogramBinning, Identity, InputError, OnlinePlatt, Platt
from streamcal.app.plot import plot_reliability, text_reliability
from streamcal.fusion import LogisticFusion
from streamcal.live import LabelJoin, Segmented, Shadow
from streamcal.metrics import EqualMassECE
from streamcal.multiclass import TemperatureScaling
from streamcal.regression import Normal, ScaleRecalibration
from streamcal.river import CalibratedClassifier
from streamcal.sklearn import StreamingCalibratedClassifier
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError

SCORES, LABELS = [0.2, 0.4, 0.9], [0, 1, 1]


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SCORES, [0, "no", 1]), r"y\[1\] 'no' is not a number; give bools, or 0 and 1"),
        ((SCORES, [0, 1, None]), r"y\[2\] None is not a number; give bools, or 0 and 1"),
        (((s for s in SCORES), LABELS), r"scores <generator .*> is of type generator; give a list or an array"),
        ((SCORES, {0, 1}), r"y {0, 1} is of type set; give a list or an array"),
        ((SCORES, LABELS, "2"), r"w '2' is of type str; give a list or an array"),
        ((SCORES, LABELS[:2]), r"^scores and y differ in length: 3 and 2; give a label for each score$"),
        ((SCORES, LABELS, [1.0]), r"^scores, y and w differ in length: 3, 3 and 1; give a label and a weight for each"),
        ((SCORES, LABELS, -1), r"weight -1 is not allowed"),
        ((SCORES, LABELS, np.nan), r"weight nan is not allowed"),
    ],
)
def test_what_is_wrong_with_a_batch_is_named(arguments, message):
    cal = Platt()
    with pytest.raises(InputError, match=message):
        cal.learn_many(*arguments)
    assert cal.n == 0.0


@pytest.mark.parametrize("w", [2, 2.0, np.float32(2.0), np.int8(2), 0])
@pytest.mark.parametrize("method", [Platt, OnlinePlatt, HistogramBinning])
def test_one_weight_is_that_of_all_rows(method, w):
    one, each = method(), method()
    one.learn_many(SCORES, LABELS, w)
    each.learn_many(SCORES, LABELS, [w] * 3)
    assert (
        one.predict_learn_many(SCORES, LABELS, w).tolist() == each.predict_learn_many(SCORES, LABELS, [w] * 3).tolist()
    )
    assert one.state_dict() == each.state_dict()
    one.learn_many([], [], w)
    assert one.state_dict() == each.state_dict()


def test_one_weight_is_taken_by_the_other_kinds_too():
    for method, x, more in [
        (LogisticFusion(n_scores=2), [[0.2, 0.4], [0.6, 0.5]], {}),
        (TemperatureScaling(), [[0.2, 0.8], [0.6, 0.4]], {"labels": [0, 1]}),
        (ScaleRecalibration(), [Normal(0.0, 1.0), Normal(1.0, 1.0)], {}),
        (Segmented("ops", by=["site"]), [0.2, 0.8], {"keys": {"site": ["a", "b"]}}),
    ]:
        each = copy.deepcopy(method)
        method.learn_many(x, y=[0, 1], w=2, **more)
        each.learn_many(x, y=[0, 1], w=[2, 2], **more)
        assert method.state_dict() == each.state_dict()
    ece = EqualMassECE()
    ece.update_many([0, 1], [0.2, 0.8], 2)
    assert ece.reliability().bins[0].weight == 2.0


# -- bases -------------------------------------------------------------------------------------------------------------


class Says(base.Classifier):
    """A base that says the same always."""

    def __init__(self, said=None):
        self.said = said
        self.learned = 0

    def learn_one(self, x, y):
        self.learned += 1

    def predict_proba_one(self, x):
        return self.said


@pytest.mark.parametrize("said", [{True: None}, {True: "0.3"}, 0.3, 0.0, [0.7, 0.3]])
def test_a_base_that_says_no_probabilities_is_named(said):
    model = CalibratedClassifier(Says(said), OnlinePlatt())
    for call in (lambda: model.learn_one({"a": 1.0}, True), lambda: model.predict_proba_one({"a": 1.0})):
        with pytest.raises(
            InputError, match=r"predict_proba_one of .* gives .*label: prob|its probabilities have to be"
        ):
            call()
    assert model.calibrator.n == model.classifier.learned == 0


@pytest.mark.parametrize("said", [{}, None, {True: 0.0, False: 0.0}, {1: 0, 0: 0}, {True: 0.0}])
def test_a_base_that_says_nothing_has_no_score(said):
    model = CalibratedClassifier(Says(said), OnlinePlatt())
    model.learn_one({"a": 1.0}, True)
    assert (model.calibrator.n, model.classifier.learned) == (0.0, 1)
    assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}


def test_a_frozen_estimator_has_to_be_fitted():
    X, y = np.arange(8.0).reshape(-1, 1), [0, 1] * 4
    frozen = StreamingCalibratedClassifier(FrozenEstimator(GaussianNB()), Platt())
    with pytest.raises(NotFittedError, match=r"fit GaussianNB\(\) first"):
        frozen.fit(X, y)
    with pytest.raises(NotFittedError):
        frozen.partial_fit(X, y, classes=[0, 1])


# -- what has a name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [text_reliability, plot_reliability])
def test_a_metric_is_no_diagram(draw):
    ece = EqualMassECE(bins=2)
    ece.update_many([0, 1] * 4, [0.1, 0.9] * 4)
    for given in (ece, ece.reliability(), {"raw": ece}):
        with pytest.raises(InputError, match=r"give {name: metric\.reliability\(\)}"):
            draw(given)


def test_challengers_have_names():
    with pytest.raises(InputError, match=r"give \{name: calibrator\}"):
        Shadow(OnlinePlatt(), [Beta()])


def test_methods_are_taken_by_their_names():
    shadow = Shadow("ops", {"next": "beta"})
    shadow.add("third", "identity")
    assert [type(one) for one in (shadow.champion, *shadow.challengers.values())] == [OnlinePlatt, Beta, Identity]
    assert type(LabelJoin("ops", horizon=60.0).calibrator) is OnlinePlatt
    for call in (lambda: Shadow("opps"), lambda: shadow.add("fourth", "opps"), lambda: LabelJoin("opps", 60.0)):
        with pytest.raises(InputError, match="ops"):
            call()
    assert list(shadow.challengers) == ["next", "third"]


# -- other -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [".8", None, True, -0.1, 1.1, np.nan])
def test_the_level_of_an_interval_is_a_number(level):
    forecast = ScaleRecalibration().predict_one(statistics.NormalDist(0.0, 1.0))
    for one in (forecast, Normal(0.0, 1.0)):
        with pytest.raises(InputError, match=r"level .* is not possible; give a number in \[0, 1\]"):
            one.interval(level)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.jsonl"])
def test_a_file_in_utf_16_is_named_as_one(tmp_path, encoding, name):
    path = tmp_path / name
    path.write_text('{"score": 0.2, "label": 1}\n' if name == "log.jsonl" else "score,label\n.2,1\n", encoding=encoding)
    with pytest.raises(RecordError, match=r"the file is UTF-16.*UTF-8; save it as UTF-8"), RecordReader(path):
        pass
