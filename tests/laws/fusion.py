"""The room of several scores: the methods of `streamcal.fusion`, covered as those of one score are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from laws import EXACT_TIMES, EXACT_WEIGHTS, TIMED, Case, Observation, one_of_each
from laws.binary import LABELS, MONOTONE_TO, RIDGED, SOLVED, ScoreCase, cases_of, variants
from streamcal import Interval, Logit
from streamcal.fusion import METHODS, BernsteinFusion

#: By how much two may differ that ought to be equal; a method not named here: SOLVED.
TOLERANCES = {"bernstein-fusion": RIDGED, "prequential-fusion": RIDGED}
#: The laws are walked with these, and with every other value a parameter may have (`laws.variants`).
SMALL: dict[str, dict[str, Any]] = {
    "bernstein-fusion": {"degrees": 3},
    "prequential-fusion": {"candidates": (BernsteinFusion(1), BernsteinFusion(3))},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "bernstein-fusion": [{"degrees": (2, 4)}, {"n_scores": 3, "degrees": 2}, {"n_scores": 1}],
}
SCALES = [{"scale": (Logit(), Interval(-1.0, 2.0))}]
EXACT_SCORES = [k / 8 for k in range(9)]
observations = one_of_each(*[EXACT_SCORES] * 3, LABELS, EXACT_WEIGHTS, EXACT_TIMES).map(
    lambda drawn: Observation(drawn[:3], *drawn[3:])
)
#: The scores, and a number of which the bits say which of them are missing; in half of the observations none is.
gappy_observations = st.builds(
    lambda observation, missing: observation._replace(x=(observation.x, missing)),
    observations,
    st.sampled_from([0, 0, 0, 0, 1, 2, 4, 6]),
)
rough_observations = st.builds(
    Observation,
    st.tuples(*[st.floats(0.0, 1.0)] * 3),
    st.sampled_from(LABELS),
    st.floats(0.01, 100.0),
    st.sampled_from(EXACT_TIMES),
)
EDGES = [0.0, 5e-324, 1e-300, 0.5, 1.0 - 2.0**-53, 1.0]
HARD = {
    "one": [Observation((0.3, 0.6), 1)],
    "one class": [Observation((k / 16, 1.0 - k / 16), 0) for k in range(16)],
    "all ties": [Observation((0.3, 0.3), k % 3 == 0) for k in range(12)],
    "edges": [Observation(pair, k % 2) for k, pair in enumerate(itertools.product(EDGES, EDGES))],
    "separated": [Observation((k / 32, k / 40), k > 16) for k in range(32)],
    "reversed": [Observation((k / 32, k / 40), k < 16) for k in range(32)],
    "huge and tiny weights": [Observation((k / 18, 0.5), k % 2, 10.0 ** (15 * (k % 9) - 60)) for k in range(18)],
}
NEVER = [float("nan"), float("inf"), "0.5", None, 1j, [0.5]]
BAD = [
    *((scores, 1, 1.0, 8.0) for scores in ([0.5, 1.5], [-0.25, 0.5], *([0.5, bad] for bad in NEVER))),
    *(([0.5, 0.5], bad, 1.0, 8.0) for bad in (*NEVER, 2, 0.5)),
    *(([0.5, 0.5], 1, bad, 8.0) for bad in (*NEVER, -1.0, 1e61)),
]
BAD_WIDTHS = [[0.5], [0.5] * 3, 0.5, "ab", None, {"a": 0.5}, []]
BAD_TIMES = [([0.5, 0.5], 1, 1.0, bad) for bad in NEVER if bad is not None]


def takes_missing(cal: Any) -> bool:
    return cal.params().get("missing") == "marginal"


def with_gaps(x: tuple[float, ...], gaps: int, width: int) -> tuple[float | None, ...]:
    """Return the first scores without those whose bits in `gaps` are set, unless that leaves none."""
    held = tuple(None if gaps >> place & 1 else one for place, one in enumerate(x[:width]))
    return held if any(one is not None for one in held) else x[:width]


def width_of(cal: Any) -> int:
    return cal.params().get("n_scores", 2)


class FusionCase(ScoreCase):
    """A method of several scores, whose places are points of the cube."""

    divisor: ClassVar[int] = Case.divisor
    longest: ClassVar[int] = Case.longest
    hard: ClassVar[dict[str, list[Observation]]] = HARD

    def variants(self) -> list[dict[str, Any]]:
        scales = SCALES if "scale" in self.make().params() else []
        return variants(self.method) + scales + MORE.get(self.name, [])

    def observations(self, cal: Any, alike: bool) -> st.SearchStrategy[Observation]:
        """Where a method takes missing scores, some are: at most all but one of an observation."""
        if takes_missing(cal) and width_of(cal) > 1:
            return gappy_observations.map(lambda o: o._replace(x=with_gaps(*o.x, width_of(cal))))
        return observations.map(lambda o: o._replace(x=o.x[: width_of(cal)]))

    def rough_streams(self, cal: Any, max_size: int = 6) -> Any:
        rough = rough_observations.map(lambda o: o._replace(x=o.x[: width_of(cal)]))
        return st.lists(rough, max_size=min(max_size, self.longest))

    def good(self, cal: Any) -> list[Observation]:
        rows = [((0.25, 0.5, 0.5), 0, 1.0, 0.0), ((0.75, 0.5, 0.25), 1, 2.0, 4.0), ((0.5, 0.25, 0.0), 1, 1.0, 8.0)]
        return [Observation(x[: width_of(cal)], *rest) for x, *rest in rows]

    def ordered(self, cal: Any, size: int) -> list[Observation]:
        scores = [(k / 16, (5 * k) % 16 / 16, 0.5)[: width_of(cal)] for k in range(size)]
        return [Observation(x, k % 2, 1.0, 4.0 * k) for k, x in enumerate(scores)]

    def hard_stream(self, cal: Any, kind: str) -> list[Observation]:
        return [o._replace(x=(*o.x, 0.5)[: width_of(cal)]) for o in self.hard[kind]]

    def unknown(self, cal: Any) -> list[Observation]:
        first = self.good(cal)[0]
        later = [first._replace(t=100.0)] if self.policy in TIMED else []
        return [first._replace(w=1000.0), first._replace(y=1, w=1000.0), *later]

    def columns(self, cal: Any, stream: list[Observation]) -> tuple[np.ndarray, ...]:
        scores = np.array([o.x for o in stream], dtype=np.float64).reshape(-1, width_of(cal))
        return scores, *(np.array([o[k] for o in stream], dtype=np.float64) for k in (1, 2, 3))

    def learn_many(self, cal: Any, stream: list[Observation], timed: bool = True) -> None:
        cal.learn_many(*self.columns(cal, stream)[: 4 if timed else 3])

    def within(self, cal: Any) -> float:
        return TOLERANCES.get(cal.name, SOLVED)

    def places(self, cal: Any, stream: Any = ()) -> np.ndarray:
        """Return the corners of the cube, and places within it, always the same ones."""
        width = width_of(cal)
        corners = np.array(list(itertools.product([0.0, 1.0], repeat=width)))
        inside = np.random.default_rng(0).random((20, width)), np.full((1, width), 0.125)
        learned = np.array([o.x for o in stream], dtype=np.float64).reshape(-1, width)
        gaps = np.array([[0.5] + [np.nan] * (width - 1), [np.nan] * (width - 1) + [0.25]])
        return np.vstack((corners, *inside, learned, *([gaps] if takes_missing(cal) else [])))

    def assert_possible(self, cal: Any, places: Any, monotone: bool = True) -> None:
        p, *ends = self.by_many(cal, places).T
        assert ((p >= 0.0) & (p <= 1.0)).all()
        if ends:
            assert ((ends[0] >= 0.0) & (ends[0] <= ends[1]) & (ends[1] <= 1.0)).all()
        if cal.monotone and monotone:  # against places above these, by more in the first score than in the others
            steps = np.random.default_rng(1).random(places.shape) * [1.0, *[0.3] * (width_of(cal) - 1)]
            assert (self.by_many(cal, np.minimum(places + steps, 1.0))[:, 0] - p).min() >= -MONOTONE_TO

    def bad_calls(self, cal: Any) -> Iterator[Callable[[], Any]]:
        good = ([0.25, 0.25], 0, 1.0, 8.0)
        absent = [bad for bad in BAD if takes_missing(cal) and bad[0] in ([0.5, None], [0.5, NEVER[0]])]
        for bad in [one for one in BAD if one not in absent] + (BAD_TIMES if self.policy is not None else []):
            yield lambda bad=bad: cal.learn_one(*bad)
            yield lambda bad=bad: cal.learn_many(*map(list, zip(good, bad, good, strict=True)))
            yield lambda bad=bad: cal.predict_learn_many(*map(list, zip(good, bad, good, strict=True)))
            if self.unlearns:
                yield lambda bad=bad: cal.unlearn_one(*bad)
        nothing = [[None, None], [NEVER[0], None]]
        for scores in [bad[0] for bad in BAD[:8] if bad not in absent] + BAD_WIDTHS + nothing:
            yield lambda scores=scores: cal.learn_one(scores, 1, 1.0, 8.0)
            yield lambda scores=scores: cal.predict_one(scores)
            yield lambda scores=scores: cal.predict_many([scores])

    def strangers(self) -> Iterator[Any]:
        return (case.build() for case in CASES)


CASES: list[FusionCase] = cases_of(FusionCase, METHODS, SMALL)
