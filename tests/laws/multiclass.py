"""The room of several classes: the methods of `streamcal.multiclass`, each in a few variants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st

from laws import (
    EXACT_TIMES,
    EXACT_WEIGHTS,
    HALF_LIFE,
    POLICIES,
    ROUNDED,
    TIMED,
    Case,
    Observation,
    changed,
    one_of_each,
    read_only,
)
from streamcal import Forever, Isotonic, Temperature
from streamcal.multiclass import (
    Dirichlet,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)

#: A Newton iteration stops at a gradient of 1e-12 of the weight, and starts where the last one ended.
SOLVED = 1e-9
#: Without a prior a ridge of 1e-9 decides what few observations leave open: it magnifies rounding (1e-16) by 1e9, and
#: a log-probability of 16 does once more. 1e-5 leaves room for a few of them.
RIDGED = 1e-5

#: Name → how it is made under a policy. The first is the first of its statistic, and so is `temperature scaling`.
VARIANTS: dict[str, Callable[[Any], Any]] = {
    "one-vs-rest isotonic": lambda policy: OneVsRest(Isotonic(forgetting=policy)),
    "venn-abers ovr": lambda policy: MulticlassVennAbers(forgetting=policy),
    "venn-abers ovo": lambda policy: MulticlassVennAbers("ovo", "self-consistent", forgetting=policy),
    "temperature scaling": lambda policy: TemperatureScaling(forgetting=policy),
    "vector scaling": lambda policy: VectorScaling(forgetting=policy),
    "dirichlet": lambda policy: Dirichlet(off_diagonal=0.1, intercept=0.01, forgetting=policy),
    "structured matrix": lambda policy: StructuredMatrixScaling(forgetting=policy),
}
FIRST = ("one-vs-rest isotonic", "temperature scaling")
#: Tried without forgetting only.
MORE: dict[str, Callable[[Any], Any]] = {
    "one-vs-rest temperature": lambda policy: OneVsRest(Temperature(forgetting=policy)),
    "vector scaling, no prior": lambda policy: VectorScaling(prior=0.0, forgetting=policy),
}
SEQUENTIAL: dict[str, tuple[Callable[[], Any], ...]] = {
    "one-vs-rest ops": (lambda: OneVsRest("online-platt"),),
    "online-vector-scaling": (OnlineVectorScaling, lambda: OnlineVectorScaling(discount=0.875)),
}

LABELS = ["a", "b", 3]


def observed(labels: list[Any], one: int, other: int, *rest: Any) -> Observation:
    """Scores of up to three labels in sixteenths, summing to one, zeros among them."""
    cuts = sorted([one, other][: len(labels) - 1])
    ends = zip(labels, [0, *cuts], [*cuts, 16], strict=True)
    return Observation({label: (end - start) / 16 for label, start, end in ends}, *rest)


def observations_of(labels: list[list[Any]], outcomes: list[Any]) -> st.SearchStrategy[Observation]:
    places = range(17)
    drawn = one_of_each(labels, places, places, outcomes, EXACT_WEIGHTS, EXACT_TIMES)
    return drawn.map(lambda one: observed(*one))


#: All three labels in one order or another, two of them, or one alone; the label that comes may be none of them.
observations = observations_of([LABELS, [3, "b", "a"], ["b", "a"], [3, "a"], ["b"]], LABELS)
#: What `learn_many` takes together, with outcomes that have no column.
alike_observations = observations_of([LABELS], [*LABELS, *LABELS, "z", 7])
GOOD = [
    Observation({"a": 0.25, "b": 0.75}, "a", 1.0, 0.0),
    Observation({"a": 0.5, "b": 0.25, 3: 0.25}, 3, 2.0, 4.0),
    Observation({"a": 0.125, "b": 0.875}, "b", 1.0, 8.0),
]
#: Scores of other observations than those of GOOD, another label, weight or time; and one of which a part was learned.
UNKNOWN = [
    GOOD[0]._replace(x={"a": 0.375, "b": 0.625}),
    GOOD[0]._replace(y="b"),
    GOOD[0]._replace(y="never"),
    GOOD[0]._replace(w=0.5),
    Observation({"a": 0.25, "b": 0.5, 3: 0.25}, "a", 1.0, 0.0),
]
HARD = {
    "one label": [Observation({"a": 1.0}, "a")] * 5,
    "certain and wrong": [Observation({"a": 1.0, "b": 0.0}, "b")] * 5,
    "certain and right": [Observation({"a": 1.0, "b": 0.0, "c": 0.0}, "a")] * 20,
    "separated": [Observation({k: 0.8 if k == j else 0.1 for k in range(3)}, j) for j in range(3)] * 10,
    "reversed": [Observation({k: 0.8 if k == j else 0.1 for k in range(3)}, (j + 1) % 3) for j in range(3)] * 10,
    "tiny scores": [Observation({"a": 5e-324, "b": 1e-300, "c": 1.0}, "abc"[k % 3]) for k in range(9)],
    "huge weights": [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1e60) for k in range(8)],
    "tiny weights": [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1e-60) for k in range(8)],
    "huge and tiny weights": [
        Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 10.0 ** (15 * (k % 9) - 60)) for k in range(16)
    ],
    "a label each": [Observation({j: 1 / (k + 1) for j in range(k + 1)}, k) for k in range(7)],
    "all come unannounced": [Observation({"a": 1.0}, k) for k in range(7)],
}
BAD_SCORES = [
    {"a": 1.5, "b": 0.5},
    {"a": -0.25, "b": 1.25},
    {"a": math.nan, "b": 0.5},
    {"a": math.inf, "b": 0.5},
    {"a": "0.5", "b": 0.5},
    {"a": None, "b": 0.5},
    {math.nan: 0.5, "b": 0.5},
    {None: 0.5, "b": 0.5},
    {("a", "b"): 0.5, "b": 0.5},
    {},
    [0.5, 0.5],
    None,
    0.5,
]
BAD_LABELS = [None, math.nan, math.inf, np.ma.masked, ["a"], b"a", object(), "a" * 100_001]
BAD_WEIGHTS = [-1.0, 1e-61, 1e61, math.nan, "1", None]

PROBES = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [0.3, 0.3, 0.4], [1e-9, 1.0 - 1e-9, 0.0]])
#: Of other labels, of one that is never learned among them.
OTHERS = [{"b": 0.25, "a": 0.75}, {3: 1.0}, {"z": 0.5, "a": 0.5}, {"z": 1.0}]


def is_vacuous(cal: Any, scores: dict[Any, float]) -> bool:
    """Return whether the answer is a matter of rounding.

    For an interval of 0 and 1 the self-consistent point is 0/0, and ½ only where that is exact.
    """
    pairs = cal.predict_intervals_one(scores).values() if cal.has_interval else []
    return any(1.0 - upper + lower <= ROUNDED for lower, upper in pairs)


@dataclass(frozen=True)
class ClassesCase(Case):
    """A method of several classes, in one variant, or a sequential one. Places are rows of scores of LABELS."""

    hard: ClassVar[dict[str, list[Observation]]] = HARD

    def observations(self, cal: Any, alike: bool) -> st.SearchStrategy[Observation]:
        return alike_observations if alike else observations

    def good(self, cal: Any) -> list[Observation]:
        return GOOD

    def ordered(self, cal: Any, size: int) -> list[Observation]:
        return [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1.0, 4.0 * k) for k in range(size)]

    def spellings(self, stream: list[Observation]) -> Iterator[list[Observation]]:
        """Yield the stream with numpy's texts and numbers, 3.0 for 3, and dicts in another order."""
        as_numpy = {"a": np.str_("a"), "b": np.str_("b"), 3: np.int64(3)}
        yield [
            o._replace(x={as_numpy[k]: np.float64(p) for k, p in reversed(o.x.items())}, y=as_numpy[o.y])
            for o in stream
        ]
        yield [o._replace(y=3.0 if o.y == 3 else o.y) for o in stream]

    def unknown(self, cal: Any) -> list[Observation]:
        return UNKNOWN + ([GOOD[0]._replace(t=HALF_LIFE)] if self.policy in TIMED else [])

    def learn_many(self, cal: Any, stream: list[Observation], timed: bool = True) -> None:
        """Observations of the same labels together, in columns of another order than theirs."""
        for names, group in itertools.groupby(stream, lambda o: sorted(o.x, key=str)):
            some = list(group)
            columns = names if len(some) % 2 else names[::-1]
            P = np.array([[o.x[label] for label in columns] for o in some])
            w, t = (np.array([o[place] for o in some], dtype=float) for place in (2, 3))
            cal.learn_many(P, [o.y for o in some], w, t if timed else None, labels=columns)
        if not stream:
            cal.learn_many(np.empty((0, 2)), [], [], [], labels=["a", "b"])

    def streamed(self, cal: Any, stream: list[Observation], verb: str) -> np.ndarray:
        P = read_only([[o.x[label] for label in LABELS] for o in stream]).reshape(-1, len(LABELS))
        columns = P, [o.y for o in stream], *(read_only([o[place] for o in stream]) for place in (2, 3))
        found = getattr(cal, verb)(*columns, labels=LABELS)
        return np.hstack(found) if "interval" in verb else found

    def said(self, answer: Any) -> list[float]:
        rows = [answer[label] for label in LABELS]
        return [one for end in zip(*rows, strict=True) for one in end] if isinstance(rows[0], tuple) else rows

    def forever(self, cal: Any) -> Any:
        if isinstance(cal, OneVsRest):
            return OneVsRest(changed(cal.calibrator, forgetting=Forever()))
        return super().forever(cal)

    def within(self, cal: Any) -> float:
        if self.policy is None:
            return 0.0
        exact = isinstance(cal, MulticlassVennAbers | OneVsRest) and self.name != "one-vs-rest temperature"
        return ROUNDED if exact else RIDGED if cal.params().get("prior") == 0.0 else SOLVED

    def places(self, cal: Any, stream: Any = ()) -> np.ndarray:
        """Those of a stream that have all three labels."""
        return np.array([*PROBES, *([o.x[k] for k in LABELS] for o in stream if set(o.x) == set(LABELS))])

    def predictions(self, cal: Any, t: float | None = None) -> np.ndarray:
        """Also of other labels, and with the intervals."""
        found = self.by_many(cal, PROBES, t).ravel().tolist()
        for scores in OTHERS:
            found += cal.predict_one(scores, t).values()
            if cal.has_interval:
                found += itertools.chain.from_iterable(cal.predict_interval_one(scores, t).values())
        return np.array(found)

    def by_many(self, cal: Any, places: Any, t: float | None = None) -> np.ndarray:
        found = cal.predict_many(places, t, labels=LABELS)
        assert found.shape == places.shape
        return found

    def by_one(self, cal: Any, places: Any) -> np.ndarray:
        rows = [cal.predict_one(dict(zip(LABELS, row, strict=True))) for row in places.tolist()]
        assert all(list(row) == LABELS and {type(p) for p in row.values()} == {float} for row in rows)
        return np.array([list(row.values()) for row in rows])

    def by_map(self, found: Any, places: Any) -> Iterator[np.ndarray]:
        yield found.predict_many(places, labels=LABELS)
        yield found.predict_many(places[:, ::-1], labels=LABELS[::-1])[:, ::-1]
        yield np.array([list(found(dict(zip(LABELS, row, strict=True))).values()) for row in places.tolist()])

    def assert_possible(self, cal: Any, places: Any, monotone: bool = True) -> None:
        p = self.by_many(cal, places)
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert p.sum(axis=1) == pytest.approx(1.0, abs=ROUNDED)
        for scores in OTHERS:
            found = cal.predict_one(scores)
            if not is_vacuous(cal, scores):
                assert cal.map()(scores) == pytest.approx(found, abs=ROUNDED)
            assert list(found) == list(scores)
            assert all(type(q) is float and 0.0 <= q <= 1.0 for q in found.values())
            assert math.fsum(found.values()) == pytest.approx(1.0, abs=ROUNDED)

    def bad_calls(self, cal: Any) -> Iterator[Callable[[], Any]]:
        good = GOOD[1]
        bad = [good._replace(x=scores) for scores in BAD_SCORES] + [good._replace(y=y) for y in BAD_LABELS]
        bad += [good._replace(w=w) for w in BAD_WEIGHTS]
        bad += [good._replace(t=t) for t in (math.nan, math.inf, "now")] if self.policy is not None else []
        bad += [good._replace(x={"a": 0.5, "b": 0.25})] if cal.sums_to_one else []
        for one in bad:
            yield partial(cal.learn_one, *one)
            if self.unlearns:
                yield partial(cal.unlearn_one, *one)
        for scores in BAD_SCORES:
            yield partial(cal.predict_one, scores)
            yield partial(cal.map(), scores)
        yield from self._bad_arrays(cal)

    def _bad_arrays(self, cal: Any) -> Iterator[Callable[[], Any]]:
        P, t, ab = [[0.5, 0.5], [0.25, 0.75]], [8.0, 8.0], ["a", "b"]
        for y in (["a"], ["a", None], "ab", 3, np.array("a"), [["a"], ["b", "a"]], np.array([["a"], ["b"]])):
            yield partial(cal.learn_many, P, y, None, t, labels=ab)
            yield partial(cal.predict_learn_many, P, y, None, t, labels=ab)
        for w in ([1.0], [1.0, -1.0]):
            yield partial(cal.learn_many, P, ab, w, t, labels=ab)
            yield partial(cal.predict_learn_many, P, ab, w, t, labels=ab)
        for labels in (["a"], ["a", "a"], "ab", []):
            yield partial(cal.learn_many, P, ab, None, t, labels=labels)
            yield partial(cal.predict_learn_many, P, ab, None, t, labels=labels)
        for scores in ([[0.5, 1.5], [0.25, 0.75]], [[0.5, math.nan], [0.25, 0.75]], [0.5, 0.5]):
            yield partial(cal.learn_many, scores, ab, None, t, labels=ab)
            yield partial(cal.predict_learn_many, scores, ab, None, t, labels=ab)
        for scores in ([[0.5, -0.5]], [0.5, 0.5], *([[[0.5, 0.25]]] if cal.sums_to_one else [])):
            yield partial(cal.predict_many, scores, labels=ab)
        if self.policy is not None:
            yield partial(cal.learn_many, P, ab, None, [8.0], labels=ab)

    def strangers(self) -> Iterator[Any]:
        return (case.build() for case in CASES)


CASES = [
    ClassesCase(name, policy, (partial(make, POLICIES[policy]),), name in FIRST)
    for name, make in VARIANTS.items()
    for policy in POLICIES
]
CASES += [ClassesCase(name, "forever", (partial(make, Forever()),)) for name, make in MORE.items()]
CASES += [ClassesCase(name, None, makers) for name, makers in SEQUENTIAL.items()]
