"""What the laws of `docs/architecture.md` are tried on: cases, streams, and a naive model of each policy.

A law is written once, in `test_laws.py`, for the methods of all rooms. What a law has to know of a room is a subclass
of `Case`: how an observation is drawn, learned in bulk, predicted and compared. It is in the module of that room.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from streamcal import Decay, Forever, Prior, RetractionError, Window
from streamcal.states import signed

# -- policies ------------------------------------------------------------------------------------------------------

#: All spans are powers of two or multiples of them: streams of integer weights, with times in whole half-lives, make
#: every sum exact.
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
#: A policy acts on the statistic alone. In a plain `pytest` the first method of each statistic meets every policy, and
#: the other methods one: decay by time, where observations merge, are retracted and have times. A law that depends on
#: the method as much as on the policy says `EVERYWHERE`, and a costly one that the memory decides says `()`. With
#: `-m full` every method meets every policy.
ONCE = ("time-decay",)
EVERYWHERE = ("forever", "time-decay")
#: Fewer observations than decay by count, of half-life 1, takes to prune the first.
LONGEST = 24

#: Rounding of one formula in scalar and in array arithmetic, and of sums in another order.
ROUNDED = 1e-12


# -- observations --------------------------------------------------------------------------------------------------


class Observation(NamedTuple):
    """The arguments of `learn_one`, in order: what is calibrated, the outcome, the weight, the time."""

    x: Any
    y: Any
    w: float = 1.0
    t: float = 0.0


EXACT_WEIGHTS = [1.0, 1.0, 2.0, 3.0]
EXACT_TIMES = [k * HALF_LIFE for k in range(9)]


def one_of_each(*choices: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One number is drawn for all of it: streams are drawn so often that five draws for one observation count."""

    def chosen(number: int) -> tuple[Any, ...]:
        found = []
        for values in choices:
            number, place = divmod(number, len(values))
            found.append(values[place])
        return tuple(found)

    return st.integers(0, math.prod(map(len, choices)) - 1).map(chosen)


def learned(cal: Any, stream: list[Any]) -> Any:
    """Return the calibrator after it learned the stream."""
    for observation in stream:
        cal.learn_one(*observation)
    return cal


def changed(cal: Any, **params: Any) -> Any:
    """Return a new calibrator with the same parameters except these."""
    return type(cal)(**{**cal.params(), **params})


def held(cal: Any) -> dict[str, Any]:
    """Return the state of a calibrator without what a prediction as of another time may change.

    That is the rounding of the sums of a window, whose edge such a prediction moves and the next call moves back: the
    observations of the window are stored beside them.
    """
    return _without_sums(cal.state_dict())


def _without_sums(plain: Any) -> Any:
    if isinstance(plain, dict):
        window = "entries" in plain or "buffer" in plain
        dropped = ("check", "sums") if window else ("check",)
        return {key: _without_sums(value) for key, value in plain.items() if key not in dropped}
    return list(map(_without_sums, plain)) if isinstance(plain, list) else plain


def through_json(cal: Any) -> Any:
    """Return the calibrator, saved as text and read back."""
    return type(cal).from_state(json.loads(json.dumps(cal.state_dict(), allow_nan=False)))


def through_bytes(cal: Any) -> Any:
    """Return the calibrator, saved as bytes and read back."""
    return type(cal).from_bytes(cal.to_bytes())


