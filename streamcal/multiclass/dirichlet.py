"""`Dirichlet`: a matrix and an offset on the log-probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamcal.multiclass.base import MulticlassMap
from streamcal.multiclass.labels import ClassLabel
from streamcal.multiclass.softmax import LIMIT, DirichletMap, SoftmaxScaling, nonnegative
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.types import FloatArray


class Dirichlet(SoftmaxScaling):
    """Dirichlet calibration: p_L proportional to exp(Σ_M W_LM ln s_M + b_L), by maximum likelihood.

    It is Bayes' rule for a Dirichlet density of the score vector in each class. With a diagonal W it is
    `VectorScaling`; the other entries of W correct classes that the base model confuses.

    Parameters
    ----------
    off_diagonal, intercept : float
        Penalties λ and μ of ODIR, at least 0: λ/(K(K − 1)) Σ_{L≠M} W_LM² + μ/K Σ b_L² is added to the mean log loss. In
        contrast to the prior, their influence does not decrease with the number of observations.
    prior, limit, forgetting, refresh_every
        See `SoftmaxScaling`; the prior is on W − I and b.

    Notes
    -----
    K² + K parameters: with few observations per class, `VectorScaling` is safer. A label that an observation does not
    name has the score 0 in it, see `MulticlassCalibrator`. Scores must sum to one, up to 0.01; ln s is limited to −16
    from below.

    Cost: an observation O(K), a prediction after it O(k·K⁴) for k ≤ `limit` distinct score vectors held, by Newton
    steps from the previous solution, 5 to 9 ms at K = 10: with more classes give `refresh_every`. Memory O(k·K).

    References
    ----------
    M. Kull and others, Beyond temperature scaling, NeurIPS 2019, §2 and §3.

    Examples
    --------
    >>> cal = Dirichlet(prior=0.0)
    >>> cal.learn_many([[0.5, 0.3, 0.2]] * 4, ["a", "b", "c", "c"], labels=["a", "b", "c"])
    >>> {label: round(p, 6) for label, p in cal.predict_one({"a": 0.5, "b": 0.3, "c": 0.2}).items()}
    {'a': 0.25, 'b': 0.25, 'c': 0.5}
    """

    name = "dirichlet"
    summary = "a matrix on the log-probabilities, by maximum likelihood"

    def __init__(
        self,
        *,
        off_diagonal: float = 0.0,
        intercept: float = 0.0,
        prior: float = 1.0,
        limit: int | None = LIMIT,
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
    ) -> None:
        self.off_diagonal = nonnegative(off_diagonal, "off_diagonal")
        self.intercept = nonnegative(intercept, "intercept")
        super().__init__(prior=prior, limit=limit, forgetting=forgetting, refresh_every=refresh_every)

    def _parameters(self, labels: list[ClassLabel]) -> list[Any]:
        return [name for own in _names(labels) for name in own]

    def _features(self, labels: list[ClassLabel], logs: FloatArray) -> tuple[FloatArray, list[list[Any]]]:
        row = np.column_stack((logs, np.ones(len(logs))))
        shape = (len(logs), len(labels), len(labels) + 1)
        return np.broadcast_to(row[:, None, :], shape), _names(labels)

    def _priors(self, labels: list[ClassLabel], r: FloatArray) -> FloatArray:
        return self.prior * np.column_stack((np.maximum.outer(r, r), np.ones_like(r))).ravel()

    def _sums(self, labels: list[ClassLabel], r: FloatArray) -> FloatArray:
        beyond = self.prior * (float(r.max(initial=1.0)) - 1.0)
        columns = np.tile(np.eye(len(labels) if beyond else 0, len(labels) + 1), len(labels))
        return math.sqrt(beyond) * columns

    def _penalty(self, labels: list[ClassLabel]) -> FloatArray:
        k = len(labels)
        penalty = np.full((k, k + 1), 2.0 * self.off_diagonal / max(k * (k - 1), 1))
        penalty[np.arange(k), np.arange(k)] = 0.0
        penalty[:, k] = 2.0 * self.intercept / k
        return penalty.reshape(-1)

    def _map_of_parameters(self, labels: list[ClassLabel], delta: FloatArray) -> MulticlassMap:
        matrix = delta.reshape(len(labels), -1)
        return DirichletMap(labels, np.eye(len(labels)) + matrix[:, :-1], matrix[:, -1])


def _names(labels: list[ClassLabel]) -> list[list[Any]]:
    """Return the names of the parameters of each label: W_LM for all M, and b_L."""
    return [[*((label, other) for other in labels), (label,)] for label in labels]
