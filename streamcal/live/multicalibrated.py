"""`Multicalibrated`: keeps the predictions of a calibrator calibrated in every group of a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import CapabilityError, InputError, MergeError
from streamcal.kernels.common.fast_path import fast_levels
from streamcal.kernels.common.weights import WeightScale
from streamcal.kernels.segments.accounts import Accounts
from streamcal.kernels.segments.capitals import FINE, FINE_SIZE, FINE_WIDTH, KNOWN, SIZE, SLOTS, TILTS, WIDTH
from streamcal.learners.choosing import chosen
from streamcal.learners.learner import loaded_as
from streamcal.live.keyed import Keyed, rereadable
from streamcal.live.levels import (
    LONGEST_LEVEL,
    Field,
    Level,
    check_fields,
    checked_level,
    columns_of,
    level_reader,
    names_of,
)
from streamcal.live.pairs import check_pairs, pairs_of
from streamcal.live.segmented import Segmented
from streamcal.names import did_you_mean
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_label, check_scores, check_weight
from streamcal.parameters.numbers import real_number, whole_number
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time
from streamcal.states import (
    ROUNDING,
    Reader,
    ensure,
    listed,
    number,
    numbers,
    part,
    row,
    unread,
    weight_scale_state,
    whole,
)
from streamcal.states import Field as StateField

#: The narrowest bins of log-odds, and the widest: there are from 2 to 1,440 of them.
NARROWEST, WIDEST = 0.05, 36.0
#: No sum of capital is larger: it is at most what was injected, a share of a nat per observation, and what was gained.
RICHEST = 1e18
#: The sums over all groups in a state, as `Capitals` names them.
COUNTERS = ("injected", "total", "gone", "gain")
#: The tilts of all accounts, each for both signs, in the order of the evidence that the kernel knows; and what a gap
#: costs an account of the tilt for each unit of variance.
_H = np.array([*TILTS, *TILTS, *FINE, *FINE])
_COST = np.expm1(_H) - _H
#: The accounts of either sign.
_SIDES = [
    [*range(first, first + len(TILTS)), *range(fine, fine + len(FINE))]
    for first, fine in ((0, SIZE), (len(TILTS), SIZE + len(FINE)))
]


class Certificate(NamedTuple):
    """Guarantees for all predictions so far, computed from the state alone.

    Attributes
    ----------
    evidence : float
        No group, over any of its latest observations, has a likelihood ratio above exp(evidence) against its
        predictions.
    regret : float
        The most nats by which the summed log loss of the predictions can exceed the calibrator's. Below 0, the
        predictions' log loss is lower by at least this much.
    gain : float
        The number of nats by which the predictions' log loss is in fact lower.
    """

    evidence: float
    regret: float
    gain: float


class Group(NamedTuple):
    """A group and the evidence that its predictions are wrong.

    Attributes
    ----------
    field : str, tuple or None
        A field of `by`, a pair of them, or None for all levels together.
    level : text, whole number, tuple or None
        Its level.
    bin : int or None
        The bin of the calibrator's log-odds: bin k has those from k·`bins` to (k + 1)·`bins`. None: all bins.
    evidence : float
        That of the account with the most: `pending`·ln(W/(`pending`·w₀)), W being its capital, and w₀ the lowest floor.
    gap : float
        Σ(y − p), each observation with its weight relative to the mean.
    variance : float
        Σp·(1 − p), the variance of the gap if predictions are right.
    bound : float
        `Multicalibrated.bound` of this variance.
    pending : int
        N, the most observations of the group whose labels were awaited at once; 1 if labels come in time, 0 where the
        group is not held.
    """

    field: Field | None
    level: Level | None
    bin: int | None
    evidence: float
    gap: float
    variance: float
    bound: float
    pending: int

    @property
    def z(self) -> float:
        """The gap in standard deviations; 0 where there is no observation."""
        return self.gap / math.sqrt(self.variance) if self.variance > 0.0 else 0.0


class Multicalibrated(Keyed):
    """A calibrator and, for each group of observations, accounts that bet against its predictions.

    The groups are all observations, each level of the fields `by`, each pair of levels, each bin of the calibrator's
    log-odds, and each bin within each level. Each group has an account for each tilt h in ±1, ±1/3, ±1/9 and ±1/27. A
    large group, with V (below) above 10,000, also has them for ±1/81 and ±1/243. An account bets that the odds in the
    group are exp(h) times those predicted. With z the calibrator's probability, W the capital of an account and r(p)
    the probability p with its log-odds moved by h:

        before the prediction    W ← max(W, floor), for the groups of the observation
        the prediction           p = the root of z − p + Σ W·(r(p) − p)
        after the label          W ← W·r(y)/p(y), where p(1) = p and p(0) = 1 − p

    At this prediction, all accounts together gain what the prediction gains over z, whatever the label is. A group
    whose predictions are wrong makes an account grow, which then moves its predictions.

    **Guarantee.** Labels in time, whatever labels, scores and groups are. Let I be all capital injected at floors, C
    the capital of all accounts, M = Σ(y − p) and V = Σp·(1 − p) of a group over its observations since any moment, and
    w₀ the lowest floor. In nats, summed over all observations:

        1. loss(p) − loss(z) ≤ I − C
        2. |M| ≤ (ln(W/w₀) + V·(exp(h) − 1 − h))/h for each tilt h > 0, where W ≤ C ≤ I + loss(z) − loss(p)
    I, C and W are in the state: `certificate` and `bound` report both parts. For labels that come late, see the notes.
    `docs/multicalibration_measured.md` has the proof.

    Parameters
    ----------
    calibrator : str, Calibrator or Segmented
        What predicts z. A copy of it learns, which is the attribute `inner`.
    by : sequence of str and of tuples of str
        The fields whose levels are groups; a tuple of fields is a field whose levels are tuples.
    pairs : bool, optional
        Whether all pairs of levels of two single fields are groups too; default False.
    bins : float, optional
        The width of the bins of log-odds, default 1; 0 for no groups by bin.
    share : float, optional
        The capital of all accounts of an observation at their floors, default 0.005; the calibrator has 1. With a
        smaller share, wrong predictions are noticed later and right ones moved less.
    max_levels : int
        The number of groups held of each family, default 100,000: of each field, each pair, and each field by bin. A
        new group replaces the one longest without an observation, which starts with nothing if it appears again.

    Notes
    -----
    Levels are read by value as in `Segmented`. An observation in which a field is missing is in no group of the field.

    A weight counts relative to the running mean of all weights. An observation of relative weight above 1 is learned in
    up to 32 steps, each with a prediction of its own: part 2 is about these. Larger ones count as 32. What
    the steps gain beyond the prediction as issued is added to I, so that part 1 is about predictions as issued.

    Late labels: the capital of a group lies in slots. `issue` takes a free slot, or opens one more at the floor.
    `settle` settles its bets and frees it, in any order; without a label (None), the slot is as before. A relative
    weight above 1 counts as 1. Part 1 is about the labels that came. In part 2, ln(W/w₀) becomes N·ln(W/(N·w₀)), where
    N is the number of slots: the most observations *of the group* that were pending at once, 1 if labels come in time.
    So the bound of |M| is at most √N times that of labels in time, and no method can promise less. N counts pending
    observations, however rare positive labels are.

    Part 2 is about a group's observations since it was last given a place. `merge` adds capitals, moments and counters:
    part 1 holds for both streams together, and part 2 for the observations of each stream apart and those after the
    merge. `unlearn_one` is refused: an account's capital depends on the order of its observations.

    Cost in addition to the calibrator's: see `docs/multicalibration.md`. 100 bytes for a group, 190 once anything was
    issued, and its name.

    References
    ----------
    V. Vovk, A. Takemura and G. Shafer, Defensive forecasting, AISTATS 2005; A. Chernov, Y. Kalnishkan, F. Zhdanov and
    V. Vovk, Supermartingales in prediction with expert advice, Theoretical Computer Science 411, 2010.

    Examples
    --------
    >>> cal = Multicalibrated("identity", by=["campaign"])
    >>> for k in range(3000):
    ...     cal.learn_one(0.1, k % 10 == 0, keys={"campaign": "right"})
    ...     cal.learn_one(0.1, k % 5 == 0, keys={"campaign": "wrong"})
    >>> [round(cal.predict_one(0.1, keys={"campaign": name}), 2) for name in ("right", "wrong")]
    [0.1, 0.16]
    >>> evidence, regret, gain = cal.certificate()
    >>> round(regret), round(gain)  # the log loss is lower than that of the calibrator, by 63 nats
    (-2, 63)
    >>> wrong = cal.gap("campaign", "wrong")
    >>> round(wrong.gap), round(wrong.bound)
    (99, 103)
    """

    name = "multicalibrated"
    summary = "any calibrator, held calibrated in every group and every window"

    def __init__(
        self,
        calibrator: str | Calibrator | Segmented = DEFAULT_METHOD,
        by: Sequence[Field] = (),
        *,
        pairs: bool = False,
        bins: float = 1.0,
        share: float = 0.005,
        max_levels: int = 100_000,
    ) -> None:
        check_pairs(pairs, None)
        self.by = check_fields(by)
        self.pairs = pairs
        self.bins = real_number(bins, "bins", f"0 or a number from {NARROWEST} to {WIDEST:g}", least=0.0, most=WIDEST)
        if 0.0 < self.bins < NARROWEST:
            raise InputError(f"bins={bins!r} is not possible; give 0 or a number from {NARROWEST} to {WIDEST:g}")
        self.share = real_number(
            share, "share", "a number above 0 and at most 0.5, such as 0.005", least=1e-9, most=0.5
        )
        self.max_levels = whole_number(max_levels, "max_levels", 1, 2**31, "a whole number, such as 100000")
        template = calibrator if isinstance(calibrator, Segmented) else chosen(calibrator, Calibrator, REGISTRY)
        self.calibrator = calibrator if isinstance(calibrator, str) else template.clone()
        #: The calibrator that learns.
        self.inner: Any = template.clone()
        #: Whether the calibrator reads the same levels, which are then read once for both.
        self._shares = isinstance(template, Segmented) and template.by == self.by
        self._pairs = pairs_of(self.by) if pairs else []
        self._names = names_of(self.by)
        self._accounts = Accounts(len(self.by), self._pairs, self.bins, self.max_levels, self.share)
        self._weight_scale = WeightScale()

    # -- what it can do --------------------------------------------------------------------------------------------

    @property
    def merges(self) -> bool:
        return bool(self.inner.merges)

    @property
    def unlearns(self) -> bool:
        """False: an account's capital depends on the order of its observations."""
        return False

    @property
    def overall(self) -> Calibrator:
        """The calibrator of all observations, without groups."""
        calibrator: Calibrator = self.inner.overall
        return calibrator

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self._names, *self.inner.fields]))

    @property
    def store(self) -> str | None:
        """The store of the calibrator if it is a `Segmented` that has one, else None."""
        return getattr(self.inner, "store", None)

    @property
    def _level_rows(self) -> Any:
        return getattr(self.inner, "_level_rows", None)

    def tally(self) -> dict[str, int]:
        """Return the calibrator's counts, and how often a level or group was "evicted" for lack of space."""
        counts = self.inner.tally()
        return {**counts, "evicted": counts.get("evicted", 0) + int(self._accounts.evicted)}

    def require_names(self, keys: Any) -> None:
        super().require_names(keys)
        self.inner.require_names(keys)

    # -- predicting and learning -----------------------------------------------------------------------------------

    def predict_one(self, score: float, t: Time | None = None, *, keys: Keys | None = None) -> float:
        """Return the probability of a positive label at `score` for these levels. The state does not change.

        `keys` are field → level. The probability is inside (0, 1), even where the calibrator predicts 0 or 1.
        """
        levels = fast_levels(keys, self.by, LONGEST_LEVEL)  # here, since a call costs as much as the look-ups
        if levels is None or None in levels:
            if keys is None and isinstance(t, Mapping):
                return self.predict_one(score, keys=t)
            levels = self._levels(keys)
        inner = self.inner
        if self._shares:
            z = inner._corrected(inner._overall.predict_one(score, t), score, levels)
        else:
            z = inner.predict_one(score, t, keys=inner._own_keys(keys))
        return self._accounts.predict(z, levels)

    def _learn(self, x: Any, y: float, w: float, t: Any, noted: int = 0) -> None:
        score, keys, levels = x
        inner, positive = self.inner, y > 0.0
        if self._shares:
            p = inner._overall._predict_to_learn(score, None, t)
            z = inner._corrected(p, score, levels)
            inner._learn_from(p, score, levels, y, w, t)
        else:
            z = inner._predict_to_learn(score, keys, t)
            inner.learn_one(score, positive, w, t, keys=inner._own_keys(keys))
        if w > 0.0:
            self._accounts.learn(z, levels, y, self._weight_scale.relative(w))

    def _learn_at_once(self, x: float, keys: Any, y: Label, w: float, t: Time | None) -> None:
        levels, label, weight = self._levels(keys), check_label(y), check_weight(w)
        z = self.inner._predict_to_learn(x, keys, t)
        self.inner._learn_at_once(x, keys, y, w, t)
        if weight > 0.0:
            self._accounts.learn(z, levels, label, self._weight_scale.relative(weight))

    def _predict_to_learn(self, score: float, keys: Any, t: Time | None) -> float:
        inner, levels = self.inner, self._levels(keys)
        if self._shares:
            z = inner._corrected(inner._overall._predict_to_learn(score, None, t), score, levels)
        else:
            z = inner._predict_to_learn(score, keys, t)
        return self._accounts.predict(z, levels)

    def unlearn_one(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, *, keys: Keys | None = None
    ) -> None:
        """Refuse: the capital of an account is a product over its observations in their order.

        Raises
        ------
        CapabilityError
            Always.
        """
        raise CapabilityError(
            "Multicalibrated cannot unlearn: later bets depend on the capital that the observation left; learn the "
            "stream again without it"
        )

    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        if keys is None and isinstance(t, Mapping):
            keys, t = t, None
        keys, inner = rereadable(keys), self.overall if self._shares else self.inner
        p = inner.predict_many(scores, t, keys=inner._own_keys(keys))
        z = np.ascontiguousarray(p, dtype=np.float64)
        probabilities, columns = np.empty(len(z)), columns_of(self.by, keys, len(z))
        if self._shares:
            z = self.inner._corrected_many(z, check_scores(scores), columns)
        self._accounts.predict_many(z, columns, probabilities)
        return like(scores, probabilities)

    def require_columns(self, keys: Any, length: int) -> None:
        super().require_columns(keys, length)
        self.inner.require_columns(keys, length)

    def _checked_many(
        self, scores: ArrayLike, keys: Columns | None, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[Any, FloatArray, FloatArray]:
        return super()._checked_many(scores, rereadable(keys), y, w)

    def _run(self, x: Any, y: FloatArray, w: FloatArray, t: Any, predictions: FloatArray) -> None:
        """Learn checked observations in order, and write predictions to `predictions`, unless empty.

        The calibrator learns all rows first: it does not depend on the accounts.
        """
        scores, keys, columns = x
        if self._shares:
            p = np.empty(len(y))
            self.inner._run((scores, keys, columns), y, w, t, p)
        else:
            p = self.inner.predict_learn_many(scores, y, w, t, keys=self.inner._own_keys(keys))
        z = np.ascontiguousarray(p, dtype=np.float64)
        self._accounts.stream(z, columns, y, self._weight_scale.relative_many(w), predictions)

    # -- late labels -----------------------------------------------------------------------------------------------

    def _issue_keyed(self, score: float, keys: Any, t: Time | None, w: float) -> tuple[float, list[float]]:
        levels, weight = self._levels(keys), check_weight(w)
        z, parts = self.inner._issue_keyed(score, keys, t, weight)
        relative = self._weight_scale.relative(weight) if weight > 0.0 else 0.0
        bets = self._accounts.issue(z, levels, min(relative, 1.0))
        return bets[1], [*bets, *(parts or ())]

    def _learn_keyed(
        self, score: float, keys: Any, y: Label, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        self._settle(score, keys, check_label(y), record or (), w, t)

    def _give_up_keyed(self, score: float, keys: Any, record: Sequence[float] | None) -> None:
        self._settle(score, keys, None, record or (), 0.0, None)

    def _settle(
        self, score: float, keys: Any, y: float | None, record: Sequence[float], w: float, t: Time | None
    ) -> None:
        """Learn a checked label, or None, of what was issued."""
        levels = self._levels(keys)
        bets, parts = self._read_record(levels, record)
        if y is not None:
            self.inner._learn_keyed(score, keys, y > 0.0, parts, w, t)
        self._accounts.resolve(levels, bets, -1.0 if y is None or w == 0.0 or bets[2] == 0.0 else y)

    def _require_keyed(
        self, score: float, keys: Any, y: Label | None, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        levels = self._levels(keys)
        parts = None if record is None else self._read_record(levels, record)[1]
        self.inner._require_keyed(score, keys, y, parts, w, t)

    def _read_record(self, levels: list[Any], record: Sequence[float]) -> tuple[FloatArray, list[float]]:
        """Return the bets of an issued prediction, and what the calibrator remembers; reject anything else."""
        try:
            bets = np.array(record, dtype=np.float64)
            end = self._accounts.record_end(levels, bets)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"record={str(record)[:60]} is not what `issue` keeps for these keys") from None
        return bets[:end], bets[end:].tolist()

    # -- what is guaranteed ----------------------------------------------------------------------------------------

    def certificate(self) -> Certificate:
        """Return the largest evidence against a group, the certified regret and the gain, in nats of the mean weight.

        Late labels count once they are learned. O(groups).
        """
        accounts = self._accounts
        known = [accounts.evidence(j)[1][:, 3:] for j in range(accounts.size)]
        evidence = max(float(np.nanmax(family, initial=0.0)) for family in known)
        return Certificate(evidence, float(accounts.injected - accounts.total), float(accounts.gain))

    def gap(self, field: Field | None = None, level: Level | None = None, bin: int | None = None) -> Group:
        """Return what is known of a group.

        Parameters
        ----------
        field : str, tuple of str or None
            A field of `by`, a pair of its fields with `pairs`, or None for all observations.
        level : text, whole number, or tuple of them
            The level of the field.
        bin : int, optional
            The bin of the calibrator's log-odds, from bin·`bins` to (bin + 1)·`bins`.

        Returns
        -------
        Group
            Gap, variance and evidence are 0 where the group is not held.

        Raises
        ------
        InputError
            For a group that cannot be.
        """
        j, name = self._place(field, level, bin)
        return self._group(j, name, self._evidence_of(j, name))

    def bound(self, field: Field | None, level: Level | None, variance: float, bin: int | None = None) -> float:
        """Return the largest |Σ(y − p)| of a group over its latest labels whose Σp·(1 − p) is `variance`.

        The bound is valid for every number of latest labels at once, also for a group that is not in memory. With the
        most observations of the group that were pending at once, N, it grows as √N.

        Parameters
        ----------
        field, level, bin
            As in `gap`.
        variance : float
            Σp·(1 − p) of these observations, weighted as they were learned.

        Returns
        -------
        float
            The bound, where N is `gap(field, level, bin).pending`.

        Raises
        ------
        InputError
            For a group that cannot be, or a variance below 0.
        """
        spread = float(real_number(variance, "variance", "a number of at least 0", least=0.0))
        return _bound(self._evidence_of(*self._place(field, level, bin)), spread)

    def worst(self, n: int = 10, field: Field | None = None) -> list[Group]:
        """Return the n groups with most evidence against their predictions, that with most first. O(groups).

        Parameters
        ----------
        n : int
            The number of groups at most.
        field : str or tuple of str, optional
            A field as in `gap`: its levels alone, and their bins. By default groups of any kind.

        Examples
        --------
        >>> cal = Multicalibrated("identity", by=["campaign"], bins=0)
        >>> cal.learn_many([0.1] * 2000, ([0, 1] + [0, 0] * 4) * 200, keys={"campaign": ["a", "b"] * 1000})
        >>> first = cal.worst(1)[0]
        >>> first.field, first.level, first.gap > 0.0
        ('campaign', 'a', False)
        """
        whole_number(n, "n", 1)
        groups: list[tuple[float, int, Any, FloatArray]] = []
        for j in range(self._accounts.size) if field is None else self._families(field):
            levels, rows = self._accounts.evidence(j)
            if levels:
                most = np.nanmax(rows[:, 3:], axis=1)
                places = np.argsort(-most, kind="stable")[:n]
                groups += [(-float(most[i]), j, levels[i], rows[i]) for i in places.tolist()]
        return [self._group(j, level, known) for _, j, level, known in sorted(groups, key=lambda entry: entry[:2])[:n]]

    def _evidence_of(self, j: int, name: Any) -> FloatArray:
        """Return M, V and N of a group and the evidence of its accounts, as the kernel knows them."""
        known: FloatArray | None = self._accounts.evidence_of(j, name)
        return np.array([0.0] * (KNOWN - FINE_SIZE) + [math.nan] * FINE_SIZE) if known is None else known

    def _group(self, j: int, name: Any, known: FloatArray) -> Group:
        """Return the group of a family with these numbers."""
        single, pairs = len(self.by), len(self._pairs)
        gap, variance, pending = known[:3].tolist()
        figures = float(np.nanmax(known[3:])), gap, variance, _bound(known, variance), int(pending)
        if j == 0:
            return Group(None, None, None, *figures)
        if j <= single:
            return Group(self.by[j - 1], name, None, *figures)
        if j <= single + pairs:
            return Group(self._pair_names[j - 1 - single], name, None, *figures)
        if j == 1 + single + pairs:
            return Group(None, None, name, *figures)
        return Group(self.by[j - 2 - single - pairs], name[0], name[1], *figures)

    @property
    def _pair_names(self) -> list[tuple[str, str]]:
        return [(str(self.by[a]), str(self.by[b])) for a, b in self._pairs]

    def _place(self, field: Field | None, level: Level | None, bin: int | None) -> tuple[int, Any]:
        """Return the family of a group, and its name there."""
        first_bin = 1 + len(self.by) + len(self._pairs)
        if bin is not None:
            bin = whole_number(bin, "bin", -1440, 1440)
            if not self.bins:
                raise InputError(f"bin={bin!r} is not possible with bins=0; leave it out")
        if field is None:
            if level is not None:
                raise InputError(f"level {level!r} without a field is not possible; give one of {self.by!r}")
            return (0, 0) if bin is None else (first_bin, bin)
        families = self._families(field)
        wanted = tuple(field) if isinstance(field, list) else field
        if bin is not None and len(families) == 1:
            raise InputError(f"bin={bin!r} of the pair {field!r} is not possible; leave it out")
        group = checked_level(wanted, level)
        return (families[0], group) if bin is None else (families[1], (group, bin))

    def _families(self, field: Field) -> list[int]:
        """Return the family of the levels of a field, and that of their bins if there is one."""
        wanted = tuple(field) if isinstance(field, list) else field
        if wanted in self.by:
            i = self.by.index(wanted)
            return [1 + i, 2 + len(self.by) + len(self._pairs) + i] if self.bins else [1 + i]
        if wanted in self._pair_names:
            return [1 + len(self.by) + self._pair_names.index(wanted)]
        known = [*self.by, *self._pair_names]
        nearest = did_you_mean(field, known)
        raise InputError(f"field {field!r} has no groups{nearest}; fields are {', '.join(map(repr, known))}")

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        """Add all that `other` has learned of other observations; it is not changed.

        Raises
        ------
        MergeError
            Unless `other` is another object of the same parameters, and the calibrators can be merged.
        """
        if other is self or not self.same_parameters(other):
            raise MergeError(f"{self!r} cannot merge {other!r}: give another one of the same parameters")
        self.inner.merge(other.inner)
        self._accounts.merge(other._accounts)
        self._weight_scale.merge(other._weight_scale)

    def _compared(self) -> dict[str, Any]:
        return {**super()._compared(), "calibrator": [type(self.inner).__name__, self.inner._compared()]}

    def _fields(self) -> dict[str, StateField]:
        accounts = self._accounts
        signed = number(-RICHEST, RICHEST)
        counters = row(number(0.0, RICHEST), signed, signed, signed)
        large = listed(row(listed(whole()), numbers(None, FINE_WIDTH, least=0.0, most=RICHEST)), length=accounts.size)
        slots = listed(numbers(None, SLOTS, least=0.0, most=RICHEST), length=accounts.size)
        return {
            "inner": StateField(unread, self.inner._written, self._load_inner),
            "evicted": StateField(whole(), lambda: int(accounts.evicted)),
            "weight_scale": part(self._weight_scale, weight_scale_state),
            "counters": StateField(counters, lambda: [float(getattr(accounts, name)) for name in COUNTERS]),
            "families": StateField(listed(unread, length=accounts.size), self._groups),
            "slots": StateField(slots, self._slots, optional=True),
            "large": StateField(large, self._large_groups, optional=True),
        }

    def _groups(self) -> list[list[Any]]:
        """Return the groups of each family and their numbers."""
        return [list(self._accounts.capitals(j)) for j in range(self._accounts.size)]

    def _slots(self) -> list[FloatArray] | None:
        """Return the slots of the groups of each family; None if nothing was ever issued."""
        accounts = self._accounts
        return [accounts.slots(j) for j in range(accounts.size)] if accounts.is_late else None

    def _large_groups(self) -> list[list[Any]] | None:
        """Return the further accounts of the large groups of each family; None if there are none."""
        groups = [list(self._accounts.fine(j)) for j in range(self._accounts.size)]
        return groups if any(places for places, _ in groups) else None

    def _load_inner(self, state: Any) -> None:
        self.inner = loaded_as(self.inner, state)

    def _load(self, *, evicted: int, counters: Sequence[float], families: list[Any], slots: Any, large: Any) -> None:
        accounts, capital = self._accounts, 0.0
        for j, (reader, family) in enumerate(zip(self._readers(), families, strict=True)):
            levels, rows = _family(reader, self.max_levels)(family)
            taken = None if slots is None else slots[j]
            if taken is not None:
                ensure(len(taken) == len(levels), "the slots of groups are not one row for each group")
                _require_slots(taken[:, SIZE:-1])
                ensure((taken[:, -1] <= evicted).all(), "a group was admitted later than now")
                capital += float(taken[:, :SIZE].sum())
            accounts.load(j, levels, rows, taken)
            capital += float(rows[:, :SIZE].sum())
            capital += self._load_large(j, levels, *large[j]) if large else 0.0
        injected, total, gone, gain = counters
        most = ROUNDING * (1.0 + injected + abs(total) + abs(gone))
        ensure(abs(capital + gone - total) <= most, "the capital is not the sum of that of groups")
        most = injected + gain + ROUNDING * (1.0 + injected + abs(gain))
        ensure(total <= most, "there is more capital than possible")
        for name, value in zip(COUNTERS, counters, strict=True):
            setattr(accounts, name, value)
        accounts.evicted = evicted

    def _load_large(self, j: int, levels: list[Any], places: list[int], rows: FloatArray) -> float:
        """Load the further accounts of the large groups of a family; their capital."""
        ensure(len(rows) == len(places) == len(set(places)), "the numbers of large groups are not one row for each")
        ensure(not places or max(places) < len(levels), "a large group is not held")
        _require_slots(rows[:, 2 * FINE_SIZE :])
        self._accounts.load_fine(j, [levels[place] for place in places], np.ascontiguousarray(rows))
        return float(rows[:, : 2 * FINE_SIZE].sum())

    def _readers(self) -> list[Reader]:
        """Return the reader of a group's name in a state, for each family."""
        of_fields = [level_reader(field) for field in self.by]
        readers = [whole(0, 0), *of_fields, *(row(of_fields[a], of_fields[b]) for a, b in self._pairs)]
        bins = whole(-1440, 1440)
        return [*readers, bins, *(row(reader, bins) for reader in of_fields)] if self.bins else readers


def _bound(known: FloatArray, variance: float) -> float:
    """Return the bound of a group by the evidence of its accounts: for either sign the least over the tilts it has."""
    each = (known[3:] + variance * _COST) / _H
    return float(max(np.nanmin(each[side]) for side in _SIDES))


def _require_slots(numbers: FloatArray) -> None:
    """Raise an error unless these are numbers of slots, free and taken, at least one of each group."""
    ensure((numbers == np.floor(numbers)).all(), "a number of slots is not whole")
    ensure((numbers.sum(axis=1) >= 1.0).all(), "a group has no slot")


def _family(reader: Reader, most: int) -> Reader:
    """Return a reader of the groups of a family, and of their numbers."""
    parts = row(listed(reader, most=most), numbers(None, WIDTH, least=-RICHEST, most=RICHEST))

    def read(value: Any) -> tuple[list[Any], FloatArray]:
        levels, rows = parts(value)
        ensure(len(rows) == len(levels) == len(set(levels)), "the numbers of groups are not one row for each group")
        ensure((rows[:, :SIZE] >= 0.0).all() and (rows[:, SIZE + 1] >= 0.0).all(), "capital or variance is below 0")
        return levels, np.ascontiguousarray(rows)

    return read
