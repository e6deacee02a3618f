"""`CalibratedMulticlassClassifier`: the probabilities of all classes, calibrated as the base learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base, linear_model, multiclass, naive_bayes, preprocessing

from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.multiclass import METHODS, MulticlassCalibrator, OneVsRest, OnlineVectorScaling
from streamcal.multiclass.labels import ClassLabel, check_class
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.types import Time
from streamcal.river.bases import ShowsCalibrator, probabilities_of, taken_by_base, takes


class CalibratedMulticlassClassifier(ShowsCalibrator, base.Wrapper, base.Classifier):
    """A River classifier of any classes, or a pipeline that ends in one, its probabilities calibrated online.

    `learn_one(x, y)` first takes the base's probabilities of x, as it is before it learns (x, y); the calibrator
    learns that they were followed by y; then the base learns. Classes may appear at any time. Where the base returns
    {} there are no scores: the calibrator learns nothing, and {} is predicted.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base. It is taken as it is and learns on, as in every River wrapper.
    calibrator : str, MulticlassCalibrator or None
        A method of `streamcal.multiclass`, or its name, as in "vector". A clone of it learns, and is the attribute
        `calibrator`; the one given is never changed. None is
        `OnlineVectorScaling()`, which follows a base that goes on learning.

    Notes
    -----
    Weights, times and other keywords go where those of `CalibratedClassifier` go. The methods that solve for their
    parameters are used for every observation: give them a window and `refresh_every`.

    Errors: `InputError` for a classifier or calibrator of another kind, or a label that is neither a text nor a number;
    neither the base nor the calibrator has learned then.

    >>> from river import datasets, evaluate, metrics
    >>> pipeline = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    >>> model = CalibratedMulticlassClassifier(pipeline)
    >>> for one in (pipeline.clone(), model):
    ...     loss = evaluate.progressive_val_score(datasets.ImageSegments().take(1000), one, metrics.CrossEntropy())
    ...     print(round(loss.get(), 3))
    2.222
    0.584
    """

    def __init__(self, classifier: base.Classifier, calibrator: str | MulticlassCalibrator | None = None) -> None:
        if not isinstance(classifier, base.Classifier):
            raise InputError(f"classifier={classifier!r} is not a River classifier, nor a pipeline that ends in one")
        calibrator = OnlineVectorScaling() if calibrator is None else calibrator
        calibrator = chosen(calibrator, MulticlassCalibrator, METHODS, "a calibrator of many classes")
        self.classifier = classifier
        self.calibrator = calibrator.clone()
        self._for_base = frozenset(name for name in ("w", "t") if takes(classifier, name))

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @property
    def _multiclass(self) -> bool:
        return bool(self.classifier._multiclass)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": preprocessing.StandardScaler() | naive_bayes.GaussianNB()}
        softmax = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        yield {"classifier": preprocessing.StandardScaler() | softmax, "calibrator": OneVsRest("platt")}

    def learn_one(self, x: dict[Any, Any], y: ClassLabel, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the features `x` came with the label `y`, with weight `w` ≥ 0, at time `t`."""
        scores = probabilities_of(self.classifier, x)
        if scores:
            self.calibrator.learn_one(scores, y, w, t)
        else:
            check_class(y)
            check_weight(w)
        self.classifier.learn_one(x, y, **kwargs, **taken_by_base(self._for_base, w, t))

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> dict[ClassLabel, float]:
        """The calibrated probability of each class the base names, as of time `t`. Changes nothing."""
        scores = probabilities_of(self.classifier, x, **kwargs)
        return self.calibrator.predict_one(scores, t) if scores else {}