COPIES: dict[str, Callable[[Any], Any]] = {
    "json": through_json,
    "pickle": lambda cal: pickle.loads(pickle.dumps(cal)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def read_only(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array that cannot be written to."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def assert_close(found: Any, expected: Any, atol: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


def size_of(plain: Any) -> int:
    """How many numbers and words plain data hold."""
    if isinstance(plain, dict | list):
        return sum(size_of(item) for item in (plain.values() if isinstance(plain, dict) else plain))
    return 1


# -- models of the policies ----------------------------------------------------------------------------------------


class Model:
    """What a policy holds, by its definition: a list of observations, walked from the beginning for every question.

    `key` says what of an observation a retraction has to give again, its time apart.
    """

    def __init__(self, policy: str, stream: Any = (), key: Callable[[Any], Any] = lambda o: o[:3]) -> None:
        self.policy, self.key = policy, key
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
            if self.key(held) == self.key(observation) and (self.policy not in TIMED or held.t == observation.t):
                del self.entries[place]
                return True
        return False

    def merge(self, other: Model) -> None:
        self.entries += other.entries
        self.clock = max(self.clock, other.clock)
        self._let_go()

    def look_ahead(self, t: float) -> None:
        self.clock = max(self.clock, t)
        self._let_go()

    def held(self) -> list[Observation]:
        """Return the observations with their present weights."""
        if self.policy == "decay":
            return [o._replace(w=o.w * 2.0 ** (number - self.number)) for number, o in self.entries]
        if self.policy == "time-decay":
            return [o._replace(w=o.w * 2.0 ** ((o.t - self.clock) / HALF_LIFE)) for _, o in self.entries]
        return [o for _, o in self.entries]

    def _let_go(self) -> None:
        if self.policy == "window":
            self.entries = self.entries[-int(POLICIES["window"].size) :]  # type: ignore[union-attr]
        if self.policy == "time-window":
            edge = self.clock - POLICIES["time-window"].size  # type: ignore[union-attr]
            self.entries = [entry for entry in self.entries if entry[1].t > edge]


# -- cases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A method under a policy, or a sequential method, and how a law treats it: the adapter of a room.

    Parameters
    ----------
    name : str
        Of the method.
    policy : str or None
        A key of `POLICIES`; None for a sequential method.
    makers : tuple of callables
        Each builds a calibrator in one variant of its parameters, the first in the variant that is tried most.
    first : bool
        Whether it stands for its statistic: a plain `pytest` tries it under every policy.
    """

    name: str
    policy: str | None
    makers: tuple[Callable[[], Any], ...]
    first: bool = False

    #: By what the number of examples of the profile is divided, since the memories have met their laws in the room of
    #: one score; and the longest streams.
    divisor: ClassVar[int] = 3
    longest: ClassVar[int] = 16
    #: Name → a stream that has broken something, or might.
    hard: ClassVar[dict[str, list[Observation]]] = {}

    def __str__(self) -> str:
        return self.name if self.policy is None else f"{self.name}-{self.policy}"

    @property
    def adds(self) -> bool:
        return self.policy in ADDING

    @property
    def unlearns(self) -> bool:
        return self.policy in UNLEARNING

    def is_tried(self, under: tuple[str, ...]) -> bool:
        """Whether a plain `pytest` tries it where other methods than the first meet these policies."""
        return self.policy is None or self.policy in under or self.first

    @property
    def costly(self) -> bool:
        """Whether a prediction takes milliseconds."""
        return self.name in ("copula-fusion", "partial-order-venn-abers")

    @property
    def one_of(self) -> int:
        """Return n, where a plain `pytest` tries one of n cases like this one in each law."""
        return 16 if self.costly else 5 if self.first else 8

    def settings(self) -> hypothesis.settings:
        """Return the settings of the profile, with fewer examples for slower rooms.

        A method whose statistic another method has tried gets fewer examples too.
        """
        divisor = self.divisor + (self.policy is not None and not self.first)
        return hypothesis.settings(max_examples=max(hypothesis.settings.default.max_examples // divisor, 2))

    def build(self) -> Any:
        return self.makers[0]()

    def calibrators(self, **fixed: Any) -> st.SearchStrategy[Any]:
        """Return new calibrators; with `fixed`, only variants that agree with it if they have such a parameter."""
        chosen = [make for make in self.makers if all(make().params().get(k, v) == v for k, v in fixed.items())]
        return st.sampled_from(chosen).map(lambda make: make())

    def streams(self, cal: Any, min_size: int = 0, max_size: int = 12, alike: bool = False) -> Any:
        """Streams whose sums are exact; `alike`, of observations that `learn_many` takes together."""
        return st.lists(self.observations(cal, alike), min_size=min_size, max_size=min(max_size, self.longest))

    def rough_streams(self, cal: Any, max_size: int = 6) -> Any:
        """Streams whose sums round."""
        return self.streams(cal, max_size=max_size).map(lambda stream: [o._replace(w=o.w / 10.0) for o in stream])

    def model(self, cal: Any, stream: Any = ()) -> Model:
        return Model(self.policy, stream, lambda o: self.key(cal, o))

    def fit(self, cal: Any, held: list[Observation]) -> Any:
        """Return a calibrator with the same parameters except the policy, which learns in bulk what is held."""
        fresh = self.forever(cal)
        self.learn_many(fresh, held)
        return fresh

    def predictions(self, cal: Any, t: float | None = None) -> np.ndarray:
        """Everything predicted at the usual places, in one array."""
        return self.by_many(cal, self.places(cal), t)

    def assert_same(self, one: Any, other: Any, within: float | None = None) -> None:
        """Assert that the two hold the same weight and predict the same."""
        atol = self.within(one) if within is None else within
        assert one.n == pytest.approx(other.n, rel=ROUNDED, abs=ROUNDED)
        assert_close(self.predictions(self.settled(one)), self.predictions(self.settled(other)), atol)

    def assert_empty(self, cal: Any) -> None:
        """Assert that it predicts as if it had never learned, to the last bit; the pseudo-weights of a prior round."""
        assert cal.n == 0.0
        seeded = isinstance(cal.params().get("prior"), Prior)
        self.assert_same(cal, cal.clone(), max(self.within(cal), 1e-9) if seeded else 0.0)

    def refuses_to_unlearn(self, cal: Any, observation: Observation) -> None:
        """Refused or, where a window cannot know, counted as missed; nothing else changes."""
        before, missed = cal.state_dict(), cal.tally()["missed"]
        if self.policy == "window":
            cal.unlearn_one(*observation)
            assert cal.tally()["missed"] == missed + 1
            before["learned"]["memory"]["missed"] += 1
        else:
            with pytest.raises(RetractionError):
                cal.unlearn_one(*observation)
        assert cal.state_dict() == signed(before)

    def look(self, cal: Any, t: float | None) -> None:
        """Everything that can be asked."""
        self.predictions(cal, t)
        _ = cal.map(), cal.n, cal.tally(), repr(cal), cal.params(), cal.clone(), cal.bounded_memory

    # What a room says, and may leave as it is:

    def settled(self, cal: Any) -> Any:
        """Return what is compared in place of a calibrator whose solver leaves something undetermined."""
        return cal

    def key(self, cal: Any, observation: Observation) -> Any:
        """Return what two observations share if one may be retracted for the other."""
        return observation[:3]

    def spellings(self, stream: list[Observation]) -> Iterator[list[Observation]]:
        """Yield the stream with its numbers and labels written in other types."""
        for kind in (bool, float, np.bool_, np.int8):
            yield [o._replace(y=kind(o.y)) for o in stream]

    def unknown(self, cal: Any) -> list[Observation]:
        """Observations that, after `good`, were never learned; more weight than is held, where sums know no more."""
        return [self.good(cal)[0]._replace(w=1000.0)]

    def hard_stream(self, cal: Any, kind: str) -> list[Observation]:
        return self.hard[kind]

    def keeps_monotone(self, cal: Any, kind: str) -> bool:
        """Whether a map that claims to be monotone is so on a hard stream."""
        return True

    def rounding(self, cal: Any) -> float:
        """By how much `predict_one`, `predict_many` and the map may differ."""
        return ROUNDED

    # What a room has to say:

    def observations(self, cal: Any, alike: bool) -> st.SearchStrategy[Observation]:
        raise NotImplementedError

    def good(self, cal: Any) -> list[Observation]:
        """Three observations, at the times 0, 4 and 8."""
        raise NotImplementedError

    def ordered(self, cal: Any, size: int) -> list[Observation]:
        """Different observations of both outcomes, at times 4 apart."""
        raise NotImplementedError

    def learn_many(self, cal: Any, stream: list[Observation], **kwargs: Any) -> None:
        """`timed=False` leaves the times out."""
        raise NotImplementedError

    def streamed(self, cal: Any, stream: list[Observation], verb: str) -> np.ndarray:
        """Return the results of `verb` over the stream: `predict_learn_many` or `predict_interval_learn_many`."""
        raise NotImplementedError

    def in_turn(self, cal: Any, stream: list[Observation], verb: str) -> np.ndarray:
        """Return the results of a loop of `predict_one`, `predict_interval_one` and `learn_one`."""
        found = []
        for o in stream:
            found.append(self.said(cal.predict_one(o.x, o.t)))
            if "interval" in verb:
                found[-1] += self.said(cal.predict_interval_one(o.x, t=o.t))
            cal.learn_one(*o)
        return np.array(found)

    def said(self, answer: Any) -> list[float]:
        """Return an answer about one observation as numbers."""
        return list(answer) if isinstance(answer, tuple) else [answer]

    def forever(self, cal: Any) -> Any:
        """Return a calibrator with the same parameters except the policy."""
        return changed(cal, forgetting=Forever())

    def within(self, cal: Any) -> float:
        """By how much two calibrators with these parameters may differ that ought to be equal."""
        raise NotImplementedError

    def places(self, cal: Any, stream: Any = ()) -> Any:
        """Where predictions are compared, those of a stream among them."""
        raise NotImplementedError

    def by_many(self, cal: Any, places: Any, t: float | None = None) -> np.ndarray:
        """`predict_many`, and `predict_interval_many` where there is one, a row for each place."""
        raise NotImplementedError

    def by_one(self, cal: Any, places: Any) -> np.ndarray:
        """Return the predictions at places, one after the other."""
        raise NotImplementedError

    def by_map(self, found: Any, places: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of a map, in each of its ways, without intervals: the first columns of `by_many`."""
        raise NotImplementedError

    def assert_possible(self, cal: Any, places: Any, monotone: bool = True) -> None:
        """Predictions are probabilities, or distributions, and monotone where that is claimed."""
        raise NotImplementedError

    def bad_calls(self, cal: Any) -> Iterator[Callable[[], Any]]:
        """Yield calls that raise `InputError` and leave the calibrator as it was."""
        raise NotImplementedError

    def strangers(self) -> Iterator[Any]:
        """Calibrators of other methods and policies of the room."""
        raise NotImplementedError


# -- how a law is tried --------------------------------------------------------------------------------------------


def each(cases: Any, under: tuple[str, ...] = ONCE) -> Any:
    """Parametrize a test over cases.

    A plain `pytest` tries methods that are not the first of their statistic `under` these policies only, and a sample
    of all cases.
    """

    def mark(case: Any) -> pytest.MarkDecorator:
        return pytest.mark.sample(case.one_of) if case.is_tried(under) else pytest.mark.full

    return pytest.mark.parametrize("case", [pytest.param(case, id=str(case), marks=mark(case)) for case in cases])


@contextlib.contextmanager
def trying(what: Any) -> Iterator[None]:
    """Name what was tried in the message of a failure, where one test tries many things."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"tried: {what}")
        raise


def law(cases: Any, under: tuple[str, ...] = ONCE) -> Any:
    """Try a law on cases, each with as many examples as the profile and the room say: `test(case, draw)`.

    Each case has examples of its own, derandomised by the names of the law and of the case. For `under` see `each`.
    """

    def decorate(test: Callable[[Any, Any], None]) -> Any:
        def run(case: Any) -> None:
            def example(data: Any) -> None:
                test(case, data.draw)

            tried = case.settings()(hypothesis.given(data=st.data())(example))
            if hypothesis.settings.default.derandomize:
                tried = hypothesis.seed(zlib.crc32(f"{test.__name__} {case}".encode()))(tried)
            tried()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return each(cases, under)(run)

    return decorate


def under_policies(methods: dict[str, Any], is_sequential: Callable[[Any], bool]) -> Iterator[tuple[Any, str | None]]:
    """Yield (method, policy), with None as the policy of sequential methods."""
    for method in methods.values():
        yield from itertools.product([method], [None] if is_sequential(method) else POLICIES)
