"""The room of one score: the methods of the registry, in variants read off the signatures of their constructors.

A new method is covered without a line of test code.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from laws import (
    EXACT_TIMES,
    EXACT_WEIGHTS,
    HALF_LIFE,
    LONGEST,
    POLICIES,
    ROUNDED,
    Case,
    Observation,
    changed,
    one_of_each,
    read_only,
    under_policies,
)
from streamcal import (
    REGISTRY,
    Calibrator,
    CrossVennAbers,
    EmpiricalCDF,
    FixedWidth,
    Forever,
    InputError,
    Interval,
    Logit,
    NearestScores,
    Prior,
    ScoreIntervals,
)
from streamcal.states import signed

# -- tolerances ----------------------------------------------------------------------------------------------------

#: Methods that are a closed formula of their sums. Streams of integer weights, with times in whole half-lives, make
#: those sums exact, and then nothing may differ at all. A method not named here is compared within SOLVED.
EXACT_METHODS = frozenset(
    {
        "identity",
        "gaussian",
        "histogram-binning",
        "bbq",
        "adaptive-calibration",
        "isotonic",
        "centered-isotonic",
        "smooth-isotonic",
        "venn-abers",
    }
)
#: Methods whose map depends on which probability a score reads as, and not on the coordinate alone.
READ_AS_PROBABILITIES = frozenset({"bbq"})
#: An iterative solve stops at a gradient of 1e-12 of the weight, and starts where the last one ended.
SOLVED = 1e-9
#: Between the scores of few observations the Bernstein coefficients are fixed by a ridge of 1e-10 alone, which
#: magnifies the rounding of the sums (1e-16 each) up to 1e-6, and that of retractions by a few times as much.
RIDGED = 2e-5
#: Where few distinct scores leave the parameters of `Beta` to its ridge of 1e-9, that magnifies the rounding of the
#: gradient (1e-16) up to 1e-7.
LEFT_OPEN = 1e-6
#: "Fitted values are then right to 1e-4 at every observed score" (`streamcal.solvers.osqp.TOLERANCE`).
OSQP_SOLVED = 1e-4
#: Sums that differ by rounding make the same program, but where they lie at a step of its rounding
#: (`streamcal.solvers.conic.STEP`), or a retraction has left more behind. Then an interior point ends elsewhere, and
#: between few observations the curve is settled to that only: 2.5e-3 seen at degree 16, 6e-4 at 6.
CONIC_SOLVED = 5e-3
#: By how much rounding may let a monotone map fall: a few units in the last place for the mean of each pool.
MONOTONE_TO = 1e-13
#: Where weights are many orders of magnitude apart; `CrossVennAbers` states 1e-7.
MERGED_TO = 1e-8


def tolerance(cal: Calibrator) -> float:
    """By how much two calibrators with these parameters may differ that ought to be equal."""
    if cal.name in ("bernstein", "bernstein-logistic"):
        return RIDGED
    if cal.name == "beta":
        return LEFT_OPEN
    if cal.name == "monotone-polynomial":
        return CONIC_SOLVED
    if cal.name == "cross-venn-abers":
        return ROUNDED  # geometric means: the powers of floats and of arrays may differ in their last place
    if cal.name not in EXACT_METHODS:
        return SOLVED
    return 0.0 if getattr(cal, "prior", None) is None else ROUNDED


def magnifies(cal: Calibrator) -> bool:
    """Whether weights of 1e60 beside a test object of weight 1 leave noise: a geometric mean of 1 − p₀, p₀ rounded."""
    return cal.name == "cross-venn-abers" and cal.params()["point"] == "log-minimax"


# -- variants ------------------------------------------------------------------------------------------------------

#: What parameters of these names are tried with, beside their defaults; of a `Literal`, every value is.
VALUES: dict[str, tuple[Any, ...]] = {
    "scale": (Logit(), Interval(-1.0, 2.0), EmpiricalCDF.from_scores([0.0, 0.1, 0.3, 0.3, 0.5, 0.9, 1.0])),
    "prior": (Prior(20.0),),
    "resolution": (None, 64),
    "degree": (3,),
    "bins": (2,),
    "folds": (2,),
    "breadth": (2.0,),
    "interval": (NearestScores(0.5), FixedWidth(0.125), ScoreIntervals((0.0, 1.0), (-0.25, 0.875), (0.125, 1.25))),
    "discount": (1.0, 0.875),
    "seed": (7,),
    "jump_rates": ((0.25,), (0.5, 1e-100)),
    "passive": (0.125,),
    "bound": (2.0,),
    "penalty": (0.01,),
    "delay": (0, 3),
}
#: A semidefinite program of the default degree takes 4 ms, one of this degree ½ ms: the laws are walked with it.
SMALL: dict[str, dict[str, Any]] = {"monotone-polynomial": {"degree": 6}}

#: Values that other methods refuse for a parameter of the same name.
MORE: dict[str, list[dict[str, Any]]] = {"histogram-binning": [{"bins": None}]}


def variants(method: type[Calibrator]) -> list[dict[str, Any]]:
    """Parameters, the policy apart: the defaults, and every other value of each parameter alone."""
    hints = typing.get_type_hints(method.__init__)
    found: list[dict[str, Any]] = [{}]
    for name, parameter in inspect.signature(method).parameters.items():
        found += [{name: parameter.default}] if name in SMALL.get(method.name, {}) else []
        literal = typing.get_origin(hints.get(name)) is typing.Literal
        values = typing.get_args(hints[name]) if literal else VALUES.get(name, ())
        found += [{name: value} for value in values if value != parameter.default]
    return found + MORE.get(method.name, [])


def is_sequential(method: type[Any]) -> bool:
    return "forgetting" not in inspect.signature(method).parameters


def keeps_scores(cal: Any) -> bool:
    """Whether its statistic keeps the scores: it can be on a grid. Others keep sums, which know less."""
    return "resolution" in cal.params()


# -- observations --------------------------------------------------------------------------------------------------

#: Where predictions are compared: learned scores, places between them, and the ends.
PROBES = np.array([-0.0, 0.0, 5e-324, 1e-9, *(np.arange(1, 64) / 64), 1.0 - 1e-9, 1.0])

EXACT_SCORES = [*(k / 16 for k in range(17)), -0.0]
LABELS = [0, 1]
observations = one_of_each(EXACT_SCORES, LABELS, EXACT_WEIGHTS, EXACT_TIMES).map(lambda drawn: Observation(*drawn))
rough_observations = st.builds(
    Observation, st.floats(0.0, 1.0), st.sampled_from(LABELS), st.floats(0.01, 100.0), st.floats(0.0, 10 * HALF_LIFE)
)
GOOD = [Observation(0.25, 0, 1.0, 0.0), Observation(0.75, 1, 2.0, 4.0), Observation(0.5, 1, 1.0, 8.0)]
EDGES = [0.0, -0.0, 5e-324, 1e-323, 2.2e-308, 1e-300, 1e-16, 1.0 - 2.0**-53, 1.0]
HARD = {
    "one positive": [Observation(0.3, 1)],
    "one negative": [Observation(0.3, 0)],
    "positives only": [Observation(k / 16, 1) for k in range(16)],
    "negatives only": [Observation(k / 16, 0) for k in range(16)],
    "all ties": [Observation(0.3, k % 3 == 0) for k in range(20)],
    "edges": [Observation(score, y) for score in EDGES for y in (0, 1)],
    "edges, falling": [Observation(score, k % 2) for k, score in enumerate(reversed(EDGES))],
    "neighbouring floats": [Observation(0.5 + k * 2.0**-53, k % 2) for k in range(8)],
    "separated": [Observation(k / 64, k > 32) for k in range(64)],
    "reversed": [Observation(k / 64, k < 32) for k in range(64)],
    "fractional weights": [Observation(k / 16, k % 2, 1.0 / (k + 3)) for k in range(16)],
    "huge weights": [Observation(k / 16, k % 2, 1e60) for k in range(16)],
    "tiny weights": [Observation(k / 16, k % 2, 1e-60) for k in range(16)],
    "huge and tiny weights": [Observation(k / 32, k % 2, 10.0 ** (15 * (k % 9) - 60)) for k in range(18)],
    "weights 1e5 apart": [Observation(0.98, 1, 102.479), Observation(0.36, 0, 0.001)],
}


def realistic(seed: int, size: int, a: float, b: float, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores from Beta(a, b) whose log-odds are `temperature` times those of the truth, and outcomes."""
    rng = np.random.default_rng(seed)
    truth = np.clip(rng.beta(a, b, size), 1e-12, 1.0 - 1e-12)
    scores = 1.0 / (1.0 + np.exp(-temperature * np.log(truth / (1.0 - truth))))
    return scores, (rng.random(size) < truth).astype(np.int64)


