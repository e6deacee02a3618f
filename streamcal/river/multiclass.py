"""`CalibratedMulticlassClassifier`: the probabilities of all classes, calibrated online."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base, linear_model, multiclass, naive_bayes, preprocessing

from streamcal.learners.choosing import chosen
from streamcal.multiclass import METHODS, MulticlassCalibrator, OneVsRest, OnlineVectorScaling
from streamcal.multiclass.labels import ClassLabel, check_class
from streamcal.names import suggesting
from streamcal.parameters.types import Time
from streamcal.river.bases import CalibratesBase, Classifier, ShowsCalibrator, probabilities_of, taken_by_base


class CalibratedMulticlassClassifier(CalibratesBase, ShowsCalibrator, base.Wrapper, base.Classifier):
    """A multiclass River classifier, or a pipeline that ends in one, with its probabilities calibrated online.

    `learn_one(x, y)` first predicts the probabilities of x with the base; the calibrator learns (probabilities, y);
    then the base learns (x, y). New classes may appear at any time. If the base returns {}, there are no scores: the
    calibrator does not learn, and {} is predicted. If the base returns 0 for every class, the calibrator does not learn
    either, and every class gets the same probability.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base model. It is not cloned, and continues to learn, as in all River wrappers.
    calibrator : str, MulticlassCalibrator or None
        The calibrator to clone, or its name such as "vector-scaling"; the clone is the attribute `calibrator`. None
        means `OnlineVectorScaling()`, which adapts to a base that continues to learn.

    Raises
    ------
    InputError
        For a classifier or calibrator of another kind, or a label that is neither a text nor a number; neither base nor
        calibrator has then learned.

    Notes
    -----
    Learning costs a prediction and a step of the base, and a step of the calibrator; a prediction costs one of each.
    Methods that solve for their parameters may solve at every prediction: use them with a window and `refresh_every`.
    Weights, times and other keywords are passed on as in `CalibratedClassifier`, which also describes `issue` and
    `settle` for late labels.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> pipeline = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    >>> model = CalibratedMulticlassClassifier(pipeline)
    >>> for one in (pipeline.clone(), model):
    ...     loss = evaluate.progressive_val_score(datasets.ImageSegments().take(1000), one, metrics.CrossEntropy())
    ...     print(round(loss.get(), 3))
    2.222
    0.617
    """

    @suggesting
    def __init__(self, classifier: Classifier, calibrator: str | MulticlassCalibrator | None = None) -> None:
        self._wrap(classifier)
        calibrator = OnlineVectorScaling() if calibrator is None else calibrator
        calibrator = chosen(calibrator, MulticlassCalibrator, METHODS, "a calibrator of many classes")
        self.calibrator = calibrator.clone()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": preprocessing.StandardScaler() | naive_bayes.GaussianNB()}
        softmax = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        yield {"classifier": preprocessing.StandardScaler() | softmax, "calibrator": OneVsRest("platt")}

    def _scores(self, x: dict[Any, Any], **kwargs: Any) -> dict[ClassLabel, float] | None:
        scores = probabilities_of(self.classifier, x, **kwargs)
        return scores if any(scores.values()) else None

    def _learn_base(self, x: dict[Any, Any], y: ClassLabel, w: float, t: Time | None, **kwargs: Any) -> None:
        self.classifier.learn_one(x, y, **kwargs, **taken_by_base(self._for_base, w, t))

    _check_label = staticmethod(check_class)

    def _by_class(self, p: Any) -> dict[Any, float]:
        return p

    def _without_scores(self, x: dict[Any, Any], **kwargs: Any) -> dict[ClassLabel, float]:
        scores = probabilities_of(self.classifier, x, **kwargs)
        return {label: 1.0 / len(scores) for label in scores}
