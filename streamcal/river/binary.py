"""`CalibratedClassifier`, `CrossCalibratedClassifier` and `ScoreCalibrator`: one score, two classes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from river import base, linear_model, preprocessing

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.platt import Platt
from streamcal.errors import InputError
from streamcal.parameters.inputs import check_label, check_weight
from streamcal.parameters.types import Label, Time
from streamcal.river.bases import NO_SCORE, ShowsCalibrator, both, fresh, score_of, taken_by_base, takes


class CalibratedClassifier(ShowsCalibrator, base.Wrapper, base.Classifier):
    """A binary River classifier, or a pipeline that ends in one, with its P(True) calibrated online.

    `learn_one(x, y)` first takes the base's score of x, as it is before it learns (x, y); the calibrator learns
    that the score was followed by y; then the base learns. Where the base returns {} there is no score: the
    calibrator learns nothing, and ½ is predicted. The class is always {False: 1 − p, True: p}.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base. Its labels are bools, or 0 and 1. It is taken as it is and learns on, as in every River wrapper.
    calibrator : str, Calibrator or None
        A method, or its name, as in "auto". A clone of it learns, and is the attribute `calibrator`; the one given is
        never changed. None is `OnlinePlatt()`, which follows a base that goes on learning.

    Notes
    -----
    A weight `w` counts for the calibrator, and for a base whose `learn_one` has a parameter of that name; another base
    learns every observation once. The same holds for the time `t`: give `learn_one(x, y, t=...)` to a calibrator that
    forgets by time, as `progressive_val_score` does with a stream of `(x, y, {"t": ...})`. Every other keyword goes to
    the base, which raises if it does not know it.

    The score is taken when the label is learned. Where labels come late and the base has learned since it predicted,
    keep the issued scores and use a calibrator alone. Within `compose.learn_during_predict()` that score counts as
    one more prediction. Since the base goes on learning, Venn-Abers is here a method without a guarantee.

    Errors: `InputError` for a classifier or calibrator of another kind, a label that is not binary, a weight that is
    not allowed, or a base that predicts classes other than False and True; neither base nor calibrator has then learned
    anything.

    >>> from river import datasets, evaluate, linear_model, preprocessing
    >>> from streamcal import VennAbers
    >>> from streamcal.river import Brier, CalibratedClassifier
    >>> pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> evaluate.progressive_val_score(datasets.Phishing(), pipeline.clone(), Brier())
    Brier: 0.097337
    >>> model = CalibratedClassifier(pipeline, VennAbers())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, Brier())
    Brier: 0.083237
    >>> model.calibrator.n
    1250.0
    """

    def __init__(self, classifier: base.Classifier, calibrator: str | Calibrator | None = None) -> None:
        if not isinstance(classifier, base.Classifier):
            raise InputError(f"classifier={classifier!r} is not a River classifier, nor a pipeline that ends in one")
        self.classifier = classifier
        self.calibrator = fresh(OnlinePlatt() if calibrator is None else calibrator)
        self._for_base = frozenset(name for name in ("w", "t") if takes(classifier, name))

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @property
    def _multiclass(self) -> bool:
        return False

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": linear_model.LogisticRegression()}
        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression(), "calibrator": Platt()}

    def learn_one(self, x: dict[Any, Any], y: Label, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the features `x` came with the label `y`, with weight `w` ≥ 0, at time `t`."""
        score = score_of(self.classifier, x)
        if score is None:
            check_label(y)
            check_weight(w)
        else:
            self.calibrator.learn_one(score, y, w, t)
        self.classifier.learn_one(x, y, **kwargs, **taken_by_base(self._for_base, w, t))

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> dict[bool, float]:
        """{False: 1 − p, True: p}, p being the calibrated probability of True, as of time `t`. Changes nothing."""
        score = score_of(self.classifier, x, **kwargs)
        return both(NO_SCORE if score is None else self.calibrator.predict_one(score, t))


