"""Streams of operations as plain data, and what a learner of each room does with them.

An operation is `["learn", x, y, w, t]`, `["unlearn", x, y, w, t]`, `["many", [[x, y, w, t], ...]]`, `["merge", [[x, y,
w, t], ...]]` (with a learner of these) or `["predict", x]`, where x is what the room predicts from: a score, a list of
scores, a list of (label, score), or a distribution as its kind and its numbers. The golden files hold the streams, so
that they do not depend on how they were drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np

from streamcal.regression import Normal, Piecewise, Quantiles, Sample

#: Operations before the state is saved, and after it is read.
LENGTHS = {"long": (65, 24), "short": (44, 16), "tiny": (12, 8)}
#: The `refresh_every` of cases that have one. States are saved between two refreshes.
REFRESH = 7
#: Predictions "as of later" are made so long after the last observation: some of a time window is left, not all.
LATER = 5.0
WEIGHTS = [1.0, 1.0, 1.0, 2.0, 3.0, 0.5]


class Room(ABC):
    """How the learners of a room are called; `rng` draws what is learned."""

    #: Names of the streams.
    streams: tuple[str, ...] = ("long", "short", "tiny")

    @abstractmethod
    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        """Something to predict from, as plain data, and the outcome that came; one of so many learned `together`."""

    @abstractmethod
    def probes(self, stream: str) -> list[Any]:
        """Return some fifteen places to predict at, as plain data."""

    @abstractmethod
    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        """Return the predictions at the probes, and as of the time `later` if there is one."""

    def read(self, x: Any) -> Any:
        """Return the argument of `predict_one` from plain data."""
        return x

    def learn_many(self, cal: Any, rows: list[Any], timed: bool) -> None:
        x, y, w, t = (list(column) for column in zip(*rows, strict=True))
        cal.learn_many([self.read(one) for one in x], y, w, t if timed else None)

    def apply(self, cal: Any, operation: list[Any], timed: bool) -> None:
        """Carry out one operation; times are given to policies by time only.

        Learners that cannot unlearn skip retractions, and those that cannot merge learn.
        """
        verb, *given = operation
        if verb == "merge" and cal.merges:
            other = cal.clone()
            self.learn_many(other, given[0], timed)
            cal.merge(other)
        elif verb in ("many", "merge"):
            self.learn_many(cal, given[0], timed)
        elif verb == "predict":
            cal.predict_one(self.read(given[0]))
        elif verb == "learn" or cal.unlearns:
            x, y, w, t = given
            (cal.learn_one if verb == "learn" else cal.unlearn_one)(self.read(x), y, w, t if timed else None)

    def apply_all(self, cal: Any, operations: list[Any], timed: bool) -> Any:
        for operation in operations:
            self.apply(cal, operation, timed)
        return cal

    # -- drawing ---------------------------------------------------------------------------------------------------

    def stream(self, name: str) -> dict[str, Any]:
        """Operations `first` and `then`, and the time `later` to predict as of."""
        first, then = LENGTHS[name.split()[0]]
        rng = np.random.default_rng([len(name), first])
        held: list[Any] = []
        operations = [self._operation(rng, name, k, held) for k in range(first + then)]
        while not _between_refreshes(operations[:first]):
            first += 1
        clock = max(row[3] for row in _rows(operations))
        return {"first": operations[:first], "then": operations[first:], "later": clock + LATER}

    def _operation(self, rng: np.random.Generator, name: str, k: int, held: list[Any]) -> list[Any]:
        verb = str(rng.choice(["learn", "many", "merge", "unlearn", "predict"], p=[0.7, 0.07, 0.05, 0.11, 0.07]))
        if verb == "unlearn" and held:
            oldest = rng.random() < 0.3  # which a window may have dropped
            return ["unlearn", *held.pop(0 if oldest else rng.integers(len(held)))]
        if verb == "predict":
            return ["predict", self.draw(rng, name, 1)[0]]
        together = rng.integers(2, 9) if verb in ("many", "merge") else 1
        rows = [self._row(rng, name, k, int(together)) for _ in range(together)]
        if together == 1 and rng.random() < 0.05:
            rows[0][2] = 0.0  # which is nothing
        held += [row for row in rows if row[2] > 0.0]
        return [verb, rows] if together > 1 else ["learn", *rows[0]]

    def _row(self, rng: np.random.Generator, name: str, k: int, together: int) -> list[Any]:
        """One observation; one in five comes late, and some of those later than a window by time reaches back."""
        late = float(rng.integers(0, 80)) / 4 if rng.random() < 0.2 else 0.0
        return [*self.draw(rng, name, together), float(rng.choice(WEIGHTS)), k // 2 * 0.5 - late]


def _rows(operations: list[Any]) -> list[Any]:
    learned = [[operation[1:]] for operation in operations if operation[0] == "learn"]
    return [row for rows in learned + [op[1] for op in operations if op[0] in ("many", "merge")] for row in rows]


def _between_refreshes(operations: list[Any]) -> bool:
    """Whether a learner that unlearns, and one that does not, have both changed since their last refresh."""
    learned = sum(row[2] > 0.0 for row in _rows(operations))
    unlearned = sum(operation[0] == "unlearn" for operation in operations)
    return learned % REFRESH > 0 and (learned + unlearned) % REFRESH > 0


def chance(rng: np.random.Generator, p: float) -> int:
    return int(rng.random() < p)


class Binary(Room):
    """Scores that tie and scores of three digits, 0 and 1 among them; the chances of a 1 are half as far from ½."""

    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        ties = rng.random() < 0.7
        score = float(rng.integers(0, 17)) / 16 if ties else float(np.round(rng.beta(1.0, 1.5), 3))
        return score, chance(rng, 0.25 + 0.5 * score**2)

    def probes(self, stream: str) -> list[Any]:
        return [0.0, 1e-9, 0.031, 0.0625, 0.13, 0.25, 0.37, 0.4375, 0.501, 0.5625, 0.66, 0.75, 0.876, 0.999, 1.0]

    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        found = {"many": cal.predict_many(probes).tolist(), "one": [cal.predict_one(x) for x in probes[::5]]}
        if cal.has_interval:
            found["interval"] = [end.tolist() for end in cal.predict_interval_many(probes)]
        if later is not None:
            found["later"] = cal.predict_many(probes, later).tolist()
        return found


class Fusion(Binary):
    """Two scores, or three, in eighths."""

    streams = ("long", "short", "long of 3", "short of 3")

    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        scores = [float(k) / 8 for k in rng.integers(0, 9, size=_width(stream))]
        return scores, chance(rng, 0.2 + 0.6 * scores[0] * scores[1])

    def probes(self, stream: str) -> list[Any]:
        rng, width = np.random.default_rng(5), _width(stream)
        return [[0.0] * width, [1.0] * width, [0.125] * width, *np.round(rng.random((12, width)), 3).tolist()]


def _width(stream: str) -> int:
    return 3 if stream.endswith("3") else 2


class Multiclass(Room):
    """Two to four labels, texts and a number; an array has three."""

    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        labels = [["a", "b", 3], ["a", "b", 3], ["b", 3, "a", "rare"], ["a", "b"]][
            rng.integers(4) if together == 1 else 0
        ]
        return self._scores(rng, labels)

    def _scores(self, rng: np.random.Generator, labels: list[Any]) -> tuple[Any, Any]:
        cuts = [0, *sorted(rng.integers(0, 17, size=len(labels) - 1).tolist()), 16]
        scores = [(end - start) / 16 for start, end in pairwise(cuts)]
        chances = (np.array(scores) + 0.5 / len(labels)) / 1.5
        return list(map(list, zip(labels, scores, strict=True))), labels[rng.choice(len(labels), p=chances)]

    def probes(self, stream: str) -> list[Any]:
        rng, of = np.random.default_rng(6), (["a", "b", 3], ["b", "a"], ["rare", 3, "a", "b"], ["a", "unseen", "b"])
        return [self._scores(rng, of[k % 4])[0] for k in range(10)] + [[["a", 1.0]], [["a", 0.0], ["b", 1.0]]]

    def read(self, x: Any) -> Any:
        return {label: score for label, score in x}

    def learn_many(self, cal: Any, rows: list[Any], timed: bool) -> None:
        labels = [label for label, _ in rows[0][0]]
        P = [[score for _, score in row[0]] for row in rows]
        y, w, t = ([row[place] for row in rows] for place in (1, 2, 3))
        cal.learn_many(P, y, w, t if timed else None, labels=labels)

    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        read = [self.read(x) for x in probes]
        full = [list(scores.values()) for scores in read if list(scores) == ["a", "b", 3]]
        found = {
            "one": [list(cal.predict_one(scores).values()) for scores in read],
            "many": cal.predict_many(full, labels=["a", "b", 3]).tolist(),
        }
        if cal.has_interval:
            found["interval"] = [list(map(list, cal.predict_interval_one(scores).values())) for scores in read]
        if later is not None:
            found["later"] = [list(cal.predict_one(scores, later).values()) for scores in read]
        return found


KINDS = {"normal": Normal, "piecewise": Piecewise, "quantiles": Quantiles, "sample": Sample}


class Regression(Room):
    """Normal forecasts and others; outcomes are wider than they say and to the right, some off the support."""

    #: Where the calibrated distributions are read.
    # Not where outcomes are: at a jump of a distribution the last place of a logarithm would decide.
    places = (-5.03, -2.47, -1.03, 0.03, 0.71, 2.03, 4.53)
    levels = (0.137, 0.613)

    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        mean = float(rng.integers(-8, 9)) / 4
        kind = rng.choice(["normal", "normal", "normal", "sample", "piecewise", "quantiles"])
        forecast = {
            "normal": ["normal", mean, float(rng.integers(1, 4)) / 2],
            "sample": ["sample", [mean - 1.0, mean, mean + 0.25, mean + 2.0]],
            "piecewise": ["piecewise", [mean - 2.0, mean, mean + 1.0], [0.0, 0.5, 1.0]],
            "quantiles": ["quantiles", [0.25, 0.5, 0.75], [mean - 1.0, mean, mean + 0.5]],
        }[kind]
        return forecast, float(rng.integers(-9, 12)) / 4 + mean

    def probes(self, stream: str) -> list[Any]:
        return [
            ["normal", 0.3, 1.0],
            ["normal", -1.5, 0.25],
            ["sample", [-2.0, 0.5, 1.5, 2.5]],
            ["piecewise", [-8.0, -4.0, 0.0, 8.0], [0.0, 0.25, 0.5, 1.0]],
            ["quantiles", [0.25, 0.5], [-1.0, 3.0]],
        ]

    def read(self, x: Any) -> Any:
        return KINDS[x[0]](*x[1:])

    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        forecasts = [self.read(x) for x in probes]
        found = cal.predict_many(forecasts)
        ends = [getattr(one, end) for one in found for end in ("lower", "upper") if hasattr(one, end)]
        said: dict[str, Any] = {
            "many": [one.cdf(np.array(self.places)).tolist() for one in found],
            "one": cal.predict_one(forecasts[0]).cdf(np.array(self.places)).tolist(),
            "interval": [one.cdf(np.array(self.places)).tolist() for one in ends],
            "mean": [one.mean for one in found],
            "crps": [one.crps(0.75) for one in found],
            "ppf": [one.ppf(np.array(self.levels)).tolist() for one in found],
        }
        if later is not None:
            said["later"] = [one.cdf(np.array(self.places)).tolist() for one in cal.predict_many(forecasts, later)]
        return said


CALLS: dict[str, Room] = {
    "binary": Binary(),
    "fusion": Fusion(),
    "multiclass": Multiclass(),
    "regression": Regression(),
}
