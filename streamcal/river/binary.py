"""`CalibratedClassifier`, `CrossCalibratedClassifier` and `ScoreCalibrator`: one score, two classes."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from river import base, linear_model, preprocessing

from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.errors import InputError
from streamcal.learners.pending import Pending
from streamcal.live.keyed import Entrant
from streamcal.names import did_you_mean, suggesting
from streamcal.parameters.inputs import check_batch, check_label, check_weight
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.river.bases import (
    NO_SCORE,
    CalibratesBase,
    Classifier,
    Issues,
    ShowsCalibrator,
    both,
    fresh,
    score_of,
    taken_by_base,
)
from streamcal.river.batches import (
    column_like,
    column_of,
    frame_like,
    labels_like,
    names_of,
    require_batches,
    require_keywords,
    scores_of,
    takes_in_batches,
    without,
)


class CalibratedClassifier(CalibratesBase, ShowsCalibrator, base.Wrapper, base.Classifier):
    """A binary River classifier, or a pipeline that ends in one, with its P(True) calibrated online.

    `learn_one(x, y)` first predicts the score of x with the base; the calibrator learns (score, y); then the base
    learns (x, y). If the base returns {} or zeros, there is no score: the calibrator does not learn, and ½ is
    predicted. Predictions are always {False: 1 − p, True: p}.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base model, with labels bool, or 0 and 1. It is not cloned and continues to learn, as in all River wrappers.
    calibrator : str, Calibrator, Segmented, Multicalibrated or None
        The calibrator to clone, or its name such as "auto"; the clone is the attribute `calibrator`. None means "auto",
        `Auto()`: first in the race, and it adapts to a base that continues to learn. It adds 3 to 5 µs to an
        observation; `OnlinePlatt()` adds less than one. A `Segmented` or `Multicalibrated` reads the levels of its
        fields from x.
    keys : sequence of str or None
        With one of these: those of its fields that are taken out of x, so that the base does not see them.

    Raises
    ------
    InputError
        For a classifier or calibrator of another kind, keys that are no fields of the calibrator, a label that is not
        binary, or a weight or level that is not allowed. Also for a base that predicts classes other than False and
        True. Neither base nor calibrator has then learned.

    Notes
    -----
    Learning costs a prediction and a step of the base, and a step of the calibrator; a prediction costs one of each.
    Where the base has mini-batches, `learn_many`, `predict_many` and `predict_proba_many` work as well.

    The weight `w` is passed to the calibrator, and to the base if its `learn_one` has a parameter of that name; other
    bases learn every observation with weight 1. The same holds for the time `t`, which calibrators that forget by time
    need: `learn_one(x, y, t=...)`, or `progressive_val_score` with a stream of `(x, y, {"t": ...})`. All other keywords
    are passed to the base.

    `learn_one` computes the score when the label is learned. For labels that come late keep what `issue` returns, and
    give it to `settle`: the calibrator then learns the score that was issued. Since the base continues to learn,
    Venn-Abers has no validity guarantee here.

    Examples
    --------
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

    Segments are features of x too:

    >>> from streamcal.live import Segmented
    >>> model = CalibratedClassifier(pipeline.clone(), Segmented("online-platt", by=["campaign"]), keys=["campaign"])
    >>> for k in range(1000):
    ...     model.learn_one({"size": 1.0, "campaign": f"c{k % 2}"}, k % 2 == 0 and k % 3 == 0)
    >>> [round(model.predict_proba_one({"size": 1.0, "campaign": name})[True], 2) for name in ("c0", "c1")]
    [0.34, 0.01]
    """

    _multiclass = False

    @suggesting
    def __init__(
        self,
        classifier: Classifier,
        calibrator: str | Entrant | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        self._wrap(classifier)
        self.calibrator = fresh(DEFAULT_METHOD if calibrator is None else calibrator)
        self.keys = keys
        fields = self.calibrator.fields
        if isinstance(keys, str) or any(key not in fields for key in keys or ()):
            raise InputError(f"keys={keys!r} are not fields of the calibrator, which has {list(fields)}")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": linear_model.LogisticRegression()}
        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression(), "calibrator": Platt()}

    def _scores(self, x: dict[Any, Any], **kwargs: Any) -> float | None:
        return score_of(self.classifier, self._seen(x), **kwargs)

    def _learn_base(self, x: dict[Any, Any], y: Label, w: float, t: Time | None, **kwargs: Any) -> None:
        self.classifier.learn_one(self._seen(x), y, **kwargs, **taken_by_base(self._for_base, w, t))

    def _keys(self, x: dict[Any, Any]) -> dict[str, Any]:
        return {"keys": self.calibrator._own_keys(x)}

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None, **kwargs: Any) -> None:
        """Learn a mini-batch: the calibrator from the scores of the base before it has learned any row of it.

        The batch is checked first; then the base learns, and after it, unless it raised an error, the calibrator.

        Parameters
        ----------
        X : DataFrame
            The features of n observations, of pandas, polars or Arrow.
        y, w, t : Series or array-like of shape (n,)
            Labels, and weights and times for the calibrator. A base whose `learn_many` has a `w` gets the weights too.
            Bases get lists and arrays as a column of the kind of X.
        **kwargs
            Passed to the base.

        Raises
        ------
        InputError
            As `learn_one`, for a base without mini-batches, and for keywords that its `learn_many` does not have;
            nothing has then been learned.
        """
        require_batches(self.classifier)
        require_keywords(self.classifier, kwargs)
        features = self._columns_seen(X)
        scores = scores_of(self.classifier, features)
        labels, weights = self._checked_many(X, scores, y, w, t)
        if len(X) > 0:
            if w is not None and takes_in_batches(self.classifier, "w"):
                kwargs["w"] = column_like(X, w, weights)
            self.classifier.learn_many(features, column_like(X, y, labels > 0.0), **kwargs)
        if scores is not None:
            self.calibrator._learn_many_at_once(scores, self._levels(X), y, w, t)

    def _checked_many(self, X: Any, scores: FloatArray | None, y: Any, w: Any, t: Any) -> tuple[FloatArray, FloatArray]:
        """Return labels and weights of a batch; `InputError` for anything that the calibrator will not learn."""
        if scores is None:
            return check_batch(np.full(len(X), NO_SCORE), y, w)[1:]
        self.calibrator.require_columns(self._levels(X), len(scores))
        calibrator = self.calibrator.overall
        _, labels, weights, times, _ = calibrator._checked_many(scores, y, w, t)
        calibrator._require_times(times[weights > 0.0])
        return labels, weights

    def predict_proba_many(self, X: Any, t: Time | None = None, **kwargs: Any) -> Any:
        """Return a frame of the kind of X with 1 − p and p for each of n rows, as of time `t`.

        The columns are False and True; in frames of polars and Arrow, "False" and "True". The state does not change.
        """
        require_batches(self.classifier)
        scores = scores_of(self.classifier, self._columns_seen(X), **kwargs)
        if scores is None:
            return frame_like(X, np.full(len(X), NO_SCORE))
        return frame_like(X, np.asarray(self.calibrator.predict_many(scores, t, keys=self._levels(X))))

    def predict_many(self, X: Any, t: Time | None = None, **kwargs: Any) -> Any:
        """Predict True or False for each of n rows, as `predict_one`: a column of the kind of X, as of time `t`."""
        return labels_like(X, self.predict_proba_many(X, t, **kwargs))

    def _columns_seen(self, X: Any) -> Any:
        """Return the columns that the base reads."""
        return without(X, self.keys) if self.keys else X

    def _levels(self, X: Any) -> dict[Any, Any] | None:
        """Return the columns that the fields of the calibrator read; None where it has none."""
        there = names_of(X)
        if not self.calibrator.fields:
            return None
        return {name: column_of(X, name) for name in self.calibrator.fields if name in there}

    def _seen(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """Return the features that the base reads."""
        return {name: value for name, value in x.items() if name not in self.keys} if self.keys else x


class CrossCalibratedClassifier(Issues, ShowsCalibrator, base.Wrapper, base.Classifier):
    """K clones of a binary River classifier, cross-fitted and calibrated online: cross Venn-Abers (CVAP) on a stream.

    `learn_one(x, y)` assigns the observation to one of K folds. The clone of that fold predicts a score, and the
    calibrator learns (score, y) in that fold; the other K − 1 clones learn (x, y). So no clone is calibrated on its own
    training data. `predict_proba_one` scores x with all K clones, and the calibrator merges their calibrated
    probabilities. Until every clone returns probabilities, ½ is predicted.

    Parameters
    ----------
    classifier : river.base.Classifier
        The base model to clone; the clones are the attribute `classifiers`.
    calibrator : CrossVennAbers, "cross-venn-abers" or None
        The calibrator to clone; the clone is the attribute `calibrator`. Its `folds`, at least 2, is K. None means
        `CrossVennAbers(resolution=4096)`: five folds in fixed memory.
    id : str or None
        The feature that identifies the group of an observation, such as a user or a session. The fold is a hash of the
        value as text (BLAKE2b, the same on every machine), so that all observations of a group are in one fold. The
        clones do not see this feature. With None, folds are assigned one after another.

    Raises
    ------
    InputError
        As `CalibratedClassifier`, and for a calibrator with fewer than two folds, or an x to be learned without `id`.

    Notes
    -----
    Learning costs K − 1 learning steps and one prediction of the base; a prediction costs K predictions of the base.
    Weights, times and other keywords are passed on as in `CalibratedClassifier`. Since the clones continue to learn,
    there is no validity guarantee (see `CrossVennAbers`).

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, preprocessing
    >>> from streamcal import CrossVennAbers
    >>> from streamcal.river import Brier, CrossCalibratedClassifier
    >>> pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = CrossCalibratedClassifier(pipeline, CrossVennAbers(folds=5))
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, Brier())
    Brier: 0.083521
    >>> len(model.classifiers), model.calibrator.n
    (5, 1250.0)
    """

    _multiclass = False

    @suggesting
    def __init__(
        self, classifier: Classifier, calibrator: str | CrossVennAbers | None = None, id: str | None = None
    ) -> None:
        self._wrap(classifier)
        wanted: Any = CrossVennAbers(resolution=4096) if calibrator is None else calibrator
        method = fresh(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(method, CrossVennAbers) or method.folds < 2:
            raise InputError(f"calibrator={wanted!r} has no folds; give CrossVennAbers(folds=K), K at least 2")
        self.calibrator = method.clone()
        self.id = id
        self.classifiers = [classifier.clone() for _ in range(method.folds)]
        self._learned = 0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": linear_model.LogisticRegression()}
        pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        yield {"classifier": pipeline, "calibrator": CrossVennAbers("self-consistent", 2)}

    def learn_one(self, x: dict[Any, Any], y: Label, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the label of the features `x` was `y`, with weight `w` ≥ 0, at time `t`."""
        fold, features = self._fold_of(x), self._features(x)
        self._learn_in(fold, features, score_of(self.classifiers[fold], features), y, w, t, **kwargs)

    def _learn_in(
        self, fold: int, x: dict[Any, Any], score: float | None, y: Label, w: float, t: Time | None, **kwargs: Any
    ) -> None:
        """Learn the score of a fold, None without one, and let the clones of the other folds learn the features."""
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
        """Return {False: 1 − p, True: p} with the merged probability p, as of time `t`. The state does not change."""
        return both(self._merged(self._scores(x, **kwargs), t))

    def _scores(self, x: dict[Any, Any], **kwargs: Any) -> list[float]:
        """Return P(True) of every clone, NaN of one without probabilities."""
        features = self._features(x)
        scores = [score_of(classifier, features, **kwargs) for classifier in self.classifiers]
        return [math.nan if score is None else score for score in scores]

    def _merged(self, scores: list[float], t: Time | None) -> float:
        return NO_SCORE if any(map(math.isnan, scores)) else self.calibrator.predict_one(scores, t)

    def _issued(self, x: dict[Any, Any], t: Time | None, w: float) -> tuple[float, array[float]]:
        self._fold_of(x)  # raises without the feature `id`
        scores = self._scores(x)
        return self._merged(scores, t), array("d", scores)

    def _learn_keyed(
        self, x: dict[Any, Any], keys: Any, y: Label, record: array[float], w: float, t: Time | None
    ) -> None:
        fold = self._fold_of(x)
        score = record[fold]
        self._learn_in(fold, self._features(x), None if math.isnan(score) else score, y, w, t)

    def _fold_of(self, x: dict[Any, Any]) -> int:
        """Return the fold of an observation that is learned."""
        if self.id is None:
            return self._learned % len(self.classifiers)
        digest = hashlib.blake2b(str(feature_of(x, self.id, "fold")).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % len(self.classifiers)

    def _features(self, x: dict[Any, Any]) -> dict[Any, Any]:
        return x if self.id is None else {name: value for name, value in x.items() if name != self.id}


class ScoreCalibrator(Issues, base.Classifier):
    """A classifier that calibrates a score which is a feature of x, such as the output of a deployed model.

    Parameters
    ----------
    calibrator : str, Calibrator, Segmented or Multicalibrated
        The calibrator to clone, or its name; the clone is the attribute `calibrator`. Default "auto". A `Segmented` or
        `Multicalibrated` reads the levels of its fields from x.
    on : str
        The name of the feature that holds the score.

    Raises
    ------
    InputError
        For a calibrator of another kind, or where x does not have the feature `on`.

    Notes
    -----
    The cost is that of the calibrator.

    Examples
    --------
    >>> from streamcal import Platt
    >>> from streamcal.river import ScoreCalibrator
    >>> model = ScoreCalibrator(Platt(), on="pctr")
    >>> for pctr, click in [(0.2, False), (0.4, True), (0.6, False), (0.8, True)]:
    ...     model.learn_one({"pctr": pctr, "site": "news"}, click)
    >>> round(model.predict_proba_one({"pctr": 0.8})[True], 3)
    0.663
    """

    @suggesting
    def __init__(self, calibrator: str | Entrant = DEFAULT_METHOD, on: str = "score") -> None:
        self.calibrator = fresh(calibrator)
        self.on = on

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"calibrator": Platt()}

    def _unit_test_skips(self) -> set[str]:
        # These checks remove features at random, the score included, and expect a prediction all the same.
        return {"check_emerging_features", "check_disappearing_features", "check_radically_disappearing_features"}

    def learn_one(self, x: dict[Any, Any], y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that the score in `x` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        self.calibrator.learn_one(self._score(x), y, w, t, keys=self.calibrator._own_keys(x))

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None) -> dict[bool, float]:
        """Return {False: 1 − p, True: p} with the calibrated probability p, as of time `t`.

        The state does not change.
        """
        return both(self.calibrator.predict_one(self._score(x), t, keys=self.calibrator._own_keys(x)))

    def _issued(self, x: dict[Any, Any], t: Time | None, w: float) -> tuple[float, Pending]:
        issued = self.calibrator.issue(self._score(x), t, keys=self.calibrator._own_keys(x), w=w)
        return issued.p, issued

    def _learn_keyed(self, x: dict[Any, Any], keys: Any, y: Label, record: Pending, w: float, t: Time | None) -> None:
        self.calibrator.settle(record, y, w, t)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.calibrator}, on={self.on!r})"

    def _score(self, x: dict[Any, Any]) -> float:
        return feature_of(x, self.on, "score")


def feature_of(x: dict[Any, Any], name: str, purpose: str) -> Any:
    """Return a feature, which is read for this purpose; `InputError` where there is none of the name."""
    if name not in x:
        known = f"{did_you_mean(name, x)}; it has {', '.join(map(repr, x))}"
        raise InputError(f"x has no feature {name!r} to read the {purpose} from{known}")
    return x[name]
