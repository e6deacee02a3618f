"""`NamedScores`: the scores of an observation, read by place or by name, as coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.fusion.missing import check_present, check_present_matrix, coordinates_present
from streamcal.learners.additive import require
from streamcal.parameters.columns import column_names, with_columns
from streamcal.parameters.inputs import check_score, check_scores_matrix
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, ensure, listed, maybe, text
from streamcal.statistics.present_scores import ABSENT

#: What may be given as scores: M numbers, or a dict of M names and numbers, which is read in the order of the names.
#: Where a method takes missing scores, None and NaN are such, and so are names that a dict does not have.
Scores: TypeAlias = Sequence[float | None] | NDArray[Any] | Mapping[str, float | None]

#: Scores that are fused.
MOST_SCORES = 256
#: Of the name of a score in a state, in characters.
LONGEST_NAME = 100_000


class NamedScores:
    """A scale for each score, and the names of the scores once observations have named them.

    Parameters
    ----------
    n_scores : int
        M, at least 1.
    scale : Scale or tuple of Scale
        The scale of the scores: one for all, or M of them.
    takes_missing : bool
        Whether scores may be missing.
    """

    def __init__(self, n_scores: int, scale: Scale | tuple[Scale, ...], takes_missing: bool) -> None:
        self.n_scores = whole_number(n_scores, "n_scores", 1, MOST_SCORES)
        self.scales = scale if isinstance(scale, tuple) else (scale,) * self.n_scores
        if len(self.scales) != n_scores:
            raise InputError(f"scale has {len(self.scales)} scales for {n_scores} scores; give one, or one for each")
        for one in self.scales:
            require(one, Scale, "scale", "Probability(), Logit(lo, hi), Interval(lo, hi) or EmpiricalCDF, or a tuple")
        self.takes_missing = takes_missing
        self.names: tuple[str, ...] | None = None

    def keep(self, names: tuple[str, ...] | None) -> None:
        """Keep the names of scores that were learned, if they are the first."""
        self.names = self.names or names

    def in_order(self, scores: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Return scores of shape (n, M) with their columns in the order that is learned, and their names, if any."""
        names = column_names(scores)
        if names is None or not all(isinstance(name, str) for name in names):
            return scores, None
        if self.names is None:
            return scores, tuple(names)
        if set(names) != set(self.names):
            raise InputError(_other_names(names, self.names))
        return with_columns(scores, self.names), self.names

    def read(self, scores: Scores) -> list[float | None]:
        """Return M finite floats in the order of the scales, None for a missing score."""
        if isinstance(scores, Mapping):
            scores = self._by_name(scores)
        elif isinstance(scores, (str, bytes)) or not (
            isinstance(scores, Sequence) or (isinstance(scores, np.ndarray) and scores.ndim > 0)
        ):
            raise InputError(f"scores {scores!r} are not {self.n_scores} numbers; give a list, or a dict name -> score")
        if len(scores) != self.n_scores:
            raise InputError(f"scores {scores!r} are {len(scores)}; n_scores is {self.n_scores}")
        return check_present(scores) if self.takes_missing else [check_score(score) for score in scores]

    def _by_name(self, scores: Mapping[str, Any]) -> list[Any]:
        """Return the scores in the order of their names, None for a name that is absent and may be."""
        if not all(isinstance(name, str) for name in scores):
            raise InputError(f"scores {scores!r} have names that are not texts; give a dict name -> score")
        known = self.names
        if known is None:
            return [scores[name] for name in names_of(scores)]
        if set(scores) != set(known) and not (self.takes_missing and set(scores) < set(known)):
            raise InputError(_other_names(names_of(scores), known))
        return [scores.get(name) for name in known]

    def clamped(self, s: Sequence[float | None]) -> int:
        """Count the scores that their scale clamps."""
        return sum(scale.clamps(score) for scale, score in zip(self.scales, s, strict=True) if score is not None)

    def count_clamped(self, s: FloatArray) -> int:
        """Do `clamped` for scores of shape (n, M), NaN where missing."""
        columns = [np.ascontiguousarray(column[~np.isnan(column)]) for column in s.T]
        return sum(scale.count_clamped(column) for scale, column in zip(self.scales, columns, strict=True))

    def fields(self) -> dict[str, Field]:
        """Return the field of the names."""
        names = maybe(listed(text(LONGEST_NAME), length=self.n_scores))
        return {"names": Field(names, lambda: None if self.names is None else list(self.names), self.load)}

    def load(self, names: list[str] | None) -> None:
        """Take over the names of a state."""
        ensure(names is None or len(set(names)) == len(names), "a name of a score occurs twice")
        self.names = None if names is None else tuple(names)


def names_of(scores: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of scores given as a dict, in the order in which the scores are read."""
    return tuple(sorted(scores))


def _other_names(names: Sequence[str], known: Sequence[str]) -> str:
    return f"the scores are named {', '.join(names)}; those learned were {', '.join(known)}"


def coordinate(scales: tuple[Scale, ...], s: Sequence[float | None]) -> tuple[float, ...]:
    """Return the coordinates of checked scores, ABSENT for a missing score."""
    return tuple([ABSENT if score is None else scale.coordinate(score) for scale, score in zip(scales, s, strict=True)])


def coordinates_of(scales: tuple[Scale, ...], scores: ArrayLike, takes_missing: bool) -> FloatArray:
    """Return the coordinates of unchecked scores, shape (n, M)."""
    if takes_missing:
        return coordinates_present(scales, check_present_matrix(scores, len(scales)))
    return coordinates(scales, check_scores_matrix(scores, len(scales)))


def coordinates(scales: tuple[Scale, ...], scores: FloatArray) -> FloatArray:
    """Return the coordinates of scores; both have shape (n, M)."""
    columns = [scale.coordinates(np.ascontiguousarray(column)) for scale, column in zip(scales, scores.T, strict=True)]
    return np.column_stack(columns)
