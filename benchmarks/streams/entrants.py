"""The entrants: methods that are the first choice for a stream, and comparable methods of other packages (peers)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.streams import peers
from benchmarks.streams.catalogue import Stream
from benchmarks.streams.tables import Array, Flags
from streamcal import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.stream.columns import Observations
from streamcal.stream.entrants import one_by_one

#: Our methods that solve for milliseconds go in blocks: half of what was seen before, but at least 50 steps, and
#: at most a fiftieth of the stream, or 100.
SHORTEST, LONGEST_PART, LEAST_LONGEST = 50, 50, 100
#: Our methods that race: those that take microseconds, and whose results `docs/which.md` compares.
RACING = (
    *("auto", "identity", "online-platt", "tracking-ops", "online-beta", "protected"),
    *("platt", "beta", "venn-abers", "cross-venn-abers", "isotonic", "centered-isotonic", "bernstein"),
)


class Entrant(NamedTuple):
    """One that calibrates: `run(scores, y, delay)` gives its prequential probabilities."""

    run: Callable[[Array, Flags, int], Array]
    ours: bool = False
    #: What makes the calibrator, of those that learn step by step: they can be given times, and labels of random
    #: lateness.
    made: Callable[[], Calibrator] | None = None

    def predicted(self, data: Stream, delay: int) -> Array | None:
        """Return the probabilities on a stream; None if the entrant cannot run."""
        if self.made is not None and not (data.t is None and data.lateness is None):
            return stepwise(self.made(), data.scores, data.y, delay, data.t, data.lateness)
        return self.run(data.scores, data.y, delay) if data.lateness is None else None


def _ours(method: type[Calibrator]) -> Entrant:
    """Return a method of the registry with its defaults; one that can refresh its map rarely predicts in blocks."""
    if "refresh_every" in inspect.signature(method).parameters:
        return Entrant(lambda scores, y, delay: blockwise(method(), scores, y, delay), ours=True)
    return Entrant(lambda scores, y, delay: stepwise(method(), scores, y, delay), ours=True, made=method)


def blockwise(cal: Calibrator, scores: Array, y: Flags, delay: int) -> Array:
    """Predict a block, then learn the labels available by its end.

    Each block needs one solve. The first block is predicted by the scores.
    """
    predicted, end, learned = np.empty(len(y)), 0, 0
    longest = max(LEAST_LONGEST, len(y) // LONGEST_PART)
    while end < len(y):
        start, end = end, end + min(max(SHORTEST, end // 2), longest)
        predicted[start:end] = cal.predict_many(scores[start:end])
        known = slice(learned, max(learned, min(end, len(y)) - delay))
        cal.learn_many(scores[known], y[known])
        learned = known.stop
    return predicted


def stepwise(
    cal: Calibrator, scores: Array, y: Flags, delay: int, t: Array | None = None, lateness: Array | None = None
) -> Array:
    """Issue each step, then settle the observations whose labels have arrived: the loop of `streamcal.compare`.

    Each label is `delay` steps late, or as many as `lateness` says.
    """
    if lateness is None:
        return one_by_one(cal, Observations(scores, y, None, t), delay)
    issued, labels = [], y.tolist()
    rows = zip(scores.tolist(), _times(len(y), t), _arrivals(np.arange(len(y)) + lateness), strict=True)
    for score, time, known in rows:
        issued.append(cal.issue(score, time))
        for place in known:
            cal.settle(issued[place], labels[place])
    return np.array([one.p for one in issued])


def _times(size: int, t: Array | None) -> list[float] | list[None]:
    return [None] * size if t is None else t.tolist()


def _arrivals(arrives: Array) -> Iterator[list[int]]:
    """Yield for each step the rows whose labels arrive after it, given the step of each."""
    order = np.argsort(arrives, kind="stable").tolist()
    until = np.searchsorted(arrives[order], np.arange(len(arrives)), side="right").tolist()
    for first, last in zip([0, *until], until, strict=False):
        yield order[first:last]


ENTRANTS: dict[str, Entrant] = {
    **{name: _ours(REGISTRY[name]) for name in RACING},
    "scikit-learn isotonic, refitted": Entrant(peers.refitted(peers.isotonic)),
    "scikit-learn sigmoid, refitted": Entrant(peers.refitted(peers.sigmoid)),
    "PyPI venn-abers, refitted": Entrant(peers.refitted(peers.venn_abers)),
    "River logistic": Entrant(peers.river),
    "score-blind": Entrant(peers.score_blind),
}
#: Entrant → the module it needs, of the extra `bench`.
NEEDS = {"PyPI venn-abers, refitted": "venn_abers"}


def entrants() -> dict[str, Entrant]:
    """Those that are installed."""
    return {name: one for name, one in ENTRANTS.items() if name not in NEEDS or peers.installed(NEEDS[name])}
