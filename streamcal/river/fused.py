"""`FusedClassifier`: several River classifiers, their probabilities fused into one that is calibrated online."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from river import base, linear_model, naive_bayes, preprocessing

from streamcal.errors import InputError
from streamcal.fusion import METHODS, BernsteinFusion, Fusion, LogisticFusion
from streamcal.learners.choosing import chosen
from streamcal.names import suggesting
from streamcal.parameters.types import Label, Time
from streamcal.river.bases import CalibratesBase, Classifier, score_of, taken_by_base, takes

#: The discount of the default fusion: a memory of about 500 observations, since the bases continue to learn.
DISCOUNT = 0.998


class FusedClassifier(CalibratesBase, base.Classifier):
    """Several binary River classifiers, or pipelines that end in one, whose P(True) are fused and calibrated online.

    `learn_one(x, y)` first predicts the scores of x with all bases; the fusion learns (scores, y); then the bases learn
    (x, y). The score of a base that returns {} or zeros is missing: the fusion learns the scores that are there, and
    predicts from them. If all bases return {}, the fusion does not learn, and ½ is predicted. Predictions are always
    {False: 1 − p, True: p}.

    Parameters
    ----------
    classifiers : list of river.base.Classifier
        The base models to clone, at least one; the clones are the attribute `models`.
    fusion : str, Fusion or None
        The fusion to clone, or its name such as "mrmic"; the clone, with `missing="marginal"`, is the attribute
        `fusion`. Its number of scores is the number of bases. None means `LogisticFusion(n_scores,
        discount=0.998)`, which follows bases that continue to learn; see the notes.

    Raises
    ------
    InputError
        For a classifier or fusion of another kind, a fusion of another number of scores, a label that is not binary, or
        a base that predicts classes other than False and True; nothing has then been learned.

    Notes
    -----
    The default was chosen by prequential scores on two streams with two to five bases (`docs/fusion_measured.md`).
    It had a lower log loss than `BernsteinFusion` in all eight cases, a lower Brier score in seven, and the same time
    for any number of bases. Give `BernsteinFusion()` where the prediction must not fall when a score rises.

    Learning costs a prediction and a step of every base, and a step of the fusion; a prediction may cost a solve of the
    fusion (see its `refresh_every`). The weight `w` is passed to the fusion, and to every base whose `learn_one` has a
    parameter of that name; the same holds for the time `t`. All other keywords are passed to all bases. For late labels
    there are `issue` and `settle`, as in `CalibratedClassifier`.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, naive_bayes, preprocessing
    >>> from streamcal.fusion import BernsteinFusion
    >>> from streamcal.river import Brier, FusedClassifier
    >>> pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = FusedClassifier([pipeline, naive_bayes.GaussianNB()], BernsteinFusion(degrees=3, refresh_every=10))
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, Brier())
    Brier: 0.083793
    >>> model.fusion.n
    1250.0
    """

    @suggesting
    def __init__(self, classifiers: Sequence[Classifier], fusion: str | Fusion | None = None) -> None:
        if not isinstance(classifiers, (list, tuple)) or not classifiers:
            raise InputError(f"classifiers={classifiers!r} is not possible; give a list of River classifiers")
        for classifier in classifiers:
            if not isinstance(classifier, base.Classifier):
                raise InputError(f"{classifier!r} is not a River classifier, nor a pipeline that ends in one")
        fusion = LogisticFusion(len(classifiers), discount=DISCOUNT) if fusion is None else fusion
        fusion = chosen(fusion, Fusion, METHODS, "a streamcal fusion", "fusion", n_scores=len(classifiers))
        if fusion.n_scores != len(classifiers):
            raise InputError(f"{fusion!r} takes {fusion.n_scores} scores, and there are {len(classifiers)} classifiers")
        self.classifiers = classifiers
        self.fusion = fusion.clone().set_params(missing="marginal") if "missing" in fusion.params() else fusion.clone()
        self.models = [classifier.clone() for classifier in classifiers]
        self._for_models = [frozenset(name for name in ("w", "t") if takes(model, name)) for model in self.models]

    def __str__(self) -> str:
        return f"{type(self).__name__}([{', '.join(map(str, self.classifiers))}], {self.fusion})"

    def _more_tags(self) -> set[str]:
        return set().union(*(model._tags for model in self.models))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        yield {"classifiers": [linear_model.LogisticRegression(), pipeline], "fusion": BernsteinFusion(degrees=2)}
        yield {"classifiers": [pipeline, naive_bayes.GaussianNB()], "fusion": BernsteinFusion(degrees=(1, 2))}

    @property
    def _learner(self) -> Fusion:
        return self.fusion

    def _learn_base(self, x: dict[Any, Any], y: Label, w: float, t: Time | None, **kwargs: Any) -> None:
        for model, names in zip(self.models, self._for_models, strict=True):
            model.learn_one(x, y, **kwargs, **taken_by_base(names, w, t))

    def _scores(self, x: dict[Any, Any], **kwargs: Any) -> list[float | None] | None:
        """Return P(True) of every base, None for one without probabilities; None if no base has any."""
        scores = [score_of(model, x, **kwargs) for model in self.models]
        return scores if any(score is not None for score in scores) else None
