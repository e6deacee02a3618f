"""scikit-learn wrappers: classifiers calibrated by the methods of streamcal."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight, _num_samples, check_is_fitted

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.live.keyed import Entrant, Keyed
from streamcal.multiclass import METHODS, MulticlassCalibrator, OneVsRest, OnlineVectorScaling
from streamcal.names import suggesting
from streamcal.parameters.forgetting import Forever
from streamcal.parameters.order import in_blocks
from streamcal.parameters.scales import Interval, Logit, Probability
from streamcal.parameters.types import FloatArray

__all__ = ["CrossCalibratedClassifier", "StreamingCalibratedClassifier"]

#: Rows at the end that all have one label are taken for what a split by class has left there, where shuffled rows would
#: end like that with less than this probability, and no other run of that label is half as long.
UNLIKELY_END = 1e-9
#: Tolerance for probabilities outside [0, 1], since models normalise in floating point, some in single precision.
ROUNDING = 1e-6


class StreamingCalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A scikit-learn classifier whose probabilities are calibrated online.

    `fit` cross-fits: the calibrator learns, in the order of the rows, out-of-fold scores of clones of the base; the
    base is then fitted on all rows. A base with `partial_fit` is fitted by one call of it, one pass over the rows.
    `partial_fit` learns in the order of the rows: each chunk is scored by the present base, the calibrator learns the
    scores and labels, then a base with `partial_fit` is fitted on the chunk. A `FrozenEstimator` is only used for
    scoring.

    Parameters
    ----------
    estimator : classifier
        The base classifier; it is cloned. The score is its `predict_proba` or, if it has none, `decision_function`.
    calibrator : str, Calibrator, Segmented, Multicalibrated or MulticlassCalibrator
        The calibrator, which is cloned, or its name; it cannot forget by time, since scikit-learn passes no times.

        Two classes: a method of one score, for P(`classes_[1]`); default "auto", which takes 3 to 5 µs a row. For a
        `decision_function`, a name means the method with the scale `Interval()`, and the default means `Platt`; a
        calibrator must have a scale that accepts margins, such as `Platt(scale=Interval(lo, hi))`. `Segmented` and
        `Multicalibrated` read the levels of their fields from the columns of X, which is then a DataFrame.

        More classes: a method of `streamcal.multiclass`, for the vector of all probabilities; "auto" means
        `OnlineVectorScaling()`. A method of one score learns each class against the rest, as `OneVsRest`; where both
        have a method of the name, "temperature" and "venn-abers", it is that of many classes. The softmax of a
        `decision_function` is taken for probabilities. A method object of `streamcal.multiclass` works for two
        classes too.
    cv : int, splitter or None
        The splits for cross-fitting; None (default) is stratified 5-fold. The calibrator
        does not learn rows that are in no test set, such as the first of a `TimeSeriesSplit`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, ascending; of two labels the second is the positive one.
    estimator_ : classifier
        The fitted base.
    calibrator_ : Calibrator, Segmented, Multicalibrated or MulticlassCalibrator
        The fitted calibrator.

    Raises
    ------
    InputError
        By `fit`, for a calibrator that cannot learn from the scores of the base, a field of the calibrator that is no
        column of X, and other parameters that are not allowed.

    Notes
    -----
    `fit` costs k + 1 fits of the base for k splits, and one `learn_many`. A prediction costs that of the base and one
    `predict_many`.

    Sample weights are passed to the calibrator, and to the base if it accepts them, or with metadata routing if it
    requests them; where it accepts none, a warning is raised. Rows of weight 0 are left out.

    What `partial_fit` and sequential calibrators learn depends on the order of the rows, which is taken to be that of
    time. Rows that are sorted by their labels, or end with one label as the training sets of a split by class do, are
    in another order: `fit` learns them in a random one, always the same. If the base continues to learn, or scores come
    from several clones, Venn-Abers has no validity guarantee.

    `FrozenEstimator(base.fit(X, y))`, fitted on the same X and y, calibrates on the scores of the training rows; with
    `VennAbers` this is the simplified predictor (SVAP) of paper 003, §6. It is suitable for bases that hardly overfit,
    and fails for those that memorise the training set, such as trees, bagging and nearest neighbours.

    A search addresses the parameters of the calibrator by name: `GridSearchCV(model, {"calibrator__degree": [5, 10]})`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from streamcal import Platt
    >>> X, y = make_classification(400, random_state=0)
    >>> model = StreamingCalibratedClassifier(GaussianNB(), Platt()).fit(X, y)
    >>> model.calibrator_.n, model.predict_proba(X).shape
    (400.0, (400, 2))

    Many classes:

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StreamingCalibratedClassifier(GaussianNB(), "temperature").fit(X, y)
    >>> model.predict_proba(X).shape, model.calibrator_.n
    ((150, 3), 150.0)
    """

    #: Whether more than two classes are possible.
    _many_classes = True
    #: Whether `partial_fit` still has to warn that it does not update the base.
    _base_stays: bool

    @suggesting
    def __init__(
        self,
        estimator: Any,
        calibrator: str | Calibrator | Keyed | MulticlassCalibrator = DEFAULT_METHOD,
        *,
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit base and calibrator from the start: X of shape (n, features), y of shape (n,) with two or more classes.

        `fit_params` go to the base, those of n entries row by row; with metadata routing they go to whoever requests
        them, `groups` to the splitter of `cv`, and a base that does not request `sample_weight` gets none.

        Raises `ValueError` for labels that are no classes or invalid weights, `InputError` for a calibrator that cannot
        take the scores of the base.
        """
        sample = self._checked(X, y, sample_weight, self._routed("fit", sample_weight, fit_params))
        _levels(self.calibrator, sample.X)
        self._start(np.unique(sample.y[sample.weighty()]))
        sample = self._ordered(sample)
        return self._learn(sample.take(sample.weighty())) if self._base_is_ready else self._cross_fit(sample)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit on one more chunk: first the calibrator, on the scores of the current base, then the base.

        The first call, unless `fit` was called, requires all `classes`, and only fits a base with `partial_fit`. A
        base without, such as a `RandomForestClassifier`, is cross-fitted by the first call, or by `fit`; later calls
        only update the calibrator, of which the first `partial_fit` warns.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: give all labels")
        sample = self._checked(X, y, sample_weight, self._routed("partial_fit", sample_weight, fit_params))
        _levels(self.calibrator, sample.X)
        known = np.unique(classes) if classes is not None else self.classes_
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes={known.tolist()} are not those of the first call, {self.classes_.tolist()}")
        unknown = np.setdiff1d(sample.y, known)
        if len(unknown):
            raise ValueError(f"y holds the classes {unknown.tolist()}, which are not in {known.tolist()}")
        if first:
            self._start(known)
        if self._base_stays:
            self._base_stays = False  # warn once
            warnings.warn(
                f"{type(self.estimator).__name__} has no partial_fit: it is fitted once, and partial_fit then only "
                "updates the calibrator. Give a base with partial_fit, or FrozenEstimator(fitted base) to mean this",
                stacklevel=2,
            )
        if not (self._base_learns or self._base_is_ready):
            return self._cross_fit(self._ordered(sample))
        return self._learn(sample.take(sample.weighty()))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities, shape (n, K), in the order of `classes_`."""
        check_is_fitted(self)
        keys, scores = _levels(self.calibrator_, X), self._scores_of_base(X)
        if isinstance(self.calibrator_, MulticlassCalibrator):
            return self.calibrator_.predict_many(scores, labels=self.classes_.tolist())
        p = self.calibrator_.predict_many(scores, keys=keys)
        return np.column_stack((1.0 - p, p))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest calibrated probability, shape (n,)."""
        p = self.predict_proba(X)
        return self.classes_[np.argmax(p, axis=1)]

    @available_if(lambda self: _has_interval(getattr(self, "calibrator_", self.calibrator)))
    def predict_interval(self, X: Any) -> FloatArray:
        """Return the interval (p₀, p₁) of `classes_[1]`, shape (n, 2), if the calibrator has intervals.

        A method of many classes gives one for each class: shape (n, K, 2).
        """
        check_is_fitted(self)
        scores, method = self._scores_of_base(X), cast(Any, self.calibrator_)
        if not isinstance(self.calibrator_, MulticlassCalibrator):
            return np.column_stack(method.predict_interval_many(scores))
        labels = self.classes_.tolist()
        intervals = [method.predict_interval_one(dict(zip(labels, row, strict=True))) for row in scores.tolist()]
        return np.array([[interval[label] for label in labels] for interval in intervals]).reshape(-1, len(labels), 2)

    @property
    def n_features_in_(self) -> int:
        """Number of features, from the base."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, if the base has them."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        of_base = get_tags(self.estimator)
        tags.classifier_tags.multi_class = self._many_classes and getattr(of_base.classifier_tags, "multi_class", True)
        tags.input_tags = of_base.input_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what the base and the splitter of `cv` request, for scikit-learn's metadata routing."""
        learns = hasattr(self.estimator, "partial_fit") and not isinstance(self.estimator, FrozenEstimator)
        callee = "partial_fit" if learns else "fit"
        to_base = MethodMapping().add(caller="fit", callee=callee).add(caller="partial_fit", callee=callee)
        to_splitter = MethodMapping().add(caller="fit", callee="split").add(caller="partial_fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_base)
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=to_splitter)
        return router

    def _routed(self, caller: str, sample_weight: Any, params: dict[str, Any]) -> _Routed:
        """Return what goes to the base, and to the splitter."""
        if not get_config().get("enable_metadata_routing", False):
            groups = params.pop("groups", None) if hasattr(self.cv, "split") else None
            return _Routed(params, {} if groups is None else {"groups": groups}, False)
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        routed = process_routing(self, caller, **params)
        learns = hasattr(self.estimator, "partial_fit") and not isinstance(self.estimator, FrozenEstimator)
        to_base = dict(routed.estimator["partial_fit" if learns else "fit"])
        to_splitter = dict(routed.splitter["split"]) if hasattr(self.cv, "split") else {}
        return _Routed(to_base, to_splitter, True)

    def _start(self, classes: NDArray[Any]) -> None:
        """Set an unfitted base, unless it is frozen, and an empty calibrator."""
        if len(classes) < 2 or (len(classes) > 2 and not self._many_classes):
            needed = "at least two" if self._many_classes else "two"
            raise ValueError(f"{needed} classes are needed; {classes.tolist()} came, {len(classes)} class(es)")
        calibrator = _for_classes(self.calibrator, self.estimator, len(classes))
        _check_pair(self.estimator, calibrator)
        frozen = isinstance(self.estimator, FrozenEstimator)
        self.classes_ = classes
        self.estimator_ = clone(self.estimator)
        self.calibrator_ = calibrator.clone()
        # FrozenEstimator passes partial_fit on to the model it should protect.
        self._base_learns = hasattr(self.estimator, "partial_fit") and not frozen
        self._base_is_ready = frozen
        self._base_stays = not (self._base_learns or frozen)

    def _ordered(self, sample: _Sample) -> _Sample:
        """Return the sample in random order if its own is not that of time, and what is fitted depends on it."""
        depends = self._base_learns or not isinstance(getattr(self.calibrator_, "forgetting", None), Forever)
        if not depends or _may_be_in_order_of_time(sample.y[sample.weighty()]):
            return sample
        return replace(sample, rank=np.random.default_rng(0).permutation(len(sample.y)))

    def _learn(self, chunk: _Sample) -> Self:
        """Score the chunk, update the calibrator, then the base."""
        if self._base_is_ready:
            self._calibrate(self._scores(self.estimator_, chunk.X), chunk)
        if self._base_learns:
            _taught(self.estimator_, chunk, self.classes_)
            self._base_is_ready = True
        return self

    def _fitted(self, estimator: Any, sample: _Sample) -> Any:
        """Fit the estimator to the sample and return it; an estimator with `partial_fit` gets one pass."""
        if self._base_learns:
            _taught(estimator, sample, self.classes_)
            return estimator
        return estimator.fit(sample.X, sample.y, **sample.for_base(estimator.fit))

    def _cross_fit(self, sample: _Sample) -> Self:
        """Fit the calibrator on out-of-fold scores of clones of the base, and the base on all rows."""
        held_out, scores = [], []
        splitter = check_cv(self.cv, sample.y, classifier=True)
        for train, test in splitter.split(sample.X, sample.y, **sample.routed.splitter):
            rows = sample.weighty(test)
            if not len(rows):  # all of weight 0
                continue
            copy = self._fitted(clone(self.estimator), sample.take(sample.weighty(train)))
            held_out.append(rows)
            scores.append(self._scores(copy, _safe_indexing(sample.X, rows)))
        self._fitted(self.estimator_, sample.take(sample.weighty()))
        rows = np.concatenate(held_out)
        order = sample.order(rows)
        self._calibrate(np.concatenate(scores)[order], sample.take(rows[order]))
        self._base_is_ready = True
        return self

    def _calibrate(self, scores: FloatArray, sample: _Sample) -> None:
        """Update the calibrator."""
        if isinstance(self.calibrator_, MulticlassCalibrator):
            self.calibrator_.learn_many(scores, sample.y, sample.w, labels=self.classes_.tolist())
        else:
            keys = _levels(self.calibrator_, sample.X)
            self.calibrator_._learn_many_at_once(scores, keys, sample.y == self.classes_[1], sample.w, None)

    def _scores_of_base(self, X: Any) -> FloatArray:
        return self._scores(self.estimator_, X)

    def _scores(self, estimator: Any, X: Any) -> FloatArray:
        """Return the base's scores of `classes_[1]`, shape (n,); for a multiclass method of all classes, (n, K)."""
        many = isinstance(self.calibrator_, MulticlassCalibrator)
        self._check_classes(estimator, many)
        if many:
            scores = np.zeros((_num_samples(X), len(self.classes_)))
            scores[:, np.searchsorted(self.classes_, estimator.classes_)] = _probabilities(estimator, X)
            return scores
        place = int(estimator.classes_[1] == self.classes_[1])  # a base may have its classes in another order
        if not hasattr(estimator, "predict_proba"):
            margins: FloatArray = np.asarray(estimator.decision_function(X), dtype=np.float64)
            return margins if place else -margins
        return _probabilities(estimator, X)[:, place]

    def _check_classes(self, estimator: Any, many: bool) -> None:
        """Raise `ValueError` for a base of other classes; one of many classes may lack some: their scores are 0."""
        own, known = set(estimator.classes_.tolist()), set(self.classes_.tolist())
        frozen = isinstance(estimator, FrozenEstimator)
        if own == known or (many and not frozen and own < known):
            return
        raise ValueError(
            f"the base was fitted on the classes {estimator.classes_.tolist()}, not {self.classes_.tolist()}; "
            "they must be the same"
            if frozen
            else f"a part of the rows held only the classes {estimator.classes_.tolist()} of "
            f"{self.classes_.tolist()}; every training part of the cross-fitting must hold both"
        )

    def _checked(self, X: Any, y: Any, sample_weight: Any, routed: _Routed) -> _Sample:
        """Return X, which the base checks, and y and the weights, checked, as arrays of the same length."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X, y = indexable(X, y)
        if isinstance(y, np.ndarray) and y.dtype.kind == "f":  # `type_of_target` casts them first, with a warning
            assert_all_finite(y, input_name="y")
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind == "multiclass" and not self._many_classes:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {kind}. Give y of shape (n,) with a class for each row.")
        y = column_or_1d(y, warn=True)
        if sample_weight is None:
            return _Sample(X, y, None, routed)
        w: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return _Sample(X, y, w, routed)


class CrossCalibratedClassifier(StreamingCalibratedClassifier):
    """K clones of a binary scikit-learn classifier, cross-fitted and calibrated: a cross Venn-Abers predictor (CVAP).

    Every row belongs to one of K folds: the clone of that fold scores the row for the calibrator, the other clones are
    fitted on it. A prediction scores with all K clones, and the calibrator merges their calibrated probabilities.

    `fit` fits the base K times, on the K training sets of `cv`. `partial_fit` learns in the order of the rows: row i of
    all its chunks has fold i mod K. A chunk is scored, the calibrator learns, then each clone with `partial_fit` is
    fitted on the rows of the other folds.

    Parameters
    ----------
    estimator : classifier
        The base classifier; it is cloned K times. Its scores are as in `StreamingCalibratedClassifier`. A
        `FrozenEstimator` is not possible, since the clones must differ.
    calibrator : CrossVennAbers or "cross-venn-abers"
        The calibrator; it is cloned. Its `folds`, at least 2, is K; the default has five. For a `decision_function` its
        scale must accept margins.
    cv : int, splitter or None
        The K splits for cross-fitting; None (default) is stratified K-fold.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive one.
    estimators_ : list of classifiers
        The K fitted clones.
    calibrator_ : CrossVennAbers
        The fitted calibrator.

    Raises
    ------
    InputError
        By `fit`, as `StreamingCalibratedClassifier`, and for a frozen base or another number of splits than folds.

    Notes
    -----
    `fit` costs K fits of the base, each on (K − 1)/K of the rows; a prediction costs K predictions of the base.

    For independent rows, the pair (p₀, p₁) of each fold has the validity guarantee of Venn-Abers; the merged
    probability has none (see `CrossVennAbers`), nor have clones that continue to learn.

    References
    ----------
    Paper 003, Algorithm 7.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from streamcal import CrossVennAbers
    >>> X, y = make_classification(400, random_state=0)
    >>> model = CrossCalibratedClassifier(DecisionTreeClassifier(random_state=0), CrossVennAbers()).fit(X, y)
    >>> len(model.estimators_), model.calibrator_.n, model.predict_proba(X).shape
    (5, 400.0, (400, 2))
    """

    _many_classes = False

    @suggesting
    def __init__(
        self, estimator: Any, calibrator: str | CrossVennAbers = CrossVennAbers.name, *, cv: Any = None
    ) -> None:
        super().__init__(estimator, calibrator, cv=cv)

    @property
    def n_features_in_(self) -> int:
        """Number of features, from the bases."""
        return int(self.estimators_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, if the bases have them."""
        return self.estimators_[0].feature_names_in_

    def _start(self, classes: NDArray[Any]) -> None:
        """Set K unfitted bases and an empty calibrator."""
        calibrator = _for_base(self.calibrator, self.estimator)
        if not isinstance(calibrator, CrossVennAbers) or calibrator.folds < 2:
            raise InputError(f"calibrator={self.calibrator!r} has no folds; give CrossVennAbers(folds=K), K at least 2")
        if isinstance(self.estimator, FrozenEstimator):
            raise InputError(
                "a FrozenEstimator cannot be cross-fitted; use StreamingCalibratedClassifier and VennAbers"
            )
        super()._start(classes)
        self.estimators_ = [clone(self.estimator) for _ in range(calibrator.folds)]
        self._has_learned = np.zeros(calibrator.folds, dtype=bool)
        self._rows_seen = 0
        del self.estimator_

    def _learn(self, chunk: _Sample) -> Self:
        """Score each row with its fold's base, update the calibrator, then each base with the rows of other folds."""
        rows = len(chunk.y)
        folds = (self._rows_seen + np.arange(rows)) % len(self.estimators_)
        self._rows_seen += rows
        scores, known = np.zeros(rows), self._has_learned[folds]
        for fold, estimator in enumerate(self.estimators_):
            own = np.flatnonzero(known & (folds == fold))
            if len(own):
                scores[own] = self._scores(estimator, _safe_indexing(chunk.X, own))
        scored = chunk.take(np.flatnonzero(known))
        self._teach(scores[known], scored, folds[known])
        if self._base_learns:
            for fold, estimator in enumerate(self.estimators_):
                others = np.flatnonzero(folds != fold)
                if len(others):
                    _taught(estimator, chunk.take(others), self.classes_)
                    self._has_learned[fold] = self._base_is_ready = True
        return self

    def _cross_fit(self, sample: _Sample) -> Self:
        """Fit each base on its training set, and the calibrator on the scores of the test sets."""
        count = len(self.estimators_)
        splitter = check_cv(self.cv or count, sample.y, classifier=True)
        splits = list(splitter.split(sample.X, sample.y, **sample.routed.splitter))
        if len(splits) != count:
            raise InputError(f"cv={self.cv!r} gives {len(splits)} splits and {self.calibrator!r} has {count} folds")
        rows = [sample.weighty(test) for _, test in splits]
        for estimator, (train, _) in zip(self.estimators_, splits, strict=True):
            self._fitted(estimator, sample.take(sample.weighty(train)))
        scores = [
            self._scores(estimator, _safe_indexing(sample.X, test)) if len(test) else np.empty(0)
            for estimator, test in zip(self.estimators_, rows, strict=True)
        ]
        held_out, folds = np.concatenate(rows), np.repeat(np.arange(count), [len(test) for test in rows])
        order = sample.order(held_out)
        self._teach(np.concatenate(scores)[order], sample.take(held_out[order]), folds[order])
        self._has_learned[:] = self._base_is_ready = True
        return self

    def _teach(self, scores: FloatArray, sample: _Sample, folds: NDArray[np.intp]) -> None:
        """Update the calibrator, in the order of the rows."""
        calibrator = cast(CrossVennAbers, self.calibrator_)
        calibrator.learn_many(scores, sample.y == self.classes_[1], sample.w, fold=folds)

    def _scores_of_base(self, X: Any) -> FloatArray:
        return np.column_stack([self._scores(estimator, X) for estimator in self.estimators_])


@dataclass(frozen=True)
class _Routed:
    """What `fit` was given besides: for the base, for the splitter, and whether by scikit-learn's metadata routing."""

    base: dict[str, Any]
    splitter: dict[str, Any]
    by_request: bool


@dataclass(frozen=True)
class _Sample:
    """Rows with labels and, if given, weights and the order in which they are learned, and what was given besides."""

    X: Any
    y: NDArray[Any]
    w: FloatArray | None
    routed: _Routed
    #: The place of each row in the order in which they are learned; None: that of the rows.
    rank: NDArray[np.intp] | None = None

    def weighty(self, rows: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """Return the indices among `rows` (None: all) of rows with a weight above 0, in the order of learning."""
        rows = np.arange(len(self.y)) if rows is None else rows
        if self.rank is not None:
            rows = rows[self.order(rows)]
        return rows if self.w is None else rows[self.w[rows] > 0.0]

    def order(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places in `rows` in the order of learning."""
        return np.argsort(rows if self.rank is None else self.rank[rows], kind="stable")

    def take(self, rows: NDArray[np.intp]) -> _Sample:
        """Return these rows, in this order."""
        base = _check_method_params(self.X, self.routed.base, indices=rows)
        routed = replace(self.routed, base=base)
        return _Sample(_safe_indexing(self.X, rows), self.y[rows], None if self.w is None else self.w[rows], routed)

    def for_base(self, method: Callable[..., Any]) -> dict[str, Any]:
        """Return the keyword arguments of a `fit` or `partial_fit` of the base."""
        return self.routed.base if self.routed.by_request else {**_weights(method, self.w), **self.routed.base}


def _may_be_in_order_of_time(y: NDArray[Any]) -> bool:
    """Return whether rows may be in the order of time: not sorted by label, and without an end of one label."""
    counts = np.unique(y, return_counts=True)[1]
    ends = np.append(np.flatnonzero(y[1:] != y[:-1]), len(y) - 1)  # of runs of equal labels
    if in_blocks(len(ends) - 1, counts) is not None:
        return False
    lengths = np.diff(ends, prepend=-1)
    last = int(lengths[-1])
    if float((y == y[-1]).mean()) ** last >= UNLIKELY_END:
        return True
    return last <= 2 * int(np.max(lengths[:-1][y[ends[:-1]] == y[-1]], initial=0))


def _taught(estimator: Any, chunk: _Sample, classes: NDArray[Any]) -> None:
    """Fit a base that continues to learn on one more chunk."""
    estimator.partial_fit(chunk.X, chunk.y, classes=classes, **chunk.for_base(estimator.partial_fit))


def _levels(calibrator: Any, X: Any) -> dict[str, Any] | None:
    """Return the columns of X that a calibrator reads beside the score; None where it has no fields."""
    fields = getattr(calibrator, "fields", ())
    if not fields:
        return None
    missing = [name for name in fields if name not in getattr(X, "columns", ())]
    if missing:
        raise InputError(
            f"the calibrator reads the columns {list(fields)}, and X has no {missing[0]!r}; give a "
            "DataFrame with these columns, missing levels as None"
        )
    return {name: X[name] for name in fields}


def _has_interval(calibrator: Any) -> bool:
    method = REGISTRY.get(calibrator) if isinstance(calibrator, str) else calibrator
    return bool(getattr(method, "has_interval", False))


def _probabilities(estimator: Any, X: Any) -> FloatArray:
    """Return the base's probabilities, shape (n, K): of margins their softmax, of one margin its sigmoid."""
    if hasattr(estimator, "predict_proba"):
        p = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if p.ndim != 2:
            shape = f"predict_proba of {estimator!r} returns shape {p.shape}, and not one column a class"
            raise InputError(f"{shape}; for two classes return np.column_stack((1 - p, p))")
        return _inside(p)
    margins = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if margins.ndim == 1:
        return np.column_stack((expit(-margins), expit(margins)))
    if margins.shape[1] != len(estimator.classes_):
        raise InputError(
            f"{estimator!r} gives {margins.shape[1]} margins for {len(estimator.classes_)} classes; "
            "give a base with one margin a class, such as SVC(decision_function_shape='ovr')"
        )
    return softmax(margins, axis=1)


def _inside(p: FloatArray) -> FloatArray:
    """Clip probabilities to [0, 1] where rounding put them outside; the calibrator refuses all others."""
    inside = np.clip(p, 0.0, 1.0)
    return np.where(np.abs(p - inside) <= ROUNDING, inside, p)


def _for_classes(calibrator: Any, estimator: Any, classes: int) -> Any:
    """Return the calibrator given, or the one of this name, for `classes` classes."""
    if isinstance(calibrator, MulticlassCalibrator):
        return calibrator
    named = isinstance(calibrator, str) and calibrator in METHODS
    if classes == 2 and not (named and calibrator not in REGISTRY):
        return _for_base(calibrator, estimator)
    if getattr(calibrator, "fields", ()):
        raise InputError(
            f"{type(calibrator).__name__} calibrates one score, and y has {classes} classes; give a method of "
            "streamcal.multiclass such as 'temperature', or labels of two classes"
        )
    if isinstance(calibrator, str) and calibrator == DEFAULT_METHOD:
        return OnlineVectorScaling()
    if named:
        return chosen(calibrator, MulticlassCalibrator, METHODS)
    return OneVsRest(chosen(calibrator, Calibrator, REGISTRY))


def _for_base(calibrator: Any, estimator: Any) -> Any:
    """Return the calibrator given, or the one of this name; for margins with a scale that accepts them."""
    if not isinstance(calibrator, str) or hasattr(estimator, "predict_proba") or calibrator not in REGISTRY:
        return chosen(calibrator, Entrant, REGISTRY)
    cls: Any = Platt if calibrator == DEFAULT_METHOD else REGISTRY[calibrator]
    known = inspect.signature(cls).parameters
    options = {"scale": Interval(), "resolution": None}  # a grid would need bounds
    return cls(**{name: value for name, value in options.items() if name in known})


def _check_pair(estimator: Any, calibrator: Any) -> None:
    """Raise `InputError` for a calibrator that cannot learn from the scores of this base."""
    if isinstance(estimator, FrozenEstimator) and not hasattr(estimator, "classes_"):
        raise NotFittedError(f"{estimator!r} is not fitted; fit {estimator.estimator!r} first, or give it as it is")
    if calibrator.forgets_by_time:
        raise InputError(f"{calibrator!r} forgets by time, and scikit-learn passes no times; forget by count")
    if hasattr(estimator, "predict_proba"):
        return
    if not hasattr(estimator, "decision_function"):
        raise InputError(f"{estimator!r} has neither predict_proba nor decision_function: it gives no scores")
    if isinstance(getattr(calibrator, "scale", None), (Probability, Logit)):
        raise InputError(
            f"{estimator!r} gives margins, and {calibrator!r} reads its scores as probabilities; "
            "choose a method and a scale for margins, such as scale=Interval(lo, hi)"
        )


def _weights(method: Callable[..., Any], w: FloatArray | None) -> dict[str, FloatArray]:
    """Return the sample weights as a keyword argument, if there are any and the method accepts them."""
    if w is None:
        return {}
    if "sample_weight" in inspect.signature(method).parameters:
        return {"sample_weight": w}
    warnings.warn(
        f"{method.__qualname__} takes no sample_weight: the weights count for the calibrator alone", stacklevel=6
    )
    return {}
