"""The entrants: every method of the registry, and comparable methods of other packages (peers)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.streams import peers
from benchmarks.streams.catalogue import CATALOGUE, Stream
from benchmarks.streams.tables import Array, Flags
from streamcal import Auto, Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.live import Shadow
from streamcal.live.shadow import ShadowForecast
from streamcal.stream.columns import Observations
from streamcal.stream.entrants import one_by_one

#: Our methods that solve for milliseconds go in blocks: half of what was seen before, but at least 50 steps, and
#: at most a fiftieth of the stream, or 100.
SHORTEST, LONGEST_PART, LEAST_LONGEST = 50, 50, 100
#: For peers that take half a millisecond (online-cp) or three (protected-classification) for each prediction.
LONGEST = 6_000
#: `Auto` with its default delay, 0, where labels are late: judged by what it says when they come, and by what it said.
NOT_TOLD = "auto, not told"
AS_ISSUED = "auto, as issued"
#: The delays at which these differ from `auto`.
LATE = tuple(sorted({delay for entry in CATALOGUE.values() for delay in entry.delays if delay}))


class Entrant(NamedTuple):
    """One that calibrates: `run(scores, y, delay)` gives its prequential probabilities."""

    run: Callable[[Array, Flags, int], Array]
    ours: bool = False
    #: What it cannot run is left out, and it is not ranked.
    longest: int | None = None
    delays: tuple[int, ...] | None = None
    #: What makes the calibrator for a delay, of those that learn step by step: they can be given times, and labels of
    #: random lateness.
    made: Callable[[int], Calibrator] | None = None
    #: Whether it keeps what it said until the label comes.
    issues: bool = False

    def can(self, rows: int, delay: int) -> bool:
        return (self.longest is None or rows <= self.longest) and (self.delays is None or delay in self.delays)

    def predicted(self, data: Stream, delay: int) -> Array | None:
        """The probabilities on a stream; None where the entrant cannot run."""
        if not self.can(len(data.y), delay):
            return None
        if self.made is not None and not (data.t is None and data.lateness is None):
            run = as_issued if self.issues else stepwise
            return run(self.made(delay), data.scores, data.y, delay, data.t, data.lateness)
        return self.run(data.scores, data.y, delay) if data.lateness is None else None


def _ours(method: type[Calibrator]) -> Entrant:
    """A method of the registry with its defaults; those that solve for milliseconds predict blocks with one map.

    A method that can be told how late its labels are is told.
    """
    parameters = inspect.signature(method).parameters

    def made(delay: int) -> Calibrator:
        return method(**({"delay": delay} if "delay" in parameters else {}))

    if "refresh_every" in parameters:
        return Entrant(lambda scores, y, delay: blockwise(made(delay), scores, y, delay), ours=True)
    return Entrant(lambda scores, y, delay: stepwise(made(delay), scores, y, delay), ours=True, made=made)


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


def stepwise(
    cal: Calibrator, scores: Array, y: Flags, delay: int, t: Array | None = None, lateness: Array | None = None
) -> Array:
    """Predict each step, then learn the observations whose labels have arrived: the loop of `streamcal.compare`.

    Each label is `delay` steps late, or as many as `lateness` says.
    """
    if lateness is None:
        return one_by_one(cal, Observations(scores, y, None, t), delay)
    rows = list(zip(scores.tolist(), y.tolist(), [1.0] * len(y), _times(len(y), t), strict=True))
    predicted = []
    for (score, _, _, time), known in zip(rows, _arrivals(np.arange(len(y)) + lateness), strict=True):
        predicted.append(cal.predict_one(score, time))
        for place in known:
            cal.learn_one(*rows[place])
    return np.array(predicted)


def as_issued(
    cal: Calibrator, scores: Array, y: Flags, delay: int, t: Array | None = None, lateness: Array | None = None
) -> Array:
    """`stepwise`, with each forecast judged as it was issued, which is what `LabelJoin` does: by a `Shadow`."""
    shadow, times, labels = Shadow(cal), _times(len(y), t), y.tolist()
    predicted: list[float] = []
    waiting: dict[int, ShadowForecast] = {}
    arrives = np.arange(len(y)) + (delay if lateness is None else lateness)
    for step, (score, known) in enumerate(zip(scores.tolist(), _arrivals(arrives), strict=True)):
        waiting[step] = shadow.issue_one(score, times[step])
        predicted.append(waiting[step].p)
        for place in known:
            shadow.learn_issued(waiting.pop(place), labels[place], t=times[place])
    return np.array(predicted)


def _times(size: int, t: Array | None) -> list[float] | list[None]:
    return [None] * size if t is None else t.tolist()


def _arrivals(arrives: Array) -> Iterator[list[int]]:
    """For each step the rows whose labels arrive after it, given the step of each."""
    order = np.argsort(arrives, kind="stable").tolist()
    until = np.searchsorted(arrives[order], np.arange(len(arrives)), side="right").tolist()
    for first, last in zip([0, *until], until, strict=False):
        yield order[first:last]


ENTRANTS: dict[str, Entrant] = {
    **{name: _ours(method) for name, method in REGISTRY.items()},
    NOT_TOLD: Entrant(lambda *given: stepwise(Auto(), *given), ours=True, delays=LATE, made=lambda delay: Auto()),
    AS_ISSUED: Entrant(
        lambda *given: as_issued(Auto(), *given), ours=True, delays=LATE, made=lambda delay: Auto(), issues=True
    ),
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