def columns(stream: list[Observation]) -> tuple[np.ndarray, ...]:
    """Return the arguments of `learn_many`."""
    return tuple(np.array(stream, dtype=np.float64).reshape(-1, 4).T.copy())


def solved_exactly(cal: Any) -> Any:
    """Return the calibrator; for OSQP, which leaves the map between scores open, the exact solver on its sums."""
    if cal.params().get("solver") != "osqp":
        return cal
    state = cal.state_dict()
    return type(cal).from_state(signed({**state, "params": {**state["params"], "solver": "active-set"}}))


def assert_monotone(p: Any, within: float = MONOTONE_TO) -> None:
    assert np.diff(p).min(initial=0.0) >= -within, f"falls by {-np.diff(p).min()}"


# -- cases ---------------------------------------------------------------------------------------------------------


class WithFolds(CrossVennAbers):
    """Every observation with a fold that is a function of its score.

    Under decay, the folds of what has none depend on times and numbers, which a fresh fit of what is held cannot know.
    """

    def learn_one(
        self, score: Any, y: Any, w: float = 1.0, t: Any = None, keys: Any = None, *, fold: Any = None
    ) -> None:
        super().learn_one(score, y, w, t, keys, fold=self._fold(score) if fold is None else fold)

    def learn_many(
        self, scores: Any, y: Any, w: Any = None, t: Any = None, *, keys: Any = None, fold: Any = None
    ) -> None:
        try:
            folds = [self._fold(score) for score in scores] if fold is None else fold
        except (TypeError, ValueError, OverflowError, InputError):
            folds = None  # the class itself says what is wrong with the scores
        super().learn_many(scores, y, w, t, keys=keys, fold=folds)

    def unlearn_one(
        self, score: Any, y: Any, w: float = 1.0, t: Any = None, *, keys: Any = None, fold: Any = None
    ) -> None:
        super().unlearn_one(score, y, w, t, keys=keys, fold=self._fold(score) if fold is None else fold)

    def _fold(self, score: Any) -> int | None:
        try:
            return self._engine.memory.statistic.fold_of(self.scale.coordinate(float(score)))
        except (TypeError, ValueError, OverflowError, InputError):
            return None


