"""Who races: every method of the registry, and the peers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.streams import peers
from benchmarks.streams.tables import Array, Flags
from streamcal import Calibrator
from streamcal.registry import REGISTRY

#: A prediction of online-cp sorts its whole window; one of protected-classification takes 3 ms.
LONGEST_ONLINE_CP, LONGEST_PROTECTED = 60_000, 6_000


class Entrant(NamedTuple):
    """One that calibrates: `run(scores, y, delay)` gives its prequential probabilities."""

    run: Callable[[Array, Flags, int], Array]
    ours: bool = False
    #: What it cannot run is left out, and it is not ranked.
    longest: int | None = None
    late: bool = True

    def can(self, rows: int, delay: int) -> bool:
        return (self.longest is None or rows <= self.longest) and (self.late or delay == 0)


def _ours(method: type[Calibrator]) -> Callable[[Array, Flags, int], Array]:
    """A method of the registry with its defaults; those that solve for milliseconds refresh at intervals."""
    solves = "refresh_every" in inspect.signature(method).parameters

    def run(scores: Array, y: Flags, delay: int) -> Array:
        return stepwise(method(**{"refresh_every": peers.every(len(y))} if solves else {}), scores, y, delay)

    return run


def stepwise(cal: Calibrator, scores: Array, y: Flags, delay: int) -> Array:
    """Predict each step, then learn the one whose label has come, through the public verbs."""
    predict, learn = cal.predict_one, cal.learn_one
    asked, labels = scores.tolist(), y.tolist()
    known = iter(zip(asked, labels, strict=True))
    predicted = [predict(score) for score in asked[:delay]]
    for score in asked[delay:]:
        predicted.append(predict(score))
        learn(*next(known))
    return np.array(predicted)


ENTRANTS: dict[str, Entrant] = {
    **{name: Entrant(_ours(method), ours=True) for name, method in REGISTRY.items()},
    "scikit-learn isotonic, refitted": Entrant(peers.refitted(peers.isotonic)),
    "scikit-learn sigmoid, refitted": Entrant(peers.refitted(peers.sigmoid)),
    "PyPI venn-abers, refitted": Entrant(peers.refitted(peers.venn_abers)),
    "online-cp, refitted": Entrant(peers.refitted(peers.online_cp), longest=LONGEST_ONLINE_CP),
    "River logistic": Entrant(peers.river),
    "protected-classification": Entrant(peers.protected, longest=LONGEST_PROTECTED, late=False),
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
