"""What the conformance suite works with: every method in its variants, streams, and naive models of the policies.

Methods come from the registry and their variants from the signatures of their constructors, so that a new method is
covered without a line of test code.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import typing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from streamcal import (
    REGISTRY,
    Calibrator,
    Decay,
    EmpiricalCDF,
    FixedWidth,
    Forever,
    Interval,
    Logit,
    NearestScores,
    Prior,
    ScoreIntervals,
    Window,
)
from streamcal.app.doctor import kernel_form

# -- how much is tried -------------------------------------------------------------------------------------------

#: Examples for each test of each case. To look for news: `HYPOTHESIS_PROFILE=search pytest tests/test_conformance.py`.
_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": False}
settings.register_profile("compiled", max_examples=20, derandomize=True, stateful_step_count=12, **_COMMON)
settings.register_profile("uncompiled", max_examples=4, derandomize=True, stateful_step_count=8, **_COMMON)
settings.register_profile("search", max_examples=300, stateful_step_count=25, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "compiled" if kernel_form() == "compiled" else "uncompiled"))

# -- tolerances --------------------------------------------------------------------------------------------------

#: Methods that are a closed formula of their sums. Streams of integer weights, with times in whole half-lives, make
#: those sums exact, and then nothing may differ at all. A method not named here is compared within SOLVED.
EXACT_METHODS = frozenset(
    {
        "identity",
        "gaussian",
        "histogram",
        "bbq",
        "acp",
        "isotonic",
        "centered-isotonic",
        "smooth-isotonic",
        "venn-abers",
    }
)
#: Methods whose map depends on which probability a score reads as, and not on the coordinate alone.
READ_AS_PROBABILITIES = frozenset({"bbq"})
#: The pseudo-weights of a prior are no integers: they round.
ROUNDED = 1e-12
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


def tolerance(cal: Calibrator) -> float:
    """By how much two calibrators with these parameters may differ that ought to be equal."""
    if cal.name in ("bernstein", "bernstein-logistic"):
        return RIDGED
    if cal.name == "beta":
        return LEFT_OPEN
    if cal.name == "rpr":
        return CONIC_SOLVED
    if cal.name == "cross-venn-abers":
        return ROUNDED  # geometric means: the powers of floats and of arrays may differ in their last place
    if cal.name not in EXACT_METHODS:
        return SOLVED
    return 0.0 if getattr(cal, "prior", None) is None else ROUNDED


def magnifies(cal: Calibrator) -> bool:
    """Whether weights of 1e60 beside a test object of weight 1 leave noise: a geometric mean of 1 − p₀, p₀ rounded."""
    return cal.name == "cross-venn-abers" and cal.params()["point"] == "log-minimax"


# -- cases: method and policy ------------------------------------------------------------------------------------

#: All spans are powers of two or multiples of them, see EXACT_METHODS.
HALF_LIFE = 4.0
POLICIES = {
    "forever": Forever(),
    "window": Window(6),
    "time-window": Window(3 * HALF_LIFE, by="time"),
    "decay": Decay(1),
    "time-decay": Decay(HALF_LIFE, by="time"),
}
#: The table of laws: by time as without forgetting, the order does not matter, weights add up and streams merge.
ADDING = ("forever", "time-window", "time-decay")
UNLEARNING = ("forever", "window", "time-window", "time-decay")
TIMED = ("time-window", "time-decay")

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
    "discount": (0.875,),
    "seed": (7,),
    "jump_rates": ((0.25,), (0.5, 1e-100)),
    "passive": (0.125,),
    "lam": (2.0,),
    "penalty": (0.01,),
    "delay": (3,),
}
#: A semidefinite program of the default degree takes 4 ms, one of this degree ½ ms: the laws are walked with it.
SMALL: dict[str, dict[str, Any]] = {"rpr": {"degree": 6}}


def variants(method: type[Calibrator]) -> list[dict[str, Any]]:
    """Parameters, the policy apart: the defaults, and every other value of each parameter alone."""
    hints = typing.get_type_hints(method.__init__)
    found: list[dict[str, Any]] = [{}]
    for name, parameter in inspect.signature(method).parameters.items():
        found += [{name: parameter.default}] if name in SMALL.get(method.name, {}) else []
        literal = typing.get_origin(hints.get(name)) is typing.Literal
        values = typing.get_args(hints[name]) if literal else VALUES.get(name, ())
        found += [{name: value} for value in values if value != parameter.default]
    return found


@dataclass(frozen=True)
class Case:
    """A method under a policy; sequential methods have none."""

    method: type[Calibrator]
    policy: str | None

    def __str__(self) -> str:
        return self.method.name if self.policy is None else f"{self.method.name}-{self.policy}"

    @property
    def adds(self) -> bool:
        return self.policy in ADDING

    @property
    def unlearns(self) -> bool:
        return self.policy in UNLEARNING

    def build(self, **params: Any) -> Any:
        policy = {} if self.policy is None else {"forgetting": POLICIES[self.policy]}
        return self.method(**{**SMALL.get(self.method.name, {}), **policy, **params})

    def variants(self) -> list[dict[str, Any]]:
        """Without a prior under decay by time, which refuses it."""
        return [params for params in variants(self.method) if self.policy != "time-decay" or "prior" not in params]

    def calibrators(self, **fixed: Any) -> st.SearchStrategy[Any]:
        """New calibrators; with `fixed`, only variants that agree with it."""
        chosen = [params for params in self.variants() if all(params.get(k, v) == v for k, v in fixed.items())]
        return st.sampled_from(chosen).map(lambda params: self.build(**params))


def is_sequential(method: type[Calibrator]) -> bool:
    return "forgetting" not in inspect.signature(method).parameters


ALL = [
    Case(method, policy)
    for method in REGISTRY.values()
    for policy in ([None] if is_sequential(method) else list(POLICIES))
]


def each(cases: list[Case]) -> Any:
    """Parametrize a test over cases."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=str(case)) for case in cases])