@dataclass(frozen=True)
class ScoreCase(Case):
    """A method of one score."""

    method: type[Any] = Calibrator
    divisor: ClassVar[int] = 2
    longest: ClassVar[int] = LONGEST
    hard: ClassVar[dict[str, list[Observation]]] = HARD

    def make(self, **params: Any) -> Any:
        policy = {} if self.policy is None else {"forgetting": POLICIES[self.policy]}
        decays = self.name == "cross-venn-abers" and self.policy in ("decay", "time-decay")
        method = WithFolds if decays else self.method
        return method(**{**SMALL.get(self.name, {}), **policy, **params})

    def variants(self) -> list[dict[str, Any]]:
        """Without a prior under decay by time, which refuses it."""
        return [params for params in variants(self.method) if self.policy != "time-decay" or "prior" not in params]

    def settled(self, cal: Any) -> Any:
        return solved_exactly(cal)

    def observations(self, cal: Any, alike: bool) -> st.SearchStrategy[Observation]:
        return observations

    def rough_streams(self, cal: Any, max_size: int = 6) -> Any:
        return st.lists(rough_observations, max_size=max_size)

    def good(self, cal: Any) -> list[Observation]:
        return GOOD

    def ordered(self, cal: Any, size: int) -> list[Observation]:
        return [Observation(k / 16, k % 2, 1.0, 4.0 * k) for k in range(size)]

    def keeps_monotone(self, cal: Any, kind: str) -> bool:
        return not ("huge" in kind and magnifies(cal))

    def learn_many(self, cal: Any, stream: list[Observation], timed: bool = True) -> None:
        cal.learn_many(*columns(stream)[: 4 if timed else 3])

    def streamed(self, cal: Any, stream: list[Observation], verb: str) -> np.ndarray:
        found = getattr(cal, verb)(*map(read_only, self.columns(cal, stream)))
        return np.transpose(found) if "interval" in verb else found[:, None]

    def columns(self, cal: Any, stream: list[Observation]) -> tuple[np.ndarray, ...]:
        """Return the arguments of `learn_many`."""
        return columns(stream)

    def within(self, cal: Any) -> float:
        return tolerance(cal)

    def places(self, cal: Any, stream: Any = ()) -> np.ndarray:
        return np.concatenate((PROBES, [o.x for o in stream]))

    def by_many(self, cal: Any, places: Any, t: float | None = None) -> np.ndarray:
        found = [cal.predict_many(places, t)]
        return np.transpose([*found, *(cal.predict_interval_many(places, t=t) if cal.has_interval else ())])

    def by_one(self, cal: Any, places: Any) -> np.ndarray:
        assert isinstance(cal.predict_one(places.tolist()[0]), float)
        ends = [cal.predict_interval_one(score) if cal.has_interval else () for score in places.tolist()]
        return np.array([(cal.predict_one(score), *pair) for score, pair in zip(places.tolist(), ends, strict=True)])

    def by_map(self, found: Any, places: Any) -> Iterator[np.ndarray]:
        yield found.predict_many(places)[:, None]
        for predict_one in (found, found.predict_one):
            yield np.array([[predict_one(score)] for score in places.tolist()])

    def assert_possible(self, cal: Any, places: Any, monotone: bool = True) -> None:
        p, *ends = self.by_many(cal, np.unique(places)).T
        assert ((p >= 0.0) & (p <= 1.0)).all()
        if cal.monotone and monotone:
            assert_monotone(p, MERGED_TO if isinstance(cal, CrossVennAbers) else MONOTONE_TO)
        if ends:
            assert ((ends[0] >= 0.0) & (ends[0] <= ends[1]) & (ends[1] <= 1.0)).all()
            assert ((ends[0] <= p + MONOTONE_TO) & (p <= ends[1] + MONOTONE_TO)).all()

    def bad_calls(self, cal: Any) -> Iterator[Callable[[], Any]]:
        """Arrays that do not fit; bad values have tests in `test_laws_binary.py`."""
        t = [8.0, 8.0]
        yield lambda: cal.learn_many([0.5, 0.5], [1], None, t)
        yield lambda: cal.learn_many([0.5, 0.5], [1, 0], [1.0], t)
        yield lambda: cal.learn_many([[0.5], [0.5]], [1, 0], None, t)
        yield lambda: cal.learn_many(0.5, 1, None, 8.0)
        yield lambda: cal.learn_many([0.5, [0.5]], [1, 0], None, t)
        yield lambda: cal.learn_many(["a", "b"], [1, 0], None, t)
        yield lambda: cal.predict_many([[0.5], [0.5]])
        yield lambda: cal.predict_many(0.5)
        if self.policy is not None:
            yield lambda: cal.learn_many([0.5, 0.5], [1, 0], None, [8.0])

    def strangers(self) -> Iterator[Any]:
        for case in CASES:
            if case.name == self.name or case.policy in ("forever", None):
                yield case.build()