class CrossCalibratedClassifier(ShowsCalibrator, base.Wrapper, base.Classifier):
    """K clones of a binary River classifier, cross-fitted and calibrated online: cross Venn-Abers (CVAP) on a stream.

    `learn_one(x, y)` gives the observation to one of K folds. The clone of that fold scores x, and the calibrator
    learns in that fold that the score was followed by y; the other K − 1 clones learn (x, y). So no clone is ever
    calibrated on what it was trained on. `predict_proba_one` scores x with all K clones, and the calibrator merges
    their calibrated probabilities. Until every clone gives probabilities, ½ is predicted.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base. Its clones learn, and are the attribute `classifiers`; the one given is never changed.
    calibrator : CrossVennAbers, "cross-venn-abers" or None
        A clone of it learns, and is the attribute `calibrator`; its `folds`, at least 2, is K. None is
        `CrossVennAbers(resolution=4096)`: five folds in fixed memory.
    id : str or None
        The feature that says whose observation it is: a user, a session, a request. Its fold is a hash of the text of
        the value (BLAKE2b), the same on every machine, so that what comes twice never trains the clone that it
        calibrates. The clones do not see this feature. None deals the folds out in turn.

    Notes
    -----
    An observation costs K − 1 times the learning and once the scoring of the base; a prediction K times its scoring.
    Weights, times and other keywords go where those of `CalibratedClassifier` go. Since the clones go on learning,
    there is no guarantee (see `CrossVennAbers`).

    Errors: as of `CalibratedClassifier`, and `InputError` for a calibrator of fewer than two folds, or where x to be
    learned lacks `id`.

    >>> from river import datasets, evaluate, linear_model, preprocessing
    >>> from streamcal import CrossVennAbers
    >>> from streamcal.river import Brier, CrossCalibratedClassifier
    >>> pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = CrossCalibratedClassifier(pipeline, CrossVennAbers(folds=5))
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, Brier())
    Brier: 0.083687
    >>> len(model.classifiers), model.calibrator.n
    (5, 1250.0)
    """

    def __init__(
        self, classifier: base.Classifier, calibrator: str | CrossVennAbers | None = None, id: str | None = None
    ) -> None:
        if not isinstance(classifier, base.Classifier):
            raise InputError(f"classifier={classifier!r} is not a River classifier, nor a pipeline that ends in one")
        given: Any = CrossVennAbers(resolution=4096) if calibrator is None else calibrator
        method = fresh(given) if isinstance(given, str) else given
        if not isinstance(method, CrossVennAbers) or method.folds < 2:
            raise InputError(f"calibrator={given!r} has no folds; give CrossVennAbers(folds=K), K at least 2")
        self.classifier = classifier
        self.calibrator = method.clone()
        self.id = id
        self.classifiers = [classifier.clone() for _ in range(method.folds)]
        self._for_base = frozenset(name for name in ("w", "t") if takes(classifier, name))
        self._learned = 0

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @property
    def _multiclass(self) -> bool:
        return False

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": linear_model.LogisticRegression()}
        pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        yield {"classifier": pipeline, "calibrator": CrossVennAbers("self-consistent", 2)}

    def learn_one(self, x: dict[Any, Any], y: Label, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the features `x` came with the label `y`, with weight `w` ≥ 0, at time `t`."""
        fold, x = self._fold_of(x), self._features(x)
        score = score_of(self.classifiers[fold], x)
        if score is None:
            check_label(y)
            check_weight(w)
        else:
            self.calibrator.learn_one(score, y, w, t, fold=fold)
        kwargs |= taken_by_base(self._for_base, w, t)
        for classifier in self.classifiers[:fold] + self.classifiers[fold + 1 :]:
            classifier.learn_one(x, y, **kwargs)
        self._learned += 1

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> dict[bool, float]:
        """{False: 1 − p, True: p}, p being the merged probability of True, as of time `t`. Changes nothing."""
        x = self._features(x)
        found = [score_of(classifier, x, **kwargs) for classifier in self.classifiers]
        scores = [score for score in found if score is not None]
        return both(NO_SCORE if len(scores) < len(found) else self.calibrator.predict_one(scores, t))

    def _fold_of(self, x: dict[Any, Any]) -> int:
        """The fold of an observation to be learned."""
        if self.id is None:
            return self._learned % len(self.classifiers)
        if self.id not in x:
            raise InputError(f"x has no feature {self.id!r} to read the fold from; it has {', '.join(map(repr, x))}")
        digest = hashlib.blake2b(str(x[self.id]).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % len(self.classifiers)

    def _features(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """What the clones see of x."""
        return x if self.id is None else {name: value for name, value in x.items() if name != self.id}


class ScoreCalibrator(base.Classifier):
    """A classifier that calibrates a score which is already a feature of x, such as that of a served model.

    Parameters
    ----------
    calibrator : str or Calibrator
        A method, or its name, as in "auto". A clone of it learns, and is the attribute `calibrator`; the one given is
        never changed.
    on : str
        The feature that holds the score. `InputError` where x lacks it: no probability can be made of nothing.

    >>> from streamcal import Platt
    >>> from streamcal.river import ScoreCalibrator
    >>> model = ScoreCalibrator(Platt(), on="pctr")
    >>> for pctr, click in [(0.2, False), (0.4, True), (0.6, False), (0.8, True)]:
    ...     model.learn_one({"pctr": pctr, "site": "news"}, click)
    >>> round(model.predict_proba_one({"pctr": 0.8})[True], 3)
    0.663
    """

    def __init__(self, calibrator: str | Calibrator, on: str = "score") -> None:
        self.calibrator = fresh(calibrator)
        self.on = on

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"calibrator": Platt()}

    def _unit_test_skips(self) -> set[str]:
        # These checks take features away at random, the score among them, and want an answer all the same.
        return {"check_emerging_features", "check_disappearing_features", "check_radically_disappearing_features"}

    def learn_one(self, x: dict[Any, Any], y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that the score in `x` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        self.calibrator.learn_one(self._score(x), y, w, t)

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None) -> dict[bool, float]:
        """{False: 1 − p, True: p}, p being the calibrated probability of True, as of time `t`. Changes nothing."""
        return both(self.calibrator.predict_one(self._score(x), t))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.calibrator}, on={self.on!r})"

    def _score(self, x: dict[Any, Any]) -> float:
        if self.on not in x:
            raise InputError(f"x has no feature {self.on!r} to read the score from; it has {', '.join(map(repr, x))}")
        score: float = x[self.on]
        return score
