"""`CalibratedClassifier` with a `Segmented`: levels from x, which the base sees unless they are named in `keys`."""

import pytest
from river import base, linear_model, preprocessing

from streamcal import InputError
from streamcal.live import Segmented
from streamcal.river import CalibratedClassifier


class Recorder(base.Classifier):
    """Says ½ and keeps the features that it is shown."""

    def __init__(self):
        self.shown = []

    def learn_one(self, x, y):
        self.shown.append(dict(x))

    def predict_proba_one(self, x):
        self.shown.append(dict(x))
        return {True: 0.5, False: 0.5}


ROW = {"size": 2.0, "campaign": "c1", "placement": 3}
SEGMENTS = Segmented("ops", by=["campaign", ("campaign", "placement")])


@pytest.mark.parametrize(
    ("keys", "seen"),
    [(None, ROW), (["campaign"], {"size": 2.0, "placement": 3}), (("campaign", "placement"), {"size": 2.0})],
)
def test_the_base_does_not_see_keys(keys, seen):
    recorder = Recorder()
    model = CalibratedClassifier(recorder, SEGMENTS, keys=keys)
    model.learn_one(dict(ROW), True)
    model.predict_proba_one(dict(ROW))
    assert recorder.shown == [seen] * 3
    assert model.calibrator.levels("campaign") == ["c1"]
    assert SEGMENTS.n == 0.0, "it was cloned"


def test_it_learns_what_segmented_learns_from_the_scores():
    model = CalibratedClassifier(Recorder(), SEGMENTS, keys=["campaign"])
    alone = SEGMENTS.clone()
    for k in range(200):
        x, y, w = {**ROW, "campaign": f"c{k % 3}"}, k % 3 == 0, 1.0 + k % 2
        assert model.predict_proba_one(x) == {
            True: alone.predict_one(0.5, keys=x),
            False: 1.0 - alone.predict_one(0.5, keys=x),
        }
        model.learn_one(x, y, w=w)
        alone.learn_one(0.5, y, w, keys=x)
    assert model.calibrator.state_dict() == alone.state_dict()


def test_a_clone_of_the_wrapper_has_learned_nothing_and_has_the_same_keys():
    model = CalibratedClassifier(
        preprocessing.StandardScaler() | linear_model.LogisticRegression(), SEGMENTS, ["campaign"]
    )
    model.learn_one({"size": 2.0, "campaign": "c1"}, True)
    other = model.clone()
    assert other.calibrator.n == 0.0
    assert other.keys == ["campaign"]
    assert "Segmented" in str(model)


@pytest.mark.parametrize(
    ("calibrator", "keys"), [("ops", ["campaign"]), (SEGMENTS, ["campain"]), (SEGMENTS, "campaign")]
)
def test_keys_that_nobody_reads(calibrator, keys):
    with pytest.raises(InputError, match="are not fields of the calibrator"):
        CalibratedClassifier(Recorder(), calibrator, keys=keys)


def test_bad_levels_and_labels_leave_both_as_they_were():
    recorder = Recorder()
    model = CalibratedClassifier(recorder, SEGMENTS)
    for x, y in [({**ROW, "campaign": 0.5}, True), (ROW, "x")]:
        with pytest.raises(InputError):
            model.learn_one(x, y)
    assert model.calibrator.n == 0.0
    assert len(recorder.shown) == 2, "predictions alone"
