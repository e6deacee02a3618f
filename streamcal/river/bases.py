"""Helpers of the wrappers: scores of a base model, and whether it accepts weights and times."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from river import base, compose

from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.learners.pending import Pending, settle
from streamcal.live.keyed import Entrant
from streamcal.parameters.inputs import check_label, check_weight
from streamcal.parameters.types import Time

#: A base of the wrappers. To Python a `Pipeline` is an instance of what its last step is; type checkers do not see it.
Classifier: TypeAlias = base.Classifier | compose.Pipeline
Regressor: TypeAlias = base.Regressor | compose.Pipeline
#: The prediction if the base returns no probabilities ({}), as some models do before they have learned.
NO_SCORE = 0.5
#: Tolerance for probabilities outside [0, 1], since models normalise in floating point.
ROUNDING = 1e-9


def score_of(classifier: Classifier, x: dict[Any, Any], **kwargs: Any) -> float | None:
    """Return P(True) of a base; None if it returns no probabilities, or zeros.

    True, 1 and np.True_ are equal as keys.
    """
    scores = probabilities_of(classifier, x, **kwargs)
    if not scores:
        return None
    if True not in scores and False not in scores:
        raise InputError(f"the base predicts the classes {list(scores)!r}; only False and True, or 0 and 1, work")
    p = scores.get(True, 0.0)
    if p == 0.0 and not any(scores.values()):  # of no class
        return None
    try:
        return rounded(p)
    except TypeError:
        raise InputError(f"the base predicts {scores!r}; its probabilities have to be numbers") from None


def probabilities_of(classifier: Classifier, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
    """Return the probabilities of a base by label; `InputError` for a base without them (`VotingClassifier`)."""
    try:
        scores: dict[Any, float] | None = classifier.predict_proba_one(x, **kwargs)
    except NotImplementedError:
        raise InputError(f"{classifier!r} has no predict_proba_one; give a base that predicts probabilities") from None
    if scores.__class__ is dict:  # fast path, without a call
        return scores
    if scores is None or isinstance(scores, Mapping):
        return scores or {}
    raise InputError(
        f"predict_proba_one of {type(classifier).__name__} gives {scores!r}; it has to give {{label: probability}}"
    )


def taken_by_base(names: frozenset[str], w: float, t: Time | None) -> dict[str, Any]:
    """Return the weight and the time as keyword arguments, if the base accepts them."""
    options = {"w": w} if t is None else {"w": w, "t": t}
    return {name: value for name, value in options.items() if name in names}


def fresh(calibrator: str | Entrant, kind: Any = Entrant) -> Any:
    """Return a clone, or a new calibrator of this name; `InputError` for anything but a calibrator or its name."""
    return chosen(calibrator, kind, REGISTRY).clone()


class Issues:
    """A wrapper whose predictions are issued now and settled when their labels come: the base learns with the label."""

    def issue(self, x: dict[Any, Any], t: Time | None = None, *, w: float = 1.0) -> Pending:
        """Predict an observation whose label comes later; `settle` learns the label.

        Parameters
        ----------
        x : dict
            The features, which are kept: the base learns them with the label.
        t, w
            As for `learn_one`.

        Returns
        -------
        Pending
            Its `p` is the probability of True; with several classes the dict of probabilities, and in regression the
            distribution, None without a forecast.

        Examples
        --------
        >>> from river import linear_model
        >>> from streamcal.river import CalibratedClassifier
        >>> model = CalibratedClassifier(linear_model.LogisticRegression())
        >>> first, second = model.issue({"size": 1.0}), model.issue({"size": 2.0})
        >>> model.settle(second, True)
        >>> model.settle(first, None)  # its label never comes
        >>> model.calibrator.n
        1.0
        """
        weight = check_weight(w)
        p, record = self._issued(x, t, weight)
        return Pending(p, dict(x), None, weight, t, record, type(self).__name__)

    def settle(self, issued: Pending, y: Any, w: float | None = None, t: Time | None = None) -> None:
        """Learn the label of a prediction that `issue` returned, as `Calibrator.settle`, whenever it comes.

        The calibrator learns what the base predicted at that time, and the base the features.
        """
        settle(self, issued, y, w, t)

    @property
    def _learner(self) -> Any:
        """What calibrates: a calibrator or a fusion."""
        return self.calibrator  # type: ignore[attr-defined]

    def _issued(self, x: dict[Any, Any], t: Time | None, w: float) -> tuple[Any, Any]:
        """Return the prediction, and that of what calibrates, which waits for the same label; None without a score."""
        raise NotImplementedError

    def _give_up_keyed(self, x: dict[Any, Any], keys: Any, record: Any) -> None:
        if isinstance(record, Pending):
            self._learner.settle(record, None)


class CalibratesBase(Issues):
    """A wrapper that calibrates what its base, or several of them, predict of x.

    A subclass has `_scores` and `_learn_base`.
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the label of the features `x` was `y`, with weight `w` ≥ 0, at time `t`."""
        scores = self._scores(x)
        if scores is None:
            self._check_label(y)
            check_weight(w)
        else:
            self._learner._learn_at_once(scores, x, y, w, t)
        self._learn_base(x, y, w, t, **kwargs)

    def predict_proba_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> dict[Any, float]:
        """Return the calibrated probability of each class, as of time `t`; the state does not change."""
        scores = self._scores(x, **kwargs)
        if scores is None:
            return self._by_class(self._without_scores(x, **kwargs))
        return self._by_class(self._learner.predict_one(scores, t, **self._keys(x)))

    def _issued(self, x: dict[Any, Any], t: Time | None, w: float) -> tuple[Any, Pending | None]:
        scores = self._scores(x)
        if scores is None:
            return self._without_scores(x), None
        issued = self._learner.issue(scores, t, w=w, **self._keys(x))
        return issued.p, issued

    def _learn_keyed(
        self, x: dict[Any, Any], keys: Any, y: Any, record: Pending | None, w: float, t: Time | None
    ) -> None:
        if record is None:
            self._check_label(y)
            check_weight(w)
        else:
            self._learner.settle(record, y, w, t)
        self._learn_base(x, y, w, t)

    @abstractmethod
    def _scores(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the scores that are calibrated; None if the base predicts none."""

    @abstractmethod
    def _learn_base(self, x: dict[Any, Any], y: Any, w: float, t: Time | None, **kwargs: Any) -> None:
        """Let the base learn an observation."""

    #: Raises `InputError` for what is no label.
    _check_label: Callable[[Any], Any] = staticmethod(check_label)

    def _by_class(self, p: Any) -> dict[Any, float]:
        """Return a prediction as probabilities by class."""
        return both(p)

    def _without_scores(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the prediction where the base predicts no scores."""
        return NO_SCORE

    def _keys(self, x: dict[Any, Any]) -> dict[str, Any]:
        """Return the argument `keys` of what calibrates, if it has one."""
        return {}


class ShowsCalibrator:
    """A wrapper whose `str` names the calibrator after the base: River's own names the base alone."""

    calibrator: Any
    classifier: Any

    def _wrap(self, classifier: Any) -> None:
        """Take a classifier as the base; `InputError` for anything else."""
        if not isinstance(classifier, base.Classifier):
            raise InputError(f"classifier={classifier!r} is not a River classifier, nor a pipeline that ends in one")
        self.classifier = classifier
        self._for_base = frozenset(name for name in ("w", "t") if takes(classifier, name))

    @property
    def _wrapped_model(self) -> Any:
        return self.classifier

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._wrapped_model}, {self.calibrator})"


