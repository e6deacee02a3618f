"""The entrants: every method of the registry, and comparable methods of other packages (peers)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.streams import peers
from benchmarks.streams.catalogue import DELAYS
from benchmarks.streams.tables import Array, Flags
from streamcal import Auto, Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.stream.columns import Observations
from streamcal.stream.entrants import one_by_one

#: Our methods that solve for milliseconds go in blocks: half of what was seen before, but at least 50 steps, and
#: at most a fiftieth of the stream, or 100.
SHORTEST, LONGEST_PART, LEAST_LONGEST = 50, 50, 100
#: For peers that take half a millisecond (online-cp) or three (protected-classification) for each prediction.
LONGEST = 6_000
#: `Auto` with its default delay, 0, where labels are late; the delays at which that differs from `auto`.
NOT_TOLD = "auto, not told"
LATE = tuple(delay for delay in DELAYS if delay)


class Entrant(NamedTuple):
    """One that calibrates: `run(scores, y, delay)` gives its prequential probabilities."""

    run: Callable[[Array, Flags, int], Array]
    ours: bool = False
    #: What it cannot run is left out, and it is not ranked.
    longest: int | None = None
    delays: tuple[int, ...] = DELAYS

    def can(self, rows: int, delay: int) -> bool:
        return (self.longest is None or rows <= self.longest) and delay in self.delays


def _ours(method: type[Calibrator]) -> Callable[[Array, Flags, int], Array]:
    """A method of the registry with its defaults; those that solve for milliseconds predict blocks with one map.

    A method that can be told how late its labels are is told.
    """
    parameters = inspect.signature(method).parameters
    run = blockwise if "refresh_every" in parameters else stepwise
    return lambda scores, y, delay: run(method(**({"delay": delay} if "delay" in parameters else {})), scores, y, delay)


def blockwise(cal: Calibrator, scores: Array, y: Flags, delay: int) -> Array:
    """Predict a block, then learn the labels available by its end: one solve for each block, after a first block of
    scores."""
    predicted, end, learned = np.empty(len(y)), 0, 0
    longest = max(LEAST_LONGEST, len(y) // LONGEST_PART)
    while end < len(y):
        start, end = end, end + min(max(SHORTEST, end // 2), longest)
        predicted[start:end] = cal.predict_many(scores[start:end])
        known = slice(learned, max(learned, min(end, len(y)) - delay))
        cal.learn_many(scores[known], y[known])
        learned = known.stop
    return predicted


def stepwise(cal: Calibrator, scores: Array, y: Flags, delay: int) -> Array:
    """Predict each step, then learn the observation whose label has arrived: the loop of `streamcal.compare`."""
    return one_by_one(cal, Observations(scores, y, None, None), delay)


ENTRANTS: dict[str, Entrant] = {
    **{name: Entrant(_ours(method), ours=True) for name, method in REGISTRY.items()},
    NOT_TOLD: Entrant(lambda *given: stepwise(Auto(), *given), ours=True, delays=LATE),
    "scikit-learn isotonic, refitted": Entrant(peers.refitted(peers.isotonic)),
    "scikit-learn sigmoid, refitted": Entrant(peers.refitted(peers.sigmoid)),
    "PyPI venn-abers, refitted": Entrant(peers.refitted(peers.venn_abers)),
    "online-cp, refitted": Entrant(peers.refitted(peers.online_cp), longest=LONGEST),
    "River logistic": Entrant(peers.river),
    "protected-classification": Entrant(peers.protected, longest=LONGEST, delays=(0,)),
    "score-blind": Entrant(peers.score_blind),
}
#: Entrant → the module it needs, of the extra `bench`.
NEEDS = {
    "PyPI venn-abers, refitted": "venn_abers",
    "online-cp, refitted": "online_cp",
    "protected-classification": "protected_classification",
}


def entrants() -> dict[str, Entrant]:
    """Those that are installed."""
    return {name: one for name, one in ENTRANTS.items() if name not in NEEDS or peers.installed(NEEDS[name])}
