"""Pairs of fields beside the chain of a `Segmented`: which there are, their states, and both together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from streamcal.errors import InputError
from streamcal.kernels.segments.joint_effects import CHAIN, DOUBLES, MIXED, PRIOR, WIDTH, JointEffects
from streamcal.kernels.segments.observed_levels import SHARE
from streamcal.kernels.segments.segment_chain import SegmentChain
from streamcal.live.levels import LARGEST_MEAN, LARGEST_SUM, Field, level_reader, require_terms
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, listed, numbers, row, unread, whole

#: The pairs of more fields are refused: an observation takes a step in each pair.
MOST_PAIRED = 16
#: What is remembered of a prediction besides the members of the chain: the log-odds of the chain and the joint effects.
REMEMBERED = 2
#: Sharing keeps weights and shares of terms away from 0 and 1.
LEAST_WEIGHT = SHARE * (1.0 - CHAIN) / (MIXED - 1) * (1.0 - ROUNDING)
LEAST_SHARE = SHARE * PRIOR * (1.0 - ROUNDING)
MOST_SHARE = 1.0 - SHARE * (1.0 - PRIOR) * (1.0 - ROUNDING)


class PairEffect(NamedTuple):
    """A pair of fields in `Segmented.pair_effects`.

    Attributes
    ----------
    fields : (str, str)
        In the order of `by`.
    share : float
        The probability, in (0, 1), that the effects of this pair improve predictions; they are multiplied by it. It is
        0.9 before the first outcome.
    variance : float
        τ², the variance of the levels of the pair, in log-odds squared.
    """

    fields: tuple[str, str]
    share: float
    variance: float


def check_pairs(pairs: Any, store: Any) -> None:
    """Raise `InputError` unless these parameters of `Segmented` are possible."""
    if not isinstance(pairs, bool):
        raise InputError(f"pairs={pairs!r} is not possible; give True or False")
    if pairs and store is not None:
        raise InputError(f"pairs=True with store={store!r}: a file holds no levels of pairs; give one of the two")


def pairs_of(by: Sequence[Field]) -> list[tuple[int, int]]:
    """Return the places of all pairs of single fields, except pairs that are fields themselves.

    Raise `InputError` if there is no pair, or there are more than 16 single fields.

    Examples
    --------
    >>> pairs_of(("a", "b", "c", ("b", "a")))
    [(0, 2), (1, 2)]
    """
    single = [j for j, field in enumerate(by) if isinstance(field, str)]
    combined = {frozenset(field) for field in by if isinstance(field, tuple)}
    pairs = [(a, b) for a, b in combinations(single, 2) if frozenset((by[a], by[b])) not in combined]
    if not pairs or len(single) > MOST_PAIRED:
        raise InputError(
            f"pairs=True is not possible with by={list(by)!r}: give 2 to {MOST_PAIRED} fields that are no tuples, of "
            "which some pair is not in `by` itself, or leave `pairs` out"
        )
    return pairs


class PairedChain:
    """A chain of fields, and joint effects of fields, pairs and score beside it, mixed by their losses.

    It has the methods of `SegmentChain`.

    Notes
    -----
    **The joint model.** One logistic regression on the log-odds z of the calibrator has an offset and a slope for each
    level of a field, an offset for each level of each pair, and one for the score, in 33 bins of log-odds of width 1.
    Each of these terms has its own variance of levels, by empirical Bayes, and a share s. The prediction is z + Σ
    s·(what the term adds). s is the probability of "with the term" against "without it", by the predictions of both,
    under fixed share 10⁻⁵ with the prior 0.9. `kernels/segments/joint_effects.py` has the formulas.

    **The mixture.** The probability predicted is Σ Wₐ·pₐ of the chain (prior ½), of the joint model (¼), and of the
    mean of the log-odds of both (¼), under fixed share 10⁻⁵. By the theorem of fixed share (Herbster and Warmuth 1998),
    for labels in order and without delay, and relative weights up to 1, whatever the n labels are, the log loss is at
    most that of the chain plus ln 2 + n·share/2, and that of the joint model, or of the mean, plus ln 4 + n·share·¾
    (the last terms to first order in the share). With the bound of the chain: (J + 2)·(ln 2 + n·share/2) more than the
    calibrator.

    Until the label of a prediction arrives, the members' predictions in the chain are remembered, then the log-odds of
    the chain and of the joint model. W is judged by these at the learning rate of the chain, 1/D, shares by the terms'
    predictions when the label arrives, at that rate. `unlearn` subtracts from the sums of each level what
    the observation adds at the present means: an approximation, of second order in the distance of the means. W and
    shares keep what they learned.

    O(J + K) for J fields and K pairs. The prior variance .02, shares and weights were chosen on streams of
    `docs/segments_measured.md`.
    """

    def __init__(self, chain: SegmentChain, by: Sequence[Field], max_levels: int) -> None:
        self.chain = chain
        self._by = by
        self._pairs = pairs_of(by)
        self.effects = JointEffects(len(by), self._pairs, max_levels)

    @property
    def evicted(self) -> int:
        """The number of levels that made room."""
        return int(self.chain.evicted + self.effects.evicted)

    def predict(self, p: float, score: float, levels: list[Any]) -> float:
        return self.effects.predict(p, self.chain.predict(p, score, levels), levels)

    def parts(self, p: float, score: float, levels: list[Any]) -> tuple[float, list[float]]:
        """Return the probability, the log-odds of the chain's members, and those of the two models that are mixed."""
        chain, members = self.chain.parts(p, score, levels)
        probability, both = self.effects.parts(p, chain, levels)
        return probability, [*members, *both]

    def predict_many(
        self, p: FloatArray, scores: FloatArray, columns: list[list[Any]], probabilities: FloatArray
    ) -> None:
        self.chain.predict_many(p, scores, columns, probabilities)
        self.effects.predict_many(p, columns, probabilities)

    def learn(self, p: float, score: float, levels: list[Any], y: float, w: float) -> None:
        chain = self.chain.predict(p, score, levels)
        self.chain.learn(p, score, levels, y, w)
        self.effects.learn(p, chain, levels, y, w)

    def learn_issued(
        self,
        p: float,
        score: float,
        levels: list[Any],
        record: FloatArray,
        begin: int,
        y: float,
        w: float,
        rate: float,
    ) -> None:
        self.chain.learn_issued(p, score, levels, record, begin, y, w, rate)
        self.effects.learn_issued(p, levels, record[-REMEMBERED:].tolist(), y, w, rate)

    def stream(
        self,
        p: FloatArray,
        scores: FloatArray,
        columns: list[list[Any]],
        y: FloatArray,
        w: FloatArray,
        predictions: FloatArray,
    ) -> None:
        chain = np.empty(len(p))
        self.chain.stream(p, scores, columns, y, w, chain)
        self.effects.stream(p, chain, columns, y, w, predictions)

    def unlearn(self, p: float, score: float, levels: list[Any], y: float, w: float) -> None:
        self.chain.unlearn(p, score, levels, y, w)
        self.effects.unlearn(p, levels, y, w)

    def pair_effects(self) -> list[PairEffect]:
        """Return the pairs, sorted by share times variance, largest first."""
        of_pairs = []
        for place, (a, b) in enumerate(self._pairs, len(self._by)):
            names = (str(self._by[a]), str(self._by[b]))
            of_pairs.append(PairEffect(names, self.effects.shares(place)[0], self.effects.variance(place)))
        return sorted(of_pairs, key=lambda pair: -pair.share * pair.variance)

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, other: PairedChain) -> None:
        self.chain.merge(other.chain)
        self.effects.merge(other.effects)

    def state(self) -> dict[str, Any]:
        """Return the state of the joint effects; the chain's state is kept apart."""
        weights, places = self.effects.state()
        lists = [
            [*place[:2], [list(level) if isinstance(level, tuple) else level for level in place[2]], place[3]]
            for place in places
        ]
        return {"weights": weights, "evicted": int(self.effects.evicted), "places": lists}

    def load(self, state: Any, max_levels: int) -> None:
        """Load an earlier `state`; `StateError` for what is none."""
        ensure(isinstance(state, dict) and set(state) == {"weights", "evicted", "places"}, "pairs are not possible")
        weights = numbers(MIXED, least=LEAST_WEIGHT, most=1.0 + ROUNDING)(state["weights"])
        ensure(abs(weights.sum() - 1.0) <= ROUNDING, "the weights of chain and pairs do not sum to 1")
        readers: list[Reader] = [level_reader(field) for field in self._by]
        readers += [row(readers[a], readers[b]) for a, b in self._pairs]
        readers.append(whole(-16, 16))
        places = listed(unread, length=len(readers))(state["places"])
        read = [
            _place(reader, max_levels, j < len(self._by), place)
            for j, (reader, place) in enumerate(zip(readers, places, strict=True))
        ]
        self.effects.load(weights, read)
        self.effects.evicted = whole()(state["evicted"])