def statistic_of(method: type[Any], small: dict[str, dict[str, Any]]) -> type:
    """Return the class of the statistic of a method."""
    return type(method(**small.get(method.name, {}))._engine.memory.statistic)


def first_of_each_statistic(methods: dict[str, Any], small: dict[str, dict[str, Any]]) -> set[Any]:
    additive = [method for method in methods.values() if not is_sequential(method)]
    return set({statistic_of(method, small): method for method in reversed(additive)}.values())


def cases_of(kind: type[Any], methods: dict[str, Any], small: dict[str, dict[str, Any]]) -> list[Any]:
    """Every method under every policy, in all its variants."""
    first, found = first_of_each_statistic(methods, small), []
    for method, policy in under_policies(methods, is_sequential):
        case = kind(method.name, policy, (), method in first, method)
        makers = tuple(partial(case.make, **params) for params in case.variants())
        found.append(kind(method.name, policy, makers, method in first, method))
    return found


CASES: list[ScoreCase] = cases_of(ScoreCase, REGISTRY, SMALL)


# -- for tests of one score ----------------------------------------------------------------------------------------


def without_forgetting(cal: Any, held: list[Observation]) -> Any:
    """Return a calibrator with the same parameters except the policy, which learns in bulk what is held."""
    fresh = changed(cal, forgetting=Forever())
    fresh.learn_many(*columns(held))
    return fresh


def assert_same(one: Any, other: Any, within: float | None = None) -> None:
    """Assert that the two hold the same weight and predict the same."""
    CASES[0].assert_same(one, other, within)