def takes(estimator: base.Estimator | compose.Pipeline, name: str) -> bool:
    """Return whether `learn_one` has a parameter of this name, also inside pipelines, unions and wrappers.

    Pipelines and unions pass keywords on, and so do wrappers with **kwargs; there the models inside are inspected.
    """
    if isinstance(estimator, compose.Pipeline):
        return any(takes(step, name) for step in estimator.steps.values())
    if isinstance(estimator, compose.TransformerUnion):
        return any(takes(part, name) for part in estimator.transformers.values())
    parameters = inspect.signature(estimator.learn_one).parameters
    if name in parameters:
        return True
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return passes_on and isinstance(estimator, base.Wrapper) and takes(estimator._wrapped_model, name)


def takes_to_predict(estimator: base.Estimator | compose.Pipeline, name: str) -> bool:
    """Return whether `predict_one` has a parameter of this name; a pipeline passes it to its last step."""
    if isinstance(estimator, compose.Pipeline):
        return takes_to_predict(list(estimator.steps.values())[-1], name)
    return name in inspect.signature(estimator.predict_one).parameters


def rounded(p: float) -> float:
    """Clip a probability to [0, 1] if rounding put it outside; other values stay as they are and are refused later."""
    if -ROUNDING <= p < 0.0:
        return 0.0
    return 1.0 if 1.0 < p <= 1.0 + ROUNDING else p


def both(p: float) -> dict[bool, float]:
    """Return the result of `predict_proba_one` of a binary classifier."""
    return {False: 1.0 - p, True: p}