def _place(reader: Reader, most: int, slopes: bool, value: Any) -> tuple[Any, ...]:
    """Read shares, sums, levels and their numbers at one place, from a state."""
    shares, sums, levels, rows = row(
        numbers(2, least=LEAST_SHARE, most=MOST_SHARE),
        numbers(2, least=0.0),
        listed(reader, most=most),
        numbers(None, WIDTH, least=-HEAVIEST, most=HEAVIEST),
    )(value)
    levels = [tuple(level) if isinstance(level, list) else level for level in levels]
    ensure(len(rows) == len(levels) == len(set(levels)), "the numbers of levels are not one row for each level")
    h, e, terms = rows[:, 1:DOUBLES:2], rows[:, 2:DOUBLES:2], rows[:, DOUBLES:]
    ensure((rows[:, 0] > 0.0).all() and (terms[:, : 1 + slopes] > 0.0).all(), "a level has no weight or no variance")
    ensure(slopes or not rows[:, [3, 4, 6]].any(), "a pair has slopes")
    ensure((terms == terms.astype(np.float32)).all(), "a variance is not in single precision")
    ensure(((h >= 0.0) & (h <= LARGEST_SUM)).all(), "a sum of curvatures is not possible")
    ensure((np.abs(e) <= LARGEST_MEAN * (h + 1.0)).all(), "the mean of a level is not possible")
    require_terms(terms, sums, 0)
    return shares, sums, levels, rows