# -- streams -----------------------------------------------------------------------------------------------------


class Observation(NamedTuple):
    """The arguments of `learn_one`, in order."""

    score: float
    y: int
    w: float = 1.0
    t: float = 0.0


#: Where predictions are compared: learned scores, places between them, and the ends.
PROBES = np.array([-0.0, 0.0, 5e-324, 1e-9, *(np.arange(1, 64) / 64), 1.0 - 1e-9, 1.0])

exact_scores = st.sampled_from([*(k / 16 for k in range(17)), -0.0])
exact_weights = st.sampled_from([1.0, 1.0, 2.0, 3.0])
exact_times = st.integers(0, 8).map(lambda k: k * HALF_LIFE)
labels = st.integers(0, 1)
observations = st.builds(Observation, exact_scores, labels, exact_weights, exact_times)
rough_observations = st.builds(
    Observation, st.floats(0.0, 1.0), labels, st.floats(0.01, 100.0), st.floats(0.0, 10 * HALF_LIFE)
)
#: Fewer observations than decay by count, of half-life 1, takes to prune the first.
LONGEST = 24


def streams(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[list[Observation]]:
    """Streams whose sums are exact."""
    return st.lists(observations, min_size=min_size, max_size=max_size)


def rough_streams(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[list[Observation]]:
    """Streams of any floats."""
    return st.lists(rough_observations, min_size=min_size, max_size=max_size)


def columns(stream: list[Observation]) -> tuple[np.ndarray, ...]:
    """The arguments of `learn_many`."""
    return tuple(np.array(stream, dtype=np.float64).reshape(-1, 4).T.copy())


def learned(cal: Any, stream: list[Observation]) -> Any:
    """The calibrator, after the stream."""
    for observation in stream:
        cal.learn_one(*observation)
    return cal


def realistic(seed: int, size: int, a: float, b: float, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores from Beta(a, b) whose log-odds are `temperature` times those of the truth, and outcomes."""
    rng = np.random.default_rng(seed)
    truth = np.clip(rng.beta(a, b, size), 1e-12, 1.0 - 1e-12)
    scores = 1.0 / (1.0 + np.exp(-temperature * np.log(truth / (1.0 - truth))))
    return scores, (rng.random(size) < truth).astype(np.int64)


# -- models of the policies --------------------------------------------------------------------------------------


class Model:
    """What a policy holds, by its definition: a list of observations, walked from the beginning for every question."""

    def __init__(self, policy: str, stream: list[Observation] = ()) -> None:  # type: ignore[assignment]
        self.policy = policy
        self.entries: list[tuple[int, Observation]] = []
        self.clock = -math.inf
        self.number = 0
        for observation in stream:
            self.learn(observation)

    def learn(self, observation: Observation) -> None:
        if observation.w == 0.0:
            return
        self.number += 1
        self.clock = max(self.clock, observation.t)
        self.entries.append((self.number, observation))
        self._let_go()

    def unlearn(self, observation: Observation) -> bool:
        """Drop the newest equal observation; whether there was one."""
        for place in reversed(range(len(self.entries))):
            held = self.entries[place][1]
            if held[:3] == observation[:3] and (self.policy not in TIMED or held.t == observation.t):
                del self.entries[place]
                return True
        return False

    def merge(self, other: Model) -> None:
        self.entries += other.entries
        self.clock = max(self.clock, other.clock)
        self._let_go()

    def held(self) -> list[Observation]:
        """The observations with the weights they have today."""
        if self.policy == "decay":
            return [o._replace(w=o.w * 2.0 ** (number - self.number)) for number, o in self.entries]
        if self.policy == "time-decay":
            return [o._replace(w=o.w * 2.0 ** ((o.t - self.clock) / HALF_LIFE)) for _, o in self.entries]
        return [o for _, o in self.entries]

    def _let_go(self) -> None:
        policy = POLICIES[self.policy]
        if self.policy == "window":
            self.entries = self.entries[-int(policy.size) :]  # type: ignore[union-attr]
        if self.policy == "time-window":
            edge = self.clock - policy.size  # type: ignore[union-attr]
            self.entries = [entry for entry in self.entries if entry[1].t > edge]


def without_forgetting(cal: Any, held: list[Observation]) -> Any:
    """A calibrator of the same parameters but for the policy, which learns in bulk what is held."""
    fresh = type(cal)(**{**cal.params(), "forgetting": Forever()})
    fresh.learn_many(*columns(held))
    return fresh


# -- comparisons -------------------------------------------------------------------------------------------------


def assert_same(one: Any, other: Any, within: float | None = None) -> None:
    """The two hold the same weight and predict the same."""
    atol = tolerance(one) if within is None else within
    one, other = solved_exactly(one), solved_exactly(other)
    assert one.n == pytest.approx(other.n, rel=ROUNDED, abs=ROUNDED)
    assert_close(one.predict_many(PROBES), other.predict_many(PROBES), atol)
    if one.has_interval:
        for end, twin in zip(one.predict_interval_many(PROBES), other.predict_interval_many(PROBES), strict=True):
            assert_close(end, twin, atol)


def solved_exactly(cal: Any) -> Any:
    """The calibrator or, for OSQP, which leaves open what happens between the scores, the exact solver on its sums."""
    if cal.params().get("solver") != "osqp":
        return cal
    state = cal.state_dict()
    return type(cal).from_state({**state, "params": {**state["params"], "solver": "active-set"}})


def assert_monotone(p: Any) -> None:
    assert np.diff(p).min(initial=0.0) >= -MONOTONE_TO, f"falls by {-np.diff(p).min()}"


def assert_close(found: Any, expected: Any, atol: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


def through_json(cal: Any) -> Any:
    """The calibrator, saved as text and read again."""
    return type(cal).from_state(json.loads(json.dumps(cal.state_dict(), allow_nan=False)))


def size_of(plain: Any) -> int:
    """How many numbers and words plain data hold."""
    if isinstance(plain, dict):
        return sum(size_of(item) for item in plain.values())
    if isinstance(plain, list):
        return sum(size_of(item) for item in plain)
    return 1
