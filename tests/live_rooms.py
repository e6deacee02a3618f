"""What `fuzz_states.py` does with what is live: segments, joins of late labels, shadows and monitors.

Their cases have the same parts as the golden ones: how each is built, a stream of operations as plain data, and what it
answers. Times are relative to the clock of a join, so that a damaged clock does not refuse them all.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
from golden.cases import Case
from golden.streams import Room

from streamcal import Auto, Forever, Interval, Isotonic, OnlinePlatt, Platt, TrackingOPS
from streamcal.errors import CapabilityError
from streamcal.live import CalibrationMonitor, CountedJoin, LabelJoin, Multicalibrated, Segmented, Shadow
from streamcal.live.counted_join import OFFSET
from streamcal.live.counted_tokens import Tokens

#: Operations before a state is saved, and after it is read.
FIRST, THEN = 70, 40
#: The largest e-value that is answered, in the place of an infinite one.
RICHEST = 1e300
BY = ["campaign", ("campaign", "device"), "device", "place"]


def keys_of(rng: np.random.Generator) -> dict[str, Any]:
    """Levels that are texts and numbers, and some that are missing."""
    keys: dict[str, Any] = {"campaign": f"c{rng.integers(4)}", "device": int(rng.integers(3)), "place": "top"}
    for name in list(keys):
        if rng.random() < 0.1:
            del keys[name]
    return keys


def score_of(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, 1.0, 0.25, 0.5, round(float(rng.random()), 3)], p=[0.02, 0.02, 0.3, 0.3, 0.36]))


class Live(Room):
    """Operations and probes that are drawn here; none is in a golden file."""

    def stream(self, name: str) -> dict[str, Any]:
        rng = np.random.default_rng([len(name), FIRST])
        operations = [self.operation(rng, k) for k in range(FIRST + THEN)]
        return {"first": operations[:FIRST], "then": operations[FIRST:], "later": 0.0}

    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, stream: str, together: int) -> tuple[Any, Any]:
        raise NotImplementedError

    def probes(self, stream: str) -> list[Any]:
        rng = np.random.default_rng(3)
        return [[score_of(rng), keys_of(rng)] for _ in range(8)] + [[0.5, {}], [0.3, {"campaign": "new", "place": 7}]]


def one_row(call: Any, score: float, keys: Any, y: bool, w: float) -> None:
    call(score, y, w, keys=keys)


class Segments(Live):
    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        verb = str(rng.choice(["learn", "issued", "many", "merge", "unlearn"], p=[0.5, 0.25, 0.1, 0.05, 0.1]))
        rows = [
            [score_of(rng), keys_of(rng), bool(rng.random() < 0.3), float(rng.choice([1.0, 0.5, 3.0]))]
            for _ in range(4)
        ]
        return [verb, *rows]

    def apply(self, cal: Any, operation: list[Any], timed: bool) -> None:
        verb, first, *others = operation
        if verb == "issued":
            score, keys, y, w = first
            issued = cal.issue(score, keys=keys)
            one_row(cal.learn_one, *others[0])
            cal.settle(issued, y, w=w)
        elif verb == "many" or (verb == "merge" and not cal.merges):
            self.learn_rows(cal, [first, *others])
        elif verb == "merge":
            other = cal.clone()
            self.learn_rows(other, [first, *others])
            cal.merge(other)
        elif verb == "learn" or cal.unlearns:
            if verb == "unlearn":
                one_row(cal.learn_one, *first)
            one_row(cal.learn_one if verb == "learn" else cal.unlearn_one, *first)

    def learn_rows(self, cal: Any, rows: list[Any]) -> None:
        scores, keys, y, w = zip(*rows, strict=True)
        columns = {name: [one.get(name) for one in keys] for name in ("campaign", "device", "place")}
        cal.predict_learn_many(scores, y, w, keys=columns)

    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        found = {"one": [cal.predict_one(score, keys=keys) for score, keys in probes]}
        effects = [one for field in cal.by for one in cal.effects(field)]
        pairs = [[one.share, min(one.variance / RICHEST, 1.0)] for one in cal.pair_effects()]
        found["mean"] = [[one.mean, one.sd, one.n] for one in effects]
        found["weights"] = [list(cal.weights(field).values()) for field in cal.by]
        return found | {"pairs": pairs}


class Groups(Segments):
    """Segments that are kept calibrated; labels that are issued come late, and every fourth never."""

    def apply(self, cal: Any, operation: list[Any], timed: bool) -> None:
        verb, first, *others = operation
        if verb != "issued":
            super().apply(cal, operation, timed)
            return
        score, keys, y, w = first
        issued = cal.issue(score, keys=keys, w=w)
        one_row(cal.learn_one, *others[0])
        cal.settle(issued, None if others[1][2] else y)

    def answers(self, cal: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        found = {"one": [cal.predict_one(score, keys=keys) for score, keys in probes]}
        groups = [[one.evidence, one.gap, one.variance, one.z] for one in cal.worst(1000)]
        return found | {"mean": [*groups, [*cal.certificate(), 0.0]]}


class Joins(Live):
    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        verb = str(rng.choice(["issue", "resolve", "advance"], p=[0.6, 0.35, 0.05]))
        if verb == "issue":
            version = "v2" if k >= 50 else None
            return [verb, f"i{k}", score_of(rng), float(rng.random()), keys_of(rng), version, float(rng.choice([1, 2]))]
        if verb == "resolve":
            return [verb, f"i{k - int(rng.integers(-3, 30))}", bool(rng.random() < 0.7), float(rng.random())]
        return [verb, float(rng.integers(8))]

    def apply(self, join: Any, operation: list[Any], timed: bool) -> None:
        verb, *given = operation
        clock = join.clock if math.isfinite(join.clock) else 0.0
        if verb == "advance":
            join.advance(clock + given[0])
        elif verb == "resolve":
            join.resolve(given[0], given[1], clock + given[2])
        else:
            id, score, after, keys, version, w = given
            join.issue(id, score, clock + after, keys=keys, version=version, w=w)

    def answers(self, join: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        found = {"one": [join.predict_one(score, None, keys=keys) for score, keys in probes]}
        found["mean"] = [list(map(float, join.tally().values()))]
        if join.spans.early is not None:
            found["share"] = [join.early_share()[0]]
        return found


class Counts(Live):
    """Joins that count. The token of a click is written for a row there is: operations are plain data."""

    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        verb = str(rng.choice(["issue", "many", "resolve", "advance"], p=[0.4, 0.2, 0.35, 0.05]))
        if verb == "resolve":
            return [verb, *rng.random(3).tolist(), bool(rng.random() < 0.9), float(rng.random())]
        if verb == "advance":
            return [verb, float(rng.integers(8))]
        version, w = "v2" if k >= 50 else None, float(rng.choice([1, 2]))
        rows = [[score_of(rng), keys_of(rng)] for _ in range(1 if verb == "issue" else 5)]
        return [verb, rows, float(rng.random()), version, w]

    def apply(self, join: Any, operation: list[Any], timed: bool) -> None:
        verb, *given = operation
        clock = join.clock if math.isfinite(join.clock) else 0.0
        if verb == "advance":
            join.advance(clock + given[0])
        elif verb == "resolve":
            at, number, row, y, after = given
            buckets = [one for one in join._buckets.values() if one.size]
            if buckets:
                bucket = buckets[int(at * len(buckets))]
                number, row = int(number * bucket.issued), int(row * bucket.size)
                n = bucket.n if bucket.rows is None else bucket.rows.columns()[3]
                if bucket.learned or sum(bucket.clicked[row : row + 1]) < n[row]:  # as of the tokens that were issued
                    join.resolve(join._tokens.signer.write(bucket.serial, number, row, OFFSET), y, clock + after)
        else:
            rows, after, version, w = given
            scores, keys = zip(*rows, strict=True)
            columns = {name: [one.get(name) for one in keys] for name in ("campaign", "device", "place")}
            if verb == "many":
                join.issue_many(scores, clock + after, keys=columns, version=version, w=w)
            else:
                join.issue(scores[0], clock + after, keys=keys[0], version=version, w=w)

    def answers(self, join: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        found = {"one": [join.predict_one(score, keys=keys) for score, keys in probes]}
        found["mean"] = [list(map(float, join.tally().values())), [join.waiting, join.held, join.rows, join.nbytes]]
        found["share"] = [join.filter_error, *([] if join.spans.early is None else [join.early_share()[0]])]
        return found


class Shadows(Live):
    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        verb = str(rng.choice(["learn", "issued", "use"], p=[0.7, 0.25, 0.05]))
        return [verb, score_of(rng), bool(rng.random() < 0.9), float(rng.choice([1.0, 2.0, 0.0])), keys_of(rng)]

    def apply(self, shadow: Any, operation: list[Any], timed: bool) -> None:
        verb, score, y, w, keys = operation
        if verb == "learn":
            shadow.learn_one(score, y, w, keys=keys)
        elif verb == "issued":
            issued = shadow.issue(score, keys=keys, w=w)
            shadow.learn_one(0.5, True, keys=keys)
            shadow.settle(issued, y)
        elif len(shadow.versions) > 1:
            shadow.rollback(shadow.versions[-2].number)
        else:
            with suppress(CapabilityError):  # not shown to be better
                shadow.promote()

    def answers(self, shadow: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        compared = [[one.low, one.high, one.difference or 0.0] for one in shadow.comparisons()]
        finite = np.clip(compared, -RICHEST, RICHEST).tolist()  # NaN stays
        return {"one": [shadow.predict_one(score, keys=keys) for score, keys in probes], "mean": finite}


class Monitors(Live):
    """Of forecasts that are too low."""

    def operation(self, rng: np.random.Generator, k: int) -> list[Any]:
        p = 0.5 * score_of(rng)
        return ["merge" if rng.random() < 0.1 else "learn", p, bool(rng.random() < p + 0.3), keys_of(rng)]

    def apply(self, monitor: Any, operation: list[Any], timed: bool) -> None:
        verb, p, y, keys = operation
        if verb == "merge":
            other = type(monitor)(monitor.alpha, monitor.run_length, max_segments=monitor.max_segments)
            self.apply(other, ["learn", p, y, keys], timed)
            monitor.merge(other)
        else:
            alarm = self.take(monitor, p, y, keys)
            if alarm is not None and not (str(alarm) and 0 < alarm.since <= alarm.n <= monitor.n):
                raise ValueError(f"this is no alarm: {alarm!r}")

    def take(self, monitor: Any, p: float, y: bool, keys: Any) -> Any:
        return monitor.update(y, p, keys)

    def answers(self, monitor: Any, probes: list[Any], later: float | None) -> dict[str, Any]:
        values = [monitor.e_value, *monitor.e_values.values()]
        return {"mean": [min(float(one), RICHEST) for one in values], "found": [len(monitor.discoveries()) * 0.0]}


class MonitorsOfDistributions(Monitors):
    def take(self, monitor: Any, p: float, y: bool, keys: Any) -> Any:
        apart = 0.02 * (monitor.n % 89) / 89  # values that repeat are refused
        return monitor.update_pit(min(max(2.0 * p, 0.01), 0.97) + apart, keys)


def segmented(method: Any, **parameters: Any) -> Segmented:
    return Segmented(method, BY, **parameters)


def counted(method: Any, **parameters: Any) -> CountedJoin:
    join = CountedJoin(method, 10.0, **parameters)
    join._tokens = Tokens.loaded(b"the key of a run", "")  # the same for each run
    return join


def cases(*built: tuple[str, Any]) -> list[Case]:
    return [Case(name, build, None, 0.0) for name, build in built]


LIVE: dict[str, tuple[Live, list[Case]]] = {
    "segmented": (
        Segments(),
        cases(
            ("chain", lambda: segmented(Platt())),
            ("chain of auto", lambda: segmented("auto", max_levels=3)),
            ("pairs", lambda: segmented(Platt(), pairs=True)),
            ("pairs of few levels", lambda: segmented(Isotonic(), pairs=True, max_levels=2)),
        ),
    ),
    "multicalibrated": (
        Groups(),
        cases(
            ("groups", lambda: Multicalibrated("identity", BY)),
            ("pairs of few levels", lambda: Multicalibrated(Platt(), BY, pairs=True, bins=2.0, max_levels=2)),
            ("chain", lambda: Multicalibrated(segmented("auto"), BY, bins=0)),
        ),
    ),
    "join": (
        Joins(),
        cases(
            ("online", lambda: LabelJoin(OnlinePlatt(), 10.0)),
            ("exact", lambda: LabelJoin(Platt(forgetting=Forever()), 10.0, max_held=30, max_unknown=3)),
            ("early", lambda: LabelJoin(OnlinePlatt(), 10.0, early=2.0)),
            ("auto", lambda: LabelJoin("auto", 5.0)),
            ("segments", lambda: LabelJoin(segmented(OnlinePlatt()), 10.0)),
            ("pairs", lambda: LabelJoin(segmented(Platt(), pairs=True), 10.0)),
            ("groups", lambda: LabelJoin(Multicalibrated(segmented(OnlinePlatt()), BY), 10.0, max_held=30)),
            ("shadow", lambda: LabelJoin(Shadow(OnlinePlatt(), {"other": "auto"}), 10.0)),
        ),
    ),
    "counts": (
        Counts(),
        cases(
            ("online", lambda: counted(OnlinePlatt(), bucket=1.0)),
            ("exact", lambda: counted(Platt(forgetting=Forever()), bucket=2.0, max_rows=20, click_bits=64)),
            ("early", lambda: counted(OnlinePlatt(), early=2.0)),
            ("auto", lambda: counted(Auto(), bucket=1.0)),
            ("segments", lambda: counted(segmented(OnlinePlatt()), bucket=1.0)),
        ),
    ),
    "shadow": (
        Shadows(),
        cases(
            ("three", lambda: Shadow("identity", {"platt": Platt(), "ops": TrackingOPS()}, confidence=0.5)),
            ("auto", lambda: Shadow(OnlinePlatt(), {"auto": "auto"}, confidence=0.5)),
            ("levels", lambda: Shadow("auto", {"groups": Multicalibrated(segmented("ops"), BY)}, confidence=0.5)),
            ("scales", lambda: Shadow(Platt(scale=Interval(-1.0, 2.0)), {"log-odds": Platt()}, confidence=0.5)),
        ),
    ),
    "monitor": (
        Monitors(),
        cases(
            ("alpha", lambda: CalibrationMonitor(alpha=0.2)),
            ("run length", lambda: CalibrationMonitor(run_length=5.0, max_segments=4)),
        ),
    ),
    "distributions monitor": (
        MonitorsOfDistributions(),
        cases(
            ("alpha", lambda: CalibrationMonitor(alpha=0.2)),
            ("run length", lambda: CalibrationMonitor(run_length=5.0)),
        ),
    ),
}
