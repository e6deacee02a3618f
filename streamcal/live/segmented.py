"""`Segmented`: corrects the probabilities of a calibrator for the segments of a stream, such as campaigns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import CapabilityError, InputError, MergeError
from streamcal.kernels.common.fast_path import fast_levels
from streamcal.kernels.common.weights import WeightScale
from streamcal.kernels.segments.delay_variance import DelayVariance
from streamcal.kernels.segments.level_members import HEAVIEST
from streamcal.kernels.segments.segment_chain import SegmentChain
from streamcal.kernels.segments.segmented_steps import SegmentedSteps
from streamcal.learners.choosing import chosen
from streamcal.learners.learner import loaded_as
from streamcal.live.keyed import Keyed
from streamcal.live.level_store import LevelRows, is_path
from streamcal.live.levels import (
    LONGEST_LEVEL,
    Field,
    Level,
    all_traffic_state,
    check_fields,
    checked_level,
    columns_of,
    delay_state,
    field_state,
    names_of,
    weights_reader,
)
from streamcal.live.pairs import REMEMBERED, PairedChain, PairEffect, check_pairs
from streamcal.names import did_you_mean
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_label, check_scores, check_weight
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time
from streamcal.states import Field as StateField
from streamcal.states import attribute, ensure, listed, maybe, part, row, unread, weight_scale_state, whole


class Effect(NamedTuple):
    """The effect of a field on a level's log-odds: mean, standard deviation, and the level's learned weight."""

    level: Level
    mean: float
    sd: float
    n: float


#: The members of a field in the first order, in the order of the kernel.
MEMBER_NAMES = ("nothing", "offset", "offset_100", "offset_10", "free", "line", "own")
#: The orders that are mixed.
ORDERS = 2
#: No label counts as later: whole numbers up to this one are doubles.
MOST_LABELS = 2.0**53


class Segmented(Keyed):
    """A calibrator and, field by field, corrections of its probability for the levels that an observation has.

    The prediction is a mixture of two orders. The first corrects the log-odds of the calibrator, field by field, in the
    order of `by`. The second corrects the log-odds of the score, field by field, and then for all traffic. Each place
    changes its incoming log-odds z to

        z′ = logit(Σₐ Wₐ·σ(z + mₐ)),

    where mₐ are the terms of its members for the level:

    - *nothing*;
    - *offsets* with all memory, 100 and 10 units of p(1 − p), each about the information of one rare positive. They are
      normal with the variance of the levels of the field, which is estimated from all of them (empirical Bayes). If a
      memory is full, sums and prior fade together, so a level that moves is not pulled back;
    - a *free* offset of variance 1;
    - a *line*, offset and slope of variances 1 and ¼;
    - *own*, the mixture of the others with weights of the level itself.

    The second order has no offset of 10 units, no "free" and no "own". The weights W are those of fixed share 10⁻⁵ with
    the prior ½ for "nothing". A level keeps sums of natural parameters alone, moved by implicit Newton steps: there is
    no learning rate.

    **Guarantee.** Let labels be in order and without delay, with relative weights up to 1. For n observations and J
    fields, let κ = ln 2 + share·n/2. Then the log loss, in sum over any n observations, exceeds that of the calibrator
    by at most (J + 1)·κ. It exceeds that of the score by at most (J + 2)·κ, whatever labels and calibrator are. Both
    hold to first order in the share. Proof: "nothing" has the weight ½ at each place, and each order ½ at first. A
    mixture loses at most −ln of the prior to any part, and −ln(1 − share/2) an observation.

    Parameters
    ----------
    calibrator : str or Calibrator
        The calibrator of all observations: its clone learns, and is the attribute `overall`.
    by : sequence of str and of tuples of str
        The fields, in the order of correction, the coarsest first; a tuple of fields is a field whose levels are
        tuples.
    max_levels : int
        The number of levels in memory for each field, default 100,000. At this number, a new level takes the place of
        the level that has been longest without an outcome. If the latter appears again, it starts from nothing unless
        there is a `store`. `tally` counts these evictions.
    store : str or path, optional
        A file for the evicted levels, created when it is first needed. A level that appears again is restored, so that
        predictions equal those of an unlimited `max_levels` to the last bit. The file belongs to the state: see the
        notes.
    pairs : bool, optional
        Whether all pairs of single fields, and the score, correct too; default False. See the notes.

    Notes
    -----
    A level is a text or a whole number, read by value: 1, 1.0, "1" and True are one level. A field that is None, NaN or
    "" in `keys`, or missing, is passed, and learns nothing; other keys are not read. Keys that lack a field but have
    one of a similar name, or have only other names, are an error. A level never seen is passed too.

    The second order reads a score as its scale does before anything is learned. A Venn-Abers interval of the calibrator
    is not valid for the corrected probability, and is not returned.

    In the corrections a weight counts relative to the running mean of all weights: multiplying all weights by one
    number changes nothing. `merge` adds the sums of each level, and multiplies the weights of members, relative to
    their prior, as independent evidence. `unlearn_one` subtracts from the sums what the observation adds to them at the
    present means. The result is exact, up to τ², for the last observation of a level; for others the error is of second
    order in the distance of the means, and memories lose what they may have forgotten. `unlearn_one` is for rare
    corrections of labels: errors of retractions add up, so a window must not be built on it. The weights of members are
    not unlearned.

    With labels that are d observations late, the weights of members and orders learn at the rate 1/D. D is the Allan
    variance of the residuals y − p as issued, at the delay. Half the mean square of the difference between their sums
    in two adjacent windows of d labels is divided by the mean sum of p(1 − p). D is 1 if labels are independent given
    p, and at most 1 + d; its prior is √(1 + d), with the weight of d labels. A constant error cancels, because late
    labels can still correct it. Windows have 2, 4, 8, … labels: the shortest with d labels or more counts. The
    guarantee does not extend to late labels. Weights at the rate 1/(1 + d), changed once in 1 + d observations, would
    lose at most 2·(1 + d)·ln 2 for each mixture; 1/D has no such bound.

    With a `store`, a state contains the levels in memory, and names the rows of the file with the others. It is loaded
    if the file has the same path, and resumes there even if more rows were written since. Only the last two states
    and the state of a `LabelJoin`'s journal can be loaded. One process at a time can use the file. If the file
    cannot be read in the middle of `learn_many` or `merge`, the learned state is undefined: load the last saved one.

    With `pairs`, a second model is learned beside the chain, of all fields, all pairs of single fields that are not in
    `by`, and the score (`PairedChain`). Predictions are a mixture of both, with prior ½ for the chain: they lose at
    most κ more than without `pairs`. Which pairs matter is learned; `pair_effects` shows it. The score is corrected
    where no level is known, too. `effect` and `weights` are those of the first order. At most 16 single fields and no
    `store` are possible with `pairs`. With late labels, predictions can be worse than without `pairs`: see
    `docs/segments_measured.md`.

    Cost: see `docs/segments_measured.md`. 224 bytes for a level, and its name.

    References
    ----------
    Herbster and Warmuth, Tracking the best expert, 1998 (fixed share); Kulis and Bartlett, Implicit online learning,
    ICML 2010. Measured in `docs/segments_measured.md`.

    Examples
    --------
    >>> cal = Segmented("online-platt", by=["campaign", ("campaign", "placement")])
    >>> for k in range(2000):
    ...     cal.learn_one(0.1, k % 5 == 0, keys={"campaign": "c1", "placement": k % 3})
    ...     cal.learn_one(0.1, k % 20 == 0, keys={"campaign": "c2", "placement": k % 3})
    >>> [round(cal.predict_one(0.1, keys={"campaign": name, "placement": 0}), 2) for name in ("c1", "c2", "new")]
    [0.2, 0.05, 0.1]
    >>> mean, sd, n = cal.effect("campaign", "c1")
    >>> round(mean, 1), round(sd, 2), n
    (0.6, 0.06, 2000.0)
    """

    name = "segmented"
    summary = "any calibrator, corrected for the levels of fields such as campaigns"

    def __init__(
        self,
        calibrator: str | Calibrator = DEFAULT_METHOD,
        by: Sequence[Field] = (),
        *,
        max_levels: int = 100_000,
        store: str | os.PathLike[str] | None = None,
        pairs: bool = False,
    ) -> None:
        self.max_levels = whole_number(max_levels, "max_levels", 1, 2**31, "a whole number, such as 100000")
        if store is not None and not is_path(store):
            raise InputError(f"store={store!r} is not possible; give the path of a file, or None")
        check_pairs(pairs, store)
        template = chosen(calibrator, Calibrator, REGISTRY)
        self.calibrator = calibrator if isinstance(calibrator, str) else template.clone()
        self.by = check_fields(by)
        self._overall: Calibrator = template.clone()
        #: Whether every score is a probability of the label.
        self._plain = self._overall.scale.domain == (0.0, 1.0) and not self._overall.scale.decreasing
        self.store = None if store is None else str(os.fspath(store))
        self.pairs = pairs
        self._names = names_of(self.by)
        self._chain = SegmentChain(len(self.by), self.max_levels)
        #: What corrects: the chain, or that and pairs of fields.
        self._corrections: Any = PairedChain(self._chain, self.by, self.max_levels) if pairs else self._chain
        self._level_rows: LevelRows | None = None
        if self.store is not None:
            self._keep_in(LevelRows(self.store))
        self._weight_scale = WeightScale()
        self._delay_variance = DelayVariance()
        self._steps: SegmentedSteps | None = None

    def _keep_in(self, rows: LevelRows) -> None:
        """Write the levels that make room to a store from here on."""
        self._level_rows = rows
        self._chain.keep_in(rows)

    def _require_store(self, levels: list[Any] | None = None) -> None:
        """Open the store and read these levels from it, for its errors to come before anything is learned."""
        if self._level_rows is not None:
            self._level_rows.require()
            if levels is not None:
                self._chain.read_back(levels)

    # -- what it can do --------------------------------------------------------------------------------------------

    @property
    def overall(self) -> Calibrator:
        """The calibrator that learns all observations."""
        return self._overall

    @property
    def merges(self) -> bool:
        return self.overall.merges

    @property
    def unlearns(self) -> bool:
        return self.overall.unlearns

    def tally(self) -> dict[str, int]:
        """Return the calibrator's counts, and how often a level was "evicted" for lack of space."""
        return {**self.overall.tally(), "evicted": int(self._corrections.evicted)}

    # -- predicting and learning -----------------------------------------------------------------------------------

    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        """Return the probability of a positive label at `score` for these levels, as of `t`; the state is unchanged.

        `keys` are field → level. The probability is inside (0, 1), even if the calibrator predicts 0 or 1.
        """
        levels = fast_levels(keys, self.by, LONGEST_LEVEL)  # here, since a call costs as much as the look-ups
        if levels is None or None in levels:
            if keys is None and isinstance(t, Mapping):
                return self.predict_one(score, keys=t)
            levels = self._levels(keys)
        p = self.overall.predict_one(score, t)
        return self._corrections.predict(p, score if self._plain else self._as_probability(score), levels)

    def _corrected(self, p: float, score: float, levels: list[Any]) -> float:
        """Return the prediction at a checked score where the calibrator predicts p."""
        return float(self._corrections.predict(p, self._as_probability(score), levels))

    def _as_probability(self, score: float) -> float:
        """Return a checked score read as a probability, from which the second order starts."""
        if self._plain:
            return score
        scale = self.overall.scale
        return float(scale.rising(score) if scale.domain == (0.0, 1.0) else scale.probability(scale.coordinate(score)))

    def _as_probabilities(self, scores: FloatArray) -> FloatArray:
        """Return `_as_probability` of an array."""
        scale = self.overall.scale
        rising = scale.domain == (0.0, 1.0)
        probabilities = scale.rising(scores) if rising else scale.probabilities(scale.coordinates(scores))
        return np.ascontiguousarray(probabilities, dtype=np.float64)

    def _learn(self, x: Any, y: float, w: float, t: Any, noted: int = 0) -> None:
        score, _, levels = x
        self._learn_from(self.overall._predict_to_learn(score, None, t), score, levels, y, w, t)

    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        return self._corrected(self.overall._predict_to_learn(score, None, t), score, self._levels(keys))

    def _learn_at_once(self, x: float, keys: Any, y: Label, w: float, t: Time | None) -> None:
        levels, label, weight = self._levels(keys), check_label(y), check_weight(w)
        self._require_store(levels)
        p = self.overall._predict_to_learn(x, None, t)
        self.overall._learn_at_once(x, None, y, w, t)
        self._correct_from(p, x, levels, label, weight)

    def _learn_from(self, p: float, score: float, levels: list[Any], y: float, w: float, t: Any) -> None:
        """Learn a checked observation of which the calibrator predicts p."""
        if self._level_rows is not None:
            self._require_store(levels)
        self.overall.learn_one(score, y > 0.0, w, t)  # of a bool it needs no check
        self._correct_from(p, score, levels, y, w)

    def _correct_from(self, p: float, score: float, levels: list[Any], y: float, w: float) -> None:
        """Learn the corrections of a prediction p of the calibrator, which has learned the label."""
        if w > 0.0:
            at = score if self._plain else self._as_probability(score)
            self._corrections.learn(p, at, levels, y, self._weight_scale.relative(w))
            self._delay_variance.labels += 1

    def unlearn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Take an earlier `learn_one` with the same arguments out of the calibrator, and out of the sums of its levels.

        Raise `CapabilityError` where the calibrator cannot unlearn, and `InputError` for an observation that it knows
        it has not learned; nothing changes then.
        """
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn, since {self.overall!r} cannot")
        levels, label, weight = self._levels(keys), check_label(y), check_weight(w)
        self._require_store(levels)
        self.overall.unlearn_one(score, y, w, t)
        if weight > 0.0:
            relative = self._weight_scale.ratio(weight)
            p = self.overall.predict_one(score, t)
            self._corrections.unlearn(p, self._as_probability(score), levels, label, relative)

    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        if keys is None and isinstance(t, Mapping):
            keys, t = t, None
        p = np.ascontiguousarray(self.overall.predict_many(scores, t), dtype=np.float64)
        columns = columns_of(self.by, keys, len(p))
        return like(scores, self._corrected_many(p, check_scores(scores), columns))

    def _corrected_many(self, p: FloatArray, scores: FloatArray, columns: list[list[Any]]) -> FloatArray:
        """Return the predictions at checked scores where the calibrator predicts p."""
        probabilities = np.empty(len(p))
        self._corrections.predict_many(p, self._as_probabilities(scores), columns, probabilities)
        return probabilities

    def _run(self, x: Any, y: FloatArray, w: FloatArray, t: Any, predictions: FloatArray) -> None:
        """Learn checked observations in order, and write what is predicted before each to `predictions`, unless empty.

        The calibrator comes first, all rows: what it predicts and learns does not depend on the levels.
        """
        scores, _, columns = x
        self._require_store()
        p = np.ascontiguousarray(self.overall.predict_learn_many(scores, y, w, t), dtype=np.float64)
        at = self._as_probabilities(scores)
        self._corrections.stream(p, at, columns, y, self._weight_scale.relative_many(w), predictions)
        self._delay_variance.labels += int(np.count_nonzero(w))

    # -- late labels -----------------------------------------------------------------------------------------------

    def _issue_keyed(self, score: float, keys: Any, t: Time | None, w: float) -> tuple[float, list[float]]:
        """Return the probability, and the numbers that `_learn_keyed` needs of it; the state does not change.

        First the probability and the number of observations learned so far. Then, for each field of which `keys` has a
        level, in the order of `by`, the log-odds of its members: seven in the first order, and four in the second.
        Those of the four members of all traffic and of both orders follow. With `pairs`, those of this mixture and of
        the model beside it are next. The predictions of the parts of the calibrator, if it is a mixture, are last.
        """
        levels = self._levels(keys)
        p, record = self.overall._issue_keyed(score, None, t, 1.0)
        corrected, members = self._corrections.parts(p, self._as_probability(score), levels)
        return corrected, [corrected, float(self._delay_variance.labels), *members, *(record or ())]

    def _learn_keyed(
        self, score: float, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        """Learn a label: members and parts are judged as issued, and levels step from where the calibrator is now."""
        levels, label, weight = self._levels(keys), check_label(y), check_weight(w)
        issued, rest = self._read_record(levels, record or ())
        self._require_store(levels)
        if weight == 0.0:
            self.overall._checked(score, y, w, t)
            return
        p, labels, *members = issued
        now = self.overall._predict_to_learn(score, None, t)
        self.overall._learn_keyed(score, None, label > 0.0, rest, w, t)
        late = min(max(self._delay_variance.labels - labels, 0.0), MOST_LABELS)
        relative, at = self._weight_scale.relative(weight), self._as_probability(score)
        if late == 0.0:  # what was said then is said now
            self._corrections.learn(now, at, levels, label, relative)
        else:
            bounded = min(relative, HEAVIEST)
            self._delay_variance.learn(bounded * (label - p), bounded * bounded * p * (1.0 - p))
            rate = 1.0 / self._delay_variance.at(late)
            self._corrections.learn_issued(now, at, levels, np.array(members), 0, label, relative, rate)
        self._delay_variance.labels += 1

    def _require_keyed(
        self, score: float, keys: Any, y: Label | None, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        levels = self._levels(keys)
        rest: list[float] = [] if record is None else self._read_record(levels, record)[1]
        if y is not None:
            self.overall._require_keyed(score, None, y, rest, w, t)
            self._require_store(levels)

    def _read_record(self, levels: list[Any], record: Sequence[float]) -> tuple[list[float], list[float]]:
        """Return probability, count and the members' log-odds, and then the rest; reject what is too short."""
        needed = 2 + int(self._chain.numbers(levels)) + REMEMBERED * self.pairs
        try:
            numbers = list(map(float, record))
        except (TypeError, ValueError, OverflowError):
            numbers = []
        if len(numbers) < needed or not 0.0 <= numbers[0] <= 1.0 or not all(map(math.isfinite, numbers[:needed])):
            raise InputError(f"record={record!r} is not what `issue` keeps for these keys: {needed} numbers or more")
        return numbers[:needed], numbers[needed:]

    def _column_steps(self) -> SegmentedSteps | None:
        kernel = self._overall._column_steps()
        if kernel is None or self.pairs or self.store is not None:
            return None
        if self._steps is None or self._steps.kernel is not kernel:
            parts = self._chain, kernel, self._weight_scale, self._delay_variance
            self._steps = SegmentedSteps(*parts, self.by, self._names, self._levels_of_join)
        return self._steps

    def _levels_of_join(self, keys: Any) -> list[Any]:
        """Return the levels in keys of a join, which has left out missing ones; `InputError` for another field."""
        self.require_names(keys)
        return self._levels({**dict.fromkeys(self._names), **keys})

    # -- what it knows ---------------------------------------------------------------------------------------------

    def effect(self, field: Field, level: Level) -> tuple[float, float, float]:
        """Return what a field adds to a level's log-odds, the effect's deviation, and the level's learned weight.

        Parameters
        ----------
        field : str or tuple of str
            One of `by`.
        level : text, whole number, or tuple of them
            For a new level the mean is 0, and the deviation is that between the levels of this field.

        Returns
        -------
        mean, sd : float
            Of the posterior distribution, in log-odds, over the members of the first order with their weights; the line
            at the mean log-odds of the level. Thompson sampling takes a draw from N(mean, sd²), an upper confidence
            bound mean + c·sd.
        n : float
            The weight of the observations of this level held, in units of the mean weight of all observations.

        Raises
        ------
        InputError
            For a field that is not one of `by`, or a level that is missing.

        Notes
        -----
        It is a model's posterior, not a confidence interval with a guarantee, and an effect given the fields before it.
        The interval of Venn-Abers, in contrast, is no statement about uncertainty at all: it becomes narrow around a
        wrong probability.

        Examples
        --------
        >>> cal = Segmented("online-platt", by=["campaign"])
        >>> mean, sd, n = cal.effect("campaign", "new")
        >>> mean, round(sd, 2), n
        (0.0, 0.43, 0.0)
        """
        place = self._place(field)
        checked = checked_level(self.by[place], level)
        mean, variance, n = self._chain.effect(place, checked)
        return mean, math.sqrt(variance), n

    def effects(self, field: Field, levels: Iterable[Level] | None = None) -> list[Effect]:
        """Return the effects of a field on the log-odds of levels, as `effect` computes them, for a forest plot.

        Parameters
        ----------
        field : str or tuple of str
            One of `by`.
        levels : iterable, optional
            The levels to return, in their order; by default all in memory, the heaviest first.

        Returns
        -------
        list of Effect
            (level, mean, sd, n).

        Examples
        --------
        >>> cal = Segmented("identity", by=["device"])
        >>> cal.learn_many([0.5] * 40, [1, 1, 0, 0] * 10, keys={"device": ["a", "a", "b", "a"] * 10})
        >>> [(one.level, one.n) for one in cal.effects("device")]
        [('a', 30.0), ('b', 10.0)]
        """
        effects = [
            Effect(level, *self.effect(field, level)) for level in (self.levels(field) if levels is None else levels)
        ]
        return effects if levels is not None else sorted(effects, key=lambda effect: -effect.n)

    def levels(self, field: Field) -> list[Level]:
        """Return the levels of a field in memory, those longest without an outcome first."""
        return list(self._chain.levels(self._place(field)))

    def levels_stored(self, field: Field) -> int:
        """Return the number of a field's levels that are only in the store; 0 without a store."""
        return int(self._chain.absent(self._place(field)))

    def weights(self, field: Field) -> dict[str, float]:
        """Return the weights of a field's members after the calibrator, in the first order.

        They are "nothing", "offset", "offset_100", "offset_10", "free", "line" and "own".
        """
        return dict(zip(MEMBER_NAMES, self._chain.weights(self._place(field)), strict=True))

    def orders(self) -> dict[str, float]:
        """Return the weights of both orders in predictions: "calibrator" first, or the "score" first."""
        return dict(zip(("calibrator", "score"), self._chain.orders(), strict=True))

    def variance(self, field: Field) -> float:
        """Return τ², the variance of the levels of a field, in log-odds squared, as estimated for "offset"."""
        return float(self._chain.variances(self._place(field))[0])

    def pair_effects(self) -> list[PairEffect]:
        """Return each pair of fields with its share and variance, the largest product of both first.

        Examples
        --------
        >>> cal = Segmented("identity", by=["device", "page"], pairs=True)
        >>> cal.learn_many([0.5] * 400, [1, 0, 0, 1] * 100, keys={"device": [0, 0, 1, 1] * 100, "page": [0, 1] * 200})
        >>> [(fields, share > 0.99, variance > 0.5) for fields, share, variance in cal.pair_effects()]
        [(('device', 'page'), True, True)]
        """
        return self._corrections.pair_effects() if self.pairs else []

    def _place(self, field: Field) -> int:
        wanted = tuple(field) if isinstance(field, list) else field
        if not isinstance(wanted, (str, tuple)) or wanted not in self.by:
            nearest = did_you_mean(field, [name for name in self.by if isinstance(name, str)])
            raise InputError(f"field {field!r} is not one of {', '.join(map(repr, self.by))}{nearest}")
        return self.by.index(wanted)

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        """Add all that `other` has learned of other observations; it is not changed.

        The calibrators are merged, the sums of each level added, and levels of `other` are the newest of the result.

        Raises
        ------
        MergeError
            Unless `other` is another object of the same parameters, the path of a store aside, and the calibrators
            can be merged.
        """
        alike = type(other) is type(self) and {**other._compared(), "store": self.store} == self._compared()
        if other is self or not alike:
            raise MergeError(f"{self!r} cannot take {other!r}: give another one of the same parameters")
        rows, others = self._level_rows, other._level_rows
        if rows is not None and others is not None and rows.is_of(others):
            raise MergeError(
                f"{other!r} is a copy, with the same levels in its store; what both learned is counted twice"
            )
        self._require_store()
        other._require_store()
        self.overall.merge(other.overall)
        self._corrections.merge(other._corrections)
        self._weight_scale.merge(other._weight_scale)
        self._delay_variance.merge(other._delay_variance)

    def _compared(self) -> dict[str, Any]:
        return {**super()._compared(), "calibrator": [type(self.overall).__name__, self.overall._compared()]}

    def _fields(self) -> dict[str, StateField]:
        chain = self._chain
        each = listed(whole(), length=len(self.by))
        stored = maybe(row(whole(1), whole(1), whole(), each))
        pairs = StateField(
            unread, self._corrections.state, lambda state: self._corrections.load(state, self.max_levels)
        )
        return {
            "overall": StateField(unread, self.overall._written, self._load_overall),
            "learned": attribute(self._delay_variance, "labels", whole()),
            "evicted": StateField(whole(), lambda: int(chain.evicted)),
            "delay_variance": StateField(delay_state, self._delay_variance.state, self._delay_variance.load),
            "stored": StateField(stored, self._levels_in_store, optional=True),
            **({"pairs": pairs} if self.pairs else {}),
            "weight_scale": part(self._weight_scale, weight_scale_state),
            "orders": StateField(weights_reader(ORDERS), self._chain.orders, self._chain.load_orders),
            "fields": StateField(listed(unread, length=len(self.by) + 1), self._levels_by_field),
        }

    def _levels_in_store(self) -> list[Any] | None:
        """Return what the state says of the levels in the store; None if there are none."""
        taken = None if self._level_rows is None else self._level_rows.taken()
        return None if taken is None else [*taken, [self._chain.absent(j) for j in range(len(self.by))]]

    def _levels_by_field(self) -> list[Any]:
        """Return weights, sums, levels and their numbers for each field, and for all traffic, as plain data."""
        fields = []
        for j in range(len(self.by) + 1):
            weights, sums, levels, rows = self._chain.state(j)
            fields.append(
                [weights, sums, [list(level) if isinstance(level, tuple) else level for level in levels], rows]
            )
        return fields

    def _load_overall(self, state: Any) -> None:
        self._overall = loaded_as(self.overall, state)

    def _load(self, *, evicted: int, stored: Any, fields: list[Any]) -> None:
        ensure(stored is None or self.store is not None, "there are levels in a store, and no path of it")
        absent = [*([0] * len(self.by) if stored is None else stored[3]), 0]
        readers = [field_state(field, self.max_levels, left) for field, left in zip(self.by, absent, strict=False)]
        for j, (reader, plain) in enumerate(zip([*readers, all_traffic_state], fields, strict=True)):
            self._chain.load(j, *reader(plain), absent[j])
        if stored is not None and self.store is not None:
            self._keep_in(LevelRows(self.store, *stored[:3]))
        self._chain.evicted = evicted
